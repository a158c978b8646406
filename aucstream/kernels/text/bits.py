"""Words of 64 bits: eight bytes of a text at once, and what a processor does with words in one instruction.

Each has a twin in plain Python, for where compiling is switched off.
"""

from __future__ import annotations

import sys
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np import arrayobj

_types: Any = numba.types
_settings: Any = numba.config
_arrays: Any = arrayobj
_build: Any = cgutils

_WORD, _WIDE = ir.IntType(64), ir.IntType(128)
_SIZE = _types.intp


@intrinsic
def _word_in(context: Any, text: Any, at: Any, size: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = _arrays.make_array(signature.args[0])(context, builder, arguments[0]).data
        at, size = arguments[1:]
        word = _build.alloca_once_value(builder, ir.Constant(_WORD, 0))
        left = builder.sub(size, at)
        with builder.if_else(builder.icmp_signed(">=", left, ir.Constant(left.type, 8)), likely=True) as (whole, part):
            with whole:
                loaded = builder.load(builder.bitcast(builder.gep(data, [at]), _WORD.as_pointer()), align=1)
                builder.store(loaded if sys.byteorder == "little" else builder.bswap(loaded), word)
            with part, _build.for_range(builder, left) as loop:
                byte = builder.zext(builder.load(builder.gep(data, [builder.add(at, loop.index)])), _WORD)
                byte = builder.shl(byte, builder.shl(loop.index, ir.Constant(left.type, 3)))
                builder.store(builder.or_(builder.load(word), byte), word)
        return builder.load(word)

    return _types.uint64(text, _SIZE, _SIZE), generate


@intrinsic
def _trailing_zeros(context: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return _SIZE(_types.uint64), generate


@intrinsic
def _leading_zeros(context: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return _SIZE(_types.uint64), generate


@intrinsic
def _product(context: Any, a: Any, b: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = builder.mul(*(builder.zext(word, _WIDE) for word in arguments))
        upper = builder.trunc(builder.lshr(wide, ir.Constant(_WIDE, 64)), _WORD)
        return context.make_tuple(builder, signature.return_type, [upper, builder.trunc(wide, _WORD)])

    return _types.UniTuple(_types.uint64, 2)(_types.uint64, _types.uint64), generate


@intrinsic
def _as_float(context: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return _types.float64(_types.uint64), generate


def _plain_word_in(text: Any, at: int, size: int) -> Any:
    return np.uint64(int.from_bytes(bytes(text[at : min(at + 8, size)]), "little"))


def _plain_trailing_zeros(word: Any) -> int:
    number = int(word)
    return (number & -number).bit_length() - 1 if number else 64


def _plain_leading_zeros(word: Any) -> int:
    return 64 - int(word).bit_length()


def _plain_product(a: Any, b: Any) -> tuple[Any, Any]:
    wide = int(a) * int(b)
    return np.uint64(wide >> 64), np.uint64(wide & (2**64 - 1))


def _plain_as_float(word: Any) -> float:
    return float(np.uint64(word).view(np.float64))


_PLAIN: bool = bool(_settings.DISABLE_JIT)
COMPILED = not _PLAIN

# (text, at, size) -> the eight bytes from `at` on of an array of `size` bytes, the first the lowest; zeros past its end
word_in: Any = _plain_word_in if _PLAIN else _word_in
# (word) -> how many of its lowest bits are 0: 64 of 0
trailing_zeros: Any = _plain_trailing_zeros if _PLAIN else _trailing_zeros
# (word) -> how many of its highest bits are 0: 64 of 0
leading_zeros: Any = _plain_leading_zeros if _PLAIN else _leading_zeros
# (a, b) -> upper and lower word of their product
product: Any = _plain_product if _PLAIN else _product
# (word) -> the float64 of these bits
as_float: Any = _plain_as_float if _PLAIN else _as_float
