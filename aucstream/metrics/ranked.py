"""River metrics of a ranking besides its AUC: average precision, partial area, recall and precision at a cut, cost."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from aucstream.errors import BadSnapshot, InvalidParams
from aucstream.metrics import ranking as figures
from aucstream.metrics.area import Area
from aucstream.metrics.base import Arrays, Meta
from aucstream.metrics.contract import RankingMetric
from aucstream.metrics.ranking import PrecisionRecall, Ranking
from aucstream.metrics.window import Window


class Ranked(Area, RankingMetric):
    """A metric of the ranking: exact over the last n rows; over the whole stream from the summaries of `AUC()`.

    Parameters
    ----------
    window : int, optional
        Rows to look back on. None: the whole stream.

    Attributes
    ----------
    ready : bool
        Whether both classes are present.
    examples, positives : int
        Rows, and positive rows, of the window or the stream.
    error_bound : float
        Bound of the error of `get()`, from the errors of the summaries; 0.0 for a window.

    Notes
    -----
    Update O(log n) with a window and O(1) amortised without; `get`, `interval` and curves are O(n), n the rows of the
    window, or the entries of the summaries, which have the memory of `AUC()`. Without a window a value is exact until a
    class has shown 32,768 distinct scores. Scores are ranked as they are; a dict of probabilities that carries `score`
    is ranked by it, another by the probability of True. Weights do not enter: `w` is checked and ignored.
    """

    _fmt = ".2%"

    def __init__(self, window: int | None = None) -> None:
        Area.__init__(self, window)
        RankingMetric.__init__(self)

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        cls._NAME = cls.__name__
        cls._UPDATE = f"{cls.__name__}.update"

    def _value_of(self, ranking: Ranking) -> float:
        raise NotImplementedError

    def _interval_of(self, ranking: Ranking, level: float, where: str) -> tuple[float, float]:
        raise NotImplementedError

    def _ranking(self) -> Ranking:
        return Ranking.of_table(*self.table())

    def _read(self) -> float:
        self._changed = False
        self._value = self._value_of(self._ranking())
        return self._value

    def get(self) -> float:
        """Return the value; NaN until the rows that it needs are there.

        Returns
        -------
        float
        """
        return self._read() if self._changed else self._value

    @property
    def error_bound(self) -> float:
        """Bound of the error of `get()`: what it would be if all rows were off by the errors of the summaries."""
        store = self._flush()
        if isinstance(store, Window) or not store.error_bound:
            return 0.0
        ranking = self._ranking()
        value = self._value_of(ranking)
        of_pos, of_neg = store.pos.error * store.pos.rows, store.neg.error * store.neg.rows
        bounds = (
            self._value_of(ranking.shifted(sign * pos, -sign * of_neg))
            for sign, pos in ((1.0, of_pos), (-1.0, 2.0 * of_pos))
        )
        return max(abs(bound - value) for bound in bounds)

    def standard_error(self) -> float:
        """Return half of the length of the 68.27 % interval; NaN where there is none.

        Returns
        -------
        float
        """
        low, high = self.interval(math.erf(math.sqrt(0.5)))
        return (high - low) / 2.0

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return (low, high) by the method that the class names; NaN where the value is.

        Parameters
        ----------
        level : float, default=0.95
            In (0, 1). Coverage of the interval.

        Returns
        -------
        (float, float)
        """
        return self._interval_of(self._ranking(), level, f"{type(self).__name__}.interval")

    def state_dict(self) -> tuple[Arrays, Meta]:
        """Return (named arrays, JSON-able mapping) from which `from_state_dict` goes on equally.

        Returns
        -------
        (dict of ndarray, dict)
            Arrays and JSON values, for `from_state_dict`.
        """
        arrays, meta = super().state_dict()
        return arrays, {**meta, **self._get_params()}

    @classmethod
    def from_state_dict(cls, arrays: Arrays, meta: Mapping[str, Any]) -> Self:
        """Return the metric that `state_dict` described, equal to the last bit in all that follows.

        Parameters
        ----------
        arrays : dict of ndarray
        meta : dict
            What `state_dict` returned.

        Returns
        -------
        metric
            One that goes on to the same bits.

        Raises
        ------
        BadSnapshot
            An array or a value is missing or of another form.
        """
        metric: Self = metric_of(cls, meta)
        metric._store.restore(cls.__name__, arrays, dict(meta))
        metric._changed = True
        return metric


