"""The power goes at a random operation: what was acknowledged is there, in order, and nothing is half there.

Journal, archive, recovery and model as the service uses them, on a disk in memory; by seed, so that each
failure can be had again. With any one flush left out, the same seeds find what it was for.
"""

from __future__ import annotations

import contextlib
import json
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw
import pytest

from aucstream_service.journal import journal as journal_module
from aucstream_service.journal.commands import (
    ROWS,
    Append,
    AppendOutcome,
    Change,
    Command,
    CreateModel,
    DropModel,
    EventRecord,
    Keep,
    KeepOutcome,
    Kind,
    Mode,
    ModelRecord,
    Outcome,
    Prune,
)
from aucstream_service.journal.event_codec import LabelledPrediction, event_line
from aucstream_service.journal.journal import Journal
from aucstream_service.journal.row_batch import Predictions, RowBatch
from aucstream_service.journal.rules import IdState
from aucstream_service.models.changes import rollback_payload, spec_payload
from aucstream_service.models.model import Model, packed
from aucstream_service.models.recovery import load
from aucstream_service.models.snapshots import Archive
from aucstream_service.models.spec import ModelSpec

from .disk import Disk, DiskFiles, DiskVFS, PowerLoss

FOLDER = Path("/data")
SPEC = ModelSpec.model_validate({"algorithm": "solam", "evaluation": {"window": 20}}).canonical()
STEPS = 22  # commits, snapshots, … in one life of the process
OPERATIONS = 420  # of the disk, within which the power goes

VFS = DiskVFS("forgetful")
CHANGED: set[Kind] = set()  # kinds of changes that were acknowledged
FAILURES: list[int] = []  # journals opened again, in each life


class Broken(Exception):
    """A promise was not kept."""


def require(fact: object, promise: str) -> None:
    if not fact:
        raise Broken(promise)


@dataclass
class Mutation:
    """One flush that is left out."""

    synchronous: str | None = None
    forgets: frozenset[str] = frozenset()
    late_flush: bool = False


NONE = Mutation()


@dataclass
class Sent:
    """What a client sent and knows."""

    created_at: float = 1.0
    created: bool = False  # acknowledged
    events: list[EventRecord] = field(default_factory=list)  # acknowledged, in order
    flying: list[EventRecord] = field(default_factory=list)  # of the commit that was not answered
    ids: dict[str, int] = field(default_factory=dict)  # acknowledged: id -> seq
    waiting: dict[str, dict[str, Any]] = field(default_factory=dict)  # acknowledged predictions
    labelling: set[str] = field(default_factory=set)  # their label is on its way
    rows: int = 0

    @property
    def seq(self) -> int:
        return self.events[-1].seq_last if self.events else 0


