"""What every step does with a row that arrives: length and scale before it, counts and calibration after it."""

from __future__ import annotations

from aucstream.kernels.auc.calibration import calibrate
from aucstream.kernels.jit import jit
from aucstream.kernels.rows.linear import norm
from aucstream.kernels.rows.row_scale import count_label, next_scale, restart_ratio, store_scale

LARGEST = 1e290  # a change of a state entry beyond this is refused before it is written
LONGEST_ROW = 1e140  # a longer row is refused: squares of its norm, and of a difference of two rows, stay finite
RECOUNT = 65_536  # steps between two recounts of tracked sums: rounding drift, not approximation


@jit
def admit_row(ledger, x, kappa):
    """Return (length, factor, unit, ratio, mean square, rows) of a row; writes nothing.

    length : norm of x.
    factor : what x is multiplied by for learning.
    unit : kappa_t, in which steps are measured; 1 where `kappa` is given.
    ratio : what rows kept from before are multiplied by, 1 but at a restart of the scale.
    mean square, rows : for `count_row`.
    """
    length = norm(x)
    scale, factor, mean, rows = next_scale(ledger, length, kappa)
    unit = scale if kappa == 0.0 and scale > 0.0 else 1.0
    return length, factor, unit, restart_ratio(ledger, scale, rows, kappa), mean, rows


@jit
def count_example(ledger, score, y, weight):
    """Count a row and calibrate on its score before the step; writes ledger."""
    calibrate(ledger, score, y, weight)
    count_label(ledger, y)


@jit
def count_row(ledger, score, y, weight, mean, rows):
    """Count a row that `admit_row` measured, and store its scale; writes ledger."""
    count_example(ledger, score, y, weight)
    store_scale(ledger, mean, rows)
