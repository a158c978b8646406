"""Auto: a portfolio of models side by side that serves one ranking score and one probability."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, Self

import numpy as np

from aucstream import snapshot
from aucstream.block import Block, Floats, Form, Ints
from aucstream.constraints import Gt
from aucstream.errors import CannotMerge, InvalidParams
from aucstream.features.encoding.encoder import Encoder
from aucstream.kernels.auc import mixture as kernel
from aucstream.kernels.auc.calibration import CUT, MEMORY, PRIOR, SLOPE_MAX, SLOPE_MIN, start_calibration
from aucstream.kernels.jit import RowCall
from aucstream.kernels.ledger import CAL_ON, CAL_RMS2, FIRST_RULES, LINE_SIZE, MIXTURE_RULES, NEW_RULES, RULES
from aucstream.learners._base.capabilities import Capability
from aucstream.learners._base.estimator import RankingClassifier
from aucstream.learners._base.learner import Learner, learner
from aucstream.learners._base.state import Fixed, PoolIdx, PoolVal, Program, Scratch, Slots, Table
from aucstream.native.row_entry import RowEntry
from aucstream.portfolio.member_calls import MemberCalls
from aucstream.portfolio.portfolio import NEWEST, SPARSE, candidates_of
from aucstream.stages import Stages

JUDGED = 128  # rows after a checkpoint that judge the global mixture
LONGEST_SEGMENT = 2048
SHORTEST_SEGMENT = 20
GROWTH = 1.1  # of the rows from one checkpoint to the next
FIRST_BENCH = 2000  # row
BENCH = 0.005  # share of the larger weight, for each PSAM that a member costs
BOTH_CLASSES = 20.0  # fading rows of each class: a change, and no mere block of labels
NO_BUDGET = 1e300
DECIDED = 200  # row at which members that do not fit the rows leave


class State(NamedTuple):
    """15 floats and a calibration for each member, the stack, a reservoir of 200 rows, and the members' own states."""

    members: Annotated[Floats, Table("members", kernel.MEMBER_SIZE)]
    lines: Annotated[Floats, Table("members", LINE_SIZE)]
    stack: Annotated[Floats, Table("stack rows", "stack")]  # coefficients, then their covariance
    work: Annotated[Floats, Scratch(np.float64, 0, "work")]
    reference: Annotated[Floats, Table("members", 2 * kernel.KEPT)]
    recent: Annotated[Floats, Table(kernel.NEAR, 4)]
    scalars: Annotated[Floats, Fixed(kernel.SCALARS_SIZE)]
    slots: Annotated[Ints, Slots()]
    pool_idx: Annotated[Ints, PoolIdx()]
    pool_val: Annotated[Floats, PoolVal()]
    generator: Annotated[np.ndarray, Fixed(1, np.uint64)]


_AT = {name: at for at, name in enumerate(State._fields)}
_OFFER = RowCall(kernel.offer_row, float)
_PROGRAM = Program(State, kernel.learn_row, kernel.score_row)


