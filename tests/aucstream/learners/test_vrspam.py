"""VRSPAM: equal to its reference step by step, convergent over a fixed set, and a good citizen."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.spam import prox
from reference.streams import cosine, gaussian_stream
from reference.vrspam import VRSPAM as Plain
from reference.vrspam import vrspam_batch
from scipy import sparse

from aucstream import VRSPAM, from_bytes
from aucstream.errors import InvalidParams, NonFiniteStep
from aucstream.kernels.pairs.window import SINCE, WINDOW_POS
from aucstream.learners import vrspam
from aucstream.learners._base.state import UnitChange

from . import agreement, real

VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "inner": {"n_buffer": 60, "inner": 3, "seed": 9, "eta": 0.1},
    "folding": {"beta": 3.0, "n_buffer": 40, "refresh_frac": 1.0},
    "net": {"penalty": "elasticnet", "beta1": 1e-2, "n_buffer": 100, "inner": 2},
    "net-no-l2": {"penalty": "elasticnet", "beta": 0.0, "eta": 0.05},
    "literal": {"kappa": 40.0, "eta": 1e-9, "n_buffer": 10, "inner": 3},
    "tiny": {"n_buffer": 3},
}
each_variant = pytest.mark.parametrize("params", VARIANTS.values(), ids=VARIANTS.keys())


def iterate(model: VRSPAM) -> np.ndarray:
    """Return w."""
    s = model._field("scalars")
    return s[vrspam.SCALE] * model._field("v") - s[vrspam.DRIFT] * model._field("full")


def quadratic(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Return S + mu mu', mu and pq of a set."""
    pos, neg = X[y > 0], X[y < 0]
    mu = pos.mean(axis=0) - neg.mean(axis=0)
    p = float((y > 0).mean())
    return np.cov(pos.T, bias=True) + np.cov(neg.T, bias=True) + np.outer(mu, mu), mu, p * (1.0 - p)


@each_variant
@pytest.mark.parametrize("form", agreement.FORMS)
def test_equals_the_reference(params: dict[str, Any], form: str) -> None:
    model, plain = agreement.check_agreement(VRSPAM, Plain, params, form)
    scalars, held = model._field("scalars"), len(plain.rows)
    assert [scalars[vrspam.SNAPSHOTS], scalars[vrspam.STEPS]] == [plain.snapshots, plain.t]
    assert [scalars[SINCE], scalars[WINDOW_POS]] == [plain.since, sum(label > 0 for label in plain.labels)]
    assert int(model._field("generator")[0]) == plain.rng.state
    np.testing.assert_array_equal(model._field("labels")[:held], plain.labels)
    if form in ("dense", "csr"):
        d = plain.w.size
        agreement.close(iterate(model)[:d], plain.w, "w")
        np.testing.assert_array_equal(iterate(model)[:d] == 0.0, plain.w == 0.0)
        agreement.close(model._field("last")[:d], plain.wt, "snapshot")
        agreement.close(model._field("full")[:d], plain.M_B, "full gradient")
        assert scalars[vrspam.REACH] >= max(np.linalg.norm(plain.w), np.linalg.norm(plain.wt)) * (1 - 1e-9)
        assert scalars[vrspam.LONGEST] >= max(map(np.linalg.norm, plain.rows)) * (1 - 1e-9)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize(
    "params",
    [{}, {"penalty": "elasticnet", "beta1": 1e-2, "beta": 1e-2, "seed": 4, "kappa": 1.0}],
    ids=["default", "net"],
)
def test_fit_is_algorithm_1(params: dict[str, Any], form: Any) -> None:
    X, y, _ = agreement.stream(300)
    if "kappa" in params:
        X = X / np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    model = VRSPAM(n_buffer=50, **params).fit(form(X), y, epochs=3)
    agreement.close(model.coefficients(), vrspam_batch(X, y, 3, **params))
    assert model.examples == 300
    assert model.engine.calibration_line is not None
    model.partial_fit(form(X), y)  # goes on from there
    assert model.examples == 600
    assert model._field("scalars")[vrspam.SNAPSHOTS] == 3 + 300 // 25


def test_fit_converges_geometrically_to_the_closed_form_in_any_order() -> None:
    g = gaussian_stream(400, d=6, p=0.3, seed=1)
    H, mu, pq = quadratic(g.X, g.y)
    best = np.linalg.solve(H + 0.05 / (2.0 * pq) * np.eye(6), mu)

    def error(epochs: int, order: Any = slice(None)) -> float:
        w = VRSPAM(beta=0.05, kappa=1.0).fit(g.X[order], g.y[order], epochs=epochs).coefficients()
        return float(np.linalg.norm(w - best))

    errors = [error(epochs) for epochs in (2, 4, 8, 16)]
    assert errors[-1] < 1e-6
    assert all(late < 0.3 * early for early, late in itertools.pairwise(errors))
    assert error(16, np.random.default_rng(0).permutation(400)) < 1e-6


