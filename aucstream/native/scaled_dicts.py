"""The scaling of a row that was read from a Python dict, see `native.dicts` and `kernels.rows.scaling`."""

from __future__ import annotations

import numpy as np

from aucstream.kernels.jit import jit
from aucstream.kernels.rows import scaling
from aucstream.native.memory import HEAD, type_of, unpacker

_floats, _table = type_of(np.empty(0)), type_of(np.empty((0, 0)))
# standard, centred, kind, kinds, columns, s, out, undo
_values_at = unpacker(
    (type_of(True), type_of(True), type_of(0), type_of(np.empty(0, np.uint8)), _table, _floats, _floats, _floats)
)


@jit
def take(arguments, idx, val):
    """`scaling.take_row` of a row; False, and nothing changed: no room, or the applied values change before it."""
    standard, centred, kind, kinds, columns, s, out, undo = _values_at(arguments + 8 * HEAD)
    n = val.size
    if n > out.size:
        return False
    return scaling.take_row(idx, val, standard, centred, kind, kinds, columns, s, out[:n], undo)


@jit
def give_back(arguments, idx):
    """Undo the last `take`, whose row was skipped."""
    standard, _, _, _, columns, s, _, undo = _values_at(arguments + 8 * HEAD)
    scaling.give_back(idx, idx.size, standard, columns, s, undo)


@jit
def forward(arguments, idx, val):
    """`scaling.forward_row` of a row; False: there is no room for it."""
    standard, centred, kind, kinds, columns, s, out, _ = _values_at(arguments + 8 * HEAD)
    n = val.size
    if n > out.size:
        return False
    scaling.forward_row(idx, val, standard, centred, kind, kinds, columns, s, out[:n])
    return True


@jit
def has_room(arguments, n):
    """Return whether `take` would take a row of n values."""
    _, _, _, _, _, s, out, _ = _values_at(arguments + 8 * HEAD)
    return n <= out.size and scaling.rows_until_change(s) != 1.0
