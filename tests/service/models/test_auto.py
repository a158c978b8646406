"""Models of the algorithm `auto` in the service: their members, and their specs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families as prometheus

from aucstream import Auto
from aucstream_service.calls.event_stream import EventStream, Streams
from tests.service.running import Direct
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
    learner.cost = None
    turned = [{**body, "label": not body["label"]} for body in rows(1_000, positives=0.4)]
    learned(direct, "resting", rows(900, seed=2, positives=0.4))
    learned(direct, "resting", turned)
    assert learner.alarms >= 1
    awake = {change["member"]: change["resting"] for change in stream._changes()}
    assert awake == dict.fromkeys(resting, False)
    direct.http.delete("/v1/models/resting")
