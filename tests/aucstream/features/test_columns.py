"""`Columns`: what is said of columns holds in every way that rows come, in a pipeline and alone."""

from __future__ import annotations

import copy
import datetime
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river.checks import yield_checks
from scipy import sparse

from aucstream import PSAM, AutoScale, Columns, Hashing, Pipeline, Vocabulary, from_bytes
from aucstream.errors import CannotMerge, InvalidBlock, InvalidParams
from aucstream.features.number_rows import NumberRows
from aucstream.io.rows import Rows
from aucstream.pipeline import ColumnsSpec, PipelineSpec

RULES: dict[str, Any] = {
    "ignore": ["id", "tmp_*"],
    "category": ["zip"],
    "number": ["price"],
    "time": [{"name": "when", "parts": ["hour", "weekday"]}],
    "decimal": ",",
    "thousands": ".",
}
SAID = {"id": 5, "tmp_a": "x", "zip": 1011, "price": "1.234,50", "when": "1970-01-05T10:00", "age": 30, "note": None}
READ = {
    "zip": "1011",
    "price": 1234.5,
    "when": 381_600.0,
    "when.hour": "10",
    "when.weekday": "monday",
    "age": 30,
    "note": None,
}


def test_a_row_is_read_as_is_said() -> None:
    before = dict(SAID)
    assert Columns(**RULES).transform_one(SAID) == READ
    assert before == SAID


@pytest.mark.parametrize(
    ("kind", "value", "result"),
    [
        ("category", 7, "7"),
        ("category", 7.0, "7"),
        ("category", np.float64(7.5), "7.5"),
        ("category", "007", "007"),
        ("category", True, "true"),
        ("category", ["a", "b"], ["a", "b"]),
        ("number", "12.5", 12.5),
        ("number", True, 1.0),
        ("number", 3, 3),
        ("time", 12.0, 12.0),
        ("time", "12", 12.0),
        ("time", datetime.datetime(1970, 1, 2), 86_400.0),
        ("time", datetime.date(1970, 1, 2), 86_400.0),
        ("time", pd.Timestamp("1970-01-02", tz="Europe/Paris"), 82_800.0),
        ("time", np.datetime64("1970-01-02"), 86_400.0),
    ],
)
def test_a_value_by_kind(kind: str, value: Any, result: Any) -> None:
    assert Columns(**{kind: ["a"]}).transform_one({"a": value}) == {"a": result}


@pytest.mark.parametrize("kind", ["number", "time"])
@pytest.mark.parametrize("word", ["", " ", "NA", "null", "-", "?", None])
def test_what_is_missing_has_no_entry(kind: str, word: str | None) -> None:
    assert Columns(**{kind: ["a"]}).transform_one({"a": word}) == {}


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("number", "x", r"feature: expected a number \(decimal '.'\) in a column of numbers, got 'x' - at \['a'\]"),
        ("number", "1,5", "in a column of numbers, got '1,5'"),
        ("time", "soon", "a date or a time in a column of times, got 'soon'"),
    ],
)
def test_a_string_that_is_no_number_or_time_is_refused_by_name(kind: str, value: str, message: str) -> None:
    model = Pipeline(Columns(**{kind: ["a"]}), AutoScale(), PSAM())
    model.learn_one({"a": 1.0}, True)
    state = model.to_bytes()
    for call in (
        lambda: model.learn_one({"a": value}, True),
        lambda: model.score_one({"a": value}),
        lambda: model.predict_proba_one({"a": value}),
        lambda: model.explain_one({"a": value}),
        lambda: model.engine.check_rows([{"a": value}]),
        lambda: model.learn_many(pd.DataFrame({"a": [value]}), [True]),
    ):
        with pytest.raises(
            InvalidBlock, match=message if call.__code__.co_firstlineno < 0 else message.split(" - ")[0]
        ):
            call()
    assert model.engine.score_known({"a": value}) is None
    assert not model.engine.all_known_finite([{"a": value}])
    assert model.to_bytes() == state


NAMES = st.sampled_from(["id", "tmp_b", "zip", "price", "when", "when.hour", "age"])
VALUES = st.one_of(
    st.none(), st.floats(-1e6, 1e6), st.booleans(), st.sampled_from(["1,5", "NA", "2024-05-01", "7", "", "1.000,5"])
)


