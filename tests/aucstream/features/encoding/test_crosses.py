"""Crosses of categories: features of pairs of words, in both encoders, in every way that rows come."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pandas as pd
import pytest

import aucstream
from aucstream import FTRL, Auto, Hashing, Pipeline, Vocabulary
from aucstream.errors import CannotMerge, InvalidBlock, InvalidParams
from aucstream.metrics.exact import area
from aucstream.pipeline import PipelineSpec


def clicks(n: int, seed: int = 0) -> tuple[list[dict], list[bool]]:
    """Return rows that only two words together tell: clicked where ad and site have the same parity."""
    draw = random.Random(seed)
    rows, labels = [], []
    for _ in range(n):
        ad, site = draw.randrange(20), draw.randrange(20)
        rows.append({"ad": f"a{ad}", "site": f"s{site}", "price": draw.gauss(0.0, 1.0), "new": draw.random() < 0.5})
        labels.append((ad + site) % 2 == 0 if draw.random() < 0.9 else draw.random() < 0.5)
    return rows, labels


def auc(model: Pipeline, rows: list[dict], labels: list[bool]) -> float:
    """Return the AUC of a model's scores."""
    return area(np.where(labels, 1.0, -1.0), model.engine.score_rows(rows)).auc


@pytest.mark.parametrize("crosses", ["all", [["ad", "site"]], (("site", "ad"),)])
@pytest.mark.parametrize("kind", [Vocabulary, lambda **k: Hashing(bits=16, **k)])
def test_what_two_words_say_together_is_learned(kind, crosses):
    rows, labels = clicks(6000)
    crossed, plain = Pipeline(kind(crosses=crosses), FTRL()), Pipeline(kind(), FTRL())
    for model in (crossed, plain):
        model.engine.learn_rows(rows[:5000], np.where(labels[:5000], 1.0, -1.0))
    assert auc(crossed, rows[5000:], labels[5000:]) > 0.9
    assert auc(plain, rows[5000:], labels[5000:]) < 0.6


def test_a_cross_has_the_name_of_both_features_and_their_words():
    x = {"ad": "a", "n": 2.0, "site": "s", "words": ["u", "v"], "flag": True, "none": None, "city": "NL"}
    expected = {"pairs": {"site=s&ad=a"}, "all": {"ad=a&city=NL", "ad=a&site=s", "city=NL&site=s"}}
    for crosses, names in (([("site", "ad"), ("ad", "absent"), ("ad", "n")], "pairs"), ("all", "all")):
        encoder = Vocabulary(crosses=crosses)
        encoder.learn(x)
        assert {name for name in encoder.names if "&" in str(name)} == expected[names]


def test_all_takes_the_first_sixteen_by_name():
    names = [f"c{at:02d}" for at in range(20)]
    encoder = Vocabulary(crosses="all")
    encoder.learn(dict.fromkeys(reversed(names), "x"))
    assert [name for name in encoder.names if "&" in str(name)] == [
        f"{a}=x&{b}=x" for a, b in itertools.combinations(names[:16], 2)
    ]


@pytest.mark.parametrize("encoder", [lambda: Vocabulary(crosses="all"), lambda: Hashing(bits=8, crosses="all")])
@pytest.mark.parametrize("learner", [FTRL, Auto])
def test_dicts_rows_and_frames_in_any_split_and_a_save_give_the_same_bits(encoder, learner):
    rows, labels = clicks(260)
    one, many, frames = (Pipeline(encoder(), learner()) for _ in range(3))
    for at, (x, y) in enumerate(zip(rows, labels, strict=True)):
        one.learn_one(x, y)
        if at == 130:
            one = aucstream.from_bytes(one.to_bytes())
    for part in (slice(0, 7), slice(7, 100), slice(100, 260)):
        many.engine.learn_rows(rows[part], np.where(labels[part], 1.0, -1.0))
        frames.learn_many(pd.DataFrame(rows[part]), pd.Series(labels[part]))
    expected = [one.score_one(x) for x in rows]
    assert many.engine.score_rows(rows).tolist() == expected
    assert [many.score_one(x) for x in rows] == expected
    assert frames.score_many(pd.DataFrame(rows)).tolist() == expected
    assert sum(many.explain_one(rows[3]).values()) == pytest.approx(expected[3])


def test_crosses_count_in_the_capacity_and_names_leave():
    rows, labels = clicks(500)
    model = Pipeline(Vocabulary(60, eviction="least-recent", crosses="all"), FTRL())
    model.engine.learn_rows(rows, np.where(labels, 1.0, -1.0))
    assert model.usage.names == 60
    assert model.usage.evictions > 100


def test_a_spec_and_a_model_keep_them():
    for encoder in ({"kind": "vocabulary", "crosses": "all"}, {"kind": "hashing", "bits": 9, "crosses": [["a", "b"]]}):
        model = Pipeline.from_spec(PipelineSpec(algorithm="ftrl", encoder=encoder))
        resumed = aucstream.from_bytes(model.to_bytes())
        assert resumed.encoder.spec["crosses"] == encoder["crosses"]
        assert resumed.clone().encoder.spec == model.encoder.spec
    assert "crosses" not in Vocabulary().spec


@pytest.mark.parametrize("crosses", ["some", [], [["a"]], [["a", "a"]], [["a", "b"], ["b", "a"]], 3, [["a", 1.5]]])
@pytest.mark.parametrize("kind", [Vocabulary, Hashing])
def test_others_are_refused(kind, crosses):
    with pytest.raises(InvalidParams, match=rf"{kind.__name__}.crosses: expected None, 'all', or pairs"):
        kind(crosses=crosses)


def test_a_cross_that_meets_another_feature_is_refused_and_changes_nothing():
    model = Pipeline(Vocabulary(crosses="all"), FTRL())
    with pytest.raises(InvalidBlock, match="a cross meets another feature"):
        model.learn_one({"a": "x", "b": "y", "a=x&b=y": 1.0}, True)
    assert model.usage.names == 0


def test_models_with_other_crosses_do_not_merge():
    rows, labels = clicks(50)
    models = [Pipeline(Vocabulary(crosses=crosses), FTRL()) for crosses in ("all", None)]
    for model in models:
        model.engine.learn_rows(rows, np.where(labels, 1.0, -1.0))
    with pytest.raises(CannotMerge):
        models[0].merge(models[1])
