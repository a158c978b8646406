"""SOLAM and RegSOLAM with step caps of 0.25 and 0.1: hold-out AUC after one pass over each of 40 shuffled orders.

The sets are a9a and w7a with their own test sets, and w8a split 80/20 by `default_rng(0)`.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.datasets import load_svmlight_file

from aucstream import Pipeline
from aucstream.metrics.exact import area

CAPS = (0.25, 0.1)
NAMES = ("solam", "regsolam")
SCALERS = ("l2", "auto")
Rows = tuple[csr_matrix, np.ndarray]


def sets(folder: Path) -> dict[str, tuple[Rows, Rows]]:
    """Return training rows and test rows by name of the set."""
    parts = {}
    for name in ("a9a", "w7a"):
        train = load_svmlight_file(str(folder / f"{name}.svm.gz"))
        parts[name] = train, load_svmlight_file(str(folder / f"{name}.t.svm.gz"), n_features=train[0].shape[1])
    X, y = load_svmlight_file(str(folder / "w8a.svm.gz"))
    order = np.random.default_rng(0).permutation(len(y))
    first, rest = np.split(order, [len(y) * 4 // 5])
    parts["w8a"] = (X[first], y[first]), (X[rest], y[rest])
    return parts


def hold_out(name: str, scaler: str, cap: float, order: int, train: Rows, test: Rows) -> float:
    """Return the hold-out AUC after one pass over the rows in a seeded order."""
    X, y = train
    rows = np.random.default_rng(order).permutation(len(y))
    model = Pipeline.from_spec({"algorithm": name, "scaler": scaler, "params": {"cap": cap}})
    model.partial_fit(X[rows], y[rows])
    return float(area(test[1], model.decision_function(test[0])).auc)


def main() -> None:
    """Print one object a set, algorithm and cap."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("AUCSTREAM_DATA", "shared/data")))
    parser.add_argument("--orders", type=int, default=40)
    arguments = parser.parse_args()
    for data, (train, test) in sets(arguments.data).items():
        for name in NAMES:
            for scaler in SCALERS:
                for cap in CAPS:
                    values = np.array(
                        [hold_out(name, scaler, cap, order, train, test) for order in range(arguments.orders)]
                    )
                    line = {"set": data, "model": name, "scaler": scaler, "cap": cap, "mean": values.mean()}
                    line |= {"sd": values.std(ddof=1), "median": np.median(values), "least": values.min()}
                    line |= {"most": values.max(), "short": int((np.median(values) - values > 0.001).sum())}
                    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
