"""AUC over a window and over a stream."""

from __future__ import annotations

import copy
import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import datasets, dummy, evaluate, linear_model, metrics, preprocessing, stats
from sklearn.metrics import roc_auc_score, roc_curve

from aucstream.errors import BadSnapshot, InvalidBlock, InvalidLabel, InvalidParams
from aucstream.metrics import AUC, ScoredProbabilities
from aucstream.metrics import stream as stream_module
from aucstream.snapshot import pack, unpack

from . import plain

WINDOWS = [None, 7, 1000]
ROWS = st.lists(st.tuples(st.booleans(), st.sampled_from([-1e300, -2.5, -0.0, 0.0, 1e-300, 0.3, 7.0])), max_size=80)


def filled(window, labels, scores):
    metric = AUC(window=window)
    metric.update_many(labels, scores)
    return metric


def drawn(n, share=0.3, seed=0, digits=1):
    random = np.random.default_rng(seed)
    labels = random.random(n) < share
    return labels, np.round(random.normal(size=n) + labels, digits)


def str_of(value):
    return str(value)[:12]


# Values known beforehand


@pytest.mark.parametrize("window", WINDOWS)
def test_m2_ties_count_one_half(window):
    assert filled(window, [False, True], [0.3, 0.3]).get() == 0.5
    assert filled(window, [0, 1] * 50, [0.7] * 100).get() == 0.5


def test_m1_rare_positives_are_ranked_exactly_on_probabilities_and_raw_scores():
    labels, scores = drawn(20_000, share=0.01, digits=9)
    scores = scores + labels
    exact = roc_auc_score(labels, scores)
    calibrated = 1 / (1 + np.exp(-(scores - 6.5)))
    for window in (None, 20_000):
        assert abs(filled(window, labels, scores).get() - exact) < 1e-12
        assert abs(filled(window, labels, calibrated).get() - exact) < 1e-12


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("labels", [[], [1, 1], [0, 0]])
def test_m3_nan_and_not_ready_until_both_classes_are_there(window, labels):
    metric = filled(window, labels, np.arange(float(len(labels))))
    assert math.isnan(metric.get())
    assert not metric.ready
    assert all(map(math.isnan, (*metric.interval(), metric.standard_error())))
    assert repr(metric) == "AUC: nan%"
    assert metric.roc().thresholds[0] == np.inf


def test_not_ready_again_when_a_class_has_left_the_window():
    metric = filled(3, [1, 0, 0], [1, 2, 3])
    assert metric.ready
    metric.update(0, 4.0)
    assert not metric.ready
    assert math.isnan(metric.get())


@pytest.mark.parametrize("window", WINDOWS)
def test_m5_interval_oracle(window):
    metric = filled(window, [1, 1, 1, 0, 0, 0, 0], [0.9, 0.7, 0.4, 0.1, 0.3, 0.5, 0.4])
    assert metric.get() == 0.875
    assert round(metric.standard_error(), 6) == 0.148293
    low, high = metric.interval()
    assert (round(low, 5), high) == (0.58435, 1.0)
    low, high = metric.interval(level=0.5)
    assert high - low == pytest.approx(2 * 0.6744897501960817 * 0.148293, rel=1e-5)


# Against scikit-learn and plain definitions


@given(ROWS, st.integers(1, 30))
@settings(max_examples=80, deadline=None)
def test_every_window_equals_scikit_learn(rows, window):
    metric = AUC(window=window)
    for k, (label, score) in enumerate(rows):
        metric.update(label, score)
        labels, scores = zip(*rows[max(0, k + 1 - window) : k + 1], strict=True)
        if k % 3:  # one row or several at a time to the kernel
            continue
        value = metric.get()
        assert metric.examples == len(labels)
        assert metric.positives == sum(labels)
        if len(set(labels)) == 2:
            assert value == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)
        else:
            assert math.isnan(value)


