"""One row a thousand times shorter than the others moves nothing but itself."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from aucstream import AutoScale, Pipeline
from aucstream.registry import make

from .models import every_learner

PLACES = (2, 7, 12, 18)


@every_learner
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
