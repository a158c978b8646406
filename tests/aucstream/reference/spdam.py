"""SPDAM: stochastic primal-dual AUC maximization, over a fixed set and on a stream with a window.

[NYL19] Natole, Ying, Lyu, *Stochastic AUC Optimization Algorithms With Linear Convergence*, Frontiers in
Applied Mathematics and Statistics 2019, Table 1 and Theorem 4.1, with the corrections given below.
"""

from __future__ import annotations

import math

import numpy as np

from .randomness import Generator
from .row_scale import RowScale
from .spam import scaled_rows


class PrimalDual:
    """One finite problem: its data, parameters, and the point (be, w, w_ext, u).

    For n rows with mean-one weights om_i, p_+ = (1/n) sum of om_i over positives, p_- = 1 - p_+, weighted
    class means m+-, bvec = m- - m+,

        xbar_i = sqrt(om_i) (x_i - m_{y_i}) / sqrt(p_{y_i})
        g(w)   = (bvec'w)^2/2 + bvec'w + lam/2 |w|^2
        min_w max_be (1/n) sum_i [be_i w'xbar_i - be_i^2/2] + g(w) = min_w (L(w) - 1)/2 + lam/2 |w|^2.

    ([NYL19] (13) prints sqrt(2 p) and |be|^2/2 without 1/n: with (11) halved neither belongs there.) The
    minimiser is (S + mu mu' + lam I)^-1 mu.

    Parameters, for subsets of m rows and kbar = max |xbar_i|, are those that the proof of Theorem 4.1 needs:
    tau = 1/(4 sigma kbar^2), theta = 1 - lam/(lam + 2 sigma kbar^2), and both contraction factors equal,
    4 m kbar^2 sigma^2 - 2 (n-m) lam sigma - n lam = 0; the printed sigma lacks a factor lam.
    """

    def __init__(self, rows: np.ndarray, y: np.ndarray, weights: np.ndarray, lam: float, batch: int) -> None:
        n = y.size
        om = weights * (n / weights.sum())
        share = {1: float(om[y > 0].sum()) / n, -1: float(om[y <= 0].sum()) / n}
        self.m_pos = om[y > 0] @ rows[y > 0] / (n * share[1])
        self.m_neg = om[y <= 0] @ rows[y <= 0] / (n * share[-1])
        self.bvec = self.m_neg - self.m_pos
        centred = np.where(y[:, None] > 0, rows - self.m_pos, rows - self.m_neg)
        share_of_row = np.where(y > 0, share[1], share[-1])
        self.xbar = centred * np.sqrt(om / share_of_row)[:, None]
        self.n = n
        self.m = m = min(batch, n)
        self.lam = lam
        self.kbar = math.sqrt(float((self.xbar**2).sum(axis=1).max()))
        k2 = self.kbar**2
        if k2 > 0.0:
            root = math.sqrt((n - m) ** 2 + 4.0 * n * m * k2 / lam)
            self.sigma = lam * ((n - m) + root) / (4.0 * m * k2)
            self.tau = 1.0 / (4.0 * self.sigma * k2)
            self.theta = 1.0 - lam / (lam + 2.0 * self.sigma * k2)
        self.start(np.zeros(rows.shape[1]), np.zeros(n))

    def start(self, w: np.ndarray, be: np.ndarray) -> None:
        """Set the point: u = (1/n) sum be_i xbar_i, w_ext = w."""
        self.w = self.w_ext = w
        self.be = be
        self.u = self.xbar.T @ be / self.n
        self.order = np.arange(self.n)

    def value(self, w: np.ndarray) -> float:
        """Return P(w) = (1/2) mean (w'xbar_i)^2 + g(w) = (L(w) - 1)/2 + lam/2 |w|^2."""
        b = float(self.bvec @ w)
        return 0.5 * float(((self.xbar @ w) ** 2).mean()) + 0.5 * b * b + b + 0.5 * self.lam * float(w @ w)

    def best_multiple(self, w: np.ndarray) -> np.ndarray:
        """Return c w with P(c w) least: c = -bvec'w / (mean (w'xbar_i)^2 + (bvec'w)^2 + lam |w|^2)."""
        b = float(self.bvec @ w)
        curvature = float(((self.xbar @ w) ** 2).mean()) + b * b + self.lam * float(w @ w)
        return w * (-b / curvature) if curvature > 0.0 else w

    def subset(self, rng: Generator) -> np.ndarray:
        """Return m different rows: for j < m, `order` swaps places j and j + U{0..n-j-1}.

        `order` is 0..n-1 at the start of a run and is not put back in between.
        """
        for j in range(self.m):
            k = j + rng.below(self.n - j)
            self.order[j], self.order[k] = self.order[k], self.order[j]
        return self.order[: self.m].copy()

    def iterate(self, rows: np.ndarray) -> None:
        """Take one iteration on the given subset [NYL19 Table 1, with xbar_i for x_i]."""
        X = self.xbar[rows]
        be = (self.be[rows] + self.sigma * (X @ self.w_ext)) / (1.0 + self.sigma)
        du = X.T @ (be - self.be[rows])
        self.be[rows] = be
        ubar = self.u + du / self.m
        self.u = self.u + du / self.n
        c = self.lam + 1.0 / self.tau
        r = self.w / self.tau - ubar - self.bvec
        b2 = float(self.bvec @ self.bvec)
        w = (r - self.bvec * (float(self.bvec @ r) / (c + b2))) / c
        self.w_ext = w + self.theta * (w - self.w)
        self.w = w


