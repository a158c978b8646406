"""Why a figure of the tables is not the printed one: the same systems under other steps, scalings and splits.

    python benchmarks/quality/gaps.py [--only "OAM, last iterate;Splits of a9a"] [--orders 5] [--out DIR]

Each group takes a set of differences that `tables.py report` marks and runs what could make them. AUC on held-out
rows in percent, mean ± standard deviation over the orders, one pass unless epochs are named; nothing is tuned: a
setting is in its label. Writes DIR/gaps.md.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, stdev

from benchmarks.quality.table_systems import Params, System, one_thread, runner

one_thread()

import numpy as np  # noqa: E402

from aucstream.metrics.exact import area  # noqa: E402
from benchmarks.quality.table_sets import SETS, DataSet, split_of  # noqa: E402

RAW, STANDARD, BOTH = {"unit": False}, {"standardise": True, "unit": False}, {"standardise": True}
HALF = replace(SETS["a9a"], test=None)  # the training file alone, 80 / 20
EVERYWHERE = {"l2": {}, "raw": RAW, "standardised": STANDARD, "standardised, l2": BOTH}


@dataclass(frozen=True)
class Column:
    """One data set, prepared; with `learned_rows` the figure is of the rows that were learned."""

    label: str
    rows: DataSet
    learned_rows: bool = False


@dataclass(frozen=True)
class Line:
    """One system with its setting."""

    label: str
    algorithm: str
    params: Params
    epochs: int = 0


@dataclass(frozen=True)
class Group:
    """One table; its cells are lines times columns."""

    columns: list[Column]
    lines: list[Line]
    orders: int | None = None


def prepared(*names: str) -> list[Column]:
    """Return some sets under all four preparations."""
    return [
        Column(f"{name}, {label}", replace(SETS[name], **{"standardise": False, **how}))
        for name in names
        for label, how in EVERYWHERE.items()
    ]


def as_in_tables(*names: str) -> list[Column]:
    """Return some sets as the tables have them."""
    return [Column(name, SETS[name]) for name in names]


COUNT = {"weighting": "count"}
GROUPS: dict[str, Group] = {
    "OAM, last iterate": Group(
        as_in_tables("a9a", "w7a", "splice", "svmguide3", "phishing", "mushrooms"),
        [
            Line(f"{update}, C = 2^{power}, {words}", "OAM", {**COUNT, "update": update, "C": 2.0**power, "average": mean})
            for update in ("seq", "gra")
            for words, mean in (("last", False), ("averaged", True))
            for power in (-14, -10, -5, 0, 5)
            if not (mean and power in (-14, 0))
        ],
    ),
    "OAM, last iterate, raw rows": Group(
        [
            *(Column(f"{name}, raw", replace(SETS[name], **RAW)) for name in ("a9a", "splice", "mushrooms")),
            Column("a9a, 80/20", HALF),
        ],
        [
            Line(f"{update}, C = 2^{power}", "OAM", {**COUNT, "update": update, "C": 2.0**power, "average": False})
            for update in ("seq", "gra")
            for power in (-10, -5, 0, 5)
        ],
    ),
    "PSAM and ASAM": Group(
        [Column("a9a, official", SETS["a9a"]), Column("a9a, 80/20", HALF)],
        [
            Line(f"{name}, lam = {lam:g}, t0 = {'1/lam' if t0 is None else t0}", name, {"lam": lam, "t0": t0}, epochs=1)
            for name in ("PSAM", "ASAM")
            for lam, t0 in ((1e-4, None), (1e-8, None), (1e-7, 16.0), (1e-8, 16.0), (1e-4, 1.0))
        ],
    ),
    "Splits of a9a": Group(
        [Column("official", SETS["a9a"]), Column("80/20", HALF)],
        [
            Line("BAM, lam = 1e-3", "BAM", {"lam": 1e-3}),
            Line("RankSVM, lam = 1e-4", "RankSVM", {"lam": 1e-4}),
            Line("LeastSquaresAUC, lam = 1e-4", "LeastSquaresAUC", {"lam": 1e-4}),
            Line("UnivariateExp, eta0 = 4", "UnivariateExp", {"eta0": 4.0}),
            Line("PSAM, 1 epoch", "PSAM", {"lam": 1e-4}, epochs=1),
            Line("FTRL, alpha = 0.1, l1 = 0", "FTRL", {"alpha": 0.1, "l1": 0.0}),
            Line("FTRL, alpha = 0.5, l1 = 0", "FTRL", {"alpha": 0.5, "l1": 0.0}),
            Line("FTRL, alpha = 0.5, l1 = 10", "FTRL", {"alpha": 0.5, "l1": 10.0}),
            Line("FTRL, alpha = 0.5, l1 = 30", "FTRL", {"alpha": 0.5, "l1": 30.0}),
        ],
    ),
    "Logistic learners": Group(
        prepared("w7a", "svmguide3"),
        [
            *(Line(f"OnlineLogistic, eta0 = {eta:g}", "OnlineLogistic", {"eta0": eta}) for eta in (0.01, 0.1, 1.0, 16.0)),
            *(
                Line(f"FTRL, alpha = {alpha:g}, l1 = {l1:g}", "FTRL", {"alpha": alpha, "l1": l1})
                for alpha, l1 in ((0.01, 0.0), (0.5, 0.0), (0.5, 10.0), (0.5, 30.0), (0.5, 100.0), (8.0, 0.0))
            ),
        ],
    ),
    "Moments": Group(
        prepared("w7a", "svmguide3", "phishing"),
        [
            *(Line(f"AdaOAM, eta = 2^{power}", "AdaOAM", {"eta": 2.0**power}) for power in (-9, -6, -3, -1, 1)),
            Line("MBA l2", "MBA", {}),
            Line("MBA l1, lam1 = 1e-4", "MBA", {"lam1": 1e-4, "lam2": 0.0}),
            Line("FTRL, alpha = 2, l1 = 0", "FTRL", {"alpha": 2.0, "l1": 0.0}),
        ],
    ),
    "german50, 20 splits": Group(
        prepared("german50"),
        [Line("MBA l2", "MBA", {}), Line("MBA l1, lam1 = 1e-4", "MBA", {"lam1": 1e-4, "lam2": 0.0})],
        orders=20,
    ),
    "SPAM and VRSPAM": Group(
        [
            column
            for name, ways in (("w8a", {"l2": {}, "standardised, l2": BOTH}), ("splice", {"l2": {}, "standardised, l2": BOTH, "one-hot, l2": {"one_hot": True}}))
            for label, how in ways.items()
            for column in (
                Column(f"{name}, {label}", replace(SETS[name], **how)),
                Column("the same, rows learned", replace(SETS[name], **how), learned_rows=True),
            )
        ],
        [
            Line("BAM, lam = 1e-4: about the best linear scorer", "BAM", {"lam": 1e-4}),
            Line("SPAM l2", "SPAM", {}),
            Line("VRSPAM l2", "VRSPAM", {}),
            Line("VRSPAM l2, 3 epochs", "VRSPAM", {}, epochs=3),
        ],
    ),
    "UnivariateExp": Group(
        prepared("splice"),
        [Line(f"eta0 = {eta:g}", "UnivariateExp", {"eta0": eta}) for eta in (0.01, 0.1, 1.0, 4.0, 16.0, 64.0)],
    ),
}  # fmt: skip


def figure(line: Line, column: Column, orders: int) -> str:
    """Return mean ± standard deviation of the AUC, or what refused."""
    areas = []
    system = System(line.label, line.algorithm, epochs=line.epochs)
    for order in range(orders):
        X, y, test_X, test_y = split_of(column.rows, order)
        model = runner(system, line.params, len(y))
        model.learn(X, y)
        scores = model.score(X if column.learned_rows else test_X)
        if not np.isfinite(scores).all():
            return "not finite"
        areas.append(100.0 * area(y if column.learned_rows else test_y, scores).auc)
    return f"{mean(areas):.2f} ± {stdev(areas):.2f}" if len(areas) > 1 else f"{areas[0]:.2f}"


def table(name: str, group: Group, orders: int) -> list[str]:
    """Return the Markdown of one group."""
    cells = {
        (line.label, at): figure(line, column, orders)
        for at, column in enumerate(group.columns)  # columns first: a split is made once
        for line in group.lines
    }
    return [
        f"#### {name}",
        "",
        f"{orders} orders.",
        "",
        f"| | {' | '.join(column.label for column in group.columns)} |",
        "|---" * (len(group.columns) + 1) + "|",
        *(
            f"| {line.label} | {' | '.join(cells[line.label, at] for at in range(len(group.columns)))} |"
            for line in group.lines
        ),
        "",
    ]


def main() -> None:
    """Read the command line, measure, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=lambda text: [name.strip() for name in text.split(";")], default=list(GROUPS))
    parser.add_argument("--orders", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "out")
    arguments = parser.parse_args()
    unknown = set(arguments.only) - set(GROUPS)
    if unknown:
        sys.exit(f"unknown: {'; '.join(sorted(unknown))}; groups: {'; '.join(GROUPS)}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    page: list[str] = []
    for name in arguments.only:
        page += table(name, GROUPS[name], GROUPS[name].orders or arguments.orders)
        (arguments.out / "gaps.md").write_text("\n".join(page))
        print("\n".join(page[-len(GROUPS[name].lines) - 7 :]), flush=True)


if __name__ == "__main__":
    main()
