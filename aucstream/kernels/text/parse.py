"""Parsing svmlight text: bytes to indices and correctly rounded float64.

A decimal of at most 18 digits, m 10^e, becomes a float64 in one of three ways:

* m <= 10^15 and |e| <= 22: m and 10^|e| are exact, so one multiplication or division rounds once [1]_.
* else the product of m with a 128-bit 10^e, whose upper bits settle the rounding nearly always [2]_.
* where they do not, or there are more digits, or the result is subnormal or infinite: LATE. The
  caller converts that token with Python's `float`.

So every value equals `float(token)` to the last bit.

References
----------
.. [1] W. D. Clinger, "How to read floating point numbers accurately", PLDI 1990.
.. [2] D. Lemire, "Number parsing at a gigabyte per second", Software: Practice and Experience, 2021,
   section 5.
"""

from __future__ import annotations

import numpy as np

from aucstream.kernels.jit import jit, jit_inlined
from aucstream.kernels.text.bits import COMPILED, as_float, leading_zeros, product, trailing_zeros, word_in

MAX_DIGITS = 18  # 10^18 < 2^63
LOWEST_POWER, HIGHEST_POWER = -342, 308
EXACT_INTEGER = 10**15  # below 2^53; 16 and 17 digits, as most doubles are written, all go the other way
MAX_COLUMNS = 2**31  # a larger index is a damaged file, not a feature

# layout of `state` of `parse_svmlight`
POSITION, ROW, ENTRY, WIDTH, LATE_TOKENS, TOKEN = range(6)

# outcomes of `parse_svmlight`
DONE, NEED_ROOM, BAD_LABEL, BAD_TOKEN, BAD_INDEX, BAD_ORDER, BAD_VALUE = range(7)

# what stands at the start of a line, for `parse_svmlight`
NO_LABELS, SIGNS, LABELS = range(3)

# outcomes of `number`
NUMBER, LATE, NO_NUMBER = range(3)


def _powers_of_five() -> tuple[np.ndarray, np.ndarray]:
    """Return the upper and lower 64 bits of 5^q, normalised to 128 bits, q = -342..308 [2]_."""
    high, low = [], []
    for q in range(LOWEST_POWER, HIGHEST_POWER + 1):
        if q >= 0:
            five = 5**q
            c = five << 128 >> five.bit_length()
        else:
            five = 5**-q
            z = five.bit_length()
            c = (1 << (2 * z + 128)) // five + 1 if q < -27 else (1 << (z + 127)) // five + 1
            c >>= max(0, c.bit_length() - 128)
        high.append(c >> 64)
        low.append(c & (2**64 - 1))
    return np.array(high, dtype=np.uint64), np.array(low, dtype=np.uint64)


FIVES_HIGH, FIVES_LOW = _powers_of_five()
TENS = np.array([float(f"1e{e}") for e in range(23)])

U1, U9, U52, U63 = (np.uint64(k) for k in (1, 9, 52, 63))
LOW9 = np.uint64(2**9 - 1)
U0, U8, U10, U16, U32 = (np.uint64(k) for k in (0, 8, 10, 16, 32))
ZEROS = np.uint64(0x3030303030303030)  # as text
ABOVE_NINE = np.uint64(0x7676767676767676)
HIGH_BITS = np.uint64(0x8080808080808080)
PAIRS = np.uint64(0x000000FF000000FF)
BY_100 = np.uint64(100 + (1_000_000 << 32))
BY_1 = np.uint64(1 + (10_000 << 32))
SHORT, LONGEST_SHORT = 16, 32  # bytes: an entry behind which short ones are expected; what reading one looks at
ONES = np.uint64(2**64 - 1)


@jit
def rounded(m, e):
    """Return (sure, m 10^e correctly rounded); m in 1..10^18. Not sure: ask `float`."""
    if m <= EXACT_INTEGER and -22 <= e <= 22:
        if e < 0:
            return True, float(m) / TENS[-e]
        return True, float(m) * TENS[e]
    if e < LOWEST_POWER or e > HIGHEST_POWER:
        return False, 0.0
    zeros = leading_zeros(np.uint64(m))
    w = np.uint64(m) << np.uint64(zeros)
    q = e - LOWEST_POWER
    upper, lower = product(w, FIVES_HIGH[q])
    if upper & LOW9 == LOW9:
        more, _ = product(w, FIVES_LOW[q])
        if more > ONES - lower:  # carry
            upper = upper + U1
            lower = more - (ONES - lower) - U1
        else:
            lower = lower + more
    if lower == ONES:
        return False, 0.0
    top = upper >> U63
    mantissa = upper >> (top + U9)  # 54 bits: one more than a float64 holds
    exponent = ((217706 * e) >> 16) + 63 + np.int64(top) - zeros  # of the leading bit
    if exponent < -1021 or exponent > 1022:
        return False, 0.0
    if lower <= U1 and -4 <= e <= 23 and mantissa & np.uint64(3) == U1 and mantissa << (top + U9) == upper:
        mantissa = mantissa - U1  # halfway: to even
    mantissa = (mantissa + (mantissa & U1)) >> U1
    # an overflow of the mantissa, to 2^53, raises the exponent: the leading bit is not kept
    return True, as_float((np.uint64(exponent + 1022) << U52) + mantissa)


