"""The data sets of the tables: files, splits and preparation, as the papers have them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from scipy import sparse

from aucstream.block import joined
from aucstream.io import read

ROOT = Path(__file__).resolve().parents[2]
Rows = sparse.csr_array
Split = tuple[Rows, np.ndarray, Rows, np.ndarray]


@dataclass(frozen=True)
class DataSet:
    """Where rows come from and how they are split.

    With `test` the split is the official one and an order is a shuffle of the training part; without,
    each order has a random split of its own, as in the papers.
    """

    files: tuple[str, ...]
    test: str | None = None
    train_share: float = 0.8
    standardise: bool = False  # columns by the training part, before rows get unit length
    unit: bool = True  # rows get unit length
    one_hot: bool = False  # each value of a column is a column: for codes that are no quantities

    @property
    def protocol(self) -> str:
        """The split and the preparation in words."""
        split = "official split" if self.test else f"{self.train_share:.0%} / {1 - self.train_share:.0%}"
        return ", ".join([split, *self.preparation])

    @property
    def preparation(self) -> list[str]:
        """The preparation in words."""
        steps = {"one-hot": self.one_hot, "standardised columns": self.standardise, "unit rows": self.unit}
        return [step for step, applied in steps.items() if applied] or ["raw rows"]


SETS = {
    "a9a": DataSet(("a9a.svm.gz",), "a9a.t.svm.gz"),
    "w7a": DataSet(("w7a.svm.gz",), "w7a.t.svm.gz"),
    "w8a": DataSet(("w8a.svm.gz",)),
    "german": DataSet(("german.numer_scale.svm.gz",)),
    "german50": DataSet(("german.numer_scale.svm.gz",), train_share=0.5),
    "diabetes": DataSet(("diabetes_scale.svm.gz",)),
    "splice": DataSet(("splice.svm.gz", "splice.t.svm.gz")),
    "svmguide3": DataSet(("svmguide3.svm.gz", "svmguide3.t.svm.gz"), train_share=0.5),
    "svmguide3 standardised": DataSet(("svmguide3.svm.gz", "svmguide3.t.svm.gz"), train_share=0.5, standardise=True),
    "phishing": DataSet(("phishing.svm.gz",), train_share=0.5),
    "mushrooms": DataSet(("mushrooms.svm.gz",), train_share=0.5),
    "farm_ads": DataSet(("farm_ads.svm.gz",)),
    "elec2": DataSet(("elec2.svm.gz",), standardise=True),
    "bank_full": DataSet(("bank_full.svm.gz",), standardise=True),
}


def folder() -> Path:
    """Return where the data files are: AUCSTREAM_DATA, else `../shared/data` beside the repository; end where there is none."""
    path = Path(os.environ.get("AUCSTREAM_DATA") or ROOT.parent / "shared" / "data")
    if not path.is_dir():
        raise SystemExit(
            f"no data sets: {path} is no folder. Set AUCSTREAM_DATA to the folder that has them; benchmarks/quality/README.md "
            "says which they are, and `preparation` of a set in table_sets.py how it was prepared"
        )
    return path


@lru_cache(maxsize=4)
def rows_of(files: tuple[str, ...]) -> tuple[Rows, np.ndarray]:
    """Return (X, y) of some files one after the other, y in {-1, 1}."""
    block = joined([chunk for name in files for chunk in read(folder() / name)])
    X = sparse.csr_array((block.values, block.indices, block.indptr), shape=(len(block), block.width))
    return X, np.array(block.y)


def split(name: str, order: int) -> Split:
    """Return (X, y, test X, test y) of one order of a set of the tables, prepared."""
    return split_of(SETS[name], order)


@lru_cache(maxsize=8)
def split_of(which: DataSet, order: int) -> Split:
    """Return (X, y, test X, test y) of one order, prepared."""
    X, y = rows_of(which.files)
    if which.one_hot:
        X = _one_hot(X)
    shuffled = np.random.default_rng(order).permutation(y.size)
    if which.test is not None:
        test_X, test_y = rows_of((which.test,))
        width = max(X.shape[1], test_X.shape[1])
        return *_prepared(which, _wide(X, width)[shuffled], _wide(test_X, width), y[shuffled]), test_y
    cut = round(which.train_share * y.size)
    train, test = shuffled[:cut], shuffled[cut:]
    return *_prepared(which, X[train], X[test], y[train]), y[test]


def tuning_split(name: str, most: int) -> Split:
    """Return the first order's training part, at most `most` rows of it, split 80 / 20."""
    X, y, _, _ = split(name, 0)
    n = min(y.size, most)
    cut = round(0.8 * n)
    return X[:cut], y[:cut], X[cut:n], y[cut:n]


def _wide(X: Rows, width: int) -> Rows:
    return sparse.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], width))


def _one_hot(X: Rows) -> Rows:
    dense = X.toarray()
    return sparse.csr_array(
        np.column_stack([column == value for column in dense.T for value in np.unique(column)]), dtype=float
    )


def _prepared(which: DataSet, X: Rows, test: Rows, y: np.ndarray) -> tuple[Rows, np.ndarray, Rows]:
    if which.standardise:
        dense = X.toarray()
        mean, deviation = dense.mean(axis=0), dense.std(axis=0)
        deviation[deviation == 0.0] = 1.0
        X, test = (sparse.csr_array((part.toarray() - mean) / deviation) for part in (X, test))
    return (unit_rows(X), y, unit_rows(test)) if which.unit else (X, y, test)


def unit_rows(X: Rows) -> Rows:
    """Return rows of length 1; rows of zeros stay."""
    length = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    length[length == 0.0] = 1.0
    rows = sparse.csr_array(sparse.diags_array(1.0 / length) @ X)
    rows.sort_indices()
    return rows
