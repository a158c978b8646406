"""One row a thousand times shorter than the others moves nothing but itself."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from aucstream import AutoScale, Pipeline
from aucstream.learners._base.capabilities import Capability
from aucstream.registry import make

from .models import (
    learners,
)

PLACES = (1, 2, 7, 12, 18)


@learners(Capability.PIPELINE)
def test_one_short_row_among_the_first_costs_no_ranking(name):
    random = np.random.default_rng(0)
    y = random.random(4000) < 0.5
    X = random.normal(size=(4000, 5)) + 0.4 * y[:, None]
    train, test = slice(0, 3000), slice(3000, 4000)

    def area(rows):
        model = Pipeline(AutoScale(), make(name, {})).partial_fit(rows[train], y[train])
        scores = model.decision_function(rows[test])
        return roc_auc_score(y[test], scores), np.abs(scores).max()

    plain, largest = area(X)
    for place in PLACES:
        rows = X.copy()
        rows[place] = X[:place].mean(axis=0) + 1e-5
        got, size = area(rows)
        assert got == pytest.approx(plain, abs=0.02), place
        assert size < 20.0 * largest, place


@learners(Capability.PIPELINE)
def test_two_first_rows_that_are_almost_equal_cost_nothing(name):
    random = np.random.default_rng(3)
    y = random.random(3000) < 0.5
    X = random.normal(size=(3000, 5)) + 0.4 * y[:, None]
    train, test = slice(0, 2000), slice(2000, 3000)
    twins = X[0] + np.array([[0.0], [1e-5]])

    def scores(rows, labels):
        return Pipeline(AutoScale(), make(name, {})).partial_fit(rows, labels).decision_function(X[test])

    plain = scores(X[train], y[train])
    for labels in ([True, False], [False, True]):
        got = scores(np.r_[twins, X[train]], np.r_[labels, y[train]])
        assert roc_auc_score(y[test], got) == pytest.approx(roc_auc_score(y[test], plain), abs=0.01), labels
        assert np.abs(got).max() < 1e3, labels
