"""Two models' names: which column of one is which of the other."""

from __future__ import annotations

import numpy as np
import pytest

from aucstream import SOLAM, Hashing, Vocabulary
from aucstream.errors import CannotMerge
from aucstream.kernels import ledger as at
from aucstream.metrics.platt import combine


def vocabulary(*names, capacity=100):
    made = Vocabulary(capacity)
    made.learn(dict.fromkeys(names, 1.0))
    return made


def test_names_decide_and_new_ones_get_columns():
    mine, theirs = vocabulary("a", "b"), vocabulary("c", "b", "d")
    theirs.dropped = 3
    assert mine.align(theirs).tolist() == [2, 1, 3]
    assert mine.names == ["a", "b", "c", "d"]
    assert mine.dropped == 3
    assert theirs.names == ["c", "b", "d"]
    assert mine.learn({"d": 1.0, "a": 2.0})[0].tolist() == [3, 0]
    assert Vocabulary().align(mine).tolist() == [0, 1, 2, 3]
    assert mine.align(Vocabulary()).size == 0


def test_arrays_and_words_do_not_mix():
    arrays, integers = Vocabulary(), vocabulary(1, 7)
    arrays.columns(3, learn=True)
    with pytest.raises(CannotMerge, match="arrays in both"):
        arrays.align(vocabulary("a"))
    with pytest.raises(CannotMerge, match="arrays in both"):
        vocabulary("a").align(arrays)
    assert arrays.names == [0, 1, 2]
    assert integers.align(arrays).tolist() == [2, 0, 3]
    assert integers.arrays


def test_a_full_vocabulary_refuses_or_leaves_names_out():
    mine, theirs = vocabulary("a", "b", capacity=3), vocabulary("c", "b", "d")
    with pytest.raises(CannotMerge, match="at most 3 names"):
        mine.align(theirs)
    assert mine.names == ["a", "b"]
    assert mine.align(theirs, partial=True).tolist() == [2, 1, -1]
    assert mine.dropped == 1


def test_hashed_columns_are_the_same_columns():
    mine, theirs = Hashing(3), Hashing(3)
    theirs.learn({"word": "x"})
    np.testing.assert_array_equal(mine.align(theirs), np.arange(8))
    np.testing.assert_array_equal(mine.kinds, theirs.kinds)
    for other in (Hashing(4), Vocabulary()):
        with pytest.raises(CannotMerge, match="the same encoder"):
            mine.align(other)
    with pytest.raises(CannotMerge, match="vocabulary"):
        Vocabulary().align(mine)


def test_calibration_is_combined_by_counts():
    X = np.random.default_rng(0).normal(size=(600, 3))
    y = X[:, 0] + np.random.default_rng(1).normal(size=600) > 0.4
    one, other, none = SOLAM().partial_fit(X[:200], y[:200]), SOLAM().partial_fit(X[200:], y[200:]), SOLAM()
    merged = one._ledger.copy()
    combine(merged, other._ledger)
    model = SOLAM()
    model._ledger = merged
    assert [model.examples, model.positives] == [600, y.sum()]
    lines = np.array([part.engine.calibration_line for part in (one, other)])
    np.testing.assert_allclose(model.engine.calibration_line, lines.T @ [1 / 3, 2 / 3], rtol=0.02)
    assert min(lines[:, 0]) < model.engine.calibration_line[0] < max(lines[:, 0])
    for ledger, taken in ((one._ledger.copy(), none._ledger), (none._ledger.copy(), one._ledger)):
        combine(ledger, taken)
        np.testing.assert_array_equal(ledger, one._ledger)
    positive, negative = SOLAM().partial_fit(X[:8], [True] * 8), SOLAM().partial_fit(X[:4], [False] * 4)
    combine(positive._ledger, negative._ledger)
    assert positive._ledger[at.CAL_ON] == 1.0
    assert positive.engine.calibration_line == (0.1, pytest.approx(np.log(9.0 / 5.0)))
