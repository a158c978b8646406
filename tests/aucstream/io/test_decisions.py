"""One decision a column, from its first rows: numbers as people write them, ids, times, missing cells, index columns."""

from __future__ import annotations

import datetime
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aucstream import Columns
from aucstream.errors import BadRow, InvalidParams
from aucstream.features.cells import Convention
from aucstream.io import Rows, read
from aucstream.io.csv import CsvReader, read_csv
from aucstream.io.decisions import HEAD_ROWS, NO_RULES, Decision, Rules, columns_of, decide, decisions_of


def reader(text: str, rules: Rules = NO_RULES, **options: Any) -> CsvReader:
    stream = io.BytesIO(text.encode())
    stream.name = "d.csv"
    return read_csv(stream, label="y", rules=rules, **options)


def column(cells: list[str], rules: Rules = NO_RULES, *, delimiter: str = ";") -> tuple[list[Any], CsvReader]:
    """Return the values of a column `a` of a file, and its reader at the end."""
    source = reader(delimiter.join("ay") + "\n" + "".join(f'"{cell}"{delimiter}0\n' for cell in cells), rules)
    values = [x.get("a") for chunk in source for x in chunk.features]
    return values, source


def said(source: CsvReader) -> str:
    return "; ".join(f"{name}: {sentence}" for name, sentence in source.remarks)


@pytest.mark.parametrize(
    ("cells", "numbers", "delimiter"),
    [
        (["12,50", "3,1", "-7"], [12.5, 3.1, -7.0], ";"),
        (["1.234,56", "0,5", "12"], [1234.56, 0.5, 12.0], ";"),
        (["1,234.50", "7", "1,234,567"], [1234.5, 7.0, 1234567.0], ","),
        (["$12.50", "-$3", "$ 4"], [12.5, -3.0, 4.0], ","),
        (["12,50 €", "3 €"], [12.5, 3.0], ";"),
        (["5%", "12.5 %"], [5.0, 12.5], ","),
        ([" +1.5 ", "2"], [1.5, 2.0], ","),
        (["1 234,5", "12,25"], [1234.5, 12.25], ";"),
        (["1,234", "2,500"], [1234.0, 2500.0], ","),  # ambiguous
        (["1,234", "2,500"], [1.234, 2.5], ";"),
        (["1,234", "2,50"], [1.234, 2.5], ","),
    ],
)
def test_numbers_as_people_write_them(cells: list[str], numbers: list[float], delimiter: str) -> None:
    values, source = column(cells, delimiter=delimiter)
    assert values == numbers
    assert source.decisions["a"].kind == "number"
    assert ("read as numbers" in said(source)) == any(not cell.strip(" +").replace(".", "").isdigit() for cell in cells)
    if cells == ["1,234", "2,500"]:
        assert "says otherwise" in said(source)


def test_another_column_settles_what_is_ambiguous() -> None:
    text = "a;b;c;y\n1,234;12,5;1.234;0\n2,500;3,25;2.000;1\n"
    (chunk,) = reader(text)
    assert list(chunk.features) == [{"a": 1.234, "b": 12.5, "c": 1234.0}, {"a": 2.5, "b": 3.25, "c": 2000.0}]
    (chunk,) = reader('a,b,y\n"1,234",1.5,0\n', Rules(decimal=","))
    assert list(chunk.features) == [{"a": 1.234, "b": "1.5"}]
    (chunk,) = reader('a,b,y\n"1,234",1.5,0\n', Rules(thousands=","))
    assert list(chunk.features) == [{"a": 1234.0, "b": 1.5}]
    with pytest.raises(InvalidParams, match=r"columns.thousands: expected another mark than decimal"):
        Rules(decimal=",", thousands=",")


