"""Scalers that move do not move what was learned."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from aucstream import AutoScale, Pipeline, Standardize, UnitNorm
from aucstream.errors import InvalidParams
from aucstream.learners._base.capabilities import Capability
from aucstream.learners._base.learner import learner
from aucstream.learners._base.state import UnitChange
from aucstream.registry import make

from .models import (
    bare,
    can,
    csr,
    learners,
    stream,
    variants,
)
from .nonlinear import TanhSum
from .shortfalls import expect


@variants(Capability.RUNNING_SCALER)
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_a_change_of_units_keeps_the_score_function_up_to_a_constant(variant, kind):
    X, y = stream(400, d=6)
    model = bare(variant).partial_fit(csr(X) if kind == "csr" else X, y)
    random = np.random.default_rng(4)
    ratio = 2.0 ** random.normal(size=6)
    shift = random.normal(size=6)

    def carry_rows(indptr, idx, val):
        return indptr, idx, (val - shift[idx]) / ratio[idx]

    old = model.decision_function(X)
    moved = copy.deepcopy(model)
    moved._change_units(UnitChange(ratio, shift, carry_rows))
    new = moved.decision_function((X - shift) / ratio)
    assert np.ptp(old) > 0.0
    assert np.ptp(new - old) < 1e-12 * max(1.0, np.abs(old).max() + np.abs(new).max())
    # calibration follows the constant: no probability moves
    assert np.abs(moved.engine.probabilities(new) - model.engine.probabilities(old)).max() < 1e-9


@variants(Capability.RUNNING_SCALER)
def test_columns_in_other_powers_of_two_give_the_same_scores_bit_for_bit_from_the_first_change_on(variant):
    X, y = stream(500, d=5)
    units = 2.0 ** np.array([-20, 3, 0, 40, -7])

    def scores(rows):
        return Pipeline(Standardize(), bare(variant)).engine.learn_array(rows, y)

    plain = scores(X)
    assert len(set(plain[50:])) > 100
    assert scores(X * units)[2:].tolist() == plain[2:].tolist()
    default = Pipeline(AutoScale(), bare(variant)).engine.learn_array(X, y)
    assert Pipeline(AutoScale(), bare(variant)).engine.learn_array(X * units, y)[2:].tolist() == default[2:].tolist()


def wandering(seed: int, n: int = 12_000, d: int = 12):
    """Return (X, y, test X, test y): labels independent, columns slow random walks plus noise; a stationary test."""
    random = np.random.default_rng(seed)
    effect = random.normal(size=d) * 1.5
    y = random.random(n) < 0.3
    walk = np.cumsum(random.normal(size=(n, d)), axis=0) * 0.2
    X = walk + random.normal(size=(n, d)) + np.outer(y, effect)
    labels = random.random(4000) < 0.3
    rows = walk[random.integers(n, size=4000)] + random.normal(size=(4000, d)) + np.outer(labels, effect)
    return X, y, rows, labels


def default_auc(name, X, y, rows, labels) -> float:
    return roc_auc_score(labels, Pipeline(AutoScale(), make(name, {})).partial_fit(X, y).decision_function(rows))


@learners(Capability.RUNNING_SCALER)
def test_wandering_covariates_cost_the_default_pipeline_nothing(name, request):
    expect(request, "wandering covariates", name)
    gaps = []
    for seed in range(3):
        X, y, rows, labels = wandering(seed)
        mean, deviation = X.mean(axis=0), X.std(axis=0)

        def beforehand(Z, mean=mean, deviation=deviation):
            Z = (Z - mean) / deviation
            return Z / np.sqrt(Z.shape[1] + (Z**2).sum(axis=1))[:, None]

        fitted = roc_auc_score(labels, make(name, {}).partial_fit(beforehand(X), y).decision_function(beforehand(rows)))
        assert fitted > 0.55
        gaps.append(default_auc(name, X, y, rows, labels) - fitted)
    assert np.mean(gaps) > -0.01


def test_the_stream_of_wandering_covariates_shows_what_a_plain_running_scaler_costs():
    gaps = []
    for seed in range(3):
        X, y, rows, labels = wandering(seed)
        mean, squares, Z = np.zeros(X.shape[1]), np.zeros(X.shape[1]), np.empty_like(X)
        for i, x in enumerate(X):  # units read anew at every row
            step = x - mean
            mean = mean + step / (i + 1)
            squares = squares + step * (x - mean)
            deviation = np.sqrt(squares / (i + 1))
            Z[i] = np.where(deviation > 0, (x - mean) / np.where(deviation > 0, deviation, 1.0), 0.0)
        plain = make("psam", {}).partial_fit(Z, y).decision_function((rows - mean) / deviation)
        gaps.append(roc_auc_score(labels, plain) - default_auc("psam", X, y, rows, labels))
    assert np.mean(gaps) < -0.02


@variants(Capability.PIPELINE)
def test_scalers_that_move_are_taken_by_learners_that_follow_them(variant):
    X, y = stream(120)
    assert Pipeline(AutoScale(), bare(variant)).partial_fit(X, y).examples == 120
    if can(variant, Capability.RUNNING_SCALER):
        assert Pipeline(Standardize(), bare(variant)).partial_fit(X, y).resolved == {"scaler": "standard"}
        return
    assert Pipeline(AutoScale(), bare(variant)).resolved == {"scaler": "none"}
    kind = "no running scaler" if can(variant, Capability.STEPS_BEFORE) else "no scaler"
    with pytest.raises(InvalidParams, match=rf"^Pipeline.scaler: expected {kind} in front of .*, got 'standard'$"):
        Pipeline(Standardize(), bare(variant))
    if not can(variant, Capability.STEPS_BEFORE):
        with pytest.raises(InvalidParams, match=r"^Pipeline.scaler: expected no scaler in front of .*, got 'l2'$"):
            Pipeline(UnitNorm(), bare(variant))
        return
    assert Pipeline(UnitNorm(), bare(variant)).partial_fit(X, y).examples == 120


def test_a_learner_that_is_no_last_step_is_refused_by_a_pipeline():
    @learner
    class Whole(TanhSum):
        """Takes rows as they are, and has steps of its own."""

        _capabilities = TanhSum._capabilities - {Capability.PIPELINE}

    with pytest.raises(InvalidParams, match=r"^Pipeline: expected a learner that takes the place of a last step, got "):
        Pipeline(Whole())
