"""The model host: journal first, then apply in order of seq, then acknowledge.

Everything here runs on the event loop, but for the writer thread (journal), and for worker threads
that warm kernels and write snapshot files. Rows are applied in slices; between slices the loop
answers predictions, so a prediction never waits long and never sees half a step.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import apsw

from aucstream.errors import AucstreamError, BadSnapshot
from aucstream.pipeline import RowKind
from aucstream_service.bodies.bodies import Predictions, Rows
from aucstream_service.errors.exceptions import (
    JournalUnavailable,
    ModelFaulted,
    ModelNotFound,
    NotReady,
    QueueFull,
    SpecConflict,
    StartRefused,
    TooManyModels,
    Unrecoverable,
)
from aucstream_service.errors.problems import log_text
from aucstream_service.http.preconditions import ANY, Preconditions
from aucstream_service.journal.commands import (
    Append,
    Appended,
    Command,
    CreateModel,
    DropModel,
    Keep,
    Kept,
    Kind,
    Mode,
    ModelRecord,
    Outcome,
    Prune,
    Release,
    Settled,
    Sweep,
    Swept,
)
from aucstream_service.journal.ids import STEP_BYTES, STEP_ROWS
from aucstream_service.journal.integrity import unreadable
from aucstream_service.journal.journal import Journal
from aucstream_service.journal.writer import Writer
from aucstream_service.models.model import (
    Learned,
    Model,
    Waiting,
    packed,
    spec_in,
    unpacked,
    waiting_of,
    waiting_settled,
)
from aucstream_service.models.recovery import SetAside, load, rows_to_replay
from aucstream_service.models.retention import Retention
from aucstream_service.models.snapshots import Archive
from aucstream_service.models.spec import ModelSpec
from aucstream_service.models.warming import check_params, warm_up
from aucstream_service.settings import Settings
from aucstream_service.storage.directory import DataDirectory
from aucstream_service.telemetry.histogram import Histogram

log = logging.getLogger("aucstream")

SLICE_SECONDS = 0.002  # rows are applied for about this long before the loop looks elsewhere
PROGRESS_SECONDS = 2.0  # between two lines of the log during a long replay
SWEEP_SECONDS = 1.0  # between two looks at what has expired
YIELD_SECONDS = 0.02  # during replay, so that /livez and /readyz are answered


@dataclass(frozen=True, slots=True)
class Freed:
    """Ids on their way out of the journal."""

    model: Model
    seqs: list[int]


@dataclass(slots=True)
class Ticket:
    """A request's rows at the journal."""

    model: Model
    rows: Rows | Predictions
    at: float
    future: asyncio.Future[Any]


