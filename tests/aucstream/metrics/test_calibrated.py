"""Log loss, Brier score, calibration error: equal to scikit-learn on every window, the same however rows are grouped."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import datasets, evaluate, metrics
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss, log_loss

import aucstream
from aucstream import AutoScale, Pipeline
from aucstream.errors import BadSnapshot, InvalidBlock, InvalidLabel, InvalidParams
from aucstream.metrics import Brier, ExpectedCalibrationError, LogLoss, reliability

PROBABILITIES = [0.0, 1e-300, 1e-9, 0.1, 0.2, 0.25, 0.3, 0.5, 0.7, 0.999, 1.0]
ROWS = st.lists(st.tuples(st.booleans(), st.sampled_from(PROBABILITIES)), min_size=1, max_size=60)
KINDS = [LogLoss, Brier, ExpectedCalibrationError]


def expected(kind, labels, p):
    labels, p = np.array(labels), np.array(p)
    if kind is LogLoss:
        return log_loss(labels, p, labels=[False, True])
    if kind is Brier:
        return brier_score_loss(labels, p, labels=[False, True], pos_label=True)
    observed, predicted = calibration_curve(labels, p, n_bins=10) if len(set(labels)) == 2 else by_hand(labels, p)
    where = np.searchsorted(np.linspace(0.0, 1.0, 11)[1:-1], p)
    rows = np.bincount(where)
    return (np.abs(observed - predicted) * rows[rows > 0]).sum() / labels.size


def by_hand(labels, p):
    """scikit-learn refuses labels of one class."""
    where = np.searchsorted(np.linspace(0.0, 1.0, 11)[1:-1], p)
    bins = np.unique(where)
    return np.array([labels[where == b].mean() for b in bins]), np.array([p[where == b].mean() for b in bins])


def drawn(n, seed=0, skill=1.0):
    random = np.random.default_rng(seed)
    p = random.beta(0.6, 2.0, size=n)
    return random.random(n) < p**skill, p


@pytest.mark.parametrize("kind", KINDS)
@given(rows=ROWS, window=st.integers(1, 30))
@settings(max_examples=60, deadline=None)
def test_every_window_equals_scikit_learn(kind, rows, window):
    metric, stream = kind(window=window), kind()
    for k, (label, p) in enumerate(rows):
        metric.update(label, p)
        stream.update(label, {False: 1.0 - p, True: p})
        if k % 7:
            continue
        last = rows[max(0, k + 1 - window) : k + 1]
        assert metric.get() == pytest.approx(expected(kind, *zip(*last, strict=True)), rel=1e-12, abs=1e-12)
        assert stream.get() == pytest.approx(expected(kind, *zip(*rows[: k + 1], strict=True)), rel=1e-12, abs=1e-12)
        low, high = metric.interval()
        assert math.isnan(low) or low - 1e-12 <= metric.get() <= high + 1e-12
        assert (metric.examples, metric.positives) == (len(last), sum(label for label, _ in last))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("window", [None, 700, 5000])
def test_groupings_reads_and_copies_do_not_change_what_follows(kind, window):
    labels, p = drawn(9000)
    whole, parts = kind(window=window), kind(window=window)
    whole.update_many(labels, p)
    at = 0
    for size in (1, 2, 500, 511, 513, 3000):
        parts.update_many(labels[at : at + size], p[at : at + size])
        parts.get()
        at += size
    arrays, meta = parts.state_dict()
    twins = [parts, copy.deepcopy(parts), pickle.loads(pickle.dumps(parts)), kind.from_state_dict(arrays, meta)]
    for twin in twins:
        for label, probability in zip(labels[at:].tolist(), p[at:].tolist(), strict=True):
            twin.update(label, probability)
        assert (twin.get(), twin.interval()) == (whole.get(), whole.interval())
        assert (twin.examples, twin.positives) == (whole.examples, whole.positives)
    rows = slice(None) if window is None else slice(-window, None)
    assert whole.get() == pytest.approx(expected(kind, labels[rows], p[rows]), rel=1e-12)


def test_a_long_stream_does_not_drift():
    labels, p = drawn(400_000)
    metric = LogLoss()
    metric.update_many(labels, p)
    losses = -np.log(
        np.where(labels, np.clip(p, 2.220446049250313e-16, 1.0), np.clip(1.0 - p, 2.220446049250313e-16, 1.0))
    )
    assert metric.get() == pytest.approx(math.fsum(losses) / labels.size, rel=1e-14)


def test_reliability_equals_scikit_learns_curve():
    labels, p = drawn(3000, skill=1.5)
    observed, predicted = calibration_curve(labels, p, n_bins=7)
    metric = ExpectedCalibrationError(bins=7, window=3000)
    metric.update_many(labels, p)
    for table in (reliability(labels, p, bins=7), metric.curve()):
        assert np.allclose(table.observed, observed, rtol=0.0, atol=1e-12)
        assert np.allclose(table.predicted, predicted, rtol=0.0, atol=1e-12)
        assert table.rows.sum() == 3000


@pytest.mark.parametrize(("kind", "n"), [(LogLoss, 50), (LogLoss, 1000), (Brier, 50), (Brier, 1000)])
def test_intervals_of_losses_hold(kind, n):
    many = drawn(1_000_000, seed=9)
    truth = kind()
    truth.update_many(*many)
    held = 0
    for seed in range(300):
        metric = kind(window=n)
        metric.update_many(*drawn(n, seed=seed))
        low, high = metric.interval()
        held += low <= truth.get() <= high
    assert held >= 0.9 * 300


@pytest.mark.parametrize(("n", "skill"), [(200, 1.0), (5000, 1.0), (200, 1.6), (5000, 1.6)])
def test_intervals_of_the_calibration_error_hold_with_and_without_an_error(n, skill):
    random = np.random.default_rng(5)
    p = random.beta(0.6, 2.0, size=2_000_000)
    where = np.searchsorted(np.linspace(0.0, 1.0, 11)[1:-1], p)
    truth = np.abs(np.bincount(where, p**skill - p)).sum() / p.size
    held = 0
    for seed in range(200):
        metric = ExpectedCalibrationError(window=n)
        metric.update_many(*drawn(n, seed=seed, skill=skill))
        low, high = metric.interval()
        held += low <= truth + 1e-12 <= high + 1e-12
    assert held >= 180


@pytest.mark.parametrize("kind", [LogLoss, Brier])
def test_a_loss_that_was_never_seen_is_allowed_for(kind):
    metric = kind(window=100)
    metric.update_many([0] * 100, [1e-6] * 100)
    low, high = metric.interval()
    assert high - metric.get() > 0.03
    assert metric.get() - low < 1e-3
    half = LogLoss()
    half.update_many([0, 1] * 50, [0.5] * 100)
    assert half.interval() == pytest.approx((math.log(2.0), math.log(2.0)), abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_river_takes_it_as_a_metric(kind):
    model, twin = (Pipeline(AutoScale(), aucstream.PSAM()) for _ in range(2))
    metric = kind(window=400)
    evaluate.progressive_val_score(datasets.Phishing().take(600), model, metric + metrics.LogLoss(), print_every=200)
    labels, p = [], []
    for x, y in datasets.Phishing().take(600):
        labels.append(y)
        p.append(twin.predict_proba_one(x)[True])
        twin.learn_one(x, y)
    assert metric.get() == pytest.approx(expected(kind, labels[-400:], p[-400:]), abs=1e-12)
    fresh = metric.clone()
    assert fresh._get_params() == metric._get_params()
    assert (fresh.examples, fresh.ready) == (0, False)
    assert math.isnan(fresh.get())
    assert all(map(math.isnan, fresh.interval()))
    assert not metric.bigger_is_better
    assert not metric.requires_labels
    worse = kind()
    worse.update_many([0, 1], [1.0, 0.0])
    assert metric > worse
    with pytest.raises(NotImplementedError, match=rf"{kind.__name__}\(window=n\)"):
        metric.revert(True, 0.5)


@pytest.mark.parametrize("kind", KINDS)
def test_bad_rows_change_nothing(kind):
    metric = kind()
    for bad in (1.5, -0.1, math.nan, "0.5", None, {True: 2.0}):
        with pytest.raises(InvalidBlock, match=rf"{kind.__name__}\.update: expected a probability"):
            metric.update(True, bad)
    with pytest.raises(InvalidBlock, match=rf"{kind.__name__}\.update_many: expected probabilities.*at row 1"):
        metric.update_many([1, 0], [0.5, 1.5])
    with pytest.raises(InvalidBlock, match="one dimension"):
        metric.update_many([1, 0], [[0.5, 0.5]])
    with pytest.raises(InvalidLabel):
        metric.update("yes", 0.5)
    assert metric.examples == 0
    metric.update_many([1, 0], [{True: 0.5}, 0.25])
    assert metric.examples == 2


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_states_are_refused(kind):
    metric = kind(window=5)
    metric.update_many([1, 0], [0.5, 0.25])
    arrays, meta = metric.state_dict()
    for damage in (
        {"probabilities": np.array([0.5, 1.5])},
        {"labels": np.array([1, 2], dtype=np.uint8)},
        {"sums": arrays["sums"] * math.nan},
        {"probabilities": np.zeros(6), "labels": np.zeros(6, dtype=np.uint8)},
    ):
        with pytest.raises(BadSnapshot, match=kind.__name__):
            kind.from_state_dict({**arrays, **damage}, meta)
    for damage in ({"window": 0}, {"blocks": -1}, {"positives": "3"}):
        with pytest.raises(BadSnapshot, match=kind.__name__):
            kind.from_state_dict(arrays, {**meta, **damage})


@pytest.mark.parametrize("bins", [0, -1, 2.5, True, "10", None, 10_001])
def test_bad_bins(bins):
    with pytest.raises(InvalidParams, match=r"ExpectedCalibrationError\.bins"):
        ExpectedCalibrationError(bins)
    with pytest.raises(InvalidParams, match=r"reliability\.bins"):
        reliability([0, 1], [0.5, 0.5], bins)
