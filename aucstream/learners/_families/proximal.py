"""What SPAM's two penalties share: steps, slopes, class sums and the loops over a fixed set."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from aucstream.kernels.jit import jit, jit_allocating
from aucstream.kernels.ledger import CAL_NEGATIVE, CAL_POSITIVE
from aucstream.kernels.rows.arrival import LARGEST
from aucstream.kernels.rows.linear import axpy, norm
from aucstream.kernels.rows.row_scale import count_label, next_scale, restart_ratio, store_scale
from aucstream.kernels.weights.example_weights import by_class

# layout of State.scalars; DOT_*: class sum'v, SCALE, CUM, DOT_*: l2 only
STEPS, N_POS, N_NEG, SCALE, CUM, DOT_POS, DOT_NEG = range(7)
# with a half-life: what the newest row counts for in class sums, counts and average, where the first counted for 1; the
# weighted number of averaged iterates
GROWTH, AVERAGED = range(7, 9)
FADING_SIZE = 9
GROWTH_RESET = 1e30  # fold beyond this: keeps all in range
SQRT, STRONG = 0, 1
SCHEDULES = {"sqrt": SQRT, "strong": STRONG}


@jit
def rate(t, C, cap, beta, schedule):
    """Return eta_t."""
    if schedule == SQRT:
        return min(cap, C / math.sqrt(t))
    return min(cap, 1.0 / (beta * (t + 1.0))) if beta > 0.0 else cap


@jit
def growth_of(scalars):
    """Return what the newest row counts for; 1 where nothing fades."""
    return scalars[GROWTH] if scalars.size == FADING_SIZE else 1.0


@jit
def averaged(scalars):
    """Return the weighted number of averaged iterates."""
    return scalars[AVERAGED] if scalars.size == FADING_SIZE else scalars[STEPS]


@jit
def row_weight(ledger, y, weight, scalars, cap):
    """Return what a row's weight multiplies eta by; the ledger and the counts do not have the row yet."""
    if cap == math.inf:
        return weight
    entering = weight if y > 0.0 else 0.0
    if scalars.size == FADING_SIZE:  # the ledger's rows do not fade: neither do these
        return by_class(ledger, y, weight, ledger[CAL_POSITIVE] + entering, ledger[CAL_NEGATIVE] + (weight - entering))
    return by_class(ledger, y, weight, scalars[N_POS] + entering, scalars[N_NEG] + (weight - entering))


@jit
def slope(y, p, s, a, b):
    """Return c of G(w; z) = c x for s = w'x, a = w'm+, b = w'm- [NYL18; the opposite mean enters]."""
    return 2.0 * (1.0 - p) * (s - b - 1.0) if y > 0.0 else 2.0 * p * (s - a + 1.0)


@jit
def stretch(ratio, sums_pos, sums_neg):
    """Multiply the class sums (d,) by `ratio`; writes both. O(d), and never but at a restarted row scale."""
    if ratio != 1.0:
        for j in range(sums_pos.size):
            sums_pos[j] *= ratio
            sums_neg[j] *= ratio


@jit_allocating
def columns_of(idx, a, b):
    """Return the columns of the row at a..b of a block, None where it is dense."""
    if idx is None:
        return None
    return idx[a:b]


@jit_allocating
def survey(sums_pos, sums_neg, scalars, ledger, indptr, idx, val, y, factors, kappa):
    """Take all rows into row scale, class sums and counts, in order; returns the last kappa_t.

    Writes factors (n,), what each row is to be multiplied by (NaN: refused), and all else but the rows.
    """
    unit = 1.0
    for i in range(y.size):
        a, b = indptr[i], indptr[i + 1]
        x = val[a:b]
        length = norm(x)
        scale, factor, mean, rows = next_scale(ledger, length, kappa)
        if not factor * length < LARGEST:
            factors[i] = math.nan
            continue
        ratio = restart_ratio(ledger, scale, rows, kappa)
        stretch(ratio, sums_pos, sums_neg)
        if ratio != 1.0:
            for k in range(i):
                factors[k] *= ratio
        store_scale(ledger, mean, rows)
        factors[i] = factor
        axpy(columns_of(idx, a, b), x, factor, sums_pos if y[i] > 0.0 else sums_neg)
        count_label(ledger, y[i])
        scalars[N_POS if y[i] > 0.0 else N_NEG] += 1.0
        if kappa == 0.0 and scale > 0.0:
            unit = scale
    return unit


def visit_loop(revisit: Callable[..., bool], size: int) -> Callable[..., int]:
    """Return the compiled loop of steps with fixed class sums on the rows of an order.

    Parameters
    ----------
    revisit : function
        Compiled: (*state, idx, x, y, factor, unit, *params) -> whether all stays finite; a step, if so.
    size : int
        Number of arrays in `state`.

    Returns
    -------
    function
        (indptr, idx, val, y, factors, order, unit, *state, *params) -> steps before one was refused.
    """

    def visit(indptr: Any, idx: Any, val: Any, y: Any, factors: Any, order: Any, unit: float, *arguments: Any) -> int:
        state, params = arguments[:size], arguments[size:]
        for k in range(order.size):
            i = order[k]
            a, b = indptr[i], indptr[i + 1]
            row = columns_of(idx, a, b)
            if not revisit(*state, row, val[a:b], y[i], factors[i], unit, *params):
                return k
        return len(order)

    return jit_allocating(visit)
