"""Passes over DATA: chunks of a file go to all models of a comparison, with a progress bar on a terminal."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from aucstream.cli.options import ReadOptions
from aucstream.errors import BadRow, InvalidBlock
from aucstream.evaluate import Chunk, Comparison, shuffled
from aucstream.io import Reader, Rows, read


def open_data(path: str, options: ReadOptions, *, labelled: bool = True, show_delimiter: bool = True) -> Reader:
    """Open a data file.

    Parameters
    ----------
    path : str
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
    reader = read(
        path,
        label=options.label,
        positive=options.positive,
        delimiter=options.delimiter,
        format=options.format,
        labelled=labelled,
    )
    if show_delimiter and reader.delimiter is not None:
        print(f"{reader.name}: delimiter {reader.delimiter!r}", file=sys.stderr)
    return reader


def learn_data(
    comparison: Comparison, data: str, *, passes: int, seed: int | None, progress: Progress, options: ReadOptions
) -> None:
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

    Raises
    ------
    InvalidParams, InvalidBlock, OSError
        The file cannot be read, or a row cannot be used.
    """
    memory: list[Chunk] | None = None
    if data == "-" and passes > 1:
        with open_data(data, options) as reader:
            memory = list(with_progress(reader, progress, "read"))
    for number in range(passes):
        order = None if seed is None else seed + number
        if memory is not None:
            _learn_pass(comparison, data, memory, order, progress)
        else:
            task = "learn" if passes == 1 else f"pass {number + 1}"
            with open_data(data, options, show_delimiter=number == 0) as reader:
                _learn_pass(comparison, data, with_progress(reader, progress, task), order, progress)
        comparison.end_pass()


def _learn_pass(
    comparison: Comparison, data: str, chunks: Iterable[Chunk], seed: int | None, progress: Progress
) -> None:
    """Let all models learn the chunks of one pass."""
    for chunk in chunks if seed is None else shuffled(chunks, seed):
        with _row_location(data, chunk):
            if not comparison.warm:
                _compile(comparison, chunk, progress)
            comparison.learn(chunk)


def _compile(comparison: Comparison, chunk: Chunk, progress: Progress) -> None:
    """Compile the kernels, or load them from the cache, before time is measured."""
    task = progress.add_task("compile", total=len(comparison.runs), rows=0)
    comparison.compile(chunk, done=lambda: progress.advance(task))
    progress.remove_task(task)


@contextlib.contextmanager
def _row_location(data: str, chunk: Chunk) -> Iterator[None]:
    """Raise BadRow with file and line in place of a model's InvalidBlock, which has only a row's number."""
    try:
        yield
    except InvalidBlock as error:
        path = re.match(r"\[(\d+)\](?:\['?(.*?)'?\])?$", error.path)
        if path is None or not isinstance(chunk, Rows):
            raise
        line = int(chunk.lines[int(path[1])])
        raise BadRow(data, line, path[2] or "", error.expected, error.got) from None


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
    for chunk in reader:
        yield chunk
        rows += len(chunk)
        progress.update(task, completed=reader.bytes_read, rows=rows)
    progress.update(task, completed=reader.bytes_read, total=reader.bytes_read, rows=rows)
