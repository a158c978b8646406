"""The bodies of -many calls: from the chunks of a request to lines, or rows of one form."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from aucstream_service.bodies.arrow import Batches, Limits
from aucstream_service.bodies.bodies import Call, RowLimits, raw_list
from aucstream_service.bodies.ndjson import LineReader, accepts
from aucstream_service.errors.exceptions import BodyTooLarge, InvalidQuery
from aucstream_service.http.query import checked_query
from aucstream_service.http.request_context import ARROW, JSON, NDJSON, RequestContext
from aucstream_service.journal.row_batch import Line, RowBatch
from aucstream_service.settings import Settings

Parts = AsyncIterator[list[Line] | RowBatch]


class Bodies:
    """Reads the bodies of -many calls."""

    def __init__(self, settings: Settings, limits: RowLimits) -> None:
        self.settings = settings
        self.limits = limits

    async def array(self, context: RequestContext) -> list[Line]:
        """Return the rows of a JSON array."""
        raws = raw_list(await context.body(self.settings.max_body_bytes))
        if len(raws) > self.settings.max_rows:
            raise BodyTooLarge("body", f"at most {self.settings.max_rows} rows (NDJSON has no limit)", len(raws))
        context.rows = len(raws)
        return [(-1 - row, raw) for row, raw in enumerate(raws)]  # below 0: an array's row

    async def lines(self, context: RequestContext, call: Call) -> Parts:
        """Yield the rows of NDJSON, some at a time."""
        reader = LineReader(self.settings.max_line_bytes, accepts(call, self.limits))
        async for chunk in context.chunks():
            for part in reader.feed(chunk):
                context.rows += len(part)
                yield part
                await asyncio.sleep(0)
        for part in reader.end():
            context.rows += len(part)
            yield part

    async def arrow(
        self, context: RequestContext, pa: Any, call: Call, opened: Callable[[Sequence[str]], None] | None = None
    ) -> Parts:
        """Yield the rows of an Arrow stream, some at a time; `opened` gets the names of its fields before."""
        settings = self.settings
        limits = Limits(settings.max_body_bytes, settings.max_rows, settings.max_line_bytes)
        batches = Batches(pa, limits, self.limits, call, opened)
        async for chunk in context.chunks():
            async for batch in batches.feed(chunk):
                context.rows += len(batch)
                for part in batch.parts():
                    yield part
                    await asyncio.sleep(0)
            context.hold_only(batches.size)
        batches.end()


def form_and_skip(context: RequestContext) -> tuple[bytes, bool]:
    """Return the media type of a body, and whether its bad lines are skipped (`?on_error=abort|skip`)."""
    value = "abort"
    if context.query:
        value = checked_query(context.query, ("on_error",)).get("on_error", "abort")
    if value not in ("abort", "skip"):
        raise InvalidQuery("on_error", "abort or skip", value)
    form = context.require(JSON, NDJSON, ARROW)
    if value == "skip" and form == JSON:
        raise InvalidQuery("on_error", "abort: a JSON array is taken whole or not at all", "skip")
    return form, value == "skip"
