"""svmlight / libsvm text: `label index:value index:value … # comment`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import IO

import numpy as np

from aucstream.block import NEGATIVE, POSITIVE, Block, Floats, Form, Ints
from aucstream.errors import BadRow, InvalidParams
from aucstream.io.rows import CHUNK_ROWS
from aucstream.io.source import PathLike, Source, as_source, line_feeds, whole_lines
from aucstream.kernels.text import parse

FIRST_ROOM = 1 << 17  # entries; doubled when a chunk has more
FIRST_LATE = 1 << 10
EXPECTED_LABEL = "a label: negative (0, -1) or positive (1), or positive=VALUE that names the class"
MOST_LABELS = 1000  # distinct ones that are remembered
EXPECTED_VALUE = "a finite number"
_LABELS = {0.0: NEGATIVE, -1.0: NEGATIVE, 1.0: POSITIVE}
_parse: Callable[..., int] = parse.parse_svmlight
_TOKEN_END = re.compile(rb"[\s#]")


def read_svmlight(
    source: Source | PathLike | IO[bytes],
    *,
    chunk_rows: int = CHUNK_ROWS,
    zero_based: bool = False,
    positive: str | None = None,
    labelled: bool = True,
) -> SvmlightReader:
    """Read an svmlight / libsvm file in blocks of rows.

    Comments after `#` and `qid:` entries are passed over, as are blank lines; explicit zeros are
    kept. Values equal Python's `float` to the last bit.

    Parameters
    ----------
    source : path, `-`, Source or binary file-like
        Decompressed on the way.
    chunk_rows : int
        Rows in a block.
    zero_based : bool
        Whether the file counts columns from 0; by default from 1. Blocks count from 0.
    positive : str, optional
        The number that labels positive rows; rows with another one are negative.
    labelled : bool
        False: rows are only scored; labels are passed over or absent, `y` and `weights` are empty.

    Returns
    -------
    SvmlightReader
        An iterator of Block: CSR, weights 1. `width` is the largest column so far plus 1; it never falls.

    Raises
    ------
    InvalidParams
        `positive` is no number.
    BadRow
        Naming file, line, column (as the file counts) and value; the rows before it in the same
        block are not yielded.
    """
    number = None
    if positive is not None and labelled:
        try:
            number = float(positive)
        except ValueError as error:
            raise InvalidParams("positive", "a number: labels of svmlight are numbers", positive) from error
    return SvmlightReader(as_source(source), chunk_rows, 0 if zero_based else 1, number, labelled)


class SvmlightReader:
    """Iterates over blocks of an svmlight file; made by `read_svmlight`."""

    def __init__(self, source: Source, chunk_rows: int, base: int, positive: float | None, labelled: bool) -> None:
        self._labels: dict[float, None] = {}
        self._blocks = _blocks(source, chunk_rows, base, positive, labelled, self._labels)

    def __iter__(self) -> Iterator[Block]:
        return self

    def __next__(self) -> Block:
        return next(self._blocks)

    @property
    def label_words(self) -> tuple[str, ...]:
        """Distinct labels so far, where `positive` names one of them."""
        return tuple(f"{label:g}" for label in self._labels)


def _signs(labels: Floats, positive: float, seen: dict[float, None]) -> Floats:
    """Return labels as +1 and -1; note distinct ones."""
    if len(seen) < MOST_LABELS:
        seen.update(dict.fromkeys(np.unique(labels).tolist()))
    return np.where(labels == positive, POSITIVE, NEGATIVE)


def _blocks(
    source: Source, chunk_rows: int, base: int, positive: float | None, labelled: bool, seen: dict[float, None]
) -> Iterator[Block]:
    first = parse.NO_LABELS if not labelled else parse.SIGNS if positive is None else parse.LABELS
    late = np.empty((FIRST_LATE, 3), dtype=np.int64)
    state = np.zeros(6, dtype=np.int64)
    room = FIRST_ROOM

    def arrays() -> tuple[Ints, Ints, Floats, Floats]:
        indptr = np.empty(chunk_rows + 1, dtype=np.int64)
        indptr[0] = 0
        return indptr, np.empty(room, dtype=np.int64), np.empty(room), np.empty(chunk_rows)

    def block() -> Block:  # it keeps the arrays: to copy them would cost a tenth of the pass
        rows, nnz = int(state[parse.ROW]), int(state[parse.ENTRY])
        state[parse.ROW] = state[parse.ENTRY] = 0
        return Block(
            indptr[: rows + 1],
            indices[:nnz],
            values[:nnz],
            np.empty(0) if not labelled else y[:rows] if positive is None else _signs(y[:rows], positive, seen),
            np.ones(rows) if labelled else np.empty(0),
            int(state[parse.WIDTH]),
            Form.CSR,
        )

    indptr, indices, values, y = arrays()
    lines = 0
    for piece in whole_lines(source):
        data = np.frombuffer(piece, dtype=np.uint8)
        state[parse.POSITION] = 0
        while state[parse.POSITION] < data.size:
            outcome = _parse(data, state, indptr, indices, values, y, late, base, chunk_rows, first)
            for slot, start, end in late[: state[parse.LATE_TOKENS]].tolist():
                value = float(piece[start:end])
                if slot >= 0 and math.isfinite(value):
                    values[slot] = value
                elif slot < 0 and positive is not None and math.isfinite(value):
                    y[-1 - slot] = value
                elif slot < 0 and positive is None and value in _LABELS:
                    y[-1 - slot] = _LABELS[value]
                else:
                    raise _bad_row(source.name, lines, piece, start, base, slot < 0)
            state[parse.LATE_TOKENS] = 0
            if outcome == parse.NEED_ROOM:
                indices = np.concatenate([indices, np.empty_like(indices)])
                values = np.concatenate([values, np.empty_like(values)])
                late = np.empty((2 * late.shape[0], 3), dtype=np.int64)
            elif outcome != parse.DONE:
                token = int(state[parse.TOKEN])
                raise _bad_row(source.name, lines, piece, token, base, outcome == parse.BAD_LABEL)
            if state[parse.ROW] == chunk_rows:
                room = int(state[parse.ENTRY]) * 9 // 8 + 16  # as many as this one has, and some
                yield block()
                indptr, indices, values, y = arrays()
        lines += line_feeds(piece)
    if state[parse.ROW]:
        yield block()


def _bad_row(name: str, lines: int, piece: bytes, at: int, base: int, is_label: bool) -> BadRow:
    """Say what is wrong with the token around `at`: the label, or an entry `index:value`."""
    line_start = piece.rfind(b"\n", 0, at) + 1
    line = lines + piece.count(b"\n", 0, at) + 1
    before = piece[line_start:at].split()
    start = at if is_label or piece[at - 1 : at] != b":" else at - 1 - len(before[-1].partition(b":")[0])
    end = _TOKEN_END.search(piece, start)
    token = piece[start : end.start() if end else len(piece)].decode(errors="replace")
    if is_label:
        return BadRow(name, line, "label", EXPECTED_LABEL, token)
    index, colon, value = token.partition(":")
    if not (colon and index.isascii() and index.isdigit()):
        n = len(piece[line_start:start].split()) + 1
        return BadRow(name, line, f"token {n}", f"index:value with a whole index >= {base}", token)
    column = int(index[:20])
    if column < base:
        hint = "; zero_based=True reads files that count from 0" if column == 0 else ""
        return BadRow(name, line, index, f"an index >= {base}{hint}", token)
    if column - base >= parse.MAX_COLUMNS:
        return BadRow(name, line, index, f"an index < {parse.MAX_COLUMNS + base:,}", token)
    earlier = [t.partition(b":")[0] for t in piece[line_start:start].split() if b":" in t and t[:1] != b"q"]
    if earlier and column <= int(earlier[-1]):
        expected = f"indices that rise along the line (after {int(earlier[-1])})"
        return BadRow(name, line, index, expected, token)
    return BadRow(name, line, index, EXPECTED_VALUE, value)
