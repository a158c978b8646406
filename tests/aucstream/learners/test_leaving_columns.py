"""Columns that leave a forest, and a portfolio with all that it keeps besides its members at work."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from aucstream import JointForest, Pipeline, Vocabulary
from aucstream.errors import NonFiniteStep
from aucstream.kernels.forest.columns import COLUMN, COLUMNS, FEATURES, KEY, PLACES, SPARSE
from aucstream.kernels.forest.columns import FORM as FORM_AT
from aucstream.kernels.forest.fourier import draw_all
from aucstream.kernels.forest.leaving import ONE_SIDED
from aucstream.kernels.forest.trees import CANDIDATE, CANDIDATES, HELD, LEAF
from aucstream.kernels.pairs.buffers import LENGTH, START
from aucstream.learners._base.state import Vector


def rows(n: int, seed: int = 0, names: int = 12) -> tuple[list[dict[str, float]], np.ndarray]:
    """Return rows of 6 of so many names, a product of two of which tells the classes apart, and their signs."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, names)) + 1.0
    X[:, 0] += 0.5 * np.sign(X[:, 1] - 1.0)
    y = np.where((X[:, 0] - 1.0) * (X[:, 1] - 1.0) + 0.3 * random.normal(size=n) > 0.0, 1.0, -1.0)
    out = []
    for row in X.tolist():
        used = [0, 1, *random.choice(np.arange(2, names), 4, replace=False).tolist()]
        out.append({f"c{j}": row[j] for j in used})
    return out, y


def fields(forest: JointForest) -> dict[str, Any]:
    return dict(zip(forest._program.parts, forest._arrays, strict=True))


