"""Scaling that forgets, and the arctan of standardised values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics import roc_auc_score

from aucstream import SOLAM, Arctan, AutoScale, BoundedNorm, Pipeline, Standardize, UnitNorm, from_bytes
from aucstream.errors import InvalidParams
from aucstream.features.scaling.scalers import is_scaling, scaling_of, with_half_life, without_half_life
from aucstream.learners._base.capabilities import Capability
from aucstream.registry import LEARNERS, learner_class

from .test_scalers import X

FOLLOWERS = [name for name in LEARNERS if Capability.RUNNING_SCALER in learner_class(name)._capabilities]
HALF_LIFE = 40.0
LATER = X * [1.0, 100.0, 1.0, 0.01] + [0.0, 0.0, 7.0, 0.0]  # units and levels that have changed
STREAM = np.vstack([X, LATER])
NAMES = ["standard@40+bounded", "scale@40+bounded", "standard@40", "standard@40+l2", "standard+arctan+bounded"]
NAMES += ["standard@40+arctan+bounded", "scale+arctan+bounded"]


def change_rows(n: int) -> list[int]:
    """Return the row numbers (from 1) at which the applied values change, every fourth row at the latest."""
    rows, last = [], 0
    while True:
        last += 1 if last < 20 else min(-(-last // 10), int(HALF_LIFE // 10))
        if last > n:
            return rows
        rows.append(last)


def plain_applied(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (mean, deviation) of rows that fade, each cut at 10 deviations once there are 20."""
    keep = 2.0 ** (-1.0 / HALF_LIFE)
    n = 0.0
    mean, squares = np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
    low = high = mean
    for x in rows:
        n, squares = keep * n, keep * squares
        low, high = mean + math.sqrt(keep) * (low - mean), mean + math.sqrt(keep) * (high - mean)
        if n >= 20.0:
            reach = 10.0 * np.sqrt(squares / n)
            x = np.clip(x, mean - reach, mean + reach)
        low, high = (x, x) if n == 0.0 else (np.minimum(low, x), np.maximum(high, x))
        delta = x - mean
        mean = mean + delta / (n + 1.0)
        squares = squares + delta * (x - mean)
        n += 1.0
    relative = (squares / n / (high - low) ** 2).mean()
    return mean, np.sqrt((squares + 30.0 * relative * (high - low) ** 2) / (n + 30.0))


@pytest.mark.parametrize("n", [15, 21, 100, 300, 320, 600])
def test_it_equals_plain_numpy_at_the_last_change(n):
    mean, deviation = plain_applied(STREAM[: change_rows(n)[-1]])
    scaler = Standardize(half_life=HALF_LIFE).partial_fit(STREAM[:n])
    typical = mean + np.linspace(-3.0, 3.0, 7)[:, None] * deviation
    assert np.allclose(scaler.transform(typical), (typical - mean) / deviation, rtol=1e-8, atol=1e-8)


def test_a_half_life_beyond_the_stream_is_none():
    for made in (Standardize, AutoScale):
        forgets, keeps = made(half_life=1e13).partial_fit(X), made().partial_fit(X)
        assert np.allclose(forgets.transform(X), keeps.transform(X), rtol=1e-6, atol=1e-9)


def test_a_column_in_other_units_is_in_its_new_ones_after_some_half_lives():
    scaler = Standardize(half_life=HALF_LIFE).partial_fit(X)
    for _ in range(4):
        scaler.partial_fit(LATER)
    fresh = Standardize().partial_fit(LATER)
    assert np.abs(scaler.transform(LATER) - fresh.transform(LATER)).max() < 1.0
    stale = Standardize().partial_fit(X)
    for _ in range(4):
        stale.partial_fit(LATER)
    assert np.abs(stale.transform(LATER) - fresh.transform(LATER)).max() > 2.0


@pytest.mark.parametrize("half_life", [None, HALF_LIFE])
def test_the_arctan_comes_between_deviation_and_norm(half_life):
    standard = Standardize(half_life=half_life).partial_fit(X)
    z = np.arctan(standard.transform(X))
    assert np.allclose(Arctan().partial_fit(X).transform(standard.transform(X)), z, rtol=1e-15)
    name = with_half_life("standard+arctan+bounded", half_life)
    model = Pipeline.from_spec({"algorithm": "solam", "scaler": name}).partial_fit(X, X[:, 0] > 0)
    k2 = model._stages.scaling.s[5]  # applied
    w = np.array(list(model.weights.values()))
    expected = z / np.sqrt(k2 + (z**2).sum(axis=1))[:, None] @ w
    assert np.allclose(model.decision_function(X), expected, rtol=1e-9, atol=1e-12)


