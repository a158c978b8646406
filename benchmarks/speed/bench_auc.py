"""Time of update and read: AUC against River's RollingROCAUC.

    python benchmarks/speed/bench_auc.py [--windows 10000 100000] [--river-rows 300] [--rows 200000]

Both first fill their window. Then every row is followed by a read (the "update+read" of a
dashboard or a drift detector); rates are rows a second of processor time, the best of three. Ratios travel between machines,
rates do not. Besides: updates alone, one by one and as an array, and the whole-stream AUC.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from river.metrics import RollingROCAUC

from aucstream.metrics import AUC, FadingAUC
from benchmarks.goals import note, write

WANTED = {10_000: 10.0, 100_000: 30.0}  # times as fast as River


def rate(work: Callable[[], None], rows: int, repeats: int = 3) -> float:
    """Return rows a second of processor time, the best of `repeats`."""
    best = float("inf")
    for _ in range(repeats):
        start = time.thread_time()
        work()
        best = min(best, time.thread_time() - start)
    return rows / best


def update_and_read(metric: Any, labels: list[bool], scores: list[float]) -> Callable[[], None]:
    """Return the loop that is timed."""

    def work() -> None:
        for label, score in zip(labels, scores, strict=True):
            metric.update(label, score)
            metric.get()

    return work


def update_only(metric: Any, labels: list[bool], scores: list[float]) -> Callable[[], None]:
    """Return the loop that is timed: one read at the end."""

    def work() -> None:
        for label, score in zip(labels, scores, strict=True):
            metric.update(label, score)
        metric.get()

    return work


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="update and read rates of AUC metrics")
    parser.add_argument("--windows", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--river-rows", type=int, default=300)
    parser.add_argument("--rows", type=int, default=200_000)
    arguments = parser.parse_args()

    random = np.random.default_rng(0)
    most = max(arguments.rows, max(arguments.windows))
    truth = random.random(most) < 0.1
    values = random.normal(size=most) + truth
    labels, scores = truth.tolist(), values.tolist()

    print(f"{'window':>8}  {'':28} {'aucstream':>12} {'River':>12} {'ratio':>8}   rows/s")
    for window in arguments.windows:
        ours, rivers = AUC(window=window), RollingROCAUC(window_size=window)
        ours.update_many(truth[:window], values[:window])
        update_only(rivers, labels[:window], scores[:window])()
        k = arguments.river_rows
        a = rate(update_and_read(ours, labels[:20_000], scores[:20_000]), 20_000)
        b = rate(update_and_read(rivers, labels[:k], scores[:k]), k)
        print(f"{window:>8}  {'update, read':28} {a:12,.0f} {b:12,.0f} {a / b:8.1f}")
        if window in WANTED:
            note(f"AUC over {window:,} rows, update and read / River", [a / b], WANTED[window])
        m = 20_000
        a = rate(update_only(ours, labels[:m], scores[:m]), m)
        b = rate(update_only(rivers, labels[:m], scores[:m]), m, repeats=1)
        print(f"{window:>8}  {'update only':28} {a:12,.0f} {b:12,.0f} {a / b:8.1f}")
        a = rate(lambda metric=ours: metric.update_many(truth, values), most)  # type: ignore[misc]
        print(f"{window:>8}  {'update_many':28} {a:12,.0f}")

    stream, fading = AUC(), FadingAUC()
    for name, metric in (("AUC()", stream), ("FadingAUC()", fading)):
        metric.update_many(truth, values)
        a = rate(update_only(metric, labels, scores), most, repeats=2)
        print(f"{'':>8}  {name + ' update only':28} {a:12,.0f}")
        a = rate(lambda metric=metric: metric.update_many(truth, values), most)  # type: ignore[misc]
        print(f"{'':>8}  {name + ' update_many':28} {a:12,.0f}")
        a = rate(update_and_read(metric, labels[:300], scores[:300]), 300)
        print(f"{'':>8}  {name + ' update, read':28} {a:12,.0f}")
    write()


if __name__ == "__main__":
    main()
