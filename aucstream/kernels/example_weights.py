"""What an example's weight multiplies a step by, so that heavy weights never make a step unstable.

A step om eta is stable for weights about 1, as eta is chosen for those. Only ratios of weights can mean more:
so where weights are heavy in the mean, steps carry them relative to that mean, and no row more than `MOST`
times the mean of its class. Both classes are divided and cut alike: a learner whose steps carried other ratios
than its class means and shares would have another fixed point, or none (a9a, the positives weighing 10, AUC of
SOLAM: one bound for all steps .588, these rules .900). Weights of 1 give exactly 1.
"""

from __future__ import annotations

from aucstream.kernels.jit import jit
from aucstream.kernels.ledger import CAL_NEGATIVE, CAL_POSITIVE, POSITIVES, ROWS

MOST = 2.0


@jit
def by_share(weight, rows, mass, other_rows, other_mass):
    """Return what a weight counts in a step whose slope has the weighted share of the other class as a factor.

    `rows`, `mass`: those of the row's class and their weights, the row included. A step of size g turns
    (x, -1), of length sqrt(2) for a row of norm kappa, by the factor 1 - 4 q g: over the rows of a class 4 q g
    has the mean 4 q eta (mass / rows), which is divided here by what it exceeds 4 eta by.
    """
    mean = mass / rows
    excess = mean
    if other_rows > 0.0:
        excess = mass / (mass + other_mass) * (other_mass / min(rows, other_rows))
    return min(weight, MOST * max(1.0, mean)) / max(1.0, excess)


@jit
def by_class(ledger, y, weight, mass_pos, mass_neg):
    """Return `by_share` of a row, from the classes' weights with it and the ledger before it."""
    positives, negatives = ledger[POSITIVES], ledger[ROWS] - ledger[POSITIVES]
    if y > 0.0:
        return by_share(weight, positives + 1.0, mass_pos, negatives, mass_neg)
    return by_share(weight, negatives + 1.0, mass_neg, positives, mass_pos)


@jit
def by_mean(ledger, y, weight):
    """Return what a weight counts in a step whose slope has no share: no class has a mean above 1.

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
    heavier = max(1.0, own)
    if positives > 0.0:
        heavier = max(heavier, mass_pos / positives)
    if negatives > 0.0:
        heavier = max(heavier, mass_neg / negatives)
    return min(weight, MOST * max(1.0, own)) / heavier
