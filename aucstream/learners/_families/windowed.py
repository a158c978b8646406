"""What learners on a window of recent rows share: its arrays, and fitting a fixed set as one large window."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from aucstream.block import Floats, Ints, signs_of
from aucstream.errors import InvalidParams, NonFiniteStep
from aucstream.features.encoding.vocabulary import Vocabulary
from aucstream.features.intake import array_block
from aucstream.kernels.pairs import buffers
from aucstream.kernels.pairs.window import take_last
from aucstream.kernels.rows.row_scale import scale_rows
from aucstream.learners._base.learner import Learner

LONGEST_ROW = 1e140  # a longer row is refused: its square must stay finite


class Windowed(Learner):
    """Base of the learners on a window."""

    n_buffer: int
    kappa: float | None

    _random: ClassVar[bool] = True

    def _slots(self) -> int:
        return self.n_buffer

    def _sizes(self) -> dict[str, int]:
        return {"n_buffer": self.n_buffer}

    def _fit_fixed(self, labels: Floats, slots: Ints, idx: Ints, val: Floats, unit: float, epochs: int) -> bool:
        """Run the paper's finite-sum form on both classes of rows; return whether all stayed finite."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any, epochs: int = 1) -> Self:
        """Start anew and run the paper's algorithm over the fixed set (X, y); calibrate at the end.

        Learning may go on from there: the window then holds the last rows, and the fitted weights count in
        the average as the weights of n arrivals.

        Parameters
        ----------
        X : ndarray or scipy sparse (n, d)
        y : array (n,)
        epochs : int
            >= 1. Passes.

        Raises
        ------
        NonFiniteStep
            The weights would not have stayed finite; the model is as right after construction.
        """
        name = type(self).__name__
        if not isinstance(epochs, (int, np.integer)) or epochs < 1:
            raise InvalidParams("fit.epochs", "an integer >= 1", epochs)
        n = len(array_block(Vocabulary(), X, learn=True))
        signs = signs_of(y, n)
        self._reset()
        block = array_block(self._encoder, X, signs, np.ones(n), learn=True)
        self._ensure(block.width)
        indptr, idx, val = block.indptr, block.indices, block.values
        if idx is None:
            idx = np.tile(np.arange(block.width, dtype=np.int64), n)
        factors, scaled = np.empty(n), np.zeros(val.size)
        unit = scale_rows(indptr, val, signs, factors, scaled, self._ledger, LONGEST_ROW, self.kappa or 0.0)
        kept = np.flatnonzero(factors >= 0.0)
        slots = np.zeros((kept.size + 1, 3), dtype=np.int64)
        slots[:-1, buffers.START] = indptr[kept]
        slots[:-1, buffers.LENGTH] = indptr[kept + 1] - indptr[kept]
        labels = signs[kept]
        finite = True
        if len(set(labels.tolist())) == 2:
            finite = self._fit_fixed(labels, slots, idx, scaled, unit, int(epochs))
        scores = self._score(block)
        if not (finite and np.isfinite(scores).all()):
            self._reset()
            bad = np.flatnonzero(~np.isfinite(scores)).tolist()
            raise NonFiniteStep(f"{name}.fit", bad or range(n), scores)  # without one: rows drawn in between
        self._reserve(val.size, int(np.diff(indptr).max(initial=0)))
        window = (self._field(part) for part in ("scalars", "slots", "pool_idx", "pool_val", "labels"))
        take_last(*window, slots, idx, scaled, labels)
        self._field("weights")[: labels.size] = 1.0
        self._settle()
        self._calibrate_on(scores, signs)
        return self
