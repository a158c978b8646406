"""ScoredProbabilities is a dict that keeps its score wherever it goes."""

from __future__ import annotations

import copy
import pickle

import pytest

from aucstream.metrics import ScoredProbabilities


def test_is_the_dict_that_river_expects():
    probabilities = ScoredProbabilities(0.75, score=-3.0)
    assert probabilities == {False: 0.25, True: 0.75}
    assert max(probabilities, key=probabilities.get) is True
    assert probabilities.score == -3.0


@pytest.mark.parametrize(
    "duplicate",
    [copy.copy, copy.deepcopy, ScoredProbabilities.copy]
    + [lambda p, k=k: pickle.loads(pickle.dumps(p, k)) for k in range(pickle.HIGHEST_PROTOCOL + 1)],
)
def test_copies_and_pickles_keep_the_score(duplicate):
    original = ScoredProbabilities(0.1, score=42.5)
    other = duplicate(original)
    assert type(other) is ScoredProbabilities
    assert other == original
    assert other is not original
    assert other.score == 42.5


def test_items_changed_by_hand_survive_too():
    original = ScoredProbabilities(0.5, score=1.0)
    original[True] = 0.6
    assert pickle.loads(pickle.dumps(original)) == {False: 0.5, True: 0.6}
