"""A disk that forgets: files in memory for SQLite (a VFS) and for snapshots (Files), and what a loss of power leaves.

What is written is seen at once by whoever reads, and is durable only after a flush. At a loss of power each
sector of 512 bytes holds what it held at the last flush or after any later write, and each name that was created,
renamed or removed since the last flush of its folder is so or is not, each independently of the others.
"""

from __future__ import annotations

import errno
import random
from pathlib import Path
from typing import Any

import apsw

from aucstream_service.storage.files import Files

SECTOR = 512


class PowerLoss(Exception):
    """The machine is off."""


class Inode:
    """The bytes of a file: now, at the last flush, and the writes since then."""

    def __init__(self, content: bytes = b"") -> None:
        self.now = bytearray(content)
        self.durable = content
        self.writes: list[tuple[int, bytes | None]] = []  # offset and bytes; a new size and None

    def write(self, offset: int, data: bytes) -> None:
        _apply(self.now, offset, data)
        self.writes.append((offset, data))

    def resize(self, size: int) -> None:
        _apply(self.now, size, None)
        self.writes.append((size, None))

    def flush(self) -> None:
        if self.writes:
            self.durable = bytes(self.now)
            self.writes.clear()

    def after_loss(self, chance: random.Random) -> bytes:
        """Return what the disk holds: all writes, none, or each sector as it was at one moment."""
        fate = chance.random()
        if not self.writes or fate < 0.2:
            return self.durable
        if fate < 0.3:
            return bytes(self.now)
        state = bytearray(self.durable)
        sizes = [len(state)]
        seen: dict[int, list[bytes]] = {}
        for offset, data in self.writes:
            if data is None:
                # A new size is a change of names and places on the disk: it is there or not, and if it is
                # not, what was written afterwards has no place either.
                if chance.random() < 0.5:
                    break
                _apply(state, offset, None)
                sizes, seen = [len(state)], {}
                continue
            sectors = range(offset // SECTOR, -(-(offset + len(data)) // SECTOR))
            for sector in sectors:
                seen.setdefault(sector, [_sector(state, sector)])
            _apply(state, offset, data)
            for sector in sectors:
                seen[sector].append(_sector(state, sector))
            sizes.append(len(state))
        size = max(sizes) if fate < 0.7 else chance.choice(sizes)
        _apply(state, max(sizes), None)
        for sector, contents in seen.items():
            state[sector * SECTOR : (sector + 1) * SECTOR] = chance.choice((contents[0], contents[-1], *contents))
        return bytes(state[:size])


def _apply(state: bytearray, offset: int, data: bytes | None) -> None:
    if offset > len(state):
        state.extend(bytes(offset - len(state)))
    if data is None:
        del state[offset:]
    else:
        state[offset : offset + len(data)] = data


def _sector(state: bytearray, sector: int) -> bytes:
    return bytes(state[sector * SECTOR : (sector + 1) * SECTOR]).ljust(SECTOR, b"\0")


class Disk:
    """Files by path, and the operations on them, before one of which the power goes."""

    def __init__(self) -> None:
        self.names: dict[str, Inode | None] = {"/": None}  # None: a folder
        self.durable: dict[str, Inode | None] = {"/": None}
        self.changes: list[tuple[str, dict[str, Inode | None], list[str]]] = []  # folder, names set, names removed
        self.operations = 0
        self.lost_at: int | None = None
        self.dead = False  # the power was off: what comes now is tidying up in memory
        self.forgets: set[str] = set()  # flushes that do nothing: "file", "folder"
        self.sync_fails = False  # the next flush of SQLite, once

    def step(self, what: str, path: str) -> None:
        """Count an operation that changes the disk; before one of them the power goes."""
        if self.dead:
            return
        if self.lost_at is not None and self.operations >= self.lost_at:
            raise PowerLoss
        self.operations += 1

    def change(self, what: str, path: str, found: dict[str, Inode | None], removed: list[str]) -> None:
        self.step(what, path)
        for name in removed:
            self.names.pop(name, None)
        self.names.update(found)
        self.changes.append((_parent(path), found, removed))

    def sync_folder(self, folder: str) -> None:
        self.step("sync", folder)
        if "folder" in self.forgets:
            return
        for parent, found, removed in self.changes:
            if parent == folder:
                self._make_durable(self.durable, found, removed)
        self.changes = [change for change in self.changes if change[0] != folder]

    @staticmethod
    def _make_durable(names: dict[str, Inode | None], found: dict[str, Inode | None], removed: list[str]) -> None:
        for name in removed:
            names.pop(name, None)
        names.update(found)

    def after_loss(self, seed: int) -> Disk:
        """Return the disk as it is when the power is back."""
        chance = random.Random(seed)
        names = dict(self.durable)
        some = chance.random()
        for _, found, removed in self.changes:
            if chance.random() < some:
                self._make_durable(names, found, removed)
        disk = Disk()
        for name in sorted(names):
            inode = names[name]
            if name == "/" or _parent(name) in disk.names:
                disk.names[name] = None if inode is None else Inode(inode.after_loss(chance))
        disk.durable = dict(disk.names)
        return disk

    def after_kill(self) -> Disk:
        """Return the disk as another process finds it: what was written is there, and is no more durable than before."""
        twins: dict[int, Inode] = {}

        def twin(inode: Inode | None) -> Inode | None:
            if inode is None:
                return None
            if id(inode) not in twins:
                there = twins[id(inode)] = Inode(inode.durable)
                there.now, there.writes = bytearray(inode.now), list(inode.writes)
            return twins[id(inode)]

        disk = Disk()
        disk.names = {name: twin(inode) for name, inode in self.names.items()}
        disk.durable = {name: twin(inode) for name, inode in self.durable.items()}
        disk.changes = [
            (folder, {name: twin(inode) for name, inode in found.items()}, removed)
            for folder, found, removed in self.changes
        ]
        return disk


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


class DiskFiles(Files):
    """Snapshots on such a disk."""

    def __init__(self, disk: Disk, *, late_flush: bool = False) -> None:
        self.disk = disk
        self.late_flush = late_flush  # a mutation: files are flushed after they were renamed
        self._open: dict[int, tuple[str, Inode]] = {}
        self._late: list[tuple[str, Inode]] = []

    def make_folder(self, path: Path) -> None:
        for each in (*reversed(path.parents), path):
            if str(each) not in self.disk.names:
                self.disk.change("mkdir", str(each), {str(each): None}, [])

    def sync_folder(self, path: Path) -> None:
        for name, inode in self._late:
            self._flush(name, inode)
        self._late.clear()
        self.disk.sync_folder(str(path))

    def names(self, path: Path) -> list[str]:
        return [name.rpartition("/")[2] for name in self.disk.names if name != "/" and _parent(name) == str(path)]

    def exists(self, path: Path) -> bool:
        return str(path) in self.disk.names

    def read(self, path: Path) -> bytes:
        inode = self.disk.names.get(str(path))
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
        return bytes(inode.now)

    def modified(self, path: Path) -> float | None:
        return 0.0 if self.exists(path) else None

    def create(self, path: Path) -> int:
        inode = Inode()
        self.disk.change("create", str(path), {str(path): inode}, [])
        file = len(self._open) + 1
        self._open[file] = (str(path), inode)
        return file

    def write(self, file: int, data: memoryview) -> int:
        path, inode = self._open[file]
        self.disk.step("write", path)
        part = bytes(data[: max(1, len(data) * 2 // 3)])  # a write may take less than it was given
        inode.write(len(inode.now), part)
        return len(part)

    def sync(self, file: int) -> None:
        if self.late_flush:
            self._late.append(self._open[file])
        else:
            self._flush(*self._open[file])

    def _flush(self, path: str, inode: Inode) -> None:
        self.disk.step("sync", path)
        if "file" not in self.disk.forgets:
            inode.flush()

    def close(self, file: int) -> None:
        del self._open[file]

    def rename(self, old: Path, new: Path) -> None:
        self.disk.change("rename", str(old), {str(new): self.disk.names[str(old)]}, [str(old)])

    def remove(self, path: Path) -> None:
        if str(path) in self.disk.names:
            self.disk.change("remove", str(path), {}, [str(path)])

    def remove_folder(self, path: Path) -> None:
        for name in [name for name in self.disk.names if name == str(path) or name.startswith(f"{path}/")]:
            self.disk.change("remove", name, {}, [name])


class DiskVFS(apsw.VFS):
    """SQLite on such a disk; `disk` may be another one at each opening."""

    def __init__(self, name: str) -> None:
        super().__init__(name, base=None)
        self.disk = Disk()

    def xFullPathname(self, name: str) -> str:
        return name

    def xAccess(self, pathname: str, flags: int) -> bool:
        return pathname in self.disk.names

    def xDelete(self, filename: str, syncdir: bool) -> None:
        if filename not in self.disk.names:
            raise apsw.IOError("no such file")
        self.disk.change("remove", filename, {}, [filename])
        if syncdir:
            self.disk.sync_folder(_parent(filename))

    def xGetLastError(self) -> tuple[int, str]:
        return 0, ""

    def excepthook(self, *_error: object) -> None:
        """What SQLite does not care about is not told."""

    def xOpen(self, name: Any, flags: list[int]) -> DiskFile:
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        return DiskFile(self.disk, path, flags)


class DiskFile:
    """A file of SQLite, as its layer for Unix treats it: a new log is flushed together with its folder."""

    def __init__(self, disk: Disk, path: str, flags: list[int]) -> None:
        self.disk, self.path = disk, path
        inode = disk.names.get(path)
        self.flush_folder = inode is None and bool(flags[0] & apsw.SQLITE_OPEN_WAL)
        if inode is None:
            if not flags[0] & apsw.SQLITE_OPEN_CREATE:
                raise apsw.CantOpenError(path)
            inode = Inode()
            disk.change("create", path, {path: inode}, [])
        self.inode = inode
        flags[1] = flags[0]

    def xRead(self, amount: int, offset: int) -> bytes:
        return bytes(self.inode.now[offset : offset + amount])

    def xWrite(self, data: bytes, offset: int) -> None:
        self.disk.step("write", self.path)
        self.inode.write(offset, bytes(data))

    def xTruncate(self, size: int) -> None:
        self.disk.step("truncate", self.path)
        self.inode.resize(size)

    def xSync(self, flags: int) -> None:
        self.disk.step("sync", self.path)
        if self.disk.sync_fails:
            self.disk.sync_fails = False
            self.inode.writes.clear()  # as a kernel does: what it could not write it counts as written
            raise apsw.IOError("injected")
        self.inode.flush()
        if self.flush_folder:
            self.disk.sync_folder(_parent(self.path))
            self.flush_folder = False

    def xFileSize(self) -> int:
        return len(self.inode.now)

    def xLock(self, level: int) -> None:
        pass

    def xUnlock(self, level: int) -> None:
        pass

    def xCheckReservedLock(self) -> bool:
        return False

    def xFileControl(self, op: int, pointer: int) -> bool:
        return False

    def xSectorSize(self) -> int:
        return 4096

    def xDeviceCharacteristics(self) -> int:
        return apsw.SQLITE_IOCAP_POWERSAFE_OVERWRITE

    def xClose(self) -> None:
        pass

    def excepthook(self, *_error: object) -> None:
        pass
