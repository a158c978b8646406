"""Rows of JSON, one a line, as matrices: those whose lines differ in their values only.

Rows of a stream nearly always have the same names in the same order. A JSON reader takes one of them and `learn`
cuts it at its values; `read` then takes, in compiled code, the lines behind it that are the same but for their
values, and stops at the first that is not. So `read` decides no error: what it takes, the JSON reader takes, and
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
from aucstream.features.columns import Columns
from aucstream.kernels import json_rows
from aucstream.kernels.memory import is_as_expected

COMPILED = is_as_expected()  # else no line is plain
MOST_ROWS = 8_192
MOST_ENTRIES = 1 << 20  # of the matrix made for one call
LONGEST_WAIT = 256

_read_lines: Callable[..., None] = json_rows.read_lines
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|true|false|null|[{}\[\]:,]')
_FIELDS = {
    b'"features"': json_rows.FEATURE,
    b'"label"': json_rows.LABEL,
    b'"weight"': json_rows.WEIGHT,
    b'"id"': json_rows.ID,
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
    def columns(self) -> Columns:
        """The features, where they have names."""
        return Columns(self.names or [], self.values)


class JsonRows:
    """Reads lines of the shape that it has learned; see the module.

    Where shapes change from line to line learning them does not pay: after a shape that took few rows or none,
    `learn` passes lines over, twice as many each time.

    Attributes
    ----------
    ready : bool
        Without a shape `read` takes no line.
    """

    def __init__(self) -> None:
        self._shape: _Shape | None = None
        self._taken = 0  # rows of this shape
        self._wait = self._passed = 0

    @property
    def ready(self) -> bool:
        """Whether there is a shape."""
        return self._shape is not None

    @property
    def passes(self) -> bool:
        """Whether `learn` passes the next line over, whatever it is."""
        return not COMPILED or self._passed < self._wait

    def learn(self, line: bytes) -> bool:
        """Take the shape of a line, without its line feed, that a JSON reader has taken without complaint.

        It must have refused a name that stands twice, or be one for which the last of them counts. Returns whether
        there is a shape now.
        """
        if self.passes:
            self._passed += 1
            return False
        self._wait = 0 if self._taken > self._wait else min(2 * self._wait + 1, LONGEST_WAIT)
        self._passed = self._taken = 0
        self._shape = _shape_of(line)
        return self._shape is not None

    def read(self, data: bytes | bytearray | memoryview, start: int = 0, most: int = MOST_ROWS) -> PlainRows | None:
        """Read rows from `start` on, at most so many; None where the line there is not of the shape.

        `data` is whole lines; the last one may lack its line feed. A call for few rows costs as little as one for
        `most`. May take fewer rows than there are: the caller goes on from `end` until None.
        """
        shape = self._shape
        if shape is None:
            return None
        rows = shape.read(data, start, most)
        if rows is None:
            self._shape = None
        else:
            self._taken += len(rows)
        return rows


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
        end, taken = state.tolist()
        if not taken:
            return None
        return PlainRows(
            self.names,
            values[:taken],
            signs[:taken] if label else None,
            weights[:taken] if weight else None,
            ids[:taken] if id_ else None,
            starts[: taken + 1],
            end,
        )


def _shape_of(line: bytes) -> _Shape | None:
    """Return the shape of a line that a JSON reader has taken; None where it is not plain."""
    names: list[str] = []
    texts: list[bytes] = []
    kinds: list[int] = []
    seen: list[bytes] = []  # fields
    array = False
    depth = cut = 0
    last = b""  # the token before
    for token in _TOKEN.finditer(line):
        text = token[0]
        start, end = token.span()
        kind = -1
        if text in (b"{", b"["):
            depth += 1
            array = text == b"["
            if depth > 2 or (depth == 2 and seen[-1] != b'"features"'):
                return None
        elif text in (b"}", b"]"):
            depth -= 1
        elif text == b":":
            if depth == 2:
                names.append(msgspec.json.decode(last, type=str))
            elif last in seen or last not in _FIELDS:
                return None
            else:
                seen.append(last)
        elif depth == 2 and (last == b":" or (array and text != b",")):
            kind = json_rows.FEATURE
        elif last == b":":
            kind = _FIELDS[seen[-1]]
            if kind == json_rows.FEATURE:
                return None
        last = text
        if kind == json_rows.ID:
            if text == b"null":
                continue
            start, end = start + 1, end - 1
        elif kind >= 0 and not (text[0] in b"-0123456789" or (kind == json_rows.LABEL and text in (b"true", b"false"))):
            return None
        if kind >= 0:
            texts.append(line[cut:start])
            kinds.append(kind)
            cut = end
    if json_rows.FEATURE not in kinds or len(set(names)) < len(names):
        return None
    return _Shape(names or None, [*texts, line[cut:]], [*kinds, json_rows.END])