def metric_of(cls: Any, meta: Mapping[str, Any]) -> Any:
    """Return a new metric of a class with the parameters in a saved state, or raise BadSnapshot."""
    names = list(inspect.signature(cls).parameters)
    missing = [name for name in names if name not in meta]
    if missing:
        raise BadSnapshot(cls.__name__, "the parameters", path=missing[0])
    try:
        return cls(**{name: meta[name] for name in names})
    except InvalidParams as error:
        raise BadSnapshot(cls.__name__, error.expected, error.got) from error


def checked_share(where: str, value: object, most: float = 1.0) -> float:
    """Return a number in (0, most] as float, or raise InvalidParams."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise InvalidParams(where, f"a number in (0, {most:g}]", value)
    if not 0.0 < value <= most:
        raise InvalidParams(where, f"a number in (0, {most:g}]", value)
    return float(value)


def checked_first(where: str, k: object) -> int | float:
    """Return a number of rows >= 1 as int, a share of them in (0, 1) as float, or raise InvalidParams."""
    expected = "a whole number of rows >= 1, or a share in (0, 1)"
    if isinstance(k, (bool, np.bool_)) or not isinstance(k, (int, float, np.integer, np.floating)):
        raise InvalidParams(where, expected, k)
    if 0.0 < k < 1.0:
        return float(k)
    if not (1.0 <= k < math.inf and k == math.floor(k)):
        raise InvalidParams(where, expected, k)
    return int(k)


def checked_number(where: str, value: object, *, least: float = -math.inf) -> float:
    """Return a finite number >= least as float, or raise InvalidParams."""
    expected = "a finite number" if least == -math.inf else f"a finite number >= {least:g}"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise InvalidParams(where, expected, value)
    if not (math.isfinite(value) and value >= least):
        raise InvalidParams(where, expected, value)
    return float(value)


class AveragePrecision(Ranked):
    """The mean, over the positives, of the precision among the rows scored at least as high: the area under the PR curve.

    As scikit-learn's `average_precision_score`: tied rows are one step, nothing is interpolated. A ranking by chance
    has the share of positives. NaN until a positive came.

    Interval: symmetric in the log odds [1]_, by a standard error of structural components, as DeLong's of an AUC.
    Where every positive stands above every negative: from 0.025 ** (1 / n) to 1 at 95 %, n the rows of the rarer class.
    NaN with fewer than two rows of a class. Coverage of 95 % on normal scores: 0.89 to 0.98 with 5 to 20 positives, 0.91
    to 0.95 with 50 and more.

    References
    ----------
    .. [1] K. Boyd, K. Eng, C. Page, "Area under the precision-recall curve: point estimates and confidence
       intervals", ECML PKDD 2013.

    Examples
    --------
    >>> metric = AveragePrecision(window=1000)
    >>> for label, score in [(1, 0.9), (0, 0.1), (0, 0.8), (1, 0.3)]:
    ...     metric.update(label, score)
    >>> metric
    AveragePrecision: 83.33%
    """

    def _value_of(self, ranking: Ranking) -> float:
        return figures.average_precision(ranking)

    def _interval_of(self, ranking: Ranking, level: float, where: str) -> tuple[float, float]:
        return figures.average_precision_interval(ranking, level, where)

    def standard_error(self) -> float:
        """Return the standard error by structural components; NaN with fewer than two rows of either class.

        Returns
        -------
        float
        """
        return figures.average_precision_error(self._ranking())

    def curve(self) -> PrecisionRecall:
        """Return (precision, recall, thresholds), as scikit-learn's `precision_recall_curve`.

        Returns
        -------
        PrecisionRecall
            `precision` and `recall`, each (k + 1,), and `thresholds`, (k,), increasing.
        """
        return figures.precision_recall_curve(self._ranking())


class PartialAUC(Ranked):
    """The area under the ROC curve up to a false-positive rate.

    In [0, max_fpr]; standardized, by McClish: 1/2 for a ranking by chance, 1 for a perfect one, as scikit-learn's
    `roc_auc_score(max_fpr=...)`. The curve is straight between its points, as there. NaN until both classes came.

    Interval: symmetric in the log odds of the share of `max_fpr`, by structural components [1]_, at `max_fpr=1` those
    of DeLong; where the area is 0 or `max_fpr`, that share is off by at most 1 - 0.025 ** (1 / n) at 95 %, n the
    positives, or the negatives within `max_fpr` where they are fewer. NaN with fewer than two rows of a class. Coverage of 95 %
    on normal scores: 0.92 to 0.98 with ten or more negatives within the rate, below 0.90 with fewer.

    Parameters
    ----------
    max_fpr : float
        In (0, 1].
    standardized : bool, default=False
        Whether the value and its interval are McClish's.
    window : int, optional
        Rows to look back on. None: the whole stream.

    References
    ----------
    .. [1] Y. He, M. Escobar, "Nonparametric statistical inference method for partial areas under receiver operating
       characteristic curves, with application to genomic studies", Statistics in Medicine 2008.
    .. [2] D. McClish, "Analyzing a portion of the ROC curve", Medical Decision Making 1989.

    Examples
    --------
    >>> metric = PartialAUC(0.5, window=1000)
    >>> metric.update_many([1, 0, 0, 1], [0.9, 0.1, 0.8, 0.3])
    >>> metric.get()
    0.25
    """

    def __init__(self, max_fpr: float, standardized: bool = False, window: int | None = None) -> None:
        super().__init__(window)
        self.max_fpr = checked_share("PartialAUC.max_fpr", max_fpr)
        if not isinstance(standardized, (bool, np.bool_)):
            raise InvalidParams("PartialAUC.standardized", "True or False", standardized)
        self.standardized = bool(standardized)

    def _form(self, area: float) -> float:
        # of the whole curve both forms are the AUC
        return figures.standardized(area, self.max_fpr) if self.standardized else area

    def _value_of(self, ranking: Ranking) -> float:
        return self._form(figures.partial_area(ranking, self.max_fpr))

    def _interval_of(self, ranking: Ranking, level: float, where: str) -> tuple[float, float]:
        low, high = figures.partial_area_interval(ranking, self.max_fpr, level, where)
        return self._form(low), self._form(high)

    def standard_error(self) -> float:
        """Return the standard error by structural components; NaN with fewer than two rows of either class.

        Returns
        -------
        float
        """
        error = figures.partial_area_error(self._ranking(), self.max_fpr)
        return error * (self._form(1.0) - self._form(0.0))


class RecallAtFPR(Ranked):
    """The share of the positives that are found where at most a share `fpr` of the negatives is called positive.

    The largest recall of a threshold whose false-positive rate is at most `fpr`; tied rows are called alike, and
    nothing is interpolated. NaN until both classes came.

    Interval: Wilson's, of the positives, put together with the uncertainty of the threshold by the rule of Zou and
    Donner [1]_. Coverage of 95 % on normal scores: 0.95 to 0.99 with two or more negatives within the rate, 0.83 with
    fewer.

    Parameters
    ----------
    fpr : float
        In (0, 1].
    window : int, optional
        Rows to look back on. None: the whole stream.

    References
    ----------
    .. [1] G. Zou, A. Donner, "Construction of confidence limits about effect measures: a general approach",
       Statistics in Medicine 2008.

    Examples
    --------
    >>> metric = RecallAtFPR(0.25, window=1000)
    >>> metric.update_many([1, 0, 1, 0, 0, 0], [0.9, 0.8, 0.7, 0.6, 0.5, 0.4])
    >>> metric.get(), metric.threshold
    (1.0, 0.7)
    """

    def __init__(self, fpr: float, window: int | None = None) -> None:
        super().__init__(window)
        self.fpr = checked_share("RecallAtFPR.fpr", fpr)

    @property
    def threshold(self) -> float:
        """The lowest threshold with that false-positive rate; inf: the highest score has too many negatives."""
        return figures.threshold_at_fpr(self._ranking(), self.fpr)

    def _value_of(self, ranking: Ranking) -> float:
        return figures.recall_at_fpr(ranking, self.fpr)

    def _interval_of(self, ranking: Ranking, level: float, where: str) -> tuple[float, float]:
        return figures.recall_at_fpr_interval(ranking, self.fpr, level, where)


class _AtFirst(Ranked):
    """A metric of the first k rows.

    Notes
    -----
    Over a whole stream the summaries do not tell the first few rows from the next: where k is less than some thousandths
    of the rows, `error_bound` is large. A window is exact.
    """

    def __init__(self, k: float, window: int | None = None) -> None:
        super().__init__(window)
        self.k = checked_first(f"{type(self).__name__}.k", k)

    @property
    def threshold(self) -> float:
        """The score of the last of the first k rows; NaN without rows."""
        ranking = self._ranking()
        return figures.first_rows(ranking, self.k).threshold if ranking.rows else math.nan


class PrecisionAtK(_AtFirst):
    """The share of positives among the k rows with the highest scores.

    Where the k-th row is one of several with the same score, the mean over all orders of these. NaN until a row came.

    Interval: Wilson's, of k rows. Coverage of 95 % on normal scores: 0.91 to 1.00.

    Parameters
    ----------
    k : int or float
        Rows, all where there are fewer; below 1 a share of the rows, rounded up.
    window : int, optional
        Rows to look back on. None: the whole stream.

    Examples
    --------
    >>> metric = PrecisionAtK(2, window=1000)
    >>> metric.update_many([1, 0, 1, 0], [0.9, 0.5, 0.5, 0.1])
    >>> metric.get()
    0.75
    """

    def _value_of(self, ranking: Ranking) -> float:
        return figures.precision_at(ranking, self.k)

    def _interval_of(self, ranking: Ranking, level: float, where: str) -> tuple[float, float]:
        return figures.precision_at_interval(ranking, self.k, level, where)


class RecallAtK(_AtFirst):
    """The share of the positives that is among the k rows with the highest scores.

    Where the k-th row is one of several with the same score, the mean over all orders of these. NaN until a positive
    came.

    Interval: Wilson's, of the positives; too long rather than too short, since k is given. Coverage of 95 % on normal
    scores: 0.93 to 1.00.

    Parameters
    ----------
    k : int or float
        Rows, all where there are fewer; below 1 a share of the rows, rounded up.
    window : int, optional
        Rows to look back on. None: the whole stream.

    Examples
    --------
    >>> metric = RecallAtK(0.5, window=1000)
    >>> metric.update_many([1, 0, 1, 0], [0.9, 0.5, 0.5, 0.1])
    >>> metric.get()
    0.75
    """

    def _value_of(self, ranking: Ranking) -> float:
        return figures.recall_at(ranking, self.k)

    def _interval_of(self, ranking: Ranking, level: float, where: str) -> tuple[float, float]:
        return figures.recall_at_interval(ranking, self.k, level, where)


class Lift(_AtFirst):
    """How many times as many positives the first k rows have as k rows drawn at random would.

    The precision of the first k rows over the share of positives in all. NaN until a positive came.

    Interval: that of the recall at k, times all rows by k.

    Parameters
    ----------
    k : int or float
        Rows, all where there are fewer; below 1 a share of the rows, rounded up.
    window : int, optional
        Rows to look back on. None: the whole stream.

    Examples
    --------
    >>> metric = Lift(2, window=1000)
    >>> metric.update_many([1, 0, 1, 0], [0.9, 0.5, 0.5, 0.1])
    >>> metric
    Lift: 1.5
    """

    _fmt = ".4f"

    def _value_of(self, ranking: Ranking) -> float:
        return figures.lift_at(ranking, self.k)

    def _interval_of(self, ranking: Ranking, level: float, where: str) -> tuple[float, float]:
        return figures.lift_at_interval(ranking, self.k, level, where)


class CutCost(Ranked):
    """The mean cost of a row where scores of a threshold and more are called positive.

    (`false_positive` x negatives called positive + `false_negative` x positives called negative) / rows. Smaller is
    better. NaN until a row came.

    Interval: Wilson's of either kind of mistake, put together by the rule of Zou and Donner. Coverage of 95 % on
    normal scores: 0.93 to 0.99.

    Parameters
    ----------
    threshold : float
        Of the score, not of the probability; a dict of probabilities without `score` has its probability as score.
    false_positive, false_negative : float
        >= 0. Cost of one mistake.
    window : int, optional
        Rows to look back on. None: the whole stream.

    Examples
    --------
    >>> metric = CutCost(0.5, false_positive=1, false_negative=20, window=1000)
    >>> metric.update_many([1, 0, 1, 0], [0.9, 0.5, 0.2, 0.1])
    >>> metric
    CutCost: 5.25
    """

    _fmt = ".4f"

    def __init__(
        self,
        threshold: float,
        false_positive: float,
        false_negative: float,
        window: int | None = None,
    ) -> None:
        super().__init__(window)
        self.threshold = checked_number("CutCost.threshold", threshold)
        self.false_positive = checked_number("CutCost.false_positive", false_positive, least=0.0)
        self.false_negative = checked_number("CutCost.false_negative", false_negative, least=0.0)

    @property
    def bigger_is_better(self) -> bool:
        """False."""
        return False

    def _value_of(self, ranking: Ranking) -> float:
        return figures.cost_of_cut(ranking, self.threshold, self.false_positive, self.false_negative)

    def _interval_of(self, ranking: Ranking, level: float, where: str) -> tuple[float, float]:
        return figures.cost_of_cut_interval(
            ranking, self.threshold, self.false_positive, self.false_negative, level, where
        )
