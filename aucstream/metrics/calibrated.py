"""River metrics of probabilities: log loss, Brier score, expected calibration error with its reliability table.

A window is a ring of its rows, and a value the sum over them: exact, in O(n) a read. Over the whole stream the sums are
kept: exact up to rounding, and the same however rows were grouped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from aucstream.errors import BadSnapshot, InvalidBlock, InvalidParams
from aucstream.exclusive import exclusive, lock_free
from aucstream.metrics.base import (
    Arrays,
    Floats,
    Labels,
    Meta,
    check_weight,
    checked_window,
    drained,
    label_of,
    labels_array,
    state_array,
    state_number,
)
from aucstream.metrics.contract import RankingMetric
from aucstream.metrics.intervals import NO_INTERVAL, normal_quantile
from aucstream.metrics.ranked import metric_of

BLOCK = 512  # rows of the whole stream that are summed at once
EPS = float(np.finfo(np.float64).eps)  # a probability enters the log loss at least this far from 0 and 1
DRAWS = 2000  # of the bootstrap


class Reliability(NamedTuple):
    """What came of rows whose probability was in a bin, for each bin that has rows."""

    predicted: Floats  # mean probability
    observed: Floats  # share of positives
    rows: NDArray[np.int64]


def probability_of(where: str, y_pred: object, path: str = "") -> float:
    """Return the probability of a prediction: a number in [0, 1], or of a dict that of True."""
    value = y_pred.get(True, 0.0) if isinstance(y_pred, dict) else y_pred
    try:
        p = math.nan if isinstance(value, (str, bytes)) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        p = math.nan
    if not 0.0 <= p <= 1.0:
        raise InvalidBlock(where, "a probability in [0, 1], or a dict with that of True", value, path=path)
    return p


def probabilities_array(where: str, probabilities: Any) -> Floats:
    """Return probabilities as float64 (n,), or raise InvalidBlock naming row and value."""
    array = np.asarray(probabilities)
    if array.ndim != 1:
        raise InvalidBlock(where, "probabilities of one dimension", array.shape)
    if array.dtype.kind in "biuf":
        array = array.astype(np.float64)
        if not ((array >= 0.0) & (array <= 1.0)).all():
            row = int(np.argmin((array >= 0.0) & (array <= 1.0)))
            raise InvalidBlock(where, "probabilities in [0, 1]", array[row], path=f"row {row}")
        return np.array(array)
    values = [probability_of(where, value, f"row {row}") for row, value in enumerate(array.tolist())]
    return np.array(values, dtype=np.float64)


def log_losses(labels: Labels, p: Floats) -> Floats:
    """Return the log loss of each row, as scikit-learn's: probabilities at least 2.2e-16 from 0 and 1."""
    p = np.clip(p, EPS, 1.0 - EPS)
    return -np.log(np.where(labels == 1, p, 1.0 - p))


def brier_losses(labels: Labels, p: Floats) -> Floats:
    """Return the squared difference of each row's label and probability."""
    return np.square(labels - p)


def sums_of_losses(losses: Any, labels: Labels, p: Floats) -> Floats:
    """Return the sums of losses, of their squares, and of the losses with the other label."""
    of_label, of_other = losses(labels, p), losses(1 - labels, p)
    return np.array([of_label.sum(), np.square(of_label).sum(), of_other.sum()])


def mean_interval(sums: Floats, rows: int, z: float) -> tuple[float, float]:
    """Return the normal interval of a mean loss, from 0; NaN below two rows.

    It reaches at least as far up as it would if z² more rows with the other label had come: a loss that was never seen
    leaves no trace in the variance.
    """
    if rows < 2:
        return NO_INTERVAL
    mean = sums.item(0) / rows
    variance = max(0.0, sums.item(1) - rows * mean * mean) / (rows - 1)
    half = z * math.sqrt(variance / rows)
    unseen = z * z / (rows + z * z) * max(0.0, sums.item(2) / rows - mean)
    return max(0.0, mean - half), mean + max(half, unseen)