def test_the_elastic_net_converges_to_fista_zeros_included() -> None:
    g = gaussian_stream(400, d=6, p=0.3, seed=2)
    H, mu, pq = quadratic(g.X, g.y)
    step = 1.0 / (2.0 * pq * np.linalg.norm(H, 2))
    best, z, k = np.zeros(6), np.zeros(6), 1.0
    for _ in range(3000):
        new = prox(z - step * 2.0 * pq * (H @ z - mu), step, 0.02, 0.01)
        ahead = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * k * k))
        z, best, k = new + (k - 1.0) / ahead * (new - best), new, ahead
    assert 0 < int((best == 0).sum()) < 6
    model = VRSPAM(penalty="elasticnet", beta=0.02, beta1=0.01, eta=0.5, kappa=1.0)
    w = model.fit(g.X, g.y, epochs=30).coefficients()
    np.testing.assert_allclose(w, best, atol=1e-6)
    np.testing.assert_array_equal(w == 0, best == 0)


def weightings(y: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """Return heavy and uneven weights by name."""
    random = np.random.default_rng(seed)
    return {
        "negatives weigh 10": np.where(y > 0, 1.0, 10.0),
        "positives weigh 10": np.where(y > 0, 10.0, 1.0),
        "between 0.1 and 50": random.uniform(0.1, 50.0, y.size),
        "all 1000": np.full(y.size, 1000.0),
    }


@pytest.mark.parametrize("params", [{}, {"inner": 3}, {"penalty": "elasticnet"}], ids=["default", "inner", "net"])
def test_weights_that_differ_widely_cost_no_ranking(params: dict[str, Any]) -> None:
    g = gaussian_stream(5_000, d=8, p=0.2, seed=3, largest=None)
    X = g.X + 1.5  # class means far from 0, as those of indicators are
    plain = g.auc(VRSPAM(**params).partial_fit(X, g.y).coefficients())
    assert plain > 0.6
    for name, weights in weightings(g.y, 1).items():
        model = VRSPAM(**params)
        model.engine.learn_array(X, g.y, weights)
        assert np.linalg.norm(iterate(model)) < 100.0, name
        assert g.auc(model.coefficients()) > plain - 0.02, name


def test_whole_weights_are_nearly_rows_repeated_and_a_common_factor_is_none() -> None:
    g = gaussian_stream(4_000, d=6, p=0.3, seed=4)
    weights = np.random.default_rng(0).integers(1, 4, size=g.y.size).astype(float)
    repeated = np.repeat(np.arange(g.y.size), weights.astype(int))
    weighted, rows, tenfold = VRSPAM(), VRSPAM(n_buffer=2000), VRSPAM()
    weighted.engine.learn_array(g.X, g.y, weights)
    rows.engine.learn_array(g.X[repeated], g.y[repeated])
    assert cosine(weighted.coefficients(), rows.coefficients()) > 0.98
    plain = VRSPAM().partial_fit(g.X, g.y)
    tenfold.engine.learn_array(g.X, g.y, np.full(g.y.size, 16.0))
    assert cosine(plain.coefficients(), tenfold.coefficients()) > 0.995


def test_a_snapshot_is_due_at_once_where_units_took_from_weights_and_after_a_merge() -> None:
    X, y, _ = agreement.stream(300)
    same = agreement.change(np.ones(7), np.zeros(7))

    def snapshots_after(change: Any, rows: int = 300) -> list[int]:
        model = VRSPAM(n_buffer=100)
        model.engine.learn_array(X[:rows], y[:rows])
        model = change(model)
        before = model._field("scalars")[vrspam.SNAPSHOTS]
        taken = []
        for i in range(3):
            model.engine.learn_array(X[i : i + 1], y[i : i + 1])
            taken.append(int(model._field("scalars")[vrspam.SNAPSHOTS] - before))
        return taken

    def grown(model: VRSPAM, growth: np.ndarray | None) -> VRSPAM:
        model._change_units(UnitChange(same.ratio, same.shift, same.carry_rows, growth))
        return from_bytes(model.to_bytes())  # type: ignore[return-value]

    assert snapshots_after(lambda model: grown(model, None)) == [0, 0, 0]
    assert snapshots_after(lambda model: grown(model, np.ones(7))) == [0, 0, 0]
    assert snapshots_after(lambda model: grown(model, np.where(np.arange(7) == 2, 1.5, 1.0))) == [1, 1, 1]
    assert snapshots_after(lambda model: grown(model, np.full(7, 1.5)), rows=10) == [0, 0, 0]
    other = VRSPAM(n_buffer=100).partial_fit(X, y)
    assert snapshots_after(lambda model: model.merge(other, approximate=True)) == [1, 1, 1]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), penalty=st.sampled_from(["l2", "elasticnet"]))
