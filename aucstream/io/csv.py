"""CSV and TSV: a header line, then one row a line."""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO

import numpy as np

from aucstream.errors import BadRow, InvalidParams
from aucstream.io.labels import Labels, column_of
from aucstream.io.rows import CHUNK_ROWS, NamedFeatures, Rows, Value, named_rows
from aucstream.io.source import PathLike, Source, as_source, whole_lines

BATCH_ROWS = 256  # converted at once: twice as fast as 8,192, whose cells fall out of the cache
DELIMITERS = (",", ";", "\t")
_BOOLS = {"true": True, "True": True, "false": False, "False": False}
_NONFINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def read_csv(
    source: Source | PathLike | IO[bytes],
    *,
    label: str | None,
    positive: str | None = None,
    delimiter: str | None = None,
    chunk_rows: int = CHUNK_ROWS,
    labelled: bool = True,
) -> CsvReader:
    """Read a CSV file with a header line, in chunks of rows.

    The type is decided cell by cell: what is written as a decimal number is a float,
    exactly `true`, `True`, `false` and `False` are bools, an empty cell is missing, anything
    else is a word (str). Blanks around a cell are dropped. `nan` and `inf` are refused,
    unless the column has shown a word, in this chunk or before: then they are words too.

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
        One character; default: whichever of `,`, `;` and tab splits the header most.
    chunk_rows : int
        Rows in a chunk.
    labelled : bool
        False: rows are only scored, `Rows.y` is empty, the label column may be absent and is left out.

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
    )


@dataclass(slots=True)
class _Chunk:
    """What has been read of the chunk at hand."""

    lines: list[int] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    features: list[NamedFeatures | list[float]] = field(default_factory=list)
    doubtful: list[tuple[int, str, str]] = field(default_factory=list)  # row, column, a nan or inf


class CsvReader:
    """Iterates over chunks of a CSV file; made by `read_csv`.

    Attributes
    ----------
    delimiter : str
        As given or sniffed.
    columns : tuple of str
        The header.
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
    ) -> None:
        if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
            raise InvalidParams("delimiter", "one character", delimiter)
        self._file = source.name
        self._chunk_rows = chunk_rows
        text = _text_lines(source)
        top: list[str] = []  # down to the header
        while not (top and top[-1].strip()) and (line := next(text, "")):
            top.append(line)
        self.delimiter = delimiter or _sniff_delimiter(top[-1] if top else "")
        self._reader = csv.reader(itertools.chain(top, text), delimiter=self.delimiter, strict=True)
        header = next(self._records(None), None)
        if header is None:
            raise BadRow(self._file, 1, "", "a header line with the names of the columns", "")
        self.columns = tuple(cell.strip() for cell in header[1])
        self._check_header(header[0])
        self._label = column_of(label, self.columns, self._file, needed=labelled)
        self._labels = Labels(self._file, label or "", positive) if labelled else None
        self._features = [j for j in range(len(self.columns)) if j != self._label]
        self._names = [self.columns[j] for j in self._features]
        self._wordy: set[str] = set()
        self._chunks = self._read()

    def __iter__(self) -> Iterator[Rows]:
        return self

    def __next__(self) -> Rows:
        return next(self._chunks)

    def _check_header(self, line: int) -> None:
        seen: set[str] = set()
        for j, name in enumerate(self.columns, 1):
            if not name:
                raise BadRow(self._file, line, str(j), "a name for every column in the header", name)
            if name in seen:
                raise BadRow(self._file, line, str(j), "names that differ in the header", name)
            seen.add(name)

    def _records(self, width: int | None) -> Iterator[tuple[int, list[str]]]:
        """Yield (line, cells) of every record that is not blank."""
        reader = self._reader
        while True:
            line = reader.line_num + 1
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise BadRow(self._file, line, "", f"cells as CSV quotes them ({error})") from error
            if len(cells) != width and width is not None:
                if not cells:
                    continue
                hint = "" if len(cells) != 1 else f" between delimiters {self.delimiter!r}"
                raise BadRow(self._file, line, "", f"{width} cells{hint}, as in the header", len(cells))
            if cells:
                yield line, cells

    def _read(self) -> Iterator[Rows]:
        records: list[list[str]] = []
        chunk = _Chunk()
        for line, cells in self._records(len(self.columns)):
            records.append(cells)
            chunk.lines.append(line)
            full = len(chunk.lines) == self._chunk_rows
            if full or len(records) == BATCH_ROWS:
                self._convert(records, chunk)
                records.clear()
            if full:
                yield self._rows(chunk)
                chunk = _Chunk()
        if chunk.lines:
            if records:
                self._convert(records, chunk)
            yield self._rows(chunk)

    def _convert(self, records: list[list[str]], chunk: _Chunk) -> None:
        cells = list(zip(*records, strict=True))
        if self._labels is not None and self._label is not None:
            chunk.labels += [cell.strip() for cell in cells[self._label]]
        columns = [self._values(self.columns[j], cells[j], chunk) for j in self._features]
        chunk.features += named_rows(self._names, columns, len(records))

    def _values(self, name: str, cells: Sequence[str], chunk: _Chunk) -> Sequence[Value | None]:
        numbers = _all_numbers(cells)
        if numbers is not None:
            return numbers
        table: dict[str, Value | None] = {}
        for text in set(cells):
            value = table[text] = _value(text)
            if isinstance(value, str):
                self._wordy.add(name)
            elif isinstance(value, float) and not math.isfinite(value):
                table[text] = text.strip()  # a word, if the column has words; the end of the chunk tells
                first = len(chunk.features)
                chunk.doubtful += [(first + i, name, text) for i, cell in enumerate(cells) if cell == text]
        return [table[text] for text in cells]

    def _rows(self, chunk: _Chunk) -> Rows:
        refused = [at for at in chunk.doubtful if at[1] not in self._wordy]
        if refused:
            i, name, text = min(refused)
            expected = "a finite number, or an empty cell if missing"
            raise BadRow(self._file, chunk.lines[i], name, expected, text)
        y = self._labels.signs(chunk.labels, chunk.lines) if self._labels is not None else np.empty(0)
        lines = np.array(chunk.lines, dtype=np.int64)
        return Rows(chunk.features, y, np.ones(lines.size), lines)


def _all_numbers(cells: Sequence[str]) -> list[float] | None:
    """Return the cells as floats where all are plain finite numbers: the fast and usual case."""
    try:
        numbers = list(map(float, cells))
    except ValueError:
        return None
    together = "".join(cells)
    if "_" in together or not together.isascii() or not math.isfinite(sum(numbers)):
        return None  # float() reads more than we do: 1_000, digits of other scripts, nan
    return numbers


def _value(cell: str) -> Value | None:
    text = cell.strip()
    if not text:
        return None
    if text in _BOOLS:
        return _BOOLS[text]
    if _PLAIN.fullmatch(text) or _NONFINITE.fullmatch(text):
        return float(text)
    return text


def _sniff_delimiter(header: str) -> str:
    outside = "".join(header.split('"')[::2])
    return max(DELIMITERS, key=outside.count)


def _text_lines(source: Source) -> Iterator[str]:
    before = 0
    for piece in whole_lines(source):
        try:
            text = piece.decode()
        except UnicodeDecodeError as error:
            line = before + piece.count(b"\n", 0, error.start) + 1
            raise BadRow(source.name, line, "", "text in UTF-8", piece[error.start : error.end]) from error
        before += piece.count(b"\n")
        yield from io.StringIO(text, newline="\n")
