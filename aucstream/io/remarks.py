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
        for name in list(self._starts):
            if not self._goes_on(name, features):
                del self._starts[name]
        self._rows += n

    def _goes_on(self, name: str, features: Sequence[Any]) -> bool:
        assert self._starts is not None
        n = len(features)
        first: Any
        last: Any
        if isinstance(features, NumberRows):
            if name not in features.names:
                return False
            column = features.values[:, features.names.index(name)]
            first, last = column.item(0), column.item(n - 1)
        else:
            if not isinstance(features[0], Mapping) or not isinstance(features[-1], Mapping):
                return False
            first, last = features[0].get(name), features[-1].get(name)
        if type(first) is not float and type(first) is not int:
            return False
        if not self._rows:
            if first not in (0.0, 1.0):
                return False
            self._starts[name] = float(first)
        start = self._starts[name] + self._rows
        if first != start or last != start + n - 1:
            return False
        if isinstance(features, NumberRows):
            return bool((column == start + np.arange(n)).all())
        return all(x.get(name) == start + i for i, x in enumerate(features))

    @property
    def remarks(self) -> list[tuple[str, str]]:
        """(column, sentence) for each such column."""
        if self._rows < FEWEST_ROWS:
            return []
        return [(name, "equals the number of the row: --ignore leaves it out") for name in self._starts or ()]


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
