"""The saddle function of the squared AUC loss, one sample at a time [YWL16, Theorem 1].

F(w, a, b, alpha; z) = q (s - a)^2 [y=1] + p (s - b)^2 [y=-1]
                       + 2 (1 + alpha) (p s [y=-1] - q s [y=1]) - p q alpha^2,  s = w'x, q = 1 - p
"""

from __future__ import annotations

import math

from aucstream.kernels.jit import jit
from aucstream.kernels.rows.arrival import LARGEST
from aucstream.kernels.rows.row_scale import next_scale
from aucstream.kernels.weights.example_weights import by_class

# layout of the scalars of SOLAM and regSOLAM; SCALE, NORM2, GCUM: l2 only
A, B, ALPHA, STEPS, POSITIVE, TOTAL, GSUM, SCALE, NORM2, GCUM = range(10)
SIZE = 10


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
def advance(scalars, ledger, length, y, weight, s, zeta, cap, kappa):
    """Return all that a step needs and writes nothing.

    (finite, step on w along x, g, new a, b, alpha, kappa_t, its mean square and rows),
    from the length of x and the score `s` of the last iterate; [YWL16] Alg. 1, steps 3-5.
    """
    scale, factor, mean, rows = next_scale(ledger, length, kappa)
    positive = scalars[POSITIVE] + (weight if y > 0.0 else 0.0)
    total = scalars[TOTAL] + weight
    p = positive / total
    if cap < math.inf:
        gamma = by_class(ledger, y, weight, positive, total - positive)
    else:
        gamma = weight
    gamma *= min(cap, zeta / math.sqrt(scalars[STEPS] + 1.0))
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
def commit(scalars, y, weight, gamma, a, b, alpha, bound):
    """Write what `advance` returned, a, b, alpha clipped to their boxes; writes scalars."""
    scalars[A] = max(-bound, min(bound, a))
    scalars[B] = max(-bound, min(bound, b))
    scalars[ALPHA] = max(-2.0 * bound, min(2.0 * bound, alpha))
    scalars[STEPS] += 1.0
    scalars[TOTAL] += weight
    scalars[GSUM] += gamma
    if y > 0.0:
        scalars[POSITIVE] += weight
