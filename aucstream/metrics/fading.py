"""The area under the ROC curve with a memory that fades."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from aucstream.errors import BadSnapshot, InvalidParams
from aucstream.exclusive import exclusive, lock_free
from aucstream.kernels.auc import fading, order
from aucstream.metrics.base import (
    Arrays,
    Floats,
    Labels,
    Meta,
    Roc,
    check_weight,
    curve,
    delong_error,
    drained,
    label_of,
    labels_array,
    score_of,
    scores_array,
    state_array,
)
from aucstream.metrics.contract import RankingMetric
from aucstream.metrics.intervals import area_interval

FORGOTTEN = 1e-9  # weight below which a row is dropped
_BUFFER = 512  # rows taken one at a time before they go to the kernel together
_FIRST_ROOM = 1024
_LOWEST, _HIGHEST = 0.01, 0.99999


class FadingAUC(RankingMetric):
    """The AUC in which every new row multiplies the weight of all earlier rows by `decay`.

    A pair of a positive and a negative weighs the product of their weights, ties count one half.
    No edge as a window has: a row's influence falls smoothly, by half in log(0.5) / log(decay) rows.

    Parameters
    ----------
    decay : float, default=0.999
        In [0.01, 0.99999].

    Attributes
    ----------
    rows : int
        Rows remembered at most: ceil(log(1e-9) / log(decay)), at least 2; 20,713 for 0.999.
    ready : bool
        Whether both classes are remembered; until then the AUC is NaN.
    examples, positives : int
        Rows, and positive rows, remembered.

    Notes
    -----
    Update O(log n), read O(1), interval and curve O(n), n = `rows`. Memory 81 bytes a row: 1.7 MB
    for 0.999, 168 MB for 0.99999. Rows are dropped when their weight has fallen below 1e-9: what is
    dropped weighs at most 1e-9 of all rows that ever were, so the AUC moves by at most
    2e-9 / (share of the rarer class in the weight), and a class not seen for `rows` rows is
    forgotten. Apart from that the AUC is exact up to rounding (below 1e-9).
    The weights fade by age alone; `w` is accepted and ignored.

    Examples
    --------
    >>> metric = FadingAUC(decay=0.5)
    >>> metric.update_many([1, 0, 0, 1], [0.9, 0.1, 0.8, 0.3])
    >>> round(metric.get(), 6)
    0.407407
    """

    def __init__(self, decay: float = 0.999) -> None:
        super().__init__()
        if isinstance(decay, bool) or not isinstance(decay, (int, float)) or not _LOWEST <= decay <= _HIGHEST:
            raise InvalidParams("FadingAUC.decay", f"a number in [{_LOWEST}, {_HIGHEST}]", decay)
        self.decay = float(decay)
        self.rows = max(2, math.ceil(math.log(FORGOTTEN) / math.log(self.decay)))
        room = min(self.rows, _FIRST_ROOM)
        self._links, self._sums = order.new_tree(room, np.float64)
        self._ring_keys = np.zeros(room, dtype=np.int64)
        self._ring_labels = np.zeros(room, dtype=np.uint8)
        self._scalars = np.zeros(4, dtype=np.int64)
        self._totals = np.zeros(3)
        self._rows: list[tuple[int, float]] = []  # that wait

    @lock_free
    def update(self, y_true: Any, y_pred: Any, w: float = 1.0) -> None:
        """Add one row; the arguments are those of `AUC.update`.

        Parameters
        ----------
        y_true : bool
        y_pred : float, dict or int
            A finite score, or what `predict_proba_one` returned.
        w : float
            Ignored, but for one that is no weight.

        Raises
        ------
        InvalidLabel, InvalidBlock
            Nothing was added.
        """
        if w != 1.0:
            check_weight("FadingAUC.update", w)
        score = score_of("FadingAUC.update", y_pred)
        self._rows.append((label_of(y_true), score))
        if len(self._rows) >= _BUFFER:
            self._flush()

    def update_many(self, labels: Any, scores: Any) -> None:
        """Add rows in order, in one compiled call; the arguments are those of `AUC.update_many`.

        Parameters
        ----------
        labels : array (n,)
        scores : array (n,)
            Finite.

        Raises
        ------
        InvalidLabel, InvalidBlock
            Nothing was added.
        """
        values = scores_array("FadingAUC.update_many", scores)
        signs = labels_array(labels, values.size)
        self._flush()
        self._add(signs, values)

    @exclusive
    def _flush(self) -> None:
        if self._rows:
            labels, scores = zip(*drained(self._rows), strict=True)
            self._add(np.array(labels, dtype=np.uint8), np.array(scores, dtype=np.float64))

    def _add(self, labels: Labels, scores: Floats) -> None:
        self._reserve(min(int(self._scalars[fading.FILLED]) + labels.size, self.rows))
        fading.fade(
            self._links,
            self._sums,
            self._ring_keys,
            self._ring_labels,
            self._scalars,
            self._totals,
            self.rows,
            self.decay,
            order.keys_of(scores),
            labels,
        )

    def _reserve(self, rows: int) -> None:
        room = self._ring_keys.size
        if rows <= room:
            return
        # The ring has not been full yet, so it starts at 0 and can simply become longer.
        more = min(max(rows, 2 * room), self.rows) - room
        self._links, self._sums = order.grown_tree(self._links, self._sums, room + more)
        self._ring_keys = np.concatenate((self._ring_keys, np.zeros(more, dtype=np.int64)))
        self._ring_labels = np.concatenate((self._ring_labels, np.zeros(more, dtype=np.uint8)))

    @property
    def examples(self) -> int:
        """Rows remembered."""
        self._flush()
        return int(self._scalars[fading.FILLED])

    @property
    def positives(self) -> int:
        """Positive rows remembered."""
        self._flush()
        return int(self._scalars[fading.ROWS_POS])

    @property
    def ready(self) -> bool:
        """Whether both classes are remembered."""
        return 0 < self.positives < self.examples

    def get(self) -> float:
        """Return the AUC, NaN until both classes are present.

        Returns
        -------
        float
            In [0, 1]; NaN until rows of both classes came.
        """
        self._flush()
        if not 0 < self._scalars.item(fading.ROWS_POS) < self._scalars.item(fading.FILLED):
            return math.nan
        pairs, mass_pos, mass_neg = self._totals.tolist()
        return min(1.0, max(0.0, pairs / (2.0 * mass_pos * mass_neg)))

    @property
    def effective_examples(self) -> tuple[float, float]:
        """Effective numbers (Kish) of positives and negatives: squared sum of weights by sum of squares."""
        self._flush()
        filled = int(self._scalars[fading.FILLED])
        where = (int(self._scalars[fading.HEAD]) + np.arange(filled)) % self._ring_labels.size
        weights = self.decay ** np.arange(filled - 1, -1, -1, dtype=np.float64)
        positive = self._ring_labels[where] == 1
        counts = []
        for part in (weights[positive], weights[~positive]):
            counts.append(float(part.sum() ** 2 / np.square(part).sum()) if part.size else 0.0)
        return counts[0], counts[1]

    def _table(self) -> tuple[Floats, Floats, Floats]:
        rows = self.examples
        keys = np.empty(rows, dtype=np.int64)
        pos, neg = np.empty(rows), np.empty(rows)
        count = order.table(self._links, self._sums, keys, pos, neg, np.empty(rows, dtype=np.int64))
        return order.scores_of(keys[:count]), np.maximum(pos[:count], 0.0), np.maximum(neg[:count], 0.0)

    def standard_error(self) -> float:
        """Return an approximate standard error: DeLong's, weighted, with effective numbers of rows.

        Returns
        -------
        float
            Of the AUC, by DeLong's variance; NaN until two rows of each class came.
        """
        if not self.ready:
            return math.nan
        _, pos, neg = self._table()
        _, of_pos, of_neg = order.placements(pos, neg, float(pos.sum()), float(neg.sum()))
        return delong_error(of_pos, of_neg, *self.effective_examples)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return an approximate (low, high), clipped to [0, 1]; NaN where there is no standard error.

        Where the standard error is 0, that of `AUC.interval` with the effective numbers of rows.

        Parameters
        ----------
        level : float, default=0.95
            In (0, 1). Coverage of the interval.

        Returns
        -------
        (float, float)
            Lower and upper end, within [0, 1]; NaN both until the metric is ready.
        """
        error = self.standard_error()
        rows = self.effective_examples if error == 0.0 else (0.0, 0.0)
        return area_interval("FadingAUC.interval", level, self.get(), error, *rows)

    def roc(self) -> Roc:
        """Return the weighted (fpr, tpr, thresholds), one point a distinct score, the first threshold inf.

        Returns
        -------
        Roc
            `fpr`, `tpr` and `thresholds`, each (k,), thresholds falling.
        """
        return curve(*self._table())

    def state_dict(self) -> tuple[Arrays, Meta]:
        """Return (named arrays, JSON-able mapping) from which `from_state_dict` goes on equally.

        Returns
        -------
        (dict of ndarray, dict)
            Arrays and JSON values, for `from_state_dict`.
        """
        self._flush()
        arrays: Arrays = {
            "links": self._links.copy(),
            "sums": self._sums.copy(),
            "keys": self._ring_keys.copy(),
            "labels": self._ring_labels.copy(),
            "scalars": self._scalars.copy(),
            "totals": self._totals.copy(),
        }
        return arrays, {"decay": self.decay}

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
        where = "FadingAUC"
        try:
            metric = cls(meta.get("decay"))  # type: ignore[arg-type]
        except InvalidParams as error:
            raise BadSnapshot(where, error.expected, error.got, path="decay") from error
        keys = state_array(where, arrays, "keys", np.int64, (None,))
        room = keys.size
        links = state_array(where, arrays, "links", np.int64, (room + 1, 5))
        scalars = state_array(where, arrays, "scalars", np.int64, (4,))
        head, filled, age, positives = scalars.tolist()
        nodes = links[:, [order.LEFT, order.RIGHT]]
        fits = (
            0 < room <= metric.rows
            and 0 <= head < room
            and 0 <= positives <= filled <= min(room, age)
            and age <= 2 * metric.rows
            and nodes.min() >= 0
            and nodes.max() <= room + 1
        )
        if not fits:
            raise BadSnapshot(where, f"a state of at most {metric.rows} rows", scalars.tolist(), path="scalars")
        metric._ring_keys = keys
        metric._links = links
        metric._sums = state_array(where, arrays, "sums", np.float64, (room + 1, 4))
        metric._ring_labels = state_array(where, arrays, "labels", np.uint8, (room,))
        metric._scalars = scalars
        metric._totals = state_array(where, arrays, "totals", np.float64, (3,))
        return metric
