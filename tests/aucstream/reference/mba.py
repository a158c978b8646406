"""MBA: mini-batch AUC optimization, with the moments of all pairs.

[MBA] Gultekin, Saha, Ratnaparkhi, Paisley, *MBA: Mini-Batch AUC Optimization*, Eqs. 9, 10, Algorithm 1.
"""

from __future__ import annotations

import math

import numpy as np

from .buffers import Buffer
from .moments import ClassMoments, SketchedScatter
from .randomness import Generator


def pair_moments(
    pos: ClassMoments | SketchedScatter, neg: ClassMoments | SketchedScatter
) -> tuple[np.ndarray, np.ndarray]:
    """Return (mu, V): mean and covariance of z = x+ - x- over all pairs; Sigma = V + mu mu' [MBA Eq. 9].

    V = S+ + S-, the covariance of a difference of independent variables; a vector if diagonal.
    """
    return pos.m - neg.m, pos.S + neg.S


def soft(u: np.ndarray, threshold: float) -> np.ndarray:
    """Return sign(u) max(|u| - threshold, 0)."""
    return np.sign(u) * np.maximum(np.abs(u) - threshold, 0.0)


def kkt_residual(w: np.ndarray, r: np.ndarray, lam1: float, lam2: float) -> float:
    """Return the largest violation of optimality at w, r = mu - Sigma w, g = lam2 w - r.

    |g_j + lam1 sign w_j| where w_j != 0, (|g_j| - lam1)_+ where w_j = 0.
    """
    g = lam2 * w - r
    off = np.maximum(np.abs(g) - lam1, 0.0)
    return float(np.max(np.where(w != 0.0, np.abs(g + lam1 * np.sign(w)), off), initial=0.0))


def solve_l2(mu: np.ndarray, Sigma: np.ndarray, lam2: float) -> np.ndarray:
    """Return (Sigma + lam2 I)^-1 mu; the solution of least norm if that is singular."""
    try:
        factor = np.linalg.cholesky(Sigma + lam2 * np.eye(mu.size))
    except np.linalg.LinAlgError:
        return np.linalg.lstsq(Sigma + lam2 * np.eye(mu.size), mu, rcond=None)[0]
    return np.linalg.solve(factor.T, np.linalg.solve(factor, mu))


def solve_elastic_net(
    mu: np.ndarray,
    Sigma: np.ndarray,
    lam1: float,
    lam2: float,
    start: np.ndarray,
    tol: float = 1e-6,
    sweeps: int = 1000,
) -> np.ndarray:
    """Return argmin w'Sigma w/2 - w'mu + lam1 |w|_1 + lam2/2 |w|^2 by cyclic coordinate descent.

    w_j = soft(mu_j - sum_{k != j} Sigma_jk w_k, lam1) / (Sigma_jj + lam2), j = 0..d-1, from `start`, with
    r = mu - Sigma w kept current. After each sweep: stop if the KKT residual is <= tol max|mu|. A column
    with Sigma_jj + lam2 = 0 is left at 0.
    """
    w = start.copy()
    r = mu - Sigma @ w
    for _ in range(sweeps):
        for j in range(mu.size):
            curvature = Sigma[j, j] + lam2
            new = 0.0
            if curvature > 0.0:
                u = r[j] + Sigma[j, j] * w[j]
                new = math.copysign(max(abs(u) - lam1, 0.0), u) / curvature
            if new != w[j]:
                r = r - Sigma[:, j] * (new - w[j])
                w[j] = new
        if kkt_residual(w, r, lam1, lam2) <= tol * float(np.max(np.abs(mu), initial=0.0)):
            break
    return w


def solve_diagonal(mu: np.ndarray, v: np.ndarray, lam1: float, lam2: float) -> np.ndarray:
    """Return the minimiser for Sigma = diag(v) + mu mu': w = soft(c mu, lam1)/(v + lam2), c = 1 - mu'w.

    c is the root of the increasing function c - 1 + mu'w(c) on (0, 1], by bisection.
    """
    curvature = np.where(v + lam2 > 0.0, v + lam2, math.inf)
    low, high = 0.0, 1.0
    while True:
        c = 0.5 * (low + high)
        if c in (low, high):
            return soft(high * mu, lam1) / curvature
        if c - 1.0 + float(mu @ (soft(c * mu, lam1) / curvature)) > 0.0:
            high = c
        else:
            low = c


def due(events: int, last: int, used: int, cheap: bool = False) -> bool:
    """Return whether the schedule asks for a solve at this event; `used` columns have held a non-zero value."""
    if events < 64 and events & (events - 1) == 0:
        return True
    wait = min(used / 4.0, max(16.0, last / 16.0)) if cheap else used / 4.0
    return events - last >= max(wait, last / 100.0)


