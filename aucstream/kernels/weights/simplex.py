"""A concave quadratic over the simplex, by steps between two coordinates."""

from __future__ import annotations

from aucstream.kernels.jit import jit


@jit
def maximise(gram, linear, share, slope, tol, steps):
    """Maximise linear'a - a' gram a / 2 over a >= 0, sum a = 1; return the steps made.

    gram : (k, k) positive semidefinite. linear : (k,).
    share : (k,), written: a feasible start, then the solution.
    slope : (k,), written: linear - gram a.
    Stops where the best slope is within `tol` of the mean slope a'slope, hence the value within `tol` of the
    maximum, or after `steps` steps. Each step moves mass to the coordinate i of the best slope from that
    coordinate j that gains most, by the exact maximum along the two or by all that j has.
    """
    k = linear.size
    for i in range(k):
        s = linear[i]
        for j in range(k):
            s -= gram[i, j] * share[j]
        slope[i] = s
    for count in range(steps):
        up = 0
        mean = 0.0
        for i in range(k):
            mean += share[i] * slope[i]
            if slope[i] > slope[up]:
                up = i
        if slope[up] - mean <= tol:
            return count
        down = -1
        most = 0.0
        for j in range(k):
            if share[j] > 0.0 and slope[j] < slope[up]:
                rise = slope[up] - slope[j]
                bend = gram[up, up] + gram[j, j] - 2.0 * gram[up, j]
                step = share[j] if rise >= bend * share[j] else rise / bend
                gain = step * (rise - 0.5 * bend * step)
                if gain > most:
                    most = gain
                    down = j
        if down < 0:
            return count
        rise = slope[up] - slope[down]
        bend = gram[up, up] + gram[down, down] - 2.0 * gram[up, down]
        if rise >= bend * share[down]:
            step = share[down]
            share[up] += step
            share[down] = 0.0
        else:
            step = rise / bend
            share[up] += step
            share[down] -= step
        for i in range(k):
            slope[i] -= step * (gram[i, up] - gram[i, down])
    return steps
