"""Scalers as a user writes them: River transformers, and steps of a `Pipeline`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from river import base

from aucstream.block import Block, Form
from aucstream.errors import InvalidParams
from aucstream.exclusive import Exclusive, Gate
from aucstream.features.encoding.vocabulary import Vocabulary
from aucstream.features.frames import frame_like, frame_rows
from aucstream.features.intake import array_block, check_dicts, dict_block
from aucstream.features.scaling.scaling import RULES, Norm, Scaling


class Scaler(Exclusive, base.MiniBatchTransformer):
    """Base of the scalers: a `Scaling` and the names of the columns."""

    def __init__(self) -> None:
        self._gate = Gate()
        self._scaling = self._new_scaling()
        self._encoder = Vocabulary()

    def _new_scaling(self) -> Scaling:
        raise NotImplementedError

    def learn_one(self, x: Mapping[Any, Any]) -> None:
        """Take one row into the estimates; apply them where the schedule says so.

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

    def transform_one(self, x: Mapping[Any, Any]) -> dict[Any, float]:
        """Return the scaled row; names never learned pass by the rule of a new name. Changes nothing.

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
        encoder = self._encoder.copy() if self._has_new(x) else self._encoder
        block = dict_block(encoder, [x], learn=encoder is not self._encoder)
        scaling = self._scaling if encoder is self._encoder else self._scaling.copy()
        out, _ = scaling.forward(block, encoder.kinds)
        columns = range(out.size) if block.indices is None else block.indices.tolist()
        return {encoder.names[j]: value for j, value in zip(columns, out.tolist(), strict=True)}

    def learn_many(self, X: Any) -> None:
        """Take the rows of a frame into the estimates, in order; the same as the loop.

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

    def transform_many(self, X: Any) -> Any:
        """Return the scaled rows of a frame; a name that a row lacks is NaN.

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
        rows = [self.transform_one(x) for x in frame_rows(X)]
        names = dict.fromkeys(name for row in rows for name in row)
        return frame_like(X, {name: np.array([row.get(name, np.nan) for row in rows]) for name in names})

    def partial_fit(self, X: Any) -> Self:
        """Take the rows of an array (n, d), dense or sparse, into the estimates.

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
        self._take(array_block(self._encoder, X, learn=True))
        return self

    def transform(self, X: Any) -> Any:
        """Return the scaled array, of the kind that came: ndarray (n, d) or scipy CSR.

        Parameters
        ----------
        X : ndarray (n, d) or scipy sparse (n, d)
            Finite numbers.

        Returns
        -------
        ndarray or scipy sparse
            One row for each row of `X`.

        Raises
        ------
        InvalidBlock
            A feature cannot be used; nothing was changed.
        """
        from scipy import sparse

        block = array_block(self._encoder, X, learn=False)
        out, _ = self._scaling.forward(block, self._encoder.kinds)
        if block.indices is None:
            return out.reshape(len(block), block.width)
        return sparse.csr_array((out, block.indices, block.indptr), shape=(len(block), block.width))

    def _has_new(self, x: Mapping[Any, Any]) -> bool:
        from aucstream.features.encoding.entries import entries_of

        return any(self._encoder._column(name) < 0 for name, _, _ in entries_of(x))

    def _learn(self, rows: Sequence[Mapping[Any, Any]]) -> None:
        check_dicts(self._encoder, rows)
        self._take(dict_block(self._encoder, rows, learn=True))

    def _take(self, block: Block) -> None:
        scaling, kinds = self._scaling, self._encoder.kinds
        start = 0
        while start < len(block):
            gap = scaling.rows_until_change()
            if gap > 1:
                part = block.rows(start, min(len(block), start + gap - 1))
                _, norms = scaling.forward(part, kinds)
                scaling.observe(part, norms, np.zeros(len(part)), kinds)
                start += len(part)
            else:
                scaling.change(block.rows(start, start + 1), kinds)
                start += 1


