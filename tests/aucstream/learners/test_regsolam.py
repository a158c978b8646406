"""RegSOLAM: equal to its reference step by step, inside its sets, and a good citizen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.regsolam import RegSOLAM as Plain
from reference.streams import cosine, gaussian_stream
from scipy import sparse
from sklearn.metrics import roc_auc_score

from aucstream import SOLAM, RegSOLAM
from aucstream.kernels.weights.saddle import ALPHA, SCALE, A, B
from tests.data import unit_rows

from . import agreement

VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "binding": {"lam": 20.0, "cap": 0.02},
    "folding": {"lam": 2.0, "cap": 0.4},
    "turned": {"lam": 3.0, "cap": 0.5},  # gamma lam > 1 on heavy rows: counts as 1
    "literal": {"lam": 1e-3, "kappa": 20.0, "cap": 1e-3},
}
each_variant = pytest.mark.parametrize("params", VARIANTS.values(), ids=VARIANTS.keys())


def iterate(model: RegSOLAM) -> np.ndarray:
    """Return the last iterate."""
    return model._field("v") * model._field("scalars")[SCALE]


@each_variant
@pytest.mark.parametrize("form", agreement.FORMS)
def test_equals_the_reference(params: dict[str, Any], form: str) -> None:
    model, plain = agreement.check_agreement(RegSOLAM, Plain, params, form)
    agreement.close(model._field("scalars")[[A, B, ALPHA]], [plain.a, plain.b, plain.alpha])
    if form in ("dense", "csr"):
        agreement.close(iterate(model)[: plain.w.size], plain.w)


@each_variant
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), scale=st.sampled_from([1e-8, 1.0, 1e6]))
def test_stays_inside_its_sets(params: dict[str, Any], seed: int, scale: float) -> None:
    X, y, weights = agreement.stream(60, seed=seed)
    model = RegSOLAM(**params)
    R = np.sqrt(2.0 / model.lam)
    for i in range(60):
        model.engine.learn_array(scale * X[i : i + 1], y[i : i + 1], weights[i : i + 1])
        kappa = model.kappa or 1.0
        unit = 1.0 if model.kappa else np.sqrt(model._ledger[2])
        assert np.linalg.norm(iterate(model)) * unit <= R * (1 + 1e-9)
        a, b, alpha = model._field("scalars")[[A, B, ALPHA]]
        assert max(abs(a), abs(b), abs(alpha) / 2) <= R * kappa


@each_variant
def test_one_class_moves_nothing(params: dict[str, Any]) -> None:
    X, _, weights = agreement.stream(50)
    for label in (1.0, -1.0):
        model = RegSOLAM(**params)
        assert not model.engine.learn_array(X, np.full(50, label), weights).any()
        assert not iterate(model).any()


@each_variant
def test_swapped_labels_turn_the_weights(params: dict[str, Any]) -> None:
    X, y, weights = agreement.stream(300)
    one, other = RegSOLAM(**params), RegSOLAM(**params)
    one.engine.learn_array(X, y, weights)
    other.engine.learn_array(X, -y, weights)
    agreement.close(other.coefficients(), -one.coefficients())


@each_variant
def test_permuted_turned_empty_and_longer_columns(params: dict[str, Any]) -> None:
    X, y, weights = agreement.stream(300)
    d = X.shape[1]
    random = np.random.default_rng(0)
    order, turn = random.permutation(d), np.linalg.qr(random.normal(size=(d, d)))[0]
    model = RegSOLAM(**params)
    model.engine.learn_array(X, y, weights)
    w = model.coefficients()
    pairs = [(X[:, order], w[order]), (X @ turn, w @ turn), (np.hstack([X, np.zeros((300, 1))]), np.append(w, 0.0))]
    if "kappa" not in params:
        pairs.append((2.0 * X, w / 2.0))
    for Z, expected in pairs:
        model = RegSOLAM(**params)
        model.engine.learn_array(Z, y, weights)
        agreement.close(model.coefficients(), expected)


def test_long_streams_that_fold_often_are_the_same_dense_and_sparse() -> None:
    g = gaussian_stream(10_000, d=8, p=0.3, largest=None)
    X = np.where(np.random.default_rng(0).random(g.X.shape) < 0.5, 0.0, g.X)
    dense, csr, plain = RegSOLAM(lam=0.5), RegSOLAM(lam=0.5), Plain(lam=0.5)
    scores = dense.engine.learn_array(X, g.y)
    agreement.close(csr.engine.learn_array(sparse.csr_array(X), g.y), scores)
    agreement.close(scores, [plain.learn(x, y) for x, y in zip(X, g.y, strict=True)])
    agreement.close(iterate(dense)[:8], plain.w)


@pytest.mark.parametrize("kappa", [1.0, None])
def test_reaches_the_closed_form(kappa: float | None) -> None:
    g = gaussian_stream(30_000, d=5, p=0.2)
    model = RegSOLAM(lam=1e-5, zeta=30.0, cap=0.5, kappa=kappa).partial_fit(g.X, g.y)
    w = model.coefficients()
    assert cosine(w, g.minimiser()) > 0.98
    assert abs(g.auc(w) - g.auc(g.minimiser())) < 0.002


def test_a9a_is_ranked_as_the_reference_ranks_it() -> None:
    (X, y), (Z, labels) = unit_rows("a9a.svm.gz"), unit_rows("a9a.t.svm.gz")
    order = np.random.default_rng(0).permutation(y.size)
    model = RegSOLAM().partial_fit(X[order], y[order])
    assert roc_auc_score(labels, model.decision_function(Z)) > 0.8987


def test_without_a_penalty_it_is_solam_bit_for_bit() -> None:
    X, y, weights = agreement.stream(400)
    ours, solam = RegSOLAM(lam=1e-320), SOLAM(R=1e150)
    np.testing.assert_array_equal(ours.engine.learn_array(X, y, weights), solam.engine.learn_array(X, y, weights))
    np.testing.assert_array_equal(ours.coefficients(), solam.coefficients())


def test_the_penalty_may_change() -> None:
    X, y, weights = agreement.stream(400)
    model, plain = RegSOLAM(), Plain()
    model.engine.learn_array(X[:200], y[:200], weights[:200])
    model.lam = 0.3
    scores = model.engine.learn_array(X[200:], y[200:], weights[200:])
    theirs = []
    for i, (x, label, weight) in enumerate(zip(X, y, weights, strict=True)):
        if i == 200:
            plain.lam, plain.R = 0.3, float(np.sqrt(2.0 / 0.3))
        theirs.append(plain.learn(x, label, weight))
    agreement.close(scores, theirs[200:])
    with pytest.raises(AttributeError):
        model.kappa = 3.0


@pytest.mark.parametrize("params", [{}, {"lam": 2.0, "cap": 0.4}], ids=["default", "folding"])
class TestCitizen:
    def test_splits(self, params: dict[str, Any]) -> None:
        agreement.check_splits(lambda: RegSOLAM(**params))

    def test_snapshot(self, params: dict[str, Any]) -> None:
        agreement.check_snapshot(lambda: RegSOLAM(**params))

    def test_skips(self, params: dict[str, Any]) -> None:
        agreement.check_skips(lambda: RegSOLAM(**params, kappa=1.0))

    def test_units(self, params: dict[str, Any]) -> None:
        agreement.check_units(lambda: RegSOLAM(**params))

    def test_rescaled(self, params: dict[str, Any]) -> None:
        agreement.check_rescaled(lambda: RegSOLAM(**params))
