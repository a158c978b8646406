"""BAM at its optimum."""

from __future__ import annotations

import numpy as np
import pytest

from aucstream.batch import BAM
from aucstream.batch.pairs import Active, Pairs
from aucstream.features.intake import checked_array

from .data import differences, rows


def gradient(lam, X, y, w):
    Z = differences(X, y)
    return lam * w - Z.T @ np.maximum(1.0 - Z @ w, 0.0) / len(Z)


@pytest.mark.parametrize("lam", [1e-6, 1e-4, 1.0, 1e3])
def test_the_gradient_at_the_optimum_vanishes(lam):
    X, y = rows(200)
    model = BAM(lam=lam, tol=1e-12).fit(X, y)
    exact = gradient(lam, X, y, model.coefficients())
    assert np.linalg.norm(exact) <= 1e-10
    assert model.gradient_norm <= 1e-10


def test_the_tolerance_is_a_part_of_the_gradient_at_zero():
    X, y = rows(200)
    start = np.linalg.norm(gradient(1e-4, X, y, np.zeros(5)))
    steps = []
    for tol in (0.5, 1e-2, 1e-6, 1e-10):
        model = BAM(tol=tol).fit(X, y)
        assert model.gradient_norm <= tol * start
        steps.append(model.iterations)
    assert steps == sorted(steps)


def test_separable_rows_have_a_finite_optimum():
    X = np.array([[-1.0], [0.0], [1.0], [2.0]])
    y = np.array([False, False, True, True])
    w = BAM(lam=1e-3, tol=1e-12).fit(X, y).coefficients()
    # margins w, 2w, 2w, 3w: only w < 1 is active, and lam w = (1 - w)/4
    np.testing.assert_allclose(w, [0.25 / 0.251], rtol=1e-12)


def test_columns_of_unlike_units_cost_few_steps():
    X, y = rows(500, d=8)
    model = BAM(tol=1e-8).fit(X * 10.0 ** np.arange(-4.0, 4.0), y)
    assert model.iterations <= 20


def test_hessian_products_are_those_of_the_pairs():
    X, y = rows()
    pairs = Pairs(checked_array(X), np.where(y, 1.0, -1.0))
    w, v = np.random.default_rng(2).normal(size=(2, 5))
    Z = differences(X, y)
    expected = Z.T @ np.where(1.0 - Z @ w > 0.0, Z @ v, 0.0) / len(Z)
    found = pairs.gathered(Active(pairs, pairs.scores(w)).curvature(pairs.scores(v)))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(pairs.diagonal(), (Z * Z).mean(axis=0), rtol=1e-12)
