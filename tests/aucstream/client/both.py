"""Both clients with one face: the asynchronous one is run step by step on a loop of its own."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterable
from typing import Any

from aucstream.client import AsyncClient, Client


class Blocking:
    """AsyncClient, to be called like Client; rows are handed to it asynchronously."""

    def __init__(self, *told: Any, **options: Any) -> None:
        self._client = AsyncClient(*told, **options)
        self._loop = asyncio.new_event_loop()

    def __enter__(self) -> Blocking:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._loop.run_until_complete(self._client.close())
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def __repr__(self) -> str:
        return repr(self._client)

    def __getattr__(self, name: str) -> Any:
        called = getattr(self._client, name)

        def call(*told: Any, **options: Any) -> Any:
            if name.endswith(("_many", "_batches")):
                told = (told[0], asynchronous(told[1]), *told[2:])
            found = called(*told, **options)
            if inspect.isawaitable(found):
                return self._loop.run_until_complete(found)  # type: ignore[arg-type]
            return self._steps(found)

        return call

    def _steps(self, found: Any) -> Any:
        try:
            while True:
                try:
                    value = self._loop.run_until_complete(anext(found))
                except StopAsyncIteration:
                    return
                yield value
        finally:
            self._loop.run_until_complete(found.aclose())


async def asynchronous(rows: Iterable[Any]) -> AsyncIterator[Any]:
    for row in rows:
        await asyncio.sleep(0)
        yield row


BOTH = [Client, Blocking]
