"""A vocabulary whose names come and go, in the service: a replay evicts at the same places, from the rows alone."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aucstream import Pipeline
from aucstream_service.journal.column_events import is_columns
from aucstream_service.models.snapshots import SUFFIX
from tests.service.running import NDJSON, Local, Running, problem

pa = pytest.importorskip("pyarrow")
ARROW = {"Content-Type": "application/vnd.apache.arrow.stream"}
MERGE = {"Content-Type": "application/merge-patch+json"}
CAPACITY = 30
SPEC: dict[str, Any] = {
    "encoder": {"kind": "vocabulary", "capacity": CAPACITY},
    "columns": {"min_count": 2, "eviction": "least-recent"},
}


def bodies(n: int, seed: int, form: str) -> list[dict[str, Any]]:
    """Return learn-one bodies: `words` have ids without end, `numbers` the same names as their neighbours."""
    random = np.random.default_rng(seed)
    rows = []
    for number in range(n):
        y = bool(random.random() < 0.4)
        features: dict[str, Any] = {"a": float(random.normal() + y)}
        if form == "words":
            features |= {
                "user": f"u{number // 2 + 1000 * seed}",
                f"n{int(random.integers(60))}": float(random.normal()),
            }
        else:
            features |= {f"block{seed}_{number // 40}": float(random.normal()), "b": 1.0}
        rows.append({"features": features, "label": y})
    return rows


def lines(rows: list[dict[str, Any]]) -> bytes:
    return "\n".join(json.dumps(row) for row in rows).encode()


def stream(rows: list[dict[str, Any]]) -> bytes:
    table = pa.Table.from_pylist([{**row["features"], "label": row["label"]} for row in rows])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def parts() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield (call, rows) of a stream."""
    yield "one", bodies(60, 0, "words")
    yield "many", bodies(90, 1, "words")
    for number in range(0, 400, 40):  # one form a batch: a matrix in the journal
        yield "arrow", bodies(400, 2, "numbers")[number : number + 40]
    yield "one", bodies(30, 3, "numbers")
    yield "ndjson", bodies(300, 4, "words")
    yield "many", bodies(64, 5, "numbers")


def send(service: Running | Local, name: str) -> None:
    for call, rows in parts():
        if call == "one":
            for row in rows:
                service.learn(name, **row)
        elif call == "many":
            assert service.post(name, "learn-many", rows).status_code == 200
        else:
            body, kind = (lines(rows), NDJSON) if call == "ndjson" else (stream(rows), ARROW)
            answer = service.raw(f"/v1/models/{name}/learn-many", body, kind)
            assert answer.json()["accepted"] == len(rows)


def scores(service: Running | Local, probes: list[dict[str, Any]]) -> list[float]:
    answer = service.raw("/v1/models/m/predict-many", lines(probes), NDJSON)
    return [json.loads(line)["score"] for line in answer.text.splitlines() if "score" in line]


@pytest.mark.parametrize("algorithm", ["psam", "mba", "auto"])
def test_a_killed_service_evicts_at_the_same_places(data_dir: Path, algorithm: str) -> None:
    service = Running(data_dir, snapshot_every_rows=500)
    assert service.create("m", algorithm=algorithm, **SPEC).status_code == 201
    assert service.create("m", algorithm=algorithm, **SPEC).status_code == 200
    assert service.describe("m")["spec"]["columns"] == SPEC["columns"]
    send(service, "m")
    rows = [row for _, part in parts() for row in part]
    probes = [{"features": row["features"]} for row in rows[-80:]]
    before = scores(service, probes)

    local = Pipeline.from_spec({"algorithm": algorithm, **SPEC})
    for row in rows:
        local.learn_one(row["features"], row["label"])
    assert local.usage is not None
    assert local.usage.evictions > 100
    assert before == [local.score_one(probe["features"]) for probe in probes]

    service.kill()
    service = Running(data_dir)
    assert scores(service, probes) == before
    send(service, "m")
    for row in rows:
        local.learn_one(row["features"], row["label"])
    after = scores(service, probes)
    assert len(after) == len(probes)
    assert after == [local.score_one(probe["features"]) for probe in probes]
    service.kill()
    for file in data_dir.rglob(f"*{SUFFIX}"):  # all of it once more, from the events alone
        file.unlink()
    again = Local(data_dir)
    assert again.replayed == 2 * len(rows)
    assert scores(again, probes) == after
    again.stop()


CHANGES: list[dict[str, Any]] = [
    {"eviction": "least-recent"},
    {"capacity": 40, "min_count": 3},
    {"eviction": "none"},
    {"min_count": 1, "eviction": "least-recent"},
]


@pytest.mark.parametrize("algorithm", ["psam", "jointforest"])
def test_a_change_of_columns_is_replayed_at_its_place(data_dir: Path, algorithm: str) -> None:
    service = Running(data_dir, snapshot_every_rows=1_000_000)
    service.create("m", algorithm=algorithm, encoder=SPEC["encoder"])
    local = Pipeline.from_spec({"algorithm": algorithm, "encoder": SPEC["encoder"]})
    rows = [row for _, part in parts() for row in part]
    probes = [{"features": row["features"]} for row in rows[-80:]]
    for number, change in enumerate(CHANGES):
        send(service, "m")
        body: dict[str, Any] = {"columns": {name: value for name, value in change.items() if name != "capacity"}}
        if "capacity" in change:
            body["encoder"] = {"capacity": change["capacity"]}
        answer = service.raw("/v1/models/m", json.dumps(body), MERGE, "PATCH")
        assert answer.status_code == 200, answer.text
        for row in rows:
            local.learn_one(row["features"], row["label"])
        local.change_columns(**change)
        if number == 1:
            service.kill()
            service = Running(data_dir, snapshot_every_rows=1_000_000)
    send(service, "m")
    for row in rows:
        local.learn_one(row["features"], row["label"])
    assert local.usage is not None
    assert local.usage.evictions > 300
    assert local.usage.names_dropped > 0
    expected = [local.score_one(probe["features"]) for probe in probes]
    assert scores(service, probes) == expected
    service.kill()
    again = Local(data_dir)
    assert again.replayed == (len(CHANGES) + 1) * len(rows) + len(CHANGES)
    assert scores(again, probes) == expected
    again.stop()


def test_the_stream_of_these_tests_has_events_of_columns(data_dir: Path) -> None:
    service = Local(data_dir)
    service.create("m", **SPEC)
    send(service, "m")
    service.stop()
    with sqlite3.connect(data_dir / "journal.sqlite3") as journal:
        payloads = [bytes(payload) for (payload,) in journal.execute("select payload from events")]
    assert any(map(is_columns, payloads))
    assert not all(map(is_columns, payloads))


@pytest.mark.parametrize(
    ("spec", "kind", "pointer"),
    [
        ({"columns": {"min_count": 0}}, "invalid-body", "/columns/min_count"),
        ({"columns": {"eviction": "oldest"}}, "invalid-body", "/columns/eviction"),
        ({"columns": {"most": 1}}, "invalid-body", "/columns/most"),
        (
            {"encoder": {"kind": "hashing", "bits": 10}, "columns": {"min_count": 2}},
            "invalid-params",
            "/columns/min_count",
        ),
        ({"encoder": {"kind": "vocabulary", "eviction": "least-recent"}}, "invalid-params", "/encoder/eviction"),
    ],
)
def test_what_columns_cannot_be_is_refused(service: Running, spec: dict[str, Any], kind: str, pointer: str) -> None:
    document = problem(service.create("refused", **spec), 422, kind)
    assert document["errors"][0]["pointer"] == pointer
