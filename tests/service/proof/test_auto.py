"""Models that judge their members by copies of them: killed, copied and labelled late in the middle of it."""

from __future__ import annotations

import itertools
import json
import random
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aucstream import Auto
from aucstream.pipeline import Pipeline
from aucstream_service.journal.commands import EventRecord, ModelRecord
from aucstream_service.models.model import Model, packed
from tests.service.proof.test_kill import siege
from tests.service.running import NDJSON, Direct, Local, Running
from tests.service.stream import lines, rows

OCTETS = {"Content-Type": "application/octet-stream"}
MIDDLE = 1_030  # rows: a checkpoint was due before it, and the rows after that are judged still
PROBES = [body["features"] for body in rows(20, seed=77)]


def judging(model: Model) -> bool:
    """Return whether members are judged: copies of them exist."""
    learner = model.pipeline.learner
    return isinstance(learner, Auto) and learner._twins is not None


def picture(service: Any, name: str = "m") -> dict[str, Any]:
    """Return what a client sees of a model."""
    return {
        "evaluation": service.evaluation(name),
        "scores": service.post(name, "predict-many", [{"features": features} for features in PROBES]).json(),
        "roc": service.http.get(f"/v1/models/{name}/roc").json(),
    }


def middle_of_judging() -> list[dict[str, Any]]:
    """Return learn bodies after which members are being judged."""
    bodies = rows(MIDDLE, seed=8, positives=0.4)
    model = Pipeline.from_spec({"algorithm": "auto"})
    model.engine.learn_rows([b["features"] for b in bodies], np.array([1.0 if b["label"] else -1.0 for b in bodies]))
    learner = model.learner
    assert isinstance(learner, Auto)
    assert learner._twins is not None
    return bodies


def straight(data_dir: Path) -> Model:
    """Return a model that learned all of the journal without a break."""
    with sqlite3.connect(f"file:{data_dir}/journal.sqlite3?immutable=1", uri=True) as db:
        record = db.execute("SELECT model, name, spec, created_at, base_seq, seed, pruned_seq FROM models").fetchone()
        events = db.execute("SELECT seq_first, seq_last, kind, payload, received_at FROM events ORDER BY seq_first")
        model = Model(ModelRecord(*record))
        for event in events:
            model.replay(EventRecord(*event))
    return model


@pytest.mark.parametrize("algorithm", ["auto", "jointforest"])
def test_killed_while_members_are_judged_it_goes_on_with_the_same_bits(data_dir: Path, algorithm: str) -> None:
    bodies, more = middle_of_judging(), rows(300, seed=9, positives=0.4)
    service = Running(data_dir, snapshot_every_rows=400, snapshot_keep=20)
    service.create("m", algorithm=algorithm, evaluation={"window": 300})
    service.raw("/v1/models/m/learn-many", lines(bodies[:1_000]), NDJSON)
    for body in bodies[1_000:]:
        service.learn("m", **body)
    before = picture(service)
    service.kill()

    again = Direct(data_dir, snapshot_keep=20)
    model = again.host.models["m"]
    assert 0 < again.host.replayed < MIDDLE  # from a snapshot, then from the journal
    assert picture(again) == before
    assert judging(model) == (algorithm == "auto")
    other = straight(data_dir)
    assert model.seq == other.seq == MIDDLE
    assert packed((model.state()[0], {})) == packed((other.state()[0], {}))
    again.post("m", "learn-many", more)
    for body in more:
        outcome = other.pipeline.engine.learn_row(body["features"], 1.0 if body["label"] else -1.0)
        assert outcome == outcome
    assert again.post("m", "predict-many", [{"features": f} for f in PROBES]).json()["predictions"][0][
        "score"
    ] == other.pipeline.score_one(PROBES[0])
    again.stop()


@pytest.mark.parametrize("algorithm", ["auto", "jointforest"])
def test_a_snapshot_from_the_middle_of_judging_goes_on_with_the_same_bits(data_dir: Path, algorithm: str) -> None:
    bodies, more = middle_of_judging(), rows(300, seed=9, positives=0.4)
    service = Direct(data_dir)
    service.create("m", algorithm=algorithm, evaluation={"window": 300})
    service.post("m", "learn-many", bodies)
    assert judging(service.host.models["m"]) == (algorithm == "auto")
    data = service.http.get("/v1/models/m/snapshot").content
    service.raw("/v1/models/copy/snapshot", data, OCTETS, "PUT")
    assert picture(service, "copy") == picture(service)
    service.post("m", "learn-many", more)
    for body in more:
        service.learn("copy", **body)
    assert picture(service, "copy") == picture(service)
    service.stop()
    again = Direct(data_dir)
    assert picture(again, "copy") == picture(again)
    again.stop()


