"""CSV: types of columns, delimiters, label columns, bad rows by name."""

from __future__ import annotations

import csv
import gzip
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aucstream.errors import BadRow, InvalidParams
from aucstream.io import Rows, read
from aucstream.io.csv import CsvReader, read_csv
from tests.data import data_path


def reader(text: str | bytes, label: str | None = "y", **options: object) -> CsvReader:
    stream = io.BytesIO(text.encode() if isinstance(text, str) else text)
    stream.name = "bad.csv"
    return read_csv(stream, label=label, **options)


def rows(text: str | bytes, label: str | None = "y", **options: object) -> Rows:
    (chunk,) = reader(text, label, **options)
    return chunk


def bad(text: str | bytes, **options: object) -> BadRow:
    with pytest.raises(BadRow) as caught:
        list(reader(text, **options))
    return caught.value


def test_a_column_has_one_type() -> None:
    chunk = rows("a,b,c,d,e,y\n1,x,true,,true,1\n 2.5e1 ,7,False,-.5,False,0\n70,TRUE, w ,+1.,,-1\n")
    assert list(chunk.features) == [
        {"a": 1.0, "b": "x", "c": "true", "e": True},
        {"a": 25.0, "b": "7", "c": "False", "d": -0.5, "e": False},
        {"a": 70.0, "b": "TRUE", "c": "w", "d": 1.0},
    ]
    assert chunk.y.tolist() == [1, -1, -1]
    assert chunk.weights.tolist() == [1, 1, 1]
    assert chunk.lines.tolist() == [2, 3, 4]
    assert chunk.lines.dtype == np.int64


@pytest.mark.parametrize("word", ["1_000", "０", "0x1f", "1 0", "1e", "--1", "n.a.", "??"])
def test_what_only_looks_like_a_number_is_a_word(word: str) -> None:
    assert list(rows(f"a,y\n{word},1\n2,0\n").features) == [{"a": word}, {"a": 2.0}]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_the_delimiter_is_sniffed_and_shown(delimiter: str) -> None:
    text = "a|b|y\n1|2|0\n".replace("|", delimiter)
    assert reader(text).delimiter == delimiter
    assert list(rows(text).features) == [{"a": 1.0, "b": 2.0}]


def test_a_delimiter_within_quotes_is_not_counted() -> None:
    assert reader('"a,b,c,d";y\n1;0\n').delimiter == ";"


def test_blank_lines_may_come_before_the_header() -> None:
    chunk = rows("\n\r\na;y\n\n1;0\n")
    assert list(chunk.features) == [{"a": 1.0}]
    assert chunk.lines.tolist() == [5]


def test_any_delimiter_can_be_given() -> None:
    assert list(rows("a|y\n1|0\n", delimiter="|").features) == [{"a": 1.0}]
    for wrong in ("", ",,", "\n", '"'):
        with pytest.raises(InvalidParams, match="delimiter: expected one character"):
            reader("a,y\n", delimiter=wrong)


def test_quotes_byte_order_mark_and_line_ends() -> None:
    chunk = rows(b'\xef\xbb\xbf"a ""x""",b,y\r\n"1","one, two\nthree",1\r\n\r\n2,"",0')
    assert list(chunk.features) == [{'a "x"': 1.0, "b": "one, two\nthree"}, {'a "x"': 2.0}]
    assert chunk.lines.tolist() == [2, 5]


def test_nan_is_a_word_only_among_words() -> None:
    assert [r["a"] for r in rows("a,y\nNan,1\nAnna,0\n").features] == ["Nan", "Anna"]
    _, second = reader("a,y\nAnna,1\nNan,0\n", chunk_rows=1)
    assert list(second.features) == [{"a": "Nan"}]


@pytest.mark.parametrize("text", ["inf", "-Infinity", "1e400", "-1E999", "INF"])
def test_non_finite_numbers_are_refused_by_name(text: str) -> None:
    error = bad(f"a,b,y\n1,1,1\n2,{text},0\n")
    assert str(error) == (
        f"bad.csv, line 3, column b: expected a finite number, or an empty cell if missing, got {text!r}"
    )


