"""The finite problem of SPDAM: the squared AUC loss on a fixed set of rows, solved by primal-dual iterations."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from aucstream.block import Floats, Ints
from aucstream.kernels.jit import jit, jit_allocating
from aucstream.kernels.pairs.buffers import extent
from aucstream.kernels.random import below
from aucstream.kernels.rows.arrival import LARGEST
from aucstream.kernels.rows.finite import all_finite
from aucstream.kernels.rows.linear import axpy, dot, dot2, sqnorm
from aucstream.kernels.weights.averages import SCALE_RESET

MOST_BLOCKS = 4  # of iterations in one solve, from where it stands and again from zero
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
        a, b = extent(slots, i)
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
        a, b = extent(slots, i)
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
        a, b = extent(slots, i)
        square = sqnorm(val[a:b])
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
        slots, idx, val, labels, duals[:n], scales, on_pos, on_neg, mean_pos, mean_neg,
        np.empty(width), np.empty(width), np.empty(width), np.zeros(m),
        np.empty(n, dtype=np.int64), np.empty(m, dtype=np.int64), k,
    )  # fmt: skip


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
        a, b = extent(q.slots, i)
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
        a, b = extent(q.slots, i)
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
        a, b = extent(q.slots, i)
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
        a, b = extent(q.slots, q.last[j])
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
        a, b = extent(q.slots, i)
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
    share = k[W_U] / (n * k[W_V])
    on_w = k[W_V] * (k[V_N] - k[V_P] - share * (k[E_N] - k[E_P])) + k[W_U] * (k[U_N] - k[U_P])
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
        a, b = extent(q.slots, i)
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
    reached, _ = value(q, q.v)
    if reached < value(q, w)[0]:
        w[:] = q.v
    centred_scores(q, w, q.duals)
