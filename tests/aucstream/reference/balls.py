"""Projections onto the feasible sets of the saddle-point learners.

[D08] Duchi, Shalev-Shwartz, Singer, Chandra, *Efficient Projections onto the l1-Ball*, ICML 2008.
[LZCWY18] Liu, Zhang, Chen, Wang, Yang, *Fast Stochastic AUC Maximization with O(1/n)-Convergence Rate*,
ICML 2018.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np


def project_l2(w: np.ndarray, radius: float) -> np.ndarray:
    """Return w min(1, R/|w|)."""
    norm = math.sqrt(float(w @ w))
    return w if norm <= radius else w * (radius / norm)


def project_l1(w: np.ndarray, radius: float) -> np.ndarray:
    """Return the projection onto |w|_1 <= R: soft thresholding at theta [D08, Fig. 1].

    With |w| sorted, u_1 >= u_2 >= ..: rho = max{k : u_k k > sum_{i<=k} u_i - R} and
    theta = (sum_{i<=rho} u_i - R) / rho.
    """
    size = np.abs(w)
    if size.sum() <= radius:
        return w
    u = np.sort(size)[::-1]
    excess = np.cumsum(u) - radius
    rho = int(np.nonzero(u * np.arange(1, u.size + 1) >= excess)[0][-1]) + 1
    theta = excess[rho - 1] / rho
    return np.sign(w) * np.maximum(size - theta, 0.0)


def clip(value: float, low: float, high: float) -> float:
    """Return the projection onto the interval [low, high]."""
    return min(max(value, low), high)


def project_omega1(
    w: np.ndarray, a: float, b: float, norm: str, radius: float, box: float
) -> tuple[np.ndarray, float, float]:
    """Return the projection onto Omega1 = {|w| <= radius, |a| <= box, |b| <= box} [LZCWY18 (2)].

    `norm` is "l1" or "l2". The set is a product, so each part is projected alone.
    """
    ball = project_l1 if norm == "l1" else project_l2
    return ball(w, radius), clip(a, -box, box), clip(b, -box, box)


def distance(v: tuple[np.ndarray, float, float], v1: tuple[np.ndarray, float, float], unit: float = 1.0) -> float:
    """Return sqrt(unit^2 |w-w1|^2 + (a-a1)^2 + (b-b1)^2)."""
    e = (v[0] - v1[0]) * unit
    return math.sqrt(float(e @ e) + (v[1] - v1[1]) ** 2 + (v[2] - v1[2]) ** 2)


def project_omega1_ball(
    v: tuple[np.ndarray, float, float],
    v1: tuple[np.ndarray, float, float],
    r: float,
    norm: str,
    radius: float,
    box: float,
    unit: float = 1.0,
    halvings: int = 60,
) -> tuple[np.ndarray, float, float]:
    """Return the exact projection of v onto Omega1 and the ball of radius r around v1 in Omega1.

    The KKT conditions of min |x-v|^2/2 with multiplier nu >= 0 for the ball say that x minimises
    |x-v|^2/2 + nu |x-v1|^2/2 over Omega1, hence, with t = 1/(1+nu),

        x(t) = P_Omega1( v1 + t (v - v1) ),   |x(t) - v1| non-decreasing in t,

    and the answer is x(1) if it is in the ball, else x(t*) with |x(t*) - v1| = r, by bisection.
    [LZCWY18] section 3.2 says "alternating projection", which ends at some point of the intersection
    instead of the nearest one.

    w is in raw units and `radius` its radius there; distances use unit * w (see `RowScale`). In the
    coordinates (unit w, a, b) the set and the projection are the same, so P_Omega1 may act on raw w.
    """

    def at(t: float) -> tuple[np.ndarray, float, float]:
        if t == 1.0:
            return project_omega1(*v, norm, radius, box)
        w, a, b = (v1[0] + t * (v[0] - v1[0]), v1[1] + t * (v[1] - v1[1]), v1[2] + t * (v[2] - v1[2]))
        return project_omega1(w, a, b, norm, radius, box)

    x = at(1.0)
    if distance(x, v1, unit) <= r:
        return x
    low, high = 0.0, 1.0
    for _ in range(halvings):
        middle = 0.5 * (low + high)
        if distance(at(middle), v1, unit) <= r:
            low = middle
        else:
            high = middle
    return at(low)


def dykstra(
    v: np.ndarray,
    projections: list[Callable[[np.ndarray], np.ndarray]],
    rounds: int = 20000,
    tol: float = 1e-14,
) -> np.ndarray:
    """Return the projection onto an intersection of convex sets by Dykstra's algorithm.

    Slow and general; it serves to check `project_omega1_ball`. It stops when the corrections stand still:
    the point itself may rest for some rounds and go on later.
    """
    x = v.copy()
    corrections = [np.zeros_like(v) for _ in projections]
    for _ in range(rounds):
        moved = 0.0
        for k, project in enumerate(projections):
            shifted = x + corrections[k]
            x = project(shifted)
            moved = max(moved, float(np.max(np.abs(shifted - x - corrections[k]))))
            corrections[k] = shifted - x
        if moved <= tol:
            break
    return x
