"""From a ranking score to a probability: logistic in two parameters, fitted online.

p = sigmoid(slope * score / rms + intercept), where rms is a running root mean square of the scores,
so that nothing depends on their unit. Each row makes one Newton step on the weighted log loss with
polynomial forgetting (half of the weight on the most recent half of the rows, later on the last
`MEMORY` rows). The slope stays positive: calibration never changes a ranking.
"""

from __future__ import annotations

import math

from aucstream.kernels.jit import jit
from aucstream.kernels.ledger import (
    CAL_H11,
    CAL_H12,
    CAL_H22,
    CAL_INTERCEPT,
    CAL_NEGATIVE,
    CAL_ON,
    CAL_POSITIVE,
    CAL_RMS2,
    CAL_ROWS,
    CAL_SLOPE,
)

MEMORY = 10_000.0  # rows; the slowest forgetting
CUT = 8.0  # a score enters the fit at most this many rms from 0
LEAST_CURVATURE = 0.02  # of p (1 - p): a confident mistake must not make a giant step
LONGEST_STEP = 1.0  # change of the row's own log odds
RIDGE = 1e-3
SLOPE_MIN, SLOPE_MAX = 1e-3, 1e3
INTERCEPT_MAX = 50.0
RMS2_MIN, RMS2_MAX = 1e-200, 1e200


@jit
def sigmoid(z):
    """Return 1 / (1 + exp(-z)) without overflow, and without a branch that half of all rows would miss."""
    e = math.exp(-abs(z))
    return (1.0 if z >= 0.0 else e) / (1.0 + e)


@jit
def _remains(rows):
    """Return what is left after some rows of the scale at the start."""
    square = rows * rows
    return 1.0 / (square * square)


@jit
def calibrate(ledger, score, y, weight):
    """Take one (score before its update, label, weight); writes ledger."""
    if y > 0.0:
        ledger[CAL_POSITIVE] += weight
    else:
        ledger[CAL_NEGATIVE] += weight
    if ledger[CAL_ON] == 0.0:
        if ledger[CAL_POSITIVE] == 0.0 or ledger[CAL_NEGATIVE] == 0.0:
            return
        ledger[CAL_ON] = 1.0
        ledger[CAL_SLOPE] = 1.0
        ledger[CAL_INTERCEPT] = math.log(ledger[CAL_POSITIVE] / ledger[CAL_NEGATIVE])
        ledger[CAL_H22] = 1.0
        ledger[CAL_RMS2] = 1.0
    rows = ledger[CAL_ROWS] + 1.0
    forget = max(1.0 / MEMORY, 2.0 / (rows + 20.0))
    # The scale starts at 1, the unit of every margin (first scores are rounding noise), and forgets that soon.
    rms2 = ledger[CAL_RMS2]
    size = min(abs(score), 10.0 * math.sqrt(rms2))
    mean = max(0.0, rms2 - _remains(rows))
    mean += forget * (size * size - mean)
    rms2 = max(RMS2_MIN, min(RMS2_MAX, mean + _remains(rows + 1.0)))
    ledger[CAL_ROWS] = rows
    ledger[CAL_RMS2] = rms2
    s = max(-CUT, min(CUT, score / math.sqrt(rms2)))
    p = sigmoid(ledger[CAL_SLOPE] * s + ledger[CAL_INTERCEPT])
    g = weight * (p - (1.0 if y > 0.0 else 0.0))
    curvature = weight * max(p * (1.0 - p), LEAST_CURVATURE)
    h11 = (1.0 - forget) * ledger[CAL_H11] + curvature * s * s
    h12 = (1.0 - forget) * ledger[CAL_H12] + curvature * s
    h22 = (1.0 - forget) * ledger[CAL_H22] + curvature
    r11 = h11 + RIDGE * h22
    r22 = h22 * (1.0 + RIDGE)
    g /= r11 * r22 - h12 * h12
    slope_step = (r22 * s - h12) * g
    intercept_step = (r11 - h12 * s) * g
    size = abs(slope_step * s + intercept_step)
    if size > LONGEST_STEP:
        slope_step *= LONGEST_STEP / size
        intercept_step *= LONGEST_STEP / size
    ledger[CAL_H11] = h11
    ledger[CAL_H12] = h12
    ledger[CAL_H22] = h22
    ledger[CAL_SLOPE] = max(SLOPE_MIN, min(SLOPE_MAX, ledger[CAL_SLOPE] - slope_step))
    ledger[CAL_INTERCEPT] = max(-INTERCEPT_MAX, min(INTERCEPT_MAX, ledger[CAL_INTERCEPT] - intercept_step))


@jit
def shift_calibration(ledger, shift):
    """Follow scores that all became `score - shift`, where the calibration has begun; writes ledger."""
    if ledger[CAL_ON] != 0.0:
        shift_line(ledger, shift)


@jit
def shift_line(ledger, shift):
    """Follow scores that all became `score - shift`; writes ledger."""
    d = shift / math.sqrt(ledger[CAL_RMS2])
    h12, h22 = ledger[CAL_H12], ledger[CAL_H22]
    ledger[CAL_H11] = max(0.0, ledger[CAL_H11] - 2.0 * d * h12 + d * d * h22)
    ledger[CAL_H12] = h12 - d * h22
    moved = ledger[CAL_INTERCEPT] + ledger[CAL_SLOPE] * d
    ledger[CAL_INTERCEPT] = max(-INTERCEPT_MAX, min(INTERCEPT_MAX, moved))


@jit
def probability(ledger, score):
    """Return the probability of a score; one half until both classes were seen."""
    if ledger[CAL_ON] == 0.0:
        return 0.5
    return sigmoid(ledger[CAL_SLOPE] * (score / math.sqrt(ledger[CAL_RMS2])) + ledger[CAL_INTERCEPT])


@jit
def probabilities(ledger, scores, out):
    """Write to out (n,) the probability of each score (n,); one half until both classes were seen."""
    for i in range(scores.size):
        out[i] = probability(ledger, scores[i])
