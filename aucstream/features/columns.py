"""`Columns`: what a column is, said by name: left out, category, number or time."""

from __future__ import annotations

import datetime
import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple

import numpy as np
from river import base

from aucstream.block import Block
from aucstream.errors import Description, InvalidBlock, InvalidParams
from aucstream.features.cells import (
    DECIMALS,
    MISSING,
    PARTS,
    THOUSANDS,
    Convention,
    number_of,
    parts_of,
    time_of,
    word_of,
)
from aucstream.features.encoding.turnover import Eviction
from aucstream.features.frames import FrameTable, SparseTable
from aucstream.features.number_rows import NumberRows

Kind = Literal["ignore", "category", "number", "time"]
KINDS: tuple[Kind, ...] = ("ignore", "category", "number", "time")  # an earlier one comes first where patterns overlap
EVICTIONS = ("none", "least-recent")
MOST_NAMES = 1 << 16  # whose kinds are remembered

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_SECOND = datetime.timedelta(seconds=1)


class TimeColumn(NamedTuple):
    """A pattern of columns of times, and what of each time is a feature of its own."""

    name: str
    parts: tuple[str, ...] = ()


class Columns(base.Transformer):
    """Says by name what columns are; what it does not name stays as it is.

    Names may be patterns of a shell: `*`, `?`, `[…]`; upper and lower case differ. A column of an array has the text of its
    number as name. Where patterns overlap, `ignore` comes first, then `category`, `number` and `time`.

    Parameters
    ----------
    ignore : list of str
        Left out. In arrays such a column counts as 0.
    category : list of str
        Each value is a word: the number 7 is the word `7`, a feature `name=7`.
    number : list of str
        A string is read as a number under `decimal` and `thousands`; `""`, `NA`, `null`, `-`, `?` and so on are missing;
        any other string is refused.
    time : list of (str or {"name": str, "parts": list of str})
        Dates and times (ISO 8601, `2024/03/01`, `01.03.2024`, `datetime`) are seconds since 1970, in UTC where they name no
        zone; numbers stay. The parts "hour" and "weekday" (UTC) are words under `name.hour` and `name.weekday`.
    decimal : {".", ","}
        Decimal mark of strings in columns of numbers.
    thousands : {",", ".", " ", "'", "_"}, optional
        Mark between groups of three digits; None: there is none.
    min_count : int
        In a `Pipeline`: learned rows in which a name has to be seen before it gets a column, >= 1.
    eviction : {"none", "least-recent"}
        In a `Pipeline`: what a new name does when the vocabulary is full.

    Examples
    --------
    >>> columns = Columns(ignore=["id", "tmp_*"], category=["zip"], number=["price"], time=["when"], decimal=",")
    >>> columns.transform_one({"id": 4, "zip": 1011, "price": "12,50", "when": "1970-01-02", "age": 30})
    {'zip': '1011', 'price': 12.5, 'when': 86400.0, 'age': 30}
    """

    def __init__(
        self,
        ignore: Sequence[str] = (),
        category: Sequence[str] = (),
        number: Sequence[str] = (),
        time: Sequence[Any] = (),
        decimal: str = ".",
        thousands: str | None = None,
        min_count: int = 1,
        eviction: Eviction = "none",
    ) -> None:
        self.ignore = _listed(ignore)
        self.category = _listed(category)
        self.number = _listed(number)
        self.time = _listed(time)
        self.decimal = decimal
        self.thousands = thousands
        self.min_count = min_count
        self.eviction = eviction
        patterns: dict[Kind, list[TimeColumn]] = {
            "ignore": _patterns("ignore", ignore),
            "category": _patterns("category", category),
            "number": _patterns("number", number),
            "time": _time_patterns(time),
        }
        owners: dict[str, Kind] = {}
        for kind, entries in patterns.items():
            for entry in entries:
                if entry.name in owners:
                    other = owners[entry.name]
                    expected = "each name once" if other == kind else f"no name that is in `{other}`, too"
                    raise InvalidParams(f"columns.{kind}", expected, entry.name)
                owners[entry.name] = kind
        if decimal not in DECIMALS:
            raise InvalidParams("columns.decimal", " | ".join(map(repr, DECIMALS)), decimal)
        if thousands is not None and thousands not in THOUSANDS:
            raise InvalidParams("columns.thousands", " | ".join(map(repr, [*THOUSANDS, None])), thousands)
        if thousands == decimal:
            raise InvalidParams("columns.thousands", f"another mark than decimal, {decimal!r}", thousands)
        if isinstance(min_count, bool) or not isinstance(min_count, int) or min_count < 1:
            raise InvalidParams("columns.min_count", "a whole number >= 1", min_count)
        if eviction not in EVICTIONS:
            raise InvalidParams("columns.eviction", " | ".join(map(repr, EVICTIONS)), eviction)
        self._patterns = patterns
        self._convention = Convention(decimal, thousands)
        self._known: dict[str | int, tuple[Kind, TimeColumn] | None] = {}
        self._changing: tuple[list[str], bool] | None = None  # names of the last matrix, and whether one is ruled

    @property
    def convention(self) -> Convention:
        """How strings in columns of numbers are written."""
        return self._convention

    @property
    def changes_values(self) -> bool:
        """Whether a name is ruled at all."""
        return any(self._patterns.values())

    def kind_of(self, name: str | int) -> Kind | None:
        """Return what a column is said to be; None where nothing is said.

        Parameters
        ----------
        name : str or int

        Returns
        -------
        {"ignore", "category", "number", "time"} or None
        """
        entry = self._entry(name)
        return None if entry is None else entry[0]

    def parts_of(self, name: str | int) -> tuple[str, ...]:
        """Return which parts of a column's times are features of their own.

        Parameters
        ----------
        name : str or int

        Returns
        -------
        tuple of {"hour", "weekday"}
        """
        entry = self._entry(name)
        return () if entry is None else entry[1].parts

    def _entry(self, name: Any) -> tuple[Kind, TimeColumn] | None:
        known = self._known
        try:
            return known[name]
        except (KeyError, TypeError):  # new, or what is no name
            if isinstance(name, bool) or not isinstance(name, (str, int, np.integer)):
                return None
        text = str(name)
        entry = None
        for kind in () if self._is_part(text) else KINDS:
            pattern = next((each for each in self._patterns[kind] if fnmatchcase(text, each.name)), None)
            if pattern is not None:
                entry = kind, pattern
                break
        if len(known) >= MOST_NAMES:
            known.clear()
        known[text if isinstance(name, str) else int(name)] = entry
        return entry

    def _is_part(self, text: str) -> bool:
        """Return whether a name is that of a part of a time: a row in which it stands has been transformed."""
        whole, dot, part = text.rpartition(".")
        if not dot or part not in PARTS:
            return False
        entry = self._entry(whole)
        return entry is not None and entry[0] == "time" and part in entry[1].parts

    # -- rows -------------------------------------------------------------------------------------

    def transform_one(self, x: dict[Any, Any]) -> dict[Any, Any]:
        """Return an example with what its columns are said to be.

        Parameters
        ----------
        x : dict
            Name to value.

        Returns
        -------
        dict
            Another one; `x` stays as it is.

        Raises
        ------
        InvalidBlock
            A string in a column of numbers or times is neither.
        """
        row: dict[Any, Any] = self.row(x)
        return row

    def row(self, x: Any, path: str = "") -> Any:
        """Return a dict with what its columns are said to be; a list of numbers with 0 for columns left out.

        To apply it twice is to apply it once. What is no row stays as it is.

        Parameters
        ----------
        x : dict or list of float
        path : str
            Place of the row, for an error.

        Returns
        -------
        dict or list of float

        Raises
        ------
        InvalidBlock
            A string in a column of numbers or times is neither.
        """
        if not isinstance(x, Mapping):
            return self._array_row(x, path) if isinstance(x, (list, tuple)) else x
        known = self._known
        result: dict[Any, Any] = {}
        for name, value in x.items():
            try:
                entry = known[name]
            except (KeyError, TypeError):
                entry = self._entry(name)
            if entry is None:
                result[name] = value
            elif entry[0] != "ignore":
                self._put(result, name, value, entry, path)
        return result

    def _put(self, result: dict[Any, Any], name: Any, value: Any, entry: tuple[Kind, TimeColumn], path: str) -> None:
        kind, pattern = entry
        if value is None:
            return
        if kind == "category":
            result[name] = _category(value)
            return
        where = f"{path}[{name!r}]"
        number = self._number(value, where) if kind == "number" else _seconds(value, where)
        if number is None:
            return
        result[name] = number
        if pattern.parts and isinstance(number, (int, float)) and math.isfinite(number):
            for part, word in parts_of(number, pattern.parts).items():
                result[f"{name}.{part}"] = word

    def _number(self, value: Any, where: str) -> Any:
        if isinstance(value, (bool, np.bool_)):
            return float(value)
        if not isinstance(value, str):
            return value
        text = value.strip()
        if not text or text in MISSING:
            return None
        number = number_of(text, self._convention)
        if number is None:
            marks = f"decimal {self.decimal!r}" + ("" if self.thousands is None else f", thousands {self.thousands!r}")
            raise InvalidBlock("feature", f"a number ({marks}) in a column of numbers", value, path=where)
        return number

    def _array_row(self, x: Sequence[Any], path: str) -> Sequence[Any]:
        ignored = self._ignored(range(len(x)), path)
        if not ignored:
            return x
        row = list(x)
        for column in ignored:
            row[column] = 0.0
        return row

    def _ignored(self, columns: Iterable[int], path: str = "") -> list[int]:
        """Return those of an array's columns that are left out."""
        ignored = []
        for column in columns:
            kind = self.kind_of(column)
            if kind == "ignore":
                ignored.append(column)
            elif kind == "category":
                raise InvalidBlock(
                    "features",
                    f"a dict of name to value: column {column} is a category",
                    Description("an array"),
                    path=path,
                )
        return ignored

    def rows(self, rows: Sequence[Any]) -> Sequence[Any]:
        """Return rows, each as by `row`; `NumberRows` stay such where they can.

        Parameters
        ----------
        rows : sequence of (dict or list of float)

        Returns
        -------
        sequence

        Raises
        ------
        InvalidBlock
            Names the row, the feature and the value.
        """
        if isinstance(rows, NumberRows):
            return self._number_rows(rows)
        return [self.row(x, f"[{number}]") for number, x in enumerate(rows)]

    def _number_rows(self, rows: NumberRows) -> Sequence[Any]:
        if self._changing is None or self._changing[0] != rows.names:
            changing = any(self._alters(name) for name in rows.names)
            self._changing = list(rows.names), changing
        if not self._changing[1]:
            return rows
        if any(self.kind_of(name) != "ignore" for name in rows.names if self._alters(name)):
            return [self.row(x, f"[{number}]") for number, x in enumerate(rows)]
        columns = [j for j, name in enumerate(rows.names) if self.kind_of(name) != "ignore"]
        return NumberRows([rows.names[j] for j in columns], np.ascontiguousarray(rows.values[:, columns]))

    def _alters(self, name: str) -> bool:
        """Return whether a column of numbers is altered."""
        entry = self._entry(name)
        return entry is not None and (entry[0] in ("ignore", "category") or bool(entry[1].parts))

    def array(self, X: Any) -> Any:
        """Return an array (n, d), dense or sparse, with 0 in the columns that are left out; the rows of a frame by name.

        Parameters
        ----------
        X : ndarray, scipy sparse, FrameTable or SparseTable (n, d)

        Returns
        -------
        ndarray, scipy sparse, FrameTable or SparseTable (n, d)
            Another one where a column is left out, or altered.

        Raises
        ------
        InvalidBlock
            A column is a category.
        """
        if isinstance(X, (FrameTable, SparseTable)):
            names = [name for name in X.names if self.kind_of(name) != "ignore"]
            is_as_it_is = isinstance(X, SparseTable) and not any(self._alters(name) for name in X.names)
            return X if is_as_it_is else FrameTable(names, self.rows(X.rows))
        shape = np.shape(X)
        if len(shape) != 2:
            return X
        ignored = self._ignored(range(int(shape[1])))
        if not ignored:
            return X
        if hasattr(X, "tocsr"):
            from scipy import sparse

            keep = np.ones(shape[1])
            keep[ignored] = 0.0
            X = X.tocsr()
            at = np.flatnonzero(keep[X.indices] == 0.0)
            X = sparse.csr_array((X.data.copy(), X.indices.copy(), X.indptr.copy()), shape=shape)
            X.data[at] = 0.0
            X.eliminate_zeros()
            return X
        X = np.array(X)
        X[:, ignored] = 0
        return X

    def block(self, block: Block) -> Block:
        """Return a block of array columns with 0 in the columns that are left out.

        Parameters
        ----------
        block : Block

        Returns
        -------
        Block

        Raises
        ------
        InvalidBlock
            A column is a category.
        """
        ignored = self._ignored(range(block.width))
        if not ignored:
            return block
        is_ignored = np.zeros(block.width, dtype=bool)
        is_ignored[ignored] = True
        if block.indices is None:
            return block.with_values(np.where(np.tile(is_ignored, len(block)), 0.0, block.values))
        keep = ~is_ignored[block.indices]
        counts = np.concatenate([[0], np.cumsum(keep)])
        return Block(
            counts[block.indptr].astype(np.int64),
            block.indices[keep],
            block.values[keep],
            block.y,
            block.weights,
            block.width,
            block.form,
        )


