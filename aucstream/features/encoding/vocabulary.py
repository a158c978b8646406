"""Exact names: every new name gets the next column, up to a capacity; then it is left out, or an old one leaves."""

from __future__ import annotations

import json
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, NamedTuple

import numpy as np

from aucstream.block import Floats, Ints
from aucstream.constraints import CheckedBy, Ge, Size, rules_of
from aucstream.errors import CannotMerge, Description, InvalidBlock, InvalidParams
from aucstream.features.encoding.crosses import ALLOWED, Crosses, checked_crosses, crosses_spec
from aucstream.features.encoding.distinct import DistinctCount
from aucstream.features.encoding.encoder import Encoder, kind_of_columns
from aucstream.features.encoding.entries import NUMERIC, Name
from aucstream.features.encoding.hashing import hash_of
from aucstream.features.encoding.turnover import LEAST_RECENT, NONE, Eviction, Sight, Turnover
from aucstream.kernels.rows.finite import all_finite
from aucstream.native.dicts import NO_LIMIT
from aucstream.native.guard import COMPILED

DEFAULT_CAPACITY = 1 << 20
AT_ONCE = 1 << 13  # names that are written as JSON in one call

Entries = Collection[tuple[Name, float, int]]


class Usage(NamedTuple):
    """How full a vocabulary is.

    Attributes
    ----------
    names : int
        Names that have a column.
    capacity : int
        Most names that may have one; less than the parameter where the learner behind it holds fewer.
    names_dropped : int
        Different names that were left out of learned rows because the vocabulary was full: exact up to 1023, within
        10 % beyond.
    entries_dropped : int
        Entries of learned rows that these names were.
    evictions : int
        Names that have lost their column to another.
    waiting : int
        Names seen in fewer than `min_count` learned rows so far.
    """

    names: int
    capacity: int
    names_dropped: int
    entries_dropped: int
    evictions: int
    waiting: int


