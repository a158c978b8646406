"""Raw records that are removed, on request or by age: never before a snapshot holds what was learned from them."""

from __future__ import annotations

import asyncio
import logging

from aucstream.errors import AucstreamError
from aucstream_service.errors.exceptions import JournalUnavailable
from aucstream_service.journal.commands import Erase, EraseOutcome, Retain, RetainOutcome
from aucstream_service.models.model import Model
from aucstream_service.models.registry import ModelRegistry
from aucstream_service.models.snapshotter import Snapshotter

log = logging.getLogger("aucstream")

RETAIN_STEP_SECONDS = 60.0  # between two looks at what is kept too long


class Retention:
    """Removes raw records of models."""

    def __init__(self, registry: ModelRegistry, snapshotter: Snapshotter) -> None:
        self._registry = registry
        self._snapshotter = snapshotter

    async def erase(self, name: str, id_: str) -> int:
        """Remove the raw record of an example from journal and pending; what was learned stays.

        A record that a replay would need is removed after a snapshot that holds what was learned from it.
        """
        self._registry.require_running()
        model = self._registry.model(name)
        covered = max(model.snapshot_seq, 0)
        while True:
            outcome = await self._registry.submit(Erase(model.number, id_, covered, self._registry.clock()))
            assert isinstance(outcome, EraseOutcome)
            model.pending = outcome.pending
            if not outcome.uncovered:
                return outcome.removed
            while model.seq < outcome.uncovered and model.fault is None:
                await asyncio.sleep(0.005)
            covered = await self._covered(self._registry.model(name))
            if covered < outcome.uncovered:
                raise JournalUnavailable(
                    "snapshot", "one that can be written: what was learned from the record would be lost with it"
                )

    async def _covered(self, model: Model) -> int:
        """Take a snapshot, read it again, and return its seq: 0 if that cannot be done."""
        if model.seq > model.snapshot_seq:
            await self._snapshotter.write(model)
        seq = model.snapshot_seq
        try:
            await asyncio.to_thread(self._registry.archive.read, model.number, seq)
        except (OSError, AucstreamError) as error:
            log.error("model %s: the snapshot at seq %d cannot be read again: %s", model.name, seq, error)
            return 0
        return seq

    async def run(self, seconds: float) -> None:
        """Call `retain` now and then, without end."""
        while True:
            await asyncio.sleep(min(RETAIN_STEP_SECONDS, seconds / 4))
            try:
                await self.retain(seconds)
            except AucstreamError as error:
                log.error("retention: %s", error)

    async def retain(self, seconds: float) -> None:
        """Remove the raw events that are older than this; a snapshot holds what was learned from them."""
        if not self._registry.is_ready:
            return
        before = self._registry.clock() - seconds
        models = {model.number: model for model in self._registry.models.values() if model.fault is None}
        outcome = await self._registry.submit(
            Retain(before, {number: max(m.snapshot_seq, 0) for number, m in models.items()})
        )
        assert isinstance(outcome, RetainOutcome)
        for number in outcome.uncovered:
            model = models[number]
            covered = await self._covered(model)
            if not model.dropped and not self._registry.draining:
                await self._registry.submit(Retain(before, {number: covered}))
