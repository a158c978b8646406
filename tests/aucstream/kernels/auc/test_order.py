"""The counted tree against a list, and its own invariants."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aucstream.kernels.auc import order

pytestmark = pytest.mark.plain_python

KINDS = [np.int64, np.float64]


def check(links, sums):
    """Assert order of keys, heap order of priorities, masses of subtrees; return the keys in order."""
    seen = []

    def walk(node, low, high):
        if node == order.NONE:
            return np.zeros(2)
        key = links[node, order.KEY]
        assert low < key < high
        below = walk(links[node, order.LEFT], low, key)
        seen.append(int(key))
        above = walk(links[node, order.RIGHT], key, high)
        for child in (links[node, order.LEFT], links[node, order.RIGHT]):
            if child != order.NONE:
                assert links[child, order.PRIORITY] <= links[node, order.PRIORITY]
        total = below + above + sums[node, [order.OWN_POS, order.OWN_NEG]]
        np.testing.assert_allclose(sums[node, [order.SUB_POS, order.SUB_NEG]], total)
        return total

    walk(links[0, order.LEFT], -(2**63), 2**63)
    assert not sums[0].any()
    return seen


def plain_pairs(rows, key, positive):
    others = [k for k, p in rows if p != positive]
    if positive:
        return sum(2 * (k < key) + (k == key) for k in others)
    return sum(2 * (k > key) + (k == key) for k in others)


@given(
    st.lists(st.tuples(st.booleans(), st.integers(-6, 6), st.booleans()), max_size=60),
    st.sampled_from(KINDS),
)
@settings(max_examples=60, deadline=None)
def test_insert_and_remove_count_pairs_as_a_list_does(steps, kind):
    links, sums = order.new_tree(20, kind)
    one = kind(1)
    rows = []
    for inserting, key, positive in steps:
        if inserting:
            assert order.insert(links, sums, key, positive, one) == plain_pairs(rows, key, positive)
            rows.append((key, positive))
        elif (key, positive) in rows:
            rows.remove((key, positive))
            assert order.remove(links, sums, key, positive, one) == plain_pairs(rows, key, positive)
        assert check(links, sums) == sorted({k for k, _ in rows})
        pos = [k for k, p in rows if p]
        neg = [k for k, p in rows if not p]
        expected = (sum(k < key for k in pos), sum(k < key for k in neg), pos.count(key), neg.count(key))
        assert tuple(order.ranks(links, sums, key)) == expected


@pytest.mark.parametrize("keys", ["sorted", "reversed", "random", "zigzag"])
def test_the_tree_stays_shallow_in_any_order(keys):
    n = 4000
    values = np.arange(n)
    if keys == "reversed":
        values = values[::-1]
    elif keys == "random":
        values = np.random.default_rng(1).permutation(n)
    elif keys == "zigzag":
        values = np.where(values % 2 == 0, values // 2, n - values // 2)
    links, sums = order.new_tree(n)
    for key in values:
        order.insert(links, sums, int(key), True, 1)
    depth, level = 0, [links[0, order.LEFT]]
    while level:
        depth += 1
        level = [c for k in level for c in (links[k, order.LEFT], links[k, order.RIGHT]) if c != order.NONE]
    assert depth <= 45  # about 2 log2(n) expected, 12 the least


def test_freed_nodes_are_used_again():
    links, sums = order.new_tree(3)
    for start in range(0, 300, 3):
        for key in range(start, start + 3):
            order.insert(links, sums, key, True, 1)
        for key in range(start, start + 3):
            order.remove(links, sums, key, True, 1)
    assert check(links, sums) == []


def test_a_grown_tree_is_the_same_tree_with_more_room():
    links, sums = order.new_tree(4)
    for key in (3, 1, 2, 0):
        order.insert(links, sums, key, key > 1, 1)
    links, sums = order.grown_tree(links, sums, 8)
    for key in (7, 6, 5, 4):
        order.insert(links, sums, key, key > 5, 1)
    assert check(links, sums) == list(range(8))


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30))
def test_keys_order_as_scores_and_come_back(scores):
    array = np.array(scores)
    keys = order.keys_of(array)
    assert np.array_equal(order.scores_of(keys), array)
    for compare in (np.less, np.equal):
        assert np.array_equal(compare.outer(array, array), compare.outer(keys, keys))


def test_minus_zero_equals_zero():
    assert len(set(order.keys_of(np.array([0.0, -0.0])).tolist())) == 1


def test_slide_one_is_slide_of_one_row():
    random = np.random.default_rng(3)
    states = []
    for _ in range(2):
        links, sums = order.new_tree(50)
        states.append((links, sums, np.zeros(50, np.int64), np.zeros(50, np.uint8), np.zeros(4, np.int64)))
    for _ in range(200):
        score, label = float(random.integers(-9, 9)) / 4, int(random.integers(2))
        one = order.slide_one(*states[0], 50, score, label)
        order.slide(*states[1], 50, order.keys_of(np.array([score])), np.array([label], np.uint8))
        np.testing.assert_equal(one, order.window_auc(states[1][4]))
    for a, b in zip(*states, strict=True):
        assert np.array_equal(a, b)
