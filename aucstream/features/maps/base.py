"""What every feature map is, written once: parameters, the rows of the warm-up, the surface. No mathematics."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar, cast, dataclass_transform

import numpy as np
from river import base

from aucstream.block import Block, Floats
from aucstream.constraints import rules_of
from aucstream.errors import InvalidParams
from aucstream.exclusive import Exclusive, Gate
from aucstream.features.encoding.vocabulary import Vocabulary
from aucstream.features.frames import frame_like, frame_rows
from aucstream.features.intake import array_block, check_dicts, checked_array, dict_block
from aucstream.features.maps.mapping import MOST_ROWS, Warmup
from aucstream.features.scaling.scaling import Scaling
from aucstream.kernels.jit import RowCall

C = TypeVar("C", bound=type)


@dataclass_transform(kw_only_default=True)
def feature_map(cls: C) -> C:
    """Make the class its own parameter dataclass (keyword-only; no generated equality or repr)."""
    cls_of_map: Any = dataclass(eq=False, repr=False, kw_only=True)(cls)
    cls_of_map._parameters = frozenset(rules_of(cls_of_map))
    return cast("C", cls_of_map)


class FeatureMap(Exclusive, base.MiniBatchTransformer):
    """Base of the maps. A map gives three functions."""

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

    def learn_many(self, X: Any) -> None:
        """Keep the rows of a frame, in order; the same as the loop.

        Parameters
        ----------
        X : DataFrame (n, d) of pandas or polars, Arrow table or record batch
            Null, NaN, NaT and NA are missing.

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

    def transform_many(self, X: Any) -> Any:
        """Return the features of each row of a frame, with its index.

        Parameters
        ----------
        X : DataFrame (n, d) of pandas or polars, Arrow table or record batch
            Null, NaN, NaT and NA are missing.

        Returns
        -------
        DataFrame
            Of the library of `X`, with its index in pandas.

        Raises
        ------
        InvalidBlock
            A feature cannot be used; nothing was changed.
        """
        rows = frame_rows(X)
        check_dicts(self._encoder, rows)
        return frame_like(X, dict(enumerate(self._mapped(dict_block(self._encoder, rows, learn=False)).T)))

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