def test_a_read_after_every_row_equals_one_at_the_end():
    labels, scores = drawn(3000, digits=2)
    metric, twin = AUC(window=1500), AUC(window=1500)
    for label, score in zip(labels.tolist(), scores.tolist(), strict=True):
        metric.update(label, score)
        value = metric.get()
    twin.update_many(labels, scores)
    assert value == twin.get() == pytest.approx(roc_auc_score(labels[-1500:], scores[-1500:]), abs=1e-14)
    for number, (label, score) in enumerate(zip(*drawn(900, digits=2), strict=True)):
        for each in (metric, twin):  # one has slid, the other was made at once: both go on equally
            each.update(label, score)
        if number % 7 == 0 or number > 800:
            assert metric.get() == twin.get()
    for one, other in zip(metric.roc() + metric._store.rows(), twin.roc() + twin._store.rows(), strict=True):
        assert np.array_equal(one, other)
    assert metric.interval() == twin.interval()


@given(ROWS)
@settings(max_examples=60, deadline=None)
def test_a_stream_of_few_scores_is_exact(rows):
    metric = AUC()
    for label, score in rows:
        metric.update(label, score)
    labels, scores = [r[0] for r in rows], [r[1] for r in rows]
    assert metric.error_bound == 0.0
    assert metric.examples == len(rows)
    if len(set(labels)) == 2:
        assert metric.get() == pytest.approx(plain.auc(labels, scores), abs=1e-12)
        if 2 <= sum(labels) <= len(labels) - 2:
            assert metric.standard_error() == pytest.approx(plain.delong(labels, scores), abs=1e-12)


@pytest.mark.parametrize("window", [None, 400])
@pytest.mark.parametrize("digits", [0, 1, 9])
def test_interval_equals_plain_delong(window, digits):
    labels, scores = drawn(400, digits=digits)
    metric = filled(window, labels, scores)
    assert metric.standard_error() == pytest.approx(plain.delong(labels, scores), rel=1e-10)
    low, high = metric.interval(0.9)
    half = 1.6448536269514722 * plain.delong(labels, scores)
    assert (low, high) == pytest.approx((metric.get() - half, metric.get() + half), rel=1e-10)


@pytest.mark.parametrize("window", [None, 300])
@pytest.mark.parametrize("digits", [0, 1, 9])
def test_roc_equals_scikit_learn(window, digits):
    labels, scores = drawn(700, digits=digits)
    roc = filled(window, labels, scores).roc()
    if window:
        labels, scores = labels[-window:], scores[-window:]
    for ours, theirs in zip(roc, roc_curve(labels, scores, drop_intermediate=False), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-15)
    assert roc._fields == ("fpr", "tpr", "thresholds")


def test_a_window_never_drifts():
    labels, scores = drawn(30_000, digits=2)
    metric = AUC(window=100)
    for start in range(0, 30_000, 1000):
        metric.update_many(labels[start : start + 1000], scores[start : start + 1000])
        tail = slice(start + 900, start + 1000)
        assert metric.get() == pytest.approx(roc_auc_score(labels[tail], scores[tail]), abs=1e-15)


# The bound of the whole stream


def orders(n):
    """Yield (name, scores): orders and scales that make a summary suffer."""
    random = np.random.default_rng(5)
    k = np.arange(n)
    side = np.where(k % 2 == 0, 1.0, -1.0)
    x = random.normal(size=n)
    yield "normal", x
    yield "sorted", np.sort(x)
    yield "reversed", np.sort(x)[::-1]
    yield "zoom in on 0", side * np.exp(-600.0 * k / n)
    yield "zoom out of 0", side * np.exp(600.0 * k / n - 300)
    yield "zoom in on 1", 1 + side * np.exp(-30.0 * k / n)
    yield "bimodal", 1e-3 * x + 1e6 * (random.random(n) < 0.5)
    yield "all scales", side * 10.0 ** random.uniform(-300, 300, n)
    yield "all equal", np.full(n, 3.7)
    yield "discrete", random.integers(0, 50, n) / 50
    yield "ties and tails", np.where(random.random(n) < 0.5, 0.25, x)
    yield "comb", (k % 547) * 1e6 + k // 547


