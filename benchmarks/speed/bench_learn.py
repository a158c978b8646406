"""Learning and scoring, row by row and by block, beside River and scikit-learn.

    python benchmarks/speed/bench_learn.py [--rounds 3] [--seconds 0.15] [--models SOLAM,FSAUC] [--json FILE] [ways ...]

Ways: `rows` (learn_one, score_one and predict_proba_one over dicts), `learners` (learn_one of every learner),
`blocks` (partial_fit).

In each round every contestant runs in a process of its own, one after the other, so that other load
on the machine meets all of them; a round's ratio is that of its two neighbours in time. Shown are the
fastest round of each, and the ratio as median (smallest to largest) of the rounds. A contestant takes
its fastest of several short passes, by the processor time of its own thread: waiting for a core does
not count, a core shared with a hyper-thread does. Ratios travel between machines, microseconds do not.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from aucstream.registry import LEARNERS as REGISTRY
from benchmarks.goals import note, write

Pass = Callable[[], int]  # one short pass; returns its rows

WIDTHS = (10, 100, 1000)
BLOCKS = ("dense 20", "dense 123", "dense 1000", "50 of 10^4", "50 of 10^6")
# one O(nnz) step a row, for which the goals of learn_one are
ONE_STEP = ("SOLAM", "RegSOLAM", "FSAUC", "SPAM", "VRSPAM", "FTRL", "OnlineLogistic", "UnivariateExp", "MiniBatchAUC")
LEARNERS = ("SOLAM", "FSAUC", "PSAM", "OAM")
BATCH = 1000

OURS = (*LEARNERS, "Standardize, SOLAM", "AutoScale, SOLAM")
RIVER, SCALED_RIVER, SKLEARN = "River LR", "River StandardScaler, LR", "sklearn SGDClassifier"
EVERY = tuple(entry.class_name for entry in REGISTRY.values())
PEER = {**dict.fromkeys(EVERY, RIVER), OURS[4]: SCALED_RIVER, OURS[5]: SCALED_RIVER}


def model_of(name: str) -> Any:
    """Return a fresh model."""
    if name == RIVER:
        from river.linear_model import LogisticRegression

        return LogisticRegression()
    if name == SCALED_RIVER:
        from river.linear_model import LogisticRegression
        from river.preprocessing import StandardScaler

        return StandardScaler() | LogisticRegression()
    if name == SKLEARN:
        from sklearn.linear_model import SGDClassifier

        return SGDClassifier(loss="log_loss")
    import aucstream

    *scalers, learner = name.split(", ")
    model = getattr(aucstream, learner)()
    return aucstream.Pipeline(*(getattr(aucstream, scaler)() for scaler in scalers), model) if scalers else model


# -- contestants, each in its own process ------------------------------------------------------------


def labelled(X: Any, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Return labels that a linear score ranks well but not perfectly."""
    score = X @ rng.normal(size=X.shape[1])
    return np.asarray(score + 0.5 * score.std() * rng.normal(size=score.size) > 0.3 * score.std())


