"""Reads the dicts of one encoder in compiled code, as far as they are plain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from aucstream.block import Floats, Ints
from aucstream.kernels.jit import RowCall
from aucstream.native import dicts
from aucstream.native.guard import COMPILED

_NUMBERS = frozenset({float, int, bool})
_NAMES = frozenset({str, int})

_READ = RowCall(dicts.read_one, int, int, int)
_READ_ALL = RowCall(dicts.read_all, *[int] * 8)

_EQUALS = "="
MOST_WORDS = 1 << 16  # strings that are known at once: others are looked up by their one-hot names, which takes longer


class Reader:
    """A table for `native.dicts` and what its addresses point to.

    A row is plain where its names are known and its values are numbers, bools, None or strings noted before. It is read by one call,
    the faster for having the names of the row before, in their order.

    Parameters
    ----------
    index : dict
        Name to column; names that it lacks are known in rows of the same names as the one before only.
    adds : bool
        Whether names may share a column: then the values of a row are added by column.
    whole : bool
        Whether the index has the one-hot names of strings, too, and they are all that a string stands for.
    """

    __slots__ = (
        "_adds",
        "_fresh",
        "_index",
        "_kinds",
        "_kinds_at",
        "_marks",
        "_names",
        "_places",
        "_pointed",
        "_since",
        "_word_count",
        "_words",
        "address",
        "idx",
        "table",
        "val",
    )

    def __init__(self, index: dict[Any, int], *, adds: bool = False, whole: bool = False) -> None:
        self.table: Ints = np.zeros(dicts.SIZE, dtype=np.int64)
        self.address = self.table.ctypes.data
        for slot, constant in (
            (dicts.DICT, dict),
            (dicts.FLOAT, float),
            (dicts.INT, int),
            (dicts.STRING, str),
            (dicts.TRUE, True),
            (dicts.FALSE, False),
            (dicts.NONE, None),
            (dicts.EQUALS, _EQUALS),
        ):
            self.table[slot] = id(constant)
        self._index = index
        self.table[dicts.INDEX] = id(index)
        self._words: dict[str, dict[str, int]] = {}
        self._fresh: list[tuple[dict[str, int], str, int]] = []  # strings noted since there were `_since` columns
        self._since = 0
        self.table[dicts.WORDS] = id(self._words)
        self.table[dicts.NEXT_COLUMN] = dicts.NO_LIMIT
        self._kinds: np.ndarray | None = None
        self._kinds_at = 0
        self._adds = adds
        self.table[dicts.WHOLE] = whole
        self.make_room(16)
        self.forget()

    @property
    def is_compiled(self) -> bool:
        """Whether rows are read by compiled code."""
        return COMPILED

    @property
    def words(self) -> dict[str, dict[str, int]]:
        """Name to dict of string to column."""
        return self._words

    def make_room(self, entries: int) -> None:
        """Make room for rows of at least so many entries."""
        if entries > self.table.item(dicts.ROOM):
            self._enlarge(2 * entries)

    def _enlarge(self, entries: int) -> None:
        self.idx: Ints = np.empty(entries, dtype=np.int64)
        self.val: Floats = np.empty(entries)
        self.table[[dicts.ROOM, dicts.COLUMNS, dicts.VALUES]] = entries, self.idx.ctypes.data, self.val.ctypes.data
        if self._adds:
            self._places: Ints = np.zeros(1 << (2 * entries).bit_length(), dtype=np.int64)
            self.table[[dicts.EQUAL_COLUMNS, dicts.EQUAL_SLOTS]] = self._places.ctypes.data, self._places.size

    def guess(self, names: list[Any], idx: Ints) -> None:
        """Expect these names, in these columns, in the next rows."""
        n = len(names)
        self.make_room(n)
        addresses = np.array([id(name) for name in names], dtype=np.int64)
        columns = idx.copy()
        self._names, self._pointed = names, (addresses, columns)
        self.table[[dicts.GUESSED, dicts.GUESSED_NAMES, dicts.GUESSED_COLUMNS]] = (
            n,
            addresses.ctypes.data,
            columns.ctypes.data,
        )

    def forget(self) -> None:
        """Expect nothing."""
        self.guess([], self.idx[:0])
        self._forget_words()

    def _forget_words(self) -> None:
        self._words.clear()
        self._word_count = 0
        self._fresh.clear()
        self._note_marks(np.zeros(0, dtype=np.uint8))

    def expect_new(self, column: int, end: int, kinds: np.ndarray, reads_words: bool) -> None:
        """Give columns to the new names of the next rows, to each row anew, until `expect_known`.

        Parameters
        ----------
        column : int
            Of the first new name.
        end : int
            New names that would have this column or a later one are left out.
        kinds : ndarray of uint8
            By column, zero from `column` on.
        reads_words : bool
            Whether strings may be new.
        """
        table = self.table
        if kinds is not self._kinds:
            self._kinds, self._kinds_at = kinds, kinds.ctypes.data
            table[dicts.KIND_COUNT] = kinds.size
        table[dicts.KINDS] = self._kinds_at if reads_words else 0
        table[dicts.END_COLUMN] = end
        table[dicts.NEXT_COLUMN] = table[dicts.REACHED] = column

    def expect_known(self) -> None:
        """Let rows with new names be not plain, as at first."""
        table = self.table
        column = table.item(dicts.NEXT_COLUMN)
        if column != dicts.NO_LIMIT:
            table[dicts.NEXT_COLUMN] = dicts.NO_LIMIT
            reached = table.item(dicts.REACHED)
            if reached > column and self._kinds is not None:
                self._kinds[column:reached] = 0

    def mark(self, width: int) -> None:
        """Remember that there were so many columns: `rewind` may come back to them."""
        self._fresh.clear()
        self._since = width

    def rewind(self, width: int) -> None:
        """Know nothing of the columns from `width` on."""
        if self._since > width:
            self.forget()
            return
        for words, word, column in self._fresh:
            if column >= width:
                del words[word]
                self._word_count -= 1
                self._marks[column] = 0
        self._fresh.clear()
        if self._pointed[1].max(initial=-1) >= width:
            self.guess([], self.idx[:0])

    def forget_column(self, column: int, name: Any) -> None:
        """Know nothing of a column whose name leaves."""
        if (self._pointed[1] == column).any():
            self.guess([], self.idx[:0])
        if column >= self._marks.size or not self._marks[column]:
            return
        self._marks[column] = 0
        self._fresh = [fresh for fresh in self._fresh if fresh[2] != column]
        at = name.find("=")
        while at >= 0:  # the one-hot name of one of these names and strings
            words = self._words.get(name[:at])
            if words is not None and words.get(name[at + 1 :]) == column:
                del words[name[at + 1 :]]
                self._word_count -= 1
                if not words:
                    del self._words[name[:at]]
                return
            at = name.find("=", at + 1)

    @property
    def last_columns(self) -> Ints:
        """Columns of the row that compiled code read last, valid until the next."""
        return self.idx[: self.table.item(dicts.LENGTH)]

    def _note_marks(self, marks: np.ndarray) -> None:
        self._marks = marks
        self.table[[dicts.MARKED, dicts.MARKS]] = marks.size, marks.ctypes.data

    def note(self, x: Mapping[Any, Any]) -> None:
        """Know the strings of this row from now on, as far as their one-hot names have columns of their own.

        A row that has such a column under its literal name, too, is not plain.
        """
        for name, word in x.items():
            if type(word) is str and type(name) is str:
                column = self._index.get(f"{name}={word}")
                if column is not None:
                    self.note_word(name, word, column)

    def note_word(self, name: str, word: str, column: int) -> None:
        """Know a string under a name from now on, if its column is no other pair's; at most `MOST_WORDS` at once."""
        if self._word_count >= MOST_WORDS:
            self._forget_words()
        words = self._words.setdefault(name, {})
        if word in words:
            return
        if column >= self._marks.size:
            more = max(column + 64, 2 * self._marks.size) - self._marks.size
            self._note_marks(np.concatenate([self._marks, np.zeros(more, dtype=np.uint8)]))
        if not self._marks[column]:  # else it is that of another name and string: a=b, c and a, b=c
            self._marks[column] = 1
            words[word] = column
            self._word_count += 1
            if not COMPILED and column in self._pointed[1]:  # a literal name that is one-hot from now on
                self.guess([], self.idx[:0])
            self._fresh.append((words, word, column))

    def read(self, x: Any) -> tuple[Ints, Floats] | None:
        """Return (columns, values) of a plain row; None for another."""
        if not COMPILED:
            return self._read_as_before(x)
        n: int = _READ.dense(id(x), self.address, dicts.NO_LIMIT)
        return None if n < 0 else (self.idx[:n].copy(), self.val[:n].copy())

    def _read_as_before(self, x: Any) -> tuple[Ints, Floats] | None:
        """Return (columns, values) of a dict of numbers with the names of the row before, in their order."""
        if type(x) is not dict or [*x] != self._names or not _NAMES.issuperset(map(type, x)):
            return None
        values = [*x.values()]
        if not _NUMBERS.issuperset(map(type, values)):
            return None
        try:
            return self._pointed[1], np.array(values, dtype=np.float64)
        except OverflowError:  # an integer beyond any float
            return None

    def read_all(self, rows: Sequence[Any]) -> tuple[Ints, Ints, Floats] | None:
        """Return (indptr, columns, values) of plain rows, row after row; None where one is not plain."""
        several = ManyRows(rows)
        if not several.reads_on or self.read_on(several, 0) < len(several.rows):
            return None
        return several.entries()

    def read_on(self, several: ManyRows, start: int) -> int:
        """Read dicts from `start` on; return the number of the first that is not plain, or for which there is no room."""
        rows, size = several.rows, several.idx.size
        stop: int = _READ_ALL.dense(id(rows), start, len(rows), self.address, *several.addresses, size)
        return stop


