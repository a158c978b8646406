"""SPDAM: equal to its reference solve by solve, convergent over a fixed set, and a good citizen."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.randomness import Generator
from reference.spdam import SPDAM as Plain
from reference.spdam import PrimalDual, spdam_batch
from reference.streams import gaussian_stream
from scipy import sparse

from aucstream import SPDAM
from aucstream.errors import InvalidParams
from aucstream.kernels.pairs.window import SINCE
from aucstream.kernels.random import seeded
from aucstream.learners import spdam
from aucstream.learners._families import primal_dual

from . import agreement, real

VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "small": {"n_buffer": 60, "batch": 5, "seed": 9},
    "cold": {"lam": 1e-5, "n_buffer": 100, "passes": 0.1},  # the guard acts often
    "folding": {"lam": 30.0, "n_buffer": 50, "batch": 50, "passes": 8.0},
    "single": {"batch": 1, "n_buffer": 200, "refresh_frac": 1.0, "passes": 2.0},
    "literal": {"kappa": 40.0, "n_buffer": 30},
    "tiny": {"n_buffer": 3},
}
each_variant = pytest.mark.parametrize("params", VARIANTS.values(), ids=VARIANTS.keys())


def posed(X: np.ndarray, y: np.ndarray, lam: float, batch: int, weights: np.ndarray | None = None) -> Any:
    """Return the kernel's problem of dense rows, at zero."""
    n, d = X.shape
    slots = np.zeros((n + 1, 3), dtype=np.int64)
    slots[:, 0] = np.arange(n + 1) * d
    slots[:n, 1:] = d
    weights = np.ones(n) if weights is None else weights
    columns = np.tile(np.arange(d), n)
    q = primal_dual.pose(slots, columns, np.ascontiguousarray(X).ravel(), y, weights, np.zeros(n), n, d, lam, batch)
    primal_dual.start(q, np.zeros(d))
    return q


@each_variant
@pytest.mark.parametrize("form", agreement.FORMS)
def test_equals_the_reference(params: dict[str, Any], form: str) -> None:
    model, plain = agreement.check_agreement(SPDAM, Plain, params, form)
    scalars, held = model._field("scalars"), len(plain.rows)
    assert [scalars[spdam.SOLVES], scalars[spdam.AVERAGED]] == [plain.solves, plain.averaged]
    assert scalars[SINCE] == plain.since
    assert int(model._field("generator")[0]) == plain.rng.state
    np.testing.assert_array_equal(model._field("labels")[:held], plain.labels)
    np.testing.assert_array_equal(model._field("weights")[:held], plain.weights)
    known = np.array([be is not None for be in plain.be])
    agreement.close(model._field("duals")[:held][known], [be for be in plain.be if be is not None], "duals")
    if form in ("dense", "csr"):
        agreement.close(model._field("w")[: plain.w.size], plain.w, "w")


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(4, 40),
    batch=st.integers(1, 50),
    lam=st.sampled_from([1e-6, 1e-3, 0.1, 10.0, 1e4]),
    shift=st.sampled_from([0.0, 10.0]),
)
def test_an_iteration_is_that_of_the_centred_rows(seed: int, n: int, batch: int, lam: float, shift: float) -> None:
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, 3)) + shift, np.where(np.arange(n) % 3 == 0, 1.0, -1.0)
    weights = rng.lognormal(size=n)
    plain, q = PrimalDual(X, y, weights, lam, batch), posed(X, y, lam, batch, weights)
    draws, generator = Generator(seed), seeded(seed)
    m, s, k2 = plain.m, q.k[primal_dual.SIGMA], q.k[primal_dual.FAR]
    assert k2 == pytest.approx(plain.kbar**2, rel=1e-9)
    assert 4 * m * k2 * s * s == pytest.approx(2 * (n - m) * lam * s + n * lam, rel=1e-12)
    assert q.k[primal_dual.TAU] == pytest.approx(1.0 / (4.0 * s * k2), rel=1e-12)
    for _ in range(12):
        plain.iterate(plain.subset(draws))
        primal_dual.iterate(q, generator)
    assert int(generator[0]) == draws.state
    # u of uncentred rows is the mean of be_i xbar_i
    u = q.dual_sum - q.k[primal_dual.G_P] * q.mean_pos - q.k[primal_dual.G_N] * q.mean_neg
    close = {"rtol": 1e-7, "atol": 1e-9 * (1.0 + shift) ** 2}
    np.testing.assert_allclose(u, plain.xbar.T @ plain.be / n, **close)
    np.testing.assert_allclose(q.duals, plain.be, **close)
    primal_dual.plain(q)
    np.testing.assert_allclose(q.v, plain.w, **close)
    reached, multiple = primal_dual.value(q, q.v)
    assert reached == pytest.approx(plain.value(plain.w), rel=1e-7, abs=1e-9)
    np.testing.assert_allclose(multiple * q.v, plain.best_multiple(plain.w), **close)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("params", [{}, {"batch": 1, "lam": 0.1, "seed": 4, "kappa": 30.0}], ids=["default", "other"])
