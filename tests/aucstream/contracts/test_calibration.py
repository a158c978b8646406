"""Probabilities of every learner: of the first rows, of a rare class, and of models that exist."""

from __future__ import annotations

import numpy as np
import pytest
from reference.calibration import FirstCalibration

import aucstream
from aucstream import Pipeline
from aucstream.kernels import ledger as at
from aucstream.metrics.platt import combine
from aucstream.registry import LEARNERS, make
from tests.aucstream.golden.make import FOLDER

from .models import bare, learners


def first_rows(positive: float, difference: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return 20 rows of two columns; the first tells the classes apart by so many deviations."""
    random = np.random.default_rng(seed)
    y = random.random(20) < positive
    if positive < 0.1:  # one positive among 20 rows
        y = np.arange(20) == seed
    X = random.normal(size=(20, 2))
    X[:, 0] += difference * y
    return X, y


@learners()
@pytest.mark.parametrize("difference", [1.5, 0.0])
@pytest.mark.parametrize("positive", [0.02, 0.5])
def test_q9_the_first_probabilities_are_no_worse_than_the_running_base_rate(name, positive, difference):
    own, base = [], []
    for seed in range(12):
        X, y = first_rows(positive, difference, seed)
        model = bare(name)
        for i, row in enumerate(X.tolist()):
            x = dict(zip("ab", row, strict=True))
            rate = (y[:i].sum() + 1.0) / (i + 2.0)
            own.append(-np.log(model.predict_proba_one(x)[bool(y[i])]))
            base.append(-np.log(rate if y[i] else 1.0 - rate))
            model.learn_one(x, bool(y[i]))
    assert np.mean(own) < np.mean(base) + 0.05


@pytest.mark.parametrize("name", ["ftrl", "solam"])
def test_q10_probabilities_of_a_rare_class_are_of_its_size_end_to_end(name):
    random = np.random.default_rng(0)
    model = make(name, {})
    positives, rows, total, positive = 0, 0, 0.0, 1e-4
    while positives < 400:
        y = random.random(100_000) < positive
        X = random.normal(size=(y.size, 1)) + 2.0 * y[:, None]
        if positives >= 200:
            total += model.engine.probabilities(model.decision_function(X)).sum()
            rows += y.size
        model.partial_fit(X, y)
        positives += int(y.sum())
    assert total / rows / positive == pytest.approx(1.0, abs=0.2)


@learners()
def test_a_model_of_an_earlier_version_keeps_its_rule_and_its_scores(name):
    X, y = np.random.default_rng(3).normal(size=(300, 2)), np.random.default_rng(4).random(300) < 0.2
    X[:, 0] += y
    spec = {"algorithm": name, "scaler": "none"}
    old, new = Pipeline.from_spec(spec, rules=2), Pipeline.from_spec(spec)
    scores = old.engine.learn_array(X[:100], y[:100])
    assert scores.tobytes() == new.engine.learn_array(X[:100], y[:100]).tobytes()
    old = aucstream.from_bytes(old.to_bytes())
    scores = np.append(scores, old.engine.learn_array(X[100:], y[100:]))
    new.engine.learn_array(X[100:], y[100:])
    assert old._ledger[at.RULES] == at.FIRST_RULES
    if name == "auto":
        return  # its calibration is one and the same
    assert new._ledger[at.RULES] == at.NEW_RULES
    plain = FirstCalibration()
    for score, label in zip(scores, y, strict=True):
        plain.observe(score, 1.0 if label else -1.0, 1.0)
    given = old.engine.probabilities(scores)
    np.testing.assert_allclose(given, [plain.probability(score) for score in scores], rtol=1e-7)
    assert np.abs(given - new.engine.probabilities(scores)).max() > 1e-6
    old._reset()
    assert old._ledger[at.RULES] == at.FIRST_RULES  # as its scaling's


@pytest.mark.parametrize("name", [name for name in LEARNERS if name != "auto"])  # which came with the second rule
def test_a_file_of_the_first_version_goes_on_by_the_first_rule(name):
    model = aucstream.load(FOLDER / f"{name}.safetensors")
    assert model._ledger[at.RULES] == at.FIRST_RULES
    again = aucstream.from_bytes(model.to_bytes())
    for one in (model, again):
        one.learn_one({"a": 1.0}, True)
    assert again._ledger.tobytes() == model._ledger.tobytes()
    assert again._ledger[at.RULES] == at.FIRST_RULES


def test_members_of_auto_have_the_rules_of_the_model():
    old, new = (Pipeline.from_spec({"algorithm": "auto"}, rules=rules) for rules in (2, 3))
    for model, own in ((old, at.FIRST_RULES), (new, at.NEW_RULES)):
        for one in (model, aucstream.from_bytes(model.to_bytes())):
            assert {stages.learner._ledger[at.RULES] for stages in one.learner._models} == {own}
    assert new._ledger[at.RULES] == at.MIXTURE_RULES


@pytest.mark.parametrize("rules", [at.FIRST_RULES, at.NEW_RULES])
def test_two_ledgers_of_one_class_each_begin_together(rules):
    one, other = make("solam", {}), make("solam", {})
    X = np.random.default_rng(0).normal(size=(8, 3))
    for model in (one, other):
        model._take_rules(rules)
    one.partial_fit(X, [True] * 8)
    other.partial_fit(X[:4], [False] * 4)
    combine(one._ledger, other._ledger)
    rate = 9.0 / 14.0 if rules else 8.0 / 12.0
    assert one.engine.probabilities(np.zeros(1))[0] == pytest.approx(rate)
    assert one._ledger[at.CAL_ON] == 1.0
