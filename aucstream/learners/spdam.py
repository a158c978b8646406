"""SPDAM: stochastic primal-dual AUC maximization, on a window of recent rows or a fixed set."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

import numpy as np

from aucstream.block import Floats, Ints
from aucstream.constraints import Ge, Gt, Le
from aucstream.kernels.auc.calibration import calibrate
from aucstream.kernels.jit import jit, jit_allocating
from aucstream.kernels.ledger import POSITIVES, ROWS
from aucstream.kernels.pairs import buffers
from aucstream.kernels.pairs.window import ARRIVALS, SINCE, due, held, take
from aucstream.kernels.random import below
from aucstream.kernels.rows.linear import all_finite, axpy, dot, dot2, norm, sqnorm
from aucstream.kernels.rows.row_scale import next_scale, restart_ratio, store_scale
from aucstream.kernels.weights.averages import SCALE_RESET
from aucstream.learners._base.learner import learner
from aucstream.learners._base.state import Fixed, PoolIdx, PoolVal, Program, Slots, Unit, Vector
from aucstream.learners._families.windowed import LONGEST_ROW, Windowed

# layout of State.scalars after that of `kernels.pairs.window`: arrivals that the average has taken in; solves
AVERAGED, SOLVES = range(3, 5)
MOST_BLOCKS = 4  # of iterations in one solve, from where it stands and again from zero
LARGEST = 1e290  # of a row's weight, alone and times its length
SMALLEST_LAM = 1e-300
EQUAL = 1e-12  # of the largest |x|^2: smaller squares of centred rows are rounding alone

# layout of Problem.k: constants; products of the means; coefficients of w, then of w_ext, on v, dual_sum,
# mean_pos, mean_neg (w_ext: and batch_sum); the means' products with v, dual_sum, batch_sum; sums of
# be_i a_i / n by class
LAM, SIGMA, TAU, THETA, FAR, PP, PN, NN = range(8)
W_V, W_U, W_P, W_N, EXT_V, EXT_U, EXT_P, EXT_N, EXT_E = range(8, 17)
V_P, V_N, U_P, U_N, E_P, E_N, G_P, G_N = range(17, 25)


class Problem(NamedTuple):
    """One finite problem and the point where it stands; rows are never centred.

    With a_i = sqrt(n om_i / (sum of om over the class)), xbar_i = a_i (x_i - m_{y_i}), and m_y is the sum of
    a_i^2 x_i / n over the class: products with m are summed by rows, so that columns may have any order.
    """

    slots: Ints
    idx: Ints
    val: Floats
    labels: Floats
    duals: Floats  # be
    a: Floats
    on_pos: Floats  # m+'x_i
    on_neg: Floats
    mean_pos: Floats
    mean_neg: Floats
    v: Floats
    dual_sum: Floats  # (1/n) sum of be_i a_i x_i
    batch_sum: Floats  # sum of h_i x_i over the last subset
    moves: Floats  # h = a (change of be) of the last subset
    order: Ints
    last: Ints  # the last subset
    k: Floats


@jit_allocating
def pose(slots, idx, val, labels, weights, duals, n, width, lam, batch):
    """Return the problem of the first n slots, standing nowhere yet; `start` it."""
    mean_pos, mean_neg = np.zeros(width), np.zeros(width)
    mass_pos = mass_neg = 0.0
    for i in range(n):
        a = slots[i, buffers.START]
        b = a + slots[i, buffers.LENGTH]
        if labels[i] > 0.0:
            mass_pos += weights[i]
            axpy(idx[a:b], val[a:b], weights[i], mean_pos)
        else:
            mass_neg += weights[i]
            axpy(idx[a:b], val[a:b], weights[i], mean_neg)
    for j in range(width):
        mean_pos[j] /= mass_pos
        mean_neg[j] /= mass_neg
    k = np.zeros(25)
    scales, on_pos, on_neg = np.empty(n), np.empty(n), np.empty(n)
    for i in range(n):
        a = slots[i, buffers.START]
        b = a + slots[i, buffers.LENGTH]
        on_pos[i], on_neg[i] = dot2(idx[a:b], val[a:b], mean_pos, mean_neg)
        if labels[i] > 0.0:
            share = weights[i] / mass_pos
            k[PP] += share * on_pos[i]
            k[PN] += share * on_neg[i]
        else:
            share = weights[i] / mass_neg
            k[NN] += share * on_neg[i]
        scales[i] = math.sqrt(n * share)
    far = top = 0.0
    for i in range(n):
        a = slots[i, buffers.START]
        square = sqnorm(val[a : a + slots[i, buffers.LENGTH]])
        if labels[i] > 0.0:
            centred, whole = square - 2.0 * on_pos[i] + k[PP], square + k[PP]
        else:
            centred, whole = square - 2.0 * on_neg[i] + k[NN], square + k[NN]
        far = max(far, scales[i] * scales[i] * centred)
        top = max(top, scales[i] * scales[i] * whole)
    m = min(batch, n)
    k[LAM] = lam
    if far > EQUAL * top:
        root = math.sqrt((n - m) ** 2 + 4.0 * n * m * (far / lam))
        sigma = lam * ((n - m) + root) / (4.0 * m * far)
        tau = 1.0 / (4.0 * sigma * far) if sigma * far > 0.0 else 0.0
        if math.isfinite(sigma) and tau > 1.0 / LARGEST:
            k[FAR], k[SIGMA], k[TAU] = far, sigma, tau
            k[THETA] = 1.0 - lam / (lam + 2.0 * sigma * far)
    return Problem(
        slots,
        idx,
        val,
        labels,
        duals[:n],
        scales,
        on_pos,
        on_neg,
        mean_pos,
        mean_neg,
        np.empty(width),
        np.empty(width),
        np.empty(width),
        np.zeros(m),
        np.empty(n, dtype=np.int64),
        np.empty(m, dtype=np.int64),
        k,
    )


@jit_allocating
def start(q, w):
    """Stand at w and the duals of `q`, w_ext = w."""
    k = q.k
    n = q.a.size
    q.v[:] = w
    q.dual_sum[:] = 0.0
    q.batch_sum[:] = 0.0
    k[W_V:] = 0.0
    k[W_V] = k[EXT_V] = 1.0
    for i in range(n):
        q.order[i] = i
        a = q.slots[i, buffers.START]
        b = a + q.slots[i, buffers.LENGTH]
        share = q.duals[i] * q.a[i] / n
        axpy(q.idx[a:b], q.val[a:b], share, q.dual_sum)
        k[G_P if q.labels[i] > 0.0 else G_N] += share
    q.last[:] = q.order[: q.last.size]
    products(q)


@jit
def products(q):
    """Count the means' products with v and dual_sum anew."""
    q.k[V_P] = q.k[V_N] = q.k[U_P] = q.k[U_N] = 0.0
    for i in range(q.a.size):
        a = q.slots[i, buffers.START]
        b = a + q.slots[i, buffers.LENGTH]
        vx, ux = dot2(q.idx[a:b], q.val[a:b], q.v, q.dual_sum)
        share = q.a[i] * q.a[i] / q.a.size
        if q.labels[i] > 0.0:
            q.k[V_P] += share * vx
            q.k[U_P] += share * ux
        else:
            q.k[V_N] += share * vx
            q.k[U_N] += share * ux


