"""Snapshots of models that serve: taken and written in threads, then the journal is pruned."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any

from aucstream_service.errors.exceptions import JournalUnavailable
from aucstream_service.journal.commands import Prune, Release
from aucstream_service.models.model import Model, packed
from aucstream_service.models.registry import ModelRegistry
from aucstream_service.models.snapshots import State

log = logging.getLogger("aucstream")


class Snapshotter:
    """Writes snapshots, one at a time."""

    def __init__(
        self,
        registry: ModelRegistry,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        state_of: Callable[[Model], Coroutine[Any, Any, tuple[int, State]]],
    ) -> None:
        self._registry = registry
        self._spawn = spawn
        self._state_of = state_of
        self._lock = asyncio.Lock()
        self._models: set[int] = set()  # whose snapshot in the background is not written yet

    @property
    def busy(self) -> bool:
        """Whether a snapshot in the background is not written yet."""
        return bool(self._models)

    def write_when_due(self, model: Model) -> None:
        """Write a snapshot in the background if the model has learned enough since the last."""
        registry = self._registry
        if model.seq - model.snapshot_tried < registry.settings.snapshot_every_rows or model.number in self._models:
            return
        if not (registry.draining or registry.journal_failed or model.dropped):
            self._models.add(model.number)
            self._spawn(self._write_in_background(model))

    async def _write_in_background(self, model: Model) -> None:
        try:
            await self.write(model)
        finally:
            self._models.discard(model.number)

    async def write(self, model: Model) -> None:
        """Write a snapshot of a model and prune its events; what fails is logged and counted."""
        registry = self._registry
        async with self._lock:
            if model.dropped:
                return
            seq, state = await self._state_of(model)
            model.snapshot_tried = seq  # where it fails: again after as many rows, not at every row
            try:
                if model.skipped:  # a start from this snapshot sees their events no more: first they must be free
                    await registry.submit(Release(model.number, ()))
                prune = await asyncio.to_thread(lambda: registry.archive.write(model.number, seq, packed(state)))
            except (OSError, JournalUnavailable) as error:
                log.error("model %s: no snapshot at seq %d: %s", model.name, seq, error)
                model.snapshot_failures += 1
                return
            model.snapshot_seq = seq
            model.snapshot_at = time.time()
            if model.dropped:
                await asyncio.to_thread(registry.archive.remove, model.number)
            elif prune is not None and not registry.journal_failed and not model.exports:  # else the next one prunes
                try:
                    await registry.submit(Prune(model.number, prune))
                except JournalUnavailable:
                    log.error("model %s: the journal could not be pruned", model.name)