@pytest.mark.parametrize(
    ("text", "line", "column", "end"),
    [
        ("a,y\n1,0\n1,0,3\n", 3, "", "expected 2 cells, as in the header, got 3"),
        ("a,b,y\n1;2;3\n", 2, "", "expected 3 cells between delimiters ',', as in the header, got 1"),
        ("a,y\n1,0\n1,2\n", 3, "y", "or positive=VALUE that names the class, got '2'"),
        ("a,y\n1,0\n1,\n", 3, "y", "expected a label: negative (0, -1, false) or positive (1, true), got ''"),
        ("a,y\n1,0\n1,yes\n", 3, "y", "or positive=VALUE that names the class, got 'yes'"),
        ("a,y\n1,nan\n1,0\n", 2, "y", "or positive=VALUE that names the class, got 'nan'"),
        (
            'a,y\n1,0\n"1"x,0\n',
            3,
            "",
            "expected cells as CSV quotes them: a quote within quotes is doubled (',' expected after '\"')",
        ),
        (
            'a,y\n1,0\n"1,0\n',
            3,
            "",
            "expected cells as CSV quotes them: a quote within quotes is doubled (unexpected end of data)",
        ),
        ("", 1, "", "expected a header line with the names of the columns, got ''"),
        ("a,,y\n", 1, "2", "expected a name for every column in the header, got ''"),
        ("a,y, a\n", 1, "3", "expected names that differ in the header, got 'a'"),
    ],
)
def test_a_bad_row_names_file_line_column_and_value(text: str, line: int, column: str, end: str) -> None:
    error = bad(text)
    assert (error.file, error.line, error.column) == ("bad.csv", line, column)
    assert str(error).endswith(end)


def test_text_that_is_not_utf8_names_its_line() -> None:
    error = bad(b"a,y\n1,0\ncaf\xe9,1\n")
    assert str(error) == "bad.csv, line 3: expected text in UTF-8, got b'\\xe9'"


def test_an_unknown_label_column_lists_the_columns_and_near_misses() -> None:
    with pytest.raises(InvalidParams, match=r"did you mean 'Class'\?\): 'age', 'Class', got 'class'"):
        reader("age,Class\n1,0\n", "class")
    with pytest.raises(InvalidParams, match=r"label: expected a column of bad.csv: 'age', 'Class', got None"):
        reader("age,Class\n1,0\n", None)
    with pytest.raises(InvalidParams, match=r"'c19', … \(101 in all\)"):
        reader(",".join(f"c{j}" for j in range(101)) + "\n", "target")


def test_words_as_labels_need_positive_and_are_listed() -> None:
    with pytest.raises(InvalidParams, match="positive: expected one of the words in label column 'y': 'no', 'yes'"):
        list(reader("a,y\n1,no\n2,yes\n3,no\n"))
    with pytest.raises(InvalidParams, match=r"'w09', … \(12 in all\)"):
        list(reader("a,y\n" + "".join(f"1,w{i:02}\n" for i in range(12))))


def test_positive_is_compared_with_the_text_of_the_cell() -> None:
    assert rows("a,y\n1,no\n2,yes\n3,maybe\n", positive="yes").y.tolist() == [-1, 1, -1]
    assert rows("a,y\n1,1\n2,2\n", positive="2").y.tolist() == [-1, 1]
    assert rows("a,y\n1,0\n2,1\n", positive="0").y.tolist() == [1, -1]


@pytest.mark.parametrize(("positive", "near"), [("Yes", "yes"), (" yes", "yes"), ("1.0", "1")])
def test_a_near_miss_of_positive_is_named(positive: str, near: str) -> None:
    other = "no" if near == "yes" else "0"
    with pytest.raises(InvalidParams, match=rf"did you mean '{near}'\?"):
        list(reader(f"a,y\n1,{near}\n2,{other}\n", positive=positive))


def test_numbers_and_bools_as_labels() -> None:
    chunk = rows("y,a\n0,1\n1,1\n-1,1\n0.0,1\n1.0,1\n+1,1\ntrue,1\nFalse,1\n")
    assert chunk.y.tolist() == [-1, 1, -1, -1, 1, 1, 1, -1]


def test_rows_that_are_only_scored_need_no_label() -> None:
    for text, label in (("a\n1\n", None), ("a\n1\n", "y"), ("a,y\n1,what\n", "y")):
        chunk = rows(text, label, labelled=False)
        assert list(chunk.features) == [{"a": 1.0}]
        assert chunk.y.size == 0
        assert len(chunk) == 1


def test_a_file_with_nothing_but_labels() -> None:
    assert list(rows("y\n1\n0\n").features) == [{}, {}]


def test_a_header_alone_has_no_rows() -> None:
    assert list(reader("a,y\n")) == []


@pytest.mark.parametrize("chunk_rows", [1, 3, 100])
def test_chunks_have_the_stated_size(chunk_rows: int) -> None:
    chunks = list(reader("a,y\n" + "".join(f"{i},0\n" for i in range(100)), chunk_rows=chunk_rows))
    assert [len(c) for c in chunks[:-1]] == [chunk_rows] * (len(chunks) - 1)
    assert [r["a"] for c in chunks for r in c.features] == list(range(100))


