"""What is done with words of 64 bits, compiled and as plain Python."""

from __future__ import annotations

import struct

import numba
import numpy as np
import pytest

from aucstream.kernels.text import bits as words

pytestmark = pytest.mark.plain_python

TWINS = ("word_in", "trailing_zeros", "leading_zeros", "product", "as_float")
WORDS = [0, 1, 2**64 - 1, 2**63, *np.random.default_rng(2).integers(0, 2**64, 50, dtype=np.uint64).tolist()]


@numba.njit
def compiled(text, at, a, b):
    return (
        words.word_in(text, at, text.size),
        words.trailing_zeros(a),
        words.leading_zeros(a),
        words.product(a, b),
        words.as_float(a),
    )


def plain(text, at, a, b):
    twin = {name: getattr(words, f"_plain_{name}") for name in TWINS}
    return (
        twin["word_in"](text, at, text.size),
        twin["trailing_zeros"](a),
        twin["leading_zeros"](a),
        twin["product"](a, b),
        twin["as_float"](a),
    )


@pytest.mark.parametrize("run", [compiled, plain])
def test_words(run):
    raw = bytes(range(200, 220))
    text = np.frombuffer(raw, dtype=np.uint8)
    for i, (a, b) in enumerate(zip(WORDS, reversed(WORDS), strict=True)):
        at = i % 21
        word, trailing, leading, (upper, lower), number = run(text, at, np.uint64(a), np.uint64(b))
        assert int(word) == int.from_bytes(raw[at : at + 8], "little")
        assert (int(upper) << 64) + int(lower) == a * b
        assert trailing == (f"{a:064b}"[::-1] + "1").index("1")
        assert leading == (f"{a:064b}" + "1").index("1")
        assert struct.pack("d", number) == a.to_bytes(8, "little")
