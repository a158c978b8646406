"""SPAM: stochastic proximal AUC maximization, with an l2 or an elastic-net penalty."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np

from aucstream.block import Floats, Ints, signs_of
from aucstream.constraints import Ge, Gt, InfinityAllowed
from aucstream.errors import InvalidParams, NonFiniteStep
from aucstream.features.encoding.vocabulary import Vocabulary
from aucstream.features.intake import array_block
from aucstream.kernels.auc.calibration import calibrate
from aucstream.kernels.jit import jit
from aucstream.kernels.ledger import POSITIVES, ROWS
from aucstream.kernels.rows.linear import axpy, axpy2, dot, dot2, norm
from aucstream.kernels.rows.row_scale import next_scale, restart_ratio, store_scale
from aucstream.kernels.weights import elasticnet, l1ball
from aucstream.kernels.weights.averages import SCALE_RESET, fold
from aucstream.kernels.weights.elasticnet import PI, SIGN_NEG, SIGN_POS, ZSUM_NEG, ZSUM_POS
from aucstream.kernels.weights.example_weights import by_class
from aucstream.learners._base.learner import Learner, learner
from aucstream.learners._base.state import Fixed, Program, Scratch, Unit, Vector

# layout of State.scalars; DOT_*: class sum'v, SCALE, CUM, DOT_*: l2 only
STEPS, N_POS, N_NEG, SCALE, CUM, DOT_POS, DOT_NEG = range(7)
SQRT, STRONG = 0, 1
SCHEDULES = {"sqrt": SQRT, "strong": STRONG}
RECOUNT = 65_536  # steps between two recounts of tracked sums: rounding drift, not approximation
LARGEST = 1e290  # a change of a state entry beyond this is refused before it is written


@jit
def rate(t, C, cap, beta, schedule):
    """Return eta_t."""
    if schedule == SQRT:
        return min(cap, C / math.sqrt(t))
    return min(cap, 1.0 / (beta * (t + 1.0))) if beta > 0.0 else cap


@jit
def counted(ledger, y, weight, scalars, cap):
    """Return what a row's weight multiplies eta by; the ledger and the counts do not have the row yet."""
    if cap == math.inf:
        return weight
    entering = weight if y > 0.0 else 0.0
    return by_class(ledger, y, weight, scalars[N_POS] + entering, scalars[N_NEG] + (weight - entering))


@jit
def slope(y, p, s, a, b):
    """Return c of G(w; z) = c x for s = w'x, a = w'm+, b = w'm- [NYL18; the opposite mean enters]."""
    return 2.0 * (1.0 - p) * (s - b - 1.0) if y > 0.0 else 2.0 * p * (s - a + 1.0)


@jit
def stretch(ratio, sums_pos, sums_neg):
    """Multiply the class sums (d,) by `ratio`; writes both. O(d), and never but at a restarted row scale."""
    if ratio != 1.0:
        for j in range(sums_pos.size):
            sums_pos[j] *= ratio
            sums_neg[j] *= ratio


@jit
def commit(ledger, score, y, weight, mean, rows):
    """Count a row, its score and its length; writes ledger."""
    calibrate(ledger, score, y, weight)
    store_scale(ledger, mean, rows)
    ledger[ROWS] += 1.0
    if y > 0.0:
        ledger[POSITIVES] += 1.0


