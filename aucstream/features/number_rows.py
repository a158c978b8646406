"""Named rows that all have the same names and numbers only: one matrix in the place of a list of dicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np

from aucstream.block import Floats


class NumberRows(Sequence[dict[str, float]]):
    """A sequence of dicts that is kept as names and a matrix, and learned without making the dicts.

    Parameters
    ----------
    names : list of str
        They differ.
    values : ndarray of float64 (n, k)
        C-contiguous; row i is the dict of the names to `values[i]`.
    """

    __slots__ = ("names", "values")

    def __init__(self, names: list[str], values: Floats) -> None:
        self.names = names
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, at: int) -> dict[str, float]: ...
    @overload
    def __getitem__(self, at: slice) -> NumberRows: ...
    def __getitem__(self, at: int | slice) -> dict[str, float] | NumberRows:
        if isinstance(at, slice):
            return NumberRows(self.names, self.values[at])
        return dict(zip(self.names, self.values[at].tolist(), strict=True))

    def __iter__(self) -> Iterator[dict[str, float]]:
        for row in self.values.tolist():
            yield dict(zip(self.names, row, strict=True))

    def take(self, rows: Sequence[int]) -> NumberRows:
        """Return these rows, in this order."""
        return NumberRows(self.names, self.values[np.asarray(rows, dtype=np.int64)])


def together(parts: Sequence[Sequence[Any]]) -> Sequence[Any]:
    """Return the rows of several sequences as one: NumberRows where all are, with the same names."""
    if len(parts) == 1:
        return parts[0]
    columns = [part for part in parts if isinstance(part, NumberRows)]
    if len(columns) == len(parts) and all(part.names == columns[0].names for part in columns):
        return NumberRows(columns[0].names, np.concatenate([part.values for part in columns]))
    return [row for part in parts for row in part]