class ManyRows:
    """Rows that are read one after the other.

    Parameters
    ----------
    rows : sequence of dict

    Attributes
    ----------
    rows : list of dict
    indptr, idx, val : ndarray
        What was read of them.
    addresses : tuple
        Of these three.
    reads_on : bool
        Whether `Reader.read_on` takes them: they are dicts, and it is compiled.
    """

    __slots__ = ("addresses", "idx", "indptr", "reads_on", "rows", "val")

    def __init__(self, rows: Sequence[Any]) -> None:
        self.rows = list(rows)
        self.reads_on = COMPILED and {*map(type, self.rows)} <= {dict}
        size = sum(map(len, self.rows)) if self.reads_on else 8 * len(self.rows)
        self.indptr: Ints = np.zeros(len(self.rows) + 1, np.int64)
        self.idx: Ints = np.empty(size, np.int64)
        self.val: Floats = np.empty(size)
        self._point()

    def _point(self) -> None:
        self.addresses = self.indptr.ctypes.data, self.idx.ctypes.data, self.val.ctypes.data

    def put(self, number: int, idx: Ints, val: Floats) -> None:
        """Put a row that was read another way; those before it have been read."""
        start = self.indptr.item(number)
        end = start + idx.size
        if end > self.idx.size:
            more = end + self.idx.size
            self.idx, self.val = np.resize(self.idx, 2 * more), np.resize(self.val, 2 * more)
            self._point()
        self.idx[start:end], self.val[start:end] = idx, val
        self.indptr[number + 1] = end

    def entries(self) -> tuple[Ints, Ints, Floats]:
        """Return (indptr, columns, values)."""
        end = self.indptr.item(-1)
        return self.indptr, self.idx[:end], self.val[:end]
