"""The copy of a model's state for a snapshot is one: what is learned later does not reach it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from aucstream.errors import AucstreamError
from aucstream.registry import LEARNERS
from aucstream_service.journal.commands import AppendOutcome, ModelRecord
from aucstream_service.journal.row_batch import RowBatch
from aucstream_service.models.model import LEAST_PART, Model, packed
from aucstream_service.models.queued import QueuedRows
from aucstream_service.models.spec import ModelSpec, stored_spec
from tests.service.stream import rows

MAPS: list[dict[str, Any]] = [
    {"map": {"kind": kind, "warmup": warmup}, "algorithm": "psam"}
    for kind in ("kmeansnystroem", "randomfourier", "randomthresholds")
    for warmup in (150, 400)  # fitted, and rows that are kept still
]
SPECS: list[dict[str, Any]] = [{"algorithm": name} for name in LEARNERS] + MAPS


def learn(model: Model, bodies: list[dict[str, Any]], until: float = 0.0) -> None:
    """Learn rows as one request."""
    batch = RowBatch([body["features"] for body in bodies], [1.0 if body["label"] else -1.0 for body in bodies])
    model.waiting.append(QueuedRows(AppendOutcome(model.seq + 1, model.seq + len(bodies)), batch, 0.0))
    model.queued += 1
    while model.waiting:
        model.apply_some(until)


def model_of(spec: dict[str, Any]) -> Model:
    text = stored_spec(ModelSpec.model_validate({"evaluation": {"window": 100}, **spec}).canonical())
    return Model(ModelRecord(1, "m", text, 0.0, 0, 0))


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_what_is_learned_later_does_not_reach_a_copy_of_the_state(spec: dict[str, Any]) -> None:
    model = model_of(spec)
    try:
        model.pipeline.engine.check_rows([rows(1)[0]["features"]], None)
    except AucstreamError:
        pytest.skip("takes no named rows")
    learn(model, rows(300))
    state = model.state()
    before = packed(state)
    learn(model, rows(700, seed=1))
    assert packed(state) == before
    assert packed(model.state()) != before


@pytest.mark.parametrize("algorithm", ["auto", "jointforest", "psam"])
def test_parts_of_any_size_give_the_same_bits(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bodies, chance = rows(900, positives=0.4), np.random.default_rng(3)
    states = []
    for pace in (None, 1, 13, 128):
        model = model_of({"algorithm": algorithm})
        if pace is not None:
            monkeypatch.setattr(Model, "_note_pace", lambda *_: None)
            model._row_seconds = 0.01 / pace
        start = 0
        while start < len(bodies):
            stop = start + int(chance.integers(1, 300))
            learn(model, bodies[start:stop])
            start = stop
        states.append(packed(model.state()))
    assert len(set(states)) == 1


def test_parts_are_as_long_as_rows_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of({"algorithm": "psam"})
    learn(model, rows(256))
    sizes: list[int] = []
    now = cost = 0.0

    def learned(_rows: Any, _signs: Any, part: slice) -> np.ndarray:
        nonlocal now
        sizes.append(part.stop - part.start)
        now += cost * sizes[-1]
        return np.zeros(sizes[-1])

    monkeypatch.setattr(model, "_learn_part", learned)
    monkeypatch.setattr("aucstream_service.models.model.time.thread_time", lambda: now)
    for row_seconds, size in ((1.01e-3, 9), (0.1, LEAST_PART), (1e-6, 128)):
        cost = row_seconds
        for _ in range(20):
            learn(model, rows(1_280))
        assert sizes[-1] == size or sizes[-2] == size
        assert max(sizes[-9:]) == size  # what is left before the calibration is read may be less
    learn(model, rows(1_280), math.inf)  # a replay goes by the calibration alone
    assert sizes[-10:] == [128] * 10