def test_a_column_of_hexadecimal_ids_is_words() -> None:
    random = np.random.default_rng(0)
    cells = [f"{value:08x}" for value in random.integers(0, 2**32, 3_000)]
    values, source = column(cells)
    assert any(cell.isdigit() for cell in cells)
    assert values == cells
    assert source.decisions["a"].kind == "id"
    assert "each cell is a word" in said(source)
    assert "a word of its own in nearly every row: --ignore leaves it out" in said(source)


def test_leading_zeros_are_words_unless_the_column_is_said_to_be_numbers() -> None:
    values, source = column(["007", "7", "12"])
    assert values == ["007", "7", "12"]
    assert "has numbers with leading zeros, such as '007': each cell is a word; --number reads numbers" in said(source)
    assert column(["007", "7", "12"], Rules(Columns(number=["a"])))[0] == [7.0, 7.0, 12.0]
    assert column(["0.5", "0", "-0.25"])[0] == [0.5, 0.0, -0.25]


@pytest.mark.parametrize("word", ["NA", "N/A", "null", "NULL", "nan", "NaN", "-", "?", "None"])
def test_words_that_say_missing_in_a_column_of_numbers(word: str) -> None:
    values, source = column(["1", word, "", "2"])
    assert values == [1.0, None, None, 2.0]
    assert said(source) == f"a: {word!r} (1 cells) read as missing"
    assert column(["x", word, "y"])[0] == ["x", word, "y"]
    values, source = column(["2024-01-01", word])
    assert values == [1704067200.0, None]


def test_a_word_among_numbers_is_a_feature_of_its_own() -> None:
    values, source = column(["1", "2", "unknown", "3"])
    assert values == [1.0, 2.0, "unknown", 3.0]
    assert said(source) == "a: has numbers and the word 'unknown'; a word is a feature of its own, no number"
    assert source.mixed == {"a": ["unknown"]}


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("inf", "a finite number"),
        ("1e999", "a finite number"),
        ("12,50", "a number with the decimal mark '.', as in the first rows"),
        ("1,234", "a number with the decimal mark '.', as in the first rows"),
    ],
)
def test_a_cell_after_the_first_rows_that_is_a_number_of_another_kind_is_refused(cell: str, expected: str) -> None:
    with pytest.raises(BadRow, match=f"d.csv, line {HEAD_ROWS + 3}, column a: expected {expected}") as caught:
        column(["1.5"] * (HEAD_ROWS + 1) + [cell])
    assert caught.value.got == cell


def test_thousands_that_come_late_and_can_be_nothing_else_are_read() -> None:
    values, source = column(["1.5"] * HEAD_ROWS + ["1,234.50"], delimiter=",")
    assert values[-1] == 1234.5
    assert said(source) == "a: '1,234.50' is read as 1234.5"


def test_the_first_rows_decide_for_all() -> None:
    assert column(["x"] * HEAD_ROWS + ["7"])[0][-1] == "7"
    assert column(["7"] * HEAD_ROWS + ["x"])[0][-1] == "x"
    assert column([""] * HEAD_ROWS + ["x", "7"])[0][-1] == "7"
    assert column([""] * HEAD_ROWS + ["7", "x"])[0][-2:] == [7.0, "x"]
    assert column(["true"] * HEAD_ROWS + ["7", "false"])[0][-2:] == ["7", False]


@pytest.mark.parametrize(
    ("cell", "seconds"),
    [
        ("2024-03-01", 1709251200.0),
        ("2024-03-01T12:30:00Z", 1709296200.0),
        ("2024-03-01 12:30:00+01:00", 1709292600.0),
        ("2024/03/01", 1709251200.0),
        ("01.03.2024", 1709251200.0),
        ("1709251200", 1709251200.0),
    ],
)
def test_dates_and_times_are_seconds(cell: str, seconds: float) -> None:
    values, source = column([cell, ""])
    assert values == [seconds, None]
    assert source.decisions["a"].kind == ("number" if cell.isdigit() else "time")


