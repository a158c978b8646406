"""A block of rows: the one shape of data below the public methods.

A block holds CSR arrays, labels and weights. A dense matrix is the same thing with
`indices=None` and every row `width` long. Whoever makes a block has checked it:
kernels are not bounds-checked and trust it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aucstream.errors import InvalidBlock, InvalidLabel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

POSITIVE = 1.0
NEGATIVE = -1.0


class Form(enum.IntEnum):
    """Where rows came from; it decides what an absent entry means to a scaler."""

    NAMED = 0  # dicts and frames: an absent name is neither counted nor emitted
    DENSE = 1  # arrays: every column is there
    CSR = 2  # sparse rows: an absent entry is 0; scaled, never centred


@dataclass(frozen=True, slots=True)
class Block:
    """Validated rows.

    Attributes
    ----------
    indptr : ndarray of int64 (n + 1,)
        Row i is `values[indptr[i]:indptr[i + 1]]`.
    indices : ndarray of int64 (nnz,) or None
        Columns, sorted and unique within a row, below `width`; None: dense rows.
    values : ndarray of float64 (nnz,)
        Finite.
    y : ndarray of float64 (n,)
        +1.0 or -1.0; empty when the block is only scored.
    weights : ndarray of float64 (n,)
        Finite, > 0 (rows of weight 0 never reach a block); empty when only scored.
    width : int
        Number of columns.
    form : Form
    """

    indptr: Ints
    indices: Ints | None
    values: Floats
    y: Floats
    weights: Floats
    width: int
    form: Form

    def __len__(self) -> int:
        return self.indptr.size - 1

    def rows(self, start: int, stop: int) -> Block:
        """Return rows start..stop-1 as a block that shares this one's memory."""
        a, b = self.indptr[start], self.indptr[stop]
        return Block(
            self.indptr[start : stop + 1] - a,
            None if self.indices is None else self.indices[a:b],
            self.values[a:b],
            self.y[start:stop],
            self.weights[start:stop],
            self.width,
            self.form,
        )

    def with_values(self, values: Floats, indices: Ints | None = None) -> Block:
        """Return the same rows with other values (a scaler's output)."""
        return Block(
            self.indptr,
            self.indices if indices is None else indices,
            values,
            self.y,
            self.weights,
            self.width,
            self.form,
        )


_SIGNS: dict[Any, float] = {0: NEGATIVE, -1: NEGATIVE, 1: POSITIVE}  # False, 0.0, True, 1.0 hash alike


def sign_of(label: object, path: str = "") -> float:
    """Return +1.0 or -1.0 for a label, or raise InvalidLabel naming the value."""
    if isinstance(label, (bool, int, float, np.generic)) and not isinstance(label, (str, bytes)):
        try:
            sign = _SIGNS.get(label.item() if isinstance(label, np.generic) else label)
        except TypeError:
            sign = None
        if sign is not None:
            return sign
    raise InvalidLabel(
        "label", "negative (False, 0, 0.0, -1, -1.0) or positive (True, 1, 1.0)", label, path=path
    )


def signs_of(labels: Any, n: int) -> Floats:
    """Return labels (array, Series or sequence) as +1.0 / -1.0, or raise naming row and value."""
    array = np.asarray(labels)
    if array.ndim != 1 or array.size != n:
        raise InvalidBlock("labels", f"one label for each of {n} rows", array.shape)
    if array.dtype.kind in "bif":
        out = np.where(array == 1, POSITIVE, NEGATIVE)
        bad = (array != 1) & (array != 0) & (array != -1)
        if bad.any():
            row = int(np.argmax(bad))
            sign_of(array[row], f"row {row}")
        return out
    return np.array([sign_of(label, f"row {row}") for row, label in enumerate(array.tolist())], dtype=np.float64)


def weights_of(weights: Any, n: int) -> Floats:
    """Return example weights as float64 (n,), all finite and >= 0; None means ones."""
    if weights is None:
        return np.ones(n)
    array = np.asarray(weights, dtype=np.float64)
    if array.ndim == 0:
        array = np.full(n, float(array))
    if array.shape != (n,):
        raise InvalidBlock("weights", f"one weight for each of {n} rows", array.shape)
    bad = ~(np.isfinite(array) & (array >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise InvalidBlock("weights", "finite numbers >= 0", array[row], path=f"row {row}")
    return np.ascontiguousarray(array)
