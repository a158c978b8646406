"""MBA: mini-batch AUC optimization, from the exact moments of all pairs."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, Self

import numpy as np

from aucstream import snapshot
from aucstream.block import Block, Floats, Ints
from aucstream.constraints import Ge, Gt, Size
from aucstream.errors import CannotMerge, Description, InvalidParams
from aucstream.kernels.moments import sketch
from aucstream.kernels.pairs import buffers
from aucstream.kernels.rows.linear import norm
from aucstream.learners._base.capabilities import Capability
from aucstream.learners._base.learner import Learner, learner
from aucstream.learners._base.merging import Buffer, buffers_by_class, merge_pools, upper_triangle
from aucstream.learners._base.state import Program
from aucstream.learners._families import pair_moments_full, pair_moments_sampled, pair_moments_sketch
from aucstream.learners._families.fixed_set import columns_of, start_anew
from aucstream.learners._families.pair_moments import (
    AUTO,
    CAPACITY,
    CENTRED,
    CLASS,
    EVENTS,
    GAIN,
    GLOBAL,
    LAST,
    PAIRS,
    SEEN,
    SKETCHED,
    TOUCHED,
    USED,
    WIDEST,
    N,
    admitted,
    weight_now,
)
from aucstream.learners._families.pair_moments_full import DIAGONAL, FULL
from aucstream.learners._families.pair_moments_sampled import SAMPLED
from aucstream.learners._families.pair_moments_sketch import SKETCH
from aucstream.native.row_entry import RowArguments, ScaledRow

_PROGRAMS = {"full": FULL, "diag": DIAGONAL, "sketch": SKETCH, "pairs": SAMPLED}
_SOLVERS: dict[str, Callable[..., None]] = {
    "full": pair_moments_full.solve_full,
    "diag": pair_moments_full.solve_diag,
    "sketch": pair_moments_sketch.solve,
    "pairs": pair_moments_sampled.solve,
}
_CLASSES = ("neg", "pos")


@learner
class MBA(Learner):
    """Mini-batch AUC optimization: the pairwise squared loss of all pairs, solved exactly on a schedule.

    The count, mean and covariance of each class give the moments of all pairs of rows, so that nothing is
    sampled and nothing depends on the order of the rows. Two models of disjoint streams merge exactly. The
    choice where d is at most a few thousand, where streams are merged, or where old rows are to be forgotten.

    Parameters
    ----------
    lam1 : float, default=0.0
        In [0, inf). Penalty lam1 \\|w\\|_1: makes weights exactly 0. [1]_ eq. (10).
    lam2 : float or None, default=None
        In [0, inf). Penalty lam2/2 \\|w\\|^2. None: 0.3 tr(Sigma)/n_eff, n_eff = n+ n-/(n+ + n-), which
        falls as rows come in and needs no tuning. [1]_ eq. (10).
    half_life : float or None, default=None
        In (0, inf). Rows after which a row's weight in the moments has halved; None: rows are not forgotten.
    clock : {"class", "global"}, default="class"
        What ages a row: "class", rows of its own class, so that a rare class keeps its last rows however
        long the gaps; "global", all rows.
    moments : {"auto", "full", "diag", "sketch"}, default="auto"
        What is kept of the covariances. "full": all, O(d^2) memory, for at most 4096 features. "diag": the
        variances. "sketch": `sketch_size` directions a class. "auto": full, and diag, with a RuntimeWarning,
        from the first row on that has a feature beyond the 4096th.
    sketch_size : int, default=64
        >= 1. Rows of the sketch of each class that are kept; twice as many have room.
    sampled_pairs : int or None, default=None
        >= 1. Use sampled pairs in the place of all pairs, [1]_ Algorithm 1 with S = BT = `sampled_pairs`: see
        Notes. With full moments only, and without forgetting.
    seed : int or None, default=0
        Of the draws of pairs; None: drawn at construction.

    Notes
    -----
    With mu = m+ - m- and Sigma = S+ + S- + mu mu' (mean and second moment of x+ - x- over all pairs, [1]_
    eq. 9), w minimises ::

        w'Sigma w/2 - w'mu + lam1 |w|_1 + lam2/2 |w|^2

    lam1 = 0: by Cholesky; the ranking is that of regularised Fisher discriminant analysis with equally weighted
    classes. lam1 > 0: by coordinate descent from the last solution, until the optimality conditions hold to
    1e-6 max\\|mu\\|. diag: by bisection. sketch: by Woodbury's identity.

    A solve is due when the rows have grown by 1 % and by a quarter of the features in use since the last one,
    and at the powers of two below 64. With diag it waits for no more than 16 rows, or 1/16 of the rows before it,
    however many features there are; a model of an earlier version waits for the quarter. Scoring never solves; `solve` does, at any time, and `fit` once at the
    end: it takes all rows as they are, so that further epochs change nothing.

    Moments are sums about a reference point of each class: 0 in every column that some row of the class
    lacked, near the mean in the others. A sparse row touches the products of its own entries only, O(nnz^2),
    and dense rows far from 0 lose no digits. A column far from 0 loses (mean/deviation)^2 eps of its variance
    where rows that lack it are mixed in; a scaler in front prevents that. The solve is O(d^3/3) over the columns
    in use, O(sketch_size^2 d) for sketches, O(60 d) for diag.

    Sampled pairs, in a stream: each row is paired with `sampled_pairs` rows drawn from a reservoir of 1000 rows
    of the other class, and z, zz' are averaged over all pairs so far. `fit`: each epoch draws `sampled_pairs`
    positive rows with replacement, then as many negative ones, paired by position. n_eff is at most the number
    of pairs. The exact version is better at equal memory; this one reproduces the paper.

    `merge` is exact for full and diag (with a half-life: of the moments, both brought to the same moment). For
    sketches (within the bounds of both) and sampled pairs it takes `approximate=True`. It ends with a solve.

    Deviations: all pairs by default; lam2 by a rule (the paper cross-validates); no `kappa`: with lam1 = 0 and
    lam2 None or 0, c x in the place of x gives w/c and the same scores; a lam1 > 0 or lam2 > 0 is a number of one
    scale of the rows; where Sigma + lam2 I is singular (lam2 = 0), columns that depend on those before them get
    weight 0.

    References
    ----------
    .. [1] Gultekin, Saha, Ratnaparkhi, Paisley, "MBA: Mini-Batch AUC Optimization", 2018, eqs. 9-10, Algorithm 1.
    .. [2] Chan, Golub, LeVeque, "Algorithms for Computing the Sample Variance", The American Statistician, 1983.
    .. [3] Liberty, "Simple and Deterministic Matrix Sketching", KDD 2013.

    Examples
    --------
    >>> from aucstream import MBA
    >>> monday, tuesday = MBA(), MBA()
    >>> for a, y in [(1.0, True), (-1.0, False)] * 10:
    ...     monday.learn_one({"a": a}, y)
    ...     tuesday.learn_one({"a": a, "b": a / 2}, y)
    >>> both = monday.merge(tuesday)
    >>> both.examples, both.score_one({"a": 1.0}) > both.score_one({"b": -1.0})
    (40, True)
    """

    lam1: Annotated[float, Ge(0)] = 0.0
    lam2: Annotated[float | None, Ge(0)] = None
    half_life: Annotated[float | None, Gt(0)] = None
    clock: Literal["class", "global"] = "class"
    moments: Literal["auto", "full", "diag", "sketch"] = "auto"
    sketch_size: Annotated[int, Ge(1), Size("directions", numbers=4, where=("moments", "sketch"))] = 64
    sampled_pairs: Annotated[int | None, Ge(1)] = None
    seed: int | None = 0

    _capabilities = (Learner._capabilities - {Capability.REPEATED_FIT}) | {Capability.EXACT_MERGE}
    _steps_and_penalties = frozenset({"lam1", "lam2"})
    _random = True

    def __post_init__(self) -> None:
        self._form = self._first_form()
        super().__post_init__()

    def _first_form(self) -> str:
        if self.sampled_pairs is not None:
            return "pairs"
        return "full" if self.moments == "auto" else self.moments

    def _chosen_program(self) -> Program:
        if self.sampled_pairs is not None:
            if self.moments in ("diag", "sketch"):
                raise InvalidParams("MBA.sampled_pairs", f"None with moments={self.moments!r}", self.sampled_pairs)
            if self.half_life is not None:
                raise InvalidParams("MBA.sampled_pairs", "None with a half_life", self.sampled_pairs)
        return _PROGRAMS[self._form]

    def _kernel_args(self) -> tuple[float, ...]:
        rho = 1.0 if self.half_life is None else 2.0 ** (-1.0 / self.half_life)
        lam2 = AUTO if self.lam2 is None else self.lam2
        clock = GLOBAL if self.clock == "global" else CLASS
        numbers = (self.lam1, lam2, rho, clock, True)
        return numbers if self.sampled_pairs is None else (*numbers, self.sampled_pairs)

    def _slots(self) -> int:
        return 0 if self.sampled_pairs is None else 2 * CAPACITY

    def _buffers(self) -> tuple[Buffer, ...]:
        if self.sampled_pairs is None:
            return ()
        return buffers_by_class(CAPACITY, buffers.RESERVOIR, SEEN + 1, SEEN)

    def _sizes(self) -> dict[str, int]:
        return {"kept": 4 * self.sketch_size}

    def _init_state(self) -> None:
        self._field("scalars")[GAIN : GAIN + 2] = 1.0

    # -- width ---------------------------------------------------------------------------------------

    def _max_width(self) -> tuple[int, str] | None:
        if self.sampled_pairs is not None:
            return WIDEST, "use all pairs with moments='diag' or 'sketch'"
        return (WIDEST, "use moments='diag' or 'sketch'") if self.moments == "full" else None

    def _capacity_for(self, width: int) -> int:
        return min(width, WIDEST) if self._form == "full" else super()._capacity_for(width)

    def _become(self, form: str) -> None:
        self._form = form
        self._program = _PROGRAMS[form]

    def _narrow_moments(self) -> None:
        """Keep the diagonal alone from now on."""
        warnings.warn(
            f"MBA: more than {WIDEST} features: from here on the variances alone are kept. moments='diag' or 'sketch' "
            "chooses so from the start, a vocabulary of that capacity or Hashing(12) keeps all products",
            RuntimeWarning,
            stacklevel=2,
        )
        fields = dict(zip(self._program.parts, self._arrays, strict=True))
        self._become("diag")
        self._arrays = tuple(fields[name] for name in self._program.parts)

    def _outgrown(self, width: int) -> bool:
        return self._form == "full" and width > WIDEST

    def _refuses(self, val: Floats, sign: float, weight: float) -> bool:
        rho, clock = self._kernel_params[2:4]
        fits, _, _ = admitted(self._field("scalars"), int(sign > 0), norm(val), weight, rho, clock)
        return not fits

    def _learn_row(self, idx: Ints | None, val: Floats, sign: float, weight: float) -> float:
        if self._outgrown(self._encoder.width) and (val.size > WIDEST if idx is None else idx.max(initial=0) >= WIDEST):
            if self._refuses(val, sign, weight):
                return math.nan
            self._narrow_moments()
        return super()._learn_row(idx, val, sign, weight)

    def _learn(self, block: Block) -> Floats:
        if not self._outgrown(max(block.width, self._encoder.width)):
            return super()._learn(block)
        # The first row with a feature too many ends the full moments, however the rows are cut.
        scores = np.empty(len(block))
        if block.indices is None:
            wide = np.arange(len(block) if block.width > WIDEST else 0)
        else:
            wide = np.unique(np.searchsorted(block.indptr, np.flatnonzero(block.indices >= WIDEST), side="right") - 1)
        start = 0
        for row in wide.tolist():
            scores[start:row] = super()._learn(block.rows(start, row))
            start = row
            one = block.rows(row, row + 1)
            if not self._refuses(one.values, one.y.item(), one.weights.item()):
                self._narrow_moments()
                break
            scores[row] = math.nan
            start = row + 1
        scores[start:] = super()._learn(block.rows(start, len(block)))
        return scores

    def _wide_arrays(self, width: int) -> tuple[Any, ...]:
        """Return the arrays with weights for `width` columns, 0 in those that have no moments."""
        at = list(self._program.parts).index("w")
        w = np.zeros(width)
        w[: self._capacity] = self._arrays[at]
        return (*self._arrays[:at], w, *self._arrays[at + 1 :])

    def _score_row(self, idx: Ints | None, val: Floats) -> float:
        if self._outgrown(self._encoder.width):
            arrays = self._wide_arrays(self._encoder.width)
            score: float = self._program.score_row(*arrays, self._ledger, idx, val, *self._kernel_params)
            return score
        return super()._score_row(idx, val)

    def _row_arguments(self, scaled: ScaledRow | None = None) -> RowArguments | None:
        return None if self._outgrown(self._encoder.width) else super()._row_arguments(scaled)

    def _score(self, block: Block) -> Floats:
        width = max(block.width, self._encoder.width)
        if not self._outgrown(width):
            return super()._score(block)
        out = np.empty(len(block))
        self._program.score_block(
            block.indptr,
            block.indices,
            block.values,
            out,
            *self._wide_arrays(width),
            self._ledger,
            *self._kernel_params,
        )
        return out

    def _reset(self) -> None:
        self._become(self._first_form())
        super()._reset()

    def _checkpoint(self) -> tuple[Any, ...]:
        """Return a copy of all that learning changes but the names, for `_restore`."""
        return self._form, super()._checkpoint()

    def _restore(self, checkpoint: tuple[Any, ...]) -> None:
        """Restore what `_checkpoint` returned."""
        form, rest = checkpoint
        self._become(form)
        super()._restore(rest)

    def _program_of(self, arrays: snapshot.Arrays) -> Program:
        if self.moments == "auto" and self._form == "full" and "state.cross" not in arrays:
            self._become("diag")
        return self._program

    # -- solving -------------------------------------------------------------------------------------

    @property
    def last_solve(self) -> int | None:
        """The row after which the weights were last solved for, of those with a weight; None: never, all weights are 0.

        With d features in use a solve may wait for d/4 rows, but not with diag; `solve` does it at once.
        """
        return int(self._field("scalars")[LAST]) or None

    @property
    def remarks(self) -> list[str]:
        """What limits the scores at present, a sentence each.

        Returns
        -------
        list of str
            One while rows were learned and the weights were never solved for.
        """
        if not self.examples or self.last_solve is not None:
            return []
        reason = "rows of one class alone came" if self.positives in (0, self.examples) else "too few rows came"
        return [f"weights: never solved for after {self.examples} rows, every score is 0 ({reason})"]

    def solve(self) -> None:
        """Solve now, with all rows learned so far; nothing happens before both classes were seen."""
        scalars = self._field("scalars")
        if scalars[N] > 0.0 and scalars[N + 1] > 0.0 and (scalars[PAIRS] > 0.0 or self._form != "pairs"):
            _SOLVERS[self._form](*self._arrays, *self._kernel_params)

    def fit(self, X: Any, y: Any, epochs: int = 1) -> Self:
        """Start anew, take the moments of all rows (X, y) and solve once; calibrate on the final scores.

        Parameters
        ----------
        X : ndarray or scipy sparse (n, d)
        y : array (n,)
        epochs : int
            >= 1. Rounds of `sampled_pairs` pairs; with the moments of all pairs there is nothing to repeat.

        Returns
        -------
        self

        Raises
        ------
        NonFiniteStep
            At the end, with the numbers of the rows that were too long to be taken.
        """
        block = start_anew(self, X, y, epochs)
        numbers = self._kernel_params
        self._kernel_params = (*numbers[:4], False) if self.sampled_pairs is None else (*numbers[:4], False, 0)
        try:
            scores = self._learn(block)
        finally:
            self._kernel_params = numbers
        if self.sampled_pairs is not None:
            self._draw(block, ~np.isnan(scores), int(epochs))
        self.solve()
        self._calibrate_on(self._score(block), block.y)
        self._raise_skipped(scores)
        return self

    def _draw(self, block: Block, usable: np.ndarray, rounds: int) -> None:
        """Average over sampled pairs of the usable rows of a block."""
        positives, negatives = (np.flatnonzero(usable & (block.y == sign)) for sign in (1.0, -1.0))
        if not (positives.size and negatives.size):
            return
        idx = columns_of(block)
        fields = [self._field(name) for name in ("cross", "total", "dense", "zi", "zv", "scalars", "generator")]
        for _ in range(rounds):
            pair_moments_sampled.draw(
                *fields, block.indptr, idx, block.values, positives, negatives, self.sampled_pairs
            )

    # -- columns that leave --------------------------------------------------------------------------

    def _forget_own(self, fields: dict[str, Any], columns: Ints, removed: int) -> None:
        scalars = fields["scalars"]
        scalars[USED] -= np.count_nonzero(fields["used"][columns])
        if self._form in ("full", "diag"):
            for c, name in enumerate(_CLASSES):
                scalars[CENTRED + c] -= np.count_nonzero(fields[f"ref_{name}"][columns])

    # -- merge ---------------------------------------------------------------------------------------

    def _check_merge(self, other: Self, approximate: bool) -> None:
        if self._form in ("sketch", "pairs") and not approximate:
            what = "sketches" if self._form == "sketch" else "sampled pairs"
            raise CannotMerge(
                "MBA.merge", "approximate=True", Description(f"the moments of {what}, which are not exact")
            )

    def _take(self, other: Self, columns: Ints) -> None:
        if self._form == "full" and (other._form == "diag" or self._outgrown(self._encoder.width)):
            self._narrow_moments()
            self._ensure(self._encoder.width)
        known = columns >= 0

        def placed(vector: Floats) -> Floats:
            """Return a vector of the other model in the columns of this one."""
            row = np.zeros(self._capacity)
            n = min(columns.size, vector.size)
            row[columns[:n][known[:n]]] = vector[:n][known[:n]]
            return row

        scalars, theirs = self._field("scalars"), other._field("scalars")
        if theirs[EVENTS] == 0.0:
            return
        fresh = scalars[EVENTS] == 0.0
        if self._form == "pairs":
            self._take_pairs(other, columns, placed)
        else:
            for c in (0, 1):
                if theirs[N + c] == 0.0:
                    scalars[TOUCHED + c] += theirs[EVENTS]  # as old as it was
                elif self._form == "sketch":
                    self._take_sketch(other, columns, placed, c)
                else:
                    self._take_class(other, columns, placed, c)
        used = self._field("used")
        np.maximum(used, placed(other._field("used")), out=used)
        scalars[USED] = np.count_nonzero(used)
        scalars[EVENTS] += theirs[EVENTS]
        self._settle()
        if fresh:
            self._field("w")[:] = placed(other._field("w"))
            scalars[LAST] = theirs[LAST]
        else:
            self.solve()

    def _weight_now(self, c: int) -> float:
        rho, clock = self._kernel_params[2:4]
        n: float = weight_now(self._field("scalars"), c, rho, clock)
        return n

    def _class_moments(self, c: int) -> tuple[float, Floats, Floats, Floats | None]:
        """Return n, mean, squares and products (above the diagonal) about it of class c, decayed to now."""
        n = self._field("scalars")[N + c]
        total, square, ref = (self._field(f"{name}_{_CLASSES[c]}") for name in ("total", "square", "ref"))
        if n == 0.0:
            return 0.0, np.zeros(total.size), np.zeros(total.size), None
        now = self._weight_now(c)
        products = None
        if self._form == "full":
            cross = self._field("cross")
            products = now / n * np.triu((cross if c else cross.T) - np.outer(total, total / n), 1)
        return now, ref + total / n, now / n * np.maximum(square - total * total / n, 0.0), products

    def _take_class(self, other: Self, columns: Ints, placed: Callable[[Floats], Floats], c: int) -> None:
        """Add the full or diagonal moments of one class, [2]."""
        mine, mean, square, products = self._class_moments(c)
        theirs, other_mean, other_square, other_products = other._class_moments(c)
        other_mean, other_square = placed(other_mean), placed(other_square)
        n = mine + theirs
        gap = other_mean - mean if mine > 0.0 else np.zeros(mean.size)
        moved = other_mean if mine == 0.0 else mean + theirs / n * gap
        share = mine * (theirs / n)
        if self._form == "full":
            cross = self._field("cross")
            summed = np.zeros_like(cross) if products is None else products
            assert other_products is not None
            summed += upper_triangle(other_products, columns, len(cross)) + share * np.triu(np.outer(gap, gap), 1)
            cross[:] = np.tril(cross) + summed if c else np.triu(cross) + summed.T
        for name, value in (("ref", moved), ("square", square + other_square + share * gap * gap), ("total", 0.0)):
            self._field(f"{name}_{_CLASSES[c]}")[:] = value
        self._recounted(other, c, n)

    def _recounted(self, other: Self, c: int, n: float) -> None:
        scalars = self._field("scalars")
        scalars[N + c] = n
        scalars[GAIN + c] = 1.0
        scalars[TOUCHED + c] = scalars[EVENTS] + other._field("scalars")[EVENTS]

    def _take_sketch(self, other: Self, columns: Ints, placed: Callable[[Floats], Floats], c: int) -> None:
        """Feed the other sketch of one class, and the difference of the means, to this one."""
        room = 2 * self.sketch_size
        table, scalars, theirs = self._field("table"), self._field("scalars"), other._field("scalars")
        mean, square = self._field(f"mean_{_CLASSES[c]}"), self._field(f"square_{_CLASSES[c]}")
        mine_now = self._weight_now(c) if scalars[N + c] > 0.0 else 0.0
        other_now = other._weight_now(c)
        faded = mine_now / scalars[N + c] if mine_now > 0.0 else 1.0
        other_faded = other_now / theirs[N + c]
        square *= faded
        table[:, c * room : (c + 1) * room] *= math.sqrt(faded)
        n = mine_now + other_now
        gap = placed(other._field(f"mean_{_CLASSES[c]}")) - (mean if mine_now > 0.0 else 0.0)
        share = mine_now * (other_now / n)
        mean[:] = gap if mine_now == 0.0 else mean + other_now / n * gap
        square += other_faded * placed(other._field(f"square_{_CLASSES[c]}")) + share * gap * gap
        fed = [(gap, share)]
        fed += [(placed(other._field("table")[:, c * room + k]), other_faded) for k in range(int(theirs[SKETCHED + c]))]
        for row, factor in fed:
            size = int(scalars[SKETCHED + c])
            scalars[SKETCHED + c] = sketch.feed(table, c * room, room, size, row, math.sqrt(factor))
        self._recounted(other, c, n)

    def _take_pairs(self, other: Self, columns: Ints, placed: Callable[[Floats], Floats]) -> None:
        """Add the sums over pairs; the reservoirs become uniform samples of both streams."""
        scalars, theirs = self._field("scalars"), other._field("scalars")
        self._field("cross")[:] += upper_triangle(other._field("cross"), columns, self._capacity)
        self._field("total")[:] += placed(other._field("total"))
        at = self._pool_at
        seen = [(int(scalars[buffer.seen[1]]), int(theirs[buffer.seen[1]])) for buffer in self._buffers()]
        random = np.random.default_rng([self._seed, self.examples, other.examples])
        pool = merge_pools(
            self._arrays[at : at + 3], other._arrays[at : at + 3], columns, self._buffers(), seen, random, False
        )  # fmt: skip
        self._arrays = (*self._arrays[:at], *pool, *self._arrays[at + 3 :])
        for count in (N, N + 1, SEEN, SEEN + 1, PAIRS):
            scalars[count] += theirs[count]
        scalars[TOUCHED : TOUCHED + 2] = scalars[EVENTS] + theirs[EVENTS]

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"moments": "diag", "lam1": 1e-3, "half_life": 200.0, "clock": "global"}
        yield {"moments": "sketch", "sketch_size": 4}

    @classmethod
    def _extreme_params(cls) -> Iterator[dict[str, Any]]:
        yield {"lam2": 1e6}
        yield {"lam2": 0.0}
        yield {"lam2": 0.0, "lam1": 1e-6}
        yield {"half_life": 1e-6}
