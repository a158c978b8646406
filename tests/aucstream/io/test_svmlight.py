"""svmlight: equal to scikit-learn on real files, to `float` on every number; bad rows by name."""

from __future__ import annotations

import io
import itertools
import math
import struct

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from aucstream.block import Block, Form
from aucstream.errors import BadRow, InvalidParams
from aucstream.io import read
from aucstream.io import svmlight as module
from aucstream.io.svmlight import read_svmlight
from aucstream.kernels.text import parse
from tests.data import data_path


def blocks(text: str | bytes, **options: object) -> list[Block]:
    data = text.encode() if isinstance(text, str) else text
    return list(read_svmlight(io.BytesIO(data), **options))


def bad(text: str, **options: object) -> BadRow:
    stream = io.BytesIO(text.encode())
    stream.name = "bad.svm"
    with pytest.raises(BadRow) as caught:
        list(read_svmlight(stream, **options))
    return caught.value


@pytest.mark.parametrize("name", ["a9a", "w7a", "german.numer", "farm_ads", "diabetes_scale", "elec2", "phishing"])
def test_real_files_equal_scikit_learn(name: str) -> None:
    path = data_path(f"{name}.svm.gz")
    x, y = load_svmlight_file(str(path))
    got = list(read(path, chunk_rows=1000))
    assert np.array_equal(np.concatenate([b.y for b in got]), y)
    assert np.array_equal(np.concatenate([b.indices for b in got]), x.indices)
    assert np.array_equal(np.concatenate([b.values for b in got]), x.data)
    assert np.array_equal(np.concatenate([np.diff(b.indptr) for b in got]), np.diff(x.indptr))
    assert got[-1].width == x.shape[1]
    assert [len(b) for b in got[:-1]] == [1000] * (len(got) - 1)
    assert all(a.width <= b.width for a, b in itertools.pairwise(got))


def test_a_block_has_the_stated_arrays() -> None:
    (block,) = blocks("+1 1:0.5 3:-2 # a comment 9:9\n\n# only a comment\n0 qid:7 2:1e3\r\n  -1\t\n1.0 5:0#end")
    assert block.form is Form.CSR
    assert block.width == 5
    assert block.indptr.tolist() == [0, 2, 3, 3, 4]
    assert block.indices is not None
    assert block.indices.tolist() == [0, 2, 1, 4]
    assert block.values.tolist() == [0.5, -2.0, 1000.0, 0.0]
    assert block.y.tolist() == [1, -1, -1, 1]
    assert block.weights.tolist() == [1, 1, 1, 1]
    assert (block.indptr.dtype, block.indices.dtype, block.values.dtype) == (np.int64, np.int64, np.float64)


def test_zero_based_files() -> None:
    (block,) = blocks("1 0:1 4:2\n", zero_based=True)
    assert block.indices is not None
    assert block.indices.tolist() == [0, 4]
    assert block.width == 5


def test_unlabelled_rows_may_leave_the_label_out() -> None:
    (block,) = blocks("1:1 2:2\n7 1:3\n? 2:4\nqid:3 1:1\n", labelled=False)
    assert block.values.tolist() == [1, 2, 3, 4, 1]
    assert block.y.size == block.weights.size == 0
    assert len(block) == 4


def test_width_never_falls() -> None:
    assert [b.width for b in blocks("1 9:1\n1 2:1\n1\n1 12:1\n", chunk_rows=1)] == [9, 9, 9, 12]


@pytest.mark.parametrize("chunk_rows", [1, 2, 7, 8192])
def test_any_chunk_size_gives_the_same_rows(chunk_rows: int) -> None:
    text = "".join(f"{i % 2} 1:{i} {i + 2}:0.1\n" for i in range(100))
    (whole,) = blocks(text)
    parts = blocks(text, chunk_rows=chunk_rows)
    assert np.array_equal(np.concatenate([p.values for p in parts]), whole.values)
    assert np.array_equal(np.concatenate([p.y for p in parts]), whole.y)


