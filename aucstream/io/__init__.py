"""Files as streams of rows: svmlight, CSV, NDJSON, Parquet and Arrow; gzip, bzip2, xz, zstandard.

`read` opens any of them. The readers behind it are `read_svmlight` (blocks), `read_csv`, `read_ndjson` and
`read_arrow` (rows), each in the module of its format. Modules are imported when a file needs them.

May import `features` and below.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from aucstream.errors import InvalidParams
from aucstream.features.columns import Columns
from aucstream.io.decided_rows import DecidedRows, KeptBlocks
from aucstream.io.decisions import Decision, Rules
from aucstream.io.rows import CHUNK_ROWS, Rows
from aucstream.io.source import STDIN, PathLike, Source, is_nameless, kind_of, open_source, sniff

if TYPE_CHECKING:
    from aucstream.block import Block

__all__ = ["Decision", "Reader", "Rows", "kind_of", "open_source", "read"]


class Reader:
    """An iterator over the chunks of one file; made by `read`.

    It can be iterated once and is a context manager; the file is closed at its end.

    Parameters
    ----------
    source : Source
    chunks : iterator of Block or Rows
    format : str
    delimiter : str or None

    Attributes
    ----------
    name : str
    format : str
        "svmlight", "csv", "ndjson", "parquet" or "arrow".
    delimiter : str or None
        As given or sniffed; CSV only.
    columns : tuple of str or None
        The header of a table; None for other formats.
    """

    def __init__(self, source: Source, format: str, chunks: Iterator[Block | Rows], delimiter: str | None) -> None:
        self.name = source.name
        self.format = format
        self.delimiter = delimiter
        self.columns: tuple[str, ...] | None = getattr(chunks, "columns", None)
        self._source = source
        self._chunks: Iterator[Block | Rows] = chunks

    @property
    def mixed(self) -> dict[str, list[str]]:
        """Columns of numbers that have shown a few words so far, and the words."""
        return dict(getattr(self._chunks, "mixed", {}))

    @property
    def decisions(self) -> dict[str, Decision]:
        """What each column is, by name; of NDJSON, Parquet and Arrow those of strings alone. Empty before the first chunk."""
        return dict(getattr(self._chunks, "decisions", {}))

    @property
    def remarks(self) -> list[tuple[str, str]]:
        """(column, sentence) for each thing about a column that is worth a remark, so far."""
        return list(getattr(self._chunks, "remarks", []))

    @property
    def label_words(self) -> tuple[str, ...]:
        """Distinct labels of the first chunk, as they are written; tables, and svmlight with `positive`."""
        return tuple(getattr(self._chunks, "label_words", ()))

    @property
    def bytes_read(self) -> int:
        """Bytes taken from the file so far, compressed ones if it is compressed."""
        return self._source.bytes_read

    @property
    def bytes_total(self) -> int | None:
        """Size of the file; None for standard input."""
        return self._source.bytes_total

    def __iter__(self) -> Iterator[Block | Rows]:
        return self

    def __next__(self) -> Block | Rows:
        try:
            return next(self._chunks)
        except BaseException:  # the end, or a bad row
            self.close()
            raise

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._source.close()


def read(
    path: PathLike,
    *,
    label: str | None = None,
    positive: str | None = None,
    delimiter: str | None = None,
    zero_based: bool = False,
    format: str | None = None,
    chunk_rows: int = CHUNK_ROWS,
    labelled: bool = True,
    columns: Columns | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    decisions: Mapping[str, Decision] | None = None,
) -> Reader:
    """Open a file, or standard input for `-`, as an iterator over chunks of rows.

    Parameters
    ----------
    path : str or path
        The extension names the format: `.svm` `.libsvm` `.svmlight` `.txt`, `.csv` `.tsv`,
        `.ndjson` `.jsonl`, `.parquet`, `.arrow` `.feather` `.ipc`; then perhaps `.gz`, `.bz2`, `.xz`
        or `.zst`. The first bytes do for `-`, for `.txt` and for names without such an extension.
    label : str, optional
        Tables (CSV, Parquet, Arrow) only: the label column.
    positive : str, optional
        Tables and svmlight: the text, or the number, of a positive label; any other is negative.
    delimiter : str, optional
        CSV only.
    zero_based : bool, default=False
        svmlight only: whether the file counts columns from 0.
    format : str, optional
        "svmlight", "csv", "ndjson", "parquet" or "arrow", whatever the extension.
    chunk_rows : int, default=8192
        Rows in a chunk.
    labelled : bool, default=True
        False: rows are only scored; labels need not be there, and `y` is empty.
    columns : Columns, optional
        What is said of columns, by name; the first rows decide the others. Its `decimal` and `thousands` count nothing.
    decimal, thousands : str, optional
        Marks of numbers; by default each column's first rows decide.
    decisions : mapping of str to Decision, optional
        `Reader.decisions` of another file: its columns are read as they were there.

    Returns
    -------
    Reader
        Of Block (svmlight) or Rows (all others).

    Raises
    ------
    InvalidParams
        For the options and the file as a whole.
    BadRow
        For a row: file, line, column and value.
    """
    if chunk_rows < 1:
        raise InvalidParams("chunk_rows", "a whole number >= 1", chunk_rows)
    kind = None if format is None and is_nameless(path) else kind_of(path, format)
    source = open_source(path)
    try:
        kind = kind or _sniffed(source, path)
        rules = Rules(columns, decimal, thousands, decisions or {})
        _check_options(
            kind, label=label, positive=positive, delimiter=delimiter, zero_based=True if zero_based else None
        )
        chunks, delimiter = _chunks(
            source,
            kind,
            label=label,
            positive=positive,
            delimiter=delimiter,
            zero_based=zero_based,
            chunk_rows=chunk_rows,
            labelled=labelled,
            rules=rules,
        )
    except BaseException:
        source.close()
        raise
    return Reader(source, kind, chunks, delimiter)


def _sniffed(source: Source, path: PathLike) -> str:
    try:
        return sniff(source)
    except InvalidParams:
        if os.fspath(path) != STDIN:
            kind_of(path)  # says which names are known
        raise


def _check_options(kind: str, **options: object) -> None:
    takes = {"csv": ("label", "positive", "delimiter"), "parquet": ("label", "positive")}
    takes["svmlight"] = ("positive", "zero_based")
    takes["arrow"] = takes["parquet"]
    for name, value in options.items():
        if value is not None and name not in takes.get(kind, ()):
            raise InvalidParams(name, f"no {name} for {kind} data", value)


def _chunks(
    source: Source,
    kind: str,
    *,
    label: str | None,
    positive: str | None,
    delimiter: str | None,
    zero_based: bool,
    chunk_rows: int,
    labelled: bool,
    rules: Rules,
) -> tuple[Iterator[Block | Rows], str | None]:
    if kind == "svmlight":
        from aucstream.io.svmlight import read_svmlight

        blocks = read_svmlight(
            source, chunk_rows=chunk_rows, zero_based=zero_based, positive=positive, labelled=labelled
        )
        columns = rules.columns
        return (blocks if columns is None or not columns.changes_values else KeptBlocks(blocks, columns)), None
    if kind == "ndjson":
        from aucstream.io.ndjson import read_ndjson

        return DecidedRows(read_ndjson(source, chunk_rows=chunk_rows, labelled=labelled), rules, source.name), None
    if kind == "csv":
        from aucstream.io.csv import read_csv

        rows = read_csv(
            source,
            label=label,
            positive=positive,
            delimiter=delimiter,
            chunk_rows=chunk_rows,
            labelled=labelled,
            rules=rules,
        )
        return rows, rows.delimiter
    from aucstream.io.arrow import read_arrow

    table = read_arrow(
        source, kind=kind, label=label, positive=positive, chunk_rows=chunk_rows, labelled=labelled, rules=rules
    )
    return DecidedRows(table, rules, source.name), None
