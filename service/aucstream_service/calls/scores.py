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


def judge_known(model: Model, features: Features) -> tuple[float, float | None] | None:
    """Return score and probability of a row whose names are all known; None of any other row."""
    if model.kind != "named" or type(features) is not dict:
        return None
    pair = model.pipeline.engine.score_known(features)
    if pair is None:
        return None
    return pair[0] + 0.0, pair[1] if model.calibrated else None


def score(model: Model, rows: Sequence[Features] | Block) -> tuple[list[float], list[float | None]]:
    """Return scores and probabilities of checked rows."""
    scores = (
        model.pipeline.engine.score_block(rows) if isinstance(rows, Block) else model.pipeline.engine.score_rows(rows)
    )
    finite = np.isfinite(scores)
    if not finite.all():
        error = NonFiniteScore("score", "a finite number", pointer="")
        error.rows = np.flatnonzero(~finite).tolist()
        raise error
    values: list[float] = (scores + 0.0).tolist()  # the journal keeps no negative zero
    return values, model.pipeline.engine.probabilities(scores).tolist() if model.calibrated else [None] * len(values)


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