@pytest.mark.parametrize("share", [0.5, 0.01])
def test_the_error_of_a_stream_is_within_its_bound_and_1e_4(share):
    n = 200_000
    for name, scores in orders(n):
        random = np.random.default_rng(6)
        ranks = np.argsort(np.argsort(scores)) / n
        for kind, chance in (("no signal", share), ("signal", 2 * share * ranks)):
            labels = random.random(n) < chance
            metric = AUC()
            worst = 0.0
            for start in range(0, n, 100_000):
                metric.update_many(labels[start : start + 100_000], scores[start : start + 100_000])
                upto = slice(0, start + 100_000)
                error = abs(metric.get() - plain.ranked_auc(labels[upto], scores[upto]))
                assert error <= metric.error_bound + 1e-12, (name, kind)
                assert metric.error_bound <= 1e-4, (name, kind)
                worst = max(worst, error)
            if name in ("all equal", "discrete"):
                assert metric.error_bound == 0.0
                assert worst < 1e-12
            used = max(metric._store.pos.size, metric._store.neg.size)
            assert used <= 70_000, (name, kind, used)


def test_classes_that_come_one_after_the_other_stay_within_the_bound():
    random = np.random.default_rng(7)
    labels = np.repeat([1, 0], [100_000, 200_000])
    scores = random.normal(size=300_000) + 0.5 * labels
    metric = filled(None, labels, scores)
    assert abs(metric.get() - plain.ranked_auc(labels, scores)) <= metric.error_bound <= 1e-4


def test_an_adversary_that_sees_the_summary_does_not_break_the_bound():
    random = np.random.default_rng(8)
    metric = AUC()
    all_labels, all_scores = [], []
    scores = random.normal(size=8192)
    for _ in range(40):
        labels = random.random(8192) < np.linspace(0.2, 0.8, 8192)
        scores = np.sort(scores)
        metric.update_many(labels, scores)
        all_labels.append(labels)
        all_scores.append(scores)
        # Everything next goes into the widest gap of the negatives.
        part = metric._store.neg
        width = part.counts[1 : part.size, 0] + part.counts[1 : part.size, 2]
        at = int(np.argmax(width * (np.diff(part.values[: part.size]) > 1e-12)))
        scores = part.values[at] + (part.values[at + 1] - part.values[at]) * random.random(8192)
    exact = plain.ranked_auc(np.concatenate(all_labels), np.concatenate(all_scores))
    assert abs(metric.get() - exact) <= metric.error_bound <= 1e-4


def test_past_the_limit_memory_is_kept_and_the_bound_says_so(monkeypatch):
    monkeypatch.setattr(stream_module, "EXACT", 2000)
    monkeypatch.setattr(stream_module, "LIMIT", 2000)
    labels, scores = drawn(100_000, digits=12)
    metric = filled(None, labels, scores)
    assert metric._store.neg.size <= 2000 + 8192
    assert 1e-4 < metric.error_bound < 1e-2
    assert abs(metric.get() - plain.ranked_auc(labels, scores)) <= metric.error_bound


def test_roc_of_a_long_stream_is_near_the_exact_one():
    labels, scores = drawn(200_000, digits=12)
    metric = filled(None, labels, scores)
    assert metric.error_bound > 0
    fpr, tpr, thresholds = metric.roc()
    assert (fpr[0], tpr[0], fpr[-1], tpr[-1]) == (0, 0, 1, 1)
    assert (np.diff(fpr) >= 0).all()
    assert (np.diff(tpr) >= 0).all()
    for rates, part in ((tpr, scores[labels]), (fpr, scores[~labels])):
        exact = 1 - np.searchsorted(np.sort(part), thresholds[1:], side="left") / part.size
        assert np.abs(rates[1:] - exact).max() <= metric.error_bound
    window = filled(200_000, labels, scores)
    assert metric.standard_error() == pytest.approx(window.standard_error(), rel=1e-3)


# Reading changes nothing; states


def all_reads(metric):
    return [metric.get(), metric.interval(), metric.standard_error(), metric.error_bound, metric.examples]


@pytest.mark.parametrize("window", [None, 5000])
def test_reads_and_groupings_do_not_change_what_follows(window):
    labels, scores = drawn(60_000, digits=12, share=0.2)
    quiet, read, single = (AUC(window=window) for _ in range(3))
    quiet.update_many(labels, scores)
    for start in range(0, 60_000, 777):
        read.update_many(labels[start : start + 777], scores[start : start + 777])
        all_reads(read)
        read.roc()
    for label, score in zip(labels.tolist(), scores.tolist(), strict=True):
        single.update(label, score)
    states = [metric.state_dict() for metric in (quiet, read, single)]
    for arrays, meta in states[1:]:
        assert meta == states[0][1]
        assert all(np.array_equal(arrays[name], states[0][0][name]) for name in states[0][0])
    assert all_reads(quiet) == all_reads(read) == all_reads(single)


