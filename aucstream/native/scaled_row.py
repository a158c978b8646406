"""The compiled calls of one dict in a pipeline: reading and scaling, then the learner's own."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

from aucstream.features.encoding.encoder import Encoder
from aucstream.features.scaling.scaling import Scaling
from aucstream.learners._base.learner import Learner
from aucstream.native import scaled_dicts
from aucstream.native.guard import COMPILED
from aucstream.native.memory import compiled_for
from aucstream.native.row_entry import RowEntry


@cache
def _compiled() -> tuple[Callable[..., int], Callable[..., int]]:
    return compiled_for(scaled_dicts.take, int, int), compiled_for(scaled_dicts.forward, int, int)


def scaled_row(learner: Learner, scaling: Scaling, encoder: Encoder, generation: object) -> RowEntry:
    """Return the calls of a pipeline, whose scaled values the learner reads where the scaling puts them."""
    if not COMPILED:
        return RowEntry(generation)
    take, forward = _compiled()
    arguments, row = scaling.dict_arguments(encoder.reader, encoder.kinds, learner._capacity)
    learned = learner._new_entry(generation, row)
    entry = RowEntry(generation, arguments)
    reader, at = encoder.reader, learned.address

    def learn(x: int, address: int, sign: float, weight: float) -> float:
        n = take(x, address)
        if n < 0:
            return math.nan
        score = learned.learn(0, at, sign, weight)
        if score != score:
            scaling.give_back(reader.idx[:n], reader.val[:n])
        return score

    def score(x: int, address: int) -> Any:
        return learned.score(0, at) if forward(x, address) >= 0 else complex(math.nan, math.nan)

    entry.learn, entry.score = learn, score
    return entry


def uncalibrated(calls: RowEntry) -> RowEntry:
    """Return the same calls, but that each probability is one half."""
    entry = RowEntry(calls.generation)
    entry.address, entry.learn = calls.address, calls.learn

    def score(x: int, address: int) -> complex:
        both = calls.score(x, address)
        return complex(both.real, 0.5) if both == both else both

    entry.score = score
    return entry
