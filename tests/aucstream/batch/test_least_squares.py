"""LeastSquaresAUC against the closed form and Fisher's discriminant."""

from __future__ import annotations

import numpy as np
import pytest
from reference.mba import pair_moments, solve_l2
from reference.moments import ClassMoments
from scipy import sparse

from aucstream.batch import LeastSquaresAUC, least_squares

from .data import differences, rows


def closed_form(X, y, lam):
    Z = differences(X, y)
    return np.linalg.solve(Z.T @ Z / len(Z) + lam * np.eye(X.shape[1]), Z.mean(axis=0))


@pytest.mark.parametrize("lam", [1e-4, 1.0])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_the_weights_are_the_closed_form_and_that_of_mba(form, lam):
    X, y = rows(300)
    w = LeastSquaresAUC(lam=lam).fit(form(X), y).coefficients()
    np.testing.assert_allclose(w, closed_form(X, y, lam), rtol=1e-12, atol=1e-14)
    pos, neg = ClassMoments(5), ClassMoments(5)
    for x, positive in zip(X, y, strict=True):
        (pos if positive else neg).add(x)
    mu, V = pair_moments(pos, neg)
    np.testing.assert_allclose(w, solve_l2(mu, V + np.outer(mu, mu), lam), rtol=1e-12, atol=1e-14)


def test_the_direction_is_fishers():
    X, y = rows(300)
    w = LeastSquaresAUC(lam=1e-2).fit(X, y).coefficients()
    within = np.cov(X[y].T, bias=True) + np.cov(X[~y].T, bias=True) + 1e-2 * np.eye(5)
    fisher = np.linalg.solve(within, X[y].mean(axis=0) - X[~y].mean(axis=0))
    assert w @ fisher / np.linalg.norm(w) / np.linalg.norm(fisher) == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_conjugate_gradients_are_the_direct_solve(form, monkeypatch):
    X, y = rows(300, d=30)
    direct = LeastSquaresAUC().fit(form(X), y)
    monkeypatch.setattr(least_squares, "DIRECT_WIDTH", 10)
    stepped = LeastSquaresAUC(tol=1e-14).fit(form(X), y)
    assert direct.iterations == 1 < stepped.iterations
    np.testing.assert_allclose(stepped.coefficients(), direct.coefficients(), rtol=1e-11, atol=1e-13)
    assert stepped.objective == pytest.approx(direct.objective, rel=1e-13)
    assert max(stepped.gradient_norm, direct.gradient_norm) < 1e-13


def test_rows_in_pieces_are_the_same_rows(monkeypatch):
    X, y = rows(300)
    whole = LeastSquaresAUC().fit(X, y).coefficients()
    monkeypatch.setattr(least_squares, "ROWS_AT_ONCE", 7)
    np.testing.assert_allclose(LeastSquaresAUC().fit(X, y).coefficients(), whole, rtol=1e-13)


def test_a_matrix_that_rounding_makes_singular_gives_the_least_norm():
    X, y = rows(50, d=1)
    w = LeastSquaresAUC(lam=1e-30).fit(np.column_stack([X, X, X]), y).coefficients()
    np.testing.assert_allclose(w, closed_form(X, y, 0.0)[0] / 3.0, rtol=1e-6)
