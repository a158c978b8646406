"""regSOLAM: SOLAM with a squared l2 penalty.

[NYL19] Natole, Ying, Lyu, *Stochastic AUC Optimization Algorithms With Linear Convergence*, Frontiers in
Applied Mathematics and Statistics 2019, (6) and section 5.1.
"""

from __future__ import annotations

import math

from .solam import SOLAM


class RegSOLAM(SOLAM):
    """SOLAM-l2 with lam/2 |w|^2 added to F and R = sqrt(2/lam) [NYL19 section 5.1].

    The penalty is taken by its gradient, dF/dw + lam w, with the row's step gamma, and has the scale of
    [NYL19] (6), where the loss is p q L: so the minimiser is that of SPAM-L2 with beta = lam. The radius is
    a valid bound: lam/2 |w*|^2 <= p q <= 1/4. Scale: lam kappa_t^2 in raw units, so that one step takes
    gamma lam w off w whatever kappa_t. A gamma lam above 1 counts as 1 (ours): the penalty never turns w round.
    """

    def __init__(self, lam: float = 1e-4, zeta: float = 10.0, cap: float = 0.1, kappa: float | None = None) -> None:
        super().__init__(norm="l2", R=math.sqrt(2.0 / lam), zeta=zeta, cap=cap, kappa=kappa)
        self.lam = lam