@jit
def descend_l2(
    v, u, sums_pos, sums_neg, scalars, idx, x, y, vx, length, weight, entering, factor, unit, ratio,
    C, cap, beta, schedule,
):  # fmt: skip
    """Take factor x into its class sum with weight `entering`, then one step; w = scale v, sum of w = cum v - u.

    Returns whether all stays finite; writes v, u, sums_pos, sums_neg, scalars, and only then.
    """
    positive, negative = scalars[N_POS], scalars[N_NEG]
    dot_pos, dot_neg = ratio * scalars[DOT_POS], ratio * scalars[DOT_NEG]
    share = entering * factor
    if y > 0.0:
        positive += entering
        dot_pos += share * vx
    else:
        negative += entering
        dot_neg += share * vx
    h = 0.0
    eta = 0.0
    t = scalars[STEPS]
    if positive > 0.0 and negative > 0.0:
        t += 1.0
        eta = weight * rate(t, C, cap, beta, schedule)
        scale = scalars[SCALE]
        c = slope(y, positive / (positive + negative), scale * vx * factor, scale * dot_pos / positive,
                  scale * dot_neg / negative)  # fmt: skip
        if length > 0.0:
            h = -eta * c * factor / unit / unit / scale
        along_pos, along_neg = dot2(idx, x, sums_pos, sums_neg)
        along_pos *= ratio
        along_neg *= ratio
        if y > 0.0:
            along_pos += share * length * length
        else:
            along_neg += share * length * length
        dot_pos += h * along_pos
        dot_neg += h * along_neg
    finite = positive < LARGEST and negative < LARGEST and share * length < LARGEST and eta * (1.0 + beta) < LARGEST
    finite = finite and abs(dot_pos) < LARGEST and abs(dot_neg) < LARGEST
    if not (finite and abs(h) * length * max(1.0, scalars[CUM]) < LARGEST):
        return False
    stretch(ratio, sums_pos, sums_neg)
    if entering > 0.0:
        axpy(idx, x, share, sums_pos if y > 0.0 else sums_neg)
    scalars[N_POS], scalars[N_NEG] = positive, negative
    scalars[DOT_POS], scalars[DOT_NEG] = dot_pos, dot_neg
    if t > scalars[STEPS]:
        axpy2(idx, x, h, v, scalars[CUM] * h, u)
        scalars[SCALE] /= 1.0 + eta * beta
        scalars[CUM] += scalars[SCALE]
        scalars[STEPS] = t
        if scalars[SCALE] < SCALE_RESET or t % RECOUNT == 0.0:
            settle_l2(v, u, sums_pos, sums_neg, scalars)
    return True


@jit
def step_l2(
    v, u, sums_pos, sums_neg, scalars, ledger, idx, x, y, weight, C, cap, beta, beta1, schedule, kappa
):  # fmt: skip
    """One update with the l2 penalty; writes all state.

    Returns the score of the averaged weights before it; NaN where the row was skipped.
    """
    vx, ux = dot2(idx, x, v, u)
    score = (scalars[CUM] * vx - ux) / scalars[STEPS] if scalars[STEPS] > 0.0 else 0.0
    length = norm(x)
    scale, factor, mean, rows = next_scale(ledger, length, kappa)
    ratio = restart_ratio(ledger, scale, rows, kappa)
    unit = scale if kappa == 0.0 and scale > 0.0 else 1.0
    if not math.isfinite(score) or not descend_l2(
        v, u, sums_pos, sums_neg, scalars, idx, x, y, vx, length, counted(ledger, y, weight, scalars, cap), weight, factor, unit, ratio,
        C, cap, beta, schedule,
    ):  # fmt: skip
        return math.nan
    commit(ledger, score, y, weight, mean, rows)
    return score


@jit
def score_l2(v, u, sums_pos, sums_neg, scalars, ledger, idx, x, C, cap, beta, beta1, schedule, kappa):
    """Return the score of a row; changes nothing."""
    vx, ux = dot2(idx, x, v, u)
    return (scalars[CUM] * vx - ux) / scalars[STEPS] if scalars[STEPS] > 0.0 else 0.0


@jit
def settle_l2(v, u, sums_pos, sums_neg, scalars):
    """Fold the scale: v = w, u = -(sum of iterates), scale 1; recount the dots. O(d)."""
    fold(v, u, scalars[SCALE], scalars[CUM])
    scalars[SCALE] = 1.0
    scalars[CUM] = 0.0
    dot_pos = 0.0
    dot_neg = 0.0
    for j in range(v.size):  # strictly in order: the spare room of a growing vector changes no bit
        dot_pos += sums_pos[j] * v[j]
        dot_neg += sums_neg[j] * v[j]
    scalars[DOT_POS] = dot_pos
    scalars[DOT_NEG] = dot_neg


