"""Trees that split a leaf where a column tells the classes apart.

The first half of the trees split the row as it is, the others the standardised row. A tree has room for `room` nodes
and (room + 1) // 2 leaves; node i of tree t is t * room + i in `links`, `thresholds` and `nodes`, leaf i in `leaves`
and `candidates` likewise. A new node or leaf is all zeros.

links : two integers a node: its left child, the right one is next to it, and its column; a leaf has 0 and its number.
thresholds : up to which a node's values go left.
nodes : `NODE` numbers a node: a weight of each rate, and its sum of squared gradients. They are apart from what finds
    the path: so that fits into the processor's cache.
ages, parents : a number each for a pair of siblings, of which that of the nodes 2 p + 1 and 2 p + 2 is at p: when it was
    visited last, `INNER` where it is no pair of leaves; its parent.
leaves : `LEAF` numbers a leaf, see below.
candidates : `CANDIDATES` of `CANDIDATE` numbers a leaf: column, threshold, weighted counts left and right of negatives
    and positives.

A leaf's candidates come from pairs of rows of opposite class: a column in which the two differ, a threshold between
their values. It is split where the evidence of the two sides, each under its own Beta(1/2, 1/2), is larger than that
of the leaf by enough nats.
"""

from __future__ import annotations

import math

import numpy as np

from aucstream.kernels.forest.columns import standard_of
from aucstream.kernels.forest.mixture import RATES
from aucstream.kernels.jit import jit
from aucstream.kernels.pairs.buffers import extent
from aucstream.kernels.random import below, mixed, next_word, uniform

NODE = 2 * RATES
CANDIDATES = 8
CANDIDATE = 6
# layout of a leaf: candidates; candidates drawn so far; row of the last visit; of each class the number of the last
# row here among its class, from 1, the weight and the rows here (an heir's begin at MIN at most); rows here itself
HELD, DRAWN, VISIT, LAST, MASS, COUNT, ROWS = 0, 1, 2, 3, 5, 7, 9
LEAF = 10

CHECK = 16  # rows of a leaf between two tests
SLACK = 4.0  # nats that a split may fall short of log(candidates drawn): weights are learned, so growth errs to more
MIN = 3.0  # rows of each class before a leaf is tested
DEEPEST = 60  # nodes above a leaf that may still be split
PATH = DEEPEST + 2  # room for the path of a row
INNER = 1e300  # the age of a pair of which one is no leaf
IMPOSSIBLE = -1e9  # the gain of a candidate with an empty side
EQUAL = 1e-9  # gains that differ by less are equal: then the first candidate counts

STEPS = 268_435_456.0  # 2^28: standardised values are buffered in steps of its inverse
_MIDDLE = np.int64(1 << 31)
_LOW = np.int64((1 << 32) - 1)


@jit
def code_of(column, standard):
    """Return a column and its standardised value as one integer."""
    return (np.int64(column) << 32) | (np.int64(math.floor(standard * STEPS + 0.5)) + _MIDDLE)


@jit
def column_of(code):
    """Return the column of a code."""
    return code >> 32


@jit
def standard_in(code):
    """Return the standardised value of a code, to 2^-29."""
    return np.float64((code & _LOW) - _MIDDLE) / STEPS


TABLED = 1024
# log gamma of k / 2: a test needs 72 of them, and to calculate them took a fifth of a step
_LOG_GAMMA = np.array([math.inf, *(math.lgamma(k / 2.0) for k in range(1, 2 * TABLED + 3))])


@jit
def evidence(a, b):
    """Return the log evidence of counts under Beta(1/2, 1/2)."""
    if a + b <= TABLED and a == math.floor(a) and b == math.floor(b):
        i, j = 2 * np.int64(a), 2 * np.int64(b)
        return _LOG_GAMMA[i + 1] + _LOG_GAMMA[j + 1] - _LOG_GAMMA[i + j + 2] - 1.1447298858494002
    return math.lgamma(a + 0.5) + math.lgamma(b + 0.5) - math.lgamma(a + b + 1.0) - 1.1447298858494002


@jit
def room_of(links, trees):
    """Return how many nodes a tree has room for."""
    return links.size // (2 * trees)


