"""Figures of a ranking: equal to scikit-learn on every window with ties, honest over the whole stream."""

from __future__ import annotations

import copy
import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import datasets, evaluate
from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score, roc_curve

import aucstream
from aucstream import AutoScale, Pipeline
from aucstream.errors import BadSnapshot, InvalidBlock, InvalidLabel, InvalidParams
from aucstream.metrics import (
    AUC,
    AveragePrecision,
    CutCost,
    Lift,
    PartialAUC,
    PrecisionAtK,
    RecallAtFPR,
    RecallAtK,
    ScoredProbabilities,
)
from aucstream.metrics import ranking as figures

SCORES = [-1e300, -2.5, -0.0, 0.0, 1e-300, 0.3, 7.0]
ROWS = st.lists(st.tuples(st.booleans(), st.sampled_from(SCORES)), min_size=1, max_size=60)
MAKERS = [
    lambda window: AveragePrecision(window=window),
    lambda window: PartialAUC(0.3, window=window),
    lambda window: PartialAUC(0.3, standardized=True, window=window),
    lambda window: RecallAtFPR(0.2, window=window),
    lambda window: PrecisionAtK(5, window=window),
    lambda window: RecallAtK(0.25, window=window),
    lambda window: Lift(0.1, window=window),
    lambda window: CutCost(0.3, 1.0, 5.0, window=window),
]


def at_first(labels, scores, k):
    """Return the mean number of positives in the first k rows over all orders of tied rows, and k."""
    k = min(len(labels), math.ceil(k * len(labels) - 1e-9) if k < 1 else k)
    cut = sorted(scores, reverse=True)[k - 1]
    above = [label for label, score in zip(labels, scores, strict=True) if score > cut]
    tied = [label for label, score in zip(labels, scores, strict=True) if score == cut]
    return sum(above) + sum(tied) * (k - len(above)) / len(tied), k


def expected(metric, labels, scores):
    """Return the value by scikit-learn, or by counting."""
    labels, scores = np.array(labels), np.array(scores)
    both = len(set(labels)) == 2
    if isinstance(metric, AveragePrecision):
        return average_precision_score(labels, scores) if labels.any() else math.nan
    if isinstance(metric, PartialAUC):
        if not both:
            return math.nan
        value = roc_auc_score(labels, scores, max_fpr=metric.max_fpr)
        least = 0.5 * metric.max_fpr**2
        return value if metric.standardized else least + (2.0 * value - 1.0) * (metric.max_fpr - least)
    if isinstance(metric, RecallAtFPR):
        if not both:
            return math.nan
        fpr, tpr, _ = roc_curve(labels, scores, drop_intermediate=False)
        return tpr[fpr <= metric.fpr + 1e-12].max()
    if isinstance(metric, CutCost):
        called = scores >= metric.threshold
        return (metric.false_positive * (called & ~labels) + metric.false_negative * (~called & labels)).mean()
    positives, k = at_first(labels.tolist(), scores.tolist(), metric.k)
    if isinstance(metric, PrecisionAtK):
        return positives / k
    if not labels.any():
        return math.nan
    return positives / labels.sum() * (len(labels) / k if isinstance(metric, Lift) else 1.0)


@pytest.mark.parametrize("make", MAKERS)
@given(rows=ROWS, window=st.integers(1, 30))
@settings(max_examples=60, deadline=None)
def test_every_window_equals_scikit_learn(make, rows, window):
    metric, stream = make(window), make(None)
    for k, (label, score) in enumerate(rows):
        metric.update(label, score)
        stream.update(label, score)
        if k % 7:
            continue
        last = rows[max(0, k + 1 - window) : k + 1]
        assert metric.get() == pytest.approx(expected(metric, *zip(*last, strict=True)), abs=1e-12, nan_ok=True)
        assert stream.get() == pytest.approx(
            expected(metric, *zip(*rows[: k + 1], strict=True)), abs=1e-12, nan_ok=True
        )
        low, high = metric.interval()
        assert math.isnan(low) or low - 1e-12 <= metric.get() <= high + 1e-12
    assert metric.error_bound == stream.error_bound == 0.0


@pytest.mark.parametrize("k", [1, 3, 4, 0.5])
def test_ties_at_the_last_row_are_the_mean_over_their_orders(k):
    labels, scores = [1, 0, 1, 0, 0, 1], [2.0, 1.0, 1.0, 1.0, 1.0, 0.0]
    size = 3 if k == 0.5 else k
    tied = [label for label, score in zip(labels, scores, strict=True) if score == 1.0]
    orders = [[1, *order, 1][:size] for order in itertools.permutations(tied)]
    for metric, value in ((PrecisionAtK(k), np.mean(orders)), (RecallAtK(k), np.mean(orders) * size / 3.0)):
        metric.update_many(labels, scores)
        assert metric.get() == pytest.approx(value, abs=1e-12)


