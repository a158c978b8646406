"""Sums, random draws, row scales, buffers, the l1 ball, calibration."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aucstream.kernels import ledger
from aucstream.kernels.auc.calibration import probabilities, sigmoid
from aucstream.kernels.pairs import buffers
from aucstream.kernels.random import below, seeded
from aucstream.kernels.rows import finite, linear
from aucstream.kernels.rows.arrival import count_example
from aucstream.kernels.rows.row_scale import next_scale, store_scale
from aucstream.kernels.weights import l1ball
from aucstream.learners._base.calibrated import new_ledger

pytestmark = pytest.mark.plain_python

FINITE = st.floats(-1e3, 1e3)


@given(st.lists(FINITE, max_size=13), st.integers(0, 99))
def test_sums_over_dense_and_sparse_rows_are_the_same_bits(values, seed):
    random = np.random.default_rng(seed)
    x = np.array(values, dtype=float)
    w, u = random.normal(size=x.size + 3), random.normal(size=x.size + 3)
    idx = np.arange(x.size)
    assert linear.dot(None, x, w) == linear.dot(idx, x, w) == pytest.approx(x @ w[: x.size], rel=1e-12, abs=1e-9)
    assert linear.dot2(None, x, w, u) == (linear.dot(None, x, w), linear.dot(None, x, u))
    assert linear.sqnorm(x) == pytest.approx(x @ x, rel=1e-12)
    assert linear.norm(x) == pytest.approx(np.linalg.norm(x), rel=1e-12)
    a, b, c = w.copy(), w.copy(), u.copy()
    linear.axpy(idx, x, 0.5, a)
    linear.axpy2(None, x, 0.5, b, 2.0, c)
    assert a.tolist() == b.tolist()
    assert np.allclose(a[: x.size], w[: x.size] + 0.5 * x)
    assert np.allclose(c[: x.size], u[: x.size] + 2.0 * x)


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1.0, 1e200, 1e300])
def test_a_norm_neither_overflows_nor_vanishes(scale):
    assert linear.norm(np.array([3.0, 4.0]) * scale) == pytest.approx(5.0 * scale, rel=1e-12)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_found_wherever_it_is(bad):
    for k in range(9):
        values = np.ones(9)
        assert finite.all_finite(values)
        values[k] = bad
        assert not finite.all_finite(values)


def test_draws_are_uniform_and_a_function_of_the_seed():
    state, again, other = seeded(3), seeded(3), seeded(4)
    draws = [below(state, 7) for _ in range(7000)]
    counts = np.bincount(draws, minlength=7)
    assert counts.sum() == 7000
    assert ((counts - 1000) ** 2 / 1000).sum() < 22.5  # chi-square of 6 at 0.1 %
    assert draws == [below(again, 7) for _ in range(7000)]
    assert draws[:20] != [below(other, 7) for _ in range(20)]
    assert len({seeded(seed)[0] for seed in (0, 1, -1, 2**64, 2**70 + 1)}) >= 3


def test_the_row_scale_is_a_running_root_mean_square_that_cuts_and_may_start_anew():
    numbers = np.zeros(ledger.SIZE)
    mean, lengths = 0.0, [1.0, 2.0, 0.5, 0.0, 100.0, 1.0]
    n = 0
    for length in lengths:
        scale, factor, square, rows = next_scale(numbers, length, 0.0)
        if length:
            entering = min(length, 2 * math.sqrt(mean)) if n else length
            n += 1
            mean += (entering**2 - mean) / n
            assert scale == pytest.approx(math.sqrt(mean), rel=1e-12)
            assert factor == pytest.approx(min(1.0, 2 * scale / length), rel=1e-12)
        store_scale(numbers, square, rows)
    numbers = np.zeros(ledger.SIZE)
    store_scale(numbers, *next_scale(numbers, 1e9, 0.0)[2:])
    scale, *_ = next_scale(numbers, 1.0, 0.0)
    assert scale == 1.0  # a first giant is forgotten
    assert next_scale(numbers, 5.0, 3.0)[:2] == (3.0, 1.0)


def test_a_reservoir_holds_each_row_equally_often_and_a_fifo_the_last():
    kept = np.zeros(40)
    for seed in range(2000):
        generator, held = seeded(seed), [-1] * 5
        for t in range(40):
            slot = buffers.chosen_slot(generator, t + 1, min(t, 5), 5, buffers.RESERVOIR)
            if slot >= 0:
                held[slot] = t
        kept[held] += 1
    assert kept.sum() == 10_000
    assert np.abs(kept - 250).max() < 5 * math.sqrt(250)
    generator, held = seeded(0), [-1] * 5
    for t in range(23):
        held[buffers.chosen_slot(generator, t + 1, min(t, 5), 5, buffers.FIFO)] = t
    assert sorted(held) == [18, 19, 20, 21, 22]


@given(st.lists(st.tuples(st.integers(0, 4), st.lists(st.integers(0, 9), unique=True, max_size=6)), max_size=60))
def test_stored_rows_are_what_was_stored_last_whatever_the_order(writes):
    slots = np.zeros((6, 3), dtype=np.int64)
    pool_idx, pool_val = np.zeros(36, dtype=np.int64), np.zeros(36)
    plain = {}
    for number, (slot, columns) in enumerate(writes):
        x = np.arange(len(columns)) + number + 1.0
        buffers.store(slot, np.array(columns, dtype=np.int64), x, 2.0, slots, pool_idx, pool_val)
        plain[slot] = (columns, (2.0 * x).tolist())
        for k, row in plain.items():
            start, length = slots[k, 0], slots[k, 1]
            assert (pool_idx[start : start + length].tolist(), pool_val[start : start + length].tolist()) == row


@given(st.lists(st.tuples(st.integers(0, 4), FINITE), min_size=1, max_size=60), st.floats(0.01, 5.0))
def test_the_l1_ball_equals_a_plain_projection_after_every_step(steps, radius):
    d = 5
    z, total, gam_at, psi_at = (np.zeros(d) for _ in range(4))
    heap_key, heap_idx = np.zeros(2 * d + 64), np.zeros(2 * d + 64, dtype=np.int64)
    ball, plain = np.zeros(l1ball.SIZE), np.zeros(d)
    for j, c in steps:
        l1ball.move(np.array([j]), np.array([1.0]), c, z, total, gam_at, psi_at, heap_key, heap_idx, ball)
        l1ball.project(radius, 1, z, total, gam_at, psi_at, heap_key, heap_idx, ball)
        plain[j] += c
        if np.abs(plain).sum() > radius:
            low, high = 0.0, np.abs(plain).max()
            for _ in range(200):
                middle = (low + high) / 2
                low, high = (middle, high) if np.maximum(np.abs(plain) - middle, 0).sum() > radius else (low, middle)
            plain = np.sign(plain) * np.maximum(np.abs(plain) - high, 0.0)
        got = np.array([l1ball.weight_of(value, ball[l1ball.TH]) for value in z])
        assert np.allclose(got, plain, rtol=1e-9, atol=1e-9 * max(1.0, radius))


def calibrated(scores, labels, weights=None, rules=ledger.FIRST_RULES):
    numbers = new_ledger(rules)
    for k, (s, y) in enumerate(zip(scores, labels, strict=True)):
        count_example(numbers, s, 1.0 if y else -1.0, 1.0 if weights is None else weights[k])
    return numbers


def line(numbers):
    return numbers[ledger.CAL_SLOPE] / math.sqrt(numbers[ledger.CAL_RMS2]), numbers[ledger.CAL_INTERCEPT]


def logistic(n, slope, intercept, seed=0, unit=1.0):
    random = np.random.default_rng(seed)
    scores = random.normal(size=n)
    return scores * unit, random.random(n) < 1.0 / (1.0 + np.exp(-(slope * scores + intercept)))


@pytest.mark.parametrize("rules", [ledger.FIRST_RULES, ledger.NEW_RULES])
@pytest.mark.parametrize("unit", [1e-6, 0.1, 1.0, 1e6])
@pytest.mark.parametrize(("slope", "intercept"), [(1.0, 0.0), (3.0, -2.0), (0.5, -4.0)])
def test_calibration_finds_the_true_line_in_any_unit_of_the_scores(slope, intercept, unit, rules):
    scores, labels = logistic(40_000, slope, intercept, unit=unit)
    got_slope, got_intercept = line(calibrated(scores, labels, rules=rules))
    assert got_slope * unit == pytest.approx(slope, abs=0.25)
    assert got_intercept == pytest.approx(intercept, abs=0.25)


@pytest.mark.parametrize("rules", [ledger.FIRST_RULES, ledger.NEW_RULES])
def test_weights_correct_negatives_that_were_left_out(rules):
    scores, labels = logistic(120_000, 2.0, -3.0)
    random = np.random.default_rng(5)
    kept = labels | (random.random(labels.size) < 0.1)
    weights = np.where(labels, 1.0, 10.0)[kept]
    plain = line(calibrated(scores[kept], labels[kept], rules=rules))
    corrected = line(calibrated(scores[kept], labels[kept], weights, rules))
    assert plain[1] == pytest.approx(-3.0 + math.log(10.0), abs=0.3)
    assert corrected[1] == pytest.approx(-3.0, abs=0.3)


@pytest.mark.parametrize("rules", [ledger.FIRST_RULES, ledger.NEW_RULES])
def test_the_slope_stays_positive_when_scores_rank_backwards(rules):
    scores, labels = logistic(5000, -2.0, 0.0)
    numbers = calibrated(scores, labels, rules=rules)
    assert line(numbers)[0] > 0.0
    out = np.empty(3)
    probabilities(numbers, np.array([-1.0, 0.0, 1.0]), out)
    assert out[0] <= out[1] <= out[2]


@pytest.mark.parametrize("rules", [ledger.FIRST_RULES, ledger.NEW_RULES])
def test_calibration_follows_a_shift_of_the_scores(rules):
    scores, labels = logistic(60_000, 2.0, 0.0)
    scores = scores + np.where(np.arange(60_000) < 30_000, 0.0, 5.0)
    slope, intercept = line(calibrated(scores, labels, rules=rules))
    assert -intercept / slope == pytest.approx(5.0, abs=0.3)


def test_until_both_classes_are_seen_all_probabilities_of_the_first_rules_are_one_half():
    numbers = calibrated([1.0, 2.0], [True, True])
    out = np.empty(2)
    probabilities(numbers, np.array([-5.0, 5.0]), out)
    assert out.tolist() == [0.5, 0.5]


def test_the_sigmoid_never_overflows():
    assert sigmoid(1e308) == 1.0
    assert sigmoid(-1e308) == 0.0
    assert sigmoid(0.0) == 0.5