@given(st.dictionaries(NAMES, VALUES))
def test_twice_is_as_once(x: dict[str, Any]) -> None:
    columns = Columns(**RULES)
    try:
        once = columns.row(x)
    except InvalidBlock:
        return
    assert columns.row(once) == once


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"ignore": "id"}, "columns.ignore: expected a list of names or patterns, got 'id'"),
        ({"ignore": [""]}, "columns.ignore: expected names or patterns"),
        ({"number": [3]}, "columns.number: expected names or patterns"),
        ({"category": ["a["]}, r"columns.category: expected a pattern whose \[ has a \]"),
        ({"category": ["[!]"]}, r"a pattern whose \[ has a \]"),
        ({"ignore": ["a", "a"]}, "columns.ignore: expected each name once, got 'a'"),
        ({"ignore": ["a"], "time": ["a"]}, "columns.time: expected no name that is in `ignore`, too, got 'a'"),
        ({"time": [{"name": "a", "parts": ["year"]}]}, "columns.time.parts: expected a list of 'hour' and 'weekday'"),
        ({"time": [{"parts": ["hour"]}]}, "columns.time: expected objects of `name` and `parts`"),
        ({"time": [{"name": "a", "zone": "x"}]}, "columns.time: expected objects of `name` and `parts`, got 'zone'"),
        ({"decimal": ";"}, "columns.decimal: expected '.' | ','"),
        ({"decimal": ",", "thousands": ","}, "columns.thousands: expected another mark than decimal, ','"),
        ({"thousands": "x"}, "columns.thousands: expected"),
        ({"min_count": 0}, "columns.min_count: expected a whole number >= 1, got 0"),
        ({"eviction": "first"}, "columns.eviction: expected 'none'"),
    ],
)
def test_what_is_refused_is_named(rules: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParams, match=message.replace("|", r"\|") if "|" in message else message):
        Columns(**rules)
    with pytest.raises(
        ValueError, match=r"columns|thousands|decimal|eviction|min_count|Input should be|Field required"
    ):
        PipelineSpec.model_validate({"columns": rules})


def test_patterns_are_those_of_a_shell_and_the_first_kind_counts() -> None:
    columns = Columns(ignore=["a*"], category=["[bc]?"], number=["b1", "*x"])
    assert [columns.kind_of(name) for name in ("a1", "A1", "b1", "c12", "zx", "ax")] == [
        *("ignore", None, "category", None, "number", "ignore")
    ]
    assert Columns(ignore=["1*"]).kind_of(12) == "ignore"


# ---- in a pipeline ------------------------------------------------------------------------------


def stream(n: int, seed: int = 0) -> list[tuple[dict[str, Any], bool]]:
    random = np.random.default_rng(seed)
    rows = []
    for number in range(n):
        y = bool(random.random() < 0.4)
        rows.append(
            (
                {
                    "id": number,
                    "tmp_1": f"w{number}",
                    "zip": int(random.integers(5)) + 5 * y,
                    "price": f"{random.normal() + y:.2f}".replace(".", ","),
                    "when": f"2024-05-{1 + number % 28:02}",
                    "age": float(random.normal()),
                },
                y,
            )
        )
    return rows


def same(one: Pipeline, other: Pipeline) -> bool:
    mine, theirs = one.state_dict()[0], other.state_dict()[0]
    return mine.keys() == theirs.keys() and all(np.array_equal(mine[k], theirs[k], equal_nan=True) for k in mine)


