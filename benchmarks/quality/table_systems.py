"""The systems of the tables, and the grids that the papers tune them on."""

from __future__ import annotations

import importlib
import itertools
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.quality.table_sets import Rows

Params = dict[str, Any]


def powers(base: float, *exponents: int) -> list[float]:
    """Return base**e for each exponent."""
    return [base**e for e in exponents]


@dataclass(frozen=True)
class System:
    """One line of the table.

    Attributes
    ----------
    algorithm : str
        Class of `aucstream` or `aucstream.batch`, or one of `PEERS`.
    fixed : dict
        Parameters of both columns.
    grid : dict
        Parameter to the values it is tuned on, all combinations.
    epochs : int
        0: one pass of `partial_fit`; else `fit` with so many, the papers' finite-sum form.
    widest : int
        Most features; a wider set has no figure: the system keeps d^2 numbers.
    most_rows : int
        Largest training part it is run on; for systems of many seconds a thousand rows.
    network : bool
        It learns the hidden layer of a trained network in place of the rows, on `NETWORK_SETS`.
    """

    name: str
    algorithm: str
    fixed: Params = field(default_factory=dict)
    grid: dict[str, list[Any]] = field(default_factory=dict)
    epochs: int = 0
    widest: int = 10**9
    most_rows: int = 10**9
    network: bool = False

    @property
    def combinations(self) -> list[Params]:
        """Every setting of the grid."""
        return [dict(zip(self.grid, values, strict=True)) for values in itertools.product(*self.grid.values())]


BETA = powers(10, -5, -4, -3, -2, -1)
PAIR_LAM = powers(10, -10, -9, -8, -7, -6, -5, -4, -3, -2)  # the papers' four, and the default's neighbours
C_GRID = powers(2, *range(-10, 11, 2))
LAM = powers(10, -6, -5, -4, -3, -2, -1)
NET = {"beta": BETA[:4], "beta1": powers(10, -6, -5, -4, -3)}
RATES = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]
QUADRATIC = 4096  # features up to which d^2 numbers are kept

