"""Which learner suits which stream: every learner at its defaults on streams of different nature.

    python benchmarks/quality/suits.py [--scenarios order,rare] [--systems solam,psam] [--orders 5] [--scale auto]
                                 [--jobs N] [--out DIR]

Each model is `Pipeline(AutoScale(), learner)`, what a user gets who says nothing, unless `--scale` names another
scaling; River's scaled logistic regression stands beside them. AUC is on held-out rows after one pass, in percent,
mean over the orders.
Writes DIR/suits.md.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

from benchmarks.quality.table_systems import one_thread

one_thread()

import numpy as np  # noqa: E402
from scipy import sparse  # noqa: E402

from benchmarks.quality.table_sets import Rows, Split, rows_of  # noqa: E402

RIVER = "River scaled LR"
PLAIN = "psam, plain running scaler"
Stream = Callable[[int], Split]


def _dense_or_sparse(X: Any) -> Any:
    return X.toarray() if sparse.issparse(X) and X.shape[1] <= 100 else X


def _files(*names: str) -> tuple[Rows, np.ndarray]:
    return rows_of(names)


def _cut(X: Any, y: np.ndarray, train: np.ndarray, test: np.ndarray) -> Split:
    return X[train], y[train], X[test], y[test]


def shuffled(name: str) -> Stream:
    """Return a file's rows in random order, 80 % to learn."""

    def stream(order: int) -> Split:
        X, y = _files(name)
        rows = np.random.default_rng(order).permutation(y.size)
        cut = round(0.8 * y.size)
        return _cut(_dense_or_sparse(X), y, rows[:cut], rows[cut:])

    return stream


def in_time(name: str) -> Stream:
    """Return a file's rows as they come: the first 80 % to learn, the last 20 % to test."""

    def stream(order: int) -> Split:
        X, y = _files(name)
        cut = round(0.8 * y.size)
        return _cut(_dense_or_sparse(X), y, np.arange(cut), np.arange(cut, y.size))

    return stream


def official(name: str, test: str, *, order_kept: bool) -> Stream:
    """Return a training file, in file order or shuffled, and its test file."""

    def stream(order: int) -> Split:
        X, y = _files(name)
        test_X, test_y = _files(test)
        width = max(X.shape[1], test_X.shape[1])
        X, test_X = (sparse.csr_array((p.data, p.indices, p.indptr), shape=(p.shape[0], width)) for p in (X, test_X))
        rows = np.arange(y.size) if order_kept else np.random.default_rng(order).permutation(y.size)
        return X[rows], y[rows], test_X, test_y

    return stream


def rare(share: float) -> Stream:
    """Return a9a with positives thinned to `share` of the rows learned; the official test part."""

    def stream(order: int) -> Split:
        X, y, test_X, test_y = official("a9a.svm.gz", "a9a.t.svm.gz", order_kept=False)(order)
        positive = np.flatnonzero(y > 0)
        negative = np.flatnonzero(y < 0)
        thinned = positive[: round(share / (1.0 - share) * negative.size)]
        rows = np.sort(np.concatenate([thinned, negative]))
        return X[rows], y[rows], test_X, test_y

    return stream


def first(rows: int, source: Stream) -> Stream:
    """Return only the first rows of a stream to learn."""

    def stream(order: int) -> Split:
        X, y, test_X, test_y = source(order)
        return X[:rows], y[:rows], test_X, test_y

    return stream


def wide(d: int = 2000, n: int = 20_000, nnz: int = 30, p: float = 0.1) -> Stream:
    """Return rows with `nnz` of `d` columns, frequent ones first; the labels from a dense linear score."""

    def stream(order: int) -> Split:
        random = np.random.default_rng(order)
        likely = 1.0 / (1.0 + np.arange(d))
        columns = np.stack([random.choice(d, nnz, replace=False, p=likely / likely.sum()) for _ in range(n)])
        values = random.normal(size=(n, nnz))
        X = sparse.csr_array((values.ravel(), columns.ravel(), np.arange(0, n * nnz + 1, nnz)), shape=(n, d))
        X.sort_indices()
        score = X @ random.normal(size=d) / np.sqrt(nnz) + 0.5 * random.normal(size=n)
        y = np.where(score > np.quantile(score, 1.0 - p), 1.0, -1.0)
        return _cut(X, y, np.arange(0, 16_000), np.arange(16_000, n))

    return stream


def wandering(*, as_it_comes: bool, n: int = 12_000, d: int = 12) -> Stream:
    """Return labels independent of time and columns that are slow random walks; a stationary test part."""

    def stream(order: int) -> Split:
        random = np.random.default_rng(order)
        effect = random.normal(size=d) * 1.5
        y = np.where(random.random(n) < 0.3, 1.0, -1.0)
        walk = np.cumsum(random.normal(size=(n, d)), axis=0) * 0.2
        X = walk + random.normal(size=(n, d)) + np.outer(y > 0, effect)
        test_y = np.where(random.random(4000) < 0.3, 1.0, -1.0)
        test_X = walk[random.integers(n, size=4000)] + random.normal(size=(4000, d)) + np.outer(test_y > 0, effect)
        rows = np.arange(n) if as_it_comes else random.permutation(n)
        return X[rows], y[rows], test_X, test_y

    return stream


