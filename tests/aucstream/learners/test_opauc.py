"""OPAUC: equal to its reference step by step, its slope that of all pairs, and a good citizen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.opauc import OPAUC as Plain

from aucstream import OPAUC
from aucstream.errors import InvalidBlock
from aucstream.kernels.random import seeded
from aucstream.learners import opauc

from . import agreement
from .real import a9a_auc

VARIANTS: dict[str, dict[str, Any]] = {
    "full": {},
    "full-average": {"eta": 0.25, "lam": 0.0, "average": True},
    "full-literal": {"kappa": 1.0, "eta": 1e-12, "lam": 0.1},
    "sketch": {"rank": 3, "seed": 2},
    "sketch-wide": {"rank": 12, "average": True},
    "sketch-literal": {"rank": 1, "kappa": 1.0, "eta": 1e-9},
}
each_variant = pytest.mark.parametrize("params", VARIANTS.values(), ids=VARIANTS.keys())
each_kind = pytest.mark.parametrize("params", [{}, {"rank": 3, "average": True}], ids=["full", "sketch"])


@each_variant
@pytest.mark.parametrize("form", agreement.FORMS)
def test_equals_the_reference(params: dict[str, Any], form: str) -> None:
    model, plain = agreement.check_agreement(OPAUC, Plain, params, form, n=700)
    scalars = model._field("scalars")
    assert scalars[opauc.STEPS] == plain.t
    agreement.close(scalars[[opauc.N_POS, opauc.N_NEG]], [plain.pos.n, plain.neg.n])
    if form not in ("dense", "csr"):
        return
    d = plain.w.size
    agreement.close(model._field("w")[:d], plain.w, "iterate")
    agreement.close(model._field("wbar")[:d], plain.wbar, "average")
    for name, moments in (("pos", plain.pos), ("neg", plain.neg)):
        agreement.close(model._field(f"mean_{name}")[:d], moments.m, "mean")
        if "rank" in params:
            agreement.close(model._field(f"Z_{name}")[:d], moments.Z, "sketch")
            agreement.close(model._field(f"r_{name}"), moments.r_sum)
        else:
            agreement.close(model._field(f"M_{name}")[:d, :d], moments.M, "scatter")
    if "rank" in params:
        assert model._field("generator")[0] == plain.rng.state


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), positive=st.booleans())
def test_a_step_is_down_the_slope_of_the_mean_over_pairs(seed: int, positive: bool) -> None:
    X, y, _ = agreement.stream(60, seed=seed)
    X[0] /= 1e5
    X /= 20.0
    model = OPAUC(kappa=1.0, eta=1e-3, lam=0.01)
    model.engine.learn_array(X, y)
    w, sign = model.coefficients(), 1.0 if positive else -1.0
    others, x = X[y != sign], X[7]

    def value(v: np.ndarray) -> float:
        return 0.5 * float(((1.0 - sign * ((x - others) @ v)) ** 2).mean()) + 0.005 * float(v @ v)

    slope = [(value(w + 1e-4 * e) - value(w - 1e-4 * e)) / 2e-4 for e in np.eye(w.size)]
    model.engine.learn_array(x[None], np.array([sign]))
    np.testing.assert_allclose((w - model.coefficients()) / 1e-3, slope, rtol=1e-6, atol=1e-6 * np.abs(slope).max())


def test_a_sketch_stands_for_the_covariance_without_bias() -> None:
    random = np.random.default_rng(2)
    X = random.normal(size=(40, 3)) * [1.0, 2.0, 0.5] + 3.0
    weights, directions = random.lognormal(size=40), np.eye(3)
    estimates = []
    for seed in range(400):
        Z, r_sum, generator = np.zeros((3, 8)), np.zeros(8), seeded(seed)
        for x, weight in zip(X, weights, strict=True):
            opauc.add_sketched(generator, None, x, 1.0, weight, Z, r_sum)
        m = np.average(X, axis=0, weights=weights)
        columns = []
        for w in directions:
            # at x = m nothing but S w is left
            g = np.empty(3)
            opauc.sketched_slope(None, m, 1.0, 1.0, 1.0, weights.sum(), m, Z, r_sum, w, np.empty(3), g)
            columns.append(g)
        estimates.append(np.array(columns))
        assert np.linalg.eigvalsh(estimates[-1]).min() > -1e-10
    error = np.std(estimates, axis=0) / np.sqrt(400)
    truth = np.cov(X.T, aweights=weights, bias=True)
    assert (np.abs(np.mean(estimates, axis=0) - truth) < 4.0 * error).all()


@each_variant
def test_one_class_moves_nothing(params: dict[str, Any]) -> None:
    X, _, weights = agreement.stream(50)
    for label in (1.0, -1.0):
        model = OPAUC(**params)
        assert not model.engine.learn_array(X, np.full(50, label), weights).any()
        assert model._field("scalars")[opauc.STEPS] == 0.0
        assert not model._field("w").any()


@each_variant
def test_swapped_labels_turn_the_weights(params: dict[str, Any]) -> None:
    X, y, weights = agreement.stream(300)
    one, other = OPAUC(**params), OPAUC(**params)
    one.engine.learn_array(X, y, weights)
    other.engine.learn_array(X, -y, weights)
    agreement.close(other.coefficients(), -one.coefficients())


@each_kind
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_turned_rows_turn_the_weights(params: dict[str, Any], seed: int) -> None:
    X, y, weights = agreement.stream(80, seed=seed)
    X[0] /= 1e5
    random = np.random.default_rng(seed)
    order = np.eye(X.shape[1])[random.permutation(X.shape[1])]
    turn, _ = np.linalg.qr(random.normal(size=order.shape))
    plain = OPAUC(**params)
    plain.engine.learn_array(X, y, weights)
    for Q in (order, turn):
        model = OPAUC(**params)
        model.engine.learn_array(X @ Q, y, weights)
        np.testing.assert_allclose(model.coefficients(), plain.coefficients() @ Q, rtol=1e-7, atol=1e-9)


def test_the_order_of_the_rows_before_the_last_one_of_the_other_class_is_of_no_importance() -> None:
    """The moments do not depend on it: w starts when both classes are there."""
    X, _, weights = agreement.stream(60)
    X[0] /= 1e5
    shuffled = np.random.default_rng(0).permutation(60)
    models = [OPAUC(kappa=10.0, eta=1e-3), OPAUC(kappa=10.0, eta=1e-3)]
    for model, order in zip(models, (np.arange(60), shuffled), strict=True):
        model.engine.learn_array(X[order], -np.ones(60), weights[order])
        model.engine.learn_array(X[:1], np.ones(1))
    agreement.close(models[1].coefficients(), models[0].coefficients())


@each_kind
@pytest.mark.parametrize("first", [50, 150])
def test_merged_models_have_the_moments_of_all_rows(params: dict[str, Any], first: int) -> None:
    X, y, weights = agreement.stream(200)
    X[0] /= 1e5
    X[:first, 5:] = 0.0
    # a number for kappa: the running scale of each part would shorten other rows
    whole, one, other = (OPAUC(kappa=100.0, eta=1e-3, **params) for _ in range(3))
    whole.engine.learn_array(X, y, weights)
    one.engine.learn_array(X[:first, :5], y[:first], weights[:first])
    other.engine.learn_array(X[first:], y[first:], weights[first:])
    sketched = ("Z_pos", "Z_neg", "r_pos", "r_neg") if "rank" in params else ()
    sums = {name: one._field(name) + other._field(name) for name in sketched}
    one.merge(other, approximate=True)
    d = X.shape[1]
    scalars = one._field("scalars")
    assert scalars[opauc.WIDTH] == d
    agreement.close(scalars[[opauc.N_POS, opauc.N_NEG]], whole._field("scalars")[[opauc.N_POS, opauc.N_NEG]])
    for name in ("mean_pos", "mean_neg"):
        agreement.close(one._field(name)[:d], whole._field(name)[:d], name)
    for name, total in sums.items():
        agreement.close(one._field(name), total, name)
    for name in () if sketched else ("M_pos", "M_neg"):
        agreement.close(one._field(name)[:d, :d], whole._field(name)[:d, :d], name)


def test_whole_covariances_have_a_widest_row() -> None:
    model = OPAUC()
    with pytest.raises(InvalidBlock, match="at most 4096 columns \\(use rank=50\\)"):
        model.engine.learn_array(np.zeros((1, 4097)), np.ones(1))
    assert model.examples == 0
    wide = OPAUC(rank=2)
    wide.engine.learn_array(np.ones((2, 5000)), np.array([1.0, -1.0]))
    assert wide.examples == 2


@pytest.mark.parametrize(("params", "least", "most"), [({}, 0.8965, 0.9005), ({"rank": 50}, 0.885, 0.896)])
def test_a9a(params: dict[str, Any], least: float, most: float) -> None:
    assert least < a9a_auc(OPAUC(**params)) < most


@each_kind
class TestCitizen:
    def test_splits(self, params: dict[str, Any]) -> None:
        agreement.check_splits(lambda: OPAUC(**params))

    def test_snapshot(self, params: dict[str, Any]) -> None:
        agreement.check_snapshot(lambda: OPAUC(**params))

    def test_skips(self, params: dict[str, Any]) -> None:
        agreement.check_skips(lambda: OPAUC(**params, kappa=1.0, eta=1e-9))

    def test_units(self, params: dict[str, Any]) -> None:
        agreement.check_units(lambda: OPAUC(**params))

    def test_rescaled(self, params: dict[str, Any]) -> None:
        agreement.check_rescaled(lambda: OPAUC(**params))