SYSTEMS = [
    System("SOLAM l2", "SOLAM", {}, {"R": powers(10, 0, 1, 2, 3), "zeta": [1.0, 10.0, 100.0]}),
    System("SOLAM l1", "SOLAM", {"norm": "l1"}, {"R": powers(10, 0, 1, 2, 3), "zeta": [1.0, 10.0, 100.0]}),
    System("RegSOLAM", "RegSOLAM", {}, {"lam": BETA, "zeta": [1.0, 10.0]}),
    System("FSAUC anytime", "FSAUC", {}, {"R": powers(10, 0, 1, 2, 3), "eta1": powers(2, -6, -4, -2, 0)}),
    System("FSAUC n known", "FSAUC", {"n": "rows"}, {"R": powers(10, 0, 1, 2, 3), "eta1": powers(2, -6, -4, -2, 0)}),
    System("SPAM l2", "SPAM", {}, {"beta": BETA, "C": [1.0, 10.0]}),
    System("SPAM elastic net", "SPAM", {"penalty": "elasticnet"}, NET),
    System("SPAM l2, 1 epoch", "SPAM", {}, {"beta": BETA, "C": [1.0, 10.0]}, epochs=1),
    System("VRSPAM l2", "VRSPAM", {}, {"beta": BETA}),
    System("VRSPAM elastic net", "VRSPAM", {"penalty": "elasticnet"}, NET, widest=QUADRATIC),
    System("VRSPAM l2, 1 epoch", "VRSPAM", {}, {"beta": BETA}, epochs=1),
    System("SPDAM", "SPDAM", {}, {"lam": BETA}),
    System("SPDAM, 5 epochs", "SPDAM", {"lam": 1e-3}, {"lam": BETA}, epochs=5),
    System("OAM seq", "OAM", {}, {"C": C_GRID}),
    System("OAM gra", "OAM", {"update": "gra"}, {"C": C_GRID}),
    System("OAM seq fifo", "OAM", {"policy": "fifo"}, {"C": C_GRID}),
    System("OAM seq, last iterate", "OAM", {"weighting": "count", "average": False}, {"C": C_GRID}),
    System("OAM gra, last iterate", "OAM", {"update": "gra", "weighting": "count", "average": False}, {"C": C_GRID}),
    System(
        "OPAUC", "OPAUC", {}, {"eta": powers(2, -12, -9, -6, -4, -3, -2), "lam": powers(2, -10, -6)}, widest=QUADRATIC
    ),
    System("OPAUC rank 50", "OPAUC", {"rank": 50}, {"eta": powers(2, -12, -9, -6, -4, -3, -2)}),
    System("AdaOAM", "AdaOAM", {}, {"eta": powers(2, -9, -7, -5, -3, -1)}, widest=QUADRATIC),
    System("CBR diag", "CBR", {}, {"C": C_GRID}),
    System("CBR full", "CBR", {"covariance": "full"}, {"C": powers(2, -10, -8, -7, -6, -4)}, widest=64),
    System("PSAM", "PSAM", {}, {"lam": PAIR_LAM}),
    System("PSAM fifo", "PSAM", {"policy": "fifo"}, {"lam": PAIR_LAM}),
    System("PSAM, 1 epoch", "PSAM", {}, {"lam": PAIR_LAM}, epochs=1),
    System("ASAM", "ASAM", {}, {"lam": PAIR_LAM}),
    System("ASAM, 1 epoch", "ASAM", {}, {"lam": PAIR_LAM}, epochs=1),
    System("MBA l2", "MBA", {}, {"lam2": [None, *LAM]}),
    System("MBA l1", "MBA", {"lam1": 1e-4, "lam2": 0.0}, {"lam1": powers(10, -6, -5, -4, -3)}, widest=QUADRATIC),
    System("MBA diag", "MBA", {"moments": "diag"}, {"lam2": [None, *LAM]}),
    System("MBA sketch", "MBA", {"moments": "sketch"}, {"lam2": [None, *LAM]}),
    System("MiniBatchAUC hinge", "MiniBatchAUC", {}, {"eta0": [0.25, 1.0, 4.0, 16.0], "lam": BETA[:3]}),
    System("MiniBatchAUC squared", "MiniBatchAUC", {"loss": "squared"}, {"eta0": [0.25, 1.0, 4.0], "lam": BETA[:3]}),
    System("OnlineLogistic", "OnlineLogistic", {}, {"eta0": [1.0, 4.0, 16.0, 64.0]}),
    System("FTRL", "FTRL", {}, {"alpha": [0.1, 0.5, 2.0, 8.0], "l1": [0.0, 0.1, 1.0]}),
    System("UnivariateExp", "UnivariateExp", {}, {"eta0": [1.0, 4.0, 16.0]}),
    System("River LR", "River LR", {}, {"rate": RATES}),
    System("River LR weighted", "River LR", {"balanced": True}, {"rate": RATES}),
    System("Vowpal Wabbit LR", "Vowpal Wabbit LR", {}, {"rate": RATES}),
    System("Vowpal Wabbit LR weighted", "Vowpal Wabbit LR", {"balanced": True}, {"rate": RATES}),
    System("BAM", "BAM", {}, {"lam": LAM}),
    System("RankSVM", "RankSVM", {}, {"lam": LAM[1:]}),
    System("LeastSquaresAUC", "LeastSquaresAUC", {}, {"lam": LAM}),
    System("SOLAM, network", "SOLAM", network=True),
    System("PSAM, network", "PSAM", network=True),
]
BATCH = ("BAM", "RankSVM", "LeastSquaresAUC")


# -- how each is run ---------------------------------------------------------------------------------


