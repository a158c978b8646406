"""The model host: journal first, then apply in order of seq, then acknowledge.

Everything here runs on the event loop, but for the writer's thread, and for threads that compile kernels and write
snapshots, and those of `workers.py`. Rows are applied in slices; between slices the loop answers predictions, so a
prediction never waits long and never sees half a step. A slice that may take long is learned in a thread: then
predictions of this model wait for its end, and all other models go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import secrets
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from aucstream.errors import AucstreamError, BadSnapshot
from aucstream.pipeline import RowKind
from aucstream_service.errors.exceptions import (
    BodyTooLarge,
    ModelFaulted,
    ModelNotFound,
    NameTaken,
    QueueFull,
    SnapshotNotFound,
    SpecConflict,
    TooManyModels,
)
from aucstream_service.errors.refusal_text import quoted
from aucstream_service.http.preconditions import ANY, Preconditions
from aucstream_service.journal import commands
from aucstream_service.journal.row_batch import Predictions, RowBatch
from aucstream_service.journal.writer import Writer
from aucstream_service.models.changes import patched, rollback_payload, spec_payload
from aucstream_service.models.expiry import Expiry
from aucstream_service.models.model import Model, packed, spec_in, unpacked
from aucstream_service.models.queued import (
    Applied,
    Change,
    Learned,
    QueuedRows,
    queued_change,
    queued_derived,
    queued_request,
)
from aucstream_service.models.recovery import Recovery
from aucstream_service.models.registry import ModelRegistry
from aucstream_service.models.retention import Retention
from aucstream_service.models.snapshots import State
from aucstream_service.models.snapshotter import Snapshotter
from aucstream_service.models.spec import ModelSpec, first_difference, stored_spec
from aucstream_service.models.warming import Warming, check_params
from aucstream_service.models.workers import Workers
from aucstream_service.settings import Settings
from aucstream_service.storage.directory import DataDirectory
from aucstream_service.telemetry.histogram import Histogram
from aucstream_service.telemetry.loop_lag import LoopLag

log = logging.getLogger("aucstream")

SLICE_SECONDS = 0.002  # rows are applied for about this long before the loop looks elsewhere


@dataclass(frozen=True, slots=True)
class ReleasedIds:
    """Ids on their way out of the journal."""

    model: Model
    ids: list[tuple[str, int]]


@dataclass(slots=True)
class Ticket:
    """A request's rows at the journal."""

    model: Model
    rows: RowBatch | Predictions
    received_at: float
    future: asyncio.Future[Any]


@dataclass(slots=True)
class ChangeTicket:
    """A change of a model at the journal."""

    model: Model
    command: commands.Change
    change: Change
    future: asyncio.Future[Applied]  # done when it is applied


