"""Models of the algorithm `auto` in the service: their members, and their specs."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families as prometheus

from aucstream import PSAM, Auto
from aucstream.native.guard import COMPILED
from aucstream_service.calls.event_stream import EventStream, Streams
from aucstream_service.journal.commands import ModelRecord
from aucstream_service.models.model import Model
from aucstream_service.models.spec import read_stored
from tests.service.running import Direct, problem
from tests.service.stream import rows


@pytest.fixture(scope="module")
def direct(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Direct]:
    service = Direct(tmp_path_factory.mktemp("auto") / "data")
    yield service
    service.stop()


def learned(service: Direct, name: str, bodies: list[dict[str, object]]) -> None:
    answer = service.post(name, "learn-many", bodies)
    assert answer.status_code == 200, answer.text


def test_members_are_those_of_the_library_in_evaluation_and_in_metrics(direct: Direct) -> None:
    assert direct.create("many", algorithm="auto").status_code == 201
    before = direct.evaluation("many")["members"]
    assert [member["name"] for member in before] == [member["name"] for member in Auto().members]
    bodies = rows(500)
    learned(direct, "many", bodies)
    alone = Auto()
    alone.engine.learn_rows(
        [body["features"] for body in bodies], np.array([1.0 if b["label"] else -1.0 for b in bodies])
    )
    members = direct.evaluation("many")["members"]
    assert members == alone.members
    assert len(members) > 5
    samples = {
        (sample.name, *(sample.labels.get(label) for label in ("model", "member", "mixture"))): sample.value
        for family in prometheus(direct.http.get("/metrics").text)
        for sample in family.samples
        if "member" in sample.labels
    }
    found = {}
    for member in members:
        name = member["name"]
        for mixture in ("local", "global"):
            found["aucstream_model_member_weight", "many", name, mixture] = member[f"{mixture}_weight"]
        found["aucstream_model_member_auc", "many", name, None] = member["auc"]
        found["aucstream_model_member_resting", "many", name, None] = float(member["resting_since"] is not None)
    assert samples == found
    direct.http.delete("/v1/models/many")
    assert "member=" not in direct.http.get("/metrics").text


def test_members_that_rest_and_learn_again_are_told_once(direct: Direct) -> None:
    direct.create("resting", algorithm="auto", params={"cost": 100.0})
    model = direct.host.models["resting"]
    learned(direct, "resting", rows(300))
    stream = EventStream(Streams(direct.host), model, None, lambda: True)
    assert stream._changes() == []
    learner = model.pipeline.learner
    assert isinstance(learner, Auto)
    learner.cost = 2.0  # from the next checkpoint on
    learned(direct, "resting", rows(100, seed=1))
    resting = [member["name"] for member in direct.evaluation("resting")["members"] if member["resting_since"]]
    assert 1 <= len(resting) < len(learner.members)
    told = stream._changes()
    assert told == [{"name": "resting", "seq": 400, "member": name, "resting": True} for name in resting]
    assert stream._changes() == []
    assert EventStream(Streams(direct.host), model, None, lambda: True)._changes() == []
    learner.cost = None  # calls them back at the next checkpoint
    learned(direct, "resting", rows(900, seed=2, positives=0.4))
    awake = {change["member"]: change["resting"] for change in stream._changes()}
    assert awake == dict.fromkeys(resting, False)
    direct.http.delete("/v1/models/resting")


def test_where_no_algorithm_is_named_it_is_auto(direct: Direct) -> None:
    created = direct.http.put("/v1/models/plain", json={})
    assert (created.status_code, created.json()["spec"]["algorithm"]) == (201, "auto")
    assert direct.describe("plain")["spec"]["algorithm"] == "auto"
    assert isinstance(direct.host.models["plain"].pipeline.learner, Auto)
    again = direct.http.put("/v1/models/plain", json={"algorithm": "auto", "scaler": "auto"})
    assert (again.status_code, again.headers["etag"]) == (200, created.headers["etag"])
    problem(direct.http.put("/v1/models/plain", json={"algorithm": "psam"}), 409, "spec-conflict")
    direct.http.delete("/v1/models/plain")


@pytest.mark.parametrize(
    ("spec", "pointer", "message"),
    [
        ({"map": {"kind": "randomfourier"}}, "/map", "expected a model without a feature map"),
        ({"scaler": "standard"}, "/scaler", "expected no scaler in front of Auto"),
        ({"scaler": "auto@300"}, "/scaler", "expected no scaler in front of Auto"),
        ({"params": {"portfolio": "nothing"}}, "/params/portfolio", "expected "),
        ({"params": {"portfolio": "l2/psam l2/psam"}}, "/params/portfolio", "expected each member once"),
        ({"params": {"portfolio": "l2/psam(capacity=0)"}}, "/params/portfolio", "expected "),
        (
            {"params": {"portfolio": "l2/ftrl auto/psam(capacity=100000000)"}},
            "/params/portfolio",
            "expected at most 100000 rows in psam (--max-buffer-rows)",
        ),
        (
            {"params": {"portfolio": " ".join(f"l2/ftrl(l1={k})" for k in range(65))}},
            "/params/portfolio",
            "expected at most 64 members (--max-members)",
        ),
        ({"params": {"cost": 0}}, "/params/cost", "expected a finite number > 0"),
    ],
)
def test_what_auto_does_not_take_is_refused_with_its_place(
    direct: Direct, spec: dict[str, Any], pointer: str, message: str
) -> None:
    for algorithm in ({}, {"algorithm": "auto"}):
        document = problem(direct.http.put("/v1/models/none", json={**algorithm, **spec}), 422, "invalid-params")
        (error,) = document["errors"]
        assert error["pointer"] == pointer
        assert error["message"].startswith(message), error
    problem(direct.http.get("/v1/models/none"), 404, "model-not-found")


def test_a_member_whose_seed_is_null_has_that_of_the_model(data_dir: Path) -> None:
    service = Direct(data_dir)
    service.create("m", algorithm="auto", seed=None, params={"portfolio": "auto/psam(seed=null) l2/ftrl"})
    service.post("m", "learn-many", rows(400))
    before = [service.score("m", body["features"]) for body in rows(20, seed=9)]
    service.loop.run_until_complete(service.host.writer.stop())  # type: ignore[union-attr]
    service.host.writer = None
    service.stop()  # without a snapshot: the next start replays
    again = Direct(data_dir)
    assert again.host.replayed == 400
    assert [again.score("m", body["features"]) for body in rows(20, seed=9)] == before
    again.stop()


def test_a_stored_model_keeps_the_defaults_of_its_creation(data_dir: Path) -> None:
    service = Direct(data_dir)
    for name, spec in {"auto": {}, "psam": {"algorithm": "psam"}, "older": {"algorithm": "psam"}}.items():
        service.http.put(f"/v1/models/{name}", json=spec)
    etags = {name: service.http.get(f"/v1/models/{name}").headers["etag"] for name in service.host.models}
    described = {name: service.describe(name) for name in service.host.models}
    service.stop()
    with contextlib.closing(sqlite3.connect(data_dir / "journal.sqlite3")) as db, db:
        texts = {name: json.loads(text) for name, text in db.execute("SELECT name, spec FROM models")}
    assert texts["auto"]["algorithm"] == "auto"
    assert texts["auto"]["defaults"] == {"portfolio": "2026", "cost": None}
    assert texts["psam"]["defaults"]["capacity"] == PSAM().capacity

    # what a version with other defaults would have stored, and one that stored none
    texts["auto"]["defaults"] = {"portfolio": "l2/ftrl auto/psam", "cost": 3.0}
    texts["psam"]["defaults"]["capacity"] = 7
    del texts["older"]["defaults"], texts["older"]["rules"]
    stored = {name: read_stored(json.dumps(text)) for name, text in texts.items()}
    assert stored["auto"].pipeline(0).params == {"portfolio": "l2/ftrl auto/psam", "cost": 3.0}
    assert (stored["psam"].pipeline(0).params["capacity"], stored["psam"].spec.params) == (7, {})
    assert (stored["older"].defaults, stored["older"].rules) == ({}, 1)
    for name, text in texts.items():
        model = Model(ModelRecord(1, name, json.dumps(text), 0.0, 0, 0))
        learner = model.pipeline.learner
        assert (model.etag, model.describe()["spec"]) == (etags[name], described[name]["spec"])
        if isinstance(learner, Auto):
            assert [member["name"] for member in learner.members] == ["l2/ftrl", "auto/psam"]
            assert learner.cost == 3.0
        else:
            assert isinstance(learner, PSAM)
            assert learner.capacity == (7 if name == "psam" else PSAM().capacity)


@pytest.mark.skipif(not COMPILED, reason="this interpreter reads rows in Python")
def test_a_row_alone_passes_all_members_in_one_compiled_call(direct: Direct, monkeypatch: pytest.MonkeyPatch) -> None:
    assert direct.create("single", algorithm="auto").status_code == 201
    draw = np.random.default_rng(0)
    bodies: list[dict[str, object]] = [
        {"features": dict(zip("abcde", values, strict=True)), "label": values[0] > 0.3}
        for values in draw.normal(size=(640, 5)).tolist()
    ]
    learned(direct, "single", bodies[:500])
    for body in bodies[500:540]:  # until the row that fitted the maps is no part of what a row is expected to take
        direct.post("single", "learn-one", body)
    calls = {"learn": 0, "score": 0}
    learn_row, score_row = Auto._learn_row, Auto._score_row

    def counted_learn(*arguments: Any) -> float:
        calls["learn"] += 1
        return learn_row(*arguments)

    def counted_score(*arguments: Any) -> float:
        calls["score"] += 1
        return score_row(*arguments)

    monkeypatch.setattr(Auto, "_learn_row", counted_learn)
    monkeypatch.setattr(Auto, "_score_row", counted_score)
    for body in bodies[540:]:
        assert direct.post("single", "predict-one", {"features": body["features"]}).status_code == 200
        assert direct.post("single", "learn-one", body).status_code == 200
    assert (
        calls["learn"] <= 35
    )  # where a member's units change, about a checkpoint, and while another call holds the model
    assert calls["score"] == 0
