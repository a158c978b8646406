"""FSAUC: equal to its reference step by step, inside its sets, and a good citizen."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.balls import project_omega1_ball
from reference.fsauc import FSAUC as Plain
from reference.streams import cosine, gaussian_stream

from aucstream import FSAUC
from aucstream.kernels.weights import l1ball
from aucstream.learners import fsauc

from . import agreement

VARIANTS: dict[str, dict[str, Any]] = {
    "anytime": {},
    "anytime-l1": {"R": 0.5},
    "anytime-both": {"R": 0.3, "n1": 10, "eta1": 2.0},  # both balls bind
    "known": {"n": 1000},
    "known-lemma1": {"n": 1000, "R": 1.0, "eta_rule": "lemma1", "eta1": 0.5},
    "known-literal": {"n": 4000, "R": 0.2, "eta_rule": "lemma1_min", "kappa": 2.0, "eta1": 0.4},
    "tiny": {"R": 1e-3, "eta1": 10.0, "n1": 7, "kappa": 3.0},
}
each_variant = pytest.mark.parametrize("params", VARIANTS.values(), ids=VARIANTS.keys())


def iterate(model: FSAUC) -> np.ndarray:
    """Return the last iterate."""
    z, th = model._field("z"), model._field("ball")[l1ball.TH]
    return np.sign(z) * np.where(z == 0.0, 0.0, np.abs(z) - th)


def unit_of(model: FSAUC) -> float:
    return 1.0 if model.kappa else math.sqrt(model._ledger[2]) or 1.0


@each_variant
@pytest.mark.parametrize("form", agreement.FORMS)
def test_equals_the_reference(params: dict[str, Any], form: str) -> None:
    model, plain = agreement.check_agreement(FSAUC, Plain, params, form)
    s = model._field("scalars")
    agreement.close(s[[fsauc.A, fsauc.B, fsauc.ALPHA]], [plain.a, plain.b, plain.alpha], "a, b, alpha")
    agreement.close(s[[fsauc.A1, fsauc.B1, fsauc.ALPHA1]], [plain.a1, plain.b1, plain.alpha1], "centre")
    agreement.close(s[[fsauc.A_SUM, fsauc.B_SUM]], [plain.asum, plain.bsum], "stage sums")
    agreement.close(s[[fsauc.T_POS, fsauc.T_NEG, fsauc.BETA]], [plain.T_pos, plain.T_neg, plain.beta])
    agreement.close(s[[fsauc.REACH, fsauc.PACE]], [plain.r / plain.R, plain.eta / model.eta1])
    assert [s[fsauc.STAGE], s[fsauc.POSITION], s[fsauc.LENGTH]] == [plain.k, plain.position, plain.length]
    if math.isfinite(plain.D):
        agreement.close(s[fsauc.WIDTH] * plain.R, plain.D)
    else:
        assert s[fsauc.WIDTH] == fsauc.UNBOUNDED
    if form in ("dense", "csr"):
        d = plain.w.size
        w = iterate(model)[:d]
        agreement.close(w, plain.w, "iterate")
        np.testing.assert_array_equal(w == 0.0, plain.w == 0.0)
        agreement.close(model._field("w1")[:d], plain.w1, "w1")
        agreement.close(model._field("sums_pos")[:d], plain.A_pos, "class sum")
        agreement.close(model._field("sums_neg")[:d], plain.A_neg, "class sum")


@pytest.mark.parametrize("n", [1, 2, 10, 1000, 32561, 10**6])
def test_number_of_stages(n: int) -> None:
    scalars, plain = FSAUC(n=n)._field("scalars"), Plain(n=n)
    assert scalars[fsauc.STAGES] == plain.m
    assert scalars[fsauc.LENGTH] == plain.length


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), r=st.floats(0.01, 3.0), radius=st.floats(0.05, 2.0))
def test_projection_is_the_reference(seed: int, r: float, radius: float) -> None:
    rng = np.random.default_rng(seed)
    w1 = rng.normal(size=6)
    w1 *= radius * rng.random() / np.abs(w1).sum()
    a1, b1 = rng.uniform(-radius, radius, 2)
    w, a, b = w1 + rng.normal(size=6), *rng.normal(size=2)
    scalars = np.zeros(21)
    scalars[[fsauc.A1, fsauc.B1]] = a1, b1
    exact = project_omega1_ball((w, a, b), (w1, a1, b1), r, "l1", radius, radius, 1.3)
    got_a, got_b = fsauc.onto_both(w, w1, scalars, a, b, r, radius, radius, 1.3)
    np.testing.assert_allclose([*w, got_a, got_b], [*exact[0], *exact[1:]], atol=1e-13)


@each_variant
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), scale=st.sampled_from([1e-8, 1.0, 1e6]))
def test_stays_inside_its_sets(params: dict[str, Any], seed: int, scale: float) -> None:
    X, y, weights = agreement.stream(60, seed=seed)
    model = FSAUC(**params)
    R, kappa = model.R, model.kappa or 1.0
    for i in range(60):
        model.engine.learn_array(scale * X[i : i + 1], y[i : i + 1], weights[i : i + 1])
        unit = unit_of(model)
        s = model._field("scalars")
        w = iterate(model)
        # a stage's average may be outside until the next step, if kappa_t has grown meanwhile
        assert np.abs(w).sum() * unit <= R * (1 + 1e-9) or s[fsauc.POSITION] == 0.0
        assert max(abs(s[fsauc.A]), abs(s[fsauc.B]), abs(s[fsauc.ALPHA]) / 2) <= R * kappa
        gap2 = ((w - model._field("w1")) ** 2).sum() * unit**2
        tracked = model._field("ball")[l1ball.GAP2] * unit**2
        assert abs(tracked - gap2) <= 1e-9 * R**2
        gap2 += (s[fsauc.A] - s[fsauc.A1]) ** 2 + (s[fsauc.B] - s[fsauc.B1]) ** 2
        assert math.sqrt(gap2) <= R * s[fsauc.REACH] * (1 + 1e-9)
        assert abs(s[fsauc.ALPHA] - s[fsauc.ALPHA1]) <= R * s[fsauc.WIDTH] * (1 + 1e-12)


@each_variant
def test_one_class_moves_nothing(params: dict[str, Any]) -> None:
    X, _, weights = agreement.stream(50)
    for label in (1.0, -1.0):
        model = FSAUC(**params)
        assert not model.engine.learn_array(X, np.full(50, label), weights).any()
        assert not iterate(model).any()


@each_variant
def test_swapped_labels_turn_the_weights(params: dict[str, Any]) -> None:
    X, y, weights = agreement.stream(300)
    one, other = FSAUC(**params), FSAUC(**params)
    one.engine.learn_array(X, y, weights)
    other.engine.learn_array(X, -y, weights)
    agreement.close(other.coefficients(), -one.coefficients())


def test_fit_plans_its_stages() -> None:
    g = gaussian_stream(3000, d=5, p=0.3, seed=1)
    model = FSAUC().fit(g.X, g.y, epochs=4)
    assert model._field("scalars")[fsauc.STAGES] == Plain(n=12000).m
    assert model.examples == 12000
    assert cosine(model.coefficients(), g.minimiser()) > 0.97
    again = FSAUC().fit(g.X, g.y, epochs=4)
    agreement.same_state(model, again)
    assert FSAUC()._field("scalars")[fsauc.STAGES] == 0.0


def test_step_and_radius_may_change() -> None:
    X, y, weights = agreement.stream(400)
    model = FSAUC(n1=20)
    model.engine.learn_array(X[:200], y[:200], weights[:200])
    model.R = 0.01
    model.eta1 = 1.0
    model.engine.learn_array(X[200:], y[200:], weights[200:])
    s = model._field("scalars")
    assert np.abs(iterate(model)).sum() * unit_of(model) <= 0.01 * (1 + 1e-12)
    assert max(abs(s[fsauc.A]), abs(s[fsauc.B])) <= 0.01
    with pytest.raises(AttributeError):
        model.n1 = 3


@pytest.mark.parametrize("params", [{"n1": 32, "R": 0.5}, {"n": 350, "R": 0.4, "eta1": 2.0}], ids=["any", "known"])
class TestCitizen:
    def test_splits(self, params: dict[str, Any]) -> None:
        agreement.check_splits(lambda: FSAUC(**params))

    def test_snapshot(self, params: dict[str, Any]) -> None:
        agreement.check_snapshot(lambda: FSAUC(**params))

    def test_skips(self, params: dict[str, Any]) -> None:
        agreement.check_skips(lambda: FSAUC(**params, kappa=1.0))

    def test_units(self, params: dict[str, Any]) -> None:
        agreement.check_units(lambda: FSAUC(**params))

    def test_rescaled(self, params: dict[str, Any]) -> None:
        agreement.check_rescaled(lambda: FSAUC(**params))


def test_delta_sets_no_step_by_the_default_rule() -> None:
    rng = np.random.default_rng(5)
    y = rng.random(6000) < 0.3
    x = rng.normal(size=(6000, 8)) + 0.7 * y[:, None]

    def scores(**params: Any) -> np.ndarray:
        return FSAUC(**params).partial_fit(x, y).decision_function(x)

    assert np.array_equal(scores(delta=0.01), scores(delta=0.9))
    assert not np.array_equal(scores(eta_rule="lemma1_min", delta=0.01), scores(eta_rule="lemma1_min", delta=0.9))
