"""CSV and TSV: a header line, then one row a line."""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np

from aucstream.errors import BadRow, InvalidParams
from aucstream.features.number_rows import NumberRows, together
from aucstream.io.decisions import HEAD_ROWS, NO_RULES, Decision, Refusal, Rules, TextColumn, decide
from aucstream.io.labels import Labels, column_of
from aucstream.io.remarks import RowNumbers, with_parts
from aucstream.io.rows import CHUNK_ROWS, Rows, Value, named_rows
from aucstream.io.source import PathLike, Source, as_source, whole_lines
from aucstream.kernels.text import csv_rows
from aucstream.kernels.text.bits import COMPILED

BATCH_ROWS = 256  # converted at once: twice as fast as 8,192, whose cells fall out of the cache
DELIMITERS = (",", ";", "\t", "|")
NAMED_DELIMITERS = {"\\t": "\t", "tab": "\t"}  # as shells pass them on
PLAIN_DELIMITERS = frozenset(",;\t|")
FEW = 64  # plain lines at once, for which looking for them has paid
_read_lines: Callable[..., None] = csv_rows.read_lines


def read_csv(
    source: Source | PathLike | IO[bytes],
    *,
    label: str | None,
    positive: str | None = None,
    delimiter: str | None = None,
    chunk_rows: int = CHUNK_ROWS,
    labelled: bool = True,
    rules: Rules = NO_RULES,
) -> CsvReader:
    """Read a CSV file with a header line, in chunks of rows.

    A column is numbers (float), times (seconds since 1970), words (str) or bools (exactly `true`, `True`, `false` and
    `False`), decided from the first rows for all of them, see `aucstream.io.decisions`. Blanks around a cell are
    dropped, an empty cell is missing, and among numbers and times so are `NA`, `null`, `nan`, `-`, `?` and the like. A
    word in a column of numbers stays a word. A first column without a name is left out as the index of a frame.

    Parameters
    ----------
    source : path, `-`, Source or binary file-like
        UTF-8, with or without a byte order mark.
    label : str or None
        The label column. None is for rows that are only scored.
    positive : str, optional
        The text of a positive cell in the label column; every other text is negative.
        Needed where labels are words.
    delimiter : str, optional
        One character, or `\\t` or `tab`; default: whichever of `,`, `;`, tab and `|` splits the header most.
    chunk_rows : int
        Rows in a chunk.
    labelled : bool
        False: rows are only scored, `Rows.y` is empty, the label column may be absent and is left out.
    rules : Rules
        What is known of columns.

    Returns
    -------
    CsvReader
        An iterator of Rows; the header has been read.

    Raises
    ------
    InvalidParams
        For the options: unknown label column, words without `positive`.
    BadRow
        For a row: file, line, column and value.
    """
    return CsvReader(
        as_source(source),
        label=label,
        positive=positive,
        delimiter=delimiter,
        chunk_rows=chunk_rows,
        labelled=labelled,
        rules=rules,
    )


@dataclass(slots=True)
class _Chunk:
    """What has been read of the chunk at hand."""

    lines: list[int] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    parts: list[Sequence[Any]] = field(default_factory=list)  # of the features

    def __len__(self) -> int:
        return len(self.lines)


