"""From files to models that serve: the newest readable snapshot, then the journal's events after it."""

from __future__ import annotations

import logging
from collections.abc import Generator
from dataclasses import dataclass

from aucstream import __version__
from aucstream.errors import BadSnapshot
from aucstream_service.bodies.bodies import features_of
from aucstream_service.errors.exceptions import JournalGap, UnknownEvent
from aucstream_service.journal.commands import Kind, ModelRecord
from aucstream_service.journal.journal import Journal
from aucstream_service.models.counts import Counts
from aucstream_service.models.model import Model, unpacked
from aucstream_service.models.snapshots import Archive

log = logging.getLogger("aucstream")

KINDS = frozenset(Kind)


@dataclass(frozen=True, slots=True)
class SetAside:
    """A model that could not be recovered; its files are left as they are."""

    number: int
    name: str
    reason: str


def rows_to_replay(journal: Journal, archive: Archive, record: ModelRecord) -> int:
    """Return how many rows lie between a model's newest snapshot and the end of the journal."""
    snapshots = archive.seqs(record.model)
    known = snapshots[-1] if snapshots else record.base_seq
    return max(0, journal.last_seq(record.model) - known)


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
                raise BadSnapshot("snapshot", "a snapshot of this model", "one of another model")
            model.restore(arrays, meta)
        except BadSnapshot as error:
            archive.set_aside(record.model, seq, error)
            continue
        model.snapshot_seq = model.snapshot_tried = seq
        model.snapshot_at = archive.written_at(record.model, seq)
        _tell_lost(journal, model, record)
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
            *(model.name, model.versions[-1], __version__),
        )
    yield from _replay(journal, model)
    if model.seq < record.pruned_seq:
        raise JournalGap(
            f"events {model.seq + 1} to {record.pruned_seq}, which a snapshot held: "
            f"restore a readable snapshot in {archive.of(record.model)}"
        )
    model.counts = Counts()  # what was replayed was counted when it came
    for _ in journal.starting(model.number, model.seq, model.spec.pending, model.take_freed()):
        yield 0, model.seq
    model.skipped.clear()
    model.pending = journal.ids.waiting[model.number]
    waiting = journal.ids.first_features(model.number) if model.kind is None else None
    if waiting is not None:  # the form of the rows is settled by what waits, too
        model.kind = model.pipeline.check_rows([features_of(waiting)], None)
    return model


def _tell_lost(journal: Journal, model: Model, record: ModelRecord) -> None:
    """Tell when the journal ends before a snapshot although each commit was flushed before it was used."""
    last = max(journal.last_seq(record.model), record.pruned_seq, record.base_seq)
    if last < model.seq and journal.flushed_before:
        log.error(
            "model %s: the journal ends at seq %d, its snapshot at %d: the journal is older or lost its end; "
            "the model goes on from the snapshot, ids and waiting predictions after seq %d are lost",
            *(model.name, last, model.seq, last),
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