@jit
def survey(sums_pos, sums_neg, scalars, ledger, indptr, idx, val, y, factors, kappa):
    """Take all rows into row scale, class sums and counts, in order; returns the last kappa_t.

    Writes factors (n,), what each row is to be multiplied by (NaN: refused), and all else but the rows.
    """
    unit = 1.0
    for i in range(y.size):
        a, b = indptr[i], indptr[i + 1]
        x = val[a:b]
        length = norm(x)
        scale, factor, mean, rows = next_scale(ledger, length, kappa)
        if not factor * length < LARGEST:
            factors[i] = math.nan
            continue
        ratio = restart_ratio(ledger, scale, rows, kappa)
        stretch(ratio, sums_pos, sums_neg)
        if ratio != 1.0:
            for k in range(i):
                factors[k] *= ratio
        store_scale(ledger, mean, rows)
        factors[i] = factor
        sums = sums_pos if y[i] > 0.0 else sums_neg
        if idx is None:
            axpy(None, x, factor, sums)
        else:
            axpy(idx[a:b], x, factor, sums)
        ledger[ROWS] += 1.0
        if y[i] > 0.0:
            ledger[POSITIVES] += 1.0
            scalars[N_POS] += 1.0
        else:
            scalars[N_NEG] += 1.0
        if kappa == 0.0 and scale > 0.0:
            unit = scale
    return unit


@jit
def visit_l2(
    v, u, sums_pos, sums_neg, scalars, indptr, idx, val, y, factors, order, unit, C, cap, beta, beta1, schedule
):  # fmt: skip
    """One step with fixed class sums on each row of `order`; returns how many were taken before one was refused."""
    for k in range(order.size):
        i = order[k]
        a, b = indptr[i], indptr[i + 1]
        x = val[a:b]
        if idx is None:
            taken = descend_l2(
                v, u, sums_pos, sums_neg, scalars, None, x, y[i], dot(None, x, v), norm(x),
                1.0, 0.0, factors[i], unit, 1.0, C, cap, beta, schedule,
            )  # fmt: skip
        else:
            row = idx[a:b]
            taken = descend_l2(
                v, u, sums_pos, sums_neg, scalars, row, x, y[i], dot(row, x, v), norm(x),
                1.0, 0.0, factors[i], unit, 1.0, C, cap, beta, schedule,
            )  # fmt: skip
        if not taken:
            return k
    return order.size


class L2State(NamedTuple):
    """State with the l2 penalty: 4 d + 7 floats."""

    v: Annotated[Floats, Vector(Unit.WEIGHT)]  # weights / scale
    u: Annotated[Floats, Vector(Unit.WEIGHT, ("scalars", STEPS), -1.0)]  # deferred average
    sums_pos: Annotated[Floats, Vector(Unit.ROW_SUM, ("scalars", N_POS))]
    sums_neg: Annotated[Floats, Vector(Unit.ROW_SUM, ("scalars", N_NEG))]
    scalars: Annotated[Floats, Fixed(7)]


@jit
def descend_net(
    z, total, gam_at, psi_at, sums_pos, sums_neg, heap_key, heap_idx, ball, scalars,
    idx, x, y, vx, length, weight, entering, factor, unit, ratio, C, cap, beta, beta1, schedule,
):  # fmt: skip
    """Take factor x into its class sum with weight `entering`, then one step; see `kernels.weights.elasticnet`.

    Returns whether all stays finite; writes all state, and only then.
    """
    positive, negative = scalars[N_POS], scalars[N_NEG]
    zsum_pos, zsum_neg = ratio * ball[ZSUM_POS], ratio * ball[ZSUM_NEG]
    sign_pos, sign_neg = ratio * ball[SIGN_POS], ratio * ball[SIGN_NEG]
    share = entering * factor
    zx, gx = elasticnet.signed_sums(idx, x, z)
    if y > 0.0:
        positive += entering
        zsum_pos += share * zx
        sign_pos += share * gx
    else:
        negative += entering
        zsum_neg += share * zx
        sign_neg += share * gx
    h = 0.0
    eta = 0.0
    pi, th = ball[PI], ball[l1ball.TH]
    t = scalars[STEPS]
    if positive > 0.0 and negative > 0.0:
        t += 1.0
        eta = weight * rate(t, C, cap, beta, schedule)
        c = slope(y, positive / (positive + negative), pi * vx * factor, pi * (zsum_pos - th * sign_pos) / positive,
                  pi * (zsum_neg - th * sign_neg) / negative)  # fmt: skip
        if length > 0.0:
            h = -eta * c * factor / unit / unit / pi
    rise = eta * beta1 / unit / pi
    finite = positive < LARGEST and negative < LARGEST and share * length < LARGEST and eta * (1.0 + beta) < LARGEST
    largest = elasticnet.largest(idx, x, ratio, sums_pos, sums_neg) + share * length
    farthest = abs(h) * length + th + rise
    if not (finite and farthest * max(1.0, ball[l1ball.GAM] + pi, largest) < LARGEST):
        return False
    stretch(ratio, sums_pos, sums_neg)
    if entering > 0.0:
        axpy(idx, x, share, sums_pos if y > 0.0 else sums_neg)
    scalars[N_POS], scalars[N_NEG] = positive, negative
    ball[ZSUM_POS], ball[ZSUM_NEG] = zsum_pos, zsum_neg
    ball[SIGN_POS], ball[SIGN_NEG] = sign_pos, sign_neg
    if t > scalars[STEPS]:
        elasticnet.move(idx, x, h, z, total, gam_at, psi_at, sums_pos, sums_neg, heap_key, heap_idx, ball)
        elasticnet.shrink(
            rise, pi / (1.0 + eta * beta), x.size, z, total, gam_at, psi_at, sums_pos, sums_neg,
            heap_key, heap_idx, ball,
        )  # fmt: skip
        scalars[STEPS] = t
        if elasticnet.worn(ball) or ball[PI] < SCALE_RESET or t % RECOUNT == 0.0:
            elasticnet.settle(z, total, gam_at, psi_at, sums_pos, sums_neg, ball)
    return True


