"""AdaOAM: adaptive gradient method for online AUC maximization.

[ADA] Ding, Zhao, Hoi, Ong, *An Adaptive Gradient Method for Online AUC Maximization*, AAAI 2015.
"""

from __future__ import annotations

import math

import numpy as np

from .opauc import OPAUC


def project_weighted(u: np.ndarray, h: np.ndarray, radius: float) -> np.ndarray:
    """Return argmin_{|v| <= R} (v-u)' diag(h) (v-u).

    u if |u| <= R, else v_i = h_i u_i/(h_i + nu) with nu > 0 the root of |v(nu)| = R, which decreases in nu;
    bisection from [0, max(h) |u|/R].
    """
    norm = math.sqrt(float(u @ u))
    if norm <= radius:
        return u
    low, high = 0.0, float(h.max()) * norm / radius
    while high - low > 1e-14 * high:
        nu = 0.5 * (low + high)
        if nu in (low, high):
            break
        v = h * u / (h + nu)
        low, high = (nu, high) if math.sqrt(float(v @ v)) > radius else (low, nu)
    return h * u / (h + high)


class AdaOAM(OPAUC):
    """The gradient g of OPAUC (full moments, lam w included), with a step of its own per coordinate.

    G2 += g g;  h = delta + sqrt(G2);  u = w - om' eta g/h;  w = argmin_{|v| <= 1/sqrt(lam)} |v - u|_h.

    Scale: g, G2 and h are those of the scaled weights kappa_t w, so that they carry no unit and stay as they
    are when kappa_t moves; in raw units u = w - om' eta g/(h kappa_t), radius 1/(sqrt(lam) kappa_t).
    om' = `by_mean` multiplies the step, not what enters G2. Output: last w.
    """

    def __init__(self, eta: float = 0.125, lam: float = 1e-4, delta: float = 1e-8, kappa: float | None = None) -> None:
        super().__init__(eta=eta, lam=lam, kappa=kappa)
        self.delta = delta
        self.G2 = np.zeros(0)

    def _step(self, gradient: np.ndarray, weight: float) -> None:
        """Take the adaptive step and project."""
        unit = self.scale.unit
        if self.G2.size == 0:
            self.G2 = np.zeros(self.w.size)
        g = (self.lam * self.w + gradient) * unit
        self.G2 = self.G2 + g * g
        h = self.delta + np.sqrt(self.G2)
        u = self.w - weight * self.eta * g / h / unit
        self.w = project_weighted(u, h, 1.0 / math.sqrt(self.lam) / unit)
