"""One model in memory: its pipeline, its evaluation, and the events that wait to be applied."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from aucstream import Auto, __version__
from aucstream.block import Floats
from aucstream.errors import BadSnapshot, Description, InvalidBlock
from aucstream.features.encoding.vocabulary import Usage, Vocabulary
from aucstream.features.number_rows import NumberRows, together
from aucstream.metrics.operating_points import OperatingPoint, average_precision_summary
from aucstream.pipeline import Pipeline, RowKind
from aucstream.snapshot import pack, unpack
from aucstream_service.errors.exceptions import ModelFaulted
from aucstream_service.journal import commands
from aucstream_service.journal.event_codec import Features
from aucstream_service.journal.row_batch import RowBatch
from aucstream_service.models.changes import differences, snapshot_of_payload, spec_of_payload
from aucstream_service.models.counts import Counts
from aucstream_service.models.evaluation import NO_LINE, Evaluation, Line, part
from aucstream_service.models.queued import (
    BLOCK,
    FEW,
    Applied,
    Change,
    Learned,
    PriorPrediction,
    QueuedRows,
    queued_replay,
)
from aucstream_service.models.spec import ModelSpec, StoredSpec, etag_of, of_its_time, read_stored

STATE_FORMAT = 1
PART_SECONDS = 0.01  # rows that are learned in one call take about this long at most
MAGNITUDE_ROWS = 1_000  # half-life of the magnitude of scores
LEAST_PART = 8  # rows: what a call costs besides them must not make parts ever smaller
SLOW_SECONDS = 0.02  # a part that is expected to take longer does not hold the event loop
MANY_NAMES = 1 << 12  # in a slice: to look them up takes milliseconds
SLOW_BYTES = 1 << 23  # of what a step may have to write: where arrays grow, units change, or a system is solved

T = TypeVar("T")
Work = Callable[[], Any]  # of the pipeline or of copies; touches nothing else of a model
Steps = Generator[Work, Any, T]  # what is done on the loop, and in between the work that may be done elsewhere


class Reading(NamedTuple):
    """What is told of a model's pipeline."""

    examples: int
    positives: int
    usage: Usage | None
    resolved: dict[str, Any] | None
    remarks: tuple[str, ...]


