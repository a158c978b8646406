"""AdaOAM: equal to its reference step by step, inside its ball, and a good citizen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.adaoam import AdaOAM as Plain

from aucstream import AdaOAM
from aucstream.errors import InvalidBlock
from aucstream.kernels.ledger import KAPPA2
from aucstream.learners import adaoam

from . import agreement
from .real import a9a_auc

VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "small-ball": {"lam": 2.0, "eta": 1.0},
    "literal": {"kappa": 1.0, "lam": 0.5, "delta": 1e-3},
}
each_variant = pytest.mark.parametrize("params", VARIANTS.values(), ids=VARIANTS.keys())


@each_variant
@pytest.mark.parametrize("form", agreement.FORMS)
def test_equals_the_reference(params: dict[str, Any], form: str) -> None:
    model, plain = agreement.check_agreement(AdaOAM, Plain, params, form, n=700)
    scalars = model._field("scalars")
    assert scalars[adaoam.STEPS] == plain.t
    agreement.close(scalars[[adaoam.N_POS, adaoam.N_NEG]], [plain.pos.n, plain.neg.n])
    if form in ("dense", "csr"):
        d = plain.w.size
        agreement.close(model._field("G2")[:d], plain.G2, "squares")
        for name, moments in (("pos", plain.pos), ("neg", plain.neg)):
            agreement.close(model._field(f"mean_{name}")[:d], moments.m, "mean")
            agreement.close(model._field(f"M_{name}")[:d, :d], moments.M, "scatter")


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    d=st.integers(1, 9),
    radius=st.floats(1e-6, 10.0),
    spread=st.sampled_from([0.1, 1.0, 5.0]),
)
def test_the_projection_is_the_nearest_point_of_the_ball(seed: int, d: int, radius: float, spread: float) -> None:
    random = np.random.default_rng(seed)
    u, h = 3.0 * random.normal(size=d), np.exp(spread * random.normal(size=d))
    w = u.copy()
    adaoam.project(w, h, radius, np.empty(d))
    if np.linalg.norm(u) <= radius:
        np.testing.assert_array_equal(w, u)
        return
    assert np.linalg.norm(w) == pytest.approx(radius, rel=1e-10)
    multipliers = h * (u - w) / w
    assert multipliers.min() >= 0.0
    # the difference u - w carries the rounding of u
    tolerance = 1e-10 * multipliers.max() + 1e-14 * np.abs(h * u / w).max()
    assert np.ptp(multipliers) <= tolerance


@each_variant
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), scale=st.sampled_from([1e-8, 1.0, 1e6]))
def test_stays_inside_its_ball(params: dict[str, Any], seed: int, scale: float) -> None:
    X, y, weights = agreement.stream(60, seed=seed)
    model = AdaOAM(**params)
    for i in range(60):
        before = model._field("scalars")[adaoam.STEPS]
        model.engine.learn_array(scale * X[i : i + 1], y[i : i + 1], weights[i : i + 1])
        if model._field("scalars")[adaoam.STEPS] > before:
            unit = 1.0 if model.kappa else np.sqrt(model._ledger[KAPPA2])
            assert np.linalg.norm(model.coefficients()) * unit <= (1 + 1e-9) / np.sqrt(model.lam)


def test_a_column_that_never_differs_gets_no_weight() -> None:
    X, y, weights = agreement.stream(200)
    X[:, 3] = 1.0
    model = AdaOAM(kappa=100.0)
    model.engine.learn_array(X, y, weights)
    assert model._field("G2")[3] == 0.0
    assert model.coefficients()[3] == 0.0
    assert model.coefficients().any()


@each_variant
def test_one_class_moves_nothing(params: dict[str, Any]) -> None:
    X, _, weights = agreement.stream(50)
    for label in (1.0, -1.0):
        model = AdaOAM(**params)
        assert not model.engine.learn_array(X, np.full(50, label), weights).any()
        assert model._field("scalars")[adaoam.STEPS] == 0.0
        assert not model._field("w").any()
        assert not model._field("G2").any()


@each_variant
def test_swapped_labels_turn_the_weights(params: dict[str, Any]) -> None:
    X, y, weights = agreement.stream(300)
    one, other = AdaOAM(**params), AdaOAM(**params)
    one.engine.learn_array(X, y, weights)
    other.engine.learn_array(X, -y, weights)
    agreement.close(other.coefficients(), -one.coefficients())


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_permuted_columns_permute_the_weights(seed: int) -> None:
    X, y, weights = agreement.stream(60, seed=seed)
    X[0] /= 1e5
    order = np.random.default_rng(seed).permutation(X.shape[1])
    one, other = AdaOAM(lam=1.0), AdaOAM(lam=1.0)
    one.engine.learn_array(X, y, weights)
    other.engine.learn_array(X[:, order], y, weights)
    np.testing.assert_allclose(other.coefficients(), one.coefficients()[order], rtol=1e-7, atol=1e-9)


def test_squared_gradients_follow_the_units_of_the_columns() -> None:
    X, y, weights = agreement.stream(600)
    units = 2.0 ** np.array([-3, 5, 0, 7, -1, 2, -4])
    plain, moved = (AdaOAM(kappa=50.0, lam=1e-40) for _ in range(2))
    for model in (plain, moved):
        model.engine.learn_array(X[:500], y[:500], weights[:500])
    before = plain._field("G2").copy()
    moved._change_units(agreement.change(units, np.zeros(7)))
    plain.engine.learn_array(X[500:501], y[500:501], weights[500:501])
    moved.engine.learn_array(X[500:501] / units, y[500:501], weights[500:501])
    np.testing.assert_array_equal(moved._field("G2")[:7] * units**2, plain._field("G2")[:7])
    assert (plain._field("G2") > before).sum() >= 3


def test_there_is_a_widest_row() -> None:
    model = AdaOAM()
    with pytest.raises(InvalidBlock, match="at most 4096 columns \\(use OPAUC with rank, or MBA\\)"):
        model.engine.learn_array(np.zeros((1, 4097)), np.ones(1))
    assert model.examples == 0


def test_a9a() -> None:
    assert 0.8985 < a9a_auc(AdaOAM()) < 0.9005


@pytest.mark.parametrize("params", [{}, {"lam": 2.0}], ids=["default", "small-ball"])
class TestCitizen:
    def test_splits(self, params: dict[str, Any]) -> None:
        agreement.check_splits(lambda: AdaOAM(**params))

    def test_snapshot(self, params: dict[str, Any]) -> None:
        agreement.check_snapshot(lambda: AdaOAM(**params))

    def test_skips(self, params: dict[str, Any]) -> None:
        agreement.check_skips(lambda: AdaOAM(**params, kappa=1.0))

    def test_units(self, params: dict[str, Any]) -> None:
        agreement.check_units(lambda: AdaOAM(**params))
