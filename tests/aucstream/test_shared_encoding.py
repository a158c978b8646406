"""Models of one comparison whose encoders are equal read a chunk once, and learn as each would alone."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from aucstream import FTRL, PSAM, SOLAM, AutoScale, Hashing, Pipeline, Standardize, Vocabulary
from aucstream.evaluate import Comparison
from aucstream.features.encoding.encoder import Encoder
from aucstream.io.rows import Rows


def chunks(parts: int, n: int, seed: int) -> list[Rows]:
    """Return rows of strings and numbers, new ones in every chunk, some far too large for a step."""
    random = np.random.default_rng(seed)
    answer = []
    for part in range(parts):
        rows: list[dict[str, Any]] = []
        for number in range(n):
            x: dict[str, Any] = {"a": f"w{random.integers(4 + part)}", "n": float(random.normal())}
            if number % 7 == 0:
                x["id"] = f"user {part} {random.integers(20)}"
            if number % 9 == 0:
                x["tags"] = ["u", f"t{part}"]
            if part == 2 and number in (30, 60):
                x[f"huge {number}"] = 1e200
            rows.append(x)
        y = np.where(random.random(n) < 0.4, 1.0, -1.0)
        answer.append(Rows(rows, y, np.ones(n), np.arange(n)))
    return answer


def models(encoder: Any) -> list[Any]:
    return [
        Pipeline(encoder, AutoScale(), PSAM(capacity=20)),
        Pipeline(encoder, Standardize(), SOLAM()),
        Pipeline(encoder, FTRL()),
        Pipeline(Hashing(4), FTRL()),
        Pipeline(encoder, SOLAM()),
    ]


def state(model: Any) -> tuple[Any, ...]:
    arrays, meta = model.state_dict()
    return {name: (array.shape, array.tobytes()) for name, array in arrays.items()}, str(meta)


@pytest.mark.parametrize(
    "encoder",
    [
        Vocabulary(),
        Vocabulary(9),
        Vocabulary(9, 1, "least-recent"),
        Vocabulary(40, 2),
        Vocabulary(crosses="all"),
        Hashing(5),
    ],
    ids=["plain", "full", "evicting", "waiting", "crosses", "hashed"],
)
def test_models_of_a_comparison_learn_as_alone(encoder: Encoder) -> None:
    together, data = Comparison(models(encoder)), chunks(5, 100, 1)
    alone = [Comparison([model]) for model in models(encoder)]
    for chunk in data:
        together.learn(chunk)
        for one in alone:
            one.learn(chunk)
    together.end_pass()
    for run, one in zip(together.runs, alone, strict=True):
        one.end_pass()
        assert run.scores.tobytes() == one.runs[0].scores.tobytes()
        assert state(run.model) == state(one.runs[0].model)
        assert run.model.usage == one.runs[0].model.usage


def test_a_chunk_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []
    original = Encoder.read_rows

    def counted(self: Encoder, rows: Any, **options: Any) -> Any:
        reads.append(len(rows))
        return original(self, rows, **options)

    comparison = Comparison(
        [Pipeline(AutoScale(), SOLAM()), Pipeline(FTRL()), Pipeline(SOLAM()), Pipeline(Vocabulary(50), SOLAM())]
    )
    first, *others = chunks(3, 50, 2)
    comparison.learn(first)  # in growing parts
    monkeypatch.setattr(Encoder, "read_rows", counted)
    for chunk in others:
        comparison.learn(chunk)
    assert reads == [50, 50] * 2  # one of them has another capacity


def test_a_model_that_has_learned_other_rows_reads_for_itself() -> None:
    data = chunks(3, 50, 3)
    first, second = Pipeline(SOLAM()), Pipeline(SOLAM())
    second.learn_one({"other": "word"}, True)
    alone = copy.deepcopy(second)
    comparison = Comparison([first, second])
    for chunk in data:
        comparison.learn(chunk)
        alone.engine.learn_chunk(chunk)
    assert state(second) == state(alone)
    assert second.encoder.names[0] == "other=word"  # type: ignore[attr-defined]
