"""Cuts of a ranking by a text: the threshold at which mistakes cost least, and what is no cut."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aucstream.errors import InvalidParams
from aucstream.metrics.operating_points import OperatingPoint
from aucstream.metrics.ranking import Ranking


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(st.tuples(st.booleans(), st.integers(0, 6)), min_size=1, max_size=40),
    times=st.sampled_from([0.1, 1.0, 2.5, 50.0]),
)
def test_the_threshold_of_a_cost_is_the_best_of_all(rows: list[tuple[bool, int]], times: float) -> None:
    y, scores = np.array([label for label, _ in rows]), np.array([float(score) for _, score in rows])
    figures = OperatingPoint("cost", times).figures(Ranking.of_rows(np.where(y, 1.0, -1.0), scores))
    costs = {
        threshold: (np.sum(~y & (scores >= threshold)) + times * np.sum(y & (scores < threshold))) / y.size
        for threshold in [*np.unique(scores).tolist(), math.inf]
    }
    assert figures["cost"] == pytest.approx(min(costs.values()), abs=1e-12)
    threshold = math.inf if figures["threshold"] is None else figures["threshold"]
    assert costs[threshold] == pytest.approx(min(costs.values()), abs=1e-12)
    assert figures["cost_low"] is not None
    assert figures["cost_high"] is not None
    assert figures["cost_low"] - 1e-12 <= figures["cost"] <= figures["cost_high"] + 1e-12
    assert figures["partial_auc_standardized"] is None


def test_a_cost_belongs_to_its_cut_alone_and_bad_texts_are_refused() -> None:
    ranking = Ranking.of_rows(np.array([1.0, -1.0, -1.0]), np.array([3.0, 2.0, 1.0]))
    assert OperatingPoint.of_text("--at", "top=1", "=").figures(ranking)["cost"] is None
    assert OperatingPoint.of_text("at", "cost:50", ":") == OperatingPoint("cost", 50.0)
    assert OperatingPoint("cost", 50.0).text("=") == "cost=50"
    for text in ("cost=0", "cost=-1", "cost=inf", "cost=nan", "cost=", "cost", "costs=1"):
        with pytest.raises(InvalidParams, match=r"--at: expected .*cost=TIMES"):
            OperatingPoint.of_text("--at", text, "=")
    empty = OperatingPoint("cost", 2.0).figures(Ranking.of_rows(np.empty(0), np.empty(0)))
    assert set(empty.values()) == {None}
