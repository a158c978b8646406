"""Before a model serves: the values of its spec are checked and its kernels are compiled."""

from __future__ import annotations

import asyncio
import gc
import json
from typing import Any

import numpy as np

from aucstream.errors import AucstreamError, InvalidParams, UnknownLearner
from aucstream.pipeline import Pipeline
from aucstream_service.models.evaluation import Evaluation
from aucstream_service.models.spec import ModelSpec


class Warming:
    """Compiles what models will call, once a spec, away from the event loop."""

    def __init__(self) -> None:
        self._specs: set[str] = set()

    async def warm_up(self, spec: ModelSpec) -> None:
        """Compile what a model of this spec will call."""
        key = spec.pipeline(0).model_dump_json()
        if key not in self._specs:
            await asyncio.to_thread(warm_up, spec)
            self._specs.add(key)
            await asyncio.to_thread(settle_heap)


def settle_heap() -> None:
    """Leave all that is in memory out of later searches for cycles.

    Compiled code and what belongs to it are a million objects: to walk through them held all threads for a third of a
    second, at moments that nobody chose.
    """
    gc.collect()
    gc.freeze()


def warm_up(spec: ModelSpec) -> None:
    """Call everything that a model of this spec will call, on rows of both forms."""
    signs = np.array([1.0, -1.0, 1.0, -1.0])
    weights = np.array([1.0, 2.0, 0.5, 1.0])
    named: list[Any] = [{"a": 1.0, "b": 2.0}, {"a": -1.0, "c": "x"}, {"b": 0.5}, {"a": 0.5}]
    columns: list[Any] = [[1.0, 2.0], [-1.0, 0.5], [0.0, 1.0], [0.5, 0.5]]
    pipeline_spec = spec.pipeline(0)
    for rows in (named, columns):
        pipeline = Pipeline.from_spec(pipeline_spec)
        try:
            pipeline.engine.check_rows(rows, None)
        except AucstreamError:  # this spec does not take such rows
            continue
        pipeline.engine.learn_rows(rows, signs)
        pipeline.engine.end_warmup()
        pipeline.engine.learn_rows(rows * 6, np.tile(signs, 6))  # past the first checkpoint of `Auto`
        for at in range(len(rows)):  # a row alone may take another way
            pipeline.engine.learn_rows(rows[at : at + 1], signs[at : at + 1])
        scores = pipeline.engine.learn_rows(rows, signs, weights)
        pipeline.engine.probabilities(pipeline.engine.score_rows(rows))
        Pipeline.from_state_dict(*pipeline.state_dict()).engine.learn_rows(rows, signs)
        evaluation = Evaluation(48)
        for times in (0.25, 1, 20):  # one row, few and many each take a way of their own
            count = int(4 * times)
            sample = np.resize(signs, count).tolist(), np.resize(scores, count).tolist()
            evaluation.rank(*sample)
            evaluation.judge(1, *sample, pipeline.engine.log_odds_line)
            evaluation.describe(None, calibrated=True)
        evaluation.roc()
        Evaluation.from_state_dict(*evaluation.state_dict())


def check_params(spec: ModelSpec) -> None:
    """Raise what the library says of a spec, with a pointer to the field."""
    try:
        Pipeline.from_spec(spec.pipeline(0))
    except UnknownLearner as error:
        error.path = '$["algorithm"]'
        raise
    except InvalidParams as error:
        if not error.path:
            where, _, name = error.where.partition(".")
            got = error.got if isinstance(error.got, str) else ""
            if where == "Pipeline":
                tokens = [name]
            elif where in ("Vocabulary", "Hashing"):
                tokens = ["encoder", name]
            elif where in ("encoder", "map", "columns"):
                tokens = [where, name or got]
            else:
                is_members = spec.algorithm == "auto" and where != "Auto"
                tokens = ["params", "portfolio" if is_members else name if name in spec.params else got]
            error.path = "$" + "".join(f"[{json.dumps(token)}]" for token in tokens if token)
        raise
