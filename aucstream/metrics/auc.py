"""The area under the ROC curve of a stream: over the last n rows exactly, or over all of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from aucstream.errors import BadSnapshot
from aucstream.metrics.base import (
    Arrays,
    Floats,
    Labels,
    Meta,
    RankingMetric,
    Roc,
    checked_window,
    curve,
    delong_error,
    label_of,
    labels_array,
    quantile_of,
    score_of,
    scores_array,
)
from aucstream.metrics.stream import Stream
from aucstream.metrics.window import Window


class AUC(RankingMetric):
    """The probability that a positive is scored above a negative, ties one half.

    With `window=n`: exact over the last n rows, in integer arithmetic, so it never drifts.
    Without: over the whole stream in bounded memory; exact until a class has shown 32,768 distinct
    scores, then wrong by at most `error_bound`, which stays below 1e-4, on scores of any scale and
    in any order. Scores are ranked as they are; no thresholds, no assumption of probabilities.

    Parameters
    ----------
    window : int, optional
        Rows to look back on. None: the whole stream.

    Attributes
    ----------
    ready : bool
        Whether both classes are present; until then the AUC is NaN.
    examples, positives : int
        Rows, and positive rows, of the window or the stream.
    error_bound : float
        Certified bound of abs(get() - exact AUC); 0.0 for a window.

    Notes
    -----
    Window: update O(log n), read O(1), interval and curve O(n); 81 bytes a row of the window.
    Whole stream: update O(1) amortised; a read costs O(entries), about 1 ms. A class takes
    40 bytes an entry, 40,960 entries (3.3 MB for both classes) on ordinary streams; where the order
    of scores works against the summary more, about 10,000 a class at each doubling of the stream,
    never more than 270,336 a class (21.6 MB for both). Should a stream reach that (at the growth
    measured, not within 10^11 rows), memory is kept and `error_bound` rises instead.
    Rows are handed to compiled code together, 512 or 8,192 at a time, or when something is read; a
    read changes nothing in what follows. Weights do not enter the AUC: `w` is accepted and ignored.

    References
    ----------
    .. [1] D. Brzezinski, J. Stefanowski, "Prequential AUC: properties of the area under the ROC
       curve for data streams with concept drift", KAIS 2017.
    .. [2] M. Greenwald, S. Khanna, "Space-efficient online computation of quantile summaries",
       SIGMOD 2001.
    .. [3] E. DeLong, D. DeLong, D. Clarke-Pearson, "Comparing the areas under two or more
       correlated ROC curves", Biometrics 1988.

    Examples
    --------
    >>> metric = AUC(window=1000)
    >>> for label, score in [(1, 0.9), (0, 0.1), (0, 0.8), (1, 0.3)]:
    ...     metric.update(label, score)
    >>> metric
    AUC: 75.00%
    >>> metric.examples, metric.positives
    (4, 2)
    """

    def __init__(self, window: int | None = None) -> None:
        super().__init__()
        self.window = None if window is None else checked_window("AUC", window)
        self._store: Window | Stream = Stream() if self.window is None else Window(self.window)
        self._buffer = self._store.buffer
        self._labels: list[int] = []
        self._scores: list[float] = []
        self._value: float | None = math.nan

    def update(self, y_true: Any, y_pred: Any, w: float = 1.0) -> None:
        """Add one row.

        Parameters
        ----------
        y_true : bool, 0, 1, -1
            The label.
        y_pred : float, bool or dict
            The score; of a dict its attribute `score`, else the probability of True.
        w : float
            Ignored.

        Raises
        ------
        InvalidLabel, InvalidBlock
            Neither class; a score that is not finite. Nothing is changed.
        """
        # The comparisons keep the common types out of two calls; inf - inf is NaN, which is not 0.
        if type(y_pred) is not float or y_pred - y_pred != 0.0:
            y_pred = score_of("AUC.update", y_pred)
        scores = self._scores
        self._labels.append(int(y_true) if type(y_true) is bool else label_of(y_true))
        scores.append(y_pred)
        self._value = None
        if len(scores) >= self._buffer:
            self._flush()

    def update_many(self, labels: Any, scores: Any) -> None:
        """Add rows in order, in one compiled call.

        Parameters
        ----------
        labels : array_like (n,)
            True, 1 or False, 0, -1.
        scores : array_like of float (n,)
            Finite.
        """
        values = scores_array("AUC.update_many", scores)
        signs = labels_array(labels, values.size)
        self._flush()
        self._add(signs, values)

    def _add(self, labels: Labels, scores: Floats) -> None:
        if labels.size:
            self._store.add(labels, scores)
            self._value = None

    def _flush(self) -> Window | Stream:
        if self._scores:
            labels = np.array(self._labels, dtype=np.uint8)
            scores = np.array(self._scores, dtype=np.float64)
            self._labels.clear()
            self._scores.clear()
            self._store.add(labels, scores)
        return self._store

    def get(self) -> float:
        """Return the AUC, NaN until both classes are present."""
        value = self._value
        if value is None:
            if len(self._scores) == 1 and type(self._store) is Window:
                value = self._store.add_one(self._labels.pop(), self._scores.pop())
            else:
                value = self._flush().auc()
            self._value = value
        return value

    @property
    def ready(self) -> bool:
        """Whether both classes are present."""
        store = self._flush()
        return 0 < store.positives < store.examples

    @property
    def examples(self) -> int:
        """Rows of the window, or of the stream."""
        return self._flush().examples

    @property
    def positives(self) -> int:
        """Positive rows of the window, or of the stream."""
        return self._flush().positives

    @property
    def error_bound(self) -> float:
        """Certified bound of the error of `get()`; 0.0 for a window and for few distinct scores."""
        return self._flush().error_bound

    def standard_error(self) -> float:
        """Return DeLong's standard error; NaN with fewer than two rows of either class."""
        store = self._flush()
        positives, negatives = store.positives, store.examples - store.positives
        if positives < 2 or negatives < 2:
            return math.nan
        return delong_error(*store.variances(), positives, negatives)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return DeLong's (low, high), clipped to [0, 1]; NaN with fewer than two rows of either class.

        Where every positive is above every negative (or below), the interval is that one point:
        DeLong's variance is 0 there.
        """
        half = quantile_of("AUC.interval", level) * self.standard_error()
        if math.isnan(half):
            return math.nan, math.nan
        auc = self.get()
        return max(0.0, auc - half), min(1.0, auc + half)

    def roc(self) -> Roc:
        """Return (fpr, tpr, thresholds), one point a distinct score, the first threshold inf.

        As scikit-learn's `roc_curve(..., drop_intermediate=False)`; rates are NaN for a class that
        is absent. Over the whole stream: estimates at the scores kept, each within `error_bound`.
        """
        return curve(*self._flush().curve_points())

    def state_dict(self) -> tuple[Arrays, Meta]:
        """Return (named arrays, JSON-able mapping) from which `from_state_dict` goes on equally."""
        arrays, meta = self._flush().state()
        return arrays, {"window": self.window, **meta}

    @classmethod
    def from_state_dict(cls, arrays: Arrays, meta: Mapping[str, Any]) -> Self:
        """Return the metric that `state_dict` described, equal to the last bit in all that follows.

        Raises
        ------
        BadSnapshot
            Not such a state, or damaged.
        """
        window = meta.get("window", ...)
        if window is not None and (isinstance(window, bool) or not isinstance(window, int) or window < 1):
            raise BadSnapshot("AUC", "a window: a whole number >= 1 or null", window, path="window")
        metric = cls(window)
        metric._store.restore("AUC", arrays, dict(meta))
        metric._value = None
        return metric
