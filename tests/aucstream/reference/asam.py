"""ASAM: adaptive (averaged) stochastic AUC maximization, the subgradient sibling of PSAM.

[ASAM] Khalid, Ray, Chitsaz, *Scalable Nonlinear AUC Maximization Methods*, ECML-PKDD 2018, as given in
[PSAM] and in Bordes, Bottou, Gallinari, *SGD-QN*, JMLR 2009.
"""

from __future__ import annotations

from typing import Any

from .psam import PSAM


class ASAM(PSAM):
    """PSAM with the loss's gradient at the old point instead of the proximal one.

    "hinge": g = -1 if w'z < 1 else 0; "squared_hinge", (1 - w'z)_+^2/2: g = min(0, w'z - 1) min(1, 1/(eta z'z)).
    The last factor (ours) ends the step at margin 1: with the default eta, z'z goes up to 16 on rows as long as
    twice their root mean square, each step multiplies its pair's error by 1 - eta z'z, and the weights reach 1e13.
    Everything else is as in `PSAM`; the weight om multiplies the step itself.
    """

    def __init__(self, lam: float = 1e-5, loss: str = "hinge", **options: Any) -> None:
        super().__init__(lam=lam, **options)
        self.loss = loss

    def _gradient(self, margin: float, eta: float, zz: float) -> float:
        """Return g of the step w -= eta g z."""
        if self.loss == "hinge":
            return -1.0 if margin < 1.0 else 0.0
        return min(0.0, margin - 1.0) / max(1.0, eta * zz)
