"""What a prediction with an id does where as many wait as may: refused, scored only, or in the place of the oldest."""

from __future__ import annotations

import io
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from aucstream.client import Client, Example
from aucstream_service.models.spec import read_stored, stored_spec
from tests.service.calls.test_pending import Clock
from tests.service.models.test_restart import picture
from tests.service.running import NDJSON, Calls, Direct, Local, Running, problem
from tests.service.stream import lines, rows

pa = pytest.importorskip("pyarrow")

FEATURES = {"a": 1.0, "word": "w1"}


def full(service: Calls, **pending: Any) -> None:
    """Make a model in which two wait, p0 and p1, and no more may."""
    assert service.create("m", pending={"capacity": 2, "ttl_seconds": 100, **pending}).status_code == 201
    service.post("m", "learn-many", rows(30))
    for number in range(2):
        assert "kept" not in predicted(service, f"p{number}")


def predicted(service: Calls, id_: str, features: Any = FEATURES) -> dict[str, Any]:
    answer = service.post("m", "predict-one", {"features": features, "id": id_})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def arrow_answer(service: Calls, columns: dict[str, Any], query: str = "") -> Any:
    table, sink = pa.table(columns), io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    kind = {"Content-Type": "application/vnd.apache.arrow.stream"}
    answer = service.raw(f"/v1/models/m/predict-many{query}", sink.getvalue(), kind)
    assert answer.status_code == 200, answer.text
    return pa.ipc.open_stream(answer.content).read_all()


def labelled(service: Calls, id_: str) -> int:
    return service.post("m", "label-one", {"id": id_, "label": True}).status_code


def sample(service: Calls, line: str) -> bool:
    return line in service.http.get("/metrics").text.splitlines()


def test_a_new_model_scores_and_says_that_it_did_not_keep(data_dir: Path) -> None:
    service = Direct(data_dir)
    full(service)
    assert service.describe("m")["spec"]["pending"]["when_full"] == "score-only"
    score = service.score("m", FEATURES)
    before = service.describe("m")
    for _ in range(2):
        answer = predicted(service, "p2")
        assert (answer["score"], answer["kept"]) == (score, False)
    explained = service.post("m", "predict-one", {"features": FEATURES, "id": "p2", "explain": True}).json()
    assert sum(explained["contributions"].values()) == pytest.approx(score)
    assert "kept" not in predicted(service, "p0")  # what waits already has its first answer
    assert service.describe("m") == before
    assert labelled(service, "p2") == 404
    bodies = [{"features": FEATURES, "id": id_} for id_ in ("p3", "p0", "p4")] + [{"features": FEATURES}]
    kept = [False, True, False, True]
    array = service.post("m", "predict-many", bodies).json()["predictions"]
    assert [entry.get("kept", True) for entry in array] == kept
    answers = service.raw("/v1/models/m/predict-many", lines(bodies), NDJSON).text.splitlines()
    assert [json.loads(line).get("kept", True) for line in answers] == kept
    assert sample(service, 'aucstream_model_rows_total{model="m",outcome="not_kept"} 7.0')
    arrow = arrow_answer(service, {"a": [1.0, 1.0, 1.0, 1.0], "id": ["p3", "p0", "p4", None], "word": ["w1"] * 4})
    assert arrow.column_names == ["score", "probability", "kept"]
    assert arrow["kept"].to_pylist() == kept
    assert arrow["score"].to_pylist() == [entry["score"] for entry in array]
    skipped = arrow_answer(service, {"a": [1.0, 1.0], "id": ["p 3", "p3"], "word": ["w1"] * 2}, "?on_error=skip")
    assert skipped["kept"].to_pylist() == [None, False]
    for nothing in ({"a": [1.0], "word": ["w1"]}, {"a": [], "word": []}):
        assert arrow_answer(service, nothing).column_names == ["score", "probability"]
    assert arrow_answer(service, {"a": [], "id": []}).column_names == ["score", "probability", "kept"]
    assert sample(service, 'aucstream_model_pending_capacity{model="m"} 2.0')
    assert labelled(service, "p0") == 200
    assert "kept" not in predicted(service, "p2")  # there is room again
    assert labelled(service, "p2") == 200
    service.stop()


def test_an_early_label_is_not_held_where_predictions_are_only_scored(data_dir: Path) -> None:
    service = Direct(data_dir)
    full(service, hold_early_seconds=50)
    problem(service.post("m", "label-one", {"id": "early", "label": True}), 429, "pending-full")
    service.stop()


