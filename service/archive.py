"""Snapshot files of the models: written so that a crash leaves the old or the new one, never half.

SNAPSHOTS/<model>/<seq>.safetensors; a file that cannot be read is renamed to `*.damaged` and the
one before it is taken, with a longer replay.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from aucstream.errors import BadSnapshot, NewerSnapshot
from aucstream.snapshot import unpack

log = logging.getLogger("aucstream")

SUFFIX = ".safetensors"
State = tuple[dict[str, NDArray[Any]], dict[str, Any]]


class Archive:
    """The snapshot folder of one data directory."""

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder = folder
        self.keep = keep

    def _of(self, model: int) -> Path:
        return self.folder / str(model)

    def seqs(self, model: int) -> list[int]:
        """Return the seq of each readable-looking snapshot, oldest first."""
        return sorted(int(path.stem) for path in self._of(model).glob(f"*{SUFFIX}") if path.stem.isdigit())

    def written_at(self, model: int, seq: int) -> float | None:
        """Return when a snapshot was written, None where there is none."""
        try:
            return (self._of(model) / f"{seq}{SUFFIX}").stat().st_mtime
        except OSError:
            return None

    def write(self, model: int, seq: int, data: bytes) -> int | None:
        """Write one snapshot and drop the oldest ones.

        Returns
        -------
        int or None
            The seq up to which the journal is not needed any more: that of the oldest kept
            snapshot once `keep` of them are there.
        """
        folder = self._of(model)
        if not folder.exists():
            folder.mkdir(parents=True)
            _sync_folder(self.folder)
        temporary = folder / f"{seq}.tmp"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.rename(folder / f"{seq}{SUFFIX}")
        _sync_folder(folder)
        seqs = self.seqs(model)
        for old in seqs[: -self.keep]:
            (folder / f"{old}{SUFFIX}").unlink(missing_ok=True)
        kept = seqs[-self.keep :]
        return kept[0] if len(kept) == self.keep else None

    def newest(self, model: int) -> Iterator[tuple[int, State]]:
        """Yield (seq, state) of the readable snapshots, newest first; set damaged ones aside.

        Raises
        ------
        NewerSnapshot
            Made by a newer version: falling back would silently lose what that version learned.
        """
        folder = self._of(model)
        for temporary in folder.glob("*.tmp"):
            temporary.unlink(missing_ok=True)
        for seq in reversed(self.seqs(model)):
            path = folder / f"{seq}{SUFFIX}"
            try:
                yield seq, unpack(path.read_bytes())
            except NewerSnapshot:
                raise
            except (BadSnapshot, OSError) as error:
                self.set_aside(model, seq, error)

    def set_aside(self, model: int, seq: int, error: Exception) -> None:
        """Rename a snapshot that cannot be used."""
        path = self._of(model) / f"{seq}{SUFFIX}"
        log.error("snapshot %s: %s; set aside, falling back to the one before", path, error)
        path.replace(path.with_suffix(".damaged"))

    def remove(self, model: int) -> None:
        """Remove all snapshots of a dropped model."""
        shutil.rmtree(self._of(model), ignore_errors=True)

    def remove_others(self, models: set[int]) -> None:
        """Remove folders of models that are not in the registry (a crash between the two steps)."""
        for folder in self.folder.iterdir():
            if folder.name.isdigit() and int(folder.name) not in models:
                shutil.rmtree(folder, ignore_errors=True)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
