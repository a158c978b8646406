"""The last n scored rows and their AUC, exact."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aucstream.errors import BadSnapshot
from aucstream.kernels.auc import order, order_build
from aucstream.metrics.base import Arrays, Floats, Labels, Meta, state_array

_FIRST_ROOM = 1024
_WHOLE = 1 << 14  # longest window for which so many rows are held back that it is made anew
_MANY = 12  # a window is made anew in the time in which this part of it slides


class Window:
    """A ring of rows and the counted tree of their scores, both grown by doubling up to `window`."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.buffer = max(512, window) if window <= _WHOLE else 512  # rows that a metric may hold back
        room = min(window, _FIRST_ROOM)
        self.links, self.sums = order.new_tree(room)
        self.ring_keys = np.zeros(room, dtype=np.int64)
        self.ring_labels = np.zeros(room, dtype=np.uint8)
        self.scalars = np.zeros(4, dtype=np.int64)
        self.arrived = 0  # rows taken, up to `window`

    def add(self, labels: Labels, scores: Floats) -> None:
        """Put rows in, in order; the oldest leave."""
        self._reserve(labels.size)
        if labels.size > self.window // _MANY:
            self._make(order.keys_of(scores), labels)
            return
        order.slide(
            self.links,
            self.sums,
            self.ring_keys,
            self.ring_labels,
            self.scalars,
            self.window,
            order.keys_of(scores),
            labels,
        )

    def _make(self, keys: NDArray[np.int64], labels: Labels) -> None:
        """Make the window anew of its rows and those that come; the numbers are those of sliding."""
        if keys.size < self.window:
            old_keys, old_labels = self.rows()
            keys, labels = np.concatenate((old_keys, keys)), np.concatenate((old_labels, labels))
        keys, labels = keys[-self.window :], labels[-self.window :]
        ascending = np.argsort(keys)
        stack = np.empty(keys.size, dtype=np.int64)
        pairs = order_build.build(self.links, self.sums, keys[ascending], labels[ascending], stack)
        self.ring_keys[: keys.size] = keys
        self.ring_labels[: keys.size] = labels
        self.scalars[[order.HEAD, order.FILLED, order.PAIRS]] = 0, keys.size, pairs
        self.scalars[order.POSITIVES] = np.count_nonzero(labels)

    def add_one(self, label: int, score: float) -> float:
        """Put one row in and return the AUC after it, NaN while a class is absent."""
        if self.arrived < self.window:
            self._reserve(1)
        auc: float = order.slide_one(
            self.links, self.sums, self.ring_keys, self.ring_labels, self.scalars, self.window, score, label
        )
        return auc

    def _reserve(self, rows: int) -> None:
        self.arrived = min(self.arrived + rows, self.window)
        room = self.ring_keys.size
        if self.arrived <= room:
            return
        # The ring has not been full yet, so it starts at 0 and can simply become longer.
        more = min(max(self.arrived, 2 * room), self.window) - room
        self.links, self.sums = order.grown_tree(self.links, self.sums, room + more)
        self.ring_keys = np.concatenate((self.ring_keys, np.zeros(more, dtype=np.int64)))
        self.ring_labels = np.concatenate((self.ring_labels, np.zeros(more, dtype=np.uint8)))

    @property
    def examples(self) -> int:
        """Rows in the window."""
        return int(self.scalars[order.FILLED])

    @property
    def positives(self) -> int:
        """Positives in the window."""
        return int(self.scalars[order.POSITIVES])

    @property
    def error_bound(self) -> float:
        """Always 0.0."""
        return 0.0

    def auc(self) -> float:
        """The AUC, NaN while a class is absent."""
        auc: float = order.window_auc(self.scalars)
        return auc

    def table(self) -> tuple[Floats, Floats, Floats]:
        """Return (distinct scores increasing, positives at each, negatives at each)."""
        rows = self.examples
        keys = np.empty(rows, dtype=np.int64)
        pos, neg = np.empty(rows), np.empty(rows)
        count = order.table(self.links, self.sums, keys, pos, neg, np.empty(rows, dtype=np.int64))
        return order.scores_of(keys[:count]), pos[:count], neg[:count]

    def rows(self) -> tuple[NDArray[np.int64], Labels]:
        """Return (keys, labels) in order of arrival."""
        room = self.ring_keys.size
        where = (int(self.scalars[order.HEAD]) + np.arange(self.examples)) % max(room, 1)
        return self.ring_keys[where], self.ring_labels[where]

    def variances(self) -> tuple[float, float]:
        """Return the variances of the placements of positives and of negatives."""
        _, pos, neg = self.table()
        _, of_pos, of_neg = order.placements(pos, neg, float(self.positives), float(self.examples - self.positives))
        return of_pos, of_neg

    def curve_points(self) -> tuple[Floats, Floats, Floats]:
        """Return the table: the curve is exact."""
        return self.table()

    def state(self) -> tuple[Arrays, Meta]:
        """Return the rows of the window; the tree follows from them."""
        keys, labels = self.rows()
        return {"scores": order.scores_of(keys), "labels": labels}, {}

    def restore(self, where: str, arrays: Arrays, meta: Meta) -> None:
        """Put a saved state into this empty window."""
        scores = state_array(where, arrays, "scores", np.float64, (None,))
        labels = state_array(where, arrays, "labels", np.uint8, scores.shape)
        if scores.size > self.window or not np.isfinite(scores).all() or (labels > 1).any():
            raise BadSnapshot(where, f"up to {self.window} finite scores with labels 0 and 1", scores.size)
        self.add(labels, scores)