def test_columns_that_options_name() -> None:
    text = "id,when,zip,price,junk,y\n1,2024-01-01T05:00,1011,7,?x,0\n2,2024-01-06 06:00,1012,NA,2,1\n"
    columns = Columns(
        ignore=["id", "ju*"], category=["zip"], number=["price"], time=[{"name": "when", "parts": ["hour", "weekday"]}]
    )
    source = reader(text, Rules(columns))
    (chunk,) = source
    assert list(chunk.features) == [
        {"when": 1704085200.0, "zip": "1011", "price": 7.0, "when.hour": "5", "when.weekday": "monday"},
        {"when": 1704520800.0, "zip": "1012", "when.hour": "6", "when.weekday": "saturday"},
    ]
    assert [columns.row(x) for x in chunk.features] == list(chunk.features)
    assert columns_of(source.decisions) == {
        "id": {"kind": "ignore"},
        "junk": {"kind": "ignore"},
        "when": {"kind": "time", "parts": ["hour", "weekday"]},
        "zip": {"kind": "category"},
        "price": {"kind": "number"},
    }
    with pytest.raises(BadRow, match=r"line 2, column junk: expected a number, or an empty cell if missing, got '\?x'"):
        list(reader(text, Rules(Columns(number=["junk"]))))
    with pytest.raises(BadRow, match=r"line 2, column zip: expected a date or a time.*got 'x'"):
        list(reader("zip,y\nx,0\n", Rules(Columns(time=["zip"]))))


def test_a_numeric_file_without_a_column_is_read_by_compiled_code() -> None:
    text = "a,b,y,c\n" + "".join(f"{i},{i / 2},{i % 2},{-i}\n" for i in range(3_000))
    whole = [x for chunk in reader(text) for x in chunk.features]
    part = [x for chunk in reader(text, Rules(Columns(ignore=["b"]))) for x in chunk.features]
    assert part == [{"a": x["a"], "c": x["c"]} for x in whole]


def test_a_nameless_first_column_is_the_index_of_a_frame() -> None:
    source = reader(",a,y\n0,5,0\n1,6,1\n")
    (chunk,) = source
    assert list(chunk.features) == [{"a": 5.0}, {"a": 6.0}]
    assert said(source) == "1: has no name and is left out, as the index of a frame"


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("words", [False, True])
def test_a_column_that_counts_the_rows_is_named(first: int, words: bool) -> None:
    other = "x" if words else ""
    text = "Unnamed: 0,a,y\n" + "".join(f"{i + first},{other}{i % 7},{i % 2}\n" for i in range(5_000))
    source = reader(text)
    list(source)
    assert said(source) == "Unnamed: 0: equals the number of the row: --ignore leaves it out"
    source = reader(text.replace("4000,", "4001,"))
    list(source)
    assert said(source) == ""


def test_decisions_are_stored_and_hold_for_another_file() -> None:
    first = reader('z;p;t;f;y\na1;"1.234,50";2024-01-01;true;0\n007;"2,5";2024-01-02;false;1\n')
    list(first)
    stored = decisions_of(json.loads(json.dumps(columns_of(first.decisions))))
    assert stored == first.decisions
    assert stored["p"] == Decision("number", Convention(",", "."))
    (chunk,) = reader("z;p;t;f;y\n12;1.234;2024-01-03;7;0\n13;2.000;2024-01-04;true;0\n", Rules(decisions=stored))
    assert list(chunk.features) == [
        {"z": "12", "p": 1234.0, "t": 1704240000.0, "f": "7"},
        {"z": "13", "p": 2000.0, "t": 1704326400.0, "f": True},
    ]
    with pytest.raises(InvalidParams, match="decisions of columns"):
        decisions_of({"a": 3})


CELLS = st.sampled_from(
    ["1", "2.5", "1,5", "007", "x", "yy", "NA", "", "true", "2024-01-01", "5%", "1.234,5", "inf", "-"]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(CELLS, CELLS), max_size=12), st.sampled_from([1, 2, 5, 100]), st.integers(1, 6))
