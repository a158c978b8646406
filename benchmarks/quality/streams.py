"""Auto beside every learner, River and Vowpal Wabbit, on real and generated streams.

    python benchmarks/quality/streams.py [--sets elec2,burst] [--orders own] [--systems auto,psam,peers] [--rows N]
                                 [--jobs N] [--out DIR]
    python benchmarks/quality/streams.py --report [--out DIR]

A line of DIR/streams.csv is one system on one set in one order: AUC of what it said of each row before it learned it,
over all rows, the first 300, the first 1,000 and the second half; AUC and log loss on held-out rows at the end; processor
time a row; and the command that made it. A run replaces its own lines and leaves all others. `--report` makes the page and
its picture from all lines. Without `--out` they are those of the repository.

Groups of systems: learners (of aucstream, at their defaults behind the default scaling), others (River's scaled logistic
regression and Hoeffding adaptive tree, Vowpal Wabbit with pairs), peers (56 settings of River's logistic regression and
Vowpal Wabbit, on rows of which some are scaled by all rows to learn, so that they look ahead), slow (River's forests, on
the first 3,000 rows unless `--rows` says another number, with Auto on the same rows).
"""

from __future__ import annotations

import argparse
import csv
import fcntl
import math
import os
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from benchmarks.quality.table_systems import one_thread

one_thread()

import numpy as np  # noqa: E402

from benchmarks.quality import stream_report  # noqa: E402
from benchmarks.quality.stream_sets import NAMES, ORDERS, absent, orders_of, stream_of  # noqa: E402
from benchmarks.quality.stream_systems import GROUPS, SLOW, SURE, SYSTEMS, run, takes  # noqa: E402

SLOW_ROWS = 3000
SECONDS_UNSTORED = 3.0  # what a run that is ended may lose
FIELDS = (
    *("set", "order", "rows", "system", "auc", "auc_300", "auc_1000", "auc_half"),
    *("held_auc", "held_log_loss", "us_row", "command"),
)
KEY = FIELDS[:4]
Line = dict[str, str]


def measure(name: str, order: str, rows: int | None, system: str) -> Line | None:
    """Return the line of one system on one stream; None where the system does not take rows as wide."""
    X, y, _, held_y = stream_of(name, order, rows)
    if not takes(system, X.shape[1], dense=isinstance(X, np.ndarray)):
        return None
    try:
        done = run(system, name, order, rows)
    except ValueError as refused:
        print(f"{name}, {system}: {refused}", file=sys.stderr)
        return None
    half = y.size // 2
    p = np.clip(done.held_probabilities, SURE, 1.0 - SURE)
    figures = {
        "auc": _area(y, done.scores),
        "auc_300": _area(y[:300], done.scores[:300]),
        "auc_1000": _area(y[:1000], done.scores[:1000]),
        "auc_half": _area(y[half:], done.scores[half:]),
        "held_auc": _area(held_y, done.held_scores),
        "held_log_loss": float(-np.log(np.where(held_y, p, 1.0 - p)).mean()),
    }
    return {
        "set": name,
        "order": order,
        "rows": str(y.size),
        "system": system,
        **{field: "" if math.isnan(value) else f"{value:.5f}" for field, value in figures.items()},
        "us_row": f"{done.microseconds:.2f}",
    }


def _area(y: np.ndarray, scores: np.ndarray) -> float:
    from aucstream.metrics.exact import area

    return float(area(np.where(y, 1.0, -1.0), np.nan_to_num(np.asarray(scores, dtype=float))).auc)


# -- the stored lines --------------------------------------------------------------------------------