def test_room_grows_with_long_rows_and_late_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_ROOM", 2)
    monkeypatch.setattr(module, "FIRST_LATE", 1)
    long = "0.1000000000000000055511151231257827"
    text = "".join(f"1.{'0' * 30} " + " ".join(f"{j}:{long}" for j in range(1, 40)) + f"\n-1 1:{i}\n" for i in range(9))
    (block,) = blocks(text)
    assert block.values.tolist() == [v for i in range(9) for v in [0.1] * 39 + [float(i)]]
    assert block.y.tolist() == [1.0, -1.0] * 9


BAD = [
    ("1 1:1\n2 1:1\n", 2, "label", "'2'"),
    ("one 1:1\n", 1, "label", "'one'"),
    ("1,2 1:1\n", 1, "label", "'1,2'"),
    ("1:1 2:2\n", 1, "label", "'1:1'"),
    ("nan 1:1\n", 1, "label", "'nan'"),
    ("1.0000000000000000000001 1:1 2:x", 1, "2", "'x'"),
    ("2.0000000000000000000001 1:1", 1, "label", "'2.0000000000000000000001'"),
    ("# c\n\n1 3:nan\n", 3, "3", "'nan'"),
    ("1 3:inf\n", 1, "3", "'inf'"),
    ("1 3:-Infinity\n", 1, "3", "'-Infinity'"),
    ("1 3:1e400\n", 1, "3", "'1e400'"),
    ("1 1:1 3:1e99999999999999999999\n", 1, "3", "'1e99999999999999999999'"),
    ("1 3:0x10\n", 1, "3", "'0x10'"),
    ("1 3:1_0\n", 1, "3", "'1_0'"),
    ("1 3:1.2.3\n", 1, "3", "'1.2.3'"),
    ("1 3:1e\n", 1, "3", "'1e'"),
    ("1 3:.\n", 1, "3", "'.'"),
    ("1 3:\n", 1, "3", "''"),
    ("1 3: 4:1\n", 1, "3", "''"),
    ("1 1:1 x:3\n", 1, "token 3", "'x:3'"),
    ("1 q:3\n", 1, "token 2", "'q:3'"),
    ("1 1:1 5\n", 1, "token 3", "'5'"),
    ("1 -1:1\n", 1, "token 2", "'-1:1'"),
    ("1 0:1\n", 1, "0", "'0:1'"),
    ("1 99999999999999999999999:1\n", 1, "99999999999999999999999", "'99999999999999999999999:1'"),
    ("1 2147483649:1\n", 1, "2147483649", "'2147483649:1'"),
    ("1 3:1 2:1\n", 1, "2", "'2:1'"),
    ("1 2:1 2:1 # c\n", 1, "2", "'2:1'"),
    ("1 2:1 qid:4 2:1\n", 1, "2", "'2:1'"),
]


@pytest.mark.parametrize(("text", "line", "column", "value"), BAD)
def test_a_bad_row_names_file_line_column_and_value(text: str, line: int, column: str, value: str) -> None:
    error = bad(text)
    assert (error.file, error.line, error.column) == ("bad.svm", line, column)
    assert str(error).startswith(f"bad.svm, line {line}, column {column}: expected ")
    assert str(error).endswith(f"got {value}")


def test_hints_tell_the_remedy() -> None:
    assert "zero_based=True" in str(bad("1 0:1\n"))
    assert "rise along the line (after 3)" in str(bad("1 3:1 2:1\n"))
    assert "< 2,147,483,649" in str(bad("1 2147483649:1\n"))
    assert "expected a label: negative (0, -1) or positive (1)" in str(bad("2 1:1\n"))


def test_the_line_is_right_far_into_a_long_file() -> None:
    good = "1 1:0.25 2:3\n" * 200_000  # 2.6 MB: several pieces
    error = bad(good + "1 1:0.25 2:oops\n" + good)
    assert (error.line, error.column, error.got) == (200_001, "2", "oops")


def parsed(token: str) -> float:
    (block,) = blocks(f"1 1:{token}\n")
    return float(block.values[0])


def same_bits(a: float, b: float) -> bool:
    return struct.pack("d", a) == struct.pack("d", b)


