"""Weights on an l1 ball with one global threshold: exact, O(nnz log d) a step.

A live weight is w_j = sign(z_j) (|z_j| - th); a dead one has z_j = 0. Projecting on the ball raises
`th` for all at once; the weights that this would carry through zero die first, smallest first, found
by a heap. It is the simplex projection by removal of the smallest, so it equals Duchi et al. (2008).

The heap holds the live weights with |z_j| up to a bound, some steps ahead of `th`, and is built anew when `th` gets
there: a dense row moves all weights, and most of them are never the smallest.

Sums of the iterates are settled lazily: with gam = sum of averaging weights g and psi = sum of g th,
weight j owes sign(z_j) (|z_j| (gam - gam_j) - (psi - psi_j)) since its last settlement (gam_j, psi_j).

Arrays: z, total, gam_at, psi_at (d,); heap_key, heap_idx (2 d + 64,); `ball` (SIZE,), layout below.
A heap entry is stale when its key is no longer |z_j|. The heap is scratch: it is built when the
constraint first binds and may be dropped at any time. Equal keys go by column, so that what a heap
yields does not depend on how it was made, nor on its bound.

With a `centre` (d,), `ball` is (SIZE_CENTRED,) and GAP2 = sum (w_j - centre_j)^2 is kept as well, by
SIGNED = sum over live j of sign(w_j) centre_j.
"""

from __future__ import annotations

import numpy as np

from aucstream.kernels.jit import jit

TH, MASS, LIVE, GAM, PSI, HEAP_N, HEAP_BOUND = range(7)  # layout of `ball`; MASS = sum |w_j|; bound 0: no heap
SIZE = 7
GAP2, SIGNED = 7, 8
SIZE_CENTRED = 9
AHEAD = 1.0  # how far ahead of th the heap is built: as many rows as touch each weight so often
REBASE = 1e3  # fold th into z when th * live exceeds this many radii: keeps 13 digits of w


@jit
def sign_of(z):
    """Return -1, 0 or 1; without branches, which signs at random would make slow."""
    return (1.0 if z > 0.0 else 0.0) - (1.0 if z < 0.0 else 0.0)


@jit
def weight_of(z, th):
    """Return w for a stored z."""
    return z - sign_of(z) * th


@jit
def owed(z, gam, psi):
    """Return what a stored z owes to its sum since gam and psi grew by this much."""
    return z * gam - sign_of(z) * psi


@jit
def scores(idx, x, z, total, gam_at, psi_at, ball):
    """Return (x'w, x'sum of averaged iterates); reads all."""
    th, gam, psi = ball[TH], ball[GAM], ball[PSI]
    now = 0.0
    summed = 0.0
    for k in range(x.size):
        j = k if idx is None else idx[k]
        zj = z[j]
        now += x[k] * weight_of(zj, th)
        summed += x[k] * (total[j] + owed(zj, gam - gam_at[j], psi - psi_at[j]))
    return now, summed


@jit
def settle_one(j, z, total, gam_at, psi_at, ball):
    """Bring the sum of coordinate j up to date; writes total, gam_at, psi_at."""
    total[j] += owed(z[j], ball[GAM] - gam_at[j], ball[PSI] - psi_at[j])
    gam_at[j] = ball[GAM]
    psi_at[j] = ball[PSI]


@jit
def _before(key, j, other_key, other_j):
    return key < other_key or (key == other_key and j < other_j)


@jit
def _sift_down(key, item, n, start):
    i = start
    k, j = key[i], item[i]
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if child + 1 < n and _before(key[child + 1], item[child + 1], key[child], item[child]):
            child += 1
        if not _before(key[child], item[child], k, j):
            break
        key[i], item[i] = key[child], item[child]
        i = child
    key[i], item[i] = k, j


