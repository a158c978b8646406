"""MBA's moments of all pairs: what their forms share, the layout, forgetting and the schedule of solves."""

from __future__ import annotations

import numpy as np

from aucstream.kernels.jit import jit
from aucstream.kernels.rows.finite import all_finite

# layout of State.scalars; two entries mean negatives, positives. N: weight of the rows in the sums, where a
# row of weight c counts GAIN c: the gain grows by 1/rho at each decay, so that forgetting touches no sum.
N, GAIN, TOUCHED, CENTRED, EVENTS, LAST, USED, PAIRS, SKETCHED, SEEN = 0, 2, 4, 6, 8, 9, 10, 11, 12, 14
SIZE = 16
CLASS, GLOBAL = 0, 1
AUTO = -1.0  # lam2
SHARE = 0.3  # lam2 = SHARE tr(Sigma)/n_eff: regret 0.10 AUC point against the best of a grid over seven sets

SOONEST = 16.0  # rows between two cheap solves
WIDEST = 4096  # columns whose products are all kept: 128 MiB
CAPACITY = 1000  # buffered rows a class, for sampled pairs
# A row beyond these is refused: sums stay below 4 HEAVIEST LONGEST_ROW^2.
LONGEST_ROW = 1e120
HEAVIEST = 1e40
LARGEST_GAIN = 1e20  # the sums take it in: O(state) once in 66 half-lives


@jit
def admitted(scalars, c, length, weight, rho, clock):
    """Return (whether a row of class c may be taken, gain with it, factor that the sums take in before)."""
    faded = 1.0
    if rho < 1.0:
        faded = rho ** (scalars[EVENTS] + 1.0 - scalars[TOUCHED + c]) if clock == GLOBAL else rho
    gain, factor = scalars[GAIN + c], 1.0
    if gain <= LARGEST_GAIN * faded:
        gain /= faded
    else:
        gain, factor = 1.0, faded / gain
    fits = length < LONGEST_ROW and weight * gain + scalars[N + c] * factor < HEAVIEST
    return fits, gain, factor


@jit
def count_event(scalars, c, gain, factor):
    """Count a row of class c; writes scalars."""
    scalars[EVENTS] += 1.0
    scalars[TOUCHED + c] = scalars[EVENTS]
    scalars[GAIN + c] = gain
    scalars[N + c] *= factor


@jit
def mark_used(idx, x, used, scalars):
    """Note the columns that hold a value that is not 0; writes used, scalars."""
    for k in range(x.size):
        j = k if idx is None else idx[k]
        if x[k] != 0.0 and used[j] == 0.0:
            used[j] = 1.0
            scalars[USED] += 1.0


@jit
def due(scalars, cheap):
    """Return whether the schedule asks for a solve at this event, and both classes were seen.

    A solve that costs as much as one row of every column is `cheap`: it never waits for more than 16 rows, or a
    sixteenth of those before it.
    """
    events, last = scalars[EVENTS], scalars[LAST]
    if scalars[N] <= 0.0 or scalars[N + 1] <= 0.0:
        return False
    if events < 64.0 and np.int64(events) & (np.int64(events) - 1) == 0:
        return True
    wait = scalars[USED] / 4.0
    if cheap:
        wait = min(wait, max(SOONEST, last / 16.0))
    return events - last >= max(wait, last / 100.0)


@jit
def weight_now(scalars, c, rho, clock):
    """Return the weight of the rows of class c, decayed to this event."""
    n = scalars[N + c] / scalars[GAIN + c]
    if clock == GLOBAL and rho < 1.0:
        n *= rho ** (scalars[EVENTS] - scalars[TOUCHED + c])
    return max(n, 1e-300)


@jit
def penalty(scalars, trace, lam2, rho, clock):
    """Return lam2, or 0.3 tr(Sigma)/n_eff in its place; n_eff is not more than the pairs that were sampled."""
    if lam2 != AUTO:
        return lam2
    inverse = 1.0 / weight_now(scalars, 0, rho, clock) + 1.0 / weight_now(scalars, 1, rho, clock)
    if scalars[PAIRS] > 0.0:
        inverse = max(inverse, 1.0 / scalars[PAIRS])
    return SHARE * trace * inverse


@jit
def put(columns, solution, w, scalars):
    """Make the solution the weights, unless it is not finite; writes w, scalars."""
    scalars[LAST] = scalars[EVENTS]
    if all_finite(solution):
        for k in range(solution.size):
            w[columns[k]] = solution[k]