class ModelHost(ModelRegistry):
    """Owns the data directory and all models, and the order in which rows are applied."""

    def __init__(
        self, settings: Settings, directory: DataDirectory | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__(settings, directory, clock)
        self.hurried = False  # the process was asked to stop twice
        self.stop_by = math.inf  # of the monotonic clock: no snapshot begins later
        self.commits = Histogram()
        self.waiting_rows = 0
        self.waiting_bytes = 0
        self.uploading = asyncio.Lock()  # one snapshot in memory at a time
        self.warming = Warming()
        self.snapshotter = Snapshotter(self, self._spawn, self._state_of)
        self.retention = Retention(self, self.snapshotter)
        self.expiry = Expiry(self, self.has_room)
        self.workers = Workers()
        self.lag = LoopLag()
        self._changing = asyncio.Lock()  # one model is created, replaced or deleted at a time
        self._timers: list[asyncio.Task[None]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._unreleased: list[ReleasedIds] = []  # which the journal could not take

    # ---- start and stop --------------------------------------------------------------------------

    def acquire(self) -> None:
        """Become the owner of the data directory, or raise StartRefused."""
        self.directory.acquire()

    async def recover(self) -> None:
        """Load all models; then the host is ready."""
        started = time.monotonic()
        self.lag.start()
        await Recovery(self, self.warming).run()
        loop = asyncio.get_running_loop()
        self.writer = Writer(self.journal, loop, self._committed, self.commits, self._recovered)
        self.writer.start()
        self._timers.append(loop.create_task(self.expiry.run()))
        if self.settings.retain_seconds is not None:
            self._timers.append(loop.create_task(self.retention.run(self.settings.retain_seconds)))
        self.ready = True
        log.info(
            "ready: %d models, %d rows replayed, %.1f s, durability %s",
            len(self.models),
            self.replayed,
            time.monotonic() - started,
            self.settings.durability,
        )

    async def stop(self) -> None:
        """Apply what is queued, snapshot every model, close the journal, give the directory up.

        After `stop_by`, or when `hurried`, what is left undone is what the next start replays.
        """
        self.draining = True
        self.lag.stop()
        for timer in self._timers:
            timer.cancel()
        writer = self.writer
        if writer is None:
            self.journal.close()
        else:
            while writer.failed is None and self._has_work and not self._is_late:
                await asyncio.sleep(0.005)
            while self.snapshotter.busy and not self._is_late:
                await asyncio.sleep(0.005)
            behind = [m for m in self.models.values() if m.fault is None and m.seq > max(m.snapshot_seq, 0)]
            while behind and not self._is_late:
                await self.snapshotter.write(behind.pop())
            if behind:
                log.warning("stop: no time for the snapshots of %d models: the next start replays", len(behind))
            for task in list(self._tasks):
                if self._is_late:
                    task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            await writer.stop()
            self.writer = None
        self.ready = False
        self.workers.stop()
        self.directory.release()

    @property
    def _has_work(self) -> bool:
        return self.expiry.sweeping or any(model.queued for model in self.models.values())

    @property
    def _is_late(self) -> bool:
        # without a journal the snapshots are all there is: they get the time they need
        timed = self.settings.durability != "memory" and time.monotonic() > self.stop_by
        return self.hurried or timed

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.critical("background task failed", exc_info=task.exception())

    # ---- models ------------------------------------------------------------------------------

    async def create(self, name: str, spec: ModelSpec, expected: Preconditions = ANY) -> tuple[Model, bool]:
        """Create a model, or return the one that is there with the same spec.

        Raises
        ------
        SpecConflict, PreconditionFailed
        """
        self.require_running()
        canonical = spec.canonical()
        async with self._changing:
            model = self._checked(name, expected)
            if model is not None:
                if model.canonical != canonical and canonical not in model.stored.sent:
                    check_params(spec)
                    pointer, ours, theirs = first_difference(canonical, model.canonical)
                    before = f"{quoted(theirs)}, as model {name!r} was created with (delete it to change it)"
                    raise SpecConflict("spec", before, ours, path=pointer, pointer=pointer)
                return model, False
            check_params(spec)
            self._check_room()
            await self.warming.warm_up(spec)
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
        canonical = spec.canonical()
        async with self._changing:
            old = self._checked(name, expected)
            if old is None:
                self._check_room()
            await self.warming.warm_up(spec)
            trial = Model(commands.ModelRecord(0, name, canonical, 0.0, 0, 0))
            await asyncio.to_thread(trial.restore, arrays, meta)
            if old is None:
                return await self._register(name, canonical, (arrays, meta), data), True
            with _dropped(old):
                model = await self._register(name, canonical, (arrays, meta), data, old.number)
            await asyncio.to_thread(self.archive.remove, old.number)
            return model, False

    def _checked(self, name: str, expected: Preconditions) -> Model | None:
        """Return the model of a name, or raise ModelFaulted, PreconditionFailed."""
        self.require_recovered(name)
        model = self.models.get(name)
        expected.check(None if model is None else model.etag)
        return model

    def _check_room(self) -> None:
        if len(self.models) + len(self.set_aside) >= self.settings.max_models:
            raise TooManyModels("models", f"at most {self.settings.max_models} models (--max-models)")

    async def _register(
        self,
        name: str,
        canonical: str,
        state: tuple[Any, Any] | None = None,
        base: bytes | None = None,
        replaces: int | None = None,
    ) -> Model:
        now, seed = self.clock(), secrets.randbits(31)
        seq = 0 if state is None else int(state[1]["seq"])
        stored = stored_spec(canonical)
        model = Model(commands.ModelRecord(0, name, stored, now, seq, seed))
        number = await self.submit(
            commands.CreateModel(name, stored, now, seed, base, seq, replaces, model.spec.pending)
        )
        assert isinstance(number, int)
        model.number = number
        if state is not None:
            await asyncio.to_thread(model.restore, *state)
        self.models[name] = model
        return model

    async def delete(self, name: str, expected: Preconditions = ANY) -> None:
        """Forget a model and everything it learned, or raise PreconditionFailed."""
        self.require_running()
        async with self._changing:
            aside = self.set_aside.get(name)
            if aside is not None:
                number = aside.number
                await self.submit(commands.DropModel(number))
                del self.set_aside[name]
            else:
                model = self.models.get(name)
                if model is None:
                    raise ModelNotFound(name, self.models)
                expected.check(model.etag)
                number = model.number
                with _dropped(model):
                    await self.submit(commands.DropModel(number))
                del self.models[name]
        await asyncio.to_thread(self.archive.remove, number)

    # ---- changes of a model that serves ----------------------------------------------------------

    async def patch(self, name: str, body: bytes, expected: Preconditions = ANY) -> Model:
        """Go on with the spec that a merge patch makes of a model's.

        Raises
        ------
        InvalidBody, InvalidParams, FixedSetting, PreconditionFailed
        """

        async def patch() -> Model:
            model = self._served(name, expected)
            await model.free()
            spec = patched(body, model.stored, model.pipeline, self.settings)
            if spec.canonical() != model.canonical:
                await asyncio.to_thread(check_params, spec)
                self._still_served(model)
                command = commands.Change(
                    model.number, commands.Kind.SPEC, spec_payload(spec), self.clock(), pending=spec.pending
                )
                await self._change(model, command)
            return model

        return await self._alone(patch)

    async def reset_evaluation(self, name: str, expected: Preconditions = ANY) -> Model:
        """Begin the evaluation of a model anew, or raise PreconditionFailed."""

        async def reset() -> Model:
            model = self._served(name, expected)
            await self._change(model, commands.Change(model.number, commands.Kind.EVALUATION, b"{}", self.clock()))
            return model

        return await self._alone(reset)

    async def rename(self, name: str, to: str, expected: Preconditions = ANY) -> Model:
        """Give a model another name, or raise NameTaken, PreconditionFailed."""

        async def rename() -> Model:
            model = self._served(name, expected)
            if to in self.models or to in self.set_aside:
                raise NameTaken("to", "a name that no model has", to, pointer="/to")
            payload = b'{"from":"%s","to":"%s"}' % (name.encode(), to.encode())  # a name needs no escape
            command = commands.Change(model.number, commands.Kind.NAME, payload, self.clock(), name=to)
            await self._change(model, command)
            return model

        return await self._alone(rename)

    async def rollback(self, name: str, seq: int, expected: Preconditions = ANY) -> tuple[Model, Applied]:
        """Bring a model back to one of its snapshots; return it, and what that did.

        The state before is written as a snapshot first, so that this can be undone as well.

        Raises
        ------
        SnapshotNotFound, BadSnapshot, PreconditionFailed
        """
        applied = Applied(0, 0, 0)

        async def rollback() -> Model:
            nonlocal applied
            model = self._served(name, expected)
            try:
                data = await asyncio.to_thread(self.archive.data, model.number, seq)
            except OSError:
                kept = ", ".join(map(str, self.archive.seqs(model.number))) or "it has none yet"
                raise SnapshotNotFound("snapshot", f"one of this model's ({kept})", seq, pointer="/snapshot") from None
            if len(data) > self.settings.max_snapshot_bytes:
                most = f"at most {self.settings.max_snapshot_bytes} bytes (--max-snapshot-bytes)"
                raise BodyTooLarge("snapshot", most, len(data))
            past = await asyncio.to_thread(model.at_snapshot, data)
            if model.seq > model.snapshot_seq:
                await self.snapshotter.write(model)
            payload = rollback_payload(seq, data)
            command = commands.Change(model.number, commands.Kind.ROLLBACK, payload, self.clock())
            applied = await self._change(self._still_served(model), command, past)
            return model

        return await self._alone(rollback), applied

    def _still_served(self, model: Model) -> Model:
        """Return a model after a while in which it was not looked at, or raise ModelFaulted."""
        self.require_running()
        if model.fault is not None:
            raise _faulted(model)
        return model

    def _served(self, name: str, expected: Preconditions) -> Model:
        """Return a model that serves, or raise; PreconditionFailed where it is not as expected."""
        self.require_running()
        model = self.model(name)
        expected.check(model.etag)
        return model

    async def _alone(self, work: Callable[[], Coroutine[Any, Any, Model]]) -> Model:
        """Do a change while no other is under way; it goes on where the client leaves."""

        async def alone() -> Model:
            async with self._changing:
                return await work()

        return await asyncio.shield(asyncio.get_running_loop().create_task(alone()))

    async def _change(self, model: Model, command: commands.Change, state: Model | None = None) -> Applied:
        """Have the journal write a change, and wait until it is applied; return what it did."""
        if self.writer is None:
            raise self.not_ready()
        future: asyncio.Future[Applied] = asyncio.get_running_loop().create_future()
        model.queued += 1
        change = Change(command.kind, command.payload, state)
        self.writer.submit(command, ChangeTicket(model, command, change, future))
        return await future

    def _accept_change(self, ticket: ChangeTicket, event: commands.DerivedEvent) -> None:
        model, name = ticket.model, ticket.command.name
        if name is not None:
            del self.models[model.name]
            model.name = name
            self.models[name] = model
        if model.fault is not None:
            model.queued -= 1
            ticket.future.set_exception(_faulted(model))
            return
        self._queue(model, queued_change(event, ticket.change, ticket.future))

    async def snapshot_bytes(self, model: Model) -> tuple[int, bytes]:
        """Return the seq of a model, and its snapshot, for a download."""
        seq, state = await self._state_of(model)
        return seq, await asyncio.to_thread(packed, state)

    async def _state_of(self, model: Model) -> tuple[int, State]:
        """Return the seq of a model, and a copy of its state at that seq."""
        return await self.workers.run(model, lambda: (model.seq, model.state()))

    # ---- rows to the journal ---------------------------------------------------------------------

    @property
    def unwritten_rows(self) -> int:
        """Rows that were handed to the journal and are not in it yet."""
        applying = sum(len(each) - len(each.scores) for model in self.models.values() for each in model.waiting)
        return self.waiting_rows - applying

    def has_room(self, rows: int, size: int) -> bool:
        """Return whether rows may be queued (a request always may when nothing else waits)."""
        if self.waiting_rows == 0:
            return True
        return (
            self.waiting_rows + rows <= self.settings.max_queue_rows
            and self.waiting_bytes + size <= self.settings.max_queue_bytes
        )

    async def wait_for_room(self, rows: int, size: int) -> None:
        """Wait until a stream may queue its next rows."""
        while not self.has_room(rows, size):
            await asyncio.sleep(0.005)

    def learn(
        self,
        model: Model,
        rows: RowBatch,
        kind: RowKind | None,
        mode: commands.Mode,
        event: commands.Kind = commands.Kind.LEARN,
    ) -> asyncio.Future[Learned]:
        """Queue checked rows, or labels (Kind.LABEL); the future is done when they are durable and applied.

        Raises
        ------
        QueueFull, JournalUnavailable, NotReady, ModelNotFound, InvalidBlock
        """
        now = self.clock()
        return self._send(model, kind, rows, now, commands.Append(model.number, event, rows, mode, now))

    def keep(
        self, model: Model, rows: Predictions, kind: RowKind | None, mode: commands.Mode
    ) -> asyncio.Future[commands.KeepOutcome]:
        """Queue predictions that wait for their labels; the future is done when they are durable.

        Raises
        ------
        QueueFull, JournalUnavailable, NotReady, ModelNotFound, InvalidBlock
        """
        now = self.clock()
        return self._send(model, kind, rows, now, commands.Keep(model.number, rows, mode, now))

    def _send(
        self,
        model: Model,
        kind: RowKind | None,
        rows: RowBatch | Predictions,
        now: float,
        command: commands.Command,
    ) -> asyncio.Future[Any]:
        if self.writer is None:
            raise self.not_ready()
        if self.writer.failed is not None:
            raise self.journal_error()
        if model.dropped:
            raise ModelNotFound(model.name, [name for name in self.models if name != model.name])
        if model.fault is not None:
            raise _faulted(model)
        if not self.has_room(len(rows), rows.size):
            raise QueueFull(
                "queue",
                f"at most {self.settings.max_queue_rows} rows or {self.settings.max_queue_bytes} bytes waiting",
            )
        if model.kind is not kind and model.kind != kind:
            if model.kind is not None:
                model.pipeline.engine.check_rows(rows.sample, model.kind)
            model.kind = kind
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        model.queued += 1
        self._count_waiting(len(rows), rows.size)
        self.writer.submit(command, Ticket(model, rows, now, future))
        return future

    def _count_waiting(self, rows: int, size: int) -> None:
        self.waiting_rows += rows
        self.waiting_bytes += size

    # ---- outcomes of the journal -----------------------------------------------------------------

    def _committed(self, group: Sequence[tuple[Any, commands.Outcome]], failed: bool) -> None:
        """Accept the outcomes of one transaction; runs on the loop."""
        models: dict[int, Model] = {}  # that have rows to apply
        for token, outcome in group:
            if isinstance(token, Ticket):
                if failed:
                    self._refuse(token, self.journal_error())
                else:
                    assert isinstance(outcome, commands.AppendOutcome | commands.KeepOutcome)
                    self._accept(token, outcome)
                    models[token.model.number] = token.model
            elif isinstance(token, ChangeTicket):
                if failed:
                    token.model.queued -= 1
                    token.future.set_exception(self.journal_error())
                else:
                    assert isinstance(outcome, commands.DerivedEvent)
                    self._accept_change(token, outcome)
                    models[token.model.number] = token.model
            elif isinstance(token, asyncio.Future):
                if token.done():
                    continue
                if failed:
                    token.set_exception(self.journal_error())
                else:
                    token.set_result(outcome)
            elif isinstance(token, ReleasedIds):
                if failed:  # a start before then frees them as well: no snapshot holds their events
                    self._unreleased.append(token)
                else:
                    assert isinstance(outcome, int)
                    token.model.release([seq for _, seq in token.ids], outcome)
            else:
                self.expiry.sweeping = False
                if isinstance(outcome, commands.SweepOutcome):
                    self._accept_sweep(outcome, models)
        for model in models.values():
            if not model.applying:
                self._apply(model)

    def _recovered(self) -> None:
        """Go on when the journal can be written again; runs on the loop."""
        unreleased, self._unreleased = self._unreleased, []
        for token in unreleased:
            if self.writer is not None and not token.model.dropped:
                self.writer.submit(commands.Release(token.model.number, token.ids), token)

    def _refuse(self, ticket: Ticket, error: AucstreamError) -> None:
        """Answer a request of which nothing will come."""
        self._count_waiting(-len(ticket.rows), -ticket.rows.size)
        ticket.model.queued -= 1
        if not ticket.future.done():
            ticket.future.set_exception(error)

    def _accept(self, ticket: Ticket, outcome: commands.AppendOutcome | commands.KeepOutcome) -> None:
        """Queue the rows of a request for being applied, or answer at once."""
        model = ticket.model
        for event in outcome.expired if isinstance(outcome, commands.AppendOutcome) else outcome.derived:
            self._accept_derived(model, event)
        model.pending = outcome.pending
        if model.fault is not None:
            self._refuse(ticket, _faulted(model))
            return
        model.note(outcome)
        self._count_waiting(-len(ticket.rows), -ticket.rows.size)
        if isinstance(outcome, commands.AppendOutcome):
            if outcome.rows is None or outcome.rows:
                assert isinstance(ticket.rows, RowBatch)
                self._queue(model, queued_request(ticket.rows, outcome, ticket.received_at, ticket.future))
            else:
                model.repeat(outcome, ticket.future)
            for event in outcome.dropped:
                self._accept_derived(model, event)
        else:
            model.queued -= 1
            if not ticket.future.done():
                ticket.future.set_result(outcome)
        model.settle_kind()

    def _accept_derived(self, model: Model, event: commands.DerivedEvent) -> None:
        model.note(event)
        if model.fault is None:
            model.queued += 1
            self._queue(model, queued_derived(event))

    def _accept_sweep(self, outcome: commands.SweepOutcome, changed: dict[int, Model]) -> None:
        models = {model.number: model for model in self.models.values()} if outcome.expired else {}
        for number, events, pending in outcome.expired:
            model = models.get(number)
            if model is None:  # deleted meanwhile
                continue
            for event in events:
                self._accept_derived(model, event)
            model.pending = pending
            changed[number] = model
        if outcome.more:
            self.expiry.sweep()

    def _queue(self, model: Model, queued: QueuedRows) -> None:
        self._count_waiting(len(queued), queued.rows.size)
        model.waiting.append(queued)

    # ---- applying --------------------------------------------------------------------------------

    def _apply(self, model: Model) -> None:
        """Apply for a moment; what is left goes on in a task."""
        if not model.away:
            self._apply_for(model, SLICE_SECONDS)
        if model.waiting:
            model.applying = True
            self._spawn(self._apply_rest(model))

    async def _apply_rest(self, model: Model) -> None:
        try:
            while model.waiting:
                await asyncio.sleep(0)  # who has waited for the model comes first
                await model.free()
                self._apply_for(model, SLICE_SECONDS)
                if model.waiting and model.is_slow:
                    await self._apply_apart(model)
        finally:
            model.applying = False

    def _apply_for(self, model: Model, seconds: float) -> None:
        until = time.perf_counter() + seconds
        while model.waiting and not model.is_slow:
            try:
                applied = model.apply_some(until)
            except Exception as error:  # a fault of one model must not stop the others
                self._set_aside(model, error)
                return
            self._count_applied(model, *applied)
            if time.perf_counter() > until:
                break
        self.snapshotter.write_when_due(model)

    async def _apply_apart(self, model: Model) -> None:
        """Apply a slice that would hold the loop too long."""
        try:
            applied = await self.workers.apply(model)
        except Exception as error:
            self._set_aside(model, error)
            return
        self._count_applied(model, *applied)
        self.snapshotter.write_when_due(model)

    def _count_applied(self, model: Model, rows: int, size: int) -> None:
        self._count_waiting(-rows, -size)
        self._release(model)

    def _set_aside(self, model: Model, error: Exception) -> None:
        reason = f"{type(error).__name__} while applying seq {model.seq + 1}"
        log.critical("model %s: %s; it is set aside, the others serve", model.name, reason, exc_info=error)
        for queued in model.waiting:
            self._count_waiting(len(queued.scores) - len(queued), -queued.rows.size)
        model.set_aside(reason)

    def _release(self, model: Model) -> None:
        """Have the journal forget the ids of rows that were skipped.

        Before anyone is answered that a row was skipped this is in the writer's queue: who sends it again comes later.
        """
        ids = model.pop_skipped_ids()
        if ids and self.writer is not None:
            self.writer.submit(commands.Release(model.number, ids), ReleasedIds(model, ids))


@contextlib.contextmanager
def _dropped(model: Model) -> Iterator[None]:
    """Refuse rows of a model while it is being removed; where that fails it goes on."""
    model.dropped = True
    try:
        yield
    except BaseException:
        model.dropped = False
        raise


def _faulted(model: Model) -> ModelFaulted:
    return ModelFaulted("model", "a model without a fault", model.name)
