"""The score from the sums of all blocks and rates: a Bayesian logistic regression that forgets.

mixture (1 + SUMS, SUMS): the weights, then their covariance.
"""

from __future__ import annotations

from aucstream.kernels.jit import jit
from aucstream.kernels.weights.kalman import kalman_step

RATES = 3  # learning rates of each block, 1, 4 and 16
BLOCKS = 3  # trees, linear, Fourier
SUMS = RATES * BLOCKS + 1  # and a constant
PRIOR_VARIANCE = 0.001
LARGEST_VARIANCE = 0.01  # forgetting never lets the mean variance rise above it
FORGETTING = 0.01  # times 4 pi (1 - pi), pi the share of positives: rare positives, longer memory


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
    forgetting = FORGETTING * 4.0 * share * (1.0 - share)
    kalman_step(mixture[0], mixture[1:], sums, along, score + base, target, w, forgetting, LARGEST_VARIANCE * SUMS)
