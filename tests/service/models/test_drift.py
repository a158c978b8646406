"""The alarm of drift in the evaluation of a model: that of `LossAlarm`, on the probabilities that were answered."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aucstream.drift import LossAlarm
from aucstream.snapshot import pack, unpack
from aucstream_service.models.evaluation import Evaluation
from tests.service.running import Direct
from tests.service.stream import rows

OCTETS = {"Content-Type": "application/octet-stream"}
LINE = (1.5, -0.5)


def flipped(n: int, at: int, seed: int = 0) -> list[dict[str, Any]]:
    """Return learn bodies whose labels are the other ones from row `at` on."""
    bodies = rows(n, seed, positives=0.4)
    return [{**body, "label": body["label"] != (number >= at)} for number, body in enumerate(bodies)]


def watched(signs: np.ndarray, probabilities: np.ndarray) -> list[dict[str, Any]]:
    """Return what the library's alarm says after each row; its seq begins at 1."""
    alarm, alarms, last, told = LossAlarm(), 0, None, []
    for seq, (sign, probability) in enumerate(zip(signs.tolist(), probabilities.tolist(), strict=True), 1):
        alarm.update(sign, probability)
        if alarm.drift_detected:
            alarms, last = alarms + 1, seq
        told.append({"strength": alarm.strength, "last_alarm_seq": last, "alarms": alarms})
    return told


@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_librarys_alarm_however_the_rows_are_cut(seed: int) -> None:
    random = np.random.default_rng(seed)
    n = 900
    scores = random.normal(0.0, 1.5, n)
    line = 1.0 / (1.0 + np.exp(-(LINE[0] * scores + LINE[1])))
    answered = random.random(n) < 0.3
    probabilities = np.where(answered, random.random(n), line)
    signs = np.where(random.random(n) < np.where(np.arange(n) < 500, probabilities, 1.0 - probabilities), 1.0, -1.0)
    told = watched(signs, probabilities)
    assert told[-1]["alarms"] >= 1
    priors = [p if known else None for p, known in zip(probabilities.tolist(), answered.tolist(), strict=True)]
    evaluation, start = Evaluation(100), 0
    while start < n:
        stop = min(n, start + int(random.choice([1, 1, 1, 2, 7, 40])))
        part = slice(start, stop)
        evaluation.judge(start + 1, signs[part].tolist(), scores[part].tolist(), LINE, priors[part])
        found = evaluation.describe_drift()
        assert found["strength"] == pytest.approx(told[stop - 1]["strength"], rel=1e-12, abs=1e-12)
        assert {**found, "strength": 0} == {**told[stop - 1], "strength": 0}
        if random.random() < 0.1:
            evaluation = Evaluation.from_state_dict(*evaluation.state_dict())
        start = stop
    whole = Evaluation(100)
    whole.judge(1, signs, scores, LINE, priors)
    assert whole.describe_drift() == evaluation.describe_drift()
    assert whole.drift.tobytes() == evaluation.drift.tobytes()
    last = whole.last_alarm
    assert last is not None
    assert last == (told[-1]["last_alarm_seq"], pytest.approx(told[last[0] - 1]["strength"], rel=1e-12))


def test_a_skipped_row_has_a_seq_and_no_part_in_it() -> None:
    signs, scores = np.ones(200), np.full(200, -3.0)
    scores[::2] = math.nan
    evaluation, other = Evaluation(100), Evaluation(100)
    evaluation.judge(11, signs, scores, (1.0, 0.0))
    other.judge(1, signs[1::2], scores[1::2], (1.0, 0.0))
    assert evaluation.judged == 100
    assert evaluation.drift[:4].tolist() == other.drift[:4].tolist()
    assert other.last_alarm is not None
    assert evaluation.last_alarm == (10 + 2 * other.last_alarm[0], other.last_alarm[1])


def test_a_snapshot_from_before_begins_at_zero(data_dir: Path) -> None:
    service = Direct(data_dir)
    service.create("m")
    service.post("m", "learn-many", flipped(1_000, 600))
    assert service.evaluation("m")["drift"]["alarms"] >= 1
    arrays, meta = unpack(service.http.get("/v1/models/m/snapshot").content)
    del arrays["evaluation.drift"]
    service.raw("/v1/models/m/snapshot", pack(arrays, meta), OCTETS, "PUT")
    assert service.evaluation("m")["drift"] == {"strength": 0.0, "last_alarm_seq": None, "alarms": 0}
    assert service.describe("m")["examples"] == 1_000
    service.stop()


def test_labels_that_come_later_are_judged_by_what_was_answered(data_dir: Path) -> None:
    service = Direct(data_dir)
    service.create("m")
    service.create("silent", calibration="none")
    assert service.evaluation("m")["drift"] == {"strength": 0.0, "last_alarm_seq": None, "alarms": 0}
    bodies = flipped(700, 400, seed=1)
    service.post("m", "learn-many", bodies[:300])
    service.post("silent", "learn-many", bodies)
    assert service.evaluation("silent")["drift"] is None
    alarm = LossAlarm()
    before = service.evaluation("m")["drift"]
    state = service.host.models["m"].evaluation.drift[:4]
    alarm._state[:] = state
    answered = [
        service.post("m", "predict-one", {"features": body["features"], "id": f"e{number}"}).json()["probability"]
        for number, body in enumerate(bodies[300:])
    ]
    assert service.evaluation("m")["drift"] == before  # no label came
    seqs = []
    for number, (body, probability) in enumerate(zip(bodies[300:], answered, strict=True)):
        seq = service.post("m", "label-one", {"id": f"e{number}", "label": body["label"]}).json()["seq"]
        alarm.update(body["label"], probability)
        if alarm.drift_detected:
            seqs.append(seq)
    assert len(seqs) >= 1
    drift = service.evaluation("m")["drift"]
    assert drift["last_alarm_seq"] == seqs[-1]
    assert drift["alarms"] == before["alarms"] + len(seqs)
    assert drift["strength"] == pytest.approx(alarm.strength, rel=1e-9, abs=1e-9)
    service.stop()
    again = Direct(data_dir)
    assert again.evaluation("m")["drift"] == drift
    again.stop()