@jit
def plain(q):
    """Write w into v. O(d)."""
    k = q.k
    for j in range(q.v.size):
        q.v[j] = k[W_V] * q.v[j] + k[W_U] * q.dual_sum[j] + k[W_P] * q.mean_pos[j] + k[W_N] * q.mean_neg[j]
    k[EXT_V] /= k[W_V]
    k[EXT_U] -= k[EXT_V] * k[W_U]
    k[EXT_P] -= k[EXT_V] * k[W_P]
    k[EXT_N] -= k[EXT_V] * k[W_N]
    k[W_V] = 1.0
    k[W_U] = k[W_P] = k[W_N] = 0.0
    products(q)


@jit
def iterate(q, generator):
    """One iteration on a random subset; [NYL19] Table 1, in O(nnz of the subset).

    The dual step on w_ext; dual_sum moves while w stays; then the primal step, a change of coefficients and
    of v along batch_sum. w before it, on the new v, is what w_ext needs of the past.
    """
    k, n, m = q.k, q.a.size, q.last.size
    for j in range(m):
        other = j + below(generator, n - j)
        q.order[j], q.order[other] = q.order[other], q.order[j]
    for j in range(m):
        i = q.order[j]
        a = q.slots[i, buffers.START]
        b = a + q.slots[i, buffers.LENGTH]
        vx, ux = dot2(q.idx[a:b], q.val[a:b], q.v, q.dual_sum)
        ex = dot(q.idx[a:b], q.val[a:b], q.batch_sum)
        px, nx = q.on_pos[i], q.on_neg[i]
        if q.labels[i] > 0.0:
            vx, ux, ex, px, nx = vx - k[V_P], ux - k[U_P], ex - k[E_P], px - k[PP], nx - k[PN]
        else:
            vx, ux, ex, px, nx = vx - k[V_N], ux - k[U_N], ex - k[E_N], px - k[PN], nx - k[NN]
        s = q.a[i] * (k[EXT_V] * vx + k[EXT_U] * ux + k[EXT_P] * px + k[EXT_N] * nx + k[EXT_E] * ex)
        be = (q.duals[i] + k[SIGMA] * s) / (1.0 + k[SIGMA])
        q.moves[j] = q.a[i] * (be - q.duals[i])
        q.duals[i] = be
    for j in range(m):
        a = q.slots[q.last[j], buffers.START]
        b = a + q.slots[q.last[j], buffers.LENGTH]
        for t in range(a, b):
            q.batch_sum[q.idx[t]] = 0.0
    tau, theta = k[TAU], k[THETA]
    c = k[LAM] + 1.0 / tau
    shrink = 1.0 / (c * tau)
    excess = 1.0 / m - 1.0 / n  # of ubar over the new u, times the batch
    scale = k[W_V] * shrink
    along = k[W_U] / (n * k[W_V]) + excess / (c * scale)
    moved_p = moved_n = k[E_P] = k[E_N] = 0.0
    for j in range(m):
        i = q.last[j] = q.order[j]
        a = q.slots[i, buffers.START]
        b = a + q.slots[i, buffers.LENGTH]
        h = q.moves[j]
        axpy(q.idx[a:b], q.val[a:b], h, q.batch_sum)
        axpy(q.idx[a:b], q.val[a:b], h / n, q.dual_sum)
        axpy(q.idx[a:b], q.val[a:b], -along * h, q.v)
        k[E_P] += h * q.on_pos[i]
        k[E_N] += h * q.on_neg[i]
        if q.labels[i] > 0.0:
            moved_p += h
        else:
            moved_n += h
    k[U_P] += k[E_P] / n
    k[U_N] += k[E_N] / n
    k[G_P] += moved_p / n
    k[G_N] += moved_n / n
    # bvec'(w / tau - ubar) by the sums above, before v's own change along batch_sum enters them
    kept = k[W_U] / (n * k[W_V])
    on_w = k[W_V] * (k[V_N] - k[V_P] - kept * (k[E_N] - k[E_P])) + k[W_U] * (k[U_N] - k[U_P])
    on_w += k[W_P] * (k[PN] - k[PP]) + k[W_N] * (k[NN] - k[PN])
    g_p, g_n = k[G_P] + excess * moved_p, k[G_N] + excess * moved_n
    on_u = k[U_N] - k[U_P] + excess * (k[E_N] - k[E_P]) - g_p * (k[PN] - k[PP]) - g_n * (k[NN] - k[PN])
    b2 = k[PP] - 2.0 * k[PN] + k[NN]
    push = 1.0 + (on_w / tau - on_u - b2) / (c + b2)
    k[V_P] -= along * k[E_P]
    k[V_N] -= along * k[E_N]
    before_v, before_u, before_p, before_n = k[W_V], k[W_U], k[W_P], k[W_N]
    k[W_V] = scale
    k[W_U] = before_u * shrink - 1.0 / c
    k[W_P] = before_p * shrink + (g_p + push) / c
    k[W_N] = before_n * shrink + (g_n - push) / c
    k[EXT_V] = k[W_V] + theta * (k[W_V] - before_v)
    k[EXT_U] = k[W_U] + theta * (k[W_U] - before_u)
    k[EXT_P] = k[W_P] + theta * (k[W_P] - before_p)
    k[EXT_N] = k[W_N] + theta * (k[W_N] - before_n)
    k[EXT_E] = -theta * excess * tau
    if k[W_V] < SCALE_RESET:
        plain(q)


