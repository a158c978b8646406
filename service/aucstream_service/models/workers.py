"""Threads for what would hold the event loop too long: long steps, solves, scores, copies and listings of a model.

While a thread works on a model, the model is away: the loop touches nothing of it but what was read before, and who
needs it waits. So the order of what happens to a model is the same as on the loop, and other models go on.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from aucstream_service.models.model import Model

T = TypeVar("T")
LONG = 1 << 16  # bytes of rows that are not decoded, checked or scored on the loop: a millisecond or more


class Workers:
    """A few threads, so that a long step of one model does not hold the steps of the others."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max(4, os.cpu_count() or 1), "aucstream-model")

    async def run(self, model: Model, work: Callable[[], T]) -> T:
        """Do work on a model's state in a thread, as soon as nobody else does; return its result.

        The model stays away until the work is done, even where nobody waits for the result any more.
        """
        await model.free()
        model.leave()
        future = asyncio.get_running_loop().run_in_executor(self._pool, work)
        future.add_done_callback(partial(_return, model))
        return await asyncio.shield(future)

    async def run_if_long(self, model: Model, work: Callable[[], T], size: int) -> T:
        """Do work on a model's state as soon as nobody else does: here, or where it has many bytes in a thread."""
        if size > LONG:
            return await self.run(model, work)
        await model.free()
        return work()

    async def apply(self, model: Model) -> tuple[int, int]:
        """Apply the next slice of what waits as `Model.apply_some` does, learning in a thread.

        Where this is cancelled the model stays away: the service stops, and what is not applied is replayed.
        """
        await model.free()
        model.leave()
        loop = asyncio.get_running_loop()
        steps = model.steps()
        try:
            work = next(steps)
            while True:
                work = steps.send(await loop.run_in_executor(self._pool, work))
        except StopIteration as end:
            applied: tuple[int, int] = end.value
        except Exception:
            model.come_back()
            raise
        model.come_back()
        return applied

    def stop(self) -> None:
        """Take no more work."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _return(model: Model, _: asyncio.Future[Any]) -> None:
    model.come_back()
