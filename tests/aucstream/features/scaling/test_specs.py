"""Scalings as a spec may name them."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from aucstream import Pipeline
from aucstream.errors import InvalidParams

from .test_scalers import X

SAME = [
    ({"kind": "standard+bounded", "half_life": 40}, "standard@40+bounded"),
    ({"kind": "auto", "half_life": 40.5}, "auto@40.5"),
    ({"kind": "standard+l2"}, "standard+l2"),
    ({"kind": "l2", "half_life": None}, "l2"),
    ("arctan+bounded", "standard+arctan+bounded"),
    ({"kind": "arctan+bounded", "half_life": 40}, "standard@40+arctan+bounded"),
]


@pytest.mark.parametrize(("scaler", "name"), SAME)
def test_an_object_is_the_same_scaling_as_its_name(scaler, name):
    y = X[:, 0] > 0.0
    first, second = (Pipeline.from_spec({"algorithm": "solam", "scaler": s}).partial_fit(X, y) for s in (scaler, name))
    assert np.array_equal(first.decision_function(X), second.decision_function(X))
    assert first.resolved == second.resolved
    resumed = type(first).from_state_dict(*first.state_dict())
    assert resumed.spec == first.spec
    assert np.array_equal(resumed.decision_function(X), first.decision_function(X))


@pytest.mark.parametrize(
    "scaler",
    [
        {"kind": "spam"},
        {"kind": "standard", "half_life": 0.5},
        {"kind": "standard", "speed": 3},
        {"half_life": 3},
    ],
)
def test_what_is_no_scaling_is_refused(scaler):
    with pytest.raises((ValidationError, InvalidParams)):
        Pipeline.from_spec({"algorithm": "solam", "scaler": scaler}).partial_fit(X, X[:, 0] > 0.0)


@pytest.mark.parametrize("scaler", [{"kind": "l2", "half_life": 30}, {"kind": "none", "half_life": 30}])
def test_a_scaling_that_estimates_nothing_has_no_half_life(scaler):
    with pytest.raises(InvalidParams, match=r"^Pipeline.scaler: expected"):
        Pipeline.from_spec({"algorithm": "solam", "scaler": scaler})
