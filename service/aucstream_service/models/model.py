"""One model in memory: its pipeline, its evaluation, and the events that wait to be applied."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aucstream import __version__
from aucstream.block import Block, Floats
from aucstream.errors import BadSnapshot
from aucstream.features.columns import Columns, together
from aucstream.pipeline import Pipeline, RowKind
from aucstream.snapshot import pack, unpack
from aucstream_service.bodies.bodies import EventRow, Features, Numbers, Rows, features_of, replayed
from aucstream_service.errors.exceptions import JournalGap, ModelFaulted
from aucstream_service.journal.column_events import event_of, is_columns
from aucstream_service.journal.commands import Appended, EventRecord, Joined, Kept, Kind, ModelRecord, Settled
from aucstream_service.models.counts import Counts
from aucstream_service.models.evaluation import Evaluation, part
from aucstream_service.models.spec import ModelSpec, etag_of

# The calibration that judges a score (log loss, Brier) is read after each row up to BLOCK, then after
# each BLOCK rows by seq: a rule by seq alone, so that a replay, cut otherwise, gives the same sums.
# It is also the longest slice: a few tenths of a millisecond between two looks at the clock.
BLOCK = 128
FEW = 16  # rows that a model takes faster one by one than as a block

STATE_FORMAT = 1


@dataclass(slots=True)
class Learned:
    """What became of one request's rows.

    `scores` belong to the rows that were taken, in order; NaN: skipped as non-finite (`skipped`: some were).
    """

    appended: Appended
    scores: list[float]
    skipped: bool


# Score and probability that a row was given when it was predicted; None: it was not.
Given = tuple[float, float | None] | None


@dataclass(slots=True)
class Waiting:
    """Rows that are in the journal and not yet applied; without features: a seq each, and nothing to learn."""

    appended: Appended | Settled
    features: Sequence[Features]
    signs: Numbers  # with the weights arrays where the features are Columns
    weights: Numbers | None
    given: Sequence[Given] | None
    received_at: float
    size: int
    future: asyncio.Future[Learned] | None = None
    ids: Sequence[str | None] | None = None
    scores: list[float] = field(default_factory=list)
    skipped: bool = False  # a row that was applied, as non-finite
    block: Block | None = None  # the rows, where all their names are known

    def __len__(self) -> int:
        return self.appended.seq_last - self.appended.seq_first + 1

    @property
    def many(self) -> bool:
        """Whether the rows that are left are learned by themselves, not with those of other requests."""
        left = len(self) - len(self.scores)
        if self.block is not None or isinstance(self.features, Columns):
            return left > FEW
        return left >= BLOCK and len(self.features) > 0 and self.given is None


def waiting_of(rows: Rows, appended: Appended, at: float, future: asyncio.Future[Learned] | None) -> Waiting:
    """Return the rows of a request that the journal took."""
    joined = appended.joined
    size = rows.size + sum(len(row.features) for row in joined.values())
    if appended.taken is None and not joined:
        signs = rows.signs if rows.block is None else rows.block.y
        return Waiting(
            *(appended, rows.features, signs, rows.weights, None, at, size, future, rows.ids), block=rows.block
        )
    taken = range(len(rows)) if appended.taken is None else appended.taken
    ids = None if rows.ids is None else [rows.ids[row] for row in taken]
    if not joined:
        places = np.array(taken, dtype=np.int64)
        features = rows.features
        return Waiting(
            appended,
            features.take(taken) if isinstance(features, Columns) else [features[row] for row in taken],
            np.asarray(rows.signs)[places],
            None if rows.weights is None else np.asarray(rows.weights)[places],
            None,
            at,
            size,
            future,
            ids,
            block=None if rows.block is None else rows.block.take(places),
        )
    return Waiting(
        appended,
        [features_of(joined[row].features) if row in joined else rows.features[row] for row in taken],
        [float(rows.signs[row]) for row in taken],
        None if rows.weights is None else [float(rows.weights[row]) for row in taken],
        [_given(joined.get(row)) for row in taken],
        at,
        size,
        future,
        ids,
    )


def waiting_settled(settled: Settled) -> Waiting:
    """Return the rows of an event that no request brought whole."""
    joined = settled.joined
    return Waiting(
        settled,
        [features_of(row.features) for row in joined],
        [row.sign for row in joined],
        None,
        [_given(row) for row in joined],
        settled.at,
        sum(len(row.features) for row in joined),
        ids=[row.id for row in joined],
    )


def _waiting_replayed(event: EventRecord, first: int) -> Waiting:
    """Return the rows of a journalled event from seq `first` on."""
    at = Appended(first, event.seq_last, None, {}, {})
    if event.kind == Kind.DISCARD:
        return Waiting(at, (), [], None, None, event.received_at, 0)
    if is_columns(event.payload):
        return _columns_replayed(event, at, first - event.seq_first)
    bodies: list[EventRow] = []
    for seq, body in enumerate(replayed(event.payload)[first - event.seq_first :], first):
        if body is None:
            raise _removed(seq)
        bodies.append(body)
    weights = [body.weight for body in bodies]
    return Waiting(
        at,
        [body.features for body in bodies],
        [replay_sign(body.label) for body in bodies],
        None if all(weight == 1.0 for weight in weights) else weights,
        [_given(body) for body in bodies] if any(body.score is not None for body in bodies) else None,
        event.received_at,
        len(event.payload),
        ids=[body.id for body in bodies],
    )


def _columns_replayed(event: EventRecord, at: Appended, known: int) -> Waiting:
    rows = event_of(event.payload)
    weights = rows.each_weight
    erased = [row for row in rows.erased if row >= known]
    if erased:
        raise _removed(event.seq_first + min(erased))
    return Waiting(
        at,
        rows.features[known:],
        rows.signs[known:],
        None if weights is None else weights[known:],
        None,
        event.received_at,
        len(event.payload),
        ids=None if rows.ids is None else rows.ids[known:],
    )


def _removed(seq: int) -> JournalGap:
    return JournalGap(
        f"the event {seq}, its record was removed on request: restore a readable snapshot from after that"
    )


def _given(row: Joined | EventRow | None) -> Given:
    return None if row is None or row.score is None else (row.score, row.probability)


class Model:
    """State of one model; lives on the event loop and is only touched there once it serves."""

    def __init__(self, record: ModelRecord) -> None:
        self.number = record.model
        self.name = record.name
        self.created_at = record.created_at
        self.spec = ModelSpec.model_validate_json(record.spec)
        self.canonical = self.spec.canonical()  # again: this version may know more fields than the one that wrote it
        self.etag = etag_of(self.canonical)
        self.calibrated = self.spec.calibration != "none"
        self.pipeline: Pipeline = Pipeline.from_spec(self.spec.pipeline(record.seed))
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
        self.summary: dict[str, Any] | None = None  # the newest evaluation that somebody asked for
        self.summary_at = 0.0
        self._summary_seq = -1
        self.waiting: deque[Waiting] = deque()
        self.skipped: set[int] = set()  # seqs whose step was skipped, until all who heard of their ids are answered
        self._freed: list[tuple[str, int]] = []  # the ids of those, and their seqs, until the journal is told
        self._released: deque[tuple[int, list[int]]] = deque()  # what is no longer of interest after a seq
        self._repeats: deque[tuple[Appended, asyncio.Future[Learned]]] = deque()  # answered when their seq is applied
        self.applying = False
        self.dropped = False
        self.fault: str | None = None
        self.counts = Counts()
        self.versions: list[str] = []  # of the library, that learned this state, oldest first
        self._line: tuple[float, float] | None = None

    # ---- applying events ---------------------------------------------------------------------

    def apply_some(self, until: float = 0.0) -> tuple[int, int]:
        """Apply the next slice of what waits; return its rows, and the bytes of the requests it ended.

        Of many rows of one request more slices are taken until a time (`time.perf_counter`).
        """
        if self.waiting and self.seq >= BLOCK and self.waiting[0].many:
            first = self.waiting[0]
            scores, skipped = self._learn_alone(first, len(first.scores), until)
            return self._applied([(first, len(scores))], scores, skipped=skipped)
        room = self._room
        features: list[Sequence[Features]] = []
        signs: list[float] = []
        weights: list[float] = []
        given: list[Given] = []
        weighted = predicted = False
        shares: list[tuple[Waiting, int]] = []
        for waiting in self.waiting:
            start = len(waiting.scores)
            if not len(waiting.signs):  # nothing to learn: a slice of its own
                if not shares:
                    shares.append((waiting, min(room, len(waiting) - start)))
                break
            count = min(room - len(signs), len(waiting) - start)
            stop = start + count
            features.append(waiting.features[start:stop])
            signs.extend(_listed(waiting.signs[start:stop]))
            if waiting.weights is not None:
                weighted = True
                weights.extend(_listed(waiting.weights[start:stop]))
            else:
                weights.extend([1.0] * count)
            if waiting.given is not None:
                predicted = True
                given.extend(waiting.given[start:stop])
            else:
                given.extend([None] * count)
            shares.append((waiting, count))
            if len(signs) == room:
                break
        skipped = False
        if signs:
            scores, skipped = self._learn(
                *(together(features), signs, weights if weighted else None, given if predicted else None)
            )
        else:
            scores = [math.nan] * shares[0][1] if shares else []
        self._advance(len(scores))
        return self._applied(shares, scores, skipped=skipped)

    @property
    def _room(self) -> int:
        """Rows until the calibration is read again."""
        return 1 if self.seq < BLOCK else BLOCK - self.seq % BLOCK

    def _applied(
        self, shares: Sequence[tuple[Waiting, int]], scores: Sequence[float], *, skipped: bool
    ) -> tuple[int, int]:
        """Note the scores of the newest rows, NaN for those that have nothing to learn; answer the requests they end.

        `skipped`: the step of some was.
        """
        if skipped:
            self._free_skipped(shares, scores)
        at = freed = 0
        for waiting, count in shares:
            waiting.scores.extend(scores[at : at + count])
            at += count
            if len(waiting.scores) < len(waiting):
                break
            self.waiting.popleft()
            freed += waiting.size
            self.last_event_at = waiting.received_at
            self.queued -= 1
            if isinstance(waiting.appended, Appended):
                learned = self._learned(waiting.appended, waiting.scores, skipped=waiting.skipped)
                if waiting.future is not None and not waiting.future.done():
                    waiting.future.set_result(learned)
        self._answer_repeats()
        return len(scores), freed

    def _learn_alone(self, waiting: Waiting, start: int, until: float) -> tuple[list[float], bool]:
        """Learn, judge and move on by rows of one request from `start` on; to the same numbers as `_learn`.

        Returns the scores before each, NaN where a row was skipped, and whether any was.
        """
        signs = waiting.signs = np.asarray(waiting.signs)
        scores = np.empty(len(waiting))
        stop = start
        while stop == start or (stop < len(waiting) and time.perf_counter() < until):
            part = slice(stop, min(stop + self._room, len(waiting)))
            scores[part] = self._learned_part(waiting, signs, part)
            if self.calibrated:
                self.evaluation.judge(signs[part], scores[part], self._line)
            self._advance(part.stop - stop)
            stop = part.stop
        signs, scores = signs[start:stop], scores[start:stop]
        known = np.isfinite(scores)
        skipped = scores.size - int(np.count_nonzero(known))
        if skipped:
            self.counts.refuse("non-finite-step", skipped)
            self.evaluation.rank(signs[known], scores[known])
        else:
            self.evaluation.rank(signs, scores)
        return scores.tolist(), skipped > 0

    def _learned_part(self, waiting: Waiting, signs: Floats, part: slice) -> Floats:
        """Learn some rows of one request; return the score before each, NaN where it was skipped."""
        if waiting.block is None:
            rows = waiting.features
            weights = None if waiting.weights is None else np.asarray(waiting.weights)
            waiting.block = self.pipeline.block_of(rows, signs, weights)
            if waiting.block is None:
                return self.pipeline.learn_rows(rows[part], signs[part], None if weights is None else weights[part])
        return self.pipeline.learn_block(waiting.block.rows(part.start, part.stop))

    def _learn(
        self,
        features: Sequence[Features],
        signs: list[float],
        weights: list[float] | None,
        given: Sequence[Given] | None,
    ) -> tuple[list[float], bool]:
        scores = self._learned_scores(features, signs, weights)
        known = None if all(map(math.isfinite, scores)) else [at for at, s in enumerate(scores) if math.isfinite(s)]
        if given is not None:  # what was predicted is judged by what was answered then
            scores = [
                score if first is None or math.isnan(score) else first[0]
                for score, first in zip(scores, given, strict=True)
            ]
        if known is None:
            self._judge(signs, scores, given)
        else:
            self.counts.refuse("non-finite-step", len(scores) - len(known))
            self._judge(
                [signs[at] for at in known],
                [scores[at] for at in known],
                None if given is None else [given[at] for at in known],
            )
        return scores, known is not None

    def _learned_scores(
        self, features: Sequence[Features], signs: list[float], weights: list[float] | None
    ) -> list[float]:
        pipeline = self.pipeline
        if len(signs) <= FEW:
            each = weights or [1.0] * len(signs)
            return list(map(pipeline.learn_row, features, signs, each))
        scores: list[float] = pipeline.learn_rows(
            features,
            np.array(signs, dtype=np.float64),
            None if weights is None else np.array(weights, dtype=np.float64),
        ).tolist()
        return scores

    def _judge(self, signs: list[float], scores: list[float], given: Sequence[Given] | None) -> None:
        self.evaluation.rank(signs, scores)
        if self.calibrated:
            probabilities = None if given is None else [None if first is None else first[1] for first in given]
            self.evaluation.judge(signs, scores, self._line, probabilities)

    def _advance(self, rows: int) -> None:
        self.seq += rows
        if self.seq <= BLOCK or self.seq % BLOCK == 0:
            self._line = self.pipeline.calibration_line

    # ---- rows that were skipped --------------------------------------------------------------

    def _free_skipped(self, shares: Sequence[tuple[Waiting, int]], scores: Sequence[float]) -> None:
        """Note rows whose step was skipped, and their ids, before their scores are noted."""
        seq = before = self.seq - len(scores)
        for waiting, count in shares:
            start = len(waiting.scores)
            for row in range(start, start + count):
                seq += 1
                id_ = None if waiting.ids is None else waiting.ids[row]
                if math.isnan(scores[seq - before - 1]):
                    waiting.skipped = True
                    if id_ is not None:
                        self.skipped.add(seq)
                        self._freed.append((id_, seq))

    def take_freed(self) -> list[tuple[str, int]]:
        """Return the ids that are to be released, with their seqs, once."""
        freed, self._freed = self._freed, []
        return freed

    def released(self, seqs: list[int], newest: int) -> None:
        """Take note that the journal forgot the ids of these seqs, when its newest event was `newest`."""
        self._released.append((newest, seqs))
        self._answer_repeats()

    def repeat(self, appended: Appended, future: asyncio.Future[Learned]) -> None:
        """Answer a request of which nothing was taken, when that is certain of what it repeats."""
        self._repeats.append((appended, future))
        self._answer_repeats()

    def _answer_repeats(self) -> None:
        while self._repeats and max(self._repeats[0][0].duplicates.values(), default=0) <= self.seq:
            appended, future = self._repeats.popleft()
            self.queued -= 1
            learned = self._learned(appended, [], skipped=False)
            if not future.done():
                future.set_result(learned)
        while self._released and self._released[0][0] <= self.seq:
            self.skipped.difference_update(self._released.popleft()[1])

    def _learned(self, appended: Appended, scores: list[float], *, skipped: bool) -> Learned:
        """Return what became of a request; its duplicates of skipped rows were skipped as well."""
        if self.skipped and appended.duplicates:
            appended.skipped = {
                row
                for row, seq in appended.duplicates.items()
                if seq in self.skipped and row not in appended.held  # these name a seq that is not theirs
            }
            if appended.skipped:
                self.counts.refuse("non-finite-step", len(appended.skipped))
        self.counts.duplicates += len(appended.duplicates) - len(appended.skipped)
        return Learned(appended, scores, skipped)

    def note(self, outcome: Appended | Kept | Settled) -> None:
        """Count what a transaction decided; not for a replay."""
        counts = self.counts
        match outcome:
            case Appended():
                rows = outcome.seq_last - outcome.seq_first + 1 if outcome.taken is None else len(outcome.taken)
                counts.learned += rows - len(outcome.joined)
                counts.labelled += len(outcome.joined)
                counts.held += len(outcome.held - outcome.duplicates.keys())
            case Kept():
                counts.kept += outcome.kept
            case Settled(kind=Kind.LABEL):
                counts.labelled += len(outcome.joined)
            case Settled(kind=Kind.NEGATIVE):
                counts.expired_negative += len(outcome.joined)
            case Settled():
                counts.expired_discard += outcome.seq_last - outcome.seq_first + 1

    def settle_kind(self) -> None:
        """Leave the form of the rows open again where nothing was ever learned and nothing waits."""
        if self.seq == 0 and self.queued == 0 and self.pending == 0 and not self.waiting:
            self.kind = None

    def set_aside(self, reason: str) -> None:
        """Stop serving this model; everyone who waits is told."""
        self.fault = reason
        while self.waiting:
            waiting = self.waiting.popleft()
            self.queued -= 1
            if waiting.future is not None and not waiting.future.done():
                waiting.future.set_exception(ModelFaulted("model", "a model without a fault", self.name))
        while self._repeats:
            _, future = self._repeats.popleft()
            self.queued -= 1
            if not future.done():
                future.set_exception(ModelFaulted("model", "a model without a fault", self.name))

    def replay(self, event: EventRecord) -> int:
        """Apply one journalled event; return its number of rows."""
        waiting = _waiting_replayed(event, max(event.seq_first, self.seq + 1))  # the snapshot may hold some of them
        if self.kind is None and waiting.features:
            self.kind = self.pipeline.check_rows(waiting.features[:1], None)
        self.waiting.append(waiting)
        self.queued += 1
        rows = 0
        while self.waiting:
            rows += self.apply_some(math.inf)[0]
        return rows

    # ---- reading -----------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        """Return the description of GET /v1/models/{name}."""
        return {
            "name": self.name,
            "spec": self.spec.model_dump(mode="json"),
            "resolved": self.pipeline.resolved,
            "examples": int(self.pipeline.examples),
            "positives": int(self.pipeline.positives),
            "seq": self.seq,
            "pending": self.pending,
            "auc": self.evaluation.auc(),
            "created_at": timestamp(self.created_at),
            "last_event_at": None if self.last_event_at is None else timestamp(self.last_event_at),
        }

    @property
    def summary_due(self) -> bool:
        """Whether events came after the newest summary."""
        return self._summary_seq != self.seq

    def summarise(self) -> dict[str, Any]:
        """Return the answer of GET evaluation; made anew (2 ms) only when events came."""
        if self.summary is None or self.summary_due:
            self.summary = self.evaluation.describe(self.pipeline.calibration_line)
            self._summary_seq = self.seq
            self.summary_at = time.monotonic()
        return self.summary

    # ---- state -------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return a copy of the whole state; cheap enough for the event loop, nothing is packed."""
        pipeline_arrays, pipeline_meta = self.pipeline.state_dict()
        evaluation_arrays, evaluation_meta = self.evaluation.state_dict()
        arrays = {f"pipeline.{name}": np.array(array) for name, array in pipeline_arrays.items()}
        arrays.update({f"evaluation.{name}": np.array(array) for name, array in evaluation_arrays.items()})
        if self._line is not None:
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
        if spec_in(meta).canonical() != self.canonical:
            raise BadSnapshot("snapshot", "the spec of this model", "another spec")
        try:
            pipeline = Pipeline.from_state_dict(part(arrays, "pipeline."), meta["pipeline"])
            evaluation = Evaluation.from_state_dict(part(arrays, "evaluation."), meta["evaluation"])
            line = arrays.get("line")
            pair = None if line is None else (float(line[0]), float(line[1]))
            seq = int(meta["seq"])
            kind, last_event_at = meta["kind"], meta["last_event_at"]
            versions = [str(version) for version in meta.get("versions", ())]
        except (KeyError, TypeError, ValueError, IndexError) as error:
            if isinstance(error, BadSnapshot):
                raise
            raise BadSnapshot("snapshot", "the state of a model", f"{type(error).__name__}: {error}") from error
        self.pipeline, self.evaluation, self._line = pipeline, evaluation, pair
        self.seq, self.kind, self.last_event_at = seq, kind, last_event_at
        self.versions = versions
        self._summary_seq = -1


