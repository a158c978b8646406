"""What the ranking metrics share: reading labels and scores, intervals, the curve."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aucstream.block import sign_of, signs_of
from aucstream.errors import BadSnapshot, InvalidBlock, InvalidParams
from aucstream.metrics.intervals import normal_quantile

Floats = NDArray[np.float64]
Labels = NDArray[np.uint8]
Arrays = dict[str, NDArray[Any]]
Meta = dict[str, Any]

_LABELS = {0: 0, 1: 1, -1: 0}  # False, 0.0, True, 1.0 hash alike


class Roc(NamedTuple):
    """A ROC curve: a row is called positive when its score >= the threshold; the first is inf."""

    fpr: Floats
    tpr: Floats
    thresholds: Floats


def label_of(y_true: object) -> int:
    """Return 1 for a positive label, 0 for a negative one, or raise InvalidLabel."""
    try:
        label = _LABELS.get(y_true)  # type: ignore[call-overload]
    except TypeError:
        label = None
    if label is None or isinstance(y_true, complex):
        return 1 if sign_of(y_true) > 0 else 0
    return int(label)


def score_of(where: str, y_pred: object, path: str = "") -> float:
    """Return the finite score of a prediction: a number, a bool, or a dict of probabilities.

    A dict that carries `score` is ranked by it, any other by the probability of True.
    """
    if isinstance(y_pred, dict):
        value = getattr(y_pred, "score", None)
        if value is None:
            value = y_pred.get(True, 0.0)
    else:
        value = y_pred
    try:
        score = math.nan if isinstance(value, (str, bytes)) else float(value)  # type: ignore[arg-type]
    except OverflowError:
        score = math.inf
    except (TypeError, ValueError):
        raise InvalidBlock(where, "a score: a number or a dict of probabilities", y_pred, path=path) from None
    if not math.isfinite(score):
        raise InvalidBlock(where, "a finite score", value, path=path)
    return score


def scores_array(where: str, scores: Any) -> Floats:
    """Return finite scores as float64 (n,), or raise InvalidBlock naming row and value."""
    try:
        array = np.asarray(scores)
    except (TypeError, ValueError, OverflowError):
        raise InvalidBlock(where, "scores that are numbers", scores) from None
    if array.ndim != 1:
        raise InvalidBlock(where, "scores of one dimension", array.shape)
    if array.dtype.kind not in "biuf":  # dicts, mixed objects; names what is no score
        rows = enumerate(array.tolist())
        return np.array([score_of(where, value, f"row {row}") for row, value in rows], dtype=np.float64)
    array = np.ascontiguousarray(array, dtype=np.float64)
    finite = np.isfinite(array)
    if not finite.all():
        row = int(np.argmin(finite))
        raise InvalidBlock(where, "finite scores", array[row], path=f"row {row}")
    return array


def labels_array(labels: Any, n: int) -> Labels:
    """Return n labels as 1 (positive) and 0 (negative)."""
    return (signs_of(labels, n) > 0).astype(np.uint8)


def drained(rows: list[Any]) -> list[Any]:
    """Return all rows of a list and take them out of it; rows that other threads append meanwhile stay in it."""
    batch = rows[:]
    del rows[: len(batch)]
    return batch


def checked_window(where: str, window: object) -> int:
    """Return a window as int >= 1, or raise InvalidParams."""
    if isinstance(window, (bool, np.bool_)) or not isinstance(window, (int, np.integer)) or window < 1:
        raise InvalidParams(f"{where}.window", "a whole number >= 1", window)
    return int(window)


def check_weight(where: str, w: object) -> None:
    """Raise InvalidBlock for what is no weight: below 0, not finite, no number."""
    try:
        weight = math.nan if isinstance(w, (str, bytes)) else float(w)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        weight = math.nan
    if not 0.0 <= weight < math.inf:
        raise InvalidBlock(where, "a finite weight >= 0", w, path="w")


def interval_of(where: str, level: float, estimate: float, error: float, least: float = 0.0) -> tuple[float, float]:
    """Return the normal interval of a level about an estimate, cut at `least` and 1; NaN where there is no error."""
    half = normal_quantile(where, level) * error
    if math.isnan(half):
        return math.nan, math.nan
    return max(least, estimate - half), min(1.0, estimate + half)


def delong_error(of_pos: float, of_neg: float, n_pos: float, n_neg: float) -> float:
    """Return the standard error of an AUC from variances of placements; NaN below 2 rows a class."""
    if not (n_pos > 1 and n_neg > 1):
        return math.nan
    return math.sqrt(of_pos / (n_pos - 1) + of_neg / (n_neg - 1))


def curve(scores: Floats, pos: NDArray[Any], neg: NDArray[Any]) -> Roc:
    """Return the ROC curve of masses at increasing scores; rates are NaN for a class without mass."""
    true = np.concatenate(([0.0], np.cumsum(pos[::-1])))
    false = np.concatenate(([0.0], np.cumsum(neg[::-1])))
    with np.errstate(invalid="ignore"):
        tpr = true / (true[-1] if true[-1] > 0 else np.nan)
        fpr = false / (false[-1] if false[-1] > 0 else np.nan)
    return Roc(fpr, tpr, np.concatenate(([np.inf], scores[::-1])))


def state_array(where: str, arrays: Any, name: str, dtype: Any, shape: tuple[int | None, ...]) -> NDArray[Any]:
    """Return a copy of one array of a saved state, its type and shape checked (None: any length)."""
    array = arrays.get(name)
    fits = (
        isinstance(array, np.ndarray)
        and array.dtype == dtype
        and array.ndim == len(shape)
        and all(want is None or want == actual for want, actual in zip(shape, array.shape, strict=True))
    )
    if not fits:
        actual = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
        raise BadSnapshot(where, f"{np.dtype(dtype)} {shape}", actual, path=name)
    return np.array(array, order="C")


def state_number(where: str, meta: Any, name: str, low: int = 0) -> int:
    """Return one whole number >= `low` of a saved state."""
    value = meta.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        raise BadSnapshot(where, f"a whole number >= {low}", value, path=name)
    return value
