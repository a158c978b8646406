"""Passes over DATA: chunks of a file go to all models of a comparison, with a progress bar on a terminal."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from aucstream.cli.leaks import LeakWatch
from aucstream.cli.options import DataFiles, ReadOptions
from aucstream.errors import BadRow, InvalidBlock, InvalidParams
from aucstream.evaluate import Chunk, Comparison, shuffled
from aucstream.io import Decision, Reader, Rows, read
from aucstream.io.labels import SHOWN_WORDS, column_of, some
from aucstream.io.source import is_nameless
from aucstream.learners._base.estimator import RankingClassifier

MOST_REMARKS = 20  # of the columns of one file
PATIENCE = 5.0  # seconds; kernels of one learner come from the cache in less

_ROW = re.compile(r"\[(\d+)\](?:\['?(.*?)'?\])?$")
_ARGUMENTS = {
    "positive=VALUE that names the class": "--positive VALUE",
    "zero_based=True": "--zero-based",
    "decimal= and thousands= say how numbers are written, category= makes": "--decimal and --thousands say how numbers are "
    "written, --category makes",
}


def open_data(path: str, options: ReadOptions, *, labelled: bool = True, show_delimiter: bool = True) -> Reader:
    """Open a data file.

    Parameters
    ----------
    path : str or DataFiles
        File name; "-" is standard input.
    options : ReadOptions
    labelled : bool
        Whether every row has a label.
    show_delimiter : bool
        Whether the detected delimiter of a CSV file is printed on standard error.

    Returns
    -------
    Reader

    Raises
    ------
    InvalidParams, BadRow, OSError
        An option does not fit the file, or the file cannot be read.
    """
    with option_names():
        reader = read(
            path.paths if isinstance(path, DataFiles) else path,
            label=options.label,
            positive=options.positive,
            delimiter=options.delimiter,
            zero_based=options.zero_based,
            format=options.format,
            labelled=labelled,
            columns=options.columns,
            decimal=options.decimal,
            thousands=options.thousands,
            decisions=options.decisions,
        )
        if options.label is not None and reader.columns is not None:
            try:
                column_of(options.label, reader.columns, reader.name, needed=True)
            except InvalidParams:
                reader.close()
                raise
    if show_delimiter and reader.delimiter is not None:
        print(f"{reader.name}: delimiter {reader.delimiter!r}", file=sys.stderr)
    return reader


def is_data(path: str) -> bool:
    """Return whether a file neither has the name of a saved model nor begins as one; one that cannot be read, by its name.

    Parameters
    ----------
    path : str

    Returns
    -------
    bool
    """
    if path == "-" or path.endswith(".safetensors"):
        return path == "-"
    if os.path.isdir(path) or (any(mark in path for mark in "*?[") and not os.path.exists(path)):
        return True
    try:
        with open(path, "rb") as file:
            head = file.read(9)
    except OSError:
        return not is_nameless(path)
    return not (head[8:] == b"{" and 0 < int.from_bytes(head[:8], "little") < 1 << 32)


def learn_data(
    comparison: Comparison, data: str, *, passes: int, seed: int | None, progress: Progress, options: ReadOptions
) -> dict[str, Decision]:
    """Let all models learn a file.

    Parameters
    ----------
    comparison : Comparison
        The models.
    data : str
        File name; "-" is standard input, which is held in memory where there are several passes.
    passes : int
        Number of passes, 1 or more.
    seed : int or None
        None: file order. Otherwise pass i (from 0) has the random order of seed + i.
    progress : Progress
        Shows the rows that were read.
    options : ReadOptions

    Returns
    -------
    dict of str to Decision
        What the columns of the file are.

    Raises
    ------
    InvalidParams, InvalidBlock, OSError
        The file cannot be read, or a row cannot be used.
    """
    memory: list[Chunk] | None = None
    leaks = LeakWatch()
    if data == "-" and passes > 1:
        with open_data(data, options) as reader:
            memory = list(with_progress(reader, progress, "read"))
    for number in range(passes):
        order = None if seed is None else seed + number
        if memory is not None:
            _learn_pass(comparison, data, memory, order, progress, leaks if number == 0 else None)
        else:
            task = "learn" if passes == 1 else f"pass {number + 1}"
            with open_data(data, options, show_delimiter=number == 0) as reader:
                chunks = with_progress(reader, progress, task)
                _learn_pass(comparison, data, chunks, order, progress, leaks if number == 0 else None)
        comparison.end_pass()
        if number == 0:
            run = comparison.runs[0]
            if run.rows and not run.positives:
                _check_positive(data, reader, options)
            rows_remarks(reader, leaks.remarks)
    return reader.decisions


def read_whole(data: str, progress: Progress, options: ReadOptions) -> tuple[list[Chunk], dict[str, Decision]]:
    """Return all rows of a file, in chunks, and what its columns are.

    Parameters
    ----------
    data : str
        File name; "-" is standard input.
    progress : Progress
        Shows the rows that were read.
    options : ReadOptions

    Raises
    ------
    InvalidParams, OSError
        The file cannot be read.
    """
    with open_data(data, options) as reader:
        chunks = list(with_progress(reader, progress, "read"))
    if chunks and not any((chunk.y > 0.0).any() for chunk in chunks):
        _check_positive(data, reader, options)
    leaks = LeakWatch()
    for chunk in chunks:
        leaks.see(chunk)
    rows_remarks(reader, leaks.remarks)
    return chunks, reader.decisions


def test_data(comparison: Comparison, test: str, progress: Progress, options: ReadOptions) -> None:
    """Let all models score a held-out file.

    Parameters
    ----------
    comparison : Comparison
    test : str
        File name.
    progress : Progress
    options : ReadOptions

    Raises
    ------
    InvalidParams, InvalidBlock, OSError
        The file cannot be read, or a row cannot be used.
    """
    with open_data(test, options) as reader, row_location(test, None, comparison.runs[0].model):
        comparison.test(with_progress(reader, progress, "test"))


def _check_positive(data: str, reader: Reader, options: ReadOptions) -> None:
    """Raise where `--positive` names no cell of a file without positives."""
    if options.positive is not None:
        seen = f" (the first are {some(reader.label_words, SHOWN_WORDS)})" if reader.label_words else ""
        expected = f"the text of a cell in label column {options.label!r} of {data}{seen}"
        raise InvalidParams("--positive", expected, options.positive)


def _learn_pass(
    comparison: Comparison,
    data: str,
    chunks: Iterable[Chunk],
    seed: int | None,
    progress: Progress,
    leaks: LeakWatch | None,
) -> None:
    """Let all models learn the chunks of one pass."""
    seen = chunks if leaks is None else leaks.watched(chunks)
    learn_chunks(comparison, data, seen if seed is None else shuffled(seen, seed), progress)


def learn_chunks(comparison: Comparison, data: str, chunks: Iterable[Chunk], progress: Progress) -> None:
    """Let all models learn chunks.

    Parameters
    ----------
    comparison : Comparison
    data : str
        Name of their file.
    chunks : iterable of Chunk
    progress : Progress

    Raises
    ------
    InvalidBlock
        A row cannot be used.
    """
    for chunk in chunks:
        with row_location(data, chunk, comparison.runs[0].model):
            if not comparison.warm:
                _compile(comparison, chunk, progress)
            comparison.learn(chunk)


def _compile(comparison: Comparison, chunk: Chunk, progress: Progress) -> None:
    """Compile the kernels, or load them from the cache, before time is measured."""
    task = progress.add_task("compile", total=len(comparison.runs), rows=0)
    slow = threading.Timer(PATIENCE, _say_compiling)
    slow.daemon = True
    if progress.disable:
        slow.start()
    try:
        comparison.compile(chunk, done=lambda: progress.advance(task))
    finally:
        slow.cancel()
    progress.remove_task(task)


def _say_compiling() -> None:
    print("aucstream: compiling the kernels, which are kept: `aucstream warm` does it beforehand", file=sys.stderr)


@contextlib.contextmanager
def row_location(data: str, chunk: Chunk | None, model: RankingClassifier) -> Iterator[None]:
    """Raise an error with the file, and the line where it is known, in place of a model's InvalidBlock.

    Parameters
    ----------
    data : str
        Name of the file.
    chunk : Chunk or None
        The rows that the model is given; None where they are not at hand.
    model : RankingClassifier

    Raises
    ------
    BadRow, InvalidBlock
        In place of the model's InvalidBlock.
    """
    try:
        yield
    except BadRow:
        raise
    except InvalidBlock as error:
        place = _ROW.match(error.path)
        if place is None and isinstance(chunk, Rows):  # a check of each row says which one it is
            try:
                model.engine.check_rows(chunk.features)
            except InvalidBlock as of_row:
                error, place = of_row, _ROW.match(of_row.path)
        if place is None or not isinstance(chunk, Rows):
            raise InvalidBlock(data, error.expected, error.got, path=error.path) from None
        line = int(chunk.lines[int(place[1])])
        raise BadRow(data, line, place[2] or "", error.expected, error.got) from None


@contextlib.contextmanager
def option_names() -> Iterator[None]:
    """Raise errors of the readers with the names of options in place of the names of arguments.

    Raises
    ------
    InvalidParams, BadRow
        In place of the reader's error.
    """
    try:
        yield
    except BadRow as error:
        for argument, option in _ARGUMENTS.items():
            if argument in error.expected:
                expected = error.expected.replace(argument, option)
                raise BadRow(error.file, error.line, error.column, expected, error.got, path=error.path) from None
        raise
    except InvalidParams as error:
        if error.where in ("label", "positive", "delimiter", "format", "columns.decimal", "columns.thousands"):
            option = error.where.removeprefix("columns.")
            raise InvalidParams(f"--{option}", error.expected, error.got, path=error.path) from None
        raise


def in_option_names(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Yield the chunks of a reader; its errors are raised as by `option_names`.

    Parameters
    ----------
    chunks : iterable of Chunk

    Yields
    ------
    Chunk
    """
    iterator = iter(chunks)
    while True:
        with option_names():
            chunk = next(iterator, None)
        if chunk is None:
            return
        yield chunk


