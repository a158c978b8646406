"""Feature maps: what a linear ranker needs to bend. River transformers, and steps of a `Pipeline`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np

from aucstream.constraints import Ge, Le, Size, rules_of
from aucstream.errors import InvalidParams
from aucstream.features.maps.base import FeatureMap, feature_map
from aucstream.features.maps.mapping import MOST_ROWS
from aucstream.kernels.jit import RowCall
from aucstream.kernels.rows import maps as kernel

ITERATIONS = 10  # of Lloyd's algorithm
NULL = 1e-10  # eigenvalues up to this share of the largest are left out
FLAT = 1e-200  # a spread below this is none at all: the bandwidth is then 1

Features = Annotated[int, Ge(1), Le(1 << 20), Size("features")]
Columns = Annotated[int, Ge(1), Le(1 << 20), Size("columns")]
Rows = Annotated[int, Ge(1), Le(MOST_ROWS), Size("warm-up rows")]
Bandwidth = Annotated[float | None, Ge(1e-100), Le(1e100)]
Seed = Annotated[int | None, Ge(0)]


@feature_map
class KMeansNystroem(FeatureMap):
    """k-means Nystrom approximation of the Gaussian kernel: a row by its nearness to landmarks.

    The strongest map where the classes form clusters, and small: a hundred landmarks often do.

    Parameters
    ----------
    landmarks : int, default=100
        1 to 1,048,576. Fewer where the warm-up has fewer distinct rows.
    warmup : int, default=1000
        1 to 80,000. Rows kept and then fitted on.
    bandwidth : float or None, default=None
        In [1e-100, 1e100]. b in exp(-\\|x - y\\|^2 / b); None: the mean of \\|x - mean\\|^2 over the warm-up.
    max_columns : int, default=10000
        1 to 1,048,576. Most columns the map sees, the first by name: a landmark has that many numbers.
    seed : int or None, default=0
        Of the rows where Lloyd's algorithm starts; None draws one.

    Notes
    -----
    Landmarks: the means of Lloyd's algorithm after 10 iterations from distinct random rows; an empty cluster
    keeps its mean. With K = U L U' the kernel of the landmarks and k(x) that of x with them::

        phi(x) = L^(-1/2) U' k(x)          over the eigenvalues > 1e-10 of the largest

    so phi(x)'phi(y) = k(x)' K^+ k(y), and is the kernel itself where x or y is a landmark. Names that no row
    of the warm-up had, or had only as 0, count 0. Time O(nnz landmarks + landmarks^2) a row.

    References
    ----------
    .. [1] Zhang, Tsang, Kwok, "Improved Nystrom Low-Rank Approximation and Error Analysis", ICML 2008.
    .. [2] Khalid, Ray, Chitsaz, "Scalable Nonlinear AUC Maximization Methods", ECML-PKDD 2018.

    Examples
    --------
    >>> from aucstream import PSAM, AutoScale, Pipeline
    >>> from aucstream.features import KMeansNystroem
    >>> model = Pipeline(AutoScale(), KMeansNystroem(landmarks=20, warmup=200), PSAM())
    """

    landmarks: Features = 100
    warmup: Rows = 1000
    bandwidth: Bandwidth = None
    max_columns: Columns = 10_000
    seed: Seed = 0

    _row = RowCall(kernel.kernel_row, float)
    _block = staticmethod(kernel.kernel_block)

    def _drawn(self, X: Any, random: np.random.Generator) -> dict[str, np.ndarray]:
        bandwidth = self.bandwidth or spread(X)
        centres = landmarks(X, self.landmarks, random)
        m = centres.shape[1]
        rows = np.ascontiguousarray(centres.T)
        near = np.empty((m, m))
        for row, out in zip(rows, near, strict=True):
            kernel.distances(None, row, centres, np.zeros(m), out)
        values, vectors = np.linalg.eigh(np.exp(-near / bandwidth))
        used = values > NULL * values[-1]
        return {
            "centres": centres,
            "root": np.ascontiguousarray(vectors[:, used] / np.sqrt(values[used])),
            "bandwidth": np.array([bandwidth]),
        }

    @staticmethod
    def _arguments(tables: dict[str, np.ndarray], width: int) -> tuple[Any, ...]:
        centres = tables["centres"]
        squares = np.square(centres).sum(axis=0)
        return centres, squares, tables["root"], np.empty(squares.size), tables["bandwidth"].item(0)

    @staticmethod
    def _features(tables: dict[str, np.ndarray]) -> int:
        return int(tables["root"].shape[1])


@feature_map
class RandomFourier(FeatureMap):
    """Random Fourier features: cosines whose inner products approach the Gaussian kernel.

    Parameters
    ----------
    components : int, default=500
        1 to 1,048,576. Number F of features.
    warmup : int, default=1000
        1 to 80,000. Rows kept, of which the bandwidth is estimated.
    bandwidth : float or None, default=None
        In [1e-100, 1e100]. b in exp(-\\|x - y\\|^2 / b); None: the mean of \\|x - mean\\|^2 over the warm-up.
    max_columns : int, default=10000
        1 to 1,048,576. Most columns the map sees, the first by name: a feature has that many numbers.
    seed : int or None, default=0
        Of W and c; None draws one.

    Notes
    -----
    ::

        phi(x) = sqrt(2/F) cos(W x + c),     W ~ N(0, 2/b),  c ~ U[0, 2 pi)

    W (F, d) is drawn first. Names that no row of the warm-up had, or had only as 0, count 0.
    Time O(F nnz) a row.

    References
    ----------
    .. [1] Rahimi, Recht, "Random Features for Large-Scale Kernel Machines", NIPS 2007.
    """

    components: Features = 500
    warmup: Rows = 1000
    bandwidth: Bandwidth = None
    max_columns: Columns = 10_000
    seed: Seed = 0

    _row = RowCall(kernel.cosine_row, float)
    _block = staticmethod(kernel.cosine_block)

    def _drawn(self, X: Any, random: np.random.Generator) -> dict[str, np.ndarray]:
        bandwidth = self.bandwidth or spread(X)
        W = random.normal(0.0, math.sqrt(2.0 / bandwidth), (self.components, X.shape[1]))
        c = random.uniform(0.0, 2.0 * math.pi, self.components)
        return {"table": np.ascontiguousarray(W.T), "offsets": c}

    @staticmethod
    def _arguments(tables: dict[str, np.ndarray], width: int) -> tuple[Any, ...]:
        return tables["table"], tables["offsets"], math.sqrt(2.0 / tables["offsets"].size)

    @staticmethod
    def _features(tables: dict[str, np.ndarray]) -> int:
        return int(tables["offsets"].size)


@feature_map
class RandomThresholds(FeatureMap):
    """Random thresholds: 1 where a random feature is above a random value of its range, else 0.

    Depends on the order of each feature's values, not on their distances: for skewed and heavy-tailed rows.

    Parameters
    ----------
    components : int, default=500
        1 to 1,048,576. Number of features.
    warmup : int, default=1000
        1 to 80,000. Rows kept, whose ranges are taken.
    seed : int or None, default=0
        Of the features and the thresholds; None draws one.

    Notes
    -----
    phi_f(x) = [x_j > th], j uniform over the columns in which a row of the warm-up is not 0, th uniform
    between the least and the largest value of j in the warm-up (an absent entry is 0); all j are drawn first.
    Time O(components + nnz) a row.
    """

    components: Features = 500
    warmup: Rows = 1000
    seed: Seed = 0

    _row = RowCall(kernel.threshold_row)
    _block = staticmethod(kernel.threshold_block)

    def _drawn(self, X: Any, random: np.random.Generator) -> dict[str, np.ndarray]:
        columns = random.integers(0, X.shape[1], self.components)
        low, high = (np.asarray(extreme.toarray()).ravel() for extreme in (X.min(axis=0), X.max(axis=0)))
        thresholds = random.uniform(low[columns], high[columns])
        return {"columns": columns, "thresholds": thresholds}

    @staticmethod
    def _arguments(tables: dict[str, np.ndarray], width: int) -> tuple[Any, ...]:
        return tables["columns"], tables["thresholds"], np.zeros(width)

    @staticmethod
    def _features(tables: dict[str, np.ndarray]) -> int:
        return int(tables["columns"].size)


@feature_map
class RandomNetwork(FeatureMap):
    """Random network: one layer of tanh units with random weights.

    Parameters
    ----------
    components : int, default=500
        1 to 1,048,576. Number of units.
    warmup : int, default=1000
        1 to 80,000. Rows kept, of which the scale of the weights is taken.
    max_columns : int, default=10000
        1 to 1,048,576. Most columns the map sees, the first by name: a unit has that many numbers.
    seed : int or None, default=0
        Of W and c; None draws one.

    Notes
    -----
    phi(x) = tanh(W x + c), W ~ N(0, 1 / mean \\|x\\|^2) over the warm-up, c ~ N(0, 1); W (units, d) is drawn
    first. Names that no row of the warm-up had, or had only as 0, count 0. Time O(components nnz) a row.
    """

    components: Features = 500
    warmup: Rows = 1000
    max_columns: Columns = 10_000
    seed: Seed = 0

    _row = RowCall(kernel.tanh_row)
    _block = staticmethod(kernel.tanh_block)

    def _drawn(self, X: Any, random: np.random.Generator) -> dict[str, np.ndarray]:
        square = float(np.square(X.data).sum()) / X.shape[0]
        W = random.normal(0.0, 1.0 / math.sqrt(square if square > FLAT else 1.0), (self.components, X.shape[1]))
        return {"table": np.ascontiguousarray(W.T), "offsets": random.normal(size=self.components)}

    @staticmethod
    def _arguments(tables: dict[str, np.ndarray], width: int) -> tuple[Any, ...]:
        return tables["table"], tables["offsets"]

    @staticmethod
    def _features(tables: dict[str, np.ndarray]) -> int:
        return int(tables["offsets"].size)


MAPS: dict[str, type[FeatureMap]] = {
    cls.__name__.lower(): cls for cls in (KMeansNystroem, RandomFourier, RandomThresholds, RandomNetwork)
}


def map_class(kind: Any, where: str = "map.kind") -> type[FeatureMap]:
    """Return the map of a registry name, or raise InvalidParams."""
    cls = MAPS.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise InvalidParams(where, " | ".join(map(repr, MAPS)), kind)
    return cls


def map_of(spec: Mapping[str, Any]) -> FeatureMap:
    """Return the map that a spec `{"kind": …, parameters}` describes; every parameter is checked."""
    cls = map_class(spec.get("kind"))
    rules = rules_of(cls)
    params = {name: value for name, value in spec.items() if name != "kind"}
    for name in params:
        if name not in rules:
            raise InvalidParams("map", f"only kind, {', '.join(rules)}", name)
    return cls(**{name: rules[name].checked(f"map.{name}", value) for name, value in params.items()})


def spread(X: Any) -> float:
    """Return the mean over the rows of a sparse array (n, d) of |x - mean|^2; 1 where all rows are one."""
    n, d = X.shape
    mean = np.bincount(X.indices, X.data, d) / n
    squares = np.bincount(X.indices, (X.data - mean[X.indices]) ** 2, d)
    squares = squares + (n - np.bincount(X.indices, minlength=d)) * mean**2  # what is not stored is 0
    b = float(squares.sum()) / n
    return b if b > FLAT else 1.0


def landmarks(X: Any, m: int, random: np.random.Generator) -> np.ndarray:
    """Return up to m means (d, m) of the rows of a sparse array (n, d) by Lloyd's algorithm from distinct rows."""
    n = X.shape[0]
    indptr, idx, val = X.indptr.astype(np.int64), X.indices.astype(np.int64), X.data
    chosen: dict[tuple[bytes, bytes], int] = {}
    for i in random.permutation(n).tolist():
        a, b = indptr[i], indptr[i + 1]
        chosen.setdefault((idx[a:b].tobytes(), val[a:b].tobytes()), i)
        if len(chosen) == m:
            break
    centres = np.ascontiguousarray(X[list(chosen.values())].toarray().T)
    near, counts = np.empty(len(chosen)), np.empty(len(chosen))
    nearest = np.full(n, -1, dtype=np.int64)
    for _ in range(ITERATIONS):
        squares = np.square(centres).sum(axis=0)
        if not kernel.assign(indptr, idx, val, centres, squares, near, nearest):
            break
        kernel.recentre(indptr, idx, val, nearest, centres, counts)
    return centres
