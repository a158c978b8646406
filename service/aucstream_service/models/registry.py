"""The models of one data directory by name, whether they serve, and the journal that records them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aucstream_service.errors.exceptions import JournalUnavailable, ModelFaulted, ModelNotFound, NotReady
from aucstream_service.journal.commands import Command, Outcome
from aucstream_service.journal.journal import Journal
from aucstream_service.journal.writer import Writer
from aucstream_service.models.model import Model
from aucstream_service.models.snapshots import Archive
from aucstream_service.settings import Settings
from aucstream_service.storage.directory import DataDirectory


@dataclass(frozen=True, slots=True)
class SetAside:
    """A model that could not be recovered; its files are left as they are."""

    number: int
    name: str
    reason: str


class ModelRegistry:
    """Finds models, and says why one, or none, serves.

    Parameters
    ----------
    settings : Settings
    directory : DataDirectory, optional
        Default: that of the settings.
    clock : callable, optional
        Seconds since 1970.
    """

    def __init__(
        self, settings: Settings, directory: DataDirectory | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.directory = directory or DataDirectory(settings.data_dir, expect_existing=settings.expect_existing)
        files = self.directory.files
        self.archive = Archive(self.directory.snapshots, settings.snapshot_keep, files)
        self.journal = Journal(
            self.directory.journal,
            settings.durability,
            max_ids=settings.max_ids,
            id_seconds=settings.id_seconds,
            files=files,
            vfs=self.directory.vfs,
        )
        self.models: dict[str, Model] = {}
        self.set_aside: dict[str, SetAside] = {}  # by name: what could not be recovered
        self.ready = False
        self.draining = False
        self.replayed = 0
        self.to_replay = 0
        self.to_load = 0
        self.writer: Writer | None = None  # from the end of recovery until the service stops

    def model(self, name: str) -> Model:
        """Return a model that serves, or raise."""
        if not self.ready:
            raise self.not_ready()
        model = self.models.get(name)
        if model is not None and model.fault is None:
            return model
        self.require_recovered(name)
        if model is None:
            raise ModelNotFound(name, self.models)
        raise ModelFaulted("model", "a model without a fault; its journal is kept, a restart tries again", name)

    def require_recovered(self, name: str) -> None:
        """Raise ModelFaulted if a model of this name was set aside at start."""
        if name in self.set_aside:
            raise ModelFaulted(
                "model",
                "one that could be recovered: it was set aside at start, its files are kept, the log has the reason, "
                "`aucstream fsck` checks the data directory, DELETE removes the model",
                name,
            )

    @property
    def faulted(self) -> list[str]:
        """The names of models that do not serve."""
        return sorted([*self.set_aside, *(model.name for model in self.models.values() if model.fault is not None)])

    # ---- readiness -------------------------------------------------------------------------------

    @property
    def journal_failed(self) -> bool:
        """Whether a write or flush failed and the journal was not opened again since."""
        return self.writer is not None and self.writer.failed is not None

    @property
    def is_ready(self) -> bool:
        """Whether work may be sent: replayed, warm, journal writable, not stopping."""
        return self.ready and not self.draining and not self.journal_failed

    def progress(self) -> dict[str, Any]:
        """Return the answer of /readyz: the conditions that are not met, and how far the start is."""
        conditions = {
            "replayed": self.ready,
            "warm": self.ready,
            "journal": not self.journal_failed,
            "running": not self.draining,
        }
        return {
            "missing": [name for name, is_met in conditions.items() if not is_met],
            "faulted": self.faulted,
            "models": {"ready": len(self.models), "of": max(self.to_load, len(self.models))},
            "replay": {"rows": self.replayed, "of": self.to_replay},
        }

    def not_ready(self) -> NotReady:
        """Return the error that says why nothing is served."""
        expected = f"to be ready, it is replaying its journal ({self.replayed} of {self.to_replay} rows so far)"
        if self.draining:
            expected = "to be running, it is stopping"
        return NotReady("service", expected, members=self.progress())

    def journal_error(self) -> JournalUnavailable:
        """Return the error of a journal that failed (the reason is in the log, not in answers)."""
        return JournalUnavailable(
            "journal",
            "a journal that can be written; scoring goes on, learning when the disk works again",
            members=self.progress(),
            headers={"Retry-After": "1" if self.writer is None else str(self.writer.retry_after)},
        )

    @property
    def why_not_learning(self) -> str | None:
        """What keeps a service that scores from learning; None where it learns."""
        if self.journal_failed:
            return "journal: a write or a flush failed; it is opened again by itself when the disk works"
        return None

    def require_running(self) -> None:
        """Raise NotReady or JournalUnavailable unless the journal can be written."""
        if not self.ready:
            raise self.not_ready()
        if self.journal_failed:
            raise self.journal_error()

    def oldest_ids(self) -> dict[int, float]:
        """Return when the oldest id of each model, by number, was remembered; empty before recovery has ended."""
        return {} if self.writer is None else dict(self.journal.ids.oldest_at)

    # ---- journal ---------------------------------------------------------------------------------

    async def submit(self, command: Command) -> Outcome:
        """Have the journal carry out a command; raises NotReady, JournalUnavailable."""
        if self.writer is None:
            raise self.not_ready()
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.writer.submit(command, future)
        return await future
