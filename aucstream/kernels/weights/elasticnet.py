"""Weights under an elastic-net proximal step at every row: exact, O(nnz log d) a step.

Step t takes every weight through w = sign(w) max(|w| - eta_t l1_t, 0) / (1 + eta_t l2_t); no two steps need
the same eta, l1, l2. With pi_t = prod_(s<=t) 1 / (1 + eta_s l2_s) and th_t = sum_(s<=t) eta_s l1_s / pi_(s-1),
both 1 and 0 at the start, a weight that no gradient touches has, while it lives,

    |w_t| / pi_t = (|w_(t-1)| - eta_t l1_t) / pi_(t-1) = |w_(t-1)| / pi_(t-1) - (th_t - th_(t-1)),

so that |w_t| = pi_t (|z| - th_t) with a z that stays; it dies at the first t with |z| <= th_t. Since th only
grows, a heap of |z| yields the deaths at the right step, and w / pi is what `l1ball` keeps for one global
threshold. What was shrunk was shrunk by the penalties of its time: they may change at any step.

Arrays: those of `l1ball`, with `ball` (SIZE,); averages of w take g = pi_t there. sums_pos, sums_neg (d,)
are weighted sums of the rows of a class, and sums'w is known at every step:

    sums'w = pi (sum of z_j sums_j - th sum of sign(z_j) sums_j),  both sums over live j, kept in `ball`.
"""

from __future__ import annotations

from aucstream.kernels.jit import jit
from aucstream.kernels.weights import l1ball
from aucstream.kernels.weights.l1ball import GAM, HEAP_N, LIVE, MASS, PSI, REBASE, TH

# layout of `ball` after l1ball's
PI, ZSUM_POS, SIGN_POS, ZSUM_NEG, SIGN_NEG = range(l1ball.SIZE, l1ball.SIZE + 5)
SIZE = l1ball.SIZE + 5


@jit
def signed_sums(idx, x, z):
    """Return (sum of x_j z_j, sum of x_j sign(z_j)) over a row."""
    first = 0.0
    second = 0.0
    for k in range(x.size):
        j = k if idx is None else idx[k]
        first += x[k] * z[j]
        second += x[k] * l1ball.sign_of(z[j])
    return first, second


@jit
def largest(idx, x, ratio, sums_pos, sums_neg):
    """Return the largest magnitude in the class sums times `ratio`, over a row's columns."""
    top = 0.0
    for k in range(x.size):
        j = k if idx is None else idx[k]
        top = max(top, abs(sums_pos[j]), abs(sums_neg[j]))
    return ratio * top


@jit
def move(idx, x, c, z, total, gam_at, psi_at, sums_pos, sums_neg, heap_key, heap_idx, ball):
    """Add c pi x to the weights; writes all arrays but the class sums."""
    th, gam, psi = ball[TH], ball[GAM], ball[PSI]
    mass = live = zsum_pos = zsum_neg = sign_pos = sign_neg = 0.0
    for k in range(x.size):
        j = k if idx is None else idx[k]
        change = c * x[k]
        if change == 0.0:
            continue
        total[j] += l1ball.owed(z[j], gam - gam_at[j], psi - psi_at[j])
        gam_at[j] = gam
        psi_at[j] = psi
        before = z[j]
        after, old, new = l1ball.shifted(before, change, th)
        z[j] = after
        turned = l1ball.sign_of(new) - l1ball.sign_of(old)
        mass += abs(new) - abs(old)
        live += abs(l1ball.sign_of(new)) - abs(l1ball.sign_of(old))
        zsum_pos += (after - before) * sums_pos[j]
        zsum_neg += (after - before) * sums_neg[j]
        sign_pos += turned * sums_pos[j]
        sign_neg += turned * sums_neg[j]
    ball[MASS] += mass
    ball[LIVE] += live
    ball[ZSUM_POS] += zsum_pos
    ball[ZSUM_NEG] += zsum_neg
    ball[SIGN_POS] += sign_pos
    ball[SIGN_NEG] += sign_neg
    l1ball.push(idx, x, z, heap_key, heap_idx, ball)


@jit
def shrink(rise, pi, entries, z, total, gam_at, psi_at, sums_pos, sums_neg, heap_key, heap_idx, ball):
    """Raise th by `rise`, kill what it reaches, make `pi` the scale, take the iterate into the averages.

    After a row with `entries`. Writes all arrays but the class sums.
    """
    if rise > 0.0 and ball[LIVE] > 0.0:
        th = ball[TH] + rise
        l1ball.reach(th, entries, z, heap_key, heap_idx, ball)
        while ball[HEAP_N] > 0.0 and heap_key[0] <= th:
            key, j = heap_key[0], heap_idx[0]
            l1ball.pop(heap_key, heap_idx, ball)
            if key == abs(z[j]):
                l1ball.settle_one(j, z, total, gam_at, psi_at, ball)
                ball[ZSUM_POS] -= z[j] * sums_pos[j]
                ball[ZSUM_NEG] -= z[j] * sums_neg[j]
                ball[SIGN_POS] -= l1ball.sign_of(z[j]) * sums_pos[j]
                ball[SIGN_NEG] -= l1ball.sign_of(z[j]) * sums_neg[j]
                ball[MASS] -= key - ball[TH]
                ball[LIVE] -= 1.0
                z[j] = 0.0
        ball[MASS] -= rise * ball[LIVE]
        ball[TH] = th
    if ball[LIVE] <= 0.0:
        # nothing is measured from th now: it starts anew and costs no digits
        ball[TH] = 0.0
        ball[MASS] = 0.0
        ball[ZSUM_POS] = 0.0
        ball[ZSUM_NEG] = 0.0
        ball[SIGN_POS] = 0.0
        ball[SIGN_NEG] = 0.0
    ball[PI] = pi
    ball[GAM] += pi
    ball[PSI] += pi * ball[TH]


@jit
def worn(ball):
    """Return whether th has cost digits of the weights behind it, so that `settle` is due."""
    return ball[TH] * ball[LIVE] > REBASE * ball[MASS]


@jit
def settle(z, total, gam_at, psi_at, sums_pos, sums_neg, ball):
    """Write weights into z (th = 0, pi = 1), sums into total, and recount; the heap is dropped. O(d)."""
    l1ball.settle(z, total, gam_at, psi_at, ball)
    pi = ball[PI]
    ball[PI] = 1.0
    ball[MASS] *= pi
    zsum_pos = zsum_neg = sign_pos = sign_neg = 0.0
    for j in range(z.size):
        z[j] *= pi
        sign = l1ball.sign_of(z[j])
        zsum_pos += z[j] * sums_pos[j]
        zsum_neg += z[j] * sums_neg[j]
        sign_pos += sign * sums_pos[j]
        sign_neg += sign * sums_neg[j]
    ball[ZSUM_POS], ball[ZSUM_NEG] = zsum_pos, zsum_neg
    ball[SIGN_POS], ball[SIGN_NEG] = sign_pos, sign_neg
