"""The score from the sums of all blocks and rates: a Bayesian logistic regression that forgets.

mixture (1 + SUMS, SUMS): the weights, then their covariance.
"""

from __future__ import annotations

from aucstream.kernels.auc.calibration import sigmoid
from aucstream.kernels.jit import jit

RATES = 3  # learning rates of each block, 1, 4 and 16
BLOCKS = 3  # trees, linear, Fourier
SUMS = RATES * BLOCKS + 1  # and a constant
PRIOR_VARIANCE = 0.001
LARGEST_VARIANCE = 0.01  # forgetting never lets the mean variance rise above it
FORGETTING = 0.01  # times 4 pi (1 - pi), pi the share of positives: rare positives, longer memory
LEAST_CURVATURE = 1e-4


@jit
def set_prior(mixture, block, rate, weight):
    """Give the sums of a block their prior: `weight` on one rate, 0 on the others; writes mixture."""
    for q in range(block * RATES, (block + 1) * RATES):
        for a in range(SUMS):
            mixture[1 + q, a] = 0.0
            mixture[1 + a, q] = 0.0
        mixture[1 + q, q] = PRIOR_VARIANCE
        mixture[0, q] = weight if q == block * RATES + rate else 0.0


@jit
def step_mixture(mixture, sums, along, score, base, target, w, share):
    """Take one extended Kalman step on a row of label `target`, 0 or 1; writes mixture, along (SUMS,)."""
    trace = 0.0
    for a in range(SUMS):
        trace += mixture[1 + a, a]
    keep = 1.0 - FORGETTING * 4.0 * share * (1.0 - share)
    if trace < LARGEST_VARIANCE * SUMS * keep:
        for a in range(SUMS):
            for b in range(SUMS):
                mixture[1 + a, b] /= keep
    spread = 0.0
    for a in range(SUMS):
        total = 0.0
        for b in range(SUMS):
            total += mixture[1 + a, b] * sums[b]
        along[a] = total
        spread += total * sums[a]
    p = sigmoid(score + base)
    h = w * max(p * (1.0 - p), LEAST_CURVATURE)
    move = w * (target - p) / (1.0 + h * spread)
    shrink = h / (1.0 + h * spread)
    for a in range(SUMS):
        mixture[0, a] += along[a] * move
        for b in range(SUMS):
            mixture[1 + a, b] -= shrink * along[a] * along[b]
