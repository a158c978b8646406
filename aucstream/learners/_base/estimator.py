"""The public surface that learners and `Pipeline` share, written once; no mathematics.

A subclass gives `_encoder`, `_ledger`, `_learn(block)`, `_score(block)`, `_learn_row`, `_score_row`;
everything a user calls is made of these.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from river import base

from aucstream import snapshot
from aucstream.block import NEGATIVE, POSITIVE, Block, Floats, Ints, sign_of, signs_of, weights_of
from aucstream.constraints import check_epochs
from aucstream.errors import InvalidBlock, InvalidParams, NonFiniteStep
from aucstream.features.columns import Columns
from aucstream.features.encoding.encoder import Encoder
from aucstream.features.encoding.hashing import Hashing
from aucstream.features.encoding.vocabulary import Vocabulary
from aucstream.features.intake import (
    adopted,
    array_block,
    check_dicts,
    checked_array,
    dict_block,
    frame_rows,
    is_sparse,
    named_block,
)
from aucstream.kernels.auc.calibration import probabilities, probability
from aucstream.kernels.jit import RowCall
from aucstream.kernels.ledger import (
    CAL_INTERCEPT,
    CAL_ON,
    CAL_RMS2,
    CAL_SLOPE,
    POSITIVES,
    ROWS,
)
from aucstream.metrics.probabilities import Blank, ScoredProbabilities
from aucstream.native.row_entry import NO_ROW, OneRow

if TYPE_CHECKING:
    from os import PathLike

    import pandas as pd

    from aucstream.io.rows import Rows

MANY = 16  # fewer rows are learned and scored one by one: making a block of them costs more
TAME = 1e100  # rows with larger values go one by one, so that a skipped row leaves no name behind

_PROBABILITY = RowCall(probability)


class RankingClassifier(base.MiniBatchClassifier):
    """Binary classifier that ranks: a River estimator and an array estimator at once."""

    _encoder: Encoder
    _ledger: Floats
    _stamp: object = None  # another as soon as the calls of one row are out of date
    _one: OneRow = NO_ROW

    # -- what a subclass gives -------------------------------------------------------------------

    @abc.abstractmethod
    def _learn(self, block: Block) -> Floats:
        """Learn a block row by row; return the score before each update, NaN where a row was skipped."""

    @abc.abstractmethod
    def _score(self, block: Block) -> Floats:
        """Return the scores (n,) of a block."""

    @abc.abstractmethod
    def _learn_row(self, idx: Ints | None, val: Floats, sign: float, weight: float) -> float:
        """Learn one named row; return its score before, NaN where it was skipped."""

    @abc.abstractmethod
    def _calls(self) -> OneRow:
        """Return the compiled calls of one plain dict for the model as it stands, with its `_stamp`."""

    @abc.abstractmethod
    def _score_row(self, idx: Ints | None, val: Floats) -> float:
        """Return the score of one named row."""

    @abc.abstractmethod
    def state_dict(self) -> tuple[snapshot.Arrays, dict[str, Any]]:
        """Return (arrays, meta) from which the model can be made again."""

    @classmethod
    @abc.abstractmethod
    def from_state_dict(cls, arrays: snapshot.Arrays, meta: dict[str, Any]) -> Self:
        """Return the model that `state_dict` described."""

    @abc.abstractmethod
    def keep(self) -> Any:
        """Return a copy of all that learning changes but the names, for `put_back`."""

    @abc.abstractmethod
    def put_back(self, kept: Any) -> None:
        """Restore what `keep` returned."""

    @property
    @abc.abstractmethod
    def weights(self) -> dict[Any, float]:
        """Name to weight of the output score."""

    @abc.abstractmethod
    def _reset(self) -> None:
        """Go back to the state right after construction."""

    # -- one row ---------------------------------------------------------------------------------

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn one labelled example.

        Parameters
        ----------
        x : dict
            Name to number, bool, string (one-hot as `name=value`), list of strings, or None (absent).
        y : bool
            Label: False, 0, -1 or True, 1.
        w : float
            Weight, finite, >= 0. 0 changes nothing at all.

        Raises
        ------
        InvalidBlock, InvalidLabel
            A feature, the weight or the label cannot be used; nothing was changed.
        NonFiniteStep
            The step would have made a state non-finite; the row was skipped whole.
        """
        sign = POSITIVE if y is True else NEGATIVE if y is False else sign_of(y)
        if w == 1.0:
            one = self._one
            if one.stamp is not self._stamp:
                one = self._one = self._calls()
            score = one.learn(id(x), one.address, sign, 1.0)
            if score == score:
                return
            # not plain, or skipped; nothing changed: the slow way says why
        self._learn_dict(x, sign, w)

    def _learn_dict(self, x: Mapping[Any, Any], sign: float, weight: float) -> float:
        """Learn one dict with its sign; return the score before the update."""
        if weight != 1.0:
            weight = float(weights_of([weight], 1)[0])
            if weight == 0.0:
                if not isinstance(x, Mapping):
                    raise InvalidBlock("features", "a dict of name to value", x)
                self._encoder.check(x)
                return self.score_one(x)
        one = self._compiled()
        score = one.learn(id(x), one.address, sign, weight)
        if score == score:
            return score
        encoder = self._encoder
        mark = encoder.mark()
        if encoder.prepare(x):
            score = self._compiled().learn(id(x), self._one.address, sign, weight)
            if score == score:
                return score
        idx, val = encoder.learn(x)
        score = self._learn_row(idx, val, sign, weight)
        if score != score:
            encoder.rewind(mark)
            raise NonFiniteStep(type(self).__name__, [0], np.array([math.nan]))
        return score

    def _compiled(self) -> OneRow:
        """Return the compiled calls of this model as it stands."""
        one = self._one
        if one.stamp is not self._stamp:
            one = self._one = self._calls()
        return one

    def score_one(self, x: Mapping[Any, Any]) -> float:
        """Return the ranking score of `x`: higher is more positive. Changes nothing."""
        one = self._one
        if one.stamp is not self._stamp:
            one = self._one = self._calls()
        score: float = one.score(id(x), one.address).real
        return score if score == score else self._score_dict(x)

    def _score_dict(self, x: Mapping[Any, Any]) -> float:
        """Return the score of any dict."""
        mark = self._encoder.mark()
        try:
            if self._encoder.prepare(x):
                score: float = self._compiled().score(id(x), self._one.address).real
                if score == score:
                    return score
        finally:
            self._encoder.rewind(mark)
        idx, val = self._encoder.look_up(x)
        if not self._encoder.missed:
            return self._score_row(idx, val)
        # A new name has no weight, but the row is scaled and summed as when it is learned.
        with self._encoder.previewed(x) as row:
            return self._score_row(*row)

    def _score_dicts(self, rows: Sequence[Mapping[Any, Any]]) -> Floats:
        """Return the score of each dict, as `score_one`."""
        missed: list[int] = []
        scores = self._score(dict_block(self._encoder, rows, learn=False, missed=missed))
        for number in missed:
            scores[number] = self.score_one(rows[number])
        return scores

    def predict_proba_one(self, x: Mapping[Any, Any]) -> dict[Any, float]:  # type: ignore[override]
        """Return `{False: 1 - p, True: p}`, calibrated; one half each until both classes were seen.

        The dict also carries the ranking score as `.score`, by which `aucstream.metrics` rank.
        """
        one = self._one
        if one.stamp is not self._stamp:
            one = self._one = self._calls()
        both = one.score(id(x), one.address)
        score, p = both.real, both.imag
        if score != score:
            score = self._score_dict(x)
            p = self._probability(score)
        found: ScoredProbabilities = Blank()
        found[False] = 1.0 - p
        found[True] = p
        found.score = score
        return found

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> bool:
        """Return whether `x` is more likely positive than not."""
        return self.predict_proba_one(x)[True] > 0.5

    def explain_one(self, x: Mapping[Any, Any]) -> dict[Any, float]:
        """Return name to contribution; the contributions add up to the score."""
        raise NotImplementedError

    def explain_row(self, row: Mapping[Any, Any] | Sequence[float]) -> dict[Any, float]:
        """Return the contributions to the score of a row as `score_rows` takes it: a dict, or a list."""
        if not isinstance(row, Mapping):
            row = {column: value for column, value in enumerate(row) if self._encoder.knows(column)}
        return self.explain_one(row)

    def _probability(self, score: float) -> float:
        p: float = _PROBABILITY.dense(self._ledger, score)
        return p if score == score else 0.5  # a score that overflowed says nothing

    # -- frames ----------------------------------------------------------------------------------

    def learn_many(self, X: pd.DataFrame, y: Any, w: Any = None) -> None:
        """Learn the rows of a data frame in order; the same as the loop of `learn_one`, to the last bit.

        Parameters
        ----------
        X : DataFrame (n, d)
            NaN, NaT and NA are missing.
        y : Series or array (n,)
            Labels.
        w : array (n,), float or None
            Weights.

        Raises
        ------
        NonFiniteStep
            Once, at the end, with the numbers of the rows that were skipped.
        """
        rows = frame_rows(X)
        check_dicts(self._encoder, rows)
        self._raise_skipped(self._learn_dicts(rows, signs_of(y, len(rows)), weights_of(w, len(rows))))

    def score_many(self, X: pd.DataFrame) -> pd.Series:
        """Return the score of each row of a frame, with its index."""
        import pandas as pd

        rows = frame_rows(X)
        return pd.Series(self._score_dicts(rows), index=X.index, name="score")

    def predict_proba_many(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return columns False and True with the probabilities of each row, with its index."""
        import pandas as pd

        p = self.probabilities(self.score_many(X).to_numpy())
        return pd.DataFrame({False: 1.0 - p, True: p}, index=X.index)

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """Return whether each row is more likely positive than not, with its index."""
        import pandas as pd

        p = self.probabilities(self.score_many(X).to_numpy())
        return pd.Series(p > 0.5, index=X.index, dtype=bool)

    def _learn_dicts(self, rows: Sequence[Mapping[Any, Any]], signs: Floats, weights: Floats) -> Floats:
        """Learn dicts that `check_dicts` has passed; return the score before each update, NaN where skipped.

        Weight 0 only scores.
        """
        if len(rows) >= MANY and (weights > 0.0).all():
            mark = self._encoder.mark()
            block = dict_block(self._encoder, rows, signs, weights, learn=True)
            if _tame(block.values):
                kept = self.keep() if self._encoder.mark() != mark else None
                scores = self._learn(block)
                if kept is None or not np.isnan(scores).any():
                    return scores
                self.put_back(kept)
            self._encoder.rewind(mark)
        each = zip(rows, signs.tolist(), weights.tolist(), strict=True)
        return np.array([self.learn_row(x, sign, weight) for x, sign, weight in each])

    # -- arrays ----------------------------------------------------------------------------------

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the rows of an array in order: the fast path.

        Parameters
        ----------
        X : ndarray (n, d) or scipy sparse (n, d)
            Finite numbers. More columns than before widen the model.
        y : array (n,)
            Labels.
        sample_weight : array (n,) or None
            Weights, finite, >= 0.

        Returns
        -------
        self

        Raises
        ------
        InvalidBlock, InvalidLabel
            Nothing was changed.
        NonFiniteStep
            At the end, with the numbers of the rows that were skipped.
        """
        self._raise_skipped(self.learn_array(X, y, sample_weight))
        return self

    def learn_array(self, X: Any, y: Any, sample_weight: Any = None) -> Floats:
        """Learn as `partial_fit` does; return the score before each update (n,), NaN where skipped."""
        n = _rows_of(X)
        signs = signs_of(y, n)
        weights = weights_of(sample_weight, n)
        if sample_weight is None or not (light := weights == 0.0).any():
            return self._learn_array(X, signs, weights)
        # A row of weight 0 is scored with the state before it and leaves no trace.
        array_block(type(self._encoder)(), X, learn=True)  # checks every row first
        kind = X.tocsr() if is_sparse(X) else np.asarray(X)
        scores = np.empty(n)
        edges = np.flatnonzero(np.diff(light)) + 1
        for a, b in zip([0, *edges], [*edges, n], strict=True):
            if light[a]:
                scores[a:b] = self._score_wide(kind[a:b])
            else:
                scores[a:b] = self._learn(array_block(self._encoder, kind[a:b], signs[a:b], weights[a:b], learn=True))
        return scores

    def _learn_array(self, X: Any, signs: Floats, weights: Floats) -> Floats:
        """Learn an array whose labels and weights are checked; nothing is changed where a row cannot be used."""
        return self._learn(array_block(self._encoder, X, signs, weights, learn=True))

    def _score_wide(self, X: Any) -> Floats:
        """Score rows that may have columns the model has not seen: they count nothing."""
        return self._score(adopted(self._encoder, checked_array(X), learn=False))

    def decision_function(self, X: Any) -> Floats:
        """Return the ranking scores (n,) of an array (n, d); more columns than learned are refused."""
        return self._score(array_block(self._encoder, X, learn=False))

    def _raise_skipped(self, scores: Floats) -> None:
        skipped = np.flatnonzero(np.isnan(scores))
        if skipped.size:
            raise NonFiniteStep(type(self).__name__, skipped.tolist(), scores)

    def fit(self, X: Any, y: Any, epochs: int = 1) -> Self:
        """Start anew and make `epochs` shuffled passes over (X, y); calibrate on the final scores.

        Parameters
        ----------
        X : ndarray or scipy sparse (n, d)
        y : array (n,)
        epochs : int
            >= 1.
        """
        check_epochs(epochs)
        n = _rows_of(X)
        signs = signs_of(y, n)
        array_block(Vocabulary(), X, learn=True)
        self._reset()
        rows = X.tocsr() if is_sparse(X) else np.asarray(X)
        self._look_at(rows)
        order = np.random.default_rng(getattr(self, "_seed", 0))
        for _ in range(epochs):
            shuffled = order.permutation(n)
            self.learn_array(rows[shuffled], signs[shuffled])
        self._calibrate_on(self.decision_function(rows), signs)
        return self

    def _look_at(self, X: Any) -> None:
        """See all rows of `fit` before the first pass: what is fitted on many rows at once is fitted here."""

    def end_warmup(self) -> None:
        """Wait for no more rows: what is fitted on the first ones of a stream is fitted on those there are."""

    def _calibrate_on(self, scores: Floats, signs: Floats) -> None:
        from aucstream.metrics.platt import refit

        refit(self._ledger, scores, signs)

    # -- rows and chunks as files and services bring them -------------------------------------------

    def learn_rows(self, rows: Sequence[Any], signs: Floats, weights: Floats | None = None) -> Floats:
        """Learn rows that `check_rows` has passed; return the score before each update.

        Rows that are `Columns` are learned without making dicts of them. NaN marks a row that was skipped because
        its step was not finite. Rows of weight 0 are only scored.
        """
        if weights is None:
            weights = np.ones(len(rows))
        if isinstance(rows, Columns) or all(type(x) is dict for x in rows):
            return self._learn_dicts(rows, signs, weights)
        scores = np.empty(len(rows))
        for a, b in _runs([isinstance(x, Mapping) for x in rows]):
            if isinstance(rows[a], Mapping):
                scores[a:b] = self._learn_dicts(rows[a:b], signs[a:b], weights[a:b])
            else:
                for c, d in _runs([len(x) for x in rows[a:b]]):
                    part = slice(a + c, a + d)
                    scores[part] = self.learn_array(np.array(rows[part], dtype=np.float64), signs[part], weights[part])
        return scores

    def block_of(self, rows: Sequence[Any], signs: Floats | None = None, weights: Floats | None = None) -> Block | None:
        """Return named rows as a block for `learn_block`, or for `score_block` where there are no signs.

        None where `learn_rows` or `score_rows` alone take them: they need names that are known already, plain
        values without giants, and weights above 0. `check_rows` passes rows that become a block. It stays good while
        the model learns, and may be learned in parts.
        """
        encoder = self._encoder
        if weights is not None and not (weights > 0.0).all():
            return None
        if isinstance(rows, Columns):
            plain = encoder.take(rows, learn=True) if encoder.has_columns(rows.names) else None
        else:
            plain = encoder.plain(rows)
        if plain is None or not _tame(plain[2]):
            return None
        if weights is None and signs is not None:
            weights = np.ones(len(rows))
        return named_block(encoder, plain, signs, weights)

    def learn_block(self, block: Block) -> Floats:
        """Learn rows made by `block_of`; return as `learn_rows`."""
        return self._learn(block)

    def score_block(self, block: Block) -> Floats:
        """Return the scores of rows made by `block_of`."""
        return self._score(block)

    def learn_row(self, x: Any, sign: float, weight: float = 1.0) -> float:
        """Learn one row that `check_rows` has passed; return as `learn_rows` what its row would be."""
        if not isinstance(x, Mapping):
            return self.learn_rows([x], np.array([sign]), np.array([weight])).item()
        try:
            return self._learn_dict(x, sign, weight)
        except NonFiniteStep:
            return math.nan

    def score_rows(self, rows: Sequence[Any]) -> Floats:
        """Return the scores of rows that `check_rows` has passed; unknown names and columns count nothing."""
        if isinstance(rows, Columns) and len(rows) >= MANY:
            return self._score_dicts(rows)
        scores = np.empty(len(rows))
        for a, b in _runs([isinstance(x, Mapping) for x in rows]):
            if isinstance(rows[a], Mapping):
                if b - a < MANY:
                    scores[a:b] = [self.score_one(x) for x in rows[a:b]]
                else:
                    scores[a:b] = self._score_dicts(rows[a:b])
            else:
                for c, d in _runs([len(x) for x in rows[a:b]]):
                    part = slice(a + c, a + d)
                    scores[part] = self._score_wide(np.array(rows[part], dtype=np.float64))
        return scores

    def learn_chunk(self, chunk: Block | Rows) -> Floats:
        """Learn a chunk of a file (see `aucstream.io`); return the score before each update, NaN where skipped."""
        if isinstance(chunk, Block):
            return self._learn(adopted(self._encoder, chunk, learn=True))
        rows = chunk.features
        if isinstance(rows, Columns):  # finite, and all with the names of the first
            check_dicts(self._encoder, [rows[0]] if len(rows) else [])
        else:
            check_dicts(self._encoder, [x for x in rows if isinstance(x, Mapping)])
        return self.learn_rows(chunk.features, chunk.y, chunk.weights)

    def score_chunk(self, chunk: Block | Rows) -> Floats:
        """Return the scores of a chunk of a file; names and columns never learned count nothing."""
        if isinstance(chunk, Block):
            return self._score(adopted(self._encoder, chunk, learn=False))
        return self.score_rows(chunk.features)

    # -- reading ---------------------------------------------------------------------------------

    def probabilities(self, scores: Floats) -> Floats:
        """Return the calibrated probability (n,) of each score (n,)."""
        out = np.empty(len(scores))
        probabilities(self._ledger, np.ascontiguousarray(scores, dtype=np.float64), out)
        return out

    @property
    def examples(self) -> int:
        """Rows learned."""
        return int(self._ledger[ROWS])

    @property
    def positives(self) -> int:
        """Positive rows learned."""
        return int(self._ledger[POSITIVES])

    @property
    def calibration_line(self) -> tuple[float, float] | None:
        """(slope, intercept) of the log odds on the score; None until both classes were seen."""
        ledger = self._ledger
        if ledger[CAL_ON] == 0.0:
            return None
        return ledger.item(CAL_SLOPE) / math.sqrt(ledger.item(CAL_RMS2)), ledger.item(CAL_INTERCEPT)

    def _names(self) -> list[Any]:
        if isinstance(self._encoder, Hashing):
            raise InvalidParams("weights", "an encoder that keeps names", "hashing")
        if not isinstance(self._encoder, Vocabulary):
            raise InvalidParams("weights", "an encoder that keeps names", type(self._encoder).__name__)
        return self._encoder.names

    # -- snapshots -------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Return the whole model as one safetensors file, versioned; `aucstream.from_bytes` reads it."""
        return snapshot.pack(*self.state_dict())

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to a file that `aucstream.load` reads; an existing file is replaced at once."""
        snapshot.write(path, self.to_bytes())


def _tame(values: Floats) -> bool:
    return not values.size or bool(max(values.max(), -values.min()) < TAME)


def _rows_of(X: Any) -> int:
    shape = getattr(X, "shape", None)
    if shape is None:
        try:
            shape = np.shape(X)
        except ValueError as error:
            raise InvalidBlock("features", "a two-dimensional array (n, d)", "rows of unequal length") from error
    if len(shape) != 2:
        raise InvalidBlock("features", "a two-dimensional array (n, d)", tuple(shape))
    return int(shape[0])


def _runs(keys: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) of each run of equal keys."""
    start = 0
    for i in range(1, len(keys) + 1):
        if i == len(keys) or keys[i] != keys[start]:
            if i > start:
                yield start, i
            start = i
