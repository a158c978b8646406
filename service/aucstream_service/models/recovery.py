"""From files to models that serve: the newest readable snapshot, then the journal's events after it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Generator

import apsw

from aucstream import __version__
from aucstream.errors import AucstreamError, BadSnapshot, Description, InvalidBlock
from aucstream_service.errors.exceptions import JournalGap, StartRefused, UnknownEvent, Unrecoverable
from aucstream_service.errors.problems import log_text
from aucstream_service.journal.commands import Kind, ModelRecord
from aucstream_service.journal.event_codec import features_of
from aucstream_service.journal.integrity import unreadable
from aucstream_service.journal.journal import Journal
from aucstream_service.models.counts import Counts
from aucstream_service.models.model import Model, unpacked
from aucstream_service.models.registry import ModelRegistry, SetAside
from aucstream_service.models.snapshots import Archive
from aucstream_service.models.spec import read_stored
from aucstream_service.models.warming import Warming

log = logging.getLogger("aucstream")

KINDS = frozenset(Kind)
PROGRESS_SECONDS = 2.0  # between two lines of the log during a long replay
YIELD_SECONDS = 0.02  # during replay, so that /livez and /readyz are answered


class Recovery:
    """The start of a registry: loads every model, and sets aside those that cannot be recovered."""

    def __init__(self, registry: ModelRegistry, warming: Warming) -> None:
        self._registry = registry
        self._warming = warming

    async def run(self) -> None:
        """Open the journal, load snapshots, replay the events after them, warm the kernels.

        Raises
        ------
        StartRefused
        """
        registry = self._registry
        directory, journal, archive = registry.directory, registry.journal, registry.archive
        exists = directory.journal.exists()
        if not exists and any(directory.snapshots.iterdir()):
            raise StartRefused(
                f"a journal beside the snapshots in {directory.path}, found none: "
                "restore journal.sqlite3, or make a new directory of the snapshots (`aucstream fsck --salvage`), "
                "or move them away to start empty"
            )
        log.info("data directory %s: %s", directory.path, "journal found" if exists else "empty, starting new")
        await asyncio.to_thread(journal.open)
        records = journal.models()
        if journal.failure is None:  # else what the log says is not safe from a loss of power: the next start tidies up
            archive.remove_others({record.model for record in records})
        registry.to_replay = sum(rows_to_replay(journal, archive, record) for record in records)
        registry.to_load = len(records)
        for record in records:
            try:  # warm first, or it would compile on the loop
                await self._warming.warm_up(read_stored(record.spec).spec)
                registry.models[record.name] = await self._load(record)
            except apsw.Error as error:
                raise unreadable(directory.journal, error) from error
            except Exception as error:  # one bad file must not stop the others
                self._set_aside(record, error)

    async def _load(self, record: ModelRecord) -> Model:
        registry = self._registry
        reported = paused = time.monotonic()
        steps = load(registry.journal, registry.archive, record)
        while True:
            try:
                rows, seq = next(steps)
            except StopIteration as end:
                model: Model = end.value
                log.info("model %s: %d examples, seq %d", model.name, model.pipeline.examples, model.seq)
                return model
            registry.replayed += rows
            now = time.monotonic()
            if now - reported > PROGRESS_SECONDS:
                reported = now
                progress = (record.name, seq, registry.replayed, registry.to_replay)
                log.info("model %s: replayed to seq %d (%d of %d rows)", *progress)
            if now - paused > YIELD_SECONDS:
                await asyncio.sleep(0)
                paused = time.monotonic()

    def _set_aside(self, record: ModelRecord, error: Exception) -> None:
        """Go on without a model that cannot be recovered; its files are left as they are."""
        reason = f"expected {error.expected}" if isinstance(error, Unrecoverable) else log_text(error)
        log.critical(
            "model %s (number %d) is set aside, the others serve: %s. `aucstream fsck %s` tells more",
            record.name,
            record.model,
            reason,
            self._registry.directory.path,
            exc_info=None if isinstance(error, AucstreamError) else error,
        )
        self._registry.set_aside[record.name] = SetAside(record.model, record.name, reason)


def rows_to_replay(journal: Journal, archive: Archive, record: ModelRecord) -> int:
    """Return how many rows lie between a model's newest snapshot and the end of the journal."""
    snapshots = archive.seqs(record.model)
    newest = snapshots[-1] if snapshots else record.base_seq
    return max(0, journal.last_seq(record.model) - newest)


def load(journal: Journal, archive: Archive, record: ModelRecord) -> Generator[tuple[int, int], None, Model]:
    """Recover one model; yields (rows of the event, seq) after each event, so that others may have the loop.

    Raises
    ------
    Unrecoverable, NewerSnapshot
        This model alone.
    """
    model = Model(record)
    for seq, (arrays, meta) in archive.newest(record.model):
        try:
            if meta.get("created_at") != record.created_at:
                raise BadSnapshot("snapshot", "a snapshot of this model", Description("one of another model"))
            model.restore(arrays, meta)
        except BadSnapshot as error:
            archive.set_aside(record.model, seq, error)
            continue
        model.snapshot_seq = model.snapshot_tried = seq
        model.snapshot_at = archive.written_at(record.model, seq)
        _log_loss(journal, model, record)
        break
    else:
        base = journal.base(record.model)
        if base is not None:
            model.restore(*unpacked(base))
            model.seq = record.base_seq
        elif record.base_seq:
            raise JournalGap("the uploaded snapshot it began with, or a later one, found neither")
    if model.versions[-1:] not in ([], [__version__]):
        log.warning(
            "model %s: its snapshot is of aucstream %s, this is %s: what is replayed may differ in the last bits",
            model.name,
            model.versions[-1],
            __version__,
        )
    yield from _replay(journal, model)
    if model.seq < record.pruned_seq:
        raise JournalGap(
            f"events {model.seq + 1} to {record.pruned_seq}, which a snapshot held: "
            f"restore a readable snapshot in {archive.of(record.model)}"
        )
    model.counts = Counts()  # what was replayed was counted when it came
    for _ in journal.start_model(model.number, model.seq, model.spec.pending, model.pop_skipped_ids()):
        yield 0, model.seq
    model.skipped.clear()
    model.pending = journal.ids.pending[model.number]
    features = journal.ids.first_features(model.number) if model.kind is None else None
    if features is not None:  # a prediction that waits has a form, too
        with contextlib.suppress(InvalidBlock):  # a change of columns came since
            model.kind = model.pipeline.engine.check_rows([features_of(features)], None)
    return model


def _log_loss(journal: Journal, model: Model, record: ModelRecord) -> None:
    """Log that the journal ends before a snapshot although each commit was flushed before it was used."""
    last = max(journal.last_seq(record.model), record.pruned_seq, record.base_seq)
    if last < model.seq and journal.flushed_before:
        log.error(
            "model %s: the journal ends at seq %d, its snapshot at %d: the journal is older or lost its end; "
            "the model goes on from the snapshot, ids and waiting predictions after seq %d are lost",
            model.name,
            last,
            model.seq,
            last,
        )


def _replay(journal: Journal, model: Model) -> Generator[tuple[int, int], None, None]:
    for event in journal.events(model.number, model.seq):
        if event.seq_first > model.seq + 1:
            raise JournalGap(
                f"events {model.seq + 1} to {event.seq_first - 1}, they are neither in a readable snapshot nor in the "
                "journal: restore the missing file, or delete the model"
            )
        if event.kind not in KINDS:
            raise UnknownEvent(f"events this version knows, got kind {event.kind} at seq {event.seq_first}")
        yield model.replay(event), model.seq
