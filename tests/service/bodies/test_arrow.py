"""Arrow streams say what NDJSON says: the same models, answers and refusals, and the same replay."""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aucstream.errors import AucstreamError
from aucstream_service.bodies.arrow import Batches, Limits
from aucstream_service.bodies.bodies import Call, RowLimits
from aucstream_service.journal.column_events import is_columns
from aucstream_service.journal.row_batch import RowBatch
from tests.service.running import NDJSON, Direct, problem
from tests.service.stream import lines

pa = pytest.importorskip("pyarrow")
ARROW = {"Content-Type": "application/vnd.apache.arrow.stream"}
FEATURES = [f"f{j}" for j in range(5)]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Direct]:
    direct = Direct(
        tmp_path_factory.mktemp("arrow") / "data",
        max_body_bytes=1 << 20,
        max_line_bytes=20_000,
        max_rows=3_000,
        max_features=50,
        max_name_length=100,
    )
    yield direct
    direct.stop()


@pytest.fixture
def pair(served: Direct) -> Iterator[tuple[str, str]]:
    """Two fresh models: one learns Arrow, the other the same as NDJSON."""
    for name in ("arrow", "lines"):
        assert served.create(name).status_code == 201
    yield "arrow", "lines"
    for name in ("arrow", "lines"):
        served.http.delete(f"/v1/models/{name}")


def table(rows: int = 500, seed: int = 0, **more: Any) -> Any:
    random = np.random.default_rng(seed)
    values = random.normal(size=(rows, len(FEATURES)))
    label = values[:, 0] + random.normal(size=rows) > 0.8
    return pa.table({**dict(zip(FEATURES, values.T, strict=True)), "label": label, **more})


