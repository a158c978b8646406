"""Both clients with one face: the asynchronous one is run step by step on a loop of its own."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterable
from typing import Any

from aucstream.client import AsyncClient, Client


class Blocking:
    """AsyncClient, to be called like Client; rows are handed to it asynchronously."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._client = AsyncClient(*arguments, **options)
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

        def call(*arguments: Any, **options: Any) -> Any:
            if name.endswith(("_many", "_batches")):
                arguments = (arguments[0], asynchronous(arguments[1]), *arguments[2:])
            result = called(*arguments, **options)
            if inspect.isawaitable(result):
                return self._loop.run_until_complete(result)  # type: ignore[arg-type]
            return self._steps(result)

        return call

    def _steps(self, iterator: Any) -> Any:
        try:
            while True:
                try:
                    value = self._loop.run_until_complete(anext(iterator))
                except StopAsyncIteration:
                    return
                yield value
        finally:
            self._loop.run_until_complete(iterator.aclose())


async def asynchronous(rows: Iterable[Any]) -> AsyncIterator[Any]:
    for row in rows:
        await asyncio.sleep(0)
        yield row


BOTH = [Client, Blocking]
