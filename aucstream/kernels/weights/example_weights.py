"""What an example's weight multiplies a step by, so that heavy weights never make a step unstable.

A step om eta is stable for weights about 1, as eta is chosen for those; weights up to `PLAIN` multiply it as they
are. Only ratios of weights can mean more: so where weights are heavy in the mean, steps carry them relative to
that mean, and no row more than `MOST` times the mean of its class. Both classes are divided and cut alike: a
learner whose steps carried other ratios than its class means and shares would have another fixed point, or none
(a9a, the positives weighing 10, AUC of SOLAM: one bound for all steps .588, these rules .900).
"""

from __future__ import annotations

from aucstream.kernels.jit import jit
from aucstream.kernels.ledger import CAL_NEGATIVE, CAL_POSITIVE, POSITIVES, ROWS

PLAIN = 2.0
MOST = 2.0


@jit
def effective_weight(weight, mean, excess):
    """Return what a weight counts where the rows of its class weigh `mean`, and a mean step `excess` times eta."""
    most, divisor = MOST * max(1.0, mean), max(1.0, excess)
    if excess <= PLAIN:
        return min(weight, max(PLAIN, most / divisor))
    return min(weight, most) / divisor


@jit
def by_share(weight, rows, mass, other_rows, other_mass):
    """Return what a weight counts in a step whose slope has the weighted share of the other class as a factor.

    `rows`, `mass`: those of the row's class and their weights, the row included. A step of size g turns
    (x, -1), of length sqrt(2) for a row of norm kappa, by the factor 1 - 4 q g: over the rows of a class 4 q g
    has the mean 4 q eta (mass / rows): what that exceeds 4 eta by is the excess.
    """
    mean = mass / rows
    excess = mean
    if other_rows > 0.0:
        excess = mass / (mass + other_mass) * (other_mass / min(rows, other_rows))
    return effective_weight(weight, mean, excess)


@jit
def by_class(ledger, y, weight, mass_pos, mass_neg):
    """Return `by_share` of a row, from the classes' weights with it and the ledger before it."""
    positives, negatives = ledger[POSITIVES], ledger[ROWS] - ledger[POSITIVES]
    if y > 0.0:
        return by_share(weight, positives + 1.0, mass_pos, negatives, mass_neg)
    return by_share(weight, negatives + 1.0, mass_neg, positives, mass_pos)


@jit
def by_mean(ledger, y, weight):
    """Return what a weight counts in a step whose slope has no share: the excess is the mean of the heavier class.

    The ledger does not have the row yet.
    """
    positives, negatives = ledger[POSITIVES], ledger[ROWS] - ledger[POSITIVES]
    mass_pos, mass_neg = ledger[CAL_POSITIVE], ledger[CAL_NEGATIVE]
    if y > 0.0:
        positives += 1.0
        mass_pos += weight
        own = mass_pos / positives
    else:
        negatives += 1.0
        mass_neg += weight
        own = mass_neg / negatives
    heavier = own
    if positives > 0.0:
        heavier = max(heavier, mass_pos / positives)
    if negatives > 0.0:
        heavier = max(heavier, mass_neg / negatives)
    return effective_weight(weight, own, heavier)