class CsvReader:
    """Iterates over chunks of a CSV file; made by `read_csv`.

    Attributes
    ----------
    delimiter : str
        As given or sniffed.
    columns : tuple of str
        The header.
    decisions : dict of str to Decision
        What columns are; the label is not among them.
    """

    def __init__(
        self,
        source: Source,
        *,
        label: str | None,
        positive: str | None,
        delimiter: str | None,
        chunk_rows: int,
        labelled: bool,
        rules: Rules = NO_RULES,
    ) -> None:
        delimiter = NAMED_DELIMITERS.get(delimiter or "", delimiter)
        if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
            raise InvalidParams("delimiter", "one character", delimiter)
        self._file = source.name
        self._chunk_rows = chunk_rows
        text = self._text = _Lines(source)
        top: list[str] = []  # down to the header
        while not (top and top[-1].strip()) and (line := next(text, "")):
            top.append(line)
        self.delimiter = delimiter or _sniff_delimiter(top[-1] if top else "")
        header = next((record for record in self._records(itertools.chain(top, text), 0) if record[1]), None)
        if header is None:
            raise BadRow(self._file, 1, "", "a header line with the names of the columns", "")
        self.columns = tuple(cell.strip() for cell in header[1])
        self._has_index = len(self.columns) > 1 and not self.columns[0]
        self._check_header(header[0])
        self._label = column_of(label, self.columns, self._file, needed=labelled)
        self._labels = Labels(self._file, label or "", positive) if labelled else None
        self._rules = rules
        self._others = [j for j in range(len(self.columns)) if j != self._label]
        ignored = {j for j in self._others if rules.leaves_out(self.columns[j]) or (self._has_index and j == 0)}
        self._ignored = [self.columns[j] for j in sorted(ignored)]
        self._features = [j for j in self._others if j not in ignored]
        self._kept = [at for at, j in enumerate(self._others) if j not in ignored]  # of a matrix of all but the label
        self._names = [self.columns[j] for j in self._features]
        self._readers: list[TextColumn] = []
        self._row_numbers: RowNumbers | None = None
        self._plain = COMPILED and bool(self._features) and self.delimiter in PLAIN_DELIMITERS
        self._chunks = self._read()

    def __iter__(self) -> Iterator[Rows]:
        return self

    def __next__(self) -> Rows:
        return next(self._chunks)

    @property
    def label_words(self) -> tuple[str, ...]:
        """Distinct labels of the first chunk, as they are written."""
        return () if self._labels is None else self._labels.words

    @property
    def decisions(self) -> dict[str, Decision]:
        """What each column is, by name; the label is not among them, nor is a column without a cell so far."""
        decisions = {name: Decision("ignore") for name in self._ignored if name}
        return decisions | {each.name: each.decision for each in self._readers if each.decision is not None}

    @property
    def mixed(self) -> dict[str, list[str]]:
        """Column to its words, of the columns that have shown numbers and at most ten words so far."""
        return {each.name: each.slips for each in self._readers if each.slips}

    @property
    def remarks(self) -> list[tuple[str, str]]:
        """(column, sentence) for each thing that is worth a remark, so far."""
        remarks = [("1", "has no name and is left out, as the index of a frame")] if self._has_index else []
        remarks += [(each.name, sentence) for each in self._readers for sentence in each.sentences]
        return remarks if self._row_numbers is None else remarks + self._row_numbers.remarks

    def _check_header(self, line: int) -> None:
        seen: set[str] = set()
        for j, name in enumerate(self.columns, 1):
            if not name and j == 1 and self._has_index:
                continue
            if not name:
                raise BadRow(self._file, line, str(j), "a name for every column in the header", name)
            if name in seen:
                raise BadRow(self._file, line, str(j), "names that differ in the header", name)
            seen.add(name)

    def _records(self, text: Iterable[str], before: int, lines: float = math.inf) -> Iterator[tuple[int, list[str]]]:
        """Yield (line, cells) of every record that starts in so many lines of a text; there are others before it."""
        reader = csv.reader(text, delimiter=self.delimiter, strict=True)
        while reader.line_num < lines:
            line = before + reader.line_num + 1
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                advice = f"cells as CSV quotes them: a quote within quotes is doubled ({error})"
                raise BadRow(self._file, line, "", advice) from error
            yield line, cells

    def _read(self) -> Iterator[Rows]:
        chunk = _Chunk()
        others = 1  # lines to read before the next look for plain ones
        records, starts = self._head()
        for at in range(0, len(records), self._chunk_rows):
            stop = min(at + self._chunk_rows, len(records))
            for first in range(at, stop, BATCH_ROWS):
                part = slice(first, min(first + BATCH_ROWS, stop))
                self._convert(records[part], starts[part], chunk)
            if len(chunk) == self._chunk_rows:
                yield self._rows(chunk)
                chunk = _Chunk()
        while self._text.more():
            rows = self._take_plain(chunk) if self._plain and self._is_numeric() else 0
            if len(chunk) < self._chunk_rows and self._text.at < len(self._text.piece):
                others = 1 if rows >= FEW else min(2 * others, BATCH_ROWS)
                self._take(chunk, min(others, self._chunk_rows - len(chunk)))
            if len(chunk) == self._chunk_rows:
                yield self._rows(chunk)
                chunk = _Chunk()
        if chunk.lines:
            yield self._rows(chunk)

    def _head(self) -> tuple[list[list[str]], list[int]]:
        """Take the first rows, and decide by them what the columns are."""
        records: list[list[str]] = []
        starts: list[int] = []
        while len(records) < HEAD_ROWS and self._text.more():
            part = self._records_of(min(BATCH_ROWS, HEAD_ROWS - len(records)))
            records += part[0]
            starts += part[1]
        cells = list(zip(*records, strict=True)) if records else [()] * len(self.columns)
        heads = {self.columns[j]: cells[j] for j in self._features}
        decisions = decide(heads, self._rules, delimiter=self.delimiter)
        self._readers = [TextColumn(name, decisions.get(name), self._rules) for name in self._names]
        self._row_numbers = RowNumbers([name for name in self._names if _is_number(decisions.get(name))])
        return records, starts

    def _is_numeric(self) -> bool:
        """Return whether lines of plain numbers are read as such."""
        return all(each.is_plain for each in self._readers)

    def _take(self, chunk: _Chunk, lines: int) -> None:
        """Take so many lines, and those that belong to the last record of them, into the chunk."""
        records, starts = self._records_of(lines)
        if records:
            self._convert(records, starts, chunk)

    def _records_of(self, lines: int) -> tuple[list[list[str]], list[int]]:
        """Return the cells of so many lines, and of those that belong to the last record of them, and where they start."""
        before = self._text.line
        block, lines = self._text.take(lines)
        width = len(self.columns)
        records: list[list[str]] = []
        starts: list[int] = []
        for line, cells in self._records(itertools.chain(block, self._text), before, lines):
            if len(cells) == width:
                records.append(cells)
                starts.append(line)
            elif cells:
                hint = "" if len(cells) != 1 else f" between delimiters {self.delimiter!r}"
                raise BadRow(self._file, line, "", f"{width} cells{hint}, as in the header", len(cells))
        return records, starts

    def _take_plain(self, chunk: _Chunk) -> int:
        """Take lines that hold numbers only into the chunk; return how many."""
        text = self._text
        data = np.frombuffer(text.piece, dtype=np.uint8)
        most = self._chunk_rows - len(chunk)
        shortest = 2 * len(self.columns)  # of a line; but for an empty label
        values = np.empty((min(most, (data.size - text.at) // shortest + 1), len(self._others)))
        labels = np.empty((len(values), 2), dtype=np.int64)
        state = np.array([text.at, 0], dtype=np.int64)
        at = -1 if self._label is None else self._label
        _read_lines(data, state, ord(self.delimiter), at, len(values), values, labels)
        text.at, rows = state.tolist()
        if rows:
            if self._labels is not None:
                cells = [text.piece[start:end] for start, end in labels[:rows].tolist()]
                texts = {cell: cell.decode().strip() for cell in set(cells)}
                chunk.labels += [texts[cell] for cell in cells]
            for each in self._readers:
                each.has_numbers = True
            matrix = values[:rows]
            if len(self._kept) < len(self._others):
                matrix = np.ascontiguousarray(matrix[:, self._kept])
            chunk.parts.append(NumberRows(self._names, matrix))
            chunk.lines += range(text.line + 1, text.line + 1 + rows)
            text.line += rows
        return int(rows)

    def _convert(self, records: list[list[str]], starts: list[int], chunk: _Chunk) -> None:
        cells = list(zip(*records, strict=True))
        if self._labels is not None and self._label is not None:
            chunk.labels += [cell.strip() for cell in cells[self._label]]
        refusals: list[tuple[int, int, Refusal]] = []
        columns: list[Sequence[Value | None]] = []
        for j, each in zip(self._features, self._readers, strict=True):
            try:
                columns.append(each.values(cells[j]))
            except Refusal as refusal:
                row = next(i for i, cell in enumerate(cells[j]) if cell.strip() == refusal.text)
                refusals.append((row, j, refusal))
        if refusals:
            row, _, first = min(refusals, key=lambda each: each[:2])
            raise BadRow(self._file, starts[row], first.column, first.expected, first.text)
        chunk.lines += starts
        if columns and all(each.is_complete for each in self._readers):
            chunk.parts.append(NumberRows(self._names, np.array(columns, dtype=np.float64).T.copy()))
            return
        names, columns = with_parts(self._readers, self._names, columns)
        rows = named_rows(names, columns, len(records))
        if chunk.parts and isinstance(chunk.parts[-1], list):
            chunk.parts[-1] += rows
        else:
            chunk.parts.append(rows)

    def _rows(self, chunk: _Chunk) -> Rows:
        y = self._labels.signs(chunk.labels, chunk.lines) if self._labels is not None else np.empty(0)
        lines = np.array(chunk.lines, dtype=np.int64)
        features = together(chunk.parts)
        if self._row_numbers is not None:
            self._row_numbers.see(features)
        return Rows(features, y, np.ones(lines.size), lines)


def _is_number(decision: Decision | None) -> bool:
    return decision is not None and decision.kind == "number"


def _sniff_delimiter(header: str) -> str:
    outside = "".join(header.split('"')[::2])
    return max(DELIMITERS, key=outside.count)


class _Lines:
    """The lines of a source as text; those ahead of the last one that was asked for can be read as bytes.

    Attributes
    ----------
    piece : bytes
        Whole lines.
    at : int
        Where in the piece the next line starts.
    line : int
        Lines before it.
    """

    def __init__(self, source: Source) -> None:
        self._file = source.name
        self._pieces = whole_lines(source)
        self.piece = b""
        self.at = self.line = 0

    def more(self) -> bool:
        """Return whether there is a line ahead; the piece holds it."""
        if self.at == len(self.piece):
            self.piece, self.at = next(self._pieces, b""), 0
        return self.at < len(self.piece)

    def take(self, lines: int) -> tuple[Iterable[str], int]:
        """Return at most so many of the next lines, at least one where there is `more`, and how many they are."""
        end = self.at
        count = 0
        while count < lines and end < len(self.piece):
            end = self.piece.index(b"\n", end) + 1
            count += 1
        raw = self.piece[self.at : end]
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            line = self.line + raw.count(b"\n", 0, error.start) + 1
            raise BadRow(self._file, line, "", "text in UTF-8", raw[error.start : error.end]) from error
        self.at = end
        self.line += count
        return io.StringIO(text, newline="\n"), count

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if not self.more():
            raise StopIteration
        return next(iter(self.take(1)[0]))
