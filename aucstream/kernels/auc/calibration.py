"""From a ranking score to a probability: logistic in two parameters, fitted online.

p = sigmoid(slope * score / rms + intercept), where rms is a running root mean square of the scores,
so that nothing depends on their unit. Each row makes one Newton step on the weighted log loss with
polynomial forgetting (half of the weight on the most recent half of the rows, later on the last
`MEMORY` rows). The slope stays positive: calibration never changes a ranking.

A new model says the running base rate until both classes were seen. Then it begins with the base rate and hardly any
slope, a prior worth `PRIOR_ROWS` rows, and the intercept follows the count until `SETTLED` rows of the rarer class
were seen. The least curvature is no larger than the share of that class, and the memory is longer by as much: with
the usual one, a class of 1e-5 needs 2e7 rows to be believed. A score beyond `CUT` rms counts as one at `CUT` rms.

Models of the first version keep their own rules. Calibrations inside `Auto` have a third rule, `observe`.
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
    FIRST_RULES,
    NEW_RULES,
    ROWS,
    RULES,
)

MEMORY = 10_000.0  # rows; the slowest forgetting
CUT = 8.0  # a score enters the fit at most this many rms from 0
LEAST_CURVATURE = 0.02  # of p (1 - p): a confident mistake must not make a giant step
LONGEST_STEP = 1.0  # change of the row's own log odds
RIDGE = 1e-3
SLOPE_MIN, SLOPE_MAX = 1e-3, 1e3
INTERCEPT_MAX = 50.0
RMS2_MIN, RMS2_MAX = 1e-200, 1e200

# new models
PRIOR_ROWS = 40.0  # rows that the prior stands for
FIRST_SLOPE = 0.1  # log odds per rms
SETTLED = 20.0  # rows of the rarer class until which the intercept follows the base rate's count
UNCUT = 20.0  # rows before which no score is too large for the scale
YOUNG = 1000.0  # rows after which nothing remains of the scale at the start
LEAST_UNIT = 1e-300  # of the weight of a row: half of the least weight is 0
LARGEST_SCORE = 1e100  # of those that enter the scale

# the calibrations inside of `Auto`
PRIOR = 20.0  # rows that the prior stands for
COUNTED = 200.0  # rows after which the intercept alone follows the base rate


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
    """Take one (score before its update, label, weight), before its row is counted; writes ledger."""
    if ledger[RULES] == FIRST_RULES:
        _calibrate_first(ledger, score, y, weight)
    else:
        _calibrate_new(ledger, score, y, weight)


@jit
def _calibrate_first(ledger, score, y, weight):
    """Take one row by the rules of the first version; writes ledger."""
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
def newton_step(line, z, g, curvature, weight, forget):
    """Add a scaled score z to the curvature, and return the change of (slope, intercept); writes line.

    g : its probability less its label.
    curvature : that of the row, its weight included.

    Its own log odds change by no more than 1.
    """
    h11 = (1.0 - forget) * line[CAL_H11] + curvature * z * z
    h12 = (1.0 - forget) * line[CAL_H12] + curvature * z
    h22 = (1.0 - forget) * line[CAL_H22] + curvature
    line[CAL_H11] = h11
    line[CAL_H12] = h12
    line[CAL_H22] = h22
    r11 = h11 + RIDGE * h22
    r22 = h22 * (1.0 + RIDGE)
    determinant = r11 * r22 - h12 * h12
    if not determinant > 0.0:  # weights so small, or so large, that their products are 0 or infinite
        return 0.0, 0.0
    g *= weight / determinant
    slope_step = (r22 * z - h12) * g
    intercept_step = (r11 - h12 * z) * g
    size = abs(slope_step * z + intercept_step)
    if size > LONGEST_STEP:
        slope_step /= size
        intercept_step /= size
    return slope_step, intercept_step


@jit
def _log_odds(positive, negative, unit):
    """Return the log odds of the base rate, with one more row of each class, of weight `unit`."""
    unit = max(unit, LEAST_UNIT)
    return math.log((positive + unit) / (negative + unit))


@jit
def _next_mean_square(mean_square, score, rows):
    """Return the mean square of the scores with that of row number `rows`; it starts at 1, and forgets that soon."""
    rate = max(1.0 / MEMORY, 2.0 / (rows + 20.0))
    size = min(abs(score), LARGEST_SCORE)
    if rows <= UNCUT:
        rate = max(rate, 1.0 / rows)
    else:
        size = min(size, 10.0 * math.sqrt(mean_square))
    if rows <= YOUNG:
        mean_square = max(0.0, mean_square - _remains(rows))
    mean_square += rate * (size * size - mean_square)
    if rows < YOUNG:
        mean_square += _remains(rows + 1.0)
    return max(RMS2_MIN, min(RMS2_MAX, mean_square))


@jit
def start_line(ledger, log_odds, unit):
    """Start the calibration of a new model with the log odds of the base rate; `unit` is a row's mean weight."""
    ledger[CAL_ON] = 1.0
    ledger[CAL_SLOPE] = FIRST_SLOPE
    ledger[CAL_INTERCEPT] = log_odds
    ledger[CAL_H11] = 0.25 * PRIOR_ROWS * unit
    ledger[CAL_H12] = 0.0
    ledger[CAL_H22] = 0.25 * PRIOR_ROWS * unit
    ledger[CAL_RMS2] = 1.0
    ledger[CAL_ROWS] = 0.0


