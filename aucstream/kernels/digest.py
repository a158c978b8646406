"""A digest of all that compiled code depends on.

The machine code of a function is determined by its bytecode, by the values that its names refer to, and by the
compiler. The digest covers the values themselves, not files: a name is looked up as the compiler looks it up, in the
globals of the function and in the cells of its closure. Compiled functions among them are followed to any depth. So it
does not matter in which file or room a value is, by which form of import it came, or how it was calculated.

What has no influence on machine code is not covered: comments, docstrings, line numbers, functions that are not called.
"""

from __future__ import annotations

import dis
import enum
import hashlib
import sys
from functools import cache
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic

_types: Any = numba.types
_EXTERNAL = sys.stdlib_module_names | {"builtins", "numba", "llvmlite", "numpy"}
_IMPORT = dis.opmap["IMPORT_NAME"]
_LOAD_GLOBAL = dis.opmap["LOAD_GLOBAL"]
_settings: Any = numba.config
_COMPILER = (
    *(sys.implementation.cache_tag, numba.__version__, llvmlite.__version__, np.__version__),
    *(
        getattr(_settings, name, None)
        for name in ("BOUNDSCHECK", "OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "ENABLE_AVX")
    ),
)
_ATOMS = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), range, slice)


def digest_of(function: Any) -> str:
    """Return a digest of a function, compiled or not, and of every value that it can reach.

    Parameters
    ----------
    function : function

    Returns
    -------
    str
        16 hexadecimal digits, the same in every process.

    Raises
    ------
    TypeError
        The function refers to a value that has no description which is the same in every process.
    """
    walk = _Walk()
    walk.add(_COMPILER)
    walk.add(function)
    return hashlib.sha256("\n".join(walk.parts).encode()).hexdigest()[:16]


class _Walk:
    """One pass over the values that a function can reach, depth first.

    Attributes
    ----------
    parts : list of str
        Descriptions, in the order of the walk.
    """

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._numbers: dict[tuple[int, tuple[str, ...]], int] = {}  # of the values that were visited
        self._visited: list[Any] = []  # so that no other value takes the address of one of them
        self._path: list[str] = []

    def add(self, value: Any, names: tuple[str, ...] = ()) -> None:
        """Describe a value; `names` are the attributes by which a module is used."""
        kind = type(value)
        self.parts.append(f"{kind.__module__}.{kind.__qualname__}")
        if isinstance(value, enum.Enum):
            self.parts.append(f"{value.name} {value.value!r}")
        elif isinstance(value, _ATOMS):
            self.parts.append(repr(value))
        elif isinstance(value, (tuple, list)):
            self.parts.append(str(len(value)))
            for item in value:
                self.add(item)
        elif isinstance(value, dict):
            self.parts.append(str(len(value)))
            for item in value.items():
                self.add(item)
        elif isinstance(value, (set, frozenset)):
            self.parts += sorted(map(repr, value))
        elif isinstance(value, (np.ndarray, np.generic)):
            array = np.asarray(value)
            self.parts.append(f"{array.dtype} {array.shape} {array.strides} {array.tobytes().hex()}")
        elif isinstance(value, CodeType):
            self.parts.append(_head(value))
            self.add(value.co_consts)
        else:
            self._add_object(value, names if isinstance(value, ModuleType) else ())

    def _add_object(self, value: Any, names: tuple[str, ...]) -> None:
        key = id(value), names  # another function may use other names of a module
        if key in self._numbers:
            self.parts.append(str(self._numbers[key]))
            return
        self._numbers[key] = len(self._numbers)
        self._visited.append(value)
        if isinstance(value, ModuleType):
            self._add_module(value, names)
        elif isinstance(value, Dispatcher):
            self.add(value.targetoptions)
            self.add(value.py_func)
        elif isinstance(value, _Intrinsic):
            self.add(value._defn)
        elif isinstance(value, (FunctionType, BuiltinFunctionType, type)):
            name = value.__code__.co_qualname if isinstance(value, FunctionType) else value.__qualname__
            self.parts.append(f"{value.__module__}.{name}")
            if (value.__module__ or "").partition(".")[0] in _EXTERNAL:
                return
            if isinstance(value, FunctionType):
                self._add_function(value)
            elif isinstance(value, type) and issubclass(value, enum.Enum):
                self.add(list(value))
            elif isinstance(value, type) and hasattr(value, "_fields"):
                self.add(value._fields)
            else:
                self._refuse(value)
        elif isinstance(value, _types.ExternalFunction):
            self.parts.append(str(value.key))
        elif type(value).__module__.partition(".")[0] in _EXTERNAL and " at 0x" not in str(value):
            self.parts.append(str(value))
        else:
            self._refuse(value)

    def _add_function(self, function: FunctionType) -> None:
        code = function.__code__
        self._path.append(f"{function.__module__}.{code.co_qualname}")
        text, global_names, all_names = _description(function)
        self.parts.append(text)
        self.add(function.__defaults__)
        self.add(function.__kwdefaults__)
        for name in global_names:
            if name in function.__globals__:
                self.parts.append(name)
                self.add(function.__globals__[name], all_names)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            self.parts.append(name)
            self.add(cell.cell_contents, all_names)
        self._path.pop()

    def _add_module(self, module: ModuleType, names: tuple[str, ...]) -> None:
        self.parts.append(module.__name__)
        if module.__name__.partition(".")[0] in _EXTERNAL:
            return
        for name in names:
            if hasattr(module, name):
                self.parts.append(name)
                self.add(getattr(module, name), names)

    def _refuse(self, value: Any) -> None:
        where = " > ".join(self._path)
        raise TypeError(f"{where}: expected values that a digest of compiled code can describe, got {value!r}")


@cache
def _description(function: FunctionType) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Return a function's own code as a text, the names of the globals that it reads, and all names in it."""
    code = function.__code__
    consts = code.co_consts
    if consts and consts[0] == function.__doc__ and code.co_name != "<lambda>":
        consts = (None, *consts[1:])  # the docstring
    walk = _Walk()
    walk.parts.append(_head(code))
    walk.add(consts)
    codes = _codes(code)
    if any(_IMPORT in part.co_code[::2] for part in codes):
        where = f"{function.__module__}.{code.co_qualname}"
        raise TypeError(f"{where}: expected imports outside of the function, got one inside")
    global_names = {code.co_names[position] for code in codes for position in _global_positions(code)}
    all_names = {name for code in codes for name in code.co_names}
    return "\n".join(walk.parts), tuple(sorted(global_names)), tuple(sorted(all_names))


def _head(code: CodeType) -> str:
    return (
        f"{code.co_name} {code.co_flags} {code.co_argcount} {code.co_posonlyargcount} {code.co_kwonlyargcount} "
        f"{code.co_names} {code.co_varnames} {code.co_freevars} {code.co_cellvars} "
        f"{code.co_exceptiontable.hex()} {code.co_code.hex()}"
    )


def _codes(code: CodeType) -> list[CodeType]:
    return [code, *(inner for const in code.co_consts if isinstance(const, CodeType) for inner in _codes(const))]


def _global_positions(code: CodeType) -> set[int]:
    """Return where in `co_names` the names stand that are read from the globals (`dis`: ten times as long)."""
    positions, extended, text = set(), 0, code.co_code
    for operation, argument in zip(text[::2], text[1::2], strict=True):
        argument |= extended
        extended = argument << 8 if operation == dis.EXTENDED_ARG else 0
        if operation == _LOAD_GLOBAL:
            positions.add(argument >> 1)  # the lowest bit: a call follows
    return positions