def sums_of_bins(bins: int, labels: Labels, p: Floats) -> Floats:
    """Return for each bin: rows, positives, probabilities, squares of their differences, p (1 - p)."""
    inner = np.linspace(0.0, 1.0, bins + 1)[1:-1]
    where = np.searchsorted(inner, p)
    difference = labels - p
    columns = (None, labels, p, np.square(difference), p * (1.0 - p))
    return np.stack([np.bincount(where, column, minlength=bins).astype(np.float64) for column in columns])


def reliability_of(sums: Floats) -> Reliability:
    """Return the table of the bins that have rows."""
    rows = sums[0]
    there = rows > 0.0
    return Reliability(sums[2][there] / rows[there], sums[1][there] / rows[there], rows[there].astype(np.int64))


def calibration_error(sums: Floats) -> float:
    """Return the mean, over rows, of the distance between share of positives and mean probability of their bin."""
    rows = float(sums[0].sum())
    return float(np.abs(sums[1] - sums[2]).sum()) / rows if rows else math.nan


def calibration_error_interval(sums: Floats, level: float, where: str) -> tuple[float, float]:
    """Return the basic bootstrap interval, from 0: twice the value less the quantiles of 2,000 seeded draws.

    A draw moves each bin's difference by a normal number of its own variance, that of its rows or p (1 - p), whichever
    is larger. Draws are too large where there is hardly an error, as the value itself is; the basic interval turns that
    around. The lower end is 0 where draws about no difference at all reach the value.
    """
    normal_quantile(where, level)
    rows = float(sums[0].sum())
    if rows < 2.0:
        return NO_INTERVAL
    there = sums[0] > 0.0
    count, difference = sums[0][there], sums[1][there] - sums[2][there]
    spread = sums[3][there] - difference * difference / count
    error = np.sqrt(np.maximum(np.maximum(spread, 0.0), sums[4][there]))
    noise = np.random.default_rng(0).standard_normal((DRAWS, count.size))
    draws = np.abs(difference + noise * error).sum(axis=1) / rows
    low, high = np.quantile(draws, [(1.0 - level) / 2.0, (1.0 + level) / 2.0]).tolist()
    value = calibration_error(sums)
    by_chance = float(np.quantile(np.abs(noise * error).sum(axis=1) / rows, (1.0 + level) / 2.0))
    least = 0.0 if value <= by_chance else min(value, max(0.0, 2.0 * value - high))
    return least, max(value, min(1.0, 2.0 * value - low))


def reliability(labels: Any, probabilities: Any, bins: int = 10) -> Reliability:
    """Return what came of rows whose probability was in a bin: a reliability table.

    As scikit-learn's `calibration_curve`, and with the number of rows.

    Parameters
    ----------
    labels : array_like (n,)
        True, 1 or False, 0, -1.
    probabilities : array_like of float (n,)
        In [0, 1].
    bins : int, default=10
        Bins of equal width; a probability on an edge belongs to the lower one.

    Returns
    -------
    Reliability
        `predicted` (mean probability), `observed` (share of positives) and `rows`, for each bin that has rows.

    Examples
    --------
    >>> table = reliability([0, 1, 1, 1], [0.25, 0.25, 0.75, 0.75], bins=2)
    >>> table.predicted.tolist(), table.observed.tolist(), table.rows.tolist()
    ([0.25, 0.75], [0.5, 1.0], [2, 2])
    """
    p = probabilities_array("reliability", probabilities)
    return reliability_of(sums_of_bins(_checked_bins("reliability", bins), labels_array(labels, p.size), p))


def _checked_bins(where: str, bins: object) -> int:
    if isinstance(bins, (bool, np.bool_)) or not isinstance(bins, (int, np.integer)) or not 1 <= bins <= 10_000:
        raise InvalidParams(f"{where}.bins", "a whole number from 1 to 10000", bins)
    return int(bins)


