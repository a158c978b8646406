"""Results of `evaluate` and `train`: as JSON objects, as a table, and remarks on what a number hides."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from aucstream.cli.choices import ModelChoice
from aucstream.constraints import rules_of
from aucstream.evaluate import Progress as Run
from aucstream.features.maps.maps import map_class
from aucstream.pipeline import Pipeline
from aucstream.registry import learner_class

CLASS_ROWS = 10  # rows of each class from which on their order is judged
SORTED_SHARE = 50  # rows are sorted by class where labels change so many times less often than in a random order


def stdout_console(width: int) -> Console:
    """Return a console on standard output that prints names from data literally, without markup.

    Parameters
    ----------
    width : int
        Columns where standard output is no terminal.
    """
    return Console(width=None if sys.stdout.isatty() else width, markup=False, emoji=False, highlight=False)


def auc_text(auc: float | None) -> str:
    """Return an AUC with four digits, and "-" where it is undefined (None)."""
    return "-" if auc is None else f"{auc:.4f}"


def result_object(choice: ModelChoice, run: Run) -> dict[str, Any]:
    """Return the JSON object of one model's run; undefined numbers are None.

    Parameters
    ----------
    choice : ModelChoice
    run : Progress
        Its run, after the last row.

    Returns
    -------
    dict
        Keys model, params, rows, positives, progressive_auc, auc_low, auc_high, test_auc, seconds, rows_per_second.
    """
    estimate = run.progressive
    low, high = estimate.interval()
    learner = learner_class(choice.name)()
    defaults = {param: getattr(learner, param) for param in rules_of(type(learner))}
    return {
        "model": choice.name,
        "params": {**defaults, **choice.params},
        "rows": int(run.signs.size),
        "positives": run.positives,
        "progressive_auc": _number(estimate.auc),
        "auc_low": _number(low),
        "auc_high": _number(high),
        "test_auc": None if run.test is None else _number(run.test.auc),
        "seconds": round(run.seconds, 6),
        "rows_per_second": round(run.rows / run.seconds, 1) if run.seconds > 0 else None,
    }


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def best_first(result: dict[str, Any]) -> list[float]:
    """Return what a model's object is sorted by: its test AUC, then its progressive AUC, the best first.

    Parameters
    ----------
    result : dict
        As `result_object` returns it.
    """
    return [-(result[key] or 0.0) for key in ("test_auc", "progressive_auc")]


def results_table(
    choices: Sequence[ModelChoice], runs: Sequence[Run], *, data: str, scale: str, map_text: str | None
) -> Table:
    """Return a table of all models, the best one first: by test AUC, then by progressive AUC.

    Parameters
    ----------
    choices, runs : sequences
        The models and their runs, in the same order.
    data, scale : str
        The argument and the option of these names.
    map_text : str or None
        Value of `--map`.
    """
    rows = sorted(
        ((choice, run, result_object(choice, run)) for choice, run in zip(choices, runs, strict=True)),
        key=lambda row: best_first(row[2]),
    )
    best = rows[0][2]
    resolved = getattr(runs[0].model, "resolved", None) or {"scaler": scale}
    title = f"{data}: {best['rows']:,} rows, {best['positives']:,} positive; scaling {resolved['scaler']}"
    table = Table(title=title if map_text is None else f"{title}; map {map_text}", title_justify="left")
    table.add_column("model", overflow="fold")
    for column in ("progressive AUC", "95 % interval", "test AUC", "seconds", "rows/s"):
        table.add_column(column, justify="right")
    for choice, run, result in rows:
        low, high, speed = result["auc_low"], result["auc_high"], result["rows_per_second"]
        table.add_row(
            choice.label + _note(run),
            auc_text(result["progressive_auc"]),
            "-" if low is None else f"{low:.4f} to {high:.4f}",
            auc_text(result["test_auc"]),
            f"{result['seconds']:.2f}",
            "-" if speed is None else f"{speed:,.0f}",
        )
    return table


def label_runs(signs: NDArray[np.float64]) -> int | None:
    """Return the number of runs of equal labels where that tells of rows sorted by class, else None.

    Parameters
    ----------
    signs : ndarray of shape (n,)
        Labels +1 and -1 in the order in which they were learned.

    Returns
    -------
    int or None
        None where the runs are more than a fiftieth of those of a random order (2 where these are few), or a class has
        fewer than ten rows.
    """
    positives = int(np.count_nonzero(signs > 0.0))
    negatives = signs.size - positives
    if min(positives, negatives) < CLASS_ROWS:
        return None
    runs = 1 + int(np.count_nonzero(signs[1:] != signs[:-1]))
    return runs if runs <= max(2.0, 2.0 * positives * negatives / signs.size / SORTED_SHARE) else None


def _note(run: Run) -> str:
    if run.refused is not None:
        return " (refused)"
    return f" ({run.skipped} rows skipped)" if run.skipped else ""


def print_remarks(sentences: Sequence[str]) -> None:
    """Print each sentence on standard error.

    Parameters
    ----------
    sentences : sequence of str
        As `remarks` returns them.
    """
    for sentence in sentences:
        print(f"aucstream: {sentence}", file=sys.stderr)


def remarks(
    choices: Sequence[ModelChoice],
    runs: Sequence[Run],
    *,
    data: str,
    test: str | None,
    map_spec: dict[str, Any] | None,
) -> list[str]:
    """Return a sentence for each thing that the numbers alone hide.

    These are: a model that refused the data, data of one class, data sorted by class, a test file of one class, a map's
    warm-up, names that there was no room for.

    Parameters
    ----------
    choices, runs : sequences
        The models and their runs, in the same order. At least one run accepted the data.
    data : str
        Name of the data file.
    test : str or None
        Name of the held-out file.
    map_spec : dict or None
        Specification of the feature map.
    """
    sentences = [
        f"{choice.label} is out of the comparison: {run.refused}"
        for choice, run in zip(choices, runs, strict=True)
        if run.refused is not None
    ]
    accepted = next(run for run in runs if run.refused is None)
    rows, positives = int(accepted.signs.size), accepted.positives
    if rows == 0 or positives in (0, rows):
        kind = "no rows" if rows == 0 else "rows of one class only"
        sentences.append(f"{data} has {kind}: no AUC")
    elif test is not None and accepted.test is not None and math.isnan(accepted.test.auc):
        sentences.append(f"{test} has no rows of both classes: no test AUC, ranked by the progressive one")
    runs_of_labels = label_runs(accepted.signs)
    if runs_of_labels is not None:
        sentences.append(
            f"{data} is sorted by class ({runs_of_labels:,} runs of equal labels in {rows:,} rows): the progressive AUC "
            "says little of other orders; --shuffle draws one"
        )
    if map_spec is not None and rows:
        warmup = min(map_spec.get("warmup", map_class(map_spec["kind"], "--map").warmup), rows)
        sentences.append(f"the first {warmup} rows, the map's warm-up, are scored 0 and count in the progressive AUC")
    for choice, run in zip(choices, runs, strict=True):
        usage = run.model.usage if isinstance(run.model, Pipeline) else None
        if usage is not None and usage.names_dropped and run.refused is None:
            room = "--capacity or --eviction least-recent makes room"
            sentences.append(f"{choice.label} left out {usage.names_dropped} names beyond {usage.capacity}: {room}")
    return sentences
