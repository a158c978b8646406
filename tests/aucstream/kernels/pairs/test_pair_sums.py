"""Sorted pair sums against a double loop over pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aucstream.kernels.pairs import pair_sums

pytestmark = pytest.mark.plain_python

# Quarters: many ties of scores, and margins of exactly 1, which are not active.
QUARTERS = st.lists(st.integers(-8, 8).map(lambda k: k / 4.0), min_size=1, max_size=25)
NUMBERS = st.lists(st.floats(-3.0, 3.0), min_size=1, max_size=25)
SCORES = st.one_of(st.tuples(QUARTERS, QUARTERS), st.tuples(NUMBERS, NUMBERS))


def plain(pos, neg):
    """Return everything by the double loop."""
    of_pos, of_neg = np.zeros(len(pos), np.int64), np.zeros(len(neg), np.int64)
    slope_pos, slope_neg = np.zeros(len(pos)), np.zeros(len(neg))
    hinge = squared = 0.0
    hessian = np.zeros((len(pos) + len(neg),) * 2)
    for i, p in enumerate(pos):
        for j, a in enumerate(neg):
            if p - 1.0 < a:
                h = 1.0 - (p - a)
                of_pos[i] += 1
                of_neg[j] += 1
                hinge += h
                squared += 0.5 * h * h
                slope_pos[i] -= h
                slope_neg[j] += h
                e = np.zeros(len(hessian))
                e[i], e[len(pos) + j] = 1.0, -1.0
                hessian += np.outer(e, e)
    return of_pos, of_neg, hinge, squared, slope_pos, slope_neg, hessian


def compiled(pos, neg):
    of_pos, of_neg = np.empty(len(pos), np.int64), np.empty(len(neg), np.int64)
    slope_pos, slope_neg = np.empty(len(pos)), np.empty(len(neg))
    total = pair_sums.count_active(pos, neg, of_pos, of_neg)
    assert total == of_pos.sum() == of_neg.sum()
    hinge = pair_sums.hinge(pos, neg, of_pos)
    squared = pair_sums.squared_hinge(pos, neg, of_pos, of_neg, slope_pos, slope_neg)
    return of_pos, of_neg, hinge, squared, slope_pos, slope_neg


@given(SCORES)
def test_values_and_slopes_are_the_double_loop(scores):
    pos, neg = (np.sort(np.array(part)) for part in scores)
    for found, expected in zip(compiled(pos, neg), plain(pos, neg), strict=False):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


@given(SCORES, st.integers(0, 2**32 - 1))
def test_hessian_products_are_the_double_loop(scores, seed):
    pos, neg = (np.sort(np.array(part)) for part in scores)
    of_pos, of_neg, *_, hessian = plain(pos, neg)
    v = np.random.default_rng(seed).normal(size=len(hessian))
    out_pos, out_neg = np.empty(len(pos)), np.empty(len(neg))
    pair_sums.curvature(of_pos, of_neg, v[: len(pos)].copy(), v[len(pos) :].copy(), out_pos, out_neg)
    np.testing.assert_allclose(np.concatenate([out_pos, out_neg]), hessian @ v, rtol=1e-12, atol=1e-12)


def test_a_margin_of_one_is_not_active():
    of_pos, of_neg = np.empty(1, np.int64), np.empty(1, np.int64)
    assert pair_sums.count_active(np.array([1.0]), np.array([0.0]), of_pos, of_neg) == 0
    assert pair_sums.count_active(np.array([np.nextafter(1.0, 0.0)]), np.array([0.0]), of_pos, of_neg) == 1


def test_nothing_cancels_at_a_high_level_of_the_scores():
    random = np.random.default_rng(0)
    pos = np.sort(random.integers(-512, 512, 400) / 256.0)
    neg = np.sort(random.integers(-512, 512, 700) / 256.0)
    level = 2.0**40  # the scores stay exact
    for found, expected in zip(compiled(pos + level, neg + level), compiled(pos, neg), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_the_slopes_are_the_derivatives_of_the_value():
    random = np.random.default_rng(1)
    pos, neg = np.sort(random.normal(size=30)), np.sort(random.normal(size=40))
    _, _, _, value, slope_pos, slope_neg = compiled(pos, neg)
    e = 1e-7
    d_pos, d_neg = random.normal(size=30), random.normal(size=40)
    moved = compiled(np.sort(pos + e * d_pos), np.sort(neg + e * d_neg))[3]
    assert abs((moved - value) / e - (slope_pos @ d_pos + slope_neg @ d_neg)) < 1e-4 * value
