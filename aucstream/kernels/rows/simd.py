"""Sums of products over eight lanes, kept in vector registers: lane = position mod 8, strict IEEE.

The compiler does not make vectors of a strict sum by itself. Written with vectors, it has the same bits on every
processor, whatever the width of its registers.
"""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np import arrayobj

LANES = 8
_types: Any = numba.types
_settings: Any = numba.config
_arrays: Any = arrayobj
_build: Any = cgutils

_VECTOR = ir.VectorType(ir.DoubleType(), LANES)


def _added(lanes: Any, add: Any) -> Any:
    """Return the sum of the lanes: halves onto each other."""
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = [add(lanes[i], lanes[i + half]) for i in range(half)]
    return lanes[0]


@intrinsic
def _products(context: Any, x: Any, v: Any, u: Any, size: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        at_x, at_v, at_u = (
            _arrays.make_array(kind)(context, builder, array).data
            for kind, array in zip(signature.args[:3], arguments[:3], strict=True)
        )
        sums = [_build.alloca_once(builder, _VECTOR) for _ in range(3)]
        for place in sums:
            builder.store(ir.Constant(_VECTOR, [0.0] * LANES), place)
        size = arguments[3]
        start, step = ir.Constant(size.type, 0), ir.Constant(size.type, LANES)
        with _build.for_range_slice(builder, start, size, step, size.type) as (k, _):
            a, b, c = (
                builder.load(builder.bitcast(builder.gep(at, [k]), _VECTOR.as_pointer()), align=8)
                for at in (at_x, at_v, at_u)
            )
            for place, other in zip(sums, (b, c, a), strict=True):
                builder.store(builder.fadd(builder.load(place), builder.fmul(a, other)), place)
        totals = []
        for place in sums:
            vector = builder.load(place)
            lanes = [builder.extract_element(vector, ir.Constant(ir.IntType(32), i)) for i in range(LANES)]
            totals.append(_added(lanes, builder.fadd))
        return context.make_tuple(builder, signature.return_type, totals)

    return _types.UniTuple(_types.float64, 3)(x, v, u, _types.intp), generate


def _plain(x: Any, v: Any, u: Any, size: int) -> tuple[float, ...]:
    totals = []
    for other in (v, u, x):
        lanes = [0.0] * LANES
        for k in range(size):
            lanes[k % LANES] += x[k] * other[k]
        totals.append(float(_added(lanes, lambda a, b: a + b)))
    return tuple(totals)


# (x, v, u, size) -> (x'v, x'u, x'x) over the first `size` entries, a multiple of 8, of contiguous arrays
products: Any = _plain if _settings.DISABLE_JIT else _products
