"""Intervals of shares and of means that are honest at the ends, where no error was seen and a variance is 0."""

from __future__ import annotations

import math
from statistics import NormalDist

from aucstream.errors import InvalidParams

NO_INTERVAL = (math.nan, math.nan)


def normal_quantile(where: str, level: float) -> float:
    """Return how many standard errors the interval of a level reaches to either side; raises InvalidParams."""
    if not isinstance(level, (int, float)) or not 0.0 < level < 1.0:
        raise InvalidParams(f"{where}.level", "a number in (0, 1)", level)
    return NormalDist().inv_cdf(0.5 + level / 2.0)


def unanimous(level: float, trials: float) -> float:
    """Return the least probability of an event that `trials` independent trials in a row may all have shown.

    An event of probability p shows n times in n trials with probability p ** n, which is below (1 - level) / 2 for
    every p below the value: the end of Clopper and Pearson's interval.
    """
    return ((1.0 - level) / 2.0) ** (1.0 / trials) if trials > 0.0 else 0.0


def wilson(share: float, trials: float, z: float) -> tuple[float, float]:
    """Return Wilson's interval of a share of so many trials; it is no point at 0 and 1. NaN without trials."""
    if not trials > 0.0:
        return NO_INTERVAL
    spread = z * z / trials
    middle = (share + spread / 2.0) / (1.0 + spread)
    half = math.sqrt(spread * (share * (1.0 - share) + spread / 4.0)) / (1.0 + spread)
    return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))


def logit_interval(share: float, error: float, level: float, trials: float, z: float) -> tuple[float, float]:
    """Return the interval of a share that is symmetric in its log odds; at 0 and 1, `unanimous`.

    Parameters
    ----------
    share : float
        Estimate in [0, 1].
    error : float
        Its standard error.
    level : float
    trials : float
        Rows that are independent of each other: what an error of 0 stands on.
    z : float
        `normal_quantile` of the level.
    """
    if math.isnan(share) or math.isnan(error):
        return NO_INTERVAL
    slack = 1.0 - unanimous(level, trials)
    if share >= 1.0:
        return 1.0 - slack, 1.0
    if share <= 0.0:
        return 0.0, slack
    if error <= 0.0:
        return max(0.0, share - slack), min(1.0, share + slack)
    middle = math.log(share / (1.0 - share))
    half = z * error / (share * (1.0 - share))
    return _sigmoid(middle - half), _sigmoid(middle + half)


def _sigmoid(z: float) -> float:
    e = math.exp(-min(700.0, abs(z)))
    return (1.0 if z >= 0.0 else e) / (1.0 + e)


def area_interval(
    where: str, level: float, auc: float, error: float, positives: float, negatives: float
) -> tuple[float, float]:
    """Return the interval of an AUC: DeLong's, cut at 0 and 1; where its variance is 0, one that holds for certain.

    DeLong's variance is 0 where all pairs of a positive and a negative were ranked alike: right, wrong, or tied. Of
    n = min(positives, negatives) pairs without a common row each is ranked alike with the same probability p, and all
    with p ** n. If that is to be at least (1 - level) / 2, p is at least ((1 - level) / 2) ** (1 / n), and the AUC is
    at most 1 - p from 0 and 1, and half of that from 1/2. It covers with the level at least, whatever the scores.

    Parameters
    ----------
    where : str
        Of the error.
    level : float
        In (0, 1).
    auc, error : float
        The AUC and its standard error; NaN gives NaN.
    positives, negatives : float
        Rows of each class, or effective numbers of them.
    """
    half = normal_quantile(where, level) * error
    if math.isnan(half) or math.isnan(auc):
        return NO_INTERVAL
    if error == 0.0:
        slack = 1.0 - unanimous(level, min(positives, negatives))
        half = slack / 2.0 if 0.25 < auc < 0.75 else slack
    return max(0.0, auc - half), min(1.0, auc + half)
