"""FSAUC: fast stochastic AUC maximization in stages.

[LZCWY18] Liu, Zhang, Chen, Wang, Yang, *Fast Stochastic AUC Maximization with O(1/n)-Convergence Rate*,
ICML 2018, Algorithms 1-3 and Lemma 1; their slips are resolved as said below.
"""

from __future__ import annotations

import math

import numpy as np

from .balls import clip, project_l1, project_omega1_ball
from .example_weights import ClassWeights
from .row_scale import RowScale
from .solam import saddle_gradient


class FSAUC:
    """SOLAM's saddle problem on an l1 ball, solved in stages around a moving centre.

    Known ``n``: m = max(1, floor(log2(2n/log2 n)/2) - 1) stages of floor(n/m) rows; the rows left over, and
    those after n, belong to the last stage, which never ends. ``n=None`` (anytime, ours): stages of n1,
    2 n1, 4 n1, .. rows.

    Start: everything 0, r = R0 = 2 sqrt(1+2 kappa^2) R, D = D0 = 2 sqrt(2) kappa R0, beta0 = 1 + 8 kappa^2,
    eta = eta1. A step inside a stage [Alg. 2], with sample weight om:

    1. class sums A+- += om x, counts T+- += om (both global, this sample included), p = T+/(T+ + T-);
    2. vsum += om' v, the iterate before the update, om' = `by_share`;
    3. v = P_{Omega1 and B(v1,r)}(v - om' eta dF/dv), alpha = clip(alpha + om' eta dF/dalpha) to
       [alpha1 - D, alpha1 + D] and |alpha| <= 2 R kappa, both from the old point.

    At the end of a stage of T rows v1 = vbar = vsum / (sum of om'), alpha1 = (A-/T- - A+/T+)'wbar clipped to
    |alpha| <= 2 R kappa (0 while a class is missing), v = v1, alpha = alpha1; r is halved (anytime: divided
    by sqrt 2); with that r and the T and p of the stage that ends [Lemma 1]

        Lam  = 2 + sqrt(2 ln(12/delta)),   qm = min(p, 1-p)
        D    = 2 sqrt2 kappa r + 4 sqrt2 kappa Lam (1+2 kappa) R / sqrt(qm T - sqrt(2 T ln(12/delta)))
        beta = 1 + 8 kappa^2 + 32 kappa^2 (1+2 kappa)^2 Lam^2 / (qm - sqrt(2 ln(12/delta)/T)),

    infinite where a denominator is not positive. eta is multiplied by 1/2 (anytime: 2^(-1/4)) under
    ``eta_rule="halve"``; "lemma1" multiplies further by sqrt(beta/beta_before), "lemma1_min" does so but
    never raises eta. An infinite beta gives ratio 1 and leaves the finite one in place for the next ratio.

    Output, known n: the average of the running stage, of the last complete stage right at its end. Anytime:
    with f = min(1, t/(T/2)) at row t of a stage of T rows, f (average of the running stage) + (1-f)
    (average of the last full stage); in the first stage its running average. 0 before the first row.

    ``kappa=None``: all as on x/kappa_t; in raw units the step of w is eta/kappa_t^2, its radius R/kappa_t,
    the distance sqrt(kappa_t^2 |w-w1|^2 + (a-a1)^2 + (b-b1)^2); R0, D, beta use kappa = 1. The class sums
    hold the (shortened) rows in raw units. Where kappa_t has grown so that the centre w1 is outside its
    radius, w1 is projected first: the intersection would else be empty.

    A stage's T, t and the stage lengths count rows, unweighted. om = 0 changes nothing at all.
    """

    def __init__(
        self,
        R: float = 100.0,
        eta1: float = 0.25,
        n: int | None = None,
        n1: int = 256,
        delta: float = 0.1,
        eta_rule: str = "halve",
        kappa: float | None = None,
    ) -> None:
        self.R = R
        self.delta = delta
        self.n = n
        self.eta_rule = eta_rule
        self.scale = RowScale(kappa)
        kap = self.scale.bound
        if n is None:
            self.m = 0
            self.length = n1
        else:
            self.m = 1 if n < 2 else max(1, math.floor(0.5 * math.log2(2.0 * n / math.log2(n))) - 1)
            self.length = n // self.m
        self.k = 1
        self.position = 0
        self.r = 2.0 * math.sqrt(1.0 + 2.0 * kap**2) * R
        self.D = 2.0 * math.sqrt(2.0) * kap * self.r
        self.beta = 1.0 + 8.0 * kap**2
        self.eta = eta1
        self.w = self.w1 = self.wsum = self.wlast = np.zeros(0)
        self.a = self.a1 = self.asum = 0.0
        self.b = self.b1 = self.bsum = 0.0
        self.alpha = self.alpha1 = 0.0
        self.wsum_weight = 0.0
        self.A_pos = self.A_neg = np.zeros(0)
        self.T_pos = self.T_neg = 0.0
        self.classes = ClassWeights()

    @property
    def kappa_t(self) -> float:
        """What rows are divided by at present."""
        return self.scale.unit

    @property
    def wbar(self) -> np.ndarray:
        """The output weights."""
        if self.position == 0:
            return self.wlast
        running = self.wsum / self.wsum_weight
        if self.n is not None or self.k == 1:
            return running
        f = min(1.0, self.position / (0.5 * self.length))
        return f * running + (1.0 - f) * self.wlast

    def score(self, x: np.ndarray) -> float:
        """Return the output score of x, wbar'x."""
        return float(self.wbar @ x) if self.w.size else 0.0

    def learn(self, x: np.ndarray, y: float, weight: float = 1.0) -> float:
        """Take one step; return the output score of x before it."""
        if self.w.size == 0:
            self.w = self.w1 = self.wsum = self.wlast = np.zeros(x.size)
            self.A_pos = self.A_neg = np.zeros(x.size)
        score = self.score(x)
        if weight == 0.0:
            return score
        unit, factor = self.scale.see(x)
        x = factor * x
        radius, box = self.R / unit, self.R * self.scale.bound
        # 1. class sums
        if self.scale.restart != 1.0:
            self.A_pos, self.A_neg = self.A_pos * self.scale.restart, self.A_neg * self.scale.restart
        if y > 0:
            self.A_pos = self.A_pos + weight * x
            self.T_pos += weight
        else:
            self.A_neg = self.A_neg + weight * x
            self.T_neg += weight
        p = self.T_pos / (self.T_pos + self.T_neg)
        # 2. stage sum, before the update
        self.classes.add(y, weight)
        counted = self.classes.by_share(y, weight)
        self.wsum = self.wsum + counted * self.w
        self.asum += counted * self.a
        self.bsum += counted * self.b
        self.wsum_weight += counted
        # 3. primal and dual step
        eta = counted * self.eta
        s = float(self.w @ x)
        c, da, db, dalpha = saddle_gradient(s, y, p, self.a, self.b, self.alpha)
        v = (self.w - eta * c * (x / unit) / unit, self.a - eta * da, self.b - eta * db)
        alpha = self.alpha + eta * dalpha
        self.w1 = project_l1(self.w1, radius)
        v1 = (self.w1, self.a1, self.b1)
        self.w, self.a, self.b = project_omega1_ball(v, v1, self.r, "l1", radius, box, unit)
        low, high = max(self.alpha1 - self.D, -2.0 * box), min(self.alpha1 + self.D, 2.0 * box)
        self.alpha = clip(alpha, low, high)
        self.position += 1
        if self.position == self.length and (self.n is None or self.k < self.m):
            self._end_stage(p)
        return score

    def _end_stage(self, p: float) -> None:
        """Move the centre to the average of the stage and shrink the sets around it."""
        kap, R, T = self.scale.bound, self.R, self.length
        self.w1 = self.w = self.wlast = self.wsum / self.wsum_weight
        self.a1 = self.a = self.asum / self.wsum_weight
        self.b1 = self.b = self.bsum / self.wsum_weight
        if self.T_pos > 0.0 and self.T_neg > 0.0:
            plug_in = float((self.A_neg / self.T_neg - self.A_pos / self.T_pos) @ self.w1)
        else:
            plug_in = 0.0
        self.alpha1 = self.alpha = clip(plug_in, -2.0 * R * kap, 2.0 * R * kap)
        self.r *= 0.5 if self.n is not None else math.sqrt(0.5)
        log = math.log(12.0 / self.delta)
        lam = 2.0 + math.sqrt(2.0 * log)
        qm = min(p, 1.0 - p)
        under_root = qm * T - math.sqrt(2.0 * T * log)
        self.D = math.inf
        if under_root > 0.0:
            slack = 4.0 * math.sqrt(2.0) * kap * lam * (1.0 + 2.0 * kap) * R / math.sqrt(under_root)
            self.D = 2.0 * math.sqrt(2.0) * kap * self.r + slack
        under = qm - math.sqrt(2.0 * log / T)
        ratio = 1.0
        if under > 0.0:
            beta = 1.0 + 8.0 * kap**2 + 32.0 * kap**2 * (1.0 + 2.0 * kap) ** 2 * lam**2 / under
            ratio = math.sqrt(beta / self.beta)
            self.beta = beta
        decay = 0.5 if self.n is not None else 2.0**-0.25
        if self.eta_rule == "halve":
            self.eta *= decay
        elif self.eta_rule == "lemma1":
            self.eta *= decay * ratio
        else:
            self.eta = min(self.eta, self.eta * decay * ratio)
        self.wsum = np.zeros(self.w.size)
        self.asum = self.bsum = self.wsum_weight = 0.0
        self.k += 1
        self.position = 0
        if self.n is None:
            self.length *= 2