def drawn(n, share=0.2, seed=0, digits=2):
    random = np.random.default_rng(seed)
    labels = random.random(n) < share
    return labels, np.round(random.normal(size=n) + labels, digits)


def test_curve_equals_scikit_learn():
    labels, scores = drawn(2000)
    metric = AveragePrecision(window=1500)
    metric.update_many(labels, scores)
    for part, want in zip(metric.curve(), precision_recall_curve(labels[-1500:], scores[-1500:]), strict=True):
        assert np.allclose(part, want, rtol=0.0, atol=1e-12)


def test_thresholds_call_as_many_rows_as_said():
    labels, scores = drawn(3000)
    recall, first = RecallAtFPR(0.05, window=3000), PrecisionAtK(100, window=3000)
    for metric in (recall, first):
        metric.update_many(labels, scores)
    called = scores >= recall.threshold
    assert called[~labels].mean() <= 0.05 < (scores >= recall.threshold - 0.01)[~labels].mean()
    assert called[labels].mean() == pytest.approx(recall.get(), abs=1e-12)
    assert (scores > first.threshold).sum() < 100 <= (scores >= first.threshold).sum()
    one = RecallAtFPR(0.1)
    one.update_many([1, 0], [0.0, 1.0])
    assert (one.get(), one.threshold) == (0.0, math.inf)


def test_the_whole_curve_has_the_auc_its_error_and_delongs_variance():
    labels, scores = drawn(800)
    part, whole = PartialAUC(1.0, window=800), AUC(window=800)
    for metric in (part, whole):
        metric.update_many(labels, scores)
    assert part.get() == pytest.approx(whole.get(), abs=1e-12)
    assert part.standard_error() == pytest.approx(whole.standard_error(), rel=1e-9)


@pytest.mark.parametrize("maker", range(2))
def test_standard_errors_are_those_of_leaving_rows_out(maker):
    make = (lambda: AveragePrecision(window=900), lambda: PartialAUC(0.2, window=900))[maker]
    labels, scores = drawn(900, seed=3, digits=9)

    def value(keep):
        metric = make()
        metric.update_many(labels[keep], scores[keep])
        return metric.get()

    squares = 0.0
    for kind in (labels, ~labels):
        rows = np.flatnonzero(kind)
        left = np.array([value(np.delete(np.arange(900), row)) for row in rows])
        squares += (rows.size - 1) / rows.size * np.square(left - left.mean()).sum()
    metric = make()
    metric.update_many(labels, scores)
    assert metric.standard_error() == pytest.approx(math.sqrt(squares), rel=0.05)


def test_standardized_is_a_change_of_scale():
    labels, scores = drawn(500)
    raw, standard = PartialAUC(0.1), PartialAUC(0.1, standardized=True)
    for metric in (raw, standard):
        metric.update_many(labels, scores)
    times = (standard.interval()[1] - standard.interval()[0]) / (raw.interval()[1] - raw.interval()[0])
    assert standard.standard_error() / raw.standard_error() == pytest.approx(times)
    assert times == pytest.approx(0.5 / (0.1 - 0.005))


@pytest.mark.parametrize("order", ["random", "falling", "classes apart"])
@pytest.mark.parametrize("share", [0.3, 0.01])
def test_over_a_long_stream_the_error_is_within_its_bound(order, share):
    labels, scores = drawn(300_000, share, digits=15)
    if order != "random":
        by = np.argsort(-scores) if order == "falling" else np.argsort(labels, kind="stable")
        labels, scores = labels[by], scores[by]
    for make in MAKERS:
        metric, exact = make(None), make(300_000)
        for one in (metric, exact):
            one.update_many(labels, scores)
        assert abs(metric.get() - exact.get()) <= metric.error_bound + 1e-12, metric
        assert metric.error_bound > 0.0 or share == 0.01  # where no positive is near the cut
        assert metric.error_bound < 0.05 or isinstance(metric, PrecisionAtK)  # 5 rows of 300,000
        assert metric.interval() == pytest.approx(exact.interval(), abs=2.0 * metric.error_bound)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("window", [None, 700])
