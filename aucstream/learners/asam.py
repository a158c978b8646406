"""ASAM: averaged stochastic AUC maximization, gradient steps on sampled pairs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from aucstream.kernels.pairs.sampled_pairs import HINGE, SQUARED
from aucstream.learners._base.learner import learner
from aucstream.learners._families.sampled import SampledPairs

LOSSES = {"hinge": HINGE, "squared_hinge": SQUARED}


@learner
class ASAM(SampledPairs):
    """Averaged stochastic AUC maximization: gradient steps on sampled pairs.

    `PSAM` with the gradient at the old weights instead of the proximal step. With the default steps both
    rank alike; where a step may be too long `PSAM` cannot overshoot the margin and is to be preferred.

    Parameters
    ----------
    lam : float, default=1e-5
        In (0, inf). Penalty lam/2 \\|w\\|^2; lambda of [1]_ eq. 1.
    t0 : float or None, default=None
        In [0, inf). Step eta_t = 1 / (lam (t + t0)); None: 1/lam, a first step of 1.
    rskip : int, default=16
        >= 1. Pair steps between two shrinks of the weights. [3]_ Algorithm 1.
    askip : int, default=1
        >= 1. Pair steps between two iterates that enter the average.
    fresh : int, default=5
        >= 0. Pairs of an arriving row with buffered rows of the other class.
    replay : int, default=0
        >= 0. Further pairs of two buffered rows, after an arrival.
    capacity : int, default=1000
        >= 1. Rows kept of each class.
    policy : {"reservoir", "fifo", "random"}, default="reservoir"
        Which row a new one replaces: all seen equally likely kept; the oldest; any.
    half_life : float or None, default=None
        In [1, inf). Rows after which steps, iterates and offered rows count half; None: all count the same. For
        streams that change: with 1,000 to 10,000 both the average and the buffers follow.
    kappa : float or None, default=None
        In (0, inf). Largest row norm. None: a running root mean square takes its place, so that rows
        of any scale work; a number gives the paper's literal form.
    seed : int or None, default=0
        Of all draws; None draws one at construction.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        Of the margin m = w'z: (1 - m)_+, or (1 - m)_+^2 / 2.

    Notes
    -----
    A step on the pair z = x+ - x-, t = 1, 2, ..::

        eta = 1 / (lam (t + t0))
        hinge:          w += eta z            if w'z < 1
        squared_hinge:  w += min(eta, 1 / z'z) (1 - w'z) z  if w'z < 1
        every rskip steps:  w *= 1 - rskip / (t + t0)
        every askip steps:  wbar = (q wbar + w) / (q + 1),  q += 1

    Arrivals and the output wbar are those of `PSAM`, and so are the costs: time O(nnz) a pair, `fresh` +
    `replay` pairs a row; memory 24 bytes a feature and the buffered rows. `fit` takes epochs times n
    steps on uniform pairs of the whole set.

    Deviations: those of `PSAM`; the step of the squared hinge ends at margin 1, since it multiplies the
    error of its pair by 1 - eta z'z, and without the bound the default eta throws the weights away where
    the rows' lengths differ.

    References
    ----------
    .. [1] Khalid, Ray, Chitsaz, "Proximal Stochastic AUC Maximization", which restates the algorithm.
    .. [2] Khalid, Ray, Chitsaz, "Scalable Nonlinear AUC Maximization Methods", ECML-PKDD 2018.
    .. [3] Bordes, Bottou, Gallinari, "SGD-QN", JMLR 2009, for the schedules of shrink and average.

    Examples
    --------
    >>> from aucstream import ASAM
    >>> model = ASAM()
    >>> for a, y in [(1.0, True), (-1.0, False)] * 100:
    ...     model.learn_one({"a": a}, y)
    >>> model.score_one({"a": 1.0}) > model.score_one({"a": -1.0})
    True
    """

    loss: Literal["hinge", "squared_hinge"] = "hinge"

    def _loss_code(self) -> int:
        return LOSSES[self.loss]

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"loss": "squared_hinge", "policy": "fifo", "capacity": 5, "replay": 1}

    @classmethod
    def _extreme_params(cls) -> Iterator[dict[str, Any]]:
        yield {"lam": 1e-6, "t0": 1.0}
        yield {"lam": 1e-6, "t0": 1.0, "loss": "squared_hinge"}
