"""Log loss, Brier score and alarm, row by row: they do not depend on how rows are cut into calls."""

from __future__ import annotations

import math

from aucstream.kernels.auc import alarm
from aucstream.kernels.jit import jit

LOG_LOSS, BRIER = range(2)  # layout of the sums
LOG_FLOOR = 1e-15  # a probability enters the log loss at least this far from 0 and 1

# Layout of the drift: the state of the alarm, its strength at the newest row, how many alarms there were, and the seq
# and the strength of the last one. Whole numbers are exact up to 2 ** 53.
STRENGTH, ALARMS, LAST_SEQ, LAST_STRENGTH = range(alarm.SIZE, alarm.SIZE + 4)
DRIFT_SIZE = alarm.SIZE + 4


@jit
def judge_one(sums, drift, seq, sign, score, slope, intercept, largest, prior):
    """Add one row to `sums` and `drift`; `prior` is the probability it was answered with, NaN: that of the calibration.

    slope, intercept, largest : of the calibration, see `calibration.log_odds_line`.

    Returns 1; 0, and adds nothing, where the score is not finite.
    """
    if not math.isfinite(score):
        return 0
    p = prior
    if p != p:
        z = slope * max(-largest, min(largest, score)) + intercept
        if z >= 0.0:
            p = 1.0 / (1.0 + math.exp(-z))
        else:
            e = math.exp(z) if z > -700.0 else 0.0
            p = e / (1.0 + e)
    of_label = p if sign > 0.0 else 1.0 - p
    sums[LOG_LOSS] -= math.log(max(of_label, LOG_FLOOR))
    sums[BRIER] += (1.0 - of_label) ** 2
    alarm.observe_loss(drift, 0, alarm.KEEP, p, sign)
    drift[STRENGTH] = alarm.strength(drift, 0)
    if alarm.raised(drift, 0, alarm.THRESHOLD, alarm.HALF_LIFE):
        drift[ALARMS] += 1.0
        drift[LAST_SEQ] = seq
        drift[LAST_STRENGTH] = drift[STRENGTH]
    return 1


@jit
def judge(sums, drift, seq, signs, scores, slope, intercept, largest, prior):
    """Add rows to `sums`, float64 (2,), and `drift`, float64 (DRIFT_SIZE,), in order; returns how many.

    seq : int
        Of the first row; the others follow.
    prior : float64 (n,) or (0,)
        As in `judge_one`.
    """
    judged = 0
    for i in range(signs.size):
        p = prior[i] if prior.size else math.nan
        judged += judge_one(sums, drift, seq + i, signs[i], scores[i], slope, intercept, largest, p)
    return judged
