"""A learner that is not linear and is no part of the library: the contracts may not suppose what it does not declare.

    score = b + sum_j v_j tanh(x_j / 4),  v += eta / sqrt(t) (1 - p) y tanh(x / 4),  p = 1 / (1 + exp(-y score)),  all averaged

It has no weights and no merge, a change of units would change its scores, and it skips no finite row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

from aucstream.block import Floats
from aucstream.constraints import Gt
from aucstream.kernels.jit import jit
from aucstream.kernels.rows.arrival import count_example
from aucstream.kernels.rows.finite import all_finite
from aucstream.kernels.weights.example_weights import by_mean
from aucstream.learners._base.capabilities import Capability
from aucstream.learners._base.learner import Learner, learner
from aucstream.learners._base.state import Fixed, Program, Vector

STEPS, BIAS, BIAS_SUM = range(3)  # layout of State.scalars


@jit
def both_sums(v, u, scalars, idx, x):
    """Return the scores of a row by the last v and by the sum of all."""
    last, total = scalars[BIAS], scalars[BIAS_SUM]
    for k in range(x.size):
        j = k if idx is None else idx[k]
        last += v[j] * math.tanh(0.25 * x[k])
        total += u[j] * math.tanh(0.25 * x[k])
    return last, total


@jit
def step(v, u, scalars, ledger, idx, x, y, weight, eta, bias):
    """One step; writes all state. Returns the averaged score before it; NaN for a row that is not finite."""
    if not all_finite(x):
        return math.nan
    last, total = both_sums(v, u, scalars, idx, x)
    score = total / scalars[STEPS] if scalars[STEPS] > 0.0 else 0.0
    size = by_mean(ledger, y, weight) * eta / math.sqrt(scalars[STEPS] + 1.0)
    count_example(ledger, score, y, weight)
    margin = y * last
    size *= y / (1.0 + math.exp(margin)) if margin < 700.0 else 0.0
    for k in range(x.size):
        v[k if idx is None else idx[k]] += size * math.tanh(0.25 * x[k])
    for j in range(v.size):
        u[j] += v[j]
    scalars[BIAS] += bias * size
    scalars[BIAS_SUM] += scalars[BIAS]
    scalars[STEPS] += 1.0
    return score


@jit
def score_row(v, u, scalars, ledger, idx, x, eta, bias):
    """Return the score of a row, NaN where it is not finite; changes nothing."""
    if not all_finite(x):
        return math.nan
    _, total = both_sums(v, u, scalars, idx, x)
    return total / scalars[STEPS] if scalars[STEPS] > 0.0 else 0.0


class State(NamedTuple):
    """2 d + 3 floats."""

    v: Annotated[Floats, Vector()]
    u: Annotated[Floats, Vector()]  # sum of v
    scalars: Annotated[Floats, Fixed(3)]


_PROGRAM = Program(State, step, score_row)


@learner
class TanhSum(Learner):
    """A weighted sum of squashed features."""

    eta: Annotated[float, Gt(0)] = 32.0
    bias: bool = True

    _capabilities = frozenset(
        {
            Capability.ONE_CALL,
            Capability.REPEATED_FIT,
            Capability.PIPELINE,
            Capability.STEPS_BEFORE,
            Capability.FORMLESS,
            Capability.BARE_ROWS,
            Capability.ONE_CLASS,
            Capability.EVERY_FINITE_ROW,
        }
    )
    _steps_and_penalties = frozenset({"eta"})

    def _chosen_program(self) -> Program:
        return _PROGRAM

    def _kernel_args(self) -> tuple[float, ...]:
        return (self.eta, float(self.bias))

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