def row_passes(name: str, width: int) -> dict[str, Pass]:
    """Return the passes over dicts; each covers about 1,000 values."""
    rng = np.random.default_rng(0)
    n = max(10, 2000 // width)
    X = rng.normal(size=(max(n, 100), width))
    y = labelled(X, rng).tolist()
    rows = [{f"feature_{j}": value for j, value in enumerate(row)} for row in X.tolist()]
    model = model_of(name)
    for _ in range(max(2, 600 // len(rows))):
        for x, label in zip(rows, y, strict=True):
            model.learn_one(x, label)
    rows, y = rows[:n], y[:n]

    def learn() -> int:
        for x, label in zip(rows, y, strict=True):
            model.learn_one(x, label)
        return n

    def probability() -> int:
        for x in rows:
            model.predict_proba_one(x)
        return n

    def score() -> int:
        for x in rows:
            model.score_one(x)
        return n

    passes: dict[str, Pass] = {"learn_one": learn, "predict_proba_one": probability}
    if name in PEER:  # a pipeline of River has a score_one too, for detectors of anomalies
        passes["score_one"] = score
    return passes


def block_passes(name: str, shape: str) -> dict[str, Pass]:
    """Return the pass of partial_fit in batches of 1,000 rows; River, if asked for, learns dict by dict."""
    from scipy import sparse

    rng = np.random.default_rng(0)
    kind, *rest = shape.split()
    if kind == "dense":
        d = int(rest[0])
        X: Any = rng.normal(size=(5 * BATCH if d < 1000 else 2 * BATCH, d))
    else:
        d = 10 ** int(rest[-1][-1])
        n = 4 * BATCH
        columns = np.sort(rng.integers(0, d - 49, size=(n, 50)), axis=1) + np.arange(50)  # no column twice
        X = sparse.csr_array(
            (rng.normal(size=n * 50), columns.ravel().astype(np.int32), np.arange(n + 1, dtype=np.int32) * 50),
            shape=(n, d),
        )
    y = labelled(X, rng)
    model = model_of(name)
    if name == RIVER:
        few = slice(0, 200)
        if kind == "dense":
            rows = [dict(enumerate(row)) for row in X[few].tolist()]
        else:
            X = X[few]
            edges = zip(X.indptr[:-1], X.indptr[1:], strict=True)
            rows = [dict(zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True)) for a, b in edges]
        labels = y[few].tolist()

        def one_by_one() -> int:
            for x, label in zip(rows, labels, strict=True):
                model.learn_one(x, label)
            return len(rows)

        return {"partial_fit": one_by_one}
    batches = [(X[a : a + BATCH], y[a : a + BATCH]) for a in range(0, X.shape[0], BATCH)]
    if name == "OAM":
        batches = batches[:1]
    classes = {"classes": [False, True]} if name == SKLEARN else {}
    model.partial_fit(*batches[0], **classes)

    def fit() -> int:
        for rows, labels in batches:
            model.partial_fit(rows, labels)
        return BATCH * len(batches)

    return {"partial_fit": fit}


def contest(way: str, name: str, size: str, seconds: float) -> dict[str, float]:
    """Return microseconds a row of each pass: the fastest, in processor time, that `seconds` allow."""
    passes = block_passes(name, size) if way == "blocks" else row_passes(name, int(size))
    if way == "learners":
        passes = {"learn_one": passes["learn_one"]}
    best_times = {}
    for label, run in passes.items():
        run()
        best = float("inf")
        until = time.thread_time() + seconds
        tries = 0
        while tries < 3 or time.thread_time() < until:
            start = time.thread_time_ns()
            rows = run()
            best = min(best, (time.thread_time_ns() - start) / rows)
            tries += 1
        best_times[label] = best / 1e3
    return best_times


# -- rounds and tables -------------------------------------------------------------------------------


def contestants(way: str) -> list[tuple[str, str]]:
    """Return (name, size) of all, peers next to those they are compared with."""
    if way == "rows":
        return [
            (name, str(d)) for d in WIDTHS for name in (*LEARNERS[:1], RIVER, *LEARNERS[1:], *OURS[4:], SCALED_RIVER)
        ]
    if way == "learners":
        return [(name, str(d)) for d in WIDTHS for name in (RIVER, *EVERY)]
    return [(name, shape) for shape in BLOCKS for name in (SKLEARN, "SOLAM", RIVER, *LEARNERS[1:])]


def rounds(way: str, count: int, seconds: float, models: list[str] | None) -> dict[str, dict[str, list[float]]]:
    """Return microseconds a row by "pass/size" and name, one figure a round."""
    figures: dict[str, dict[str, list[float]]] = {}
    for number in range(count):
        for name, size in contestants(way):
            if models and name in PEER and name not in models:
                continue
            print(f"round {number + 1}: {way}, {size}, {name}", file=sys.stderr, flush=True)
            arguments = [sys.executable, __file__, "--contest", way, name, size, "--seconds", str(seconds)]
            times = json.loads(subprocess.run(arguments, check=True, stdout=subprocess.PIPE).stdout)
            for label, figure in times.items():
                figures.setdefault(f"{label}/{size}", {}).setdefault(name, []).append(figure)
    return figures


def ratio_of(ours: list[float], theirs: list[float]) -> dict[str, float]:
    """Return how many times faster ours is: median and range of the rounds."""
    ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
    return {"median": statistics.median(ratios), "low": min(ratios), "high": max(ratios)}


def compared(contests: dict[str, dict[str, list[float]]]) -> list[dict[str, Any]]:
    """Return one line a figure of ours and peer."""
    lines = []
    for key, figures in contests.items():
        label, size = key.split("/")
        pool = contests[f"predict_proba_one/{size}"] if label == "score_one" else figures
        for name in figures:
            if name not in PEER:
                continue
            peers = (SKLEARN, RIVER) if label == "partial_fit" else (PEER[name],)
            for peer in peers:
                ratio = ratio_of(figures[name], pool[peer])
                lines.append(
                    {
                        "call": label,
                        "size": size,
                        "model": name,
                        "us": min(figures[name]),
                        "peer": peer,
                        "peer_us": min(pool[peer]),
                        "ratio": ratio,
                    }
                )
    return lines


def note_goals(lines: list[dict[str, Any]]) -> None:
    """Note the figures that have a goal."""
    for line in lines:
        call, size, model, peer = (line[key] for key in ("call", "size", "model", "peer"))
        wanted = None
        if call == "partial_fit":
            wanted = (
                {"dense 1000": 3.0, "50 of 10^6": None}.get(size, 5.0) if (model, peer) == ("SOLAM", SKLEARN) else None
            )
        elif peer == SCALED_RIVER:
            wanted = 8.0 if call == "learn_one" else None
        elif model in ONE_STEP:
            wanted = {"learn_one": {"10": 2.5, "100": 3.5, "1000": 5.0}[size], "predict_proba_one": 1.0}.get(call)
        if wanted is not None:
            ratio = line["ratio"]
            note(f"{call}, {size}, {model} / {peer}", [ratio["low"], ratio["median"], ratio["high"]], wanted)
    costs = {line["size"]: line["us"] for line in lines if line["call"] == "partial_fit" and line["model"] == "SOLAM"}
    if "50 of 10^6" in costs:
        ratio = costs["50 of 10^6"] / costs["50 of 10^4"]
        note("SOLAM, a row of 50 of 10^6 / 50 of 10^4", [ratio], 2.0, at_most=True)


def table(lines: list[dict[str, Any]]) -> str:
    """Return the lines as one Markdown table."""
    text = [
        "| call | size | model | us a row | peer | us a row | times as fast |",
        "| --- | --- | --- | --: | --- | --: | --- |",
    ]
    for line in lines:
        ratio = line["ratio"]
        spread = f"**{ratio['median']:.2f}** ({ratio['low']:.2f} to {ratio['high']:.2f})"
        text.append(
            f"| {line['call']} | {line['size']} | {line['model']} | {line['us']:.2f} "
            f"| {line['peer']} | {line['peer_us']:.2f} | {spread} |"
        )
    return "\n".join(text)


def main() -> None:
    """Run the contests and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ways", nargs="*", metavar="way", help="rows, learners, blocks; all where none is given")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.15, help="of processor time for each pass in each round")
    parser.add_argument("--models", type=lambda text: text.split(","), help="of ours; all where none is given")
    parser.add_argument("--json", type=Path, help="write all figures here too")
    parser.add_argument("--contest", nargs=3, metavar=("WAY", "NAME", "SIZE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contest:
        print(json.dumps(contest(*options.contest, options.seconds)))
        return
    lines = []
    for way in options.ways or ["rows", "learners", "blocks"]:
        lines += compared(rounds(way, options.rounds, options.seconds, options.models))
    note_goals(lines)
    write()
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(lines, indent=1) + "\n")
    print(table(lines))


if __name__ == "__main__":
    main()
