"""Second moments of the rows of two classes, in sums that a sparse row can enter in O(nnz^2).

Of each class, about a reference point r: total = sum c (x - r), square = sum c (x - r)^2 and the products of two
columns, those of positives above the diagonal of `cross` (d, d), those of negatives below it. With n the weight
of the rows, the mean is r + total/n and the scatter about it is (sums) - total total'/n.

r_j is 0 from the first row on that lacks column j, so that a row touches the products of its own entries only.
In the columns that every row has it follows the mean, so that nothing cancels there: raw sums of a column with
mean 1e6 and deviation 1 would keep 4 digits of its variance. `cross` None: the diagonal alone.
"""

from __future__ import annotations

import numpy as np

from aucstream.kernels.jit import jit, jit_allocating


@jit
def gain_product(cross, positive, i, j, value):
    """Add to the product of columns i != j of a class; writes cross."""
    if (i < j) == positive:
        cross[i, j] += value
    else:
        cross[j, i] += value


@jit
def decay(cross, square, total, positive, factor):
    """Multiply all sums of a class by `factor`; writes cross, square, total. O(d^2)."""
    for i in range(total.size):
        total[i] *= factor
        square[i] *= factor
        if cross is not None:
            row = cross[i]
            first, last = (i + 1, row.size) if positive else (0, i)
            for j in range(first, last):
                row[j] *= factor


@jit_allocating
def begin(idx, x, ref):
    """Make the first row of a class its r; returns in how many columns r is not 0. Writes ref."""
    ref[:] = 0.0
    for k in range(x.size):
        ref[k if idx is None else idx[k]] = x[k]
    return np.count_nonzero(x)


@jit
def release(cross, square, total, ref, n, positive, idx, x, present):
    """Move r to 0 in the columns that the row lacks: O(d) each, once; returns how many. Writes all arrays but x.

    sum c x_j (x_k - r_k) = sum c (x_j - r_j)(x_k - r_k) + r_j total_k.
    """
    present[:] = 0.0
    for k in range(x.size):
        present[k if idx is None else idx[k]] = 1.0
    released = 0
    for j in range(ref.size):
        r = ref[j]
        if r != 0.0 and present[j] == 0.0:
            if cross is not None:
                for k in range(ref.size):
                    if k != j and total[k] != 0.0:
                        gain_product(cross, positive, j, k, r * total[k])
            square[j] += r * (2.0 * total[j] + n * r)
            total[j] += n * r
            ref[j] = 0.0
            released += 1
    return released


@jit
def centred_in(idx, x, ref):
    """Return in how many columns of the row r is not 0."""
    count = 0
    for k in range(x.size):
        if ref[k if idx is None else idx[k]] != 0.0:
            count += 1
    return count


@jit
def run_start(idx):
    """Return j where idx is j, j + 1, j + 2, …; -1 where it is not."""
    for k in range(1, idx.size):
        if idx[k] != idx[0] + k:
            return -1
    return idx[0] if idx.size > 0 else 0


@jit
def add_multiple(factor, x, out):
    """Add factor x to out (n,). Both are slices: their loop is compiled to vectors, one from `first` on is not."""
    for k in range(out.size):
        out[k] += factor * x[k]


@jit
def add_row(cross, square, total, ref, positive, idx, x, weight, gap):
    """Take a row into the sums of its class, r = 0 in all columns it lacks; writes cross, square, total, gap."""
    n = x.size
    for k in range(n):
        j = k if idx is None else idx[k]
        e = x[k] - ref[j]
        gap[k] = e
        total[j] += weight * e
        square[j] += weight * e * e
    if cross is None:
        return
    start = 0 if idx is None else run_start(idx)
    for a in range(n):
        f = weight * gap[a]
        if f == 0.0:
            continue
        first, last = (a + 1, n) if positive else (0, a)
        if start >= 0:
            add_multiple(f, gap[first:last], cross[start + a, start + first : start + last])
        elif idx is not None:
            for b in range(first, last):
                gain_product(cross, positive, idx[a], idx[b], f * gap[b])


@jit
def recentre(cross, square, total, ref, n, positive):
    """Move r to the mean where it is not 0; returns in how many columns. Writes all. O(d^2)."""
    for i in range(ref.size):
        if ref[i] != 0.0 and total[i] != 0.0:
            mean = total[i] / n
            square[i] = max(0.0, square[i] - mean * total[i])
            if cross is not None:
                for j in range(ref.size):
                    if total[j] != 0.0 and (j < i or (j > i and ref[j] == 0.0)):
                        gain_product(cross, positive, i, j, -mean * total[j])
    count = 0
    for i in range(ref.size):
        if ref[i] != 0.0:
            ref[i] += total[i] / n
            total[i] = 0.0
            if ref[i] != 0.0:
                count += 1
    return count


@jit
def difference(
    columns, square_neg, square_pos, total_neg, total_pos, ref_neg, ref_pos, n_neg, n_pos, mu, v
):  # fmt: skip
    """Write the mean and the variances of x+ - x-, independent draws of both classes, in `columns` to mu, v."""
    for a in range(columns.size):
        j = columns[a]
        s, t = total_neg[j], total_pos[j]
        mu[a] = (ref_pos[j] - ref_neg[j]) + (t / n_pos - s / n_neg)
        v[a] = max(0.0, square_neg[j] - s * s / n_neg) / n_neg + max(0.0, square_pos[j] - t * t / n_pos) / n_pos


@jit
def second_moments(columns, cross, total_neg, total_pos, n_neg, n_pos, mu, v, A):
    """Write the second moments of x+ - x- in `columns` to A (k, k), symmetric; mu, v from `difference`."""
    for a in range(columns.size):
        i = columns[a]
        A[a, a] = v[a] + mu[a] * mu[a]
        s, t = total_neg[i] / n_neg, total_pos[i] / n_pos
        for b in range(a + 1, columns.size):
            j = columns[b]
            negative = (cross[j, i] - s * total_neg[j]) / n_neg
            A[a, b] = A[b, a] = (negative + (cross[i, j] - t * total_pos[j]) / n_pos) + mu[a] * mu[b]
