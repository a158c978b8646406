"""What is seen of columns while a file is read: a column that counts the rows, parts of times, a label under another name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from aucstream.features.cells import parts_of
from aucstream.features.number_rows import NumberRows
from aucstream.io.decisions import Decision, TextColumn
from aucstream.io.rows import Value

FEWEST_ROWS = 20  # from which on a column that counts them says something


class RowNumbers:
    """Finds columns whose value is the number of the row, from 0 or from 1.

    Parameters
    ----------
    names : sequence of str
        Columns that may be such.
    """

    def __init__(self, names: Sequence[str] | None = None) -> None:
        self._starts: dict[str, float] | None = None if names is None else dict.fromkeys(names, -1.0)
        self._rows = 0

    def see(self, features: Sequence[Any]) -> None:
        """See rows, in their order."""
        n = len(features)
        if not n:
            return
        if self._starts is None:
            named = isinstance(features[0], Mapping)
            self._starts = dict.fromkeys(map(str, features[0]), -1.0) if named else {}
        if self._starts and isinstance(features, NumberRows):
            at = {name: j for j, name in enumerate(features.names)}
            heads = features.values[0]
            others = [name for name in self._starts if name not in at or not self._begins(name, heads.item(at[name]))]
        else:
            others = [name for name in self._starts if not self._begins(name, _value(features[0], name))]
        for name in others:
            del self._starts[name]
        for name in list(self._starts):
            if not self._goes_on(name, features):
                del self._starts[name]
        self._rows += n

    def _begins(self, name: str, first: Any) -> bool:
        """Return whether a column goes on to count with its first value of these rows."""
        assert self._starts is not None
        if type(first) is not float and type(first) is not int:
            return False
        if not self._rows:
            self._starts[name] = float(first)
            return first in (0, 1)
        return bool(first == self._starts[name] + self._rows)

    def _goes_on(self, name: str, features: Sequence[Any]) -> bool:
        assert self._starts is not None
        n, start = len(features), self._starts[name] + self._rows
        if isinstance(features, NumberRows):
            column = features.values[:, features.names.index(name)]
            return bool((column == start + np.arange(n)).all())
        return all(_value(x, name) == start + i for i, x in enumerate(features))

    @property
    def remarks(self) -> list[tuple[str, str]]:
        """(column, sentence) for each such column."""
        if self._rows < FEWEST_ROWS:
            return []
        return [(name, "equals the number of the row: --ignore leaves it out") for name in self._starts or ()]


def _value(x: Any, name: str) -> Any:
    return x.get(name) if isinstance(x, Mapping) else None


def with_parts(
    readers: Sequence[TextColumn], names: Sequence[str], columns: list[Sequence[Value | None]]
) -> tuple[list[str], list[Sequence[Value | None]]]:
    """Return names and columns with those of the parts of times."""
    all_names, all_columns = list(names), list(columns)
    for each, column in zip(readers, columns, strict=True):
        decision: Decision | None = each.decision
        if decision is None or not decision.parts:
            continue
        parts = [parts_of(value, decision.parts) if type(value) is float else None for value in column]
        for part in decision.parts:
            all_names.append(f"{each.name}.{part}")
            all_columns.append([None if value is None else value[part] for value in parts])
    return all_names, all_columns