def rows_remarks(reader: Reader, more: Sequence[tuple[str, str]] = ()) -> None:
    """Print a sentence on standard error for each thing about a column that is worth it.

    Parameters
    ----------
    reader : Reader
        At the end of its file.
    more : sequence of (column, sentence)
        Further remarks.
    """
    remarks = [*reader.remarks, *more]
    for column, sentence in remarks[:MOST_REMARKS]:
        print(f"aucstream: {reader.name}, column {column}: {sentence}", file=sys.stderr)
    if len(remarks) > MOST_REMARKS:
        print(
            f"aucstream: {reader.name}: {len(remarks) - MOST_REMARKS} more remarks; `aucstream inspect {reader.name}`",
            file=sys.stderr,
        )


def progress_bar() -> Progress:
    """Return a progress bar on standard error; it shows nothing where that is no terminal."""
    console = Console(stderr=True)
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[rows]:,} rows"),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )


def with_progress(reader: Reader, progress: Progress, task_name: str) -> Iterator[Chunk]:
    """Yield a reader's chunks and advance a progress bar by the bytes read.

    Parameters
    ----------
    reader : Reader
    progress : Progress
    task_name : str
        Shown before the bar.

    Yields
    ------
    Chunk
    """
    task = progress.add_task(task_name, total=reader.bytes_total, rows=0)
    rows = 0
    for chunk in in_option_names(reader):
        yield chunk
        rows += len(chunk)
        progress.update(task, completed=reader.bytes_read, rows=rows)
    progress.update(task, completed=reader.bytes_read, total=reader.bytes_read, rows=rows)
