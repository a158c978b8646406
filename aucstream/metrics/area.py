"""The area under the ROC curve of a stream, without River's contract: what `AUC` computes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from aucstream.errors import BadSnapshot
from aucstream.exclusive import Exclusive, Gate, exclusive, lock_free
from aucstream.metrics.base import (
    Arrays,
    Floats,
    Labels,
    Meta,
    Roc,
    check_weight,
    checked_window,
    curve,
    delong_error,
    drained,
    label_of,
    labels_array,
    score_of,
    scores_array,
)
from aucstream.metrics.intervals import area_interval
from aucstream.metrics.stream import Stream
from aucstream.metrics.window import Window


class Area(Exclusive):
    """All of `AUC` but for River's contract; it is described there."""

    _NAME: ClassVar[str] = "AUC"  # in errors
    _UPDATE: ClassVar[str] = "AUC.update"

    def __init__(self, window: int | None = None) -> None:
        self._gate = Gate()
        self.window = None if window is None else checked_window(self._NAME, window)
        self._store: Window | Stream = Stream() if self.window is None else Window(self.window)
        self._buffer = self._store.buffer
        # Rows that wait: whole arrays, and then single ones, of which `_room` more may come.
        self._arrays: list[tuple[Labels, Floats]] = []
        self._rows: list[tuple[int, float]] = []
        self._room = self._buffer
        self._value = math.nan
        self._changed = False

    @lock_free
    def update(self, y_true: Any, y_pred: Any, w: float = 1.0) -> None:
        """Add one row.

        Parameters
        ----------
        y_true : bool, 0, 1, -1
            The label.
        y_pred : float, bool or dict
            The score; of a dict its attribute `score`, else the probability of True.
        w : float
            Ignored, but for one that is no weight.

        Raises
        ------
        InvalidLabel, InvalidBlock
            Neither class; a score that is not finite; a weight below 0 or not finite. Nothing is changed.
        """
        if w != 1.0:
            check_weight(self._UPDATE, w)
        # The comparisons keep the common types out of two calls; inf - inf is NaN, which is not 0.
        if type(y_pred) is not float or y_pred - y_pred != 0.0:
            y_pred = score_of(self._UPDATE, y_pred)
        rows = self._rows
        rows.append((int(y_true) if type(y_true) is bool else label_of(y_true), y_pred))
        self._changed = True
        if len(rows) >= self._room:
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
        values = scores_array(f"{self._NAME}.update_many", scores)
        signs = labels_array(labels, values.size)
        if values.size < self._buffer:
            self.extend(signs, values)
            return
        self._flush()
        self._add(signs, values)

    @lock_free
    def extend(self, labels: Sequence[int] | Labels, scores: Sequence[float] | Floats) -> None:
        """Add rows that need no check, in order. They wait until they are many.

        Parameters
        ----------
        labels : list or ndarray (n,)
            1 or 0.
        scores : list or ndarray (n,)
            Finite. Both are lists, or both are arrays that nobody changes any more.
        """
        if not len(scores):
            return
        if isinstance(scores, np.ndarray):
            self._extend_arrays(np.asarray(labels, dtype=np.uint8), scores)
        else:
            self._rows.extend(zip(labels, scores, strict=True))
        self._changed = True
        if len(self._rows) >= self._room:
            self._flush()

    @exclusive
    def _extend_arrays(self, labels: Labels, scores: Floats) -> None:
        self._gather()
        self._arrays.append((labels, scores))
        self._room -= scores.size

    def _gather(self) -> None:
        """Put the single rows behind the arrays."""
        if self._rows:
            labels, scores = zip(*drained(self._rows), strict=True)
            self._arrays.append((np.array(labels, dtype=np.uint8), np.array(scores, dtype=np.float64)))
            self._room -= len(labels)

    def _add(self, labels: Labels, scores: Floats) -> None:
        if labels.size:
            self._store.add(labels, scores)
            self._changed = True

    @exclusive
    def _flush(self) -> Window | Stream:
        self._gather()
        if self._arrays:
            labels, scores = (np.concatenate(parts) for parts in zip(*self._arrays, strict=True))
            self._arrays.clear()
            self._room = self._buffer
            self._store.add(labels, scores)
        return self._store

    @lock_free
    def get(self) -> float:
        """Return the AUC, NaN until both classes are present.

        Returns
        -------
        float
            In [0, 1]; NaN until rows of both classes came.
        """
        return self._read() if self._changed else self._value

    @exclusive
    def _read(self) -> float:
        self._changed = False  # first: a row that comes from now on sets it again
        if len(self._rows) == 1 and not self._arrays and type(self._store) is Window:
            self._value = self._store.add_one(*self._rows.pop(0))
        else:
            self._value = self._flush().auc()
        return self._value

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
        """Return DeLong's standard error; NaN with fewer than two rows of either class.

        Returns
        -------
        float
            Of the AUC, by DeLong's variance; NaN until two rows of each class came.
        """
        store = self._flush()
        positives, negatives = store.positives, store.examples - store.positives
        if positives < 2 or negatives < 2:
            return math.nan
        return delong_error(*store.variances(), positives, negatives)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return DeLong's (low, high), clipped to [0, 1]; NaN with fewer than two rows of either class.

        Where every positive is above every negative (or below, or ties with it) DeLong's variance is 0. There the
        interval is the one of `intervals.area_interval`: from 0.025 ** (1 / n) to 1 at 95 %, n the rows of the rarer
        class, which covers with that level whatever the scores. It is 0.16 to 1 for 2 rows of each class.

        Parameters
        ----------
        level : float, default=0.95
            In (0, 1). Coverage of the interval.

        Returns
        -------
        (float, float)
            Lower and upper end, within [0, 1]; NaN both until the metric is ready.
        """
        store = self._flush()
        rows = store.positives, store.examples - store.positives
        return area_interval(f"{self._NAME}.interval", level, self.get(), self.standard_error(), *rows)

    def table(self) -> tuple[Floats, Floats, Floats]:
        """Return (scores increasing, positives at each, negatives at each): distinct scores of a window, or estimates.

        Returns
        -------
        (ndarray (k,), ndarray (k,), ndarray (k,))
        """
        store = self._flush()
        return store.table() if isinstance(store, Window) else store.steps()

    def roc(self) -> Roc:
        """Return (fpr, tpr, thresholds), one point a distinct score, the first threshold inf.

        As scikit-learn's `roc_curve(..., drop_intermediate=False)`; rates are NaN for a class that
        is absent. Over the whole stream: estimates at the scores kept, each within `error_bound`.

        Returns
        -------
        Roc
            `fpr`, `tpr` and `thresholds`, each (k,), thresholds falling.
        """
        return curve(*self._flush().curve_points())

    def state_dict(self) -> tuple[Arrays, Meta]:
        """Return (named arrays, JSON-able mapping) from which `from_state_dict` goes on equally.

        Returns
        -------
        (dict of ndarray, dict)
            Arrays and JSON values, for `from_state_dict`.
        """
        arrays, meta = self._flush().state()
        return arrays, {"window": self.window, **meta}

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
        window = meta.get("window", ...)
        if window is not None and (isinstance(window, bool) or not isinstance(window, int) or window < 1):
            raise BadSnapshot(cls._NAME, "a window: a whole number >= 1 or null", window, path="window")
        metric = cls(window)
        metric._store.restore(cls._NAME, arrays, dict(meta))
        metric._changed = True
        return metric
