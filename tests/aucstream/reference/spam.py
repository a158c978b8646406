"""SPAM: stochastic proximal AUC maximization, with an l2 or an elastic-net penalty.

[NYL18] Natole, Ying, Lyu, *Stochastic Proximal Algorithms for AUC Maximization*, ICML 2018, Algorithm 1.
"""

from __future__ import annotations

import math

import numpy as np

from .example_weights import ClassWeights
from .row_scale import RowScale


def spam_slope(w: np.ndarray, x: np.ndarray, y: float, p: float, m_pos: np.ndarray, m_neg: np.ndarray) -> float:
    """Return c of G(w; z) = c x, the unbiased estimate of grad f [NYL18; the opposite mean appears].

    G = 2q (w'(x - m-) - 1) x for y = 1 and 2p (w'(x - m+) + 1) x for y = -1.
    """
    if y > 0:
        return 2.0 * (1.0 - p) * (float(w @ x) - float(w @ m_neg) - 1.0)
    return 2.0 * p * (float(w @ x) - float(w @ m_pos) + 1.0)


def prox(u: np.ndarray, eta: float, beta: float, beta1: float) -> np.ndarray:
    """Return argmin_w |w-u|^2/2 + eta (beta/2 |w|^2 + beta1 |w|_1) [NYL18].

    = sign(u) max(|u| - eta beta1, 0) / (1 + eta beta)
    """
    return np.sign(u) * np.maximum(np.abs(u) - eta * beta1, 0.0) / (1.0 + eta * beta)


class SPAM:
    """f(w) + beta/2 |w|^2 (+ beta1 |w|_1 with penalty "elasticnet"), f = p q E(1 - w'(x - x'))^2.

    One step on (x, y) with sample weight om:

    1. the class sum of y gets om x, its count om; nothing more happens (t stays) until both counts are
       positive; p and m+- from the running sums, this sample included (ours: the paper uses those of the
       whole training set, see `spam_batch`);
    2. t += 1; eta = min(cap, C/sqrt(t)) ("sqrt") or min(cap, 1/(beta (t+1))) ("strong"), times om if cap = inf, else
       times `by_share`;
    3. w = prox_eta(w - eta G(w; z));
    4. wbar += (w - wbar)/t, after the update, uniform over steps whatever the weights.

    Output: wbar. ``kappa=None``: as on x/kappa_t; in raw units the gradient step is eta/kappa_t^2, the l1
    threshold eta beta1/kappa_t, the l2 shrink 1/(1 + eta beta) as it is. Class sums hold shortened rows in
    raw units. om = 0 changes nothing at all.
    """

    def __init__(
        self,
        penalty: str = "l2",
        beta: float = 1e-4,
        beta1: float = 1e-5,
        C: float = 10.0,
        cap: float = 0.1,
        schedule: str = "sqrt",
        kappa: float | None = None,
        half_life: float | None = None,
    ) -> None:
        self.keep = 1.0 if half_life is None else 2.0 ** (-1.0 / half_life)  # what all counts fade by at each row
        self.averaged = 0.0  # iterates, faded
        self.beta = beta
        self.beta1 = beta1 if penalty == "elasticnet" else 0.0
        self.C = C
        self.cap = cap
        self.schedule = schedule
        self.scale = RowScale(kappa)
        self.w = np.zeros(0)
        self.wbar = np.zeros(0)
        self.sum_pos = self.sum_neg = np.zeros(0)
        self.n_pos = self.n_neg = 0.0
        self.classes = ClassWeights()
        self.t = 0.0

    @property
    def kappa_t(self) -> float:
        """What rows are divided by at present."""
        return self.scale.unit

    def score(self, x: np.ndarray) -> float:
        """Return the output score of x, wbar'x."""
        return float(self.wbar @ x) if self.wbar.size else 0.0

    def learn(self, x: np.ndarray, y: float, weight: float = 1.0) -> float:
        """Take one step; return the output score of x before it."""
        if self.w.size == 0:
            self.w = self.wbar = self.sum_pos = self.sum_neg = np.zeros(x.size)
        score = self.score(x)
        if weight == 0.0:
            return score
        unit, factor = self.scale.see(x)
        x = factor * x
        self.sum_pos, self.sum_neg = self.sum_pos * self.scale.restart, self.sum_neg * self.scale.restart
        self.sum_pos, self.sum_neg = self.keep * self.sum_pos, self.keep * self.sum_neg
        self.n_pos, self.n_neg = self.keep * self.n_pos, self.keep * self.n_neg
        self.t, self.averaged = self.keep * self.t, self.keep * self.averaged
        if y > 0:
            self.sum_pos = self.sum_pos + weight * x
            self.n_pos += weight
        else:
            self.sum_neg = self.sum_neg + weight * x
            self.n_neg += weight
        self.classes.add(y, weight)
        if self.n_pos == 0.0 or self.n_neg == 0.0:
            return score
        p = self.n_pos / (self.n_pos + self.n_neg)
        self.t += 1
        counted = self.classes.by_share(y, weight) if self.cap < math.inf else weight
        eta = counted * spam_step_size(self.t, self.C, self.cap, self.schedule, self.beta)
        c = spam_slope(self.w, x, y, p, self.sum_pos / self.n_pos, self.sum_neg / self.n_neg)
        self.w = prox(self.w - eta * c * (x / unit) / unit, eta, self.beta, self.beta1 / unit)
        self.averaged += 1.0
        self.wbar = self.wbar + (self.w - self.wbar) / self.averaged
        return score


def spam_step_size(t: float, C: float, cap: float, schedule: str, beta: float) -> float:
    """Return eta_t; the cap alone where 1/(beta (t+1)) is infinite."""
    if schedule == "strong" and beta == 0.0:
        return cap
    return min(cap, C / math.sqrt(t) if schedule == "sqrt" else 1.0 / (beta * (t + 1)))


def scaled_rows(X: np.ndarray, kappa: float | None) -> tuple[np.ndarray, float]:
    """Return the rows of a fixed set as a stream would learn them, and the unit after the last one.

    The scale sees the rows in order, each being shortened at its turn; see `RowScale`.
    """
    scale = RowScale(kappa)
    rows = np.zeros_like(X)
    for i, x in enumerate(X):
        _, factor = scale.see(x)
        rows[:i] *= scale.restart
        rows[i] = factor * x
    return rows, scale.unit


def spam_batch(
    X: np.ndarray,
    y: np.ndarray,
    passes: int = 1,
    penalty: str = "l2",
    beta: float = 1e-4,
    beta1: float = 1e-5,
    C: float = 10.0,
    cap: float = 0.1,
    schedule: str = "sqrt",
    kappa: float | None = None,
    order: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Run [NYL18 Algorithm 1] with p and m+- of the whole set; return (w, wbar).

    The rows are taken in the order given (row numbers), or `passes` times as they stand.
    """
    w, wbar = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    if not (y > 0).any() or not (y <= 0).any():
        return w, wbar
    rows, unit = scaled_rows(X, kappa)
    p, m_pos, m_neg = float((y > 0).mean()), rows[y > 0].mean(axis=0), rows[y <= 0].mean(axis=0)
    l1 = beta1 / unit if penalty == "elasticnet" else 0.0
    visited = np.tile(np.arange(y.size), passes) if order is None else order
    for t, i in enumerate(visited, start=1):
        eta = spam_step_size(t, C, cap, schedule, beta)
        c = spam_slope(w, rows[i], y[i], p, m_pos, m_neg)
        w = prox(w - eta * c * (rows[i] / unit) / unit, eta, beta, l1)
        wbar = wbar + (w - wbar) / t
    return w, wbar