def splits(forest: JointForest, columns: list[int]) -> int:
    """Return how many nodes and candidates depend on columns."""
    f = fields(forest)
    trees, room = forest.trees, forest._room
    count = 0
    for t in range(trees):
        for node in range(t * room, t * room + int(f["used"][t])):
            inner = f["links"][2 * node] > 0 and f["links"][2 * node + 1] in columns
            count += bool(inner and abs(f["thresholds"][node]) != ONE_SIDED)
        for leaf in range(t * ((room + 1) // 2), t * ((room + 1) // 2) + (int(f["used"][t]) + 1) // 2):
            for k in range(int(f["leaves"][leaf * LEAF + HELD])):
                count += int(f["candidates"][(leaf * CANDIDATES + k) * CANDIDATE]) in columns
    return count


def check_places(forest: JointForest) -> None:
    """Fail where places, columns and frequencies do not belong together."""
    f = fields(forest)
    scalars, place, centred = f["scalars"], f["place"], f["centred"]
    places = int(scalars[PLACES])
    assert scalars[COLUMNS] == np.count_nonzero(place)
    if scalars[FORM_AT] == SPARSE:
        return
    assert sorted(place[place > 0.0].tolist()) == list(range(1, places + 1))
    for k in range(places):
        assert place[int(centred[COLUMN, k])] == k + 1
    features = int(scalars[FEATURES])
    if features and f["frequencies"].size:
        assert len(set(centred[KEY, :places].tolist())) == places
        anew = np.zeros_like(f["frequencies"])
        draw_all(centred, scalars, features, f["word"].copy(), anew)
        used = (1 + places) * features
        assert np.array_equal(anew[:used], f["frequencies"][:used])


@pytest.mark.parametrize(("form", "n"), [("sparse", 700), ("dense", 31), ("auto", 30)])
def test_rows_that_lack_a_column_score_as_before_it_left(form, n):
    X, y = rows(n)
    forest = JointForest(form=form, trees=8)
    forest.engine.learn_rows(X, y)
    columns = np.array([2, 3, 7], dtype=np.int64)
    names = [forest._encoder.names[j] for j in columns]
    without = [{name: value for name, value in x.items() if name not in names} for x in rows(60, seed=4)[0]]
    assert n < 100 or splits(forest, columns.tolist()) > 0
    before = [forest.score_one(x) for x in without]
    forest._forget_columns(columns)
    assert [forest.score_one(x) for x in without] == pytest.approx(before, rel=1e-12, abs=1e-12)
    for x in without:  # what is left is as a new column
        assert forest.score_one({**x, names[0]: 2.0}) == pytest.approx(forest.score_one({**x, "new": 2.0}), rel=1e-12)
    explained = forest.explain_one({**without[0], names[0]: 2.0})
    assert explained[names[0]] == 0.0
    assert math.fsum(explained.values()) == pytest.approx(forest.score_one({**without[0], names[0]: 2.0}))


@pytest.mark.parametrize("form", ["auto", "dense", "sparse"])
def test_a_forest_has_nothing_of_a_column_that_left(form):
    X, y = rows(900, names=30)
    forest = JointForest(form=form, trees=6, nodes=61)
    forest.engine.learn_rows(X, y)
    seen = 0
    for columns in ([4], [0, 9], [1, 2, 3, 11], [4]):
        seen += splits(forest, columns)
        forest._forget_columns(np.array(columns, dtype=np.int64))
        assert splits(forest, columns) == 0
        f = fields(forest)
        for name, part in forest._program.parts.items():
            if isinstance(part, Vector):
                assert not f[name][columns].any(), name
        assert not f["linear"][columns].any()
        slots = f["slots"][:-1]
        entries = np.concatenate([f["pool_idx"][a : a + n] >> 32 for a, n in slots[:, [START, LENGTH]].tolist()])
        assert not np.isin(entries, columns).any()
        check_places(forest)
        forest.engine.learn_rows(*rows(40, seed=seen, names=30))
        check_places(forest)
    assert seen > 20


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_a_forest_goes_on_learning_while_names_come_and_go(form):
    X, y = rows(3000, names=6)
    model = Pipeline(Vocabulary(10, 1, "least-recent"), JointForest(form=form, trees=10, nodes=101))
    scores = []
    for number, (x, sign) in enumerate(zip(X, y.tolist(), strict=True)):
        x = {**x, f"id{number}": 1.0}
        scores.append(model.engine.learn_row(x, sign))
    check_places(model.learner)
    late = np.array(scores[1000:])
    positive, negative = late[y[1000:] > 0], late[y[1000:] < 0]
    assert (positive[:, None] > negative).mean() > 0.75
    assert model.usage.evictions > 2900


def test_members_at_rest_and_copies_forget_as_well():
    X, y = rows(3000)
    model = Pipeline.from_spec(
        {"encoder": {"kind": "vocabulary", "capacity": 12}, "columns": {"eviction": "least-recent"}}
    )
    auto = model.learner
    checked = 0
    for start in range(0, 3000, 100):
        model.engine.learn_rows(X[start : start + 100], y[start : start + 100])
        if auto._twins is None:
            model.engine.learn_rows(*rows(3, seed=start))
        if auto._twins is None:
            continue
        checked += 1
        model._forget_columns(np.array([5], dtype=np.int64))
        for stages in [*auto._models, *auto._twins]:
            if stages.mapping is not None:  # whose learner has the map's columns
                fixed = stages.mapping.warmup.fixed
                kept = [block.indices for block in stages.mapping.warmup._blocks]
                assert 5 not in np.concatenate(kept) if fixed is None else fixed.place[5] == -1
                continue
            learner = stages.learner
            for part, array in zip(learner._program.parts.values(), learner._arrays, strict=True):
                if isinstance(part, Vector) and array.size > 5:
                    assert array[5] == 0.0
            assert not stages.scaling.columns[5:6].any()
        slots, pool_idx = auto._field("slots")[:-1], auto._field("pool_idx")
        entries = np.concatenate([pool_idx[a : a + n] for a, n in slots[:, [START, LENGTH]].tolist()])
        assert entries.size
        assert 5 not in entries
        if checked == 3:
            break
    assert checked == 3


def test_a_tame_row_that_evicts_and_is_skipped_brings_its_name_and_nothing_else(monkeypatch):
    model = Pipeline.from_spec(
        {
            "algorithm": "ftrl",
            "params": {"l1": 0.0},
            "scaler": "none",
            "encoder": {"kind": "vocabulary", "capacity": 3},
            "columns": {"eviction": "least-recent"},
        }
    )
    for name in "abc" * 5:
        model.learn_one({name: 1.0}, name == "a")
    before = model.weights
    with monkeypatch.context() as patched:
        patched.setattr(type(model.learner), "_learn_row", lambda *_: math.nan)
        with pytest.raises(NonFiniteStep):
            model.learn_one({"d": 1.0}, True)
    assert model.weights == {"d": 0.0, "b": before["b"], "c": before["c"]}
    assert model.examples == 15
    for name in "ef":  # the two least recent ones leave
        model.learn_one({name: 1.0}, True)
    assert set(model.weights) == {"d", "e", "f"}
