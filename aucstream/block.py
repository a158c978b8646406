"""A block of rows: the one shape of data below the public methods.

A block holds CSR arrays, labels and weights. A dense matrix is the same thing with
`indices=None` and every row `width` long. Whoever makes a block has checked it:
kernels are not bounds-checked and trust it.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aucstream.errors import Description, InvalidBlock, InvalidLabel

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

    def take(self, order: Ints) -> Block:
        """Return the rows in another order, as a copy."""
        lengths = np.diff(self.indptr)[order]
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        source = np.repeat(self.indptr[order] - indptr[:-1], lengths) + np.arange(indptr[-1])
        return Block(
            indptr,
            None if self.indices is None else self.indices[source],
            self.values[source],
            self.y[order],
            self.weights[order],
            self.width,
            self.form,
        )

    def with_values(self, values: Floats) -> Block:
        """Return the same rows with other values (a scaler's output)."""
        return Block(self.indptr, self.indices, values, self.y, self.weights, self.width, self.form)


def joined(blocks: Sequence[Block]) -> Block:
    """Return the rows of several blocks of one form as one block."""
    if len(blocks) == 1:
        return blocks[0]
    if any((block.indices is None) != (blocks[0].indices is None) for block in blocks):
        raise InvalidBlock("blocks", "all dense or all sparse", Description("both"))
    if blocks[0].indices is None and len({block.width for block in blocks}) > 1:
        raise InvalidBlock("blocks", "dense rows of one width", sorted({block.width for block in blocks}))
    ends = np.cumsum([0, *(block.values.size for block in blocks)])
    return Block(
        np.concatenate([np.zeros(1, dtype=np.int64), *(b.indptr[1:] + e for b, e in zip(blocks, ends, strict=False))]),
        None if blocks[0].indices is None else np.concatenate([b.indices for b in blocks if b.indices is not None]),
        np.concatenate([b.values for b in blocks]),
        np.concatenate([b.y for b in blocks]),
        np.concatenate([b.weights for b in blocks]),
        max(b.width for b in blocks),
        blocks[0].form,
    )


def kernel_ready(array: Any, dtype: type) -> NDArray[Any]:
    """Return `array` as kernels are compiled for: contiguous, aligned, writeable; copied only if it is not."""
    return np.require(array, dtype=dtype, requirements=["C", "A", "W"])


def writable(value: Any) -> Any:
    """Return arrays, and tuples, lists and dicts of them, with copies of those that cannot be written.

    joblib and others map the arrays of a pickled object from a file; a model's own have to be as kernels are compiled
    for.
    """
    if isinstance(value, np.ndarray):
        return np.array(value) if isinstance(value, np.memmap) or not value.flags.writeable else value
    if isinstance(value, tuple) and any(isinstance(part, np.ndarray) for part in value):
        parts = [writable(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if type(value) is list and any(isinstance(part, np.ndarray) for part in value):
        return [writable(part) for part in value]
    if type(value) is dict and any(isinstance(part, np.ndarray) for part in value.values()):
        return {name: writable(part) for name, part in value.items()}
    return value


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
    raise InvalidLabel("label", "negative (False, 0, 0.0, -1, -1.0) or positive (True, 1, 1.0)", label, path=path)


def signs_of(labels: Any, n: int) -> Floats:
    """Return labels (array, Series or sequence) as +1.0 / -1.0, or raise naming row and value."""
    refuse_masked("labels", labels)
    try:
        array = np.asarray(labels)
    except ValueError as error:
        raise InvalidBlock(
            "labels", f"one label for each of {n} rows", Description("rows of unequal length")
        ) from error
    if array.ndim != 1 or array.size != n:
        raise InvalidBlock("labels", f"one label for each of {n} rows", array.shape)
    if array.dtype.kind == "b":
        return np.where(array, POSITIVE, NEGATIVE)
    if array.dtype.kind in "if":
        out = np.where(array == 1, POSITIVE, NEGATIVE)
        bad = (array != 1) & (array != 0) & (array != -1)
        if bad.any():
            row = int(np.argmax(bad))
            sign_of(array[row], f"row {row}")
        return out
    # numpy has made one type of a mixed list: the labels as they came are what an error names
    each = labels if isinstance(labels, (list, tuple)) else array.tolist()
    return np.array([sign_of(label, f"row {row}") for row, label in enumerate(each)], dtype=np.float64)


def weight_of(weight: Any) -> float:
    """Return the weight of one example as a float, finite and >= 0, or raise InvalidBlock as `weights_of`."""
    if type(weight) is float and 0.0 <= weight < math.inf:
        return weight
    return float(weights_of([weight], 1)[0])


def refuse_masked(where: str, array: Any) -> None:
    """Raise InvalidBlock for a numpy masked array that masks a cell: the cell's value means nothing."""
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        place = ", ".join(map(str, np.argwhere(np.ma.getmaskarray(array))[0]))
        raise InvalidBlock(where, "an array without masked cells", Description("a masked cell"), path=f"[{place}]")


def _weights_array(weights: Any) -> Floats:
    try:
        array: Any = np.asarray(weights)
        if array.dtype.kind in "biuf":
            return np.asarray(array, dtype=np.float64)
        # text, None and other objects, of which float64 reads "2" as 2.0 and None as NaN
        each = weights if isinstance(weights, (list, tuple)) else array.tolist()
        for row, weight in enumerate(each if isinstance(each, (list, tuple)) else [each]):
            if weight is None or isinstance(weight, (str, bytes)):
                raise InvalidBlock("weights", "finite numbers >= 0", weight, path=f"row {row}")
        return np.asarray(weights, dtype=np.float64)
    except InvalidBlock:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidBlock("weights", "finite numbers >= 0", weights) from error


def weights_of(weights: Any, n: int) -> Floats:
    """Return example weights as float64 (n,), all finite and >= 0; None means ones."""
    if weights is None:
        return np.ones(n)
    refuse_masked("weights", weights)
    array = _weights_array(weights)
    if array.ndim == 0:
        array = np.full(n, float(array))
    if array.shape != (n,):
        raise InvalidBlock("weights", f"one weight for each of {n} rows", array.shape)
    bad = ~(np.isfinite(array) & (array >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise InvalidBlock("weights", "finite numbers >= 0", array[row], path=f"row {row}")
    return kernel_ready(array, np.float64)
