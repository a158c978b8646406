"""The quadratic over the simplex: feasible, and optimal by its own conditions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aucstream.kernels.weights.simplex import maximise

pytestmark = pytest.mark.plain_python


@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_the_best_slope_is_the_mean_slope(k, rank, seed):
    random = np.random.default_rng(seed)
    a = random.normal(size=(k, rank))
    gram, linear = a @ a.T, random.normal(size=k)
    share, slope = np.zeros(k), np.empty(k)
    share[0] = 1.0
    steps = maximise(gram, linear, share, slope, 1e-9, 100_000)
    assert steps < 100_000
    assert (share >= 0.0).all()
    assert share.sum() == pytest.approx(1.0, abs=1e-12)
    exact = linear - gram @ share
    np.testing.assert_allclose(slope, exact, atol=1e-9 * (1.0 + np.abs(gram).max()))
    assert exact.max() - share @ exact <= 2e-9 * (1.0 + np.abs(gram).max())


def test_equal_coordinates_move_all_at_once():
    share, slope = np.array([1.0, 0.0]), np.empty(2)
    assert maximise(np.ones((2, 2)), np.array([0.0, 1.0]), share, slope, 1e-9, 10) == 1
    assert share.tolist() == [0.0, 1.0]


def test_it_ends_after_the_steps_allowed():
    random = np.random.default_rng(0)
    a = random.normal(size=(20, 3))
    share, slope = np.full(20, 0.05), np.empty(20)
    assert maximise(a @ a.T, random.normal(size=20), share, slope, 0.0, 5) == 5
