"""Scores, probabilities and contributions for responses."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from aucstream.block import Block
from aucstream.errors import InvalidParams
from aucstream_service.errors.exceptions import InvalidBody, NonFiniteScore
from aucstream_service.journal.event_codec import Features
from aucstream_service.models.model import Model

Score = tuple[float, float | None]  # and its probability, unless the model is not calibrated


def judge_known(model: Model, features: Features) -> Score | None:
    """Return score and probability of a row whose names are all known; None of any other row."""
    if model.kind != "named" or type(features) is not dict:
        return None
    pair = model.pipeline.engine.score_known(features)
    if pair is None:
        return None
    return pair[0] + 0.0, pair[1] if model.calibrated else None


def scores_of(model: Model, rows: Sequence[Features] | Block) -> list[Score | None]:
    """Return score and probability of each checked row; None: its score is not a finite number."""
    engine = model.pipeline.engine
    scores = engine.score_block(rows) if isinstance(rows, Block) else engine.score_rows(rows)
    finite = np.isfinite(scores)
    values = np.where(finite, scores, 0.0) + 0.0  # the journal keeps no negative zero
    probabilities = engine.probabilities(values).tolist() if model.calibrated else [None] * len(values)
    pairs: list[Score | None] = list(zip(values.tolist(), probabilities, strict=True))
    return pairs if finite.all() else [pair if good else None for pair, good in zip(pairs, finite, strict=True)]


def non_finite_score(row: str = "") -> NonFiniteScore:
    """Return the error of a score that is not finite; `row` is the pointer to the row in the body."""
    return NonFiniteScore("score", "a finite number", pointer=row)


def contributions(model: Model, features: Features) -> dict[str, float]:
    """Return what each name of a checked row adds to its score."""
    shares: dict[str, float] = {}
    try:
        parts = model.pipeline.engine.explain_row(features)
    except InvalidParams as error:
        expected = f"false, or {error.expected}"
        raise InvalidBody("explain", expected, True, pointer="/explain") from error
    for name, part in parts.items():
        shares[str(name)] = shares.get(str(name), 0.0) + part  # 3 and "3" are one name in JSON
    if not all(map(math.isfinite, shares.values())):
        raise NonFiniteScore("contributions", "finite numbers")
    return shares
