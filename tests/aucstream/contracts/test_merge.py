"""Two models become one: exactly where the algorithm has sums, else as the documented average."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from aucstream import AutoScale, Pipeline
from aucstream.errors import CannotMerge
from aucstream.kernels.pairs.buffers import LENGTH
from aucstream.learners._base.capabilities import Capability
from aucstream.learners._base.learner import Learner
from aucstream.registry import make

from .models import (
    assert_finite,
    bare,
    can,
    learners,
    state,
    stream,
    variants,
)


def halves(variant, n: int = 240, m: int = 120) -> tuple[Learner, Learner]:
    """Return two models of named rows; the second knows c3 and c4, the first c0 to c3."""
    X, y = stream(n + m, d=5)
    one, other = bare(variant), bare(variant)
    for i, (row, label) in enumerate(zip(X.tolist(), y.tolist(), strict=True)):
        named = {f"c{j}": value for j, value in enumerate(row)}
        if i < n:
            one.learn_one({name: value for name, value in named.items() if name != "c4"}, label)
        else:
            other.learn_one({name: named[name] for name in ("c4", "c3", "c0")}, label)
    return one, other


@variants(Capability.APPROXIMATE_MERGE)
def test_an_approximate_merge_averages_weights_by_rows_and_name(variant):
    one, other = halves(variant)
    before, theirs = one.weights, other.weights
    kept = state(other)
    merged = one.merge(other, approximate=True)
    assert merged is one
    assert state(other) == kept
    assert (one.examples, one.positives) == (360, halves(variant)[0].positives + other.positives)
    if can(variant, Capability.EXACT_MERGE):
        return
    expected = {
        name: (240 * before.get(name, 0.0) + 120 * theirs.get(name, 0.0)) / 360
        for name in ("c0", "c1", "c2", "c3", "c4")
    }
    assert one.weights == pytest.approx(expected, rel=1e-9, abs=1e-12)
    if one._program.intercept:
        first, second = halves(variant)
        assert one.intercept_ == pytest.approx((240 * first.intercept_ + 120 * second.intercept_) / 360, rel=1e-9)


@variants(Capability.APPROXIMATE_MERGE)
def test_a_merged_model_goes_on_learning_and_is_saved(variant):
    one, other = halves(variant, 120, 240)  # the larger one comes in
    one.merge(other, approximate=True)
    X, y = stream(300, d=5, seed=3)
    for row, label in zip(X.tolist(), y.tolist(), strict=True):
        one.learn_one({f"c{j}": value for j, value in enumerate(row)}, label)
    assert_finite(one)
    scores = np.array([one.score_one({"c0": value}) for value in (-1.0, 1.0)])
    assert scores[1] > scores[0]
    assert one.examples == 660


@variants(Capability.APPROXIMATE_MERGE)
def test_merging_with_a_model_that_learned_nothing_changes_no_weight(variant):
    one, _ = halves(variant)
    before = one.weights
    one.merge(bare(variant), approximate=True)
    assert one.weights == pytest.approx(before, rel=1e-12)
    fresh = bare(variant)
    fresh.merge(one, approximate=True)
    assert fresh.weights == pytest.approx(before, rel=1e-9)


@learners(Capability.APPROXIMATE_MERGE)
def test_what_is_not_exact_must_be_asked_for_and_a_refusal_changes_nothing(name):
    one, other = halves(name)
    if not can(name, Capability.EXACT_MERGE):
        kept = state(one)
        with pytest.raises(CannotMerge, match="approximate=True"):
            one.merge(other)
        assert state(one) == kept
    step = sorted(type(one)._steps_and_penalties)[0]
    apart = copy.deepcopy(other)
    setattr(apart, step, 0.5 * getattr(apart, step) if getattr(apart, step) else 0.25)
    for wrong in (apart, make("solam" if name != "solam" else "psam", {})):
        kept = state(one)
        with pytest.raises(CannotMerge):
            one.merge(wrong, approximate=True)
        assert state(one) == kept
    with pytest.raises(CannotMerge, match="running scaler"):
        Pipeline(AutoScale(), one).partial_fit([[1.0]], [1]).merge(Pipeline(AutoScale(), one), approximate=True)


@pytest.mark.parametrize("name", ["psam", "oam"])
def test_merged_reservoirs_hold_each_row_with_equal_probability(name):
    held = np.zeros(2)
    for seed in range(200):
        one, other = (make(name, {"capacity": 8, "seed": seed + 1000 * k}) for k in range(2))
        # values tell the rows of each model apart
        one.partial_fit(np.full((60, 1), 1.0), np.arange(60) % 2)
        other.partial_fit(np.full((20, 1), 2.0), np.arange(20) % 2)
        one.merge(other, approximate=True)
        slots, _, val = one._arrays[one._pool_at : one._pool_at + 3]
        rows = val[: slots[:-1, LENGTH].sum()]
        assert rows.size == 16
        held += [(rows == 1.0).sum(), (rows != 1.0).sum()]
    share = held[0] / held.sum()
    assert abs(share - 0.75) < 4 * np.sqrt(0.75 * 0.25 / held.sum())


@variants()
def test_a_learner_that_does_not_merge_says_so_and_stays_as_it_is(variant):
    if can(variant, Capability.EXACT_MERGE) or can(variant, Capability.APPROXIMATE_MERGE):
        one, other = halves(variant)
        assert one.merge(other, approximate=True).examples == 360
        return
    for approximate in (False, True):
        one, other = halves(variant)
        before = state(one), state(other)
        with pytest.raises(CannotMerge, match=r"merge: expected a learner that merges"):
            one.merge(other, approximate=approximate)
        assert (state(one), state(other)) == before