SCENARIOS: dict[str, dict[str, Stream]] = {
    "order": {
        "elec2 shuffled": shuffled("elec2.svm.gz"),
        "elec2 in time": in_time("elec2.svm.gz"),
        "bank_full shuffled": shuffled("bank_full.svm.gz"),
        "bank_full in time": in_time("bank_full.svm.gz"),
        "w7a shuffled": official("w7a.svm.gz", "w7a.t.svm.gz", order_kept=False),
        "w7a in file order": official("w7a.svm.gz", "w7a.t.svm.gz", order_kept=True),
        "wandering shuffled": wandering(as_it_comes=False),
        "wandering as it comes": wandering(as_it_comes=True),
    },
    "rare": {
        "a9a, 24 % positive": official("a9a.svm.gz", "a9a.t.svm.gz", order_kept=False),
        "a9a, 3 %": rare(0.03),
        "a9a, 1 %": rare(0.01),
        "a9a, 0.3 %": rare(0.003),
    },
    "wide": {"farm_ads": shuffled("farm_ads.svm.gz"), "2,000 columns, 30 a row": wide()},
    "few": {
        "german, 100 rows": first(100, shuffled("german.numer_scale.svm.gz")),
        "german, 800 rows": shuffled("german.numer_scale.svm.gz"),
        "diabetes, 614 rows": shuffled("diabetes_scale.svm.gz"),
        "a9a, 300 rows": first(300, official("a9a.svm.gz", "a9a.t.svm.gz", order_kept=False)),
        "a9a, 3,000 rows": first(3000, official("a9a.svm.gz", "a9a.t.svm.gz", order_kept=False)),
    },
}
TITLES = {
    "order": "Shuffled against natural order",
    "rare": "Rare positives",
    "wide": "High-dimensional sparse rows",
    "few": "Few rows",
}
ONE_ORDER = ("elec2 in time", "bank_full in time", "w7a in file order")  # there is only one


@lru_cache(maxsize=2)
def stream_of(scenario: str, name: str, order: int) -> Split:
    """Return one stream."""
    return SCENARIOS[scenario][name](order)


def measure(scenario: str, name: str, order: int, system: str, scale: str) -> float:
    """Return the AUC on held-out rows."""
    from aucstream import Pipeline
    from aucstream.metrics.exact import area
    from aucstream.registry import make
    from aucstream.steps import steps_of

    X, y, test_X, test_y = stream_of(scenario, name, order)
    if system == RIVER:
        return area(test_y, _river(X, y, test_X)).auc
    if system == PLAIN:
        rows, test_rows = _plainly_scaled(_dense_or_sparse(X), _dense_or_sparse(test_X))
        return area(test_y, make("psam", {}).partial_fit(rows, y).decision_function(test_rows)).auc
    model = Pipeline(*steps_of(scale), make(system, {}))
    try:
        return area(test_y, model.partial_fit(X, y).engine.score_chunk(_block(test_X, test_y))).auc
    except ValueError:  # more columns than d^2 numbers are kept for
        return float("nan")


def _block(X: Any, y: np.ndarray) -> Any:
    from aucstream.features.encoding.vocabulary import Vocabulary
    from aucstream.features.intake import array_block

    return array_block(Vocabulary(), X, y, np.ones(y.size), learn=True)


def _river(X: Any, y: np.ndarray, test_X: Any) -> np.ndarray:
    from river import linear_model, preprocessing

    model = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    for x, label in zip(_dicts(X), (y > 0).tolist(), strict=True):
        model.learn_one(x, label)
    scaler, learner = model[0], model[1]
    return np.array([learner._raw_dot_one(scaler.transform_one(x)) for x in _dicts(test_X)])


def _dicts(X: Any) -> Iterator[dict[int, float]]:
    if not sparse.issparse(X):
        yield from (dict(enumerate(row)) for row in X.tolist())
        return
    for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        yield dict(zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True))


def _plainly_scaled(X: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return rows standardised by means and deviations read anew at every row."""
    n = np.arange(1.0, len(X) + 1)[:, None]
    mean = np.cumsum(X, axis=0) / n
    deviation = np.sqrt(np.maximum(0.0, np.cumsum(X * X, axis=0) / n - mean**2))
    deviation[deviation == 0.0] = np.inf
    return (X - mean) / deviation, (test - mean[-1]) / deviation[-1]


def main() -> None:
    """Read the command line, measure, write the tables."""
    from aucstream.registry import LEARNERS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", type=lambda text: text.split(","), default=list(SCENARIOS))
    parser.add_argument("--systems", type=lambda text: text.split(","), default=[*LEARNERS, RIVER])
    parser.add_argument("--orders", type=int, default=5)
    parser.add_argument("--scale", default="auto", help="auto, l2, none, standard, scale+bounded, ...")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "out")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    page: list[str] = []
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for scenario in arguments.scenarios:
            streams = list(SCENARIOS[scenario])
            systems = [*arguments.systems, *([PLAIN] if scenario == "order" else [])]
            futures = {
                (name, system, order): pool.submit(measure, scenario, name, order, system, arguments.scale)
                for name in streams
                for order in range(1 if name in ONE_ORDER else arguments.orders)
                for system in systems
                if not (system == PLAIN and "wandering" not in name)
            }
            page += [f"### {TITLES[scenario]}", "", f"| | {' | '.join(streams)} |", "|---" * (len(streams) + 1) + "|"]
            for system in systems:
                cells = []
                for name in streams:
                    areas = [100.0 * task.result() for (n, s, _), task in futures.items() if (n, s) == (name, system)]
                    spread = f" ± {statistics.stdev(areas):.1f}" if len(areas) > 1 else ""
                    cells.append(f"{statistics.mean(areas):.1f}{spread}" if areas and areas[0] == areas[0] else "")
                page.append(f"| {system} | {' | '.join(cells)} |")
            page.append("")
            (arguments.out / "suits.md").write_text("\n".join(page))
    print("\n".join(page))


if __name__ == "__main__":
    main()
