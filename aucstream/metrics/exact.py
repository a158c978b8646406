"""The AUC of arrays: exact, with DeLong's interval and curve, by one sort."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aucstream.metrics.base import Roc, curve, delong_error
from aucstream.metrics.intervals import area_interval

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class AreaEstimate:
    """An AUC with its standard error; NaN where a class is missing (error: has one row).

    Attributes
    ----------
    auc, standard_error : float
    positives, negatives : int
        Rows of each class.
    """

    auc: float
    standard_error: float
    positives: int = 0
    negatives: int = 0

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return (low, high) as `AUC.interval`, inside [0, 1].

        Parameters
        ----------
        level : float, default=0.95
            In (0, 1). Coverage of the interval.

        Returns
        -------
        (float, float)
            Lower and upper end, within [0, 1]; NaN both until the metric is ready.
        """
        return area_interval("AreaEstimate", level, self.auc, self.standard_error, self.positives, self.negatives)


def area(signs: Floats, scores: Floats) -> AreaEstimate:
    """Return the exact AUC of scores (n,) with labels +1 / -1 (n,), ties one half. O(n log n)."""
    positive = np.sort(scores[signs > 0])
    negative = np.sort(scores[signs <= 0])
    if not positive.size or not negative.size:
        return AreaEstimate(math.nan, math.nan, positive.size, negative.size)
    # placements: the share of the other class below, ties one half
    below = np.searchsorted(negative, positive, "left") + np.searchsorted(negative, positive, "right")
    above = 2 * positive.size - (
        np.searchsorted(positive, negative, "left") + np.searchsorted(positive, negative, "right")
    )
    auc = int(below.sum()) / (2 * positive.size * negative.size)
    error = delong_error(
        float(np.var(below / (2.0 * negative.size))),
        float(np.var(above / (2.0 * positive.size))),
        positive.size,
        negative.size,
    )
    return AreaEstimate(auc, error, positive.size, negative.size)


def roc(signs: Floats, scores: Floats) -> Roc:
    """Return the ROC curve of scores (n,) with labels +1 / -1 (n,)."""
    values, where = np.unique(scores, return_inverse=True)
    positive = np.bincount(where, weights=signs > 0, minlength=values.size)
    negative = np.bincount(where, weights=signs <= 0, minlength=values.size)
    return curve(values, positive, negative)
