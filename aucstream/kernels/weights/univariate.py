"""Gradient steps on a loss of one score, s = w'x + b: logistic, and exponential with balanced classes.

The weights are w = scale v, so that shrinking all of them touches one number and a step the row's columns
alone. A row is shortened and w's step is in the rows' unit as `row_scale` says.
"""

from __future__ import annotations

import math

from aucstream.kernels.auc.calibration import sigmoid
from aucstream.kernels.jit import jit
from aucstream.kernels.rows.arrival import LARGEST, count_row
from aucstream.kernels.rows.linear import axpy, dot, norm
from aucstream.kernels.rows.row_scale import next_scale
from aucstream.kernels.weights.averages import SCALE_RESET
from aucstream.kernels.weights.example_weights import by_class, by_mean

# layout of scalars; POSITIVE, NEGATIVE: weighted rows of each class
SCALE, INTERCEPT, STEPS, POSITIVE, NEGATIVE = range(5)
SIZE = 5
LOGISTIC, EXPONENTIAL = 0, 1  # losses
LARGEST_SHRINK = 0.5  # part of the weights that one step takes away; keeps step times penalty below 1


@jit
def slope(loss, s, y, positive, negative, clip):
    """Return the derivative in the score s of the loss of a row with label y.

    `positive`, `negative`: class counts, this row included. Once both are there the exponential loss of
    the larger class is weighted down to that of the other; beyond the exponent `clip` it is a line.
    """
    if loss == LOGISTIC:
        return sigmoid(s) - (1.0 if y > 0.0 else 0.0)
    balance = 1.0
    if positive > 0.0 and negative > 0.0:
        balance = (negative if y > 0.0 else positive) / max(positive, negative)
    return -balance * y * math.exp(min(clip, -y * s))


@jit
def step(v, scalars, ledger, idx, x, y, weight, loss, eta0, eta_min, lam, clip, intercept, kappa):
    """One update of w = scale v and b; writes v, scalars, ledger.

    Returns the score before it; NaN where the row was skipped.
    """
    wx = scalars[SCALE] * dot(idx, x, v)
    score = wx + scalars[INTERCEPT]
    length = norm(x)
    unit, factor, mean, rows = next_scale(ledger, length, kappa)
    positive, negative = scalars[POSITIVE], scalars[NEGATIVE]
    if y > 0.0:
        positive += weight
    else:
        negative += weight
    r = slope(loss, wx * factor + scalars[INTERCEPT], y, positive, negative, clip)
    if loss == LOGISTIC:
        effective = by_mean(ledger, y, weight)
    else:  # `slope` has the classes' shares
        effective = by_class(ledger, y, weight, positive, negative)
    eta = effective * eta0 / math.sqrt(scalars[STEPS] + 1.0)
    if eta_min > 0.0:
        eta = max(eta, effective * eta_min)
    if lam > 0.0:
        eta = min(eta, LARGEST_SHRINK / lam)
    scale = scalars[SCALE] * (1.0 - eta * lam)
    move = 0.0
    if length > 0.0:
        move = -eta * r * factor / scale
        if kappa == 0.0:
            move /= unit * unit
    moved = scalars[INTERCEPT] - (eta * r if intercept else 0.0)
    finite = math.isfinite(score) and abs(moved) < LARGEST and abs(move) * length < LARGEST
    # A row of that length is refused even where its slope is 0: with the other label it would be.
    if not (finite and length * factor < LARGEST and positive + negative < LARGEST):
        return math.nan
    count_row(ledger, score, y, weight, mean, rows)
    axpy(idx, x, move, v)
    scalars[SCALE] = scale
    scalars[INTERCEPT] = moved
    scalars[STEPS] += 1.0
    scalars[POSITIVE] = positive
    scalars[NEGATIVE] = negative
    if scale < SCALE_RESET:
        settle(v, scalars)
    return score


@jit
def score_row(v, scalars, ledger, idx, x, loss, eta0, eta_min, lam, clip, intercept, kappa):
    """Return the score of a row; changes nothing."""
    return scalars[SCALE] * dot(idx, x, v) + scalars[INTERCEPT]


@jit
def settle(v, scalars):
    """Fold the scale: v = w, scale 1. O(d)."""
    for j in range(v.size):
        v[j] *= scalars[SCALE]
    scalars[SCALE] = 1.0
