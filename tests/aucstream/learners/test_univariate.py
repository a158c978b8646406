"""OnlineLogistic and UnivariateExp: equal to their references step by step, and good citizens."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.univariate import OnlineLogistic as PlainLogistic
from reference.univariate import UnivariateExp as PlainExp
from sklearn.metrics import roc_auc_score

from aucstream import OnlineLogistic, UnivariateExp
from aucstream.kernels.weights import univariate as kernel

from . import agreement
from .real import a9a_auc

VARIANTS: dict[str, tuple[type, type, dict[str, Any]]] = {
    "logistic": (OnlineLogistic, PlainLogistic, {}),
    "logistic-shrunk": (OnlineLogistic, PlainLogistic, {"lam": 0.02, "eta0": 1.0}),
    "logistic-floor": (OnlineLogistic, PlainLogistic, {"eta0": 2.0, "eta_min": 0.3}),
    "logistic-capped": (OnlineLogistic, PlainLogistic, {"lam": 0.5, "intercept": False}),
    "logistic-literal": (OnlineLogistic, PlainLogistic, {"kappa": 3.0, "eta0": 1e-3, "lam": 1.0}),
    "exp": (UnivariateExp, PlainExp, {}),
    "exp-shrunk": (UnivariateExp, PlainExp, {"lam": 0.02, "eta0": 0.5, "clip": 3.0, "intercept": False}),
    "exp-literal": (UnivariateExp, PlainExp, {"kappa": 1.0, "eta0": 1e-3, "clip": 0.0}),
}
each_variant = pytest.mark.parametrize(("kind", "plain", "params"), VARIANTS.values(), ids=VARIANTS.keys())
each_kind = pytest.mark.parametrize("kind", [OnlineLogistic, UnivariateExp])


def weights(model: Any) -> np.ndarray:
    """Return the weights and the intercept."""
    return np.append(model.coefficients(), model.intercept_)


@each_variant
@pytest.mark.parametrize("form", agreement.FORMS)
def test_equals_the_reference(kind: type, plain: type, params: dict[str, Any], form: str) -> None:
    model, reference = agreement.check_agreement(kind, plain, params, form)
    agreement.close(model.intercept_, reference.b)
    assert (model.intercept_ != 0.0) is params.get("intercept", True)
    assert model._field("scalars")[kernel.STEPS] == reference.t


@each_kind
def test_one_class_is_learned_from_the_first_row(kind: type) -> None:
    X, _, weights = agreement.stream(50)
    for label in (1.0, -1.0):
        model = kind().partial_fit(X[:1], [label])
        assert model.intercept_ * label > 0.0
        assert model.coefficients().any()
        model.engine.learn_array(X[1:], np.full(49, label), weights[1:])
        assert model.intercept_ * label > 0.0
        assert model.engine.calibration_line is None


@each_kind
def test_swapped_labels_turn_weights_and_intercept(kind: type) -> None:
    X, y, w = agreement.stream(300)
    one, other = kind(lam=0.01), kind(lam=0.01)
    one.engine.learn_array(X, y, w)
    other.engine.learn_array(X, -y, w)
    agreement.close(weights(other), -weights(one))


@each_kind
def test_turned_rows_turn_the_weights_and_permuted_columns_permute_them(kind: type) -> None:
    X, y, w = agreement.stream(200)
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(7, 7)))[0]
    for matrix in (turn, np.eye(7)[np.random.default_rng(1).permutation(7)]):
        one, other = kind(lam=0.01), kind(lam=0.01)
        one.engine.learn_array(X, y, w)
        other.engine.learn_array(X @ matrix.T, y, w)
        np.testing.assert_allclose(other.coefficients(), matrix @ one.coefficients(), rtol=1e-8)
        np.testing.assert_allclose(other.intercept_, one.intercept_, rtol=1e-8)


@settings(max_examples=25, deadline=None)
@given(s=st.floats(-30, 30), y=st.sampled_from([-1.0, 1.0]), n=st.tuples(st.floats(0.5, 9.0), st.floats(0.5, 9.0)))
def test_slopes_are_derivatives(s: float, y: float, n: tuple[float, float]) -> None:
    def logistic(s: float) -> float:
        return float(np.logaddexp(0.0, -y * s))

    def exponential(s: float, clip: float = 1.0) -> float:
        balance = (n[1] if y > 0.0 else n[0]) / max(n)
        m = -y * s
        return balance * (math.exp(m) if m <= clip else math.exp(clip) * (1.0 + m - clip))

    for loss, function in ((kernel.LOGISTIC, logistic), (kernel.EXPONENTIAL, exponential)):
        numeric = (function(s + 1e-5) - function(s - 1e-5)) / 2e-5
        assert kernel.slope(loss, s, y, *n, 1.0) == pytest.approx(numeric, rel=1e-4, abs=1e-8)
    for size in (1e3, 1e300, math.inf):
        assert kernel.slope(kernel.LOGISTIC, size, 1.0, 1.0, 1.0, 1.0) == 0.0
        assert kernel.slope(kernel.LOGISTIC, -size, 1.0, 1.0, 1.0, 1.0) == -1.0


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), lam=st.sampled_from([0.3, 1.0, 1e3, 1e300]), eta0=st.sampled_from([1.0, 1e6]))
def test_no_penalty_turns_the_weights_around(seed: int, lam: float, eta0: float) -> None:
    X, y, w = agreement.stream(40, seed=seed)
    for kind in (OnlineLogistic, UnivariateExp):
        model = kind(lam=lam, eta0=eta0)
        model.engine.learn_array(X, y, w)
        before = model.coefficients()
        model.engine.learn_array(np.zeros((1, 7)), [1.0], [100.0])  # shrinks, and moves the intercept
        after = model.coefficients()
        assert (after * before >= 0.0).all()
        assert (np.abs(after) <= np.abs(before)).all()
        assert (np.abs(after) >= 0.49 * np.abs(before)).all()


def test_an_infinite_clip_is_the_papers_loss() -> None:
    X, y, w = agreement.stream(100)
    model, plain = UnivariateExp(clip=math.inf, eta0=0.1), PlainExp(clip=math.inf, eta0=0.1)
    agreement.close(
        model.engine.learn_array(X, y, w), [plain.learn(*row) for row in zip(X, y, w, strict=True)], "scores"
    )


@each_kind
def test_contributions_add_up_and_the_intercept_is_no_weight(kind: type) -> None:
    X, y, w = agreement.stream(200)
    model, without = kind(), kind(intercept=False)
    for m in (model, without):
        for row, label, weight in zip(X, y, w, strict=True):
            m.learn_one(agreement.named(row), label > 0, w=weight)
    row = agreement.named(X[7])
    found = model.explain_one(row)
    assert set(found) == {*row, "(intercept)"}
    assert found["(intercept)"] == model.intercept_ == model.score_one({})
    assert sum(found.values()) == pytest.approx(model.score_one(row), rel=1e-12)
    assert set(model.weights) == {"f0", "f1", "f3", "f5"}
    assert all(found[name] == model.weights[name] * value for name, value in row.items())
    assert without.intercept_ == without.score_one({}) == 0.0
    assert "(intercept)" not in without.explain_one(row)


@pytest.mark.parametrize(("kind", "auc"), [(OnlineLogistic, 0.9018), (UnivariateExp, 0.9011)])
def test_a9a(kind: type, auc: float) -> None:
    assert a9a_auc(kind()) == pytest.approx(auc, abs=0.0010)


@pytest.mark.parametrize(
    ("kind", "params"),
    [(OnlineLogistic, {"lam": 0.01}), (UnivariateExp, {"intercept": False})],
    ids=["logistic", "exp"],
)
class TestCitizen:
    def test_splits(self, kind: type, params: dict[str, Any]) -> None:
        agreement.check_splits(lambda: kind(**params))

    def test_snapshot(self, kind: type, params: dict[str, Any]) -> None:
        agreement.check_snapshot(lambda: kind(**params))

    def test_skips(self, kind: type, params: dict[str, Any]) -> None:
        agreement.check_skips(lambda: kind(**params, kappa=1.0))

    def test_units(self, kind: type, params: dict[str, Any]) -> None:
        agreement.check_units(lambda: kind(**params))

    def test_rescaled(self, kind: type, params: dict[str, Any]) -> None:
        agreement.check_rescaled(lambda: kind(**params))


def test_a_floor_of_the_step_follows_a_stream_that_turns_around() -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(40_000, 3))
    y = X[:, 0] + 0.5 * random.normal(size=40_000) > 0.0
    y[30_000:] = ~y[30_000:]
    after = {}
    for eta_min in (0.0, 0.5):
        scores = OnlineLogistic(eta0=2.0, eta_min=eta_min).engine.learn_array(X, y)
        after[eta_min] = roc_auc_score(y[30_500:31_000], scores[30_500:31_000])
    assert after[0.5] > 0.9 > 0.5 > after[0.0]