def test_indicators_pass_the_arctan_unchanged():
    assert Arctan().transform_one({"word": "a", "flag": True, "x": 1.0}) == {
        "word=a": 1.0,
        "flag": 1.0,
        "x": math.atan(1),
    }


@pytest.mark.parametrize("name", NAMES)
def test_buffered_rows_are_carried_over_exactly_or_as_far_as_their_norm_allows(name):
    block = _blocks(STREAM)
    scaling, kinds = scaling_of(name), np.ones(4, dtype=np.uint8)
    changes = 0
    for i in range(len(STREAM)):
        row = block(i, i + 1)
        if scaling.rows_until_change() > 1:
            _, norms = scaling.forward(row, kinds)
            scaling.observe(row, norms, np.zeros(1), kinds)
            continue
        kept = block(max(0, i - 20), i + 1)
        before, _ = scaling.forward(kept, kinds)
        change = scaling.change(row, kinds)
        after, _ = scaling.forward(kept, kinds)
        if i < 30:
            continue
        idx = np.tile(np.arange(4), len(kept))
        _, _, carried = change.carry_rows(kept.indptr, idx, before)
        if name.endswith("l2"):  # the length is lost: the direction stays about where it was
            assert np.isfinite(carried).all()
        else:
            exact = (np.abs(before) < 9.9) | ("+" in name)  # a value cut at 10 deviations is what is kept of it
            assert np.allclose(carried[exact], after[exact], rtol=1e-6, atol=1e-6)
        changes += 1
    assert changes > 10


def _blocks(rows):
    from aucstream.block import Block, Form

    def block(start, stop):
        n = stop - start
        part = np.ascontiguousarray(rows[start:stop]).ravel()
        return Block(np.arange(0, 4 * n + 1, 4), None, part, np.ones(n), np.ones(n), 4, Form.DENSE)

    return block


def test_linear_units_change_exactly_where_the_deviation_shrinks():
    block, kinds = _blocks(np.vstack([LATER, X])), np.ones(4, dtype=np.uint8)
    scaling = scaling_of("standard@40")
    probe = block(5, 30)
    for i in range(600):
        row = block(i, i + 1)
        if scaling.rows_until_change() > 1:
            _, norms = scaling.forward(row, kinds)
            scaling.observe(row, norms, np.zeros(1), kinds)
            continue
        before = scaling.forward(probe, kinds)[0].reshape(-1, 4)
        change = scaling.change(row, kinds)
        after = scaling.forward(probe, kinds)[0].reshape(-1, 4)
        inside = (np.abs(before) < 9.0) & (np.abs(after) < 9.0)  # beyond, values are cut
        if i > 3:
            assert np.allclose(before[inside], (change.ratio * after + change.shift)[inside], rtol=1e-9, atol=1e-9)
            assert (change.growth == np.maximum(change.ratio, 1.0)).all()
            assert (change.shrink >= 1.0).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("learner", ["psam", "opauc", "ftrl"])
def test_any_split_the_loop_and_a_resumed_model_give_the_same_bits(name, learner):
    y = STREAM[:, 0] > 0
    spec = {"algorithm": learner, "scaler": name}
    whole = Pipeline.from_spec(spec)
    scores = whole.engine.learn_array(STREAM, y)
    split = Pipeline.from_spec(spec)
    parts = []
    for start, stop in [(0, 1), (1, 7), (7, 150), (150, 151), (151, 600)]:
        parts.append(split.engine.learn_array(STREAM[start:stop], y[start:stop]))
        split = from_bytes(split.to_bytes())
    assert np.concatenate(parts).tobytes() == scores.tobytes()
    assert split.resolved == {"scaler": name}
    rows = [dict(enumerate(row)) for row in STREAM.tolist()]
    named, loop = Pipeline.from_spec(spec), Pipeline.from_spec(spec)
    expected = np.asarray(named.engine.learn_rows(rows, np.where(y, 1.0, -1.0)))
    for row, label, score in zip(rows, y.tolist(), expected.tolist(), strict=True):
        assert loop.score_one(row) == score
        loop.learn_one(row, label)
    assert np.allclose(expected, scores, rtol=1e-9, atol=1e-12)


def test_sparse_rows_forget_as_dense_ones_that_are_not_centred():
    random = np.random.default_rng(0)
    rows = np.where(random.random(STREAM.shape) < 0.4, 0.0, STREAM)
    dense = Standardize(with_mean=False, half_life=HALF_LIFE).partial_fit(rows)
    arrays = Standardize(with_mean=False, half_life=HALF_LIFE).partial_fit(sparse.csr_array(rows))
    assert np.allclose(arrays.transform(sparse.csr_array(rows)).toarray(), dense.transform(rows), rtol=0.2, atol=0.2)


