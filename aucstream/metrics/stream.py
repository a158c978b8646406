"""The AUC of a whole stream from two quantile summaries, one a class, in bounded memory.

Bound. Let D_c be the largest error of the estimated distribution function of class c, where an
atom counts half at itself. The AUC is the integral of the negatives' function against the
positives' distribution. Replace the first: the integral moves by at most D_neg. Replace the
second: integrate by parts (exact with halves at atoms), it moves by at most D_pos. A summary
whose gaps are at most t rows wide, estimated in the middle, has D <= t / (2 n). `compress` keeps
t <= n / 10,000 in each class, hence |error| <= 1/20,000 + 1/20,000 = 1e-4 for every stream,
every scale and every order of scores. `error_bound` is the sum of the two at the present gaps.

Memory. A class takes 40 bytes an entry: up to 32,768 + 8,192 entries on ordinary streams, more
only where the order of scores works against the summary: 94,188 after 16 million scores that zoom
into one point, some 10,000 more at each doubling. No summary that only compares can escape that
logarithm, so the memory has a hard end, LIMIT entries a class: past it entries are merged beyond
the tolerance and `error_bound` says what is true then.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from aucstream.errors import BadSnapshot
from aucstream.kernels.auc import order, quantiles
from aucstream.metrics.base import Arrays, Floats, Labels, Meta, state_array, state_number

TOLERANCE = 10_000  # gaps of a class hold at most 1/10,000 of its rows: 5e-5 a class, 1e-4 in all
BATCH = 8192  # rows between compressions; the space bound of the paper allows up to TOLERANCE
EXACT = 1 << 15  # distinct scores of a class below which nothing is merged
LIMIT = 1 << 18  # entries of a class, whatever comes: 21 MB for both classes


class Summary:
    """The scores of one class."""

    def __init__(self) -> None:
        self.values: Floats = np.empty(256)
        self.counts: NDArray[np.int64] = np.zeros((256, 4), dtype=np.int64)
        self.size = 0
        self.rows = 0

    def add(self, scores: Floats) -> None:
        """Insert scores, in any order."""
        if scores.size == 0:
            return
        need = self.size + scores.size
        if need > self.values.size:
            room = max(need, min(2 * self.values.size, EXACT + BATCH))
            self._resize(room)
        self.size = quantiles.absorb(self.values, self.counts, self.size, np.sort(scores))
        self.rows += scores.size

    def _resize(self, room: int) -> None:
        values, counts = np.empty(room), np.zeros((room, 4), dtype=np.int64)
        values[: self.size] = self.values[: self.size]
        counts[: self.size] = self.counts[: self.size]
        self.values, self.counts = values, counts

    def compress(self) -> None:
        """Merge entries if there are more than are kept exactly."""
        if self.size <= EXACT:
            return
        tolerance = self.rows // TOLERANCE
        self.size = quantiles.compress(self.values, self.counts, self.size, tolerance)
        while self.size > LIMIT:
            tolerance = 2 * tolerance + 1
            self.size = quantiles.compress(self.values, self.counts, self.size, tolerance)

    @property
    def error(self) -> float:
        """The largest error of the distribution function."""
        return quantiles.widest(self.counts, self.size) / (2 * self.rows) if self.rows else 0.0


class Stream:
    """Both classes. Insertion does not depend on how rows were grouped; compression goes by row count."""

    buffer = BATCH  # rows that a metric may hold back

    def __init__(self) -> None:
        self.pos = Summary()
        self.neg = Summary()

    def add(self, labels: Labels, scores: Floats) -> None:
        """Add rows, in order."""
        scores = scores + 0.0  # -0.0 equals 0.0
        start = 0
        while start < labels.size:
            stop = min(labels.size, start + BATCH - self.examples % BATCH)
            chunk, positive = scores[start:stop], labels[start:stop] == 1
            self.pos.add(chunk[positive])
            self.neg.add(chunk[~positive])
            if self.examples % BATCH == 0:
                self.pos.compress()
                self.neg.compress()
            start = stop

    @property
    def examples(self) -> int:
        """Rows seen."""
        return self.pos.rows + self.neg.rows

    @property
    def positives(self) -> int:
        """Positives seen."""
        return self.pos.rows

    @property
    def error_bound(self) -> float:
        """What the AUC can be wrong by, at most."""
        return self.pos.error + self.neg.error

    def _points(self) -> tuple[Floats, NDArray[np.uint8], Floats, Floats]:
        pos, neg = self.pos, self.neg
        room = 3 * (pos.size + neg.size)
        scores, places, p, n = np.empty(room), np.empty(room, dtype=np.uint8), np.empty(room), np.empty(room)
        k = quantiles.side_by_side(
            pos.values, pos.counts, pos.size, neg.values, neg.counts, neg.size, scores, places, p, n
        )
        return scores[:k], places[:k], p[:k], n[:k]

    def _placements(self) -> tuple[float, float, float]:
        _, _, p, n = self._points()
        auc, of_pos, of_neg = order.placements(p, n, 2.0 * self.pos.rows, 2.0 * self.neg.rows)
        return auc, of_pos, of_neg

    def auc(self) -> float:
        """The AUC within `error_bound`, NaN while a class is absent."""
        return self._placements()[0] if 0 < self.positives < self.examples else math.nan

    def variances(self) -> tuple[float, float]:
        """Return the variances of the placements of positives and of negatives."""
        return self._placements()[1:]

    def steps(self) -> tuple[Floats, Floats, Floats]:
        """Return (scores, estimated positives, estimated negatives) of all places, scores increasing."""
        scores, _, p, n = self._points()
        return scores, p / 2.0, n / 2.0

    def curve_points(self) -> tuple[Floats, Floats, Floats]:
        """Return (scores kept, estimated positives from each up to the next, the same of negatives)."""
        scores, places, p, n = self._points()
        starts = np.flatnonzero(places == 1)
        if starts.size == 0:
            return scores, p, n
        # What lies just below a score belongs to the threshold before it.
        return scores[starts], np.add.reduceat(p, starts) / 2.0, np.add.reduceat(n, starts) / 2.0

    def state(self) -> tuple[Arrays, Meta]:
        """Return both summaries."""
        arrays: Arrays = {}
        for name, summary in (("positive", self.pos), ("negative", self.neg)):
            arrays[f"{name}_scores"] = summary.values[: summary.size].copy()
            arrays[f"{name}_counts"] = summary.counts[: summary.size, :3].copy()
        return arrays, {"positives": self.pos.rows, "negatives": self.neg.rows}

    def restore(self, where: str, arrays: Arrays, meta: Meta) -> None:
        """Put a saved state into this empty stream."""
        for name, summary in (("positive", self.pos), ("negative", self.neg)):
            values = state_array(where, arrays, f"{name}_scores", np.float64, (None,))
            counts = state_array(where, arrays, f"{name}_counts", np.int64, (values.size, 3))
            rows = state_number(where, meta, f"{name}s")
            ordered = np.isfinite(values).all() and (np.diff(values) > 0).all()
            if not ordered or (counts < 0).any() or int(counts[:, :2].sum()) != rows:
                raise BadSnapshot(where, f"increasing scores whose counts add up to {rows}", path=f"{name}_scores")
            summary._resize(max(values.size, 256))
            summary.values[: values.size] = values
            summary.counts[: values.size, :3] = counts
            summary.size, summary.rows = values.size, rows