SPECS: list[dict[str, Any]] = [
    {"algorithm": "psam"},
    {"algorithm": "auto"},
    {"algorithm": "jointforest"},
    {"algorithm": "ftrl", "encoder": {"kind": "hashing", "bits": 8}},
    {"algorithm": "solam", "map": {"kind": "randomfourier", "components": 8, "warmup": 50}},
]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: "-".join(map(str, [spec["algorithm"], *spec])))
def test_a_model_learns_the_rows_as_they_are_read_whichever_way_they_come(spec: dict[str, Any]) -> None:
    rows, columns = stream(150), Columns(**RULES)
    plain = Pipeline.from_spec(spec)
    for x, y in rows:
        plain.learn_one(columns.row(x), y)
    probe = [x for x, _ in stream(20, seed=1)]
    scores = [plain.score_one(columns.row(x)) for x in probe]
    said = {**spec, "columns": RULES}
    one, many, frame, chunk = (Pipeline.from_spec(said) for _ in range(4))
    for x, y in rows:
        one.learn_one(x, y)
    features, labels = [x for x, _ in rows], [y for _, y in rows]
    signs = np.where(labels, 1.0, -1.0)
    many.engine.check_rows(features)
    many.engine.learn_rows(features, signs)
    frame.learn_many(pd.DataFrame(features), labels)
    chunk.engine.learn_chunk(Rows(features, signs, np.ones(150), np.arange(150)))
    for model in (one, many, frame, chunk):
        assert same(model, plain)
        assert [model.score_one(x) for x in probe] == scores
        assert model.engine.score_rows(probe).tolist() == scores
        assert model.score_many(pd.DataFrame(probe)).tolist() == scores
        assert [model.predict_proba_one(x).score for x in probe] == scores  # type: ignore[attr-defined]
        assert same(from_bytes(model.to_bytes()), plain)  # type: ignore[arg-type]
    for again in (from_bytes(one.to_bytes()), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        again.learn_one(*rows[0])
        assert [again.score_one(x) for x in probe] != scores
    again = from_bytes(one.to_bytes())
    assert [again.score_one(x) for x in probe] == scores


def test_a_step_and_a_spec_are_the_same() -> None:
    step = Pipeline(Columns(**RULES, min_count=2, eviction="least-recent"), AutoScale(), PSAM())
    spec = Pipeline.from_spec({"algorithm": "psam", "columns": {**RULES, "min_count": 2, "eviction": "least-recent"}})
    for x, y in stream(60):
        step.learn_one(x, y)
        spec.learn_one(x, y)
    assert same(step, spec)
    assert isinstance(step.encoder, Vocabulary)
    assert (step.encoder.min_count, step.encoder.eviction) == (2, "least-recent")
    clone = step.clone()
    assert clone.columns is not None
    assert clone.columns.kind_of("tmp_5") == "ignore"
    with pytest.raises(
        InvalidParams, match=r"columns.min_count: expected 1 with an encoder that keeps no names, got 2"
    ):
        Pipeline(Columns(min_count=2), Hashing(bits=4), PSAM())


def test_columns_that_say_nothing_leave_the_model_as_it_is() -> None:
    model = Pipeline(Columns(), AutoScale(), PSAM())
    assert model.columns is None
    assert "columns" not in model.state_dict()[1]
    assert ColumnsSpec().model_dump() == {"min_count": 1, "eviction": "none"}
    assert "columns" not in PipelineSpec().model_dump()


def test_a_matrix_of_named_rows_loses_what_is_left_out() -> None:
    random = np.random.default_rng(0)
    values = random.normal(size=(40, 3))
    signs = np.where(values[:, 0] > 0, 1.0, -1.0)
    model, plain = (
        Pipeline.from_spec({"columns": {"ignore": ["b"]}, "algorithm": "psam"}),
        Pipeline.from_spec({"algorithm": "psam"}),
    )
    rows = NumberRows(["a", "b", "c"], values)
    model.engine.learn_rows(rows, signs)
    plain.engine.learn_rows(NumberRows(["a", "c"], np.ascontiguousarray(values[:, [0, 2]])), signs)
    assert same(model, plain)
    block = model.engine.block_of(rows)
    assert block is not None
    assert (
        model.engine.score_block(block).tolist()
        == plain.engine.score_rows([{"a": x["a"], "c": x["c"]} for x in rows]).tolist()
    )
    words = Columns(category=["b"]).rows(rows[:1])
    assert words[0]["b"] == repr(values.item(0, 1))


@pytest.mark.parametrize("form", ["dense", "csr", "rows"])
def test_a_column_of_an_array_that_is_left_out_counts_nothing(form: str) -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(80, 12))
    y = X[:, 0] + X[:, 3] > 0
    X[:, 3] = 1e3 * y
    model = Pipeline(Columns(ignore=["3", "1?"]), AutoScale(), PSAM())
    zeros = X.copy()
    zeros[:, [3, 10, 11]] = 0.0
    plain = Pipeline(AutoScale(), PSAM())
    if form == "rows":
        signs = np.where(y, 1.0, -1.0)
        model.engine.learn_rows(X.tolist(), signs)
        plain.engine.learn_rows(zeros.tolist(), signs)
        assert model.engine.score_rows(X.tolist()).tolist() == plain.engine.score_rows(zeros.tolist()).tolist()
    else:
        convert = np.asarray if form == "dense" else sparse.csr_array
        model.partial_fit(convert(X), y)
        plain.partial_fit(convert(zeros), y)
        assert model.decision_function(convert(X)).tolist() == plain.decision_function(convert(zeros)).tolist()
        assert model.fit(convert(X), y).weights[3] == 0.0
    with pytest.raises(InvalidBlock, match="column 0 is a category"):
        Pipeline(Columns(category=["0"]), PSAM()).partial_fit(X, y)


