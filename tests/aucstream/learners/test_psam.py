"""PSAM: equal to its reference step by step, equal to Algorithm 1 in its limit, and a good citizen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.psam import PSAM as Plain
from reference.psam import psam_batch
from scipy import sparse

from aucstream import PSAM, from_bytes
from aucstream.errors import InvalidParams
from aucstream.kernels.pairs import sampled_pairs

from . import agreement

VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "reservoir": {"capacity": 12, "askip": 7},
    "fifo-replay": {"capacity": 20, "policy": "fifo", "fresh": 2, "replay": 2, "askip": 3, "seed": 9},
    "random-rskip": {"capacity": 15, "policy": "random", "rskip": 1, "t0": 0.0, "lam": 1e-2},
    "folding": {"fresh": 15, "t0": 0.0, "lam": 1e-2, "capacity": 50},
    "literal": {"kappa": 2.0, "lam": 1e-6, "t0": 3.0},
    "replay-only": {"fresh": 0, "replay": 3, "capacity": 25},
    "fading": {"half_life": 60.0, "capacity": 12, "t0": 5.0, "lam": 1e-2, "replay": 1},
    "fading-fast": {"half_life": 1.0, "capacity": 12, "askip": 3, "rskip": 5},
    "no-average-yet": {"askip": 10**6, "fresh": 1},
}
each_variant = pytest.mark.parametrize("params", VARIANTS.values(), ids=VARIANTS.keys())


def check_buffers(model: Any, plain: Any, form: str) -> None:
    """Assert that buffers, their counts and the generator are the reference's."""
    assert int(model._field("generator")[0]) == plain.rng.state
    slots, idx, val = (model._field(name) for name in ("slots", "pool_idx", "pool_val"))
    for first, buffer in ((0, plain.pos), (model.capacity, plain.neg)):
        for k, row in enumerate(buffer.rows):
            start, length = slots[first + k, :2]
            if form in ("dense", "csr"):
                ours = np.zeros(row.size)
                ours[idx[start : start + length]] = val[start : start + length]
                agreement.close(ours, row)
            else:
                ours = val[start : start + length]
                agreement.close(np.sort(ours[ours != 0.0]), np.sort(row[row != 0.0]))
    assert not model._field("dense").any()


@each_variant
@pytest.mark.parametrize("form", agreement.FORMS)
def test_equals_the_reference(params: dict[str, Any], form: str) -> None:
    model, plain = agreement.check_agreement(PSAM, Plain, params, form)
    scalars = model._field("scalars")
    averaged = scalars[sampled_pairs.AVERAGED] / sampled_pairs.growth_of(scalars)
    assert [scalars[sampled_pairs.STEPS], averaged] == pytest.approx([plain.t, plain.q], rel=1e-12)
    assert [scalars[sampled_pairs.RCOUNT], scalars[sampled_pairs.ACOUNT]] == [plain.rcount, plain.acount]
    assert [scalars[sampled_pairs.SEEN_POS], scalars[sampled_pairs.SEEN_NEG]] == [plain.pos.seen, plain.neg.seen]
    check_buffers(model, plain, form)
    if form in ("dense", "csr"):
        agreement.close(scalars[sampled_pairs.SCALE] * model._field("v")[: plain.w.size], plain.w, "iterate")
        assert scalars[sampled_pairs.REACH] >= np.linalg.norm(plain.w) * (1 - 1e-9)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize(
    "params",
    [{}, {"lam": 1e-2, "t0": 0.0, "rskip": 5, "askip": 3, "seed": 4, "kappa": 2.0}],
    ids=["default", "other"],
)
def test_fit_is_algorithm_1(params: dict[str, Any], form: Any) -> None:
    X, y, _ = agreement.stream(400)
    model = PSAM(**params).fit(form(X), y, epochs=3)
    w, output = psam_batch(X, y, 1200, **params)
    agreement.close(model.coefficients(), output, "output")
    scalars = model._field("scalars")
    agreement.close(scalars[sampled_pairs.SCALE] * model._field("v")[: w.size], w, "iterate")
    assert scalars[sampled_pairs.STEPS] == 1200
    assert model.examples == 400
    assert model.engine.calibration_line is not None
    model.partial_fit(form(X), y)  # goes on from there
    assert model.examples == 800


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_streaming_with_room_and_replay_alone_is_fit_bit_for_bit(form: Any) -> None:
    X, y, _ = agreement.stream(400)
    fitted = PSAM().fit(form(X), y, epochs=2)
    streamed = PSAM(fresh=0, capacity=400)
    assert not streamed.engine.learn_array(form(X), y).any()
    lam, t0, rskip, askip, *_ = streamed._kernel_params
    arrays = dict(zip(streamed._program.parts, streamed._arrays, strict=True))
    unit = float(np.sqrt(streamed._ledger[2]))
    sampled_pairs.replay_pairs(*arrays.values(), 800, lam, t0, rskip, askip, 400, sampled_pairs.PROX, unit)
    np.testing.assert_array_equal(streamed.coefficients(), fitted.coefficients())
    for name in ("v", "u"):
        np.testing.assert_array_equal(streamed._field(name), fitted._field(name))


