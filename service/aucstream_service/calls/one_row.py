"""The hot calls: learn-one, predict-one and label-one, each a function of its body; their -many forms are beside them.

They are described in the OpenAPI document by `routes/learning.py` like all others.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, NamedTuple

import msgspec
import numpy as np

from aucstream.block import sign_of
from aucstream.errors import AucstreamError, NonFiniteStep
from aucstream.pipeline import RowKind
from aucstream_service.bodies.bodies import (
    LabelBody,
    LearnBody,
    PredictBody,
    RowLimits,
    check_features,
    checked_id,
    checked_row,
    known_fields,
    label_body,
    learn_body,
    predict_body,
)
from aucstream_service.bodies.decode_errors import located
from aucstream_service.calls.learn_many import LearnMany
from aucstream_service.calls.predict_many import PredictMany
from aucstream_service.calls.scores import contributions, judge_known, non_finite_score, scores_of
from aucstream_service.http.admission import require
from aucstream_service.http.request_context import BOM, JSON, SMALL, RequestContext
from aucstream_service.journal.commands import KeepOutcome, Kind, Mode
from aucstream_service.journal.row_batch import Predictions, RowBatch
from aucstream_service.models.host import ModelHost
from aucstream_service.models.model import Model
from aucstream_service.models.queued import Learned
from aucstream_service.storage.api_keys import Role

_encode = msgspec.json.Encoder().encode

First = tuple[float, float | None, int]  # score, probability, and after which event
Handler = Callable[[RequestContext, Model], Coroutine[Any, Any, None]]


class Answer(NamedTuple):
    """What a call is answered."""

    status: int
    body: bytes


class Pending(NamedTuple):
    """A call whose answer depends on what the journal decides."""

    outcome: asyncio.Future[Any]
    answer: Callable[[Any], Answer]  # or raises what became of it


OneCall = Callable[[RequestContext, Model, bytes], Answer | Pending]


class HotCalls:
    """Handlers by the last part of the path.

    A call of one row is a function of its body that answers at once, or says what to wait for, or raises what is
    wrong with it: then nothing was done.
    """

    def __init__(self, host: ModelHost) -> None:
        self.host = host
        self.settings = host.settings
        self.limits = RowLimits(host.settings.max_features, host.settings.max_name_length)
        self._tasks: set[asyncio.Task[Answer]] = set()
        many = LearnMany(host, self.limits)
        self.one: dict[str, OneCall] = {
            "learn-one": self.learn_one,
            "predict-one": self.predict_one,
            "label-one": self.label_one,
        }
        self.handlers: dict[str, Handler] = {
            **{name: self._handler(call) for name, call in self.one.items()},
            "learn-many": many.learn_many,
            "label-many": many.label_many,
            "predict-many": PredictMany(host, self.limits).predict_many,
        }

    def _handler(self, call: OneCall) -> Handler:
        most = self.settings.max_body_bytes

        async def handle(context: RequestContext, model: Model) -> None:
            context.require(JSON)
            answer = self.begun(call, context, model, await context.body(most))
            if isinstance(answer, Pending):
                answer = answer.answer(await answer.outcome)
            await context.answer(*answer)

        return handle

    def begun(self, call: OneCall, context: RequestContext, model: Model, data: bytes) -> Answer | Pending:
        """Call, or where a thread is at work on the model, have that done as soon as it is not."""
        if data[:3] == BOM:  # of a body that came without ASGI
            data = data[3:]
        return (
            self._later(partial(self._when_free, call, context, model, data))
            if model.away
            else call(context, model, data)
        )

    async def _when_free(self, call: OneCall, context: RequestContext, model: Model, data: bytes) -> Answer:
        await model.free()
        return await _decided(call(context, model, data))

    def _later(self, work: Callable[[], Coroutine[Any, Any, Answer]]) -> Pending:
        """Return the call whose answer is that of some work."""
        task = asyncio.get_running_loop().create_task(work())
        self._tasks.add(task)  # the loop alone would let it go
        task.add_done_callback(self._tasks.discard)
        return Pending(task, _same)

    def learn_one(self, _context: RequestContext, model: Model, data: bytes) -> Pending:
        """Learn one example; answers when it is durable and applied."""
        if model.spec.ignores_fields:
            data = known_fields(data, LearnBody)
        body = learn_body(data)
        try:
            sign = checked_row(body, len(data), self.limits)
            kind = model.kind
            if judge_known(model, body.features) is None:  # a row that can be judged at once has no fault
                if len(data) > SMALL:
                    return self._later(partial(self._learn_apart, body, sign, model, data))
                kind = model.pipeline.engine.check_rows([body.features], kind)
        except AucstreamError as error:
            raise located(error) from None
        return self._learn(body, sign, kind, model, data)

    async def _learn_apart(self, body: LearnBody, sign: float, model: Model, data: bytes) -> Answer:
        """Learn one example that takes long to check."""
        try:
            kind = await self.host.workers.run(
                model, lambda: model.pipeline.engine.check_rows([body.features], model.kind)
            )
        except AucstreamError as error:
            raise located(error) from None
        await model.free()
        return await _decided(self._learn(body, sign, kind, model, data))

    def _learn(self, body: LearnBody, sign: float, kind: RowKind | None, model: Model, data: bytes) -> Pending:
        rows = RowBatch(
            [body.features],
            [sign],
            None if body.weight == 1.0 else [body.weight],
            None if body.id is None else [body.id],
            [data],
            size=len(data),
        )
        return Pending(self.host.learn(model, rows, kind, Mode.ALL), _learned)

    def label_one(self, _context: RequestContext, model: Model, data: bytes) -> Pending:
        """Learn the prediction that waits under an id; answers when that is durable and applied."""
        if model.spec.ignores_fields:
            data = known_fields(data, LabelBody)
        body = label_body(data)
        try:
            sign = sign_of(body.label, "$.label")
            checked_id(body.id)
        except AucstreamError as error:
            raise located(error) from None
        rows = RowBatch([], [sign], ids=[body.id], size=len(data))
        return Pending(self.host.learn(model, rows, model.kind, Mode.ALL, Kind.LABEL), _labelled)

    def predict_one(self, context: RequestContext, model: Model, data: bytes) -> Answer | Pending:
        """Score one example with the state after event `seq`; with an id it waits for its label."""
        if model.spec.ignores_fields:
            data = known_fields(data, PredictBody)
        body = predict_body(data)
        try:
            if body.id is not None:
                require(context, Role.WRITE)
                checked_id(body.id)
        except AucstreamError as error:
            raise located(error) from None
        if len(data) > SMALL:
            return self._later(partial(self._predict_apart, body, len(data), model))
        judged = self._known(body, len(data), model)
        if (judged is None or body.explain) and model.is_large(len(body.features)):
            return self._later(partial(self._predict_apart, body, len(data), model))
        first, kind = judged or self._scored(body, model)
        shares = contributions(model, body.features) if body.explain else None
        return self._kept(body, first, kind, shares, model)

    async def _predict_apart(self, body: PredictBody, size: int, model: Model) -> Answer:
        """Score one example that may take long."""

        def judged() -> tuple[First, RowKind | None, dict[str, float] | None]:
            first, kind = self._known(body, size, model) or self._scored(body, model)
            return first, kind, contributions(model, body.features) if body.explain else None

        first, kind, shares = await self.host.workers.run(model, judged)
        await model.free()
        return await _decided(self._kept(body, first, kind, shares, model))

    def _kept(
        self, body: PredictBody, first: First, kind: RowKind | None, shares: dict[str, float] | None, model: Model
    ) -> Answer | Pending:
        """Answer a score, once it waits for its label where it has an id."""
        if body.id is None:
            return _predicted(first, shares)
        predictions = Predictions()
        predictions.add(body.id, body.features, *first)

        def answer(outcome: KeepOutcome) -> Answer:
            if outcome.refusals:
                raise outcome.refusals[0].error()
            if outcome.unkept:
                return _predicted(first, shares, kept=False)
            before = outcome.answers[0]
            assert before is not None
            # contributions belong to the score they add up to
            return _predicted(first, shares) if first == before[1:] else _predicted(before[1:], None)

        return Pending(self.host.keep(model, predictions, kind, Mode.ALL), answer)

    def _known(self, body: PredictBody, size: int, model: Model) -> tuple[First, RowKind | None] | None:
        """Return what is answered of a row that compiled code can read, and its form; None of any other row."""
        features = body.features
        try:
            if size > self.limits.name_length or len(features) > self.limits.features:
                check_features(features, self.limits)
        except AucstreamError as error:
            raise located(error) from None
        judged = judge_known(model, features)
        return None if judged is None else ((*judged, model.seq), model.kind)

    def _scored(self, body: PredictBody, model: Model) -> tuple[First, RowKind | None]:
        """Return what is answered of any row, and its form; or raise what is wrong with it."""
        try:
            kind = model.pipeline.engine.check_rows([body.features], model.kind)
        except AucstreamError as error:
            raise located(error) from None
        pair = scores_of(model, [body.features])[0]
        if pair is None:
            raise non_finite_score()
        return (*pair, model.seq), kind


async def _decided(answer: Answer | Pending) -> Answer:
    """Return an answer when it is known, or raise what became of the call."""
    return answer.answer(await answer.outcome) if isinstance(answer, Pending) else answer


def _same(answer: Answer) -> Answer:
    return answer


def _learned(learned: Learned) -> Answer:
    outcome = learned.outcome
    if learned.scores:
        score = learned.scores[0]
        if not math.isfinite(score):
            raise NonFiniteStep("row", [0], np.array(learned.scores), path='$["features"]')
        return Answer(200, b'{"seq":%d,"score":%s,"duplicate":false}' % (outcome.seq_first, _encode(score)))
    if outcome.refusals:
        raise outcome.refusals[0].error()
    if outcome.skipped:
        raise NonFiniteStep("row", [0], np.array([math.nan]), path='$["features"]')
    return Answer(200, b'{"seq":%d,"score":null,"duplicate":true}' % outcome.duplicates[0])


def _labelled(learned: Learned) -> Answer:
    outcome = learned.outcome
    if outcome.refusals:
        raise outcome.refusals[0].error()
    if outcome.skipped or (learned.scores and not math.isfinite(learned.scores[0])):
        raise NonFiniteStep("row", [0], np.array([math.nan]), path='$["id"]')
    if learned.scores:
        answer = b'{"seq":%d,"score":%s,"duplicate":false}' % (outcome.seq_first, _encode(learned.scores[0]))
    else:
        seq = outcome.duplicates.get(0, outcome.seq_last)
        answer = b'{"seq":%d,"score":null,"duplicate":%s}' % (seq, _encode(0 in outcome.duplicates))
    return Answer(202 if 0 in outcome.early else 200, answer)


def _predicted(first: First, shares: dict[str, float] | None, *, kept: bool = True) -> Answer:
    answer = b'{"score":%s,"probability":%s,"seq":%d' % (_encode(first[0]), _encode(first[1]), first[2])
    if not kept:
        answer += b',"kept":false'
    return Answer(200, answer + b"}" if shares is None else answer + b',"contributions":%s}' % _encode(shares))
