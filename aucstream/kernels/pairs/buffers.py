"""Buffered rows: slots into one pool of columns and values.

slots (n + 1, 3) int64: START, LENGTH, ROOM of each row in pool_idx, pool_val (m,); the last line holds
the end of the used pool as its START. A row that fits the room of the one it replaces is written there,
a longer one at the end; a full pool is compacted in place. The caller has made the pool at least as large
as all live rows and the new one together, so that a kernel never has to ask for memory.
"""

from __future__ import annotations

import numpy as np

from aucstream.kernels.jit import jit, jit_allocating
from aucstream.kernels.random import below
from aucstream.kernels.rows.linear import norm

START, LENGTH, ROOM = 0, 1, 2
RESERVOIR, FIFO, RANDOM = 0, 1, 2
POLICIES = {"reservoir": RESERVOIR, "fifo": FIFO, "random": RANDOM}


@jit
def extent(slots, slot):
    """Return where the row of a slot begins and ends in the pool."""
    start = slots[slot, START]
    return start, start + slots[slot, LENGTH]


@jit
def chosen_slot(generator, seen, size, capacity, policy):
    """Return the slot for the `seen`-th offer (from 1), or -1 to decline; one draw once full."""
    if size < capacity:
        return size
    if policy == FIFO:
        return (seen - 1) % capacity
    if policy == RANDOM:
        return below(generator, capacity)
    j = below(generator, seen)
    return j if j < capacity else -1


@jit
def store(slot, idx, x, factor, slots, pool_idx, pool_val):
    """Put `factor x` into `slot`; writes slots, pool_idx, pool_val."""
    n = x.size
    if slots[slot, ROOM] < n:
        slots[slot, LENGTH] = 0
        slots[slot, ROOM] = 0
        end = slots[slots.shape[0] - 1, START]
        if end + n > pool_val.size:
            end = compact(slots, pool_idx, pool_val)
        slots[slot, START] = end
        slots[slot, ROOM] = n
        slots[slots.shape[0] - 1, START] = end + n
    start = slots[slot, START]
    slots[slot, LENGTH] = n
    for k in range(n):
        pool_idx[start + k] = k if idx is None else idx[k]
        pool_val[start + k] = factor * x[k]


@jit
def offer(generator, idx, x, factor, first, seen, capacity, policy, slots, pool_idx, pool_val):
    """Offer `factor x` as the `seen`-th row (from 1) of the class whose slots begin at `first`.

    Writes generator, slots, pool_idx, pool_val.
    """
    slot = chosen_slot(generator, seen, min(seen - 1, capacity), capacity, policy)
    if slot >= 0:
        store(first + slot, idx, x, factor, slots, pool_idx, pool_val)


@jit
def rescale(ratio, slots, pool_val):
    """Multiply all rows by `ratio`; writes pool_val."""
    for k in range(slots[slots.shape[0] - 1, START]):
        pool_val[k] *= ratio


@jit
def longest(slots, pool_val):
    """Return the largest norm of a buffered row."""
    top = 0.0
    for k in range(slots.shape[0] - 1):
        start = slots[k, START]
        top = max(top, norm(pool_val[start : start + slots[k, LENGTH]]))
    return top


@jit_allocating
def compact(slots, pool_idx, pool_val):
    """Close the gaps, room = length; returns the end. Writes all."""
    last = slots.shape[0] - 1
    order = np.argsort(slots[:last, START], kind="mergesort")
    end = 0
    for k in order:
        n = slots[k, LENGTH]
        if n > 0:
            start = slots[k, START]
            for i in range(n):
                pool_idx[end + i] = pool_idx[start + i]
                pool_val[end + i] = pool_val[start + i]
        slots[k, START] = end
        slots[k, ROOM] = n
        end += n
    slots[last, START] = end
    return end


def compacted(
    slots: np.ndarray, pool_idx: np.ndarray, pool_val: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return copies with the rows in slot order, without gaps, in pools of `size` >= all live rows."""
    new_slots = np.zeros_like(slots)
    new_idx = np.zeros(size, dtype=np.int64)
    new_val = np.zeros(size)
    lengths = slots[:, LENGTH]
    starts = np.concatenate([[0], np.cumsum(lengths)])
    new_slots[:, START] = starts[:-1]
    new_slots[:, LENGTH] = lengths
    new_slots[:, ROOM] = lengths
    total = int(starts[-1])
    if total:
        source = np.repeat(slots[:, START] - starts[:-1], lengths) + np.arange(total)
        new_idx[:total] = pool_idx[source]
        new_val[:total] = pool_val[source]
    return new_slots, new_idx, new_val