@pytest.mark.parametrize("algorithm", ["auto", "jointforest"])
def test_labels_that_come_late_count_the_score_that_was_answered(data_dir: Path, algorithm: str) -> None:
    bodies, late = middle_of_judging(), rows(120, seed=10, positives=0.4)
    service = Direct(data_dir)
    service.create("m", algorithm=algorithm)
    service.post("m", "learn-many", bodies)
    model = service.host.models["m"]
    twin = Pipeline.from_spec(model.pipeline.spec)
    twin.engine.learn_rows([b["features"] for b in bodies], np.array([1.0 if b["label"] else -1.0 for b in bodies]))
    answers = [
        service.post("m", "predict-one", {"features": body["features"], "id": f"e{number}"}).json()
        for number, body in enumerate(late)
    ]
    assert [answer["score"] for answer in answers] == twin.engine.score_rows([b["features"] for b in late]).tolist()
    before = service.evaluation("m")
    order = list(range(len(late)))
    random.Random(1).shuffle(order)
    loss = before["calibration"]["log_loss"] * len(bodies)
    for number in order:
        body, answer = late[number], answers[number]
        labelled = service.post("m", "label-one", {"id": f"e{number}", "label": body["label"]}).json()
        assert labelled["score"] == answer["score"]
        twin.engine.learn_row(body["features"], 1.0 if body["label"] else -1.0)
        loss -= np.log(answer["probability"] if body["label"] else 1.0 - answer["probability"])
    found = service.evaluation("m")
    assert found["calibration"]["log_loss"] == pytest.approx(loss / (len(bodies) + len(late)), rel=1e-9)
    assert [service.score("m", features) for features in PROBES] == twin.engine.score_rows(PROBES).tolist()
    seen = picture(service)
    service.stop()
    again = Direct(data_dir)
    assert picture(again) == seen
    again.stop()


@pytest.mark.soak
@pytest.mark.parametrize("algorithm", ["auto", "jointforest"])
def test_an_auto_model_is_killed_under_load_many_times(data_dir: Path, algorithm: str) -> None:
    print(siege(data_dir, 40, 3, 1.5, algorithm=algorithm))


def flipping(n: int, at: int, seed: int) -> list[dict[str, Any]]:
    """Return learn bodies of a logistic model of 20 numbers whose weights change their signs at row `at`."""
    random = np.random.default_rng(seed)
    X, w = random.normal(size=(n, 20)), random.normal(size=20)
    odds = 3.0 * (X @ w) * np.where(np.arange(n) < at, 1.0, -1.0)
    labels = random.random(n) < 1.0 / (1.0 + np.exp(-odds))
    return [
        {"features": {f"x{column}": value for column, value in enumerate(row)}, "label": label}
        for row, label in zip(X.tolist(), labels.tolist(), strict=True)
    ]


def test_labels_that_flip_in_a_live_service_give_an_alarm_and_the_ranking_comes_back(tmp_path: Path) -> None:
    service = Local(tmp_path / "data", events_per_second=50)
    service.create("live", evaluation={"window": 400}, algorithm="auto")
    bodies = flipping(2_900, 1_500, 4)
    service.raw("/v1/models/live/learn-many", lines(bodies[:1_500]), NDJSON)
    before = service.evaluation("live")
    assert before["drift"]["alarms"] == 0
    alarms: list[dict[str, Any]] = []
    with service.http.stream("GET", "/v1/models/live/events") as answer:
        received = answer.iter_lines()
        assert next(received) == "retry: 2000"
        for start in range(1_500, 2_900, 50):
            service.raw("/v1/models/live/learn-many", lines(bodies[start : start + 50]), NDJSON)
        for first, second in itertools.pairwise(received):
            if first == "event: alarm":
                alarms.append(json.loads(second.removeprefix("data: ")))
            if first == "id: 2900":
                break
    after = service.evaluation("live")
    assert [alarm["alarms"] for alarm in alarms] == sorted({alarm["alarms"] for alarm in alarms})
    assert (alarms[0]["name"], alarms[0]["alarms"]) == ("live", 1)
    assert alarms[0]["strength"] > 4.0
    assert 1_500 < alarms[0]["seq"] <= 1_600
    assert (alarms[-1]["alarms"], alarms[-1]["seq"]) == (after["drift"]["alarms"], after["drift"]["last_alarm_seq"])
    assert before["window"]["auc"] > 0.97
    assert after["window"]["auc"] > before["window"]["auc"] - 0.02  # of the last 400 rows
    assert after["total"]["auc"] < after["window"]["auc"]
    assert all(member["resting_since"] is None or member["resting_since"] > 1_500 for member in after["members"])
    assert f'drift_alarms_total{{model="live"}} {float(after["drift"]["alarms"])}' in service.http.get("/metrics").text
    service.stop()
