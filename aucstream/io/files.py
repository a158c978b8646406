"""Several files as one: a folder, a pattern, or a list, in order."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from aucstream.errors import Description, InvalidParams
from aucstream.io.decisions import Decision
from aucstream.io.reader import Reader
from aucstream.io.rows import Rows
from aucstream.io.source import STDIN, PathLike

if TYPE_CHECKING:
    from aucstream.block import Block

_MARKS = "*?["


def files_of(paths: PathLike | Iterable[PathLike]) -> list[str]:
    """Return the files that a path, or several of them, name.

    Parameters
    ----------
    paths : path, or iterable of paths
        A folder is its files by name, without those that begin with `.` or `_` (such as `_SUCCESS`) and empty ones, and
        the same of its folders. A name with `*`, `?` or `[` that is no file is a pattern, `**` for folders too.

    Returns
    -------
    list of str
        At least one; a name that is no folder and no pattern is passed on as it is.

    Raises
    ------
    InvalidParams
        There are none.
    """
    each = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    files: list[str] = []
    for path in [os.fspath(one) for one in each]:
        if path != STDIN and os.path.isdir(path):
            within = _files_within(Path(path))
            if not within:
                raise InvalidParams("data", "a folder with files of data", path)
            files += within
        elif path != STDIN and any(mark in path for mark in _MARKS) and not os.path.exists(path):
            matches = sorted(match for match in glob.glob(path, recursive=True) if os.path.isfile(match))
            if not matches:
                raise InvalidParams("data", "a pattern that a file has", path)
            files += matches
        else:
            files.append(path)
    if not files:
        raise InvalidParams("data", "at least one file", Description("none"))
    return files


def _files_within(folder: Path) -> list[str]:
    files: list[str] = []
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith((".", "_")):
            continue
        if entry.is_dir():
            files += _files_within(entry)
        elif entry.stat().st_size:
            files.append(str(entry))
    return files


class FilesReader(Reader):
    """Iterates over the chunks of several files, one after the other; made by `aucstream.io.read`.

    What the columns of the first file are, they are in all of them.

    Parameters
    ----------
    files : list of str
    open_file : function
        Takes a file, and the reader of the file before or None; returns a reader.
    """

    def __init__(self, files: list[str], open_file: Callable[[str, Reader | None], Reader]) -> None:
        self._files = files
        self._open = open_file
        self._at = 0
        self._bytes_before = 0
        self._remarks_before: dict[tuple[str, str], None] = {}
        self._words_before: dict[str, None] = {}
        self._is_closed = False
        self._begin(open_file(files[0], None))
        self.name = f"{files[0]} and {len(files) - 1} more"

    def _begin(self, reader: Reader) -> None:
        self._reader = reader
        self.format, self.delimiter, self.columns = reader.format, reader.delimiter, reader.columns

    @property
    def mixed(self) -> dict[str, list[str]]:
        """Columns of numbers that have shown a few words so far in the file at hand, and the words."""
        return self._reader.mixed

    @property
    def decisions(self) -> dict[str, Decision]:
        """What each column is, by name."""
        return self._reader.decisions

    @property
    def remarks(self) -> list[tuple[str, str]]:
        """(column, sentence) for each thing about a column that is worth a remark, so far."""
        return list(dict.fromkeys([*self._remarks_before, *self._reader.remarks]))

    @property
    def label_words(self) -> tuple[str, ...]:
        """Distinct labels of the first chunk of each file so far."""
        return tuple(dict.fromkeys([*self._words_before, *self._reader.label_words]))

    @property
    def bytes_read(self) -> int:
        """Bytes taken from the files so far, compressed ones if they are compressed."""
        return self._bytes_before + self._reader.bytes_read

    @property
    def bytes_total(self) -> int | None:
        """Size of all files; None where one is standard input."""
        if STDIN in self._files:
            return None
        return sum(os.stat(file).st_size for file in self._files)

    def __next__(self) -> Block | Rows:
        while True:
            try:
                return next(self._reader)
            except StopIteration:
                if self._is_closed or self._at + 1 == len(self._files):
                    raise
                self._bytes_before += self._reader.bytes_read
                self._remarks_before.update(dict.fromkeys(self._reader.remarks))
                self._words_before.update(dict.fromkeys(self._reader.label_words))
                self._at += 1
                self._begin(self._open(self._files[self._at], self._reader))

    def close(self) -> None:
        """Close the file that is open."""
        self._is_closed = True
        self._reader.close()