class Process:
    """One life of the process, from its start to the loss of power."""

    def __init__(
        self, disk: Disk, sent: Sent, chance: random.Random, mutation: Mutation, failing: random.Random | None = None
    ) -> None:
        self.disk, self.sent, self.chance = disk, sent, chance
        disk.forgets = set(mutation.forgets)
        VFS.disk = disk
        files = DiskFiles(disk, late_flush=mutation.late_flush)
        self.journal = Journal(FOLDER / "journal.sqlite3", "disk", 1000, files=files, vfs="forgetful")
        self.archive = Archive(FOLDER / "snapshots", 2, files)
        self.model: Model | None = None
        self.failures = 0
        self.changed: set[Kind] = set()
        self.failing = failing  # says when a flush fails, and the journal is opened again

    def start(self) -> None:
        files = self.archive.files
        for folder in (FOLDER, FOLDER / "snapshots"):
            if not files.exists(folder):
                files.make_folder(folder)
                files.sync_folder(folder.parent)
        self.journal.open()
        records = self.journal.models()
        self.archive.remove_others({record.model for record in records})
        for record in records:
            if record.name == "other":
                self.recovered(record)
                self.journal.commit([DropModel(record.model)])
                continue
            self.model = self.recovered(record)
        require(self.model is not None or not self.sent.created, "a model that was acknowledged is there")

    def recovered(self, record: ModelRecord) -> Model:
        steps = load(self.journal, self.archive, record)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                model: Model = end.value
                return model

    def check(self, straight: Model, *, ids: int = 12, bits: bool = False) -> None:
        """Compare what is there with what was acknowledged; `bits`: the disk may have changed some."""
        sent, model = self.sent, self.model
        damaged = [name for name in self.disk.names if name.endswith(".damaged")]
        require(bits or not damaged, "a snapshot is whole or not there")
        if model is None:
            return
        sent.created = True
        landed = [event for event in sent.flying if event.seq_last <= model.seq]
        require(model.seq >= sent.seq, "what was acknowledged is there")
        require(landed in ([], sent.flying), "a transaction is there or not")
        sent.events += landed
        sent.flying = []
        require(model.seq == sent.seq, "nothing is there that was not sent")
        for event in sent.events:
            if event.seq_last > straight.seq:
                applied(straight, event)
        if straight.seq == 0:
            straight.kind = model.kind  # which a prediction that waits has settled
        require(packed(model.state()) == packed(straight.state()), "the state is that of the events, to the last bit")
        for event in landed:
            note_ids(sent, event)
        for id_, seq in list(sent.ids.items())[-ids:]:
            known = self.journal.ids.find(model.number, id_)
            require(known is not None and known.seq == seq, "ids that were learned are known")
        for id_ in list(sent.waiting):
            known = self.journal.ids.find(model.number, id_)
            require(known is not None, "predictions that were acknowledged are known")
            if known is not None and known.state is IdState.WAITING:
                require(known.prediction is not None, "with their first answer")
                require(known.prediction[1] == sent.waiting[id_]["score"], "the same one")  # type: ignore[index]
            else:
                require(id_ in sent.ids, "or learned")
                del sent.waiting[id_]
        sent.labelling.clear()

    # ---- work --------------------------------------------------------------------------------

    def run(self, steps: int) -> None:
        if self.model is None:
            self.create()
        for _ in range(steps):
            what = self.chance.random()
            if what < 0.12:
                self.snapshot()
            elif what < 0.17:
                self.other()
            elif what < 0.23:
                self.change()
            else:
                self.commit()
            if self.failing is not None and self.failing.random() < 0.2:
                self.fail()

    def fail(self) -> None:
        """Try a commit or a checkpoint whose flush fails; nothing of an unacknowledged commit is left afterwards."""
        assert self.failing is not None
        if self.failing.random() < 0.2:
            self.journal._wal_pages = journal_module.CHECKPOINT_PAGES
            work = self.journal.checkpoint
        else:
            work = self.commit
        self.disk.sync_fails = True
        try:
            work()
        except apsw.IOError:
            self.journal.reopen()
            self.sent.flying = []
            self.sent.labelling.clear()
            self.failures += 1
        self.disk.sync_fails = False  # a checkpoint may have nothing to flush

    def change(self) -> None:
        """Another spec, with eviction or without, a new evaluation, another name, or back to a snapshot."""
        model = self.model
        assert model is not None
        kind = self.chance.choice((Kind.SPEC, Kind.EVALUATION, Kind.NAME, Kind.ROLLBACK))
        kept = self.archive.seqs(model.number)
        name, payload = None, b"{}"
        if kind is Kind.ROLLBACK and kept:
            seq = self.chance.choice(kept)
            payload = rollback_payload(seq, self.archive.data(model.number, seq))
        elif kind is Kind.NAME:
            name = self.chance.choice(("m", "n"))
            payload = json.dumps({"from": model.name, "to": name}).encode()
        elif kind is not Kind.EVALUATION:
            kind = Kind.SPEC
            columns = {"eviction": self.chance.choice(("none", "least-recent"))}
            window = self.chance.randint(10, 30)
            spec = {"algorithm": "solam", "evaluation": {"window": window}, "columns": columns}
            payload = spec_payload(ModelSpec.model_validate(spec))
        self.sent.flying.append(EventRecord(model.seq + 1, model.seq + 1, kind, payload, 7.0))
        self.journal.commit([Change(model.number, kind, payload, 7.0, name=name)])
        self.acknowledge([], [])
        self.changed.add(kind)
        self.journal.checkpoint()

    def create(self) -> None:
        number = self.journal.commit([CreateModel("m", SPEC, self.sent.created_at, 3)])[0]
        assert isinstance(number, int)
        self.model = Model(ModelRecord(number, "m", SPEC, self.sent.created_at, 0, 3))
        self.sent.created = True

    def other(self) -> None:
        """Another model comes and goes."""
        number = self.journal.commit([CreateModel("other", SPEC, 2.0, 3)])[0]
        assert isinstance(number, int)
        other = Model(ModelRecord(number, "other", SPEC, 2.0, 0, 3))
        self.archive.write(number, 0, packed(other.state()))
        self.journal.commit([DropModel(number)])
        self.archive.remove(number)
        if self.chance.random() < 0.5:
            self.journal.purge()
            self.journal.purge()

    def snapshot(self) -> None:
        assert self.model is not None
        if self.model.seq == self.model.snapshot_seq:
            return
        prune = self.archive.write(self.model.number, self.model.seq, packed(self.model.state()))
        self.model.snapshot_seq = self.model.seq
        if prune is not None:
            self.journal.commit([Prune(self.model.number, prune)])

    def commit(self) -> None:
        """Commit one to three requests and apply them when they are durable."""
        assert self.model is not None
        sent, model = self.sent, self.model
        commands: list[Command] = []
        kept: list[Predictions] = []
        seq = model.seq
        for _ in range(self.chance.choice((1, 1, 2, 3))):
            what = self.chance.random()
            free = [id_ for id_ in sent.waiting if id_ not in sent.labelling]
            if what < 0.15:
                predictions = Predictions()
                features = self.features()
                score = float(model.pipeline.engine.score_rows([features])[0])
                predictions.add(f"p{sent.rows}", features, score, None, model.seq)
                sent.rows += 1
                kept.append(predictions)
                commands.append(Keep(model.number, predictions, Mode.ALL, 5.0))
            elif what < 0.3 and free:
                id_ = free[0]
                sent.labelling.add(id_)
                row = LabelledPrediction(
                    id_, json.dumps(sent.waiting[id_]["features"]).encode(), 1.0, 1.0, sent.waiting[id_]["score"], None
                )
                commands.append(Append(model.number, Kind.LABEL, RowBatch([], [1.0], ids=[id_]), Mode.ALL, 6.0))
                sent.flying.append(EventRecord(seq + 1, seq + 1, Kind.LABEL, event_line(row), 6.0))
                seq += 1
            else:
                rows = [self.row() for _ in range(self.chance.randint(1, 4))]
                encoded = [json.dumps(row).encode() for row in rows]
                payload = b"\n".join(encoded)
                batch = RowBatch(
                    [row["features"] for row in rows],
                    [1.0 if row["label"] else -1.0 for row in rows],
                    ids=[row["id"] for row in rows],
                    lines=encoded,
                )
                commands.append(Append(model.number, Kind.LEARN, batch, Mode.ALL, 4.0))
                sent.flying.append(EventRecord(seq + 1, seq + len(rows), Kind.LEARN, payload, 4.0))
                seq += len(rows)
        outcomes = self.journal.commit(commands)
        self.acknowledge(outcomes, kept)
        self.journal.checkpoint()

    def acknowledge(self, outcomes: list[Outcome], kept: list[Predictions]) -> None:
        assert self.model is not None
        sent = self.sent
        for predictions in kept:
            for id_, data, first in zip(predictions.ids, predictions.features, predictions.firsts, strict=True):
                sent.waiting[id_] = {"features": json.loads(data), "score": first.score}
        for outcome in outcomes:
            assert isinstance(outcome, AppendOutcome | KeepOutcome)
            assert not outcome.refusals
        for event in sent.flying:
            sent.events.append(event)
            note_ids(sent, event)
            applied(self.model, event)
        for id_ in sent.labelling:
            sent.waiting.pop(id_, None)
        sent.labelling.clear()
        sent.flying = []

    def features(self) -> dict[str, Any]:
        return {"a": self.chance.gauss(0, 1), "b": self.chance.randint(0, 3), "w": self.chance.choice("xyz")}

    def row(self) -> dict[str, Any]:
        self.sent.rows += 1
        return {"features": self.features(), "label": self.chance.random() < 0.3, "id": f"r{self.sent.rows}"}


