"""Intervals at the ends, where no mistake was seen, and how often they hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from aucstream.errors import InvalidBlock
from aucstream.metrics import AUC, Brier, FadingAUC, LogLoss
from aucstream.metrics import ranking as figures
from aucstream.metrics.exact import area
from aucstream.metrics.intervals import area_interval, logit_interval, unanimous, wilson

LEAST = 0.025**0.5  # of two pairs without a common row, at 95 %


def filled(metric, labels, scores):
    metric.update_many(labels, scores)
    return metric


@pytest.mark.parametrize(
    "metric", [AUC(), AUC(window=10), FadingAUC(decay=0.99999)], ids=["stream", "window", "fading"]
)
@pytest.mark.parametrize(
    ("scores", "interval"),
    [
        ([4, 3, 2, 1], (LEAST, 1.0)),
        ([1, 2, 3, 4], (0.0, 1.0 - LEAST)),
        ([1, 1, 1, 1], (0.5 - (1.0 - LEAST) / 2.0, 0.5 + (1.0 - LEAST) / 2.0)),
    ],
)
def test_pairs_that_were_all_ranked_alike_are_no_proof(metric, scores, interval):
    filled(metric, [1, 1, 0, 0], scores)
    exact = area(np.array([1.0, 1.0, -1.0, -1.0]), np.array(scores, dtype=float))
    assert metric.standard_error() == exact.standard_error == 0.0
    assert metric.interval() == pytest.approx(interval, abs=1e-5)
    assert exact.interval() == pytest.approx(interval, abs=1e-12)
    wide = metric.interval(0.99)
    assert wide[0] < interval[0] or interval[0] == 0.0
    metric.__init__(**metric._get_params())


def test_the_interval_of_a_perfect_ranking_shrinks_with_the_rows_of_the_rarer_class():
    lows = [area_interval("x", 0.95, 1.0, 0.0, n, 1000)[0] for n in (2, 10, 100, 1000)]
    assert lows == pytest.approx([0.158, 0.692, 0.964, 0.9963], abs=1e-3)


def test_one_row_of_a_class_has_no_interval():
    assert all(map(math.isnan, filled(AUC(), [1, 0, 0], [3, 2, 1]).interval()))


@pytest.mark.parametrize("n", [2, 3, 8, 50])
def test_unanimous_trials_are_as_rare_as_said(n):
    assert unanimous(0.9, n) ** n == pytest.approx(0.05)


@pytest.mark.parametrize(("share", "trials"), [(0.0, 1), (1.0, 1), (0.3, 10), (1.0, 500)])
def test_wilson_solves_its_equation(share, trials):
    z = 1.959964
    low, high = wilson(share, trials, z)
    for end in {low, high} - {share}:
        assert (end - share) ** 2 == pytest.approx(z * z * end * (1.0 - end) / trials, rel=1e-9)
    assert low <= share <= high
    assert low < high


def test_the_log_odds_interval_stays_inside_and_is_normal_for_small_errors():
    low, high = logit_interval(0.98, 0.03, 0.95, 50, 1.96)
    assert 0.0 < low < 0.98 < high < 1.0
    assert logit_interval(0.4, 1e-4, 0.95, 1e6, 1.96) == pytest.approx((0.4 - 1.96e-4, 0.4 + 1.96e-4), abs=1e-7)


@pytest.mark.parametrize(
    ("m", "n", "auc", "least"), [(2, 2, 0.9, 0.99), (5, 5, 0.95, 0.99), (10, 10, 0.99, 0.99), (200, 200, 0.8, 0.93)]
)
def test_intervals_of_an_auc_hold_as_often_as_the_docstring_says(m, n, auc, least):
    random = np.random.default_rng(1)
    signs = np.repeat([1.0, -1.0], [m, n])
    held = 0
    for _ in range(400):
        scores = random.normal(size=m + n) + (signs > 0) * math.sqrt(2.0) * norm.ppf(auc)
        low, high = area(signs, scores).interval()
        held += low <= auc <= high
    assert held >= 400 * (least - 0.02)


@pytest.mark.parametrize(("m", "n", "least"), [(20, 500, 0.92), (200, 200, 0.92)])
def test_intervals_of_the_other_figures_hold_as_often_as_the_docstrings_say(m, n, least):
    random = np.random.default_rng(2)
    shift, base = 1.8, m / (m + n)
    scores = np.linspace(-9.0, 12.0, 400_001)  # truths by integration
    weight = norm.pdf(scores - shift) * (scores[1] - scores[0])
    true, false = norm.sf(scores - shift), norm.sf(scores)
    precision = base * true / (base * true + (1.0 - base) * false + 1e-300)
    called = base * true + (1.0 - base) * false
    at = int(np.searchsorted(-called, -0.1))
    truths = (
        (weight * precision).sum(),
        (weight * np.maximum(0.0, 0.05 - false)).sum(),
        norm.cdf(shift - norm.isf(0.05)),
        precision[at],
        true[at],
        norm.sf(1.0) * (1.0 - base) + 5.0 * base * norm.cdf(1.0 - shift),
    )
    held = np.zeros(6)
    signs = np.repeat([1.0, -1.0], [m, n])
    for _ in range(400):
        ranking = figures.Ranking.of_rows(signs, random.normal(size=m + n) + shift * (signs > 0))
        intervals = (
            figures.average_precision_interval(ranking),
            figures.partial_area_interval(ranking, 0.05),
            figures.recall_at_fpr_interval(ranking, 0.05),
            figures.precision_at_interval(ranking, 0.1),
            figures.recall_at_interval(ranking, 0.1),
            figures.cost_of_cut_interval(ranking, 1.0, 1.0, 5.0),
        )
        held += [low <= truth <= high for (low, high), truth in zip(intervals, truths, strict=True)]
    assert (held >= 400 * (least - 0.03)).all(), held


@pytest.mark.parametrize("metric", [AUC, LogLoss, Brier, FadingAUC])
@pytest.mark.parametrize("w", [math.nan, math.inf, -1.0, "2", None])
def test_what_is_no_weight_is_refused_and_changes_nothing(metric, w):
    one = metric()
    with pytest.raises(InvalidBlock, match=rf"{metric.__name__}\.update: expected a finite weight >= 0"):
        one.update(True, 0.5, w=w)
    assert one.examples == 0
    one.update(True, 0.5, w=3.0)
    assert one.examples == 1
    assert not one.works_with_weights
