"""RankSVM and the gap that it certifies."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

from aucstream.batch import RankSVM

from .data import differences, objective, rows


def dual_value(lam, X, y):
    """Return the optimum, from the dual over single pairs: max mean(a) - |Z'a|^2/(2 lam N^2), 0 <= a <= 1."""
    Z = differences(X, y)
    n = len(Z)

    def f(a):
        w = Z.T @ a / (lam * n)
        return 0.5 * lam * w @ w - a.mean(), (Z @ w - 1.0) / n

    found = optimize.minimize(
        f, np.full(n, 0.5), jac=True, bounds=[(0.0, 1.0)] * n, method="L-BFGS-B",
        options={"maxiter": 20_000, "maxfun": 50_000, "ftol": 1e-15, "gtol": 1e-12},
    )  # fmt: skip
    return -found.fun


@pytest.mark.parametrize("lam", [1e-2, 1.0])
@pytest.mark.parametrize("tol", [1e-2, 1e-3, 1e-5])
def test_the_objective_is_within_the_gap_of_the_optimum(lam, tol):
    X, y = rows(60)
    model = RankSVM(lam=lam, tol=tol).fit(X, y)
    assert 0.0 <= model.gap <= tol * model.objective
    optimum = dual_value(lam, X, y)
    assert optimum - 1e-9 <= model.objective <= optimum + model.gap + 1e-5 * optimum
    assert model.objective == pytest.approx(objective("hinge", lam, X, y, model.coefficients()), rel=1e-12)


def test_separable_rows_by_hand():
    X = np.array([[0.0], [1.0]])
    model = RankSVM(lam=1e-2, tol=1e-9).fit(X, [0, 1])
    assert model.coefficients()[0] == pytest.approx(1.0, abs=1e-6)  # the margin, while lam < 1
    assert model.objective == pytest.approx(5e-3, abs=1e-9)
    strong = RankSVM(lam=4.0, tol=1e-9).fit(X, [0, 1])
    assert strong.coefficients()[0] == pytest.approx(0.25, abs=1e-6)  # 1 / lam
