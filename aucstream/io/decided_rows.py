"""Rows of NDJSON, Parquet and Arrow whose strings are numbers or times: read as such, by one decision a column."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aucstream.block import Block
from aucstream.errors import BadRow, InvalidBlock
from aucstream.features.columns import Columns
from aucstream.features.number_rows import NumberRows
from aucstream.io.decisions import HEAD_ROWS, Decision, Refusal, Rules, TextColumn, decide
from aucstream.io.remarks import RowNumbers
from aucstream.io.rows import Rows

_PLACE = re.compile(r"\[(\d+)\](?:\['?(.*?)'?\])?$")
_PATTERN_MARKS = re.compile(r"([*?\[])")


class DecidedRows:
    """Iterates over chunks of rows with what their columns are said to be, or decided from the strings of the first rows.

    A value that is no string keeps its type, but for what rules say of its column.

    Parameters
    ----------
    chunks : iterator of Rows
    rules : Rules
    file : str
        Named in errors.

    Attributes
    ----------
    decisions : dict of str to Decision
        Of the columns with strings, once the first chunk was read.
    """

    def __init__(self, chunks: Iterator[Rows], rules: Rules, file: str) -> None:
        self._source = chunks
        self._rules = rules
        self._file = file
        self._columns = _rules_of_rows(rules)
        self._readers: dict[str, TextColumn] = {}
        self._row_numbers = RowNumbers()
        self.decisions: dict[str, Decision] = {}
        self._chunks = self._read()

    def __iter__(self) -> Iterator[Rows]:
        return self

    def __next__(self) -> Rows:
        return next(self._chunks)

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns of a table; None for NDJSON."""
        columns: tuple[str, ...] | None = getattr(self._source, "columns", None)
        return columns

    @property
    def label_words(self) -> tuple[str, ...]:
        """Distinct labels of the first chunk, as they are written; tables only."""
        return tuple(getattr(self._source, "label_words", ()))

    @property
    def mixed(self) -> dict[str, list[str]]:
        """Column to its words, of the strings that have shown numbers and at most ten words so far."""
        return {name: each.slips for name, each in self._readers.items() if each.slips}

    @property
    def remarks(self) -> list[tuple[str, str]]:
        """(column, sentence) for each thing that is worth a remark, so far."""
        remarks = [*getattr(self._source, "remarks", ())]
        for name, each in self._readers.items():
            remarks += [(name, sentence) for sentence in each.sentences]
        seen = {name for name, _ in remarks}
        decided = self.decisions.items()
        remarks += [(name, decision.note) for name, decision in decided if decision.note and name not in seen]
        return remarks + self._row_numbers.remarks

    def _read(self) -> Iterator[Rows]:
        head: list[Rows] = []
        rows = 0
        for chunk in self._source:
            self._apply(chunk)
            head.append(chunk)
            rows += len(chunk)
            if rows >= HEAD_ROWS:
                break
        self._decide(head)
        for chunk in head:
            yield self._converted(chunk)
        del head
        for chunk in self._source:
            self._apply(chunk)
            yield self._converted(chunk)

    def _apply(self, chunk: Rows) -> None:
        """Give the rows of a chunk what rules say of their columns."""
        if not self._columns.changes_values:
            return
        try:
            chunk.features = self._columns.rows(chunk.features)
        except InvalidBlock as error:
            place = _PLACE.match(error.path)
            if place is None:
                raise
            line = int(chunk.lines[int(place[1])])
            raise BadRow(self._file, line, place[2] or "", error.expected, error.got) from None

    def _decide(self, head: Sequence[Rows]) -> None:
        cells: dict[str, list[str]] = {}
        rows = 0
        for chunk in head:
            features: Sequence[Any] = (
                [] if isinstance(chunk.features, NumberRows) else chunk.features[: HEAD_ROWS - rows]
            )
            for x in features:
                if isinstance(x, Mapping):
                    for name, value in x.items():
                        if type(value) is str:
                            cells.setdefault(name, []).append(value)
            rows += len(chunk)
            if rows >= HEAD_ROWS:
                break
        self.decisions = decide(cells, self._rules)
        self.decisions |= {name: each for name, each in self._rules.decisions.items() if name not in self.decisions}
        for name, decision in self.decisions.items():
            if decision.kind in ("number", "time"):
                self._readers[name] = TextColumn(name, decision)

    def _converted(self, chunk: Rows) -> Rows:
        """Return a chunk whose strings of numbers and times are such."""
        if not isinstance(chunk.features, NumberRows):
            for each in self._readers.values():
                self._convert(each, chunk)
        self._row_numbers.see(chunk.features)
        return chunk

    def _convert(self, column: TextColumn, chunk: Rows) -> None:
        name = column.name
        at = [i for i, x in enumerate(chunk.features) if isinstance(x, dict) and type(x.get(name)) is str]
        if not at:
            return
        cells = [chunk.features[i][name] for i in at]
        try:
            values = column.values(cells)
        except Refusal as refusal:
            row = next(i for i, cell in zip(at, cells, strict=True) if cell.strip() == refusal.text)
            raise BadRow(self._file, int(chunk.lines[row]), name, refusal.expected, refusal.text) from None
        for i, value in zip(at, values, strict=True):
            if value is None:
                del chunk.features[i][name]
            else:
                chunk.features[i][name] = value


class KeptBlocks:
    """Iterates over blocks of svmlight rows without the columns that are left out.

    Parameters
    ----------
    blocks : iterator of Block
    columns : Columns
        A column has the text of its number as name, counted from 0.
    """

    def __init__(self, blocks: Iterator[Block], columns: Columns) -> None:
        self._blocks = blocks
        self._columns = columns

    def __iter__(self) -> Iterator[Block]:
        return self

    def __next__(self) -> Block:
        return self._columns.block(next(self._blocks))

    @property
    def label_words(self) -> tuple[str, ...]:
        """Distinct labels of the first chunk, as they are written, where a positive one is named."""
        return tuple(getattr(self._blocks, "label_words", ()))


def _rules_of_rows(rules: Rules) -> Columns:
    """Return what is done to each row before its strings are read."""
    said = rules.columns or Columns()
    is_said = rules.decimal is not None or rules.thousands is not None
    stored: dict[str, list[str]] = {"ignore": [], "category": []}
    for name, decision in rules.decisions.items():
        kind = "category" if decision.kind == "id" else decision.kind
        if kind in stored and said.kind_of(name) is None:
            stored[kind].append(_PATTERN_MARKS.sub(r"[\1]", name))
    return Columns(
        ignore=list(dict.fromkeys([*said.ignore, *stored["ignore"]])),
        category=list(dict.fromkeys([*said.category, *stored["category"]])),
        number=said.number if is_said else [],
        time=said.time,
        decimal=rules.decimal or ".",
        thousands=rules.thousands,
    )