def test_fit_is_the_finite_sum_form(params: dict[str, Any], form: Any) -> None:
    X, y, _ = agreement.stream(300)
    model = SPDAM(n_buffer=50, **params).fit(form(X), y, epochs=3)
    plain = spdam_batch(X, y, 3.0, **{"lam": 3e-3, **params})
    assert plain is not None
    agreement.close(model.coefficients(), plain.w)
    agreement.close(model._field("duals"), plain.be[-50:])
    assert model.examples == 300
    assert model.engine.calibration_line is not None
    model.partial_fit(form(X), y)  # goes on from there
    assert model.examples == 600
    assert model._field("scalars")[spdam.SOLVES] == 300 // 16


@pytest.mark.parametrize("batch", [1, 16])
def test_fit_converges_geometrically_to_the_closed_form_in_any_order(batch: int) -> None:
    g = gaussian_stream(400, d=6, p=0.3, seed=1)
    pos, neg = g.X[g.y > 0], g.X[g.y < 0]
    mu = pos.mean(axis=0) - neg.mean(axis=0)
    S = np.cov(pos.T, bias=True) + np.cov(neg.T, bias=True)
    best = np.linalg.solve(S + np.outer(mu, mu) + 0.05 * np.eye(6), mu)
    errors = []
    for epochs in (5, 10, 20, 40):
        model = SPDAM(lam=0.05, batch=batch, kappa=1.0, n_buffer=400).fit(g.X, g.y, epochs=epochs)
        errors.append(np.linalg.norm(model.coefficients() - best))
    assert errors[3] < 1e-6
    assert all(late < 0.3 * early for early, late in itertools.pairwise(errors))
    duals = PrimalDual(g.X, g.y, np.ones(400), 0.05, batch).xbar @ best
    np.testing.assert_allclose(model._field("duals"), duals, atol=1e-4)
    order = np.random.default_rng(0).permutation(400)
    again = SPDAM(lam=0.05, batch=batch, kappa=1.0).fit(g.X[order], g.y[order], epochs=40)
    np.testing.assert_allclose(again.coefficients(), best, atol=1e-6)


def test_no_solve_ends_above_where_it_began_and_most_move() -> None:
    g = gaussian_stream(2000, d=5, p=0.3, seed=11)
    X = g.X / np.linalg.norm(g.X, axis=1)[:, None]
    model = SPDAM(n_buffer=300)
    before, moved, solves = np.zeros(5), 0, 0
    for a in range(2000):
        model.engine.learn_array(X[a : a + 1], g.y[a : a + 1])
        if model._field("scalars")[spdam.SOLVES] > solves:
            rows = slice(max(0, a - 299), a + 1)
            window = PrimalDual(X[rows], g.y[rows], np.ones(a + 1 - rows.start), 3e-3, 16)
            w = model._field("w")[:5].copy()
            assert window.value(w) <= min(window.value(before), 0.0) + 1e-12
            moved += not np.allclose(w / np.linalg.norm(w), before / (np.linalg.norm(before) or 1.0), atol=1e-3)
            before, solves = w, solves + 1
    assert solves > 25
    assert moved > 0.5 * solves


