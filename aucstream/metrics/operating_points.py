"""Operating points: what a ranking gives where one calls its first rows positive, up to a cut that a text names."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from aucstream.errors import InvalidParams
from aucstream.metrics import ranking as figures
from aucstream.metrics.intervals import NO_INTERVAL, normal_quantile, wilson
from aucstream.metrics.ranking import Cut, Ranking

KINDS = ("fpr", "top", "threshold", "cost")


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """Where a ranking is cut.

    Attributes
    ----------
    kind : {"fpr", "top", "threshold", "cost"}
        By a false-positive rate, by a number or share of rows, by a score, or where mistakes cost least: `value` is then
        what a false negative costs, in units of what a false positive does.
    value : float
    """

    kind: str
    value: float

    @classmethod
    def of_text(cls, where: str, text: str, separator: str) -> OperatingPoint:
        """Return the point that `fpr=0.01`, `top=100`, `top=0.05`, `threshold=0.7` or `cost=50` names.

        Parameters
        ----------
        where : str
            Of the error.
        text : str
        separator : str
            Between kind and value.

        Raises
        ------
        InvalidParams
            The kind is unknown, or the value is out of its range.
        """
        kind, _, number = text.partition(separator)
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        fits = {
            "fpr": 0.0 < value <= 1.0,
            "top": 0.0 < value < 1.0 or (1.0 <= value < math.inf and value == math.floor(value)),
            "threshold": math.isfinite(value),
            "cost": 0.0 < value < math.inf,
        }
        if not fits.get(kind, False):
            expected = (
                f"fpr{separator}RATE in (0, 1], top{separator}ROWS or a share of them below 1, "
                f"threshold{separator}SCORE, or cost{separator}TIMES above 0 that a false negative costs a false positive"
            )
            raise InvalidParams(where, expected, text)
        return cls(kind, value)

    def text(self, separator: str) -> str:
        """Return the text that names the point."""
        return f"{self.kind}{separator}{self.value:.15g}"

    def figures(self, ranking: Ranking, level: float = 0.95) -> dict[str, float | None]:
        """Return what the ranking gives there; None where it is undefined.

        Parameters
        ----------
        ranking : Ranking
        level : float, default=0.95
            Of the intervals.

        Returns
        -------
        dict
            `threshold` (None: above every score), `rows` that are called positive, `precision` and `recall` with `_low`
            and `_high`, `fpr`, `lift`; and for a false-positive rate `partial_auc` up to it with `_low` and `_high`, and
            McClish's form `partial_auc_standardized`; and for a cost `cost`, the mean of a row in units of a false positive,
            with `_low` and `_high`. The threshold of a cost is the best one of these very rows.
        """
        cut = self._cut(ranking)
        z = normal_quantile("figures", level)
        precision = cut.positives / cut.rows if cut.rows else math.nan
        recall = cut.positives / ranking.positives if ranking.positives else math.nan
        base = ranking.positives / ranking.rows if ranking.rows else math.nan
        part, part_ends = math.nan, NO_INTERVAL
        cost, cost_ends = math.nan, NO_INTERVAL
        if self.kind == "cost" and ranking.rows:
            cost = figures.cost_of_cut(ranking, cut.threshold, 1.0, self.value)
            cost_ends = figures.cost_of_cut_interval(ranking, cut.threshold, 1.0, self.value, level)
        if self.kind == "fpr":
            recall_ends = figures.recall_at_fpr_interval(ranking, self.value, level)
            part = figures.partial_area(ranking, self.value)
            part_ends = figures.partial_area_interval(ranking, self.value, level)
        else:
            recall_ends = wilson(recall, ranking.positives, z)
        numbers = {
            "threshold": cut.threshold,
            "rows": cut.rows,
            "precision": precision,
            **_ends("precision", wilson(precision, cut.rows, z)),
            "recall": recall,
            **_ends("recall", recall_ends),
            "fpr": (cut.rows - cut.positives) / ranking.negatives if ranking.negatives else math.nan,
            "lift": precision / base if base else math.nan,
            "partial_auc": part,
            **_ends("partial_auc", part_ends),
            "partial_auc_standardized": figures.standardized(part, self.value) if self.kind == "fpr" else math.nan,
            "cost": cost,
            **_ends("cost", cost_ends),
        }
        return {name: number if math.isfinite(number) else None for name, number in numbers.items()}

    def _cut(self, ranking: Ranking) -> Cut:
        if self.kind == "threshold":
            return figures.above_threshold(ranking, self.value)
        if not ranking.rows or (self.kind == "fpr" and not ranking.ready):
            return Cut(math.nan, math.nan, math.nan)
        if self.kind == "cost":
            return figures.above_threshold(ranking, figures.threshold_of_least_cost(ranking, 1.0, self.value))
        if self.kind == "top":
            return figures.first_rows(ranking, self.value)
        return figures.above_threshold(ranking, figures.threshold_at_fpr(ranking, self.value))


def _ends(name: str, interval: tuple[float, float]) -> dict[str, float]:
    return {f"{name}_low": interval[0], f"{name}_high": interval[1]}


def average_precision_summary(ranking: Ranking) -> dict[str, Any]:
    """Return average precision with its 95 % interval; None where they are undefined."""
    low, high = figures.average_precision_interval(ranking)
    numbers = {"average_precision": figures.average_precision(ranking), **_ends("average_precision", (low, high))}
    return {name: number if math.isfinite(number) else None for name, number in numbers.items()}