class SPDAM:
    """Streaming form (ours) on a window of the `n_buffer` most recent rows with their dual variables.

    An arrival takes slot (arrivals - 1) mod n_buffer of the window; its dual is unset; `since` += 1. If
    `since` >= max(16, floor(refresh_frac rows)), with `rows` now in the window, and both classes are in it:
    the `PrimalDual` problem of the window is solved from w_ext = w and the duals kept, those unset being
    w'xbar_i, by a block of ceil(passes n_B/m) iterations, m = min(batch, n_B). Then since = 0.

    Guard: with P0 = min(P(w_before), 0), while P(w) > P0 up to three more blocks are run; if it still is,
    four blocks from be = 0, w = 0; if it still is, w is the better one (by P; w_before on a tie) of the best
    multiples of w_before and of the w reached, with be_i = w'xbar_i. So P(w) <= P0 after every solve. (P(w)
    not a number counts as above.) A run from zero starts `order` anew. Falling back on w_before itself can
    freeze the learner on its first few solves: blocks from zero overshoot in length, not in direction.

    Output: the average of the w after each solve, weighted by the arrivals since the solve before; 0 before
    the first.

    Scale: rows are shortened before they enter the window; the window's problem in raw units has
    lam kappa_t^2, with the kappa_t of the moment of solving; sigma and theta do not change by that, tau is
    divided by kappa_t^2.

    Sample weights: there is no step of a row here, so a weight is the row's share in p, m+- and in the mean
    over the window (relative to the others). om = 0 changes nothing at all.

    If every xbar is 0 the variance term is absent: w = -bvec/(|bvec|^2 + lam) directly.
    """

    def __init__(
        self,
        lam: float = 3e-3,
        batch: int = 16,
        passes: float = 0.5,
        n_buffer: int = 1000,
        refresh_frac: float = 0.25,
        kappa: float | None = None,
        seed: int = 0,
    ) -> None:
        self.lam = lam
        self.batch = batch
        self.passes = passes
        self.n_buffer = n_buffer
        self.refresh_frac = refresh_frac
        self.scale = RowScale(kappa)
        self.rng = Generator(seed)
        self.rows: list[np.ndarray] = []
        self.labels: list[float] = []
        self.weights: list[float] = []
        self.be: list[float | None] = []
        self.arrivals = 0
        self.since = 0
        self.solves = 0
        self.averaged = 0
        self.w = self.wbar = np.zeros(0)

    @property
    def kappa_t(self) -> float:
        """What rows are divided by at present."""
        return self.scale.unit

    def score(self, x: np.ndarray) -> float:
        """Return the output score of x, wbar'x."""
        return float(self.wbar @ x) if self.wbar.size else 0.0

    def learn(self, x: np.ndarray, y: float, weight: float = 1.0) -> float:
        """Take one arrival; return the output score of x before it."""
        if self.w.size == 0:
            self.w = self.wbar = np.zeros(x.size)
        score = self.score(x)
        if weight == 0.0:
            return score
        _, factor = self.scale.see(x)
        if self.scale.restart != 1.0:
            self.rows = [row * self.scale.restart for row in self.rows]
        if len(self.rows) < self.n_buffer:
            self.rows.append(factor * x)
            self.labels.append(y)
            self.weights.append(weight)
            self.be.append(None)
        else:
            slot = self.arrivals % self.n_buffer
            self.rows[slot], self.labels[slot] = factor * x, y
            self.weights[slot], self.be[slot] = weight, None
        self.arrivals += 1
        self.since += 1
        due = max(16, math.floor(self.refresh_frac * len(self.rows)))
        if self.since >= due and min(self.labels) <= 0 < max(self.labels):
            self._solve()
        return score

    def _solve(self) -> None:
        """Solve on the window and take the result into the average."""
        lam = self.lam * self.scale.unit**2
        labels, weights = np.array(self.labels), np.array(self.weights)
        problem = PrimalDual(np.array(self.rows), labels, weights, lam, self.batch)
        before = self.w
        if problem.kbar == 0.0:
            w = -problem.bvec / (float(problem.bvec @ problem.bvec) + lam)
            problem.start(w, np.zeros(problem.n))
        else:
            fresh = problem.xbar @ before
            be = np.array([new if old is None else old for old, new in zip(self.be, fresh, strict=True)])
            problem.start(before, be)
            target = min(problem.value(before), 0.0)
            good = self._blocks(problem, 4, target)
            if not good:
                problem.start(np.zeros(before.size), np.zeros(problem.n))
                self._blocks(problem, 4, -math.inf)
                good = problem.value(problem.w) <= target
            if not good:
                kept, reached = problem.best_multiple(before), problem.best_multiple(problem.w)
                w = reached if problem.value(reached) < problem.value(kept) else kept
                problem.start(w, problem.xbar @ w)
        self.w = problem.w
        self.be = list(problem.be)
        self.averaged += self.since
        self.wbar = self.wbar + (self.w - self.wbar) * (self.since / self.averaged)
        self.since = 0
        self.solves += 1

    def _blocks(self, problem: PrimalDual, most: int, target: float) -> bool:
        """Run up to `most` blocks until P(w) <= target; return whether it is."""
        for _ in range(most):
            for _ in range(math.ceil(self.passes * problem.n / problem.m)):
                problem.iterate(problem.subset(self.rng))
            if problem.value(problem.w) <= target:
                return True
        return False


def spdam_batch(
    X: np.ndarray,
    y: np.ndarray,
    passes: float = 5.0,
    lam: float = 1e-3,
    batch: int = 16,
    kappa: float | None = None,
    seed: int = 0,
) -> PrimalDual | None:
    """Run [NYL19 Table 1] over a fixed set for ceil(passes n/m) iterations; return the problem (its w).

    None if a class is missing (the answer is then w = 0).
    """
    if not (y > 0).any() or not (y <= 0).any():
        return None
    rows, unit = scaled_rows(X, kappa)
    problem = PrimalDual(rows, y, np.ones(y.size), lam * unit**2, batch)
    rng = Generator(seed)
    for _ in range(math.ceil(passes * problem.n / problem.m) if problem.kbar > 0.0 else 0):
        problem.iterate(problem.subset(rng))
    if problem.kbar == 0.0:
        problem.w = -problem.bvec / (float(problem.bvec @ problem.bvec) + problem.lam)
    return problem