def _listed(names: Any) -> Any:
    """Return names as a list: River takes an empty tuple for a class with its parameters."""
    return list(names) if isinstance(names, (tuple, set, frozenset)) else names


def _patterns(kind: str, names: Any) -> list[TimeColumn]:
    if isinstance(names, (str, bytes)) or not isinstance(names, (list, tuple, set, frozenset)):
        raise InvalidParams(f"columns.{kind}", "a list of names or patterns", names)
    return [TimeColumn(_checked_pattern(kind, name)) for name in names]


def _time_patterns(entries: Any) -> list[TimeColumn]:
    if isinstance(entries, (str, bytes)) or not isinstance(entries, (list, tuple, set, frozenset)):
        raise InvalidParams("columns.time", "a list of names or patterns", entries)
    columns = []
    for entry in entries:
        if not isinstance(entry, Mapping):
            columns.append(TimeColumn(_checked_pattern("time", entry)))
            continue
        unknown = [key for key in entry if key not in ("name", "parts")]
        if unknown or "name" not in entry:
            raise InvalidParams("columns.time", "objects of `name` and `parts`", unknown[0] if unknown else dict(entry))
        parts = entry.get("parts", ())
        if not isinstance(parts, (list, tuple)) or any(part not in PARTS for part in parts):
            raise InvalidParams("columns.time.parts", f"a list of {' and '.join(map(repr, PARTS))}", parts)
        columns.append(TimeColumn(_checked_pattern("time", entry["name"]), tuple(dict.fromkeys(parts))))
    return columns