def stored(path: Path) -> list[Line]:
    """Return the lines of a file; none where there is no file."""
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def store(path: Path, new: Iterable[Line]) -> None:
    """Replace lines of the same set, order, number of rows and system, and append the others; runs may do so at once."""
    lock = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lines = {tuple(line[field] for field in KEY): line for line in [*stored(path), *new]}
        ordered = sorted(lines.values(), key=_place)
        fresh = path.with_suffix(".part")
        with fresh.open("w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(ordered)
        fresh.replace(path)
    finally:
        os.close(lock)


def _place(line: Line) -> tuple[int, int, int, int]:
    at = (list(NAMES), line["set"]), (ORDERS, line["order"]), (SYSTEMS, line["system"])
    name, order, system = (known.index(value) if value in known else len(known) for known, value in at)
    return name, order, -int(line["rows"]), system


# -- the command line --------------------------------------------------------------------------------


def tasks_of(
    names: list[str], orders: list[str], systems: list[str], rows: int | None
) -> list[tuple[str, str, int | None, str]]:
    """Return what is to be measured: (set, order, most rows, system)."""
    streams = [(name, order) for name in names for order in orders_of(name) if order in orders]
    fast = [system for system in systems if system not in SLOW]
    slow = [system for system in systems if system in SLOW]
    few = rows or SLOW_ROWS
    tasks = [(name, order, rows, system) for name, order in streams for system in fast]
    beside = ["auto", *slow] if slow else []
    tasks += [(name, order, few, system) for name, order in streams for system in beside]
    return list(dict.fromkeys(tasks))


def _present(names: list[str]) -> list[str]:
    present = []
    for name in names:
        if missing := absent(name):
            print(
                f"REAL DATA IS ABSENT: {name} is left out: {', '.join(missing)} (set AUCSTREAM_DATA to the folder that has it)",
                file=sys.stderr,
            )
        else:
            present.append(name)
    return present


def _chosen(text: str, known: Iterable[str], groups: dict[str, tuple[str, ...]], what: str) -> list[str]:
    known = tuple(known)
    chosen = [item for word in text.split(",") for item in groups.get(word, (word,))]
    for item in chosen:
        if item not in known:
            raise SystemExit(f"--{what}: expected some of {', '.join([*groups, *known])}, got {item}")
    return chosen


def main() -> None:
    """Read the command line, measure, store; or make the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(NAMES), help="names between commas; default: all")
    parser.add_argument("--orders", default=",".join(ORDERS), help="own, shuffled; default: both")
    parser.add_argument("--systems", default=",".join(GROUPS), help="groups or systems between commas; default: all")
    parser.add_argument("--rows", type=int, help="most rows learned, and held out; default: all")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes")
    parser.add_argument("--out", type=Path, help="folder of streams.csv, of the page and of its picture")
    parser.add_argument("--report", action="store_true", help="make the page from the stored lines; nothing is run")
    arguments = parser.parse_args()
    out = arguments.out or Path(__file__).parent
    out.mkdir(parents=True, exist_ok=True)
    path = out / "streams.csv"
    if arguments.report:
        stream_report.write(stored(path), arguments.out or Path(__file__).resolve().parents[2] / "docs" / "lab")
        return
    names = _present(_chosen(arguments.sets, NAMES, {}, "sets"))
    orders = _chosen(arguments.orders, ORDERS, {}, "orders")
    systems = _chosen(arguments.systems, SYSTEMS, GROUPS, "systems")
    tasks = tasks_of(names, orders, systems, arguments.rows)
    group_of = {system: group for group in ("peers", "slow") for system in GROUPS[group]}
    cap = f" --rows {arguments.rows}" if arguments.rows else ""
    new: list[Line] = []
    last = time.monotonic()
    with ProcessPoolExecutor(arguments.jobs) as pool:
        futures = {pool.submit(measure, *task): task for task in tasks}
        for number, future in enumerate(as_completed(futures), 1):
            name, order, rows, system = futures[future]
            if (line := future.result()) is not None:
                word = "slow" if rows and rows != arguments.rows else group_of.get(system, system)
                line["command"] = f"streams.py --sets {name} --orders {order} --systems {word}{cap}"
                new.append(line)
                print(f"{number}/{len(tasks)}", *(line[field] for field in FIELDS[:-1]), flush=True)
            if time.monotonic() - last > SECONDS_UNSTORED or number == len(tasks):
                store(path, new)
                new, last = [], time.monotonic()


if __name__ == "__main__":
    main()
