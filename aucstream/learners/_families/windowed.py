"""What learners on a window of recent rows share: its arrays, and fitting a fixed set as one large window."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from aucstream.block import Floats, Ints
from aucstream.kernels.pairs import buffers
from aucstream.kernels.pairs.window import take_last
from aucstream.kernels.rows.arrival import LONGEST_ROW
from aucstream.kernels.rows.row_scale import scale_rows
from aucstream.learners._base.learner import Learner
from aucstream.learners._families.fixed_set import columns_of, final_scores, start_anew


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

        Returns
        -------
        self

        Raises
        ------
        NonFiniteStep
            The weights would not have stayed finite; the model is as right after construction.
        """
        block = start_anew(self, X, y, epochs)
        indptr, idx, val = block.indptr, columns_of(block), block.values
        factors, scaled = np.empty(len(block)), np.zeros(val.size)
        unit = scale_rows(indptr, val, block.y, factors, scaled, self._ledger, LONGEST_ROW, self.kappa or 0.0)
        rows = np.flatnonzero(factors >= 0.0)
        slots = np.zeros((rows.size + 1, 3), dtype=np.int64)
        slots[:-1, buffers.START] = indptr[rows]
        slots[:-1, buffers.LENGTH] = indptr[rows + 1] - indptr[rows]
        labels = block.y[rows]
        finite = True
        if len(set(labels.tolist())) == 2:
            finite = self._fit_fixed(labels, slots, idx, scaled, unit, int(epochs))
        scores = final_scores(self, block, finite)
        self._reserve(val.size, int(np.diff(indptr).max(initial=0)))
        window = (self._field(part) for part in ("scalars", "slots", "pool_idx", "pool_val", "labels"))
        take_last(*window, slots, idx, scaled, labels)
        self._field("weights")[: labels.size] = 1.0
        self._settle()
        self._calibrate_on(scores, block.y)
        return self
