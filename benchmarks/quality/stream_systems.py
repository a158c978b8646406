"""The systems that `streams.py` compares: learners of aucstream, River's and Vowpal Wabbit's."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from aucstream.registry import LEARNERS
from benchmarks.quality.stream_sets import Stream, stream_of
from benchmarks.quality.table_sets import unit_rows

RATES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
WEIGHTED_RATES = (0.01, 0.1, 1.0)
VOWPAL_RATES = (0.5, 0.1, 2.0, 10.0)
HEAVIEST = 50.0  # weight of a positive
RIVER_ROWS = ("l2", "standard", "standard+l2", "running")
VOWPAL_ROWS = ("raw", "l2", "standard+l2")
PEERS = (
    *(f"river:{rows}:{rate:g}" for rows in RIVER_ROWS for rate in RATES),
    *(f"river:{rows}:weighted:{rate:g}" for rows in RIVER_ROWS for rate in WEIGHTED_RATES),
    *(f"vw:{rows}:{rate:g}" for rows in VOWPAL_ROWS for rate in VOWPAL_RATES),
)
VOWPAL_PAIRS = "vw:pairs"
OTHERS = ("river", "hat", VOWPAL_PAIRS)
SLOW = ("arf10", "amf10")  # a millisecond a row and more
GROUPS = {"learners": tuple(LEARNERS), "others": OTHERS, "peers": PEERS, "slow": SLOW}
SYSTEMS = tuple(system for group in GROUPS.values() for system in group)
PAIR_COLUMNS = 30  # most columns of `vw:pairs`
TREE_COLUMNS = 300  # most columns of River's trees
PART = 1000  # rows that become dicts or text at a time, outside the time measured
SURE = 1e-6  # probabilities closer to 0 and 1 are cut for the log loss


@dataclass(frozen=True)
class Run:
    """What a system said of each row: before it learned it, and of the held-out rows at the end.

    Attributes
    ----------
    scores, held_scores : ndarray (n,), ndarray (m,)
    held_probabilities : ndarray (m,)
    microseconds : float
        Processor time of this thread a row, scored and learned.
    """

    scores: np.ndarray
    held_scores: np.ndarray
    held_probabilities: np.ndarray
    microseconds: float


def takes(system: str, columns: int, *, dense: bool) -> bool:
    """Return whether a system is run on rows of a width; pairs of columns and trees are not where there are many."""
    if system == VOWPAL_PAIRS:
        return columns <= PAIR_COLUMNS
    if system in (*SLOW, "hat"):
        return columns <= TREE_COLUMNS + 1
    return dense or ":running" not in system


def run(system: str, name: str, order: str, rows: int | None) -> Run:
    """Learn a stream row by row; return what the system said.

    Raises
    ------
    ValueError
        The learner refuses rows as wide as these.
    """
    X, y, held_X, _ = stream = stream_of(name, order, rows)
    if system in LEARNERS:
        return _ours(system, stream)
    kind, *settings = system.split(":")
    if len(settings) > 1:
        X, held_X = _prepared(name, order, rows, settings[0])
    if kind == "vw":
        text = "-q ff" if system == VOWPAL_PAIRS else f"-l {settings[1]}"
        return _row_by_row(_Vowpal(text), X, y, held_X)
    if kind == "river" and settings:
        weight = min(HEAVIEST, float((~y).sum() / max(1, y.sum()))) if "weighted" in settings else 1.0
        return _row_by_row(_RiverLogistic(float(settings[-1]), weight), X, y, held_X)
    return _row_by_row(_RiverScaled() if kind == "river" else _RiverTrees(kind), X, y, held_X)


def _ours(system: str, stream: Stream) -> Run:
    from aucstream import Auto, AutoScale, Pipeline
    from aucstream.registry import make

    X, y, held_X, _ = stream
    models = [Auto() if system == "auto" else Pipeline(AutoScale(), make(system, {})) for _ in range(2)]
    models[0].engine.learn_array(X[:60], y[:60])  # what is to be compiled is compiled
    before = time.thread_time()
    scores = models[1].engine.learn_array(X, y)
    seconds = time.thread_time() - before
    held = models[1].decision_function(held_X)
    return Run(scores, held, models[1].engine.probabilities(held), 1e6 * seconds / y.size)


# -- peers, row by row -------------------------------------------------------------------------------


class _RiverLogistic:
    """River's logistic regression on rows that are scaled already; its score is the log odds."""

    def __init__(self, rate: float, weight: float) -> None:
        from river import linear_model, optim

        self.model = linear_model.LogisticRegression(
            optimizer=optim.SGD(rate), intercept_lr=0.01, loss=optim.losses.Log(weight_pos=weight)
        )

    def row(self, x: dict[int, float]) -> dict[int, float]:
        return x

    def score(self, x: dict[int, float]) -> float:
        return float(self.model._raw_dot_one(x))

    def learn(self, x: dict[int, float], y: bool) -> float:
        score = self.score(x)
        self.model.learn_one(x, y)
        return score


class _RiverScaled(_RiverLogistic):
    """What River's documentation begins with: StandardScaler | LogisticRegression, at the defaults."""

    def __init__(self) -> None:
        from river import linear_model, preprocessing

        self.scaler = preprocessing.StandardScaler()
        self.model = linear_model.LogisticRegression()

    def score(self, x: dict[int, float]) -> float:
        return float(self.model._raw_dot_one(self.scaler.transform_one(x)))

    def learn(self, x: dict[int, float], y: bool) -> float:
        score = self.score(x)
        self.scaler.learn_one(x)
        self.model.learn_one(self.scaler.transform_one(x), y)
        return score


