"""Cost of a step: microseconds a row and bytes a feature, at fixed non-zeros and growing width.

    python benchmarks/speed/bench_cost.py [--learners solam,psam] [--seconds 0.5]

Rows have 14 non-zeros, as a9a has; the same rows at every width: their 123 columns lie scattered over d. So what
differs between widths is what a step does for columns that are not in its row. (Rows whose columns are new all the
time pay cache misses on top: `bench_learn.py blocks`.) The model knows all d columns before the first row counted.

Microseconds are processor time of `partial_fit` in one block, the fastest pass; bytes a feature are all arrays of
the state over d, without those of buffered rows.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from benchmarks.quality.table_systems import one_thread

one_thread()

import numpy as np  # noqa: E402
from scipy import sparse  # noqa: E402

from aucstream.errors import AucstreamError  # noqa: E402
from aucstream.learners._base.state import Scratch, Table, Vector  # noqa: E402
from aucstream.registry import LEARNERS, make  # noqa: E402

WIDTHS = (123, 10_000, 1_000_000)
ROWS, NNZ, HOT = 4000, 14, 123
VARIANTS = {
    "solam, norm=l1": ("solam", {"norm": "l1"}),
    "spam, penalty=elasticnet": ("spam", {"penalty": "elasticnet"}),
    "vrspam, penalty=elasticnet": ("vrspam", {"penalty": "elasticnet"}),
    "cbr, covariance=full": ("cbr", {"covariance": "full"}),
    "mba, moments=diag": ("mba", {"moments": "diag"}),
    "mba, moments=sketch": ("mba", {"moments": "sketch"}),
    "opauc, rank=50": ("opauc", {"rank": 50}),
}
LARGE = ("mba, moments=sketch", "opauc, rank=50")  # 800 MB and more at the greatest width: left out there


def rows(d: int) -> tuple[Any, np.ndarray]:
    """Return (X, y): the same values at any width, their columns scattered over it."""
    random = np.random.default_rng(0)
    hot = np.stack([random.choice(HOT, NNZ, replace=False) for _ in range(ROWS)])
    places = np.linspace(0, d - 1, HOT).astype(np.int64)
    X = sparse.csr_array(
        (np.full(ROWS * NNZ, NNZ**-0.5), places[np.sort(hot, axis=1)].ravel(), np.arange(ROWS + 1) * NNZ),
        shape=(ROWS, d),
    )
    effect = random.normal(size=HOT)
    score = effect[hot].sum(axis=1)
    return X, np.where(score + random.normal(size=ROWS) * score.std() / 2 > np.quantile(score, 0.75), 1.0, -1.0)


def state_bytes(model: Any) -> float:
    """Return the bytes of the arrays that grow with the features, over the features they have room for."""
    per_feature = (Vector, Table, Scratch)
    parts = zip(model._program.parts.values(), model._arrays, strict=True)
    return float(sum(array.nbytes for part, array in parts if isinstance(part, per_feature)) / model._capacity)


def cost(name: str, params: dict[str, Any], d: int, seconds: float) -> tuple[float, float] | None:
    """Return (microseconds a row, bytes a feature); None where so many features are refused."""
    X, y = rows(d)
    model = make(name, params)
    try:
        model.partial_fit(X[:200], y[:200])
        best = np.inf
        until = time.thread_time() + seconds
        while not np.isfinite(best) or time.thread_time() < until:
            start = time.thread_time()
            model.partial_fit(X, y)
            best = min(best, time.thread_time() - start)
    except AucstreamError:
        return None
    return 1e6 * best / len(y), state_bytes(model)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--learners", type=lambda text: text.split(","), help="registry names; all, and some variants")
    parser.add_argument("--seconds", type=float, default=0.5, help="of processor time for each figure")
    options = parser.parse_args()
    models = {name: (name, {}) for name in options.learners or LEARNERS} | ({} if options.learners else VARIANTS)
    print("| | step as documented | " + " | ".join(f"d = {d:,}: us a row" for d in WIDTHS), end=" | ")
    print(" | ".join(f"d = {d:,}: bytes a feature" for d in WIDTHS) + " |\n" + "|---" * (2 + 2 * len(WIDTHS)) + "|")
    for label, (name, params) in sorted(models.items()):
        costs = [None if label in LARGE and d == WIDTHS[-1] else cost(name, params, d, options.seconds) for d in WIDTHS]
        times = [f"{f[0]:.3g}" if f else "not run" if label in LARGE else "refused" for f in costs]
        sizes = [f"{f[1]:,.0f}" if f else "" for f in costs]
        print(f"| {label} | {LEARNERS[name].step} | {' | '.join(times)} | {' | '.join(sizes)} |", flush=True)


if __name__ == "__main__":
    main()