def _listed(numbers: Numbers) -> list[float]:
    """Return numbers as Python's own."""
    listed: list[float] = numbers.tolist() if isinstance(numbers, np.ndarray) else numbers
    return listed


def timestamp(seconds: float) -> str:
    """Return a moment as RFC 3339, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def replay_sign(label: Any) -> float:
    """Return the sign of a label that was checked before it was journalled."""
    return 1.0 if label == 1 else -1.0


def checked_meta(meta: dict[str, Any]) -> None:
    """Raise BadSnapshot unless a snapshot holds a model of the service."""
    if meta.get("what") != "aucstream service model" or not isinstance(meta.get("spec"), str):
        raise BadSnapshot("snapshot", "a snapshot of a service model (GET /v1/models/{name}/snapshot)", "another kind")
    if meta.get("state_format") != STATE_FORMAT:
        raise BadSnapshot("snapshot", f"state format {STATE_FORMAT}", meta.get("state_format"))


def spec_in(meta: dict[str, Any]) -> ModelSpec:
    """Return the spec in a snapshot, or raise BadSnapshot."""
    try:
        return ModelSpec.model_validate_json(meta["spec"])
    except ValueError as error:
        raise BadSnapshot("snapshot", "the spec of a model", str(error)) from error


def packed(state: tuple[dict[str, NDArray[Any]], dict[str, Any]]) -> bytes:
    """Return a state as one file."""
    return pack(*state)


def unpacked(data: bytes) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return the state in one file, or raise BadSnapshot."""
    arrays, meta = unpack(data)
    checked_meta(meta)
    return arrays, meta
