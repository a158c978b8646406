"""Sums over all pairs of a positive and a negative score, in O(n) once both are sorted.

A pair with margin m = p - a (p of a positive, a of a negative) is active where m < 1, strictly. What is
active for one row is a tail of the sorted negatives or a head of the sorted positives, so that two pointers
meet every border once. Sums of 1 - m grow from the widest margins down by terms that are never negative:
nothing cancels, whatever the level of the scores.

`pos` (n+,) and `neg` (n-,) are ascending. Which pairs are active is asked in one way everywhere (p - 1 < a),
so that the sums over rows of either class are sums over the same pairs.
"""

from __future__ import annotations

from aucstream.kernels.jit import jit


@jit
def count_active(pos, neg, of_pos, of_neg):
    """Write to of_pos (n+,) and of_neg (n-,), int64, how many active pairs each row has; return how many in all."""
    n, m = pos.size, neg.size
    total = 0
    first = 0
    for i in range(n):
        while first < m and not pos[i] - 1.0 < neg[first]:
            first += 1
        of_pos[i] = m - first
        total += m - first
    last = 0
    for j in range(m):
        while last < n and pos[last] - 1.0 < neg[j]:
            last += 1
        of_neg[j] = last
    return total


@jit
def hinge(pos, neg, of_pos):
    """Return the sum of (1 - m) over active pairs, from the counts `of_pos` of `count_active`.

    Its derivatives are -of_pos by the positives and of_neg by the negatives.
    """
    m = neg.size
    total = 0.0
    s = 0.0
    count = 0
    for i in range(pos.size - 1, -1, -1):
        if count:
            s += count * (pos[i + 1] - pos[i])
        while count < of_pos[i]:
            count += 1
            s += 1.0 + neg[m - count] - pos[i]
        total += s
    return total


@jit
def squared_hinge(pos, neg, of_pos, of_neg, slope_pos, slope_neg):
    """Return half the sum of (1 - m)^2 over active pairs, from the counts of `count_active`.

    Written: slope_pos (n+,) = -(sum of 1 - m over the row's active pairs), slope_neg (n-,) = the same sum: the
    derivatives of the value.
    """
    n, m = pos.size, neg.size
    total = 0.0
    s = 0.0  # of 1 - m
    s2 = 0.0  # of (1 - m)^2
    count = 0
    for i in range(n - 1, -1, -1):
        if count:
            fall = pos[i + 1] - pos[i]
            s2 += fall * (2.0 * s + count * fall)
            s += count * fall
        while count < of_pos[i]:
            count += 1
            h = 1.0 + neg[m - count] - pos[i]
            s += h
            s2 += h * h
        slope_pos[i] = -s
        total += s2
    s = 0.0
    count = 0
    for j in range(m):
        if count:
            s += count * (neg[j] - neg[j - 1])
        while count < of_neg[j]:
            s += 1.0 + neg[j] - pos[count]
            count += 1
        slope_neg[j] = s
    return 0.5 * total


@jit
def curvature(of_pos, of_neg, v_pos, v_neg, out_pos, out_neg):
    """Write the Hessian of `squared_hinge` times (v_pos, v_neg) to out_pos (n+,), out_neg (n-,).

    out_p = sum of v_p - v_a over the active pairs of p, out_a = sum of v_a - v_p over those of a.
    """
    n, m = v_pos.size, v_neg.size
    s = 0.0
    count = 0
    for i in range(n - 1, -1, -1):
        while count < of_pos[i]:
            count += 1
            s += v_neg[m - count]
        out_pos[i] = count * v_pos[i] - s
    s = 0.0
    count = 0
    for j in range(m):
        while count < of_neg[j]:
            s += v_pos[count]
            count += 1
        out_neg[j] = count * v_neg[j] - s