def test_chunks_have_no_part_in_it(table: list[tuple[str, str]], chunk_rows: int, head: int) -> None:
    text = "a;b;y\n" + "".join(f"{a};{b};0\n" for a, b in table)

    def outcome(size: int) -> Any:
        rows = []
        try:
            source = reader(text, chunk_rows=size)
            for chunk in source:
                rows += list(chunk.features)
        except BadRow as error:
            return str(error)
        return rows, source.decisions, source.remarks

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("aucstream.io.csv.HEAD_ROWS", head)
        assert outcome(chunk_rows) == outcome(1_000)


@given(st.lists(CELLS, min_size=1, max_size=20))
def test_each_column_is_one_kind(cells: list[str]) -> None:
    for name, decision in decide({"a": cells}).items():
        assert name == "a"
        try:
            values, _ = column(cells)
        except BadRow:
            assert decision.kind == "number"
            continue
        kinds = {type(value) for value in values if value is not None}
        if decision.kind in ("category", "id"):
            assert kinds <= {str}
        words = {value for value in values if isinstance(value, str)}
        if decision.kind in ("number", "time"):
            assert len(words) <= 10


# ---- NDJSON, Parquet, Arrow ---------------------------------------------------------------------


def ndjson(tmp_path: Path, rows: list[dict[str, Any]]) -> Path:
    path = tmp_path / "d.ndjson"
    path.write_text("".join(json.dumps({"features": x, "label": i % 2}) + "\n" for i, x in enumerate(rows)))
    return path


def features(path: Path, **options: Any) -> list[Any]:
    return [x for chunk in read(path, **options) if isinstance(chunk, Rows) for x in chunk.features]


def test_numbers_written_as_strings_in_ndjson(tmp_path: Path) -> None:
    rows = [{"p": "12,50", "q": "7", "w": "a1", "t": "2024-01-01", "z": "007", "n": 1}, {"p": "3,5", "q": "NA", "n": 2}]
    path = ndjson(tmp_path, rows)
    assert features(path) == [
        {"p": 12.5, "q": 7.0, "w": "a1", "t": 1704067200.0, "z": "007", "n": 1.0},
        {"p": 3.5, "n": 2.0},
    ]
    assert features(path, chunk_rows=1) == features(path)
    source = read(path)
    list(source)
    sentences = dict(source.remarks)
    assert "read as numbers: '12,50' is 12.5" in sentences["p"]
    assert "'NA' (1 cells) read as missing" in sentences["q"]
    assert "leading zeros" in sentences["z"]
    columns = Columns(ignore=["w", "t"], category=["n"], number=["z"])
    assert features(path, columns=columns) == [{"p": 12.5, "q": 7.0, "z": 7.0, "n": "1"}, {"p": 3.5, "n": "2"}]
    with pytest.raises(BadRow, match=r"d.ndjson, line 1, column w: expected a number"):
        features(path, columns=Columns(number=["w"]))
    with pytest.raises(BadRow, match=r"d.ndjson, line 1, column w: expected a number"):
        features(path, columns=Columns(number=["w"]), decimal=",")


def test_types_in_the_row_decide_in_ndjson(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"a": 1.5, "b": "x", "c": True},
        {"a": "word", "b": 7, "c": "true"},
        {"l": ["u", "v"]},
    ]
    assert features(ndjson(tmp_path, rows)) == rows
    arrays = tmp_path / "a.ndjson"
    arrays.write_text('{"features": [1, 2], "label": 1}\n{"features": [3, 4], "label": 0}\n')
    assert [list(x) for x in features(arrays)] == [[1.0, 2.0], [3.0, 4.0]]
    assert [list(x) for x in features(arrays, columns=Columns(ignore=["1"]))] == [[1.0, 0.0], [3.0, 0.0]]