class Model:
    """State of one model; lives on the event loop, and is touched elsewhere only while it is away.

    Attributes
    ----------
    away : bool
        A thread works on the pipeline (see `workers.py`): the loop reads `reading`, and waits for `free` before
        anything else that concerns the pipeline. The rest of the model does not change meanwhile.
    """

    def __init__(self, record: commands.ModelRecord) -> None:
        self.number = record.model
        self.name = record.name
        self.created_at = record.created_at
        self.record = record
        self.seed = record.seed
        stored = read_stored(record.spec)
        self._take_spec(stored)
        self.calibrated = self.spec.calibration != "none"
        self.pipeline: Pipeline = Pipeline.from_spec(stored.pipeline(record.seed), stored.rules)
        self.evaluation = Evaluation(self.spec.evaluation.window)
        self.kind: RowKind | None = None  # form of the rows accepted so far
        self.seq = 0  # last applied event
        self.queued = 0  # requests handed to the journal and not yet answered
        self.last_event_at: float | None = None
        self.pending = 0  # predictions and early labels that wait
        self.snapshot_seq = -1
        self.snapshot_tried = 0  # the seq at which a snapshot was last begun
        self.snapshot_at: float | None = None
        self.snapshot_failures = 0
        self.summary: dict[str, Any] | None = None  # the newest evaluation that was requested
        self.summary_at = 0.0
        self._summary_seq = -1
        self.waiting: deque[QueuedRows] = deque()
        self.skipped: set[int] = set()  # seqs whose step was skipped, until every request that repeats them is answered
        self._skipped_ids: list[tuple[str, int]] = []  # the ids of those, and their seqs, until the journal knows
        self._releases: deque[tuple[int, list[int]]] = deque()  # after this seq nobody asks for these of `skipped`
        self._repeats: deque[tuple[commands.AppendOutcome, asyncio.Future[Learned]]] = (
            deque()
        )  # answered after their seq
        self.exports = 0  # that read its events
        self.score_magnitude = 0.0  # mean of the newest since the start
        self._has_scores = False
        self.applying = False
        self.away = False
        self._waiters: deque[asyncio.Future[None]] = deque()  # for the end of that
        self._reading: Reading | None = None  # from before it
        self._weighed: tuple[Any, int] = (None, 0)  # when, and the bytes that a step may have to write
        self.dropped = False
        self.fault: str | None = None
        self.counts = Counts()
        self.versions: list[str] = []  # of the library, that learned this state, oldest first
        self._line: Line = NO_LINE
        self._row_seconds = 0.001  # what a row cost of late

    def _take_spec(self, stored: StoredSpec) -> None:
        self.stored = stored
        self.spec = stored.spec
        self.canonical = self.spec.canonical()  # again: this version may know more fields than the one that wrote it
        self.etag = etag_of(self.canonical)

    # ---- at work elsewhere -------------------------------------------------------------------

    def leave(self) -> None:
        """Be away from now on."""
        self._reading, self.away = self.reading, True

    def come_back(self) -> None:
        """Be away no more; who waits goes on, in the order in which they came."""
        self.away = False
        waiters, self._waiters = self._waiters, deque()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def free(self) -> None:
        """Wait until the loop may touch the model."""
        while self.away:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    @property
    def reading(self) -> Reading:
        """What is told of the pipeline; while the model is away, as it was before."""
        if self.away and self._reading is not None:
            return self._reading
        pipeline = self.pipeline
        return Reading(
            int(pipeline.examples),
            int(pipeline.positives),
            pipeline.usage,
            pipeline.resolved,
            tuple(pipeline.learner.remarks),
        )

    def is_large(self, names: int) -> bool:
        """Return whether a step on rows of so many names may take longer than the event loop can spare."""
        engine = self.pipeline.engine
        more = 1 << names.bit_length()
        when = self.pipeline, engine.width, more, self.seq // BLOCK
        if self._weighed[0] != when:
            self._weighed = when, engine.bytes_at(more)
        return self._weighed[1] > SLOW_BYTES

    @property
    def is_slow(self) -> bool:
        """Whether the next slice of what waits may take longer than the event loop can spare."""
        first = self.waiting[0]
        if first.change is not None:
            return True
        if not len(first.rows.signs):
            return False
        names = 0 if first.rows.block is not None else self._names_ahead()
        return names > MANY_NAMES or LEAST_PART * self._row_seconds > SLOW_SECONDS or self.is_large(names)

    def _names_ahead(self) -> int:
        """Return how many names of the next slice are to be looked up, or are new."""
        names, rows = 0, self._part
        for queued in self.waiting:
            features = queued.rows.features
            start = len(queued.scores)
            part = features[start : start + rows]
            names += len(features.names) if isinstance(features, NumberRows) else sum(map(len, part))
            rows -= len(part)
            if rows <= 0:
                break
        return names

    # ---- changes -----------------------------------------------------------------------------

    def _apply_change(self, change: Change) -> Steps[int]:
        """Do what an event says that no row brings; return how many rows are not learned any more.

        It was checked before it was written: nothing is refused here.
        """
        examples = int(self.pipeline.examples)
        match change.kind:
            case commands.Kind.SPEC:
                stored = spec_of_payload(self.stored, change.payload)
                window = stored.spec.evaluation.window
                yield partial(self.pipeline.change, stored.pipeline(self.seed))
                area = yield partial(self.evaluation.resized, window)
                encoder = self.pipeline.encoder
                if isinstance(encoder, Vocabulary):  # names that came since it was checked stay
                    document = {**stored.spec.encoder, "capacity": encoder.capacity}
                    stored = replace(stored, spec=stored.spec.model_copy(update={"encoder": document}))
                self.evaluation.resize(window, area)
                self._take_spec(stored)
            case commands.Kind.EVALUATION:
                self.evaluation = Evaluation(self.spec.evaluation.window)
            case commands.Kind.ROLLBACK:
                past = change.state
                if past is None:
                    past = yield partial(self.at_snapshot, snapshot_of_payload(change.payload))
                self._go_back(past)
        return examples - int(self.pipeline.examples)

    def at_snapshot(self, data: bytes) -> Model:
        """Return another model of this record, as a snapshot of it has it; raises BadSnapshot."""
        arrays, meta = unpacked(data)
        if meta.get("created_at") != self.created_at:
            raise BadSnapshot("snapshot", "a snapshot of this model", Description("one of another model"))
        model = Model(self.record)
        model.restore(arrays, meta)
        return model

    def _go_back(self, past: Model) -> None:
        """Take over what another model has learned; what waits, and how, is not part of it."""
        spec = past.spec.model_copy(update={"pending": self.spec.pending})
        self._take_spec(replace(self.stored, spec=spec))
        self.pipeline, self.evaluation, self._line = past.pipeline, past.evaluation, past._line
        self.versions = past.versions
        self.kind = past.kind or self.kind

    # ---- applying events ---------------------------------------------------------------------

    def apply_some(self, until: float = 0.0) -> tuple[int, int]:
        """Apply the next slice of what waits; return its rows, and the bytes of the requests it ended.

        Of many rows of one request more slices are taken until a time (`time.perf_counter`).
        """
        steps = self.steps(until)
        try:
            work = next(steps)
            while True:
                work = steps.send(work())
        except StopIteration as end:
            applied: tuple[int, int] = end.value
        return applied

    def steps(self, until: float = 0.0) -> Steps[tuple[int, int]]:
        """Apply the next slice as `apply_some` does, and yield the work that a thread may do."""
        if self.waiting and self.waiting[0].change is not None:
            undone = yield from self._apply_change(self.waiting[0].change)
            future = self.waiting[0].future
            self._advance(1)
            if future is not None and not future.done():
                future.set_result(Applied(self.seq, int(self.pipeline.examples), undone))
            return self._note_scores([(self.waiting[0], 1)], [math.nan], skipped=False)
        if self.waiting and self.seq >= BLOCK and self.waiting[0].many:
            first = self.waiting[0]
            scores, skipped = yield from self._learn_alone(first, len(first.scores), until)
            return self._note_scores([(first, len(scores))], scores, skipped=skipped)
        room = self._room if until == math.inf else self._part
        parts: list[tuple[QueuedRows, slice]] = []
        weighted = predicted = False
        for queued in self.waiting:
            learned = len(queued.rows.signs) > 0
            if parts and not learned:  # nothing to learn: a slice of its own
                break
            start = len(queued.scores)
            stop = min(start + room, len(queued))
            parts.append((queued, slice(start, stop)))
            room -= stop - start
            weighted = weighted or queued.rows.weights is not None
            predicted = predicted or queued.priors is not None
            if not room or not learned:
                break
        skipped = False
        shares = [(queued, part.stop - part.start) for queued, part in parts]
        if parts and len(parts[0][0].rows.signs):
            scores, skipped = yield from self._learn(
                together([queued.rows.features[part] for queued, part in parts]),
                _chained([queued.rows.signs[part] for queued, part in parts]),
                _chained([_part_of(queued.rows.weights, part, 1.0) for queued, part in parts]) if weighted else None,
                _chained([_part_of(queued.priors, part, None) for queued, part in parts]) if predicted else None,
            )
        else:
            scores = [math.nan] * sum(count for _, count in shares)
        self._advance(len(scores))
        return self._note_scores(shares, scores, skipped=skipped)

    @property
    def _room(self) -> int:
        """Rows until the calibration is read again."""
        return 1 if self.seq < BLOCK else BLOCK - self.seq % BLOCK

    @property
    def _part(self) -> int:
        """Rows of the next call: those until the calibration is read again, fewer where they would take long."""
        return min(self._room, max(LEAST_PART, int(PART_SECONDS / self._row_seconds)))

    def _note_pace(self, seconds: float, rows: int) -> None:
        """Note what rows cost that were learned in a time of one thread (others on the machine do not count)."""
        self._row_seconds += 0.25 * (seconds / rows - self._row_seconds)

    def _note_scores(
        self, shares: Sequence[tuple[QueuedRows, int]], scores: Sequence[float], *, skipped: bool
    ) -> tuple[int, int]:
        """Note the scores of the newest rows, NaN for those that have nothing to learn; answer the requests they end.

        `skipped`: the step of some was.
        """
        if skipped:
            self._note_skipped(shares, scores)
        self._note_magnitude(scores)
        at = size = 0
        for queued, count in shares:
            queued.scores.extend(scores[at : at + count])
            at += count
            if len(queued.scores) < len(queued):
                break
            self.waiting.popleft()
            size += queued.rows.size
            self.last_event_at = queued.received_at
            self.queued -= 1
            if isinstance(queued.outcome, commands.AppendOutcome):
                learned = self._learned(queued.outcome, queued.scores, skipped=queued.skipped)
                if queued.future is not None and not queued.future.done():
                    queued.future.set_result(learned)
        self._answer_repeats()
        return len(scores), size

    def _note_magnitude(self, scores: Sequence[float]) -> None:
        """Take scores into the mean magnitude of the newest ones, whose half-life is a thousand rows."""
        sizes = [abs(score) for score in scores if math.isfinite(score)]
        if sizes:
            kept = 0.5 ** (len(sizes) / MAGNITUDE_ROWS) if self._has_scores else 0.0
            self._has_scores = True
            self.score_magnitude = kept * self.score_magnitude + (1.0 - kept) * math.fsum(sizes) / len(sizes)

    def _learn_alone(self, queued: QueuedRows, start: int, until: float) -> Steps[tuple[list[float], bool]]:
        """Learn, judge and move on by rows of one request from `start` on; to the same numbers as `_learn`.

        Returns the scores before each, NaN where a row was skipped, and whether any was.
        """
        signs = queued.rows.signs = np.asarray(queued.rows.signs)
        scores = np.empty(len(queued))
        stop = start
        while stop == start or (stop < len(queued) and time.perf_counter() < until):
            part = slice(stop, min(stop + (self._room if until == math.inf else self._part), len(queued)))
            scores[part], seconds = yield partial(_timed, self._learn_part, queued.rows, signs, part)
            self._note_pace(seconds, part.stop - part.start)
            if self.calibrated:
                self.evaluation.judge(self.seq + 1, signs[part], scores[part], self._line)
            self._advance(part.stop - stop)
            stop = part.stop
        signs, scores = signs[start:stop], scores[start:stop]
        finite = np.isfinite(scores)
        skipped = scores.size - int(np.count_nonzero(finite))
        if skipped:
            self.counts.refuse("non-finite-step", skipped)
            self.evaluation.rank(signs[finite], scores[finite])
        else:
            self.evaluation.rank(signs, scores)
        return scores.tolist(), skipped > 0

    def _learn_part(self, rows: RowBatch, signs: Floats, part: slice) -> Floats:
        """Learn some rows of one request; return the score before each, NaN where it was skipped.

        A block that was made before a rollback, before names could leave, or before another column was left out has the
        columns of then: it is made anew.
        """
        columns = self.pipeline.columns
        other = rows.pipeline is not None and (rows.pipeline is not self.pipeline or rows.reading is not columns)
        if rows.block is None or other or not self.pipeline.engine.keeps_columns:
            weights = None if rows.weights is None else np.asarray(rows.weights)
            rows.block = self.pipeline.engine.block_of(rows.features, signs, weights)
            rows.pipeline, rows.reading = self.pipeline, columns
            if rows.block is None:
                return self._learn_checked(rows.features[part], signs[part], None if weights is None else weights[part])
        return self.pipeline.engine.learn_block(rows.block.rows(part.start, part.stop))

    def _learn(
        self,
        features: Sequence[Features],
        signs: list[float],
        weights: list[float] | None,
        priors: list[PriorPrediction] | None,
    ) -> Steps[tuple[list[float], bool]]:
        """Learn and judge rows; return the score of each, NaN where it was skipped, and whether any was."""
        scores, seconds = yield partial(_timed, self._learned_rows, features, signs, weights)
        self._note_pace(seconds, len(scores))
        finite = list(map(math.isfinite, scores))
        skipped = finite.count(False)
        if priors is not None:  # what was predicted is judged by what was answered then
            scores = [
                score if prior is None or math.isnan(score) else prior[0]
                for score, prior in zip(scores, priors, strict=True)
            ]
        if skipped:
            self.counts.refuse("non-finite-step", skipped)
            rows = [row for row, is_finite in enumerate(finite) if is_finite]
            self.evaluation.rank([signs[row] for row in rows], [scores[row] for row in rows])
        else:
            self.evaluation.rank(signs, scores)
        if self.calibrated:
            probabilities = None if priors is None else [None if prior is None else prior[1] for prior in priors]
            self.evaluation.judge(self.seq + 1, signs, scores, self._line, probabilities)
        return scores, skipped > 0

    def _learned_rows(
        self, features: Sequence[Features], signs: list[float], weights: list[float] | None
    ) -> list[float]:
        """Learn rows; return the score before each, NaN where it was skipped."""
        if not self.away and len(signs) <= FEW and self.pipeline.columns is None:
            return list(map(self.pipeline.engine.learn_row, features, signs, weights or [1.0] * len(signs)))
        scores: list[float] = self._learn_checked(
            features, np.array(signs), None if weights is None else np.array(weights)
        ).tolist()
        return scores

    def _learn_checked(self, features: Sequence[Features], signs: Floats, weights: Floats | None) -> Floats:
        """Learn rows that were checked when they came; return the score before each, NaN where it was skipped.

        A row that a change of columns since has made one that cannot be learned is skipped.
        """
        engine = self.pipeline.engine
        at_once = not self.away
        try:
            return engine.learn_rows(features, signs, weights, at_once=at_once)
        except InvalidBlock:
            pass
        scores = np.full(len(signs), math.nan)
        for row, sign in enumerate(signs.tolist()):
            with contextlib.suppress(InvalidBlock):
                engine.check_rows(features[row : row + 1], self.kind)
                scores[row] = engine.learn_row(features[row], sign, 1.0 if weights is None else weights.item(row))
        return scores

    def _advance(self, rows: int) -> None:
        self.seq += rows
        if self.seq <= BLOCK or self.seq % BLOCK == 0:
            self._line = self.pipeline.engine.log_odds_line

    # ---- rows that were skipped --------------------------------------------------------------

    def _note_skipped(self, shares: Sequence[tuple[QueuedRows, int]], scores: Sequence[float]) -> None:
        """Note rows whose step was skipped, and their ids, before their scores are noted."""
        at = 0
        for queued, count in shares:
            ids = queued.rows.ids
            for row, score in enumerate(scores[at : at + count], len(queued.scores)):
                at += 1
                if not math.isnan(score):
                    continue
                queued.skipped = True
                id_ = None if ids is None else ids[row]
                if id_ is not None:
                    seq = self.seq - len(scores) + at
                    self.skipped.add(seq)
                    self._skipped_ids.append((id_, seq))

    def pop_skipped_ids(self) -> list[tuple[str, int]]:
        """Return the ids that are to be released, with their seqs, once."""
        ids, self._skipped_ids = self._skipped_ids, []
        return ids

    def release(self, seqs: list[int], newest: int) -> None:
        """Note that the journal has released the ids of these seqs, when its newest event was `newest`."""
        self._releases.append((newest, seqs))
        self._answer_repeats()

    def repeat(self, outcome: commands.AppendOutcome, future: asyncio.Future[Learned]) -> None:
        """Answer a request that brought nothing new, when the rows that it repeats are applied."""
        self._repeats.append((outcome, future))
        self._answer_repeats()

    def _answer_repeats(self) -> None:
        while self._repeats and max(self._repeats[0][0].duplicates.values(), default=0) <= self.seq:
            outcome, future = self._repeats.popleft()
            self.queued -= 1
            learned = self._learned(outcome, [], skipped=False)
            if not future.done():
                future.set_result(learned)
        while self._releases and self._releases[0][0] <= self.seq:
            self.skipped.difference_update(self._releases.popleft()[1])

    def _learned(self, outcome: commands.AppendOutcome, scores: list[float], *, skipped: bool) -> Learned:
        """Return what became of a request; its duplicates of skipped rows were skipped as well."""
        if self.skipped and outcome.duplicates:
            outcome.skipped = {
                row
                for row, seq in outcome.duplicates.items()
                if seq in self.skipped and row not in outcome.early  # these name a seq that is not theirs
            }
            if outcome.skipped:
                self.counts.refuse("non-finite-step", len(outcome.skipped))
        self.counts.duplicates += len(outcome.duplicates) - len(outcome.skipped)
        return Learned(outcome, scores, skipped)

    def note(self, outcome: commands.AppendOutcome | commands.KeepOutcome | commands.DerivedEvent) -> None:
        """Count what a transaction decided; not for a replay."""
        counts = self.counts
        match outcome:
            case commands.AppendOutcome():
                counts.learned += outcome.count - len(outcome.predictions)
                counts.labelled += len(outcome.predictions)
                counts.held += len(outcome.early - outcome.duplicates.keys())
            case commands.KeepOutcome():
                counts.kept += outcome.count
                counts.not_kept += len(outcome.unkept)
            case commands.DerivedEvent(kind=commands.Kind.LABEL):
                counts.labelled += len(outcome.predictions)
            case commands.DerivedEvent(kind=commands.Kind.NEGATIVE):
                counts.expired_negative += len(outcome.predictions)
            case commands.DerivedEvent(made_room=True):
                counts.dropped += outcome.seq_last - outcome.seq_first + 1
            case commands.DerivedEvent():
                counts.expired_discard += outcome.seq_last - outcome.seq_first + 1

    def settle_kind(self) -> None:
        """Leave the form of the rows open again where nothing was ever learned and nothing waits."""
        if self.seq == 0 and self.queued == 0 and self.pending == 0 and not self.waiting:
            self.kind = None

    def set_aside(self, reason: str) -> None:
        """Stop serving this model; everyone who waits is answered."""
        self.fault = reason
        futures = [*(queued.future for queued in self.waiting), *(future for _, future in self._repeats)]
        self.waiting.clear()
        self._repeats.clear()
        self.queued -= len(futures)
        for future in futures:
            if future is not None and not future.done():
                future.set_exception(ModelFaulted("model", "a model without a fault", self.name))

    def replay(self, event: commands.EventRecord) -> int:
        """Apply one journalled event; return its number of rows."""
        queued = queued_replay(event, max(event.seq_first, self.seq + 1))  # the snapshot may hold some of them
        if self.kind is None and len(queued.rows.features):
            with contextlib.suppress(InvalidBlock):  # a change of columns came between the check and the event
                self.kind = self.pipeline.engine.check_rows(queued.rows.sample, None)
        self.waiting.append(queued)
        self.queued += 1
        rows = 0
        while self.waiting:
            rows += self.apply_some(math.inf)[0]
        return rows

    # ---- reading -----------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        """Return the description of GET /v1/models/{name}."""
        reading = self.reading
        return {
            "name": self.name,
            "spec": self.spec.model_dump(mode="json"),
            "resolved": reading.resolved,
            "examples": reading.examples,
            "positives": reading.positives,
            "seq": self.seq,
            "pending": self.pending,
            "auc": self.evaluation.auc(),
            "created_at": timestamp(self.created_at),
            "last_event_at": None if self.last_event_at is None else timestamp(self.last_event_at),
        }

    @property
    def members(self) -> list[dict[str, Any]] | None:
        """What each member of an `auto` model is worth at present; None for another model."""
        learner = self.pipeline.learner
        return learner.members if isinstance(learner, Auto) else None

    @property
    def summary_due(self) -> bool:
        """Whether events came after the newest summary."""
        return self._summary_seq != self.seq

    @property
    def summary_size(self) -> int:
        """What a summary costs, in the bytes of rows that cost as much: two for each score of the window."""
        return 2 * min(self.evaluation.size, self.evaluation.examples) if self.summary_due else 0

    def summarise(self) -> dict[str, Any]:
        """Return the answer of GET evaluation; made anew (2 ms, more for a long window) only when events came."""
        if self.summary is None or self.summary_due:
            line = self.pipeline.engine.calibration_line
            evaluation = self.evaluation.describe(line, calibrated=self.calibrated)
            self.summary = {**evaluation, "members": self.members}
            self._summary_seq = self.seq
            self.summary_at = time.monotonic()
        return self.summary

    @property
    def figures_size(self) -> int:
        """What `figures` costs besides, in bytes of rows: eight for each score of the window."""
        return 8 * min(self.evaluation.size, self.evaluation.examples)

    def figures(self, points: Sequence[OperatingPoint]) -> dict[str, Any]:
        """Return the answer of GET evaluation: the summary, and what the window gives at each cut."""
        summary = self.summarise()
        ranking = self.evaluation.ranking()
        at = [{"at": point.text(":"), **point.figures(ranking)} for point in points]
        return {**summary, "figures": {**average_precision_summary(ranking), "at": at}}

    # ---- state -------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return a copy of the whole state: arrays that learning does not write; nothing is packed."""
        pipeline_arrays, pipeline_meta = self.pipeline.state_dict()
        evaluation_arrays, evaluation_meta = self.evaluation.state_dict()
        arrays = {f"pipeline.{name}": array for name, array in pipeline_arrays.items()}
        arrays.update({f"evaluation.{name}": array for name, array in evaluation_arrays.items()})
        arrays["line"] = np.array(self._line, dtype=np.float64)
        return arrays, {
            "what": "aucstream service model",
            "state_format": STATE_FORMAT,
            "name": self.name,
            "spec": self.canonical,
            "created_at": self.created_at,
            "seq": self.seq,
            "kind": self.kind,
            "last_event_at": self.last_event_at,
            "versions": [*self.versions, *([] if self.versions[-1:] == [__version__] else [__version__])][-20:],
            "pipeline": pipeline_meta,
            "evaluation": evaluation_meta,
        }

    def restore(self, arrays: dict[str, NDArray[Any]], meta: dict[str, Any]) -> None:
        """Take over a state made by `state`, or raise BadSnapshot and change nothing."""
        checked_meta(meta)
        spec = spec_in(meta)  # it may have changed since the model was created, or since the snapshot was taken
        if any(differences(self.stored, spec)):
            raise BadSnapshot("snapshot", "the spec of this model", Description("another spec"))
        try:
            pipeline = Pipeline.from_state_dict(part(arrays, "pipeline."), meta["pipeline"])
            evaluation = Evaluation.from_state_dict(part(arrays, "evaluation."), meta["evaluation"])
            line = arrays.get("line")
            numbers = NO_LINE if line is None else tuple(map(float, line))
            seq = int(meta["seq"])
            kind, last_event_at = meta["kind"], meta["last_event_at"]
            versions = [str(version) for version in meta.get("versions", ())]
        except (KeyError, TypeError, ValueError, IndexError) as error:
            if isinstance(error, BadSnapshot):
                raise
            raise BadSnapshot(
                "snapshot", "the state of a model", Description(f"{type(error).__name__}: {error}")
            ) from error
        self._take_spec(replace(self.stored, spec=spec))
        self.pipeline, self.evaluation, self._line = pipeline, evaluation, numbers
        self.seq, self.kind, self.last_event_at = seq, kind, last_event_at
        self.versions = versions
        self._summary_seq = -1


