"""The table of a data file's columns: what each is, its values, what is missing, and what is worth a remark."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
from rich.table import Table

from aucstream.block import Block
from aucstream.features.number_rows import NumberRows
from aucstream.io import Reader

TOP = 3  # words shown
MOST_SHOWN = 200  # columns of a table
MOST_DISTINCT = 100_000  # values that are told apart in a column


@dataclass(slots=True)
class _Column:
    """What was seen of one column."""

    rows: int = 0
    low: float = math.inf
    high: float = -math.inf
    numbers: int = 0
    bools: int = 0
    lists: int = 0
    words: Counter[str] = field(default_factory=Counter)
    values: set[float] = field(default_factory=set)
    is_full: bool = False  # more distinct values than are told apart

    def see_numbers(self, numbers: np.ndarray) -> None:
        if numbers.size:
            self.rows += numbers.size
            self.numbers += numbers.size
            self.low, self.high = min(self.low, float(numbers.min())), max(self.high, float(numbers.max()))
            if not self.is_full:
                self.values.update(np.unique(numbers).tolist())
                self.is_full = len(self.values) > MOST_DISTINCT

    def see(self, values: Sequence[Any]) -> None:
        numbers = []
        for value in values:
            if isinstance(value, bool):
                self.bools += 1
                self.words["true" if value else "false"] += 1
            elif isinstance(value, (int, float)):
                numbers.append(float(value))
                continue
            elif isinstance(value, str):
                self.words[value] += 1
            else:
                self.lists += 1
                self.words.update(value)
            self.rows += 1
        self.see_numbers(np.array(numbers))
        if len(self.words) > MOST_DISTINCT:
            self.is_full = True
            self.words = Counter(dict(self.words.most_common(MOST_DISTINCT // 2)))

    def facts(self, kind: str | None, rows: int, remarks: list[str]) -> dict[str, Any]:
        if kind is None:
            kind = "list" if self.lists else "number" if 2 * self.numbers >= self.rows else "category"
        distinct = len(self.values) + len(self.words)
        top = [{"value": word, "rows": count} for word, count in self.words.most_common(TOP)]
        return {
            "kind": "category" if kind == "bool" else kind,
            "low": self.low if self.numbers else None,
            "high": self.high if self.numbers else None,
            "top": top,
            "distinct": distinct,
            "distinct_is_least": self.is_full,
            "missing": 1.0 - self.rows / rows if rows else 0.0,
            "remarks": remarks,
        }


def data_facts(reader: Reader, label: str | None) -> dict[str, Any]:
    """Return what a file's columns are, after reading all of it.

    Parameters
    ----------
    reader : Reader
        At the beginning of its file.
    label : str or None
        The label column.

    Returns
    -------
    dict
        Keys data, format, rows, label, columns; each column has name, kind, low, high, top, distinct, distinct_is_least
        (there are more distinct values), missing (share of the rows) and remarks.
    """
    columns: dict[Any, _Column] = {}
    rows = 0
    for chunk in reader:
        rows += len(chunk)
        if isinstance(chunk, Block):
            assert chunk.indices is not None
            order = np.argsort(chunk.indices, kind="stable")
            names, starts = np.unique(chunk.indices[order], return_index=True)
            for name, values in zip(names.tolist(), np.split(chunk.values[order], starts[1:]), strict=True):
                columns.setdefault(name, _Column()).see_numbers(values)
        elif isinstance(chunk.features, NumberRows):
            for j, name in enumerate(chunk.features.names):
                columns.setdefault(name, _Column()).see_numbers(chunk.features.values[:, j])
        else:
            cells: dict[Any, list[Any]] = {}
            for x in chunk.features:
                for name, value in x.items() if isinstance(x, Mapping) else enumerate(x):
                    cells.setdefault(name, []).append(value)
            for name, cell_values in cells.items():
                columns.setdefault(name, _Column()).see(cell_values)
    remarks: dict[str, list[str]] = {}
    for name, sentence in reader.remarks:
        remarks.setdefault(name, []).append(sentence)
    decisions = reader.decisions
    order_of_names = [name for name in reader.columns or () if name and name != label]
    for name in order_of_names:
        columns.setdefault(name, _Column())
    at = {name: i for i, name in enumerate(order_of_names)}
    named = sorted(columns, key=lambda name: (at.get(name, len(at)), name if isinstance(name, int) else 0))
    documents = []
    for name in named:
        decision = decisions.get(name)
        left_out = decision is not None and decision.kind == "ignore"
        said = remarks.pop(str(name), [])
        kind = None if decision is None else decision.kind
        if not columns[name].rows and not left_out and any("left out" in sentence for sentence in said):
            kind, left_out = "ignore", True
        facts = columns[name].facts(kind, rows, said)
        if left_out:
            facts |= {"missing": None}
        documents.append({"name": name, **facts})
    for name, said in remarks.items():  # of columns without a name
        documents.insert(0, {"name": "", **_Column().facts("ignore", rows, said), "missing": None})
        del name
    return {"data": reader.name, "format": reader.format, "rows": rows, "label": label, "columns": documents}


def _moment(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, OSError, ValueError):  # no year that a calendar has
        return f"{seconds:g}"


def data_table_rows(facts: Mapping[str, Any]) -> tuple[list[list[str]], str]:
    """Return the rows of a table of what `data_facts` returned, and a note where it leaves columns out.

    Parameters
    ----------
    facts : mapping

    Returns
    -------
    rows : list of list of str
        Column, kind, values, distinct values, share missing, remarks.
    note : str
        "" where all columns are there.
    """
    rows = []
    for column in facts["columns"][:MOST_SHOWN]:
        values = []
        if column["low"] is not None:
            text = _moment if column["kind"] == "time" else "{:g}".format
            values.append(f"{text(column['low'])} to {text(column['high'])}")
        values += [f"{entry['value']} ({entry['rows']:,})" for entry in column["top"]]
        more = "+" if column["distinct_is_least"] else ""
        missing = "-" if column["missing"] is None else f"{column['missing']:.1%}"
        rows.append(
            [
                str(column["name"]),
                column["kind"],
                ", ".join(values),
                f"{column['distinct']:,}{more}",
                missing,
                "; ".join(column["remarks"]),
            ]
        )
    left_out = len(facts["columns"]) > MOST_SHOWN
    return rows, f"the first {MOST_SHOWN} of {len(facts['columns']):,} columns" if left_out else ""


def data_table(facts: Mapping[str, Any]) -> Table:
    """Return the table of what `data_facts` returned.

    Parameters
    ----------
    facts : mapping

    Returns
    -------
    Table
    """
    label = "" if facts["label"] is None else f", label {facts['label']}"
    table = Table(title=f"{facts['data']}: {facts['format']}, {facts['rows']:,} rows{label}", title_justify="left")
    for name in ("column", "kind", "values", "distinct", "missing", "remark"):
        table.add_column(name, overflow="fold", justify="right" if name in ("distinct", "missing") else "left")
    rows, note = data_table_rows(facts)
    for row in rows:
        table.add_row(*row)
    if note:
        table.caption = f"{note}; --json prints all"
    return table