def test_a_snapshot_is_the_windows_gradient(seed: int, penalty: Any) -> None:
    g = gaussian_stream(140, d=4, p=0.3, seed=seed)
    model = VRSPAM(penalty=penalty, n_buffer=50, kappa=1.0)
    for i in range(140):
        model.engine.learn_array(g.X[i : i + 1], g.y[i : i + 1])
        s = model._field("scalars")
        if s[SINCE] == 0.0:
            rows = slice(max(0, i - 49), i + 1)
            H, mu, pq = quadratic(g.X[rows], g.y[rows])
            gradient = 2.0 * pq * (H @ model._field("last")[:4] - mu)
            np.testing.assert_allclose(model._field("full")[:4], gradient, atol=1e-12)
    w = iterate(model)
    for at, sums in ((vrspam.V_POS, "sums_pos"), (vrspam.V_NEG, "sums_neg")):
        tracked = s[vrspam.SCALE] * s[at] - s[vrspam.DRIFT] * s[at + vrspam.M_POS - vrspam.V_POS]
        assert tracked == pytest.approx(model._field(sums) @ w, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("kappa", [1.0, None])
def test_reaches_the_closed_form(kappa: float | None) -> None:
    g = gaussian_stream(30_000, d=5, p=0.2)
    w = VRSPAM(beta=1e-5, eta=0.5, kappa=kappa).partial_fit(g.X, g.y).coefficients()
    assert cosine(w, g.minimiser()) > 0.98
    assert abs(g.auc(w) - g.auc(g.minimiser())) < 0.002


def test_dense_and_sparse_agree_after_ten_thousand_steps_with_folds() -> None:
    g = gaussian_stream(10_000, d=8, p=0.3, seed=2)
    X = np.where(np.random.default_rng(0).random(g.X.shape) < 0.5, 0.0, g.X)
    for params in ({"beta": 3.0}, {"penalty": "elasticnet", "beta1": 0.02}):
        dense, csr = VRSPAM(**params), VRSPAM(**params)
        scores = dense.engine.learn_array(X, g.y)
        agreement.close(csr.engine.learn_array(sparse.csr_array(X), g.y), scores)
        np.testing.assert_array_equal(iterate(dense) == 0.0, iterate(csr) == 0.0)


def test_a9a_is_ranked_as_the_reference_ranks_it() -> None:
    assert abs(real.a9a_auc(VRSPAM()) - 0.8996) < 0.0006


@pytest.mark.parametrize("penalty", ["l2", "elasticnet"])
def test_one_class_moves_nothing(penalty: Any) -> None:
    X, _, weights = agreement.stream(50)
    for label in (1.0, -1.0):
        model = VRSPAM(penalty=penalty)
        assert not model.engine.learn_array(X, np.full(50, label), weights).any()
        assert not iterate(model).any()
        assert not VRSPAM(penalty=penalty).fit(X, np.full(50, label)).coefficients().any()


@pytest.mark.parametrize("penalty", ["l2", "elasticnet"])
def test_swapped_labels_turn_the_weights_and_permuted_columns_permute_them(penalty: Any) -> None:
    X, y, weights = agreement.stream(300)
    order = np.random.default_rng(0).permutation(X.shape[1])
    one, other, permuted = (VRSPAM(penalty=penalty, n_buffer=80, inner=2, eta=0.1) for _ in range(3))
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
    plain = VRSPAM(n_buffer=60).partial_fit(g.X, g.y)
    turned = VRSPAM(n_buffer=60).partial_fit(g.X @ rotation.T, g.y)
    np.testing.assert_allclose(turned.coefficients(), rotation @ plain.coefficients(), rtol=1e-6, atol=1e-8)
    doubled = VRSPAM(n_buffer=60).partial_fit(np.c_[2.0 * g.X, np.zeros(150)], g.y)
    np.testing.assert_allclose(2.0 * doubled.coefficients()[:4], plain.coefficients(), rtol=1e-9)


def test_bad_parameters_epochs_and_a_fit_that_diverges() -> None:
    X, y, _ = agreement.stream(40)
    for params in ({"beta": -1.0}, {"eta": 0.0}, {"inner": 0}, {"n_buffer": 1}, {"refresh_frac": 0.0}):
        with pytest.raises(InvalidParams, match=next(iter(params))):
            VRSPAM(**params)
    with pytest.raises(InvalidParams, match="epochs"):
        VRSPAM().fit(X, y, epochs=0)
    model = VRSPAM(eta=1e6)
    with pytest.raises(NonFiniteStep):
        model.fit(X, y, epochs=50)
    agreement.same_state(model, VRSPAM(eta=1e6))


@pytest.mark.parametrize(
    "params",
    [{"n_buffer": 40, "inner": 2, "eta": 0.1}, {"penalty": "elasticnet", "beta1": 1e-3}],
    ids=["l2", "net"],
)
class TestCitizen:
    def test_splits(self, params: dict[str, Any]) -> None:
        agreement.check_splits(lambda: VRSPAM(**params))

    def test_snapshot(self, params: dict[str, Any]) -> None:
        agreement.check_snapshot(lambda: VRSPAM(**params))

    def test_skips(self, params: dict[str, Any]) -> None:
        agreement.check_skips(lambda: VRSPAM(**{**params, "eta": 1e-9}, kappa=1.0))

    def test_units(self, params: dict[str, Any]) -> None:
        agreement.check_units(lambda: VRSPAM(**params))

    def test_rescaled(self, params: dict[str, Any]) -> None:
        agreement.check_rescaled(lambda: VRSPAM(**params))
