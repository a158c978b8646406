"""Lines of JSON that differ in their values only: bytes to a matrix, in compiled code.

A shape is a line that a JSON reader has taken, cut at its values: text, value, text, ..., value, text. A line is
of the shape where each text is there byte by byte and each value is written by JSON's grammar, so that whoever
took the first line takes this one. Numbers equal Python's `float` to the last bit (`kernels.text.parse`). What would
need more digits, more range or a closer look is left to the caller, as is every other line.
"""

from __future__ import annotations

import numpy as np

from aucstream.kernels.jit import jit, jit_inlined
from aucstream.kernels.text.bits import word_in
from aucstream.kernels.text.parse import digits_of, rounded

# kinds of values: the next column of the matrix, or one of the fields beside it; END: the text after the last value
FEATURE, LABEL, WEIGHT, ID, END = range(5)

# layout of `state`: where the next line begins; rows taken
POSITION, ROW = range(2)

MOST_ID = 256  # bytes
MOST_POWER = np.uint64(400)  # of ten; rows beyond a float64 are left to the caller
POWERS = np.array([10**k for k in range(19)], dtype=np.uint64)

NOTHING, BYTE, LOW32, U32 = (np.uint64(k) for k in (0, 0xFF, 0xFFFFFFFF, 32))
PLUS, MINUS, POINT, ZERO, SMALL_E, LARGE_E = (np.uint64(ord(c)) for c in "+-.0eE")
TRUE, FALSE = np.uint64(int.from_bytes(b"true", "little")), np.uint64(int.from_bytes(b"fals", "little"))


@jit_inlined
def all_digits(text, p, size, m):
    """Return (number, end) of the digits at p behind those of m; end -1: more than 18 in all."""
    count = 8
    while count == 8:
        count, more = digits_of(word_in(text, p, size))
        if m >= POWERS[18 - count]:
            return m, -1
        m = m * POWERS[count] + more
        p += count
    return m, p


@jit_inlined
def json_number(text, p, size):
    """Return (value, end) of the number at p by JSON's grammar; end -1: none, or one to look at more closely."""
    negative = word_in(text, p, size) & BYTE == MINUS
    if negative:
        p += 1
    start = p
    m, p = all_digits(text, p, size, NOTHING)
    if p <= start or (p - start > 1 and word_in(text, start, size) & BYTE == ZERO):
        return 0.0, -1
    e = 0
    c = word_in(text, p, size) & BYTE
    if c == POINT:
        p += 1
        start = p
        m, p = all_digits(text, p, size, m)
        if p <= start:
            return 0.0, -1
        e = start - p
        c = word_in(text, p, size) & BYTE
    if c == SMALL_E or c == LARGE_E:
        p += 1
        c = word_in(text, p, size) & BYTE
        down = c == MINUS
        if down or c == PLUS:
            p += 1
        count, power = digits_of(word_in(text, p, size))
        if count == 0 or power > MOST_POWER or m == NOTHING:
            return 0.0, -1
        p += count
        e += -np.int64(power) if down else np.int64(power)
    elif negative and m == NOTHING and e == 0:
        return 0.0, -1  # -0 is the integer 0 to some readers
    value = 0.0
    if m != NOTHING:
        sure, value = rounded(np.int64(m), e)
        if not sure:
            return 0.0, -1
    return -value if negative else value, p


@jit
def plain_id(text, p, size):
    """Return the end of a string of visible ASCII without escapes, whose first letter is at p; -1: another."""
    start = p
    while p < size and p - start <= MOST_ID:
        c = text[p]
        if c == 34:
            return p if p > start else -1
        if c <= 32 or c >= 127 or c == 92:
            return -1
        p += 1
    return -1


@jit
def read_lines(text, state, pieces, masks, kinds, ends, lengths, most, values, signs, weights, ids, starts):
    """Read lines of one shape until `most` rows, the end of `text`, or a line that is not of the shape.

    text (bytes,): whole lines; the last one may lack its line feed. The text before value j is
    `pieces[ends[j - 1]:ends[j]]`, eight bytes each, of which `masks` count, `lengths[j]` bytes in all. **Written**:
    state (layout above), values (most, k), signs (most,), weights (most,), ids (most, 2): start and end, and
    starts (most + 1,): where rows begin, and the last one ends behind its line feed.
    """
    size = text.size
    position = state[POSITION]
    row = 0
    while row < most and position < size:
        p = position
        column = 0
        piece = 0
        fits = True
        for j in range(kinds.size):
            at = p
            while piece < ends[j]:
                if (word_in(text, at, size) ^ pieces[piece]) & masks[piece] != NOTHING:
                    fits = False
                at += 8
                piece += 1
            if not fits:
                break
            p += lengths[j]
            kind = kinds[j]
            if kind == FEATURE:
                values[row, column], p = json_number(text, p, size)
                column += 1
            elif kind == LABEL:
                word = word_in(text, p, size)
                if word & LOW32 == TRUE:
                    signs[row] = 1.0
                    p += 4
                elif word & LOW32 == FALSE and (word >> U32) & BYTE == SMALL_E:
                    signs[row] = -1.0
                    p += 5
                else:
                    value, p = json_number(text, p, size)
                    if value == 1.0:
                        signs[row] = 1.0
                    elif value == 0.0 or value == -1.0:
                        signs[row] = -1.0
                    else:
                        p = -1
            elif kind == WEIGHT:
                weights[row], p = json_number(text, p, size)
                if weights[row] < 0.0:
                    p = -1
            elif kind == ID:
                ids[row, 0] = p
                p = plain_id(text, p, size)
                ids[row, 1] = p
            if p < 0:
                fits = False
                break
        if not fits or (p < size and text[p] != 10):
            break
        starts[row] = position
        position = p + 1 if p < size else size
        row += 1
    starts[row] = position
    state[POSITION] = position
    state[ROW] = row
