"""SOLAM and regSOLAM on an l2 ball: weights v times a scale, so that shrinking and projecting cost O(1)."""

from __future__ import annotations

import math

from aucstream.kernels.jit import jit
from aucstream.kernels.rows.arrival import LARGEST, RECOUNT, count_row
from aucstream.kernels.rows.linear import axpy2, sqnorm
from aucstream.kernels.rows.row_sums import sums
from aucstream.kernels.weights.averages import SCALE_RESET, fold
from aucstream.kernels.weights.saddle import GCUM, GROWTH, GSUM, NORM2, SCALE, advance, commit, due, growth_of


@jit
def step_l2(v, u, scalars, ledger, idx, x, y, weight, R, zeta, cap, keep, kappa, lam):
    """One update on the l2 ball, w = scale v, sum of gamma w = gcum v - u; writes v, u, scalars, ledger.

    w = (1 - gamma lam) w + step x, then projected; a gamma lam above 1 counts as 1.
    Returns the score of the averaged weights before it; NaN where the row was skipped.
    """
    vx, ux, length = sums(idx, x, v, u)
    s = scalars[SCALE] * vx
    score = 0.0
    if scalars[GSUM] > 0.0:
        score = (scalars[GCUM] * vx - ux) / scalars[GSUM]
    finite, step, gamma, a, b, alpha, scale, mean, rows = advance(
        scalars, ledger, length, y, weight, s, zeta, cap, keep, kappa
    )
    gcum = scalars[GCUM] + gamma * (growth_of(scalars) / keep) * scalars[SCALE]
    shrunk = scalars[SCALE] * max(0.0, 1.0 - gamma * lam)
    folds = shrunk < SCALE_RESET
    if not folds:
        step /= shrunk
    if not (finite and math.isfinite(score) and abs(step) * length * max(1.0, gcum) < LARGEST):
        return math.nan
    count_row(ledger, score, y, weight, mean, rows)
    if folds:
        fold(v, u, shrunk, gcum)
        vx *= shrunk
        shrunk, gcum = 1.0, 0.0
        scalars[NORM2] = sqnorm(v)
    scalars[SCALE] = shrunk
    scalars[GCUM] = gcum
    axpy2(idx, x, step, v, gcum * step, u)
    scalars[NORM2] = max(0.0, scalars[NORM2] + 2.0 * step * vx + (step * length) * (step * length))
    bound = R * kappa if kappa > 0.0 else R
    radius = R if kappa > 0.0 or scale == 0.0 else R / scale
    size = abs(scalars[SCALE]) * math.sqrt(scalars[NORM2])
    if size > radius:
        scalars[SCALE] *= radius / size
    commit(scalars, y, weight, gamma, a, b, alpha, keep, bound)
    if scalars[SCALE] < SCALE_RESET or due(scalars, keep, RECOUNT):
        settle_l2(v, u, scalars)
    return score


@jit
def score_l2(v, u, scalars, ledger, idx, x, R, zeta, cap, keep, kappa, lam):
    """Return the score of a row; changes nothing."""
    vx, ux, _ = sums(idx, x, v, u)
    return (scalars[GCUM] * vx - ux) / scalars[GSUM] if scalars[GSUM] > 0.0 else 0.0


@jit
def settle_l2(v, u, scalars):
    """Fold the scale: v = w, u = -(sum of gamma w), scale 1; recount the norm. O(d)."""
    fold(v, u, scalars[SCALE], scalars[GCUM])
    scalars[SCALE] = 1.0
    scalars[GCUM] = 0.0
    growth = growth_of(scalars)
    if growth != 1.0:
        for j in range(u.size):
            u[j] /= growth
        scalars[GSUM] /= growth
        scalars[GROWTH] = 1.0
    scalars[NORM2] = sqnorm(v)
