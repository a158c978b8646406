"""learn-many and label-many: an array (all or nothing) or a stream, in events of many rows."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from aucstream.errors import AucstreamError
from aucstream_service.bodies.arrow import pyarrow
from aucstream_service.bodies.bodies import Call, RowLimits
from aucstream_service.bodies.decode_errors import BadLine, entries_of
from aucstream_service.bodies.ndjson import STEP_ROWS
from aucstream_service.bodies.readers import Bodies, Parts, form_and_skip
from aucstream_service.bodies.row_decoder import RowDecoder, Skip
from aucstream_service.errors.exceptions import Disconnected, InvalidBody, RowsRefused
from aucstream_service.errors.problems import MAX_ERRORS, field_errors
from aucstream_service.http.request_context import JSON, NDJSON, RequestContext
from aucstream_service.journal.commands import Kind, Mode
from aucstream_service.journal.row_batch import RowBatch, bytes_of, concatenate
from aucstream_service.models.host import ModelHost
from aucstream_service.models.model import Model
from aucstream_service.models.queued import Learned

IN_FLIGHT = 2  # batches of one NDJSON stream that wait for the journal while the next is decoded
KINDS = {Call.LEARN: Kind.LEARN, Call.LABEL: Kind.LABEL}

_encode = msgspec.json.Encoder().encode

MOST_FORMS = 10_000  # skipped rows of a body whose corrected form, under the same id, is learned
InFlight = deque[tuple[asyncio.Future[Learned], RowBatch]]  # outcomes to come, and their rows
Form = tuple[bytes, float, float]  # digest of the features, label, weight


class Tally:
    """What became of a -many body so far."""

    def __init__(self, model: Model) -> None:
        self.counters = model.counts
        self.accepted = 0
        self.duplicates = 0
        self.rejected = 0
        self.seq = model.seq
        self.errors: list[dict[str, Any]] = []
        self._skipped: dict[int, Form] = {}  # rows with an id whose step was skipped, by seq

    def refuse(self, line: int, error: AucstreamError) -> None:
        """Count one refused row."""
        self.rejected += 1
        self.counters.refuse(error)
        for entry in entries_of(error):
            self._note(line, entry["pointer"], entry["message"])

    def count(self, learned: Learned, rows: RowBatch) -> RowBatch | None:
        """Count the rows of one event; return those that are to be sent again.

        These have the id of a row before them whose step was skipped, and were taken for that row when they were
        committed; but they have another form: they correct it.
        """
        outcome, places = learned.outcome, rows.places
        corrected = self._corrected(learned, rows)
        for row in corrected:
            del outcome.duplicates[row]
            outcome.skipped.discard(row)
        self.seq = max(self.seq, outcome.seq_last)
        self.duplicates += len(outcome.duplicates) - len(outcome.skipped)
        self.accepted += len(learned.scores) + len(outcome.early - outcome.duplicates.keys())
        for row in outcome.skipped:
            self._skip(places[row])
        if learned.skipped:
            for row, score in enumerate(learned.scores):
                if not math.isfinite(score):
                    self.accepted -= 1
                    self._skip(places[row if outcome.rows is None else outcome.rows[row]])
        return _part_of(rows, corrected) if corrected else None

    def _corrected(self, learned: Learned, rows: RowBatch) -> list[int]:
        outcome, ids = learned.outcome, rows.ids
        if ids is None or not rows.features:  # labels by id have no form of their own
            return []
        if learned.skipped:
            for at, score in enumerate(learned.scores):
                row = at if outcome.rows is None else outcome.rows[at]
                if not math.isfinite(score) and ids[row] is not None and len(self._skipped) < MOST_FORMS:
                    self._skipped[outcome.seq_first + at] = _form(rows, row)
        return [
            row
            for row in sorted(outcome.skipped)
            if (form := self._skipped.get(outcome.duplicates[row])) is not None and form != _form(rows, row)
        ]

    def _skip(self, place: int) -> None:
        """Count a row that was skipped (the model has counted it)."""
        self.rejected += 1
        line, pointer = (place, "") if place > 0 else (-place, f"/{-1 - place}")
        self._note(line, pointer, "the step would leave the model non-finite: the row was skipped")

    def _note(self, line: int, pointer: str, message: str) -> None:
        if len(self.errors) < MAX_ERRORS:
            self.errors.append({"line": line, "pointer": pointer, "message": message})

    def answer(self) -> dict[str, Any]:
        """Return the answer of learn-many and label-many."""
        return {
            "accepted": self.accepted,
            "duplicates": self.duplicates,
            "rejected": self.rejected,
            "seq": self.seq,
            "errors": sorted(self.errors, key=lambda error: int(error["line"])),
        }


class LearnMany:
    """The calls that learn many rows."""

    def __init__(self, host: ModelHost, limits: RowLimits) -> None:
        self.host = host
        self.settings = host.settings
        self.limits = limits
        self.bodies = Bodies(host.settings, limits)

    async def learn_many(self, context: RequestContext, model: Model) -> None:
        """Learn a JSON array (all or nothing) or NDJSON lines (streamed)."""
        await self._many(context, model, Call.LEARN)

    async def label_many(self, context: RequestContext, model: Model) -> None:
        """Label by id from a JSON array (all or nothing) or NDJSON lines (streamed)."""
        await self._many(context, model, Call.LABEL)

    async def _many(self, context: RequestContext, model: Model, call: Call) -> None:
        form, skip = form_and_skip(context)
        if form == JSON:
            tally = await self._array(context, model, call)
        else:
            rows = (
                self.bodies.lines(context, call)
                if form == NDJSON
                else self.bodies.arrow(context, await pyarrow(), call)
            )
            tally = await self._stream(model, call, rows, Mode.SKIP if skip else Mode.ABORT)
        await context.answer(200, _encode(tally.answer()))

    def _decoder(self, model: Model, call: Call, skip: Skip | None) -> RowDecoder:
        return RowDecoder(
            model.pipeline,
            model.kind,
            call,
            self.limits,
            self.settings.max_line_bytes,
            skip,
            ignores_fields=model.spec.ignores_fields,
        )

    async def _array(self, context: RequestContext, model: Model, call: Call) -> Tally:
        lines = await self.bodies.array(context)
        decoder = self._decoder(model, call, None)
        parts: list[RowBatch] = []
        for start in range(0, len(lines), STEP_ROWS):
            if start:
                await asyncio.sleep(0)
            step = lines[start : start + STEP_ROWS]
            part, _ = await self.host.workers.run_if_long(model, partial(decoder.rows, step), bytes_of(step))
            parts.append(part)
        tally = Tally(model)
        if parts:
            rows = concatenate(parts)
            await model.free()
            learned = await self.host.learn(model, rows, decoder.kind, Mode.ALL, KINDS[call])
            for row, refusal in learned.outcome.refusals.items():
                raise refusal.error(f"/{row}")
            again = tally.count(learned, rows)
            while again is not None:
                await model.free()
                again = tally.count(await self.host.learn(model, again, decoder.kind, Mode.ALL, KINDS[call]), again)
        return tally

    async def _stream(self, model: Model, call: Call, parts: Parts, mode: Mode) -> Tally:
        tally = Tally(model)
        in_flight: InFlight = deque()
        decoder = self._decoder(model, call, tally.refuse if mode is Mode.SKIP else None)
        try:
            async for part in parts:
                rows, bad = await self.host.workers.run_if_long(model, partial(decoder.rows, part), bytes_of(part))
                if len(rows):
                    await self.host.wait_for_room(len(rows), rows.size)
                    await model.free()
                    in_flight.append((self.host.learn(model, rows, decoder.kind, mode, KINDS[call]), rows))
                # With ids a batch may stop at a conflict: nothing after it may be under way.
                stops = mode is Mode.ABORT and rows.ids is not None
                while len(in_flight) >= (1 if stops or bad else IN_FLIGHT):
                    await self._settle(model, decoder, in_flight, tally, mode)
                if bad is not None:
                    raise bad
            while in_flight:
                await self._settle(model, decoder, in_flight, tally, mode)
        except Disconnected:
            await asyncio.gather(*(future for future, _ in in_flight), return_exceptions=True)
            raise
        except (AucstreamError, asyncio.CancelledError) as raised:
            for future, rows in in_flight:
                try:
                    tally.count(await future, rows)
                except AucstreamError:  # the first error is answered
                    continue
            cause: AucstreamError = self.host.not_ready() if isinstance(raised, asyncio.CancelledError) else raised
            if isinstance(cause, BadLine):
                tally.refuse(cause.line, cause.cause)
                cause = cause.cause
            else:
                model.counts.refuse(cause)
            answer = tally.answer()
            if isinstance(cause, InvalidBody) and cause is raised:  # of no row: of the columns of a stream
                answer["errors"] = [*answer["errors"], *field_errors(cause)]
            raise RowsRefused(cause, answer) from raised
        return tally

    async def _settle(self, model: Model, decoder: RowDecoder, in_flight: InFlight, tally: Tally, mode: Mode) -> None:
        future, rows = in_flight[0]
        learned = await asyncio.shield(future)  # a stream that is cancelled still counts what it sent
        in_flight.popleft()
        again = tally.count(learned, rows)
        for row, refusal in learned.outcome.refusals.items():
            error = refusal.error()
            if mode is Mode.ABORT:
                raise BadLine(rows.places[row], error)
            tally.refuse(rows.places[row], error)
        if again is not None:
            await self.host.wait_for_room(len(again), again.size)
            await model.free()
            in_flight.append((self.host.learn(model, again, decoder.kind, mode), again))


def _form(rows: RowBatch, row: int) -> Form:
    weight = 1.0 if rows.weights is None else float(rows.weights[row])
    return rows.digest(row), float(rows.signs[row]), weight


def _part_of(rows: RowBatch, numbers: Sequence[int]) -> RowBatch:
    """Return some rows as lines of their own, to be learned anew."""
    lines = [rows.line(row) for row in numbers]
    return RowBatch(
        [rows.features[row] for row in numbers],
        [float(rows.signs[row]) for row in numbers],
        None if rows.weights is None else [float(rows.weights[row]) for row in numbers],
        None if rows.ids is None else [rows.ids[row] for row in numbers],
        lines,
        [rows.places[row] for row in numbers],
        sum(map(len, lines)),
    )
