"""A Python dict to a row of columns and values, in compiled code.

A table of 64-bit slots, the layout below, says what names mean. Reading it needs Python's GIL, and runs no code of
Python's: only plain strings and integers are looked up, and only plain numbers read. Anything else is a miss, and
the caller goes the slow way, which knows all that a row may be.
"""

from __future__ import annotations

import math

from aucstream.kernels.jit import jit, jit_holding
from aucstream.native.guard import FLOAT_AT, TYPE_AT
from aucstream.native.memory import (
    bytes_at,
    compare_strings,
    dict_get,
    dict_next,
    error_clear,
    error_occurred,
    float_at,
    float_of_int,
    floats_at,
    give_up,
    int_at,
    ints_at,
    join_strings,
    list_get,
    set_int,
    size_of_int,
    string_has,
)

# layout of the table, whose address kernels take: types and constants by their addresses; three slots to iterate
# with; length of the row read last, the room it has, addresses of its columns and values; the guess (how many names,
# addresses of the names' addresses and of their columns); the dict of name to column; the dict of name to dict of
# string to column (one-hot); how many columns have a mark, and the address of the marks: 1 for a one-hot column;
# the column that the first new name of a row gets, NO_LIMIT where a row with a new name is a miss; the first column
# that none gets, whose names are left out; after a row, the first column that none of its new names has; the address of
# the kinds of columns, 0 where a row with a new string is a miss, and how many there are; the address of the string "=";
# the address of room to find equal columns in, 0: the columns of a row differ, and how many slots it has, a power of two;
# whether the dict of name to column has one-hot names, too, so that a string may be found there
DICT, FLOAT, INT, STRING, TRUE, FALSE, NONE, POSITION, NAME, VALUE = range(10)
LENGTH, ROOM, COLUMNS, VALUES, GUESSED, GUESSED_NAMES, GUESSED_COLUMNS, INDEX = range(10, 18)
WORDS, MARKED, MARKS, NEXT_COLUMN, END_COLUMN, REACHED = range(18, 24)
KINDS, KIND_COUNT, EQUALS, EQUAL_COLUMNS, EQUAL_SLOTS, WHOLE = range(24, 30)
SIZE = 30
NO_LIMIT = 1 << 62
NEW, UNREADABLE = -1, -2  # in the place of a column
INDICATOR = 2  # as in `features.encoding.entries`


@jit
def slot(table, number):
    """Return a slot of the table at this address."""
    return int_at(table + 8 * number)


@jit
def same_name(name, guess, string):
    """Return whether two names are equal; `string` is the address of the type."""
    if int_at(name + TYPE_AT) != string or int_at(guess + TYPE_AT) != string:
        return False
    return compare_strings(name, guess) == 0


@jit
def number_of(value, table):
    """Return (whether the object at `value` is a plain number or bool, the number)."""
    kind = int_at(value + TYPE_AT)
    if kind == slot(table, FLOAT):
        return True, float_at(value + FLOAT_AT)
    if kind == slot(table, INT):
        number = float_of_int(value)
        if number == -1.0 and error_occurred() != 0:
            error_clear()
            return False, number
        return True, number
    if value == slot(table, TRUE):
        return True, 1.0
    return value == slot(table, FALSE), 0.0


@jit
def column_of(name, table):
    """Return the column of the name at this address, -1 where it is not known."""
    kind = int_at(name + TYPE_AT)
    if kind != slot(table, STRING) and kind != slot(table, INT):
        return -1
    column = dict_get(slot(table, INDEX), name)
    return -1 if column == 0 else size_of_int(column)


@jit
def word_column(name, word, table):
    """Return the column of a string under a name, -1 where it is not known."""
    if int_at(name + TYPE_AT) != slot(table, STRING):
        return -1
    words = dict_get(slot(table, WORDS), name)
    if words == 0:
        return -1
    column = dict_get(words, word)
    return -1 if column == 0 else size_of_int(column)


@jit
def one_hot_column(name, word, table):
    """Return the column of `name=word`, a name like any other: NEW where it has none, UNREADABLE where it is no name."""
    equals = slot(table, EQUALS)
    if int_at(name + TYPE_AT) != slot(table, STRING):
        return UNREADABLE
    column = UNREADABLE
    start = join_strings(name, equals)
    whole = 0 if start == 0 else join_strings(start, word)
    if whole == 0:
        error_clear()
    else:
        found = dict_get(slot(table, INDEX), whole)
        column = NEW if found == 0 else size_of_int(found)
        give_up(whole)
    if start != 0:
        give_up(start)
    return column


@jit
def names_may_meet(x, table):
    """Return whether a one-hot name of the dict at `x` may be another of its names: one of them has a "="."""
    position, name_at, value_at = table + 8 * POSITION, table + 8 * NAME, table + 8 * VALUE
    set_int(position, 0)
    while dict_next(x, position, name_at, value_at) != 0:
        name = int_at(name_at)
        if int_at(name + TYPE_AT) == slot(table, STRING) and string_has(name, slot(table, EQUALS)) != 0:
            return True
    return False