def applied(model: Model, event: EventRecord) -> None:
    """Apply an event; the name of a model stands in the registry."""
    model.replay(event)
    if event.kind == Kind.NAME:
        model.name = json.loads(event.payload)["to"]


def note_ids(sent: Sent, event: EventRecord) -> None:
    if event.kind not in ROWS:
        return
    for seq, line in enumerate(event.payload.splitlines(), event.seq_first):
        sent.ids[json.loads(line)["id"]] = seq


def live(seed: int, mutation: Mutation = NONE, *, failures: bool = False) -> int:
    """Run a few lives of a process with losses of power and kills between them; return the losses.

    Raises
    ------
    Broken
        Or anything else that a start raises.
    """
    chance = random.Random(seed)
    disk, sent, losses = Disk(), Sent(), 0
    straight = Model(ModelRecord(1, "m", SPEC, sent.created_at, 0, 3))
    for _ in range(3):
        process = Process(disk, sent, chance, mutation, random.Random(seed) if failures else None)
        disk.lost_at = chance.randrange(OPERATIONS)
        off = False
        try:
            process.start()
            process.check(straight)
            process.run(STEPS)
        except PowerLoss:
            off = True
        finally:
            killed = chance.random() < 0.25
            found = disk.after_kill() if killed else disk.after_loss(chance.randrange(1 << 30))
            disk.dead = True
            with contextlib.suppress(apsw.Error, PowerLoss):
                process.journal.close(failed=True)
            losses += off and not killed
            FAILURES.append(process.failures)
            CHANGED.update(process.changed)
        disk = found
    process = Process(disk, sent, chance, mutation)
    try:
        process.start()
        process.check(straight)
        process.run(2)
    finally:
        disk.dead = True
        process.journal.close(failed=True)
    return losses


