"""regSOLAM: SOLAM with a squared l2 penalty."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any

from aucstream.block import Ints
from aucstream.constraints import Gt, InfinityAllowed
from aucstream.kernels.weights.saddle import POSITIVE, SCALE, TOTAL
from aucstream.learners._base.learner import Learner, learner
from aucstream.learners._base.state import Program
from aucstream.learners._families.saddle import L2_BALL, forget_norm


@learner
class RegSOLAM(Learner):
    """Regularised SOLAM: the squared AUC loss as a saddle-point problem, with an l2 penalty.

    SOLAM whose ball follows from the penalty, so that one number says how large weights may be. To choose
    over `SOLAM` where rows are few for their number of columns, or columns nearly collinear.

    Parameters
    ----------
    lam : float, default=1e-4
        In (0, inf). Penalty lam/2 \\|w\\|^2, and R = sqrt(2/lam). [1]_ eq. (6), section 5.1.
    zeta : float, default=10.0
        In (0, inf). Step gamma_t = min(cap, zeta / sqrt(t)). [2]_ Algorithm 1.
    cap : float, default=0.1
        In (0, inf]. Upper bound of the step; `inf` restores the paper.
    kappa : float or None, default=None
        In (0, inf). Largest row norm. None: a running root mean square takes its place, so that rows
        of any scale work; a number gives the paper's literal form.

    Notes
    -----
    The step of `SOLAM`, with the gradient of the penalty at the weights before it::

        w = (1 - gamma lam) w - gamma dF/dw,  then on the ball \\|w\\| <= R = sqrt(2/lam)

    The penalty stands beside p (1 - p) times the pairwise loss, so the minimiser is that of `SPAM` with
    beta = lam; it lies inside the ball, since lam/2 \\|w\\|^2 <= p (1 - p) <= 1/4 there. Time O(nnz) a row,
    memory 16 bytes a feature.

    Deviations: [1]_ writes the same lam beside the loss in its eq. (3) and beside p (1 - p) times the loss
    in (6), which cannot both hold: (6) it is; where a weighted row or a large cap makes gamma lam > 1, it
    counts as 1, so that the penalty never turns the weights round; `SOLAM`'s; with `kappa=None` the
    penalty is lam kappa_t^2, so that a step shrinks by gamma lam whatever the scale of the rows.

    References
    ----------
    .. [1] Natole, Ying, Lyu, "Stochastic AUC Optimization Algorithms With Linear Convergence", Frontiers in
       Applied Mathematics and Statistics, 2019, eq. (6) and sec. 5.1.
    .. [2] Ying, Wen, Lyu, "Stochastic Online AUC Maximization", NIPS 2016, Algorithm 1.

    Examples
    --------
    >>> from aucstream import RegSOLAM
    >>> model = RegSOLAM()
    >>> for a, y in [(1.0, True), (-1.0, False)] * 100:
    ...     model.learn_one({"a": a}, y)
    >>> model.score_one({"a": 1.0}) > model.score_one({"a": -1.0})
    True
    """

    lam: Annotated[float, Gt(0)] = 1e-4
    zeta: Annotated[float, Gt(0)] = 10.0
    cap: Annotated[float, Gt(0), InfinityAllowed()] = 0.1
    kappa: Annotated[float | None, Gt(0)] = None

    _steps_and_penalties = frozenset({"lam", "zeta", "cap"})

    def _chosen_program(self) -> Program:
        return L2_BALL

    def _kernel_args(self) -> tuple[float, ...]:
        return (math.sqrt(2.0 / self.lam), self.zeta, self.cap, 1.0, self.kappa or 0.0, self.lam)

    def _init_state(self) -> None:
        self._field("scalars")[SCALE] = 1.0

    def _forget_own(self, fields: dict[str, Any], columns: Ints, removed: int) -> None:
        forget_norm(fields, columns)

    def _added(self) -> list[tuple[str, int]]:
        return [*super()._added(), ("scalars", POSITIVE), ("scalars", TOTAL)]

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"lam": 2.0, "cap": 0.4}

    @classmethod
    def _extreme_params(cls) -> Iterator[dict[str, Any]]:
        yield {"zeta": 1e6, "cap": 1e6}
        yield {"zeta": 1e6, "cap": math.inf, "lam": 10.0}
