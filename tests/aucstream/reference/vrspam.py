"""VRSPAM: variance-reduced SPAM, over a fixed set and on a stream with a window.

[DS] Dan, Sahoo, *Variance Reduced Stochastic Proximal Algorithm for AUC Maximization*, Algorithm 1.
[JZ13] Johnson, Zhang, *Accelerating Stochastic Gradient Descent using Predictive Variance Reduction*.
"""

from __future__ import annotations

import math

import numpy as np

from .example_weights import ClassWeights
from .randomness import Generator
from .row_scale import RowScale
from .spam import prox, scaled_rows, spam_batch, spam_slope


class Moments:
    """Weighted p and class means of some rows, and the weighted mean of G at a point over the same rows."""

    def __init__(self, rows: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> None:
        self.rows, self.y = rows, y
        self.shares = np.full(y.size, 1.0 / y.size) if weights is None else weights / weights.sum()
        self.p = float(self.shares[y > 0].sum())
        self.m_pos = self.shares[y > 0] @ rows[y > 0] / self.p
        self.m_neg = self.shares[y <= 0] @ rows[y <= 0] / self.shares[y <= 0].sum()

    def slope(self, w: np.ndarray, x: np.ndarray, y: float) -> float:
        """Return c of G(w; x, y) = c x with these p and means."""
        return spam_slope(w, x, y, self.p, self.m_pos, self.m_neg)

    def mean_gradient(self, w: np.ndarray) -> np.ndarray:
        """Return sum_i om_i G(w; z_i) / sum_i om_i = grad f(w)."""
        slopes = np.array([self.slope(w, x, label) for x, label in zip(self.rows, self.y, strict=True)])
        return self.rows.T @ (slopes * self.shares)


class VRSPAM:
    """Streaming form (ours) on a window of the `n_buffer` most recent rows.

    An arrival (x, y) with sample weight om:

    1. the window takes (x, y) in slot (arrivals - 1) mod n_buffer, so that the oldest row goes;
       `since` += 1; the running class sums and counts take om x and om;
    2. return while only one class was ever seen;
    3. if `since` >= max(16, floor(refresh_frac rows)), with `rows` now in the window, and both classes are
       in it: freeze p_B, m+-_B of the window by weight, wt = w, M_B = weighted window mean of G(wt; .),
       since = 0;
       if only one class is in it the old snapshot stays, and the next arrival tries again;
    4. with a snapshot: w = prox_g(w - g (G(w; z) - G(wt; z) + M_B)), g = om' eta, both G with the frozen
       p_B, m+-_B; then inner - 1 times the same for a row drawn from U{slots}, with that row's om'. Without
       one yet: one SPAM step of size om' eta with the running p, m+- (no inner steps). om' is `by_share`
       with the rows and weights of the classes of the snapshot's window, before it of all rows;
    5. t += 1, wbar += (w - wbar)/t.

    Output: wbar. The window holds shortened rows in raw units, with their weights. Scale as in `SPAM`.
    om = 0 changes nothing at all.

    While om' is proportional to om, a step on a uniform draw has the mean direction of grad f_B(w). Where the
    cut at twice a class's mean acts it has not, but at wt = w = its zero no step moves w, whatever the om'.
    """

    def __init__(
        self,
        penalty: str = "l2",
        beta: float = 1e-4,
        beta1: float = 1e-5,
        eta: float = 0.25,
        n_buffer: int = 1000,
        refresh_frac: float = 0.5,
        inner: int = 1,
        kappa: float | None = None,
        seed: int = 0,
    ) -> None:
        self.beta = beta
        self.beta1 = beta1 if penalty == "elasticnet" else 0.0
        self.eta = eta
        self.n_buffer = n_buffer
        self.refresh_frac = refresh_frac
        self.inner = inner
        self.scale = RowScale(kappa)
        self.rng = Generator(seed)
        self.rows: list[np.ndarray] = []
        self.labels: list[float] = []
        self.weights: list[float] = []
        self.classes = ClassWeights()
        self.arrivals = 0
        self.since = 0
        self.sum_pos = self.sum_neg = np.zeros(0)
        self.n_pos = self.n_neg = 0.0
        self.snapshots = 0
        self.p_B = 0.0
        self.m_pos_B = self.m_neg_B = np.zeros(0)
        self.wt = self.M_B = np.zeros(0)
        self.w = self.wbar = np.zeros(0)
        self.t = 0

    @property
    def kappa_t(self) -> float:
        """What rows are divided by at present."""
        return self.scale.unit

    def score(self, x: np.ndarray) -> float:
        """Return the output score of x, wbar'x."""
        return float(self.wbar @ x) if self.wbar.size else 0.0

    def learn(self, x: np.ndarray, y: float, weight: float = 1.0) -> float:
        """Take the steps of one arrival; return the output score of x before them."""
        if self.w.size == 0:
            self.w = self.wbar = self.sum_pos = self.sum_neg = np.zeros(x.size)
            self.wt = self.M_B = self.m_pos_B = self.m_neg_B = np.zeros(x.size)
        score = self.score(x)
        if weight == 0.0:
            return score
        _, factor = self.scale.see(x)
        x = factor * x
        self._restart(self.scale.restart)
        # 1. window and class sums
        if len(self.rows) < self.n_buffer:
            self.rows.append(x)
            self.labels.append(y)
            self.weights.append(weight)
        else:
            slot = self.arrivals % self.n_buffer
            self.rows[slot], self.labels[slot], self.weights[slot] = x, y, weight
        self.arrivals += 1
        self.since += 1
        if y > 0:
            self.sum_pos = self.sum_pos + weight * x
            self.n_pos += weight
        else:
            self.sum_neg = self.sum_neg + weight * x
            self.n_neg += weight
        if self.snapshots == 0:
            self.classes.add(y, weight)
        # 2. one class only
        if self.n_pos == 0.0 or self.n_neg == 0.0:
            return score
        # 3. snapshot
        due = max(16, math.floor(self.refresh_frac * len(self.rows)))
        if self.since >= due and min(self.labels) <= 0 < max(self.labels):
            window = Moments(np.array(self.rows), np.array(self.labels), np.array(self.weights))
            self.classes = ClassWeights()
            for label, om in zip(self.labels, self.weights, strict=True):
                self.classes.add(label, om)
            self.p_B, self.m_pos_B, self.m_neg_B = window.p, window.m_pos, window.m_neg
            self.wt, self.M_B = self.w, window.mean_gradient(self.w)
            self.since = 0
            self.snapshots += 1
        # 4. steps
        if self.snapshots == 0:
            p = self.n_pos / (self.n_pos + self.n_neg)
            c = spam_slope(self.w, x, y, p, self.sum_pos / self.n_pos, self.sum_neg / self.n_neg)
            self._descend(c * x, self.classes.by_share(y, weight) * self.eta)
        else:
            self._reduced_step(x, y, weight)
            for _ in range(self.inner - 1):
                slot = self.rng.below(len(self.rows))
                self._reduced_step(self.rows[slot], self.labels[slot], self.weights[slot])
        # 5. average
        self.t += 1
        self.wbar = self.wbar + (self.w - self.wbar) / self.t
        return score

    def _reduced_step(self, x: np.ndarray, y: float, weight: float) -> None:
        """Take one variance-reduced step on a row."""
        c = spam_slope(self.w, x, y, self.p_B, self.m_pos_B, self.m_neg_B)
        ct = spam_slope(self.wt, x, y, self.p_B, self.m_pos_B, self.m_neg_B)
        self._descend((c - ct) * x + self.M_B, self.classes.by_share(y, weight) * self.eta)

    def _descend(self, gradient: np.ndarray, eta: float) -> None:
        """Step along minus the gradient (of raw w), then the prox."""
        unit = self.scale.unit
        self.w = prox(self.w - eta * (gradient / unit) / unit, eta, self.beta, self.beta1 / unit)

    def _restart(self, ratio: float) -> None:
        """Multiply all that is in units of rows; see `RowScale`."""
        if ratio != 1.0:
            self.rows = [row * ratio for row in self.rows]
            self.sum_pos, self.sum_neg = self.sum_pos * ratio, self.sum_neg * ratio
            self.m_pos_B, self.m_neg_B = self.m_pos_B * ratio, self.m_neg_B * ratio
            self.M_B = self.M_B * ratio


def vrspam_batch(
    X: np.ndarray,
    y: np.ndarray,
    epochs: int = 10,
    penalty: str = "l2",
    beta: float = 1e-4,
    beta1: float = 1e-5,
    eta: float = 0.25,
    m: int | None = None,
    kappa: float | None = None,
    seed: int = 0,
) -> np.ndarray:
    """Run [DS Algorithm 1] over a fixed set; return the last w.

    Start: the average of one pass of SPAM with the set's p and means and eta = 1/sqrt(t). Each epoch:
    wt = w, M = (1/n) sum_i G(wt; z_i); then m times (None: n) i ~ U{0..n-1} and
    w = prox_eta(w - eta (G(w; z_i) - G(wt; z_i) + M)). 0 if a class is missing.
    """
    if not (y > 0).any() or not (y <= 0).any():
        return np.zeros(X.shape[1])
    _, w = spam_batch(X, y, 1, penalty, beta, beta1, C=1.0, cap=math.inf, kappa=kappa)
    rows, unit = scaled_rows(X, kappa)
    moments = Moments(rows, y)
    rng = Generator(seed)
    l1 = beta1 / unit if penalty == "elasticnet" else 0.0
    for _ in range(epochs):
        wt, M = w, moments.mean_gradient(w)
        for _ in range(y.size if m is None else m):
            i = rng.below(y.size)
            c = moments.slope(w, rows[i], y[i]) - moments.slope(wt, rows[i], y[i])
            w = prox(w - eta * ((c * rows[i] + M) / unit) / unit, eta, beta, l1)
    return w
