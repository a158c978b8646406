"""Eigenvalues and eigenvectors of a small symmetric matrix: reflections to a tridiagonal one, then QL rotations.

A library of linear algebra is faster on an idle machine. It also brings threads, whose number may decide the
last bits and which stall on a busy machine (128 x 128 with both cores taken: 170 ms, this one a tenth of it).

Golub, Van Loan, "Matrix Computations", sections 8.3.1 (reflections) and 8.3.5 (implicit shifts).
"""

from __future__ import annotations

import math

import numpy as np

from aucstream.kernels.jit import jit, jit_allocating

ROTATIONS = 60  # QL steps for one eigenvalue; two or three are usual
EPSILON = 2.0**-52
SMALLEST = 1e-280  # a sum of squares that is nothing beside the largest entry, 1; its inverse is finite


@jit_allocating
def reflect(A, off, betas):
    """Make A (n, n), its largest entry 1, tridiagonal, its subdiagonal in off (n,); reflection k stays in row k, its factor in betas.

    H_k = I - beta v v', v = A[k, k + 1:]. Writes all. O(4 n^3 / 3).
    """
    n = off.size
    p = np.empty(n)
    for k in range(n - 2):
        v = A[k]
        square = 0.0
        for j in range(k + 2, n):
            square += v[j] * v[j]
        betas[k] = 0.0
        off[k] = v[k + 1]
        if square < SMALLEST:
            continue
        length = math.copysign(math.sqrt(square + v[k + 1] * v[k + 1]), v[k + 1])
        off[k] = -length
        v[k + 1] += length
        beta = 1.0 / (length * v[k + 1])
        betas[k] = beta
        p[k + 1 :] = 0.0
        for i in range(k + 1, n):
            f, row = beta * v[i], A[i]
            for j in range(k + 1, n):
                p[j] += f * row[j]
        half = 0.0
        for j in range(k + 1, n):
            half += p[j] * v[j]
        half *= 0.5 * beta
        for j in range(k + 1, n):
            p[j] -= half * v[j]
        for i in range(k + 1, n):
            f, g, row = v[i], p[i], A[i]
            for j in range(k + 1, n):
                row[j] -= f * p[j] + g * v[j]
    if n > 1:
        off[n - 2] = A[n - 2, n - 1]
    if n > 0:
        off[n - 1] = 0.0


@jit
def rotate(d, off, Z):
    """Turn the tridiagonal matrix of diagonal d and subdiagonal off into its eigenvalues d.

    Z (n, n), the unit matrix before, gets an eigenvector a row. Writes all. O(3 n^3).
    """
    n = d.size
    for first in range(n):
        for _ in range(ROTATIONS):
            last = first
            while last < n - 1 and abs(off[last]) > EPSILON * (abs(d[last]) + abs(d[last + 1])):
                last += 1
            if last == first:
                break
            g = (d[first + 1] - d[first]) / (2.0 * off[first])
            g = d[last] - d[first] + off[first] / (g + math.copysign(math.hypot(g, 1.0), g))
            s, c, p = 1.0, 1.0, 0.0
            whole = True
            for i in range(last - 1, first - 1, -1):
                f, b = s * off[i], c * off[i]
                r = math.hypot(f, g)
                off[i + 1] = r
                if r == 0.0:
                    d[i + 1] -= p
                    off[last] = 0.0
                    whole = False
                    break
                s, c = f / r, g / r
                g = d[i + 1] - p
                r = (d[i] - g) * s + 2.0 * c * b
                p = s * r
                d[i + 1] = g + p
                g = c * r - b
                upper, lower = Z[i], Z[i + 1]
                for k in range(n):
                    f = lower[k]
                    lower[k] = s * upper[k] + c * f
                    upper[k] = c * upper[k] - s * f
            if whole:
                d[first] -= p
                off[first] = g
                off[last] = 0.0


@jit_allocating
def largest(A, count):
    """Return (all n eigenvalues, falling; eigenvectors (count, n) of the first `count`); overwrites A (n, n)."""
    n = A.shape[0]
    top = np.abs(A).max() if n > 0 else 0.0
    if top > 0.0:  # squares of entries stay finite
        for k in range(n):
            A[k] /= top
    off, betas = np.zeros(n), np.zeros(n)
    reflect(A, off, betas)
    d = np.empty(n)
    for k in range(n):
        d[k] = A[k, k]
    Z = np.eye(n)
    rotate(d, off, Z)
    order = np.argsort(-d)
    vectors = np.empty((count, n))
    for a in range(count):
        z = vectors[a]
        z[:] = Z[order[a]]
        for k in range(n - 3, -1, -1):
            v = A[k]
            along = 0.0
            for j in range(k + 1, n):
                along += v[j] * z[j]
            along *= betas[k]
            for j in range(k + 1, n):
                z[j] -= along * v[j]
    return top * d[order], vectors