@pytest.mark.parametrize("on_expiry", ["discard", "negative"])
def test_the_oldest_goes_without_being_learned(data_dir: Path, on_expiry: str) -> None:
    clock = Clock()
    service = Direct(data_dir, clock=clock)
    full(service, when_full="drop-oldest", on_expiry=on_expiry)
    examples = service.describe("m")["examples"]
    clock.now += 1
    assert "kept" not in predicted(service, "p2")
    found = service.describe("m")
    assert (found["pending"], found["examples"], found["seq"]) == (2, examples, 31)
    problem(service.post("m", "label-one", {"id": "p0", "label": True}), 410, "expired")
    answer = service.post("m", "predict-many", [{"features": FEATURES, "id": f"q{n}"} for n in range(5)]).json()
    assert [entry.get("kept", True) for entry in answer["predictions"]] == [True, True, False, False, False]
    assert service.describe("m")["pending"] == 2
    assert [labelled(service, id_) for id_ in ("p1", "p2", "q0", "q1", "q2")] == [410, 410, 200, 200, 404]
    assert sample(service, 'aucstream_model_rows_total{model="m",outcome="dropped"} 3.0')
    assert sample(service, 'aucstream_model_rows_total{model="m",outcome="expired_discard"} 0.0')
    before = picture(service)
    copy = data_dir.with_name("copy")
    copy.mkdir()
    (copy / "journal.sqlite3").write_bytes((data_dir / "journal.sqlite3").read_bytes())
    log = data_dir / "journal.sqlite3-wal"
    (copy / "journal.sqlite3-wal").write_bytes(log.read_bytes())  # as after a kill: all of it is replayed
    service.stop()
    again = Direct(copy, clock=clock)
    assert again.host.replayed == found["seq"] + 4
    assert picture(again) == before
    assert [labelled(again, id_) for id_ in ("p0", "p1", "q0")] == [410, 410, 200]
    again.stop()


def test_an_early_label_takes_the_place_of_the_oldest(data_dir: Path) -> None:
    clock = Clock()
    service = Direct(data_dir, clock=clock)
    full(service, when_full="drop-oldest", hold_early_seconds=500)
    bodies = [{"id": "e0", "label": True}, {"id": "p1", "label": False}, {"id": "e1", "label": True}]
    answer = service.post("m", "label-many", bodies).json()
    assert (answer["accepted"], answer["rejected"]) == (3, 0)
    found = service.describe("m")
    assert (found["pending"], found["examples"]) == (2, 31)
    assert labelled(service, "p0") == 410
    assert predicted(service, "e0")["seq"] == found["seq"]
    assert service.describe("m")["examples"] == 32  # joined with its label
    service.stop()


def test_killed_it_knows_what_went_for_what(data_dir: Path) -> None:
    service = Running(data_dir)
    full(service, when_full="drop-oldest")
    for number in range(2, 9):
        predicted(service, f"p{number}")
    assert labelled(service, "p8") == 200
    before = picture(service)
    service.kill()
    again = Local(data_dir)
    assert picture(again) == before
    assert [labelled(again, f"p{number}") for number in (0, 6, 7)] == [410, 410, 200]
    again.stop()


def test_the_client_says_it(data_dir: Path) -> None:
    service = Local(data_dir)
    full(service)
    with Client(str(service.http.base_url)) as client:
        assert client.predict_one("m", FEATURES, id="p0").kept
        assert not client.predict_one("m", FEATURES, id="p2").kept
        assert client.predict_one("m", FEATURES).kept
        kept = [entry.kept for entry in client.predict_many("m", [Example(FEATURES, id="p3"), Example(FEATURES)])]
        assert kept == [False, True]
    service.stop()


def test_a_model_that_an_older_version_stored_goes_on_refusing(data_dir: Path) -> None:
    service = Direct(data_dir)
    full(service, when_full="refuse")
    service.stop()
    with sqlite3.connect(data_dir / "journal.sqlite3") as db:
        text = json.loads(db.execute("SELECT spec FROM models").fetchone()[0])
    spec = read_stored(json.dumps(text)).spec
    assert read_stored(stored_spec(spec.canonical())).sent == {spec.canonical()}
    del text["pending"]["when_full"]
    stored = read_stored(json.dumps(text))
    assert stored.spec.pending.when_full == "refuse"
    assert spec.canonical() in stored.sent
    assert len(stored.sent) == 2  # and what a client of today sends that does not name it
