"""`NumberRows` are learned and scored as the dicts they stand for, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aucstream.errors import InvalidBlock
from aucstream.features.number_rows import NumberRows, together
from aucstream.pipeline import Pipeline

NAMES = ["a", "b", "c", "d", "e"]
SPECS: list[dict[str, Any]] = [
    {"algorithm": "solam"},
    {"algorithm": "psam", "scaler": "none"},
    {"algorithm": "ftrl", "scaler": "standard+l2", "encoder": {"kind": "vocabulary", "capacity": 6}},
    {"algorithm": "solam", "encoder": {"kind": "hashing", "bits": 2}},  # names share columns
    {"algorithm": "psam", "encoder": {"kind": "hashing", "bits": 12}},
    {"algorithm": "solam", "map": {"kind": "randomfourier", "components": 8, "warmup": 50}},
]


def same(one: Pipeline, other: Pipeline) -> bool:
    (mine, told), (theirs, told_theirs) = one.state_dict(), other.state_dict()
    return (
        told == told_theirs
        and mine.keys() == theirs.keys()
        and all(np.array_equal(mine[name], theirs[name], equal_nan=True) for name in mine)
    )


def in_parts(model: Pipeline, rows: NumberRows, signs: Any, weights: Any) -> Any:
    """Learn rows as one block in parts; those of another kind as rows."""
    block = model.engine.block_of(rows, signs, weights)
    if block is None:
        return model.engine.learn_rows(rows, signs, weights)
    return np.concatenate(
        [model.engine.learn_block(block.rows(at, min(at + 7, len(rows)))) for at in range(0, len(rows), 7)]
    )


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_columns_are_the_dicts_they_stand_for(spec: dict[str, Any]) -> None:
    random = np.random.default_rng(7)
    fast, slow, cut = (Pipeline.from_spec(spec) for _ in range(3))
    kinds: list[Any] = [None, None]
    for names, rows in ((NAMES, 40), (NAMES, 90), ([*NAMES[:2], "f", "g"], 40), (NAMES, 30), (["g"], 9), ([], 20)):
        values = random.normal(size=(rows, len(names)))
        if names == NAMES and rows == 90:
            values[[3, 60]] = 1.7e308  # a step that is not finite
        signs, weights = np.sign(random.normal(size=rows)), random.choice([0.5, 1.0, 2.0], size=rows)
        weights[: 2 * (rows == 30)] = 0.0
        columns = NumberRows(names, values)
        dicts = list(columns)
        kinds = [fast.engine.check_rows(columns, kinds[0]), slow.engine.check_rows(dicts, kinds[1])]
        assert kinds == ["named", "named"]
        before = fast.engine.score_rows(columns), slow.engine.score_rows(dicts)
        assert np.array_equal(*before, equal_nan=True)
        scores = fast.engine.learn_rows(columns, signs, weights), slow.engine.learn_rows(dicts, signs, weights)
        assert np.array_equal(*scores, equal_nan=True)
        assert np.array_equal(scores[0], in_parts(cut, columns, signs, weights), equal_nan=True)
        assert same(fast, slow) and same(fast, cut)


def test_a_row_of_columns_is_a_dict_and_a_part_is_columns() -> None:
    columns = NumberRows(["a", "b"], np.arange(8.0).reshape(4, 2))
    assert columns[1] == {"a": 2.0, "b": 3.0}
    assert isinstance(columns[1:3], NumberRows)
    assert list(columns[1:3]) == [columns[1], columns[2]]
    assert list(columns.take([3, 0])) == [columns[3], columns[0]]
    assert isinstance(together([columns[:2], columns[2:]]), NumberRows)
    others = NumberRows(["a", "c"], np.ones((1, 2)))
    for parts in ([columns, [{"c": 1}]], [[{"c": 1}], columns], [columns, others]):
        assert together(parts) == [row for part in parts for row in part]


def test_columns_are_refused_as_dicts_are() -> None:
    model = Pipeline.from_spec({"algorithm": "solam"})
    values = np.ones((30, 2))
    values[17, 1] = np.inf
    with pytest.raises(InvalidBlock) as refused:
        model.engine.check_rows(NumberRows(["a", "b"], values), None)
    assert refused.value.path == "[17]['b']"
    model.engine.learn_array(np.ones((5, 2)), np.ones(5))
    with pytest.raises(InvalidBlock):
        model.engine.check_rows(NumberRows(["a", "b"], np.ones((30, 2))), None)
