"""What is said of columns, in the service: in the spec of a model, changed while it serves, and in a replay."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from aucstream import Pipeline, from_bytes
from tests.service.models.test_changes import bits, patch, patched, seen_of, straight
from tests.service.models.test_restart import picture
from tests.service.running import NDJSON, Direct, Running, problem

COLUMNS: dict[str, Any] = {
    "ignore": ["id"],
    "category": ["zip"],
    "number": ["price"],
    "time": [{"name": "when", "parts": ["hour"]}],
    "decimal": ",",
}


def bodies(n: int, seed: int = 0) -> list[dict[str, Any]]:
    random = np.random.default_rng(seed)
    rows = []
    for number in range(n):
        y = bool(random.random() < 0.4)
        features = {
            "id": number,
            "zip": int(random.integers(4)) + y,
            "price": f"{random.normal() + y:.3f}".replace(".", ","),
            "when": f"2024-03-{1 + number % 30:02}T0{number % 10}:00",
            "leak": float(y) + float(random.normal()),
        }
        rows.append({"features": features, "label": y})
    return rows


def ndjson(rows: list[dict[str, Any]]) -> bytes:
    return "\n".join(json.dumps(row) for row in rows).encode()


def test_a_model_reads_rows_as_its_spec_says(data_dir: Path) -> None:
    service = Direct(data_dir)
    described = service.create("m", algorithm="psam", columns=COLUMNS).json()
    assert described["spec"]["columns"]["time"] == COLUMNS["time"]
    plain = Pipeline.from_spec({"algorithm": "psam", "columns": COLUMNS})
    rows = bodies(80)
    for row in rows[:20]:
        service.post("m", "learn-one", row)
    service.post("m", "learn-many", rows[20:])
    for row in rows:
        plain.learn_one(row["features"], row["label"])
    probe = bodies(1, seed=5)[0]["features"]
    answer = service.post("m", "predict-one", {"features": probe, "explain": True}).json()
    assert answer["score"] == plain.score_one(probe)
    assert set(answer["contributions"]) <= {f"zip={probe['zip']}", "price", "when", "when.hour=0", "leak"}
    many = service.post("m", "predict-many", [{"features": probe}] * 3).json()
    assert [each["score"] for each in many["predictions"]] == [answer["score"]] * 3
    wrong = service.raw("/v1/models/m/learn-one", json.dumps({"features": {"price": "x"}, "label": True}))
    document = problem(wrong, 422, "invalid-features")
    assert document["errors"][0]["pointer"] == "/features/price"
    assert "a number (decimal ',') in a column of numbers" in document["errors"][0]["message"]
    snapshot = service.http.get("/v1/models/m/snapshot").content
    assert from_bytes(snapshot).score_one(probe) == answer["score"]  # type: ignore[union-attr]
    service.stop()


@pytest.mark.parametrize(
    ("columns", "word"),
    [
        ({"ignore": "id"}, "ignore"),
        ({"ignored": ["id"]}, "ignored"),
        ({"ignore": ["a"], "number": ["a"]}, "ignore"),
        ({"category": ["a["]}, "category"),
        ({"decimal": ",", "thousands": ","}, "thousands"),
        ({"decimal": ";"}, "decimal"),
        ({"time": [{"name": "a", "parts": ["year"]}]}, "parts"),
    ],
)
def test_columns_that_cannot_be_are_refused_by_name(data_dir: Path, columns: dict[str, Any], word: str) -> None:
    service = Direct(data_dir)
    answer = service.raw("/v1/models/m", json.dumps({"columns": columns}), method="PUT")
    document = problem(answer, 422, "invalid-body")
    assert document["errors"][0]["pointer"].startswith("/columns")
    assert word in json.dumps(document["errors"])
    service.stop()


def test_what_is_left_out_changes_and_the_rest_does_not(data_dir: Path) -> None:
    service = Direct(data_dir)
    service.create("m", algorithm="psam", columns=COLUMNS)
    rows = bodies(60)
    service.post("m", "learn-many", rows[:30])
    described = patched(service, "m", {"columns": {"ignore": ["id", "leak"]}})
    assert described["spec"]["columns"]["ignore"] == ["id", "leak"]
    service.post("m", "learn-many", rows[30:])
    plain = Pipeline.from_spec({"algorithm": "psam", "columns": COLUMNS})
    for number, row in enumerate(rows):
        features = {name: value for name, value in row["features"].items() if number < 30 or name != "leak"}
        plain.learn_one(features, row["label"])
    probe = rows[3]["features"]
    expected = plain.score_one({name: value for name, value in probe.items() if name != "leak"})
    assert service.post("m", "predict-one", {"features": probe}).json()["score"] == expected
    for changes, pointer in [
        ({"number": []}, "/columns/number"),
        ({"category": ["zip", "x"]}, "/columns/category"),
        ({"time": None}, "/columns/time"),
        ({"decimal": "."}, "/columns/decimal"),
        ({"thousands": "."}, "/columns/thousands"),
    ]:
        document = problem(patch(service, "m", {"columns": changes}), 409, "fixed-setting")
        assert document["errors"][0]["pointer"] == pointer
    assert problem(patch(service, "m", {"columns": {"ignore": ["zip"]}}), 422, "invalid-body")
    before = picture(service, "m")
    service.stop()
    again = Direct(data_dir)
    assert picture(again, "m") == before
    assert again.post("m", "predict-one", {"features": probe}).json()["score"] == expected
    assert bits(again.host.models["m"]) == bits(straight(data_dir))
    again.stop()


@pytest.mark.parametrize("algorithm", ["ftrl", "auto"])
def test_changes_between_rows_of_many_connections_are_replayed_at_their_places(data_dir: Path, algorithm: str) -> None:
    service = Running(data_dir, snapshot_every_rows=300, snapshot_keep=50)
    service.create("m", algorithm=algorithm, columns={"number": ["pri*"], "decimal": ",", "ignore": ["price2"]})
    rows = bodies(800)
    for number, row in enumerate(rows):  # cannot be learned where it is not left out
        row["features"]["price2"] = "no number" if number % 5 == 0 else "1,5"

    def learn(part: int) -> None:
        with httpx.Client(base_url=service.url, timeout=60) as http:
            for start in range(part, 800, 80):
                http.post(
                    "/v1/models/m/learn-many?on_error=skip", content=ndjson(rows[start : start + 20]), headers=NDJSON
                )

    threads = [threading.Thread(target=learn, args=(20 * part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for step in range(10):
        ignored = ["leak"] if step % 2 else ["price2", "id"]
        assert patch(service, "m", {"columns": {"ignore": ignored}}).status_code == 200
    for thread in threads:
        thread.join()
    before = seen_of(service)
    before["description"]["remarks"] = []  # they count what was refused since the start
    service.kill()
    again = Direct(data_dir, snapshot_keep=50)
    assert seen_of(again) == before
    assert bits(again.host.models["m"]) == bits(straight(data_dir))
    again.stop()
