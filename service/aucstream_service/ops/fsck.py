"""`aucstream fsck DATA_DIR`: what is wrong with a data directory, while no service runs on it.

It changes nothing, but for `quarantine`: that moves one model out of the directory, into a folder beside the
others, so that nothing of it is lost and its name is free. `salvage` makes a new directory of what the snapshots hold.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import time
from pathlib import Path
from typing import Any

import apsw

from aucstream.errors import AucstreamError, BadSnapshot, Description
from aucstream_service.errors.exceptions import StartRefused
from aucstream_service.journal import checksums, wal
from aucstream_service.journal.commands import CreateModel, ModelRecord
from aucstream_service.journal.event_codec import digest_of, features_of
from aucstream_service.journal.integrity import unreadable
from aucstream_service.journal.journal import Journal
from aucstream_service.journal.migrations import MARKS, MIGRATIONS, fits
from aucstream_service.journal.rules import IdState
from aucstream_service.models.model import Model, spec_in, unpacked
from aucstream_service.models.recovery import KINDS
from aucstream_service.models.snapshots import SUFFIX, Archive
from aucstream_service.storage.directory import DataDirectory
from aucstream_service.storage.files import PRIVATE

SOUND, DAMAGED, CANNOT = 0, 1, 2  # exit statuses
MOST = 20  # findings told of one kind


class Check:
    """One look at a data directory."""

    def __init__(self, path: Path, *, replay: bool = False) -> None:
        self.directory = DataDirectory(path)
        self.replay = replay
        self.report: dict[str, Any] = {"data_dir": str(self.directory.path), "journal": [], "models": []}

    def run(self) -> int:
        """Fill the report; return the exit status. Raises StartRefused where nothing can be checked."""
        require_directory(self.directory.path)
        self.directory.acquire()
        try:
            db = opened(self.directory.journal)
            try:
                self._journal(db)
            finally:
                db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                db.close()
        finally:
            self.directory.release()
        damage = self.report["journal"] or any(model["damage"] for model in self.report["models"])
        self.report["sound"] = not damage
        return DAMAGED if damage else SOUND

    def _journal(self, db: apsw.Connection) -> None:
        damage: list[str] = self.report["journal"]
        log = self.directory.journal.with_name(f"{self.directory.journal.name}-wal")
        frames, _ = db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
        log_frames = wal.read(log.read_bytes()) if log.exists() else None
        if log_frames is not None and wal.lost(log_frames, max(frames, 0)):
            damage.append(f"{log.name}: commits lie behind a damaged place")
        try:
            for row in db.execute(f"PRAGMA integrity_check({MOST})"):
                if row[0] != "ok":
                    damage += str(row[0]).splitlines()
            versions = [str(row[0]) for row in db.execute("SELECT value FROM meta WHERE key = 'versions'")]
            self.report["versions"] = " ".join(versions).split()
            records = self._registry(db, damage)
            for record in records:
                self.report["models"].append(self._model(db, record))
        except apsw.Error as error:
            damage.append(f"{type(error).__name__}: {error}")

    def _registry(self, db: apsw.Connection, damage: list[str]) -> list[ModelRecord]:
        records = []
        columns = ", ".join(checksums.COVERED["models"])
        for *values, checksum in db.execute(f"SELECT {columns}, checksum FROM models ORDER BY model"):
            if checksums.of_row(tuple(values)) != checksum:
                damage.append(f"models: the row of model {values[0]} is not the one that was written")
            if values[1] is not None:
                records.append(ModelRecord(*values))
        return records

    def _model(self, db: apsw.Connection, record: ModelRecord) -> dict[str, Any]:
        damage: list[str] = []
        snapshots = self._snapshots(record, damage)
        last = self._events(db, record, snapshots, damage)
        newest = max(snapshots, default=0)
        self._ids(db, record, max(last, newest, record.base_seq), damage)
        report: dict[str, Any] = {
            "name": record.name,
            "number": record.model,
            "seq": max(last, newest, record.base_seq),
        }
        report["snapshots"] = snapshots
        if self.replay and len(snapshots) > 1:
            report["replay"] = self._replay(db, record, snapshots[-2:], damage)
        report["damage"] = damage[:MOST]
        return report

    def _snapshots(self, record: ModelRecord, damage: list[str]) -> list[int]:
        archive = Archive(self.directory.snapshots, 2)
        for name in archive.files.names(archive.of(record.model)):
            if not name.endswith((SUFFIX, ".tmp")):
                damage.append(f"snapshots/{record.model}/{name}: was set aside")
        good = []
        for seq in archive.seqs(record.model):
            try:
                arrays, meta = archive.read(record.model, seq)
                if meta.get("created_at") != record.created_at:
                    raise BadSnapshot("snapshot", "a snapshot of this model", Description("one of another model"))
                Model(record).restore(arrays, meta)
                if meta["seq"] != seq:
                    raise BadSnapshot("snapshot", f"the seq {seq} of its name", meta["seq"])
                good.append(seq)
            except (AucstreamError, OSError) as error:
                damage.append(f"snapshots/{record.model}/{seq}{SUFFIX}: {error}")
        return good

    def _events(self, db: apsw.Connection, record: ModelRecord, snapshots: list[int], damage: list[str]) -> int:
        last = max(record.pruned_seq, record.base_seq)
        first: int | None = None
        columns = ", ".join(checksums.COVERED["events"])
        for *values, checksum in db.execute(
            f"SELECT {columns}, checksum FROM events WHERE model = ? ORDER BY seq_first", (record.model,)
        ):
            _, seq_first, seq_last, kind, _, _ = values
            first = seq_first if first is None else first
            if checksums.of("events", tuple(values)) != checksum:
                damage.append(f"events {seq_first} to {seq_last}: not those that were written")
            if kind not in KINDS:
                damage.append(f"events {seq_first} to {seq_last}: kind {kind} is unknown to this version")
            if seq_first > last + 1 and not any(seq >= seq_first - 1 for seq in snapshots):
                damage.append(f"events {last + 1} to {seq_first - 1}: missing")
            last = seq_last
        start = max(snapshots, default=0)
        if start < record.pruned_seq and not (first is not None and first <= start + 1):  # an event is pruned whole
            damage.append(f"events {start + 1} to {record.pruned_seq}: no snapshot that can be read holds them")
        bases = [bytes(row[0]) for row in db.execute("SELECT payload FROM bases WHERE model = ?", (record.model,))]
        if record.base_seq and not snapshots and not bases:
            damage.append("the uploaded snapshot it began with: missing")
        for base in bases:
            try:
                unpacked(base)
            except AucstreamError as error:
                damage.append(f"the uploaded snapshot it began with: {error}")
        return last

    def _ids(self, db: apsw.Connection, record: ModelRecord, seq: int, damage: list[str]) -> None:
        for table in ("ids", "pending"):
            columns = ", ".join(checksums.COVERED[table])
            for *values, checksum in db.execute(
                f"SELECT {columns}, checksum FROM {table} WHERE model = ?", (record.model,)
            ):
                row = dict(zip(checksums.COVERED[table], values, strict=True))
                if checksums.of_row(tuple(values)) != checksum:
                    damage.append(f"{table}: the row of an id is not the one that was written")
                elif table == "ids":
                    if row["seq"] > seq:
                        damage.append(f"ids: an id of seq {row['seq']}, the model ends at {seq}")
                    if row["fate"] not in (IdState.LEARNED, IdState.DISCARDED, IdState.NEGATIVE):
                        damage.append(f"ids: fate {row['fate']} is unknown to this version")
                elif row["features"] is not None and digest_of(features_of(row["features"])) != row["digest"]:
                    damage.append("pending: features that are not those of their digest")
        both = list(
            db.execute(
                "SELECT count(*) FROM pending JOIN ids USING (model, id) WHERE pending.model = ?", (record.model,)
            )
        )
        if both[0][0]:
            damage.append(f"pending: {both[0][0]} ids wait that were learned")

    def _replay(self, db: apsw.Connection, record: ModelRecord, pair: list[int], damage: list[str]) -> str:
        archive = Archive(self.directory.snapshots, 2)
        older, newer = pair
        model = Model(record)
        model.restore(*archive.read(record.model, older))
        journal = Journal(self.directory.journal, "disk", 1)
        journal.borrow(db)
        try:
            for event in journal.events(record.model, older):
                if event.seq_first > newer:
                    break
                if event.seq_last > newer:
                    return f"snapshot {newer} is not at the end of an event: not compared"
                if event.seq_first > model.seq + 1:
                    break
                model.replay(event)
            if model.seq < min(newer, record.pruned_seq):  # they were learned, and removed by age
                return f"events after {model.seq} were removed: not compared"
        except AucstreamError as error:
            return f"snapshot {newer} cannot be made again from {older}: {error}"
        arrays, meta = model.state()
        saved, saved_meta = archive.read(record.model, newer)
        versions = saved_meta.get("versions")
        read = Model(record)
        read.restore(saved, saved_meta)
        saved_meta = read.state()[1]  # in the words of this version, which may know more parameters
        same = (
            model.seq == newer
            and arrays.keys() == saved.keys()
            and all(arrays[name].tobytes() == saved[name].tobytes() for name in arrays)
            and {**meta, "versions": 0} == {**saved_meta, "versions": 0}
        )
        if not same:
            damage.append(f"snapshot {newer} is not what a replay from {older} gives (versions {versions})")
        return "equal" if same else "differs"


def require_directory(path: Path, what: str = "journal.sqlite3") -> None:
    """Raise StartRefused unless a data directory is there: looking must not make one."""
    if not (path.expanduser() / what).exists():
        raise StartRefused(f"a data directory of the service (with {what}), found none at {path}")


def salvage(path: Path, target: Path) -> tuple[list[str], bool]:
    """Make a new data directory with each model as its newest readable snapshot holds it, and the keys.

    Returns a line a model, and whether all that are known could be kept. The old directory is left as it is.

    Raises
    ------
    StartRefused
    """
    require_directory(path, "snapshots")
    if target.exists() and any(target.iterdir()):
        raise StartRefused(f"a new or empty directory to salvage into, got {target}")
    old, new = DataDirectory(path), DataDirectory(target)
    old.acquire()
    try:
        new.acquire()
        journal = Journal(new.journal, "disk", 1)
        journal.open()
        try:
            result = _salvaged(old, journal)
        finally:
            journal.close()
        if old.keys.exists():
            shutil.copy2(old.keys, new.keys)
            new.files.sync_folder(new.path)
        return result
    except (apsw.Error, OSError) as error:
        raise StartRefused(f"to make {target}, got {error}") from error
    finally:
        new.release()
        old.release()


def _salvaged(old: DataDirectory, journal: Journal) -> tuple[list[str], bool]:
    archive = Archive(old.snapshots, 2)
    lines: dict[str, str] = {}
    names, known = _names(old.journal)
    folders = archive.files.names(old.snapshots)
    for number in sorted((int(folder) for folder in folders if folder.isdigit()), reverse=True):
        for seq in reversed(archive.seqs(number)):
            try:
                data = archive.files.read(archive.path(number, seq))
                arrays, meta = unpacked(data)
                name, spec = known.get(number, str(meta["name"])), spec_in(meta)
                Model(ModelRecord(number, name, spec.canonical(), 0.0, 0, 0)).restore(arrays, meta)
            except (AucstreamError, OSError):
                continue
            if name not in lines:  # a name used again has the higher number
                lines[name] = f"model {name}: as after seq {seq}"
                seed = secrets.randbits(31)
                journal.commit(
                    [CreateModel(name, spec.canonical(), time.time(), seed, data, seq, pending=spec.pending)]
                )
            break
    lost = [name for name in names if name not in lines]
    lines.update((name, f"model {name}: lost, no snapshot of it can be read") for name in lost)
    return [lines[name] for name in sorted(lines)], not lost


def _names(path: Path) -> tuple[list[str], dict[int, str]]:
    """Return the names of the models, as far as a damaged journal tells, and those that are sound by number.

    A name may have changed since a snapshot.
    """
    names: list[str] = []
    sound: dict[int, str] = {}
    with contextlib.suppress(apsw.Error, StartRefused), contextlib.closing(opened(path)) as db:
        columns = ", ".join(checksums.COVERED["models"])
        for *values, checksum in db.execute(f"SELECT {columns}, checksum FROM models WHERE name IS NOT NULL"):
            names.append(str(values[1]))
            if checksums.of_row(tuple(values)) == checksum:
                sound[int(str(values[0]))] = names[-1]
    return names, sound


def opened(path: Path) -> apsw.Connection:
    """Open a journal for reading, without moving its log; raises StartRefused."""
    try:
        db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.set_wal_hook(lambda *_: 0)
        tables = {str(row[0]): str(row[1]) for row in db.execute("SELECT key, value FROM meta")}
    except apsw.Error as error:
        raise unreadable(path, error) from error
    applied = tables.get("migrations", "").split()
    if not fits(applied) or len(set(applied) - MARKS) < len(MIGRATIONS):
        db.close()
        raise StartRefused(f"a journal with the tables of this version, got {path}: start the service once first")
    return db


def quarantine(path: Path, name: str) -> Path:
    """Move a model to DIR/quarantine/<name>-<number>: its snapshots, and its rows as a journal of their own.

    Raises
    ------
    StartRefused
    """
    require_directory(path)
    directory = DataDirectory(path)
    directory.acquire()
    try:
        db = opened(directory.journal)
        with contextlib.closing(db):
            rows = list(db.execute("SELECT model FROM models WHERE name = ?", (name,)))
            if not rows:
                raise StartRefused(f"the name of a model in {directory.path}, got {name!r}")
            number = int(str(rows[0][0]))
            folder = directory.path / "quarantine" / f"{name}-{number}"
            folder.parent.mkdir(mode=PRIVATE, exist_ok=True)
            folder.mkdir(mode=PRIVATE)
            (folder / "journal.sqlite3").touch()
            db.execute("ATTACH ? AS aside", (str(folder / "journal.sqlite3"),))
            tables = ("models", "bases", "events", "ids", "pending")
            for table in tables:
                db.execute(f"CREATE TABLE aside.{table} AS SELECT * FROM main.{table} WHERE model = ?", (number,))
            db.execute("DETACH aside")
            snapshots = directory.snapshots / str(number)
            if snapshots.exists():
                snapshots.rename(folder / "snapshots")
            for each in (folder, folder.parent, directory.path, directory.snapshots):
                directory.files.sync_folder(each)
            db.execute("PRAGMA synchronous = FULL")
            db.execute("BEGIN IMMEDIATE")
            for table in tables:
                db.execute(f"DELETE FROM {table} WHERE model = ?", (number,))
            db.execute("INSERT OR REPLACE INTO meta SELECT 'models', count(*) FROM models")
            db.execute("COMMIT")
        return folder
    except (apsw.Error, OSError) as error:
        raise StartRefused(f"to move model {name} aside, got {error}") from error
    finally:
        directory.release()
