"""PSAM: proximal stochastic AUC maximization.

[PSAM] Khalid, Ray, Chitsaz, *Proximal Stochastic AUC Maximization*, Algorithm 1 and its appendix.
The schedules of the shrink and of the average are those of SGD-QN (Bordes, Bottou, Gallinari, JMLR 2009).
"""

from __future__ import annotations

import numpy as np

from .buffers import Buffer
from .randomness import Generator
from .row_scale import RowScale


def hinge_prox_gradient(margin: float, eta: float, zz: float) -> float:
    """Return g of prox(w) = argmin_v eta (1 - v'z)_+ + |v - w|^2/2 = w - eta g z [PSAM, appendix].

    With r = (1 - w'z)/(eta z'z): 0 if r <= 0, -1 if r >= 1, else -r, which lands on margin 1. 0 if z = 0.
    """
    if zz == 0.0:
        return 0.0
    r = (1.0 - margin) / (eta * zz)
    return 0.0 if r <= 0.0 else -min(r, 1.0)


class PSAM:
    """mean over pairs of (1 - w'z)_+ + lam/2 |w|^2, one sampled pair at a time; bounded memory.

    One pair step [PSAM, Alg. 1], from t = q = 0, rcount = rskip, acount = askip:

    * t += 1, eta = 1/(lam (t+t0)); w = prox of eta times the pair's hinge: w -= eta g z;
    * rcount -= 1; at 0: w *= 1 - rskip/(t+t0), rcount = rskip;
    * acount -= 1; at 0: wbar = (q wbar + w)/(q+1), q += 1, acount = askip.

    A pair with z = 0 moves no weight by itself, but counts as a step. Output wbar if q > 0 else w.
    t0 = None is 1/lam.

    Streaming: an arrival (x, y) does

    1. if the opposite buffer is not empty, `fresh` times: b ~ U{slots of opposite}, step(s (x - opp[b]));
    2. own.offer(x);
    3. if both are not empty, `replay` times: i ~ U{positive slots}, j ~ U{negative slots},
       step(pos[i] - neg[j]);

    one generator, draws in this order.

    Fading (``half_life``): before all that, t, q and the offers that each buffer counts are multiplied by
    2^(-1/half_life).

    Scale (``kappa=None``): as on x/kappa_t with w in raw units: eta becomes eta/kappa_t^2 and lam becomes
    lam kappa_t^2, so the shrink is as it was. A long row is shortened before its pairs are formed and before
    it is stored: buffers hold shortened rows in raw units. Replayed pairs use the kappa_t of the moment.

    Sample weight om multiplies eta in the fresh pair steps of its row: the largest step is om eta, and a
    step never goes beyond margin 1. The shrink and the average go by pair steps, unweighted; replayed pairs
    carry no weight; the buffer takes the row once. om = 0 changes nothing at all.
    """

    def __init__(
        self,
        lam: float = 1e-5,
        t0: float | None = None,
        rskip: int = 16,
        askip: int = 1,
        fresh: int = 5,
        replay: int = 0,
        capacity: int = 1000,
        policy: str = "reservoir",
        kappa: float | None = None,
        seed: int = 0,
        half_life: float | None = None,
    ) -> None:
        self.keep = 1.0 if half_life is None else 2.0 ** (-1.0 / half_life)
        self.lam = lam
        self.t0 = 1.0 / lam if t0 is None else t0
        self.rskip = rskip
        self.askip = askip
        self.fresh = fresh
        self.replay = replay
        self.scale = RowScale(kappa)
        self.rng = Generator(seed)
        self.pos = Buffer(capacity, policy, self.rng)
        self.neg = Buffer(capacity, policy, self.rng)
        self.w = np.zeros(0)
        self.wbar = np.zeros(0)
        self.t = 0.0
        self.q = 0.0
        self.rcount = rskip
        self.acount = askip

    @property
    def kappa_t(self) -> float:
        """What rows are divided by at present."""
        return self.scale.unit

    @property
    def output(self) -> np.ndarray:
        """The output weights."""
        return self.wbar if self.q > 0 else self.w

    def score(self, x: np.ndarray) -> float:
        """Return the output score of x."""
        return float(self.output @ x) if self.w.size else 0.0

    def learn(self, x: np.ndarray, y: float, weight: float = 1.0) -> float:
        """Take the steps of one arrival; return the output score of x before them."""
        if self.w.size == 0:
            self.w, self.wbar = np.zeros(x.size), np.zeros(x.size)
        score = self.score(x)
        if weight == 0.0:
            return score
        _, factor = self.scale.see(x)
        x = factor * x
        self.t *= self.keep
        self.q *= self.keep
        for buffer in (self.pos, self.neg):
            buffer.fade(self.keep)
        self.pos.rescale(self.scale.restart)
        self.neg.rescale(self.scale.restart)
        own, opposite, sign = (self.pos, self.neg, 1.0) if y > 0 else (self.neg, self.pos, -1.0)
        if len(opposite) > 0:
            for _ in range(self.fresh):
                b = self.rng.below(len(opposite))
                self._step(sign * (x - opposite.rows[b]), weight)
        own.offer(x)
        self.replay_pairs(self.replay)
        return score

    def replay_pairs(self, count: int) -> None:
        """Take `count` steps on pairs of buffered rows, i (positive) drawn before j (negative)."""
        if len(self.pos) == 0 or len(self.neg) == 0:
            return
        for _ in range(count):
            i = self.rng.below(len(self.pos))
            j = self.rng.below(len(self.neg))
            self._step(self.pos.rows[i] - self.neg.rows[j], 1.0)

    def _gradient(self, margin: float, eta: float, zz: float) -> float:
        """Return g of the step w -= eta g z."""
        return hinge_prox_gradient(margin, eta, zz)

    def _step(self, z: np.ndarray, weight: float) -> None:
        """Take one pair step."""
        unit = self.scale.unit
        self.t += 1
        eta = weight / (self.lam * (self.t + self.t0)) / unit / unit
        g = self._gradient(float(self.w @ z), eta, float(z @ z))
        self.w = self.w - eta * g * z
        self.rcount -= 1
        if self.rcount <= 0:
            self.w = self.w * max(0.0, 1.0 - self.rskip / (self.t + self.t0))
            self.rcount = self.rskip
        self.acount -= 1
        if self.acount <= 0:
            self.wbar = (self.q * self.wbar + self.w) / (self.q + 1)
            self.q += 1
            self.acount = self.askip


