"""Figures of a ranking besides its AUC: each a function of how many rows of either class stand above a score.

Ties. Rows of equal scores are one step: average precision, the recall at a false-positive rate and partial areas take
them together, as scikit-learn does. The first k rows may end inside of a tie: figures at k are their mean over all
orders of the tied rows.

Intervals, and their sources, are described at the functions. All are given the numbers of the two classes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aucstream.metrics.base import Floats
from aucstream.metrics.intervals import NO_INTERVAL, logit_interval, normal_quantile, wilson

NEAR = 1e-9  # of a number of rows: what is off by so little is rounding


class PrecisionRecall(NamedTuple):
    """A precision-recall curve: a row is called positive when its score >= the threshold; the last point is (1, 0)."""

    precision: Floats
    recall: Floats
    thresholds: Floats


class Cut(NamedTuple):
    """The first rows of a ranking: how many, and how many of them are positive."""

    rows: float
    positives: float
    threshold: float


@dataclass(frozen=True)
class Ranking:
    """Rows of either class at falling scores.

    Attributes
    ----------
    scores : ndarray (k,)
        Falling; equal ones only where a summary places rows beside a score.
    pos, neg : ndarray (k,)
        Positive and negative rows at each.
    """

    scores: Floats
    pos: Floats
    neg: Floats

    @classmethod
    def of_table(cls, scores: Floats, pos: NDArray[Any], neg: NDArray[Any]) -> Ranking:
        """Return the ranking of rows at increasing scores."""
        return cls(scores[::-1], pos[::-1].astype(np.float64), neg[::-1].astype(np.float64))

    @classmethod
    def of_rows(cls, signs: Floats, scores: Floats) -> Ranking:
        """Return the ranking of scores (n,) with labels +1 / -1 (n,)."""
        values, where = np.unique(scores, return_inverse=True)
        pos = np.bincount(where, weights=signs > 0, minlength=values.size)
        neg = np.bincount(where, weights=signs <= 0, minlength=values.size)
        return cls.of_table(values, pos, neg)

    def shifted(self, of_pos: float, of_neg: float) -> Ranking:
        """Return one in which so many rows of either class moved to the top (less than 0: to the bottom)."""
        parts = []
        for masses, rows in ((self.pos, of_pos), (self.neg, of_neg)):
            above = np.concatenate((np.clip(np.cumsum(masses) + rows, 0.0, masses.sum()), [masses.sum()]))
            parts.append(np.diff(above, prepend=0.0))
        last = self.scores[-1:] if self.scores.size else np.zeros(1)
        return Ranking(np.concatenate((self.scores, last)), *parts)

    @cached_property
    def true(self) -> Floats:
        """Positives at or above each score, (k,)."""
        return np.cumsum(self.pos)

    @cached_property
    def false(self) -> Floats:
        """Negatives at or above each score, (k,)."""
        return np.cumsum(self.neg)

    @property
    def positives(self) -> float:
        """All positives."""
        return float(self.true[-1]) if self.true.size else 0.0

    @property
    def negatives(self) -> float:
        """All negatives."""
        return float(self.false[-1]) if self.false.size else 0.0

    @property
    def rows(self) -> float:
        """All rows."""
        return self.positives + self.negatives

    @property
    def ready(self) -> bool:
        """Whether both classes are there."""
        return self.positives > 0.0 and self.negatives > 0.0


# -- average precision -----------------------------------------------------------------------------------


def _precisions(ranking: Ranking) -> Floats:
    return ranking.true / np.maximum(ranking.true + ranking.false, NEAR)


def average_precision(ranking: Ranking) -> float:
    """Return the mean, over the positives, of the precision at their score; NaN without positives."""
    if not ranking.positives:
        return math.nan
    return min(1.0, float(ranking.pos @ _precisions(ranking)) / ranking.positives)


def average_precision_error(ranking: Ranking) -> float:
    """Return the standard error by structural components, as DeLong's of an AUC; NaN below two rows a class.

    A positive moves its own precision, and that of all positives at or below it; a negative the latter.
    """
    positives, negatives = ranking.positives, ranking.negatives
    if positives < 2.0 or negatives < 2.0:
        return math.nan
    above = np.maximum(ranking.true + ranking.false, NEAR)
    share = ranking.pos / positives
    below_true = np.cumsum((share * ranking.false / above / above)[::-1])[::-1]
    below_false = np.cumsum((share * ranking.true / above / above)[::-1])[::-1]
    of_pos = _variance(_precisions(ranking) + positives * below_true, ranking.pos)
    of_neg = _variance(negatives * below_false, ranking.neg)
    return math.sqrt(of_pos / positives + of_neg / negatives)


def average_precision_interval(ranking: Ranking, level: float = 0.95, where: str = "interval") -> tuple[float, float]:
    """Return the interval symmetric in the log odds (Boyd, Eng, Page 2013), by `average_precision_error`.

    Where every positive stands above every negative the variance is 0: see `intervals.unanimous`, with the rows of the
    rarer class as trials.
    """
    z = normal_quantile(where, level)
    trials = min(ranking.positives, ranking.negatives)
    value, error = average_precision(ranking), average_precision_error(ranking)
    return logit_interval(value, error, level, trials, z)


def precision_recall_curve(ranking: Ranking) -> PrecisionRecall:
    """Return the curve, as scikit-learn's of the same name: thresholds increase, and the last point is (1, 0)."""
    positives = ranking.positives
    recall = ranking.true / positives if positives else np.ones(ranking.true.size)
    precision = np.concatenate((_precisions(ranking)[::-1], [1.0]))
    return PrecisionRecall(precision, np.concatenate((recall[::-1], [0.0])), ranking.scores[::-1].copy())


