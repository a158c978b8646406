"""What `evaluate` says besides the AUC: figures of the ranking and of the probabilities, differences, several runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from aucstream.cli.choices import ModelChoice
from aucstream.cli.results import auc_text, result_object
from aucstream.evaluate import Progress as Run
from aucstream.metrics.calibrated import Brier, ExpectedCalibrationError, LogLoss
from aucstream.metrics.operating_points import OperatingPoint, average_precision_summary
from aucstream.metrics.paired import PairedAUC

Floats = NDArray[np.float64]
LOSSES = {"log_loss": LogLoss, "brier": Brier, "expected_calibration_error": ExpectedCalibrationError}
HEADS = {"average_precision": "PR-AUC", "log_loss": "log loss", "brier": "Brier", "expected_calibration_error": "ECE"}


@dataclass(frozen=True, slots=True)
class RunPlace:
    """Which of several runs one is.

    Attributes
    ----------
    run : int
        Number of the order, from 1.
    fold : int or None
        Number of the fold, from 1; None: there are none.
    """

    run: int = 1
    fold: int | None = None


def figures_object(
    choices: Sequence[ModelChoice], runs: Sequence[Run], at: int, points: Sequence[OperatingPoint], place: RunPlace
) -> dict[str, Any]:
    """Return the JSON object of one model's run: that of `result_object`, and all else that is known of it.

    Parameters
    ----------
    choices, runs : sequences
        The models and their runs, in the same order. The first is the one that the others are compared with.
    at : int
        Which of them.
    points : sequence of OperatingPoint
        Values of `--at`.
    place : RunPlace

    Returns
    -------
    dict
        Then average_precision with its interval, log_loss, brier, expected_calibration_error, at, difference, run,
        fold.
    """
    run, ranking = runs[at], runs[at].ranking
    judged = ~np.isnan(run.probabilities)
    losses: dict[str, float | None] = dict.fromkeys(LOSSES)
    if judged.any():
        for name, metric_class in LOSSES.items():
            metric = metric_class()
            metric.update_many(run.signs[judged] > 0.0, run.probabilities[judged])
            losses[name] = metric.get()
    return {
        **result_object(choices[at], run),
        **average_precision_summary(ranking),
        **losses,
        "at": [{"at": point.text("="), **point.figures(ranking)} for point in points],
        "difference": _difference(choices[0], runs[0], run) if at else None,
        "run": place.run,
        "fold": place.fold,
    }


def _difference(choice: ModelChoice, first: Run, run: Run) -> dict[str, Any]:
    """Return a run's AUCs minus those of the first model, with DeLong's interval for pairs."""
    return {
        "to": choice.label,
        "progressive": _paired(run.signs, run.scores, first.scores),
        "test": None if first.test is None else _paired(run.test_signs, run.test_scores, first.test_scores),
    }


def _paired(signs: Floats, scores: Floats, of_first: Floats) -> dict[str, float | None] | None:
    if scores.size != of_first.size or not scores.size:
        return None  # one of the models has refused the data
    learned = ~(np.isnan(scores) | np.isnan(of_first))
    metric = PairedAUC(window=max(1, int(np.count_nonzero(learned))))
    metric.update_many(signs[learned] > 0.0, scores[learned], of_first[learned])
    low, high = metric.interval()
    numbers = {"difference": metric.difference, "low": low, "high": high, "p_value": metric.p_value}
    return {name: number if math.isfinite(number) else None for name, number in numbers.items()}


def figures_table(ranked: Sequence[tuple[str, dict[str, Any]]], first: str) -> Table:
    """Return a table of the figures of one run that need no cut.

    Parameters
    ----------
    ranked : sequence of (str, dict)
        Labels of the models, and what `figures_object` returns of them, in the order of the rows.
    first : str
        Label of the model that the others are compared with.
    """
    table = Table(title="by the scores before each row was learned", title_justify="left")
    table.add_column("model", overflow="fold")
    for head in HEADS.values():
        table.add_column(head, justify="right")
    if len(ranked) > 1:
        table.add_column(f"AUC less that of {first}, 95 % interval", justify="right")
    for label, one in ranked:
        cells = [auc_text(one[name]) for name in HEADS]
        if len(ranked) > 1:
            cells.append(_difference_text(one["difference"]))
        table.add_row(label, *cells)
    return table


def points_table(ranked: Sequence[tuple[str, dict[str, Any]]]) -> Table:
    """Return a table of the figures of one run at each `--at`.

    Parameters
    ----------
    ranked : sequence of (str, dict)
        As in `figures_table`.
    """
    table = Table(title="where rows are called positive up to a cut, with 95 % intervals", title_justify="left")
    table.add_column("at")
    table.add_column("model", overflow="fold")
    for head in ("score from", "rows", "precision", "recall", "lift", "McClish", "cost"):
        table.add_column(head, justify="right")
    for number in range(len(ranked[0][1]["at"])):
        for label, one in ranked:
            point = one["at"][number]
            table.add_row(
                point["at"],
                label,
                "-" if point["threshold"] is None else f"{point['threshold']:.6g}",
                "-" if point["rows"] is None else f"{point['rows']:,.0f}",
                _with_interval(point, "precision"),
                _with_interval(point, "recall"),
                "-" if point["lift"] is None else f"{point['lift']:.2f}",
                auc_text(point["partial_auc_standardized"]),
                auc_text(point["cost"]),
            )
    return table


def _with_interval(point: dict[str, Any], name: str) -> str:
    value, low, high = (point[key] for key in (name, f"{name}_low", f"{name}_high"))
    return auc_text(value) + ("" if low is None else f" ({low:.3f} to {high:.3f})")


def _difference_text(difference: dict[str, Any] | None) -> str:
    part = difference and difference["progressive"]
    if not part or part["difference"] is None:
        return "-"
    if part["low"] is None:
        return f"{part['difference']:+.4f}"
    return f"{part['difference']:+.4f} ({part['low']:+.4f} to {part['high']:+.4f})"


def _heads(points: Sequence[OperatingPoint]) -> list[str]:
    heads = list(HEADS.values())
    for point in points:
        if point.kind == "fpr":
            heads.append(f"recall, FPR {point.value:g}")
        else:
            wheres = {"top": "top ", "threshold": "score >= ", "cost": "cost "}
            where = f"{wheres[point.kind]}{point.value:g}"
            heads += [f"precision, {where}", f"recall, {where}"]
    return heads


def _numbers(one: dict[str, Any], points: Sequence[OperatingPoint]) -> list[float | None]:
    numbers: list[float | None] = [one[name] for name in HEADS]
    for point, figures in zip(points, one["at"], strict=True):
        numbers += [figures["recall"]] if point.kind == "fpr" else [figures["precision"], figures["recall"]]
    return numbers


def runs_table(
    runs: Sequence[Sequence[dict[str, Any]]], labels: Sequence[str], points: Sequence[OperatingPoint], title: str
) -> Table:
    """Return a table of mean ± standard deviation over runs, in the order of the models.

    Parameters
    ----------
    runs : sequence of sequence of dict
        For each run the objects of all models.
    labels : sequence of str
        Of the models.
    points : sequence of OperatingPoint
    title : str
    """
    table = Table(title=f"{title}; mean ± standard deviation", title_justify="left")
    table.add_column("model", overflow="fold")
    tested = any(one["test_auc"] is not None for one in runs[0])
    heads = ["progressive AUC", *(["test AUC"] if tested else []), *_heads(points)]
    if len(labels) > 1:
        heads.append(f"{'test' if tested else 'progressive'} AUC less that of {labels[0]}")
    for head in heads:
        table.add_column(head, justify="right")
    for model, label in enumerate(labels):
        objects = [run[model] for run in runs]
        rows = []
        for one in objects:
            row = [one["progressive_auc"], *([one["test_auc"]] if tested else []), *_numbers(one, points)]
            if len(labels) > 1:
                part = one["difference"] and one["difference"]["test" if tested else "progressive"]
                row.append(part["difference"] if part else None)
            rows.append(row)
        table.add_row(label, *(_spread(column) for column in zip(*rows, strict=True)))
    return table


def _spread(numbers: Sequence[float | None]) -> str:
    """Return mean and standard deviation (n - 1) of the numbers that are there."""
    there = np.array([number for number in numbers if number is not None])
    if not there.size:
        return "-"
    return f"{there.mean():.4f}" + (f" ± {there.std(ddof=1):.4f}" if there.size > 1 else "")