def twins(metric):
    arrays, meta = metric.state_dict()
    arrays, meta = unpack(pack(arrays, json.loads(json.dumps(meta))))
    yield AUC.from_state_dict(arrays, meta)
    yield pickle.loads(pickle.dumps(metric))
    yield copy.deepcopy(metric)


@pytest.mark.parametrize("window", [None, 10, 5000])
@pytest.mark.parametrize("n", [0, 1, 700, 70_000])
def test_a_restored_metric_goes_on_to_the_last_bit(window, n):
    labels, scores = drawn(n, digits=12)
    more_labels, more_scores = drawn(20_000, digits=12, seed=1)
    metric = filled(window, labels, scores)
    metric.update(True, 0.5)
    copies = list(twins(metric))
    metric.update_many(more_labels, more_scores)
    for twin in copies:
        twin.update_many(more_labels, more_scores)
        np.testing.assert_equal(all_reads(twin), all_reads(metric))
        for ours, theirs in zip(twin.roc(), metric.roc(), strict=True):
            assert np.array_equal(ours, theirs)


def test_a_state_is_not_tied_to_the_metric():
    metric = filled(None, [1, 0, 1], [0.1, 0.2, 0.3])
    arrays, meta = metric.state_dict()
    twin = AUC.from_state_dict(arrays, meta)
    metric.update(0, 0.9)
    for array in arrays.values():
        array[...] = 0
    assert twin.get() == 0.5


@pytest.mark.parametrize("window", [None, 5])
def test_damaged_states_are_refused(window):
    arrays, meta = filled(window, [1, 0, 1, 0], [0.1, 0.2, 0.3, 0.4]).state_dict()
    with pytest.raises(BadSnapshot, match="window"):
        AUC.from_state_dict(arrays, {**meta, "window": -1})
    with pytest.raises(BadSnapshot, match="window"):
        AUC.from_state_dict(arrays, {})
    for name, array in arrays.items():
        with pytest.raises(BadSnapshot, match="AUC"):
            AUC.from_state_dict({**arrays, name: array[:-1]}, meta)
        with pytest.raises(BadSnapshot, match=name):
            AUC.from_state_dict({**arrays, name: array.astype(np.float32)}, meta)
        with pytest.raises(BadSnapshot, match=name):
            AUC.from_state_dict({k: v for k, v in arrays.items() if k != name}, meta)


# Input


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize(
    "bad", [math.nan, math.inf, -math.inf, "0.5", None, {True: math.nan}, [1.0], 10**400], ids=str_of
)
def test_bad_scores_change_nothing(window, bad):
    metric = filled(window, [1, 0], [0.4, 0.2])
    with pytest.raises(InvalidBlock, match=r"AUC\.update: expected a"):
        metric.update(True, bad)
    with pytest.raises(ValueError, match=r"AUC\.update_many: expected"):
        metric.update_many([1, 0], [0.1, bad])
    assert (metric.examples, metric.positives, metric.get()) == (2, 1, 1.0)


def test_the_message_names_value_and_row():
    with pytest.raises(InvalidBlock, match=r"AUC\.update: expected a finite score, got nan"):
        AUC().update(1, float("nan"))
    with pytest.raises(InvalidBlock, match=r"AUC\.update_many: expected finite scores, got inf - at row 1"):
        AUC().update_many([1, 0], [0.0, np.inf])
    with pytest.raises(InvalidBlock, match="one dimension"):
        AUC().update_many([1, 0], [[0.0, 1.0]])


@pytest.mark.parametrize("bad", [2, "yes", None, 0.5, [1], math.nan])
def test_bad_labels_change_nothing(bad):
    metric = AUC()
    with pytest.raises(InvalidLabel, match="got"):
        metric.update(bad, 0.5)
    with pytest.raises(ValueError, match="expected"):
        metric.update_many([1, 0 if isinstance(bad, list) else bad], [0.5] if isinstance(bad, list) else [0.5, 0.6])
    with pytest.raises(InvalidBlock, match="one label for each"):
        metric.update_many([1], [0.5, 0.6])
    assert metric.examples == 0