@settings(max_examples=500, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
@example(0.0)
@example(-0.0)
@example(5e-324)
@example(2.2250738585072014e-308)
@example(2.2250738585072011e-308)
@example(1.7976931348623157e308)
@example(9007199254740993.0)
def test_every_float_comes_back_to_the_last_bit(value: float) -> None:
    for text in (repr(value), f"{value:.16g}", f"{value:.17g}", f"{value:.6f}", f"{value:.25e}"):
        if math.isfinite(float(text)):
            assert same_bits(parsed(text), float(text)), text


@settings(max_examples=200, deadline=None)
@given(st.from_regex(r"[+-]?([0-9]{1,22}\.?[0-9]{0,22}|\.[0-9]{1,22})([eE][+-]?[0-9]{1,3})?", fullmatch=True))
@example("9007199254740993")
@example("9007199254740993e1")
@example("9007199254740993e-22")
@example("4503599627370497.5")
@example("8.5e22")
@example("1e23")
@example("123456789012345678e-5")
@example("000000000000000000000000000001.5")
@example("0.000000000000000000000000000000000000000012345")
@example("7.2057594037927933e16")
@example("2.4703282292062328e-324")
@example("0e999")
def test_every_decimal_is_rounded_as_float_does(token: str) -> None:
    if token.isascii() and math.isfinite(float(token)):
        assert same_bits(parsed(token), float(token)), token
    elif token.isascii():
        assert bad(f"1 1:{token}\n").got == token


def test_many_decimals_are_rounded_as_float_does() -> None:
    rng = np.random.default_rng(0)
    n = 20_000
    bits = rng.integers(0, 2**63, n, dtype=np.uint64).view(np.float64)
    tokens = [repr(v) for v in bits.tolist() if math.isfinite(v)]
    tokens += [repr(v) for v in rng.normal(size=n).tolist()]
    odd = (rng.integers(2**52, 2**53, n) * 2 + 1).tolist()  # 54 bits, the last one set: halfway
    tokens += [
        f"{m << s}e{e}" for m, s, e in zip(odd, rng.integers(0, 4, n).tolist(), rng.integers(-30, 30, n), strict=True)
    ]
    tokens += [f"{m}e{e}" for m, e in zip(rng.integers(1, 10**18, n).tolist(), rng.integers(-340, 290, n), strict=True)]
    tokens = [token for token in tokens if math.isfinite(float(token))]
    got = np.concatenate([b.values for b in blocks("".join(f"1 1:{token}\n" for token in tokens))])
    assert got.tobytes() == np.array([float(token) for token in tokens]).tobytes()


def test_one_compilation_serves_every_source() -> None:
    assert len(getattr(parse.parse_svmlight, "signatures", [])) <= 1


@pytest.mark.parametrize("chunk_rows", [1, 3, 100])
def test_positive_names_one_of_many_labels(chunk_rows: int) -> None:
    data = b"1 1:1\n2 1:2\n4 1:3\n2.0 1:4\n-7.25e1 1:5\n 2 # nothing\n"
    reader = read_svmlight(io.BytesIO(data), positive="2", chunk_rows=chunk_rows)
    y = np.concatenate([block.y for block in reader])
    assert y.tolist() == [-1, 1, -1, 1, -1, 1]
    assert set(reader.label_words) == {"1", "2", "4", "-72.5"}
    late = f"{2**60 + 1}.{'0' * 30}1"
    (block,) = read_svmlight(io.BytesIO(f"{late} 1:1\n3 1:1\n".encode()), positive=late)
    assert block.y.tolist() == [1, -1]


def test_a_label_beside_the_two_says_how_to_name_the_positive_one() -> None:
    with pytest.raises(BadRow, match=r"positive=VALUE that names the class, got '2'"):
        blocks(b"1 1:1\n2 1:1\n")
    with pytest.raises(InvalidParams, match="positive: expected a number"):
        read_svmlight(io.BytesIO(b""), positive="yes")
    for bad in (b"x 1:1\n", b"nan 1:1\n", b"inf 1:1\n", b"1e999 1:1\n"):
        with pytest.raises(BadRow, match="label"):
            list(read_svmlight(io.BytesIO(bad), positive="1"))
