"""FSAUC: fast stochastic AUC maximization in stages around a moving centre."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple, Self, cast

import numpy as np

from aucstream.block import Floats, Ints
from aucstream.constraints import Ge, Gt, Lt, check_epochs
from aucstream.kernels.jit import jit
from aucstream.kernels.rows.arrival import LARGEST, RECOUNT, admit_row, count_row
from aucstream.kernels.rows.linear import axpy, dot
from aucstream.kernels.weights import l1ball
from aucstream.kernels.weights.example_weights import by_class
from aucstream.kernels.weights.saddle import slopes
from aucstream.learners._base.learner import Learner, learner
from aucstream.learners._base.state import Fixed, Offset, Program, Scratch, Unit, Vector
from aucstream.learners._families.leaving import leave_ball, leave_centre

# layout of State.scalars; *1 is the centre, *SUM the stage sum; r = R REACH, D = R WIDTH, eta = eta1 PACE;
# STAGES 0: anytime; MASS1 = |w1|_1
A, B, ALPHA, A1, B1, ALPHA1, A_SUM, B_SUM, WEIGHT_SUM, T_POS, T_NEG = range(11)
STAGE, POSITION, LENGTH, STAGES, REACH, WIDTH, BETA, PACE, MASS1, STEPS = range(11, 21)
HALVE, LEMMA1, LEMMA1_MIN = 0, 1, 2
ETA_RULES = {"halve": HALVE, "lemma1": LEMMA1, "lemma1_min": LEMMA1_MIN}
UNBOUNDED = 1e200  # D / R where Lemma 1 gives no bound
HALVINGS = 60  # of the bisection: to the last bit


@jit
def soft(m, theta):
    """Return sign(m) max(|m| - theta, 0)."""
    if m > theta:
        return m - theta
    if m < -theta:
        return m + theta
    return 0.0


@jit
def between(start, end, t):
    """Return start + t (end - start)."""
    return end if t == 1.0 else start + t * (end - start)


@jit
def threshold(w1, w, t, radius):
    """Return theta that projects w1 + t (w - w1) on the l1 ball; arrays (d,). [D08], by shrinking sets."""
    mass = 0.0
    live = 0.0
    for j in range(w.size):
        m = abs(between(w1[j], w[j], t))
        mass += m
        if m > 0.0:
            live += 1.0
    if mass <= radius:
        return 0.0
    theta = (mass - radius) / live
    while True:
        mass = 0.0
        still = 0.0
        for j in range(w.size):
            m = abs(between(w1[j], w[j], t))
            if m > theta:
                mass += m
                still += 1.0
        if still == 0.0:
            return theta
        theta = (mass - radius) / still
        if still == live:
            return theta
        live = still


@jit
def square_gap(w1, w, t, theta, unit):
    """Return unit^2 |soft(w1 + t (w - w1), theta) - w1|^2; arrays (d,)."""
    total = 0.0
    for j in range(w.size):
        e = (soft(between(w1[j], w[j], t), theta) - w1[j]) * unit
        total += e * e
    return total


@jit
def onto_both(w, w1, scalars, a, b, r, radius, box, unit):
    """Project (w, a, b) on Omega1 and the ball of radius r around the centre; writes w, returns a, b. O(d).

    x(t) = P_Omega1(v1 + t (v - v1)): the answer is x(1) if it is in the ball, else x(t*) on its sphere.
    """
    a1, b1 = scalars[A1], scalars[B1]
    low, high, t = 0.0, 1.0, 1.0
    for _ in range(HALVINGS + 1):
        at_a = max(-box, min(box, between(a1, a, t))) - a1
        at_b = max(-box, min(box, between(b1, b, t))) - b1
        gap2 = square_gap(w1, w, t, threshold(w1, w, t, radius), unit) + at_a * at_a + at_b * at_b
        if gap2 <= r * r:
            low = t
            if t == 1.0:
                break
        else:
            high = t
        t = 0.5 * (low + high)
    theta = threshold(w1, w, low, radius)
    for j in range(w.size):
        w[j] = soft(between(w1[j], w[j], low), theta)
    theta = threshold(w, w, 1.0, radius)  # a large theta has cost digits
    for j in range(w.size):
        w[j] = soft(w[j], theta)
    return max(-box, min(box, between(a1, a, low))), max(-box, min(box, between(b1, b, low)))


@jit
def _end_stage(z, total, gam_at, psi_at, w1, last, sums_pos, sums_neg, ball, scalars, p, R, delta, eta_rule, kap):
    """Move the centre to the average of the stage, shrink the sets around it; [LZCWY18] Lemma 1. O(d)."""
    l1ball.settle(z, total, gam_at, psi_at, ball)
    plug_in = 0.0
    mass = 0.0
    both = scalars[T_POS] > 0.0 and scalars[T_NEG] > 0.0
    for j in range(z.size):
        w = total[j] / scalars[WEIGHT_SUM]
        z[j] = w
        w1[j] = w
        last[j] = w
        mass += abs(w)
        if both:
            plug_in += w * (sums_neg[j] / scalars[T_NEG] - sums_pos[j] / scalars[T_POS])
        total[j] = 0.0
        gam_at[j] = 0.0
    ball[l1ball.GAM] = 0.0
    l1ball.settle(z, total, gam_at, psi_at, ball, w1)
    scalars[MASS1] = mass
    scalars[A1] = scalars[A_SUM] / scalars[WEIGHT_SUM]
    scalars[B1] = scalars[B_SUM] / scalars[WEIGHT_SUM]
    if math.isnan(plug_in):
        plug_in = 0.0
    scalars[ALPHA1] = max(-2.0 * R * kap, min(2.0 * R * kap, plug_in))
    scalars[A], scalars[B], scalars[ALPHA] = scalars[A1], scalars[B1], scalars[ALPHA1]
    scalars[A_SUM] = 0.0
    scalars[B_SUM] = 0.0
    scalars[WEIGHT_SUM] = 0.0
    anytime = scalars[STAGES] == 0.0
    scalars[REACH] *= math.sqrt(0.5) if anytime else 0.5
    rows = scalars[LENGTH]
    log = math.log(12.0 / delta)
    lam = 2.0 + math.sqrt(2.0 * log)
    rarer = min(p, 1.0 - p)
    scalars[WIDTH] = UNBOUNDED
    under_root = rarer * rows - math.sqrt(2.0 * rows * log)
    if under_root > 0.0:
        scalars[WIDTH] = 2.0 * math.sqrt(2.0) * kap * scalars[REACH]
        scalars[WIDTH] += 4.0 * math.sqrt(2.0) * kap * lam * (1.0 + 2.0 * kap) / math.sqrt(under_root)
    ratio = 1.0
    under = rarer - math.sqrt(2.0 * log / rows)
    if under > 0.0:
        beta = 1.0 + 8.0 * kap**2 + 32.0 * kap**2 * (1.0 + 2.0 * kap) ** 2 * lam**2 / under
        ratio = math.sqrt(beta / scalars[BETA])
        scalars[BETA] = beta
    pace = scalars[PACE] * (2.0**-0.25 if anytime else 0.5)
    if eta_rule != HALVE:
        pace *= ratio
    scalars[PACE] = min(pace, scalars[PACE]) if eta_rule == LEMMA1_MIN else pace
    scalars[STAGE] += 1.0
    scalars[POSITION] = 0.0
    if anytime:
        scalars[LENGTH] *= 2.0


@jit
def output(scalars, summed, before):
    """Return the output score from x'(stage sum) and x'(average of the last full stage)."""
    if scalars[POSITION] == 0.0:
        return before
    running = summed / scalars[WEIGHT_SUM]
    if scalars[STAGES] > 0.0 or scalars[STAGE] == 1.0:
        return running
    f = min(1.0, scalars[POSITION] / (0.5 * scalars[LENGTH]))
    return f * running + (1.0 - f) * before


@jit
def step(
    z, total, gam_at, psi_at, w1, last, sums_pos, sums_neg, heap_key, heap_idx, ball, scalars, ledger,
    idx, x, y, weight, R, eta1, delta, eta_rule, kappa,
):  # fmt: skip
    """One update; writes all state; [LZCWY18] Alg. 2.

    Returns the score of the averaged weights before it; NaN where the row was skipped.
    """
    s, summed = l1ball.scores(idx, x, z, total, gam_at, psi_at, ball)
    score = output(scalars, summed, dot(idx, x, last))
    length, factor, unit, ratio, mean, rows = admit_row(ledger, x, kappa)
    kap = kappa if kappa > 0.0 else 1.0
    radius, box = R / unit, R * kap
    positive = scalars[T_POS] + (weight if y > 0.0 else 0.0)
    rows_weight = scalars[T_POS] + scalars[T_NEG] + weight
    p = positive / rows_weight
    effective = by_class(ledger, y, weight, positive, rows_weight - positive)
    eta = effective * eta1 * scalars[PACE]
    a, b, alpha = scalars[A], scalars[B], scalars[ALPHA]
    c, da, db, dalpha = slopes(y, p, s * factor, a, b, alpha)
    a -= eta * da
    b -= eta * db
    alpha += eta * dalpha
    along = 0.0
    if length > 0.0:
        along = -eta * c * factor / unit / unit
    finite = math.isfinite(s) and math.isfinite(score) and rows_weight < LARGEST
    finite = finite and math.isfinite(a) and math.isfinite(b) and math.isfinite(alpha)
    finite = finite and weight * factor * length < LARGEST
    if not (finite and abs(along) * length * max(1.0, ball[l1ball.GAM] + effective) < LARGEST):
        return math.nan
    count_row(ledger, score, y, weight, mean, rows)
    # class sums, this row included
    if ratio != 1.0:
        for j in range(z.size):
            sums_pos[j] *= ratio
            sums_neg[j] *= ratio
    if y > 0.0:
        scalars[T_POS] += weight
        axpy(idx, x, weight * factor, sums_pos)
    else:
        scalars[T_NEG] += weight
        axpy(idx, x, weight * factor, sums_neg)
    # stage sum, before the update
    ball[l1ball.GAM] += effective
    ball[l1ball.PSI] += effective * ball[l1ball.TH]
    scalars[A_SUM] += effective * scalars[A]
    scalars[B_SUM] += effective * scalars[B]
    scalars[WEIGHT_SUM] += effective
    # the centre stays in Omega1 when its radius shrinks
    scalars[A1] = max(-box, min(box, scalars[A1]))
    scalars[B1] = max(-box, min(box, scalars[B1]))
    if scalars[MASS1] > radius:
        theta = threshold(w1, w1, 1.0, radius)
        mass = 0.0
        for j in range(z.size):
            w1[j] = soft(w1[j], theta)
            mass += abs(w1[j])
        scalars[MASS1] = min(mass, radius)
        l1ball.settle(z, total, gam_at, psi_at, ball, w1)
    # step and projections
    l1ball.move(idx, x, along, z, total, gam_at, psi_at, heap_key, heap_idx, ball, w1)
    r = R * scalars[REACH]
    gap_a, gap_b = a - scalars[A1], b - scalars[B1]
    if ball[l1ball.GAP2] * unit * unit + gap_a * gap_a + gap_b * gap_b <= r * r:
        # projecting on Omega1 cannot lead away from a centre inside it
        l1ball.project(radius, x.size, z, total, gam_at, psi_at, heap_key, heap_idx, ball, w1)
        a = max(-box, min(box, a))
        b = max(-box, min(box, b))
    else:
        l1ball.settle(z, total, gam_at, psi_at, ball, w1)
        a, b = onto_both(z, w1, scalars, a, b, r, radius, box, unit)
        l1ball.settle(z, total, gam_at, psi_at, ball, w1)
    scalars[A] = a
    scalars[B] = b
    width = R * scalars[WIDTH]
    alpha = max(alpha, scalars[ALPHA1] - width, -2.0 * box)
    scalars[ALPHA] = min(alpha, scalars[ALPHA1] + width, 2.0 * box)
    scalars[POSITION] += 1.0
    scalars[STEPS] += 1.0
    if scalars[POSITION] == scalars[LENGTH] and (scalars[STAGES] == 0.0 or scalars[STAGE] < scalars[STAGES]):
        _end_stage(z, total, gam_at, psi_at, w1, last, sums_pos, sums_neg, ball, scalars, p, R, delta, eta_rule, kap)
    elif scalars[STEPS] % RECOUNT == 0.0:
        l1ball.settle(z, total, gam_at, psi_at, ball, w1)
    return score


@jit
def score_row(
    z, total, gam_at, psi_at, w1, last, sums_pos, sums_neg, heap_key, heap_idx, ball, scalars, ledger,
    idx, x, R, eta1, delta, eta_rule, kappa,
):  # fmt: skip
    """Return the score of a row; changes nothing."""
    _, summed = l1ball.scores(idx, x, z, total, gam_at, psi_at, ball)
    return output(scalars, summed, dot(idx, x, last))


@jit
def settle(z, total, gam_at, psi_at, w1, last, sums_pos, sums_neg, heap_key, heap_idx, ball, scalars):
    """Fold the threshold and all owed sums; recount the tracked ones. O(d)."""
    l1ball.settle(z, total, gam_at, psi_at, ball, w1)
    mass = 0.0
    for j in range(w1.size):
        mass += abs(w1[j])
    scalars[MASS1] = mass


class State(NamedTuple):
    """8 d + 30 floats, and 4 d of scratch."""

    z: Annotated[Floats, Vector(Unit.WEIGHT)]  # the iterate; see `kernels.weights.l1ball`
    total: Annotated[Floats, Vector(Unit.WEIGHT, ("scalars", WEIGHT_SUM))]  # stage sum
    gam_at: Annotated[Floats, Vector()]
    psi_at: Annotated[Floats, Vector()]
    w1: Annotated[Floats, Vector(Unit.WEIGHT)]  # centre
    last: Annotated[Floats, Vector(Unit.WEIGHT)]  # average of the last full stage
    sums_pos: Annotated[Floats, Vector(Unit.ROW_SUM, ("scalars", T_POS))]
    sums_neg: Annotated[Floats, Vector(Unit.ROW_SUM, ("scalars", T_NEG))]
    heap_key: Annotated[Floats, Scratch(np.float64, 2, 64)]
    heap_idx: Annotated[Ints, Scratch(np.int64, 2, 64)]
    ball: Annotated[Floats, Fixed(l1ball.SIZE_CENTRED)]
    scalars: Annotated[Floats, Fixed(21)]


_PROGRAM = Program(
    State,
    step,
    score_row,
    settle,
    (
        Offset("scalars", A, "z"),
        Offset("scalars", B, "z"),
        Offset("scalars", A1, "w1"),
        Offset("scalars", B1, "w1"),
        Offset("scalars", A_SUM, "total"),
        Offset("scalars", B_SUM, "total"),
    ),
)


@learner
class FSAUC(Learner):
    """Fast stochastic AUC maximization: SOLAM's saddle problem in stages around a moving centre.

    Each stage stays in a ball around the average of the one before, half as large. With `n=None` stages
    double in length and nothing has to be known; where n is known and the stream shuffled, `n` is as good.

    Parameters
    ----------
    R : float, default=100.0
        In (0, inf). Radius of the l1 ball that holds the weights. [1]_ eq. (2).
    eta1 : float, default=0.25
        In (0, inf). Step of the first stage; stands for G of [1]_ Algorithm 1.
    n : int or None, default=None
        >= 1. Rows to come, [1]_; None: anytime, stages of n1, 2 n1, 4 n1, .. rows.
    n1 : int, default=256
        >= 1. Rows of the first stage when n is None.
    delta : float, default=0.1
        In (0, 1). Confidence of Lemma 1. With `eta_rule="halve"` it sets no step: it enters D alone, the bound of
        alpha about its centre, which hardly ever binds, so that it usually changes nothing.
    eta_rule : {"halve", "lemma1", "lemma1_min"}, default="halve"
        Step of the next stage: half (anytime: 2^(-1/4) times); times sqrt(beta_k / beta_{k-1}) as printed,
        which is far too large in practice; the same, but never raised.
    kappa : float or None, default=None
        In (0, inf). Largest row norm. None: a running root mean square takes its place, so that rows
        of any scale work; a number gives the paper's literal form.

    Notes
    -----
    Stage k, centre v1 = (w1, a1, b1) and alpha1, v = (w, a, b), F as in `SOLAM`::

        v     = projection of v - eta dF/dv on \\|w\\|_1 <= R, \\|a\\|, \\|b\\| <= R kappa, \\|v - v1\\| <= r
        alpha = projection of alpha + eta dF/dalpha on \\|alpha\\| <= 2 R kappa, \\|alpha - alpha1\\| <= D

    At its end v1 = average of the stage's v before each update, alpha1 = w1'(m- - m+) from all rows seen,
    r halves (anytime: over sqrt 2), D follows from Lemma 1. Known n: max(1, floor(log2(2n / log2 n) / 2)
    - 1) equal stages. The output is the average of the running stage; anytime it goes over linearly from
    the average of the last full stage during the first half of the running one. `fit` plans its stages
    for epochs times n rows. Time O(nnz), O(nnz log d) amortised while the l1 ball binds, O(d) a step only
    where the ball around the centre binds or a growing kappa_t pushes a centre on the boundary out of the
    l1 ball, and at the end of a stage. Memory 96 bytes a feature.

    Deviations: the exact projection on the intersection where the paper alternates projections; the
    share of positives from Algorithm 3 line 6 (line 3 contradicts it); sqrt(3 n0) G for the printed
    sqrt(3 n0 G); rows left over go to the last stage, which never ends; D without bound where Lemma 1
    has none; alpha1 = 0 while a class is missing; the anytime form; an example's weight counts in p and the
    class sums and multiplies eta and its share in the stage's average, there with the bounds of `SOLAM`;
    `kappa=None`.

    References
    ----------
    .. [1] Liu, Zhang, Chen, Wang, Yang, "Fast Stochastic AUC Maximization with O(1/n)-Convergence Rate",
       ICML 2018, Algorithms 1-3 and Lemma 1.
    .. [2] Duchi et al., "Efficient Projections onto the l1-Ball", ICML 2008.

    Examples
    --------
    >>> from aucstream import FSAUC
    >>> model = FSAUC()
    >>> for a, y in [(1.0, True), (-1.0, False)] * 100:
    ...     model.learn_one({"a": a}, y)
    >>> model.score_one({"a": 1.0}) > model.score_one({"a": -1.0})
    True
    """

    R: Annotated[float, Gt(0)] = 100.0
    eta1: Annotated[float, Gt(0)] = 0.25
    n: Annotated[int | None, Ge(1)] = None
    n1: Annotated[int, Ge(1)] = 256
    delta: Annotated[float, Gt(0), Lt(1)] = 0.1
    eta_rule: Literal["halve", "lemma1", "lemma1_min"] = "halve"
    kappa: Annotated[float | None, Gt(0)] = None

    _steps_and_penalties = frozenset({"R", "eta1"})
    _rows_planned = cast("int | None", None)  # by `fit`; not annotated: no parameter

    def _chosen_program(self) -> Program:
        return _PROGRAM

    def _kernel_args(self) -> tuple[float, ...]:
        return (self.R, self.eta1, self.delta, ETA_RULES[self.eta_rule], self.kappa or 0.0)

    def _init_state(self) -> None:
        kappa = self.kappa or 1.0
        scalars = self._field("scalars")
        scalars[STAGE] = 1.0
        scalars[REACH] = 2.0 * math.sqrt(1.0 + 2.0 * kappa**2)
        scalars[WIDTH] = 2.0 * math.sqrt(2.0) * kappa * scalars[REACH]
        scalars[BETA] = 1.0 + 8.0 * kappa**2
        scalars[PACE] = 1.0
        rows = self.n if self._rows_planned is None else self._rows_planned
        if rows is None:
            scalars[LENGTH] = self.n1
        else:
            stages = 1 if rows < 2 else max(1, math.floor(0.5 * math.log2(2.0 * rows / math.log2(rows))) - 1)
            scalars[STAGES] = stages
            scalars[LENGTH] = rows // stages

    def _resumed(self) -> None:
        self._field("ball")[[l1ball.HEAP_BOUND, l1ball.HEAP_N]] = 0.0

    def fit(self, X: Any, y: Any, epochs: int = 1) -> Self:
        """Start anew and make `epochs` shuffled passes over (X, y), its stages planned for all their rows.

        Parameters
        ----------
        X : ndarray or scipy sparse (n, d)
        y : array (n,)
        epochs : int
            >= 1.

        Returns
        -------
        self
        """
        self._rows_planned = max(1, check_epochs(epochs) * len(y))
        try:
            return super().fit(X, y, epochs)
        finally:
            self._rows_planned = None

    def _forget_own(self, fields: dict[str, Any], columns: Ints, removed: int) -> None:
        centre, scalars = fields["w1"], fields["scalars"]
        leave_ball(columns, fields["z"], fields["ball"], centre)
        leave_centre(columns, centre, fields["ball"])
        scalars[MASS1] = max(0.0, scalars[MASS1] - np.abs(centre[columns]).sum())

    def _place(self, fields: dict[str, Any], weights: Floats, intercept: float) -> None:
        fields["gam_at"][:] = fields["ball"][l1ball.GAM]

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"n": 1000, "R": 2.0}
        yield {"n1": 16, "eta_rule": "lemma1_min", "R": 0.5}

    @classmethod
    def _extreme_params(cls) -> Iterator[dict[str, Any]]:
        yield {"eta1": 1e6}
        yield {"eta1": 1e6, "n": 1000}