def test_elec2_is_read_as_the_csv_module_reads_it() -> None:
    path = data_path("elec2.csv.gz")
    with gzip.open(path, "rt") as text:
        expected = list(csv.DictReader(text))
    source = read(path, label="class", positive="UP")
    assert source.delimiter == ","
    got = [row for chunk in source for row in chunk.features]
    assert len(got) == 45_312
    for want, row in zip(expected[::97], got[::97], strict=True):
        del want["class"]
        assert row == {name: float(cell) for name, cell in want.items()}
    y = np.concatenate([chunk.y for chunk in read(path, label="class", positive="UP")])
    assert int((y == 1).sum()) == 19_237


def test_bank_full_has_semicolons_quotes_and_words() -> None:
    path = data_path("bank_full.csv.gz")
    with pytest.raises(InvalidParams, match="in label column 'y': 'no', 'yes'"):
        list(read(path, label="y"))
    source = read(path, label="y", positive="yes")
    assert source.delimiter == ";"
    chunks = list(source)
    assert sum(map(len, chunks)) == 45_211
    assert sum(int((chunk.y == 1).sum()) for chunk in chunks) == 5_289
    first = chunks[0].features[0]
    assert first["age"] == 58.0
    assert first["job"] == "management"
    assert first["balance"] == 2143.0


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.floats(allow_nan=False, allow_infinity=False),
            st.text("abc,;\"'\n \té", max_size=8),
            st.booleans(),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_what_the_csv_module_writes_is_read_back(table: list[tuple[float, str, bool]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["number", "word", "flag", "y"])
    writer.writerows((repr(number), word, flag, int(flag)) for number, word, flag in table)
    chunk = rows(text.getvalue(), delimiter=",")
    for (number, word, flag), row in zip(table, chunk.features, strict=True):
        want = {"number": number, "word": word.strip(), "flag": flag}
        assert row == {name: value for name, value in want.items() if value != ""}
    assert chunk.y.tolist() == [1.0 if flag else -1.0 for _, _, flag in table]


CELLS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(-1e5, 1e5).map(lambda value: f"{value:.3f}"),
    st.integers(-(10**20), 10**20).map(str),
    st.sampled_from(["1", "0.5", "-7", "12.25", " 3 ", "1.", ".5", "+2", "007", "1e3", "1e999", "-0", "1_0", "١"]),
    st.sampled_from(["", "true", "nan", "w", '"1"', '"a,\nb"', "1 2", "1\r", "\t1", "-", ".", "1e", "--1", "1-"]),
)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_lines_of_numbers_are_read_as_all_others(data: st.DataObject) -> None:
    """Compiled or not: the same rows to the last bit, or the same complaint."""
    end = data.draw(st.sampled_from(["\n", "\r\n"]))
    width, at = data.draw(st.sampled_from([(1, 1), (2, 0), (3, 1)]))
    lines = []
    for _ in range(data.draw(st.integers(0, 12))):
        cell = CELLS if data.draw(st.integers(0, 3)) == 0 else st.floats(-9, 9).map(repr)
        cells = data.draw(st.lists(cell, min_size=width, max_size=width + (data.draw(st.integers(0, 40)) == 0)))
        cells.insert(at, data.draw(st.sampled_from(["0", "1", " 1", "1.0", "true", "-1"]) | CELLS))
        lines.append(",".join(cells) if data.draw(st.integers(0, 20)) else "")
    header = [f"x{j}" for j in range(width)]
    header.insert(at, "y")
    text = end.join([",".join(header), *lines]) + data.draw(st.sampled_from(["", end]))
    chunk_rows = data.draw(st.sampled_from([3, 100]))
    options = data.draw(st.sampled_from([{}, {"positive": "1"}, {"labelled": False}]))
    assert outcome(text, True, chunk_rows, options) == outcome(text, False, chunk_rows, options)


@pytest.fixture(autouse=True)
def short_head(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let compiled code read lines of short files, too."""
    if request.node.originalname == "test_lines_of_numbers_are_read_as_all_others":
        monkeypatch.setattr("aucstream.io.csv.HEAD_ROWS", 2)


def outcome(text: str, plain: bool, chunk_rows: int, options: dict[str, object]) -> list[object]:
    got: list[object] = []
    try:
        source = reader(text, delimiter=",", chunk_rows=chunk_rows, **options)
        source._plain = source._plain and plain
        for chunk in source:
            features = [list(x.items()) for x in chunk.features]
            got.append((repr(features), chunk.y.tolist(), chunk.weights.tolist(), chunk.lines.tolist()))
    except (BadRow, InvalidParams) as error:
        got.append(str(error))
    return got
