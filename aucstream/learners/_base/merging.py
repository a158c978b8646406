"""The approximate merge of learners whose state is a path, not a sum.

The output weights are averaged in proportion to the rows behind them, and every iterate starts from that
average. Sums and means of rows and the buffers of both are joined as if one learner had seen all rows. All
else (step counters, saddle variables, windows) is that of the learner with more rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aucstream.block import Floats, Ints
from aucstream.kernels.pairs.buffers import FIFO, LENGTH, ROOM, START
from aucstream.learners._base.state import Fixed, Part, PoolIdx, PoolVal, Scratch, Slots, Table, Unit, Vector


@dataclass(frozen=True, slots=True)
class Buffer:
    """Slots `first` to `first + capacity` of the pool hold rows of one class; `seen` counts its offers."""

    first: int
    capacity: int
    seen: tuple[str, int]
    policy: int


def buffers_by_class(capacity: int, policy: int, seen_pos: int, seen_neg: int) -> tuple[Buffer, Buffer]:
    """Return the buffers of positives and, after them, of negatives; `scalars` counts the offers to each."""
    return (
        Buffer(0, capacity, ("scalars", seen_pos), policy),
        Buffer(capacity, capacity, ("scalars", seen_neg), policy),
    )


def merge_fields(
    parts: Mapping[str, Part],
    mine: dict[str, Any],
    theirs: Mapping[str, Any],
    columns: Ints,
    weights: Floats,
    counts: Sequence[tuple[str, int]],
    larger: bool,
) -> None:
    """Write the merged state into `mine`, all but pools; both states are settled.

    Parameters
    ----------
    columns : ndarray
        The column in `mine` of each of the other's columns; -1: left out.
    weights : ndarray (d,)
        The merged output weights.
    counts : sequence of (field, position)
        Scalars that add up.
    larger : bool
        Whether the other has more rows.
    """
    pairs = {
        field: (part, mine[field], _placed(part, mine[field], theirs[field], columns)) for field, part in parts.items()
    }
    summed = {(field, at): mine[field][at] + theirs[field][at] for field, at in counts}
    for part, array, _ in pairs.values():
        if isinstance(part, Table) and part.mean is not None:
            array += _between(pairs[part.mean], mine, theirs)
    for part, array, other in pairs.values():
        if isinstance(part, Vector) and part.unit is Unit.ROW_MEAN:
            assert part.count is not None
            field, at = part.count
            n, m = mine[field][at], theirs[field][at]
            if m > 0.0:
                array += m / (n + m) * (other - array)
        elif isinstance(part, (Vector, Table)) and part.unit in (Unit.ROW_SUM, Unit.ROW_SQUARED):
            array += other
        elif not isinstance(part, (Scratch, Slots, PoolIdx, PoolVal)) and larger and array.dtype != np.uint64:
            array[...] = other
    for (field, at), total in summed.items():
        mine[field][at] = total
    for part, array, _ in pairs.values():
        if isinstance(part, Vector) and part.unit is Unit.WEIGHT:
            times = 1.0 if part.count is None else part.sign * mine[part.count[0]][part.count[1]]
            array[: weights.size] = times * weights


def _between(mean: tuple[Part, Any, Any], mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> Floats:
    """Return the scatter that lies between two means, (n m / (n + m)) (difference)(difference)'; [Chan et al.]."""
    part, array, other = mean
    assert isinstance(part, Vector) and part.count is not None
    field, at = part.count
    n, m = mine[field][at], theirs[field][at]
    gap = other - array
    return np.outer(gap, gap) * (n * (m / (n + m)) if m > 0.0 else 0.0)


def _placed(part: Part, array: Any, other: Any, columns: Ints) -> Any:
    """Return the other's array with its features where they are in `array`."""
    if isinstance(part, Fixed):
        return other
    if not isinstance(part, (Vector, Table)):
        return None
    known = columns >= 0
    to = columns[known]
    moved = np.zeros_like(array)
    if isinstance(part, Vector):
        moved[to] = other[: columns.size][known]
        return moved
    rows = to if part.rows is None else np.arange(array.shape[0])
    along = to if part.columns is None else np.arange(array.shape[1])
    moved[np.ix_(rows, along)] = part.cut(other, columns.size)[
        np.ix_(
            np.flatnonzero(known) if part.rows is None else rows,
            np.flatnonzero(known) if part.columns is None else along,
        )
    ]
    return moved


def upper_triangle(products: Floats, columns: Ints, size: int) -> Floats:
    """Return products on and above the diagonal in other columns (size, size); -1 is left out."""
    known = np.flatnonzero(columns[: len(products)] >= 0)
    symmetric = np.triu(products, 1) + np.triu(products).T
    moved = np.zeros((size, size))
    moved[np.ix_(columns[known], columns[known])] = symmetric[np.ix_(known, known)]
    return np.triu(moved)


def merge_pools(
    mine: tuple[Any, Any, Any],
    theirs: tuple[Any, Any, Any],
    columns: Ints,
    buffers: Sequence[Buffer],
    seen: Sequence[tuple[int, int]],
    random: np.random.Generator,
    larger: bool,
) -> tuple[Any, Any, Any]:
    """Return (slots, pool_idx, pool_val) of both; rows outside `buffers` are those of the larger learner.

    A reservoir holds each of the rows offered to both with equal probability: as many of the first as a
    hypergeometric draw says, without replacement. A FIFO keeps the rows of the larger one.
    """
    sources = (_rows(mine, None), _rows(theirs, columns))
    chosen = sources[larger].copy()
    for buffer, (n, m) in zip(buffers, seen, strict=True):
        if buffer.policy == FIFO:
            continue
        first, second = (
            rows[buffer.first : buffer.first + min(offers, buffer.capacity)]
            for rows, offers in zip(sources, (n, m), strict=True)
        )
        size = min(buffer.capacity, n + m)
        k = int(random.hypergeometric(n, m, size)) if size else 0
        sample = [first[i] for i in random.choice(len(first), k, replace=False)]
        sample += [second[i] for i in random.choice(len(second), size - k, replace=False)]
        chosen[buffer.first : buffer.first + size] = sample
    return _packed(chosen)


def _rows(pool: tuple[Any, Any, Any], columns: Ints | None) -> list[tuple[Ints, Floats]]:
    slots, idx, val = pool
    rows = []
    for start, length, _ in slots[:-1].tolist():
        row_idx, row_val = idx[start : start + length], val[start : start + length]
        if columns is not None:
            row_idx = columns[row_idx]
            row_idx, row_val = row_idx[row_idx >= 0], row_val[row_idx >= 0]
        rows.append((row_idx, row_val))
    return rows


def _packed(rows: Sequence[tuple[Ints, Floats]]) -> tuple[Any, Any, Any]:
    lengths = np.array([val.size for _, val in rows], dtype=np.int64)
    ends = np.cumsum(lengths)
    slots = np.zeros((len(rows) + 1, 3), dtype=np.int64)
    slots[:-1, START] = ends - lengths
    slots[:-1, LENGTH] = slots[:-1, ROOM] = lengths
    slots[-1, START] = ends[-1]
    return slots, np.concatenate([idx for idx, _ in rows]), np.concatenate([val for _, val in rows])
