"""Snapshot files of the models: written so that a crash leaves the old or the new one, never half.

SNAPSHOTS/<model>/<seq>.safetensors; a file that cannot be read is renamed to `*.damaged` and the
one before it is taken, with a longer replay.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from aucstream.errors import BadSnapshot, NewerSnapshot
from aucstream.snapshot import unpack
from aucstream_service.storage.files import Files

log = logging.getLogger("aucstream")

SUFFIX = ".safetensors"
State = tuple[dict[str, NDArray[Any]], dict[str, Any]]


class Archive:
    """The snapshot folder of one data directory."""

    def __init__(self, folder: Path, keep: int, files: Files | None = None) -> None:
        self.folder = folder
        self.keep = keep
        self.files = files or Files()

    def of(self, model: int) -> Path:
        """Return the folder of a model."""
        return self.folder / str(model)

    def path(self, model: int, seq: int) -> Path:
        """Return the file of a snapshot."""
        return self.of(model) / f"{seq}{SUFFIX}"

    def seqs(self, model: int) -> list[int]:
        """Return the seq of each readable-looking snapshot, oldest first."""
        stems = [name.removesuffix(SUFFIX) for name in self.files.names(self.of(model)) if name.endswith(SUFFIX)]
        return sorted(int(stem) for stem in stems if stem.isdigit())

    def written_at(self, model: int, seq: int) -> float | None:
        """Return when a snapshot was written; None: no such snapshot exists."""
        return self.files.modified(self.path(model, seq))

    def write(self, model: int, seq: int, data: bytes) -> int | None:
        """Write one snapshot and drop the oldest ones.

        Returns
        -------
        int or None
            The seq up to which the journal is not needed any more: that of the oldest kept
            snapshot once `keep` of them exist.

        Raises
        ------
        OSError
            Nothing is left of the new snapshot: after a failed flush nobody knows what a file holds,
            so a later snapshot is another file.
        """
        files = self.files
        folder = self.of(model)
        target, temporary = self.path(model, seq), folder / f"{seq}.tmp"
        try:
            if not files.exists(folder):
                files.make_folder(folder)
                files.sync_folder(self.folder)
            descriptor = files.create(temporary)
            try:
                view = memoryview(data)
                while view:
                    view = view[files.write(descriptor, view) :]
                files.sync(descriptor)
            finally:
                files.close(descriptor)
            files.rename(temporary, target)
            files.sync_folder(folder)
        except OSError:
            for path in (temporary, target):
                with contextlib.suppress(OSError):
                    files.remove(path)
            raise
        seqs = self.seqs(model)
        for old in seqs[: -self.keep]:
            with contextlib.suppress(OSError):
                files.remove(self.path(model, old))
        return seqs[-self.keep] if len(seqs) >= self.keep else None

    def data(self, model: int, seq: int) -> bytes:
        """Return the bytes of a snapshot, or raise OSError."""
        return self.files.read(self.path(model, seq))

    def listed(self, model: int) -> list[tuple[int, float, int]]:
        """Return (seq, when it was written, bytes) of each snapshot, the newest first."""
        entries = []
        for seq in reversed(self.seqs(model)):
            written_at = self.written_at(model, seq)
            if written_at is not None:  # else it was removed just now
                entries.append((seq, written_at, self.files.size(self.path(model, seq))))
        return entries

    def read(self, model: int, seq: int) -> State:
        """Return the state in a snapshot, or raise BadSnapshot, NewerSnapshot or OSError."""
        return unpack(self.files.read(self.path(model, seq)))

    def newest(self, model: int) -> Iterator[tuple[int, State]]:
        """Yield (seq, state) of the readable snapshots, newest first; set damaged ones aside.

        Raises
        ------
        NewerSnapshot
            Made by a newer version: falling back would silently lose what that version learned.
        """
        for name in self.files.names(self.of(model)):
            if name.endswith(".tmp"):
                self.files.remove(self.of(model) / name)
        for seq in reversed(self.seqs(model)):
            try:
                yield seq, self.read(model, seq)
            except NewerSnapshot:
                raise
            except (BadSnapshot, OSError) as error:
                self.set_aside(model, seq, error)

    def set_aside(self, model: int, seq: int, error: Exception) -> None:
        """Rename a snapshot that cannot be used."""
        path = self.path(model, seq)
        log.error("snapshot %s: %s; set aside, falling back to the one before", path, error)
        self.files.rename(path, path.with_suffix(".damaged"))

    def remove(self, model: int) -> None:
        """Remove all snapshots of a dropped model."""
        self.files.remove_folder(self.of(model))

    def remove_others(self, models: set[int]) -> None:
        """Remove folders of models that are not in the registry (a crash between the two steps)."""
        for name in self.files.names(self.folder):
            if name.isdigit() and int(name) not in models:
                self.files.remove_folder(self.folder / name)
