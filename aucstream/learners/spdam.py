"""SPDAM: stochastic primal-dual AUC maximization, on a window of recent rows or a fixed set."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

import numpy as np

from aucstream.block import Floats, Ints
from aucstream.constraints import Ge, Gt, Le, Size
from aucstream.kernels.jit import jit, jit_allocating
from aucstream.kernels.pairs import buffers
from aucstream.kernels.pairs.window import ARRIVALS, SINCE, due, take, window_size
from aucstream.kernels.rows.arrival import LARGEST, LONGEST_ROW, admit_row, count_row
from aucstream.kernels.rows.linear import dot
from aucstream.learners._base.learner import learner
from aucstream.learners._base.state import Fixed, PoolIdx, PoolVal, Program, Slots, Unit, Vector
from aucstream.learners._families.primal_dual import TAU, centred_scores, pose, run, solve, start, straight
from aucstream.learners._families.windowed import Windowed

# layout of State.scalars after that of `kernels.pairs.window`: arrivals that the average has taken in; solves
AVERAGED, SOLVES = range(3, 5)
SMALLEST_LAM = 1e-300


@jit_allocating
def refresh(
    w, mean, scalars, labels, weights, duals, slots, pool_idx, pool_val, generator, lam, batch, passes
):  # fmt: skip
    """Solve on the window and take w into the average; writes w, mean, scalars, duals, generator."""
    n = window_size(scalars, labels)
    q = pose(slots, pool_idx, pool_val, labels, weights, duals, n, w.size, lam, batch)
    fresh = np.empty(n)
    centred_scores(q, w, fresh)
    newest = np.int64(scalars[ARRIVALS]) - 1
    for back in range(min(np.int64(scalars[SINCE]), n)):
        slot = (newest - back) % labels.size
        duals[slot] = fresh[slot]
    solve(q, w, passes, generator)
    scalars[AVERAGED] += scalars[SINCE]
    share = scalars[SINCE] / scalars[AVERAGED]
    for j in range(w.size):
        mean[j] += (w[j] - mean[j]) * share
    scalars[SINCE] = 0.0
    scalars[SOLVES] += 1.0


@jit
def step(
    w, mean, scalars, labels, weights, duals, slots, pool_idx, pool_val, generator, ledger,
    idx, x, y, weight, lam, batch, passes, refresh_frac, kappa,
):  # fmt: skip
    """Take one arrival, and solve if it is due; writes all state.

    Returns the score of the averaged weights before it; NaN where the row was skipped.
    """
    score = dot(idx, x, mean)
    length, factor, unit, ratio, square, rows = admit_row(ledger, x, kappa)
    long = factor * length
    if not (math.isfinite(score) and long < LONGEST_ROW and weight < LARGEST and weight * long < LARGEST):
        return math.nan
    count_row(ledger, score, y, weight, square, rows)
    if ratio != 1.0:
        buffers.rescale(ratio, slots, pool_val)
    weights[take(idx, x, factor, y, scalars, slots, pool_idx, pool_val, labels)] = weight
    if due(scalars, labels, refresh_frac):
        penalty = max(lam * unit * unit, SMALLEST_LAM)
        refresh(
            w, mean, scalars, labels, weights, duals, slots, pool_idx, pool_val, generator, penalty, batch, passes
        )  # fmt: skip
    return score


@jit
def score_row(
    w, mean, scalars, labels, weights, duals, slots, pool_idx, pool_val, generator, ledger,
    idx, x, lam, batch, passes, refresh_frac, kappa,
):  # fmt: skip
    """Return the score of a row; changes nothing."""
    return dot(idx, x, mean)


@jit_allocating
def finite_sum(w, mean, duals, labels, slots, idx, val, generator, epochs, lam, batch):
    """[NYL19] Table 1 on the rows of all slots, from zeros; writes w, mean, duals, generator."""
    n = labels.size
    q = pose(slots, idx, val, labels, np.ones(n), duals, n, w.size, lam, batch)
    if q.k[TAU] == 0.0:
        straight(q)
    else:
        start(q, w)
        run(q, epochs, generator)
    w[:] = q.v
    mean[:] = q.v


class State(NamedTuple):
    """2 d + 5 floats, one generator, and `n_buffer` rows with their labels, weights and duals."""

    w: Annotated[Floats, Vector(Unit.WEIGHT)]
    mean: Annotated[Floats, Vector(Unit.WEIGHT)]  # of w after each solve
    scalars: Annotated[Floats, Fixed(5)]
    labels: Annotated[Floats, Fixed("n_buffer")]
    weights: Annotated[Floats, Fixed("n_buffer")]
    duals: Annotated[Floats, Fixed("n_buffer")]  # those of rows since the last solve mean nothing
    slots: Annotated[Ints, Slots()]
    pool_idx: Annotated[Ints, PoolIdx()]
    pool_val: Annotated[Floats, PoolVal()]
    generator: Annotated[np.ndarray, Fixed(1, np.uint64)]


_PROGRAM = Program(State, step, score_row)  # between two solves all vectors are plain


@learner
class SPDAM(Windowed):
    """Stochastic primal-dual AUC maximization: the squared AUC loss solved on a window of recent rows.

    The best of the saddle-point learners on short streams, since it goes over its rows several times; 2 to 4
    times their price a row. Over a fixed set (`fit`) it converges geometrically.

    Parameters
    ----------
    lam : float, default=3e-3
        In (0, inf). Penalty lam/2 \\|w\\|^2 beside half the loss; half the lambda of [1]_ eq. (3).
    batch : int, default=16
        >= 1. Rows in the subset of one iteration. [1]_ Table 1.
    passes : float, default=0.5
        In (0, 1000]. Passes over the window in one block of iterations. `fit` ignores it: its passes are `epochs`.
    n_buffer : int, default=1000
        >= 2. Rows in the window.
    refresh_frac : float, default=0.25
        In (0, 1]. A solve is due after this part of the window's rows, 16 at least.
    kappa : float or None, default=None
        In (0, inf). Largest row norm. None: a running root mean square takes its place, so that rows
        of any scale work; a number gives the paper's literal form.
    seed : int or None, default=0
        Of all draws; None draws one at construction.

    Notes
    -----
    For n rows with share p+ of positives, p- = 1 - p+, class means m+ and m-, bvec = m- - m+ ::

        xbar_i = (x_i - m_{y_i}) / sqrt(p_{y_i}),  g(w) = (bvec'w)^2/2 + bvec'w + lam/2 \\|w\\|^2
        min_w max_be  (1/n) sum_i (be_i w'xbar_i - be_i^2/2) + g(w)  =  min_w (L(w) - 1)/2 + lam/2 \\|w\\|^2

    with L(w) = E(1 - w'(x+ - x-))^2. An iteration on a random subset I of m rows, u = (1/n) sum be_i xbar_i::

        be_i += sigma (w_ext'xbar_i - be_i) / (1 + sigma), i in I;  ubar = u + (1/m) sum_I (its changes) xbar_i
        w_new = argmin_v ubar'v + g(v) + \\|v - w\\|^2 / (2 tau);  w_ext = w_new + theta (w_new - w)

    where, with k^2 = max \\|xbar_i\\|^2, sigma solves 4 m k^2 sigma^2 - 2 (n - m) lam sigma - n lam = 0,
    tau = 1/(4 sigma k^2), theta = 1 - lam/(lam + 2 sigma k^2).

    When a solve is due, `passes` n/m iterations run on the window, from w and the duals kept; the duals of
    new rows are w'xbar_i. Guard, with P the objective: while P(w) > min(P(w before), 0) up to three more such
    blocks run; then four from zero; then w is the better one of the best multiples of w before and of the w
    reached. The output averages the w of all solves, weighted by the arrivals since the one before. Rows
    after the last solve wait.

    Time: an arrival is O(nnz), an iteration O(nnz of its subset), a solve O(d) besides; on average
    O(nnz passes / refresh_frac) a row, more where the guard acts. Memory 16 bytes a feature and the window;
    48 more a feature while solving.

    `fit` is [1]_ Table 1 over the fixed set: epochs n/m iterations, without guard; the output is the last w.

    Deviations: the window and its guard, as the method converges but not monotonically, and restarts from
    inconsistent w and duals compound; the constants, since those printed in [1]_ do not meet the conditions
    of its proof; xbar without a factor 2, so that both halves of the loss have the same scale; an example's
    weight is its share in p, m and the mean over the window; where all rows of a class are equal, w is
    -bvec / (\\|bvec\\|^2 + lam) at once; `kappa=None`.

    References
    ----------
    .. [1] Natole, Ying, Lyu, "Stochastic AUC Optimization Algorithms With Linear Convergence", Frontiers in
       Applied Mathematics and Statistics 2019, Table 1 and Theorem 4.1.
    .. [2] Zhang, Lin, "Stochastic Primal-Dual Coordinate Method for Regularized Empirical Risk
       Minimization", ICML 2015.

    Examples
    --------
    >>> from aucstream import SPDAM
    >>> model = SPDAM()
    >>> for a, y in [(1.0, True), (-1.0, False)] * 100:
    ...     model.learn_one({"a": a}, y)
    >>> model.score_one({"a": 1.0}) > model.score_one({"a": -1.0})
    True
    """

    lam: Annotated[float, Gt(0)] = 3e-3
    batch: Annotated[int, Ge(1), Size("buffered rows")] = 16
    passes: Annotated[float, Gt(0), Le(1000)] = 0.5
    n_buffer: Annotated[int, Ge(2), Size("buffered rows")] = 1000
    refresh_frac: Annotated[float, Gt(0), Le(1)] = 0.25
    kappa: Annotated[float | None, Gt(0)] = None
    seed: int | None = 0

    _steps_and_penalties = frozenset({"lam", "passes"})

    def _chosen_program(self) -> Program:
        return _PROGRAM

    def _kernel_args(self) -> tuple[float, ...]:
        return (self.lam, self.batch, self.passes, self.refresh_frac, self.kappa or 0.0)

    def _fit_fixed(self, labels: Floats, slots: Ints, idx: Ints, val: Floats, unit: float, epochs: int) -> bool:
        w, mean, generator = (self._field(name) for name in ("w", "mean", "generator"))
        duals = np.zeros(labels.size)
        lam = max(self.lam * unit * unit, SMALLEST_LAM)
        finite_sum(w, mean, duals, labels, slots, idx, val, generator, float(epochs), lam, self.batch)
        rows = min(labels.size, self.n_buffer)
        self._field("duals")[:rows] = duals[-rows:]
        self._field("scalars")[AVERAGED] = labels.size
        return bool(np.isfinite(w).all() and np.isfinite(duals).all())

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"n_buffer": 60}

    @classmethod
    def _extreme_params(cls) -> Iterator[dict[str, Any]]:
        yield {"lam": 1e-12, "passes": 20.0}
        yield {"lam": 1e6}
