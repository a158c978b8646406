"""learn-many and label-many: an array (all or nothing) or a stream, in events of many rows."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import numpy as np

from aucstream.block import Block, joined, sign_of
from aucstream.errors import AucstreamError
from aucstream.pipeline import RowKind
from aucstream_service.bodies.arrow import pyarrow
from aucstream_service.bodies.bodies import (
    Features,
    Item,
    LabelBody,
    LearnBody,
    RowLimits,
    Rows,
    checked_id,
    checked_row,
    label_body,
    learn_bodies,
    learn_body,
    lines_of,
    located,
    no_payload,
    row_of,
)
from aucstream_service.bodies.ndjson import STEP_ROWS
from aucstream_service.bodies.readers import Bodies, Refused, asked, form_of
from aucstream_service.bodies.row_batch import Call, Plain
from aucstream_service.errors.exceptions import BodyTooLarge, Disconnected, InvalidBody, RowsRefused
from aucstream_service.errors.problems import MAX_ERRORS, detail_of, field_errors
from aucstream_service.http.request_context import JSON, NDJSON, Exchange
from aucstream_service.journal.column_events import payload_of
from aucstream_service.journal.commands import Kind, Mode
from aucstream_service.models.host import ModelHost
from aucstream_service.models.model import Learned, Model

IN_FLIGHT = 2  # batches of one NDJSON stream that wait for the journal while the next is decoded

_encode = msgspec.json.Encoder().encode
_SIGNS = {True: 1.0, False: -1.0}


class Batch:
    """Rows of a -many body on their way to the journal."""

    def __init__(self, event: Kind) -> None:
        self.event = event
        self.features: list[Features] = []
        self.signs: list[float] = []
        self.weights: list[float] = []
        self.ids: list[str | None] = []
        self.raws: list[bytes | msgspec.Raw] = []
        self.places: list[int] = []
        self.size = 0
        self.blocks: list[Block] = []  # of rows that were read into one each

    def add(self, place: int, raw: bytes | msgspec.Raw, body: LearnBody, sign: float, size: int) -> None:
        """Add a row to learn."""
        self.features.append(body.features)
        self.signs.append(sign)
        self.weights.append(body.weight)
        self.ids.append(body.id)
        self.raws.append(raw)
        self.places.append(place)
        self.size += size

    def add_label(self, place: int, body: LabelBody, size: int) -> None:
        """Add a label by id."""
        sign = sign_of(body.label, "$.label")
        self.ids.append(checked_id(body.id))
        self.signs.append(sign)
        self.places.append(place)
        self.size += size

    def __len__(self) -> int:
        return len(self.signs)

    @property
    def with_ids(self) -> bool:
        """Whether any row has an id."""
        return any(id_ is not None for id_ in self.ids)

    def payload(self, taken: Sequence[int] | None) -> bytes:
        """Return the bytes of these rows, one a line."""
        return lines_of(self.raws if taken is None else [self.raws[row] for row in taken])

    def rows(self) -> Rows:
        """Return the rows as the host takes them."""
        whole = self.blocks and sum(map(len, self.blocks)) == len(self)
        return Rows(
            self.features,
            self.signs,
            None if self.weights.count(1.0) == len(self.weights) else self.weights,
            self.ids if self.with_ids else None,
            self.size,
            no_payload if self.event is Kind.LABEL else self.payload,
            block=joined(self.blocks) if whole else None,
        )


class PlainBatch:
    """Rows of one form on their way to the journal, in the place of a Batch of them."""

    def __init__(self, plain: Plain) -> None:  # which is not kept: behind it is a part of the body
        self.features = plain.features
        self.signs = plain.signs
        self.weights = plain.weights
        self.ids = plain.ids
        self.places: Sequence[int] = plain.places

    def __len__(self) -> int:
        return len(self.signs)

    @property
    def with_ids(self) -> bool:
        """Whether any row has an id."""
        return self.ids is not None

    def payload(self, taken: Sequence[int] | None) -> bytes:
        """Return these rows as the journal keeps rows of one form."""
        return payload_of(self.features, self.signs, self.weights, self.ids, taken)

    def line(self, row: int) -> bytes:
        """Return a row as a line of JSON."""
        weight = 1.0 if self.weights is None else float(self.weights[row])
        id_ = None if self.ids is None else self.ids[row]
        return _encode(LearnBody(self.features[row], float(self.signs[row]), weight, id_))

    def rows(self) -> Rows:
        """Return the rows as the host takes them."""
        size = self.features.values.nbytes + len(self)
        return Rows(self.features, self.signs, self.weights, self.ids, size, self.payload, self.line)


class Tally:
    """What became of a -many body so far."""

    def __init__(self, model: Model) -> None:
        self.counters = model.counts
        self.accepted = 0
        self.duplicates = 0
        self.rejected = 0
        self.seq = model.seq
        self.errors: list[dict[str, Any]] = []

    def refuse(self, line: int, error: AucstreamError) -> None:
        """Count one refused row."""
        self.rejected += 1
        self.counters.refuse(error)
        for entry in field_errors(error) or [{"pointer": "", "message": detail_of(error)}]:
            self.note(line, entry["pointer"], entry["message"])

    def note(self, line: int, pointer: str, message: str) -> None:
        """Keep an error, the first 100 of them."""
        if len(self.errors) < MAX_ERRORS:
            self.errors.append({"line": line, "pointer": pointer, "message": message})

    def settle(self, learned: Learned, places: Sequence[int]) -> None:
        """Count the rows of one event; `places` are their line numbers, below 0 rows of an array."""
        appended = learned.appended
        self.seq = max(self.seq, appended.seq_last)
        self.duplicates += len(appended.duplicates) - len(appended.skipped)
        self.accepted += len(learned.scores) + len(appended.held - appended.duplicates.keys())
        for row in appended.skipped:
            self.skip(places[row])
        taken = appended.taken
        if not learned.skipped:
            return
        for row, score in enumerate(learned.scores):
            if not math.isfinite(score):
                self.accepted -= 1
                self.skip(places[row if taken is None else taken[row]])

    def skip(self, place: int) -> None:
        """Count a row that was skipped (the model has counted it)."""
        self.rejected += 1
        line, pointer = (place, "") if place > 0 else (-place, f"/{-1 - place}")
        self.note(line, pointer, "the step would leave the model non-finite: the row was skipped")

    def counts(self) -> dict[str, Any]:
        """Return the answer of learn-many and label-many."""
        return {
            "accepted": self.accepted,
            "duplicates": self.duplicates,
            "rejected": self.rejected,
            "seq": self.seq,
            "errors": sorted(self.errors, key=lambda error: int(error["line"])),
        }


Flying = deque[tuple[asyncio.Future[Learned], Batch | PlainBatch]]


class Taking:
    """The calls that learn many rows."""

    def __init__(self, host: ModelHost, limits: RowLimits) -> None:
        self.host = host
        self.settings = host.settings
        self.limits = limits
        self.bodies = Bodies(host.settings, limits)

    async def learn_many(self, exchange: Exchange, model: Model) -> None:
        """Learn a JSON array (all or nothing) or NDJSON lines (streamed)."""
        await self._take_many(exchange, model, Kind.LEARN)

    async def label_many(self, exchange: Exchange, model: Model) -> None:
        """Label by id from a JSON array (all or nothing) or NDJSON lines (streamed)."""
        await self._take_many(exchange, model, Kind.LABEL)

    async def _take_many(self, exchange: Exchange, model: Model, event: Kind) -> None:
        kind, skip = asked(exchange)
        call = Call.LABEL if event is Kind.LABEL else Call.LEARN
        if kind == JSON:
            await self._take_array(exchange, model, event)
        elif kind == NDJSON:
            await self._take_stream(exchange, model, event, self.bodies.lines(exchange, call), skip=skip)
        else:
            rows = self.bodies.arrow(exchange, await pyarrow(), call)
            await self._take_stream(exchange, model, event, rows, skip=skip)

    async def _take_array(self, exchange: Exchange, model: Model, event: Kind) -> None:
        items = await self.bodies.array(exchange)
        batch = Batch(event)
        kind = model.kind
        for start in range(0, len(items), STEP_ROWS):
            if start:
                await asyncio.sleep(0)
            kind = self._decode(batch, items[start : start + STEP_ROWS], model, kind, None)
        tally = Tally(model)
        if len(batch):
            learned = await self.host.learn(model, batch.rows(), kind, Mode.ALL, event)
            for row, refusal in learned.appended.refused.items():
                raise refusal.error(f"/{row}")
            tally.settle(learned, batch.places)
        await exchange.answer(200, _encode(tally.counts()))

    async def _take_stream(
        self, exchange: Exchange, model: Model, event: Kind, parts: AsyncIterator[list[Item] | Plain], *, skip: bool
    ) -> None:
        mode = Mode.SKIP if skip else Mode.ABORT
        tally = Tally(model)
        flying: Flying = deque()
        kind = model.kind
        try:
            async for items in parts:
                batch: Batch | PlainBatch = Batch(event)
                refused: AucstreamError | None = None
                if isinstance(items, Plain):
                    found = form_of(items, model, kind)
                    if found is None:
                        items = items.lines()
                    else:
                        kind, batch = found, PlainBatch(items)
                if isinstance(batch, Batch):
                    assert not isinstance(items, Plain)
                    try:
                        kind = self._decode(batch, items, model, kind, tally if skip else None)
                    except AucstreamError as error:
                        refused = error
                if len(batch):
                    rows = batch.rows()
                    await self.host.wait_for_room(len(rows), rows.size)
                    flying.append((self.host.learn(model, rows, kind, mode, event), batch))
                # With ids a batch may stop at a conflict: nothing after it may be under way.
                while len(flying) >= (1 if rows_stop(batch, mode) or refused else IN_FLIGHT):
                    await self._settle(flying, tally, mode)
                if refused is not None:
                    raise refused
            while flying:
                await self._settle(flying, tally, mode)
        except Disconnected:
            await asyncio.gather(*(future for future, _ in flying), return_exceptions=True)
            raise
        except (AucstreamError, asyncio.CancelledError) as raised:
            for future, batch in flying:
                try:
                    tally.settle(await future, batch.places)
                except AucstreamError:  # the first error is the one to tell
                    continue
            cause: AucstreamError = self.host.not_ready() if isinstance(raised, asyncio.CancelledError) else raised
            if isinstance(cause, Refused):
                tally.refuse(cause.line, cause.cause)
                cause = cause.cause
            else:
                model.counts.refuse(cause)
            counts = tally.counts()
            if isinstance(cause, InvalidBody) and cause is raised:  # of no row: of the columns of a stream
                counts["errors"] = [*counts["errors"], *field_errors(cause)]
            raise RowsRefused(cause, counts) from raised
        await exchange.answer(200, _encode(tally.counts()))

    async def _settle(self, flying: Flying, tally: Tally, mode: Mode) -> None:
        future, batch = flying[0]
        learned = await asyncio.shield(future)  # a stream that is cancelled still counts what it sent
        flying.popleft()
        tally.settle(learned, batch.places)
        for row, refusal in learned.appended.refused.items():
            error = refusal.error()
            if mode is Mode.ABORT:
                raise Refused(batch.places[row], error)
            tally.refuse(batch.places[row], error)

    def _decode(
        self, batch: Batch, items: Sequence[Item], model: Model, kind: RowKind | None, tally: Tally | None
    ) -> RowKind | None:
        """Decode and check rows into the batch; return the form of the rows.

        A bad row is counted in `tally` and left out; without one, it raises: `Refused` for lines,
        with the rows before it in the batch.
        """
        if batch.event is Kind.LEARN and kind == "named" and self._decode_alike(batch, items, model):
            return kind
        first = len(batch)
        for place, raw in items:
            try:
                if raw is None:
                    raise BodyTooLarge("line", f"at most {self.settings.max_line_bytes} bytes a line")
                size = len(bytes(raw)) if isinstance(raw, msgspec.Raw) else len(raw)
                if batch.event is Kind.LABEL:
                    batch.add_label(place, label_body(raw), size)
                else:
                    body = learn_body(raw)
                    batch.add(place, raw, body, checked_row(body, size, self.limits), size)
            except AucstreamError as error:
                kind = self._check(batch, first, model, kind, tally)  # an earlier bad row is told first
                first = len(batch)
                self._refuse(place, error, tally)
        return kind if batch.event is Kind.LABEL else self._check(batch, first, model, kind, tally)

    def _decode_alike(self, batch: Batch, items: Sequence[Item], model: Model) -> bool:
        """Take rows that have no fault and names that are known; False, and nothing taken, of others."""
        places = [place for place, _ in items]
        raws: list[bytes] = [raw if type(raw) is bytes else bytes(raw or b"") for _, raw in items]
        bodies = learn_bodies(raws)
        if not bodies:
            return False
        features = [body.features for body in bodies]
        try:
            signs = [_SIGNS[body.label] if type(body.label) is bool else sign_of(body.label) for body in bodies]
            weights = [body.weight for body in bodies]
            ids = [None if body.id is None else checked_id(body.id) for body in bodies]
        except AucstreamError:
            return False
        if not (min(weights) >= 0.0 and max(weights) < math.inf):
            return False
        block = model.pipeline.block_of(features, np.array(signs), np.array(weights))
        if block is not None:
            batch.blocks.append(block)
        elif not model.pipeline.plain(features):
            return False
        batch.features += features
        batch.signs += signs
        batch.weights += weights
        batch.ids += ids
        batch.raws += raws
        batch.places += places
        batch.size += sum(map(len, raws))
        return True

    def _check(
        self, batch: Batch, first: int, model: Model, kind: RowKind | None, tally: Tally | None
    ) -> RowKind | None:
        """Check the features of the rows from `first` on; drop bad ones (see `_decode`)."""
        while first < len(batch):
            try:
                return model.pipeline.check_rows(batch.features[first:], kind)
            except AucstreamError as error:
                row = first + row_of(error)
                place = batch.places[row]
                stop = row + 1 if tally is not None else len(batch)
                for column in (
                    batch.features,
                    batch.signs,
                    batch.weights,
                    batch.ids,
                    batch.raws,
                    batch.places,
                ):
                    del column[row:stop]
                self._refuse(place, error, tally)
                if row > first and kind is None:
                    kind = model.pipeline.check_rows(batch.features[first:row], None)
                first = row
        return kind

    def _refuse(self, place: int, error: AucstreamError, tally: Tally | None) -> None:
        if place < 0:  # an array's row: the whole body is refused
            raise located(error, -1 - place) from None
        error = located(error)
        if tally is None:
            raise Refused(place, error) from None
        tally.refuse(place, error)


def rows_stop(batch: Batch | PlainBatch, mode: Mode) -> bool:
    """Return whether a batch may stop half-way (a label conflict under abort)."""
    return mode is Mode.ABORT and batch.with_ids
