"""Log loss and Brier score, summed row by row: the sums do not depend on how rows are cut into calls."""

from __future__ import annotations

import math

from aucstream.kernels.jit import jit

LOG_LOSS, BRIER = range(2)  # layout of the sums
LOG_FLOOR = 1e-15  # a probability enters the log loss at least this far from 0 and 1


@jit
def judge_one(sums, sign, score, slope, intercept, prior):
    """Add one row to `sums`; `prior` is the probability it was answered with, NaN: that of the calibration.

    Returns 1; 0, and adds nothing, where the score is not finite.
    """
    if not math.isfinite(score):
        return 0
    p = prior
    if p != p:
        z = slope * score + intercept
        if z >= 0.0:
            p = 1.0 / (1.0 + math.exp(-z))
        else:
            e = math.exp(z) if z > -700.0 else 0.0
            p = e / (1.0 + e)
    of_label = p if sign > 0.0 else 1.0 - p
    sums[LOG_LOSS] -= math.log(max(of_label, LOG_FLOOR))
    sums[BRIER] += (1.0 - of_label) ** 2
    return 1


@jit
def judge(sums, signs, scores, slope, intercept, prior):
    """Add rows to `sums`, float64 (2,), in order; returns how many. `prior` is as in `judge_one`, or empty."""
    judged = 0
    for i in range(signs.size):
        judged += judge_one(sums, signs[i], scores[i], slope, intercept, prior[i] if prior.size else math.nan)
    return judged