@jit
def _calibrate_new(ledger, score, y, weight):
    """Take one row by the rules of a new model; writes ledger."""
    positive, negative = ledger[CAL_POSITIVE], ledger[CAL_NEGATIVE]
    before = positive, negative
    if y > 0.0:
        positive += weight
    else:
        negative += weight
    ledger[CAL_POSITIVE] = positive
    ledger[CAL_NEGATIVE] = negative
    rarer = min(positive, negative)
    if rarer == 0.0:
        return
    mass = positive + negative
    seen = ledger[ROWS] + 1.0
    if ledger[CAL_ON] == 0.0:
        start_line(ledger, _log_odds(before[0], before[1], mass / seen), mass / seen)
    rows = ledger[CAL_ROWS] + 1.0
    rms2 = _next_mean_square(ledger[CAL_RMS2], score, rows)
    ledger[CAL_ROWS] = rows
    ledger[CAL_RMS2] = rms2
    z = max(-CUT, min(CUT, score / math.sqrt(rms2)))
    p = sigmoid(ledger[CAL_SLOPE] * z + ledger[CAL_INTERCEPT])
    least = min(LEAST_CURVATURE, rarer / mass)
    forget = max(least * (1.0 / (LEAST_CURVATURE * MEMORY)), 2.0 / (rows + 20.0))
    g = p - (1.0 if y > 0.0 else 0.0)
    curvature = weight * max(p * (1.0 - p), least)
    slope_step, intercept_step = newton_step(ledger, z, g, curvature, weight, forget)
    if not math.isfinite(slope_step + intercept_step):
        return
    intercept = ledger[CAL_INTERCEPT] - intercept_step
    if rarer * seen <= SETTLED * mass:
        unit = mass / seen
        intercept += _log_odds(positive, negative, unit) - _log_odds(before[0], before[1], unit)
    ledger[CAL_SLOPE] = max(SLOPE_MIN, min(SLOPE_MAX, ledger[CAL_SLOPE] - slope_step))
    ledger[CAL_INTERCEPT] = max(-INTERCEPT_MAX, min(INTERCEPT_MAX, intercept))


# -- the calibrations inside of `Auto`: of its members, and of what it serves ---------------------------


@jit
def base_of(ledger):
    """Return the log odds of the base rate, with one more row of each class."""
    return _log_odds(ledger[CAL_POSITIVE], ledger[CAL_NEGATIVE], 1.0)


@jit
def scaled(score, mean_square):
    """Return a score over its root mean square, cut."""
    z = score / math.sqrt(mean_square) if mean_square > 0.0 else score
    return min(CUT, max(-CUT, z))


@jit
def start_calibration(line):
    """Set a calibration to its prior: slope 1, and the base rate; writes line."""
    line[CAL_ON] = 1.0
    line[CAL_SLOPE] = 1.0
    line[CAL_H11] = 0.25 * PRIOR
    line[CAL_H22] = 0.25 * PRIOR