@jit
def step_net(
    z, total, gam_at, psi_at, sums_pos, sums_neg, heap_key, heap_idx, ball, scalars, ledger,
    idx, x, y, weight, C, cap, beta, beta1, schedule, kappa,
):  # fmt: skip
    """One update with the elastic net; writes all state.

    Returns the score of the averaged weights before it; NaN where the row was skipped.
    """
    vx, summed = l1ball.scores(idx, x, z, total, gam_at, psi_at, ball)
    score = summed / scalars[STEPS] if scalars[STEPS] > 0.0 else 0.0
    length = norm(x)
    scale, factor, mean, rows = next_scale(ledger, length, kappa)
    ratio = restart_ratio(ledger, scale, rows, kappa)
    unit = scale if kappa == 0.0 and scale > 0.0 else 1.0
    if not math.isfinite(score) or not descend_net(
        z, total, gam_at, psi_at, sums_pos, sums_neg, heap_key, heap_idx, ball, scalars,
        idx, x, y, vx, length, counted(ledger, y, weight, scalars, cap), weight, factor, unit, ratio, C, cap, beta, beta1, schedule,
    ):  # fmt: skip
        return math.nan
    commit(ledger, score, y, weight, mean, rows)
    return score


@jit
def score_net(
    z, total, gam_at, psi_at, sums_pos, sums_neg, heap_key, heap_idx, ball, scalars, ledger,
    idx, x, C, cap, beta, beta1, schedule, kappa,
):  # fmt: skip
    """Return the score of a row; changes nothing."""
    _, summed = l1ball.scores(idx, x, z, total, gam_at, psi_at, ball)
    return summed / scalars[STEPS] if scalars[STEPS] > 0.0 else 0.0


@jit
def settle_net(z, total, gam_at, psi_at, sums_pos, sums_neg, heap_key, heap_idx, ball, scalars):
    """Fold scale, threshold and all owed sums; recount the tracked ones. O(d)."""
    elasticnet.settle(z, total, gam_at, psi_at, sums_pos, sums_neg, ball)


@jit
def visit_net(
    z, total, gam_at, psi_at, sums_pos, sums_neg, heap_key, heap_idx, ball, scalars,
    indptr, idx, val, y, factors, order, unit, C, cap, beta, beta1, schedule,
):  # fmt: skip
    """One step with fixed class sums on each row of `order`; returns how many were taken before one was refused."""
    for k in range(order.size):
        i = order[k]
        a, b = indptr[i], indptr[i + 1]
        x = val[a:b]
        if idx is None:
            vx, _ = l1ball.scores(None, x, z, total, gam_at, psi_at, ball)
            taken = descend_net(
                z, total, gam_at, psi_at, sums_pos, sums_neg, heap_key, heap_idx, ball, scalars,
                None, x, y[i], vx, norm(x), 1.0, 0.0, factors[i], unit, 1.0, C, cap, beta, beta1, schedule,
            )  # fmt: skip
        else:
            row = idx[a:b]
            vx, _ = l1ball.scores(row, x, z, total, gam_at, psi_at, ball)
            taken = descend_net(
                z, total, gam_at, psi_at, sums_pos, sums_neg, heap_key, heap_idx, ball, scalars,
                row, x, y[i], vx, norm(x), 1.0, 0.0, factors[i], unit, 1.0, C, cap, beta, beta1, schedule,
            )  # fmt: skip
        if not taken:
            return k
    return order.size