class OfProbabilities(RankingMetric):
    """A metric of probabilities: over the last n rows, or over the whole stream, exact up to rounding.

    Parameters
    ----------
    window : int, optional
        Rows to look back on. None: the whole stream.

    Attributes
    ----------
    ready : bool
        Whether a row came.
    examples, positives : int
        Rows, and positive rows, of the window or the stream.

    Notes
    -----
    Update O(1); a read O(n) with a window (9 bytes a row), O(1) without. Weights do not enter: `w` is checked and
    ignored. A number is taken as the probability; of a dict it is that of True.
    """

    _SHAPE: ClassVar[tuple[int, ...]] = (3,)  # of the sums

    def __init__(self, window: int | None = None) -> None:
        super().__init__()
        self.window = None if window is None else checked_window(type(self).__name__, window)
        self._rows: list[tuple[int, float]] = []  # that wait
        room = BLOCK if self.window is None else min(self.window, BLOCK)
        # A window: the ring. The whole stream: rows that do not make a block yet.
        self._labels: Labels = np.zeros(room, dtype=np.uint8)
        self._p: Floats = np.zeros(room)
        self._next = 0  # place of the next row
        self._filled = 0
        self._blocks = 0  # whole blocks that are summed
        self._positives = 0  # in them
        self._sums: Floats = np.zeros(self._shape)
        self._lost: Floats = np.zeros(self._shape)  # what rounding took from the sums
        self._read_sums: Floats | None = None

    @property
    def _shape(self) -> tuple[int, ...]:
        return self._SHAPE

    def _sums_of(self, labels: Labels, p: Floats) -> Floats:
        raise NotImplementedError

    def _value_of(self, sums: Floats, rows: int) -> float:
        raise NotImplementedError

    def _interval_of(self, sums: Floats, rows: int, level: float, where: str) -> tuple[float, float]:
        raise NotImplementedError

    @property
    def bigger_is_better(self) -> bool:
        """False."""
        return False

    @lock_free
    def update(self, y_true: Any, y_pred: Any, w: float = 1.0) -> None:
        """Add one row.

        Parameters
        ----------
        y_true : bool, 0, 1, -1
            The label.
        y_pred : float, bool or dict
            The probability of the positive class; of a dict that of True.
        w : float
            Ignored, but for one that is no weight.

        Raises
        ------
        InvalidLabel, InvalidBlock
            Neither class; no probability; a weight below 0 or not finite. Nothing is changed.
        """
        where = f"{type(self).__name__}.update"
        if w != 1.0:
            check_weight(where, w)
        p = probability_of(where, y_pred)
        self._rows.append((label_of(y_true), p))
        if len(self._rows) >= BLOCK:
            self._flush()

    def update_many(self, labels: Any, probabilities: Any) -> None:
        """Add rows in order.

        Parameters
        ----------
        labels : array_like (n,)
            True, 1 or False, 0, -1.
        probabilities : array_like of float (n,)
            In [0, 1].

        Raises
        ------
        InvalidLabel, InvalidBlock
            Nothing was added.
        """
        p = probabilities_array(f"{type(self).__name__}.update_many", probabilities)
        signs = labels_array(labels, p.size)
        self._flush()
        self._add(signs, p)

    @exclusive
    def _flush(self) -> None:
        if self._rows:
            labels, p = zip(*drained(self._rows), strict=True)
            self._add(np.array(labels, dtype=np.uint8), np.array(p, dtype=np.float64))

    def _add(self, labels: Labels, p: Floats) -> None:
        if not labels.size:
            return
        self._read_sums = None
        if self.window is None:
            self._add_to_stream(labels, p)
        else:
            self._add_to_window(labels, p, self.window)

    def _add_to_window(self, labels: Labels, p: Floats, window: int) -> None:
        labels, p = labels[-window:], p[-window:]
        room = self._p.size
        if self._filled + p.size > room and room < window:
            # The ring has not been full yet, so it starts at 0 and can simply become longer.
            more = min(max(self._filled + p.size, 2 * room), window) - room
            self._labels = np.concatenate((self._labels, np.zeros(more, dtype=np.uint8)))
            self._p = np.concatenate((self._p, np.zeros(more)))
            if self._filled == room:
                self._next = room
        room = self._p.size
        where = (self._next + np.arange(p.size)) % room
        self._labels[where], self._p[where] = labels, p
        self._next = (self._next + p.size) % room
        self._filled = min(room, self._filled + p.size)

    def _add_to_stream(self, labels: Labels, p: Floats) -> None:
        start = 0
        while start < p.size:
            stop = min(p.size, start + BLOCK - self._filled)
            end = self._filled + stop - start
            self._labels[self._filled : end], self._p[self._filled : end] = labels[start:stop], p[start:stop]
            self._filled, start = end, stop
            if end == BLOCK:
                self._positives += int(self._labels.sum())
                # Kahan's and Babuska's sum, in Neumaier's form
                term = self._sums_of(self._labels, self._p)
                total = self._sums + term
                larger = np.abs(self._sums) >= np.abs(term)
                self._lost += np.where(larger, (self._sums - total) + term, (term - total) + self._sums)
                self._sums = total
                self._blocks += 1
                self._filled = 0

    def _all_sums(self) -> Floats:
        self._flush()
        if self._read_sums is None:
            part = self._sums_of(*self._kept()) if self._filled else np.zeros(self._shape)
            self._read_sums = self._sums + (self._lost + part)
        return self._read_sums

    def _kept(self) -> tuple[Labels, Floats]:
        """Return the rows that are kept, the oldest first."""
        start = self._next if self.window is not None and self._filled == self._p.size else 0
        where = (start + np.arange(self._filled)) % self._p.size
        return self._labels[where], self._p[where]

    @property
    def examples(self) -> int:
        """Rows of the window, or of the stream."""
        self._flush()
        return self._blocks * BLOCK + self._filled

    @property
    def positives(self) -> int:
        """Positive rows of the window, or of the stream."""
        self._flush()
        return self._positives + int(self._kept()[0].sum())

    @property
    def ready(self) -> bool:
        """Whether a row came."""
        return self.examples > 0

    def get(self) -> float:
        """Return the value; NaN until a row came.

        Returns
        -------
        float
        """
        rows = self.examples
        return self._value_of(self._all_sums(), rows) if rows else math.nan

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return (low, high) by the method that the class names; NaN with fewer than two rows.

        Parameters
        ----------
        level : float, default=0.95
            In (0, 1). Coverage of the interval.

        Returns
        -------
        (float, float)
        """
        return self._interval_of(self._all_sums(), self.examples, level, f"{type(self).__name__}.interval")

    def state_dict(self) -> tuple[Arrays, Meta]:
        """Return (named arrays, JSON-able mapping) from which `from_state_dict` goes on equally.

        Returns
        -------
        (dict of ndarray, dict)
            Arrays and JSON values, for `from_state_dict`.
        """
        self._flush()
        labels, p = self._kept()
        arrays: Arrays = {"labels": labels, "probabilities": p, "sums": self._sums.copy(), "lost": self._lost.copy()}
        return arrays, {"blocks": self._blocks, "positives": self._positives, **self._get_params()}

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
        where = cls.__name__
        metric: Self = metric_of(cls, meta)
        p = state_array(where, arrays, "probabilities", np.float64, (None,))
        labels = state_array(where, arrays, "labels", np.uint8, p.shape)
        most = BLOCK - 1 if metric.window is None else metric.window
        if p.size > most or not ((p >= 0.0) & (p <= 1.0)).all() or (labels > 1).any():
            raise BadSnapshot(where, f"up to {most} probabilities with labels 0 and 1", p.size, path="probabilities")
        metric._add(labels, p)
        for name in ("sums", "lost"):
            sums = state_array(where, arrays, name, np.float64, metric._shape)
            if not np.isfinite(sums).all():
                raise BadSnapshot(where, "finite sums", path=name)
            setattr(metric, f"_{name}", sums)
        metric._blocks = state_number(where, dict(meta), "blocks")
        metric._positives = state_number(where, dict(meta), "positives")
        return metric


class LogLoss(OfProbabilities):
    """The mean of -log(probability of the label).

    As scikit-learn's `log_loss`: a probability counts as at least 2.2e-16 from 0 and 1.

    Interval: normal, of a mean; it reaches at least as far up as if z² more rows had come with the label that the
    model did not expect, so that a loss not seen yet is allowed for.

    Examples
    --------
    >>> metric = LogLoss(window=1000)
    >>> metric.update_many([1, 0], [0.5, 0.5])
    >>> metric
    LogLoss: 0.693147
    """

    _fmt = ".6f"

    def _sums_of(self, labels: Labels, p: Floats) -> Floats:
        return sums_of_losses(log_losses, labels, p)

    def _value_of(self, sums: Floats, rows: int) -> float:
        return sums.item(0) / rows

    def _interval_of(self, sums: Floats, rows: int, level: float, where: str) -> tuple[float, float]:
        return mean_interval(sums, rows, normal_quantile(where, level))


class Brier(OfProbabilities):
    """The mean of (label - probability)², as scikit-learn's `brier_score_loss`.

    Interval: normal, of a mean; it reaches at least as far up as if z² more rows had come with the label that the
    model did not expect.

    Examples
    --------
    >>> metric = Brier(window=1000)
    >>> metric.update_many([1, 0], [0.75, 0.75])
    >>> metric
    Brier: 0.3125
    """

    _fmt = ".6f"

    def _sums_of(self, labels: Labels, p: Floats) -> Floats:
        return sums_of_losses(brier_losses, labels, p)

    def _value_of(self, sums: Floats, rows: int) -> float:
        return sums.item(0) / rows

    def _interval_of(self, sums: Floats, rows: int, level: float, where: str) -> tuple[float, float]:
        low, high = mean_interval(sums, rows, normal_quantile(where, level))
        return low, high if math.isnan(high) else min(1.0, high)


class ExpectedCalibrationError(OfProbabilities):
    """The mean, over rows, of the distance between share of positives and mean probability in their bin.

    Bins are those of scikit-learn's `calibration_curve`: of equal width, an edge belongs to the lower one. The value is
    positive for a perfectly calibrated model too, by chance; less with more rows.

    Interval: basic bootstrap of the bins' differences, 2,000 draws with a fixed seed; from 0 where a calibrated model
    would show the value by chance.

    Parameters
    ----------
    bins : int, default=10
        1 to 10,000.
    window : int, optional
        Rows to look back on. None: the whole stream.

    Examples
    --------
    >>> metric = ExpectedCalibrationError(bins=2, window=1000)
    >>> metric.update_many([0, 1, 1, 1], [0.25, 0.25, 0.75, 0.75])
    >>> metric
    ExpectedCalibrationError: 0.25
    """

    _fmt = ".6f"

    def __init__(self, bins: int = 10, window: int | None = None) -> None:
        self.bins = _checked_bins(type(self).__name__, bins)
        super().__init__(window)

    @property
    def _shape(self) -> tuple[int, ...]:
        return 5, self.bins

    def _sums_of(self, labels: Labels, p: Floats) -> Floats:
        return sums_of_bins(self.bins, labels, p)

    def _value_of(self, sums: Floats, rows: int) -> float:
        return calibration_error(sums)

    def _interval_of(self, sums: Floats, rows: int, level: float, where: str) -> tuple[float, float]:
        return calibration_error_interval(sums, level, where)

    def curve(self) -> Reliability:
        """Return the reliability table.

        Returns
        -------
        Reliability
            `predicted` (mean probability), `observed` (share of positives) and `rows`, for each bin that has rows.
        """
        return reliability_of(self._all_sums())
