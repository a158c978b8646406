"""The hot calls: learn-one, predict-one, label-one and their -many forms, straight on ASGI.

They are described in the OpenAPI document by `routes/learning.py` like all others.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import IO, Any

import msgspec
import numpy as np

from aucstream.block import sign_of
from aucstream.errors import AucstreamError, InvalidParams, NonFiniteStep
from aucstream.pipeline import RowKind
from service.admission import require
from service.arrow import Batches, Call, Limits, Plain, pyarrow
from service.columns import payload_of
from service.commands import Kind, Mode
from service.errors import (
    BodyTooLarge,
    Disconnected,
    Forbidden,
    InvalidBody,
    InvalidQuery,
    NonFiniteScore,
    Overloaded,
    RowsRefused,
    ServiceError,
)
from service.exchange import ARROW, JSON, NDJSON, Exchange
from service.host import ModelHost
from service.keys import Role
from service.lines import LineReader
from service.model import Learned, Model
from service.problems import MAX_ERRORS, detail_of, field_errors
from service.query import checked_query
from service.rows import (
    Features,
    Item,
    LabelBody,
    LearnBody,
    PredictBody,
    Predictions,
    RowLimits,
    Rows,
    check_features,
    checked_id,
    checked_row,
    compact,
    label_body,
    learn_bodies,
    learn_body,
    lines_of,
    located,
    predict_body,
    raw_list,
    row_of,
)

STEP_ROWS = 256  # rows decoded or scored before the loop looks elsewhere: about a millisecond
SPOOL_BYTES = 1 << 20  # an NDJSON answer longer than this waits on disk until its request has ended
SEND_BYTES = 1 << 16
IN_FLIGHT = 2  # batches of one NDJSON stream that wait for the journal while the next is decoded

_encode = msgspec.json.Encoder().encode
_SIGNS = {True: 1.0, False: -1.0}


Answer = tuple[float, float | None] | bytes  # score and probability, or what is told of a row that was refused


def _no_payload(_taken: Sequence[int] | None) -> bytes:
    return b""  # an event of labels is made of the predictions they belong to


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
        return Rows(
            self.features,
            self.signs,
            None if all(weight == 1.0 for weight in self.weights) else self.weights,
            self.ids if self.with_ids else None,
            self.size,
            _no_payload if self.event is Kind.LABEL else self.payload,
        )


class PlainBatch:
    """Rows of one form on their way to the journal, in the place of a Batch of them."""

    def __init__(self, plain: Plain) -> None:
        self.plain = plain
        self.signs = plain.signs
        self.places: Sequence[int] = plain.places

    def __len__(self) -> int:
        return len(self.signs)

    @property
    def with_ids(self) -> bool:
        """Whether any row has an id."""
        return self.plain.ids is not None

    def payload(self, taken: Sequence[int] | None) -> bytes:
        """Return these rows as the journal keeps rows of one form."""
        plain = self.plain
        return payload_of(plain.features, plain.signs, plain.weights, plain.ids, taken)

    def line(self, row: int) -> bytes:
        """Return a row as a line of JSON."""
        plain = self.plain
        weight = 1.0 if plain.weights is None else plain.weights[row]
        id_ = None if plain.ids is None else plain.ids[row]
        return _encode(LearnBody(plain.features[row], plain.signs[row], weight, id_))

    def rows(self) -> Rows:
        """Return the rows as the host takes them."""
        plain = self.plain
        size = plain.features.values.nbytes + len(self)
        return Rows(plain.features, plain.signs, plain.weights, plain.ids, size, self.payload, self.line)


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
        if all(map(math.isfinite, learned.scores)):
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
Handler = Callable[[Exchange, Model], Coroutine[Any, Any, None]]


class HotCalls:
    """Handlers by the last part of the path."""

    def __init__(self, host: ModelHost) -> None:
        self.host = host
        self.settings = host.settings
        self.limits = RowLimits(host.settings.max_features, host.settings.max_name_length)
        self.spooled = 0  # bytes of answers that wait for the end of their requests
        self.handlers = {
            "learn-one": self.learn_one,
            "predict-one": self.predict_one,
            "label-one": self.label_one,
            "learn-many": self.learn_many,
            "label-many": self.label_many,
            "predict-many": self.predict_many,
        }

    # ---- one row -----------------------------------------------------------------------------

    async def learn_one(self, exchange: Exchange, model: Model) -> None:
        """Learn one example; answers when it is durable and applied."""
        exchange.require(JSON)
        data = await exchange.body(self.settings.max_body_bytes)
        body = learn_body(data)
        try:
            sign = checked_row(body, len(data), self.limits)
            features: list[Features] = [body.features]
            kind = model.pipeline.check_rows(features, model.kind)
        except AucstreamError as error:
            raise located(error) from None
        rows = Rows(
            features,
            [sign],
            None if body.weight == 1.0 else [body.weight],
            None if body.id is None else [body.id],
            len(data),
            lambda _taken: compact(data),
        )
        learned = await self.host.learn(model, rows, kind, Mode.ALL)
        appended = learned.appended
        if learned.scores:
            score = learned.scores[0]
            if not math.isfinite(score):
                raise NonFiniteStep("row", [0], np.array(learned.scores))
            answer = b'{"seq":%d,"score":%s,"duplicate":false}' % (appended.seq_first, _encode(score))
        elif appended.refused:
            raise appended.refused[0].error()
        elif appended.skipped:
            raise NonFiniteStep("row", [0], np.array([math.nan]))
        else:
            answer = b'{"seq":%d,"score":null,"duplicate":true}' % appended.duplicates[0]
        await exchange.answer(200, answer)

    async def label_one(self, exchange: Exchange, model: Model) -> None:
        """Learn the prediction that waits under an id; answers when that is durable and applied."""
        exchange.require(JSON)
        data = await exchange.body(self.settings.max_body_bytes)
        body = label_body(data)
        try:
            sign = sign_of(body.label, "$.label")
            checked_id(body.id)
        except AucstreamError as error:
            raise located(error) from None
        rows = Rows([], [sign], None, [body.id], len(data), _no_payload)
        learned = await self.host.learn(model, rows, model.kind, Mode.ALL, Kind.LABEL)
        appended = learned.appended
        if appended.refused:
            raise appended.refused[0].error()
        if appended.skipped or (learned.scores and not math.isfinite(learned.scores[0])):
            raise NonFiniteStep("row", [0], np.array([math.nan]))
        if learned.scores:
            answer = b'{"seq":%d,"score":%s,"duplicate":false}' % (appended.seq_first, _encode(learned.scores[0]))
        else:
            seq = appended.duplicates.get(0, appended.seq_last)
            answer = b'{"seq":%d,"score":null,"duplicate":%s}' % (seq, _encode(0 in appended.duplicates))
        await exchange.answer(202 if 0 in appended.held else 200, answer)

    async def predict_one(self, exchange: Exchange, model: Model) -> None:
        """Score one example with the state after event `seq`; with an id it waits for its label."""
        exchange.require(JSON)
        data = await exchange.body(self.settings.max_body_bytes)
        body = predict_body(data)
        try:
            if body.id is not None:
                require(exchange, Role.WRITE)
                checked_id(body.id)
            if len(data) > self.limits.name_length or len(body.features) > self.limits.features:
                check_features(body.features, self.limits)
            judged = judge_as_before(model, body.features)
            if judged is None:
                rows: list[Features] = [body.features]
                kind = model.pipeline.check_rows(rows, model.kind)
            else:
                kind = model.kind
        except AucstreamError as error:
            raise located(error) from None
        if judged is None:
            scores, probabilities = score(model, rows)
            judged = scores[0], probabilities[0]
        first = (*judged, model.seq)
        told = contributions(model, body.features) if body.explain else None
        if body.id is not None:
            predictions = Predictions()
            predictions.add(body.id, body.features, *first)
            kept = await self.host.keep(model, predictions, kind, Mode.ALL)
            if kept.refused:
                raise kept.refused[0].error()
            before = kept.answers[0]
            assert before is not None
            if first != before[1:]:  # contributions belong to the score they add up to
                first, told = before[1:], None
        answer = b'{"score":%s,"probability":%s,"seq":%d' % (_encode(first[0]), _encode(first[1]), first[2])
        if told is not None:
            answer += b',"contributions":%s' % _encode(told)
        await exchange.answer(200, answer + b"}")

    # ---- many rows: learn and label ----------------------------------------------------------

    async def learn_many(self, exchange: Exchange, model: Model) -> None:
        """Learn a JSON array (all or nothing) or NDJSON lines (streamed)."""
        await self._take_many(exchange, model, Kind.LEARN)

    async def label_many(self, exchange: Exchange, model: Model) -> None:
        """Label by id from a JSON array (all or nothing) or NDJSON lines (streamed)."""
        await self._take_many(exchange, model, Kind.LABEL)

    async def _take_many(self, exchange: Exchange, model: Model, event: Kind) -> None:
        skip = on_error(exchange)
        kind = exchange.require(JSON, NDJSON, ARROW)
        if kind == JSON:
            if skip:
                raise InvalidQuery("on_error", "abort: a JSON array is taken whole or not at all", "skip")
            await self._take_array(exchange, model, event)
        elif kind == NDJSON:
            await self._take_stream(exchange, model, event, self._lines(exchange), skip=skip)
        else:
            rows = self._arrow(exchange, await pyarrow(), Call.LABEL if event is Kind.LABEL else Call.LEARN)
            await self._take_stream(exchange, model, event, rows, skip=skip)

    async def _take_array(self, exchange: Exchange, model: Model, event: Kind) -> None:
        items = await self._array(exchange)
        batch = Batch(event)
        kind = model.kind
        for start in range(0, len(items), STEP_ROWS):
            if start:
                await asyncio.sleep(0)
            kind = self._decode(batch, items[start : start + STEP_ROWS], model, kind, None)
        tally = Tally(model)
        if batch.signs:
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
                    found = _checked(items, model, kind)
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
                if batch.signs:
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
        if not (min(weights) >= 0.0 and max(weights) < math.inf and model.pipeline.plain(features)):
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

    # ---- many rows: predict ------------------------------------------------------------------

    async def predict_many(self, exchange: Exchange, model: Model) -> None:
        """Score a JSON array, NDJSON lines or an Arrow stream; the answer comes in the same form."""
        skip = on_error(exchange)
        kind = exchange.require(JSON, NDJSON, ARROW)
        if kind == JSON:
            if skip:
                raise InvalidQuery("on_error", "abort: a JSON array is taken whole or not at all", "skip")
            await self._predict_array(exchange, model)
        elif kind == NDJSON:
            await self._predict_stream(exchange, model, self._lines(exchange), LineAnswers(), skip=skip)
        else:
            pa = await pyarrow()
            answers = answers_for(exchange, pa)
            await self._predict_stream(exchange, model, self._arrow(exchange, pa, Call.PREDICT), answers, skip=skip)

    async def _predict_array(self, exchange: Exchange, model: Model) -> None:
        items = await self._array(exchange)
        scored = Scored()
        seq = model.seq
        for start in range(0, len(items), STEP_ROWS):
            if start:
                await asyncio.sleep(0)
            seq = model.seq
            self._score(exchange, scored, items[start : start + STEP_ROWS], model, skip=False)
        await self._keep(scored, model, Mode.ALL)
        parts = b",".join(map(_prediction, scored.parts))
        await exchange.answer(200, b'{"predictions":[%s],"seq":%d}' % (parts, seq))

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
                    if isinstance(items, Plain):
                        if _checked(items, model, model.kind) is not None:
                            with contextlib.suppress(NonFiniteScore):
                                scores, probabilities = score(model, items.features)
                                write(answers.part(list(zip(scores, probabilities, strict=True))))
                                continue
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
                scored.parts.append(_refused_part(refused))
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
                        scored.parts[at] = _refused_part(bad_score)
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
            scored.parts[at] = _refused_part(refused)
        for (at, _), first in zip(scored.places, kept.answers, strict=True):
            if first is not None:
                scored.parts[at] = first.score, first.probability

    # ---- reading -----------------------------------------------------------------------------

    async def _array(self, exchange: Exchange) -> list[Item]:
        raws = raw_list(await exchange.body(self.settings.max_body_bytes))
        if len(raws) > self.settings.max_rows:
            raise BodyTooLarge("body", f"at most {self.settings.max_rows} rows (NDJSON has no limit)", len(raws))
        exchange.rows = len(raws)
        return [(-1 - row, raw) for row, raw in enumerate(raws)]  # below 0: an array's row

    async def _lines(self, exchange: Exchange) -> AsyncIterator[list[Item]]:
        reader = LineReader(self.settings.max_line_bytes)
        async for chunk in exchange.chunks():
            items: list[Item] = list(reader.feed(chunk))
            exchange.rows += len(items)
            for start in range(0, len(items), STEP_ROWS):
                yield items[start : start + STEP_ROWS]
                await asyncio.sleep(0)
        items = list(reader.end())
        exchange.rows += len(items)
        if items:
            yield items

    async def _arrow(self, exchange: Exchange, pa: Any, call: Call) -> AsyncIterator[list[Item] | Plain]:
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


class Scored:
    """Rows of a predict-many body: their answers, and those that wait for a label."""

    def __init__(self) -> None:
        self.parts: list[Answer] = []
        self.waiting = Predictions()
        self.places: list[tuple[int, int]] = []  # of each that waits: in the answer, in the body
        self.kind: RowKind | None = None
        self.kept = 0  # of those that wait: kept by this request


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


def _prediction(answer: Answer) -> bytes:
    if isinstance(answer, bytes):
        return answer
    return b'{"score":%s,"probability":%s}' % (_encode(answer[0]), _encode(answer[1]))


class LineAnswers:
    """The answers of predict-many as they are sent: lines."""

    kind = NDJSON

    def begin(self) -> bytes:
        """Return what comes before the first part."""
        return b""

    def part(self, answers: Sequence[Answer]) -> bytes:
        """Return some answers."""
        return b"".join([_prediction(answer) + b"\n" for answer in answers])

    def end(self, seq: int) -> bytes:
        """Return what comes after the last part; `seq` is that of the last rows scored."""
        del seq
        return b""


class DocumentAnswers(LineAnswers):
    """One JSON document."""

    kind = JSON

    def __init__(self) -> None:
        self._comma = b""

    def begin(self) -> bytes:
        """Return what comes before the first part."""
        return b'{"predictions":['

    def part(self, answers: Sequence[Answer]) -> bytes:
        """Return some answers."""
        comma, self._comma = self._comma, b"," if answers else self._comma
        return (comma if answers else b"") + b",".join(map(_prediction, answers))

    def end(self, seq: int) -> bytes:
        """Return what comes after the last part."""
        return b'],"seq":%d}' % seq


class ArrowAnswers(LineAnswers):
    """An Arrow stream of the columns `score` and `probability`; both are null where a row was refused."""

    kind = ARROW

    def __init__(self, pa: Any) -> None:
        self._pa = pa
        self._schema = pa.schema([("score", pa.float64()), ("probability", pa.float64())])

    def begin(self) -> bytes:
        """Return the schema."""
        return bytes(self._schema.serialize())

    def part(self, answers: Sequence[Answer]) -> bytes:
        """Return a record batch."""
        pairs = [(None, None) if isinstance(answer, bytes) else answer for answer in answers]
        columns = [self._pa.array([pair[at] for pair in pairs], self._pa.float64()) for at in (0, 1)]
        return bytes(self._pa.record_batch(columns, self._schema).serialize())

    def end(self, seq: int) -> bytes:
        """Return the mark of the end."""
        del seq
        return b"\xff\xff\xff\xff\x00\x00\x00\x00"


def answers_for(exchange: Exchange, pa: Any) -> LineAnswers:
    """Return the form of the answer to an Arrow stream: Arrow, unless Accept asks for JSON and not for Arrow."""
    accept = b",".join(value for name, value in exchange.scope["headers"] if name == b"accept").lower()
    if ARROW not in accept and NDJSON in accept:
        return LineAnswers()
    return DocumentAnswers() if ARROW not in accept and JSON in accept else ArrowAnswers(pa)


def _refused_part(refused: Refused) -> bytes:
    return _encode({"score": None, "probability": None, "errors": refused.entries()})


def _checked(plain: Plain, model: Model, kind: RowKind | None) -> RowKind | None:
    """Return the form of rows that the model can learn; None: as lines of JSON they are told why not."""
    try:
        return model.pipeline.check_rows(plain.features, kind)
    except AucstreamError:
        return None


def rows_stop(batch: Batch | PlainBatch, mode: Mode) -> bool:
    """Return whether a batch may stop half-way (a label conflict under abort)."""
    return mode is Mode.ABORT and batch.with_ids


def judge_as_before(model: Model, features: Features) -> tuple[float, float | None] | None:
    """Return score and probability of a row with the names of the row before; None of any other row."""
    if model.kind != "named" or type(features) is not dict:
        return None
    found = model.pipeline.judge_as_before(features)
    if found is None:
        return None
    return found[0] + 0.0, found[1] if model.calibrated else None


def score(model: Model, rows: Sequence[Features]) -> tuple[list[float], list[float | None]]:
    """Return scores and probabilities of checked rows."""
    scores = model.pipeline.score_rows(rows)
    finite = np.isfinite(scores)
    if not finite.all():
        error = NonFiniteScore("score", "a finite number", pointer="")
        error.rows = np.flatnonzero(~finite).tolist()
        raise error
    values: list[float] = (scores + 0.0).tolist()  # the journal keeps no negative zero
    return values, model.pipeline.probabilities(scores).tolist() if model.calibrated else [None] * len(values)


def contributions(model: Model, features: Features) -> dict[str, float]:
    """Return what each name of a checked row adds to its score."""
    found: dict[str, float] = {}
    try:
        parts = model.pipeline.explain_row(features)
    except InvalidParams as error:
        expected = f"false, or {error.expected}"
        raise InvalidBody("explain", expected, True, pointer="/explain") from error
    for name, part in parts.items():
        found[str(name)] = found.get(str(name), 0.0) + part  # 3 and "3" are one name in JSON
    if not all(map(math.isfinite, found.values())):
        raise NonFiniteScore("contributions", "finite numbers")
    return found


def on_error(exchange: Exchange) -> bool:
    """Return whether bad lines are skipped (`?on_error=abort|skip`)."""
    if not exchange.query:
        return False
    value = checked_query(exchange.query, ("on_error",)).get("on_error", "abort")
    if value not in ("abort", "skip"):
        raise InvalidQuery("on_error", "abort or skip", value)
    return value == "skip"


def _refuse_explain(explain: bool) -> None:
    if explain:
        raise InvalidBody("explain", "false: predict-one alone gives contributions", True, pointer="/explain")


async def _send_spool(exchange: Exchange, spool: IO[bytes], kind: bytes) -> None:
    spool.seek(0)
    await exchange.start(200, kind)
    while block := spool.read(SEND_BYTES):
        await exchange.part(block, more=True)
    await exchange.part(b"", more=False)
