"""Weights on an l1 ball with one global threshold: exact, O(nnz log d) a step.

A live weight is w_j = sign(z_j) (|z_j| - th); a dead one has z_j = 0. Projecting on the ball raises
`th` for all at once; the weights that this would carry through zero die first, smallest first, found
by a heap. It is the simplex projection by removal of the smallest, so it equals Duchi et al. (2008).

Sums of the iterates are settled lazily: with gam = sum of averaging weights g and psi = sum of g th,
weight j owes sign(z_j) (|z_j| (gam - gam_j) - (psi - psi_j)) since its last settlement (gam_j, psi_j).

Arrays: z, total, gam_at, psi_at (d,); heap_key, heap_idx (2 d + 64,); `ball` (SIZE,), layout below.
A heap entry is stale when its key is no longer |z_j|. The heap is scratch: it is built when the
constraint first binds and may be dropped at any time. Equal keys go by column, so that what a heap
yields does not depend on how it was made.

With a `centre` (d,), `ball` is (SIZE_CENTRED,) and GAP2 = sum (w_j - centre_j)^2 is kept as well, by
SIGNED = sum over live j of sign(w_j) centre_j.
"""

from __future__ import annotations

import numpy as np

from aucstream.kernels.jit import jit

TH, MASS, LIVE, GAM, PSI, HEAP_N, HEAP_ON = range(7)  # layout of `ball`; MASS = sum |w_j|
SIZE = 7
GAP2, SIGNED = 7, 8
SIZE_CENTRED = 9
REBASE = 1e3  # fold th into z when th * live exceeds this many radii: keeps 13 digits of w


@jit
def weight_of(z, th):
    """Return w for a stored z."""
    if z > 0.0:
        return z - th
    if z < 0.0:
        return z + th
    return 0.0


@jit
def _owed(z, gam, psi):
    if z > 0.0:
        return z * gam - psi
    if z < 0.0:
        return z * gam + psi
    return 0.0


@jit
def scores(idx, x, z, total, gam_at, psi_at, ball):
    """Return (x'w, x'sum of averaged iterates); reads all."""
    th, gam, psi = ball[TH], ball[GAM], ball[PSI]
    now = 0.0
    summed = 0.0
    for k in range(x.size):
        if idx is None:
            j = k
        else:
            j = idx[k]
        zj = z[j]
        now += x[k] * weight_of(zj, th)
        summed += x[k] * (total[j] + _owed(zj, gam - gam_at[j], psi - psi_at[j]))
    return now, summed


@jit
def settle_one(j, z, total, gam_at, psi_at, ball):
    """Bring the sum of coordinate j up to date; writes total, gam_at, psi_at."""
    total[j] += _owed(z[j], ball[GAM] - gam_at[j], ball[PSI] - psi_at[j])
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
def build_heap(z, heap_key, heap_idx, ball):
    """Make the heap of all live weights; writes heap_key, heap_idx, ball."""
    n = 0
    for j in range(z.size):
        if z[j] != 0.0:
            heap_key[n] = abs(z[j])
            heap_idx[n] = j
            n += 1
    for i in range(n // 2 - 1, -1, -1):
        _sift_down(heap_key, heap_idx, n, i)
    ball[HEAP_N] = n
    ball[HEAP_ON] = 1.0


@jit
def _push(j, z, heap_key, heap_idx, ball):
    n = np.int64(ball[HEAP_N])
    if n == heap_key.size:
        build_heap(z, heap_key, heap_idx, ball)  # holds j already
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
def place(j, change, z, total, gam_at, psi_at, heap_key, heap_idx, ball, centre=None):
    """Add `change` to weight j, its sum settled first; writes all arrays."""
    th = ball[TH]
    settle_one(j, z, total, gam_at, psi_at, ball)
    old = weight_of(z[j], th)
    new = old + change
    ball[MASS] += abs(new) - abs(old)
    if old != 0.0:
        ball[LIVE] -= 1.0
        if centre is not None:
            ball[SIGNED] -= centre[j] if old > 0.0 else -centre[j]
    if new > 0.0:
        z[j] = new + th
    elif new < 0.0:
        z[j] = new - th
    else:
        z[j] = 0.0
    # th may swallow a tiny weight: what is stored decides
    if z[j] == th or z[j] == -th:
        ball[MASS] -= abs(new)
        z[j] = 0.0
        new = 0.0
    if centre is not None:
        ball[GAP2] += (new - old) * ((new - centre[j]) + (old - centre[j]))
        if new != 0.0:
            ball[SIGNED] += centre[j] if new > 0.0 else -centre[j]
    if z[j] != 0.0:
        ball[LIVE] += 1.0
        if ball[HEAP_ON] != 0.0:
            _push(j, z, heap_key, heap_idx, ball)


@jit
def move(idx, x, c, z, total, gam_at, psi_at, heap_key, heap_idx, ball, centre=None):
    """Add c x to the weights, settling each touched sum first; writes all arrays."""
    for k in range(x.size):
        if idx is None:
            j = k
        else:
            j = idx[k]
        change = c * x[k]
        if change != 0.0:
            place(j, change, z, total, gam_at, psi_at, heap_key, heap_idx, ball, centre)


@jit
def project(radius, z, total, gam_at, psi_at, heap_key, heap_idx, ball, centre=None):
    """Project on the l1 ball of `radius`; writes all arrays. O(1) while the constraint is idle."""
    while ball[MASS] > radius:
        _lower(radius, z, total, gam_at, psi_at, heap_key, heap_idx, ball, centre)
        if ball[TH] * ball[LIVE] <= REBASE * radius:
            return
        # th has cost digits: the weights behind it are projected once more, from where they really are
        settle(z, total, gam_at, psi_at, ball, centre)


@jit
def _lower(radius, z, total, gam_at, psi_at, heap_key, heap_idx, ball, centre):
    """Raise th, killing what it reaches, until the mass is `radius`; writes all arrays."""
    if ball[HEAP_ON] == 0.0:
        build_heap(z, heap_key, heap_idx, ball)
    while ball[LIVE] > 0.0 and ball[MASS] > radius:
        key, j = heap_key[0], heap_idx[0]
        if key != abs(z[j]):
            pop(heap_key, heap_idx, ball)
            continue
        share = (ball[MASS] - radius) / ball[LIVE]
        least = key - ball[TH]
        if least <= share:
            settle_one(j, z, total, gam_at, psi_at, ball)
            if centre is not None:
                towards = centre[j] if z[j] > 0.0 else -centre[j]
                ball[GAP2] -= least * (least - 2.0 * towards)
                ball[SIGNED] -= towards
            z[j] = 0.0
            ball[MASS] -= least
            ball[LIVE] -= 1.0
            pop(heap_key, heap_idx, ball)
        else:
            if centre is not None:
                ball[GAP2] += share * (share * ball[LIVE] - 2.0 * (ball[MASS] - ball[SIGNED]))
            ball[TH] += share
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
        if z[j] != 0.0:
            live += 1.0
        psi_at[j] = 0.0
    if centre is not None:
        gap2 = 0.0
        signed = 0.0
        for j in range(z.size):
            gap2 += (z[j] - centre[j]) * (z[j] - centre[j])
            if z[j] > 0.0:
                signed += centre[j]
            elif z[j] < 0.0:
                signed -= centre[j]
        ball[GAP2] = gap2
        ball[SIGNED] = signed
    ball[TH] = 0.0
    ball[PSI] = 0.0
    ball[MASS] = mass
    ball[LIVE] = live
    ball[HEAP_ON] = 0.0
    ball[HEAP_N] = 0.0
