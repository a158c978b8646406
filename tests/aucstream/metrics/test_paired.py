"""PairedAUC against plain DeLong for pairs."""

from __future__ import annotations

import copy
import json
import math
import pickle

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import roc_curve

from aucstream.errors import BadSnapshot, InvalidBlock, InvalidLabel, InvalidParams
from aucstream.metrics import PairedAUC
from aucstream.snapshot import pack, unpack

from . import plain


def drawn(n, seed=0, digits=1):
    random = np.random.default_rng(seed)
    labels = random.random(n) < 0.3
    common = random.normal(size=n) + labels
    noise = 0.5 * random.normal(size=(2, n))
    return labels, np.round(common + noise[0], digits), np.round(common + 1.5 * noise[1], digits)


def filled(window, *rows):
    metric = PairedAUC(window=window)
    metric.update_many(*rows)
    return metric


@pytest.mark.parametrize("digits", [0, 1, 9])
@pytest.mark.parametrize("window", [60, 200, 10_000])
def test_equals_plain_delong(window, digits):
    labels, a, b = drawn(300, digits=digits)
    metric = filled(window, labels, a, b)
    labels, a, b = labels[-window:], a[-window:], b[-window:]
    difference = plain.auc(labels, a) - plain.auc(labels, b)
    error = plain.paired_delong(labels, a, b)
    assert metric.difference == metric.get() == pytest.approx(difference, abs=1e-14)
    assert metric.auc_a == pytest.approx(plain.auc(labels, a), abs=1e-14)
    assert metric.standard_error() == pytest.approx(error, rel=1e-10)
    assert metric.z == pytest.approx(difference / error, rel=1e-9)
    assert metric.p_value == pytest.approx(2 * norm.sf(abs(difference / error)), rel=1e-9)
    half = norm.ppf(0.95) * error
    assert metric.interval(0.9) == pytest.approx((difference - half, difference + half), rel=1e-9)


def test_one_by_one_equals_many():
    labels, a, b = drawn(1500)
    one, many = PairedAUC(100), filled(100, labels, a, b)
    for row in zip(labels.tolist(), a.tolist(), b.tolist(), strict=True):
        one.update(*row)
    assert (one.difference, one.standard_error(), one.examples) == (
        many.difference,
        many.standard_error(),
        many.examples,
    )
    assert one.positives == labels[-100:].sum()
    assert repr(one) == f"PairedAUC(window=100): {one.difference:+.4f}"


def test_a_curve_for_each_score():
    labels, a, b = drawn(200)
    for roc, scores in zip(filled(200, labels, a, b).roc(), (a, b), strict=True):
        for ours, theirs in zip(roc, roc_curve(labels, scores, drop_intermediate=False), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-15)


def test_equal_scores_differ_by_nothing():
    labels, a, _ = drawn(100)
    metric = filled(100, labels, a, a)
    assert (metric.difference, metric.standard_error(), metric.z, metric.p_value) == (0.0, 0.0, 0.0, 1.0)


def test_a_certain_difference():
    metric = filled(10, [1, 1, 0, 0], [3, 3, 1, 1], [1, 1, 3, 3])
    assert (metric.difference, metric.z, metric.p_value) == (1.0, math.inf, 0.0)


def test_p_values_are_uniform_where_nothing_differs():
    random = np.random.default_rng(2)
    small = 0
    for _ in range(300):
        labels = random.random(200) < 0.4
        common = random.normal(size=200) + labels
        small += filled(200, labels, common + random.normal(size=200), common + random.normal(size=200)).p_value < 0.1
    assert 14 <= small <= 50


def test_not_ready():
    metric = PairedAUC(5)
    metric.update(1, 0.1, 0.2)
    assert not metric.ready
    values = (
        metric.difference,
        metric.auc_a,
        metric.standard_error(),
        metric.z,
        metric.p_value,
        *metric.interval(),
    )
    assert all(map(math.isnan, values))


def test_a_restored_metric_goes_on_to_the_last_bit():
    labels, a, b = drawn(500)
    metric = filled(90, labels, a, b)
    arrays, meta = metric.state_dict()
    arrays, meta = unpack(pack(arrays, json.loads(json.dumps(meta))))
    copies = [
        PairedAUC.from_state_dict(arrays, meta),
        pickle.loads(pickle.dumps(metric)),
        copy.deepcopy(metric),
    ]
    for each in (metric, *copies):
        each.update_many(labels[:33], a[:33], b[:33])
    for twin in copies:
        assert twin.standard_error() == metric.standard_error()
        assert twin.difference == metric.difference
    with pytest.raises(BadSnapshot, match="scores_a"):
        PairedAUC.from_state_dict({**arrays, "scores_a": a[:3]}, meta)
    with pytest.raises(BadSnapshot, match="window"):
        PairedAUC.from_state_dict(arrays, {"window": None})


def test_bad_input_changes_nothing():
    metric = filled(5, [1, 0], [1, 0], [0, 1])
    with pytest.raises(InvalidBlock, match="score_b: expected a finite score, got nan"):
        metric.update(1, 0.5, math.nan)
    with pytest.raises(InvalidLabel):
        metric.update(3, 0.5, 0.5)
    with pytest.raises(InvalidBlock, match="scores_a"):
        metric.update_many([1], [math.inf], [1.0])
    with pytest.raises(InvalidBlock, match="one label for each"):
        metric.update_many([1], [1.0], [1.0, 2.0])
    assert (metric.examples, metric.difference) == (2, 1.0)
    with pytest.raises(InvalidParams, match=r"PairedAUC\.window"):
        PairedAUC(window=None)
