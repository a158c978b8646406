"""Files as streams of rows: svmlight, CSV, NDJSON, Parquet and Arrow; gzip, bzip2, xz, zstandard.

`read` opens any of them. The readers behind it are `read_svmlight` (blocks), `read_csv`, `read_ndjson` and
`read_arrow` (rows), each in the module of its format. Modules are imported when a file needs them.

May import `features` and below.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from aucstream.errors import InvalidParams
from aucstream.features.columns import Columns
from aucstream.io.decided_rows import DecidedRows, KeptBlocks
from aucstream.io.decisions import Decision, Rules
from aucstream.io.files import FilesReader, files_of
from aucstream.io.reader import Reader
from aucstream.io.rows import CHUNK_ROWS, Rows
from aucstream.io.source import STDIN, PathLike, Source, is_nameless, kind_of, open_source, sniff

if TYPE_CHECKING:
    from aucstream.block import Block

__all__ = ["Decision", "Reader", "Rows", "kind_of", "open_source", "read"]


def read(
    path: PathLike | Iterable[PathLike],
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
    """Open a file, or standard input for `-`, as an iterator over chunks of rows; a folder, a pattern, or several files too.

    Parameters
    ----------
    path : str or path, or several of them
        A folder is its files in the order of their names, without those that begin with `.` or `_`; a name with `*`, `?`
        or `[` that is no file is a pattern. Several files are read one after the other; the columns of all are what they
        are in the first. The extension names the format: `.svm` `.libsvm` `.svmlight` `.txt`, `.csv` `.tsv`,
        `.ndjson` `.jsonl`, `.parquet`, `.arrow` `.feather` `.ipc`; then perhaps `.gz`, `.bz2`, `.xz`
        or `.zst`. The first bytes do for `-`, for `.txt` and for names without such an extension.
    label : str, optional
        The label column of a table (CSV, Parquet, Arrow), or of NDJSON whose lines are flat objects.
    positive : str, optional
        The text, or the number, of a positive label; any other is negative.
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
    files = files_of(path)

    def open_file(file: str, before: Reader | None) -> Reader:
        return _read_file(
            file,
            label=label,
            positive=positive,
            delimiter=delimiter,
            zero_based=zero_based,
            format=format,
            chunk_rows=chunk_rows,
            labelled=labelled,
            rules=Rules(columns, decimal, thousands, (decisions or {}) if before is None else before.decisions),
        )

    if len(files) == 1:
        return open_file(files[0], None)
    return FilesReader(files, open_file)


def _read_file(
    path: str,
    *,
    label: str | None,
    positive: str | None,
    delimiter: str | None,
    zero_based: bool,
    format: str | None,
    chunk_rows: int,
    labelled: bool,
    rules: Rules,
) -> Reader:
    kind = None if format is None and is_nameless(path) else kind_of(path, format)
    source = open_source(path)
    try:
        kind = kind or _sniffed(source, path)
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
    takes["ndjson"] = ("label", "positive")
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

        rows = read_ndjson(source, label=label, positive=positive, chunk_rows=chunk_rows, labelled=labelled)
        return DecidedRows(rows, rules, source.name), None
    if kind == "csv":
        from aucstream.io.csv import read_csv

        csv_rows = read_csv(
            source,
            label=label,
            positive=positive,
            delimiter=delimiter,
            chunk_rows=chunk_rows,
            labelled=labelled,
            rules=rules,
        )
        return csv_rows, csv_rows.delimiter
    from aucstream.io.arrow import read_arrow

    table = read_arrow(
        source, kind=kind, label=label, positive=positive, chunk_rows=chunk_rows, labelled=labelled, rules=rules
    )
    return DecidedRows(table, rules, source.name), None
