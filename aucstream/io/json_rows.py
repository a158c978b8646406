"""Rows of JSON, one a line, as matrices: those whose lines differ in their values only.

Rows of a stream nearly always have the same names in the same order. A JSON reader takes one of them and `learn`
cuts it at its values; `read` then takes, in compiled code, the lines behind it that are the same but for their
values, and stops at the first that is not of the shape. So `read` decides no error: what it takes, the JSON reader takes, and
with the same values to the last bit; every other line is to be given to the JSON reader.

Plain are rows whose features are all numbers, in an object or an array; with a `label` (false, true, 0, 1, -1), a
`weight` and an `id` (1 to 256 visible ASCII characters without escapes), or without.

>>> data = b'{"features": {"a": 1, "b": 2}, "label": true}\\n{"features": {"a": 0.5, "b": 1e2}, "label": false}\\n'
>>> reader, end = JsonRows(), data.index(b"\\n")
>>> reader.learn(data[:end])
True
>>> rows = reader.read(data, end + 1)
>>> rows.names, rows.values.tolist(), rows.signs.tolist(), rows.end == len(data)
(['a', 'b'], [[0.5, 100.0]], [-1.0], True)
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import numpy as np

from aucstream.block import Floats, Ints
from aucstream.features.number_rows import NumberRows
from aucstream.kernels.text import json_rows
from aucstream.kernels.text.bits import COMPILED

FEW, MOST_ROWS = 32, 8_192  # rows of a call
MOST_ENTRIES = 1 << 20  # of the matrix made for one call
# What is tried costs or saves about so many times what a line costs that is passed over. Nothing is tried on credit:
# where every line has another shape, it adds a tenth to the time that the JSON reader needs.
GAIN, FAILED, LEARNED, MOST_SAVED = 6, -30, -300, 900

_read_lines: Callable[..., None] = json_rows.read_lines
# of lines that are known to be JSON
_STRING, _NUMBER = rb'"((?:[^"\\]|\\.)*)"', rb"(-?[0-9][-+.0-9eE]*)"
_FIELD = re.compile(rb'[\s{,]*"(features|label|weight|id)"\s*:\s*')
_NAMED = re.compile(rb"\s*%s\s*:\s*%s\s*[,}]" % (_STRING, _NUMBER))
_UNNAMED = re.compile(rb"()\s*%s\s*[,\]]" % _NUMBER)
_END = re.compile(rb"\s*\}\s*")
_KINDS = {b"label": json_rows.LABEL, b"weight": json_rows.WEIGHT, b"id": json_rows.ID}
_VALUES = {
    b"label": re.compile(rb"(true|false|-?[0-9][-+.0-9eE]*)"),
    b"weight": re.compile(_NUMBER),
    b"id": re.compile(_STRING),
}


@dataclass(frozen=True, slots=True)
class PlainRows:
    """Rows that `JsonRows.read` has taken.

    Attributes
    ----------
    names : list of str or None
        Of the columns, in the order of the lines; None: the features are arrays.
    values : ndarray of float64 (n, k)
    signs : ndarray of float64 (n,) or None
        +1.0 or -1.0; None: the rows have no label.
    weights : ndarray of float64 (n,) or None
        Finite and >= 0; None: the rows have no weight.
    ids : ndarray of int64 (n, 2) or None
        Where each row's id starts and ends in the data; None: the rows have no id, or null.
    starts : ndarray of int64 (n + 1,)
        Where each row's line starts in the data, and where the last one ends, behind its line feed.
    end : int
        Where the next line starts.
    """

    names: list[str] | None
    values: Floats
    signs: Floats | None
    weights: Floats | None
    ids: Ints | None
    starts: Ints
    end: int

    def __len__(self) -> int:
        return len(self.values)

    @property
    def columns(self) -> NumberRows:
        """The features, where they have names."""
        return NumberRows(self.names or [], self.values)


class JsonRows:
    """Reads lines of the shape that it has learned; see the module.

    Whether trying pays is kept as an account of the time that it took and saved: where each line has another shape,
    few are tried.

    Attributes
    ----------
    ready : bool
        Otherwise `read` takes no line.
    """

    def __init__(self) -> None:
        self._shape: _Shape | None = None
        self._failed = 0  # reads, one after the other
        self._saved = MOST_SAVED
        self._wait = 0  # lines to pass over
        self._few = False  # rows taken at once: then room for all is not made before so many are seen

    @property
    def ready(self) -> bool:
        """Whether there is a shape, and to try it pays."""
        return self._shape is not None and not self._wait

    @property
    def passes(self) -> bool:
        """Whether `learn` passes the next line over, whatever it is."""
        return not COMPILED or self._wait > 0 or (self._shape is not None and self._failed == 1)

    def learn(self, line: bytes) -> bool:
        """See a line, without its line feed, that a JSON reader has taken without complaint.

        To be called with every line that `read` left. The reader must have refused a name that stands twice, or be
        one for which the last of them counts. Returns whether the line's shape was learned, so that `read` may take
        this line, too; not where it does not pay, or the shape before it may go on behind this one line.
        """
        if self.passes:
            self._wait = max(0, self._wait - 1)
            return False
        self._book(LEARNED)
        self._shape = _shape_of(line)
        self._failed = 0
        return self._shape is not None

    def passing(self) -> int:
        """Return before how many lines there is no use in calling `read` and `learn`; for those it need not be done."""
        lines, self._wait = self._wait, 0
        return lines

    def read(self, data: bytes | bytearray | memoryview, start: int = 0, most: int = MOST_ROWS) -> PlainRows | None:
        """Read rows from `start` on, at most so many; None where the line there is not of the shape.

        `data` is whole lines; the last one may lack its line feed. May take fewer rows than there are: the caller
        goes on from `end` until None.
        """
        if self._shape is None or self._wait:
            return None
        rows = self._shape.read(data, start, min(most, FEW) if self._few else most)
        if self._few and rows is not None and len(rows) == FEW < most:
            rows = self._shape.read(data, start, most)
        self._few = rows is None or len(rows) < FEW
        if rows is None:
            self._failed += 1
            self._book(FAILED)
        else:
            self._failed = 0
            self._book(FAILED + GAIN * len(rows))
        return rows

    def _book(self, saved: int) -> None:
        self._saved = min(MOST_SAVED, self._saved + saved)
        if self._saved < 0:
            self._wait, self._saved = -self._saved, 0


class _Shape:
    """A line, cut at its values."""

    def __init__(self, names: list[str] | None, texts: list[bytes], kinds: list[int]) -> None:
        self.names = names
        padded = [text.ljust(-len(text) % 8 + len(text), b"\0") for text in texts]
        pieces = np.frombuffer(b"".join(padded), dtype="<u8").astype(np.uint64)
        counted = b"".join(b"\xff" * len(text) + b"\0" * (-len(text) % 8) for text in texts)
        self._arguments = (
            pieces,
            np.frombuffer(counted, dtype="<u8").astype(np.uint64),
            np.array(kinds, dtype=np.int64),
            np.cumsum([len(text) // 8 for text in padded]).astype(np.int64),
            np.array([len(text) for text in texts], dtype=np.int64),
        )
        self._has = [kind in kinds for kind in (json_rows.LABEL, json_rows.WEIGHT, json_rows.ID)]
        self._width = kinds.count(json_rows.FEATURE)
        self._shortest = sum(map(len, texts)) + len(kinds)  # of a line with its line feed: a byte a value at least

    def read(self, data: bytes | bytearray | memoryview, start: int, most: int) -> PlainRows | None:
        text = np.frombuffer(data, dtype=np.uint8)
        text.flags.writeable = False  # whatever it is a view of: one type to compile for
        left = (text.size - start) // self._shortest + 1
        n = min(most, left, max(1, MOST_ENTRIES // max(1, self._width)))
        label, weight, id_ = self._has
        values = np.empty((n, self._width))
        signs, weights = np.empty(n if label else 0), np.empty(n if weight else 0)
        ids, starts = np.empty((n if id_ else 0, 2), dtype=np.int64), np.empty(n + 1, dtype=np.int64)
        state = np.array([start, 0], dtype=np.int64)
        _read_lines(text, state, *self._arguments, n, values, signs, weights, ids, starts)
        end, rows = state.tolist()
        if not rows:
            return None
        return PlainRows(
            self.names,
            values[:rows],
            signs[:rows] if label else None,
            weights[:rows] if weight else None,
            ids[:rows] if id_ else None,
            starts[: rows + 1],
            end,
        )


def _shape_of(line: bytes) -> _Shape | None:
    """Return the shape of a line that a JSON reader has taken; None where it is not plain."""
    names: list[str] = []
    values: list[tuple[int, int]] = []
    kinds: list[int] = []
    seen = set()
    at = 0
    while field := _FIELD.match(line, at):
        name, at = field[1], field.end()
        if name in seen:
            return None
        seen.add(name)
        if name == b"features":
            named = line[at : at + 1] == b"{"
            feature = (_NAMED if named else _UNNAMED).match
            at += 1
            while entry := feature(line, at):
                if named:
                    names.append(msgspec.json.decode(b'"%s"' % entry[1]) if b"\\" in entry[1] else entry[1].decode())
                values.append(entry.span(2))
                kinds.append(json_rows.FEATURE)
                at = entry.end()
            if line[at - 1 : at] not in (b"}", b"]"):  # there is more, or nothing
                return None
        elif value := _VALUES[name].match(line, at):
            values.append(value.span(1))
            kinds.append(_KINDS[name])
            at = value.end()
        elif name != b"id" or not line.startswith(b"null", at):
            return None
        else:
            at += len(b"null")
    if json_rows.FEATURE not in kinds or len(set(names)) < len(names) or not _END.fullmatch(line, at):
        return None
    cuts = [0, *(end for _, end in values)]
    texts = [line[cut:start] for cut, (start, _) in zip(cuts, [*values, (len(line), 0)], strict=True)]
    return _Shape(names or None, texts, [*kinds, json_rows.END])
