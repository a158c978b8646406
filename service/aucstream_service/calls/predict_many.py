"""predict-many: an array, lines or an Arrow stream of rows to score; those with ids wait for their labels."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from functools import partial
from typing import IO

import msgspec

from aucstream.block import Block
from aucstream.errors import AucstreamError
from aucstream.pipeline import RowKind
from aucstream_service.bodies.arrow import pyarrow
from aucstream_service.bodies.bodies import (
    Call,
    PredictBody,
    RowLimits,
    check_features,
    checked_id,
    known_fields,
    predict_bodies,
    predict_body,
)
from aucstream_service.bodies.decode_errors import BadLine, located
from aucstream_service.bodies.ndjson import FEW, STEP_ROWS
from aucstream_service.bodies.readers import Bodies, Parts, form_and_skip
from aucstream_service.bodies.row_decoder import form_of
from aucstream_service.calls.responses import Answer, DocumentAnswers, LineAnswers, Unkept, answers_for, refusal_part
from aucstream_service.calls.scores import Score, non_finite_score, scores_of
from aucstream_service.errors.exceptions import (
    BodyTooLarge,
    Forbidden,
    InvalidBody,
    Overloaded,
    RowsRefused,
    Unauthorized,
)
from aucstream_service.http.admission import require
from aucstream_service.http.request_context import JSON, NDJSON, RequestContext
from aucstream_service.journal.commands import Mode
from aucstream_service.journal.event_codec import Features
from aucstream_service.journal.row_batch import Line, Predictions, RowBatch, bytes_of
from aucstream_service.models.host import ModelHost
from aucstream_service.models.model import Model
from aucstream_service.storage.api_keys import Role

SPOOL_BYTES = 1 << 20  # an NDJSON answer longer than this waits on disk until its request has ended
SEND_BYTES = 1 << 16


class PredictMany:
    """The call that scores many rows."""

    def __init__(self, host: ModelHost, limits: RowLimits) -> None:
        self.host = host
        self.settings = host.settings
        self.limits = limits
        self.bodies = Bodies(host.settings, limits)
        self.spooled = 0  # bytes of answers that wait for the end of their requests

    async def predict_many(self, context: RequestContext, model: Model) -> None:
        """Score a JSON array, NDJSON lines or an Arrow stream; rows with ids wait for their labels."""
        form, skip = form_and_skip(context)
        if form == JSON:
            await self._array(context, model)
            return
        parts: Parts
        if form == NDJSON:
            parts, answers = self.bodies.lines(context, Call.PREDICT), LineAnswers()
        else:
            pa = await pyarrow()
            answers = answers_for(context, pa)
            parts = self.bodies.arrow(context, pa, Call.PREDICT, answers.note_fields)
        await self._stream(context, model, parts, answers, Mode.SKIP if skip else Mode.ABORT)

    async def _array(self, context: RequestContext, model: Model) -> None:
        lines = await self.bodies.array(context)
        rows = ScoredRows(context, model, self, Mode.ALL)
        seq = model.seq
        for start in range(0, len(lines), STEP_ROWS):
            if start:
                await asyncio.sleep(0)
            seq = await self._score(model, rows, lines[start : start + STEP_ROWS])
        await rows.keep()
        answers = DocumentAnswers()
        await context.answer(200, answers.begin() + answers.part(rows.answers) + answers.end(seq))

    async def _score(self, model: Model, rows: ScoredRows, lines: Sequence[Line]) -> int:
        """Score rows of an array; return the event after which they are scored."""

        def score() -> int:
            rows.score(lines)
            return model.seq

        return await self.host.workers.run_if_long(model, score, bytes_of(lines))

    async def _stream(
        self, context: RequestContext, model: Model, parts: Parts, answers: LineAnswers, mode: Mode
    ) -> None:
        # The answer begins when the request has ended: a client that writes before it reads cannot
        # dead-lock, and a bad line still gets the right status.
        size = accepted = 0

        def write(data: bytes) -> None:
            nonlocal size
            size += len(data)
            self.spooled += len(data)
            if self.spooled > self.settings.max_spool_bytes:
                raise Overloaded("answers", f"at most {self.settings.max_spool_bytes} bytes of them waiting")
            spool.write(data)

        with tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES, dir=str(self.host.directory.spool)) as spool:
            try:
                begun = False
                async for part in parts:
                    if not begun:
                        begun = True
                        write(answers.begin())
                    size_of_part = bytes_of(part)
                    plain = partial(self._scores, part, model)
                    pairs = await self.host.workers.run_if_long(model, plain, size_of_part)
                    if len(pairs) == len(part):
                        write(answers.part(pairs))
                        continue
                    if isinstance(part, RowBatch):
                        assert part.as_lines is not None
                        part = part.as_lines()
                    rows = ScoredRows(context, model, self, mode)
                    bad = await self.host.workers.run_if_long(model, partial(rows.score, part), size_of_part)
                    try:
                        await rows.keep()  # also what came before a bad line
                    finally:
                        accepted += rows.waiting
                    if bad is not None:
                        raise bad
                    write(answers.part(rows.answers))
                write(answers.end(model.seq) if begun else answers.begin() + answers.end(model.seq))
                await _send_spool(context, spool, answers.kind)
            except BadLine as error:
                model.counts.refuse(error.cause)
                counts = {"accepted": accepted, "seq": model.seq, "errors": error.entries()}
                raise RowsRefused(error.cause, counts) from error
            except Unauthorized as error:  # the key was revoked meanwhile
                raise RowsRefused(error, {"accepted": accepted, "seq": model.seq, "errors": []}) from error
            finally:
                self.spooled -= size

    def _scores(self, part: list[Line] | RowBatch, model: Model) -> list[Score]:
        """Return the scores of rows that have no fault and wait for no label; else fewer than there are rows."""
        features = self._features(part, model)
        return [] if features is None else [pair for pair in scores_of(model, features) if pair is not None]

    def _features(self, part: list[Line] | RowBatch, model: Model) -> Sequence[Features] | Block | None:
        """Return rows that have no fault and wait for no label; None: one by one they say what is wrong."""
        if isinstance(part, RowBatch):
            return part.features if form_of(part, model.pipeline, model.kind) is not None else None
        if model.kind != "named" or len(part) < FEW:
            return None
        bodies = predict_bodies([raw if type(raw) is bytes else bytes(raw or b"") for _, raw in part])
        if bodies is None or any(body.explain or body.id is not None for body in bodies):
            return None
        features = [body.features for body in bodies]
        return model.pipeline.engine.block_of(features) if max(map(len, features)) <= self.limits.features else None


class ScoredRows:
    """Rows of a predict-many body: their answers, and those that wait for a label."""

    def __init__(self, context: RequestContext, model: Model, call: PredictMany, mode: Mode) -> None:
        self.answers: list[Answer] = []
        self.waiting = 0  # rows that this request has made wait
        self._context = context
        self._model = model
        self._host = call.host
        self._limits = call.limits
        self._mode = mode
        self._predictions = Predictions()
        self._places: list[tuple[int, int]] = []  # of each prediction: in the answers, in the body
        self._kind: RowKind | None = None

    def _body(self, raw: bytes | msgspec.Raw | None, kind: RowKind | None) -> tuple[PredictBody, RowKind | None]:
        """Return a checked row, and its form."""
        if raw is None:
            raise BodyTooLarge("line", f"at most {self._host.settings.max_line_bytes} bytes a line")
        body = predict_body(known_fields(raw, PredictBody) if self._model.spec.ignores_fields else raw)
        if body.explain:
            raise InvalidBody("explain", "false: predict-one alone gives contributions", True, pointer="/explain")
        if body.id is not None:
            require(self._context, Role.WRITE)
            checked_id(body.id)
        check_features(body.features, self._limits)
        return body, self._model.pipeline.engine.check_rows([body.features], kind)

    def score(self, lines: Sequence[Line]) -> BadLine | None:
        """Check and score rows; a bad one is answered by its errors, or ends the body and is returned."""
        model = self._model
        rows: list[PredictBody] = []
        places: list[tuple[int, int]] = []  # in the answers, in the body
        kind = model.kind
        end: BadLine | None = None
        for place, raw in lines:
            try:
                body, form = self._body(raw, kind)
            except Forbidden:
                raise
            except AucstreamError as error:
                if place < 0:
                    raise located(error, -1 - place) from None
                bad = BadLine(place, located(error))
                if self._mode is not Mode.SKIP:
                    end = bad
                    break
                self._refuse(bad)
                continue
            if body.id is not None:
                kind = self._kind = form  # rows that wait are of one form
            rows.append(body)
            places.append((len(self.answers), place))
            self.answers.append(b"")
        for body, (at, place), pair in zip(
            rows, places, scores_of(model, [body.features for body in rows]) if rows else (), strict=True
        ):
            if pair is not None:
                self.answers[at] = pair
                if body.id is not None:
                    self._predictions.add(body.id, body.features, *pair, model.seq)
                    self._places.append((at, place))
                continue
            if place < 0:
                raise non_finite_score(f"/{-1 - place}")
            bad = BadLine(place, non_finite_score())
            if self._mode is not Mode.SKIP:
                end = bad  # it comes before a line that could not be read
                break
            self._refuse(bad, at)
        return end

    async def keep(self) -> None:
        """Keep the rows with ids for their labels; answer with what was answered first."""
        predictions = self._predictions
        if not len(predictions):
            return
        if self._mode is not Mode.ALL:
            await self._host.wait_for_room(len(predictions), predictions.size)
        outcome = await self._host.keep(self._model, predictions, self._kind, self._mode)
        self.waiting = outcome.count
        for row, refusal in outcome.refusals.items():
            at, place = self._places[row]
            if self._mode is Mode.ALL:
                raise refusal.error(f"/{-1 - place}")
            bad = BadLine(place, refusal.error())
            if self._mode is Mode.ABORT:
                raise bad
            self._refuse(bad, at)
        for row, ((at, _), first) in enumerate(zip(self._places, outcome.answers, strict=True)):
            if row in outcome.unkept and first is not None:
                self.answers[at] = Unkept(first.score, first.probability)
            elif first is not None:
                self.answers[at] = first.score, first.probability

    def _refuse(self, bad: BadLine, at: int | None = None) -> None:
        """Count a bad line and answer it, at a place in the answers, or as the next."""
        self._model.counts.refuse(bad.cause)
        if at is None:
            self.answers.append(refusal_part(bad))
        else:
            self.answers[at] = refusal_part(bad)


async def _send_spool(context: RequestContext, spool: IO[bytes], kind: bytes) -> None:
    spool.seek(0)
    await context.start(200, kind)
    while block := spool.read(SEND_BYTES):
        await context.part(block, more=True)
    await context.part(b"", more=False)
