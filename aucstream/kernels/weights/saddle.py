"""The saddle function of the squared AUC loss, one sample at a time [YWL16, Theorem 1].

F(w, a, b, alpha; z) = q (s - a)^2 [y=1] + p (s - b)^2 [y=-1]
                       + 2 (1 + alpha) (p s [y=-1] - q s [y=1]) - p q alpha^2,  s = w'x, q = 1 - p
"""

from __future__ import annotations

import math

from aucstream.kernels.jit import jit
from aucstream.kernels.ledger import CAL_NEGATIVE, CAL_POSITIVE
from aucstream.kernels.rows.arrival import LARGEST
from aucstream.kernels.rows.row_scale import next_scale
from aucstream.kernels.weights.example_weights import by_class

# layout of the scalars of SOLAM and regSOLAM; SCALE, NORM2, GCUM: l2 only
A, B, ALPHA, STEPS, POSITIVE, TOTAL, GSUM, SCALE, NORM2, GCUM = range(10)
SIZE = 10
GROWTH = 10  # with a half-life: what the newest iterate's gamma counts for in GSUM, where the first's counted for 1
FADING_SIZE = 11
GROWTH_RESET = 1e30  # fold beyond this: keeps all in range


@jit
def slopes(y, p, s, a, b, alpha):
    """Return (c, dF/da, dF/db, dF/dalpha); dF/dw = c x. [LZCWY18, sec. 3.1]."""
    q = 1.0 - p
    if y > 0.0:
        c = 2.0 * q * (s - a - 1.0 - alpha)
        return c, -2.0 * q * (s - a), 0.0, -2.0 * q * s - 2.0 * p * q * alpha
    c = 2.0 * p * (s - b + 1.0 + alpha)
    return c, 0.0, -2.0 * p * (s - b), 2.0 * p * s - 2.0 * p * q * alpha


@jit
def advance(scalars, ledger, length, y, weight, s, zeta, cap, keep, kappa):
    """Return all that a step needs and writes nothing.

    (finite, step on w along x, g, new a, b, alpha, kappa_t, its mean square and rows),
    from the length of x and the score `s` of the last iterate; [YWL16] Alg. 1, steps 3-5.
    """
    scale, factor, mean, rows = next_scale(ledger, length, kappa)
    positive = keep * scalars[POSITIVE] + (weight if y > 0.0 else 0.0)
    total = keep * scalars[TOTAL] + weight
    p = positive / total
    if cap < math.inf:
        if keep < 1.0:  # the ledger's rows do not fade: neither do these
            entering = weight if y > 0.0 else 0.0
            masses = ledger[CAL_POSITIVE] + entering, ledger[CAL_NEGATIVE] + (weight - entering)
        else:
            masses = positive, total - positive
        gamma = by_class(ledger, y, weight, masses[0], masses[1])
    else:
        gamma = weight
    gamma *= min(cap, zeta / math.sqrt(keep * scalars[STEPS] + 1.0))
    a, b, alpha = scalars[A], scalars[B], scalars[ALPHA]
    c, da, db, dalpha = slopes(y, p, s * factor, a, b, alpha)
    a -= gamma * da
    b -= gamma * db
    alpha += gamma * dalpha
    step = 0.0
    if length > 0.0:
        step = -gamma * c * factor
        if kappa == 0.0:
            step /= scale * scale
    finite = math.isfinite(s) and math.isfinite(a) and math.isfinite(b) and math.isfinite(alpha)
    finite = finite and abs(step) * length < LARGEST and total < LARGEST
    return finite, step, gamma, a, b, alpha, scale, mean, rows


@jit
def growth_of(scalars):
    """Return what the newest iterate counts for; 1 where nothing fades."""
    return scalars[GROWTH] if scalars.size == FADING_SIZE else 1.0


@jit
def commit(scalars, y, weight, gamma, a, b, alpha, keep, bound):
    """Write what `advance` returned, a, b, alpha clipped to their boxes; writes scalars."""
    if keep < 1.0:
        scalars[GROWTH] /= keep
    scalars[A] = max(-bound, min(bound, a))
    scalars[B] = max(-bound, min(bound, b))
    scalars[ALPHA] = max(-2.0 * bound, min(2.0 * bound, alpha))
    scalars[STEPS] = keep * scalars[STEPS] + 1.0
    scalars[TOTAL] = keep * scalars[TOTAL] + weight
    scalars[GSUM] += gamma * growth_of(scalars)
    scalars[POSITIVE] = keep * scalars[POSITIVE] + (weight if y > 0.0 else 0.0)


@jit
def due(scalars, keep, every):
    """Return whether a learner is to fold its sums: every so many steps, or when they have grown large."""
    if keep < 1.0:
        return scalars[GROWTH] > GROWTH_RESET
    return scalars[STEPS] % every == 0.0
