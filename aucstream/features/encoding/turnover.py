"""Which names may have a column of a vocabulary: how often a name has to be seen, and which one leaves.

A name waits until it was seen in `min_count` learned rows; the row that completes them is the first that carries it.
At most `room` names wait: then the one seen least recently is forgotten, and is counted anew when it comes again. So
counts are exact as long as no more than `room` names wait at once.

With eviction each column has the number of the last learned row that had its name. Where no column is free, a new name
takes the one with the smallest number, and of equal ones that of the smallest index. A name of the row at hand never
leaves. All of this follows from the learned rows, in their order, and from nothing else.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from aucstream.block import Ints
from aucstream.features.encoding.entries import Name

Eviction = Literal["none", "least-recent"]
NONE, LEAST_RECENT = "none", "least-recent"


@dataclass(slots=True)
class Sight:
    """What a row that is learned shows, noted once its step is taken.

    Attributes
    ----------
    columns : sequence of int
        Of its names.
    waiting : list of str or int
        Its names without a column, in their order.
    entered : list of str or int
        Names that have got a column by it.
    dropped : list of str or int
        Those of them that there is no room for.
    """

    columns: Sequence[int] | Ints
    waiting: list[Name] = field(default_factory=list)
    entered: list[Name] = field(default_factory=list)
    dropped: list[Name] = field(default_factory=list)


class Turnover:
    """What decides which names come and go.

    Parameters
    ----------
    min_count : int
        Learned rows in which a name is seen before it has a column, >= 1.
    evicts : bool
        Whether a new name takes the column of the one least recently seen.
    room : int
        Most names that wait.

    Attributes
    ----------
    clock : int
        Learned rows so far.
    seen : ndarray of int64
        By column, the clock of the last row that had it; at least as long as there are columns.
    waiting : OrderedDict
        Names without a column to the rows that had them, the least recent first.
    evictions : int
        Names that have left so far.
    """

    def __init__(self, min_count: int, evicts: bool, room: int) -> None:
        self.min_count = min_count
        self.evicts = evicts
        self.room = room
        self.clock = 0
        self.seen: Ints = np.zeros(8, dtype=np.int64)
        self.waiting: OrderedDict[Name, int] = OrderedDict()
        self.evictions = 0
        self._order: (
            Ints  # columns as they were seen, and the clock of each then; those before `_at` have left or moved
        )
        self._numbers: Ints
        self._at: int
        self.reorder()

    # -- waiting -----------------------------------------------------------------------------------

    def count(self, name: Name) -> int:
        """Return in how many learned rows a name without a column was seen."""
        return self.waiting.get(name, 0)

    def _wait(self, name: Name, rows: int = 1) -> None:
        waiting = self.waiting
        waiting[name] = min(waiting.get(name, 0) + rows, self.min_count)
        waiting.move_to_end(name)

    def _trim(self) -> None:
        while len(self.waiting) > self.room:
            self.waiting.popitem(last=False)

    # -- columns -----------------------------------------------------------------------------------

    def widen(self, width: int) -> None:
        """Make room for `width` columns."""
        if width > self.seen.size:
            grown = np.zeros(max(width, 2 * self.seen.size), dtype=np.int64)
            grown[: self.seen.size] = self.seen
            self.seen = grown

    def limit(self, min_count: int, evicts: bool, room: int) -> None:
        """Set what decides, from the next row on."""
        if evicts and not self.evicts:
            self.seen[:] = 0
            self.reorder()
        self.min_count, self.evicts, self.room = min_count, evicts, room
        if min_count == 1:
            self.waiting.clear()
        for name, count in self.waiting.items():
            self.waiting[name] = min(count, min_count)
        self._trim()

    def note(self, sight: Sight) -> None:
        """Take a learned row."""
        self.clock += 1
        if self.evicts and len(sight.columns):
            self.seen[np.asarray(sight.columns, dtype=np.int64)] = self.clock
        for name in sight.entered:
            self.waiting.pop(name, None)
        if self.min_count > 1:
            for name in sight.waiting:
                self._wait(name)
            self._trim()

    def leave_out(self, sight: Sight) -> None:
        """Take of a row whose step was skipped that it gave columns to names."""
        for name in sight.entered:
            self.waiting.pop(name, None)
        self.reorder()

    def merge(self, other: Turnover | None, columns: Ints, index: Mapping[Name, int]) -> None:
        """Take what another turnover has seen, as if both streams had ended just now.

        `columns` : of the other's columns, -1: none. `index` : the columns of names.
        """
        if other is None:
            return
        known = columns >= 0
        ages = other.clock - other.seen[: columns.size][known]
        np.maximum.at(self.seen, columns[known], self.clock - ages)
        self.reorder()
        if self.min_count > 1:
            for name, count in other.waiting.items():
                if name not in index:
                    self._wait(name, count)
            self._trim()

    def note_rows(self, indptr: Ints, columns: Ints, learned: np.ndarray) -> None:
        """Take rows all of whose names have columns, but for those that were not learned (n,)."""
        numbers = self.clock + np.cumsum(learned)
        self.clock += int(np.count_nonzero(learned))
        if self.evicts:
            of_entries = np.repeat(np.where(learned, numbers, -1), np.diff(indptr))
            there = of_entries >= 0
            np.maximum.at(self.seen, columns[there], of_entries[there])

    def oldest(self, width: int, busy: Collection[int]) -> int | None:
        """Return the column among the first `width` that was seen least recently and is not busy; None: all are.

        It is asked for columns of one row until that row is noted, or `reorder` is called.
        """
        if len(busy) >= width:
            return None
        for sorts in (False, True):
            if sorts:
                order = np.argsort(self.seen[:width], kind="stable").astype(np.int64)
                # without those of the row at hand: later ones of the same row would belong among them
                self._order = order[: int(np.searchsorted(self.seen[order], self.clock, side="right"))]
                self._numbers = self.seen[self._order]
                self._at = 0
            while self._at < self._order.size:
                column: int = self._order.item(self._at)
                is_current = self.seen.item(column) == self._numbers.item(self._at)  # else its place is further back
                self._at += 1
                if is_current and column not in busy:
                    return column
        return None

    def reorder(self) -> None:
        """Let no earlier answer of `oldest` count."""
        self._order = self._numbers = np.empty(0, dtype=np.int64)
        self._at = 0
