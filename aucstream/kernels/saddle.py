"""The saddle function of the squared AUC loss, one sample at a time [YWL16, Theorem 1].

F(w, a, b, alpha; z) = q (s - a)^2 [y=1] + p (s - b)^2 [y=-1]
                       + 2 (1 + alpha) (p s [y=-1] - q s [y=1]) - p q alpha^2,  s = w'x, q = 1 - p
"""

from __future__ import annotations

from aucstream.kernels.jit import jit


@jit
def slopes(y, p, s, a, b, alpha):
    """Return (c, dF/da, dF/db, dF/dalpha); dF/dw = c x. [LZCWY18, sec. 3.1]."""
    q = 1.0 - p
    if y > 0.0:
        c = 2.0 * q * (s - a - 1.0 - alpha)
        return c, -2.0 * q * (s - a), 0.0, -2.0 * q * s - 2.0 * p * q * alpha
    c = 2.0 * p * (s - b + 1.0 + alpha)
    return c, 0.0, -2.0 * p * (s - b), 2.0 * p * s - 2.0 * p * q * alpha
