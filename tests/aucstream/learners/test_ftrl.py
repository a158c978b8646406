"""FTRL: equal to its reference step by step, sparse exactly, and a good citizen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.ftrl import FTRL as Plain
from scipy import sparse

from aucstream import FTRL
from aucstream.learners import ftrl
from aucstream.learners._base.state import UnitChange

from . import agreement
from .real import a9a_auc

VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "heavy": {"l1": 3.0, "l2": 0.5, "alpha": 0.3},
    "plain": {"l1": 0.0, "beta": 0.01},
    "no-intercept": {"intercept": False, "l1": 20.0, "beta": 7.0},
}
each_variant = pytest.mark.parametrize("params", VARIANTS.values(), ids=VARIANTS.keys())


@each_variant
@pytest.mark.parametrize("form", agreement.FORMS)
def test_equals_the_reference(params: dict[str, Any], form: str) -> None:
    model, plain = agreement.check_agreement(FTRL, Plain, params, form)
    agreement.close(model.intercept_, plain.b)
    agreement.close(model._field("own"), [plain.z_b, plain.n_b])
    if form in ("dense", "csr"):
        agreement.close(model._field("z")[:7], plain.z)
        agreement.close(model._field("n")[:7], plain.n)
        np.testing.assert_array_equal(model.coefficients() == 0.0, plain.w == 0.0)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), alpha=st.floats(0.01, 10.0), beta=st.floats(1e-3, 10.0))
def test_without_penalties_it_is_adaptive_gradient_descent(seed: int, alpha: float, beta: float) -> None:
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(60, 5)), rng.random(60) < 0.4
    X1 = np.column_stack([X, np.ones(60)])
    model = FTRL(alpha=alpha, beta=beta, l1=0.0)
    scores = model.engine.learn_array(X, y)
    w, n = np.zeros(6), np.zeros(6)
    expected = []
    for x, label in zip(X1, y, strict=True):
        expected.append(w @ x)
        g = (1.0 / (1.0 + np.exp(-w @ x)) - label) * x
        n += g * g
        w -= alpha * g / (beta + np.sqrt(n))
    tolerance = 1e-14 * 60 * max(1.0, np.abs(w).max(), np.abs(expected).max())
    np.testing.assert_allclose(scores, expected, rtol=0, atol=tolerance)
    np.testing.assert_allclose(np.append(model.coefficients(), model.intercept_), w, rtol=0, atol=tolerance)


def test_a_coordinate_that_has_not_earned_its_l1_is_exactly_zero() -> None:
    X, y, weights = agreement.stream(600)
    kept = []
    for l1 in (0.0, 5.0, 50.0, 500.0, 1e9):
        model = FTRL(l1=l1)
        for i in range(0, 600, 50):
            model.engine.learn_array(X[i : i + 50], y[i : i + 50], weights[i : i + 50])
            np.testing.assert_array_equal(model.coefficients() == 0.0, np.abs(model._field("z")[:7]) <= l1)
        kept.append(int(np.count_nonzero(model.coefficients())))
    assert kept == sorted(kept, reverse=True)
    assert kept[0] == 7
    assert kept[-1] == 0
    assert model.intercept_ != 0.0


def test_a_row_touches_its_own_coordinates_only() -> None:
    X, y, _ = agreement.stream(200)
    model = FTRL().partial_fit(X, y)
    before = {name: model._field(name).copy() for name in ("z", "n")}
    model.partial_fit(sparse.csr_array(([1.0, -2.0], [2, 5], [0, 2]), shape=(1, 7)), [1.0])
    for name, array in before.items():
        assert np.flatnonzero(model._field(name) != array).tolist() == [2, 5]


def test_one_class_is_learned_from_the_first_row() -> None:
    X, _, _ = agreement.stream(50)
    for label in (1.0, -1.0):
        model = FTRL().partial_fit(X[:1], [label])
        assert model.intercept_ * label > 0.0
        assert model.coefficients().any()


def test_swapped_labels_turn_the_weights_and_permuted_columns_permute_them() -> None:
    X, y, weights = agreement.stream(300)
    order = np.random.default_rng(0).permutation(7)
    one, turned, moved = FTRL(), FTRL(), FTRL()
    one.engine.learn_array(X, y, weights)
    turned.engine.learn_array(X, -y, weights)
    moved.engine.learn_array(X[:, order], y, weights)
    agreement.close(turned.coefficients(), -one.coefficients())
    agreement.close(moved.coefficients(), one.coefficients()[order])


def test_contributions_add_up_and_the_intercept_is_no_weight() -> None:
    X, y, _ = agreement.stream(200)
    model = FTRL()
    for row, label in zip(X, y, strict=True):
        model.learn_one(agreement.named(row), label > 0)
    row = agreement.named(X[7])
    found = model.explain_one(row)
    assert set(found) == {*row, "(intercept)"}
    assert found["(intercept)"] == model.intercept_ == model.score_one({})
    assert sum(found.values()) == pytest.approx(model.score_one(row), rel=1e-12)
    assert set(model.weights) == {"f0", "f1", "f3", "f5"}


def test_new_parameters_keep_the_weights_and_their_zeros() -> None:
    X, y, _ = agreement.stream(200)
    model = FTRL(l1=20.0).partial_fit(X, y)
    w, b = model.coefficients(), model.intercept_
    assert 0 < np.count_nonzero(w) < 7
    for name, value in (("l1", 0.5), ("alpha", 0.1), ("beta", 3.0), ("l2", 2.0), ("l1", 1000.0), ("l1", 0.0)):
        setattr(model, name, value)
        np.testing.assert_allclose(model.coefficients(), w, rtol=1e-11)
        assert model.intercept_ == pytest.approx(b, rel=1e-12)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), l1=st.sampled_from([0.0, 0.1, 20.0]), grows=st.booleans())
def test_units_carry_the_weights_their_zeros_and_the_steps(seed: int, l1: float, grows: bool) -> None:
    X, y, _ = agreement.stream(120, seed=seed)
    rng = np.random.default_rng(seed)
    model = FTRL(l1=l1).partial_fit(X, y)
    w, b, n = model.coefficients(), model.intercept_, model._field("n")[:7].copy()
    ratio, shift = np.exp(2.0 * rng.normal(size=7)), rng.normal(size=7)
    ratio[3] = 0.0  # no longer emitted
    growth = np.maximum(ratio, 1.0) if grows else None
    carry_rows = agreement.change(np.where(ratio == 0.0, 1.0, ratio), shift).carry_rows
    change = UnitChange(ratio, shift, carry_rows, growth)
    model._change_units(change)
    expected = w * ratio / (1.0 if growth is None else growth)
    np.testing.assert_allclose(model.coefficients(), expected, rtol=1e-11, atol=1e-13 * np.abs(expected).max())
    assert (model.coefficients()[expected == 0.0] == 0.0).all()
    assert model.intercept_ == pytest.approx(
        b + (shift if growth is None else shift / growth) @ w, rel=1e-11, abs=1e-12
    )
    emitted = ratio > 0.0
    np.testing.assert_allclose(model._field("n")[:7][emitted], (n / np.where(emitted, ratio, 1.0) ** 2)[emitted])
    assert model._field("n")[3] == model._field("z")[3] == 0.0


@pytest.mark.parametrize("ratio", [1e-300, 1e-160, 1e160, 1e300])
def test_units_of_any_size_leave_finite_numbers(ratio: float) -> None:
    X, y, _ = agreement.stream(120)
    model = FTRL(l1=20.0).partial_fit(X, y)
    model._change_units(agreement.change(np.full(7, ratio), np.zeros(7)))
    for array in model._arrays:
        assert np.isfinite(array).all()


def test_weight_of_one_coordinate() -> None:
    assert ftrl._weight(0.1, 4.0, 0.1, 2.0, 1.0, 0.0) == 0.0
    assert ftrl._weight(-3.1, 4.0, 0.1, 2.0, 1.0, 0.5) == pytest.approx(3.0 / 2.0)


def test_a9a() -> None:
    assert a9a_auc(FTRL()) == pytest.approx(0.9006, abs=0.0015)


@pytest.mark.parametrize("params", [{}, {"l1": 0.0, "intercept": False}], ids=["sparse", "plain"])
class TestCitizen:
    def test_splits(self, params: dict[str, Any]) -> None:
        agreement.check_splits(lambda: FTRL(**params))

    def test_snapshot(self, params: dict[str, Any]) -> None:
        agreement.check_snapshot(lambda: FTRL(**params))

    def test_skips(self, params: dict[str, Any]) -> None:
        agreement.check_skips(lambda: FTRL(**params))

    def test_units(self, params: dict[str, Any]) -> None:
        agreement.check_units(lambda: FTRL(**params))
