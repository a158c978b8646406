"""The hot calls, straight on ASGI: learn-one, predict-one and label-one here, their -many forms beside them.

They are described in the OpenAPI document by `routes/learning.py` like all others.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import numpy as np

from aucstream.block import sign_of
from aucstream.errors import AucstreamError, NonFiniteStep
from aucstream.pipeline import RowKind
from service.admission import require
from service.commands import Kind, Mode
from service.exchange import JSON, Exchange
from service.host import ModelHost
from service.judging import contributions, judge_known, score
from service.keys import Role
from service.model import Learned, Model
from service.rows import (
    Features,
    PredictBody,
    Predictions,
    RowLimits,
    Rows,
    check_features,
    checked_id,
    checked_row,
    compact,
    label_body,
    learn_body,
    located,
    no_payload,
    predict_body,
)
from service.scoring import Scoring
from service.taking import Taking

_encode = msgspec.json.Encoder().encode

First = tuple[float, float | None, int]  # score, probability, and after which event
Handler = Callable[[Exchange, Model], Coroutine[Any, Any, None]]


class HotCalls:
    """Handlers by the last part of the path."""

    def __init__(self, host: ModelHost) -> None:
        self.host = host
        self.settings = host.settings
        self.limits = RowLimits(host.settings.max_features, host.settings.max_name_length)
        taking = Taking(host, self.limits)
        self.handlers: dict[str, Handler] = {
            "learn-one": self.learn_one,
            "predict-one": self.predict_one,
            "label-one": self.label_one,
            "learn-many": taking.learn_many,
            "label-many": taking.label_many,
            "predict-many": Scoring(host, self.limits).predict_many,
        }

    async def learn_one(self, exchange: Exchange, model: Model) -> None:
        """Learn one example; answers when it is durable and applied."""
        exchange.require(JSON)
        learned = await self.learning(await exchange.body(self.settings.max_body_bytes), model)
        await exchange.answer(200, learned_answer(learned))

    def learning(self, data: bytes, model: Model) -> asyncio.Future[Learned]:
        """Queue the row of a body, or raise what is wrong with it."""
        body = learn_body(data)
        features: list[Features] = [body.features]
        try:
            sign = checked_row(body, len(data), self.limits)
            kind = model.kind
            if judge_known(model, body.features) is None:  # a row that can be judged at once has no fault
                kind = model.pipeline.check_rows(features, kind)
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
        return self.host.learn(model, rows, kind, Mode.ALL)

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
        rows = Rows([], [sign], None, [body.id], len(data), no_payload)
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
        except AucstreamError as error:
            raise located(error) from None
        first, kind = self._judged(body, len(data), model)
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
        await exchange.answer(200, _predicted(first, told))

    def predicted(self, data: bytes, model: Model) -> bytes | None:
        """Return the answer to a row that does not wait for a label; None: `predict_one` has it."""
        body = predict_body(data)
        if body.id is not None or body.explain:
            return None
        return _predicted(self._judged(body, len(data), model)[0], None)

    def _judged(self, body: PredictBody, size: int, model: Model) -> tuple[First, RowKind | None]:
        """Return what is answered of a row, and its form; or raise what is wrong with it."""
        features = body.features
        try:
            if size > self.limits.name_length or len(features) > self.limits.features:
                check_features(features, self.limits)
            judged = judge_known(model, features)
            if judged is not None:
                return (*judged, model.seq), model.kind
            kind = model.pipeline.check_rows([features], model.kind)
        except AucstreamError as error:
            raise located(error) from None
        scores, probabilities = score(model, [features])
        return (scores[0], probabilities[0], model.seq), kind


def learned_answer(learned: Learned) -> bytes:
    """Return the answer of learn-one, or raise what became of its row."""
    appended = learned.appended
    if learned.scores:
        score = learned.scores[0]
        if not math.isfinite(score):
            raise NonFiniteStep("row", [0], np.array(learned.scores))
        return b'{"seq":%d,"score":%s,"duplicate":false}' % (appended.seq_first, _encode(score))
    if appended.refused:
        raise appended.refused[0].error()
    if appended.skipped:
        raise NonFiniteStep("row", [0], np.array([math.nan]))
    return b'{"seq":%d,"score":null,"duplicate":true}' % appended.duplicates[0]


def _predicted(first: First, told: dict[str, float] | None) -> bytes:
    answer = b'{"score":%s,"probability":%s,"seq":%d' % (_encode(first[0]), _encode(first[1]), first[2])
    return answer + b"}" if told is None else answer + b',"contributions":%s}' % _encode(told)
