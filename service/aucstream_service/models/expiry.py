"""Predictions that wait too long for their label expire, in steps of the journal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aucstream_service.journal.commands import Sweep
from aucstream_service.journal.ids import STEP_BYTES, STEP_ROWS
from aucstream_service.models.registry import ModelRegistry

SWEEP_SECONDS = 1.0  # between two looks at what is due


class Expiry:
    """Submits sweeps to the journal, one at a time; it is the token that comes back with the outcome.

    Parameters
    ----------
    registry : ModelRegistry
    has_room : callable
        Returns whether so many rows and bytes may be queued.
    """

    def __init__(self, registry: ModelRegistry, has_room: Callable[[int, int], bool]) -> None:
        self._registry = registry
        self._has_room = has_room
        self.sweeping = False

    async def run(self) -> None:
        """Sweep now and then, without end."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self.sweep()

    def sweep(self) -> None:
        """Let what is due expire: one step."""
        writer = self._registry.writer
        if writer is None or writer.failed is not None or self._registry.draining or self.sweeping:
            return
        if self._has_room(STEP_ROWS, STEP_BYTES):
            self.sweeping = True
            writer.submit(Sweep(self._registry.clock()), self)