@jit_inlined
def digit_bits(word):
    """Return eight times the number of digits at the start of eight bytes."""
    word = word ^ ZEROS
    others = ((word + ABOVE_NINE) | word) & HIGH_BITS  # right up to the first byte that is no digit
    return trailing_zeros(others) & ~7  # 64 where there is none


@jit_inlined
def digits(word, bits):
    """Return the number that so many bits of eight bytes, as `digit_bits` counts them, are the digits of."""
    word = (word ^ ZEROS) << np.uint64((64 - bits) & 63)  # leading zeros in front
    word = word * U10 + (word >> U8)
    word = ((word & PAIRS) * BY_100 + ((word >> U16) & PAIRS) * BY_1) >> U32
    return word if bits > 0 else U0


@jit_inlined
def digits_of(word):
    """Return (how many digits are at the start of eight bytes, their number)."""
    bits = digit_bits(word)
    return bits >> 3, digits(word, bits)


@jit
def number(data, at):
    """Return (outcome, value, end) of the number that starts at data[at]: NUMBER, LATE or NO_NUMBER.

    Grammar: [+-] (digits [. digits] | . digits) [(e|E) [+-] digits]. `data` ends in a line feed.
    """
    p = at
    c = data[p]
    negative = c == 45
    if negative or c == 43:
        p += 1
    m = np.int64(0)
    digits = 0
    e = np.int64(0)
    seen = False
    late = False
    point = False
    while True:
        c = np.int64(data[p])
        if 48 <= c <= 57:
            seen = True
            if digits < MAX_DIGITS:
                m = m * 10 + (c - 48)
                if m > 0:
                    digits += 1
                if point:
                    e -= 1
            else:
                late = True
        elif c == 46 and not point:
            point = True
        else:
            break
        p += 1
    if not seen:
        return NO_NUMBER, 0.0, p
    if c == 101 or c == 69:
        p += 1
        c = np.int64(data[p])
        down = c == 45
        if down or c == 43:
            p += 1
        power = np.int64(0)
        seen = False
        while True:
            c = np.int64(data[p])
            if not 48 <= c <= 57:
                break
            seen = True
            if power < 100_000_000:
                power = power * 10 + (c - 48)
            else:
                late = True
            p += 1
        if not seen:
            return NO_NUMBER, 0.0, p
        e += -power if down else power
    if late:
        return LATE, 0.0, p
    value = 0.0
    if m > 0:
        sure, value = rounded(m, e)
        if not sure:
            return LATE, 0.0, p
    return NUMBER, -value if negative else value, p


@jit
def blank(c):
    """Return whether a byte is blank space within a line."""
    return c == 32 or c == 9 or c == 13 or c == 11 or c == 12


@jit
def ends(c):
    """Return whether a byte ends a token."""
    return c == 32 or (9 <= c <= 13) or c == 35


@jit_inlined
def short_value(data, at, size):
    """Return (value, end) of a decimal of at most seven digits without an exponent; end -1: another, or none."""
    negative = data[at] == 45
    p = at + 1 if negative else at
    word = word_in(data, p, size)
    bits = digit_bits(word)
    if bits == 64:
        return 0.0, -1
    power = 0
    p += bits >> 3
    if data[p] == 46:  # the digits before and behind the point as one number
        whole = np.uint64(bits)
        power = -bits
        word = (word & ((U1 << whole) - U1)) | (word_in(data, p + 1, size) << whole)
        bits = digit_bits(word)
        power = (power + bits) >> 3
        p += 1 + power
    if bits == 0 or bits == 64:
        return 0.0, -1
    value = float(np.int64(digits(word, bits))) / TENS[power]
    return -value if negative else value, p


