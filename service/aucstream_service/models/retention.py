"""Raw records that are removed, on request or by age: never before a snapshot holds what was learned from them."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from aucstream.errors import AucstreamError
from aucstream_service.errors.exceptions import JournalUnavailable
from aucstream_service.journal.commands import Erase, Erased, Retain, Retained
from aucstream_service.models.model import Model

if TYPE_CHECKING:
    from aucstream_service.models.host import ModelHost

log = logging.getLogger("aucstream")

RETAIN_STEP_SECONDS = 60.0  # between two looks at what is kept too long


class Retention:
    """Removes raw records of the models of a host."""

    def __init__(self, host: ModelHost) -> None:
        self._host = host

    async def erase(self, name: str, id_: str) -> int:
        """Remove the raw record of an example from journal and pending; what was learned stays.

        A record that a replay would need is removed after a snapshot that holds what was learned from it.
        """
        self._host.require_running()
        model = self._host.model(name)
        covered = max(model.snapshot_seq, 0)
        while True:
            erased = await self._host.submit(Erase(model.number, id_, covered, self._host.clock()))
            assert isinstance(erased, Erased)
            model.pending = erased.pending
            if not erased.uncovered:
                return erased.removed
            while model.seq < erased.uncovered and model.fault is None:
                await asyncio.sleep(0.005)
            covered = await self._covered(self._host.model(name))
            if covered < erased.uncovered:
                raise JournalUnavailable(
                    "snapshot", "one that can be written: what was learned from the record would be lost with it"
                )

    async def _covered(self, model: Model) -> int:
        """Take a snapshot, read it again, and return its seq: 0 if that cannot be done."""
        if model.seq > model.snapshot_seq:
            await self._host.snapshot(model)
        seq = model.snapshot_seq
        try:
            await asyncio.to_thread(self._host.archive.read, model.number, seq)
        except (OSError, AucstreamError) as error:
            log.error("model %s: the snapshot at seq %d cannot be read again: %s", model.name, seq, error)
            return 0
        return seq

    async def go_on(self, seconds: float) -> None:
        """Call `retain` now and then, without end."""
        while True:
            await asyncio.sleep(min(RETAIN_STEP_SECONDS, seconds / 4))
            try:
                await self.retain(seconds)
            except AucstreamError as error:
                log.error("retention: %s", error)

    async def retain(self, seconds: float) -> None:
        """Remove the raw events that are older than this; a snapshot holds what was learned from them."""
        if not self._host.is_ready:
            return
        before = self._host.clock() - seconds
        models = {model.number: model for model in self._host.models.values() if model.fault is None}
        found = await self._host.submit(
            Retain(before, {number: max(m.snapshot_seq, 0) for number, m in models.items()})
        )
        assert isinstance(found, Retained)
        for number in found.uncovered:
            model = models[number]
            covered = await self._covered(model)
            if not model.dropped and not self._host.draining:
                await self._host.submit(Retain(before, {number: covered}))