def test_copies_and_saved_states_go_on_equally(make, window):
    labels, scores = drawn(2000, digits=9)
    metric = make(window)
    metric.update_many(labels[:1500], scores[:1500])
    arrays, meta = metric.state_dict()
    twins = [copy.deepcopy(metric), pickle.loads(pickle.dumps(metric)), type(metric).from_state_dict(arrays, meta)]
    for label, score in zip(labels[1500:].tolist(), scores[1500:].tolist(), strict=True):
        for one in (metric, *twins):
            one.update(label, score)
    for twin in twins:
        assert (twin.get(), twin.interval()) == (metric.get(), metric.interval())
    with pytest.raises(BadSnapshot, match=type(metric).__name__):
        type(metric).from_state_dict({}, meta)
    with pytest.raises(BadSnapshot, match=type(metric).__name__):
        type(metric).from_state_dict(arrays, {**meta, "window": "all"})
    with pytest.raises(BadSnapshot, match=type(metric).__name__):
        type(metric).from_state_dict(arrays, {})


@pytest.mark.parametrize("make", MAKERS)
def test_river_takes_it_as_a_metric(make):
    model = Pipeline(AutoScale(), aucstream.PSAM())
    twin = Pipeline(AutoScale(), aucstream.PSAM())
    metric = make(400)
    both = metric + AUC(window=400)
    evaluate.progressive_val_score(datasets.Phishing().take(600), model, both, print_every=200)
    labels, scores = [], []
    for x, y in datasets.Phishing().take(600):
        labels.append(y)
        scores.append(twin.score_one(x))
        twin.learn_one(x, y)
    assert metric.get() == pytest.approx(expected(metric, labels[-400:], scores[-400:]), abs=1e-12)
    fresh = metric.clone()
    assert fresh._get_params() == metric._get_params()
    assert fresh.examples == 0
    assert math.isnan(fresh.get())
    assert str(metric).startswith(type(metric).__name__)
    assert not metric.requires_labels
    assert metric.works_with(model)
    assert metric.bigger_is_better is not isinstance(metric, CutCost)
    with pytest.raises(NotImplementedError, match=rf"{type(metric).__name__}\(window=n\)"):
        metric.revert(True, 0.5)


@pytest.mark.parametrize("make", MAKERS)
def test_the_raw_score_decides_and_bad_rows_change_nothing(make):
    metric = make(10)
    metric.update(True, ScoredProbabilities(1.0, score=50.0))
    metric.update(False, ScoredProbabilities(1.0, score=-40.0))
    assert metric.get() == expected(metric, [True, False], [50.0, -40.0])
    name = type(metric).__name__
    with pytest.raises(InvalidBlock, match=rf"{name}\.update"):
        metric.update(True, math.nan)
    with pytest.raises(InvalidBlock, match=rf"{name}\.update_many: .*at row 1"):
        metric.update_many([1, 0], [0.0, math.inf])
    with pytest.raises(InvalidLabel):
        metric.update("yes", 0.5)
    with pytest.raises(InvalidParams, match=rf"{name}\.interval\.level"):
        metric.interval(1.0)
    assert metric.examples == 2


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda value: PartialAUC(value), "PartialAUC.max_fpr"),
        (lambda value: RecallAtFPR(value), "RecallAtFPR.fpr"),
        (lambda value: PrecisionAtK(value), "PrecisionAtK.k"),
        (lambda value: RecallAtK(value), "RecallAtK.k"),
        (lambda value: Lift(value), "Lift.k"),
        (lambda value: CutCost(0.0, value, 1.0), "CutCost.false_positive"),
        (lambda value: CutCost(0.0, 1.0, value), "CutCost.false_negative"),
    ],
)
@pytest.mark.parametrize("value", [-0.5, 1.5, True, "0.1", None, math.nan, math.inf])
def test_bad_parameters(make, name, value):
    if value == 1.5 and name.startswith("CutCost"):
        return
    with pytest.raises(InvalidParams, match=name):
        make(value)


@pytest.mark.parametrize("threshold", [math.nan, math.inf, "0", True, None])
def test_bad_thresholds(threshold):
    with pytest.raises(InvalidParams, match=r"CutCost\.threshold"):
        CutCost(threshold, 1.0, 1.0)
    with pytest.raises(InvalidParams, match=r"PartialAUC\.standardized"):
        PartialAUC(0.1, standardized=1)


def test_an_empty_ranking_has_no_figures():
    empty = figures.Ranking(np.empty(0), np.empty(0), np.empty(0))
    values = (
        figures.average_precision(empty),
        figures.partial_area(empty, 0.1),
        figures.threshold_at_fpr(empty, 0.1),
        figures.precision_at(empty, 5),
        figures.cost_of_cut(empty, 0.0, 1.0, 1.0),
        *figures.lift_at_interval(empty, 5),
        *figures.cost_of_cut_interval(empty, 0.0, 1.0, 1.0),
    )
    assert all(map(math.isnan, values))