@jit
def calibrated(line, score):
    """Return the log odds of a score."""
    return line[CAL_SLOPE] * scaled(score, line[CAL_RMS2]) + line[CAL_INTERCEPT]


@jit
def observe(line, score, y, weight, served):
    """One Newton step of a calibration on weighted log loss, with a prior and polynomial forgetting; writes line.

    The intercept holds the log odds of the base rate, which is a count for the first rows. Where `served` is 1, the
    scores are log odds that have the base rate already: their scale stays, no step is made until both classes were
    seen, and the least curvature and the memory follow the rarer class.
    """
    z = scaled(score, line[CAL_RMS2])
    g = sigmoid(line[CAL_SLOPE] * z + line[CAL_INTERCEPT]) - (1.0 if y > 0.0 else 0.0)
    rows = line[CAL_ROWS] + 1.0
    least = LEAST_CURVATURE
    if served > 0.0:
        rarer = min(line[CAL_POSITIVE], line[CAL_NEGATIVE]) + 1.0
        least = min(least, rarer / (line[CAL_POSITIVE] + line[CAL_NEGATIVE] + 2.0))
    forget = max(1.0 / MEMORY, 2.0 / (rows + PRIOR))
    square = score * score
    if line[CAL_RMS2] > 0.0:
        square = min(square, 100.0 * line[CAL_RMS2])
    # scores of 0 before the first other one, as in the warm-up of a map, say nothing of the scale
    if served == 0.0:
        line[CAL_RMS2] += (max(forget, 1.0 / rows) if line[CAL_RMS2] > 0.0 else 1.0) * (square - line[CAL_RMS2])
    p = g + (1.0 if y > 0.0 else 0.0)
    curvature = weight * max(p * (1.0 - p), least)
    forget = max(least / LEAST_CURVATURE / MEMORY, 2.0 / (rows + PRIOR))
    slope_step, intercept_step = newton_step(line, z, g, curvature, weight, forget)
    one_class = served > 0.0 and (line[CAL_POSITIVE] == 0.0 or line[CAL_NEGATIVE] == 0.0)
    if one_class:
        slope_step = 0.0
        intercept_step = 0.0
    base = base_of(line)
    line[CAL_ROWS] = rows
    line[CAL_SLOPE] = min(SLOPE_MAX, max(SLOPE_MIN, line[CAL_SLOPE] - slope_step))
    line[CAL_INTERCEPT] = min(50.0, max(-50.0, line[CAL_INTERCEPT] - intercept_step))
    line[CAL_POSITIVE if y > 0.0 else CAL_NEGATIVE] += weight
    if rows <= COUNTED and served == 0.0:
        line[CAL_INTERCEPT] += base_of(line) - base


# -- what all rules share -------------------------------------------------------------------------------


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
def log_odds_line(ledger):
    """Return (slope, intercept, largest score that counts): what makes a score log odds at present."""
    if ledger[CAL_ON] != 0.0:
        rms = math.sqrt(ledger[CAL_RMS2])
        return ledger[CAL_SLOPE] / rms, ledger[CAL_INTERCEPT], CUT * rms if ledger[RULES] == NEW_RULES else math.inf
    mass = ledger[CAL_POSITIVE] + ledger[CAL_NEGATIVE]
    if ledger[RULES] == FIRST_RULES or mass == 0.0 or ledger[ROWS] == 0.0:
        return 0.0, 0.0, math.inf
    return 0.0, _log_odds(ledger[CAL_POSITIVE], ledger[CAL_NEGATIVE], mass / ledger[ROWS]), math.inf


@jit
def probability(ledger, score):
    """Return the probability of a score.

    Until both classes were seen it is the base rate with one more row of each, whatever the score; of a model of the
    first version, one half.
    """
    if ledger[CAL_ON] == 0.0:
        return sigmoid(log_odds_line(ledger)[1])
    z = score / math.sqrt(ledger[CAL_RMS2])
    if ledger[RULES] == NEW_RULES:
        z = max(-CUT, min(CUT, z))
    return sigmoid(ledger[CAL_SLOPE] * z + ledger[CAL_INTERCEPT])


@jit
def probabilities(ledger, scores, out):
    """Write to out (n,) the `probability` of each score (n,)."""
    for i in range(scores.size):
        out[i] = probability(ledger, scores[i])
