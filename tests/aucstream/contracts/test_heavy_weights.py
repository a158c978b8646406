"""Weights far from 1 make no step unstable: a model ranks about as well as without them."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import roc_auc_score

from .models import (
    FORMS,
    assert_finite,
    learners_in_forms,
)

N, TEST = 2500, 1500
MARGIN = 0.03


def weightings(y: np.ndarray) -> dict[str, np.ndarray]:
    """Return weights by name."""
    random = np.random.default_rng(1)
    return {
        "all 8": np.full(y.size, 8.0),
        "all 50": np.full(y.size, 50.0),
        "positives 10": np.where(y, 10.0, 1.0),
        "negatives 10": np.where(y, 1.0, 10.0),
        "uneven": np.exp(random.normal(size=y.size)),
        "late 30": np.where(np.arange(y.size) < y.size // 2, 1.0, 30.0),
    }


def rows(d: int = 8) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return (X, y, test X, test y): a fifth positive, class means away from 0, columns of one scale."""
    random = np.random.default_rng(7)
    y = random.random(N + TEST) < 0.2
    X = random.normal(size=(N + TEST, d)) + 1.0 + np.outer(y, np.linspace(1.2, -0.6, d))
    return X[:N], y[:N], X[N:], y[N:]


@learners_in_forms()
def test_heavy_weights_cost_little_ranking(name, form):
    X, y, test, labels = rows()

    def area(weights):
        model = FORMS[form](name)
        assert np.isfinite(model.engine.learn_array(X, y, weights)).all()
        assert_finite(model)
        return roc_auc_score(labels, model.decision_function(test))

    plain = area(np.ones(N))
    assert plain > 0.75
    lost = {kind: round(plain - area(weights), 3) for kind, weights in weightings(y).items()}
    assert all(loss < MARGIN for loss in lost.values()), lost