class Standardize(Scaler):
    """Subtract the mean and divide by the standard deviation, without moving under a learner's feet.

    The estimates take every row; what is applied changes when the rows seen have grown by a tenth, and
    a `Pipeline` then carries its learner over into the new units.

    Parameters
    ----------
    with_mean : bool, default=True
        Subtract the mean. Sparse arrays are never centred, whatever this says.
    half_life : float or None, default=None
        >= 1. Values of a column after which an old one counts half; None: all count the same.

    Notes
    -----
    Entries made from bools, strings and lists are indicators and pass unchanged. In dicts and frames an
    absent name is neither counted nor emitted; in dense arrays every column is there; in sparse arrays an
    absent entry is 0. A name whose values have not varied yet is emitted as its sign.

    The applied variance of a column is (M + 30 v) / (n + 30) with M the sum of squared deviations of its
    n values and v its squared range times the mean over columns of variance / range^2, so that a column
    that was almost constant so far is not blown up. (A prior in the columns' own units would depend on
    them: one column of large numbers would flatten all others.) From its 20th value on a value enters
    cut at 10 deviations.

    A value is emitted cut at max(10, sqrt(n + 30)) deviations from the mean, n the values of its column at the
    last change (at 100 below 20 values): one that is itself among the n values of the estimates is no more than
    sqrt(n) from their mean.

    Among its first 40 values a column forgets those beside which the next one would vanish (10^6 times as
    large), up to 3 times; later too where it did not vary but for one value 100 times as far as the next. What
    a learner of a `Pipeline` learned of them is forgotten with them.

    With a half-life the estimates forget, so that a column whose unit or level changes is in its new units after
    some half-lives at most; what is applied then changes every half_life / 10 rows at the latest. Weights are carried
    over as ever. What a learner remembers of rows (class means, covariances) is too, but drawn towards the mean where
    it would be more than 2 deviations from it in root mean square: it would grow without bound with a deviation that
    shrinks. The rule of the last paragraph but one is then not needed, and does not hold.

    Memory: 80 bytes a column, 104 with a half-life.
    """

    def __init__(self, with_mean: bool = True, half_life: float | None = None) -> None:
        if not isinstance(with_mean, bool):
            raise InvalidParams("Standardize.with_mean", "true or false", with_mean)
        self.with_mean = with_mean
        self.half_life = _checked_half_life("Standardize.half_life", half_life)
        super().__init__()

    def _new_scaling(self) -> Scaling:
        return Scaling(standard=True, center=self.with_mean, half_life=self.half_life)


class Arctan(Scaler):
    """The arctan of each value: near 0 the value itself, far from 0 at most pi/2, so that outliers count little.

    In a `Pipeline` it stands between `Standardize` and `BoundedNorm`. Entries made from bools, strings and lists pass
    unchanged.

    Notes
    -----
    An arctan in other units is not a multiple of itself, so a change of units of the `Standardize` before it keeps the
    score of each column at its new mean and one deviation above it. Buffered rows are carried over exactly. What else
    is remembered of rows keeps its size where the deviation has shrunk.
    """

    def _new_scaling(self) -> Scaling:
        return Scaling(standard=False, arctan=True)


class BoundedNorm(Scaler):
    """Divide a row by sqrt(k^2 + |x|^2), k the typical norm: every row is shorter than 1.

    Unlike a plain division by the norm it keeps most of the length's information. k^2 is the mean squared
    norm of the rows (rows of zeros not counted, each norm cut at twice the current k), applied on the
    schedule of `Standardize`.
    """

    def _new_scaling(self) -> Scaling:
        return Scaling(standard=False, norm="bounded")


class UnitNorm(Scaler):
    """Divide a row by its l2 norm; a row of zeros stays."""

    def _new_scaling(self) -> Scaling:
        return Scaling(standard=False, norm="l2")


class AutoScale(Scaler):
    """The default scaling of a `Pipeline`, decided by the form of the first block and nothing else.

    Named rows (dicts, frames, JSON, CSV) and dense arrays: `Standardize`, then `BoundedNorm`. Sparse
    arrays and svmlight files: the same without centring; in a `Pipeline` columns that are dense so far are centred.

    Parameters
    ----------
    half_life : float or None, default=None
        >= 1. That of its `Standardize`.

    Attributes
    ----------
    resolved : str or None
        "standard+bounded" or "scale+bounded"; None before the first row.
    """

    resolved: str | None = None
    half_life: float | None = None

    def __init__(self, half_life: float | None = None) -> None:
        self.half_life = _checked_half_life("AutoScale.half_life", half_life)
        super().__init__()

    def _new_scaling(self) -> Scaling:
        return Scaling(standard=True, norm="bounded", half_life=self.half_life)

    def _take(self, block: Block) -> None:
        if self.resolved is None:
            self.resolved = resolve_auto(block.form, with_half_life("auto", self.half_life))
            self._scaling = scaling_of(self.resolved)
        super()._take(block)