def test_a_column_left_out_from_now_on() -> None:
    spec = PipelineSpec.model_validate({"algorithm": "psam", "columns": {"ignore": ["tmp_*"]}})
    model = Pipeline.from_spec(spec)
    plain = Pipeline.from_spec(spec)
    rows = [({"a": float(i % 7), "b": float(i % 3)}, i % 2 == 0) for i in range(60)]
    for x, y in rows[:30]:
        model.learn_one(x, y)
        plain.learn_one(x, y)
    other = spec.model_copy(update={"columns": ColumnsSpec(ignore=["b"])})
    model.change(other)
    assert model.spec == other
    for x, y in rows[30:]:
        model.learn_one(x, y)
        plain.learn_one({"a": x["a"]}, y)
    assert same(model, plain)
    assert model.score_one({"a": 1.0, "b": 5.0}) == plain.score_one({"a": 1.0})
    again = from_bytes(model.to_bytes())
    assert again.score_one({"a": 1.0, "b": 5.0}) == plain.score_one({"a": 1.0})
    model.change(spec)
    assert model.score_one({"a": 1.0, "b": 5.0}) == plain.score_one({"a": 1.0, "b": 5.0})


def test_models_that_read_columns_otherwise_do_not_merge() -> None:
    spec = {"algorithm": "mba", "scaler": "none", "columns": {"ignore": ["b"]}}
    one, other, plain = Pipeline.from_spec(spec), Pipeline.from_spec(spec), Pipeline.from_spec({**spec, "columns": {}})
    whole = Pipeline.from_spec(spec)
    for i in range(40):
        x, y = {"a": float(i % 5), "b": 1.0, "c": float(i % 3)}, i % 5 > 2
        (one if i % 2 else other).learn_one(x, y)
        plain.learn_one(x, y)
        whole.learn_one(x, y)
    before = one.to_bytes()
    with pytest.raises(CannotMerge, match="pipelines that read columns alike"):
        one.merge(plain)
    assert one.to_bytes() == before
    one.merge(other)
    assert one.examples == whole.examples == 40


# ---- alone --------------------------------------------------------------------------------------


@pytest.mark.parametrize("check", list(yield_checks(Columns())), ids=lambda check: getattr(check, "__name__", "check"))
def test_river_checks(check: Any) -> None:
    check(Columns(ignore=["x_*"], time=["when"]))


def test_it_stands_before_a_model_of_river() -> None:
    from river import linear_model, preprocessing

    model = (
        Columns(ignore=["id"], number=["price"]) | preprocessing.StandardScaler() | linear_model.LogisticRegression()
    )
    for i in range(50):
        x, y = {"id": i, "price": "1.5" if i % 2 else "0.5"}, i % 2 == 1
        model.learn_one(x, y)
    weights = model.steps["LogisticRegression"].weights
    assert set(weights) == {"price"}
    assert weights["price"] > 0.1


@settings(max_examples=50)
@given(st.dictionaries(st.text(min_size=1, max_size=3), st.floats(-10, 10), max_size=4))
def test_what_is_not_named_stays(x: dict[str, float]) -> None:
    assert Columns(ignore=["long-name"]).transform_one(x) == x