class MBA:
    """min w'Sigma w/2 - w'mu + lam1 |w|_1 + lam2/2 |w|^2, mu and Sigma the moments of all pairs so far.

    A row (x, y) with sample weight om: events += 1; with a half-life h, rho = 2^(-1/h): the class of y is
    multiplied by rho ("class" clock), or by rho^(events since it was last touched) ("global"); then it takes
    x with weight om. If a solve is due and both classes were seen, w is solved anew.

    lam2 None: 0.3 tr(Sigma)/n_eff, n_eff = n+ n-/(n+ + n-), with the counts decayed to now. lam1 = 0 is solved
    directly, lam1 > 0 by coordinate descent from the last solution, `moments` "diag" by bisection; "sketch" puts
    the sketched covariances (`sketch_size` rows kept a class) in the place of S+ and S-, but not in tr(Sigma).

    Due: events is a power of two below 64, or events - last >= max(d/4, last/100), `last` the events at the
    last solve (diag: max(min(d/4, max(16, last/16)), last/100)), d the columns that have held a non-zero value so far (so that columns of zeros change
    nothing, and neither does learning of a row's names before the row). While a class is missing nothing is solved and `last` stays. Scoring never solves; output: w.
    om = 0 changes nothing at all. There is no kappa: with lam1 = 0 and lam2 None or 0, rows c x give w/c;
    with other penalties the scores depend on the scale of the rows.
    """

    def __init__(
        self,
        lam1: float = 0.0,
        lam2: float | None = None,
        half_life: float | None = None,
        clock: str = "class",
        moments: str = "full",
        sketch_size: int = 64,
    ) -> None:
        self.lam1 = lam1
        self.lam2 = lam2
        self.rho = 1.0 if half_life is None else 2.0 ** (-1.0 / half_life)
        self.clock = clock
        self.moments = moments
        self.sketch_size = sketch_size
        self.pos, self.neg = self._empty(0), self._empty(0)
        self.touched_pos = self.touched_neg = 0
        self.events = 0
        self.last = 0
        self.w = np.zeros(0)
        self.used = np.zeros(0, dtype=bool)

    @property
    def output(self) -> np.ndarray:
        """The output weights."""
        return self.w

    def score(self, x: np.ndarray) -> float:
        """Return the output score of x, w'x."""
        return float(self.w @ x) if self.w.size else 0.0

    def learn(self, x: np.ndarray, y: float, weight: float = 1.0) -> float:
        """Take one row; return the output score of x before it."""
        if self.w.size == 0:
            self.w = np.zeros(x.size)
            self.used = np.zeros(x.size, dtype=bool)
            self.pos, self.neg = self._empty(x.size), self._empty(x.size)
        score = self.score(x)
        if weight == 0.0:
            return score
        self.events += 1
        self.used = self.used | (x != 0.0)
        own, touched = (self.pos, self.touched_pos) if y > 0 else (self.neg, self.touched_neg)
        if self.rho < 1.0:
            own.decay(self.rho if self.clock == "class" else self.rho ** (self.events - touched))
        if y > 0:
            self.touched_pos = self.events
        else:
            self.touched_neg = self.events
        own.add(x, weight)
        if self.due() and self.pos.n > 0.0 and self.neg.n > 0.0:
            self.solve()
        return score

    def _empty(self, d: int) -> ClassMoments | SketchedScatter:
        """Return the moments of a class before its first row."""
        if self.moments == "sketch":
            return SketchedScatter(d, self.sketch_size)
        return ClassMoments(d, diagonal=self.moments == "diag")

    @staticmethod
    def _trace(moments: ClassMoments | SketchedScatter) -> float:
        """Return the trace of a class's covariance."""
        if isinstance(moments, SketchedScatter):
            return moments.trace / moments.n
        return float(moments.S.sum() if moments.diagonal else np.trace(moments.S))

    def due(self) -> bool:
        """Return whether the schedule asks for a solve at this event."""
        return due(self.events, self.last, int(self.used.sum()), self.moments == "diag")

    def solve(self) -> None:
        """Solve for w with the present moments."""
        mu, V = pair_moments(self.pos, self.neg)
        n_pos, n_neg = self.pos.n, self.neg.n
        if self.clock == "global":
            n_pos *= self.rho ** (self.events - self.touched_pos)
            n_neg *= self.rho ** (self.events - self.touched_neg)
        trace = self._trace(self.pos) + self._trace(self.neg) + float(mu @ mu)
        lam2 = 0.3 * trace * (1.0 / n_pos + 1.0 / n_neg) if self.lam2 is None else self.lam2
        if self.moments == "diag":
            self.w = solve_diagonal(mu, V, self.lam1, lam2)
        elif self.lam1 > 0.0:
            self.w = solve_elastic_net(mu, V + np.outer(mu, mu), self.lam1, lam2, self.w)
        else:
            self.w = solve_l2(mu, V + np.outer(mu, mu), lam2)
        self.last = self.events


