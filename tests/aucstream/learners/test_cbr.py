"""CBR: equal to its reference step by step, its constraint met, and a good citizen."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.cbr import CBR as Plain

from aucstream import CBR
from aucstream.errors import AucstreamError
from aucstream.learners import cbr

from . import agreement
from .real import a9a_auc
from .test_psam import check_buffers

VARIANTS: dict[str, dict[str, Any]] = {
    "diag": {"capacity": 20},
    "diag-reservoir": {"policy": "reservoir", "capacity": 7, "C": 0.5, "seed": 3},
    "diag-literal": {"kappa": 2.0, "capacity": 5, "eta": 0.95, "policy": "random"},
    "diag-uncapped": {"capacity": 3, "C": 1e6},
    "full": {"covariance": "full", "capacity": 20},
    "full-literal": {"covariance": "full", "kappa": 5.0, "C": 2.0, "capacity": 6, "eta": 0.9},
}
each_variant = pytest.mark.parametrize("params", VARIANTS.values(), ids=VARIANTS.keys())
each_covariance = pytest.mark.parametrize("covariance", ["diag", "full"])


def covariance_of(model: CBR, d: int) -> np.ndarray:
    """Return D or S of the first d weights, 0 read as 1."""
    S = model._field("S")
    if model.covariance == "diag":
        return np.where(S[:d] == 0.0, 1.0, S[:d])
    S = S[:d, :d].copy()
    S[np.diag_indices(d)] = np.where(np.diag(S) == 0.0, 1.0, np.diag(S))
    return S


@each_variant
@pytest.mark.parametrize("form", agreement.FORMS)
def test_equals_the_reference(params: dict[str, Any], form: str) -> None:
    model, plain = agreement.check_agreement(CBR, Plain, params, form, n=700)
    scalars = model._field("scalars")
    assert [scalars[cbr.STEPS], scalars[cbr.SEEN_POS], scalars[cbr.SEEN_NEG]] == [
        plain.t,
        plain.pos.seen,
        plain.neg.seen,
    ]
    model._field("dense")[model._field("v").size :] = 0.0  # S z of the last pair
    check_buffers(model, plain, form)
    if form in ("dense", "csr"):
        d = plain.w.size
        agreement.close(covariance_of(model, d), plain.S, "covariance")
        assert scalars[cbr.REACH] >= np.linalg.norm(plain.w) * (1 - 1e-9)
        assert scalars[cbr.WIDEST] >= np.linalg.norm(plain.S, 2 if plain.S.ndim == 2 else np.inf) * (1 - 1e-9)


@settings(max_examples=60)
@given(
    m=st.floats(-50.0, 50.0),
    variance=st.floats(1e-6, 50.0),
    eta=st.floats(0.51, 0.999),
)
def test_an_uncapped_step_meets_the_constraint_and_no_more(m: float, variance: float, eta: float) -> None:
    phi = CBR(eta=eta)._kernel_params[1]
    alpha, beta = cbr.step_size(m, variance, math.inf, phi)
    after, left = m + alpha * variance, variance - beta * variance * variance
    assert 0.0 < left <= variance
    if phi * math.sqrt(variance) <= m:
        assert alpha == beta == 0.0
    else:
        assert after == pytest.approx(phi * math.sqrt(left), rel=1e-6, abs=1e-6 * abs(m))
    capped, small = cbr.step_size(m, variance, 0.01, phi)
    assert capped == min(alpha, 0.01)
    assert small <= beta


@each_covariance
@settings(max_examples=10)
@given(seed=st.integers(0, 10**6), C=st.sampled_from([2.0**-7, 1.0, 1e8]))
def test_the_covariance_shrinks_and_stays_one(covariance: Any, seed: int, C: float) -> None:
    X, y, weights = agreement.stream(60, seed=seed)
    model = CBR(covariance=covariance, C=C, capacity=5)
    before = covariance_of(model, 7)
    for part in range(0, 60, 20):
        model.engine.learn_array(X[part : part + 20], y[part : part + 20], weights[part : part + 20])
        now = covariance_of(model, 7)
        if covariance == "diag":
            assert (now > 0.0).all()
            assert (now <= before).all()
        else:
            np.testing.assert_array_equal(now, now.T)
            assert np.linalg.eigvalsh(now).min() > -1e-12
            assert np.linalg.eigvalsh(before - now).min() > -1e-12
        before = now


@each_variant
def test_one_class_moves_nothing(params: dict[str, Any]) -> None:
    X, _, weights = agreement.stream(50)
    for label in (1.0, -1.0):
        model = CBR(**params)
        assert not model.engine.learn_array(X, np.full(50, label), weights).any()
        assert model._field("scalars")[cbr.STEPS] == 0.0
        assert not model._field("v").any()
        assert not model._field("S").any()


@each_variant
def test_swapped_labels_turn_the_weights(params: dict[str, Any]) -> None:
    X, y, weights = agreement.stream(200)
    one, other = CBR(**params), CBR(**params)
    one.engine.learn_array(X, y, weights)
    other.engine.learn_array(X, -y, weights)
    agreement.close(other.coefficients(), -one.coefficients())


@each_covariance
@settings(max_examples=10)
@given(seed=st.integers(0, 10**6))
def test_permuted_columns_permute_the_weights(covariance: Any, seed: int) -> None:
    X, y, weights = agreement.stream(60, seed=seed)
    order = np.random.default_rng(seed).permutation(X.shape[1])
    one, other = CBR(covariance=covariance, capacity=5), CBR(covariance=covariance, capacity=5)
    one.engine.learn_array(X, y, weights)
    other.engine.learn_array(X[:, order], y, weights)
    agreement.close(other.coefficients(), one.coefficients()[order])


def test_rotated_rows_rotate_the_weights_of_the_full_covariance() -> None:
    X, y, weights = agreement.stream(300)
    Q = np.linalg.qr(np.random.default_rng(1).normal(size=(7, 7)))[0]
    one, other = (CBR(covariance="full", capacity=10) for _ in range(2))
    one.engine.learn_array(X, y, weights)
    other.engine.learn_array(X @ Q, y, weights)
    agreement.close(other.coefficients(), one.coefficients() @ Q)


@each_covariance
def test_a_change_of_units_by_powers_of_two_changes_no_later_score(covariance: Any) -> None:
    X, y, weights = agreement.stream(600)
    ratio = 2.0 ** np.array([-3, 5, 0, 1, -8, 2, 4])
    plain, moved = (CBR(covariance=covariance, capacity=8, kappa=30.0, C=0.5) for _ in range(2))
    X[:, [2, 4, 6]] += X[:, [0, 1, 3]]  # no column appears later, in units of its own
    for model in (plain, moved):
        model.engine.learn_array(X[:350], y[:350], weights[:350])
    moved._change_units(agreement.change(ratio, np.zeros(7)))
    scores = plain.engine.learn_array(X[350:], y[350:], weights[350:])
    if covariance == "diag":  # the norm of a row, on which nothing else depends here, is rounded differently
        np.testing.assert_array_equal(moved.engine.learn_array(X[350:] / ratio, y[350:], weights[350:]), scores)
    else:
        agreement.close(moved.engine.learn_array(X[350:] / ratio, y[350:], weights[350:]), scores)


def test_a_column_that_appears_has_the_first_variance_whenever_that_is() -> None:
    X, y, weights = agreement.stream(300)
    X[:200, 5] = 0.0
    dense, late = CBR(capacity=5, kappa=10.0), CBR(capacity=5, kappa=10.0)
    ratio = np.full(7, 4.0)
    order = [0, 1, 2, 3, 4, 6, 5]
    dense.engine.learn_array(X[:200][:, order], y[:200], weights[:200])
    late.engine.learn_array(X[:200][:, order[:6]], y[:200], weights[:200])
    dense._change_units(agreement.change(ratio, np.zeros(7)))
    late._change_units(agreement.change(ratio[:6], np.zeros(6)))
    rest = (X[200:][:, order], y[200:], weights[200:])
    np.testing.assert_array_equal(dense.engine.learn_array(*rest), late.engine.learn_array(*rest))


def test_a_full_covariance_has_its_largest_width() -> None:
    model = CBR(covariance="full", capacity=1)
    with pytest.raises(AucstreamError, match="covariance='diag'"):
        model.engine.learn_array(np.ones((1, 4097)), [1.0])


@pytest.mark.parametrize(
    "params", [{"capacity": 12}, {"covariance": "full", "policy": "random", "capacity": 5}], ids=["diag", "full"]
)
class TestCitizen:
    def test_splits(self, params: dict[str, Any]) -> None:
        agreement.check_splits(lambda: CBR(**params))

    def test_snapshot(self, params: dict[str, Any]) -> None:
        agreement.check_snapshot(lambda: CBR(**params))

    def test_skips(self, params: dict[str, Any]) -> None:
        agreement.check_skips(lambda: CBR(**params, kappa=1.0))

    def test_units(self, params: dict[str, Any]) -> None:
        agreement.check_units(lambda: CBR(**params))


def test_a9a() -> None:
    assert abs(a9a_auc(CBR()) - 0.8973) < 0.001  # five orders: .8980 ± .0007
    assert a9a_auc(CBR(C=2.0**-10)) > 0.901  # .9017 ± .0002
