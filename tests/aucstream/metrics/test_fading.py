"""FadingAUC against its definition."""

from __future__ import annotations

import copy
import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import datasets, evaluate, linear_model

from aucstream.errors import BadSnapshot, InvalidBlock, InvalidParams
from aucstream.metrics import AUC, FadingAUC
from aucstream.snapshot import pack, unpack

from . import plain


def filled(decay, labels, scores):
    metric = FadingAUC(decay=decay)
    metric.update_many(labels, scores)
    return metric


def drawn(n, seed=0, digits=1):
    random = np.random.default_rng(seed)
    labels = random.random(n) < 0.3
    return labels, np.round(random.normal(size=n) + labels, digits)


def test_m4_oracle():
    assert round(filled(0.5, [1, 0, 0, 1], [0.9, 0.1, 0.8, 0.3]).get(), 6) == 0.407407


@given(
    st.lists(st.tuples(st.booleans(), st.integers(-3, 3)), min_size=1, max_size=120),
    st.sampled_from([0.01, 0.3, 0.5, 0.9, 0.99]),
)
@settings(max_examples=60, deadline=None)
def test_equals_the_definition_at_every_row(rows, decay):
    metric = FadingAUC(decay=decay)
    for k, (label, score) in enumerate(rows):
        metric.update(label, score)
        recent = rows[max(0, k + 1 - metric.rows) : k + 1]
        labels, scores = zip(*recent, strict=True)
        if len(set(labels)) == 2:
            assert metric.get() == pytest.approx(plain.fading(labels, scores, decay), rel=1e-9, abs=1e-9)
        else:
            assert math.isnan(metric.get())


@pytest.mark.parametrize("decay", [0.9, 0.99, 0.995])
def test_dropping_old_rows_is_within_the_stated_error_and_nothing_drifts(decay):
    labels, scores = drawn(20_000, digits=2)
    metric = FadingAUC(decay=decay)
    for start in range(0, 20_000, 5000):
        metric.update_many(labels[start : start + 5000], scores[start : start + 5000])
        seen = slice(max(0, start + 5000 - 6000), start + 5000)  # 0.995^6000 < 1e-13
        assert metric.get() == pytest.approx(plain.fading(labels[seen], scores[seen], decay), abs=2e-8)
    assert metric.examples == metric.rows < 20_000
    assert len(metric._ring_keys) == metric.rows


def test_a_class_that_returns_after_a_long_absence_counts_again():
    metric = filled(0.9, np.arange(400) % 2, np.arange(400.0))
    metric.update_many(np.zeros(500), np.zeros(500))
    assert not metric.ready
    metric.update(1, 1.0)
    assert metric.get() == pytest.approx(1.0, abs=1e-15)
    metric.update(1, 0.0)
    assert metric.get() == pytest.approx((0.9 * 1 + 1.0 * 0.5) / 1.9, abs=1e-12)


def test_slow_fading_is_near_the_plain_auc_and_its_interval_near_delong():
    labels, scores = drawn(1000)
    slow, exact = filled(0.99999, labels, scores), AUC(window=1000)
    exact.update_many(labels, scores)
    assert slow.get() == pytest.approx(exact.get(), abs=1e-3)
    assert slow.interval() == pytest.approx(exact.interval(), abs=1e-3)
    pos, neg = slow.effective_examples
    assert pos == pytest.approx(labels.sum(), rel=1e-3)
    assert neg == pytest.approx((~labels).sum(), rel=1e-3)
    np.testing.assert_allclose(slow.roc().tpr[[0, -1]], [0, 1])


def test_interval_covers_about_as_often_as_it_says():
    random = np.random.default_rng(4)
    inside = 0
    truth = 0.7602499389065233  # P(normal + 1 > normal)
    for _ in range(200):
        labels = random.random(600) < 0.5
        metric = filled(0.99, labels, random.normal(size=600) + labels)
        low, high = metric.interval(0.9)
        inside += low <= truth <= high
    assert 160 <= inside <= 197


def test_not_ready():
    metric = FadingAUC()
    assert math.isnan(metric.get())
    assert not metric.ready
    metric.update(1, 0.5)
    assert math.isnan(metric.standard_error())
    assert all(map(math.isnan, metric.interval()))
    assert metric.rows == 20_713


def test_a_restored_metric_goes_on_to_the_last_bit():
    labels, scores = drawn(3000, digits=3)
    metric = filled(0.98, labels, scores)
    metric.update(True, 0.25)
    arrays, meta = metric.state_dict()
    arrays, meta = unpack(pack(arrays, json.loads(json.dumps(meta))))
    copies = [
        FadingAUC.from_state_dict(arrays, meta),
        pickle.loads(pickle.dumps(metric)),
        copy.deepcopy(metric),
    ]
    for label, score in zip(labels, scores, strict=True):
        metric.update(label, score)
        value = metric.get()
        for twin in copies:
            twin.update(label, score)
            assert twin.get() == value
    assert metric.clone().decay == 0.98
    assert metric.clone().examples == 0


def test_reads_and_groupings_do_not_change_the_last_bit():
    labels, scores = drawn(8000, digits=5)
    together, single = filled(0.995, labels, scores), FadingAUC(0.995)
    for label, score in zip(labels.tolist(), scores.tolist(), strict=True):
        single.update(label, score)
        value = single.get()
    assert value == together.get()
    assert single.standard_error() == together.standard_error()


def test_damaged_states_are_refused():
    arrays, meta = filled(0.9, [1, 0, 1], [1, 2, 3]).state_dict()
    with pytest.raises(BadSnapshot, match="decay"):
        FadingAUC.from_state_dict(arrays, {"decay": 2.0})
    for name, array in arrays.items():
        with pytest.raises(BadSnapshot, match="FadingAUC"):
            FadingAUC.from_state_dict({**arrays, name: array[:-1]}, meta)
    links = arrays["links"].copy()
    links[1, 1] = 10**6
    with pytest.raises(BadSnapshot, match="FadingAUC"):
        FadingAUC.from_state_dict({**arrays, "links": links}, meta)


@pytest.mark.parametrize("decay", [0.0, 1.0, 0.999999, -1, "0.9", True, math.nan])
def test_bad_decays(decay):
    with pytest.raises(InvalidParams, match=r"FadingAUC\.decay: expected a number in"):
        FadingAUC(decay=decay)


def test_bad_scores_change_nothing():
    metric = filled(0.9, [1, 0], [1, 0])
    with pytest.raises(InvalidBlock, match="got nan"):
        metric.update(1, math.nan)
    with pytest.raises(InvalidBlock, match="row 0"):
        metric.update_many([1], [math.inf])
    assert (metric.examples, metric.positives, metric.get()) == (2, 1, 1.0)


def test_in_river():
    rows = datasets.Phishing().take(300)
    metric = evaluate.progressive_val_score(rows, linear_model.LogisticRegression(), FadingAUC(0.99))
    assert 0.5 < metric.get() < 1.0
    with pytest.raises(NotImplementedError):
        metric.revert(True, 0.5)
