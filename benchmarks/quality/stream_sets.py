"""The streams that `streams.py` compares systems on: real sets, generated streams with drift, cases from the field."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.quality.table_sets import folder, rows_of

Stream = tuple[Any, np.ndarray, Any, np.ndarray]  # X to learn, y in {False, True}, X held out, y held out
WIDEST_DENSE = 300  # columns up to which the rows of a file are dense,
LEAST_DENSE = 0.05  # if this share of the values to learn is stored


@dataclass(frozen=True)
class FileSet:
    """Where rows come from.

    Without `test` the first 80 % of the rows are learned, of the file or of a shuffle, and the rest is held out. With
    `test` the training file is learned, in its own order or shuffled.
    """

    file: str
    test: str | None = None
    first: int | None = None  # rows of the training file
    positives: float = 1.0  # share of the positives to learn that is kept

    @property
    def files(self) -> tuple[str, ...]:
        """Every file that must be there."""
        return (self.file,) if self.test is None else (self.file, self.test)


FILES = {
    "splice": FileSet("splice.svm.gz", "splice.t.svm.gz"),
    "german.numer": FileSet("german.numer.svm.gz"),
    "german.numer_scale": FileSet("german.numer_scale.svm.gz"),
    "diabetes": FileSet("diabetes.svm.gz"),
    "diabetes_scale": FileSet("diabetes_scale.svm.gz"),
    "svmguide3": FileSet("svmguide3.svm.gz"),
    "elec2": FileSet("elec2.svm.gz"),
    "phishing": FileSet("phishing.svm.gz"),
    "mushrooms": FileSet("mushrooms.svm.gz"),
    "a9a": FileSet("a9a.svm.gz", "a9a.t.svm.gz", first=20_000),
    "a9a03": FileSet("a9a.svm.gz", "a9a.t.svm.gz", positives=0.0095),
    "w7a": FileSet("w7a.svm.gz", "w7a.t.svm.gz"),
    "w8a": FileSet("w8a.svm.gz"),
    "farm_ads": FileSet("farm_ads.svm.gz"),
    "bank_full": FileSet("bank_full.svm.gz"),
}
IN_TIME = ("elec2", "bank_full")  # the order of the file is that of the events
ORDERS = ("own", "shuffled")


# -- generated streams -------------------------------------------------------------------------------


def _drifting(kind: str) -> Stream:
    """Return 16,000 + 4,000 rows of 20 normal columns whose logistic labels change after 10,000 rows.

    abrupt: half of the weights change sign. gradual: the same, mixed from 8,000 to 12,000. units: the three strongest
    columns are multiplied by 1,000.
    """
    random = np.random.default_rng(7)
    n, d = 20_000, 20
    X = random.normal(size=(n, d))
    w = random.normal(size=d) / np.sqrt(d)
    after = np.where(random.random(d) < 0.5, -w, w)
    time = np.arange(n) / n
    changed = np.zeros(n, dtype=bool)
    if kind == "abrupt":
        changed = time > 0.5
    elif kind == "gradual":
        changed = random.random(n) < np.clip((time - 0.4) / 0.2, 0.0, 1.0)
    margin = 2.0 * np.where(changed, X @ after, X @ w) + random.logistic(size=n) - 2.2
    if kind == "units":
        strongest = np.argsort(-np.abs(w))[:3]
        X[n // 2 :, strongest] *= 1000.0
    return _cut(X, margin > 0.0, 16_000)


def _wander() -> Stream:
    """Return 16,000 + 4,000 rows of 20 columns that are random walks; one line separates the classes throughout."""
    random = np.random.default_rng(7)
    n, d = 20_000, 20
    X = random.normal(size=(n, d))
    w = random.normal(size=d) / np.sqrt(d)
    X += np.cumsum(random.normal(size=(n, d)) * 0.03, axis=0)
    score = X @ w
    return _cut(X, score + 0.7 * random.logistic(size=n) > np.median(score), 16_000)


def _made2000() -> Stream:
    """Return 12,800 + 3,200 sparse rows of up to 30 of 2,000 columns, column j with frequency ~ 1 / j."""
    random = np.random.default_rng(7)
    n, d = 16_000, 2000
    frequency = 1.0 / np.arange(1, d + 1)
    frequency /= frequency.sum()
    w = random.normal(size=d)
    columns, values, labels = [], [], []
    for _ in range(n):
        c = np.unique(random.choice(d, 30, p=frequency))
        x = random.normal(size=c.size)
        columns.append(c)
        values.append(x)
        labels.append(x @ w[c] + random.normal() > 4.0)
    ends = np.cumsum([0, *(c.size for c in columns)])
    X = sparse.csr_array((np.concatenate(values), np.concatenate(columns), ends), shape=(n, d))
    return _cut(X, np.array(labels), 12_800)


def _merchants() -> Stream:
    """Return 20,000 + 5,000 rows, 4 % positive: an amount N(1.5 y, 1) and one of 300 words that say nothing."""
    random = np.random.default_rng(11)
    n, words = 25_000, 300
    y = random.random(n) < 0.04
    amount = random.normal(size=n) + 1.5 * y
    word = 1 + random.integers(words, size=n)
    columns = np.column_stack([np.zeros(n, dtype=np.int64), word])
    values = np.column_stack([amount, np.ones(n)])
    X = sparse.csr_array((values.ravel(), columns.ravel(), np.arange(0, 2 * n + 1, 2)), shape=(n, words + 1))
    return _cut(X, y, 20_000)


def _burst() -> Stream:
    """Return 31,000 negatives of 3 heavy-tailed columns, an odd positive, 999 equal attacks, 8,000 negatives.

    Held out: 2,000 negatives and 200 attacks.
    """
    random = np.random.default_rng(12)
    before, after, held = (random.standard_t(3, size=(n, 3)) for n in (31_000, 8000, 2000))
    attack = np.array([-4.0, 6.0, -5.0])
    odd = np.array([[3.0, -2.0, 4.0]])
    X = np.concatenate([before, odd, np.tile(attack, (999, 1)), after])
    y = np.zeros(len(X), dtype=bool)
    y[31_000:32_000] = True
    return X, y, np.concatenate([held, np.tile(attack, (200, 1))]), np.repeat([False, True], [2000, 200])


def _unit(factor: float) -> Stream:
    """Return 30,000 + 5,000 rows, 2 % positive, of two columns N(1.5 y, 1); from row 10,000 the second is multiplied."""
    random = np.random.default_rng(13)
    n = 35_000
    y = random.random(n) < 0.02
    X = random.normal(size=(n, 2)) + 1.5 * y[:, None]
    X[10_000:, 1] *= factor
    return _cut(X, y, 30_000)


GENERATED: dict[str, Callable[[], Stream]] = {
    "abrupt": lambda: _drifting("abrupt"),
    "gradual": lambda: _drifting("gradual"),
    "units": lambda: _drifting("units"),
    "wander": _wander,
    "made2000": _made2000,
    "merchants": _merchants,
    "burst": _burst,
    "unit-10": lambda: _unit(10.0),
    "unit-1000": lambda: _unit(1000.0),
}
NAMES = [*FILES, *GENERATED]


# -- one stream --------------------------------------------------------------------------------------


def absent(name: str) -> list[str]:
    """Return the paths of a set's files that are not there."""
    return (
        [str(folder() / file) for file in FILES[name].files if not (folder() / file).is_file()] if name in FILES else []
    )


