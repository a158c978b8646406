"""Lines of a body that comes in parts, with their numbers; rows of one form come as a matrix."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np

from aucstream.errors import AucstreamError
from aucstream.io.json_rows import JsonRows, PlainRows
from aucstream_service.bodies.bodies import Call, RowLimits, checked_row, learn_body, predict_body
from aucstream_service.http.request_context import BOM
from aucstream_service.journal.row_batch import Line, RowBatch

STEP_ROWS = 256  # rows that are decoded or scored one by one before the loop looks elsewhere: about a millisecond
PLAIN_ROWS = 2_048  # the same for rows that are one matrix, and one event
FEW = 16  # plain rows between two parts of the body, or
MANY = 64  # between other lines, that are worth an event of their own
WINDOW = 1 << 16  # bytes that are cut into lines at once
LONGEST = 1 << 16  # bytes of a line that is looked at for its shape, which takes milliseconds

SPACE = 32
_BLANK = re.compile(rb"\s+")

Accepts = Callable[[bytes], bool]


class LineReader:
    """Cut parts into lines; at most one line and one part are in memory.

    A line over `limit` bytes comes as None in its place, and its rest is dropped as it comes.
    Blank lines are counted and left out.

    Parameters
    ----------
    limit : int
    accepts : callable or None
        Returns whether a line, and those that differ from it only in their numbers, may come as a matrix.
    """

    def __init__(self, limit: int, accepts: Accepts | None = None) -> None:
        self._limit = limit
        self._accepts = accepts
        self._reader = JsonRows()
        self._rest = b""
        self._number = 0  # lines so far
        self._began = False  # whether the first line has come
        self._dropping = False
        self._passing = 0 if accepts else 1 << 62  # lines that are not looked at

    def feed(self, part: bytes) -> Iterator[list[Line] | RowBatch]:
        """Yield the lines that end in this part, in order: some as (line number from 1, line), some as a matrix."""
        end = part.rfind(b"\n") + 1
        data = b"".join((self._rest, memoryview(part)[:end])) if end else b""
        if data and not self._began:
            self._began, data = True, data.removeprefix(BOM)
        self._rest = part[end:] if end else self._rest + part
        items: list[Line] = []
        at = 0
        while at < len(data):
            if data[at] <= SPACE and not self._dropping and (blank := self._blank(data, at)) > at:
                self._number += data.count(b"\n", at, blank)
                at = blank
            elif self._dropping or self._passing or (rows := self._plain(data, at)) is None:
                most = 1 if self._dropping else max(1, min(self._passing, STEP_ROWS - len(items)))
                at = self._others(data, at, most, items)
            else:
                whole = at == 0 and rows.end == len(data)
                if len(rows) >= (FEW if whole else MANY):
                    if items:
                        yield items
                        items = []
                    yield self._matrix(data, rows)
                else:
                    items += _lines_of(data, rows.starts, self._number + 1)
                self._number += len(rows)
                at = rows.end
            if len(items) >= STEP_ROWS:
                yield items
                items = []
        if items:
            yield items
        if self._dropping or len(self._rest) > self._limit:
            self._dropping = True
            self._rest = b""

    def end(self) -> Iterator[list[Line] | RowBatch]:
        """Yield the last line, which no newline ends."""
        if self._rest or self._dropping:
            yield from self.feed(b"\n")

    def _blank(self, data: bytes, at: int) -> int:
        """Return where the blank lines from a place on end, as far as none can be too long."""
        text = _BLANK.match(data, at, at + self._limit + 1)
        return at if text is None else data.rfind(b"\n", at, text.end()) + 1 or at

    def _others(self, data: bytes, at: int, most: int, items: list[Line]) -> int:
        """Add up to so many lines, the first one at a place, to the items; return where the next one is."""
        lines = data[at : at + WINDOW].split(b"\n", most)
        lines.pop()  # what is behind them
        lines = lines or [data[at : data.index(b"\n", at)]]
        for line in lines:
            self._number += 1
            if self._dropping or len(line) > self._limit:
                self._dropping = False
                items.append((self._number, None))
            elif line and not line.isspace():
                items.append((self._number, line))
        self._passing = max(0, self._passing - len(lines))
        return at + sum(map(len, lines)) + len(lines)

    def _plain(self, data: bytes, at: int) -> PlainRows | None:
        """Return the plain rows from a place on; None: the line at that place is not plain."""
        reader = self._reader
        rows = reader.read(data, at, PLAIN_ROWS)
        if rows is None:
            line = data[at : data.index(b"\n", at)]
            if (reader.passes or self._is_plain(line)) and reader.learn(line):
                rows = reader.read(data, at, PLAIN_ROWS)
            if rows is None:
                self._passing = 1 + reader.passing()
                return None
        if int(np.diff(rows.starts).max()) - 1 <= self._limit:
            return rows
        short = int(np.argmax(np.diff(rows.starts) - 1 > self._limit))  # the row after these is too long
        return reader.read(data, at, short) if short else None

    def _is_plain(self, line: bytes) -> bool:
        return len(line) <= min(self._limit, LONGEST) and self._accepts is not None and self._accepts(line)

    def _matrix(self, data: bytes, rows: PlainRows) -> RowBatch:
        first, starts = self._number + 1, rows.starts
        features = rows.columns
        return RowBatch(
            features,
            () if rows.signs is None else rows.signs,
            None if rows.weights is None or (rows.weights == 1.0).all() else rows.weights,
            None if rows.ids is None else [data[a:b].decode() for a, b in rows.ids.tolist()],
            places=range(first, first + len(rows)),
            size=features.values.nbytes + len(rows),
            as_lines=lambda: _lines_of(data, starts, first),
        )


def _lines_of(data: bytes, starts: np.ndarray, number: int) -> list[Line]:
    """Return the lines that begin where it says, without their line feeds; `number` is that of the first."""
    edges = starts.tolist()
    return [(number + row, data[a : b - 1]) for row, (a, b) in enumerate(pairwise(edges))]


def accepts(call: Call, limits: RowLimits) -> Accepts | None:
    """Return a test of a line: it and the lines that differ from it only in their numbers are good rows."""
    if call is Call.LABEL:
        return None

    def accepted(line: bytes) -> bool:
        try:
            if call is Call.PREDICT:
                scored = predict_body(line)
                return scored.id is None and not scored.explain and _in_limits(scored.features, limits)
            body = learn_body(line)
            checked_row(body, len(line), limits)
            return _in_limits(body.features, limits)
        except AucstreamError:
            return False

    return accepted


def _in_limits(features: object, limits: RowLimits) -> bool:
    """Return whether all numbers may stand under these names."""
    return (
        isinstance(features, dict)
        and len(features) <= limits.features
        and all(len(name) <= limits.name_length for name in features)
    )