@learner
class Auto(Learner):
    """Many models side by side, each judged by what it said before it learned: the choice where nobody has chosen.

    Members with scalers of their own learn every row. Two mixtures of their calibrated scores are served as one: the
    local one weighs members by the log loss of the rows so far, so it follows a change at once, and has a stack of them
    all as one more member; the global one weighs them by how they rank new rows against a reservoir of old ones, so
    neither a short memory nor the base rate of the moment can win it. Expensive members rest while their weights are
    small, until an alarm wakes them.

    Parameters
    ----------
    portfolio : str, default="2026"
        The name of a list of members, or members SCALER/LEARNER or SCALER/MAP/LEARNER between spaces, each with
        parameters if need be: "standard+l2/ftrl none/jointforest auto/psam(capacity=200;fresh=10)". A later version may have another list
        as its default; a stored model keeps its own.
    cost : float or None, default=None
        In (0, inf). The most that the active members may cost together, in rows of a `PSAM` with its scaler; light
        members rest first. None: no bound. It may be changed at any time, and counts from the next checkpoint.
    seed : int or None, default=0
        Of the reservoir, and of every member that draws; to it is added the seed that a member names. None: drawn at
        construction.

    Attributes
    ----------
    members : list of dict
        What each member is worth at present.
    alarms, last_alarm : int
        How often the log loss exceeded what the probabilities themselves expect, and the row of the last time.

    Notes
    -----
    With s_j the score of member j and a_j, b_j its online logistic calibration, l_j = a_j s_j / rms(s_j) + b_j, base the
    log odds of the rows so far, and ::

        p = (1 - v) sum_j w_j sigmoid(l_j) + v sigmoid(base + theta_0 + sum_j theta_j clip(l_j - base, -4, 4))
        q = sum_j g_j sigmoid(slope_j (s_j / rms - mid_j) + base)
        u = (1 - share) logit(p) + share logit(q) - start

    w is the posterior of Bayes' rule with a fixed share of 1e-3 [1]_, and v that of the stack. theta is a Bayesian
    logistic regression that forgets: extended Kalman steps from theta_j = 1 / members with a variance of .03 [2]_. g is
    the posterior of the pairwise logistic loss of the up to 128 rows after each checkpoint, scored by the members as they
    stood at it, against 100 rows of each class; it comes into force at the next checkpoint, so no label reaches a score
    of its own row. A checkpoint is due when the rows have grown by a tenth, at least 20 and at most 2,048. `share` is 1
    at first and one half from 50 rows of the rarer class on, and falls to 0 as the fading AUC of the local mixture leads
    that of the mean of both by .001 to .005. `start` is base until the rarer class has 100 rows, and then stays: what is
    counted in the first rows is no part of the ranking.

    The members are decided by the first row, and for named rows again at row 200: dense rows of up to 300 columns,
    wider ones, and sparse ones have members of their own. The work per row is that of all active members.

    References
    ----------
    .. [1] Herbster, Warmuth, "Tracking the best expert", Machine Learning 1998.
    .. [2] Wolpert, "Stacked generalization", Neural Networks 1992.

    Examples
    --------
    >>> from aucstream import Auto
    >>> model = Auto()
    >>> for a, y in [(1.0, True), (-1.0, False)] * 100:
    ...     model.learn_one({"a": a}, y)
    >>> model.score_one({"a": 1.0}) > model.score_one({"a": -1.0})
    True
    """

    portfolio: str = NEWEST
    cost: Annotated[float | None, Gt(0)] = None
    seed: int | None = 0

    _capabilities = frozenset(
        {
            Capability.CONTRIBUTIONS,
            Capability.ONE_CALL,
            Capability.FIXED_BUFFERS,
            Capability.REPEATED_FIT,
            Capability.PIPELINE,
            Capability.BARE_ROWS,
            Capability.ONE_CLASS,
            Capability.EVERY_FINITE_ROW,
        }
    )
    _steps_and_penalties = frozenset({"cost"})
    _random = True

    # -- construction ------------------------------------------------------------------------------

    def _chosen_program(self) -> Program:
        return _PROGRAM

    def _kernel_args(self) -> tuple[float, ...]:
        return ()

    def _slots(self) -> int:
        return 2 * kernel.KEPT

    def __post_init__(self) -> None:
        self._candidates = candidates_of(self.portfolio) if isinstance(self.portfolio, str) else ()
        self._calls = MemberCalls()
        super().__post_init__()

    def _sizes(self) -> dict[str, int]:
        m = len(self._candidates)
        return {"members": m, "stack": m + 1, "stack rows": m + 2, "work": 2 * (m + 1)}

    def _reset(self) -> None:
        self._models: list[Stages] = []
        self._listed: list[int] | None = None  # the active ones; None: to be listed anew
        self._twins: list[Stages] | None = None  # the members at the last checkpoint, where they have learned since
        super()._reset()
        self._models = self._new_models()
        self._take_rules(self._ledger[RULES])

    def _take_rules(self, rules: float) -> None:
        own, of_members = (FIRST_RULES, FIRST_RULES) if rules == FIRST_RULES else (MIXTURE_RULES, NEW_RULES)
        super()._take_rules(own)
        for model in self._models:
            model.learner._take_rules(of_members)

    def _new_models(self) -> list[Stages]:
        return [candidate.stages(self._encoder, self._seed) for candidate in self._candidates]

    def _adopt(self, encoder: Encoder) -> None:
        super()._adopt(encoder)
        for model in self._models:
            model.adopt(encoder)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_listed": None}  # else a look at a model would change its pickle

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._share_names()

    def clone(self, new_params: dict[str, Any] | None = None, include_attributes: bool = False) -> Self:
        """Return a model with the same parameters, with its state too where attributes are included."""
        copied = super().clone(new_params, include_attributes)
        copied._share_names()  # copied apart, they would be several
        return copied

    def _share_names(self) -> None:
        """Let all members, and the copies of them, take their columns from one encoder."""
        for model in [*self._models, *(self._twins or ())]:
            model.share(self._encoder)

    def _share(self, encoder: Encoder) -> None:
        super()._share(encoder)
        self._share_names()

    def _init_state(self) -> None:
        members, lines = self._field("members"), self._field("lines")
        members[:, kernel.ACTIVE] = -1.0
        members[:, kernel.SLOPE] = 1.0
        members[:, kernel.CURVATURE] = 0.25 * PRIOR
        members[:, [kernel.AUC_NEGATIVE, kernel.AUC_POSITIVE]] = 0.5
        for line in lines:
            start_calibration(line)
        start_calibration(self._ledger)
        self._ledger[CAL_ON] = 0.0
        self._ledger[CAL_RMS2] = 1.0
        scalars = self._field("scalars")
        scalars[kernel.LOCAL_AUC_NEGATIVE : kernel.MEAN_AUC_POSITIVE + 1] = 0.5

    def _start(self, form: Form, entries: int) -> None:
        """Choose the members that take rows of this form; the first row is about to come."""
        members, scalars = self._field("members"), self._field("scalars")
        at = [j for j, candidate in enumerate(self._candidates) if form in candidate.forms and candidate.takes(entries)]
        members[at, kernel.ACTIVE] = 1.0
        self._listed = None
        for column in (kernel.LOCAL, kernel.GLOBAL, kernel.NEXT_GLOBAL, kernel.LARGER):
            members[at, column] = 1.0 / len(at)
        stack = self._field("stack")
        stack[0, at] = 1.0 / len(at)
        for j in [*at, len(members)]:
            stack[1 + j, j] = kernel.STACK_VARIANCE
        scalars[kernel.STACK_WEIGHT] = 0.5
        scalars[kernel.BUDGET] = self._budget
        affordable = self._affordable(members[:, kernel.ACTIVE] > 0.0)
        self._rest((members[:, kernel.ACTIVE] > 0.0) & ~affordable)
        scalars[kernel.FORM] = form
        scalars[kernel.CHECKPOINT] = scalars[kernel.SEGMENT] = SHORTEST_SEGMENT

    def _choose(self) -> None:
        """Let the members leave that do not fit the rows so far."""
        members, scalars = self._field("members"), self._field("scalars")
        columns = int(scalars[kernel.COLUMNS])
        sparse = scalars[kernel.ENTRIES] < SPARSE * columns * self.examples
        named = scalars[kernel.FORM] == Form.NAMED and self.examples >= DECIDED
        form = Form.CSR if sparse else Form.DENSE
        leaves = np.array(
            [not candidate.takes(columns) or (named and form not in candidate.forms) for candidate in self._candidates]
        )
        leaves &= members[:, kernel.ACTIVE] >= 0.0
        if leaves.any():
            active = (members[:, kernel.ACTIVE] > 0.0) & ~leaves
            self._activate(active if active.any() else self._affordable((members[:, kernel.ACTIVE] == 0.0) & ~leaves))
            members[leaves, kernel.ACTIVE] = -1.0
            self._listed = None
            stack, gone = self._field("stack"), np.flatnonzero(leaves)
            stack[:, gone] = 0.0
            stack[1 + gone] = 0.0

    def _affordable(self, wanted: np.ndarray) -> np.ndarray:
        """Return those of the wanted members whose cost together is within the budget, heavy ones first."""
        if self.cost is None:
            return wanted
        cost, larger = self._costs, self._field("members")[:, kernel.LARGER]
        order = [j for j in np.lexsort((cost, -larger)).tolist() if wanted[j]]
        affordable = np.zeros_like(wanted)
        for j in order:
            if not affordable.any() or cost[affordable].sum() + cost[j] <= self.cost:
                affordable[j] = True
        return affordable

    def _rest(self, idle: np.ndarray) -> None:
        """Let active members rest from now on."""
        members = self._field("members")
        if idle.any():
            members[idle, kernel.RESTING_SINCE] = max(1, self.examples)
            self._activate((members[:, kernel.ACTIVE] > 0.0) & ~idle)

    # -- members -----------------------------------------------------------------------------------

    def _field(self, name: str) -> Any:
        return self._arrays[_AT[name]]

    @property
    def _active(self) -> list[int]:
        """The members that learn and are heard."""
        if self._listed is None:
            self._listed = np.flatnonzero(self._field("members")[:, kernel.ACTIVE] > 0.0).tolist()
        return self._listed

    @property
    def _budget(self) -> float:
        """The bound of the cost of all active members."""
        return NO_BUDGET if self.cost is None else self.cost

    @property
    def _costs(self) -> Floats:
        return np.array([candidate.cost for candidate in self._candidates])

    def _judges(self, n: int) -> int:
        """Return how many of the next n rows judge the members."""
        scalars = self._field("scalars")
        return min(n, int(scalars.item(kernel.TO_JUDGE) - scalars.item(kernel.JUDGED)))

    def _standing(self, judged: int) -> list[Stages]:
        """Return the members as they stood at the last checkpoint, of which `judged` more rows are scored now."""
        if self._twins is not None:
            return self._twins
        if judged < self._judges(JUDGED):
            self._twins = [
                model.twin() if is_active else model
                for model, is_active in zip(self._models, self._field("members")[:, kernel.ACTIVE] > 0, strict=True)
            ]
            return self._twins
        return self._models

    def _state_bytes(self, width: int) -> int:
        return super()._state_bytes(width) + sum(
            self._models[j].bytes_at(width) for j in self._active or range(len(self._models))
        )

    # -- learning ----------------------------------------------------------------------------------

    def _learn(self, block: Block) -> Floats:
        scalars = self._field("scalars")
        if len(block) and scalars[kernel.CHECKPOINT] == 0.0:
            self._start(block.form, int(block.indptr[1]))
        out = np.empty(len(block))
        start = 0
        while start < len(block):
            left = int(scalars[kernel.CHECKPOINT]) - self.examples
            part = block.rows(start, min(len(block), start + left))
            self._learn_part(part, out[start : start + len(part)])
            start += len(part)
            if len(part) == left:
                self._end_segment()
        return out

    def _learn_part(self, part: Block, out: Floats) -> None:
        active, n, m = self._active, len(part), len(self._models)
        rows = np.zeros((n, 2 * m))
        judged = self._judges(n)
        if judged:
            standing, head = self._standing(judged), part.rows(0, judged)
            for j in active:
                rows[:judged, m + j] = standing[j].score(head)
        for j in active:
            rows[:, j] = self._models[j].learn(part)
        _set_finite(rows)
        self._offer(part)
        self._run(_block_of(rows, part), out)
        self._end_judging()

    def _learn_row(self, idx: Ints | None, val: Floats, sign: float, weight: float) -> float:
        scalars = self._field("scalars")
        if scalars.item(kernel.CHECKPOINT) == 0.0:
            self._start(Form.NAMED, val.size)
        active, models, m = self._active, self._models, len(self._models)
        row = np.zeros(2 * m)
        if judged := self._judges(1):
            standing = self._standing(1)
            for j in active:
                row[m + j] = _finite(standing[j].score_row(idx, val))
        for j in active:
            row[j] = _finite(models[j].learn_row(idx, val, sign, weight))
        self._reserve(val.size, val.size)
        at = self._pool_at
        offer = _OFFER.dense if idx is None else _OFFER.sparse
        offer(*self._arrays[at : at + 3], self._field("generator"), scalars, idx, val, sign)
        call, _ = self._program.row_calls(self._number_types)
        score: float = call.dense(*self._arrays, self._ledger, None, row, sign, weight)
        if judged:
            self._end_judging()
        if self.examples == int(scalars.item(kernel.CHECKPOINT)):
            self._end_segment()
        return score

    def _offer(self, part: Block) -> None:
        """Offer rows to the reservoir."""
        if not len(part):
            return
        self._reserve(part.values.size, int(np.diff(part.indptr).max()))
        at = self._pool_at
        kernel.offer_rows(
            part.indptr,
            part.indices,
            part.values,
            part.y,
            *self._arrays[at : at + 3],
            self._field("generator"),
            self._field("scalars"),
        )

    def _end_judging(self) -> None:
        if not self._judges(1):
            self._twins = None

    # -- checkpoints -------------------------------------------------------------------------------

    def _end_segment(self) -> None:
        members, scalars = self._field("members"), self._field("scalars")
        self._enforce_judgement()
        rows = self.examples
        self._choose()
        budget = self._budget
        if scalars[kernel.WAKE] > 0.0:
            self._wake()
        elif budget > scalars[kernel.BUDGET]:
            self._call_back()
        elif rows >= FIRST_BENCH:
            self._bench()
        scalars[kernel.BUDGET] = budget
        active = members[:, kernel.ACTIVE] > 0.0
        self._rest(active & ~self._affordable(active))
        self._twins = None
        self._score_reservoir()
        nearest = max(rows + SHORTEST_SEGMENT, math.ceil(rows * GROWTH))
        scalars[kernel.CHECKPOINT] = min(rows + LONGEST_SEGMENT, nearest)
        scalars[kernel.SEGMENT] = scalars[kernel.CHECKPOINT] - rows
        scalars[kernel.JUDGED] = 0.0
        both = min(scalars[kernel.RESERVOIR_NEGATIVE], scalars[kernel.RESERVOIR_POSITIVE]) > 0.0
        scalars[kernel.TO_JUDGE] = min(JUDGED, scalars[kernel.SEGMENT]) if both else 0.0
        members[:, kernel.NEXT_GLOBAL] = members[:, kernel.GLOBAL]
        members[:, [kernel.GRADIENT, kernel.HESSIAN]] = 0.0

    def _enforce_judgement(self) -> None:
        """Put the weights and slopes in force that the judged rows of this segment gave."""
        members, scalars = self._field("members"), self._field("scalars")
        judged, rows = scalars[kernel.JUDGED], self.examples
        if judged == 0.0:
            return
        active = members[:, kernel.ACTIVE] > 0.0
        members[:, kernel.GLOBAL] = members[:, kernel.NEXT_GLOBAL]
        first = rows - scalars[kernel.SEGMENT]
        forget = min(0.5, max(judged / MEMORY, 2.0 * judged / (first + judged + PRIOR)))
        curvature = (1.0 - forget) * members[active, kernel.CURVATURE] + members[active, kernel.HESSIAN]
        slope = members[active, kernel.SLOPE] + members[active, kernel.GRADIENT] / curvature
        members[active, kernel.CURVATURE] = curvature
        members[active, kernel.SLOPE] = np.clip(slope, SLOPE_MIN, SLOPE_MAX)

    def _wake(self) -> None:
        """After an alarm: all members learn again, and where both classes are about, the reservoir turns over."""
        members, scalars = self._field("members"), self._field("scalars")
        scalars[kernel.WAKE] = 0.0
        if min(scalars[kernel.RECENT_NEGATIVE], scalars[kernel.RECENT_POSITIVE]) >= BOTH_CLASSES:
            members[:, kernel.GLOBAL] = members[:, kernel.LOCAL]
            seen = slice(kernel.SEEN_NEGATIVE, kernel.SEEN_POSITIVE + 1)
            scalars[seen] = np.minimum(scalars[seen], kernel.KEPT)
            members[:, kernel.CURVATURE] = np.minimum(members[:, kernel.CURVATURE], PRIOR)
        self._call_back()

    def _call_back(self) -> None:
        """Let all members learn that are affordable."""
        members = self._field("members")
        present = members[:, kernel.ACTIVE] >= 0.0
        members[members[:, kernel.ACTIVE] == 0.0, kernel.LARGER] = 1.0 / present.sum()
        self._activate(self._affordable(present))

    def _bench(self) -> None:
        """Let expensive members rest whose weights have faded."""
        members = self._field("members")
        active = members[:, kernel.ACTIVE] > 0.0
        self._rest(active & (self._costs > 1.0) & (members[:, kernel.LARGER] < BENCH * self._costs))

    def _activate(self, active: np.ndarray) -> None:
        members = self._field("members")
        new = active & (members[:, kernel.ACTIVE] == 0.0)
        members[members[:, kernel.ACTIVE] >= 0.0, kernel.ACTIVE] = 0.0
        members[active, kernel.ACTIVE] = 1.0
        self._listed = None
        members[new, kernel.RESTING_SINCE] = 0.0
        for column in (kernel.LOCAL, kernel.GLOBAL):
            members[~active, column] = 0.0
            members[new, column] = kernel.FIXED_SHARE
            members[:, column] /= members[:, column].sum()

    def _score_reservoir(self) -> None:
        """Score the reservoir by every member as it stands; its middle is a member's zero in the global mixture."""
        members, lines = self._field("members"), self._field("lines")
        scalars, reference = self._field("scalars"), self._field("reference")
        block, counts = self._reservoir()
        scalars[[kernel.RESERVOIR_NEGATIVE, kernel.RESERVOIR_POSITIVE]] = counts
        if min(counts) == 0:
            return
        for j in self._active:
            square = lines[j, CAL_RMS2]
            scale = 1.0 / math.sqrt(square) if square > 0.0 else 1.0
            with np.errstate(all="ignore"):
                z = np.clip(np.nan_to_num(self._models[j].score(block) * scale), -CUT, CUT)
            members[j, kernel.SCALE] = scale
            reference[j, : counts[0]] = z[: counts[0]]
            reference[j, kernel.KEPT : kernel.KEPT + counts[1]] = z[counts[0] :]
            members[j, kernel.MIDDLE] = 0.5 * (z[: counts[0]].mean() + z[counts[0] :].mean())

    def _reservoir(self) -> tuple[Block, list[int]]:
        """Return the kept rows, negatives first, and how many of each class there are."""
        at = self._pool_at
        slots, pool_idx, pool_val = self._arrays[at : at + 3]
        scalars = self._field("scalars")
        counts = [min(kernel.KEPT, int(scalars[kernel.SEEN_NEGATIVE + label])) for label in (0, 1)]
        order = np.concatenate([np.arange(counts[0]), kernel.KEPT + np.arange(counts[1])])
        lengths = slots[order, 1]
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        source = np.repeat(slots[order, 0] - indptr[:-1], lengths) + np.arange(indptr[-1])
        empty = np.empty(0)
        form = Form.CSR if scalars[kernel.FORM] == Form.CSR else Form.NAMED
        return Block(indptr, pool_idx[source], pool_val[source], empty, empty, self._encoder.width, form), counts

    # -- scoring -----------------------------------------------------------------------------------

    def _score(self, block: Block) -> Floats:
        m = len(self._models)
        rows = np.zeros((len(block), m))
        for j in self._active:
            rows[:, j] = self._models[j].score(block)
        _set_finite(rows)
        out = np.empty(len(block))
        scores = _block_of(rows, block)
        self._program.score_block(scores.indptr, None, scores.values, out, *self._arrays, self._ledger)
        return out

    def _member_scores(self, idx: Ints | None, val: Floats) -> Floats:
        """Return the score (m,) of each member for one row."""
        row = np.zeros(len(self._models))
        for j in self._active:
            row[j] = _finite(self._models[j].score_row(idx, val))
        return row

    def _score_row(self, idx: Ints | None, val: Floats) -> float:
        row = self._member_scores(idx, val)
        _, call = self._program.row_calls(self._number_types)
        score: float = call.dense(*self._arrays, self._ledger, None, row)
        return score

    # -- one row in one compiled call ------------------------------------------------------------------

    @property
    def _generation(self) -> object:
        return self._calls.generation(self._stands_on())

    @_generation.setter
    def _generation(self, generation: object) -> None:
        """Do nothing: what the calls stand on is compared."""

    def _stands_on(self) -> list[Any]:
        """Return all objects whose replacement puts the compiled calls of one row out of date."""
        encoder, heard = self._encoder, self._heard()
        objects: list[Any] = [self._arrays, self._ledger, self._listed, encoder, encoder.reader.val, encoder.kinds]
        for stages in heard:
            scaling = stages.scaling
            fixed = None if stages.mapping is None else stages.mapping.warmup.fixed
            if fixed is not None:
                scaling = fixed.scaling
            objects += (stages.learner, stages.learner._generation, scaling, scaling.columns, stages.resolved, fixed)
        return objects

    def _heard(self) -> list[Stages]:
        """Return the active members, then the copies of them that are judged, if there are copies at present."""
        active = self._active
        heard = [self._models[j] for j in active]
        return heard if self._twins is None else heard + [self._twins[j] for j in active]

    def _new_entry(self, generation: object = None, scaled: Any = None) -> RowEntry:
        state = (*self._arrays, self._ledger)
        entry = self._calls.entry(self._active, self._heard(), state, self._pool_at, self._encoder, self._gate)
        if entry is None:
            entry = RowEntry(None, self._gate.version)
        entry.generation = self._generation if generation is None else generation
        return entry

    def _learn_array(self, X: Any, signs: Floats, weights: Floats) -> Floats:
        return RankingClassifier._learn_array(self, X, signs, weights)

    def _end_warmup(self) -> None:
        for model in self._models:
            model.end_warmup()

    # -- columns that leave ------------------------------------------------------------------------

    def _forget_columns(self, columns: Ints) -> None:
        super()._forget_columns(columns)
        for model in {id(model): model for model in [*self._models, *(self._twins or ())]}.values():
            model.forget_columns(columns)

    # -- reading -----------------------------------------------------------------------------------

    @property
    def members(self) -> list[dict[str, Any]]:
        """What each member says at present, one row for each.

        Returns
        -------
        list of dict
            `name`; `local_weight` and `global_weight`, 0 to 1, which add up to 1 over the members; `auc`, fading, of
            the member as it stood at a checkpoint on the rows after it; `cost`, in rows of PSAM; `resting_since`, the
            row after which it rests, None where it learns. Members that do not fit the rows are left out.
        """
        table = []
        for candidate, member in zip(self._candidates, self._field("members"), strict=True):
            if member[kernel.ACTIVE] < 0.0 and self.examples:
                continue
            since = int(member[kernel.RESTING_SINCE])
            table.append(
                {
                    "name": candidate.name,
                    "local_weight": member.item(kernel.LOCAL),
                    "global_weight": member.item(kernel.GLOBAL),
                    "auc": 0.5 * (member.item(kernel.AUC_NEGATIVE) + member.item(kernel.AUC_POSITIVE)),
                    "cost": candidate.cost,
                    "resting_since": since or None,
                }
            )
        return table

    @property
    def alarms(self) -> int:
        """Changes of the stream that were noticed so far."""
        return int(self._field("scalars")[kernel.ALARMS])

    @property
    def last_alarm(self) -> int | None:
        """The row after which the last change was noticed."""
        return int(self._field("scalars")[kernel.LAST_ALARM]) or None

    def explain_one(self, x: Mapping[Any, Any]) -> dict[Any, float]:
        """Return what each feature of an example adds to its score, over all members.

        The score is no sum over members, so each contribution of a member counts by the slope of the score along that
        member's own score. What a member cannot give to features has the member's name, and the rest, which makes the
        contributions add up to the score, is "(mixture)".

        Parameters
        ----------
        x : dict
            Name to number, bool, string, list of strings, or None (absent).

        Returns
        -------
        dict
            Name to contribution, in log odds.

        Raises
        ------
        InvalidBlock
            A feature cannot be used.
        """
        candidates, active = self._candidates, self._active
        with self._encoder.scored(x) as (idx, val):
            row = self._member_scores(idx, val)
        slopes = np.zeros(len(candidates))
        score: float = kernel.slopes(*self._arrays, self._ledger, row, slopes)
        parts: dict[Any, float] = {}
        for j in active:
            try:
                contributions = self._models[j].explain(x)
            except InvalidParams:
                contributions = {f"({candidates[j].name})": row.item(j)}
            for name, value in contributions.items():
                parts[name] = parts.get(name, 0.0) + slopes.item(j) * value
        parts["(mixture)"] = score - math.fsum(parts.values())
        return parts

    # -- copies and snapshots ----------------------------------------------------------------------

    def _checkpoint(self) -> tuple[Any, ...]:
        return super()._checkpoint(), [model.checkpoint() for model in self._models], self._twins

    def _restore(self, checkpoint: tuple[Any, ...]) -> None:
        own, members, self._twins = checkpoint
        super()._restore(own)
        self._listed = None
        for model, state in zip(self._models, members, strict=True):
            model.restore(state)

    def state_dict(self) -> tuple[snapshot.Arrays, dict[str, Any]]:
        """Return (arrays, meta): everything, so that a model made from it goes on bit for bit."""
        for model in [*self._models, *(self._twins or ())]:  # those that rest have no room for names that came since
            if model.mapping is None:
                model.learner._ensure(self._encoder.width)
        arrays, meta = super().state_dict()
        present = np.flatnonzero(self._field("members")[:, kernel.ACTIVE] >= 0.0).tolist()
        models = {f"member{j}": self._models[j] for j in present}
        if self._twins is not None:
            models |= {f"twin{j}": self._twins[j] for j in self._active}
        meta["members"] = {}
        for name, model in models.items():
            member_arrays, member_meta = model.state_dict(names=False)
            if model.mapping is None:
                member_meta["learner"]["encoder"] = meta["encoder"]
            arrays |= {f"{name}.{key}": array for key, array in member_arrays.items()}
            meta["members"][name] = member_meta
        return arrays, meta

    @classmethod
    def from_state_dict(cls, arrays: snapshot.Arrays, meta: dict[str, Any]) -> Self:
        """Return the learner that `state_dict` described."""
        model = super().from_state_dict(arrays, meta)
        model._models = model._new_models()
        model._take_rules(model._ledger[RULES])
        model._listed = None
        encoder = {f"learner.{name}": array for name, array in arrays.items() if name.startswith("encoder.")}
        for name, member_meta in meta["members"].items():
            prefix = f"{name}."
            own = {key[len(prefix) :]: array for key, array in arrays.items() if key.startswith(prefix)}
            own |= encoder if "map" not in member_meta else {}
            stages = Stages.from_state_dict(own, member_meta, model._encoder)
            if name.startswith("member"):
                model._models[int(name.removeprefix("member"))] = stages
            else:
                if model._twins is None:
                    model._twins = list(model._models)
                model._twins[int(name.removeprefix("twin"))] = stages
        model._share_names()
        return model

    def _check_merge(self, other: Self, approximate: bool) -> None:
        raise CannotMerge("Auto.merge", "a learner that merges, or one Auto that learns both streams", "Auto")


def _finite(score: float) -> float:
    """Return a member's score; 0 where it has none."""
    return score if score - score == 0.0 else 0.0


def _set_finite(rows: np.ndarray) -> None:
    """Set the members' scores that are not finite to 0, in place."""
    rows[~np.isfinite(rows)] = 0.0


def _block_of(rows: np.ndarray, part: Block) -> Block:
    n, width = rows.shape
    indptr = np.arange(n + 1, dtype=np.int64) * width
    return Block(indptr, None, rows.reshape(-1), part.y, part.weights, width, Form.DENSE)
