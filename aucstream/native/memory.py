"""Memory at an address, and the few functions of Python's C API that read dicts: for `native.dicts` alone.

An address is an integer: `id(x)` of a Python object, or where an array begins. Whoever passes one keeps its owner
alive, and the GIL, for as long as the call lasts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np import arrayobj

from aucstream.exclusive import Gate
from aucstream.kernels.jit import jit

types: Any = numba.types

_ADDRESS = types.intp

dict_next = types.ExternalFunction("PyDict_Next", types.int32(_ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS))
dict_get = types.ExternalFunction("PyDict_GetItem", _ADDRESS(_ADDRESS, _ADDRESS))
list_get = types.ExternalFunction("PyList_GetItem", _ADDRESS(_ADDRESS, types.intp))
compare_strings = types.ExternalFunction("PyUnicode_Compare", types.int32(_ADDRESS, _ADDRESS))
size_of_int = types.ExternalFunction("PyLong_AsSsize_t", types.intp(_ADDRESS))
float_of_int = types.ExternalFunction("PyLong_AsDouble", types.float64(_ADDRESS))
join_strings = types.ExternalFunction("PyUnicode_Concat", _ADDRESS(_ADDRESS, _ADDRESS))
string_has = types.ExternalFunction("PyUnicode_Contains", types.int32(_ADDRESS, _ADDRESS))
give_up = types.ExternalFunction("Py_DecRef", types.void(_ADDRESS))
error_occurred = types.ExternalFunction("PyErr_Occurred", _ADDRESS())
error_clear = types.ExternalFunction("PyErr_Clear", types.void())

_TYPES = {int: _ADDRESS, float: types.float64, bool: types.boolean}
_POINTEES = {types.intp: ir.IntType(64), types.float64: ir.DoubleType(), types.boolean: ir.IntType(64)}


def _read(typ: Any) -> Any:
    @intrinsic
    def read(context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.load(builder.inttoptr(arguments[0], _POINTEES[typ].as_pointer()))

        return typ(_ADDRESS), generate

    return read


int_at = _read(types.intp)
float_at = _read(types.float64)


@intrinsic
def set_int(context: Any, address: Any, value: Any) -> Any:
    """Write an integer at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[1], builder.inttoptr(arguments[0], ir.IntType(64).as_pointer()))
        return context.get_dummy_value()

    return types.void(_ADDRESS, types.intp), generate


def _array(context: Any, builder: Any, typ: Any, data: Any, shape: Sequence[Any]) -> Any:
    """Return an array, C contiguous, over memory that it does not own."""
    array = arrayobj.make_array(typ)(context, builder)  # type: ignore[no-untyped-call]
    item = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(typ.dtype)))
    strides = [item]
    for size in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], size))
    arrayobj.populate_array(  # type: ignore[no-untyped-call]
        array,
        data=builder.inttoptr(data, context.get_data_type(typ.dtype).as_pointer()),
        shape=cgutils.pack_array(builder, shape),  # type: ignore[no-untyped-call]
        strides=cgutils.pack_array(builder, strides),  # type: ignore[no-untyped-call]
        itemsize=item,
        meminfo=None,
    )
    return array._getvalue()


def _vector(dtype: Any) -> Any:
    typ = types.Array(dtype, 1, "C")

    @intrinsic
    def vector(context: Any, address: Any, size: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _array(context, builder, typ, arguments[0], [arguments[1]])

        return typ(_ADDRESS, types.intp), generate

    return vector


floats_at = _vector(types.float64)
ints_at = _vector(types.int64)
bytes_at = _vector(types.uint8)


_known_types: dict[Any, Any] = {}  # numba asks a dozen questions for each value


def type_of(value: Any) -> Any:
    """Return the compiled type of a value."""
    key: Any = type(value)
    if isinstance(value, np.ndarray):
        key = (value.dtype, value.ndim) if value.flags.carray else None  # C contiguous, aligned, may be written
    kind = _known_types.get(key)
    if kind is None:
        kind = numba.typeof(value)  # type: ignore[no-untyped-call]
        if key in (float, int, bool) or isinstance(key, tuple):
            _known_types[key] = kind
    return kind


def compiled_for(function: Any, *kinds: type) -> Callable[..., Any]:
    """Return the machine code of a function that `jit` made, for arguments of these Python types."""
    return function.compile(tuple(_TYPES[kind] for kind in kinds))  # type: ignore[no-any-return]


def machine_code(function: Any, *kinds: type) -> int:
    """Return the address of the machine code of a function that `jit` made, for `caller` of these Python types.

    It is valid for as long as the function lives.
    """
    compiled_for(function, *kinds)
    compiled = function.overloads[tuple(_TYPES[kind] for kind in kinds)]
    return int(compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name))