def _variance(values: Floats, masses: Floats) -> float:
    rows = float(masses.sum())
    mean = float(masses @ values) / rows
    return float(masses @ np.square(values - mean)) / (rows - 1.0)


# -- partial area ----------------------------------------------------------------------------------------


def _part_of_steps(ranking: Ranking, max_fpr: float) -> tuple[Floats, Floats]:
    """Return (false-positive rate before each step, share of the step that is within the bound)."""
    width = ranking.neg / ranking.negatives
    start = (ranking.false - ranking.neg) / ranking.negatives
    room = max_fpr - start
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(width > 0.0, room / width, np.where(room >= 0.0, 1.0, 0.0))
    return start, np.clip(part, 0.0, 1.0)


def partial_area(ranking: Ranking, max_fpr: float) -> float:
    """Return the area under the ROC curve up to a false-positive rate, in [0, max_fpr]; NaN without both classes."""
    if not ranking.ready:
        return math.nan
    start, part = _part_of_steps(ranking, max_fpr)
    width = ranking.neg / ranking.negatives
    each = np.maximum(0.0, max_fpr - start - part * width) + part * part * width / 2.0
    return min(max_fpr, float(ranking.pos @ each) / ranking.positives)


def standardized(area: float, max_fpr: float) -> float:
    """Return McClish's form of a partial area: 1/2 for a ranking by chance, 1 for a perfect one."""
    least = 0.5 * max_fpr * max_fpr
    return 0.5 * (1.0 + (area - least) / (max_fpr - least))


def partial_area_error(ranking: Ranking, max_fpr: float) -> float:
    """Return the standard error of a partial area by structural components (He, Escobar 2008); NaN below two rows a class.

    At a bound of 1 it is DeLong's.
    """
    positives, negatives = ranking.positives, ranking.negatives
    if positives < 2.0 or negatives < 2.0:
        return math.nan
    start, part = _part_of_steps(ranking, max_fpr)
    width = ranking.neg / negatives
    of_pos = np.maximum(0.0, max_fpr - start - part * width) + part * part * width / 2.0
    share = ranking.pos / positives
    reached = share * part
    below = np.cumsum(reached[::-1])[::-1] - reached
    of_neg = below + reached * part / 2.0
    return math.sqrt(_variance(of_pos, ranking.pos) / positives + _variance(of_neg, ranking.neg) / negatives)


