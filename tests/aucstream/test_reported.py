"""What users ran into, each with its right value."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from aucstream import OAM, PSAM, SOLAM, AutoScale, Pipeline
from aucstream.errors import InvalidBlock


def test_frames_without_rows_or_columns_are_rows_without_features():
    model = PSAM()
    model.learn_many(pd.DataFrame(), pd.Series(dtype=bool))
    assert model.examples == 0
    assert model.score_many(pd.DataFrame(index=[5, 6])).to_dict() == {5: 0.0, 6: 0.0}
    model.learn_many(pd.DataFrame(index=[5, 6]), [True, False])
    assert model.examples == 2


def test_an_integer_name_is_the_column_of_an_array():
    model = Pipeline(AutoScale(), SOLAM())
    for value, y in [(1.0, True), (-1.0, False)] * 20:
        model.learn_one({3: value}, y)
    assert model.decision_function(np.array([[0.0, 0.0, 0.0, 1.0]])).item() == model.score_one({3: 1.0})
    assert model.engine.score_rows([[0.0, 0.0, 0.0, 1.0, 9.0]]).item() == model.score_one({3: 1.0})
    with pytest.raises(InvalidBlock, match="at most 4 columns"):
        model.decision_function(np.ones((1, 5)))


def test_a_model_of_arrays_refuses_names_that_are_no_columns():
    model = SOLAM().partial_fit(np.ones((2, 2)), [0, 1])
    for name in ("a", -1):
        with pytest.raises(InvalidBlock, match="this model's rows are arrays"):
            model.learn_one({name: 1.0}, True)


def test_a_score_that_overflows_is_no_probability_of_zero():
    model = OAM()
    random = np.random.default_rng(0)
    for _ in range(300):
        y = bool(random.random() < 0.3)
        model.learn_one({"a": float(random.normal(2 * y))}, y)
    p = model.predict_proba_one({"a": 1e308})
    assert sum(p.values()) == 1.0
    assert not math.isnan(p[True])
    assert p[True] >= 0.5
