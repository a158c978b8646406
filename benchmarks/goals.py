"""What is wanted of the figures: benchmarks note those that have a goal, `run.py` shows and draws them all."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

FILE = "BENCH_GOALS"  # the environment variable that names where they are written


class Goal(NamedTuple):
    """A figure of one run beside what is wanted of it."""

    what: str
    median: float
    low: float
    high: float
    wanted: float
    at_most: bool = False  # else: at least

    @property
    def met(self) -> bool:
        """Whether the median is where it is wanted."""
        return self.median <= self.wanted if self.at_most else self.median >= self.wanted

    def share(self, value: float) -> float:
        """Return how a value stands to what is wanted: 1 is met just so, 2 twice as well."""
        return self.wanted / value if self.at_most else value / self.wanted


_noted: list[Goal] = []


def note(what: str, values: Iterable[float], wanted: float, *, at_most: bool = False) -> None:
    """Note the values of all rounds."""
    ordered = sorted(values)
    _noted.append(Goal(what, statistics.median(ordered), ordered[0], ordered[-1], wanted, at_most))


def write() -> None:
    """Write what was noted, where `run.py` asked for it."""
    if FILE in os.environ:
        Path(os.environ[FILE]).write_text(json.dumps(_noted, indent=1) + "\n")


def read(path: Path) -> list[Goal]:
    """Return what a benchmark wrote."""
    return [Goal(*entry) for entry in json.loads(path.read_text())] if path.exists() else []


def table(goals: list[Goal]) -> str:
    """Return them as Markdown."""
    lines = ["| what | figure | wanted | |", "| --- | --- | --- | --- |"]
    for goal in goals:
        figure = f"{goal.median:.3g} ({goal.low:.3g} to {goal.high:.3g})"
        wanted = f"{'at most' if goal.at_most else 'at least'} {goal.wanted:g}"
        lines.append(f"| {goal.what} | {figure} | {wanted} | {'met' if goal.met else '**missed**'} |")
    return "\n".join(lines) + "\n"


def draw(goals: list[Goal], path: Path) -> None:
    """Draw each as a multiple of what is wanted, with the range of its rounds."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams.update({"svg.hashsalt": "goals", "svg.fonttype": "none"})
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(9.0, 1.0 + 0.24 * len(goals)), layout="constrained")
    for at, goal in enumerate(reversed(goals)):
        colour = "#1a7f5a" if goal.met else "#c2410c"
        axes.plot([goal.share(goal.low), goal.share(goal.high)], [at, at], color=colour, linewidth=1.2, alpha=0.5)
        axes.plot(goal.share(goal.median), at, "o" if goal.met else "D", color=colour, markersize=4.5)
    axes.axvline(1.0, color="#444444", linewidth=0.9)
    axes.set_xscale("log")
    axes.set_xticks([0.25, 0.5, 1, 2, 4, 8], ["¼", "½", "goal", "2 x", "4 x", "8 x"])
    axes.minorticks_off()
    axes.set_yticks(range(len(goals)), [goal.what for goal in reversed(goals)], fontsize=8)
    axes.set_ylim(-0.8, len(goals) - 0.2)
    axes.grid(axis="x", linewidth=0.4, alpha=0.5)
    axes.set_title("Figures as multiples of their goals: median and range of the rounds", fontsize=9)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)