def psam_batch(
    X: np.ndarray,
    y: np.ndarray,
    steps: int,
    lam: float = 1e-5,
    t0: float | None = None,
    rskip: int = 16,
    askip: int = 1,
    kappa: float | None = None,
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Run Algorithm 1 of [PSAM] over a fixed set, line by line; return (w, output).

    Each step draws i uniform over the positives, then j uniform over the negatives, in order of the rows.
    ``kappa=None``: the scale first sees all rows in order, each being shortened at its turn, and its last
    kappa_t serves all steps. With a class missing, w = 0.
    """
    t0 = 1.0 / lam if t0 is None else t0
    scale = RowScale(kappa)
    rows: list[np.ndarray] = []
    for x in X:
        _, factor = scale.see(x)
        rows = [row * scale.restart for row in rows] if scale.restart != 1.0 else rows
        rows.append(factor * x)
    positives = [x for x, label in zip(rows, y, strict=True) if label > 0]
    negatives = [x for x, label in zip(rows, y, strict=True) if label <= 0]
    w, wbar = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    if not positives or not negatives:
        return w, w
    rng = Generator(seed)
    q, rcount, acount = 0, rskip, askip
    for t in range(1, steps + 1):
        i = rng.below(len(positives))
        j = rng.below(len(negatives))
        z = positives[i] - negatives[j]
        eta = 1.0 / (lam * (t + t0)) / scale.unit / scale.unit
        w = w - eta * hinge_prox_gradient(float(w @ z), eta, float(z @ z)) * z
        rcount -= 1
        if rcount <= 0:
            w = w * (1.0 - rskip / (t + t0))
            rcount = rskip
        acount -= 1
        if acount <= 0:
            wbar = (q * wbar + w) / (q + 1)
            q += 1
            acount = askip
    return w, (wbar if q > 0 else w)