class SampledMBA:
    """The stream form of [MBA Algorithm 1]: each arrival makes `sampled_pairs` pairs, and w is that of all so far.

    A row (x, y) with sample weight om: events += 1. If the opposite reservoir (of `capacity` rows) is not
    empty, `sampled_pairs` times: j ~ U{its slots}, z = s (x - slot j), s = +1 for a positive x, else -1;
    P += om; A += om z; Z += om zz'. Then x is offered to its own reservoir, and its class weight n grows by om.
    mu = A/P, Sigma = Z/P; solves are due as in MBA. lam2 None: 0.3 tr(Sigma) max(1/n+ + 1/n-, 1/P).
    """

    def __init__(
        self,
        lam1: float = 0.0,
        lam2: float | None = None,
        sampled_pairs: int = 1,
        seed: int = 0,
        capacity: int = 1000,
    ) -> None:
        self.lam1 = lam1
        self.lam2 = lam2
        self.sampled_pairs = sampled_pairs
        self.rng = Generator(seed)
        self.pos, self.neg = (Buffer(capacity, "reservoir", self.rng) for _ in range(2))
        self.n_pos = self.n_neg = self.P = 0.0
        self.events = 0
        self.last = 0
        self.w = self.A = np.zeros(0)
        self.Z = np.zeros((0, 0))
        self.used = np.zeros(0, dtype=bool)

    @property
    def output(self) -> np.ndarray:
        """The output weights."""
        return self.w

    def learn(self, x: np.ndarray, y: float, weight: float = 1.0) -> float:
        """Take one row; return the output score of x before it."""
        if self.w.size == 0:
            self.w, self.A, self.Z = np.zeros(x.size), np.zeros(x.size), np.zeros((x.size, x.size))
            self.used = np.zeros(x.size, dtype=bool)
        score = float(self.w @ x)
        if weight == 0.0:
            return score
        self.events += 1
        self.used = self.used | (x != 0.0)
        own, opposite, s = (self.pos, self.neg, 1.0) if y > 0 else (self.neg, self.pos, -1.0)
        if opposite.rows:
            for _ in range(self.sampled_pairs):
                z = s * (x - opposite.rows[self.rng.below(len(opposite.rows))])
                self.P += weight
                self.A = self.A + weight * z
                self.Z = self.Z + weight * np.outer(z, z)
        own.offer(x)
        self.n_pos += weight if y > 0 else 0.0
        self.n_neg += weight if y <= 0 else 0.0
        if due(self.events, self.last, int(self.used.sum())) and self.pos.rows and self.neg.rows:
            self.solve()
        return score

    def solve(self) -> None:
        """Solve for w with the pairs so far."""
        mu, Sigma = self.A / self.P, self.Z / self.P
        inverse = max(1.0 / self.n_pos + 1.0 / self.n_neg, 1.0 / self.P)
        lam2 = 0.3 * float(np.trace(Sigma)) * inverse if self.lam2 is None else self.lam2
        if self.lam1 > 0.0:
            self.w = solve_elastic_net(mu, Sigma, self.lam1, lam2, self.w)
        else:
            self.w = solve_l2(mu, Sigma, lam2)
        self.last = self.events


def mba_sampled(
    X: np.ndarray, y: np.ndarray, batch: int, rounds: int, lam2: float, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Run [MBA Algorithm 1] with sampled pairs; return (w, mu, Sigma).

    Each round draws `batch` positive indices with replacement, then as many negative ones; pairs are matched
    by position.
    """
    rng = Generator(seed)
    pos, neg = X[y > 0], X[y <= 0]
    mu, Sigma = np.zeros(X.shape[1]), np.zeros((X.shape[1], X.shape[1]))
    for _ in range(rounds):
        i = [rng.below(len(pos)) for _ in range(batch)]
        j = [rng.below(len(neg)) for _ in range(batch)]
        Z = pos[i] - neg[j]
        mu = mu + Z.sum(axis=0) / (batch * rounds)
        Sigma = Sigma + Z.T @ Z / (batch * rounds)
    return solve_l2(mu, Sigma, lam2), mu, Sigma