@jit
def build_heap(bound, z, heap_key, heap_idx, ball):
    """Make the heap of all live weights with |z| <= bound; writes heap_key, heap_idx, ball."""
    n = 0
    for j in range(z.size):
        key = abs(z[j])
        if key <= bound and key != 0.0:
            heap_key[n] = key
            heap_idx[n] = j
            n += 1
    for i in range(n // 2 - 1, -1, -1):
        _sift_down(heap_key, heap_idx, n, i)
    ball[HEAP_N] = n
    ball[HEAP_BOUND] = bound


@jit
def reach(th, entries, z, heap_key, heap_idx, ball):
    """Make sure that the heap holds all live weights with |z| <= th, for steps of rows with `entries`.

    Writes heap_key, heap_idx, ball. O(d), once in about `AHEAD` d / entries steps.
    """
    if ball[HEAP_BOUND] < th:
        steps = AHEAD * max(1.0, z.size / max(1, entries))
        build_heap(max(th, ball[TH] + steps * (th - ball[TH])), z, heap_key, heap_idx, ball)


@jit
def _push(j, z, heap_key, heap_idx, ball):
    n = np.int64(ball[HEAP_N])
    if n == heap_key.size:
        build_heap(ball[HEAP_BOUND], z, heap_key, heap_idx, ball)  # holds j already
        return
    k = abs(z[j])
    i = n
    while i > 0:
        parent = (i - 1) // 2
        if not _before(k, j, heap_key[parent], heap_idx[parent]):
            break
        heap_key[i], heap_idx[i] = heap_key[parent], heap_idx[parent]
        i = parent
    heap_key[i], heap_idx[i] = k, j
    ball[HEAP_N] = n + 1


@jit
def pop(heap_key, heap_idx, ball):
    """Take the least entry off the heap; writes heap_key, heap_idx, ball."""
    n = np.int64(ball[HEAP_N]) - 1
    heap_key[0], heap_idx[0] = heap_key[n], heap_idx[n]
    ball[HEAP_N] = n
    if n > 1:
        _sift_down(heap_key, heap_idx, n, 0)


@jit
def shifted(z, change, th):
    """Return (z, w before, w after) for a weight that `change` is added to."""
    old = weight_of(z, th)
    new = old + change
    z = new + sign_of(new) * th
    if abs(z) == th:  # th may swallow a tiny weight: what is stored decides
        return 0.0, old, 0.0
    return z, old, new


@jit
def move(idx, x, c, z, total, gam_at, psi_at, heap_key, heap_idx, ball, centre=None):
    """Add c x to the weights, settling each touched sum first; writes all arrays."""
    th, gam, psi = ball[TH], ball[GAM], ball[PSI]
    mass = live = gap2 = signed = 0.0
    for k in range(x.size):
        j = k if idx is None else idx[k]
        change = c * x[k]
        if change == 0.0:
            continue
        total[j] += owed(z[j], gam - gam_at[j], psi - psi_at[j])
        gam_at[j] = gam
        psi_at[j] = psi
        z[j], old, new = shifted(z[j], change, th)
        mass += abs(new) - abs(old)
        live += abs(sign_of(new)) - abs(sign_of(old))
        if centre is not None:
            gap2 += (new - old) * ((new - centre[j]) + (old - centre[j]))
            signed += (sign_of(new) - sign_of(old)) * centre[j]
    ball[MASS] += mass
    ball[LIVE] += live
    if centre is not None:
        ball[GAP2] += gap2
        ball[SIGNED] += signed
    push(idx, x, z, heap_key, heap_idx, ball)


@jit
def push(idx, x, z, heap_key, heap_idx, ball):
    """Put the weights that a row has moved on the heap, up to its bound; writes heap_key, heap_idx, ball."""
    bound = ball[HEAP_BOUND]
    if bound == 0.0:
        return
    for k in range(x.size):
        j = k if idx is None else idx[k]
        if abs(z[j]) <= bound and z[j] != 0.0:
            _push(j, z, heap_key, heap_idx, ball)


@jit
def project(radius, entries, z, total, gam_at, psi_at, heap_key, heap_idx, ball, centre=None):
    """Project on the l1 ball of `radius` after a row with `entries`; writes all arrays.

    O(1) while the constraint is idle.
    """
    while ball[MASS] > radius:
        _lower(radius, entries, z, total, gam_at, psi_at, heap_key, heap_idx, ball, centre)
        if ball[TH] * ball[LIVE] <= REBASE * radius:
            return
        # th has cost digits: the weights behind it are projected once more, from where they really are
        settle(z, total, gam_at, psi_at, ball, centre)


@jit
def _lower(radius, entries, z, total, gam_at, psi_at, heap_key, heap_idx, ball, centre):
    """Raise th, killing what it reaches, until the mass is `radius`; writes all arrays."""
    while ball[LIVE] > 0.0 and ball[MASS] > radius:
        share = (ball[MASS] - radius) / ball[LIVE]
        th = ball[TH] + share
        reach(th, entries, z, heap_key, heap_idx, ball)
        if ball[HEAP_N] > 0.0 and heap_key[0] != abs(z[heap_idx[0]]):
            pop(heap_key, heap_idx, ball)
        elif ball[HEAP_N] > 0.0 and heap_key[0] <= th:
            j = heap_idx[0]
            least = heap_key[0] - ball[TH]
            settle_one(j, z, total, gam_at, psi_at, ball)
            if centre is not None:
                towards = sign_of(z[j]) * centre[j]
                ball[GAP2] -= least * (least - 2.0 * towards)
                ball[SIGNED] -= towards
            z[j] = 0.0
            ball[MASS] -= least
            ball[LIVE] -= 1.0
            pop(heap_key, heap_idx, ball)
        else:
            if centre is not None:
                ball[GAP2] += share * (share * ball[LIVE] - 2.0 * (ball[MASS] - ball[SIGNED]))
            ball[TH] = th
            ball[MASS] = radius
            break
    if ball[LIVE] <= 0.0:
        ball[MASS] = 0.0
        ball[LIVE] = 0.0


@jit
def settle(z, total, gam_at, psi_at, ball, centre=None):
    """Write weights into z (th = 0), sums into total, and recount; the heap is dropped. O(d)."""
    mass = 0.0
    live = 0.0
    th = ball[TH]
    for j in range(z.size):
        settle_one(j, z, total, gam_at, psi_at, ball)
        z[j] = weight_of(z[j], th)
        mass += abs(z[j])
        live += abs(sign_of(z[j]))
        psi_at[j] = 0.0
    if centre is not None:
        gap2 = 0.0
        signed = 0.0
        for j in range(z.size):
            gap2 += (z[j] - centre[j]) * (z[j] - centre[j])
            signed += sign_of(z[j]) * centre[j]
        ball[GAP2] = gap2
        ball[SIGNED] = signed
    ball[TH] = 0.0
    ball[PSI] = 0.0
    ball[MASS] = mass
    ball[LIVE] = live
    ball[HEAP_BOUND] = 0.0
    ball[HEAP_N] = 0.0
