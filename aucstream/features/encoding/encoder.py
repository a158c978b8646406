"""What every encoder does: dicts to rows of column numbers and values.

An encoder is the only part that knows names. `learn` may add columns, `look_up` never does.
"""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from aucstream.block import Floats, Ints, writable
from aucstream.errors import Description, InvalidBlock, InvalidParams
from aucstream.features.encoding.crosses import Crosses, crosses_of
from aucstream.features.encoding.entries import INDICATOR, NUMERIC, Name, entries_of
from aucstream.features.number_rows import NumberRows
from aucstream.kernels.rows.finite import all_finite
from aucstream.native.reader import ManyRows, Reader

ORDINARY = 1e300  # numbers below it are finite

_EMPTY_IDX: Ints = np.empty(0, dtype=np.int64)
_EMPTY_VAL: Floats = np.empty(0)


class Encoder(abc.ABC):
    """Names to columns.

    Attributes
    ----------
    width : int
        Number of columns that may occur.
    kinds : ndarray of uint8
        Per column: 0 unknown, 1 numeric, 2 indicator; at least `width` long.
    crosses : "all", pairs of names or None
        Which pairs of categories are features of their own.
    reader : Reader
        Reads plain rows. Whether the numbers are finite is left to the kernels: a step skips the row, a score is
        not finite.
    """

    width: int
    kinds: np.ndarray
    selects = False  # whether names come and go: then `learn` is followed by `commit`, or `rewind` or `abandon`

    crosses: Crosses = None  # of encoders that were pickled before there were any

    def __init__(self) -> None:
        self._index: dict[Name, int] = {}  # the columns of names, where those are kept
        self.reader = self._new_reader()
        self.missed = False  # whether the last row looked up had names that are not known
        self._repeated: tuple[int, list[int], Ints, Ints] = (0, [], np.zeros(1, np.int64), _EMPTY_IDX)  # by `take`

    # -- what an encoder defines ---------------------------------------------------------------

    @abc.abstractmethod
    def _column(self, name: Name) -> int:
        """Return the column of `name`, or -1 where it has none."""

    def _columns_of(self, names: Sequence[Name]) -> list[int]:
        """Return the column of each name, or -1."""
        return [self._column(name) for name in names]

    @abc.abstractmethod
    def _add(self, entries: list[tuple[Name, float, int]]) -> None:
        """Give columns to the names that have none and may have one; note kinds. Cannot fail."""

    def _drop_again(self, entries: list[tuple[Name, float, int]], times: int) -> None:
        """Count entries, which there is no room for, as often as more rows have them."""
        raise NotImplementedError

    @abc.abstractmethod
    def check_name(self, name: Name, path: str = "") -> None:
        """Refuse a name that may not be learned by this encoder.

        Parameters
        ----------
        name : str or int
        path : str
            Place of its row, for the message.

        Raises
        ------
        InvalidBlock
            The name may not be learned.
        """

    @abc.abstractmethod
    def columns(self, n: int, *, learn: bool) -> Ints | None:
        """Return the columns of array columns 0..n-1.

        Parameters
        ----------
        n : int
        learn : bool
            Whether columns without one get one.

        Returns
        -------
        ndarray of int64 (n,) or None
            -1 where unknown; None for the identity.

        Raises
        ------
        InvalidBlock
            The encoder has learned names, or has no room for so many columns.
        """

    def narrow(self, most: int, advice: str) -> None:
        """Allow at most so many columns from now on: the learner behind it cannot hold more.

        Parameters
        ----------
        most : int
        advice : str
            What to do instead, for the message.

        Raises
        ------
        InvalidParams
            There are more already; the message gives the advice.
        """
        if self.width > most:
            raise InvalidParams("features", f"at most {most}: {advice}", self.width)

    def _check_columns(self, n: int, most: int) -> None:
        if n > most:
            learned = f"at most {most} columns, as many as were learned" if most else "a model that has learned"
            raise InvalidBlock("features", learned, Description(f"{n} columns"))

    def check_scored_array(self, n: int) -> None:
        """Refuse an array that may not be scored.

        Parameters
        ----------
        n : int
            Its number of columns.

        Raises
        ------
        InvalidBlock
            It has more columns than were learned, or names were learned.
        """
        self._check_columns(n, self.width)

    def follow(self, before: Any, change: Any) -> bool:
        """Do as an equal encoder did that has read rows.

        Parameters
        ----------
        before : object
            What the other's `standing` was before these rows.
        change : object
            What its `change_since(before)` was after them.

        Returns
        -------
        bool
            False: they were not equal; nothing was done.
        """
        if not self.stands_at(before):
            return False
        self._take_change(change)
        return True

    def standing(self) -> Any:
        """Return what names this encoder knows, for `follow`.

        Returns
        -------
        object or None
            None where no other encoder may follow this one.
        """
        return None

    def stands_at(self, standing: Any) -> bool:
        """Return whether this encoder is equal to another one that stood so.

        Parameters
        ----------
        standing : object
            What the other's `standing` was.

        Returns
        -------
        bool
        """
        return False

    def change_since(self, standing: Any) -> Any:
        """Return what reading rows has changed.

        Parameters
        ----------
        standing : object
            What `standing` was before them.

        Returns
        -------
        object
            For `follow`.
        """
        raise NotImplementedError

    def _take_change(self, change: Any) -> None:
        raise NotImplementedError

    @abc.abstractmethod
    def align(self, other: Encoder, *, partial: bool = False) -> Ints:
        """Return the column of each of the other's columns, by name; names not known get columns.

        Parameters
        ----------
        other : Encoder
        partial : bool, default=False
            Whether a name for which there is no room is -1.

        Returns
        -------
        ndarray of int64 (other.width,)

        Raises
        ------
        CannotMerge
            The encoders differ in kind or there is no room for all names; nothing was changed.
        """

    @abc.abstractmethod
    def mark(self) -> Any:
        """Return a mark that `rewind` takes.

        Returns
        -------
        object
        """

    @abc.abstractmethod
    def rewind(self, mark: Any) -> None:
        """Forget names added since `mark` (their row was skipped).

        Parameters
        ----------
        mark : object
            What `mark` returned.
        """

    # -- names that come and go -----------------------------------------------------------------

    def vacated(self) -> Ints:
        """Return, once, the columns that have another name since the last call.

        What was learned of a column is of the name that has left: the model has to forget it before the row at hand.

        Returns
        -------
        ndarray of int64 (n,)
            In ascending order.
        """
        return _EMPTY_IDX

    def quiet_row(self, x: Mapping[Any, Any], counts: dict[Name, int]) -> tuple[Ints, Floats, Any] | None:
        """Read a row that is learned, where it changes no column.

        Parameters
        ----------
        x : dict
            Name to value.
        counts : dict
            Names without a column to how many of the rows before had them, beyond those noted; brought up to date.

        Returns
        -------
        (columns, values, sight) or None
            The last is for `note_sights`. None, and nothing done: a name gets a column by it.
        """
        raise NotImplementedError

    def note_sights(self, sights: Sequence[Any]) -> None:
        """Note rows that `quiet_row` read and that were learned.

        Parameters
        ----------
        sights : sequence
            In the order of the rows.
        """
        raise NotImplementedError

    def note_plain(self, indptr: Ints, columns: Ints, learned: np.ndarray) -> None:
        """Note rows all of whose names have columns.

        Parameters
        ----------
        indptr, columns : ndarray of int64
            The rows.
        learned : ndarray of bool (n,)
            Which of them were learned.
        """
        raise NotImplementedError

    def note_last(self) -> None:
        """Note the row that compiled code has read and learned."""
        raise NotImplementedError

    def commit(self) -> None:
        """Note the row that `learn` has read: its step was taken."""
        raise NotImplementedError

    def abandon(self) -> None:
        """Do not note the row that `learn` has read: its step was skipped. The names it has brought stay."""
        raise NotImplementedError

    # -- rows ---------------------------------------------------------------------------------

    def learn(self, x: Mapping[Any, Any]) -> tuple[Ints, Floats]:
        """Read a row that is learned; new names get columns.

        Parameters
        ----------
        x : dict
            Name to value.

        Returns
        -------
        columns : ndarray of int64 (n,)
        values : ndarray (n,)

        Raises
        ------
        InvalidBlock
            The row cannot be learned; nothing was changed.
        """
        row = self.reader.read(x)
        if row is not None and all_finite(row[1]):
            return row
        row = self._read_prepared(x) if self.prepare(x, learn=True) else None
        return row if row is not None else self._slow(x, learn=True)

    def _read_prepared(self, x: Mapping[Any, Any]) -> tuple[Ints, Floats] | None:
        """Return a row for which `prepare` has done something; None where it is read another way all the same."""
        row = self.reader.read(x)
        self.expect_known()
        return row if row is not None and all_finite(row[1]) else None

    def prepare(self, x: Mapping[Any, Any], *, learn: bool) -> bool:
        """Let the reader find the new names of a row; `expect_known` ends that where a name has no column.

        Parameters
        ----------
        x : dict
            Name to value.
        learn : bool
            Whether new names get columns; else the caller calls `rewind` with a mark from before.

        Returns
        -------
        bool
            False: nothing was done.
        """
        del x, learn
        return False

    def expect_new(self) -> bool:
        """Let the reader read new names of rows that are scored, as if they were learned, until `expect_known`.

        Returns
        -------
        bool
            False: nothing was done.
        """
        return False

    def expect_known(self) -> None:
        """Let the reader read known names only, as at first."""
        self.reader.expect_known()

    def _unread(self, x: Any) -> list[tuple[Name, str | None, int]] | None:
        """Return what the reader does not find of a row, in its order: names, their strings, and kinds.

        Returns
        -------
        list of (name, string or None, kind), or None
            None where more is to be known of the row: a name that is no string, a value that is neither a string nor a
            finite number of ordinary size, crosses, or names that may meet.
        """
        if type(x) is not dict or self.crosses is not None:
            return None
        index, words = self._index, self.reader.words
        new: list[tuple[Name, str | None, int]] = []
        has_words = False
        for name, value in x.items():
            kind = type(value)
            if type(name) is not str:
                return None
            if kind is str:
                has_words = True
                known = words.get(name)
                if known is None or value not in known:
                    new.append((name, value, INDICATOR))
            elif kind is float or kind is int:
                if not -ORDINARY < value < ORDINARY:
                    return None
                if name not in index:
                    new.append((name, None, NUMERIC))
            elif kind is bool:
                if name not in index:
                    new.append((name, None, INDICATOR))
            elif value is not None:
                return None
        return None if has_words and "=" in "".join(x) else new

    def plain(self, rows: Sequence[Mapping[Any, Any]]) -> tuple[Ints, Ints, Floats] | None:
        """Read rows whose names are all known and whose numbers are finite. Such rows pass `check`, and add no name.

        Parameters
        ----------
        rows : sequence of dict

        Returns
        -------
        (indptr, columns, values) or None
            None where a row is another.
        """
        entries = self.reader.read_all(rows)
        return entries if entries is not None and all_finite(entries[2]) else None

    def look_up(self, x: Mapping[Any, Any]) -> tuple[Ints, Floats]:
        """Read a row that is only scored; unknown names are left out.

        Parameters
        ----------
        x : dict
            Name to value.

        Returns
        -------
        columns : ndarray of int64 (n,)
        values : ndarray (n,)

        Raises
        ------
        InvalidBlock
            The row could not be learned.
        """
        row = self.reader.read(x)
        if row is not None and all_finite(row[1]):
            self.missed = False
            return row
        return self._slow(x, learn=False)

    def read_rows(
        self, rows: Sequence[Mapping[Any, Any]], *, learn: bool, missed: list[int] | None = None
    ) -> tuple[Ints, Ints, Floats]:
        """Read rows that `check` has passed, each as `learn` or `look_up` would.

        Parameters
        ----------
        rows : sequence of dict
        learn : bool
            Whether new names get columns.
        missed : list of int, optional
            The numbers of rows that have names not known are put into it. These rows may then have no entries at all.

        Returns
        -------
        indptr, columns, values : ndarray
        """
        several = ManyRows(rows)
        stops = several.reads_on
        number = 0
        while number < len(several.rows):
            if stops and (number := self.reader.read_on(several, number)) == len(several.rows):
                break
            x = several.rows[number]
            if missed is not None and self._lacks_names(x):
                idx, val = _EMPTY_IDX, _EMPTY_VAL
                missed.append(number)
            else:
                idx, val = self.learn(x) if learn else self.look_up(x)
                if missed is not None and self.missed:
                    missed.append(number)
            several.put(number, idx, val)
            number += 1
        entries = several.entries()
        if not all_finite(entries[2]):  # a number that may not be learned, which says so, or a sum of hashed ones
            for x in several.rows:
                self.learn(x) if learn else self.look_up(x)
        return entries

    def _lacks_names(self, x: Mapping[Any, Any]) -> bool:
        """Return whether it is sure, at a glance, that names of a row have no column."""
        unread = self._unread(x)
        return unread is not None and any(
            self._column(name if word is None else f"{name}={word}") < 0 for name, word, _ in unread
        )

    def check_rows(self, rows: Sequence[Any]) -> None:
        """Refuse rows one of which could not be learned; change nothing.

        Parameters
        ----------
        rows : sequence of dict

        Raises
        ------
        InvalidBlock
            It names row and feature.
        """
        several = ManyRows(rows)
        number = 0
        self._leave_new_out()
        try:
            while several.reads_on and (number := self.reader.read_on(several, number)) < len(several.rows):
                self.check(several.rows[number], f"[{number}]")
                several.put(number, _EMPTY_IDX, _EMPTY_VAL)
                number += 1
        finally:
            self.expect_known()
        if not several.reads_on or not all_finite(several.entries()[2]):
            for number, x in enumerate(several.rows):
                if not isinstance(x, Mapping):
                    raise InvalidBlock("features", "a dict of name to value", x, path=f"[{number}]")
                self.check(x, f"[{number}]")

    def _leave_new_out(self) -> None:  # noqa: B027  (nothing to do where names are hashed)
        """Let the reader read rows without their new names, where it can, until `expect_known`."""

    def take(self, rows: NumberRows, *, learn: bool) -> tuple[Ints, Ints, Floats]:
        """Read rows of one form, as `learn` or `look_up` would read each.

        Parameters
        ----------
        rows : NumberRows
        learn : bool
            Whether new names get columns.

        Returns
        -------
        indptr, columns, values : ndarray
            The values may be those of `rows`. `missed` is as after `look_up`.
        """
        columns = self._columns_of(rows.names)
        if learn and (min(columns, default=0) < 0 or not self._unique()):
            entries: list[tuple[Name, float, int]] = [(name, 0.0, NUMERIC) for name in rows.names]
            self._add(entries)
            columns = self._columns_of(rows.names)
            entries = [entry for entry, column in zip(entries, columns, strict=True) if column < 0]
            if entries and len(rows) > 1:  # what there is no room for is counted by row
                self._drop_again(entries, len(rows) - 1)
        self.missed = min(columns, default=0) < 0
        values = rows.values
        if self.missed or (not self._unique() and len(set(columns)) < len(columns)):
            used = {column: at for at, column in enumerate(dict.fromkeys(c for c in columns if c >= 0))}
            values = np.zeros((len(rows), len(used)))
            with np.errstate(over="ignore"):
                for at, column in enumerate(columns):  # in the order of the names, as for one row
                    if column >= 0:
                        values[:, used[column]] += rows.values[:, at]
            columns = list(used)
        if self._repeated[:2] != (len(rows), columns):
            indptr = np.arange(len(rows) + 1, dtype=np.int64) * len(columns)
            self._repeated = len(rows), columns, indptr, np.tile(np.array(columns, dtype=np.int64), len(rows))
        return *self._repeated[2:], values.reshape(-1)

    @contextlib.contextmanager
    def previewed(self, x: Mapping[Any, Any]) -> Iterator[tuple[Ints, Floats]]:
        """Give a row as it would be learned; within, its new names have columns.

        Parameters
        ----------
        x : dict
            Name to value.

        Yields
        ------
        columns : ndarray of int64 (n,)
        values : ndarray (n,)

        Raises
        ------
        InvalidBlock
            The row could not be learned.
        """
        mark = self.mark()
        try:
            yield self._slow(x, learn=True)
        finally:
            self.rewind(mark)

    @contextlib.contextmanager
    def scored(self, x: Mapping[Any, Any]) -> Iterator[tuple[Ints, Floats]]:
        """Give (columns, values) of `x` as it is scored: new names count nothing, but they are scaled and summed.

        Parameters
        ----------
        x : dict
            Name to number, bool, string, list of strings, or None (absent).

        Yields
        ------
        columns : ndarray of int64 (entries,)
        values : ndarray (entries,)

        Raises
        ------
        InvalidBlock
            `x` cannot be learned.
        """
        row = self.look_up(x)
        if not self.missed:
            yield row
            return
        with self.previewed(x) as row:
            yield row

    def check(self, x: Mapping[Any, Any], path: str = "") -> None:
        """Refuse a row that could not be learned; change nothing.

        Parameters
        ----------
        x : dict
            Name to value.
        path : str
            Place of the row, for the message.

        Raises
        ------
        InvalidBlock
            The row could not be learned.
        """
        row = self.reader.read(x)
        if (row is not None and all_finite(row[1])) or self._unread(x) is not None:
            return
        for name, _, _ in self._entries(x, path):
            self.check_name(name, path)

    def has_columns(self, names: Sequence[Name]) -> bool:
        """Return whether each name has a column, and none of them shares it.

        Parameters
        ----------
        names : sequence of (str or int)

        Returns
        -------
        bool
        """
        return self._unique() and min(self._columns_of(names), default=0) >= 0

    def knows(self, name: Name) -> bool:
        """Return whether `name` has a column.

        Parameters
        ----------
        name : str or int

        Returns
        -------
        bool
        """
        return self._column(name) >= 0

    def parts(self, x: Mapping[Any, Any]) -> tuple[list[Name], Ints, Floats]:
        """Return the entries of a row whose names have columns.

        A row has one value a column; here two names with one column are two parts of it.

        Parameters
        ----------
        x : dict
            Name to value.

        Returns
        -------
        names : list of (str or int)
        columns : ndarray of int64 (n,)
        values : ndarray (n,)

        Raises
        ------
        InvalidBlock
            The row could not be learned.
        """
        entries = [(name, self._column(name), value) for name, value, _ in self._checked(x)]
        known = [entry for entry in entries if entry[1] >= 0]
        return (
            [name for name, _, _ in known],
            np.array([column for _, column, _ in known], dtype=np.int64),
            np.array([value for _, _, value in known], dtype=np.float64),
        )

    def _checked(self, x: Mapping[Any, Any]) -> list[tuple[Name, float, int]]:
        if not isinstance(x, Mapping):
            raise InvalidBlock("features", "a dict of name to value", x)
        entries = self._entries(x)
        for name, _, _ in entries:
            self.check_name(name)
        return entries

    def _entries(self, x: Mapping[Any, Any], path: str = "") -> list[tuple[Name, float, int]]:
        """Return the entries of a row, with those of its crosses."""
        entries = entries_of(x, path)
        if self.crosses is None:
            return entries
        crosses = crosses_of(x, self.crosses)
        names = {name for name, _, _ in entries}
        for name, _, _ in crosses:
            if name in names:
                raise InvalidBlock("feature", "names that differ: a cross meets another feature", name, path=path)
        return entries + crosses

    def _note_row(self, x: Mapping[Any, Any]) -> None:
        """Let the reader find the row's words from now on: it knows nothing of crosses."""
        if self.crosses is None:
            self.reader.note(x)

    def _slow(self, x: Mapping[Any, Any], *, learn: bool) -> tuple[Ints, Floats]:
        entries = self._checked(x)
        if learn:
            self._add(entries)
        names = [name for name, _, _ in entries]
        columns = [self._column(name) for name in names]
        plain = names == list(x)
        known = min(columns, default=0) >= 0
        self.missed = not known
        if not known or not self._unique():
            merged: dict[int, float] = {}
            for column, (_, value, _) in zip(columns, entries, strict=True):
                if column >= 0:
                    merged[column] = merged.get(column, 0.0) + value
            columns = list(merged)
            values = np.array(list(merged.values()), dtype=np.float64)
            plain = plain and len(columns) == len(entries)
        else:
            values = np.array([value for _, value, _ in entries], dtype=np.float64)
        if not columns:
            return _EMPTY_IDX, _EMPTY_VAL
        idx = np.array(columns, dtype=np.int64)
        self.reader.make_room(len(columns))
        if not plain and self._unique():
            self._note_row(x)
        if plain and known and (learn or self.kinds[columns].all()):  # a kind not noted yet is noted by learning
            self._expect(names, idx)
        return idx, values

    def _expect(self, names: Sequence[Name], idx: Ints) -> None:
        """Let the reader expect the names of a row of numbers in the next ones."""
        self.reader.guess(list(names), idx)

    def _new_reader(self) -> Reader:
        is_unique = self._unique()
        return Reader(self._index, adds=not is_unique, whole=is_unique and self.crosses is None)

    def _unique(self) -> bool:
        return True

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        del state["reader"]  # it points into this encoder
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({name: writable(value) for name, value in state.items()})
        self.reader = self._new_reader()

    # -- snapshots ----------------------------------------------------------------------------

    @abc.abstractmethod
    def state_dict(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return (arrays, meta) from which `encoder_from_state` makes an equal encoder.

        Returns
        -------
        arrays : dict of ndarray
        meta : dict
        """

    @property
    @abc.abstractmethod
    def spec(self) -> dict[str, Any]:
        """The encoder as it stands in a model's spec."""


def kind_of_columns(kinds: np.ndarray, column: int, kind: int) -> None:
    """Note the kind of a column; the first one stays."""
    if kinds[column] == 0:
        kinds[column] = INDICATOR if kind == INDICATOR else NUMERIC
