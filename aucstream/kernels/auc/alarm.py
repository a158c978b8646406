"""The excess of log loss over its own expectation: what tells that probabilities have stopped being right.

While probabilities p are right, (p - y) logit(p) has mean 0 and variance p (1 - p) logit(p)^2, given all rows before.
The fading sum of the first over the root of the fading sum of the second is then about N(0, 1), but where rare rows
make up most of the variance one of them alone would be a large deviation: so the largest fading term, squared, is added
to the variance (calibrated probabilities of mean .0015, alarms at 4 in 2,000,000 rows: 62 without it, 0 with it).

The sum falls no lower than 2 deviations below 0: probabilities that were too cautious would else hide a change for long.
"""

from __future__ import annotations

import math

from aucstream.kernels.jit import jit

EXCESS, VARIANCE, LARGEST, QUIET = range(4)  # layout of the state; QUIET: rows in which no other alarm is given
SIZE = 4

HALF_LIFE = 300.0  # rows
KEEP = 0.5 ** (1.0 / HALF_LIFE)
THRESHOLD = 4.0  # standard deviations
LOWEST = -2.0  # standard deviations
LEAST = 1e-6  # a probability enters no closer to 0 or 1


@jit
def observe_loss(state, at, keep, p, y):
    """Take one probability from before its label; writes state from position `at` on.

    keep : 0.5 ** (1 / half_life).
    y : > 0 is positive.
    """
    p = min(max(p, LEAST), 1.0 - LEAST)
    odds = math.log(p / (1.0 - p))
    state[at + QUIET] = max(0.0, state[at + QUIET] - 1.0)
    excess = (p - (1.0 if y > 0.0 else 0.0)) * odds
    state[at + EXCESS] = keep * state[at + EXCESS] + excess
    state[at + LARGEST] = max(keep * state[at + LARGEST], excess)
    state[at + VARIANCE] = keep * keep * state[at + VARIANCE] + p * (1.0 - p) * odds * odds
    state[at + EXCESS] = max(state[at + EXCESS], LOWEST * _deviation(state, at))


@jit
def _deviation(state, at):
    """Return the standard deviation of the excess."""
    return math.sqrt(state[at + VARIANCE] + state[at + LARGEST] * state[at + LARGEST])


@jit
def strength(state, at):
    """Return the excess in standard deviations; 0 before the first row."""
    deviation = _deviation(state, at)
    return state[at + EXCESS] / deviation if deviation > 0.0 else 0.0


@jit
def raised(state, at, threshold, quiet):
    """Return whether the excess is above `threshold`; then it starts anew, and `quiet` rows give no other alarm."""
    if state[at + QUIET] > 0.0 or strength(state, at) <= threshold:
        return False
    state[at + EXCESS] = 0.0
    state[at + VARIANCE] = 0.0
    state[at + LARGEST] = 0.0
    state[at + QUIET] = quiet
    return True
