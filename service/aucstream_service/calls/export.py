"""Events of a model, and what waits for a label, as lines: read from the journal page by page, never whole."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from fastapi import Response
from starlette.types import Receive, Scope, Send

from aucstream.answers import ExportedEvent, ExportedPending
from aucstream_service.errors.exceptions import ModelNotFound, RowsDamaged
from aucstream_service.http.request_context import NDJSON, key_refused
from aucstream_service.journal.column_events import event_of, is_columns
from aucstream_service.journal.commands import ROWS, EventRecord, Kind, Page, ReadEvents, ReadPending, WaitingRecord
from aucstream_service.journal.event_codec import event_rows, features_of
from aucstream_service.models.host import ModelHost
from aucstream_service.models.model import Model, timestamp
from aucstream_service.models.queued import replay_sign

SLOW_SECONDS = 60.0  # a reader that takes nothing for this long is dropped

NAMES = {
    Kind.LEARN: "learn",
    Kind.LABEL: "label",
    Kind.DISCARD: "discard",
    Kind.NEGATIVE: "negative",
    Kind.SPEC: "spec",
    Kind.EVALUATION: "reset-evaluation",
    Kind.NAME: "rename",
    Kind.ROLLBACK: "rollback",
}

_encode_lines = msgspec.json.Encoder().encode_lines


class Export(Response):
    """The answer of GET export; what it reads next is read when the reader has taken what came before.

    Parameters
    ----------
    host : ModelHost
    model : Model
    pending : bool
        Whether to list what waits, not events.
    admitted : callable
        Returns whether the key of the request was not revoked since.
    """

    def __init__(self, host: ModelHost, model: Model, admitted: Callable[[], bool], *, pending: bool) -> None:
        super().__init__(media_type=NDJSON.decode())
        del self.headers["content-length"]
        self.headers["content-disposition"] = (
            f'attachment; filename="{model.name}-{"pending" if pending else "events"}.ndjson"'
        )
        self._host = host
        self._model = model
        self._admitted = admitted
        self._pending = pending

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the lines; raise where the journal or the model is gone, so that the connection breaks."""
        model = self._model
        model.exports += 1  # no snapshot prunes events meanwhile
        try:
            page = await self._page(0, None)
            await self._send(send, {"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            while True:
                lines = await asyncio.to_thread(lines_of, page.records)
                await self._send(send, {"type": "http.response.body", "body": lines, "more_body": page.more})
                if not page.more:
                    return
                if not self._admitted():
                    raise key_refused()
                page = await self._page(page.last, page.until)
        finally:
            model.exports -= 1

    async def _page(self, after: int, until: int | None) -> Page:
        number = self._model.number
        command = ReadPending(number, after, until) if self._pending else ReadEvents(number, after, until)
        self._host.require_running()
        page = await self._host.submit(command)
        if page is None:
            raise ModelNotFound(self._model.name, self._host.models)
        assert isinstance(page, Page)
        if page.damaged:
            raise RowsDamaged("the rows that were written, the journal holds others")
        return page

    async def _send(self, send: Send, message: dict[str, Any]) -> None:
        async with asyncio.timeout(SLOW_SECONDS):
            await send(message)


def lines_of(records: list[EventRecord | WaitingRecord]) -> bytes:
    """Return the lines of a page."""
    return b"".join(
        _encode_lines([_waiting(record)] if isinstance(record, WaitingRecord) else list(_rows(record)))
        for record in records
    )


def _rows(event: EventRecord) -> Iterator[ExportedEvent]:
    """Yield the rows of an event."""
    kind, at = Kind(event.kind), timestamp(event.received_at)
    name = NAMES[kind]
    if kind not in ROWS:
        members = msgspec.json.decode(event.payload.partition(b"\n")[0])
        members.pop("from", None)
        yield ExportedEvent(event.seq_first, name, at, **members)
    elif is_columns(event.payload):
        columns = event_of(event.payload)
        rows, signs, weights, ids = columns.features, columns.signs, columns.each_weight, columns.ids
        erased = set(columns.erased)
        for row, seq in enumerate(range(event.seq_first, event.seq_last + 1)):
            if row in erased:
                yield ExportedEvent(seq, name, at, erased=True)
                continue
            weight = None if weights is None else _other(weights[row])
            yield ExportedEvent(
                seq, name, at, None if ids is None else ids[row], rows[row], bool(signs[row] > 0), weight
            )
    elif kind is Kind.DISCARD:
        for seq, line in enumerate(event.payload.split(b"\n"), event.seq_first):
            row = msgspec.json.decode(line)
            yield ExportedEvent(seq, name, at, erased=True) if row is None else ExportedEvent(seq, name, at, row["id"])
    else:
        for seq, body in enumerate(event_rows(event.payload), event.seq_first):
            if body is None:
                yield ExportedEvent(seq, name, at, erased=True)
            else:
                label, weight = replay_sign(body.label) > 0, _other(body.weight)
                prior = body.score, body.probability
                yield ExportedEvent(seq, name, at, body.id, body.features, label, weight, *prior)


def _other(weight: float) -> float | None:
    """Return a weight, None where it is 1."""
    return None if weight == 1.0 else float(weight)


def _waiting(record: WaitingRecord) -> ExportedPending:
    features = None if record.features is None else features_of(record.features)
    return ExportedPending(
        record.id,
        timestamp(record.at),
        timestamp(record.expires_at),
        features,
        record.sign > 0 if features is None else None,
        record.score,
        record.probability,
        record.seq,
    )
