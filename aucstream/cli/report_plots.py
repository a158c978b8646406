"""The pictures of a report: SVG that stands in the page, in the page's own colour of text."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aucstream.evaluate import Progress as Run
from aucstream.metrics.calibrated import reliability
from aucstream.metrics.ranking import precision_recall_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_POINTS = 400  # of a curve
BINS = 10  # of probabilities
BARS = 40  # of a histogram
INK = "#010203"  # stands for the colour of the page's text
_IDS = re.compile(r'(id="|url\(#|xlink:href="#|href="#)')

Floats = NDArray[np.float64]


def thinned(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return at most MOST_POINTS points of a curve, both ends among them, evenly spaced along x.

    Parameters
    ----------
    x, y : ndarray (n,)
        x does not fall.

    Returns
    -------
    x, y : ndarray
    """
    if x.size <= MOST_POINTS:
        return x, y
    wanted = np.linspace(x[0], x[-1], MOST_POINTS)
    at = np.unique(np.concatenate(([0], np.searchsorted(x, wanted).clip(0, x.size - 1), [x.size - 1])))
    return x[at], y[at]


def roc(runs: Sequence[tuple[str, Run]]) -> str:
    """Return the ROC curves as SVG."""

    def draw(axes: Axes) -> None:
        axes.plot([0, 1], [0, 1], color=INK, linewidth=0.6, linestyle=":")
        for label, run in runs:
            ranking = run.ranking
            if ranking.ready:
                x = np.concatenate(([0.0], ranking.false / ranking.negatives))
                axes.plot(*thinned(x, np.concatenate(([0.0], ranking.true / ranking.positives))), label=label)
        axes.set(xlabel="false-positive rate", ylabel="recall", xlim=(0, 1), ylim=(0, 1))

    return _svg(draw, "roc", len(runs) > 1)


def precision_recall(runs: Sequence[tuple[str, Run]]) -> str:
    """Return the precision-recall curves as SVG."""

    def draw(axes: Axes) -> None:
        for label, run in runs:
            ranking = run.ranking
            if ranking.ready:
                curve = precision_recall_curve(ranking)
                axes.plot(*thinned(curve.recall[::-1], curve.precision[::-1]), label=label)
        first = runs[0][1].ranking
        if first.ready:
            axes.axhline(first.positives / first.rows, color=INK, linewidth=0.6, linestyle=":")
        axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1), ylim=(0, 1.02))

    return _svg(draw, "pr", len(runs) > 1)


def calibration(runs: Sequence[tuple[str, Run]]) -> str:
    """Return mean probability against the share of positives, in bins, as SVG; "" where no model has probabilities."""
    tables = []
    for label, run in runs:
        judged = ~np.isnan(run.probabilities)
        if judged.any():
            tables.append((label, reliability(run.signs[judged] > 0.0, run.probabilities[judged], BINS)))
    if not tables:
        return ""

    def draw(axes: Axes) -> None:
        axes.plot([0, 1], [0, 1], color=INK, linewidth=0.6, linestyle=":")
        for label, table in tables:
            axes.plot(table.predicted, table.observed, marker="o", markersize=3, label=label)
        axes.set(xlabel="mean probability of a bin", ylabel="share of positives", xlim=(0, 1), ylim=(0, 1))

    return _svg(draw, "calibration", len(tables) > 1)


def auc_over_time(runs: Sequence[tuple[str, Run]], window: int | None) -> str:
    """Return the progressive AUC along the rows as SVG."""

    def draw(axes: Axes) -> None:
        for label, run in runs:
            if run.curve:
                rows, _, auc = zip(*run.curve, strict=True)
                x, y = thinned(np.array(rows, dtype=np.float64), np.array(auc))
                axes.plot(x, y, label=label, marker="o" if x.size < 3 else None)
        over = "all rows so far" if window is None else f"the last {window:,} rows"
        axes.set(xlabel="rows", ylabel=f"AUC over {over}")
        axes.locator_params(axis="x", nbins=5)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")

    return _svg(draw, "time", len(runs) > 1)


def histograms(run: Run) -> str:
    """Return histograms of the log odds, or scores, of both classes as SVG: shares of each class."""
    judged = ~np.isnan(run.scores)
    scores, signs = run.scores[judged], run.signs[judged]
    if not scores.size:
        return ""
    low, high = np.quantile(scores, [0.001, 0.999]).tolist()
    if not low < high:
        low, high = float(scores.min()) - 0.5, float(scores.max()) + 0.5
    edges = np.linspace(low, high, BARS + 1)
    inside = scores.clip(low, high)

    def draw(axes: Axes) -> None:
        for sign, label, color in ((-1.0, "negative", "C0"), (1.0, "positive", "C1")):
            of_class = inside[signs == sign]
            if of_class.size:
                heights = np.histogram(of_class, edges)[0] / of_class.size
                axes.stairs(heights, edges, fill=True, alpha=0.45, label=label, color=color)
        axes.set(xlabel="score", ylabel="share of the class")

    return _svg(draw, "histogram", legend=True)


def _svg(draw: Callable[[Axes], Any], name: str, legend: bool) -> str:
    """Return what a function draws as SVG without a size of its own; ids begin with a name that is the picture's."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    style: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": name,
        "font.family": "sans-serif",
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
    }
    with pyplot.rc_context(style):
        figure, axes = pyplot.subplots(figsize=(5.0, 3.6), layout="constrained")
        draw(axes)
        if legend and axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False, fontsize=8)
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
        pyplot.close(figure)
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' (width|height)="[0-9.]+pt"', "", svg, count=2)
    svg = re.sub(r' xmlns(:xlink)?="[^"]*"', "", svg).replace("xlink:href", "href")
    svg = _IDS.sub(rf"\g<1>{name}-", svg).replace(INK, "currentColor")
    return svg.replace("<svg", '<svg role="img"', 1)