@jit
def added(columns, values, n, table):
    """Add the values of equal columns, in their order, at the first of them; return how many columns are left."""
    slots = slot(table, EQUAL_SLOTS)
    places = ints_at(slot(table, EQUAL_COLUMNS), slots)
    left = 0
    for k in range(n):
        column = columns[k]
        at = (column * 0x9E3779B1 >> 8) & (slots - 1)
        while places[at] != 0 and columns[places[at] - 1] != column:
            at = (at + 1) & (slots - 1)
        if places[at] == 0:
            columns[left] = column
            values[left] = 0.0 + values[k]
            left += 1
            places[at] = left
        else:
            values[places[at] - 1] += values[k]
    for k in range(left):
        at = (columns[k] * 0x9E3779B1 >> 8) & (slots - 1)
        while places[at] != k + 1:
            at = (at + 1) & (slots - 1)
        places[at] = 0
    return left


@jit
def new_number(name, value, table):
    """Return the finite number at `value` under a new name that is a string, NaN for anything else."""
    kind = int_at(value + TYPE_AT)
    if int_at(name + TYPE_AT) != slot(table, STRING) or (kind != slot(table, FLOAT) and kind != slot(table, INT)):
        return math.nan
    plain, number = number_of(value, table)
    return number if plain and math.isfinite(number) else math.nan


@jit
def read(x, table, limit):
    """Read the dict at `x`: write columns below `limit`, values and LENGTH; return the length, -1: a miss.

    The names of a row are guessed, one by one, to be those of the guess: a comparison is cheaper than looking up.
    New names get the columns from NEXT_COLUMN on, in their order, in this row alone; the caller forgets their kinds.
    """
    if int_at(x + TYPE_AT) != slot(table, DICT):
        return -1
    floating, room, guessed = slot(table, FLOAT), slot(table, ROOM), slot(table, GUESSED)
    columns, values = ints_at(slot(table, COLUMNS), room), floats_at(slot(table, VALUES), room)
    names = ints_at(slot(table, GUESSED_NAMES), guessed)
    guesses = ints_at(slot(table, GUESSED_COLUMNS), guessed)
    marked = slot(table, MARKED)
    marks = bytes_at(slot(table, MARKS), marked)
    position, name_at, value_at = table + 8 * POSITION, table + 8 * NAME, table + 8 * VALUE
    new, end, kinds = slot(table, NEXT_COLUMN), slot(table, END_COLUMN), slot(table, KINDS)
    has_new_words = leaves_out = False
    n = 0
    set_int(position, 0)
    while dict_next(x, position, name_at, value_at) != 0:
        name, value = int_at(name_at), int_at(value_at)
        if n == room:
            return -1
        if int_at(value + TYPE_AT) == slot(table, STRING):
            column = word_column(name, value, table)
            if column < 0:
                column = one_hot_column(name, value, table) if slot(table, WHOLE) != 0 else UNREADABLE
                has_new_words = True
                if column == NEW:
                    if new == NO_LIMIT or kinds == 0:
                        return -1
                    if new >= end:
                        leaves_out = True
                        continue
                    if new >= limit or new >= slot(table, KIND_COUNT):
                        return -1
                    bytes_at(kinds, new + 1)[new] = INDICATOR
                    column = new
                    new += 1
                    set_int(table + 8 * REACHED, new)
            if column < 0 or column >= limit:
                return -1
            columns[n], values[n] = column, 1.0
            n += 1
            continue
        if value == slot(table, NONE):
            kind = int_at(name + TYPE_AT)
            if kind == slot(table, STRING) or kind == slot(table, INT):
                continue
            return -1
        if n < guessed and (name == names[n] or same_name(name, names[n], slot(table, STRING))):
            column = guesses[n]
        else:
            column = column_of(name, table)
        if column < 0 and new < NO_LIMIT:
            number = new_number(name, value, table)
            if math.isnan(number) or (new < end and (new >= limit or new >= slot(table, KIND_COUNT))):
                return -1
            if new < end:
                columns[n], values[n] = new, number
                n += 1
                new += 1
                set_int(table + 8 * REACHED, new)
            else:
                leaves_out = True
            continue
        if column < 0 or column >= limit or (column < marked and marks[column] != 0):
            return -1
        if int_at(value + TYPE_AT) == floating:
            values[n] = float_at(value + FLOAT_AT)
        else:
            plain, number = number_of(value, table)
            if not plain:
                return -1
            values[n] = number
        columns[n] = column
        n += 1
    if has_new_words and names_may_meet(x, table):
        return -1
    if leaves_out:  # as values are added elsewhere: -0.0 becomes 0.0
        for k in range(n):
            values[k] = 0.0 + values[k]
    if slot(table, EQUAL_COLUMNS) != 0:
        n = added(columns, values, n, table)
    set_int(table + 8 * LENGTH, n)
    return n


@jit_holding
def read_one(x, table, limit):
    """`read`, as Python calls it."""
    return read(x, table, limit)


@jit_holding
def read_all(rows, start, n, table, indptr_at, columns_at, values_at, size):
    """Read the dicts `start` to `n` - 1 of the list at `rows`, row after row, into arrays at these addresses.

    indptr (n + 1,), whose entry `start` says where to begin, columns and values (size,). Returns the number of the first
    row that is not plain, or for which there is no room.
    """
    indptr, columns, values = ints_at(indptr_at, n + 1), ints_at(columns_at, size), floats_at(values_at, size)
    room = slot(table, ROOM)
    row_columns, row_values = ints_at(slot(table, COLUMNS), room), floats_at(slot(table, VALUES), room)
    end = indptr[start]
    for i in range(start, n):
        length = read(list_get(rows, i), table, NO_LIMIT)
        if length < 0 or end + length > size:
            return i
        for k in range(length):
            columns[end + k] = row_columns[k]
            values[end + k] = row_values[k]
        end += length
        indptr[i + 1] = end
    return n
