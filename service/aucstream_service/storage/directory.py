"""A data directory and its one owner.

DIR/lock                          flock, holds the owner's process number
DIR/journal.sqlite3 (+ -wal)      the durable truth
DIR/snapshots/<model>/<seq>.safetensors
DIR/keys.json                     API keys, hashed (keys.py)
DIR/spool/                        answers too large for memory; emptied at start
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from pathlib import Path

from aucstream_service.errors.exceptions import DirectoryInUse, StartRefused
from aucstream_service.storage.files import PRIVATE, Files


class DataDirectory:
    """Owns a directory from `acquire` to `release`; a second owner is refused.

    `files` and `vfs` (the name of one of SQLite's virtual file systems) are how its files are reached.
    """

    def __init__(
        self, path: Path, *, expect_existing: bool = False, files: Files | None = None, vfs: str | None = None
    ) -> None:
        self.path = path.expanduser().absolute()
        self.expect_existing = expect_existing
        self.files = files or Files()
        self.vfs = vfs
        self._lock: int | None = None

    @property
    def journal(self) -> Path:
        """The journal's file."""
        return self.path / "journal.sqlite3"

    @property
    def snapshots(self) -> Path:
        """The folder of snapshots, one folder a model."""
        return self.path / "snapshots"

    @property
    def keys(self) -> Path:
        """The file of API keys."""
        return self.path / "keys.json"

    @property
    def spool(self) -> Path:
        """The folder for answers too large for memory."""
        return self.path / "spool"

    def acquire(self) -> None:
        """Create the directory if need be and become its owner, or raise StartRefused."""
        if self._lock is not None:
            return
        if self.expect_existing and not self.journal.exists():
            raise StartRefused(
                f"a journal in {self.path}, found none, and --expect-existing was said: is the right volume mounted?"
            )
        try:
            if not self.path.exists():
                self._make()
            lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StartRefused(f"a writable data directory, got {self.path}: {error.strerror}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(lock)
            raise DirectoryInUse(
                f"to own {self.path}, but process {owner} owns it: one process owns a data directory"
            ) from error
        self._lock = lock
        with contextlib.suppress(OSError):  # the number is for a message; a full disk has no room for it
            os.ftruncate(lock, 0)
            os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        try:
            for folder in (self.snapshots, self.spool):
                folder.mkdir(mode=PRIVATE, exist_ok=True)
            self._empty_spool()  # and keep it: a full disk may have no room to make it again
            self.files.sync_folder(self.path)
        except OSError as error:
            self.release()
            raise StartRefused(f"a writable data directory, got {self.path}: {error.strerror}") from error

    def _empty_spool(self) -> None:
        """Remove what the process before left in the spool."""
        self.spool.chmod(PRIVATE)
        for path in self.spool.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def _make(self) -> None:
        """Create the directory so that its name, too, survives a loss of power."""
        missing = [self.path]
        while not missing[-1].parent.exists():
            missing.append(missing[-1].parent)
        self.path.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        for path in reversed(missing):
            self.files.sync_folder(path.parent)

    def release(self) -> None:
        """Give the directory up (the file stays: removing it would race with the next owner)."""
        if self._lock is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._lock, 0)
            os.close(self._lock)
            self._lock = None