def _checked_half_life(where: str, value: float | None) -> float | None:
    if value is None:
        return None
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not (number and math.isfinite(value) and value >= 1.0):
        raise InvalidParams(where, "a number of at least 1, or None", value)
    return float(value)


# name -> whether columns are divided by their deviations, whether their means are subtracted, norm; "arctan" is
# in the name alone
SCALERS: dict[str, tuple[bool, bool, Norm]] = {
    "standard+arctan+bounded": (True, True, "bounded"),
    "scale+arctan+bounded": (True, False, "bounded"),
    "standard+bounded": (True, True, "bounded"),
    "scale+bounded": (True, False, "bounded"),
    "standard": (True, True, "none"),
    "standard+l2": (True, True, "l2"),
    "l2": (False, True, "l2"),
    "none": (False, True, "none"),
    "bounded": (False, True, "bounded"),
    "scale": (True, False, "none"),
    "scale+l2": (True, False, "l2"),
}

# what a spec is advised to name, each but the last two with a half-life too
OFFERED = (
    "auto",
    "standard+bounded",
    "scale+bounded",
    "arctan+bounded",
    "standard",
    "standard+l2",
    "l2",
    "none",
)
_ARCTAN = re.compile(r"arctan(@[^+]*)?\+bounded")  # short for: standard, arctan, bounded
OFFERED_TEXT = " | ".join([*map(repr, OFFERED), "one of them that forgets, such as 'standard@3000+bounded'"])


_FORGETFUL = re.compile(r"(auto|standard|scale)@([0-9.]+(?:e[+-]?[0-9]+)?)((?:\+[a-z0-9]+)*)")


def with_half_life(name: str, half_life: float | None) -> str:
    """Return the name of a scaling that forgets: "standard+bounded" and 3000 make "standard@3000+bounded"."""
    if half_life is None:
        return name
    first, plus, rest = name.partition("+")
    return f"{first}@{int(half_life) if half_life.is_integer() else half_life!r}{plus}{rest}"


def without_half_life(name: str) -> tuple[str, float | None]:
    """Return (name of the scaling, its half-life): the inverse of `with_half_life`."""
    match = _FORGETFUL.fullmatch(name)
    if match is None:
        return name, None
    try:
        half_life = float(match[2])
    except ValueError:
        return name, None
    return (match[1] + match[3], half_life) if 1.0 <= half_life < math.inf else (name, None)


def full_name(name: str) -> str:
    """Return the name of a scaling by all its scalers: "arctan+bounded" is "standard+arctan+bounded"."""
    short = _ARCTAN.fullmatch(name)
    return f"standard{short[1] or ''}+arctan+bounded" if short else name


_FULL_NAMES = {*map(full_name, OFFERED), "scale+arctan+bounded"}


def is_scaling(name: str) -> bool:
    """Return whether a spec may name a scaling so."""
    plain, _ = without_half_life(full_name(name))
    return plain in _FULL_NAMES


def resolve_auto(form: Form, name: str = "auto") -> str:
    """Return the scaler that "auto", or "auto@half-life", means for rows of this form."""
    resolved = "scale+bounded" if form is Form.CSR else "standard+bounded"
    return with_half_life(resolved, without_half_life(name)[1])


def scaling_of(name: str, rules: int = RULES, *, completes: bool = False) -> Scaling:
    """Return the scaling that a spec names, by `Scaling.rules`; see `Scaling.completes`."""
    plain, half_life = without_half_life(full_name(name))
    standard, center, norm = SCALERS[plain]
    arctan = "arctan" in plain.split("+")
    return Scaling(
        standard=standard,
        center=center,
        norm=norm,
        arctan=arctan,
        half_life=half_life,
        rules=rules,
        completes=completes,
    )