def stream(rows: Any, most: int = 200, compression: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(rows, max_chunksize=most)
    return bytes(sink.getvalue())


def bodies(rows: Any) -> list[dict[str, Any]]:
    """Return the rows as JSON says them."""
    made = []
    for row in rows.to_pylist():
        own = {name: row.pop(name) for name in ("label", "weight", "id") if name in row}
        own = {name: value for name, value in own.items() if value is not None or name == "label"}
        row = {name: value for name, value in row.items() if value is not None and value == value}
        made.append({"features": row.get("features", row), **own})
    return made


def send(
    served: Direct, name: str, call: str, body: bytes, kind: dict[str, str] = ARROW, **query: str
) -> httpx.Response:
    more = "?on_error=skip" if query.get("on_error") == "skip" else ""
    return served.raw(f"/v1/models/{name}/{call}{more}", body, kind)


def both(served: Direct, pair: tuple[str, str], rows: Any, call: str = "learn-many", **query: str) -> Any:
    """Send rows both ways, check that the answers are equal, and return them."""
    answers = []
    for name, body, kind in zip(pair, (stream(rows), lines(bodies(rows))), (ARROW, NDJSON), strict=True):
        answer = send(served, name, call, body, kind, **query)
        found = answer.json()
        found.pop("request_id", None)
        answers.append((answer.status_code, found))
    assert answers[0] == answers[1]
    return answers[0]


def equal(served: Direct, pair: tuple[str, str]) -> bool:
    probe = dict.fromkeys(FEATURES, 0.5)
    found = [(served.evaluation(name), served.score(name, probe), served.describe(name)["seq"]) for name in pair]
    return found[0] == found[1]


MIXED = {
    "words": pa.array([["x", "y", None][row % 3] for row in range(60)]),
    "coded": pa.array([["u", "v"][row % 2] for row in range(60)]).dictionary_encode(),
    "seen": pa.array([[None, "p"][row % 2] for row in range(60)], pa.string_view()),
    "lists": pa.array([["s", "t"][: row % 3] for row in range(60)]),
    "flag": pa.array([row % 4 == 0 for row in range(60)]),
    "whole": pa.array([None if row % 5 == 0 else row for row in range(60)], pa.int32()),
    "half": pa.array(np.arange(60, dtype=np.float16)),
    "gone": pa.array([float("nan") if row % 2 else 1.5 for row in range(60)]),
    "nothing": pa.nulls(60),
}
NUMBERED = table(
    300,
    weight=pa.array(np.tile([1, 2], 150)),
    id=[None if row % 9 == 0 else f"e-{row}" for row in range(300)],
    n=pa.array(np.arange(300), pa.uint16()),
    g=pa.array(np.arange(300), pa.float32()),
)
SHAPES = {
    "numbers": table(600),
    "weights, ids and other numbers": pa.concat_tables([NUMBERED, NUMBERED.slice(0, 100)]),
    "mixed": table(60, **MIXED),
    "a struct": pa.table({"features": table(90).drop_columns("label").to_struct_array(), "label": table(90)["label"]}),
    "arrays": pa.table(
        {
            "features": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(120.0)), 3),
            "label": pa.array(np.tile([1, -1], 20), pa.int8()),
        }
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_arrow_is_ndjson_to_the_last_bit(served: Direct, pair: tuple[str, str], shape: str) -> None:
    rows = SHAPES[shape]
    status, found = both(served, pair, rows)
    assert (status, found["rejected"], found["errors"]) == (200, 0, [])
    assert found["accepted"] + found["duplicates"] == len(rows)
    assert found["duplicates"] == (88 if "ids" in shape else 0)
    if shape != "arrays":
        assert equal(served, pair)
    probes = rows.drop_columns(["label", *({"weight", "id"} & {*rows.column_names})])
    told = send(served, "lines", "predict-many", lines(bodies(probes)), NDJSON)
    expected = [json.loads(line) for line in told.text.splitlines()]
    answer = send(served, "arrow", "predict-many", stream(probes))
    assert answer.headers["content-type"] == ARROW["Content-Type"]
    assert pa.ipc.open_stream(answer.content).read_all().to_pylist() == expected
    document = send(served, "arrow", "predict-many", stream(probes), {**ARROW, "Accept": "application/json"}).json()
    assert document == {"predictions": expected, "seq": found["seq"]}


def broken(**columns: Any) -> Any:
    rows = table(300)
    for name, change in columns.items():
        values = rows[name].to_pylist() if name in rows.column_names else [change["else"]] * 300
        for at, value in change.items():
            if at != "else":
                values[at] = value
        values = pa.array([int(value) for value in values] if 7 in change.values() else values)
        at = rows.schema.get_field_index(name)
        rows = rows.append_column(name, values) if at < 0 else rows.set_column(at, name, values)
    return rows


BAD = {
    "infinity": (broken(f2={250: float("inf")}), "/features/f2"),
    "label": (broken(label={250: 7}), "/label"),
    "no label": (broken(label={250: None}), "/label"),
    "weight": (broken(weight={"else": 1.0, 250: -1.0}), "/weight"),
    "id": (broken(id={"else": None, 250: "a b"}), "/id"),
    "word": (broken(w={"else": "x", 250: "x" * 101}), "/features/w"),
    "one-hot": (broken(w={"else": "x", 250: "y"}, **{"w=y": {"else": 1.0}}), "/features/w"),
    "long": (broken(w={"else": "x", 250: "x" * 20_001}), ""),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_row_is_refused_as_in_ndjson(served: Direct, pair: tuple[str, str], what: str) -> None:
    rows, pointer = BAD[what]
    for how in ("abort", "skip"):
        status, found = both(served, pair, rows, on_error=how)
        assert status == {"abort": 413 if what == "long" else 422, "skip": 200}[how]
        assert (found["accepted"], found["rejected"]) == ((250, 1) if how == "abort" else (299, 1))
        assert [(error["line"], error["pointer"]) for error in found["errors"]] == [(251, pointer)]
    assert equal(served, pair)


def test_bad_rows_to_predict(served: Direct, pair: tuple[str, str]) -> None:
    rows = BAD["infinity"][0].drop_columns("label")
    document = problem(send(served, "arrow", "predict-many", stream(rows)), 422, "invalid-body")
    assert [(error["line"], error["pointer"]) for error in document["errors"]] == [(251, "/features/f2")]
    answer = send(served, "arrow", "predict-many", stream(rows), on_error="skip")
    found = pa.ipc.open_stream(answer.content).read_all()
    assert [column.null_count for column in found.columns] == [1, 1]
    assert found["score"][250].as_py() is None
    labelled = problem(send(served, "arrow", "predict-many", stream(table(3))), 422, "invalid-body")
    assert labelled["errors"][0]["pointer"] == "/label"


def test_arrays_and_names_do_not_mix(served: Direct, pair: tuple[str, str]) -> None:
    assert both(served, pair, SHAPES["arrays"])[0] == 200
    status, found = both(served, pair, table(30))
    assert (status, found["errors"][0]["line"]) == (422, 1)


def test_too_many_features_and_names_too_long_are_refused_by_row(served: Direct, pair: tuple[str, str]) -> None:
    wide = pa.table({**{f"g{j}": [1.0, 2.0] for j in range(51)}, "label": [True, False]})
    assert both(served, pair, wide)[1]["type"].endswith("invalid-features")
    assert both(served, pair, pa.table({"n" * 101: [1.0], "label": [True]}))[0] == 422


def test_labels_that_come_later(served: Direct, pair: tuple[str, str]) -> None:
    rows = table(40, id=[f"p-{row}" for row in range(40)])
    answer = send(served, "arrow", "predict-many", stream(rows.drop_columns("label")))
    assert pa.ipc.open_stream(answer.content).read_all().num_rows == 40
    assert served.describe("arrow")["pending"] == 40
    labels = rows.select(["id", "label"]).slice(0, 30)
    assert send(served, "arrow", "label-many", stream(labels)).json()["accepted"] == 30
    assert send(served, "arrow", "label-many", stream(labels)).json()["duplicates"] == 30
    unknown = pa.table({"label": [1, 0], "id": ["never", "p-30"]})
    found = send(served, "arrow", "label-many", stream(unknown), on_error="skip").json()
    assert (found["accepted"], [error["line"] for error in found["errors"]]) == (1, [1])
    more = pa.table({"id": ["p-31"], "label": [1], "features": [1.0]})
    refused = problem(send(served, "arrow", "label-many", stream(more)), 422, "invalid-body")
    assert refused["errors"][0]["pointer"] == "/features"
    # The rest is joined with rows that were never predicted: one event of both, as lines.
    rest = pa.concat_tables([rows.slice(31), table(200, seed=3, id=[f"q-{row}" for row in range(200)])])
    assert send(served, "arrow", "learn-many", stream(rest, most=1_000)).json()["accepted"] == 209
    assert served.describe("arrow")["pending"] == 0


def test_what_was_learned_is_replayed_and_can_be_removed(data_dir: Path) -> None:
    served = Direct(data_dir, snapshot_every_rows=10**9)
    for name in ("arrow", "lines"):
        served.create(name)
    rows = table(500, weight=np.tile([1.0, 0.5], 250), id=[f"e{row}" for row in range(500)])
    pair = "arrow", "lines"
    for part in (rows.slice(0, 300), rows.slice(100, 400), table(300, seed=2)):
        both(served, pair, part)
    journal = served.host.journal
    number = served.host.models["arrow"].number
    kinds = [is_columns(event.payload) for event in journal.events(number, 0)]
    assert kinds == [True] * len(kinds)
    before = [(served.evaluation(name), served.score(name, {"f1": 2.0})) for name in pair]
    served.host.draining = served.host.hurried = True  # no snapshot: all is to be replayed
    served.stop()
    served = Direct(data_dir, snapshot_every_rows=10**9)
    assert served.host.replayed == 1_600
    assert [(served.evaluation(name), served.score(name, {"f1": 2.0})) for name in pair] == before
    answer = served.http.delete("/v1/models/arrow/events?id=e7")
    assert answer.json()["removed"] == 1
    assert b"e7\n" not in b"\n".join(event.payload for event in served.host.journal.events(number, 0))
    events = [event.payload for event in served.host.journal.events(number, 0)]
    removed = rows.slice(7, 1)
    assert struct.pack("<d", removed["f0"][0].as_py()) not in events[0]
    served.stop()
    served = Direct(data_dir, snapshot_every_rows=10**9)
    assert (served.evaluation("arrow"), served.score("arrow", {"f1": 2.0})) == before[0]
    served.stop()


# ---- streams that are none -----------------------------------------------------------------------


def test_what_is_over_a_limit_is_refused_before_room_is_made_for_it(served: Direct, pair: tuple[str, str]) -> None:
    zeros = pa.table(
        {"f0": np.zeros(2_900), "label": np.zeros(2_900, bool), **{f"z{j}": np.zeros(2_900) for j in range(60)}}
    )
    for rows, most, how in (
        (table(3_001), 3_001, None),
        (zeros, 2_900, "zstd"),
        (zeros, 2_900, "lz4"),
        (pa.table({"n": pa.nulls(10**9), "label": pa.nulls(10**9)}), 10**9, None),
        (pa.table({"w": pa.array(["x" * 1_100_000]).dictionary_encode(), "label": [True]}), 1, "zstd"),
        (pa.table({"w": pa.array(["x" * 1_100_000]), "label": [True]}), 1, None),
    ):
        problem(send(served, "arrow", "learn-many", stream(rows, most, how)), 413, "body-too-large")
    assert served.describe("arrow")["seq"] == 0
    assert send(served, "arrow", "learn-many", stream(table(900), 300, "zstd")).json()["accepted"] == 900
    assert send(served, "arrow", "learn-many", stream(table(900), 300, "lz4")).json()["accepted"] == 900


@pytest.mark.parametrize(
    ("rows", "pointer"),
    [
        (pa.table({"t": pa.array([0], pa.timestamp("s")), "label": [True]}), "/features/t"),
        (pa.table({"features": pa.array([{"t": b"x"}]), "label": [True]}), "/features/t"),
        (pa.table({"f": pa.array([[1.0]]), "label": [True]}), "/features/f"),
        (pa.table({"f": [1.0], "label": pa.array([{"x": 1}])}), "/label"),
        (pa.table([pa.array([1.0]), pa.array([2.0])], names=["f", "f"]), ""),
    ],
)
def test_columns_of_other_kinds_are_refused(served: Direct, pair: tuple[str, str], rows: Any, pointer: str) -> None:
    document = problem(send(served, "arrow", "learn-many", stream(rows)), 422, "invalid-body")
    assert [error["pointer"] for error in document["errors"]] == [pointer]


def rows_in(body: bytes, step: int) -> list[int]:
    """Read a stream that comes in parts of so many bytes; return the numbers of its rows."""
    found: list[int] = []

    async def read() -> None:
        batches = Batches(pa, Limits(1 << 20, 3_000, 20_000), RowLimits(50, 100), Call.LEARN)
        for at in range(0, len(body), step):
            async for batch in batches.feed(body[at : at + step]):
                for part in batch.parts():
                    found.extend([place for place, _ in (part.as_lines() if isinstance(part, RowBatch) else part)])
        batches.end()

    asyncio.run(read())
    return found


def test_a_cut_stream_keeps_what_came_before(served: Direct, pair: tuple[str, str]) -> None:
    whole = stream(table(500), 100)
    document = problem(send(served, "arrow", "learn-many", whole[: len(whole) // 2]), 422, "malformed-arrow")
    assert document["accepted"] in (100, 200)
    assert served.describe("arrow")["seq"] == document["accepted"]
    plain = stream(table(500).drop_columns("label"), 100)
    for body in (b"", b"{}", plain + b"x", plain[:200], plain[:-700], lines(bodies(table(3)))):
        problem(send(served, "arrow", "predict-many", body), 422, "malformed-arrow")
    assert rows_in(whole, 7) == rows_in(whole, 1_000) == list(range(1, 501))


def test_without_pyarrow_it_says_what_to_install(
    served: Direct, pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for call in ("learn-many", "predict-many", "label-many"):
        document = problem(send(served, "arrow", call, b""), 415, "unsupported-media-type")
        assert 'pip install "aucstream[arrow]"' in document["detail"]


WHOLE = [
    stream(SHAPES[name].slice(0, 50), 20, how)
    for name in ("mixed", "a struct", "numbers")
    for how in (None, "lz4", "zstd")
]


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_damage_is_an_error_and_nothing_else(data: st.DataObject) -> None:
    body = bytearray(WHOLE[data.draw(st.integers(0, len(WHOLE) - 1))])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(body) - 1) | st.integers(0, min(900, len(body) - 1)))
        body[at] ^= 1 << data.draw(st.integers(0, 7))
    body = body[: data.draw(st.integers(0, len(body)) | st.just(len(body)))]

    with contextlib.suppress(AucstreamError):
        rows_in(bytes(body), len(body) + 1)
