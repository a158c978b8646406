"""The AUC of arrays: exact, with DeLong's interval and curve, by one sort."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aucstream.metrics.base import Roc, curve, delong_error, interval_of

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class AreaEstimate:
    """An AUC with its standard error; NaN where a class is missing (error: has one row)."""

    auc: float
    standard_error: float

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return (low, high) by DeLong's standard error, inside [0, 1].

        Parameters
        ----------
        level : float, default=0.95
            In (0, 1). Coverage of the interval.

        Returns
        -------
        (float, float)
            Lower and upper end, within [0, 1]; NaN both until the metric is ready.
        """
        return interval_of("AreaEstimate", level, self.auc, self.standard_error)


def area(signs: Floats, scores: Floats) -> AreaEstimate:
    """Return the exact AUC of scores (n,) with labels +1 / -1 (n,), ties one half. O(n log n)."""
    positive = np.sort(scores[signs > 0])
    negative = np.sort(scores[signs <= 0])
    if not positive.size or not negative.size:
        return AreaEstimate(math.nan, math.nan)
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
    return AreaEstimate(auc, error)


def roc(signs: Floats, scores: Floats) -> Roc:
    """Return the ROC curve of scores (n,) with labels +1 / -1 (n,)."""
    values, where = np.unique(scores, return_inverse=True)
    positive = np.bincount(where, weights=signs > 0, minlength=values.size)
    negative = np.bincount(where, weights=signs <= 0, minlength=values.size)
    return curve(values, positive, negative)