@jit
def run(q, passes, generator):
    """Take passes n/m iterations; leaves w in v."""
    for _ in range(math.ceil(passes * q.a.size / q.last.size)):
        iterate(q, generator)
    plain(q)


@jit
def centred_scores(q, w, out):
    """Write w'xbar_i to out (n,); return bvec'w."""
    at_pos = at_neg = 0.0
    for i in range(q.a.size):
        a = q.slots[i, buffers.START]
        b = a + q.slots[i, buffers.LENGTH]
        out[i] = dot(q.idx[a:b], q.val[a:b], w)
        share = q.a[i] * q.a[i] / q.a.size
        if q.labels[i] > 0.0:
            at_pos += share * out[i]
        else:
            at_neg += share * out[i]
    for i in range(q.a.size):
        out[i] = q.a[i] * (out[i] - (at_pos if q.labels[i] > 0.0 else at_neg))
    return at_neg - at_pos


@jit_allocating
def value(q, w):
    """Return P(w) = (L(w) - 1)/2 + lam/2 |w|^2, and c of the multiple c w where P is least."""
    scores = np.empty(q.a.size)
    b = centred_scores(q, w, scores)
    curvature = sqnorm(scores) / q.a.size + b * b + q.k[LAM] * sqnorm(w)
    return 0.5 * curvature + b, -b / curvature if curvature > 0.0 else 1.0