def partial_area_interval(
    ranking: Ranking, max_fpr: float, level: float = 0.95, where: str = "interval"
) -> tuple[float, float]:
    """Return the interval of a partial area, symmetric in the log odds of its share of `max_fpr`.

    Where the variance is 0: see `intervals.unanimous`; trials are the positives, or the negatives within the bound
    where they are fewer.
    """
    z = normal_quantile(where, level)
    trials = min(ranking.positives, max(1.0, ranking.negatives * max_fpr))
    share, error = partial_area(ranking, max_fpr) / max_fpr, partial_area_error(ranking, max_fpr) / max_fpr
    low, high = logit_interval(share, error, level, trials, z)
    return low * max_fpr, high * max_fpr


# -- recall at a false-positive rate ---------------------------------------------------------------------


def _last_within(ranking: Ranking, false: float) -> int:
    """Return the number of leading scores at or above which no more than so many negatives stand."""
    return int(np.searchsorted(ranking.false, false + NEAR * max(1.0, false), side="right"))


def _recall_within(ranking: Ranking, false: float) -> float:
    last = _last_within(ranking, false)
    return float(ranking.true[last - 1]) / ranking.positives if last else 0.0


def recall_at_fpr(ranking: Ranking, fpr: float) -> float:
    """Return the largest recall of a threshold whose false-positive rate is at most `fpr`; NaN without both classes."""
    return _recall_within(ranking, fpr * ranking.negatives) if ranking.ready else math.nan


def threshold_at_fpr(ranking: Ranking, fpr: float) -> float:
    """Return that threshold: inf where the highest score has too many negatives, NaN without both classes."""
    if not ranking.ready:
        return math.nan
    last = _last_within(ranking, fpr * ranking.negatives)
    return float(ranking.scores[last - 1]) if last else math.inf


def recall_at_fpr_interval(
    ranking: Ranking, fpr: float, level: float = 0.95, where: str = "interval"
) -> tuple[float, float]:
    """Return the interval of a recall at a false-positive rate, which two things make uncertain.

    The recall of a threshold is a share of the positives: Wilson's interval. The threshold is that of the wanted rate
    only as far as the negatives tell: it lies between those at the ends of Wilson's interval of `fpr` of the
    negatives. Both distances are put together by the rule of Zou and Donner (2008), the root of the sum of squares.
    """
    z = normal_quantile(where, level)
    if not ranking.ready:
        return NO_INTERVAL
    recall = recall_at_fpr(ranking, fpr)
    low, high = wilson(recall, ranking.positives, z)
    fewer, more = wilson(fpr, ranking.negatives, z)
    least = _recall_within(ranking, math.floor(fewer * ranking.negatives))
    most = _recall_within(ranking, math.ceil(more * ranking.negatives))
    return (
        max(0.0, recall - math.hypot(recall - low, recall - least)),
        min(1.0, recall + math.hypot(high - recall, most - recall)),
    )


# -- the first k rows ------------------------------------------------------------------------------------


def cut_rows(k: float, rows: float) -> float:
    """Return how many rows the first `k` are: `k`, or a share of all below 1, rounded up; no more than there are."""
    wanted = math.ceil(k * rows - NEAR * max(1.0, rows)) if k < 1.0 else k
    return min(float(max(1, wanted)), rows)


def first_rows(ranking: Ranking, k: float) -> Cut:
    """Return the first k rows, of those that tie at the last score the mean over their orders."""
    rows = cut_rows(k, ranking.rows)
    above = ranking.true + ranking.false
    at = min(int(np.searchsorted(above, rows - NEAR * max(1.0, rows))), above.size - 1)
    tied = float(ranking.pos[at] + ranking.neg[at])
    share = (rows - (float(above[at]) - tied)) / tied if tied else 0.0
    positives = float(ranking.true[at] - ranking.pos[at]) + min(1.0, share) * float(ranking.pos[at])
    return Cut(rows, positives, float(ranking.scores[at]))


def precision_at(ranking: Ranking, k: float) -> float:
    """Return the share of positives among the first k rows; NaN without rows."""
    if not ranking.rows:
        return math.nan
    cut = first_rows(ranking, k)
    return cut.positives / cut.rows


