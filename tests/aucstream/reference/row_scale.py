"""The scale of a stream: kappa, the norm that rows have, and the shortening of outlier rows.

[LZCWY18] section 3.1 calls kappa = sup |x|_2; defaults of all learners are stated for kappa = 1.
"""

from __future__ import annotations

import math

import numpy as np

RESTART_RATIO = 1000.0
NORM_FLOOR, NORM_LIMIT = 1e-150, 1e150


def row_norm(x: np.ndarray) -> float:
    """Return |x|_2 without overflow or underflow in between."""
    largest = float(np.max(np.abs(x), initial=0.0))
    if largest == 0.0:
        return 0.0
    y = x / largest
    return largest * math.sqrt(float(y @ y))


class RowScale:
    """kappa_t of a stream (ours); a number gives the papers' literal form.

    With ``kappa=None``, kappa_t is the running root mean square of |x|_2 over the non-zero rows seen, the
    current one included. From the second non-zero row on, the norm that enters the mean is
    min(|x|, 2 kappa_{t-1}). For learning a row is replaced by x min(1, 2 kappa_t/|x|), and the learner
    behaves as it would with kappa = 1 on x/kappa_t while its weights stay in raw units:

    ==========================  ====================================
    scaled by kappa_t           in raw units
    ==========================  ====================================
    step eta of w               eta / unit^2
    radius R of w               R / unit
    penalty beta/2 |w|^2        beta unit^2
    penalty beta1 |w|_1         beta1 unit
    |a|, |b| <= R kappa         R bound
    |alpha| <= 2 R kappa        2 R bound
    ==========================  ====================================

    where (unit, bound) is (kappa_t, 1), and (1, kappa) when kappa is a number.

    While one non-zero row alone is counted, a next one whose norm is more than 1000 times smaller or larger
    restarts the mean at its own, so that a first row of huge norm cannot freeze learning, and a first or second
    one of tiny norm cannot make the unit tiny. The row before it would still sit in buffers and class sums,
    a thousand times too long or too short for the new unit. So
    `restart` is then kappa_t/kappa_{t-1} (else 1), and a learner multiplies by it all it keeps in units of
    rows: the earlier rows count as they did, as x/kappa. Weights are left alone.

    Rows of zeros carry no scale: they are neither counted nor averaged. Before the first non-zero row the
    unit is 1 (any would do: w = 0 and x = 0). Sample weights do not enter.

    State (`restart` is not part of it): `count` non-zero rows since the (re)start, `rms` the root mean square itself. It is kept instead
    of the mean square, rms_t = rms_{t-1} sqrt(1 + ((e/rms_{t-1})^2 - 1)/count) with e the norm that enters,
    so that a constant norm stays as it is to the last bit. Any norm that enters is moved into
    [1e-150, 1e150], where its square is a normal number.
    """

    def __init__(self, kappa: float | None = None) -> None:
        self.kappa = kappa
        self.count = 0
        self.rms = 0.0
        self.restart = 1.0

    @property
    def unit(self) -> float:
        """What a row is divided by: kappa_t, or 1 in the literal form and before any non-zero row."""
        return self.rms if self.kappa is None and self.count > 0 else 1.0

    @property
    def bound(self) -> float:
        """The kappa of the bounds on a, b, alpha: 1, or the number given."""
        return 1.0 if self.kappa is None else self.kappa

    @property
    def mean_square(self) -> float:
        """The running mean of the squared (cut) norms, kappa_t^2."""
        return self.rms * self.rms

    def see(self, x: np.ndarray) -> tuple[float, float]:
        """Take one row into the scale; return (unit, factor): learn with factor * x."""
        self.restart = 1.0
        if self.kappa is not None:
            return 1.0, 1.0
        norm = row_norm(x)
        if norm == 0.0:
            return self.unit, 1.0
        other = norm * RESTART_RATIO < self.rms or norm > self.rms * RESTART_RATIO
        if self.count == 0 or (self.count == 1 and other):
            entering = min(max(norm, NORM_FLOOR), NORM_LIMIT)
            if self.count > 0:
                self.restart = entering / self.rms
            self.count, self.rms = 1, entering
            return self.rms, min(1.0, 2.0 * self.rms / norm)
        entering = min(max(norm, NORM_FLOOR), 2.0 * self.rms, NORM_LIMIT)
        self.count += 1
        ratio = entering / self.rms
        self.rms *= math.sqrt(1.0 + (ratio * ratio - 1.0) / self.count)
        return self.rms, min(1.0, 2.0 * self.rms / norm)
