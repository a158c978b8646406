"""MiniBatchAUC: equal to its reference step by step, its sums those of all pairs, and a good citizen."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.minibatch import MiniBatchAUC as Plain

from aucstream import MiniBatchAUC, from_bytes
from aucstream.learners import minibatch

from . import agreement
from .real import a9a_auc

VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "hinge-small": {"batch": 7, "lam": 0.3, "seed": 3},
    "squared": {"loss": "squared", "batch": 20, "eta0": 0.5},
    "squared-drawn": {"loss": "squared", "batch": 2, "average": False, "eta0": 0.1},
    "hinge-drawn": {"batch": 3, "eta0": 0.2},
    "hinge-literal": {"kappa": 2.0, "batch": 10, "eta0": 1e-3, "lam": 900.0},  # folds
}
each_variant = pytest.mark.parametrize("params", VARIANTS.values(), ids=VARIANTS.keys())


def rows_of(model: MiniBatchAUC, first: int, count: int, d: int) -> np.ndarray:
    """Return `count` kept rows from the slot `first` on, dense."""
    slots, idx, val = (model._field(name) for name in ("slots", "pool_idx", "pool_val"))
    out = np.zeros((count, d))
    for k, (start, length, _) in enumerate(slots[first : first + count]):
        out[k, idx[start : start + length]] = val[start : start + length]
    return out


@each_variant
@pytest.mark.parametrize("form", agreement.FORMS)
def test_equals_the_reference(params: dict[str, Any], form: str) -> None:
    model, plain = agreement.check_agreement(MiniBatchAUC, Plain, params, form, n=730)
    scalars = model._field("scalars")
    assert [scalars[minibatch.STEPS], scalars[minibatch.FILLED]] == [plain.t, len(plain.rows)]
    assert [scalars[minibatch.SEEN_POS], scalars[minibatch.SEEN_NEG]] == [plain.pos.seen, plain.neg.seen]
    assert int(model._field("generator")[0]) == plain.rng.state
    if form in ("dense", "csr"):
        d, batch = plain.w.size, model.batch
        agreement.close(scalars[minibatch.SCALE] * model._field("v")[:d], plain.w, "iterate")
        assert scalars[minibatch.REACH] >= np.linalg.norm(plain.w) * (1 - 1e-9)
        for first, rows in ((0, plain.pos.rows), (batch, plain.neg.rows), (2 * batch, plain.rows)):
            agreement.close(rows_of(model, first, len(rows), d), np.reshape(rows, (len(rows), d)), "rows")


@settings(max_examples=60)
@given(
    rows=st.lists(
        st.tuples(st.integers(-4, 4), st.booleans(), st.sampled_from([0.25, 1.0, 3.0])), min_size=1, max_size=12
    )
)
def test_slopes_are_those_of_all_pairs(rows: list[tuple[int, bool, float]]) -> None:
    scores = np.array([score / 2.0 for score, _, _ in rows])  # margins of exactly 1 among them
    y = np.array([1.0 if positive else -1.0 for _, positive, _ in rows])
    weights = np.array([weight for _, _, weight in rows])
    for slopes, slope in (
        (minibatch.slopes_hinge, lambda m: -float(m < 1.0)),
        (minibatch.slopes_squared, lambda m: m - 1.0),
    ):
        expected = np.zeros(len(rows))
        for i in np.flatnonzero(y > 0):
            for j in np.flatnonzero(y < 0):
                s = weights[i] * weights[j] * slope(scores[i] - scores[j])
                expected[i] += s
                expected[j] -= s
        out = np.full(len(rows), np.nan)
        slopes(scores, y, weights, out)
        np.testing.assert_allclose(out, expected, atol=1e-12)


@each_variant
def test_one_class_moves_nothing_and_is_kept(params: dict[str, Any]) -> None:
    X, _, weights = agreement.stream(250)
    for label in (1.0, -1.0):
        model = MiniBatchAUC(**params)
        assert not model.engine.learn_array(X, np.full(250, label), weights).any()
        scalars = model._field("scalars")
        assert scalars[minibatch.STEPS] == 0.0
        assert scalars[minibatch.SEEN_POS if label > 0 else minibatch.SEEN_NEG] == 250 - 250 % model.batch
        assert not model._field("v").any()


@each_variant
def test_swapped_labels_turn_the_weights(params: dict[str, Any]) -> None:
    X, y, weights = agreement.stream(300)
    one, other = MiniBatchAUC(**params), MiniBatchAUC(**params)
    one.engine.learn_array(X, y, weights)
    other.engine.learn_array(X, -y, weights)
    agreement.close(other.coefficients(), -one.coefficients())


@pytest.mark.parametrize("loss", ["hinge", "squared"])
def test_permuted_and_rotated_columns_permute_and_rotate_the_weights(loss: Any) -> None:
    X, y, weights = agreement.stream(300)
    order = np.random.default_rng(0).permutation(X.shape[1])
    Q = np.linalg.qr(np.random.default_rng(1).normal(size=(7, 7)))[0]
    one, permuted, rotated = (MiniBatchAUC(loss=loss, batch=10) for _ in range(3))
    one.engine.learn_array(X, y, weights)
    permuted.engine.learn_array(X[:, order], y, weights)
    rotated.engine.learn_array(X @ Q, y, weights)
    agreement.close(permuted.coefficients(), one.coefficients()[order])
    agreement.close(rotated.coefficients(), one.coefficients() @ Q)


def test_a_block_half_full_is_state() -> None:
    X, y, weights = agreement.stream(150)
    model = MiniBatchAUC()
    model.engine.learn_array(X[:60], y[:60], weights[:60])
    assert not model.coefficients().any()
    resumed = from_bytes(model.to_bytes())
    moved = copy.deepcopy(model)
    ratio, shift = 2.0 ** np.arange(-3.0, 4.0), np.arange(7.0)
    moved._change_units(agreement.change(ratio, shift))
    agreement.close(rows_of(moved, 200, 60, 7) * ratio + shift, rows_of(model, 200, 60, 7))
    for part in (model, resumed):
        part.engine.learn_array(X[60:], y[60:], weights[60:])
    agreement.same_state(model, resumed)
    assert model.coefficients().any()


@pytest.mark.parametrize("params", [{"batch": 12}, {"loss": "squared", "batch": 3}], ids=["hinge", "squared"])
class TestCitizen:
    def test_splits(self, params: dict[str, Any]) -> None:
        agreement.check_splits(lambda: MiniBatchAUC(**params))

    def test_snapshot(self, params: dict[str, Any]) -> None:
        agreement.check_snapshot(lambda: MiniBatchAUC(**params))

    def test_skips(self, params: dict[str, Any]) -> None:
        agreement.check_skips(lambda: MiniBatchAUC(**params, kappa=1.0))

    def test_units(self, params: dict[str, Any]) -> None:
        agreement.check_units(lambda: MiniBatchAUC(**params))

    def test_rescaled(self, params: dict[str, Any]) -> None:
        agreement.check_rescaled(lambda: MiniBatchAUC(**params))


def test_a9a() -> None:
    assert abs(a9a_auc(MiniBatchAUC()) - 0.8771) < 0.001  # five orders: .8771 ± .0004
    assert abs(a9a_auc(MiniBatchAUC(eta0=16.0, average=False)) - 0.9012) < 0.001  # .9012 ± .0002
