"""Numbers in text, against `float`; also as plain Python (NUMBA_DISABLE_JIT=1)."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from aucstream.kernels.text import parse

pytestmark = pytest.mark.plain_python


def number(token: str) -> tuple[int, float, int]:
    return parse.number(np.frombuffer(token.encode() + b"\n", dtype=np.uint8), 0)


def same_bits(a: float, b: float) -> bool:
    return struct.pack("d", a) == struct.pack("d", b)


def test_shortest_decimals_are_settled_and_equal_float() -> None:
    rng = np.random.default_rng(0)
    for value in [*rng.lognormal(0, 30, 1_000).tolist(), *rng.normal(size=1_000).tolist()]:
        token = repr(value)
        outcome, got, end = number(token)
        assert (outcome, end) == (parse.NUMBER, len(token))
        assert same_bits(got, value)


def test_decimals_halfway_between_two_floats_go_to_the_even_one() -> None:
    rng = np.random.default_rng(1)
    for m, shift in zip(rng.integers(2**52, 2**53, 500).tolist(), rng.integers(0, 4, 500).tolist(), strict=True):
        for token in (str((2 * m + 1) << shift), f"{((2 * m + 1) * 5) << shift}e-1"):
            outcome, got, _ = number(token)
            assert outcome == parse.LATE or same_bits(got, float(token)), token
            assert outcome == parse.NUMBER or len(token) > parse.MAX_DIGITS


@pytest.mark.parametrize("token", ["1e-320", "1e400", "1.7e308", "12345678901234567890", "1e999999999999"])
def test_what_is_not_settled_is_left_to_float(token: str) -> None:
    assert number(token)[0] == parse.LATE


@pytest.mark.parametrize("token", ["", "+", "-", ".", "e5", "1e", "1e+", "nan", "inf", "x", "--1", "+.e1"])
def test_what_is_no_number(token: str) -> None:
    assert number(token)[0] == parse.NO_NUMBER


@pytest.mark.parametrize(("token", "end"), [("1.5:", 3), ("1..", 2), ("-0 ", 2), ("1e5e", 3), ("1_0", 1)])
def test_the_end_is_the_first_byte_after(token: str, end: int) -> None:
    assert number(token)[2] == end


def test_powers_of_five_are_normalised_and_truncated() -> None:
    for q in (-342, -28, -27, -1, 0, 1, 27, 55, 56, 308):
        i = q - parse.LOWEST_POWER
        table = (int(parse.FIVES_HIGH[i]) << 64) + int(parse.FIVES_LOW[i])
        assert table.bit_length() == 128
        five = 5 ** abs(q)
        exact = five << 128 >> five.bit_length() if q >= 0 else (1 << (five.bit_length() + 127)) // five
        assert abs(table - exact) <= 1
