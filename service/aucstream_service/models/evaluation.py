"""Evaluation of a model's scores: AUC over a window and in all, log loss, Brier score, and the alarm of drift.

Everything here is a function of the rows in order, however they were cut into calls, so that a
replay gives the same numbers to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aucstream.errors import BadSnapshot, Description
from aucstream.kernels.auc import losses as judging
from aucstream.kernels.jit import RowCall
from aucstream.metrics.area import Area
from aucstream.metrics.ranking import Ranking
from aucstream_service.journal.row_batch import Numbers

Arrays = dict[str, NDArray[Any]]

Line = tuple[float, ...]  # slope, intercept, and the largest score that counts where there is one

NO_LINE: Line = (0.0, 0.0, math.inf)
_NONE = np.empty(0)
_JUDGE_ONE = RowCall(judging.judge_one, int, *[float] * 6)


def finite(value: float) -> float | None:
    """Return a number for JSON: None where it is not defined yet."""
    return float(value) if math.isfinite(value) else None


class Evaluation:
    """Prequential evaluation of one model: each score was given before its row was learned."""

    def __init__(self, window: int) -> None:
        self.window = Area(window=window)
        self.total = Area()
        self.size = window
        self.examples = 0
        self.sums = np.zeros(2)  # of log loss and Brier score
        self.judged = 0  # rows in these sums
        self.drift = np.zeros(judging.DRIFT_SIZE)

    def rank(self, signs: Numbers, scores: Numbers) -> None:
        """Take rows with finite scores into the AUCs: both lists, or both arrays that nobody changes any more."""
        labels: Any = (
            (signs > 0.0).astype(np.uint8)
            if isinstance(signs, np.ndarray)
            else [1 if sign > 0.0 else 0 for sign in signs]
        )
        self.window.extend(labels, scores)
        self.total.extend(labels, scores)
        self.examples += len(signs)

    def judge(
        self,
        seq: int,
        signs: Numbers,
        scores: Numbers,
        line: Line | None,
        priors: Sequence[float | None] | None = None,
    ) -> None:
        """Take rows into log loss, Brier score and alarm, but for those whose score is not finite.

        `seq` is that of the first row, the others follow. `line` is that of the calibration before them, see
        `Engine.log_odds_line`. `priors` are the probabilities of rows that were predicted before: those are judged by
        what was answered then. One a row (None: not predicted), or none at all.
        """
        slope, intercept, largest = NO_LINE if line is None else (*line, math.inf)[:3]
        if len(signs) == 1:
            first = priors[0] if priors is not None else None
            prior = math.nan if first is None else first
            self.judged += _JUDGE_ONE.dense(
                self.sums, self.drift, seq, signs[0], scores[0], slope, intercept, largest, prior
            )
        else:
            each = _NONE if priors is None else np.array(priors, dtype=np.float64)  # None: NaN
            self.judged += judging.judge(
                self.sums, self.drift, seq, np.asarray(signs), np.asarray(scores), slope, intercept, largest, each
            )

    def resized(self, window: int) -> Area:
        """Return the window with so many rows, of those that are in it the newest; changes nothing."""
        if window == self.size:
            return self.window
        arrays, _ = self.window.state_dict()
        area = Area(window=window)
        area.extend(arrays["labels"][-window:], arrays["scores"][-window:])
        area.get()  # what is put off until it is read is done here
        return area

    def resize(self, window: int, area: Area) -> None:
        """Go on with a window that `resized` has returned."""
        self.window, self.size = area, window

    @property
    def alarms(self) -> int:
        """How often the stream has changed, as far as was noticed."""
        return int(self.drift[judging.ALARMS])

    @property
    def last_alarm(self) -> tuple[int, float] | None:
        """The seq and the strength of the last alarm."""
        return (int(self.drift[judging.LAST_SEQ]), self.drift.item(judging.LAST_STRENGTH)) if self.alarms else None

    def describe_drift(self) -> dict[str, Any]:
        """Return what GET evaluation says of drift where there are probabilities."""
        return {
            "strength": self.drift.item(judging.STRENGTH),
            "last_alarm_seq": int(self.drift[judging.LAST_SEQ]) or None,
            "alarms": self.alarms,
        }

    def auc(self) -> float | None:
        """Return the AUC over the window, None until both classes are in it."""
        return finite(self.window.get())

    def describe(self, calibration: tuple[float, float] | None, *, calibrated: bool) -> dict[str, Any]:
        """Return the answer of GET evaluation; `calibration` is None before both classes were seen, too."""
        slope, intercept = calibration if calibration is not None else (None, None)
        return {
            "window": {"size": self.size, **_summary(self.window)},
            "total": _summary(self.total),
            "calibration": {
                "slope": slope,
                "intercept": intercept,
                "log_loss": self.sums.item(judging.LOG_LOSS) / self.judged if self.judged else None,
                "brier": self.sums.item(judging.BRIER) / self.judged if self.judged else None,
            },
            "drift": self.describe_drift() if calibrated else None,
        }

    def ranking(self) -> Ranking:
        """Return the rows of the window by score."""
        return Ranking.of_table(*self.window.table())

    def roc(self) -> dict[str, Any]:
        """Return the curve over the window; the first threshold is above every score: None."""
        if not self.window.ready:
            return {"fpr": [], "tpr": [], "thresholds": []}
        fpr, tpr, thresholds = self.window.roc()
        return {
            "fpr": np.asarray(fpr).tolist(),
            "tpr": np.asarray(tpr).tolist(),
            "thresholds": [finite(threshold) for threshold in np.asarray(thresholds).tolist()],
        }

    # ---- state -------------------------------------------------------------------------------

    def state_dict(self) -> tuple[Arrays, dict[str, Any]]:
        """Return arrays and metadata that `from_state_dict` takes."""
        arrays: Arrays = {}
        meta: dict[str, Any] = {"size": self.size, "examples": self.examples, "judged": self.judged}
        for name, metric in (("window", self.window), ("total", self.total)):
            metric_arrays, meta[name] = metric.state_dict()
            arrays.update({f"{name}.{key}": value for key, value in metric_arrays.items()})
        arrays["sums"] = self.sums.copy()
        arrays["drift"] = self.drift.copy()
        return arrays, meta

    @classmethod
    def from_state_dict(cls, arrays: Arrays, meta: dict[str, Any]) -> Evaluation:
        """Rebuild; raises BadSnapshot."""
        evaluation = cls.__new__(cls)
        try:
            evaluation.window = Area.from_state_dict(part(arrays, "window."), meta["window"])
            evaluation.total = Area.from_state_dict(part(arrays, "total."), meta["total"])
            evaluation.size = int(meta["size"])
            evaluation.examples = int(meta["examples"])
            evaluation.judged = int(meta["judged"])
            evaluation.sums = np.array(arrays["sums"], dtype=np.float64).reshape(2)
            drift = arrays.get("drift", np.zeros(judging.DRIFT_SIZE))  # earlier versions had none
            evaluation.drift = np.array(drift, dtype=np.float64).reshape(judging.DRIFT_SIZE)
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, BadSnapshot):
                raise
            raise BadSnapshot(
                "snapshot", "the state of an evaluation", Description(f"{type(error).__name__}: {error}")
            ) from error
        return evaluation


def part(arrays: Arrays, prefix: str) -> Arrays:
    """Return the arrays whose names begin with `prefix`, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _summary(metric: Area) -> dict[str, Any]:
    low, high = metric.interval() if metric.ready else (math.nan, math.nan)
    return {
        "examples": int(metric.examples),
        "positives": int(metric.positives),
        "auc": finite(metric.get()),
        "auc_low": finite(low),
        "auc_high": finite(high),
        "ready": bool(metric.ready),
    }
