"""`Reader`: what `aucstream.io.read` returns."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING

from aucstream.io.decisions import Decision
from aucstream.io.rows import Rows
from aucstream.io.source import Source

if TYPE_CHECKING:
    from aucstream.block import Block


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