@jit
def straight(q):
    """Write the minimiser without a variance term into v: -bvec / (|bvec|^2 + lam)."""
    b2 = q.k[PP] - 2.0 * q.k[PN] + q.k[NN]
    for j in range(q.v.size):
        q.v[j] = (q.mean_pos[j] - q.mean_neg[j]) / (b2 + q.k[LAM])
    q.duals[:] = 0.0


@jit_allocating
def solve(q, w, passes, generator):
    """Run blocks of iterations from w until P(w) is no more than it was and than P(0); writes w, duals.

    After MOST_BLOCKS of them as many from zero; then the better one of the best multiples of both.
    """
    if q.k[TAU] == 0.0:
        straight(q)
        w[:] = q.v
        return
    before, multiple = value(q, w)
    target = before if before < 0.0 else 0.0
    start(q, w)
    for attempt in range(2 * MOST_BLOCKS):
        if attempt == MOST_BLOCKS:
            q.duals[:] = 0.0
            start(q, np.zeros(w.size))
        run(q, passes, generator)
        reached, of_reached = value(q, q.v)
        cold = MOST_BLOCKS <= attempt < 2 * MOST_BLOCKS - 1  # all of these blocks are run
        if reached <= target and not cold and all_finite(q.duals):
            w[:] = q.v
            return
    for j in range(w.size):
        q.v[j] *= of_reached
        w[j] *= multiple
    kept, _ = value(q, w)
    reached, _ = value(q, q.v)
    if reached < kept:
        w[:] = q.v
    centred_scores(q, w, q.duals)


@jit_allocating
def refresh(
    w, mean, scalars, labels, weights, duals, slots, pool_idx, pool_val, generator, lam, batch, passes
):  # fmt: skip
    """Solve on the window and take w into the average; writes w, mean, scalars, duals, generator."""
    n = held(scalars, labels)
    q = pose(slots, pool_idx, pool_val, labels, weights, duals, n, w.size, lam, batch)
    fresh = np.empty(n)
    centred_scores(q, w, fresh)
    newest = np.int64(scalars[ARRIVALS]) - 1
    for back in range(min(np.int64(scalars[SINCE]), n)):
        slot = (newest - back) % labels.size
        duals[slot] = fresh[slot]
    solve(q, w, passes, generator)
    scalars[AVERAGED] += scalars[SINCE]
    share = scalars[SINCE] / scalars[AVERAGED]
    for j in range(w.size):
        mean[j] += (w[j] - mean[j]) * share
    scalars[SINCE] = 0.0
    scalars[SOLVES] += 1.0


