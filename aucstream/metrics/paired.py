"""Two scores on the same rows: which ranks better, and is the difference more than chance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from aucstream.errors import BadSnapshot
from aucstream.exclusive import Exclusive, Gate, exclusive, lock_free
from aucstream.kernels.auc import order
from aucstream.metrics.base import (
    Arrays,
    Floats,
    Labels,
    Meta,
    Roc,
    checked_window,
    curve,
    drained,
    interval_of,
    label_of,
    labels_array,
    score_of,
    scores_array,
    state_array,
)
from aucstream.metrics.window import Window

_BUFFER = 512  # rows taken one at a time before they go to the kernel together


class PairedAUC(Exclusive):
    """The difference of the AUCs of two scores on the last n rows, with DeLong's test for pairs.

    Two models that scored the same rows err on the same rows; the test takes that into account,
    so it sees smaller differences than two separate intervals.

    Parameters
    ----------
    window : int
        Rows to look back on.

    Attributes
    ----------
    ready : bool
        Whether both classes are present; until then everything is NaN.
    examples, positives : int
        Rows, and positive rows, of the window.

    Notes
    -----
    Update O(log n); the AUCs and their difference O(1) and exact; standard error, z, p-value and
    interval O(n log n). 162 bytes a row of the window.

    References
    ----------
    .. [1] E. DeLong, D. DeLong, D. Clarke-Pearson, "Comparing the areas under two or more
       correlated ROC curves", Biometrics 1988.

    Examples
    --------
    >>> metric = PairedAUC(window=100)
    >>> rows = [(1, 0.9, 0.2), (0, 0.1, 0.3), (1, 0.7, 0.8), (0, 0.4, 0.1)]
    >>> for label, score_a, score_b in rows:
    ...     metric.update(label, score_a, score_b)
    >>> metric.auc_a, metric.auc_b, metric.difference
    (1.0, 0.75, 0.25)
    """

    def __init__(self, window: int) -> None:
        self._gate = Gate()
        self.window = checked_window("PairedAUC", window)
        self._a = Window(self.window)
        self._b = Window(self.window)
        self._rows: list[tuple[int, float, float]] = []
        self._variance: float | None = None

    def __repr__(self) -> str:
        return f"PairedAUC(window={self.window}): {self.difference:+.4f}"

    @lock_free
    def update(self, y_true: Any, score_a: Any, score_b: Any) -> None:
        """Add one row: its label and two scores, each as in `AUC.update`.

        Parameters
        ----------
        y_true : bool
        score_a, score_b : float or dict
            A finite score, or what `predict_proba_one` returned.

        Raises
        ------
        InvalidLabel, InvalidBlock
            Nothing was added.
        """
        a = score_of("PairedAUC.update, score_a", score_a)
        b = score_of("PairedAUC.update, score_b", score_b)
        self._rows.append((label_of(y_true), a, b))
        if len(self._rows) >= _BUFFER:
            self._flush()

    def update_many(self, labels: Any, scores_a: Any, scores_b: Any) -> None:
        """Add rows in order: labels and two arrays of finite scores, all (n,).

        Parameters
        ----------
        labels : array (n,)
        scores_a, scores_b : array (n,)
            Finite.

        Raises
        ------
        InvalidLabel, InvalidBlock
            Nothing was added.
        """
        a = scores_array("PairedAUC.update_many, scores_a", scores_a)
        b = scores_array("PairedAUC.update_many, scores_b", scores_b)
        signs = labels_array(labels, a.size)
        labels_array(labels, b.size)
        self._flush()
        self._add(signs, a, b)

    @exclusive
    def _flush(self) -> None:
        if self._rows:
            labels, a, b = zip(*drained(self._rows), strict=True)
            self._add(np.array(labels, dtype=np.uint8), np.array(a), np.array(b))

    def _add(self, labels: Labels, a: Floats, b: Floats) -> None:
        self._a.add(labels, a)
        self._b.add(labels, b)
        self._variance = None

    @property
    def examples(self) -> int:
        """Rows of the window."""
        self._flush()
        return self._a.examples

    @property
    def positives(self) -> int:
        """Positive rows of the window."""
        self._flush()
        return self._a.positives

    @property
    def ready(self) -> bool:
        """Whether both classes are present."""
        return 0 < self.positives < self.examples

    @property
    def auc_a(self) -> float:
        """The AUC of the first score."""
        return self._auc(self._a)

    @property
    def auc_b(self) -> float:
        """The AUC of the second score."""
        return self._auc(self._b)

    def _auc(self, of: Window) -> float:
        self._flush()
        return of.auc() if 0 < of.positives < of.examples else math.nan

    @property
    def difference(self) -> float:
        """The AUC of the first score minus that of the second."""
        return self._auc(self._a) - self._auc(self._b)

    def get(self) -> float:
        """Return `difference`.

        Returns
        -------
        float
            The difference of the two AUCs, in [-1, 1]; NaN until rows of both classes came.
        """
        return self.difference

    def standard_error(self) -> float:
        """Return DeLong's standard error of the difference; NaN with fewer than two rows of a class.

        Returns
        -------
        float
            Of the difference, by DeLong's covariance; NaN until two rows of each class came.
        """
        positives, negatives = self.positives, self.examples - self.positives
        if positives < 2 or negatives < 2:
            return math.nan
        if self._variance is None:
            (keys_a, labels), (keys_b, _) = self._a.rows(), self._b.rows()
            halves = np.empty(labels.size, dtype=np.int64)
            order.differences(self._a.links, self._a.sums, keys_a, self._b.links, self._b.sums, keys_b, labels, halves)
            of_pos = halves[labels == 1] / (2.0 * negatives)
            of_neg = halves[labels == 0] / (2.0 * positives)
            self._variance = float(of_pos.var(ddof=1) / positives + of_neg.var(ddof=1) / negatives)
        return math.sqrt(self._variance)

    @property
    def z(self) -> float:
        """Difference by standard error: 0 where both are 0, infinite where only the error is."""
        error, difference = self.standard_error(), self.difference
        if error == 0.0:
            return math.copysign(math.inf, difference) if difference else 0.0
        return difference / error

    @property
    def p_value(self) -> float:
        """Probability, if both scores ranked equally well, of a difference at least this large (two-sided)."""
        return math.erfc(abs(self.z) / math.sqrt(2.0))

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return (low, high) of the difference, clipped to [-1, 1].

        Parameters
        ----------
        level : float, default=0.95
            In (0, 1). Coverage of the interval.

        Returns
        -------
        (float, float)
            Lower and upper end of the difference; NaN both until the metric is ready.
        """
        return interval_of("PairedAUC.interval", level, self.difference, self.standard_error(), -1.0)

    def roc(self) -> tuple[Roc, Roc]:
        """Return the curves of the first and of the second score, each as `AUC.roc`.

        Returns
        -------
        (Roc, Roc)
            Of the first and of the second score.
        """
        self._flush()
        return curve(*self._a.curve_points()), curve(*self._b.curve_points())

    def state_dict(self) -> tuple[Arrays, Meta]:
        """Return (named arrays, JSON-able mapping) from which `from_state_dict` goes on equally.

        Returns
        -------
        (dict of ndarray, dict)
            Arrays and JSON values, for `from_state_dict`.
        """
        self._flush()
        (keys_a, labels), (keys_b, _) = self._a.rows(), self._b.rows()
        arrays: Arrays = {
            "labels": labels,
            "scores_a": order.scores_of(keys_a),
            "scores_b": order.scores_of(keys_b),
        }
        return arrays, {"window": self.window}

    @classmethod
    def from_state_dict(cls, arrays: Arrays, meta: Mapping[str, Any]) -> Self:
        """Return the metric that `state_dict` described, equal to the last bit in all that follows.

        Parameters
        ----------
        arrays : dict of ndarray
        meta : dict
            What `state_dict` returned.

        Returns
        -------
        metric
            One that goes on to the same bits.

        Raises
        ------
        BadSnapshot
            An array or a value is missing or of another form.
        """
        window = meta.get("window")
        if isinstance(window, bool) or not isinstance(window, int) or window < 1:
            raise BadSnapshot("PairedAUC", "a window: a whole number >= 1", window, path="window")
        metric = cls(window)
        labels = state_array("PairedAUC", arrays, "labels", np.uint8, (None,))
        for name, store in (("scores_a", metric._a), ("scores_b", metric._b)):
            scores = state_array("PairedAUC", arrays, name, np.float64, labels.shape)
            store.restore("PairedAUC", {"scores": scores, "labels": labels}, {})
        return metric