class NetState(NamedTuple):
    """State with the elastic net: 6 d + 15 floats, and 4 d of scratch."""

    z: Annotated[Floats, Vector(Unit.WEIGHT)]  # the iterate; see `kernels.weights.elasticnet`
    total: Annotated[Floats, Vector(Unit.WEIGHT, ("scalars", STEPS))]  # sum of iterates
    gam_at: Annotated[Floats, Vector()]
    psi_at: Annotated[Floats, Vector()]
    sums_pos: Annotated[Floats, Vector(Unit.ROW_SUM, ("scalars", N_POS))]
    sums_neg: Annotated[Floats, Vector(Unit.ROW_SUM, ("scalars", N_NEG))]
    heap_key: Annotated[Floats, Scratch(np.float64, 2, 64)]
    heap_idx: Annotated[Ints, Scratch(np.int64, 2, 64)]
    ball: Annotated[Floats, Fixed(elasticnet.SIZE)]
    scalars: Annotated[Floats, Fixed(7)]


_L2 = Program(L2State, step_l2, score_l2, settle_l2)
_NET = Program(NetState, step_net, score_net, settle_net)


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
    kappa : float or None, default=None
        In (0, inf). Largest row norm. None: a running root mean square takes its place, so that rows
        of any scale work; a number gives the paper's literal form.

    Notes
    -----
    With p, m+, m- the share of positives and the class means up to and including the row, t = 1, 2, ..::

        y=+1:  c = 2 (1-p) (w'(x - m-) - 1)      y=-1:  c = 2p (w'(x - m+) + 1)
        w = prox of eta (beta/2 \\|w\\|^2 + beta1 \\|w\\|_1) at w - eta c x
          = sign(u) max(\\|u\\| - eta beta1, 0) / (1 + eta beta),  u = w - eta c x

    The output averages the w after each step, uniformly. Nothing steps until both classes were seen.
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
    kappa: Annotated[float | None, Gt(0)] = None

    _steps_and_penalties = frozenset({"beta", "beta1", "C", "cap"})

    def _chosen_program(self) -> Program:
        return _L2 if self.penalty == "l2" else _NET

    def _kernel_args(self) -> tuple[float, ...]:
        return (self.C, self.cap, self.beta, self.beta1, SCHEDULES[self.schedule], self.kappa or 0.0)

    def _init_state(self) -> None:
        if self.penalty == "l2":
            self._field("scalars")[SCALE] = 1.0
        else:
            self._field("ball")[PI] = 1.0

    def _resumed(self) -> None:
        if self.penalty == "elasticnet":
            self._field("ball")[[l1ball.HEAP_BOUND, l1ball.HEAP_N]] = 0.0

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

        Raises
        ------
        NonFiniteStep
            A step would not have stayed finite; the model is as right after construction.
        """
        if not isinstance(epochs, (int, np.integer)) or epochs < 1:
            raise InvalidParams("fit.epochs", "an integer >= 1", epochs)
        n = len(array_block(Vocabulary(), X, learn=True))
        signs = signs_of(y, n)
        self._reset()
        block = array_block(self._encoder, X, signs, np.ones(n), learn=True)
        self._ensure(block.width)
        *numbers, kappa = self._kernel_params
        rows = (block.indptr, block.indices, block.values, signs)
        factors = np.empty(n)
        sums = self._field("sums_pos"), self._field("sums_neg")
        unit = survey(*sums, self._field("scalars"), self._ledger, *rows, factors, kappa)
        refused = np.flatnonzero(np.isnan(factors))
        if not refused.size:
            random = np.random.default_rng(0)
            order = np.concatenate([random.permutation(n) for _ in range(epochs)])
            visit = visit_l2 if self.penalty == "l2" else visit_net
            taken = visit(*self._arrays, *rows, factors, order, unit, *numbers)
            refused = order[taken : taken + 1]
        scores = self._score(block)
        if refused.size or not np.isfinite(scores).all():
            refused = refused if refused.size else np.flatnonzero(~np.isfinite(scores))
            self._reset()
            raise NonFiniteStep("SPAM.fit", refused.tolist(), scores)
        self._calibrate_on(scores, signs)
        return self

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"penalty": "elasticnet", "beta": 0.01, "beta1": 0.03}
