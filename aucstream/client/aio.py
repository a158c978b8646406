"""The client for event loops."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, Unpack

import anyio
import httpx

from aucstream.answers import (
    Evaluation,
    ExportedEvent,
    ExportedPending,
    ModelEvent,
    Predicted,
    Prediction,
    Roc,
    RolledBack,
    Snapshot,
    Weight,
)
from aucstream.client.answers import Description, Learned, LearnedMany
from aucstream.client.calls import AUTO, DEFAULT_URL, Spec
from aucstream.client.flow import Effect, Emit, Flow, Read, Reply, Send, Sleep, Take, advance
from aucstream.client.many import BATCH_ROWS, Ids, OnError
from aucstream.client.retry import Retry
from aucstream.client.rows import Features, LabelRow, LearnRow, PredictRow
from aucstream.client.sync import Client
from aucstream.client.transport import LIMITS, Common, check_open, connection_failure, reply_of

T = TypeVar("T")
S = TypeVar("S")

Rows = Iterable[S] | AsyncIterable[S]


class AsyncClient(Common):
    """`Client` for asyncio: the same arguments and calls, to be awaited; iterators are asynchronous.

    Parameters
    ----------
    base_url, api_key, timeout, retry
        As of `Client`.
    http : httpx.AsyncClient, optional
        The caller's own client, which `close` leaves open.

    Notes
    -----
    A client belongs to one event loop, and may be used by many tasks of it. Rows may come from an asynchronous
    iterable or from a plain one, which is then read on the loop. An iterator that is left before its end is closed
    by `aclose()`: `async with contextlib.aclosing(client.events("m")) as events`.
    """

    def __init__(
        self,
        base_url: str = DEFAULT_URL,
        api_key: str | None = None,
        *,
        timeout: float = 60.0,
        retry: Retry | None = None,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        super().__init__(base_url, api_key, timeout, retry)
        self._own = http is None
        self._http = httpx.AsyncClient(limits=LIMITS) if http is None else http

    async def close(self) -> None:
        """Close all connections."""
        if self._own:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # ---- models ------------------------------------------------------------------------------

    async def create(
        self, model: str, algorithm: str = "psam", *, if_match: str | None = None, **spec: Unpack[Spec]
    ) -> Description:
        """As `Client.create`."""
        return await self._run(self._calls.create(model, algorithm, spec, if_match))

    def models(self, *, page: int = 100) -> AsyncIterator[Description]:
        """As `Client.models`."""
        return self._iterate(self._calls.models(page))

    async def describe(self, model: str) -> Description:
        """As `Client.describe`."""
        return await self._run(self._calls.describe(model))

    async def patch(self, model: str, changes: Mapping[str, Any], *, if_match: str | None = None) -> Description:
        """As `Client.patch`."""
        return await self._run(self._calls.patch(model, changes, if_match))

    async def reset_evaluation(self, model: str, *, if_match: str | None = None) -> Description:
        """As `Client.reset_evaluation`."""
        return await self._run(self._calls.reset_evaluation(model, if_match))

    async def rename(self, model: str, to: str, *, if_match: str | None = None) -> Description:
        """As `Client.rename`."""
        return await self._run(self._calls.rename(model, to, if_match))

    async def delete(self, model: str, *, if_match: str | None = None) -> None:
        """As `Client.delete`."""
        await self._run(self._calls.delete(model, if_match))

    # ---- one row -----------------------------------------------------------------------------

    async def learn_one(
        self, model: str, features: Features, label: object, *, weight: float = 1.0, id: str | None = AUTO
    ) -> Learned:
        """As `Client.learn_one`."""
        return await self._run(self._calls.learn_one(model, features, label, weight, id))

    async def predict_one(
        self, model: str, features: Features, *, id: str | None = None, explain: bool = False
    ) -> Predicted:
        """As `Client.predict_one`."""
        return await self._run(self._calls.predict_one(model, features, id, explain))

    async def label_one(self, model: str, id: str, label: object) -> Learned:
        """As `Client.label_one`."""
        return await self._run(self._calls.label_one(model, id, label))

    # ---- many rows ---------------------------------------------------------------------------

    async def learn_many(
        self,
        model: str,
        rows: Rows[LearnRow],
        *,
        ids: Ids = AUTO,
        on_error: OnError = "abort",
        batch_rows: int = BATCH_ROWS,
    ) -> LearnedMany:
        """As `Client.learn_many`."""
        return await self._run(self._calls.learn_many(model, ids, on_error, batch_rows, each=False), rows)

    def learn_batches(
        self,
        model: str,
        rows: Rows[LearnRow],
        *,
        ids: Ids = AUTO,
        on_error: OnError = "abort",
        batch_rows: int = BATCH_ROWS,
    ) -> AsyncIterator[LearnedMany]:
        """As `Client.learn_batches`."""
        return self._iterate(self._calls.learn_many(model, ids, on_error, batch_rows, each=True), rows)

    async def label_many(
        self, model: str, rows: Rows[LabelRow], *, on_error: OnError = "abort", batch_rows: int = BATCH_ROWS
    ) -> LearnedMany:
        """As `Client.label_many`."""
        return await self._run(self._calls.label_many(model, on_error, batch_rows, each=False), rows)

    def label_batches(
        self, model: str, rows: Rows[LabelRow], *, on_error: OnError = "abort", batch_rows: int = BATCH_ROWS
    ) -> AsyncIterator[LearnedMany]:
        """As `Client.label_batches`."""
        return self._iterate(self._calls.label_many(model, on_error, batch_rows, each=True), rows)

    def predict_many(
        self, model: str, rows: Rows[PredictRow], *, on_error: OnError = "abort", batch_rows: int = BATCH_ROWS
    ) -> AsyncIterator[Prediction]:
        """As `Client.predict_many`."""
        return self._iterate(self._calls.predict_many(model, on_error, batch_rows), rows)

    # ---- evaluation -------------------------------------------------------------------------

    async def evaluation(self, model: str, at: Sequence[str] = ()) -> Evaluation:
        """As `Client.evaluation`."""
        return await self._run(self._calls.evaluation(model, at))

    async def roc(self, model: str) -> Roc:
        """As `Client.roc`."""
        return await self._run(self._calls.roc(model))

    async def weights(self, model: str, *, top: int = 100) -> tuple[Weight, ...]:
        """As `Client.weights`."""
        return await self._run(self._calls.weights(model, top))

    def events(self, model: str, *, after: int | None = None) -> AsyncIterator[ModelEvent]:
        """As `Client.events`."""
        return self._iterate(self._calls.events(model, after))

    def export(
        self, model: str, what: Literal["events", "pending"] = "events"
    ) -> AsyncIterator[ExportedEvent | ExportedPending]:
        """As `Client.export`."""
        return self._iterate(self._calls.export(model, what))

    async def delete_event(self, model: str, id: str) -> int:
        """As `Client.delete_event`."""
        return await self._run(self._calls.delete_event(model, id))

    # ---- snapshots ---------------------------------------------------------------------------

    async def download_snapshot(self, model: str) -> bytes:
        """As `Client.download_snapshot`."""
        return await self._run(self._calls.download_snapshot(model))

    async def upload_snapshot(self, model: str, data: bytes, *, if_match: str | None = None) -> Description:
        """As `Client.upload_snapshot`."""
        return await self._run(self._calls.upload_snapshot(model, data, if_match))

    async def snapshots(self, model: str) -> tuple[Snapshot, ...]:
        """As `Client.snapshots`."""
        return await self._run(self._calls.snapshots(model))

    async def rollback(self, model: str, snapshot: int, *, if_match: str | None = None) -> RolledBack:
        """As `Client.rollback`."""
        return await self._run(self._calls.rollback(model, snapshot, if_match))

    # ---- the service -------------------------------------------------------------------------

    async def live(self) -> bool:
        """As `Client.live`."""
        return await self._run(self._calls.live())

    async def ready(self) -> bool:
        """As `Client.ready`."""
        return await self._run(self._calls.ready())

    async def wait_ready(self, seconds: float = 60.0) -> None:
        """As `Client.wait_ready`."""
        await self._run(self._calls.wait_ready(seconds))

    async def metrics(self, *, openmetrics: bool = False) -> str:
        """As `Client.metrics`."""
        return await self._run(self._calls.metrics(openmetrics=openmetrics))

    # ---- effects -----------------------------------------------------------------------------

    async def _run(self, flow: Flow[T], rows: Rows[Any] = ()) -> T:
        io = _Io(self, rows)
        outcome: object = None
        try:
            while True:
                outcome = await io.perform(advance(flow, outcome))
        except StopIteration as end:
            result: T = end.value
            return result

    async def _iterate(self, flow: Flow[Any], rows: Rows[Any] = ()) -> AsyncIterator[Any]:
        io = _Io(self, rows)
        outcome: object = None
        try:
            while True:
                try:
                    effect = advance(flow, outcome)
                except StopIteration:
                    return
                if isinstance(effect, Emit):
                    outcome = yield effect.value
                else:
                    outcome = await io.perform(effect)
        finally:
            await io.close()


for _name, _method in vars(AsyncClient).items():  # one text for both clients
    if not _name.startswith("_"):
        _method.__doc__ = getattr(Client, _name).__doc__


class _Io:
    """Performs the effects of one flow."""

    def __init__(self, client: AsyncClient, rows: Rows[Any]) -> None:
        self._client = client
        self._rows = aiter(rows) if isinstance(rows, AsyncIterable) else _asynchronous(rows)
        self._open: httpx.Response | None = None
        self._parts: AsyncIterator[bytes] = _asynchronous(())

    async def perform(self, effect: Effect) -> object:
        """Return the result of an effect, or the ConnectionFailed that it ended with."""
        match effect:
            case Take(most):
                return await _first(self._rows, most)
            case Sleep(seconds):
                await anyio.sleep(seconds)
        try:
            match effect:
                case Send():
                    return await self._send(effect)
                case Read():
                    return await anext(self._parts, b"")
        except httpx.RequestError as error:
            return connection_failure(error)
        return None

    async def _send(self, effect: Send) -> Reply:
        await self.close()
        http = self._client._http
        check_open(http.is_closed)
        answer = await http.send(http.build_request(**self._client._options(effect)), stream=True)
        self._open = answer
        if effect.stream and answer.is_success:
            self._parts = answer.aiter_bytes()
            return reply_of(answer, b"")
        try:
            return reply_of(answer, await answer.aread())
        finally:
            await self.close()

    async def close(self) -> None:
        """Close the stream that is open, if any."""
        if self._open is not None:
            with anyio.CancelScope(shield=True):
                await self._open.aclose()
            self._open = None


async def _asynchronous(rows: Iterable[S]) -> AsyncIterator[S]:
    for row in rows:
        yield row


async def _first(rows: AsyncIterator[S], most: int) -> list[S]:
    first: list[S] = []
    if most > 0:
        async for row in rows:
            first.append(row)
            if len(first) == most:
                break
    return first