@given(st.sampled_from(["auto", "standard+bounded", "scale", "standard+arctan+bounded"]), st.floats(1.0, 1e12))
def test_a_name_says_its_half_life_exactly(name, half_life):
    assert without_half_life(with_half_life(name, half_life)) == (name, half_life)


@pytest.mark.parametrize(
    "name",
    [
        *("l2@30", "none@30", "standard@", "standard@0.5", "standard@1e999", "standard@nan", "standard@-3", "arctan"),
        *("standard+arctan", "standard+arctan+l2", "bounded@5", "standard+bounded@30", "standard@1.2.3", "spam"),
    ],
)
def test_other_names_are_refused(name):
    assert not is_scaling(name)
    with pytest.raises(ValueError, match="scaler"):
        Pipeline.from_spec({"algorithm": "solam", "scaler": name})


def test_steps_make_the_pipeline_of_the_name_and_auto_resolves_to_one_that_forgets():
    y = STREAM[:, 0] > 0
    made = {
        "standard@40+bounded": [Standardize(half_life=40), BoundedNorm()],
        "scale@40": [Standardize(with_mean=False, half_life=40)],
        "standard@2.5+l2": [Standardize(half_life=2.5), UnitNorm()],
        "standard@40+arctan+bounded": [Standardize(half_life=40), Arctan(), BoundedNorm()],
        "auto@40": [AutoScale(half_life=40)],
    }
    for name, steps in made.items():
        by_hand = Pipeline(*steps, SOLAM())
        assert by_hand._scaler_name == name
        if name != "scale@40":
            by_name = Pipeline.from_spec({"algorithm": "solam", "scaler": name})
            assert by_name.engine.learn_array(STREAM, y).tobytes() == by_hand.engine.learn_array(STREAM, y).tobytes()
            assert from_bytes(by_hand.to_bytes()).resolved == by_name.resolved
    assert Pipeline(AutoScale(half_life=40), SOLAM()).partial_fit(X, X[:, 0] > 0).resolved == {
        "scaler": "standard@40+bounded"
    }
    assert Pipeline(AutoScale(half_life=40), SOLAM()).partial_fit(sparse.csr_array(X), X[:, 0] > 0).resolved == {
        "scaler": "scale@40+bounded"
    }
    with pytest.raises(InvalidParams, match=r"^Pipeline: expected scalers AutoScale, or "):
        Pipeline(Arctan(), SOLAM())
    for wrong in (0.5, math.inf, math.nan, "3", True):
        for scaler in (Standardize, AutoScale):
            with pytest.raises(InvalidParams, match="half_life: expected a number of at least 1, or None"):
                scaler(half_life=wrong)


def unit_stream(seed: int, by: float) -> tuple[np.ndarray, np.ndarray]:
    """Return (X, y): two columns of equal use, the second in other units from row 10,000 on."""
    random = np.random.default_rng(seed)
    y = random.random(14_000) < 0.3
    rows = random.normal(size=(14_000, 2)) + 1.5 * y[:, None]
    rows[10_000:, 1] *= by
    return rows, y


# Old rows count in the covariances of these for ever, and in the new units the column was all but constant in them.
SLOW = {"opauc": 0.02, "adaoam": 0.02}


@pytest.mark.parametrize("name", FOLLOWERS)
def test_a_unit_that_changes_is_followed(name):
    aucs = {}
    for by in (1.0, 10.0, 1000.0):
        rows, y = unit_stream(0, by)
        scores = Pipeline.from_spec({"algorithm": name, "scaler": "auto@1000"}).engine.learn_array(rows, y)
        aucs[by] = roc_auc_score(y[13_000:], scores[13_000:])
    assert aucs[10.0] > aucs[1.0] - SLOW.get(name, 0.01), aucs
    assert aucs[1000.0] > aucs[1.0] - SLOW.get(name, 0.01), aucs


@pytest.mark.parametrize("name", FOLLOWERS)
def test_a_unit_that_shrinks_refuses_no_row(name):
    rows, y = unit_stream(1, 1e-3)
    scores = Pipeline.from_spec({"algorithm": name, "scaler": "auto@100"}).engine.learn_array(rows, y)
    assert np.isfinite(scores).all()
    assert np.abs(scores).max() < 1e6
    assert roc_auc_score(y[13_000:], scores[13_000:]) > 0.75  # of one column .86, of both .93
