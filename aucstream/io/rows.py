"""Rows: a chunk of named rows, before an encoder has given the names their columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

CHUNK_ROWS = 8_192  # 4,096 to 32,768 read equally fast; see benchmarks/speed/bench_readers.py

Value = float | bool | str | list[str]
NamedFeatures = dict[str | int, Value]


@dataclass(slots=True)
class Rows:
    """A chunk of rows as a text or Arrow file holds them.

    Attributes
    ----------
    features : sequence of (dict or list of float)
        A missing value has no entry in the dict. A list is an array row: entry j is column j. `NumberRows` where all
        are numbers under the same names.
    y : ndarray of float64 (n,)
        +1.0 or -1.0; empty when the rows are only scored.
    weights : ndarray of float64 (n,)
        Finite and >= 0.
    lines : ndarray of int64 (n,)
        The line each row starts on, counted from 1; in Parquet and Arrow files the number of the row.
    """

    features: Sequence[Any]
    y: NDArray[np.float64]
    weights: NDArray[np.float64]
    lines: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.features)


def named_rows(
    names: Sequence[str], columns: Sequence[Sequence[Value | None]], n: int
) -> list[NamedFeatures | list[float]]:
    """Return n dicts from columns of values; None (missing) gets no entry."""
    if not columns:
        return [{} for _ in range(n)]
    rows = zip(*columns, strict=True)
    if any(None in column for column in columns):
        return [{name: value for name, value in zip(names, row, strict=True) if value is not None} for row in rows]
    full: Iterator[Any] = (dict(zip(names, row, strict=True)) for row in rows)
    return list(full)
