"""Names that come and go, written as plainly as can be: the specification of `Vocabulary`."""

from __future__ import annotations


class PlainVocabulary:
    """Columns of names; every row is learned.

    Attributes
    ----------
    column : dict
        Of each name that has one.
    last : dict
        Name to the number of the last row that had it, from 1.
    waiting : dict
        Names without a column to the rows that had them, the least recent first.
    dropped : set
        Names that there was no room for.
    """

    def __init__(self, capacity: int, min_count: int = 1, eviction: str = "none") -> None:
        self.capacity, self.min_count, self.eviction = capacity, min_count, eviction
        self.column: dict[str, int] = {}
        self.last: dict[str, int] = {}
        self.waiting: dict[str, int] = {}
        self.dropped: set[str] = set()
        self.rows = self.evictions = self.entries_dropped = 0

    def learn(self, names: list[str]) -> tuple[dict[str, int], list[int]]:
        """Take a row; return the columns of those of its names that have one, and the columns that others had before."""
        self.rows += 1
        for name in names:
            if name in self.column:
                self.last[name] = self.rows
        vacated = []
        for name in names:
            if name in self.column:
                continue
            count = self.waiting.pop(name, 0) + 1
            if count < self.min_count:
                self._wait(name, count)
                continue
            if len(self.column) < self.capacity:
                self.column[name] = len(self.column)
            else:
                others = [other for other in self.column if other not in names]
                if self.eviction == "none" or not others:
                    self.dropped.add(name)
                    self.entries_dropped += 1
                    if self.min_count > 1:
                        self._wait(name, self.min_count)
                    continue
                oldest = min(others, key=lambda other: (self.last[other], self.column[other]))
                self.column[name] = self.column.pop(oldest)
                vacated.append(self.column[name])
                self.evictions += 1
            self.last[name] = self.rows
        while len(self.waiting) > self.capacity:
            del self.waiting[next(iter(self.waiting))]
        return {name: self.column[name] for name in names if name in self.column}, sorted(vacated)

    def _wait(self, name: str, count: int) -> None:
        self.waiting[name] = count