@jit_inlined
def short_entry(data, at, size):
    """Return (index, value, end) of an entry that starts at `at`, both of at most seven digits; end -1: another one."""
    if at + LONGEST_SHORT > size:
        return 0, 0.0, -1
    word = word_in(data, at, size)
    bits = digit_bits(word)
    p = at + (bits >> 3)
    if bits == 0 or bits == 64 or data[p] != 58:
        return 0, 0.0, -1
    value, p = short_value(data, p + 1, size)
    if p < 0 or (data[p] != 32 and data[p] != 10):
        return 0, 0.0, -1
    return np.int64(digits(word, bits)), value, p


@jit
def parse_svmlight(data, state, indptr, indices, values, y, late, base, max_rows, labelled):
    """Parse lines of svmlight text into CSR arrays until `max_rows` rows or the end of `data`.

    data (bytes,) ends in a line feed; indptr (max_rows + 1,), indices and values (room,), y (max_rows,);
    late (room, 3): slot (an entry, or -1 - row for a label), start and end of tokens left to `float`.
    **Written**: state (layout above), indptr, indices, values, y, late. On NEED_ROOM the state stands at
    the start of a line; call again with longer arrays. On BAD_* state[TOKEN] is the start of the token.
    `base` is the number of the first column in the file, 0 or 1. `labelled`: NO_LABELS, SIGNS, or LABELS, where y holds
    the labels as they are written.
    """
    p = state[POSITION]
    row = state[ROW]
    entry = state[ENTRY]
    width = state[WIDTH]
    n_late = state[LATE_TOKENS]
    outcome = DONE
    short = COMPILED  # numpy warns of words that overflow
    while p < data.size and row < max_rows:
        start, first_entry, first_late, first_width = p, entry, n_late, width
        while blank(data[p]):
            p += 1
        has_row = data[p] != 10 and data[p] != 35
        if has_row:
            token = p
            if labelled != NO_LABELS:
                kind, label, p = number(data, p)
                if kind == NO_NUMBER or not ends(data[p]):
                    outcome = BAD_LABEL
                elif kind == LATE:
                    if n_late == late.shape[0]:
                        outcome = NEED_ROOM
                    else:
                        late[n_late, 0], late[n_late, 1], late[n_late, 2] = -1 - row, token, p
                        n_late += 1
                elif labelled == LABELS:
                    y[row] = label
                elif label == 1.0:
                    y[row] = 1.0
                elif label == 0.0 or label == -1.0:
                    y[row] = -1.0
                else:
                    outcome = BAD_LABEL
            else:
                while not ends(data[p]) and data[p] != 58:
                    p += 1
                if data[p] == 58:
                    p = token  # the line starts with an entry: there is no label
            last = np.int64(-1)
            while outcome == DONE:
                if short and data[p] == 32:
                    index, value, end = short_entry(data, p + 1, data.size)
                    index -= base
                    if end > 0 and index > last and entry < values.size:
                        indices[entry] = index
                        values[entry] = value
                        entry += 1
                        last = index
                        p = end
                        continue
                while blank(data[p]):
                    p += 1
                if data[p] == 10 or data[p] == 35:
                    break
                token = p
                if data[p] == 113:
                    if data[p + 1] == 105 and data[p + 2] == 100 and data[p + 3] == 58:
                        while not ends(data[p]):
                            p += 1
                        continue
                    outcome = BAD_TOKEN
                    break
                index = np.int64(0)
                while True:
                    c = np.int64(data[p])
                    if not 48 <= c <= 57:
                        break
                    if index <= MAX_COLUMNS:
                        index = index * 10 + (c - 48)
                    p += 1
                if p == token or c != 58:
                    outcome = BAD_TOKEN
                    break
                index -= base
                if index < 0 or index >= MAX_COLUMNS:
                    outcome = BAD_INDEX
                    break
                if index <= last:
                    outcome = BAD_ORDER
                    break
                last = index
                p += 1
                begin = p
                kind, value, p = number(data, p)
                if kind == NO_NUMBER or not ends(data[p]):
                    outcome = BAD_VALUE
                    break
                if entry == values.size or (kind == LATE and n_late == late.shape[0]):
                    outcome = NEED_ROOM
                    break
                if kind == LATE:
                    late[n_late, 0], late[n_late, 1], late[n_late, 2] = entry, begin, p
                    n_late += 1
                indices[entry] = index
                values[entry] = value
                entry += 1
                short = COMPILED and p - token <= SHORT
            if last >= width:
                width = last + 1
            if outcome != DONE:
                state[TOKEN] = token
                p, entry, n_late, width = start, first_entry, first_late, first_width
                break
            row += 1
            indptr[row] = entry
        while data[p] != 10:
            p += 1
        p += 1
    state[POSITION] = p
    state[ROW] = row
    state[ENTRY] = entry
    state[WIDTH] = width
    state[LATE_TOKENS] = n_late
    return outcome