def _timed(work: Callable[..., T], *arguments: Any) -> tuple[T, float]:
    """Return the result of a call, and the seconds of this thread that it took."""
    started = time.thread_time()
    result = work(*arguments)
    return result, time.thread_time() - started


def _chained(parts: list[Any]) -> list[Any]:
    """Return the values of lists and arrays as one list of Python's own."""
    lists = [part.tolist() if isinstance(part, np.ndarray) else part for part in parts]
    return lists[0] if len(lists) == 1 else [value for each in lists for value in each]


def _part_of(column: Sequence[Any] | Floats | None, part: slice, default: Any) -> Sequence[Any] | Floats:
    """Return a part of a column that may be missing."""
    return [default] * (part.stop - part.start) if column is None else column[part]


def timestamp(seconds: float) -> str:
    """Return a moment as RFC 3339, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def checked_meta(meta: dict[str, Any]) -> None:
    """Raise BadSnapshot unless a snapshot holds a model of the service."""
    if meta.get("what") != "aucstream service model" or not isinstance(meta.get("spec"), str):
        raise BadSnapshot(
            "snapshot", "a snapshot of a service model (GET /v1/models/{name}/snapshot)", Description("another kind")
        )
    if meta.get("state_format") != STATE_FORMAT:
        raise BadSnapshot("snapshot", f"state format {STATE_FORMAT}", meta.get("state_format"))


def spec_in(meta: dict[str, Any]) -> ModelSpec:
    """Return the spec in a snapshot, or raise BadSnapshot."""
    try:
        return ModelSpec.model_validate_json(json.dumps(of_its_time(json.loads(meta["spec"]))))
    except (ValueError, TypeError, AttributeError) as error:
        raise BadSnapshot("snapshot", "the spec of a model", str(error)) from error


def packed(state: tuple[dict[str, NDArray[Any]], dict[str, Any]]) -> bytes:
    """Return a state as one file."""
    return pack(*state)


def unpacked(data: bytes) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return the state in one file, or raise BadSnapshot."""
    arrays, meta = unpack(data)
    checked_meta(meta)
    return arrays, meta
