"""Bayesian logistic regression on a few features: one extended Kalman step a row, with a memory that fades."""

from __future__ import annotations

from aucstream.kernels.auc.calibration import sigmoid
from aucstream.kernels.jit import jit

LEAST_CURVATURE = 1e-4


@jit
def kalman_step(weights, covariance, features, along, log_odds, target, w, forgetting, most):
    """Take one step on a row of label `target`, 0 or 1; writes weights (k,), covariance (k, k), along.

    `log_odds`: what the row was given before it. The covariance grows by 1 / (1 - forgetting) where its trace stays
    below `most` after it. `features` and `along` have at least k entries.
    """
    k = weights.size
    trace = 0.0
    for a in range(k):
        trace += covariance[a, a]
    keep = 1.0 - forgetting
    if trace < most * keep:
        for a in range(k):
            for b in range(k):
                covariance[a, b] /= keep
    spread = 0.0
    for a in range(k):
        total = 0.0
        for b in range(k):
            total += covariance[a, b] * features[b]
        along[a] = total
        spread += total * features[a]
    p = sigmoid(log_odds)
    h = w * max(p * (1.0 - p), LEAST_CURVATURE)
    move = w * (target - p) / (1.0 + h * spread)
    shrink = h / (1.0 + h * spread)
    for a in range(k):
        weights[a] += along[a] * move
        for b in range(k):
            covariance[a, b] -= shrink * along[a] * along[b]