def caller(result: type, *kinds: type) -> Any:
    """Return a compiled function: (address of machine code, tuple of its arguments) -> what the code returns."""
    returned, accepted = _TYPES[result], tuple(_TYPES[kind] for kind in kinds)

    @intrinsic
    def call(context: Any, address: Any, arguments: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            convention = context.call_conv
            kind = convention.get_function_type(returned, accepted)
            code = builder.inttoptr(arguments[0], kind.as_pointer())
            values = cgutils.unpack_tuple(builder, arguments[1], len(accepted))  # type: ignore[no-untyped-call]
            status, value = convention.call_function(builder, code, returned, accepted, values)
            with cgutils.if_unlikely(builder, status.is_error):  # type: ignore[no-untyped-call]
                convention.return_status_propagate(builder, status)
            return value

        return returned(_ADDRESS, types.BaseTuple.from_types(accepted)), generate

    return call


@jit
def address_of(array):
    """Return where an array begins: `array.ctypes.data`, at a twentieth of its price."""
    return array.ctypes.data


def slots_of(values: Sequence[Any]) -> list[int | float]:
    """Return how `unpacker` finds the values: a number is one slot, an array its address and its shape.

    The caller keeps the arrays.
    """
    slots: list[int | float] = []
    for value in values:
        if isinstance(value, np.ndarray):
            slots += [address_of(value), *value.shape]
        else:
            slots.append(value if isinstance(value, float) else int(value))
    return slots


def unpacker(kinds: Sequence[Any]) -> Any:
    """Return a compiled function: the address of `slots_of` values of these types -> the values as a tuple."""
    kind_of_tuple = types.Tuple(tuple(kinds))

    @intrinsic
    def read(context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            at = 0

            def slot(pointee: Any) -> Any:
                nonlocal at
                place = builder.add(arguments[0], context.get_constant(types.intp, 8 * at))
                at += 1
                return builder.load(builder.inttoptr(place, pointee.as_pointer()))

            values = []
            for kind in kinds:
                if isinstance(kind, types.Array):
                    data = slot(ir.IntType(64))
                    shape = [slot(ir.IntType(64)) for _ in range(kind.ndim)]
                    values.append(_array(context, builder, kind, data, shape))
                elif kind == types.boolean:
                    values.append(builder.trunc(slot(ir.IntType(64)), ir.IntType(1)))
                else:
                    values.append(slot(_POINTEES[kind]))
            return context.make_tuple(builder, kind_of_tuple, values)

        return kind_of_tuple(_ADDRESS), generate

    return read


# what stands before the values in a table of arguments: the address of the reader's table; columns that a row may
# have; where its values are, 0: where the reader put them; of the pool of buffered rows the address of its end,
# 0: there is none, and its size; the address of the model's gate, and what it must show for the table to be valid; the
# address of the arguments of a scaling, 0: there is none
READER, LIMIT, ROW, POOL_END, POOL_SIZE, GATE, VERSION, SCALING = range(8)
HEAD = 8


class Arguments:
    """A table of the arguments of compiled calls, and what its addresses point to.

    Parameters
    ----------
    values : sequence
        Arrays and numbers.
    reader : int
        Address of the table of `native.dicts`.
    limit : int
        Columns that a row may have.
    row : ndarray or None
        Where the row's values are; None: where the reader put them.
    pool : (ndarray, int) or None
        Of a pool of rows an array whose first entry is its end, and its size.
    gate : Gate or None
        Of the model; the table is valid for its present version.
    scaling : Arguments or None
        Of `native.scaled_dicts`.

    Attributes
    ----------
    address : int
    values : tuple
    kinds : tuple
        Compiled types of the values.
    """

    __slots__ = ("_points_to", "address", "kinds", "values")

    def __init__(
        self,
        values: Sequence[Any],
        reader: int,
        limit: int,
        row: Any = None,
        pool: tuple[Any, int] | None = None,
        gate: Gate | None = None,
        scaling: Arguments | None = None,
    ) -> None:
        end, size = (0, 0) if pool is None else (address_of(pool[0]), pool[1])
        slots = slots_of(values)
        table = np.zeros(HEAD + len(slots), dtype=np.int64)
        table[:HEAD] = (
            reader,
            limit,
            0 if row is None else address_of(row),
            end,
            size,
            *((0, 0) if gate is None else (gate.address, gate.version)),
            0 if scaling is None else scaling.address,
        )
        floats = table.view(np.float64)
        for number, value in enumerate(slots, HEAD):
            if isinstance(value, float):
                floats[number] = value
            else:
                table[number] = value
        self.values = tuple(values)
        self._points_to = (table, row, pool, gate, scaling)
        self.address: int = address_of(table)
        self.kinds = tuple(map(type_of, values))