def test_fit_of_one_class_and_bad_epochs() -> None:
    X, y, _ = agreement.stream(40)
    assert not PSAM().fit(X, np.ones(40)).coefficients().any()
    with pytest.raises(InvalidParams, match="epochs"):
        PSAM().fit(X, y, epochs=0)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), lam=st.sampled_from([1e-6, 1e-2, 1.0, 50.0]))
def test_a_pair_step_is_the_proximal_step(seed: int, lam: float) -> None:
    rng = np.random.default_rng(seed)
    model = PSAM(lam=lam, t0=1.0, rskip=10**6, askip=10**6, fresh=1, kappa=1.0, capacity=1, policy="fifo")
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
        moved, after = model._field("v")[:3] - before, model._field("v")[:3] @ z
        theta = (moved @ z) / (eta * (z @ z))  # moved / eta is theta z, theta a subgradient at the new point
        np.testing.assert_allclose(moved, theta * eta * z, atol=1e-12)
        assert -1e-12 <= theta <= 1.0 + 1e-12
        assert after <= 1.0 + 1e-9 or not moved.any()
        assert after >= 1.0 - 1e-9 or theta >= 1.0 - 1e-9


def test_one_class_moves_nothing() -> None:
    X, _, weights = agreement.stream(50)
    for label in (1.0, -1.0):
        model = PSAM(replay=2)
        assert not model.engine.learn_array(X, np.full(50, label), weights).any()
        assert model._field("scalars")[sampled_pairs.STEPS] == 0.0
        assert not model._field("v").any()


def test_permuted_columns_permute_the_weights() -> None:
    X, y, weights = agreement.stream(300)
    order = np.random.default_rng(0).permutation(X.shape[1])
    one, other = PSAM(), PSAM()
    one.engine.learn_array(X, y, weights)
    other.engine.learn_array(X[:, order], y, weights)
    agreement.close(other.coefficients(), one.coefficients()[order])


def test_seeds() -> None:
    X, y, _ = agreement.stream(200)
    runs = [PSAM(seed=seed, capacity=10).partial_fit(X, y).coefficients() for seed in (0, 0, 1)]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])
    drawn = PSAM(seed=None)
    assert drawn.seed is None
    assert PSAM(seed=None)._seed != drawn._seed


def test_penalty_may_change() -> None:
    model = PSAM()
    model.lam = 1e-3
    assert model._kernel_params[:2] == (1e-3, 1e3)
    with pytest.raises(AttributeError):
        model.capacity = 3


@pytest.mark.parametrize(
    "params",
    [{"capacity": 12}, {"policy": "random", "capacity": 9, "replay": 2, "rskip": 2}],
    ids=["reservoir", "random"],
)
class TestCitizen:
    def test_splits(self, params: dict[str, Any]) -> None:
        agreement.check_splits(lambda: PSAM(**params))

    def test_snapshot(self, params: dict[str, Any]) -> None:
        agreement.check_snapshot(lambda: PSAM(**params))

    def test_skips(self, params: dict[str, Any]) -> None:
        agreement.check_skips(lambda: PSAM(**params, kappa=1.0))

    def test_units(self, params: dict[str, Any]) -> None:
        agreement.check_units(lambda: PSAM(**params))

    def test_rescaled(self, params: dict[str, Any]) -> None:
        agreement.check_rescaled(lambda: PSAM(**params))


def test_a_half_life_follows_a_stream_that_turns_around() -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(24_000, 3))
    y = X[:, 0] + 0.5 * random.normal(size=24_000) > 0.0
    y[20_000:] = ~y[20_000:]
    after = {}
    for half_life in (None, 300.0):
        scores = PSAM(half_life=half_life).engine.learn_array(X, y)
        after[half_life] = float(np.corrcoef(scores[22_000:], y[22_000:])[0, 1])
    assert after[300.0] > 0.6 > 0.0 > after[None]


def test_a_fading_reservoir_holds_rows_by_what_they_count_for() -> None:
    """A row in it is as old as a geometric law says: of the rows of a class half are younger than the half-life."""
    n, half_life = 60_000, 2000.0
    rows = np.column_stack([np.arange(float(n)), np.zeros(n)])
    model = PSAM(fresh=0, capacity=400, half_life=half_life, kappa=1e9)
    model.engine.learn_array(rows, np.arange(n) % 2 == 0)
    slots, val = model._field("slots"), model._field("pool_val")
    ages = n - val[slots[:-1, 0]]
    assert np.median(ages) == pytest.approx(half_life, rel=0.15)


def test_a_half_life_beyond_the_stream_is_none_and_a_resumed_model_goes_on_to_the_last_bit() -> None:
    X, y, w = agreement.stream(600)
    whole, none = PSAM(half_life=1e13, capacity=1000), PSAM(capacity=1000)
    agreement.close(whole.engine.learn_array(X, y, w), none.engine.learn_array(X, y, w))
    never = PSAM(half_life=7.0, capacity=20)
    never.engine.learn_array(X, y, w)
    resumed = PSAM(half_life=7.0, capacity=20)
    resumed.engine.learn_array(X[:300], y[:300], w[:300])
    resumed = from_bytes(resumed.to_bytes())
    resumed.engine.learn_array(X[300:], y[300:], w[300:])
    assert resumed.to_bytes() == never.to_bytes()
