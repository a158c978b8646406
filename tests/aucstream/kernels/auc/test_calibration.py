"""The calibration of a learner: both rules as plainly written, and what holds whatever the scores."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.calibration import Calibration, FirstCalibration

from aucstream.kernels import ledger as at
from aucstream.kernels.auc.calibration import log_odds_line, probabilities, probability
from aucstream.kernels.jit import jit
from aucstream.kernels.rows.arrival import count_example
from aucstream.learners._base.calibrated import new_ledger, whole_ledger

RULES = {"new": (at.NEW_RULES, Calibration), "first": (at.FIRST_RULES, FirstCalibration)}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("positive", [0.003, 0.05, 0.5])
@pytest.mark.parametrize("unit", [1.0, 1e4, 1e-3])
@pytest.mark.parametrize("weighted", [False, True])
def test_each_row_moves_it_as_the_plain_rule(rule, positive, unit, weighted):
    random = np.random.default_rng(7)
    rules, plain = RULES[rule]
    ledger, reference = new_ledger(rules), plain()
    given, expected = [], []
    for i in range(3000):
        y = 1.0 if random.random() < positive else -1.0
        score = unit * (random.standard_t(3) + 1.5 * (y > 0.0)) * min(1.0, i / 50.0)
        weight = float(random.integers(4)) if weighted else 1.0
        for value in (score, -100.0 * unit, 0.0):
            given.append(probability(ledger, value))
            expected.append(reference.probability(value))
        count_example(ledger, score, y, weight)
        reference.observe(score, y, weight)
    allowed = np.maximum(1e-8 * np.abs(expected), 1e-12)
    assert (np.abs(np.subtract(given, expected)) <= allowed).all()
    assert ledger[at.CAL_SLOPE] == pytest.approx(reference.a, rel=1e-7)
    assert ledger[at.CAL_ROWS] == reference.rows > 0
    curvature = [[ledger[at.CAL_H11], ledger[at.CAL_H12]], [ledger[at.CAL_H12], ledger[at.CAL_H22]]]
    np.testing.assert_allclose(curvature, reference.h, rtol=1e-7, atol=1e-7)


@jit
def learn(ledger, scores, y, weights):
    """Take rows in order; writes ledger."""
    for i in range(scores.size):
        count_example(ledger, scores[i], y[i], weights[i])


ROWS = st.lists(
    st.tuples(
        st.floats(-1e150, 1e150) | st.floats(-3.0, 3.0) | st.just(0.0),
        st.booleans(),
        st.floats(0.0, 1e100) | st.floats(0.0, 1e-150) | st.just(5e-324) | st.just(1.0),
    ),
    max_size=80,
)


@given(ROWS, st.integers(0, 80))
def test_it_is_finite_and_monotone_and_the_same_in_any_split(rows, cut):
    scores, labels, weights = (np.array([row[k] for row in rows], dtype=float) for k in range(3))
    y = np.where(labels > 0.0, 1.0, -1.0)
    ledger, parts = new_ledger(), new_ledger()
    learn(ledger, scores, y, weights)
    learn(parts, scores[:cut], y[:cut], weights[:cut])
    learn(parts, scores[cut:], y[cut:], weights[cut:])
    assert ledger.tobytes() == parts.tobytes()
    assert np.isfinite(ledger).all()
    p = np.empty(7)
    probabilities(ledger, np.array([-1e300, -1e3, -1.0, 0.0, 1.0, 1e3, 1e300]), p)
    assert (np.diff(p) >= 0.0).all()
    assert ((p >= 0.0) & (p <= 1.0)).all()


@given(ROWS)
def test_the_line_gives_the_probabilities(rows):
    ledger = new_ledger()
    for score, label, weight in rows:
        count_example(ledger, score, 1.0 if label else -1.0, weight)
    slope, intercept, largest = log_odds_line(ledger)
    for score in (-1e3, -1.0, 0.0, 0.5, 1e6):
        z = slope * max(-largest, min(largest, score)) + intercept
        p = probability(ledger, score)
        assert p == pytest.approx(1.0 / (1.0 + math.exp(-z)) if z > -700.0 else 0.0, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("weight", [1.0, 1e-3, 50.0])
def test_before_both_classes_the_probability_is_the_running_base_rate(weight):
    ledger = new_ledger()
    assert probability(ledger, 3.0) == 0.5
    for n in range(1, 30):
        count_example(ledger, 1.0 * n, -1.0, weight)
        for score in (-5.0, 5.0):
            assert probability(ledger, score) == pytest.approx(1.0 / (n + 2.0), rel=1e-12)


def test_a_ledger_of_the_first_version_has_its_rules():
    whole = whole_ledger(np.arange(14.0))
    assert whole.tolist() == [*range(14), at.FIRST_RULES]
    assert whole_ledger(whole) is whole


@jit
def probability_sum(ledger, scores, y):
    """Return the sum of the probabilities of scores, each before its label is observed; writes ledger."""
    total = 0.0
    for i in range(scores.size):
        total += probability(ledger, scores[i])
        count_example(ledger, scores[i], y[i], 1.0)
    return total


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("offset", [0.0, -10.0])
@pytest.mark.parametrize("positive", [1e-5, 1e-3])
def test_q10_probabilities_of_a_rare_class_are_of_its_size(positive, offset, seed):
    random = np.random.default_rng(seed)
    ledger = new_ledger()
    positives, rows, total = 0, 0, 0.0
    while positives < 400:
        y = np.where(random.random(100_000) < positive, 1.0, -1.0)
        part = probability_sum(ledger, random.normal(size=y.size) + 2.0 * (y > 0.0) + offset, y)
        positives += int((y > 0.0).sum())
        if positives > 200:
            total += part
            rows += y.size
    assert total / rows / positive == pytest.approx(1.0, abs=0.2)
