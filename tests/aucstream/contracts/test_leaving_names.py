"""A vocabulary that does not fill: what was learned of a name that leaves is forgotten, by every learner and scaler.

The plain reference writes a model's state, clears there by hand what belongs to the columns that leave, and goes on from
what it has read back. `Learner._settle` then counts anew what is a sum over columns.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aucstream import FTRL, PSAM, VRSPAM, AutoScale, Pipeline, Vocabulary, from_bytes
from aucstream.errors import NonFiniteStep
from aucstream.features.maps.maps import RandomFourier
from aucstream.io.ndjson import read_ndjson
from aucstream.kernels.weights import l1ball, saddle
from aucstream.learners._base.capabilities import Capability
from aucstream.learners._base.state import Slots, Table, Vector
from aucstream.learners._families.pair_moments import USED
from aucstream.learners.fsauc import MASS1
from aucstream.registry import make
from tests.aucstream.reference.vocabulary import PlainVocabulary

from .models import CLASSES, VARIANTS, can, state

CAPACITY = 12
NAMED = [variant for variant in VARIANTS if can(variant, Capability.PIPELINE)]
BY_HAND = [variant for variant in NAMED if VARIANTS[variant][0] not in ("auto", "jointforest")]


def rows(n: int, seed: int = 0, ids: int = 40) -> tuple[list[dict[str, Any]], list[bool]]:
    """Return rows that have two lasting names, some of many numbers and one of many words, and their labels."""
    random = np.random.default_rng(seed)
    out, labels = [], []
    for _ in range(n):
        y = bool(random.random() < 0.4)
        x: dict[str, Any] = {"a": random.normal() + y, "b": 3.0 * random.normal() + 5.0}
        for k in random.integers(ids, size=random.integers(3)):
            x[f"n{k}"] = float(random.normal() + (k % 2) * (1.0 if y else -1.0))
        if random.random() < 0.5:
            x["word"] = f"w{random.integers(ids)}"
        out.append(x)
        labels.append(y)
    return out, labels


def model_of(variant: str, scaler: str = "none", capacity: int = CAPACITY, **columns: Any) -> Pipeline:
    """Return the learner of a variant behind a scaler and a vocabulary."""
    name, params = VARIANTS[variant]
    if not can(variant, Capability.RUNNING_SCALER):
        scaler = "none"
    spec = {
        "algorithm": name,
        "params": params,
        "scaler": scaler,
        "encoder": {"kind": "vocabulary", "capacity": capacity},
        "columns": {"eviction": "least-recent", **columns},
    }
    return Pipeline.from_spec(spec)


def flat(x: dict[str, Any]) -> dict[str, float]:
    """Return a row with its words as indicators."""
    return {(f"{name}={value}" if isinstance(value, str) else name): (1.0 if isinstance(value, str) else value) for name, value in x.items()}  # fmt: skip


def cleared(model: Pipeline, columns: list[int]) -> Pipeline:
    """Return a model that was read back from a state in which columns have been cleared by hand."""
    arrays, meta = model.state_dict()
    keep = np.ones(len(model._encoder.names), dtype=bool)
    keep[columns] = False
    learner = model.learner
    for name, part in learner._program.parts.items():
        array = arrays.get(f"learner.state.{name}")
        if isinstance(part, Vector):
            array[: keep.size] *= keep[: array.size]
        elif isinstance(part, Table) and None in (part.rows, part.columns):
            if part.rows is None:
                array *= keep[: len(array), None]
            if part.columns is None:
                array *= keep[: array.shape[1]]
        elif isinstance(part, Slots):
            rows_at = [arrays[f"learner.state.{key}"] for key in ("slots", "pool_idx", "pool_val")]
            stored = [
                [(j, v) for j, v in zip(rows_at[1][a : a + n], rows_at[2][a : a + n], strict=True) if keep[j]]
                for a, n, _ in rows_at[0][:-1].tolist()
            ]
            flat_rows = [entry for row in stored for entry in row]
            ends = np.cumsum([0, *map(len, stored)])
            array[:-1] = [[a, b - a, b - a] for a, b in itertools.pairwise(ends.tolist())]
            array[-1] = [ends[-1], 0, 0]
            arrays["learner.state.pool_idx"] = np.array([j for j, _ in flat_rows], dtype=np.int64)
            arrays["learner.state.pool_val"] = np.array([v for _, v in flat_rows], dtype=np.float64)
    if "scaling.columns" in arrays:
        arrays["scaling.columns"] *= keep[:, None]
    fresh = Pipeline.from_state_dict(arrays, meta)
    if "used" in learner._program.parts:  # of MBA, which counts them
        fresh.learner._field("scalars")[USED] = np.count_nonzero(fresh.learner._field("used"))
    if isinstance(learner, VRSPAM) and learner._field("last")[columns].any():
        length = [int(model.learner._field("slots")[:, 1].sum()) for model in (model, fresh)]
        if length[0] != length[1]:  # its snapshot is one of other rows
            fresh.learner._refresh(fresh.learner._field("scalars"))
    fresh.learner._settle()
    return fresh


@pytest.mark.parametrize("scaler", ["none", "standard+bounded", "standard@20+bounded"])
@pytest.mark.parametrize("variant", BY_HAND)
def test_a_column_that_leaves_is_as_one_that_was_cleared_by_hand(variant, scaler):
    """Each eviction once: from the state before the row, with the columns cleared by hand, the same score and step."""
    if scaler != "none" and not can(variant, Capability.RUNNING_SCALER):
        pytest.skip("no scaler in front of it")
    model = model_of(variant, scaler)
    plain = PlainVocabulary(CAPACITY, 1, "least-recent")
    evictions = 0
    stream = rows(300)
    for x, y in zip(*stream, strict=True):
        columns, vacated = plain.learn(list(flat(x)))
        if not vacated:
            model.learn_one(x, y)
            continue
        evictions += 1
        if evictions % 3:
            model.learn_one(x, y)
            continue
        reference = cleared(model, vacated)
        encoder = reference._encoder
        for name, column in columns.items():  # the names by hand, too
            if column in vacated:
                del encoder._index[encoder.names[column]]
                encoder.names[column] = name
                encoder._index[name] = column
                encoder.kinds[column] = 2 if "=" in str(name) else 1
        encoder.reader.forget()
        expected = reference.engine.learn_row(x, 1.0 if y else -1.0)
        score = model.engine.learn_row(x, 1.0 if y else -1.0)
        assert score == pytest.approx(expected, rel=1e-9, abs=1e-9)
        assert model._encoder.names == encoder.names
        probe = {name: 1.0 for name in list(plain.column)[:5] if "=" not in name}
        assert model.score_one(probe) == pytest.approx(reference.score_one(probe), rel=1e-6, abs=1e-9)
        if Capability.LINEAR_WEIGHTS in CLASSES[VARIANTS[variant][0]]._capabilities:
            mine, theirs = model.weights, reference.weights
            assert mine.keys() == theirs.keys()
            assert [*mine.values()] == pytest.approx([*theirs.values()], rel=1e-6, abs=1e-9)
    assert evictions > 60


@pytest.mark.parametrize("variant", NAMED)
def test_a_name_that_left_scores_as_one_that_was_never_seen(variant):
    model = model_of(variant, "standard+bounded")
    names: set[str] = set()
    for x, y in zip(*rows(150), strict=True):
        model.learn_one(x, y)
        names |= flat(x).keys()
    gone = sorted(name for name in names - set(model._names()) if "=" not in name)
    assert len(gone) > 5
    for name in gone[:5]:
        assert model.score_one({"a": 1.0, name: 2.0}) == model.score_one({"a": 1.0, "never": 2.0})
    for name in gone[:2]:
        before = model.score_one({"a": 1.0, "never": 2.0})
        if VARIANTS[variant][0] not in ("auto", "jointforest"):  # of which a row that lacks it moves
            assert model.engine.learn_row({"a": 1.0, name: 2.0}, 1.0) == pytest.approx(before, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("min_count", [1, 3])
@pytest.mark.parametrize("variant", NAMED)
def test_any_split_and_any_resumption_give_the_same_state(variant, min_count):
    X, y = rows(260, seed=1)
    one = model_of(variant, "standard+bounded", min_count=min_count)
    for x, label in zip(X, y, strict=True):
        one.learn_one(x, label)
    signs = np.where(y, 1.0, -1.0)
    for cuts in ([260], [1, 60, 61, 200, 260], [17 * k for k in range(1, 16)] + [260]):
        other = model_of(variant, "standard+bounded", min_count=min_count)
        start = 0
        for stop in cuts:
            other.engine.learn_rows(X[start:stop], signs[start:stop])
            if start % 2:
                other = from_bytes(other.to_bytes())
            start = stop
        assert other.usage == one.usage
        assert state(other) == state(one)
    assert one.usage.evictions > 0


@settings(max_examples=25, deadline=None)
@given(st.data(), st.integers(1, 8), st.integers(1, 3), st.sampled_from(["none", "least-recent"]))
def test_any_stream_gives_the_same_bits_in_any_split(data, capacity, min_count, eviction):
    names = st.sampled_from("abcdefghijk")
    value = st.one_of(st.floats(-5.0, 5.0), st.sampled_from(["u", "v", "w"]), st.none(), st.booleans())
    X = data.draw(st.lists(st.dictionaries(names, value, max_size=5), min_size=1, max_size=60))
    random = np.random.default_rng(len(X))
    signs = np.where(random.random(len(X)) < 0.5, 1.0, -1.0)
    weights = random.choice([0.0, 1.0, 1.0, 2.0, 1e308], size=len(X), p=[0.1, 0.4, 0.3, 0.19, 0.01])
    models = [Pipeline(Vocabulary(capacity, min_count, eviction), AutoScale(), PSAM(capacity=5)) for _ in range(2)]
    one, other = models
    for x, sign, weight in zip(X, signs.tolist(), weights.tolist(), strict=True):
        one.score_one(x)
        with contextlib.suppress(NonFiniteStep):
            one.learn_one(x, sign > 0.0, weight)
    start = 0
    while start < len(X):
        stop = data.draw(st.integers(start + 1, len(X)))
        other.engine.learn_rows(X[start:stop], signs[start:stop], weights[start:stop])
        start = stop
    assert state(other) == state(one)


@pytest.mark.parametrize("learner", ["psam", "jointforest", "auto"])
def test_files_go_through_the_same_vocabulary(learner, tmp_path):
    X, y = rows(200, seed=3)
    path = tmp_path / "rows.ndjson"
    lines = "\n".join(json.dumps({"features": x, "label": label}) for x, label in zip(X, y, strict=True))
    path.write_text(lines)
    one = model_of(learner, "auto")
    for x, label in zip(X, y, strict=True):
        one.learn_one(x, label)
    for size in (7, 64, 1000):
        other = model_of(learner, "auto")
        for chunk in read_ndjson(path, chunk_rows=size):
            other.engine.learn_chunk(chunk)
        assert state(other) == state(one)


def test_a_wild_row_that_is_skipped_changes_nothing():
    X, y = rows(100)
    model = Pipeline(Vocabulary(CAPACITY, 1, "least-recent"), PSAM())
    for x, label in zip(X, y, strict=True):
        model.learn_one(x, label)
    before = state(model)
    with pytest.raises(NonFiniteStep):
        model.learn_one({"a": 1e308, "b": 1e308, "new": -1e308}, True)
    assert state(model) == before
    model.learn_one({"new": 1.0}, True)
    assert "new" in model.weights


@pytest.mark.parametrize("variant", NAMED)
def test_ids_without_end_stay_within_the_capacity(variant):
    model = model_of(variant, "standard+bounded", capacity=20)
    random = np.random.default_rng(5)
    for number in range(400):
        y = bool(random.random() < 0.5)
        model.learn_one({"a": random.normal() + y, f"id{number}": 1.0, "user": f"u{number}"}, y)
    assert model.usage.names == 20
    assert model.usage.evictions == 1 + 2 * 400 - 20
    assert model.learner._capacity <= 64
    for array in model.learner._arrays:
        assert np.isfinite(array.astype(np.float64)).all()
    assert len(model._encoder.reader._words.get("user", {})) <= 20
    assert model.score_one({"a": 3.0}) > model.score_one({"a": -3.0})


def test_memory_is_bounded_whatever_comes():
    model = Pipeline(Vocabulary(1000, 1, "least-recent"), AutoScale(), PSAM(capacity=20))
    sizes = []
    tracemalloc.start()
    try:
        for number in range(12_000):
            model.learn_one({"a": number % 7 - 3.0, f"id{number}": 1.0}, number % 7 > 3)
            if number % 6000 == 5999:
                gc.collect()
                sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert sizes[1] - sizes[0] < 60_000  # 10 bytes a name that has left
    assert len(model.to_bytes()) < 400_000


@pytest.mark.parametrize("eviction", ["none", "least-recent"])
def test_a_feature_that_comes_late(eviction):
    random = np.random.default_rng(0)
    model = Pipeline(Vocabulary(3, 1, eviction), AutoScale(), PSAM())
    scores, labels = [], random.random(2000) < 0.5
    for number, y in enumerate(labels.tolist()):
        x = {"abc"[number]: random.normal()} if number < 3 else {"good": (1.0 if y else -1.0) + 0.01 * random.normal()}
        scores.append(model.score_one(x))
        model.learn_one(x, y)
    positive, negative = np.array(scores)[labels], np.array(scores)[~labels]
    auc = np.mean((positive[:, None] > negative) + 0.5 * (positive[:, None] == negative))
    if eviction == "none":
        assert auc < 0.51
        assert model.usage == (3, 3, 1, 1997, 0, 0)
    else:
        assert auc > 0.999
        assert model.usage == (3, 3, 0, 0, 1, 0)


@pytest.mark.parametrize("warmup", [10, 50])
def test_a_map_sees_no_name_that_took_the_column_of_another(warmup):
    X, y = rows(120, ids=15)
    models = [
        Pipeline(Vocabulary(8, 1, "least-recent"), AutoScale(), RandomFourier(components=20, warmup=warmup), FTRL())
        for _ in range(2)
    ]
    for x, label in zip(X, y, strict=True):
        models[0].learn_one(x, label)
    models[1].engine.learn_rows(X, np.where(y, 1.0, -1.0))
    assert state(models[0]) == state(models[1]) == state(from_bytes(models[0].to_bytes()))
    assert models[0].usage.evictions > 20
    late = {f"late{k}": 1.0 for k in range(3)}
    for label in (True, False):
        models[0].learn_one(late, label)
    assert models[0].score_one(late) == models[0].score_one({})


def test_a_merge_takes_over_when_names_were_seen():
    mine, theirs = (Pipeline(Vocabulary(4, 2, "least-recent"), make("mba", {})) for _ in range(2))
    for name in "aabbaa":
        mine.learn_one({name: 1.0}, name == "a")
    for name in "ccabbc":
        theirs.learn_one({name: 1.0}, name == "c")
    mine.merge(theirs)
    assert set(mine.weights) == {"a", "b", "c"}
    for name in "ddee":  # "e" takes the column of the least recent
        mine.learn_one({name: 1.0}, True)
    assert "c" in mine.weights


@pytest.mark.parametrize(
    ("learner", "params"),
    [
        ("solam", {"R": 0.3}),
        ("solam", {"R": 0.3, "half_life": 50.0}),
        ("solam", {"R": 3.0, "norm": "l1"}),
        ("regsolam", {"lam": 0.5}),
        ("fsauc", {"R": 0.5, "n1": 16}),
    ],
)
def test_a_ball_that_binds_counts_the_weights_that_there_are(learner, params):
    """What is kept of sums over columns is what `_settle` counts anew."""
    spec = {"encoder": {"kind": "vocabulary", "capacity": CAPACITY}, "columns": {"eviction": "least-recent"}}
    model = Pipeline.from_spec({"algorithm": learner, "params": params, "scaler": "none", **spec})
    random, changed = np.random.default_rng(0), 0.0
    for number in range(400):
        y = bool(random.random() < 0.5)
        # each new name carries much weight, and leaves with it
        x = {f"n{number // 4}_{k}": (1.0 if y else -1.0) * random.random() for k in range(2)} | {
            "a": random.normal() + y
        }
        model.learn_one(x, y)
        fields = dict(zip(model.learner._program.parts, model.learner._arrays, strict=True))
        fresh = from_bytes(model.to_bytes()).learner
        fresh._settle()
        if "ball" in fields:
            counts, anew = fields["ball"].copy(), fresh._field("ball")
            kept = [l1ball.MASS, l1ball.LIVE, *([l1ball.GAP2, l1ball.SIGNED] if learner == "fsauc" else [])]
            assert counts[kept] == pytest.approx(anew[kept], rel=1e-6, abs=1e-11)
            bound = counts[l1ball.MASS]
        else:
            scalars = fields["scalars"]
            bound = scalars[saddle.NORM2] * scalars[saddle.SCALE] ** 2
            assert bound == pytest.approx(fresh._field("scalars")[saddle.NORM2], rel=1e-6, abs=1e-13)
        if learner == "fsauc":
            assert fields["scalars"][MASS1] == pytest.approx(np.abs(fields["w1"]).sum(), rel=1e-6, abs=1e-9)
        changed = max(changed, float(bound))
    assert changed > 0.0
    assert model.usage.evictions > 150
