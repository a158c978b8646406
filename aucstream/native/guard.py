"""Whether compiled code may read Python's objects at their addresses in this interpreter.

The layouts that `native` reads are private to CPython, so only versions that were tried are accepted. Elsewhere
rows are read in Python: the same results, a few microseconds more for each row.
"""

from __future__ import annotations

import ctypes
import sys

from aucstream.kernels.jit import COMPILES

VERSIONS = frozenset({(3, 11), (3, 12), (3, 13)})  # of CPython, with a GIL

TYPE_AT = object.__basicsize__ - 8  # where an object has the address of its type
FLOAT_AT = float.__basicsize__ - 8  # where a float has its value


def is_known_interpreter() -> bool:
    """Return whether this is a 64-bit CPython of a known version, with its GIL, and numba compiles."""
    has_gil = bool(getattr(sys, "_is_gil_enabled", lambda: True)())
    return (
        sys.implementation.name == "cpython"
        and sys.version_info[:2] in VERSIONS
        and sys.maxsize == 2**63 - 1
        and has_gil
        and COMPILES
    )


def has_known_layout() -> bool:
    """Return whether a float has its type and its value where `native` reads them; looks at a real one."""
    value = -1.5
    address = id(value)
    return (
        TYPE_AT == 8
        and FLOAT_AT == 16
        and ctypes.c_ssize_t.from_address(address + TYPE_AT).value == id(float)
        and ctypes.c_double.from_address(address + FLOAT_AT).value == value
    )


# Decided once, at import. The second check reads memory, so it runs only where the first one holds.
COMPILED = is_known_interpreter() and has_known_layout()