@jit
def step(
    w, mean, scalars, labels, weights, duals, slots, pool_idx, pool_val, generator, ledger,
    idx, x, y, weight, lam, batch, passes, refresh_frac, kappa,
):  # fmt: skip
    """Take one arrival, and solve if it is due; writes all state.

    Returns the score of the averaged weights before it; NaN where the row was skipped.
    """
    score = dot(idx, x, mean)
    length = norm(x)
    scale, factor, square, rows = next_scale(ledger, length, kappa)
    ratio = restart_ratio(ledger, scale, rows, kappa)
    unit = scale if kappa == 0.0 and scale > 0.0 else 1.0
    long = factor * length
    if not (math.isfinite(score) and long < LONGEST_ROW and weight < LARGEST and weight * long < LARGEST):
        return math.nan
    calibrate(ledger, score, y, weight)
    store_scale(ledger, square, rows)
    ledger[ROWS] += 1.0
    if y > 0.0:
        ledger[POSITIVES] += 1.0
    if ratio != 1.0:
        buffers.rescale(ratio, slots, pool_val)
    weights[take(idx, x, factor, y, scalars, slots, pool_idx, pool_val, labels)] = weight
    if due(scalars, labels, refresh_frac):
        penalty = max(lam * unit * unit, SMALLEST_LAM)
        refresh(
            w, mean, scalars, labels, weights, duals, slots, pool_idx, pool_val, generator, penalty, batch, passes
        )  # fmt: skip
    return score


@jit
def score_row(
    w, mean, scalars, labels, weights, duals, slots, pool_idx, pool_val, generator, ledger,
    idx, x, lam, batch, passes, refresh_frac, kappa,
):  # fmt: skip
    """Return the score of a row; changes nothing."""
    return dot(idx, x, mean)


@jit_allocating
def finite_sum(w, mean, duals, labels, slots, idx, val, generator, epochs, lam, batch):
    """[NYL19] Table 1 on the rows of all slots, from zeros; writes w, mean, duals, generator."""
    n = labels.size
    q = pose(slots, idx, val, labels, np.ones(n), duals, n, w.size, lam, batch)
    if q.k[TAU] == 0.0:
        straight(q)
    else:
        start(q, w)
        run(q, epochs, generator)
    w[:] = q.v
    mean[:] = q.v


class State(NamedTuple):
    """2 d + 5 floats, one generator, and `n_buffer` rows with their labels, weights and duals."""

    w: Annotated[Floats, Vector(Unit.WEIGHT)]
    mean: Annotated[Floats, Vector(Unit.WEIGHT)]  # of w after each solve
    scalars: Annotated[Floats, Fixed(5)]
    labels: Annotated[Floats, Fixed("n_buffer")]
    weights: Annotated[Floats, Fixed("n_buffer")]
    duals: Annotated[Floats, Fixed("n_buffer")]  # those of rows since the last solve mean nothing
    slots: Annotated[Ints, Slots()]
    pool_idx: Annotated[Ints, PoolIdx()]
    pool_val: Annotated[Floats, PoolVal()]
    generator: Annotated[np.ndarray, Fixed(1, np.uint64)]


_PROGRAM = Program(State, step, score_row)  # between two solves all vectors are plain