class Ours:
    """A learner of `aucstream`, one pass or `fit`."""

    def __init__(self, system: System, params: Params, rows: int) -> None:
        self.whole = system.algorithm in BATCH
        place = importlib.import_module("aucstream.batch" if self.whole else "aucstream")
        merged = {**system.fixed, **params}
        if merged.get("n") == "rows":
            merged["n"] = rows
        self.model = getattr(place, system.algorithm)(**merged)
        self.epochs = system.epochs

    def learn(self, X: Rows, y: np.ndarray) -> None:
        """Learn the rows."""
        if self.whole:
            self.model.fit(X, y)
        elif self.epochs:
            self.model.fit(X, y, epochs=self.epochs)
        else:
            self.model.partial_fit(X, y)

    def score(self, X: Rows) -> np.ndarray:
        """Return the scores."""
        return np.asarray(self.model.decision_function(X))


class River:
    """River's logistic regression, row by row; `balanced` weighs positives by the ratio of the classes."""

    def __init__(self, system: System, params: Params, rows: int) -> None:
        self.rate = params.get("rate", 0.01)
        self.balanced = system.fixed.get("balanced", False)
        self.model: Any = None

    def learn(self, X: Rows, y: np.ndarray) -> None:
        """Learn the rows."""
        from river import linear_model, optim

        if self.model is None:
            weight = float((y < 0).sum() / max(1, (y > 0).sum())) if self.balanced else 1.0
            self.model = linear_model.LogisticRegression(
                optimizer=optim.SGD(self.rate), intercept_lr=self.rate, loss=optim.losses.Log(weight_pos=weight)
            )
        for x, label in zip(_dicts(X), (y > 0).tolist(), strict=True):
            self.model.learn_one(x, label)

    def score(self, X: Rows) -> np.ndarray:
        """Return the log odds, from the weights: probabilities would tie at 0 and 1."""
        w = np.zeros(X.shape[1])
        for name, value in self.model.weights.items():
            w[name] = value
        return X @ w


class Vowpal:
    """Vowpal Wabbit's logistic regression with its usual adaptive, normalised steps."""

    def __init__(self, system: System, params: Params, rows: int) -> None:
        from vowpalwabbit import Workspace

        rate = params.get("rate", 0.5)
        self.balanced = system.fixed.get("balanced", False)
        self.vw = Workspace(f"--quiet --loss_function logistic --link identity -b 18 -l {rate} --random_seed 1")
        self.weight = 1.0

    def learn(self, X: Rows, y: np.ndarray) -> None:
        """Learn the rows."""
        if self.balanced:
            self.weight = float((y < 0).sum() / max(1, (y > 0).sum()))
        for features, label in zip(_texts(X), y.tolist(), strict=True):
            weight = self.weight if label > 0 else 1.0
            self.vw.learn(f"{int(label)} {weight} |f{features}")

    def score(self, X: Rows) -> np.ndarray:
        """Return the log odds."""
        return np.array([self.vw.predict(f"|f{features}") for features in _texts(X)])


PEERS: dict[str, Callable[[System, Params, int], Any]] = {"River LR": River, "Vowpal Wabbit LR": Vowpal}


def _dicts(X: Rows) -> list[dict[int, float]]:
    parts = zip(np.split(X.indices, X.indptr[1:-1]), np.split(X.data, X.indptr[1:-1]), strict=True)
    return [dict(zip(idx.tolist(), val.tolist(), strict=True)) for idx, val in parts]


def _texts(X: Rows) -> list[str]:
    return ["".join(f" {name}:{value:.9g}" for name, value in row.items()) for row in _dicts(X)]


def runner(system: System, params: Params, rows: int) -> Any:
    """Return a fresh model of a system."""
    return PEERS.get(system.algorithm, Ours)(system, params, rows)


def seconds_of(task: Callable[[], None]) -> float:
    """Return the processor time that a task took."""
    before = time.process_time()
    task()
    return time.process_time() - before


def one_thread() -> None:
    """Keep linear algebra on one core: two tasks run side by side."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
