"""Rows of strings beside River and Vowpal Wabbit: ten columns of 3 to 3,000 different strings each.

    python benchmarks/speed/bench_strings.py [--rows 40000] [--rounds 3] [ways ...]

Ways: `rows` (each row is scored, then learned, as a dict), `files` (a CSV file is parsed, encoded and learned).

Microseconds of processor time a row, the smallest of the rounds, in which the contestants take turns. `new` are the rows as
they first come, where strings are new now and then; `known` are the same rows again. River has the shortest one-hot step
that there is, and Vowpal Wabbit gets one line of text for each row, made from the same dict.
"""

from __future__ import annotations

import argparse
import csv
import functools
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from aucstream import PSAM, AutoScale, Hashing, Pipeline, Vocabulary, io
from aucstream.features.intake import check_dicts, dict_block

SIZES = (3, 5, 7, 10, 20, 50, 100, 300, 1000, 3000)

Row = dict[str, str]
Contestant = Callable[[Row, bool], Any]  # scores a row, then learns it


def clicks(n: int, seed: int = 0) -> tuple[list[Row], list[bool]]:
    """Return rows whose strings come as often as words of a language do, and labels that they tell in part."""
    random = np.random.default_rng(seed)
    score = random.logistic(size=n)
    columns = []
    for size in SIZES:
        shares = 1.0 / np.arange(1, size + 1) ** 1.1
        drawn = random.choice(size, size=n, p=shares / shares.sum())
        score += random.normal(scale=0.5, size=size)[drawn]
        columns.append([f"v{value}" for value in drawn.tolist()])
    names = [f"c{number}" for number in range(len(SIZES))]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)], (score > 1.0).tolist()


def of_aucstream(model: Any) -> Contestant:
    """Return a model of aucstream as a contestant."""

    def step(x: Row, y: bool) -> None:
        model.score_one(x)
        model.learn_one(x, y)

    return step


def of_river() -> Contestant:
    """Return River's logistic regression behind a one-hot step."""
    from river import compose, linear_model

    one_hot = compose.FuncTransformer(lambda x: {f"{name}={word}": 1 for name, word in x.items()})
    model = one_hot | linear_model.LogisticRegression()

    def step(x: Row, y: bool) -> None:
        model.predict_proba_one(x)
        model.learn_one(x, y)

    return step


def of_vowpal_wabbit() -> Contestant:
    """Return Vowpal Wabbit's logistic regression; it predicts before it learns."""
    from vowpalwabbit import Workspace

    workspace = Workspace("--loss_function logistic --link logistic --quiet")

    def step(x: Row, y: bool) -> None:
        words = " ".join(f"{name}={word}" for name, word in x.items())
        workspace.learn(f"{'1' if y else '-1'} | {words}")

    return step


CONTESTANTS: dict[str, Callable[[], Contestant]] = {
    "PSAM": lambda: of_aucstream(PSAM()),
    "AutoScale, PSAM": lambda: of_aucstream(Pipeline(AutoScale(), PSAM())),
    "Hashing, PSAM": lambda: of_aucstream(Pipeline(Hashing(18), PSAM())),
    "River one-hot, LR": of_river,
    "Vowpal Wabbit": of_vowpal_wabbit,
}


def timed(call: Callable[[], Any], rows: int) -> float:
    """Return the microseconds a row of a call."""
    start = time.thread_time()
    call()
    return (time.thread_time() - start) / rows * 1e6


def bench_rows(n: int, rounds: int) -> None:
    """Print the cost of scoring and learning dicts."""
    rows, labels = clicks(n)

    def over(step: Contestant) -> None:
        for x, y in zip(rows, labels, strict=True):
            step(x, y)

    print(f"{'us a row':20}{'new':>8}{'known':>8}")
    best = {name: [np.inf, np.inf] for name in CONTESTANTS}
    for number in range(rounds + 1):
        for name, make in CONTESTANTS.items():
            try:
                step = make()
            except ImportError:
                continue
            times = [timed(functools.partial(over, step), n) for _ in range(2)]
            if number:  # the first round compiles
                best[name] = [min(pair) for pair in zip(best[name], times, strict=True)]
    for name, (new, known) in best.items():
        print(f"{name:20}{new:8.1f}{known:8.1f}", flush=True)


def bench_files(n: int, rounds: int) -> None:
    """Print what parsing, encoding and learning a CSV file cost."""
    rows, labels = clicks(n)
    makes = {"vocabulary": Vocabulary, "hashing": lambda: Hashing(18)}
    best: dict[str, float] = {}

    def note(name: str, call: Callable[[], Any]) -> None:
        best[name] = min(best.get(name, np.inf), timed(call, n))

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "clicks.csv"
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*rows[0], "y"])
            writer.writerows([*x.values(), int(y)] for x, y in zip(rows, labels, strict=True))
        for _ in range(rounds):
            note("parse", lambda: list(io.read(path, label="y")))
            chunks: list[Any] = list(io.read(path, label="y"))
            for name, make in makes.items():
                encoder = make()

                def encode(encoder: Any = encoder, chunks: list[Any] = chunks) -> None:
                    for chunk in chunks:
                        check_dicts(encoder, chunk.features)
                        dict_block(encoder, chunk.features, chunk.y, chunk.weights, learn=True)

                model = Pipeline(make(), PSAM())
                note(f"encode, {name}", encode)

                def learn(model: Any = model, chunks: list[Any] = chunks) -> None:
                    for chunk in chunks:
                        model.engine.learn_chunk(chunk)

                note(f"encode and learn with PSAM, {name}", learn)
    for name, cost in best.items():
        print(f"{name:45}{cost:8.1f} us a row {1e6 / cost:12,.0f} rows/s", flush=True)


def main() -> None:
    """Run the ways that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ways", nargs="*", default=["rows", "files"])
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    for way in options.ways:
        {"rows": bench_rows, "files": bench_files}[way](options.rows, options.rounds)


if __name__ == "__main__":
    main()
