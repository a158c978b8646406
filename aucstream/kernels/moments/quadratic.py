"""Minimisers of w'Aw/2 - w'b + lam1 |w|_1 + lam2/2 |w|^2 for a positive semidefinite A.

A is a matrix, its diagonal and one rank besides, or a product FF'. Strict sums in an order that depends on the
size alone: equal input gives equal bits, whichever library of linear algebra is installed.
"""

from __future__ import annotations

import math

import numpy as np

from aucstream.kernels.jit import jit, jit_allocating

PANEL = 48  # rows eliminated at once: a panel and a row of 4096 stay in the cache
DEPENDENT = 1e-13  # share of a column's own square below which its pivot is rounding
SWEEPS = 1000
TOLERANCE = 1e-6  # of the largest |b|: optimality at which coordinate descent stops


@jit
def eliminate(A, pivots):
    """Write U of A = U'U over the upper triangle of A (n, n) and 1/U_kk to pivots (n,); O(n^3/3).

    A column that depends on those before it gets pivot 0 and a row of zeros: it takes no part.
    """
    n = pivots.size
    for k in range(n):
        pivots[k] = A[k, k]
    # the rows are slices, from the diagonal on: loops over all of a slice are compiled to vectors
    for first in range(0, n, PANEL):
        last = min(first + PANEL, n)
        for k in range(first, last):
            row = A[k, k:n]
            for m in range(first, k):
                above = A[m, k:n]
                f = above[0]
                for j in range(row.size):
                    row[j] -= f * above[j]
            if row[0] > DEPENDENT * pivots[k]:
                pivots[k] = 1.0 / math.sqrt(row[0])
            else:
                pivots[k] = 0.0
            for j in range(row.size):
                row[j] *= pivots[k]
        four = last - (last - first) % 4
        for i in range(last, n):
            row = A[i, i:n]
            for k in range(first, four, 4):
                a, b, c, e = A[k, i:n], A[k + 1, i:n], A[k + 2, i:n], A[k + 3, i:n]
                p, q, r, s = a[0], b[0], c[0], e[0]
                for j in range(row.size):
                    row[j] -= (p * a[j] + q * b[j]) + (r * c[j] + s * e[j])
            for k in range(four, last):
                a = A[k, i:n]
                p = a[0]
                for j in range(row.size):
                    row[j] -= p * a[j]


@jit_allocating
def ridge(A, b, lam2):
    """Return (A + lam2 I)^-1 b; reads the upper triangle of A (n, n) and overwrites it and b (n,).

    Where that is singular, a minimiser whose weights of dependent columns are 0.
    """
    n = b.size
    pivots = np.empty(n)
    for k in range(n):
        A[k, k] += lam2
    eliminate(A, pivots)
    for k in range(n):
        row = A[k]
        b[k] *= pivots[k]
        f = b[k]
        for j in range(k + 1, n):
            b[j] -= f * row[j]
    for k in range(n - 1, -1, -1):
        row = A[k]
        total = b[k]
        for j in range(k + 1, n):
            total -= row[j] * b[j]
        b[k] = total * pivots[k]
    return b


@jit
def shrunk(u, threshold):
    """Return sign(u) max(|u| - threshold, 0)."""
    return math.copysign(max(abs(u) - threshold, 0.0), u)


@jit
def violation(w, r, lam1, lam2):
    """Return by how much w misses optimality, r = b - Aw: the largest over the coordinates."""
    most = 0.0
    for j in range(w.size):
        g = lam2 * w[j] - r[j]
        if w[j] != 0.0:
            miss = abs(g + math.copysign(lam1, w[j]))
        else:
            miss = abs(g) - lam1
        most = max(most, miss)
    return most


@jit_allocating
def elastic_net(A, b, lam1, lam2, w):
    """Write the minimiser to w (n,), by cyclic coordinate descent from w; A (n, n) symmetric. O(n^2) a sweep.

    Columns with A_jj + lam2 = 0 stay 0.
    """
    n = b.size
    r = b.copy()
    for k in range(n):
        if w[k] != 0.0:
            f, row = w[k], A[k]
            for j in range(n):
                r[j] -= f * row[j]
    enough = TOLERANCE * np.abs(b).max() if n > 0 else 0.0
    for _ in range(SWEEPS):
        for k in range(n):
            curvature = A[k, k] + lam2
            new = 0.0
            if curvature > 0.0:
                new = shrunk(r[k] + A[k, k] * w[k], lam1) / curvature
            if new != w[k]:
                f, row = new - w[k], A[k]
                for j in range(n):
                    r[j] -= f * row[j]
                w[k] = new
        if violation(w, r, lam1, lam2) <= enough:
            break


@jit_allocating
def elastic_net_of_product(F, b, lam1, lam2, w):
    """Write the minimiser for A = FF', F (n, k), to w (n,), by coordinate descent from w; O(n k) a sweep."""
    n, size = F.shape
    q = np.zeros(size)  # F'w
    squares = np.zeros(n)
    for j in range(n):
        row = F[j]
        for k in range(size):
            q[k] += w[j] * row[k]
            squares[j] += row[k] * row[k]
    r = np.empty(n)
    enough = TOLERANCE * np.abs(b).max() if n > 0 else 0.0
    for _ in range(SWEEPS):
        for j in range(n):
            row = F[j]
            curvature = squares[j] + lam2
            new = 0.0
            if curvature > 0.0:
                along = 0.0
                for k in range(size):
                    along += row[k] * q[k]
                new = shrunk(b[j] - along + squares[j] * w[j], lam1) / curvature
            if new != w[j]:
                f = new - w[j]
                for k in range(size):
                    q[k] += f * row[k]
                w[j] = new
        for j in range(n):
            along = 0.0
            for k in range(size):
                along += F[j, k] * q[k]
            r[j] = b[j] - along
        if violation(w, r, lam1, lam2) <= enough:
            break


@jit
def diagonal_net(b, v, lam1, lam2, w):
    """Write the minimiser for A = diag(v) + bb' to w (n,): w = shrunk(c b, lam1)/(v + lam2), c = 1 - b'w.

    c is the root of the increasing function c - 1 + b'w(c) on (0, 1], by bisection to the last bit.
    """
    low, high = 0.0, 1.0
    while True:
        c = 0.5 * (low + high)
        done = c == low or c == high
        if done:
            c = high
        above = c - 1.0
        for j in range(b.size):
            curvature = v[j] + lam2
            w[j] = shrunk(c * b[j], lam1) / curvature if curvature > 0.0 else 0.0
            above += b[j] * w[j]
        if done:
            return
        if above > 0.0:
            high = c
        else:
            low = c