def test_reaches_the_closed_form() -> None:
    g = gaussian_stream(30_000, d=5, p=0.2)
    w = SPDAM(lam=1e-3, kappa=1.0).partial_fit(g.X, g.y).coefficients()
    assert g.auc(w) > g.auc(g.minimiser()) - 0.005
    # the shortfall is the ridge
    assert abs(g.auc(w) - g.auc(g.minimiser(1e-3))) < 0.002


def test_a9a_is_ranked_as_the_reference_ranks_it() -> None:
    assert abs(real.a9a_auc(SPDAM()) - 0.8993) < 0.0006


def test_equal_rows_in_each_class_have_a_direct_answer() -> None:
    X, y = np.tile([[2.0, 0.0], [0.0, 1.0]], (50, 1)), np.tile([1.0, -1.0], 50)
    expected = np.array([2.0, -1.0]) / (5.0 + 0.1)
    streamed = SPDAM(lam=0.1, kappa=1.0).partial_fit(X, y)
    np.testing.assert_allclose(streamed.coefficients(), expected, rtol=1e-12)
    np.testing.assert_allclose(SPDAM(lam=0.1, kappa=1.0).fit(X, y).coefficients(), expected, rtol=1e-12)


def test_one_class_moves_nothing() -> None:
    X, _, weights = agreement.stream(50)
    for label in (1.0, -1.0):
        model = SPDAM()
        assert not model.engine.learn_array(X, np.full(50, label), weights).any()
        assert not model._field("w").any()
        assert not SPDAM().fit(X, np.full(50, label)).coefficients().any()


def test_swapped_labels_turn_the_weights_and_permuted_columns_permute_them() -> None:
    X, y, weights = agreement.stream(300)
    order = np.random.default_rng(0).permutation(X.shape[1])
    one, other, permuted = SPDAM(n_buffer=80), SPDAM(n_buffer=80), SPDAM(n_buffer=80)
    one.engine.learn_array(X, y, weights)
    other.engine.learn_array(X, -y, weights)
    permuted.engine.learn_array(X[:, order], y, weights)
    agreement.close(other.coefficients(), -one.coefficients())
    agreement.close(permuted.coefficients(), one.coefficients()[order])


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_rotated_rows_rotate_the_weights_and_longer_ones_change_no_score(seed: int) -> None:
    g = gaussian_stream(150, d=4, p=0.3, seed=seed)
    rotation = np.linalg.qr(np.random.default_rng(seed).normal(size=(4, 4)))[0]
    plain = SPDAM(n_buffer=60).partial_fit(g.X, g.y)
    turned = SPDAM(n_buffer=60).partial_fit(g.X @ rotation.T, g.y)
    np.testing.assert_allclose(turned.coefficients(), rotation @ plain.coefficients(), rtol=1e-6, atol=1e-8)
    doubled = SPDAM(n_buffer=60).partial_fit(np.c_[2.0 * g.X, np.zeros(150)], g.y)
    np.testing.assert_allclose(2.0 * doubled.coefficients()[:4], plain.coefficients(), rtol=1e-9)


def test_bad_parameters_and_epochs() -> None:
    X, y, _ = agreement.stream(40)
    for params in ({"lam": 0.0}, {"batch": 0}, {"passes": 1001.0}, {"n_buffer": 1}, {"refresh_frac": 1.5}):
        with pytest.raises(InvalidParams, match=next(iter(params))):
            SPDAM(**params)
    with pytest.raises(InvalidParams, match="epochs"):
        SPDAM().fit(X, y, epochs=0)


@pytest.mark.parametrize("params", [{"n_buffer": 40}, {"batch": 3, "n_buffer": 500}], ids=["small", "large"])
class TestCitizen:
    def test_splits(self, params: dict[str, Any]) -> None:
        agreement.check_splits(lambda: SPDAM(**params))

    def test_snapshot(self, params: dict[str, Any]) -> None:
        agreement.check_snapshot(lambda: SPDAM(**params))

    def test_skips(self, params: dict[str, Any]) -> None:
        agreement.check_skips(lambda: SPDAM(**params, kappa=1.0))

    def test_units(self, params: dict[str, Any]) -> None:
        agreement.check_units(lambda: SPDAM(**params))

    def test_rescaled(self, params: dict[str, Any]) -> None:
        agreement.check_rescaled(lambda: SPDAM(**params))