@jit
def descend(links, thresholds, room, t, start, dense, path):
    """Follow a row to its leaf in tree t, with its values from `start` on in `dense`; return the length of its path.

    Writes the nodes on its path to `path` from t * PATH on.
    """
    first = t * room
    node = first
    at = t * PATH
    while True:
        path[at] = node
        at += 1
        left = np.int64(links[2 * node])
        if left == 0:
            return at - t * PATH
        value = dense[start + np.int64(links[2 * node + 1])]
        node = first + left + np.int64(not value <= thresholds[node])


@jit
def descend_three(links, thresholds, room, t, start, dense, path):
    """Do what `descend` does for trees t, t + 1 and t + 2, a level of all three at a time; return the three lengths.

    A step of one waits for memory while those of the others go on, and the processor guesses the end of one path only.
    """
    first_a, first_b, first_c = t * room, (t + 1) * room, (t + 2) * room
    a, b, c = first_a, first_b, first_c
    at_a, at_b, at_c = t * PATH, (t + 1) * PATH, (t + 2) * PATH
    while True:
        path[at_a], path[at_b], path[at_c] = a, b, c
        left_a, left_b, left_c = np.int64(links[2 * a]), np.int64(links[2 * b]), np.int64(links[2 * c])
        if left_a + left_b + left_c == 0:
            return at_a - t * PATH + 1, at_b - (t + 1) * PATH + 1, at_c - (t + 2) * PATH + 1
        inner_a, inner_b, inner_c = np.int64(left_a > 0), np.int64(left_b > 0), np.int64(left_c > 0)
        value_a = dense[start + inner_a * links[2 * a + 1]]  # of a leaf any: it stays where it is
        value_b = dense[start + inner_b * links[2 * b + 1]]
        value_c = dense[start + inner_c * links[2 * c + 1]]
        next_a = first_a + left_a + np.int64(not value_a <= thresholds[a])
        next_b = first_b + left_b + np.int64(not value_b <= thresholds[b])
        next_c = first_c + left_c + np.int64(not value_c <= thresholds[c])
        a += inner_a * (next_a - a)
        b += inner_b * (next_b - b)
        c += inner_c * (next_c - c)
        at_a += inner_a
        at_b += inner_b
        at_c += inner_c


@jit
def descend_all(links, thresholds, room, trees, d, dense, path):
    """Follow a row to its leaf in all trees; writes path, with the lengths from trees * PATH on."""
    lengths = trees * PATH
    half = trees // 2
    for part in range(2):
        t, end, start = (0, half, 0) if part == 0 else (half, trees, d)
        while t + 3 <= end:
            three = descend_three(links, thresholds, room, t, start, dense, path)
            path[lengths + t], path[lengths + t + 1], path[lengths + t + 2] = three
            t += 3
        while t < end:
            path[lengths + t] = descend(links, thresholds, room, t, start, dense, path)
            t += 1


@jit
def clear_leaf(leaves, candidates, leaf):
    """Set a leaf to zeros."""
    for i in range(leaf * LEAF, (leaf + 1) * LEAF):
        leaves[i] = 0.0
    for i in range(leaf * CANDIDATES * CANDIDATE, (leaf + 1) * CANDIDATES * CANDIDATE):
        candidates[i] = 0.0


