"""Real files whose n-th operation fails, for SQLite and for snapshots."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import apsw

from aucstream_service.storage.files import Files


class Faults:
    """Counts operations; one of them fails, or two.

    A file that failed must not be written again: a log must be replaced, a database file must be opened anew (its pages
    are all in the log).
    """

    def __init__(self) -> None:
        self.count = 0
        self.at = 0  # 0: none fails
        self.second = 0
        self.full = False  # writes fail as on a full disk
        self.failed: tuple[str, str] | None = None
        self.bad: str | None = None  # the file whose write or flush failed
        self.again: list[str] = []

    def fails(self, what: str, path: str) -> bool:
        if what in ("create", "remove") and self.bad == path:
            self.bad = None  # another file of that name, or none: the one that failed is no more
        if what in ("write", "sync") and self.bad == path:
            self.again.append(f"{what} {path} after {self.failed}")
        self.count += 1
        if self.count in (self.at, self.second):
            self.failed = (what, path)
            self.bad = path if what in ("write", "sync") else None
            return True
        return False


class FaultyFiles(Files):
    """Snapshots."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self._paths: dict[int, str] = {}

    def _step(self, what: str, path: object) -> None:
        if self.faults.fails(what, str(path)):
            raise OSError(errno.EIO if self.faults.at % 2 else errno.ENOSPC, "injected", str(path))

    def make_folder(self, path: Path) -> None:
        self._step("mkdir", path)
        super().make_folder(path)

    def sync_folder(self, path: Path) -> None:
        self._step("sync folder", path)
        super().sync_folder(path)

    def create(self, path: Path) -> int:
        self._step("create", path)
        file = super().create(path)
        self._paths[file] = str(path)
        return file

    def write(self, file: int, data: memoryview) -> int:
        if self.faults.full:
            raise OSError(errno.ENOSPC, "injected", self._paths[file])
        self._step("write", self._paths[file])
        return super().write(file, data)

    def sync(self, file: int) -> None:
        self._step("sync", self._paths[file])
        super().sync(file)

    def rename(self, old: Path, new: Path) -> None:
        self._step("rename", old)
        super().rename(old, new)
        if self.faults.bad == str(new):
            self.faults.bad = None

    def remove(self, path: Path) -> None:
        if path.exists():
            self._step("remove", path)
        super().remove(path)


class FaultyVFS(apsw.VFS):
    """SQLite; `faults` may be others at each opening."""

    def __init__(self, name: str) -> None:
        super().__init__(name, base="unix")
        self.faults = Faults()

    def xOpen(self, name: Any, flags: list[int]) -> FaultyFile:
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        if self.faults.bad == path and flags[0] & apsw.SQLITE_OPEN_MAIN_DB:
            self.faults.bad = None
        return FaultyFile(self.faults, path, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        _step(self.faults, "remove", filename)
        super().xDelete(filename, syncdir)


class FaultyFile(apsw.VFSFile):
    def __init__(self, faults: Faults, path: str, name: Any, flags: list[int]) -> None:
        super().__init__("unix", name, flags)
        self.faults, self.path = faults, path

    def xWrite(self, data: bytes, offset: int) -> None:
        _step(self.faults, "write", self.path)
        super().xWrite(data, offset)

    def xTruncate(self, size: int) -> None:
        _step(self.faults, "truncate", self.path)
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:
        _step(self.faults, "sync", self.path)
        super().xSync(flags)


_CODES = {
    "write": apsw.SQLITE_IOERR_WRITE,
    "truncate": apsw.SQLITE_IOERR_TRUNCATE,
    "sync": apsw.SQLITE_IOERR_FSYNC,
    "remove": apsw.SQLITE_IOERR_DELETE,
}


def _step(faults: Faults, what: str, path: str) -> None:
    if what == "write" and faults.full:
        raise apsw.FullError("injected")
    if not faults.fails(what, path):
        return
    if what == "write" and faults.at % 2 == 0:
        raise apsw.FullError("injected")
    error = apsw.IOError("injected")
    error.extendedresult = _CODES[what]
    raise error
