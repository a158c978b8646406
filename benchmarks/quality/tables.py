"""The papers' comparisons on real data: every system, tuned and at its defaults, beside the published values.

    python benchmarks/quality/tables.py run    [--sets a9a,german] [--systems "PSAM;SOLAM l2"] [--orders 5] [--jobs N] [--out DIR]
    python benchmarks/quality/tables.py report [--out DIR] [--page FILE.md]

`run` appends one JSON line a task to DIR/tables.jsonl and skips what is there: it can be stopped and
started again. `report` writes DIR/tables.md, and plots of AUC against examples and against seconds.

A system is tuned on the first order's training part, split 80 / 20 (at most 20,000 rows), on the grids of
`table_systems.py`; then it learns each order's training part once (or so many epochs as its name says) and
is scored on the test part. The split and the rows' preparation are those of `table_sets.py`. Vowpal Wabbit
needs the extra `bench`.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import re
import statistics
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.quality.table_systems import SYSTEMS, Params, System, one_thread, runner, seconds_of

one_thread()

import numpy as np  # noqa: E402

from benchmarks.quality.table_network import NETWORK_SETS, network_split  # noqa: E402
from benchmarks.quality.table_sets import SETS, split, tuning_split  # noqa: E402

FOLDER = Path(__file__).parent
TUNING_ROWS = 20_000
CURVES = ("a9a", "w8a")
CURVE_SYSTEMS = (
    "SOLAM l2", "FSAUC anytime", "SPAM l2", "VRSPAM l2", "SPDAM", "OAM seq", "OPAUC", "AdaOAM", "CBR diag", "PSAM",
    "MBA l2", "OnlineLogistic", "River LR",
)  # fmt: skip
POINTS = [100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 51_200]
PRINTED = re.compile(r"(\d+\.\d+)(?: ± (\d*\.\d+))?")
BY_NAME = {system.name: system for system in SYSTEMS}


@dataclass(frozen=True)
class Task:
    """One model learned once. `kind`: "tune", "test" or "curve"."""

    set: str
    system: str
    params: str  # JSON, so that a task can be looked up
    order: int
    kind: str

    @property
    def key(self) -> str:
        """The task as its line in the results is found."""
        return json.dumps([self.set, self.system, self.params, self.order, self.kind])


def auc(y: np.ndarray, scores: np.ndarray) -> float:
    """Return the exact AUC; NaN where a score is not finite."""
    from aucstream.metrics.exact import area

    return area(y, scores).auc if np.isfinite(scores).all() else math.nan


def perform(task: Task) -> dict[str, Any]:
    """Run one task in a worker."""
    system, params = BY_NAME[task.system], json.loads(task.params)
    if task.kind == "tune":
        X, y, test_X, test_y = tuning_split(task.set, TUNING_ROWS)
    else:
        X, y, test_X, test_y = (network_split if system.network else split)(task.set, task.order)
    result: dict[str, Any] = {"key": task.key, "rows": len(y), "features": X.shape[1]}
    try:
        runner(system, params, len(y)).learn(X[:64], y[:64])  # compiles
        model = runner(system, params, len(y))
        if task.kind == "curve":
            result["curve"] = list(curve(model, X, y, test_X, test_y))
            return result
        result["seconds"] = seconds_of(lambda: model.learn(X, y))
        result["auc"] = auc(test_y, model.score(test_X))
    except Exception as error:  # a refusal is a result: the table shows it
        result["error"] = f"{type(error).__name__}: {error}"[:300]
    return result


def curve(model: Any, X: Any, y: np.ndarray, test_X: Any, test_y: np.ndarray) -> Iterator[tuple[int, float, float]]:
    """Yield (examples, seconds of learning, hold-out AUC) at `POINTS`."""
    seen, seconds = 0, 0.0
    for point in [p for p in POINTS if p < len(y)] + [len(y)]:
        seconds += seconds_of(lambda a=seen, b=point: model.learn(X[a:b], y[a:b]))  # type: ignore[misc]
        seen = point
        yield seen, seconds, auc(test_y, model.score(test_X))


# -- what is to be done --------------------------------------------------------------------------------


def runs_on(system: System, name: str) -> bool:
    """Return whether a system is run on a set at all."""
    if system.network:
        return name in NETWORK_SETS
    X, y, _, _ = split(name, 0)
    return bool(X.shape[1] <= system.widest and len(y) <= system.most_rows)


def results(out: Path) -> dict[str, dict[str, Any]]:
    """Return all results so far by key."""
    path = out / "tables.jsonl"
    if not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
    return {line["key"]: line for line in lines}


def tasks(sets: list[str], systems: list[System], orders: int, by_key: dict[str, dict[str, Any]]) -> list[Task]:
    """Return what can be run now: tests of tuned parameters once all of a grid is there."""
    ready: list[Task] = []
    for name in sets:
        for system in systems:
            if not runs_on(system, name):
                continue
            grid = [Task(name, system.name, json.dumps(c), 0, "tune") for c in system.combinations if c]
            ready += grid
            plans = [json.dumps({})]
            if all(task.key in by_key for task in grid):
                plans.append(json.dumps(best(name, system, by_key)))
            for params in plans:
                ready += [Task(name, system.name, params, order, "test") for order in range(orders)]
            if name in CURVES and system.name in CURVE_SYSTEMS and len(plans) > 1:
                ready.append(Task(name, system.name, plans[1], 0, "curve"))
    return [task for task in dict.fromkeys(ready) if task.key not in by_key]


def best(name: str, system: System, by_key: dict[str, dict[str, Any]]) -> Params:
    """Return the setting of the grid with the highest AUC; the first of equals."""
    best_params: Params = {}
    highest = -1.0
    for params in system.combinations:
        area = by_key.get(Task(name, system.name, json.dumps(params), 0, "tune").key, {}).get("auc")
        if area is not None and area > highest:
            best_params, highest = params, area
    return best_params


def run(arguments: argparse.Namespace) -> None:
    """Perform all tasks that have no result yet, on several cores."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    out = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    by_key = results(out)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with (
        ProcessPoolExecutor(arguments.jobs) as pool,
        (out / "tables.jsonl").open("a") as file,
        Progress(*columns) as progress,
    ):
        for stage in ("tuning and defaults", "tuned"):
            ahead = tasks(arguments.sets, arguments.systems, arguments.orders, by_key)
            ahead.sort(key=lambda task: (task.set, task.order) if BY_NAME[task.system].network else ("", 0))
            bar = progress.add_task(stage, total=len(ahead))
            for future in as_completed([pool.submit(perform, task) for task in ahead]):
                line = future.result()
                by_key[line["key"]] = line
                file.write(json.dumps(line) + "\n")
                file.flush()
                progress.advance(bar)


