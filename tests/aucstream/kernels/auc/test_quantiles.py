"""Summaries keep their promise about every rank."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aucstream.kernels.auc import quantiles as q

pytestmark = pytest.mark.plain_python


def promise_holds(values, counts, size, scores, tolerance):
    """Assert the interval of every rank, at the entries and between them."""
    scores = np.sort(scores)
    values, counts = values[:size], counts[:size]
    assert (np.diff(values) > 0).all()
    assert values[0] == scores[0]
    assert values[-1] == scores[-1]
    assert counts[:, [q.GAP, q.AT]].sum() == scores.size
    upto = np.cumsum(counts[:, q.GAP] + counts[:, q.AT])
    below = upto - counts[:, q.AT]
    true_below = np.searchsorted(scores, values, side="left")
    true_upto = np.searchsorted(scores, values, side="right")
    assert (below <= true_below).all()
    assert (true_below <= below + counts[:, q.SPREAD]).all()
    assert (upto <= true_upto).all()
    assert (true_upto <= upto + counts[:, q.SPREAD]).all()
    assert (counts[1:, q.GAP] + counts[1:, q.SPREAD] >= counts[:-1, q.SPREAD]).all()
    assert q.widest(counts, size) <= tolerance


@given(st.lists(st.integers(0, 200), min_size=1, max_size=400), st.integers(3, 40), st.integers(1, 50))
@settings(max_examples=80, deadline=None)
def test_ranks_lie_in_their_intervals(numbers, share, batch):
    scores = np.array(numbers, dtype=np.float64)
    values, counts = np.empty(1000), np.zeros((1000, 4), dtype=np.int64)
    size = 0
    for start in range(0, scores.size, batch):
        size = q.absorb(values, counts, size, np.sort(scores[start : start + batch]))
        seen = scores[: start + batch]
        size = q.compress(values, counts, size, seen.size // share)
        promise_holds(values, counts, size, seen, seen.size // share)


@given(st.lists(st.integers(0, 60), min_size=2, max_size=100), st.data())
@settings(max_examples=40, deadline=None)
def test_the_grouping_of_insertions_does_not_matter(numbers, data):
    scores = np.array(numbers, dtype=np.float64)
    start_values, start_counts = np.empty(400), np.zeros((400, 4), dtype=np.int64)
    start = np.sort(np.random.default_rng(0).normal(30, 20, size=100))
    size = q.compress(start_values, start_counts, q.absorb(start_values, start_counts, 0, start), 10)
    cut = data.draw(st.integers(1, scores.size - 1))
    results = []
    for parts in ([scores], [scores[:cut], scores[cut:]], np.split(scores, scores.size)):
        values, counts, used = start_values.copy(), start_counts.copy(), size
        for part in parts:
            used = q.absorb(values, counts, used, np.sort(part))
        results.append((values[:used], counts[:used, :3]))
    for values, counts in results[1:]:
        assert np.array_equal(values, results[0][0])
        assert np.array_equal(counts, results[0][1])


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_tiny_summaries_are_left_alone(rows):
    values, counts = np.empty(8), np.zeros((8, 4), dtype=np.int64)
    size = q.absorb(values, counts, 0, np.arange(float(rows)))
    assert q.compress(values, counts, size, 0) == rows
    assert q.widest(counts, rows) == 0