@pytest.mark.parametrize("window", [0, -3, 2.5, True, "10", math.nan])
def test_bad_windows(window):
    with pytest.raises(InvalidParams, match=r"AUC\.window: expected a whole number >= 1"):
        AUC(window=window)


@pytest.mark.parametrize("level", [0.0, 1.0, -1, math.nan, "0.9"])
def test_bad_levels(level):
    with pytest.raises(InvalidParams, match=r"AUC\.interval\.level"):
        filled(None, [1, 0], [1, 0]).interval(level)


@pytest.mark.parametrize("one", [True, 1, 1.0, np.True_, np.int64(1), np.float32(1)])
@pytest.mark.parametrize("zero", [False, 0, 0.0, -1, -1.0, np.False_, np.int8(-1)])
def test_all_labels_and_scores_that_numbers_can_be(one, zero):
    metric = AUC()
    metric.update(one, np.float32(0.5))
    metric.update(zero, False, w=3.0)
    metric.update(zero, 1)
    assert metric.get() == 0.5
    assert metric.positives == 1


def test_scores_of_any_array_like_are_taken_without_a_change():
    labels, scores = drawn(50)
    base = filled(20, labels, scores)
    given_ = np.repeat(scores, 2)[::2]
    given_.flags.writeable = False
    for form in (scores.tolist(), given_, scores.astype(np.float32).astype(float)):
        other = filled(20, labels.astype(float) * 2 - 1, form)
        assert other.get() == pytest.approx(base.get(), abs=1e-2)


# River


def test_dicts_are_ranked_by_score_where_they_carry_one():
    metric = AUC()
    metric.update(True, ScoredProbabilities(1.0, score=50.0))
    metric.update(False, ScoredProbabilities(1.0, score=40.0))
    assert metric.get() == 1.0
    metric = AUC()
    metric.update(True, {False: 0.1, True: 0.9})
    metric.update(False, {False: 0.3, True: 0.7})
    metric.update(False, {False: 1.0})
    assert metric.get() == 1.0


def test_many_takes_dicts_too():
    metric = AUC()
    metric.update_many([1, 0, 0], [ScoredProbabilities(1.0, score=5.0), {True: 0.1}, 0.2])
    assert metric.get() == 1.0


def test_weights_do_not_enter():
    a, b = AUC(window=10), AUC(window=10)
    for k, (label, score) in enumerate([(1, 0.2), (0, 0.3), (1, 0.5)]):
        a.update(label, score)
        b.update(label, score, w=10.0**k)
    assert a.get() == b.get() == 0.5


@pytest.mark.parametrize("window", WINDOWS)
def test_river_clone_is_new_and_keeps_the_window(window):
    metric = filled(window, [1, 0], [1, 0])
    clone = metric.clone()
    assert clone.window == window
    assert clone.examples == 0
    assert metric.examples == 2
    assert metric.bigger_is_better
    assert not metric.requires_labels
    assert metric > filled(window, [1, 0], [0, 1])


def test_revert_says_what_to_use():
    with pytest.raises(NotImplementedError, match=r"AUC\(window=n\)"):
        AUC().revert(True, 0.5)


def test_progressive_validation_in_river_equals_scikit_learn():
    rows = list(datasets.Phishing())
    predictions = []

    class Recorder(linear_model.LogisticRegression):
        def predict_proba_one(self, x):
            probabilities = super().predict_proba_one(x)
            predictions.append(probabilities[True])
            return probabilities

    model = preprocessing.StandardScaler() | Recorder()
    metric = evaluate.progressive_val_score(rows, model, AUC(window=500))
    labels = [y for _, y in rows][-500:]
    assert metric.get() == pytest.approx(roc_auc_score(labels, predictions[-500:]), abs=1e-12)
    assert str(metric).startswith("AUC: 9")


def test_sums_with_other_river_metrics():
    both = AUC() + metrics.Accuracy()
    rows = list(datasets.Phishing().take(200))
    model = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    evaluate.progressive_val_score(rows, model, both)
    auc, accuracy = both.get()
    assert 0.5 < auc <= 1.0
    assert 0.5 < accuracy <= 1.0
    assert both.clone()[0].examples == 0


def test_works_with_classifiers_only():
    assert AUC().works_with(linear_model.LogisticRegression())
    assert not AUC().works_with(dummy.StatisticRegressor(stats.Mean()))