@learner
class SPDAM(Windowed):
    """Stochastic primal-dual AUC maximization: the squared AUC loss solved on a window of recent rows.

    The best of the saddle-point learners on short streams, since it goes over its rows several times; 2 to 4
    times their price a row. Over a fixed set (`fit`) it converges geometrically.

    Parameters
    ----------
    lam : float, default=3e-3
        In (0, inf). Penalty lam/2 \\|w\\|^2 beside half the loss; half the lambda of [1]_ eq. (3).
    batch : int, default=16
        >= 1. Rows in the subset of one iteration. [1]_ Table 1.
    passes : float, default=0.5
        In (0, 1000]. Passes over the window in one block of iterations. `fit` ignores it: its passes are `epochs`.
    n_buffer : int, default=1000
        >= 2. Rows in the window.
    refresh_frac : float, default=0.25
        In (0, 1]. A solve is due after this part of the window's rows, 16 at least.
    kappa : float or None, default=None
        In (0, inf). Largest row norm. None: a running root mean square takes its place, so that rows
        of any scale work; a number gives the paper's literal form.
    seed : int or None, default=0
        Of all draws; None draws one at construction.

    Notes
    -----
    For n rows with share p+ of positives, p- = 1 - p+, class means m+ and m-, bvec = m- - m+ ::

        xbar_i = (x_i - m_{y_i}) / sqrt(p_{y_i}),  g(w) = (bvec'w)^2/2 + bvec'w + lam/2 \\|w\\|^2
        min_w max_be  (1/n) sum_i (be_i w'xbar_i - be_i^2/2) + g(w)  =  min_w (L(w) - 1)/2 + lam/2 \\|w\\|^2

    with L(w) = E(1 - w'(x+ - x-))^2. An iteration on a random subset I of m rows, u = (1/n) sum be_i xbar_i::

        be_i += sigma (w_ext'xbar_i - be_i) / (1 + sigma), i in I;  ubar = u + (1/m) sum_I (its changes) xbar_i
        w_new = argmin_v ubar'v + g(v) + \\|v - w\\|^2 / (2 tau);  w_ext = w_new + theta (w_new - w)

    where, with k^2 = max \\|xbar_i\\|^2, sigma solves 4 m k^2 sigma^2 - 2 (n - m) lam sigma - n lam = 0,
    tau = 1/(4 sigma k^2), theta = 1 - lam/(lam + 2 sigma k^2).

    When a solve is due, `passes` n/m iterations run on the window, from w and the duals kept; the duals of
    new rows are w'xbar_i. Guard, with P the objective: while P(w) > min(P(w before), 0) up to three more such
    blocks run; then four from zero; then w is the better one of the best multiples of w before and of the w
    reached. The output averages the w of all solves, weighted by the arrivals since the one before. Rows
    after the last solve wait.

    Time: an arrival is O(nnz), an iteration O(nnz of its subset), a solve O(d) besides; on average
    O(nnz passes / refresh_frac) a row, more where the guard acts. Memory 16 bytes a feature and the window;
    48 more a feature while solving.

    `fit` is [1]_ Table 1 over the fixed set: epochs n/m iterations, without guard; the output is the last w.

    Deviations: the window and its guard, as the method converges but not monotonically, and restarts from
    inconsistent w and duals compound; the constants, since those printed in [1]_ do not meet the conditions
    of its proof; xbar without a factor 2, so that both halves of the loss have the same scale; an example's
    weight is its share in p, m and the mean over the window; where all rows of a class are equal, w is
    -bvec / (\\|bvec\\|^2 + lam) at once; `kappa=None`.

    References
    ----------
    .. [1] Natole, Ying, Lyu, "Stochastic AUC Optimization Algorithms With Linear Convergence", Frontiers in
       Applied Mathematics and Statistics 2019, Table 1 and Theorem 4.1.
    .. [2] Zhang, Lin, "Stochastic Primal-Dual Coordinate Method for Regularized Empirical Risk
       Minimization", ICML 2015.

    Examples
    --------
    >>> from aucstream import SPDAM
    >>> model = SPDAM()
    >>> for a, y in [(1.0, True), (-1.0, False)] * 100:
    ...     model.learn_one({"a": a}, y)
    >>> model.score_one({"a": 1.0}) > model.score_one({"a": -1.0})
    True
    """

    lam: Annotated[float, Gt(0)] = 3e-3
    batch: Annotated[int, Ge(1)] = 16
    passes: Annotated[float, Gt(0), Le(1000)] = 0.5
    n_buffer: Annotated[int, Ge(2)] = 1000
    refresh_frac: Annotated[float, Gt(0), Le(1)] = 0.25
    kappa: Annotated[float | None, Gt(0)] = None
    seed: int | None = 0

    _steps_and_penalties = frozenset({"lam", "passes"})

    def _chosen_program(self) -> Program:
        return _PROGRAM

    def _kernel_args(self) -> tuple[float, ...]:
        return (self.lam, self.batch, self.passes, self.refresh_frac, self.kappa or 0.0)

    def _fit_fixed(self, labels: Floats, slots: Ints, idx: Ints, val: Floats, unit: float, epochs: int) -> bool:
        w, mean, generator = (self._field(name) for name in ("w", "mean", "generator"))
        duals = np.zeros(labels.size)
        lam = max(self.lam * unit * unit, SMALLEST_LAM)
        finite_sum(w, mean, duals, labels, slots, idx, val, generator, float(epochs), lam, self.batch)
        held = min(labels.size, self.n_buffer)
        self._field("duals")[:held] = duals[-held:]
        self._field("scalars")[AVERAGED] = labels.size
        return bool(np.isfinite(w).all() and np.isfinite(duals).all())

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"n_buffer": 60}
