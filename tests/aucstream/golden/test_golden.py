"""Files of every released format load and give the scores recorded with them."""

from __future__ import annotations

import json

import pytest

import aucstream
from aucstream.registry import LEARNERS

from .make import FOLDER, PROBES, learn, models

pytestmark = pytest.mark.plain_python

RECORDED = json.loads((FOLDER / "scores.json").read_text())


@pytest.mark.parametrize("name", RECORDED)
def test_a_golden_file_loads_and_gives_the_recorded_scores(name):
    model = aucstream.load(FOLDER / f"{name}.safetensors")
    assert [model.score_one(x) for x in PROBES] == pytest.approx(RECORDED[name]["scores"], rel=1e-12, abs=1e-15)
    probabilities = [model.predict_proba_one(x)[True] for x in PROBES]
    assert probabilities == pytest.approx(RECORDED[name]["probabilities"], rel=1e-12)
    assert model.examples == RECORDED[name]["examples"] == 120
    model.learn_one(PROBES[0], True)
    assert model.examples == 121


@pytest.mark.parametrize("name", RECORDED)
def test_a_model_that_learns_the_same_rows_today_gives_the_recorded_scores(name):
    model = models()[name]
    learn(model)
    assert [model.score_one(x) for x in PROBES] == pytest.approx(RECORDED[name]["scores"], rel=1e-9, abs=1e-12)


def test_every_learner_has_a_golden_file():
    assert set(RECORDED) >= {*LEARNERS, "pipeline"}
