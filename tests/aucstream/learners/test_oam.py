"""OAM: equal to its reference step by step, and a good citizen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.oam import OAM as Plain

from aucstream import OAM
from aucstream.learners import oam

from . import agreement
from .test_psam import check_buffers

VARIANTS: dict[str, dict[str, Any]] = {
    "seq": {},
    "seq-small": {"capacity": 7, "C": 2.0, "seed": 3},
    "gra-fifo": {"update": "gra", "capacity": 20, "policy": "fifo"},
    "count-last": {"weighting": "count", "average": False, "capacity": 10, "policy": "random"},
    "gra-literal": {"update": "gra", "kappa": 2.0, "weighting": "count", "capacity": 7},
    "fading": {"half_life": 60.0, "capacity": 12, "weighting": "count"},
    "fading-fast": {"half_life": 1.0, "capacity": 12, "update": "gra"},
    "one": {"capacity": 1, "C": 0.5},
}
each_variant = pytest.mark.parametrize("params", VARIANTS.values(), ids=VARIANTS.keys())


@each_variant
@pytest.mark.parametrize("form", agreement.FORMS)
def test_equals_the_reference(params: dict[str, Any], form: str) -> None:
    model, plain = agreement.check_agreement(OAM, Plain, params, form, n=700)
    scalars = model._field("scalars")
    assert scalars[oam.STEPS] / oam.growth_of(scalars) == pytest.approx(plain.t, rel=1e-12)
    assert [scalars[oam.SEEN_POS], scalars[oam.SEEN_NEG]] == [plain.pos.seen, plain.neg.seen]
    check_buffers(model, plain, form)
    if form in ("dense", "csr"):
        v, u = model._field("v")[: plain.w.size], model._field("u")[: plain.w.size]
        agreement.close(v, plain.w, "iterate")
        agreement.close((scalars[oam.CUM] * v - u) / scalars[oam.STEPS], plain.wbar, "average")
        assert scalars[oam.REACH] >= np.linalg.norm(plain.w) * (1 - 1e-9)


@each_variant
def test_one_class_moves_nothing(params: dict[str, Any]) -> None:
    X, _, weights = agreement.stream(50)
    for label in (1.0, -1.0):
        model = OAM(**params)
        assert not model.engine.learn_array(X, np.full(50, label), weights).any()
        assert model._field("scalars")[oam.STEPS] == 0.0
        assert not model._field("v").any()


@each_variant
def test_swapped_labels_turn_the_weights(params: dict[str, Any]) -> None:
    X, y, weights = agreement.stream(300)
    one, other = OAM(**params), OAM(**params)
    one.engine.learn_array(X, y, weights)
    other.engine.learn_array(X, -y, weights)
    agreement.close(other.coefficients(), -one.coefficients())


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), update=st.sampled_from(["seq", "gra"]))
def test_permuted_columns_permute_the_weights(seed: int, update: Any) -> None:
    X, y, weights = agreement.stream(60, seed=seed)
    order = np.random.default_rng(seed).permutation(X.shape[1])
    one, other = OAM(update=update, capacity=5), OAM(update=update, capacity=5)
    one.engine.learn_array(X, y, weights)
    other.engine.learn_array(X[:, order], y, weights)
    agreement.close(other.coefficients(), one.coefficients()[order])


@pytest.mark.parametrize("update", ["seq", "gra"])
def test_a_column_that_never_differs_gets_no_weight(update: Any) -> None:
    X, y, weights = agreement.stream(200)
    X[:, 3] = 1.0
    model = OAM(update=update, kappa=1.0)
    model.engine.learn_array(X, y, weights)
    assert model.coefficients()[3] == 0.0
    assert model.coefficients().any()


@pytest.mark.parametrize(
    "params", [{"capacity": 12}, {"update": "gra", "policy": "random", "capacity": 9}], ids=["seq", "gra"]
)
class TestCitizen:
    def test_splits(self, params: dict[str, Any]) -> None:
        agreement.check_splits(lambda: OAM(**params))

    def test_snapshot(self, params: dict[str, Any]) -> None:
        agreement.check_snapshot(lambda: OAM(**params))

    def test_skips(self, params: dict[str, Any]) -> None:
        agreement.check_skips(lambda: OAM(**params, kappa=1.0))

    def test_units(self, params: dict[str, Any]) -> None:
        agreement.check_units(lambda: OAM(**params))

    def test_rescaled(self, params: dict[str, Any]) -> None:
        agreement.check_rescaled(lambda: OAM(**params))