def precision_at_interval(
    ranking: Ranking, k: float, level: float = 0.95, where: str = "interval"
) -> tuple[float, float]:
    """Return Wilson's interval (1927) of a share of k rows."""
    z = normal_quantile(where, level)
    if not ranking.rows:
        return NO_INTERVAL
    cut = first_rows(ranking, k)
    return wilson(cut.positives / cut.rows, cut.rows, z)


def recall_at(ranking: Ranking, k: float) -> float:
    """Return the share of the positives that is among the first k rows; NaN without positives."""
    return first_rows(ranking, k).positives / ranking.positives if ranking.positives else math.nan


def recall_at_interval(ranking: Ranking, k: float, level: float = 0.95, where: str = "interval") -> tuple[float, float]:
    """Return Wilson's interval of a share of the positives."""
    z = normal_quantile(where, level)
    return wilson(recall_at(ranking, k), ranking.positives, z) if ranking.positives else NO_INTERVAL


def lift_at(ranking: Ranking, k: float) -> float:
    """Return the precision of the first k rows over the share of positives in all; NaN without positives."""
    if not ranking.positives:
        return math.nan
    cut = first_rows(ranking, k)
    return (cut.positives / ranking.positives) * (ranking.rows / cut.rows)


def lift_at_interval(ranking: Ranking, k: float, level: float = 0.95, where: str = "interval") -> tuple[float, float]:
    """Return the interval of the recall at k, times all rows by k."""
    low, high = recall_at_interval(ranking, k, level, where)
    if not ranking.rows:
        return low, high
    times = ranking.rows / cut_rows(k, ranking.rows)
    return low * times, high * times


# -- one threshold ---------------------------------------------------------------------------------------


def above_threshold(ranking: Ranking, threshold: float) -> Cut:
    """Return the rows whose score is at least a threshold."""
    last = int(np.searchsorted(-ranking.scores, -threshold, side="right"))
    if not last:
        return Cut(0.0, 0.0, threshold)
    positives = float(ranking.true[last - 1])
    return Cut(positives + float(ranking.false[last - 1]), positives, threshold)


def cost_of_cut(ranking: Ranking, threshold: float, false_positive: float, false_negative: float) -> float:
    """Return the mean cost of a row where scores of a threshold and more are called positive; NaN without rows."""
    if not ranking.rows:
        return math.nan
    cut = above_threshold(ranking, threshold)
    missed = ranking.positives - cut.positives
    return (false_positive * (cut.rows - cut.positives) + false_negative * missed) / ranking.rows


def threshold_of_least_cost(ranking: Ranking, false_positive: float, false_negative: float) -> float:
    """Return the threshold at which mistakes cost least, the highest of several: inf where it is to call none positive."""
    if not ranking.rows:
        return math.nan
    costs = false_positive * ranking.false + false_negative * (ranking.positives - ranking.true)
    at = int(np.argmin(costs))
    return float(ranking.scores[at]) if costs[at] < false_negative * ranking.positives else math.inf


def cost_of_cut_interval(
    ranking: Ranking,
    threshold: float,
    false_positive: float,
    false_negative: float,
    level: float = 0.95,
    where: str = "interval",
) -> tuple[float, float]:
    """Return the interval of a cost: Wilson's of either kind of mistake, put together as Zou and Donner (2008) do.

    The two kinds exclude each other, which makes the interval a little longer than it had to be.
    """
    z = normal_quantile(where, level)
    if not ranking.rows:
        return NO_INTERVAL
    cut = above_threshold(ranking, threshold)
    parts = ((false_positive, cut.rows - cut.positives), (false_negative, ranking.positives - cut.positives))
    value = below = above = 0.0
    for cost, mistakes in parts:
        share = mistakes / ranking.rows
        low, high = wilson(share, ranking.rows, z)
        value += cost * share
        below += (cost * (share - low)) ** 2
        above += (cost * (high - share)) ** 2
    return max(0.0, value - math.sqrt(below)), value + math.sqrt(above)
