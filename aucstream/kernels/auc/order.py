"""A counted search tree in arrays: ranks, and what one score adds to the pairs of an AUC.

The tree is a treap. Equal keys share a node, so it holds distinct keys; every node knows the
mass of positives and negatives at its key and in its subtree. Priorities are fixed by the number
of the node, hashed: no generator, the same run every time, O(log n) expected for any order of keys.

    links : int64 (nodes, 5)     KEY, LEFT, RIGHT, PRIORITY, ROWS
    sums  : int64 or float64 (nodes, 4)   OWN_POS, OWN_NEG, SUB_POS, SUB_NEG

Row 0 of both is "no node": its LEFT is the root, its RIGHT the first free node (free nodes are
chained by RIGHT), its sums stay 0. Keys are int64 in the order of the scores (`keys_of`).
Integer sums are exact. Pairs are in half units: 2 for an ordered pair, 1 for a tie.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aucstream.kernels.jit import jit

KEY, LEFT, RIGHT, PRIORITY, ROWS = range(5)
OWN_POS, OWN_NEG, SUB_POS, SUB_NEG = range(4)
NONE = 0
MAGNITUDE = 0x7FFF_FFFF_FFFF_FFFF


def keys_of(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return int64 keys ordered and equal as the finite scores are (-0.0 equals 0.0)."""
    bits = (scores + 0.0).view(np.int64)
    return bits ^ ((bits >> 63) & MAGNITUDE)


