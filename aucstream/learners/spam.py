"""SPAM: stochastic proximal AUC maximization, with an l2 or an elastic-net penalty."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

import numpy as np

from aucstream.block import Floats, Ints
from aucstream.constraints import Ge, Gt, InfinityAllowed
from aucstream.errors import InvalidParams, NonFiniteStep
from aucstream.kernels.weights import l1ball
from aucstream.kernels.weights.elasticnet import PI
from aucstream.learners._base.learner import Learner, learner
from aucstream.learners._base.state import Program
from aucstream.learners._families import proximal_l2, proximal_net
from aucstream.learners._families.fixed_set import final_scores, start_anew
from aucstream.learners._families.leaving import leave_net
from aucstream.learners._families.proximal import DOT_NEG, DOT_POS, GROWTH, SCALE, SCHEDULES, survey
from aucstream.learners._families.proximal_l2 import FADING_L2, L2
from aucstream.learners._families.proximal_net import NET


@learner
class SPAM(Learner):
    """Stochastic proximal AUC maximization: the squared AUC loss with an l2 or an elastic-net penalty.

    One pass, no buffer, and with `penalty="elasticnet"` weights that are exactly 0 where a column says
    little. To choose over `SOLAM` for sparse weights, while columns are few beside the rows of the rarer class.

    Parameters
    ----------
    penalty : {"l2", "elasticnet"}, default="l2"
        beta/2 \\|w\\|^2, or that and beta1 \\|w\\|_1.
    beta : float, default=1e-4
        In [0, inf). l2 penalty. [1]_ section 3.
    beta1 : float, default=1e-5
        In [0, inf). l1 penalty; without effect where `penalty` is "l2". [1]_ section 3.
    C : float, default=10.0
        In (0, inf). Step eta_t = min(cap, C / sqrt(t)) with the schedule "sqrt".
    cap : float, default=0.1
        In (0, inf]. Upper bound of the step; `inf` restores the paper.
    schedule : {"sqrt", "strong"}, default="sqrt"
        "strong" is eta_t = min(cap, 1 / (beta (t + 1))), the cap alone where beta is 0. [1]_ Theorem 1.
    half_life : float or None, default=None
        In [1, inf). With the l2 penalty: rows after which steps, iterates, class means and p count half; None: all count
        the same. For streams that change: with 1,000 to 10,000 it follows.
    kappa : float or None, default=None
        In (0, inf). Largest row norm. None: a running root mean square takes its place, so that rows
        of any scale work; a number gives the paper's literal form.

    Notes
    -----
    With p, m+, m- the share of positives and the class means up to and including the row, t = 1, 2, ..::

        y=+1:  c = 2 (1-p) (w'(x - m-) - 1)      y=-1:  c = 2p (w'(x - m+) + 1)
        w = prox of eta (beta/2 \\|w\\|^2 + beta1 \\|w\\|_1) at w - eta c x
          = sign(u) max(\\|u\\| - eta beta1, 0) / (1 + eta beta),  u = w - eta c x

    The output averages the w after each step, uniformly; with a `half_life` h every row first multiplies t and what all
    earlier rows and iterates count for by 2^(-1/h). Nothing steps until both classes were seen.
    An example's weight multiplies its eta and its share in p, m+, m-. A positive's step multiplies the error
    along x by 1 - 2 q eta, so weights above 2 are divided by what the mean of q eta (p eta of negatives) exceeds
    cap by where that is more than twice, in both classes alike, and no row's eta counts more than twice the mean of its class, unless `cap` is
    inf. `fit` is the paper's form over a fixed set: p, m+, m- of all its rows, shuffled passes.

    The penalties may change at any row: what was shrunk stays shrunk by the penalties of its time.

    Both penalties touch the row's columns only and are exact. l2: time O(nnz), memory 32 bytes a feature.
    Elastic net: w'm+ and w'm- need every weight at every step, so a heap finds those that the penalty brings
    to 0; O(nnz log d) amortised, memory 80 bytes a feature.

    Running means are the weak spot: where columns are many beside the rows of the rarer class, their errors
    drive w away in directions of little variance. A beta of 1e-3 or more or a smaller cap helps, or `SOLAM`.

    Deviations: running means where [1]_ has those of the whole set; the step cap; a uniform average and
    C / sqrt(t) as in the authors' programs, where [1]_ proves a rate for the last iterate of "strong";
    `kappa=None`, with penalties beta kappa_t^2 and beta1 kappa_t.

    References
    ----------
    .. [1] Natole, Ying, Lyu, "Stochastic Proximal Algorithms for AUC Maximization", ICML 2018, Algorithm 1.

    Examples
    --------
    >>> from aucstream import SPAM
    >>> model = SPAM(penalty="elasticnet")
    >>> for a, y in [(1.0, True), (-1.0, False)] * 100:
    ...     model.learn_one({"a": a}, y)
    >>> model.score_one({"a": 1.0}) > model.score_one({"a": -1.0})
    True
    """

    penalty: Literal["l2", "elasticnet"] = "l2"
    beta: Annotated[float, Ge(0)] = 1e-4
    beta1: Annotated[float, Ge(0)] = 1e-5
    C: Annotated[float, Gt(0)] = 10.0
    cap: Annotated[float, Gt(0), InfinityAllowed()] = 0.1
    schedule: Literal["sqrt", "strong"] = "sqrt"
    half_life: Annotated[float | None, Ge(1)] = None
    kappa: Annotated[float | None, Gt(0)] = None

    _steps_and_penalties = frozenset({"beta", "beta1", "C", "cap"})

    def _chosen_program(self) -> Program:
        if self.penalty == "elasticnet":
            if self.half_life is not None:
                raise InvalidParams("SPAM.half_life", "None with penalty='elasticnet'", self.half_life)
            return NET
        return L2 if self.half_life is None else FADING_L2

    def _kernel_args(self) -> tuple[float, ...]:
        keep = 1.0 if self.half_life is None else 2.0 ** (-1.0 / self.half_life)
        return (self.C, self.cap, self.beta, self.beta1, SCHEDULES[self.schedule], keep, self.kappa or 0.0)

    def _init_state(self) -> None:
        if self.penalty == "l2":
            self._field("scalars")[SCALE] = 1.0
            if self.half_life is not None:
                self._field("scalars")[GROWTH] = 1.0
        else:
            self._field("ball")[PI] = 1.0

    def _resumed(self) -> None:
        if self.penalty == "elasticnet":
            self._field("ball")[[l1ball.HEAP_BOUND, l1ball.HEAP_N]] = 0.0

    def _forget_own(self, fields: dict[str, Any], columns: Ints, removed: int) -> None:
        sums_pos, sums_neg = fields["sums_pos"], fields["sums_neg"]
        if self.penalty == "elasticnet":
            leave_net(columns, fields["z"], sums_pos, sums_neg, fields["ball"])
        else:
            weights = fields["v"][columns]
            fields["scalars"][DOT_POS] -= (weights * sums_pos[columns]).sum()
            fields["scalars"][DOT_NEG] -= (weights * sums_neg[columns]).sum()

    def _place(self, fields: dict[str, Any], weights: Floats, intercept: float) -> None:
        if self.penalty == "elasticnet":
            fields["gam_at"][:] = fields["ball"][l1ball.GAM]

    def fit(self, X: Any, y: Any, epochs: int = 1) -> Self:
        """Start anew: class means of all of (X, y), then `epochs` shuffled passes; calibrate at the end.

        Parameters
        ----------
        X : ndarray or scipy sparse (n, d)
        y : array (n,)
        epochs : int
            >= 1.

        Returns
        -------
        self

        Raises
        ------
        NonFiniteStep
            A step would not have stayed finite; the model is as right after construction.
        """
        block = start_anew(self, X, y, epochs)
        *numbers, _, kappa = self._kernel_params
        numbers.append(1.0)  # all rows of a fixed set count the same
        rows, factors = (block.indptr, block.indices, block.values, block.y), np.empty(len(block))
        sums = self._field("sums_pos"), self._field("sums_neg")
        unit = survey(*sums, self._field("scalars"), self._ledger, *rows, factors, kappa)
        refused = np.flatnonzero(np.isnan(factors))
        if not refused.size:
            random = np.random.default_rng(0)
            order = np.concatenate([random.permutation(len(block)) for _ in range(epochs)])
            visit = proximal_l2.visit if self.penalty == "l2" else proximal_net.visit
            steps = visit(*rows, factors, order, unit, *self._arrays, *numbers)
            refused = order[steps : steps + 1]
        if refused.size:
            scores = self._score(block)
            self._reset()
            raise NonFiniteStep("SPAM.fit", refused.tolist(), scores)
        self._calibrate_on(final_scores(self, block), block.y)
        return self

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"penalty": "elasticnet", "beta": 0.01, "beta1": 0.03}
        yield {"half_life": 50.0}

    @classmethod
    def _extreme_params(cls) -> Iterator[dict[str, Any]]:
        yield {"C": 1e6, "cap": 1e6}
        yield {"C": 1e6, "cap": math.inf, "penalty": "elasticnet", "schedule": "strong"}