@jit
def restart_tree(used, links, thresholds, nodes, ages, parents, leaves, candidates, trees, t):
    """Make tree t one new leaf."""
    room = room_of(links, trees)
    for i in range(t * room, t * room + np.int64(used[t])):
        links[2 * i] = 0
        links[2 * i + 1] = 0
        thresholds[i] = 0.0
        for k in range(i * NODE, (i + 1) * NODE):
            nodes[k] = 0.0
    for i in range(t * ((room + 1) // 2), t * ((room + 1) // 2) + (np.int64(used[t]) + 1) // 2):
        clear_leaf(leaves, candidates, i)
    used[t] = 1.0


@jit
def chosen_column(history, slots, pool_idx, pool_val, slot, word, dense, idx, x):
    """Return a column uniform among those where a row and a buffered one differ, its raw value there and its code.

    The column is -1 where they are equal, and the code where the buffered row has a zero. `dense` has the row; its last
    third is zero, and left so.
    """
    start, stop = extent(slots, slot)
    best = np.uint64(0)
    column = np.int64(-1)
    code = np.int64(-1)
    value = 0.0
    same = 0  # as long as both have the same columns, no scattering is needed
    while same < min(x.size, stop - start):
        j = np.int64(same if idx is None else idx[same])
        other_code, other_value = pool_idx[start + same], pool_val[start + same]
        if column_of(other_code) != j:
            break
        if other_value != x[same]:
            key = mixed(np.uint64(history[j]) ^ word)
            if column < 0 or key > best or (key == best and j < column):
                best, column, value, code = key, j, other_value, other_code
        same += 1
    other = 2 * history.size
    for k in range(start + same, stop):
        dense[other + column_of(pool_idx[k])] = pool_val[k]
    for k in range(same, x.size):
        j = np.int64(k if idx is None else idx[k])
        if x[k] != 0.0 and dense[other + j] != x[k]:
            key = mixed(np.uint64(history[j]) ^ word)
            if column < 0 or key > best or (key == best and j < column):
                best, column, value, code = key, j, dense[other + j], np.int64(-1)
    for k in range(start + same, stop):
        j = np.int64(column_of(pool_idx[k]))
        dense[other + j] = 0.0
        if dense[j] == 0.0:
            key = mixed(np.uint64(history[j]) ^ word)
            if column < 0 or key > best or (key == best and j < column):
                best, column, value = key, j, pool_val[k]
        if j == column:
            code = pool_idx[k]
    return column, value, code


@jit
def new_candidate(
    history, squares, counts, place, centred, scalars, leaves, candidates, slots, pool_idx, pool_val, generator, dense,
    idx, x, leaf, raw, other, others, capacity,
):  # fmt: skip
    """Draw a candidate of a leaf, from a row and a buffered row of class `other`; writes leaves, candidates, generator.

    `others` : rows of that class so far.
    """
    at = leaf * LEAF
    last = np.int64(leaves[at + LAST + other])  # from 1
    if last == 0 or others - last >= capacity:
        last = others - below(generator, min(others, capacity))
    slot = other * capacity + (last - 1) % capacity
    word = next_word(generator)
    part = uniform(generator)
    column, value, code = chosen_column(history, slots, pool_idx, pool_val, slot, word, dense, idx, x)
    if column < 0:
        return
    if raw:
        here = dense[column]
    else:
        here = dense[history.size + column]
        if code >= 0:
            value = standard_in(code)
        else:
            value = standard_of(column, 0.0, squares, counts, place, centred, scalars)
    low, high = min(here, value), max(here, value)
    threshold = low + part * (high - low)
    if threshold >= high:
        threshold = low
    held = np.int64(leaves[at + HELD])
    i = (leaf * CANDIDATES + held) * CANDIDATE
    candidates[i] = column
    candidates[i + 1] = threshold
    for k in range(i + 2, i + CANDIDATE):
        candidates[k] = 0.0
    leaves[at + HELD] = held + 1.0
    leaves[at + DRAWN] += 1.0


@jit
def visit_pair(ages, room, t, node, now):
    """Note that a leaf was visited, for it and its sibling; writes ages."""
    i = node - t * room
    if i > 0:
        pair = t * ((room + 1) // 2) + (i - 1) // 2
        if ages[pair] != INNER:
            ages[pair] = now


@jit
def oldest_pair(ages, first_pair, pairs, now):
    """Return which pair of leaves of a tree was not visited for longest; -1: none."""
    oldest, found = now, np.int64(-1)
    for p in range(pairs):
        if ages[first_pair + p] < oldest:
            oldest, found = ages[first_pair + p], np.int64(p)
    return found


@jit
def split_leaf(used, links, thresholds, nodes, ages, parents, leaves, candidates, trees, most, t, node, best, now):
    """Split a leaf at one of its candidates; a full tree takes back the oldest pair of leaves. Writes the trees."""
    room = room_of(links, trees)
    first, first_leaf = t * room, t * ((room + 1) // 2)
    own = np.int64(links[2 * node + 1])
    size = np.int64(used[t])
    if size + 2 <= most:
        pair, right_leaf = (size - 1) // 2, (size + 1) // 2
        used[t] = size + 2.0
    else:
        pair = oldest_pair(ages, first_leaf, (size - 1) // 2, now)
        if pair < 0:
            return
        parent = np.int64(parents[first_leaf + pair])
        back = np.int64(links[2 * (first + 2 * pair + 1) + 1])
        right_leaf = np.int64(links[2 * (first + 2 * pair + 2) + 1])
        links[2 * (first + parent)] = 0
        links[2 * (first + parent) + 1] = back
        thresholds[first + parent] = 0.0
        clear_leaf(leaves, candidates, first_leaf + back)
        leaves[(first_leaf + back) * LEAF + VISIT] = ages[first_leaf + pair]
        sibling = first + (parent + 1 if parent % 2 == 1 else parent - 1)
        if parent > 0 and links[2 * sibling] == 0:
            age = leaves[(first_leaf + links[2 * sibling + 1]) * LEAF + VISIT]
            ages[first_leaf + (parent - 1) // 2] = max(age, ages[first_leaf + pair])
    left = 2 * pair + 1
    ages[first_leaf + pair] = now
    parents[first_leaf + pair] = node - first
    if node > first:
        ages[first_leaf + (node - first - 1) // 2] = INNER
    i = ((first_leaf + own) * CANDIDATES + best) * CANDIDATE
    column, threshold = candidates[i], candidates[i + 1]
    mass = (candidates[i + 2], candidates[i + 3], candidates[i + 4], candidates[i + 5])
    links[2 * node] = left
    links[2 * node + 1] = np.int64(column)
    thresholds[node] = threshold
    before = math.log((mass[1] + mass[3] + 1.0) / (mass[0] + mass[2] + 1.0))
    for side in range(2):
        child, leaf = first + left + side, own if side == 0 else right_leaf
        negatives, positives = mass[2 * side], mass[2 * side + 1]
        links[2 * child] = 0
        links[2 * child + 1] = leaf
        clear_leaf(leaves, candidates, first_leaf + leaf)
        at = (first_leaf + leaf) * LEAF
        leaves[at + VISIT] = now
        leaves[at + MASS] = negatives
        leaves[at + MASS + 1] = positives
        leaves[at + COUNT] = min(negatives, MIN)
        leaves[at + COUNT + 1] = min(positives, MIN)
        weight = (math.log((positives + 0.5) / (negatives + 0.5)) - before) / trees
        thresholds[child] = 0.0
        for q in range(RATES):
            nodes[child * NODE + q] = weight
            nodes[child * NODE + RATES + q] = 0.0


@jit
def test_leaf(
    used, links, thresholds, nodes, ages, parents, leaves, candidates, trees, most, t, node, leaf, now, gains
):
    """Split a leaf on its best candidate, or drop the worst quarter of its candidates where it has all. Writes the trees."""
    at = leaf * LEAF
    held = np.int64(leaves[at + HELD])
    best = 0
    for k in range(held):
        i = (leaf * CANDIDATES + k) * CANDIDATE
        a, b, c, d = candidates[i + 2], candidates[i + 3], candidates[i + 4], candidates[i + 5]
        if a + b == 0.0 or c + d == 0.0:
            gains[k] = IMPOSSIBLE
        else:
            gains[k] = evidence(a, b) + evidence(c, d) - evidence(a + c, b + d)
        if gains[k] > gains[best] + EQUAL:
            best = k
    if gains[best] > IMPOSSIBLE and gains[best] > math.log(leaves[at + DRAWN]) - SLACK:
        split_leaf(used, links, thresholds, nodes, ages, parents, leaves, candidates, trees, most, t, node, best, now)
    elif held == CANDIDATES:
        for _ in range(CANDIDATES // 4):
            worst = 0
            for k in range(1, held):
                if gains[k] < gains[worst] - EQUAL:
                    worst = k
            held -= 1
            gains[worst] = gains[held]
            to, source = (leaf * CANDIDATES + worst) * CANDIDATE, (leaf * CANDIDATES + held) * CANDIDATE
            for k in range(CANDIDATE):
                candidates[to + k] = candidates[source + k]
                candidates[source + k] = 0.0
        leaves[at + HELD] = held
