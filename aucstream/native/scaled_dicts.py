"""A Python dict to a scaled row: reading and scaling in one call, see `native.dicts` and `kernels.rows.scaling`."""

from __future__ import annotations

import numpy as np

from aucstream.kernels.jit import jit_holding
from aucstream.kernels.rows import scaling
from aucstream.native.dicts import COLUMNS, VALUES, read, slot
from aucstream.native.memory import HEAD, LIMIT, READER, floats_at, ints_at, type_of, unpacker

_floats, _table = type_of(np.empty(0)), type_of(np.empty((0, 0)))
# standard, centred, kind, kinds, columns, s, out, kept
_values_at = unpacker(
    (type_of(True), type_of(True), type_of(0), type_of(np.empty(0, np.uint8)), _table, _floats, _floats, _floats)
)


@jit_holding
def take(x, arguments):
    """`scaling.take_row` of the dict at `x`; returns the length of the row.

    -1, and nothing changed: it is not plain, there is no room for it, or the applied values change before it.
    """
    table = slot(arguments, READER)
    n = read(x, table, slot(arguments, LIMIT))
    standard, centred, kind, kinds, columns, s, out, undo = _values_at(arguments + 8 * HEAD)
    if n < 0 or n > out.size:
        return -1
    val = floats_at(slot(table, VALUES), n)
    idx = ints_at(slot(table, COLUMNS), n)
    return n if scaling.take_row(idx, val, standard, centred, kind, kinds, columns, s, out[:n], undo) else -1


@jit_holding
def forward(x, arguments):
    """`scaling.forward_row` of the dict at `x`; returns as `take` does."""
    table = slot(arguments, READER)
    n = read(x, table, slot(arguments, LIMIT))
    standard, centred, kind, kinds, columns, s, out, _ = _values_at(arguments + 8 * HEAD)
    if n < 0 or n > out.size:
        return -1
    val = floats_at(slot(table, VALUES), n)
    scaling.forward_row(ints_at(slot(table, COLUMNS), n), val, standard, centred, kind, kinds, columns, s, out[:n])
    return n
