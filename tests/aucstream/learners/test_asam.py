"""ASAM: equal to its reference step by step, gradient steps that stay short, and a good citizen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.asam import ASAM as Plain
from scipy import sparse

from aucstream import ASAM, PSAM
from aucstream.kernels.pairs import sampled_pairs

from . import agreement
from .real import a9a_auc
from .test_psam import check_buffers

VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "hinge-replay": {"capacity": 20, "policy": "fifo", "fresh": 2, "replay": 2, "askip": 3, "seed": 9},
    "hinge-folding": {"fresh": 15, "t0": 0.0, "lam": 1e-2, "capacity": 50},
    "fading": {"half_life": 60.0, "capacity": 12, "t0": 5.0, "lam": 1e-2},
    "squared": {"loss": "squared_hinge", "capacity": 12, "askip": 7},
    "squared-literal": {"loss": "squared_hinge", "kappa": 2.0, "lam": 1e-2, "rskip": 1, "policy": "random"},
}
each_variant = pytest.mark.parametrize("params", VARIANTS.values(), ids=VARIANTS.keys())


@each_variant
@pytest.mark.parametrize("form", agreement.FORMS)
def test_equals_the_reference(params: dict[str, Any], form: str) -> None:
    model, plain = agreement.check_agreement(ASAM, Plain, params, form, n=700)
    scalars = model._field("scalars")
    averaged = scalars[sampled_pairs.AVERAGED] / sampled_pairs.growth_of(scalars)
    assert [scalars[sampled_pairs.STEPS], averaged] == pytest.approx([plain.t, plain.q], rel=1e-12)
    check_buffers(model, plain, form)
    if form in ("dense", "csr"):
        agreement.close(scalars[sampled_pairs.SCALE] * model._field("v")[: plain.w.size], plain.w, "iterate")
        assert scalars[sampled_pairs.REACH] >= np.linalg.norm(plain.w) * (1 - 1e-9)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_fit_is_algorithm_1(loss: Any, form: Any) -> None:
    X, y, _ = agreement.stream(400)
    model = ASAM(loss=loss, lam=1e-2).fit(form(X), y, epochs=2)
    plain = Plain(loss=loss, lam=1e-2, fresh=0, capacity=400)
    for x, label in zip(X, y, strict=True):
        plain.learn(x, label)
    plain.replay_pairs(800)
    agreement.close(model.coefficients(), plain.output, "output")
    assert model.engine.calibration_line is not None


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    lam=st.sampled_from([1e-6, 1e-2, 1.0, 50.0]),
    loss=st.sampled_from(["hinge", "squared_hinge"]),
)
def test_a_pair_step_goes_along_the_gradient_at_the_old_weights(seed: int, lam: float, loss: Any) -> None:
    rng = np.random.default_rng(seed)
    model = ASAM(loss=loss, lam=lam, t0=1.0, rskip=10**6, askip=10**6, fresh=1, kappa=1.0, capacity=1, policy="fifo")
    last: dict[float, np.ndarray] = {}
    for t, label in enumerate((1.0, -1.0, 1.0, 1.0, -1.0, -1.0, 1.0)):
        x = rng.normal(size=3)
        x /= max(1.0, np.linalg.norm(x))
        before = model._field("v")[:3].copy()
        model.engine.learn_array(x[None], [label])
        last[label] = x
        if t == 0:
            continue
        z, eta = last[1.0] - last[-1.0], 1.0 / (lam * (t + 1.0))
        short = max(0.0, 1.0 - before @ z)
        factor = eta * (short > 0.0) if loss == "hinge" else min(eta, 1.0 / (z @ z)) * short
        largest = np.abs(before).max() + factor
        np.testing.assert_allclose(model._field("v")[:3], before + factor * z, rtol=1e-9, atol=1e-12 * largest)


def test_the_squared_hinge_keeps_its_weights_where_the_lengths_of_rows_differ() -> None:
    X, y, weights = agreement.stream(1200)
    ours, proximal = ASAM(loss="squared_hinge"), PSAM()
    for model in (ours, proximal):
        model.engine.learn_array(X, y, weights)
    assert np.abs(ours.coefficients()).max() < 10.0 * np.abs(proximal.coefficients()).max()


@each_variant
def test_one_class_moves_nothing(params: dict[str, Any]) -> None:
    X, _, weights = agreement.stream(50)
    for label in (1.0, -1.0):
        model = ASAM(**params)
        assert not model.engine.learn_array(X, np.full(50, label), weights).any()
        assert model._field("scalars")[sampled_pairs.STEPS] == 0.0
        assert not model._field("v").any()


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_swapped_labels_turn_and_permuted_columns_permute_the_weights(loss: Any) -> None:
    X, y, weights = agreement.stream(300)
    order = np.random.default_rng(0).permutation(X.shape[1])
    one, swapped, permuted = (ASAM(loss=loss, capacity=20) for _ in range(3))
    one.engine.learn_array(X, y, weights)
    swapped.engine.learn_array(X, -y, weights)
    permuted.engine.learn_array(X[:, order], y, weights)
    agreement.close(swapped.coefficients(), -one.coefficients())
    agreement.close(permuted.coefficients(), one.coefficients()[order])


class TestCitizen:
    params: dict[str, Any] = {"loss": "squared_hinge", "policy": "random", "capacity": 9, "replay": 2}  # noqa: RUF012

    def test_splits(self) -> None:
        agreement.check_splits(lambda: ASAM(**self.params))

    def test_snapshot(self) -> None:
        agreement.check_snapshot(lambda: ASAM(**self.params))

    def test_skips(self) -> None:
        agreement.check_skips(lambda: ASAM(**self.params, kappa=1.0))

    def test_units(self) -> None:
        agreement.check_units(lambda: ASAM(**self.params))

    def test_rescaled(self) -> None:
        agreement.check_rescaled(lambda: ASAM(**self.params))


def test_a9a() -> None:
    assert abs(a9a_auc(ASAM()) - 0.9011) < 0.001  # five orders: .9012 ± .0004
    assert a9a_auc(ASAM(policy="fifo")) > 0.9010  # .9021 ± .0002