@pytest.fixture(autouse=True)
def _short_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "CHECKPOINT_PAGES", 12)
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)  # where SQLite does not care that the power is off


def lives(seeds: range, *, failures: bool = False) -> int:
    losses = 0
    for seed in seeds:
        try:
            losses += live(seed, failures=failures)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
    return losses


def test_power_lost_at_any_moment_loses_nothing_acknowledged() -> None:
    assert lives(range(100)) > 100
    assert {Kind.SPEC, Kind.EVALUATION, Kind.NAME, Kind.ROLLBACK} <= CHANGED


def test_power_lost_while_a_journal_that_failed_is_opened_again() -> None:
    FAILURES.clear()
    assert lives(range(100), failures=True) > 100
    assert sum(FAILURES) > 100


@pytest.mark.soak  # minutes
def test_power_lost_at_any_moment_many_times() -> None:
    losses = lives(range(1_000, 3_000))
    print(f"2,000 seeds, {losses} losses of power while the disk was at work")


MUTATIONS = {
    "journal synchronous off": Mutation(synchronous="OFF"),
    "journal synchronous normal": Mutation(synchronous="NORMAL"),
    "no flush of snapshot files": Mutation(forgets=frozenset({"file"})),
    "no flush of folders": Mutation(forgets=frozenset({"folder"})),
    "snapshots renamed before they are flushed": Mutation(late_flush=True),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_without_one_flush_the_same_seeds_find_a_loss(
    name: str, monkeypatch: pytest.MonkeyPatch, record_property: Any
) -> None:
    mutation = MUTATIONS[name]
    if mutation.synchronous is not None:
        monkeypatch.setitem(journal_module._SYNCHRONOUS, "disk", mutation.synchronous)
    for seed in range(100):
        try:
            live(seed, mutation)
        except Exception as error:
            record_property("found", f"seed {seed}: {type(error).__name__}: {error}")
            print(f"{name}: found at seed {seed}: {type(error).__name__}: {error}")
            return
    pytest.fail(f"{name}: not found within 100 seeds")
