"""Minimisers of quadratics: against the equations they solve."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.mba import kkt_residual, solve_diagonal, solve_elastic_net

from aucstream.kernels.moments import quadratic

pytestmark = pytest.mark.plain_python


def problem(n: int, rank: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (F, A = FF', b)."""
    random = np.random.default_rng(seed)
    F = random.normal(size=(n, rank))
    return F, F @ F.T / rank, F @ random.normal(size=rank)


@pytest.mark.parametrize("n", [0, 1, 2, 47, 48, 49, 51, 97, 150])
def test_ridge_solves_its_equations(n):
    _, A, b = problem(n, 2 * n + 1)
    A += 0.01 * np.eye(n)
    upper = np.triu(A)  # nothing below is read
    w = quadratic.ridge(upper.copy(), b.copy(), 0.1)
    np.testing.assert_allclose((A + 0.1 * np.eye(n)) @ w, b, atol=1e-10)
    np.testing.assert_array_equal(w, quadratic.ridge(upper.copy(), b.copy(), 0.1))


def test_ridge_of_a_singular_matrix_is_a_minimiser_that_leaves_dependent_columns_out():
    _, A, b = problem(60, 20)
    w = quadratic.ridge(A.copy(), b.copy(), 0.0)
    np.testing.assert_allclose(A @ w, b, atol=1e-7)
    assert not w[20:].any()
    assert not quadratic.ridge(np.zeros((3, 3)), np.zeros(3), 0.0).any()
    units = 10.0 ** np.arange(-30, 30)  # what is dependent does not depend on units
    scaled = quadratic.ridge(A * np.outer(units, units), b * units, 0.0)
    np.testing.assert_allclose(scaled * units, w, rtol=1e-5, atol=1e-7)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), lam1=st.sampled_from([0.0, 1e-2, 0.3, 50.0]), lam2=st.sampled_from([1e-3, 1.0]))
def test_elastic_nets_are_the_references(seed, lam1, lam2):
    F, A, b = problem(12, 30, seed)
    start = np.random.default_rng(seed).normal(size=12)
    expected = solve_elastic_net(b, A, lam1, lam2, start)
    w = start.copy()
    quadratic.elastic_net(A, b, lam1, lam2, w)
    np.testing.assert_allclose(w, expected, rtol=1e-9, atol=1e-12)
    assert kkt_residual(w, b - A @ w, lam1, lam2) <= 1.0001e-6 * np.abs(b).max()
    of_product = start.copy()
    quadratic.elastic_net_of_product(F / np.sqrt(30.0), b, lam1, lam2, of_product)
    np.testing.assert_allclose(of_product, expected, rtol=1e-8, atol=1e-10)
    v = A.diagonal().copy()
    v[3] = 0.0
    quadratic.diagonal_net(b, v, lam1, lam2, w)
    np.testing.assert_allclose(w, solve_diagonal(b, v, lam1, lam2), rtol=1e-12)
    assert kkt_residual(w, b - v * w - b * (b @ w), lam1, lam2) <= 1e-12 * np.abs(b).max()


def test_the_penalty_makes_weights_zero():
    _, A, b = problem(12, 30)
    w = np.ones(12)
    counts = []
    for lam1 in (0.01, 0.2, 1.0):
        quadratic.elastic_net(A, b, lam1, 0.1, w)
        counts.append(np.count_nonzero(w))
    assert 12 >= counts[0] >= counts[1] >= counts[2] > 0
    for solve in (quadratic.elastic_net, quadratic.elastic_net_of_product):
        w = np.zeros(12)
        solve(A, b, float(np.abs(b).max()), 0.1, w)
        assert not w.any()
    quadratic.elastic_net(np.zeros((2, 2)), np.ones(2), 0.0, 0.0, w[:2])
    assert not w[:2].any()  # no curvature: stays 0
    quadratic.diagonal_net(b, A.diagonal(), float(np.abs(b).max()), 0.0, w)
    assert not w.any()