def scores_of(keys: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the scores that `keys_of` turned into `keys`."""
    return (keys ^ ((keys >> 63) & MAGNITUDE)).view(np.float64)


def _priorities(start: int, stop: int) -> NDArray[np.int64]:
    """Return 63-bit hashes (splitmix64) of the node numbers start..stop-1."""
    z = np.arange(start, stop, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(1)).astype(np.int64)


def new_tree(nodes: int, dtype: Any = np.int64) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return an empty tree (links, sums) with room for `nodes` distinct keys."""
    links = np.zeros((nodes + 1, 5), dtype=np.int64)
    sums = np.zeros((nodes + 1, 4), dtype=dtype)
    _chain(links, 1)
    return links, sums


def grown_tree(links: NDArray[np.int64], sums: NDArray[Any], nodes: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the same tree with room for `nodes` distinct keys; no node of it was ever freed.

    When it is made larger has then no influence on its shape, nor on how float sums are rounded.
    """
    bigger = np.zeros((nodes + 1, 5), dtype=np.int64)
    bigger_sums = np.zeros((nodes + 1, 4), dtype=sums.dtype)
    bigger[: len(links)] = links
    bigger_sums[: len(sums)] = sums
    _chain(bigger, len(links))
    return bigger, bigger_sums


def _chain(links: NDArray[np.int64], start: int) -> None:
    """Put the nodes from `start` on behind the free ones: nodes are used in the order of their numbers."""
    stop = len(links)
    if start == stop:
        return
    links[start:, RIGHT] = np.arange(start + 1, stop + 1)
    links[stop - 1, RIGHT] = NONE
    links[start:, PRIORITY] = _priorities(start, stop)
    last_free = start - 1 if links[0, RIGHT] != NONE else 0
    links[last_free, RIGHT] = start


@jit
def _locate(links, sums, key):
    """Return (node of `key` or NONE, positives below, negatives below)."""
    pos = sums[0, SUB_POS]
    neg = sums[0, SUB_NEG]
    node = links[0, LEFT]
    while node != NONE:
        here = links[node, KEY]
        left = links[node, LEFT]
        if key < here:
            node = left
        else:
            pos += sums[left, SUB_POS]
            neg += sums[left, SUB_NEG]
            if key == here:
                break
            pos += sums[node, OWN_POS]
            neg += sums[node, OWN_NEG]
            node = links[node, RIGHT]
    return node, pos, neg


@jit
def ranks(links, sums, key):
    """Return (positives below, negatives below, positives equal, negatives equal) to `key`."""
    node, pos, neg = _locate(links, sums, key)
    return pos, neg, sums[node, OWN_POS], sums[node, OWN_NEG]


@jit
def pairs_of(links, sums, key, positive):
    """Return the mass, in half units, of the pairs that a row makes with the other class.

    Positive: 2 (negatives below) + (negatives equal). Negative: 2 (positives above) + (equal).
    """
    node, pos, neg = _locate(links, sums, key)
    return _pairs(links, sums, node, pos, neg, positive)


@jit
def _pairs(links, sums, node, pos_below, neg_below, positive):
    """Return `pairs_of` a row that has been located; sums of node NONE are 0."""
    if positive:
        return 2 * neg_below + sums[node, OWN_NEG]
    return 2 * (sums[links[0, LEFT], SUB_POS] - pos_below) - sums[node, OWN_POS]


@jit
def insert(links, sums, key, positive, mass):
    """Add one row of `mass` at `key`; links and sums are written; returns the pairs gained.

    A node is free if `key` is new: the caller sees to it. Pairs are per unit of `mass`.
    """
    node, pos_below, neg_below = _locate(links, sums, key)
    gained = _pairs(links, sums, node, pos_below, neg_below, positive)
    own = OWN_POS if positive else OWN_NEG
    sub = SUB_POS if positive else SUB_NEG
    if node != NONE:
        links[node, ROWS] += 1
        sums[node, own] += mass
        _add_on_path(links, sums, key, sub, mass)
        return gained

    fresh = links[0, RIGHT]
    links[0, RIGHT] = links[fresh, RIGHT]
    links[fresh, KEY] = key
    links[fresh, ROWS] = 1
    for column in range(4):
        sums[fresh, column] = 0
    sums[fresh, own] = mass

    # Down to the place where the priority of the new node fits.
    parent = 0
    side = LEFT
    node = links[0, LEFT]
    priority = links[fresh, PRIORITY]
    while node != NONE and links[node, PRIORITY] >= priority:
        sums[node, sub] += mass
        parent = node
        side = LEFT if key < links[node, KEY] else RIGHT
        node = links[node, side]
    links[parent, side] = fresh

    # Masses below and above `key` in the subtree that the new node replaces.
    pos_all = sums[node, SUB_POS]
    neg_all = sums[node, SUB_NEG]
    pos_below = sums[0, SUB_POS]  # typed zeros
    neg_below = sums[0, SUB_NEG]
    walk = node
    while walk != NONE:
        if links[walk, KEY] < key:
            left = links[walk, LEFT]
            pos_below += sums[walk, OWN_POS] + sums[left, SUB_POS]
            neg_below += sums[walk, OWN_NEG] + sums[left, SUB_NEG]
            walk = links[walk, RIGHT]
        else:
            walk = links[walk, LEFT]
    pos_above = pos_all - pos_below
    neg_above = neg_all - neg_below
    sums[fresh, SUB_POS] = pos_all
    sums[fresh, SUB_NEG] = neg_all
    sums[fresh, sub] += mass

    # Split it; what goes to each side is known, so every subtree mass is written on the way down.
    low, low_side = fresh, LEFT
    high, high_side = fresh, RIGHT
    while node != NONE:
        if links[node, KEY] < key:
            left = links[node, LEFT]
            links[low, low_side] = node
            low, low_side = node, RIGHT
            sums[node, SUB_POS] = pos_below
            sums[node, SUB_NEG] = neg_below
            pos_below -= sums[node, OWN_POS] + sums[left, SUB_POS]
            neg_below -= sums[node, OWN_NEG] + sums[left, SUB_NEG]
            node = links[node, RIGHT]
        else:
            right = links[node, RIGHT]
            links[high, high_side] = node
            high, high_side = node, LEFT
            sums[node, SUB_POS] = pos_above
            sums[node, SUB_NEG] = neg_above
            pos_above -= sums[node, OWN_POS] + sums[right, SUB_POS]
            neg_above -= sums[node, OWN_NEG] + sums[right, SUB_NEG]
            node = links[node, LEFT]
    links[low, low_side] = NONE
    links[high, high_side] = NONE
    return gained


@jit
def _add_on_path(links, sums, key, sub, mass):
    """Add `mass` to the subtree sums from the root to the node of `key`; writes sums."""
    node = links[0, LEFT]
    while node != NONE:
        sums[node, sub] += mass
        if key < links[node, KEY]:
            node = links[node, LEFT]
        elif key > links[node, KEY]:
            node = links[node, RIGHT]
        else:
            return


@jit
def remove(links, sums, key, positive, mass):
    """Take one row of `mass` away from `key`, which is there; returns the pairs lost.

    Writes links and sums. Pairs are per unit of `mass`, and none with the row itself.
    """
    own = OWN_POS if positive else OWN_NEG
    sub = SUB_POS if positive else SUB_NEG
    parent = 0
    side = LEFT
    node = links[0, LEFT]
    while links[node, KEY] != key:
        sums[node, sub] -= mass
        parent = node
        side = LEFT if key < links[node, KEY] else RIGHT
        node = links[node, side]
    sums[node, sub] -= mass
    sums[node, own] -= mass
    links[node, ROWS] -= 1
    if links[node, ROWS] > 0:
        return pairs_of(links, sums, key, positive)

    # Merge its two subtrees into its place.
    left = links[node, LEFT]
    right = links[node, RIGHT]
    while left != NONE and right != NONE:
        if links[left, PRIORITY] >= links[right, PRIORITY]:
            links[parent, side] = left
            sums[left, SUB_POS] += sums[right, SUB_POS]
            sums[left, SUB_NEG] += sums[right, SUB_NEG]
            parent, side = left, RIGHT
            left = links[left, RIGHT]
        else:
            links[parent, side] = right
            sums[right, SUB_POS] += sums[left, SUB_POS]
            sums[right, SUB_NEG] += sums[left, SUB_NEG]
            parent, side = right, LEFT
            right = links[right, LEFT]
    links[parent, side] = left if left != NONE else right
    for column in range(4):
        sums[node, column] = 0
    links[node, LEFT] = NONE
    links[node, RIGHT] = links[0, RIGHT]
    links[0, RIGHT] = node
    return pairs_of(links, sums, key, positive)


HEAD, FILLED, POSITIVES, PAIRS = range(4)  # layout of a window's scalars


@jit
def slide(links, sums, ring_keys, ring_labels, scalars, window, keys, labels):
    """Put rows into a sliding window, oldest out first; integer arithmetic only.

    links, sums : the tree, with at least `window` nodes or one for each row held and coming.
    ring_keys, ring_labels : int64, uint8 (room,): the rows of the window in order of arrival.
    scalars : int64 (4,): HEAD (oldest row), FILLED, POSITIVES, PAIRS (half units).
    keys, labels : int64, uint8 (n,): the rows to come, label 1 positive.
    All but the last two are written.
    """
    for i in range(keys.size):
        _slide(links, sums, ring_keys, ring_labels, scalars, window, keys[i], labels[i])


@jit
def _slide(links, sums, ring_keys, ring_labels, scalars, window, key, label):
    """Put one row into the window: the body of `slide`."""
    room = ring_keys.size
    if scalars[FILLED] == window:
        head = scalars[HEAD]
        old = ring_labels[head] == 1
        scalars[PAIRS] -= remove(links, sums, ring_keys[head], old, 1)
        scalars[POSITIVES] -= 1 if old else 0
        scalars[HEAD] = head + 1 if head + 1 < room else 0
        scalars[FILLED] -= 1
    tail = scalars[HEAD] + scalars[FILLED]
    if tail >= room:
        tail -= room
    positive = label == 1
    ring_keys[tail] = key
    ring_labels[tail] = label
    scalars[PAIRS] += insert(links, sums, key, positive, 1)
    scalars[POSITIVES] += 1 if positive else 0
    scalars[FILLED] += 1


@jit
def window_auc(scalars):
    """Return the AUC of a window, NaN while a class is absent; one division."""
    positives = scalars[POSITIVES]
    negatives = scalars[FILLED] - positives
    if positives == 0 or negatives == 0:
        return math.nan
    return float(scalars[PAIRS]) / (2.0 * float(positives) * float(negatives))


@jit
def slide_one(links, sums, ring_keys, ring_labels, scalars, window, score, label):
    """Put one row into the window, as `slide` does, and return the AUC after it."""
    bits = np.float64(score + 0.0).view(np.int64)
    key = bits ^ ((bits >> 63) & MAGNITUDE)
    _slide(links, sums, ring_keys, ring_labels, scalars, window, key, label)
    return window_auc(scalars)


@jit
def table(links, sums, keys, pos, neg, stack):
    """Write distinct keys in order with their masses; returns how many.

    keys, pos, neg : (nodes,) written. stack : int64 (nodes,) scratch.
    """
    count = 0
    depth = 0
    node = links[0, LEFT]
    while node != NONE or depth > 0:
        while node != NONE:
            stack[depth] = node
            depth += 1
            node = links[node, LEFT]
        depth -= 1
        node = stack[depth]
        keys[count] = links[node, KEY]
        pos[count] = sums[node, OWN_POS]
        neg[count] = sums[node, OWN_NEG]
        count += 1
        node = links[node, RIGHT]
    return count


@jit
def placements(pos, neg, total_pos, total_neg):
    """Return (AUC, variance of placements of positives, the same of negatives).

    pos, neg : float64 (k,): masses at increasing scores; masses in one entry tie.
    A placement is the share of the other class that a row is ranked right against, ties half
    (DeLong's V10 and V01); variances divide by the total mass.
    """
    below = 0.0
    pairs = 0.0
    for k in range(pos.size):
        pairs += pos[k] * (2.0 * below + neg[k])
        below += neg[k]
    auc = pairs / (2.0 * total_pos * total_neg)
    neg_below = 0.0
    pos_below = 0.0
    of_pos = 0.0
    of_neg = 0.0
    for k in range(pos.size):
        d = (neg_below + 0.5 * neg[k]) / total_neg - auc
        of_pos += pos[k] * d * d
        d = 1.0 - (pos_below + 0.5 * pos[k]) / total_pos - auc
        of_neg += neg[k] * d * d
        neg_below += neg[k]
        pos_below += pos[k]
    return auc, of_pos / total_pos, of_neg / total_neg


@jit
def differences(links_a, sums_a, keys_a, links_b, sums_b, keys_b, labels, out):
    """Write each row's placement by score a minus that by score b, in half units, to `out`.

    keys_a, keys_b, labels : the rows, which both integer trees hold. out : int64 (n,).
    """
    for i in range(labels.size):
        positive = labels[i] == 1
        out[i] = pairs_of(links_a, sums_a, keys_a[i], positive) - pairs_of(links_b, sums_b, keys_b[i], positive)