def _checked_pattern(kind: str, pattern: Any) -> str:
    if not isinstance(pattern, str) or not pattern:
        raise InvalidParams(f"columns.{kind}", "names or patterns, strings of a character or more", pattern)
    at = 0
    while (at := pattern.find("[", at)) >= 0:
        first = at + 2 if pattern[at + 1 : at + 2] == "!" else at + 1
        end = pattern.find("]", first + 1)
        if end < 0:
            raise InvalidParams(f"columns.{kind}", "a pattern whose [ has a ]; [[] stands for [", pattern)
        at = end + 1
    return pattern


def _category(value: Any) -> Any:
    if isinstance(value, (str, list, tuple, set, frozenset)):
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, numbers.Real) and math.isfinite(value):
        return word_of(value if isinstance(value, (bool, int)) else float(value))
    return value  # refused where it is read


def _seconds(value: Any, where: str) -> Any:
    """Return a time as seconds since 1970; a number as it is."""
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else float(value.astype("datetime64[us]").astype(np.int64)) / 1e6
    if isinstance(value, datetime.datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
        return (moment - _EPOCH) / _SECOND
    if isinstance(value, datetime.date):
        return float((value.toordinal() - _EPOCH.toordinal()) * 86_400)
    if not isinstance(value, str):
        return value
    text = value.strip()
    if not text or text in MISSING:
        return None
    seconds = time_of(text)
    if seconds is None:
        seconds = number_of(text)  # seconds already
    if seconds is None:
        raise InvalidBlock("feature", "a date or a time in a column of times", value, path=where)
    return seconds
