"""predict-many: an array, lines or an Arrow stream of rows to score; those with ids wait for their labels."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Sequence
from typing import IO

from aucstream.block import Block
from aucstream.errors import AucstreamError
from aucstream.pipeline import RowKind
from aucstream_service.bodies.arrow import pyarrow
from aucstream_service.bodies.bodies import (
    Features,
    Item,
    PredictBody,
    Predictions,
    RowLimits,
    check_features,
    checked_id,
    located,
    predict_bodies,
    predict_body,
)
from aucstream_service.bodies.ndjson import FEW, STEP_ROWS
from aucstream_service.bodies.readers import Bodies, Refused, asked, form_of
from aucstream_service.bodies.row_batch import Call, Plain
from aucstream_service.calls.responses import Answer, DocumentAnswers, LineAnswers, answers_for, refused_part
from aucstream_service.calls.scores import score
from aucstream_service.errors.exceptions import (
    BodyTooLarge,
    Forbidden,
    InvalidBody,
    NonFiniteScore,
    Overloaded,
    RowsRefused,
)
from aucstream_service.http.admission import require
from aucstream_service.http.request_context import JSON, NDJSON, Exchange
from aucstream_service.journal.commands import Mode
from aucstream_service.models.host import ModelHost
from aucstream_service.models.model import Model
from aucstream_service.storage.api_keys import Role

SPOOL_BYTES = 1 << 20  # an NDJSON answer longer than this waits on disk until its request has ended
SEND_BYTES = 1 << 16


class Scoring:
    """The call that scores many rows."""

    def __init__(self, host: ModelHost, limits: RowLimits) -> None:
        self.host = host
        self.settings = host.settings
        self.limits = limits
        self.bodies = Bodies(host.settings, limits)
        self.spooled = 0  # bytes of answers that wait for the end of their requests

    async def predict_many(self, exchange: Exchange, model: Model) -> None:
        """Score a JSON array, NDJSON lines or an Arrow stream; the answer comes in the same form."""
        kind, skip = asked(exchange)
        if kind == JSON:
            await self._predict_array(exchange, model)
        elif kind == NDJSON:
            await self._predict_stream(
                exchange, model, self.bodies.lines(exchange, Call.PREDICT), LineAnswers(), skip=skip
            )
        else:
            pa = await pyarrow()
            answers = answers_for(exchange, pa)
            await self._predict_stream(
                exchange, model, self.bodies.arrow(exchange, pa, Call.PREDICT), answers, skip=skip
            )

    async def _predict_array(self, exchange: Exchange, model: Model) -> None:
        items = await self.bodies.array(exchange)
        scored = Scored()
        seq = model.seq
        for start in range(0, len(items), STEP_ROWS):
            if start:
                await asyncio.sleep(0)
            seq = model.seq
            self._score(exchange, scored, items[start : start + STEP_ROWS], model, skip=False)
        await self._keep(scored, model, Mode.ALL)
        answers = DocumentAnswers()
        await exchange.answer(200, answers.begin() + answers.part(scored.parts) + answers.end(seq))

    async def _predict_stream(
        self,
        exchange: Exchange,
        model: Model,
        parts: AsyncIterator[list[Item] | Plain],
        answers: LineAnswers,
        *,
        skip: bool,
    ) -> None:
        # The answer begins when the request has ended: a client that writes before it reads cannot
        # dead-lock, and a bad line still gets the right status.
        size = kept = 0

        def write(data: bytes) -> None:
            nonlocal size
            size += len(data)
            self.spooled += len(data)
            if self.spooled > self.settings.max_spool_bytes:
                raise Overloaded("answers", f"at most {self.settings.max_spool_bytes} bytes of them waiting")
            spool.write(data)

        with tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES, dir=str(self.host.directory.spool)) as spool:
            try:
                write(answers.begin())
                async for items in parts:
                    scored = Scored()
                    refused: Refused | None = None
                    known = self._known(items, model)
                    if known is not None:
                        with contextlib.suppress(NonFiniteScore):
                            write(answers.part(list(zip(*score(model, known), strict=True))))
                            continue
                    if isinstance(items, Plain):
                        items = items.lines()
                    try:
                        self._score(exchange, scored, items, model, skip=skip)
                    except Refused as error:  # what came before it is kept all the same
                        refused = error
                    try:
                        await self._keep(scored, model, Mode.SKIP if skip else Mode.ABORT)
                    finally:
                        kept += scored.kept
                    if refused is not None:
                        raise refused
                    write(answers.part(scored.parts))
                write(answers.end(model.seq))
                await _send_spool(exchange, spool, answers.kind)
            except Refused as error:
                model.counts.refuse(error.cause)
                counts = {"accepted": kept, "seq": model.seq, "errors": error.entries()}
                raise RowsRefused(error.cause, counts) from error
            finally:
                self.spooled -= size

    def _known(self, items: Sequence[Item] | Plain, model: Model) -> Sequence[Features] | Block | None:
        """Return rows that have no fault and wait for no label; None: one by one they are told what is wrong."""
        if isinstance(items, Plain):
            return items.features if form_of(items, model, model.kind) is not None else None
        if model.kind != "named" or len(items) < FEW or items[0][0] < 0:
            return None
        bodies = predict_bodies([raw or b"" for _, raw in items])
        if bodies is None or any(body.explain or body.id is not None for body in bodies):
            return None
        features = [body.features for body in bodies]
        return model.pipeline.block_of(features) if max(map(len, features)) <= self.limits.features else None

    def _score(self, exchange: Exchange, scored: Scored, items: Sequence[Item], model: Model, *, skip: bool) -> None:
        """Check and score rows; a bad one is answered by its errors, or raises after those before it."""
        rows: list[PredictBody] = []
        places: list[tuple[int, int]] = []  # in the answer, in the body
        kind = model.kind
        bad: Refused | None = None
        for place, raw in items:
            try:
                if raw is None:
                    raise BodyTooLarge("line", f"at most {self.settings.max_line_bytes} bytes a line")
                body = predict_body(raw)
                _refuse_explain(body.explain)
                if body.id is not None:
                    require(exchange, Role.WRITE)
                    checked_id(body.id)
                check_features(body.features, self.limits)
                found = model.pipeline.check_rows([body.features], kind)
            except Forbidden:
                raise
            except AucstreamError as error:
                if place < 0:
                    raise located(error, -1 - place) from None
                refused = Refused(place, located(error))
                if not skip:
                    bad = refused
                    break
                model.counts.refuse(error)
                scored.parts.append(refused_part(refused))
                continue
            if body.id is not None:
                kind = scored.kind = found  # rows that wait are of one form
            rows.append(body)
            places.append((len(scored.parts), place))
            scored.parts.append(b"")
        scores: list[float] = []
        probabilities: list[float | None] = []
        while rows and not scores:
            try:
                scores, probabilities = score(model, [body.features for body in rows])
            except NonFiniteScore as error:
                if places[0][1] < 0:
                    error.errors[0]["pointer"] = f"/{-1 - places[error.rows[0]][1]}"
                    raise
                for row in reversed(error.rows):
                    at, place = places[row]
                    bad_score = Refused(place, error)
                    stop = row + 1 if skip else len(rows)
                    del rows[row:stop], places[row:stop]
                    if skip:
                        model.counts.refuse(error)
                        scored.parts[at] = refused_part(bad_score)
                    else:
                        bad = bad_score
        for body, (at, place), value, probability in zip(rows, places, scores, probabilities, strict=True):
            scored.parts[at] = value, probability
            if body.id is not None:
                scored.waiting.add(body.id, body.features, value, probability, model.seq)
                scored.places.append((at, place))
        if bad is not None:
            raise bad

    async def _keep(self, scored: Scored, model: Model, mode: Mode) -> None:
        """Keep the scored rows with ids for their labels; answer with what was answered first."""
        waiting = scored.waiting
        if not len(waiting):
            return
        if mode is not Mode.ALL:
            await self.host.wait_for_room(len(waiting), waiting.size)
        kept = await self.host.keep(model, waiting, scored.kind, mode)
        scored.kept = kept.kept
        for row, refusal in kept.refused.items():
            at, place = scored.places[row]
            if mode is Mode.ALL:
                raise refusal.error(f"/{-1 - place}")
            refused = Refused(place, refusal.error())
            if mode is Mode.ABORT:
                raise refused
            model.counts.refuse(refused.cause)
            scored.parts[at] = refused_part(refused)
        for (at, _), first in zip(scored.places, kept.answers, strict=True):
            if first is not None:
                scored.parts[at] = first.score, first.probability


class Scored:
    """Rows of a predict-many body: their answers, and those that wait for a label."""

    def __init__(self) -> None:
        self.parts: list[Answer] = []
        self.waiting = Predictions()
        self.places: list[tuple[int, int]] = []  # of each that waits: in the answer, in the body
        self.kind: RowKind | None = None
        self.kept = 0  # of those that wait: kept by this request


def _refuse_explain(explain: bool) -> None:
    if explain:
        raise InvalidBody("explain", "false: predict-one alone gives contributions", True, pointer="/explain")


async def _send_spool(exchange: Exchange, spool: IO[bytes], kind: bytes) -> None:
    spool.seek(0)
    await exchange.start(200, kind)
    while block := spool.read(SEND_BYTES):
        await exchange.part(block, more=True)
    await exchange.part(b"", more=False)
