"""Parquet and Arrow (IPC file and stream, Feather), through the optional pyarrow."""

from __future__ import annotations

import importlib
import io
import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import IO, Any, cast

import numpy as np

from aucstream.block import Floats
from aucstream.errors import BadRow, InvalidParams, pip_install
from aucstream.features.number_rows import NumberRows
from aucstream.io.decisions import NO_RULES, Rules
from aucstream.io.labels import Labels, column_of
from aucstream.io.rows import CHUNK_ROWS, Rows, Value, named_rows
from aucstream.io.source import PathLike, Source, as_source


def read_arrow(
    source: Source | PathLike | IO[bytes],
    *,
    kind: str,
    label: str | None,
    positive: str | None = None,
    chunk_rows: int = CHUNK_ROWS,
    labelled: bool = True,
    rules: Rules = NO_RULES,
) -> ArrowReader:
    """Read a Parquet or Arrow file in chunks of rows.

    Columns are numbers, bools, strings (dictionaries of them too), lists of strings, or dates and times, which are seconds
    (since 1970, of the day, or in all). Null is missing; NaN as well, as in data frames; infinity is refused. The index of
    a frame, as the metadata of pandas name it, is left out.

    Parameters
    ----------
    source : path, Source or binary file-like
        The Arrow stream format may come from standard input or be compressed; Parquet and the
        Arrow file format end in a directory and have to be plain files.
    kind : {"parquet", "arrow"}
        "arrow" tells the file format and the stream format apart by itself.
    label, positive, labelled
        As in `read_csv`; a label is compared by its text: `true`, `1`, `1.0`.
    chunk_rows : int
        Rows in a chunk at most.
    rules : Rules
        Columns that are left out may be of any type.

    Returns
    -------
    ArrowReader
        An iterator of Rows; the schema has been read.

    Raises
    ------
    InvalidParams
        pyarrow is not installed; the label column is not there; a column has another type.
    BadRow
        For a row: file, number of the row, column and value.
    """
    return ArrowReader(
        as_source(source),
        kind=kind,
        label=label,
        positive=positive,
        chunk_rows=chunk_rows,
        labelled=labelled,
        rules=rules,
    )


def _pyarrow() -> Any:
    try:
        for module in ("pyarrow.ipc", "pyarrow.parquet"):
            importlib.import_module(module)
        return importlib.import_module("pyarrow")
    except ImportError as error:
        expected = f"pyarrow, which reads Parquet and Arrow files: {pip_install('arrow')}"
        raise InvalidParams("data", expected) from error


