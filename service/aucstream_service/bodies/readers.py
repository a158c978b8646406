"""What the -many calls share: how a body becomes rows, and the row that ends it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from aucstream.errors import AucstreamError
from aucstream.pipeline import RowKind
from aucstream_service.bodies.arrow import Batches, Limits
from aucstream_service.bodies.bodies import Item, RowLimits, raw_list
from aucstream_service.bodies.ndjson import LineReader, accepts
from aucstream_service.bodies.row_batch import Call, Plain
from aucstream_service.errors.exceptions import BodyTooLarge, InvalidQuery, ServiceError
from aucstream_service.errors.problems import detail_of, field_errors
from aucstream_service.http.query import checked_query
from aucstream_service.http.request_context import ARROW, JSON, NDJSON, Exchange
from aucstream_service.models.model import Model
from aucstream_service.settings import Settings


class Bodies:
    """Reads the bodies of -many calls."""

    def __init__(self, settings: Settings, limits: RowLimits) -> None:
        self.settings = settings
        self.limits = limits

    async def array(self, exchange: Exchange) -> list[Item]:
        """Return the rows of a JSON array."""
        raws = raw_list(await exchange.body(self.settings.max_body_bytes))
        if len(raws) > self.settings.max_rows:
            raise BodyTooLarge("body", f"at most {self.settings.max_rows} rows (NDJSON has no limit)", len(raws))
        exchange.rows = len(raws)
        return [(-1 - row, raw) for row, raw in enumerate(raws)]  # below 0: an array's row

    async def lines(self, exchange: Exchange, call: Call) -> AsyncIterator[list[Item] | Plain]:
        """Yield the rows of NDJSON, some at a time: as one matrix where they are plain, else as lines."""
        reader = LineReader(self.settings.max_line_bytes, accepts(call, self.limits))
        async for chunk in exchange.chunks():
            for part in reader.feed(chunk):
                exchange.rows += len(part)
                yield part
                await asyncio.sleep(0)
        for part in reader.end():
            exchange.rows += len(part)
            yield part

    async def arrow(self, exchange: Exchange, pa: Any, call: Call) -> AsyncIterator[list[Item] | Plain]:
        """Yield the rows of an Arrow stream: as one matrix where they are plain, else as lines."""
        told = self.settings
        batches = Batches(pa, Limits(told.max_body_bytes, told.max_rows, told.max_line_bytes), self.limits, call)
        async for chunk in exchange.chunks():
            async for batch in batches.feed(chunk):
                exchange.rows += len(batch)
                for part in batch.parts():
                    yield part
                    await asyncio.sleep(0)
            exchange.hold_only(batches.held)
        batches.end()


class Refused(ServiceError):
    """A bad line: ends a stream under `abort`."""

    def __init__(self, line: int, cause: AucstreamError) -> None:
        super().__init__(cause.where, cause.expected, cause.got, path=cause.path)
        self.line = line
        self.cause = cause

    def entries(self) -> list[dict[str, Any]]:
        """Return the `errors` member."""
        entries = field_errors(self.cause) or [{"pointer": "", "message": detail_of(self.cause)}]
        return [{"line": self.line, **entry} for entry in entries]


def asked(exchange: Exchange) -> tuple[bytes, bool]:
    """Return the form of a body, and whether its bad lines are skipped (`?on_error=abort|skip`)."""
    skip = _skips(exchange)
    kind = exchange.require(JSON, NDJSON, ARROW)
    if skip and kind == JSON:
        raise InvalidQuery("on_error", "abort: a JSON array is taken whole or not at all", "skip")
    return kind, skip


def _skips(exchange: Exchange) -> bool:
    if not exchange.query:
        return False
    value = checked_query(exchange.query, ("on_error",)).get("on_error", "abort")
    if value not in ("abort", "skip"):
        raise InvalidQuery("on_error", "abort or skip", value)
    return value == "skip"


def form_of(plain: Plain, model: Model, kind: RowKind | None) -> RowKind | None:
    """Return the form of rows that the model can learn; None: as lines of JSON they are told why not."""
    try:
        return model.pipeline.check_rows(plain.features, kind)
    except AucstreamError:
        return None
