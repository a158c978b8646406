"""The public methods of one row, for learners and `Pipeline`: a compiled call, and what is done where it refuses.

A subclass gives `_encoder`, `_learn_row`, `_score_row` and `_new_entry`.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from river import base

from aucstream.block import NEGATIVE, POSITIVE, Block, Floats, Ints, sign_of, weight_of
from aucstream.errors import InvalidBlock, NonFiniteStep
from aucstream.exclusive import exclusive, lock_free
from aucstream.features.encoding.encoder import Encoder
from aucstream.kernels.auc.calibration import probability
from aucstream.kernels.jit import RowCall
from aucstream.learners._base.calibrated import CalibratedModel
from aucstream.metrics.probabilities import Blank, ScoredProbabilities
from aucstream.native.row_entry import NO_ENTRY, RowEntry, noting

TAME = 1e100  # a row with larger values, or a larger weight, may well be skipped

_PROBABILITY = RowCall(probability, float)


class RowClassifier(CalibratedModel, base.MiniBatchClassifier):
    """Binary classifier of dicts that ranks.

    Threads may share a model. Its public methods run one at a time, but for those of one row: these are one compiled
    call, which keeps the GIL and needs no lock, and go on under the lock where that call refuses the row.
    """

    _encoder: Encoder
    _generation: object = None  # another as soon as the calls of one row are out of date
    _entry: RowEntry = NO_ENTRY

    # -- what a subclass gives -------------------------------------------------------------------

    @abc.abstractmethod
    def _learn_row(self, idx: Ints | None, val: Floats, sign: float, weight: float) -> float:
        """Learn one named row; return its score before, NaN where it was skipped."""

    @abc.abstractmethod
    def _new_entry(self) -> RowEntry:
        """Return the compiled calls of one plain dict for the model as it stands, with its `_generation`."""

    @abc.abstractmethod
    def _score_row(self, idx: Ints | None, val: Floats) -> float:
        """Return the score of one named row."""

    def _read_rows(self, rows: Sequence[Any]) -> Sequence[Any]:
        """Return rows as the encoder is to read them: with what a model says of its columns. Twice is as once."""
        return rows

    def _read_row(self, x: Any) -> Any:
        """Return a row as the encoder is to read it."""
        return x

    def _read_array(self, X: Any) -> Any:
        """Return an array (n, d) as the encoder is to read it."""
        return X

    def _read_block(self, block: Block) -> Block:
        """Return a block of array columns as the encoder is to read it."""
        return block

    def _checkpoint(self) -> Any:
        """Return a copy of all that learning changes but the names, for `_restore`."""
        raise NotImplementedError

    def _restore(self, checkpoint: Any) -> None:
        """Restore what `_checkpoint` returned."""
        raise NotImplementedError

    def _forget_columns(self, columns: Ints) -> None:
        """Let columns (n,), ascending, be as if no row had had them: other names take them."""
        raise NotImplementedError

    def _is_outdated(self) -> bool:
        if self._entry.generation is not self._generation:
            return True
        whole = None if self._gate.whole is None else self._gate.whole()
        return whole is not None and whole is not self and whole._is_outdated()

    # -- one row ----------------------------------------------------------------------------------

    @lock_free
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
            entry = self._entry
            score = entry.learn(id(x), entry.address, sign, 1.0)
            if score == score:
                return
            # not plain, skipped, or out of date; nothing changed: the slow way says why
        self._learn_dict(x, sign, w)

    @exclusive
    def _learn_dict(self, x: Mapping[Any, Any], sign: float, weight: float, *, at_once: bool = True) -> float:
        """Learn one dict with its sign; return the score before the update.

        `at_once`: by one compiled call, where it can be; that call keeps the GIL.
        """
        weight = weight_of(weight)
        x = self._read_row(x)
        if weight == 0.0:
            if not isinstance(x, Mapping):
                raise InvalidBlock("features", "a dict of name to value", x)
            self._encoder.check(x)
            return self._score_dict(x)
        entry = self._row_entry() if at_once else NO_ENTRY
        score = entry.learn(-id(x), entry.address, sign, weight)
        if score == score:
            return score
        encoder = self._encoder
        if encoder.selects:
            return self._learn_selected(x, sign, weight)
        mark = encoder.mark()
        if entry.address and encoder.prepare(x, learn=True):  # else no call could read it
            score = self._row_entry().learn(-id(x), self._entry.address, sign, weight)
            encoder.expect_known()
            if score == score:
                return score
            encoder.rewind(mark)
        idx, val = encoder.learn(x)
        score = self._learn_row(idx, val, sign, weight)
        if score != score:
            encoder.rewind(mark)
            raise NonFiniteStep(type(self).__name__, [0], np.array([math.nan]))
        return score

    def _learn_selected(self, x: Mapping[Any, Any], sign: float, weight: float) -> float:
        """Learn one dict where names come and go; return the score before the update."""
        encoder = self._encoder
        mark = encoder.mark()
        idx, val = encoder.learn(x)
        columns = encoder.vacated()
        before = None
        if columns.size:
            if not (weight < TAME and np.abs(val).max() < TAME):
                before = self._checkpoint()
            self._forget_columns(columns)
        score = self._learn_row(idx, val, sign, weight)
        if score == score:
            encoder.commit()
            return score
        if columns.size and before is None:
            encoder.abandon()
        else:
            if before is not None:
                self._restore(before)
            encoder.rewind(mark)
        raise NonFiniteStep(type(self).__name__, [0], np.array([math.nan]))

    def _row_entry(self) -> RowEntry:
        """Return the compiled calls of this model as it stands; the caller holds the lock."""
        entry, gate = self._entry, self._gate
        if entry.generation is not self._generation or entry.version != gate.version:
            gate.version += 1  # what other threads may still have in their hands is out of date
            entry = self._new_entry()
            if self._encoder.selects and entry.address:
                entry = noting(entry, self._encoder.note_last)
            self._entry = entry
        return entry

    @lock_free
    def score_one(self, x: Mapping[Any, Any]) -> float:
        """Return the ranking score of an example. Changes nothing.

        Parameters
        ----------
        x : dict
            As in `learn_one`. Names never learned count nothing.

        Returns
        -------
        float
            Higher is more positive. Scores have no unit: only their order means anything.

        Raises
        ------
        InvalidBlock
            A feature cannot be used.
        """
        entry = self._entry
        score: float = entry.score(id(x), entry.address).real
        return score if score == score else self._score_dict(x)

    def _score_plain(self, x: Any) -> complex:
        """Return score and probability of a dict of finite numbers, whose names may be new; NaN for any other row.

        A new name has no weight, but the row is scaled and summed as when it is learned. The caller holds the lock.
        """
        entry, encoder, x = self._row_entry(), self._encoder, self._read_row(x)
        if type(x) is not dict or not encoder.expect_new():
            return entry.score(-id(x), entry.address)
        try:
            return entry.score(-id(x), entry.address)
        finally:
            encoder.expect_known()

    @exclusive
    def _score_dict(self, x: Mapping[Any, Any]) -> float:
        """Return the score of any dict."""
        x = self._read_row(x)
        score: float = self._score_plain(x).real
        if score == score:
            return score
        mark = self._encoder.mark()
        try:
            if self._row_entry().address and self._encoder.prepare(x, learn=False):
                score = self._row_entry().score(-id(x), self._entry.address).real
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

    @lock_free
    def predict_proba_one(self, x: Mapping[Any, Any]) -> dict[Any, float]:  # type: ignore[override]
        """Return the calibrated probabilities of an example. Changes nothing.

        Parameters
        ----------
        x : dict
            As in `score_one`.

        Returns
        -------
        dict
            `{False: 1 - p, True: p}`. Until both classes were learned p is the share of positives, with one more row
            of each class. The dict also has the ranking score as `.score`, by which `aucstream.metrics` rank.

        Raises
        ------
        InvalidBlock
            A feature cannot be used.
        """
        entry = self._entry
        both = entry.score(id(x), entry.address)
        score, p = both.real, both.imag
        if score != score:
            score, p = self._judge_dict(x)
        answer: ScoredProbabilities = Blank()
        answer[False] = 1.0 - p
        answer[True] = p
        answer.score = score
        return answer

    @exclusive
    def _judge_dict(self, x: Mapping[Any, Any]) -> tuple[float, float]:
        """Return (score, probability) of any dict."""
        both = self._score_plain(x)
        if both == both:
            return both.real, both.imag
        score = self._score_dict(x)
        return score, self._probability(score)

    @lock_free
    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> bool:
        """Return whether an example is more likely positive than not.

        Parameters
        ----------
        x : dict
            As in `score_one`.
        **kwargs : ignored
            River passes them.

        Returns
        -------
        bool
            Whether the probability of the positive class is above one half.

        Raises
        ------
        InvalidBlock
            A feature cannot be used.
        """
        return self.predict_proba_one(x)[True] > 0.5

    def explain_one(self, x: Mapping[Any, Any]) -> dict[Any, float]:
        """Return what each feature of an example adds to its score.

        Parameters
        ----------
        x : dict
            As in `score_one`.

        Returns
        -------
        dict
            Name to contribution (weight times value). The contributions add up to the score. A learner with an
            intercept gives it the name "(intercept)".

        Raises
        ------
        InvalidBlock
            A feature cannot be used.
        InvalidParams
            The model has a feature map, so that a score is no sum over names.
        """
        raise NotImplementedError

    def _probability(self, score: float) -> float:
        p: float = _PROBABILITY.dense(self._ledger, score)
        return p if score == score else 0.5  # a score that overflowed says nothing