class ArrowReader:
    """Iterates over chunks of a Parquet or Arrow file; made by `read_arrow`.

    Attributes
    ----------
    columns : tuple of str
    """

    def __init__(
        self,
        source: Source,
        *,
        kind: str,
        label: str | None,
        positive: str | None,
        chunk_rows: int,
        labelled: bool,
        rules: Rules = NO_RULES,
    ) -> None:
        self._pa = _pyarrow()
        self._file = source.name
        self._chunk_rows = chunk_rows
        try:
            schema, self._batches = self._open(source, kind)
        except (self._pa.ArrowException, OSError) as error:
            raise InvalidParams("data", f"a whole {kind} file ({error})", self._file) from error
        self.columns: tuple[str, ...] = tuple(schema.names)
        if len(set(self.columns)) < len(self.columns):
            raise InvalidParams(self._file, "columns with names that differ", self.columns)
        self._label = column_of(label, self.columns, self._file, needed=labelled)
        self._labels = Labels(self._file, label or "", positive) if labelled else None
        self._index = [name for name in _index_columns(schema) if name in self.columns and name != label]
        ignored = {*self._index, *(name for name in self.columns if rules.leaves_out(name))}
        self._features = [j for j, name in enumerate(self.columns) if j != self._label and name not in ignored]
        for j in self._features:
            self._check_type(self.columns[j], schema.field(j).type)
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
    def remarks(self) -> list[tuple[str, str]]:
        """(column, sentence) for each thing that is worth a remark."""
        return [(name, "is the index of a frame, by its metadata, and is left out") for name in self._index]

    def _open(self, source: Source, kind: str) -> tuple[Any, Iterator[Any]]:
        if kind == "arrow" and not source.head().startswith(b"ARROW1"):
            return self._open_stream(source)
        raw = source.seekable_raw()
        if raw is None:
            what = "Parquet" if kind == "parquet" else "the Arrow file format"
            raise InvalidParams("data", f"a plain file: {what} is read from its end", self._file)
        if kind == "parquet":
            file = self._pa.parquet.ParquetFile(raw)
            return file.schema_arrow, file.iter_batches(batch_size=self._chunk_rows)
        file = self._pa.ipc.open_file(raw)
        return file.schema, (file.get_batch(i) for i in range(file.num_record_batches))

    def _open_stream(self, source: Source) -> tuple[Any, Iterator[Any]]:
        stream = self._pa.ipc.open_stream(io.BufferedReader(source))
        return stream.schema, iter(stream)

    def _check_type(self, name: str, kind: Any) -> None:
        types = self._pa.types
        inner = kind.value_type if types.is_dictionary(kind) else kind
        is_list = types.is_list(inner) or types.is_large_list(inner)
        word = inner.value_type if is_list else inner
        is_word = types.is_string(word) or types.is_large_string(word) or types.is_string_view(word)
        is_number = types.is_integer(inner) or types.is_floating(inner) or types.is_decimal(inner)
        is_time = _seconds_of_unit(inner) is not None
        if not (is_word or is_number or is_time or types.is_boolean(inner) or types.is_null(inner)):
            expected = "a column of numbers, bools, strings, lists of strings, dates or times"
            raise InvalidParams(f"{self._file}, column {name}", expected, str(kind))

    def _read(self) -> Iterator[Rows]:
        row = 1
        batches = self._batches
        while True:
            try:
                batch = next(batches, None)
            except (self._pa.ArrowException, OSError) as error:
                raise BadRow(self._file, row, "", f"whole data; it is cut or damaged from here ({error})") from error
            if batch is None:
                return
            for start in range(0, batch.num_rows, self._chunk_rows):
                part = batch.slice(start, self._chunk_rows)
                yield self._rows(part, row)
                row += part.num_rows

    def _rows(self, batch: Any, first: int) -> Rows:
        n = batch.num_rows
        lines = range(first, first + n)
        y = np.empty(0)
        if self._labels is not None and self._label is not None:
            y = self._labels.signs(self._texts(batch.column(self._label)), lines)
        names = [self.columns[j] for j in self._features]
        features: Sequence[Any]
        read = [self._in_seconds(batch.column(j)) for j in self._features]
        matrix = self._matrix(read, n)
        if matrix is None:
            columns = [self._values(name, column, lines) for name, column in zip(names, read, strict=True)]
            features = named_rows(names, columns, n)
        else:
            features = NumberRows(names, matrix)
        return Rows(features, y, np.ones(n), np.array(lines, dtype=np.int64))

    def _texts(self, column: Any) -> list[str]:
        values = column.to_pylist()
        types = self._pa.types
        if types.is_integer(column.type) or types.is_boolean(column.type) or types.is_string(column.type):
            texts = {value: _text(value) for value in set(values)}
            return [texts[value] for value in values]
        return [_text(value) for value in values]

    def _in_seconds(self, column: Any) -> Any:
        """Return a column of dates or times as seconds; any other as it is."""
        seconds = _seconds_of_unit(column.type)
        if seconds is None:
            return column
        types = self._pa.types
        narrow = types.is_date32(column.type) or types.is_time32(column.type)
        whole = column.cast(self._pa.int32()).cast(self._pa.int64()) if narrow else column.cast(self._pa.int64())
        mask = np.asarray(whole.is_null().to_numpy(zero_copy_only=False), dtype=bool)
        numbers = whole.fill_null(0).to_numpy(zero_copy_only=False)
        return self._pa.array(numbers / seconds, mask=mask)

    def _matrix(self, columns: list[Any], n: int) -> Floats | None:
        """Return the features as a matrix where all are finite numbers; None elsewhere."""
        types = self._pa.types
        plain = all(
            (types.is_integer(column.type) or types.is_floating(column.type)) and not column.null_count
            for column in columns
        )
        if not columns or not plain:
            return None
        values = np.empty((n, len(columns)))
        for j, column in enumerate(columns):
            values[:, j] = column.to_numpy(zero_copy_only=False)
        return values if np.isfinite(values).all() else None

    def _values(self, name: str, column: Any, lines: Sequence[int]) -> Sequence[Value | None]:
        values: list[Any] = column.to_pylist()
        types = self._pa.types
        kind = column.type.value_type if types.is_dictionary(column.type) else column.type
        if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
            numbers = [None if value is None or value != value else float(value) for value in values]
            for i, number in enumerate(numbers):
                if number is not None and math.isinf(number):
                    raise BadRow(self._file, lines[i], name, "a finite number, or null if missing", number)
            return numbers
        if types.is_list(kind) or types.is_large_list(kind):
            for i, words in enumerate(values):
                if words is not None and None in words:
                    raise BadRow(self._file, lines[i], name, "a list of strings without null", words)
        return cast("list[Value | None]", values)


def _index_columns(schema: Any) -> list[str]:
    """Return the columns that hold the index of a frame, as pandas notes them."""
    try:
        names = json.loads((schema.metadata or {})[b"pandas"])["index_columns"]
    except (KeyError, TypeError, ValueError):
        return []
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _seconds_of_unit(kind: Any) -> float | None:
    """Return how many units of a type of times are a second; of dates, a fraction. None: it is none."""
    name = str(kind)
    if name == "date32[day]":
        return 1.0 / 86_400.0
    if name == "date64[ms]":
        return 1e3
    match = re.match(r"(?:timestamp|time32|time64|duration)\[(s|ms|us|ns)\b", name)
    return None if match is None else {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[match[1]]


def _text(label: object) -> str:
    if label is None or label != label:
        return ""
    if isinstance(label, bool):
        return "true" if label else "false"
    return str(label).strip()
