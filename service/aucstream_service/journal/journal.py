"""The journal: SQLite through apsw, the only durable truth for models, events, ids and what waits.

One connection, used by one thread at a time: at start by whoever recovers, then by the writer.
A commit takes a list of commands; together they are one transaction (group commit).

Events carry a kind, a range of `seq` and the validated bytes of the request. The outcome of an
event is a function of this file alone, so a replay gives the same model to the last bit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import apsw

from aucstream import __version__
from aucstream_service.bodies.bodies import event_line, expired_line, without
from aucstream_service.errors.exceptions import JournalUnavailable, RowsDamaged, StartRefused
from aucstream_service.journal import checksums
from aucstream_service.journal.commands import (
    Append,
    Appended,
    Command,
    CreateModel,
    DropModel,
    Erase,
    Erased,
    EventRecord,
    Joined,
    Keep,
    Kept,
    Kind,
    Mode,
    ModelRecord,
    Outcome,
    Prune,
    Release,
    Retain,
    Retained,
    Settled,
    Sweep,
    Swept,
)
from aucstream_service.journal.ids import STEP_ROWS, Ids, Row
from aucstream_service.journal.integrity import check_log, check_structure, check_tables, damaged, unreadable
from aucstream_service.journal.migrations import meta, migrate
from aucstream_service.journal.rules import Do, Fate, Known, Refusal, Refused, on_label, on_learn, on_predict
from aucstream_service.models.spec import PendingSpec
from aucstream_service.settings import Durability
from aucstream_service.storage.files import Files

# os: SQLite writes the WAL at each commit but leaves the flush to the kernel (checkpoints do flush),
# so a killed process loses nothing and a power cut loses the newest commits.
_SYNCHRONOUS: dict[Durability, str] = {"disk": "FULL", "os": "NORMAL", "memory": "OFF"}
JOIN_BYTES = 32 << 20  # features of waiting predictions that one body may bring back; a transaction: twice that
CHECKPOINT_PAGES = 1_000  # of the WAL, before they are moved into the file
RUN_ROWS, RUN_BYTES = 128, 1 << 20  # single rows that become one event: SQLite holds no value over a gigabyte
PURGE_ROWS = 5_000  # rows of a deleted model removed per transaction, so that learning never waits long


class Journal:
    """SQLite file of one data directory."""

    def __init__(
        self,
        path: Path,
        durability: Durability,
        max_ids: int,
        id_seconds: float = float("inf"),
        files: Files | None = None,
        vfs: str | None = None,
    ) -> None:
        self.path = path
        self.durability = durability
        self.max_ids = max_ids
        self.id_seconds = id_seconds
        self.files = files or Files()
        self.vfs = vfs
        self.flushed_before = False  # every commit of the process before was flushed (durability disk)
        self.versions: list[str] = []  # of the library, that wrote this journal, oldest first
        self._wal_pages = 0
        self._scrubbing = False  # raw records were removed: the log that still holds them must go
        self._seq: dict[int, int] = {}
        self._pending: dict[int, PendingSpec] = {}
        self._connection: apsw.Connection | None = None
        self._dropped = False
        self._joined = 0  # bytes of features that this transaction brought back

    @property
    def _db(self) -> apsw.Connection:
        if self._connection is None:
            raise JournalUnavailable("journal", "an open journal, it is closed")
        return self._connection

    def open(self) -> None:
        """Open or create the file, check that it is sound, and bring its tables up to date.

        Raises
        ------
        StartRefused
        """
        db: apsw.Connection | None = None
        try:
            db = apsw.Connection(str(self.path), vfs=self.vfs)
            db.execute("PRAGMA locking_mode = EXCLUSIVE")
            if list(db.execute("PRAGMA journal_mode = WAL")) != [("wal",)]:  # SQLite does not raise
                raise StartRefused(f"a journal with a write-ahead log, {self.path} could not be given one")
            db.execute(f"PRAGMA synchronous = {_SYNCHRONOUS[self.durability]}")
            db.execute("PRAGMA foreign_keys = OFF")
            db.execute("PRAGMA secure_delete = ON")  # what is removed held raw features
            db.set_wal_hook(self._note_pages)  # and no checkpoint by itself: SQLite says nothing when one fails
            check_log(db, self.path, self.files)
            check_structure(db, self.path)
            # What a killed process left in the log may not have reached the disk, however well it reads now:
            # it must before anything is added.
            db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            migrate(db)
            check_tables(db, self.path)
            self._note_start(db)
            self.files.sync_folder(self.path.parent)
        except (apsw.Error, OSError, StartRefused) as error:
            self._connection = db
            self.close(failed=True)
            if isinstance(error, StartRefused):
                if str(self.path) in error.expected:
                    raise
                raise StartRefused(f"{error.expected} ({self.path})") from error
            raise unreadable(self.path, error) from error
        self._connection = db
        self.ids = Ids(db, self.max_ids, self.id_seconds)
        self._dropped = bool(self._rows("SELECT 1 FROM models WHERE name IS NULL LIMIT 1"))

    def _note_start(self, db: apsw.Connection) -> None:
        """Note who writes from now on, and how safely."""
        self.flushed_before = meta(db, "durability", "") == "disk"
        before = meta(db, "versions", "").split()
        self.versions = before if before[-1:] == [__version__] else [*before, __version__]
        for key, value in (("durability", self.durability), ("versions", " ".join(self.versions[-20:]))):
            if meta(db, key, "") != value:
                db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def _note_pages(self, _db: apsw.Connection, _name: str, pages: int) -> int:
        self._wal_pages = pages
        return 0

    def checkpoint(self) -> None:
        """Move the log into the file when it is long enough.

        Like after a commit, an exception means that the file must not be used again: after a failed
        flush the kernel may count pages as written that are not.
        """
        if self._scrubbing:
            self._scrubbing = False
            self._wal_pages = 0
            self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        elif self._wal_pages >= CHECKPOINT_PAGES:
            self._wal_pages = 0
            self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def close(self, *, failed: bool = False) -> None:
        """Close; after a failed write the file is left as it is (no checkpoint is tried)."""
        if self._connection is None:
            return
        if failed:
            self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        self._connection.close()
        self._connection = None

    def borrow(self, db: apsw.Connection) -> None:
        """Read from a connection of somebody else."""
        self._connection = db

    def size(self) -> int:
        """Return the bytes of the file and of its WAL."""
        found = 0
        for path in (self.path, self.path.with_name(f"{self.path.name}-wal")):
            with contextlib.suppress(OSError):
                found += path.stat().st_size
        return found

    def last_seq(self, model: int) -> int:
        """Return the seq of a model's newest event, 0 without one."""
        return self._integer("SELECT coalesce(max(seq_last), 0) FROM events WHERE model = ?", model)

    def _rows(self, sql: str, *bindings: apsw.SQLiteValue) -> list[tuple[Any, ...]]:
        return list(self._db.execute(sql, bindings))

    def _integer(self, sql: str, *bindings: apsw.SQLiteValue) -> int:
        return int(self._rows(sql, *bindings)[0][0])

    # ---- reading, at start -------------------------------------------------------------------

    def models(self) -> list[ModelRecord]:
        """Return the registry, or raise JournalDamaged."""
        rows = self._rows(f"SELECT {', '.join(checksums.COVERED['models'])}, checksum FROM models ORDER BY model")
        if meta(self._db, "models", "0") != str(len(rows)):
            raise damaged("as many models as were registered", self.path, f"{len(rows)} models")
        for *values, checksum in rows:
            if checksums.of_row(tuple(values)) != checksum:
                raise damaged("the registry that was written", self.path, f"another row for model {values[0]}")
        return [ModelRecord(*values) for *values, _ in rows if values[1] is not None]

    def base(self, model: int) -> bytes | None:
        """Return the uploaded snapshot a model began with, unless it was pruned."""
        rows = self._rows("SELECT payload FROM bases WHERE model = ?", model)
        return bytes(rows[0][0]) if rows else None

    def events(self, model: int, after: int) -> Iterator[EventRecord]:
        """Yield the events of a model that hold a seq above `after`, in order; raises RowsDamaged."""
        cursor = self._db.execute(
            "SELECT seq_first, seq_last, kind, payload, received_at, checksum FROM events"
            " WHERE model = ? AND seq_last > ? ORDER BY seq_first",
            (model, after),
        )
        for seq_first, seq_last, kind, payload, received_at, checksum in cursor:
            if checksums.of_event(model, seq_first, seq_last, kind, received_at, payload) != checksum:
                raise RowsDamaged(f"the events {seq_first} to {seq_last} that were written, the journal holds others")
            yield EventRecord(seq_first, seq_last, kind, payload, received_at)

    def start_model(
        self, model: int, seq: int, pending: PendingSpec | None = None, freed: Sequence[tuple[str, int]] = ()
    ) -> None:
        """Tell where a model stands after replay, and whose steps were skipped in it; raises RowsDamaged."""
        for _ in self.starting(model, seq, pending, freed):
            pass

    def starting(
        self, model: int, seq: int, pending: PendingSpec | None = None, freed: Sequence[tuple[str, int]] = ()
    ) -> Iterator[None]:
        """Do what `start_model` does, in steps."""
        yield from self.ids.start(model, seq)
        if freed:
            self._db.execute("BEGIN IMMEDIATE")
            self.ids.release(model, freed)
            self._db.execute("COMMIT")
        self._seq[model] = seq
        self._pending[model] = pending or PendingSpec()

    # ---- writing -----------------------------------------------------------------------------

    def commit(self, commands: Sequence[Command]) -> list[Outcome]:
        """Carry the commands out as one transaction; when this returns they are durable.

        Any exception means that nothing is known about the file: it must not be used again.
        """
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        self._joined = 0
        outcomes: list[Outcome] = []
        for run in _runs(commands):
            command = run[0]
            match command:
                case Append() if _is_row(command):
                    outcomes += self._append_rows(cast("Sequence[Append]", run))
                case Append():
                    outcomes.append(self._append(command))
                case Keep():
                    outcomes.append(self._keep(command))
                case Sweep():
                    outcomes.append(self._sweep(command.at))
                case Release():
                    outcomes.append(self._release(command))
                case CreateModel():
                    outcomes.append(self._create(command))
                case DropModel():
                    self._drop(command.model)
                    outcomes.append(None)
                case Prune():
                    self._prune(command.model, command.seq)
                    outcomes.append(None)
                case Erase():
                    outcomes.append(self._erase(command))
                case Retain():
                    outcomes.append(self._retain(command))
        db.execute("COMMIT")
        return outcomes

    def _prune(self, model: int, seq: int) -> None:
        self._db.execute("DELETE FROM events WHERE model = ? AND seq_last <= ?", (model, seq))
        self._db.execute("DELETE FROM bases WHERE model = ?", (model,))
        self._db.execute("UPDATE models SET pruned_seq = max(pruned_seq, ?) WHERE model = ?", (seq, model))
        self._seal(model)

    def _scrub(self) -> None:
        """See that what is removed leaves no copy in the log after this commit."""
        self._scrubbing = True

    def _erase(self, erase: Erase) -> Erased:
        model = erase.model
        found: list[tuple[int, tuple[int, int, int, float, bytes]]] = []
        removed = 0
        for event, *head, payload in self._db.execute(
            "SELECT event, seq_first, seq_last, kind, received_at, payload FROM events WHERE model = ?", (model,)
        ):
            rest, lines = without(payload, erase.id)
            if not lines:
                continue
            seq = head[0] + lines[-1]
            if seq > erase.covered:
                return Erased(0, seq, self.ids.waiting[model])
            removed += len(lines)
            found.append((event, (*head, rest)))
        self._scrub()
        for event, row in found:
            checksum = checksums.of_event(model, *row)
            self._db.execute("UPDATE events SET payload = ?, checksum = ? WHERE event = ?", (row[-1], checksum, event))
        there = self.ids.find(model, erase.id)
        if there is not None and there.fate in (Fate.WAITING, Fate.HELD):
            removed += 1
            self.ids.remove(model, [erase.id])
            if there.fate is Fate.WAITING:  # a label that comes later is told that it is over
                self.ids.settle(model, [(erase.id, Known(Fate.DISCARDED, seq=self._seq[model]))], erase.at)
        return Erased(removed, 0, self.ids.waiting[model])

    def _retain(self, retain: Retain) -> Retained:
        uncovered = []
        for model, covered in retain.covered.items():
            recent = self._rows(
                "SELECT seq_first FROM events WHERE model = ? AND received_at >= ? ORDER BY seq_first LIMIT 1",
                *(model, retain.before),
            )
            seq = recent[0][0] - 1 if recent else self.last_seq(model)
            if not self._rows("SELECT 1 FROM events WHERE model = ? AND seq_last <= ? LIMIT 1", model, seq):
                continue
            if seq > covered:
                uncovered.append(model)
            else:
                self._scrub()
                self._prune(model, seq)
        return Retained(uncovered)

    def _append(self, append: Append) -> Appended:
        model, at = append.model, append.received_at
        ids = append.ids or ()
        known, expired = self._known(model, ids, at)
        before = self._seq[model]
        taken: list[int] | None = None
        done = Appended(before, before, taken, {}, {}, expired=expired)
        rows = len(append.signs)
        if any(id_ is not None for id_ in ids):
            taken, waited = self._sort(append, known, done)
            if done.refused and append.mode is Mode.ALL:
                return Appended(before, before, [], {}, done.refused, expired=expired, pending=self.ids.waiting[model])
            self.ids.remove(model, waited)
            settled = [(id_, known[id_]) for row in taken if (id_ := ids[row]) is not None]
            self.ids.settle(model, settled, at)  # type: ignore[arg-type]  # what is taken is known by now
            fresh = sorted(done.held - done.duplicates.keys())
            held = [(id_, known[id_], None) for row in fresh if (id_ := ids[row]) is not None]
            self.ids.wait(model, held, at)  # type: ignore[arg-type]
            if len(taken) == rows:
                taken = None
            else:
                rows = len(taken)
        done.taken = taken
        done.pending = self.ids.waiting[model]
        if rows:
            done.seq_first, done.seq_last = before + 1, before + rows
            self._event(append.model, append.kind, rows, lambda: self._payload(append, done), at)
        return done

    def _append_rows(self, appends: Sequence[Append]) -> list[Outcome]:
        """Append single rows as few events: to write an event costs more than to write a row of it."""
        model = appends[0].model
        first = self._seq[model] + 1
        pending = self.ids.waiting[model]
        lines = [append.payload(None) for append in appends]
        start = 0
        while start < len(lines):
            stop, size = start + 1, len(lines[start])
            while stop < len(lines) and size + len(lines[stop]) <= RUN_BYTES:
                size += len(lines[stop])
                stop += 1
            payload = partial(b"\n".join, lines[start:stop])
            self._event(model, Kind.LEARN, stop - start, payload, appends[stop - 1].received_at)
            start = stop
        return [Appended(seq, seq, None, {}, {}, pending=pending) for seq in range(first, first + len(appends))]

    def _known(self, model: int, ids: Sequence[str | None], at: float) -> tuple[dict[str, Known | None], list[Settled]]:
        """Return what is known of these ids; what of them is due expires first, as far as there is room for it."""
        known = {id_: self.ids.find(model, id_) for id_ in ids if id_ is not None}
        due: list[Row] = [(id_, each) for id_, each in known.items() if each is not None and _is_due(each, at)]
        if not due:
            return known, []
        settled = self._expire(model, due, at)
        for id_, _ in due:
            known[id_] = self.ids.find(model, id_)
        return known, settled

    def _features(self, model: int, id_: str, known: Known) -> bytes:
        """Return the features of a prediction that is learned now."""
        self._joined += known.size
        return self.ids.features(model, id_)

    def _sort(self, append: Append, known: dict[str, Known | None], done: Appended) -> tuple[list[int], list[str]]:
        """Go through the rows: return those that are taken, and the ids that wait no longer.

        The other rows are noted in `done`, and `known` is brought up to date.
        """
        assert append.ids is not None
        before = done.seq_first
        spec = self._pending[append.model]
        room = spec.capacity - self.ids.waiting[append.model]
        size = 0
        taken: list[int] = []
        waited: list[str] = []
        for row, (id_, sign) in enumerate(zip(append.ids, map(float, append.signs), strict=True)):
            if id_ is None:
                taken.append(row)
                continue
            there = known[id_]
            do: Do | Refusal
            if _is_due(there, append.received_at):
                do = Refusal(Refused.BUSY)
            elif append.kind is Kind.LABEL:
                do = on_label(there, sign, hold=spec.hold_early_seconds > 0)
            else:
                do = on_learn(there, sign, lambda row=row: append.digest(row))  # type: ignore[misc]
            if do is Do.HOLD and room <= 0:
                do = Refusal(Refused.FULL)
            elif do is Do.JOIN and there is not None:
                size += there.size
                if size > JOIN_BYTES:
                    do = Refusal(Refused.TOO_LARGE)
                elif self._joined + there.size > 2 * JOIN_BYTES:
                    do = Refusal(Refused.BUSY)
            if isinstance(do, Refusal):
                done.refused[row] = do
                if append.mode is not Mode.SKIP:
                    break
            elif do is Do.SAME:
                assert there is not None
                done.duplicates[row] = there.seq
                if there.fate is Fate.HELD:
                    done.duplicates[row] = before
                    done.held.add(row)
            elif do is Do.HOLD:
                room -= 1
                done.held.add(row)
                known[id_] = Known(Fate.HELD, sign, expires_at=append.received_at + spec.hold_early_seconds)
            else:
                prediction = None
                if there is not None:
                    room += 1
                    waited.append(id_)
                if do is Do.JOIN:
                    assert there is not None and there.prediction is not None
                    prediction = there.prediction
                    weight = 1.0 if append.weights is None else float(append.weights[row])
                    features = self._features(append.model, id_, there)
                    done.joined[row] = Joined(id_, features, sign, weight, prediction.score, prediction.probability)
                taken.append(row)
                known[id_] = Known(Fate.LEARNED, sign, before + len(taken), prediction)
        return taken, waited

    def _payload(self, append: Append, done: Appended) -> bytes:
        if not done.joined:
            return append.payload(done.taken)
        rows = range(len(append.signs)) if done.taken is None else done.taken
        line = append.line or (lambda row: append.payload([row]))
        return b"\n".join(event_line(done.joined[row]) if row in done.joined else line(row) for row in rows)

    def _event(self, model: int, kind: Kind, rows: int, payload: Callable[[], bytes], at: float) -> None:
        """Write one event of so many rows at the end of a model."""
        before = self._seq[model]
        self._seq[model] = before + rows
        if self.durability != "memory":
            data, received_at = payload(), float(at)
            self._db.execute(
                "INSERT INTO events(model, seq_first, seq_last, kind, payload, received_at, checksum)"
                " VALUES (?,?,?,?,?,?,?)",
                (
                    *(model, before + 1, before + rows, int(kind), data, received_at),
                    checksums.of_event(model, before + 1, before + rows, int(kind), received_at, data),
                ),
            )

    def _keep(self, keep: Keep) -> Kept:
        model, at = keep.model, keep.received_at
        known, settled = self._known(model, keep.ids, at)
        spec = self._pending[model]
        if self.ids.waiting[model] + len(keep.ids) > spec.capacity:
            due = list(self.ids.due(model, at))
            settled += self._expire(model, due, at)
            for id_, _ in due:
                if id_ in known:
                    known[id_] = self.ids.find(model, id_)
        room = spec.capacity - self.ids.waiting[model]
        before = self._seq[model]
        kept = Kept([None] * len(keep.ids), {}, settled=settled)
        wait: list[tuple[str, Known, bytes | None]] = []
        learned: list[Row] = []
        joined: list[Joined] = []
        for row, (id_, features, first) in enumerate(zip(keep.ids, keep.features, keep.predictions, strict=True)):
            there = known[id_]
            do = Refusal(Refused.BUSY) if _is_due(there, at) else on_predict(there, first.digest)
            if do is Do.KEEP and room <= 0:
                do = Refusal(Refused.FULL)
            if isinstance(do, Refusal):
                kept.refused[row] = do
                if keep.mode is not Mode.SKIP:
                    break
                continue
            kept.answers[row] = first
            if do is Do.SAME:
                assert there is not None
                kept.answers[row] = there.prediction
            elif do is Do.KEEP:
                room -= 1
                new = Known(Fate.WAITING, prediction=first, size=len(features), expires_at=at + spec.ttl_seconds)
                known[id_] = new
                wait.append((id_, new, features))
            else:
                assert there is not None
                room += 1  # the label waits no longer
                joined.append(Joined(id_, features, there.sign, 1.0, first.score, first.probability))
                new = Known(Fate.LEARNED, there.sign, before + len(joined), first)
                known[id_] = new
                learned.append((id_, new))
        if not (kept.refused and keep.mode is Mode.ALL):
            self.ids.wait(model, wait, at)
            kept.kept = len(wait)
            if joined:
                self.ids.remove(model, (id_ for id_, _ in learned))
                self.ids.settle(model, learned, at)
                settled.append(Settled(Kind.LABEL, before + 1, before + len(joined), joined, at))
                self._event(model, Kind.LABEL, len(joined), lambda: b"\n".join(map(event_line, joined)), at)
        kept.pending = self.ids.waiting[model]
        return kept

    def _sweep(self, at: float) -> Swept:
        swept = Swept([], more=False)
        rows = 0
        for model in [model for model, waiting in self.ids.waiting.items() if waiting]:
            due = list(self.ids.due(model, at))
            if due:
                swept.settled.append((model, self._expire(model, due, at), self.ids.waiting[model]))
                rows += len(due)
                swept.more = True
            if rows >= STEP_ROWS:
                break
        self.ids.age(at)
        return swept

    def _expire(self, model: int, due: Sequence[Row], at: float) -> list[Settled]:
        """Let predictions expire as one event; early labels are forgotten, they were never an example.

        Those to be learned are left for a later transaction where this one has brought back enough.
        """
        self.ids.remove(model, (id_ for id_, known in due if known.fate is Fate.HELD))
        waiting = [(id_, known) for id_, known in due if known.fate is Fate.WAITING]
        if not waiting:
            return []
        before = self._seq[model]
        learn = self._pending[model].on_expiry == "negative"
        fate, sign = (Fate.NEGATIVE, -1.0) if learn else (Fate.DISCARDED, 0.0)
        rows: list[Row] = []
        joined: list[Joined] = []
        for seq, (id_, known) in enumerate(waiting, before + 1):
            first = known.prediction
            assert first is not None
            if learn:
                if self._joined + known.size > 2 * JOIN_BYTES:
                    break
                features = self._features(model, id_, known)
                joined.append(Joined(id_, features, -1.0, 1.0, first.score, first.probability))
            rows.append((id_, Known(fate, sign, seq, first)))
        if not rows:
            return []
        self.ids.remove(model, (id_ for id_, _ in rows))
        self.ids.settle(model, rows, at)
        kind = Kind.NEGATIVE if learn else Kind.DISCARD
        lines = map(event_line, joined) if learn else (expired_line(id_) for id_, _ in rows)
        self._event(model, kind, len(rows), lambda: b"\n".join(lines), at)
        return [Settled(kind, before + 1, before + len(rows), joined, at)]

    def _release(self, release: Release) -> int:
        if release.model in self._seq:  # else it was dropped meanwhile
            self.ids.release(release.model, release.ids)
        return self._seq.get(release.model, 0)

    def _create(self, create: CreateModel) -> int:
        if create.replaces is not None:
            self._drop(create.replaces)
        self._db.execute(
            "INSERT INTO models(name, spec, created_at, base_seq, seed) VALUES (?,?,?,?,?)",
            (create.name, create.spec, create.created_at, create.base_seq, create.seed),
        )
        model = self._db.last_insert_rowid()
        self._seal(model)
        self._count_models()
        if create.base is not None:
            self._db.execute("INSERT INTO bases(model, payload) VALUES (?,?)", (model, create.base))
        self._seq[model] = create.base_seq
        self._pending[model] = create.pending
        self.ids.begin(model)
        return model

    def _drop(self, model: int) -> None:
        self._db.execute("UPDATE models SET name = NULL WHERE model = ?", (model,))
        self._seal(model)
        self._seq.pop(model, None)
        self._pending.pop(model, None)
        self.ids.drop(model)
        self._dropped = True

    def _seal(self, model: int) -> None:
        """Bring the checksum of a model's line in the registry up to date."""
        columns = ", ".join(checksums.COVERED["models"])
        for row in self._rows(f"SELECT {columns} FROM models WHERE model = ?", model):
            self._db.execute("UPDATE models SET checksum = ? WHERE model = ?", (checksums.of_row(row), model))

    def _count_models(self) -> None:
        self._db.execute("INSERT OR REPLACE INTO meta SELECT 'models', count(*) FROM models")

    @property
    def purging(self) -> bool:
        """Whether rows of dropped models are left to purge."""
        return self._dropped

    def purge(self) -> None:
        """Remove some rows of a dropped model, in one transaction."""
        rows = self._rows("SELECT model FROM models WHERE name IS NULL LIMIT 1")
        if not rows:
            self._dropped = False
            return
        model = rows[0][0]
        self._db.execute("BEGIN IMMEDIATE")
        removed = 0
        for sql in (
            "DELETE FROM events WHERE event IN (SELECT event FROM events WHERE model = ? LIMIT ?)",
            "DELETE FROM ids WHERE (model, id) IN (SELECT model, id FROM ids WHERE model = ? LIMIT ?)",
            "DELETE FROM pending WHERE row IN (SELECT row FROM pending WHERE model = ? LIMIT ?)",
        ):
            self._db.execute(sql, (model, PURGE_ROWS))
            removed += self._db.changes()
        if removed == 0:
            self._db.execute("DELETE FROM bases WHERE model = ?", (model,))
            self._db.execute("DELETE FROM models WHERE model = ?", (model,))
            self._count_models()
        self._db.execute("COMMIT")


def _runs(commands: Sequence[Command]) -> Iterator[Sequence[Command]]:
    """Cut commands into those that are carried out together: single rows of one model, without ids, in a row."""
    start = 0
    while start < len(commands):
        first, stop = commands[start], start + 1
        if isinstance(first, Append) and _is_row(first):
            while stop < len(commands) and stop - start < RUN_ROWS:
                next_ = commands[stop]
                if not (isinstance(next_, Append) and next_.model == first.model and _is_row(next_)):
                    break
                stop += 1
        yield commands[start:stop]
        start = stop


def _is_row(append: Append) -> bool:
    return len(append.signs) == 1 and append.ids is None and append.kind is Kind.LEARN and append.line is None


def _is_due(known: Known | None, at: float) -> bool:
    return known is not None and known.fate in (Fate.WAITING, Fate.HELD) and known.expires_at <= at
