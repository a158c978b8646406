"""Lines of a CSV file whose cells are numbers: bytes to a matrix, in compiled code.

Anything else is left to the caller: quotes, missing values, words, bools, and numbers that `kernels.text.parse` leaves.
"""

from __future__ import annotations

from aucstream.kernels.jit import jit
from aucstream.kernels.text.parse import NUMBER, number, short_value

# layout of `state`: where the next line begins; rows taken
POSITION, ROW = range(2)


@jit
def read_lines(text, state, delimiter, label, most, values, labels):
    """Read lines until `most` rows, the end of `text`, or a line that is not all numbers.

    text (bytes,): whole lines, each with its line feed. `label` is the number of the column whose cells may be any
    ASCII without quotes, -1: none. **Written**: state (layout above), values (most, k) of the other columns, and
    labels (most, 2): where the label's cell starts and ends.
    """
    size = text.size
    width = values.shape[1] + (1 if label >= 0 else 0)
    position = state[POSITION]
    row = 0
    while row < most and position < size:
        p = position
        column = 0
        fits = True
        for j in range(width):
            if j == label:
                labels[row, 0] = p
                c = text[p]
                while c != delimiter and c != 10 and c != 13:
                    if c == 34 or c >= 128:
                        fits = False
                    p += 1
                    c = text[p]
                labels[row, 1] = p
            else:
                while text[p] == 32:
                    p += 1
                value, end = short_value(text, p, size)
                c = text[end] if end >= 0 else delimiter
                if end >= 0 and (c == delimiter or c == 10):
                    p = end
                else:
                    kind, value, p = number(text, p)
                    if kind != NUMBER:
                        fits = False
                while text[p] == 32:
                    p += 1
                values[row, column] = value
                column += 1
            c = text[p]
            if j < width - 1:
                if c != delimiter:
                    fits = False
                p += 1
            else:
                if c == 13:
                    p += 1
                if text[p] != 10:
                    fits = False
            if not fits:
                break
        if not fits:
            break
        position = p + 1
        row += 1
    state[POSITION] = position
    state[ROW] = row