def test_stored_decisions_in_ndjson(tmp_path: Path) -> None:
    stored = {"z": Decision("category"), "p": Decision("number", Convention(",", ".")), "i[0]": Decision("ignore")}
    path = ndjson(tmp_path, [{"z": 12, "p": "1.234", "i[0]": 5, "i0": 6}])
    assert features(path, decisions=stored) == [{"z": "12", "p": 1234.0, "i0": 6.0}]


def read_words(path: Path) -> tuple[str, ...]:
    source = read(path, positive="1")
    list(source)
    assert len(source.label_words) == 2
    return source.label_words


def test_svmlight_leaves_columns_out(tmp_path: Path) -> None:
    path = tmp_path / "d.svm"
    path.write_text("+1 1:5 2:6 11:7\n-1 2:8\n")
    (block,) = read(path, columns=Columns(ignore=["1", "1?"]))  # columns count from 0
    assert block.values.tolist() == [5.0]  # type: ignore[union-attr]
    assert block.indices.tolist() == [0]  # type: ignore[union-attr]
    source = read(path, positive="1", columns=Columns(ignore=["1"]))
    assert sum(int((chunk.y > 0).sum()) for chunk in source) == 1
    assert source.label_words == read_words(path)


def test_parquet_times_strings_and_the_index_of_a_frame(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    import pandas as pd

    frame = pd.DataFrame(
        {
            "a": [1.5, 2.5, 3.5],
            "p": ["12,50", "3,1", None],
            "t": pd.to_datetime(["2024-01-01", "2024-01-01 00:00:01.5", None], format="ISO8601"),
            "d": [datetime.date(1970, 1, 2), None, datetime.date(1970, 1, 3)],
            "s": ["x", "y", "7"],
            "y": [0, 1, 0],
        },
        index=[7, 3, 9],
    )
    path = tmp_path / "d.parquet"
    frame.to_parquet(path)
    assert features(path, label="y") == [
        {"a": 1.5, "p": 12.5, "t": 1704067200.0, "d": 86400.0, "s": "x"},
        {"a": 2.5, "p": 3.1, "t": 1704067201.5, "s": "y"},
        {"a": 3.5, "d": 172800.0, "s": "7"},
    ]
    source = read(path, label="y")
    list(source)
    index = ("__index_level_0__", "is the index of a frame, by its metadata, and is left out")
    assert index in source.remarks
    frame[["a", "t", "y"]].dropna().to_parquet(path)
    assert features(path, label="y") == [{"a": 1.5, "t": 1704067200.0}, {"a": 2.5, "t": 1704067201.5}]
    columns = Columns(ignore=["t"], category=["a"])
    assert features(path, label="y", columns=columns) == [{"a": "1.5"}, {"a": "2.5"}]


def test_a_parquet_column_of_any_type_can_be_left_out(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    path = tmp_path / "d.parquet"
    pyarrow.parquet.write_table(pa.table({"a": [1.0], "s": [{"u": 1}], "y": [1]}), path)
    with pytest.raises(InvalidParams, match="column s"):
        read(path, label="y")
    assert features(path, label="y", columns=Columns(ignore=["s"])) == [{"a": 1.0}]


# ---- labels -------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk_rows", [1, 100])
def test_a_label_that_is_nearly_the_positive_one_is_named_with_those_seen(chunk_rows: int) -> None:
    text = "a,y\n1,no\n2,no\n3,yes\n4,no\n"
    source = io.BytesIO(text.encode())
    with pytest.raises(InvalidParams, match=r"positive: .*did you mean 'yes'\?\): 'no', 'yes', got 'Yes'"):
        list(read_csv(source, label="y", positive="Yes", chunk_rows=chunk_rows))


def test_the_same_of_parquet(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    path = tmp_path / "d.parquet"
    pyarrow.parquet.write_table(pa.table({"a": [1.0, 2.0], "y": ["no", "yes"]}), path)
    with pytest.raises(InvalidParams, match=r"did you mean 'yes'\?\): 'no', 'yes', got 'Yes'"):
        list(read(path, label="y", positive="Yes"))