class ModelHost:
    """Owns the data directory and all models."""

    def __init__(
        self,
        settings: Settings,
        directory: DataDirectory | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.directory = directory or DataDirectory(settings.data_dir, expect_existing=settings.expect_existing)
        files = self.directory.files
        self.archive = Archive(self.directory.snapshots, settings.snapshot_keep, files)
        self.journal = Journal(
            *(self.directory.journal, settings.durability, settings.max_ids, settings.id_seconds),
            *(files, self.directory.vfs),
        )
        self.models: dict[str, Model] = {}
        self.set_aside: dict[str, SetAside] = {}  # by name: what could not be recovered
        self.ready = False
        self.draining = False
        self.replayed = 0
        self.to_replay = 0
        self.to_load = 0
        self.hurried = False  # told to stop twice
        self.stop_by = math.inf  # of the monotonic clock: no snapshot begins later
        self.commits = Histogram()
        self.waiting_rows = 0
        self.waiting_bytes = 0
        self._writer: Writer | None = None
        self._registry = asyncio.Lock()
        self.uploading = asyncio.Lock()  # one snapshot in memory at a time
        self._snapshots = asyncio.Lock()
        self._snapshotting: set[int] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._warm: set[str] = set()
        self._sweeper: asyncio.Task[None] | None = None
        self._retainer: asyncio.Task[None] | None = None
        self._sweeping = False
        self.retention = Retention(self)

    # ---- start -------------------------------------------------------------------------------

    def acquire(self) -> None:
        """Become the owner of the data directory, or raise StartRefused."""
        self.directory.acquire()

    async def recover(self) -> None:
        """Load snapshots, replay the journal, warm the kernels; then the host is ready."""
        started = time.monotonic()
        found = self.directory.journal.exists()
        if not found and any(self.directory.snapshots.iterdir()):
            raise StartRefused(
                f"a journal beside the snapshots in {self.directory.path}, found none: "
                "restore journal.sqlite3, or make a new directory of the snapshots (`aucstream fsck --salvage`), "
                "or move them away to start empty"
            )
        log.info("data directory %s: %s", self.directory.path, "journal found" if found else "empty, starting new")
        await asyncio.to_thread(self.journal.open)
        records = self.journal.models()
        self.archive.remove_others({record.model for record in records})
        self.to_replay = sum(rows_to_replay(self.journal, self.archive, record) for record in records)
        self.to_load = len(records)
        for record in records:
            try:
                await self._warm_up(ModelSpec.model_validate_json(record.spec))  # or it would compile on the loop
                self.models[record.name] = await self._load(record)
            except apsw.Error as error:
                raise unreadable(self.directory.journal, error) from error
            except Exception as error:  # one bad file must not stop the others
                self._set_aside(record, error)
        self._writer = Writer(self.journal, asyncio.get_running_loop(), self._committed, self.commits)
        self._writer.start()
        self._sweeper = asyncio.get_running_loop().create_task(self._keep_sweeping())
        if self.settings.retain_seconds is not None:
            self._retainer = asyncio.get_running_loop().create_task(self.retention.go_on(self.settings.retain_seconds))
        self.ready = True
        log.info(
            "ready: %d models, %d rows replayed, %.1f s, durability %s",
            len(self.models),
            self.replayed,
            time.monotonic() - started,
            self.settings.durability,
        )

    async def _load(self, record: ModelRecord) -> Model:
        told = paused = time.monotonic()
        steps = load(self.journal, self.archive, record)
        while True:
            try:
                rows, seq = next(steps)
            except StopIteration as end:
                model: Model = end.value
                log.info("model %s: %d examples, seq %d", model.name, model.pipeline.examples, model.seq)
                return model
            self.replayed += rows
            now = time.monotonic()
            if now - told > PROGRESS_SECONDS:
                told = now
                log.info(
                    "model %s: replayed to seq %d (%d of %d rows)", record.name, seq, self.replayed, self.to_replay
                )
            if now - paused > YIELD_SECONDS:
                await asyncio.sleep(0)
                paused = time.monotonic()

    def _set_aside(self, record: ModelRecord, error: Exception) -> None:
        """Go on without a model that cannot be recovered; its files are left as they are."""
        known = isinstance(error, AucstreamError)
        reason = f"expected {error.expected}" if isinstance(error, Unrecoverable) else log_text(error)
        log.critical(
            "model %s (number %d) is set aside, the others serve: %s. `aucstream fsck %s` tells more",
            *(record.name, record.model, reason, self.directory.path),
            exc_info=None if known else error,
        )
        self.set_aside[record.name] = SetAside(record.model, record.name, reason)

    async def _warm_up(self, spec: ModelSpec) -> None:
        """Compile what a model of this spec will call, away from the loop."""
        key = spec.pipeline(0).model_dump_json()
        if key not in self._warm:
            await asyncio.to_thread(warm_up, spec)
            self._warm.add(key)

    # ---- stop --------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Apply what is queued, snapshot every model, close the journal, give the directory up.

        After `stop_by`, or when told twice, what is left undone is what the next start replays.
        """
        self.draining = True
        for timer in (self._sweeper, self._retainer):
            if timer is not None:
                timer.cancel()
        if self._writer is not None:
            while self._writer.failed is None and (
                self._sweeping or any(model.queued for model in self.models.values())
            ):
                if self._late():
                    break
                await asyncio.sleep(0.005)
            while self._snapshotting and not self._late():
                await asyncio.sleep(0.005)
            behind = [m for m in self.models.values() if m.fault is None and m.seq > max(m.snapshot_seq, 0)]
            while behind and not self._late():
                await self.snapshot(behind.pop())
            if behind:
                log.warning("stop: no time for the snapshots of %d models: the next start replays", len(behind))
            for task in list(self._tasks):
                if self._late():
                    task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            await self._writer.stop()
            self._writer = None
        else:
            self.journal.close()
        self.ready = False
        self.directory.release()

    def _late(self) -> bool:
        # without a journal the snapshots are all there is: they get the time they need
        timed = self.settings.durability != "memory" and time.monotonic() > self.stop_by
        return self.hurried or timed

    # ---- models ------------------------------------------------------------------------------

    def model(self, name: str) -> Model:
        """Return a model that serves, or raise."""
        if not self.ready:
            raise self.not_ready()
        model = self.models.get(name)
        if model is not None and model.fault is None:
            return model
        if name in self.set_aside:
            raise self._set_aside_error(name)
        if model is None:
            raise ModelNotFound(name, self.models)
        raise ModelFaulted("model", "a model without a fault; its journal is kept, a restart tries again", name)

    def _set_aside_error(self, name: str) -> ModelFaulted:
        return ModelFaulted(
            "model",
            "one that could be recovered: it was set aside at start, its files are kept, the log has the reason, "
            "`aucstream fsck` checks the data directory, DELETE removes the model",
            name,
        )

    @property
    def faulted(self) -> list[str]:
        """The names of models that do not serve."""
        return sorted([*self.set_aside, *(model.name for model in self.models.values() if model.fault is not None)])

    def not_ready(self) -> NotReady:
        """Return the error that says why nothing is served."""
        if self.draining:
            return NotReady("service", "to be running, it is stopping", members=self.progress())
        told = f"to be ready, it is replaying its journal ({self.replayed} of {self.to_replay} rows so far)"
        return NotReady("service", told, members=self.progress())

    def progress(self) -> dict[str, Any]:
        """Return what /readyz tells: the conditions that are not met, and how far the start is."""
        met = {
            "replayed": self.ready,
            "warm": self.ready,
            "journal": not self.journal_failed,
            "running": not self.draining,
        }
        return {
            "missing": [name for name, there in met.items() if not there],
            "faulted": self.faulted,
            "models": {"ready": len(self.models), "of": max(self.to_load, len(self.models))},
            "replay": {"rows": self.replayed, "of": self.to_replay},
        }

    async def create(self, name: str, spec: ModelSpec, expected: Preconditions = ANY) -> tuple[Model, bool]:
        """Create a model, or return the one that is there with the same spec.

        Raises
        ------
        SpecConflict, PreconditionFailed
        """
        self.require_running()
        canonical = spec.canonical()
        async with self._registry:
            there = self.models.get(name)
            if name in self.set_aside:
                raise self._set_aside_error(name)
            expected.check(None if there is None else there.etag)
            if there is not None:
                if there.canonical != canonical:
                    check_params(spec)
                    raise SpecConflict(
                        "spec", f"the spec that model {name!r} was created with (delete it to change it)"
                    )
                return there, False
            check_params(spec)
            self._check_room()
            await self._warm_up(spec)
            return await self._register(name, canonical), True

    async def upload(self, name: str, data: bytes, expected: Preconditions = ANY) -> tuple[Model, bool]:
        """Create or replace a model from a snapshot.

        Raises
        ------
        BadSnapshot, PreconditionFailed
        """
        self.require_running()
        arrays, meta = await asyncio.to_thread(unpacked, data)
        spec = spec_in(meta)
        seq = meta.get("seq")
        if not isinstance(seq, int) or seq < 0:
            raise BadSnapshot("snapshot", "a seq >= 0", seq)
        async with self._registry:
            there = self.models.get(name)
            if name in self.set_aside:
                raise self._set_aside_error(name)
            expected.check(None if there is None else there.etag)
            if there is None:
                self._check_room()
            await self._warm_up(spec)
            trial = Model(ModelRecord(0, name, spec.canonical(), 0.0, 0, 0))
            trial.restore(arrays, meta)
            if there is not None:
                there.dropped = True
            try:
                model = await self._register(name, spec.canonical(), (arrays, meta), data, there)
            except BaseException:
                if there is not None:
                    there.dropped = False
                raise
            if there is not None:
                await asyncio.to_thread(self.archive.remove, there.number)
            return model, there is None

    async def _register(
        self,
        name: str,
        canonical: str,
        state: tuple[Any, Any] | None = None,
        base: bytes | None = None,
        replaces: Model | None = None,
    ) -> Model:
        now, seed = self.clock(), secrets.randbits(31)
        seq = 0 if state is None else int(state[1]["seq"])
        model = Model(ModelRecord(0, name, canonical, now, seq, seed))
        number = await self.submit(
            CreateModel(
                name,
                canonical,
                now,
                seed,
                base,
                seq,
                None if replaces is None else replaces.number,
                model.spec.pending,
            )
        )
        assert isinstance(number, int)
        model.number = number
        if state is not None:
            model.restore(*state)
        self.models[name] = model
        return model

    async def delete(self, name: str, expected: Preconditions = ANY) -> None:
        """Forget a model and everything it learned, or raise PreconditionFailed."""
        self.require_running()
        async with self._registry:
            model = self.models.get(name)
            aside = self.set_aside.get(name)
            if aside is not None:
                await self.submit(DropModel(aside.number))
                del self.set_aside[name]
                await asyncio.to_thread(self.archive.remove, aside.number)
                return
            if model is None:
                raise ModelNotFound(name, self.models)
            expected.check(model.etag)
            model.dropped = True
            try:
                await self.submit(DropModel(model.number))
            except BaseException:
                model.dropped = False
                raise
            del self.models[name]
        await asyncio.to_thread(self.archive.remove, model.number)

    def _check_room(self) -> None:
        if len(self.models) + len(self.set_aside) >= self.settings.max_models:
            raise TooManyModels("models", f"at most {self.settings.max_models} models (--max-models)")

    def require_running(self) -> None:
        """Raise NotReady or JournalUnavailable unless the journal can be written."""
        if not self.ready:
            raise self.not_ready()
        if self._writer is not None and self._writer.failed is not None:
            raise self.journal_error()

    def journal_error(self) -> JournalUnavailable:
        """Return the error of a journal that failed (the reason is in the log, not in answers)."""
        return JournalUnavailable(
            "journal",
            "a journal that can be written; scoring goes on, learning needs a restart",
            members=self.progress(),
        )

    @property
    def journal_failed(self) -> bool:
        """Whether a write or flush failed since the start."""
        return self._writer is not None and self._writer.failed is not None

    @property
    def is_ready(self) -> bool:
        """Whether work may be sent: replayed, warm, journal writable, not stopping."""
        return self.ready and not self.draining and not self.journal_failed

    @property
    def unwritten_rows(self) -> int:
        """Rows that were handed to the journal and are not in it yet."""
        applying = sum(len(each) - len(each.scores) for model in self.models.values() for each in model.waiting)
        return self.waiting_rows - applying

    # ---- learning ----------------------------------------------------------------------------

    def has_room(self, rows: int, size: int) -> bool:
        """Return whether rows may be queued (a request always may when nothing else waits)."""
        if self.waiting_rows == 0:
            return True
        return (
            self.waiting_rows + rows <= self.settings.max_queue_rows
            and self.waiting_bytes + size <= self.settings.max_queue_bytes
        )

    def learn(
        self, model: Model, rows: Rows, kind: RowKind | None, mode: Mode, event: Kind = Kind.LEARN
    ) -> asyncio.Future[Learned]:
        """Queue checked rows, or labels (Kind.LABEL); the future is done when they are durable and applied.

        Raises
        ------
        QueueFull, JournalUnavailable, NotReady, ModelNotFound, InvalidBlock
        """
        self._admit(model, rows, kind)
        future: asyncio.Future[Learned] = asyncio.get_running_loop().create_future()
        now = self.clock()
        self._send(
            Append(
                *(model.number, event, rows.payload, rows.signs, rows.ids, mode, now),
                *(rows.weights, rows.digest, rows.line),
            ),
            Ticket(model, rows, now, future),
        )
        return future

    def keep(self, model: Model, rows: Predictions, kind: RowKind | None, mode: Mode) -> asyncio.Future[Kept]:
        """Queue predictions that wait for their labels; the future is done when they are durable.

        Raises
        ------
        QueueFull, JournalUnavailable, NotReady, ModelNotFound, InvalidBlock
        """
        self._admit(model, rows, kind)
        future: asyncio.Future[Kept] = asyncio.get_running_loop().create_future()
        now = self.clock()
        self._send(
            Keep(model.number, rows.ids, rows.features, rows.firsts, mode, now), Ticket(model, rows, now, future)
        )
        return future

    def _admit(self, model: Model, rows: Rows | Predictions, kind: RowKind | None) -> None:
        if self._writer is None:
            raise self.not_ready()
        if self._writer.failed is not None:
            raise self.journal_error()
        if model.dropped:
            raise ModelNotFound(model.name, [name for name in self.models if name != model.name])
        if model.fault is not None:
            raise ModelFaulted("model", "a model without a fault", model.name)
        if not self.has_room(len(rows), rows.size):
            raise QueueFull(
                "queue",
                f"at most {self.settings.max_queue_rows} rows or {self.settings.max_queue_bytes} bytes waiting",
            )
        if model.kind is not kind and model.kind != kind:
            if model.kind is not None:
                model.pipeline.check_rows(rows.sample, model.kind)
            model.kind = kind

    def _send(self, command: Command, ticket: Ticket) -> None:
        assert self._writer is not None
        ticket.model.queued += 1
        self.waiting_rows += len(ticket.rows)
        self.waiting_bytes += ticket.rows.size
        self._writer.submit(command, ticket)

    async def _keep_sweeping(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self.sweep()

    def sweep(self) -> None:
        """Let what is due expire, in steps."""
        if self._writer is None or self._writer.failed is not None or self.draining or self._sweeping:
            return
        if self.has_room(STEP_ROWS, STEP_BYTES):
            self._sweeping = True
            self._writer.submit(Sweep(self.clock()), None)

    async def wait_for_room(self, rows: int, size: int) -> None:
        """Wait until a stream may queue its next rows."""
        while not self.has_room(rows, size):
            await asyncio.sleep(0.005)

    async def submit(self, command: Command) -> Outcome:
        """Have the journal carry out a command; raises NotReady, JournalUnavailable."""
        if self._writer is None:
            raise self.not_ready()
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._writer.submit(command, future)
        return await future

    def _committed(self, group: Sequence[tuple[Any, Outcome]], refusal: BaseException | None) -> None:
        """Called on the loop with the outcomes of one transaction."""
        touched: dict[int, Model] = {}
        for token, outcome in group:
            if isinstance(token, asyncio.Future):
                if not token.done():
                    if refusal is not None:
                        token.set_exception(self.journal_error())
                    else:
                        token.set_result(outcome)
            elif token is None:
                self._sweeping = False
                if isinstance(outcome, Swept):
                    self._take_swept(outcome, touched)
            elif isinstance(token, Freed):
                if refusal is None:  # else the next start frees them: no snapshot holds their events
                    assert isinstance(outcome, int)
                    token.model.released(token.seqs, outcome)
            else:
                assert isinstance(token, Ticket)
                if refusal is not None:
                    self._return(token, self.journal_error())
                else:
                    assert isinstance(outcome, Appended | Kept)
                    self._take(token, outcome)
                    touched[token.model.number] = token.model
        for model in touched.values():
            if not model.applying:
                self._apply(model)

    def _return(self, ticket: Ticket, error: AucstreamError) -> None:
        """Tell a request that nothing will come of it."""
        self._release(len(ticket.rows), ticket.rows.size)
        ticket.model.queued -= 1
        if not ticket.future.done():
            ticket.future.set_exception(error)

    def _take(self, ticket: Ticket, outcome: Appended | Kept) -> None:
        """Queue what a transaction decided about a request for being applied, or answer at once."""
        model = ticket.model
        for settled in outcome.expired if isinstance(outcome, Appended) else outcome.settled:
            self._take_settled(model, settled)
        model.pending = outcome.pending
        if model.fault is not None:
            self._return(ticket, ModelFaulted("model", "a model without a fault", model.name))
            return
        model.note(outcome)
        waiting: Waiting | None = None
        if isinstance(outcome, Appended):
            assert isinstance(ticket.rows, Rows)
            if outcome.taken is None or outcome.taken:
                waiting = waiting_of(ticket.rows, outcome, ticket.at, ticket.future)
        self._release(len(ticket.rows), ticket.rows.size)
        if waiting is not None:
            self._queue(model, waiting)
            return
        if isinstance(outcome, Appended):
            model.repeat(outcome, ticket.future)
        else:
            model.queued -= 1
            if not ticket.future.done():
                ticket.future.set_result(outcome)
        model.settle_kind()

    def _take_settled(self, model: Model, settled: Settled) -> None:
        model.note(settled)
        if model.fault is None:
            model.queued += 1
            self._queue(model, waiting_settled(settled))

    def _take_swept(self, swept: Swept, touched: dict[int, Model]) -> None:
        models = {model.number: model for model in self.models.values()} if swept.settled else {}
        for number, events, pending in swept.settled:
            model = models.get(number)
            if model is None:  # deleted meanwhile
                continue
            for settled in events:
                self._take_settled(model, settled)
            model.pending = pending
            touched[number] = model
        if swept.more:
            self.sweep()

    def _queue(self, model: Model, waiting: Waiting) -> None:
        self.waiting_rows += len(waiting)
        self.waiting_bytes += waiting.size
        model.waiting.append(waiting)

    def _release(self, rows: int, size: int) -> None:
        self.waiting_rows -= rows
        self.waiting_bytes -= size

    def _apply(self, model: Model) -> None:
        """Apply for a moment; what is left goes on in a task."""
        self._apply_for(model, SLICE_SECONDS)
        if model.waiting:
            model.applying = True
            self._spawn(self._apply_rest(model))

    async def _apply_rest(self, model: Model) -> None:
        try:
            while model.waiting:
                await asyncio.sleep(0)
                self._apply_for(model, SLICE_SECONDS)
        finally:
            model.applying = False

    def _free(self, model: Model) -> None:
        """Have the journal forget the ids of rows that were skipped.

        Before anyone is told that a row was skipped this is in the writer's queue: who sends it again comes later.
        """
        freed = model.take_freed()
        if freed and self._writer is not None:
            self._writer.submit(Release(model.number, freed), Freed(model, [seq for _, seq in freed]))

    def _apply_for(self, model: Model, seconds: float) -> None:
        until = time.perf_counter() + seconds
        while model.waiting:
            try:
                rows, freed = model.apply_some(until)
            except Exception as error:  # a fault of one model must not stop the others
                reason = f"{type(error).__name__} while applying seq {model.seq + 1}"
                log.critical("model %s: %s; it is set aside, the others serve", model.name, reason, exc_info=True)
                self._release(
                    sum(len(waiting) - len(waiting.scores) for waiting in model.waiting),
                    sum(waiting.size for waiting in model.waiting),
                )
                model.set_aside(reason)
                return
            self._release(rows, freed)
            self._free(model)
            if time.perf_counter() > until:
                break
        if model.seq - model.snapshot_tried >= self.settings.snapshot_every_rows:
            self._snapshot_soon(model)

    # ---- snapshots ---------------------------------------------------------------------------

    def _snapshot_soon(self, model: Model) -> None:
        if model.number in self._snapshotting or self.draining or self.journal_failed or model.dropped:
            return
        self._snapshotting.add(model.number)
        self._spawn(self._snapshot_in_background(model))

    async def _snapshot_in_background(self, model: Model) -> None:
        try:
            await self.snapshot(model)
        finally:
            self._snapshotting.discard(model.number)

    async def snapshot(self, model: Model) -> None:
        """Write a snapshot of a model and prune its events; what fails is logged and counted."""
        async with self._snapshots:
            if model.dropped:
                return
            seq = model.snapshot_tried = model.seq  # where it fails: again after as many rows, not at every row
            state = model.state()
            try:
                if model.skipped:  # a start from this snapshot sees their events no more: first they must be free
                    await self.submit(Release(model.number, ()))
                prune = await asyncio.to_thread(self._write, model.number, seq, state)
            except (OSError, JournalUnavailable) as error:
                log.error("model %s: no snapshot at seq %d: %s", model.name, seq, error)
                model.snapshot_failures += 1
                return
            model.snapshot_seq = seq
            model.snapshot_at = time.time()
            if model.dropped:
                await asyncio.to_thread(self.archive.remove, model.number)
            elif prune is not None and not self.journal_failed:
                try:
                    await self.submit(Prune(model.number, prune))
                except JournalUnavailable:
                    log.error("model %s: the journal could not be pruned", model.name)

    def _write(self, number: int, seq: int, state: tuple[Any, Any]) -> int | None:
        return self.archive.write(number, seq, packed(state))

    async def snapshot_bytes(self, model: Model) -> bytes:
        """Return a snapshot of a model for a download."""
        return await asyncio.to_thread(packed, model.state())

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.critical("background task failed", exc_info=task.exception())