class _RiverTrees:
    """A tree or forest of River; its score is the log odds of its probability."""

    def __init__(self, kind: str) -> None:
        from river import forest, tree

        self.model: Any = {
            "hat": lambda: tree.HoeffdingAdaptiveTreeClassifier(seed=1),
            "arf10": lambda: forest.ARFClassifier(n_models=10, seed=1),
            "amf10": lambda: forest.AMFClassifier(n_estimators=10, seed=1),
        }[kind]()

    def row(self, x: dict[int, float]) -> dict[int, float]:
        return x

    def score(self, x: dict[int, float]) -> float:
        said = self.model.predict_proba_one(x)
        p = min(max(said.get(True, 0.0), 1e-15), 1.0 - 1e-15)
        return float(np.log(p / (1.0 - p)))

    def learn(self, x: dict[int, float], y: bool) -> float:
        score = self.score(x)
        self.model.learn_one(x, y)
        return score


class _Vowpal:
    """Vowpal Wabbit's logistic regression; its score is the log odds."""

    def __init__(self, settings: str) -> None:
        from vowpalwabbit import Workspace

        self.vw = Workspace(f"--quiet --loss_function logistic --link identity -b 18 --random_seed 1 {settings}")

    def row(self, x: dict[int, float]) -> str:
        return "|f" + "".join(f" {column}:{value:.9g}" for column, value in x.items())

    def score(self, text: str) -> float:
        return float(self.vw.predict(text))

    def learn(self, text: str, y: bool) -> float:
        example = self.vw.parse(f"{1 if y else -1} {text}")
        example = example[0] if isinstance(example, list) else example
        self.vw.learn(example)
        score = float(example.get_simplelabel_prediction())  # made before the update
        self.vw.finish_example(example)
        return score


def _row_by_row(model: Any, X: Any, y: np.ndarray, held_X: Any) -> Run:
    scores: list[float] = []
    seconds = 0.0
    labels = y.tolist()
    for part in _parts(X):
        rows = [model.row(x) for x in part]
        before = time.thread_time()
        for x, label in zip(rows, labels[len(scores) : len(scores) + len(rows)], strict=True):
            scores.append(model.learn(x, label))
        seconds += time.thread_time() - before
    held = np.array([model.score(model.row(x)) for part in _parts(held_X) for x in part])
    with np.errstate(over="ignore"):
        return Run(np.array(scores), held, 1.0 / (1.0 + np.exp(-held)), 1e6 * seconds / y.size)


def _parts(X: Any) -> Iterator[list[dict[int, float]]]:
    for a in range(0, X.shape[0], PART):
        part = X[a : a + PART]
        if not sparse.issparse(part):
            yield [dict(enumerate(row)) for row in part.tolist()]
            continue
        ends, columns, values = part.indptr.tolist(), part.indices.tolist(), part.data.tolist()
        yield [dict(zip(columns[b:c], values[b:c], strict=True)) for b, c in pairwise(ends)]


# -- rows as the peers get them ----------------------------------------------------------------------


@lru_cache(maxsize=4)
def _prepared(name: str, order: str, rows: int | None, scaling: str) -> tuple[Any, Any]:
    """Return (X, held X) scaled for a peer. `standard` has the figures of all rows to learn: it looks ahead."""
    X, _, held_X, _ = stream_of(name, order, rows)
    if scaling == "running":
        return _running(X, held_X)
    if scaling.startswith("standard"):
        X, held_X = _standardised(X, held_X)
    else:  # a zero changes neither a linear score nor a step
        X, held_X = sparse.csr_array(X), sparse.csr_array(held_X)
        X.eliminate_zeros()
        held_X.eliminate_zeros()
    return (_unit(X), _unit(held_X)) if scaling.endswith("l2") else (X, held_X)


def _standardised(X: Any, held_X: Any) -> tuple[Any, Any]:
    if sparse.issparse(X):
        mean = X.mean(axis=0)
        deviation = np.sqrt(np.maximum(0.0, X.multiply(X).mean(axis=0) - mean**2))
        scale = sparse.diags_array(1.0 / np.where(deviation > 0.0, deviation, 1.0))
        return sparse.csr_array(X @ scale), sparse.csr_array(held_X @ scale)
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    deviation[deviation == 0.0] = 1.0
    return (X - mean) / deviation, (held_X - mean) / deviation


def _running(X: np.ndarray, held_X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return rows by the mean and deviation of all rows up to and with each one, held-out rows by the last."""
    middle = X.mean(axis=0)  # against cancellation
    X, held_X = X - middle, held_X - middle
    n = np.arange(1.0, len(X) + 1)[:, None]
    mean = np.cumsum(X, axis=0) / n
    deviation = np.sqrt(np.maximum(0.0, np.cumsum(X * X, axis=0) / n - mean**2))
    deviation[deviation < 1e-12 * np.abs(X).max(axis=0)] = np.inf
    deviation[deviation == 0.0] = np.inf
    return (X - mean) / deviation, (held_X - mean[-1]) / deviation[-1]


def _unit(X: Any) -> Any:
    if sparse.issparse(X):
        return unit_rows(X)
    length = np.sqrt((X * X).sum(axis=1, keepdims=True))
    length[length == 0.0] = 1.0
    return X / length
