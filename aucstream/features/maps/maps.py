"""Feature maps: what a linear ranker needs to bend. River transformers, and steps of a `Pipeline`."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeVar, cast, dataclass_transform

import numpy as np
from river import base

from aucstream.block import Block, Floats
from aucstream.constraints import Ge, Le, Size, rules_of
from aucstream.errors import InvalidParams
from aucstream.exclusive import Exclusive, Gate
from aucstream.features.encoding.vocabulary import Vocabulary
from aucstream.features.intake import array_block, check_dicts, checked_array, dict_block, frame_rows
from aucstream.features.maps.mapping import MOST_ROWS, Warmup
from aucstream.features.scaling.scaling import Scaling
from aucstream.kernels.jit import RowCall
from aucstream.kernels.rows import maps as kernel

if TYPE_CHECKING:
    import pandas as pd

C = TypeVar("C", bound=type)

ITERATIONS = 10  # of Lloyd's algorithm
NULL = 1e-10  # eigenvalues up to this share of the largest are left out
FLAT = 1e-200  # a spread below this is none at all: the bandwidth is then 1

Features = Annotated[int, Ge(1), Le(1 << 20), Size("features")]
Columns = Annotated[int, Ge(1), Le(1 << 20), Size("columns")]
Rows = Annotated[int, Ge(1), Le(MOST_ROWS), Size("warm-up rows")]
Bandwidth = Annotated[float | None, Ge(1e-100), Le(1e100)]
Seed = Annotated[int | None, Ge(0)]


@dataclass_transform(kw_only_default=True)
def feature_map(cls: C) -> C:
    """Make the class its own parameter dataclass (keyword-only; no generated equality or repr)."""
    cls_of_map: Any = dataclass(eq=False, repr=False, kw_only=True)(cls)
    cls_of_map._parameters = frozenset(rules_of(cls_of_map))
    return cast("C", cls_of_map)


class FeatureMap(Exclusive, base.MiniBatchTransformer):
    """Base of the maps: parameters, the rows of the warm-up, the surface. A map gives three functions."""

    _parameters: ClassVar[frozenset[str]] = frozenset()
    _row: ClassVar[RowCall]
    _block: ClassVar[Callable[..., None]]

    warmup: int
    seed: int | None

    def __post_init__(self) -> None:
        self._gate = Gate()
        for name, rule in rules_of(type(self)).items():
            object.__setattr__(self, name, rule.checked(f"{type(self).__name__}.{name}", getattr(self, name)))
        self._seed = secrets.randbits(63) if self.seed is None else self.seed
        self._reset()
        self._built = True

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._parameters and self.__dict__.get("_built"):
            raise AttributeError(f"{type(self).__name__}.{name} is fixed at construction; make a new map")
        object.__setattr__(self, name, value)

    def _reset(self) -> None:
        self._encoder = Vocabulary()
        self._first_rows = Warmup(self.warmup)

    # -- what a map gives ----------------------------------------------------------------------------

    def _drawn(self, X: Any, random: np.random.Generator) -> dict[str, np.ndarray]:
        """Return the tables fitted on X, a sparse array (n, d) of n, d >= 1."""
        raise NotImplementedError

    @staticmethod
    def _arguments(tables: dict[str, np.ndarray], width: int) -> tuple[Any, ...]:
        """Return what its kernels take between a row of `width` places and the output."""
        raise NotImplementedError

    @staticmethod
    def _features(tables: dict[str, np.ndarray]) -> int:
        """Return the width of its output."""
        raise NotImplementedError

    # -- what the stages around it use ---------------------------------------------------------------

    @property
    def _most_columns(self) -> int | None:
        return getattr(self, "max_columns", None)

    def _fitted(self, rows: Block, width: int) -> dict[str, np.ndarray]:
        from scipy import sparse

        assert rows.indices is not None
        entries = (rows.values.copy(), rows.indices, rows.indptr)
        X: Any = sparse.csr_array(entries, shape=(len(rows), max(1, width)))
        X.eliminate_zeros()
        return self._drawn(X, np.random.default_rng(self._seed))

    @property
    def spec(self) -> dict[str, Any]:
        """The map as it stands in a model's spec."""
        return {"kind": type(self).__name__.lower(), **{name: getattr(self, name) for name in rules_of(type(self))}}

    @property
    def _is_stochastic(self) -> bool:
        return self.seed is None

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"warmup": 20, cls._size_name(): 6}

    @classmethod
    def _size_name(cls) -> str:
        """Return the parameter that says how many features it makes."""
        return next(name for name, rule in rules_of(cls).items() if rule.size and rule.size.kind == "features")

    def _check_room(self, widest: tuple[int, str] | None) -> None:
        """Raise InvalidParams where a learner that holds at most so many features cannot take this map's."""
        name = self._size_name()
        if widest is not None and getattr(self, name) > widest[0]:
            raise InvalidParams(f"map.{name}", f"at most {widest[0]} ({widest[1]})", getattr(self, name))

    # -- learning ------------------------------------------------------------------------------------

    def learn_one(self, x: Mapping[Any, Any]) -> None:
        """Keep the row during the warm-up; the last one fits the map. Later rows change nothing.

        Parameters
        ----------
        x : dict
            Name to number, bool, string, list of strings, or None (absent).

        Raises
        ------
        InvalidBlock
            A feature cannot be used; nothing was changed.
        """
        self._learn([x])

    def learn_many(self, X: pd.DataFrame) -> None:
        """Keep the rows of a frame, in order; the same as the loop.

        Parameters
        ----------
        X : DataFrame (n, d)
            NaN, NaT and NA are missing.

        Raises
        ------
        InvalidBlock
            A feature cannot be used; nothing was changed.
        """
        self._learn(frame_rows(X))

    def partial_fit(self, X: Any) -> Self:
        """Keep the rows of an array (n, d), dense or sparse, in order; the same as the loop.

        Parameters
        ----------
        X : ndarray (n, d) or scipy sparse (n, d)
            Finite numbers.

        Returns
        -------
        self

        Raises
        ------
        InvalidBlock
            A feature cannot be used; nothing was changed.
        """
        if self._first_rows.fixed is not None:
            checked_array(X)
        else:
            self._take(array_block(self._encoder, X, learn=True))
        return self

    def fit(self, X: Any, y: Any = None) -> Self:
        """Start anew and fit the map on the rows of an array (n, d), the first 80,000 of them; no warm-up.

        Parameters
        ----------
        X : ndarray (n, d) or scipy sparse (n, d)
            Finite numbers.
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        InvalidBlock
            A feature cannot be used; nothing was changed.
        """
        block = array_block(Vocabulary(), X, learn=True)
        self._reset()
        self._encoder.columns(block.width, learn=True)
        self._keep(block.rows(0, min(len(block), MOST_ROWS)))
        if self._first_rows.rows:
            self._fix()
        return self

    def _learn(self, rows: Sequence[Mapping[Any, Any]]) -> None:
        check_dicts(self._encoder, rows)
        if self._first_rows.fixed is None:
            self._take(dict_block(self._encoder, rows, learn=True))

    def _take(self, block: Block) -> None:
        start = 0
        while start < len(block) and self._first_rows.fixed is None:
            part = self._first_rows.next_part(block, start)
            self._keep(part)
            start += len(part)
            if self._first_rows.full:
                self._fix()

    def _keep(self, block: Block) -> None:
        ones = np.ones(len(block))
        self._first_rows.append(Block(block.indptr, block.indices, block.values, ones, ones, block.width, block.form))

    def _fix(self) -> None:
        self._first_rows.fix(self, self._encoder, Scaling(standard=False))

    # -- transforming --------------------------------------------------------------------------------

    def transform_one(self, x: Mapping[Any, Any]) -> dict[Any, float]:
        """Return the features, named 0, 1, 2, …; nothing before the map is fitted. Changes nothing.

        Parameters
        ----------
        x : dict
            Name to number, bool, string, list of strings, or None (absent).

        Returns
        -------
        dict
            Name to value.

        Raises
        ------
        InvalidBlock
            A feature cannot be used; nothing was changed.
        """
        check_dicts(self._encoder, [x])
        fixed = self._first_rows.fixed
        if fixed is None:
            return {}
        return dict(enumerate(fixed.forward_row(*self._encoder.look_up(x)).tolist()))

    def transform_many(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return the features of each row of a frame, with its index.

        Parameters
        ----------
        X : DataFrame (n, d)
            NaN, NaT and NA are missing.

        Returns
        -------
        DataFrame
            With the index of `X`.

        Raises
        ------
        InvalidBlock
            A feature cannot be used; nothing was changed.
        """
        import pandas as pd

        rows = frame_rows(X)
        check_dicts(self._encoder, rows)
        return pd.DataFrame(self._mapped(dict_block(self._encoder, rows, learn=False)), index=X.index)

    def transform(self, X: Any) -> Floats:
        """Return the features (n, components) of an array, dense or sparse; (n, 0) before the map is fitted.

        Parameters
        ----------
        X : ndarray (n, d) or scipy sparse (n, d)
            Finite numbers.

        Returns
        -------
        ndarray (n, components)
            One row for each row of `X`.

        Raises
        ------
        InvalidBlock
            A feature cannot be used; nothing was changed.
        """
        return self._mapped(array_block(self._encoder, X, learn=False))

    def _mapped(self, block: Block) -> np.ndarray:
        fixed = self._first_rows.fixed
        if fixed is None:
            return np.empty((len(block), 0))
        return fixed.forward(block).values.reshape(len(block), fixed.features)


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