def orders_of(name: str) -> tuple[str, ...]:
    """Return the orders that a set is measured in; a generated stream has its own alone."""
    return ORDERS if name in FILES else ORDERS[:1]


@lru_cache(maxsize=2)
def stream_of(name: str, order: str, rows: int | None) -> Stream:
    """Return a stream, with at most `rows` rows to learn and as many held out."""
    X, y, held_X, held_y = _of_file(FILES[name], order) if name in FILES else GENERATED[name]()
    return (X, y, held_X, held_y) if rows is None else (X[:rows], y[:rows], held_X[:rows], held_y[:rows])


def _of_file(source: FileSet, order: str) -> Stream:
    X, y = _rows(source.file)
    if source.test is None:
        if order == "shuffled":
            at = np.random.default_rng(0).permutation(y.size)
            X, y = X[at], y[at]
        return _cut(X.toarray() if _dense(X) else X, y, int(0.8 * y.size))
    held_X, held_y = _rows(source.test)
    width = max(X.shape[1], held_X.shape[1])
    X.resize((X.shape[0], width))
    held_X.resize((held_X.shape[0], width))
    if source.first is not None:
        X, y = X[: source.first], y[: source.first]
    if source.positives < 1.0:
        kept = ~y | (np.random.default_rng(3).random(y.size) < source.positives)
        X, y = X[kept], y[kept]
    if order == "shuffled":
        at = np.random.default_rng(0).permutation(y.size)
        X, y = X[at], y[at]
    return (X.toarray(), y, held_X.toarray(), held_y) if _dense(X) else (X, y, held_X, held_y)


def _rows(file: str) -> tuple[sparse.csr_array, np.ndarray]:
    X, y = rows_of((file,))
    return X.copy(), y > 0


def _dense(X: sparse.csr_array) -> bool:
    return X.shape[1] <= WIDEST_DENSE and X.nnz >= LEAST_DENSE * X.shape[0] * X.shape[1]


def _cut(X: Any, y: np.ndarray, at: int) -> Stream:
    return X[:at], y[:at], X[at:], y[at:]
