"""PSAM: proximal stochastic AUC maximization, one sampled pair at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aucstream.kernels.pairs.sampled_pairs import PROX
from aucstream.learners._base.learner import learner
from aucstream.learners._families.sampled import SampledPairs


@learner
class PSAM(SampledPairs):
    """Proximal stochastic AUC maximization: the pairwise hinge loss on sampled pairs.

    Each row is paired with a few buffered rows of the other class. The reservoir makes it robust where
    covariates wander or the stream is ordered; on shuffled streams `policy="fifo"` is slightly better.

    Parameters
    ----------
    lam : float, default=1e-5
        In (0, inf). Penalty lam/2 \\|w\\|^2; gamma of [1]_ Algorithm 1 (lambda of its eq. 1).
    t0 : float or None, default=None
        In [0, inf). Step eta_t = 1 / (lam (t + t0)); None: 1/lam, a first step of 1.
    rskip : int, default=16
        >= 1. Pair steps between two shrinks of the weights. [1]_ Algorithm 1.
    askip : int, default=1
        >= 1. Pair steps between two iterates that enter the average. [1]_ Algorithm 1.
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

    Notes
    -----
    A step on the pair z = x+ - x-, t = 1, 2, ..::

        eta = 1 / (lam (t + t0)),  w += min(eta, (1 - w'z) / z'z) z  if w'z < 1
        every rskip steps:  w *= 1 - rskip / (t + t0)
        every askip steps:  wbar = (q wbar + w) / (q + 1),  q += 1

    the first line being the proximal step of eta (1 - w'z)_+. Arrivals: `fresh` steps against uniform
    slots of the other class, then the row is offered to its own buffer, then `replay` steps. The output
    is wbar. Time O(nnz) a pair; memory 24 bytes a feature and the buffered rows.

    With a `half_life` h every arrival first multiplies t, q and the number of rows offered to each buffer by
    2^(-1/h). A full reservoir then takes a row with probability capacity over that number, rounded up, or
    capacity/(capacity + 1) at most, so that a row of the buffer is as likely as it counts.

    `fit` is Algorithm 1 over the fixed set: epochs times n steps on uniform pairs of its rows; the
    streaming form with `fresh=0`, room for all rows and replay alone equals it bit for bit.

    Deviations: pairs come from buffers instead of the whole set; an example's weight multiplies eta of its
    fresh pairs; the appendix's proximal step where section III of the paper prints another derivative;
    before the first average the output is w; `kappa=None`.

    References
    ----------
    .. [1] Khalid, Ray, Chitsaz, "Proximal Stochastic AUC Maximization", Algorithm 1 and appendix.
    .. [2] Bordes, Bottou, Gallinari, "SGD-QN", JMLR 2009, for the schedules of shrink and average.

    Examples
    --------
    >>> from aucstream import PSAM
    >>> model = PSAM()
    >>> for a, y in [(1.0, True), (-1.0, False)] * 100:
    ...     model.learn_one({"a": a}, y)
    >>> model.score_one({"a": 1.0}) > model.score_one({"a": -1.0})
    True
    """

    def _loss_code(self) -> int:
        return PROX

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"policy": "fifo", "capacity": 5, "fresh": 1, "replay": 2}
        yield {"policy": "random", "capacity": 3, "rskip": 1, "askip": 3}
        yield {"capacity": 4, "half_life": 50.0}

    @classmethod
    def _extreme_params(cls) -> Iterator[dict[str, Any]]:
        yield {"lam": 1e-6, "t0": 1.0}
        yield {"lam": 1e-12}