class Vocabulary(Encoder):
    """Exact, growing, capped vocabulary.

    Parameters
    ----------
    capacity : int, default=1048576
        Most names that are kept at once, >= 1.
    min_count : int, default=1
        Learned rows in which a name has to be seen, >= 1. The row that completes them is the first that carries it;
        rows before are learned without it.
    eviction : {"none", "least-recent"}, default="none"
        What happens to a new name when `capacity` is reached. "none": it is left out of every row and counted in
        `dropped`; what is known goes on learning. "least-recent": it takes the column of the name that was least
        recently seen in a learned row, and all that was learned of that name is forgotten.
    crosses : "all", list of pairs of names, or None, default=None
        Pairs of features whose values, where both are strings, make a feature `a=v&b=w` besides their own. "all": each
        pair of the first 16 such features of a row, by name. They count in the capacity as other names do.

    Attributes
    ----------
    names : list of (str or int)
        Name of each column.
    dropped : int
        Entries left out of learned rows because the vocabulary was full.

    Notes
    -----
    Column j of an array is the integer name j. A model whose rows were arrays refuses string names,
    and one that has string names refuses arrays. Columns of arrays are neither counted nor evicted.

    Which names have a column follows from the learned rows and their order alone, so that a replay gives the same
    bits. A name of the row at hand never leaves. Of names last seen in the same row the one with the first column
    leaves first. A row whose step is skipped is not counted; a name that left for one of its names stays away, but for
    rows with values of 1e100 and more, which change nothing. At most `capacity` names wait to be seen `min_count`
    times: then the one seen least recently is counted anew when it comes again.

    Memory: about 170 bytes a name of 20 characters, and those beyond; that is so for a one-hot name, too, but for 160 bytes
    more for each of the 65,536 that are found by name and string at once. With eviction 24 bytes more. A name that waits
    takes about 170. What scaler and learner keep of a column comes besides.
    """

    def __init__(
        self,
        capacity: Annotated[int, Ge(1), Size("names")] = DEFAULT_CAPACITY,
        min_count: Annotated[int, Ge(1)] = 1,
        eviction: Eviction = "none",
        crosses: Annotated[Any, CheckedBy(checked_crosses, ALLOWED)] = None,
    ) -> None:
        super().__init__()
        self._check(capacity, min_count, eviction)
        self.crosses: Crosses = rules_of(Vocabulary)["crosses"].checked("Vocabulary.crosses", crosses)
        self.reader = self._new_reader()  # which knows nothing of crosses
        self._narrowed: int | None = None
        self._advice = "the vocabulary's capacity"
        self.width = 0
        self.names: list[Name] = []
        self.kinds = np.zeros(8, dtype=np.uint8)
        self.dropped = 0
        self._lost = DistinctCount()  # hashes of names that were dropped
        self.arrays = False  # rows were arrays
        self.words = False  # a name is a string
        self._identity = True  # column j is the integer name j, for all j
        self._previews = False  # the row at hand is only scored
        self._turnover: Turnover | None = None
        self._evictions = 0  # while there is no turnover
        self._sight: Sight | None = None  # of the row at hand
        self._vacated: list[int] = []
        self._replaced: list[tuple[int, Name, int, int]] = []  # since the last mark: column, name, kind, last seen
        self._set_turnover()

    def _check(self, capacity: Any, min_count: Any, eviction: Any) -> None:
        rules = rules_of(Vocabulary)
        capacity = rules["capacity"].checked("Vocabulary.capacity", capacity)
        min_count = rules["min_count"].checked("Vocabulary.min_count", min_count)
        eviction = rules["eviction"].checked("Vocabulary.eviction", eviction)
        self.capacity: int = capacity
        self.min_count: int = min_count
        self.eviction: Eviction = eviction

    def _set_turnover(self) -> None:
        turnover = self._turnover
        if self.min_count == 1 and self.eviction == NONE:
            if turnover is not None:
                self._evictions, self._turnover = turnover.evictions, None
            return
        evicts = self.eviction == LEAST_RECENT
        if turnover is None:
            turnover = self._turnover = Turnover(self.min_count, evicts, self.most)
            turnover.evictions = self._evictions
        turnover.limit(self.min_count, evicts, self.most)
        turnover.widen(self.width)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def most(self) -> int:
        """The capacity, or what the learner behind it can hold if that is less."""
        return self.capacity if self._narrowed is None else min(self.capacity, self._narrowed)

    @property
    def selects(self) -> bool:  # type: ignore[override]
        """Whether names come and go."""
        return self._turnover is not None

    @property
    def evicts(self) -> bool:
        """Whether names leave."""
        return self._turnover is not None and self._turnover.evicts

    @property
    def usage(self) -> Usage:
        """How full it is."""
        turnover = self._turnover
        evictions, waiting = (self._evictions, 0) if turnover is None else (turnover.evictions, len(turnover.waiting))
        return Usage(len(self.names), self.most, int(self._lost), self.dropped, evictions, waiting)

    def change(
        self, *, capacity: int | None = None, min_count: int | None = None, eviction: Eviction | None = None
    ) -> None:
        """Set parameters from the next row on; what is None stays.

        With eviction from now on, all names count as seen least recently until they are seen again. Names that wait go
        on being counted.

        Parameters
        ----------
        capacity, min_count, eviction : optional
            As at construction.

        Raises
        ------
        InvalidParams
            A value is out of its range, or there are more names than `capacity`; nothing was changed.
        """
        before = self.capacity, self.min_count, self.eviction
        values = [old if new is None else new for old, new in zip(before, (capacity, min_count, eviction), strict=True)]
        self._check(*values)
        if self.capacity < len(self.names):
            wrong = self.capacity
            self._check(*before)
            raise InvalidParams("Vocabulary.capacity", f"at least {len(self.names)}, the names in use", wrong)
        self._set_turnover()

    @property
    def spec(self) -> dict[str, Any]:
        """The encoder as it stands in a model's spec."""
        spec: dict[str, Any] = {"kind": "vocabulary", "capacity": self.capacity}
        if self.min_count != 1:
            spec["min_count"] = self.min_count
        if self.eviction != NONE:
            spec["eviction"] = self.eviction
        return spec | crosses_spec(self.crosses)

    def narrow(self, most: int, advice: str) -> None:
        """Allow at most `most` names from now on; see `Encoder.narrow`."""
        super().narrow(most, advice)
        if most < self.most:
            self._narrowed, self._advice = most, advice
            self._set_turnover()

    def _column(self, name: Name) -> int:
        return self._index.get(name, -1)

    def _columns_of(self, names: Sequence[Name]) -> list[int]:
        column = self._index.get
        return [column(name, -1) for name in names]

    def check_name(self, name: Name, path: str = "") -> None:
        """Raise InvalidBlock for a string name in a model of arrays."""
        if self.arrays and (isinstance(name, str) or name < 0):
            raise InvalidBlock(
                "feature name",
                "an integer >= 0: this model's rows are arrays, whose columns are named 0, 1, 2, …",
                name,
                path=path,
            )

    def _append(self, name: Name, kind: int) -> None:
        if len(self.names) >= self.most:
            if self.dropped == 0 and self.most < self.capacity:
                warnings.warn(
                    f"features: at most {self.most} ({self._advice}); {name!r} and further new ones count nothing",
                    RuntimeWarning,
                    stacklevel=2,
                )
            self._drop([name])
            return
        self._place(name, kind)

    def _place(self, name: Name, kind: int) -> None:
        """Give the next column to a name."""
        column = len(self.names)
        if name != column:
            self._identity = False
        if isinstance(name, str):
            self.words = True
        self.names.append(name)
        self.width = column + 1
        self._index[name] = column
        if column >= self.kinds.size:
            self.kinds = np.concatenate([self.kinds, np.zeros(self.kinds.size, dtype=np.uint8)])
        kind_of_columns(self.kinds, column, kind)
        if self._turnover is not None:
            self._turnover.widen(self.width)

    def _replace(self, turnover: Turnover, column: int, name: Name, kind: int) -> None:
        """Give the column of a name to another one."""
        old = self.names[column]
        self._replaced.append((column, old, int(self.kinds[column]), turnover.seen.item(column)))
        self._vacated.append(column)
        self.reader.forget_column(column, old)
        self._rename(column, name, 0)
        kind_of_columns(self.kinds, column, kind)
        if name != column:
            self._identity = False
        if isinstance(name, str):
            self.words = True
        turnover.seen[column] = turnover.clock + 1
        turnover.evictions += 1

    def _rename(self, column: int, name: Name, kind: int) -> None:
        del self._index[self.names[column]]
        self.names[column] = name
        self._index[name] = column
        self.kinds[column] = kind

    def _drop(self, names: Collection[Name]) -> None:
        """Count entries of a learned row that there is no room for."""
        self.dropped += len(names)
        if not self._previews:
            for name in names:
                self._lost.add(hash_of(name))

    def _drop_again(self, entries: Collection[tuple[Name, float, int]], times: int) -> None:
        self.dropped += times * len(entries)

    def _add(self, entries: Entries) -> None:
        if self._turnover is not None:
            self._admit(self._turnover, entries)
            return
        for name, _, kind in entries:
            if name not in self._index:
                self._append(name, kind)

    # -- names that come and go -------------------------------------------------------------------

    def _seen_in(
        self, turnover: Turnover, entries: Entries, counts: Mapping[Name, int]
    ) -> tuple[Sight, list[tuple[Name, int]]]:
        """Return what a row shows, and the new names that it completes, with their kinds."""
        columns: list[int] = []
        sight = Sight(columns)
        entering: list[tuple[Name, int]] = []
        least = 1 if self.arrays else turnover.min_count
        free = self.most - len(self.names)
        for name, _, kind in entries:
            column = self._index.get(name)
            if column is not None:
                columns.append(column)
            elif turnover.count(name) + counts.get(name, 0) + 1 < least:
                sight.waiting.append(name)
            elif free > len(entering) or (turnover.evicts and not self.arrays):
                entering.append((name, kind))
            else:
                sight.waiting.append(name)
                sight.dropped.append(name)
        return sight, entering

    def _admit(self, turnover: Turnover, entries: Entries) -> None:
        """Give columns to the new names of a row that it completes; the rest is noted by `commit`."""
        sight, entering = self._seen_in(turnover, entries, {})
        if self._previews:  # those that would evict have a column of their own meanwhile
            for name, kind in entering if self.most == self.capacity else entering[: self.most - len(self.names)]:
                self._place(name, kind)
            return
        busy = set(sight.columns)
        row = [name for name, _, _ in entries]
        for name, kind in entering:
            if len(self.names) < self.most:
                self._place(name, kind)
            else:
                column = turnover.oldest(self.width, busy)
                if column is None:
                    sight.dropped.append(name)
                    continue
                self._replace(turnover, column, name, kind)
            busy.add(self._index[name])
            sight.entered.append(name)
        sight.columns = sorted(busy)
        sight.waiting = [name for name in row if name not in self._index]
        self._sight = sight

    def learn(self, x: Mapping[Any, Any]) -> tuple[Ints, Floats]:
        """Read a row that is learned; see `Encoder.learn`."""
        if self._turnover is None:
            dropped = self.dropped
            row = self.reader.read(x)
            if row is not None and all_finite(row[1]):
                return row
            if self.prepare(x, learn=True):
                row = self._read_prepared(x)
                if row is not None:
                    return row
                self.dropped = dropped
            return self._slow(x, learn=True)
        row = self.reader.read(x)
        if row is None or not all_finite(row[1]):
            return self._slow(x, learn=True)
        self.missed = False
        self._sight = Sight(row[0])
        return row

    @contextmanager
    def previewed(self, x: Mapping[Any, Any]) -> Iterator[tuple[Ints, Floats]]:
        """Give a row as it would be learned; see `Encoder.previewed`."""
        self._previews = True
        try:
            with super().previewed(x) as row:
                yield row
        finally:
            self._previews = False

    def vacated(self) -> Ints:
        """Return the columns that have another name since the last call; see `Encoder.vacated`."""
        columns = np.array(sorted(set(self._vacated)), dtype=np.int64)
        self._vacated.clear()
        return columns

    def quiet_row(self, x: Mapping[Any, Any], counts: dict[Name, int]) -> tuple[Ints, Floats, Sight] | None:
        """Read a row that changes no column; see `Encoder.quiet_row`."""
        row = self.reader.read(x)
        if row is not None and all_finite(row[1]):
            return *row, Sight(row[0])
        assert self._turnover is not None
        entries = self._checked(x)
        sight, entering = self._seen_in(self._turnover, entries, counts)
        if entering:
            return None
        for name in sight.waiting:
            counts[name] = counts.get(name, 0) + 1
        values = np.array([value for name, value, _ in entries if name in self._index], dtype=np.float64)
        self.reader.make_room(len(entries))
        self._note_row(x)
        return np.array(sight.columns, dtype=np.int64), values, sight

    def _note(self, sight: Sight) -> None:
        assert self._turnover is not None
        self._drop(sight.dropped)
        self._turnover.note(sight)

    def note_sights(self, sights: Sequence[Sight]) -> None:
        """Note rows that were learned; see `Encoder.note_sights`."""
        for sight in sights:
            self._note(sight)

    def note_plain(self, indptr: Ints, columns: Ints, learned: np.ndarray) -> None:
        """Note rows all of whose names have columns; see `Encoder.note_plain`."""
        assert self._turnover is not None
        self._turnover.note_rows(indptr, columns, learned)

    def note_last(self) -> None:
        """Note the row that compiled code has read and learned."""
        assert self._turnover is not None
        self._turnover.note(Sight(self.reader.last_columns))

    def commit(self) -> None:
        """Note the row that `learn` has read; see `Encoder.commit`."""
        sight, self._sight = self._sight, None
        if sight is not None:
            self._note(sight)

    def abandon(self) -> None:
        """Do not note the row that `learn` has read, but keep its names; see `Encoder.abandon`."""
        sight, self._sight = self._sight, None
        if sight is not None and self._turnover is not None:
            self._turnover.leave_out(sight)

    # -- rows -------------------------------------------------------------------------------------

    def _unread(self, x: Any) -> list[tuple[Name, str | None, int]] | None:
        """Return what the reader does not find of a row; see `Encoder._unread`."""
        return None if self.arrays else super()._unread(x)

    def prepare(self, x: Mapping[Any, Any], *, learn: bool) -> bool:
        """Give columns to the new names of a row that is learned; see `Encoder.prepare`.

        A row most of whose numbers are new is none of those before: it is taken the slow way, which expects more of it.
        """
        if not learn or not COMPILED or self.selects:
            return False
        unread = self._unread(x)
        if unread is None or 2 * sum(word is None for _, word, _ in unread) > len(x):
            return False
        left_out = False
        for name, word, kind in unread:
            full_name = name if word is None else f"{name}={word}"
            if full_name not in self._index:
                self._append(full_name, kind)
            column = self._index.get(full_name)
            if column is None:
                left_out = True
            elif word is not None:
                self.reader.note_word(str(name), word, column)
        self.reader.make_room(len(x))
        if left_out:
            self.reader.expect_new(self.width, self.width, self.kinds, True)
        return True

    def _leave_new_out(self) -> None:
        """Let the reader read rows without their new names; see `Encoder._leave_new_out`."""
        if not self.arrays:
            self.reader.expect_new(self.width, self.width, self.kinds, self.crosses is None)

    def expect_new(self) -> bool:
        """Let the reader read new names of rows that are scored; see `Encoder.expect_new`."""
        if self.arrays or (self._turnover is not None and self._turnover.min_count > 1):
            return False
        is_bounded = self._turnover is None or self.most < self.capacity  # else names get columns while others leave
        end = self.most if is_bounded else NO_LIMIT
        self.reader.expect_new(self.width, end, self.kinds, self.crosses is None)
        return True

    def check_scored_array(self, n: int) -> None:
        """Raise InvalidBlock for more columns than the largest one learned, or a model of names."""
        self._check_no_words(n)
        most = self.width if self._identity else 1 + max(int(name) for name in self.names)
        self._check_columns(n, most)

    def _check_no_words(self, n: int) -> None:
        if self.words:
            raise InvalidBlock(
                "features", "named features: this model has learned names", Description(f"an array of {n} columns")
            )

    def columns(self, n: int, *, learn: bool) -> Ints | None:
        """Return the columns of array columns 0..n-1; None where that is the identity."""
        self._check_no_words(n)
        if learn:
            self.arrays = True
            if n > self.most:
                raise InvalidBlock(
                    "features", f"at most {self.most} columns ({self._advice})", Description(f"{n} columns")
                )
            if not (self._identity and len(self.names) >= n):
                for name in range(n):
                    if name not in self._index:
                        self._append(name, NUMERIC)
        if self._identity and n <= len(self.names):
            return None
        return np.array([self._index.get(name, -1) for name in range(n)], dtype=np.int64)

    def align(self, other: Encoder, *, partial: bool = False) -> Ints:
        """Return the column of each of `other`'s columns, by name; see `Encoder.align`."""
        if not isinstance(other, Vocabulary):
            raise CannotMerge("merge", "encoders of one kind: a vocabulary", other.spec["kind"])
        if (self.arrays and other.words) or (self.words and other.arrays):
            raise CannotMerge(
                "merge", "rows that are arrays in both models, or named in both", Description("one of each")
            )
        if other.crosses != self.crosses:
            raise CannotMerge("merge", f"the same crosses in both models: {self.crosses}", other.crosses)
        new = [(name, kind) for name, kind in zip(other.names, other.kinds, strict=False) if name not in self._index]
        if len(self.names) + len(new) > self.most and not partial:
            raise CannotMerge("merge", f"at most {self.most} names in all", len(self.names) + len(new))
        for name, kind in new:
            self._append(name, int(kind))
        self.arrays = self.arrays or other.arrays
        self.dropped += other.dropped
        self._lost.update(other._lost.hashes)
        columns = np.array([self._index.get(name, -1) for name in other.names], dtype=np.int64)
        if self._turnover is not None:
            self._turnover.merge(other._turnover, columns, self._index)
        return columns

    def standing(self) -> tuple[Any, ...] | None:
        """Return what names are known; see `Encoder.standing`."""
        if self.selects or self.arrays:
            return None
        return self.spec, self.most, self.dropped, self.names, len(self.names), self.kinds

    def stands_at(self, standing: tuple[Any, ...] | None) -> bool:
        """Return whether another vocabulary that stood so was equal; see `Encoder.stands_at`."""
        if standing is None or self.standing() is None:
            return False
        spec, most, dropped, names, width, kinds = standing
        return (
            (self.spec, self.most, self.dropped, self.width) == (spec, most, dropped, width)
            and self.names == (names if len(names) == width else names[:width])
            and bool((self.kinds[:width] == kinds[:width]).all())
        )

    def change_since(self, standing: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the names added since, and what was dropped; see `Encoder.change_since`."""
        width = standing[4]
        lost = self._lost.hashes if self.dropped > standing[2] else None
        return self.names[width:], self.kinds[width : self.width].tolist(), self.dropped, lost

    def _take_change(self, change: tuple[Any, ...]) -> None:
        names, kinds, self.dropped, lost = change
        for name, kind in zip(names, kinds, strict=True):
            self._place(name, kind)
        if lost is not None:
            self._lost.update(lost)

    def mark(self) -> tuple[Any, ...]:
        """Return a mark for `rewind`."""
        self.reader.mark(len(self.names))
        if not self._previews:
            self._replaced = []
        return len(self.names), self.dropped, self.arrays, self.words, self._identity

    def rewind(self, mark: tuple[Any, ...]) -> None:
        """Forget the names added since `mark`, and bring back those that left."""
        length, self.dropped, self.arrays, self.words, self._identity = mark
        turnover = self._turnover
        if self._sight is not None and not self._previews and turnover is not None:
            self._sight = None
            turnover.reorder()
            for column, name, kind, seen in reversed(self._replaced):
                self._rename(column, name, kind)
                turnover.seen[column] = seen
            if self._replaced:
                turnover.evictions -= len(self._replaced)
                self._replaced.clear()
                self._vacated.clear()
                self.reader.forget()
        if length == len(self.names):
            return
        for name in self.names[length:]:
            del self._index[name]
        self.kinds[length : len(self.names)] = 0
        del self.names[length:]
        self.width = length
        self.reader.rewind(length)

    def state_dict(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return (arrays, meta); names as JSON bytes, absent where they are just 0, 1, 2, …"""
        arrays = {"kinds": self.kinds[: self.width].copy()}
        if not self._identity:
            arrays["names"] = _bytes_of(self.names)
        meta = {**self.spec, "dropped": self.dropped, "arrays": self.arrays, "width": self.width}
        if int(self._lost):
            arrays["dropped_names"] = self._lost.hashes
        turnover = self._turnover
        evictions = self._evictions if turnover is None else turnover.evictions
        if evictions:
            meta |= {"evictions": evictions, "words": self.words}
        if turnover is not None:
            meta["clock"] = turnover.clock
            if turnover.evicts:
                arrays["seen"] = turnover.seen[: self.width].copy()
            if turnover.waiting:
                arrays["waiting"] = _bytes_of(list(turnover.waiting))
                arrays["waiting_counts"] = np.array([*turnover.waiting.values()], dtype=np.int64)
        return arrays, meta

    @classmethod
    def from_state_dict(cls, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> Vocabulary:
        """Return the vocabulary that `state_dict` described.

        Parameters
        ----------
        arrays : dict of ndarray
        meta : dict
            Both as `state_dict` returned them.

        Returns
        -------
        Vocabulary
        """
        encoder = cls(meta["capacity"], meta.get("min_count", 1), meta.get("eviction", NONE), meta.get("crosses"))
        if "names" in arrays:
            names: list[Name] = json.loads(arrays["names"].tobytes())
        else:
            names = list(range(meta["width"]))
        encoder.names = names
        encoder.width = len(names)
        encoder._index.update((name, column) for column, name in enumerate(names))
        encoder._identity = "names" not in arrays
        encoder.words = meta.get("words", False) or any(isinstance(name, str) for name in names)
        encoder.kinds = np.zeros(max(8, len(names)), dtype=np.uint8)
        encoder.kinds[: len(names)] = arrays["kinds"]
        encoder.dropped = meta["dropped"]
        encoder.arrays = meta["arrays"]
        if "dropped_names" in arrays:
            encoder._lost.update(arrays["dropped_names"])
        turnover = encoder._turnover
        encoder._evictions = meta.get("evictions", 0)
        if turnover is not None:
            turnover.evictions = encoder._evictions
            turnover.clock = meta["clock"]
            turnover.widen(encoder.width)
            if "seen" in arrays:
                turnover.seen[: encoder.width] = arrays["seen"]
            if "waiting" in arrays:
                counts = arrays["waiting_counts"].tolist()
                turnover.waiting.update(zip(json.loads(arrays["waiting"].tobytes()), counts, strict=True))
        return encoder

    def copy(self) -> Vocabulary:
        """Return an independent copy.

        Returns
        -------
        Vocabulary
        """
        return Vocabulary.from_state_dict(*self.state_dict())


def _bytes_of(names: list[Name]) -> np.ndarray:
    """Return names as JSON, an array of bytes.

    A million names at once would keep the GIL for a quarter of a second.
    """
    parts = (json.dumps(names[at : at + AT_ONCE], ensure_ascii=True)[1:-1] for at in range(0, len(names), AT_ONCE))
    return np.frombuffer(f"[{', '.join(parts)}]".encode(), dtype=np.uint8).copy()
