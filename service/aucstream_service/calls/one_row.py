"""The hot calls: learn-one, predict-one and label-one, each a function of its body; their -many forms are beside them.

They are described in the OpenAPI document by `routes/learning.py` like all others.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

import msgspec
import numpy as np

from aucstream.block import sign_of
from aucstream.errors import AucstreamError, NonFiniteStep
from aucstream.pipeline import RowKind
from aucstream_service.bodies.bodies import (
    PredictBody,
    RowLimits,
    check_features,
    checked_id,
    checked_row,
    label_body,
    learn_body,
    predict_body,
)
from aucstream_service.bodies.decode_errors import located
from aucstream_service.calls.learn_many import LearnMany
from aucstream_service.calls.predict_many import PredictMany
from aucstream_service.calls.scores import contributions, judge_known, non_finite_score, scores_of
from aucstream_service.http.admission import require
from aucstream_service.http.request_context import JSON, RequestContext
from aucstream_service.journal.commands import KeepOutcome, Kind, Mode
from aucstream_service.journal.event_codec import Features
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
            answer = call(context, model, await context.body(most))
            if isinstance(answer, Pending):
                answer = answer.answer(await answer.outcome)
            await context.answer(*answer)

        return handle

    def learn_one(self, _context: RequestContext, model: Model, data: bytes) -> Pending:
        """Learn one example; answers when it is durable and applied."""
        body = learn_body(data)
        features: list[Features] = [body.features]
        try:
            sign = checked_row(body, len(data), self.limits)
            kind = model.kind
            if judge_known(model, body.features) is None:  # a row that can be judged at once has no fault
                kind = model.pipeline.engine.check_rows(features, kind)
        except AucstreamError as error:
            raise located(error) from None
        rows = RowBatch(
            features,
            [sign],
            None if body.weight == 1.0 else [body.weight],
            None if body.id is None else [body.id],
            [data],
            size=len(data),
        )
        return Pending(self.host.learn(model, rows, kind, Mode.ALL), _learned)

    def label_one(self, _context: RequestContext, model: Model, data: bytes) -> Pending:
        """Learn the prediction that waits under an id; answers when that is durable and applied."""
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
        body = predict_body(data)
        try:
            if body.id is not None:
                require(context, Role.WRITE)
                checked_id(body.id)
        except AucstreamError as error:
            raise located(error) from None
        first, kind = self._judged(body, len(data), model)
        shares = contributions(model, body.features) if body.explain else None
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

    def _judged(self, body: PredictBody, size: int, model: Model) -> tuple[First, RowKind | None]:
        """Return what is answered of a row, and its form; or raise what is wrong with it."""
        features = body.features
        try:
            if size > self.limits.name_length or len(features) > self.limits.features:
                check_features(features, self.limits)
            judged = judge_known(model, features)
            if judged is not None:
                return (*judged, model.seq), model.kind
            kind = model.pipeline.engine.check_rows([features], model.kind)
        except AucstreamError as error:
            raise located(error) from None
        pair = scores_of(model, [features])[0]
        if pair is None:
            raise non_finite_score()
        return (*pair, model.seq), kind


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
