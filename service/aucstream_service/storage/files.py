"""The operations on files that a snapshot's safety depends on, so that tests may fail, count or forget them."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

SCANT_BYTES = 1 << 20
PRIVATE = 0o700  # of a folder that holds raw features or keys: for this user alone


class Files:
    """Plain files of the operating system."""

    def make_folder(self, path: Path) -> None:
        """Create a folder, and those above it, unless it is there."""
        path.mkdir(parents=True, exist_ok=True)

    def sync_folder(self, path: Path) -> None:
        """Make names in a folder durable: what was created, renamed or removed there."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def names(self, path: Path) -> list[str]:
        """Return the names in a folder, none if it is not there."""
        try:
            return os.listdir(path)
        except FileNotFoundError:
            return []

    def exists(self, path: Path) -> bool:
        """Return whether a file or folder is there."""
        return path.exists()

    def read(self, path: Path) -> bytes:
        """Return what a file holds."""
        return path.read_bytes()

    def modified(self, path: Path) -> float | None:
        """Return when a file was written, None where there is none."""
        try:
            return path.stat().st_mtime
        except OSError:
            return None

    def size(self, path: Path) -> int:
        """Return the bytes of a file, 0 where there is none."""
        try:
            return path.stat().st_size
        except OSError:
            return 0

    def is_scant(self, path: Path) -> bool:
        """Return whether the disk of a folder has little room left, as far as it says so."""
        try:
            disk = os.statvfs(path)
        except OSError:
            return False
        return disk.f_bavail * disk.f_frsize < SCANT_BYTES

    def create(self, path: Path) -> int:
        """Open an empty file to write."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)

    def write(self, file: int, data: memoryview) -> int:
        """Write some of `data`; return how much."""
        return os.write(file, data)

    def sync(self, file: int) -> None:
        """Make what was written durable."""
        os.fsync(file)

    def close(self, file: int) -> None:
        """Close a file."""
        os.close(file)

    def rename(self, old: Path, new: Path) -> None:
        """Rename a file; a file of that name is replaced."""
        old.replace(new)

    def remove(self, path: Path) -> None:
        """Remove a file, if it is there."""
        path.unlink(missing_ok=True)

    def remove_folder(self, path: Path) -> None:
        """Remove a folder and all that is in it, as far as that can be done."""
        with contextlib.suppress(OSError):
            shutil.rmtree(path)