# -- the page ----------------------------------------------------------------------------------------


def cell(name: str, system: System, params: Params, by_key: dict[str, dict[str, Any]]) -> tuple[str, float]:
    """Return (mean ± sd in percent, mean seconds) over the orders that are there."""
    matched = [line for key, line in by_key.items() if _is_test(key, name, system.name, json.dumps(params))]
    good = [100.0 * line["auc"] for line in matched if not math.isnan(line.get("auc", math.nan))]
    if not good or len(good) < len(matched):
        return "refused" if matched else "", math.nan
    spread = statistics.stdev(good) if len(good) > 1 else 0.0
    return f"{statistics.mean(good):.2f} ± {spread:.2f}", statistics.mean(line["seconds"] for line in matched)


def _is_test(key: str, name: str, system: str, params: str) -> bool:
    this_set, this_system, these, _, kind = json.loads(key)
    return (this_set, this_system, these, kind) == (name, system, params, "test")


def published() -> dict[tuple[str, str], dict[str, str]]:
    """Return the papers' values and an independent implementation's, by (set, system)."""
    with (FOLDER / "published.csv").open(newline="") as file:
        return {(row["set"], row["system"]): row for row in csv.DictReader(file)}


def table(name: str, by_key: dict[str, dict[str, Any]]) -> list[str]:
    """Return the Markdown of one set."""
    known = published()
    X, y, _, test_y = split(name, 0)
    rare = 100.0 * float((y > 0).mean())
    lines = [
        f"### {name}",
        "",
        f"{len(y):,} rows to learn, {len(test_y):,} to test, {X.shape[1]:,} features, {rare:.1f} % positive; "
        f"{SETS[name].protocol}.",
        "",
        "| system | tuned | default | tuned to | µs a row | published | tuned less published | independent: tuned [default] |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for system in (each for each in SYSTEMS if not each.network):
        params = best(name, system, by_key)
        tuned, seconds = cell(name, system, params, by_key)
        default, default_seconds = cell(name, system, {}, by_key)
        if not tuned and not default:
            continue
        row = known.get((name, system.name), {})
        other = row.get("independent_tuned", "")
        if row.get("independent_default"):
            other += f" [{row['independent_default']}]"
        words = ", ".join(f"{key}={_short(value)}" for key, value in params.items())
        cost = default_seconds if math.isnan(seconds) else seconds
        printed = row.get("published", "")
        gap = difference(tuned, printed)
        micro = f"{1e6 * cost / len(y):.3g}" if not math.isnan(cost) else ""
        lines.append(
            f"| {system.name} | {tuned} | {default} | {words} | {micro} | {printed} | {gap} | {other.strip()} |"
        )
    return [*lines, ""]


def difference(ours: str, printed: str) -> str:
    """Return ours less the first printed value, bold where it exceeds two standard deviations of the difference.

    A printed value without a standard deviation counts as exact, and half of a last digit as the least deviation.
    """
    match = PRINTED.match(printed)
    if not match or not ours[:1].isdigit():
        return ""
    value, deviation = (float(part) for part in ours.split(" ± "))
    gap = value - float(match[1])
    beyond = abs(gap) > 2.0 * math.hypot(max(deviation, 0.005), float(match[2] or 0.0))
    return f"**{gap:+.2f}**" if beyond else f"{gap:+.2f}"


def network_table(by_key: dict[str, dict[str, Any]]) -> list[str]:
    """Return the Markdown of learners on the hidden layer of a trained network, beside the plain ones."""
    mapped = [system for system in SYSTEMS if system.network]
    names = {system.name for system in mapped}
    orders = max(json.loads(key)[3] for key in by_key if json.loads(key)[1] in names) + 1
    columns = [
        system for one in mapped for system in (BY_NAME.get(f"{one.algorithm} l2") or BY_NAME[one.algorithm], one)
    ]
    lines = [
        "### On a trained network",
        "",
        "The hidden layer of scikit-learn's `MLPClassifier` (100 tanh units, 2000 steps of Adam on batches of 200 rows "
        "of the part to learn) as a feature map, rows of it at unit length, and a learner at its defaults on top, one "
        "pass over the same part; beside it the same learner on the rows themselves. "
        f"{orders} orders for the network's columns.",
        "",
        f"| | {' | '.join(system.name for system in columns)} |",
        "|---" * (len(columns) + 1) + "|",
    ]
    for name in NETWORK_SETS:
        cells = [cell(name, system, {}, by_key)[0] for system in columns]
        if cells[1]:
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return [*lines, ""]


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def plots(by_key: dict[str, dict[str, Any]], out: Path) -> list[Path]:
    """Draw hold-out AUC against examples and against seconds; return the files."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    files = []
    for name in CURVES:
        lines = {
            json.loads(key)[1]: line["curve"]
            for key, line in by_key.items()
            if line.get("curve") and json.loads(key)[0] == name
        }
        if not lines:
            continue
        figure, panels = plt.subplots(1, 2, figsize=(12, 5), sharey=True)
        for number, system in enumerate(name for name in CURVE_SYSTEMS if name in lines):
            rows, seconds, areas = zip(*lines[system], strict=True)
            style = "-" if number < 10 else "--"
            for panel, along in zip(panels, (rows, seconds), strict=True):
                panel.plot(along, areas, style, label=system, linewidth=1.2)
        top = max(points[-1][2] for points in lines.values())
        panels[0].set(xscale="log", xlabel="examples", ylabel="AUC on held-out rows", ylim=(top - 0.15, top + 0.01))
        panels[1].set(xscale="log", xlabel="seconds of learning")
        panels[1].legend(fontsize=8, loc="lower right")
        for panel in panels:
            panel.grid(alpha=0.3)
        figure.suptitle(f"{name}, tuned, one pass, one order")
        figure.tight_layout()
        path = out / f"curves-{name}.png"
        figure.savefig(path, dpi=110)
        plt.close(figure)
        files.append(path)
    return files


def report(arguments: argparse.Namespace) -> None:
    """Write the page of all results so far."""
    from benchmarks.run import machine

    by_key = results(arguments.out)
    facts = machine()
    here = {json.loads(key)[0] for key in by_key}
    orders = {json.loads(key)[3] for key in by_key}
    lines = [
        "# Tables",
        "",
        "AUC on held-out rows in percent, mean ± standard deviation over "
        f"{len(orders)} orders; one pass unless epochs are named. *published*: the papers' printed values. "
        "*independent*: a plain NumPy implementation of the same specification, on splits of its own. "
        "*tuned less published* is bold where it exceeds two standard deviations, ours and the printed one "
        "together (a paper that prints none counts as exact); what makes these differences is measured in "
        "[results.md](results.md#where-a-figure-is-not-the-printed-one), and what a step costs "
        "[there](results.md#cost-of-a-step) too.",
        "",
        f"{facts['date'][:10]}; {facts['processor']}, {facts['cores']} cores; Python {facts['python']}, "
        + ", ".join(f"{name} {facts[name]}" for name in ("numpy", "numba", "river", "scikit-learn"))
        + ".",
        "",
        "```sh",
        "python benchmarks/quality/tables.py run && python benchmarks/quality/tables.py report",
        "```",
        "",
    ]
    for name in SETS:
        if name in here:
            lines += table(name, by_key)
    if any(json.loads(key)[1] in BY_NAME and BY_NAME[json.loads(key)[1]].network for key in by_key):
        lines += network_table(by_key)
    refused = {(json.loads(k)[0], json.loads(k)[1], line["error"]) for k, line in by_key.items() if "error" in line}
    if refused:
        lines += ["### Refused", "", *(f"- {name}, {system}: {why}" for name, system, why in sorted(refused)), ""]
    page = arguments.page or arguments.out / "tables.md"
    for path in plots(by_key, page.parent):
        lines += [f"![{path.stem}]({path.name})", ""]
    page.write_text("\n".join(lines))
    print(page)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("run", "report"))
    parser.add_argument("--sets", type=lambda text: text.split(","), default=list(SETS))
    parser.add_argument("--systems", type=lambda text: [s.strip() for s in text.split(";")], default=list(BY_NAME))
    parser.add_argument("--orders", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", type=Path, default=FOLDER.parent / "out")
    parser.add_argument("--page", type=Path, default=None)
    arguments = parser.parse_args()
    unknown = [name for name in arguments.sets if name not in SETS] + [n for n in arguments.systems if n not in BY_NAME]
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; sets: {', '.join(SETS)}; systems: {'; '.join(BY_NAME)}")
    arguments.systems = [BY_NAME[name] for name in arguments.systems]
    run(arguments) if arguments.action == "run" else report(arguments)


if __name__ == "__main__":
    main()
