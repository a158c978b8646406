"""SOLAM: equal to its reference step by step, inside its sets, and a good citizen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.solam import SOLAM as Plain

from aucstream import SOLAM
from aucstream.kernels.weights import l1ball, saddle

from . import agreement

VARIANTS: dict[str, dict[str, Any]] = {
    "l2": {},
    "l2-small": {"R": 0.4},
    "l2-literal": {"R": 5.0, "kappa": 20.0, "cap": 1e-3},
    "l2-fading": {"half_life": 60.0},
    "l2-fading-fast": {"half_life": 1.0, "R": 0.4},
    "l1-fading": {"half_life": 60.0, "norm": "l1", "R": 0.3},
    "l1-fading-fast": {"half_life": 1.0, "norm": "l1", "R": 0.3},
    "l1": {"norm": "l1"},
    "l1-small": {"norm": "l1", "R": 0.3},
    "l1-tiny": {"norm": "l1", "R": 0.02, "zeta": 3.0, "kappa": 1.0, "cap": 0.01},
}
each_variant = pytest.mark.parametrize("params", VARIANTS.values(), ids=VARIANTS.keys())


def iterate(model: SOLAM) -> np.ndarray:
    """Return the last iterate."""
    if model.norm == "l2":
        return model._field("v") * model._field("scalars")[saddle.SCALE]
    th = model._field("ball")[l1ball.TH]
    z = model._field("z")
    return np.sign(z) * np.where(z == 0.0, 0.0, np.abs(z) - th)


@each_variant
@pytest.mark.parametrize("form", agreement.FORMS)
def test_equals_the_reference(params: dict[str, Any], form: str) -> None:
    model, plain = agreement.check_agreement(SOLAM, Plain, params, form)
    scalars = model._field("scalars")
    agreement.close(scalars[[saddle.A, saddle.B, saddle.ALPHA]], [plain.a, plain.b, plain.alpha])
    if form in ("dense", "csr"):
        w = iterate(model)[: plain.w.size]
        agreement.close(w, plain.w)
        if model.norm == "l1":
            np.testing.assert_array_equal(w == 0.0, plain.w == 0.0)


@each_variant
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), scale=st.sampled_from([1e-8, 1.0, 1e6]))
def test_stays_inside_its_sets(params: dict[str, Any], seed: int, scale: float) -> None:
    X, y, weights = agreement.stream(60, seed=seed)
    model = SOLAM(**params)
    R = model._kernel_params[0]
    order = 1 if model.norm == "l1" else 2
    for i in range(60):
        model.engine.learn_array(scale * X[i : i + 1], y[i : i + 1], weights[i : i + 1])
        kappa = model.kappa or 1.0
        unit = 1.0 if model.kappa else np.sqrt(model._ledger[2])
        a, b, alpha = model._field("scalars")[[saddle.A, saddle.B, saddle.ALPHA]]
        assert np.linalg.norm(iterate(model), order) * unit <= R * (1 + 1e-9)
        assert max(abs(a), abs(b), abs(alpha) / 2) <= R * kappa


@each_variant
def test_one_class_moves_nothing(params: dict[str, Any]) -> None:
    X, _, weights = agreement.stream(50)
    for label in (1.0, -1.0):
        model = SOLAM(**params)
        assert not model.engine.learn_array(X, np.full(50, label), weights).any()
        assert not iterate(model).any()


@each_variant
def test_swapped_labels_turn_the_weights(params: dict[str, Any]) -> None:
    X, y, weights = agreement.stream(300)
    one, other = SOLAM(**params), SOLAM(**params)
    one.engine.learn_array(X, y, weights)
    other.engine.learn_array(X, -y, weights)
    agreement.close(other.coefficients(), -one.coefficients())


@pytest.mark.parametrize("params", [{"norm": "l2", "R": 0.4}, {"norm": "l1", "R": 0.3}], ids=["l2", "l1"])
class TestCitizen:
    def test_splits(self, params: dict[str, Any]) -> None:
        agreement.check_splits(lambda: SOLAM(**params))

    def test_snapshot(self, params: dict[str, Any]) -> None:
        agreement.check_snapshot(lambda: SOLAM(**params))

    def test_skips(self, params: dict[str, Any]) -> None:
        agreement.check_skips(lambda: SOLAM(**params, kappa=1.0))

    def test_units(self, params: dict[str, Any]) -> None:
        agreement.check_units(lambda: SOLAM(**params))

    def test_rescaled(self, params: dict[str, Any]) -> None:
        agreement.check_rescaled(lambda: SOLAM(**params))


@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_a_half_life_follows_a_stream_that_turns_around(norm: Any) -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(24_000, 3))
    y = X[:, 0] + 0.5 * random.normal(size=24_000) > 0.0
    y[20_000:] = ~y[20_000:]
    after = {}
    for half_life in (None, 300.0):
        scores = SOLAM(norm=norm, half_life=half_life).engine.learn_array(X, y)
        after[half_life] = float(np.corrcoef(scores[22_000:], y[22_000:])[0, 1])
    assert after[300.0] > 0.6 > 0.0 > after[None]
