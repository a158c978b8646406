"""Parquet and Arrow, where pyarrow is installed; a clear error where it is not."""

from __future__ import annotations

import decimal
import gzip
import importlib
import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aucstream.errors import BadRow, InvalidParams
from aucstream.features.number_rows import NumberRows
from aucstream.io import Rows, read
from aucstream.io.arrow import read_arrow
from tests.data import data_path

KINDS = ["parquet", "arrow", "stream"]


@pytest.fixture(name="pa")
def pyarrow() -> Any:
    pa = pytest.importorskip("pyarrow", reason="the extra aucstream[arrow] is not installed")
    for module in ("csv", "ipc", "parquet"):
        importlib.import_module(f"pyarrow.{module}")
    return pa


def write(pa: Any, table: Any, path: Path, kind: str) -> None:
    if kind == "parquet":
        pa.parquet.write_table(table, path, row_group_size=7)
        return
    new = pa.ipc.new_file if kind == "arrow" else pa.ipc.new_stream
    with new(str(path), table.schema) as sink:
        sink.write_table(table, max_chunksize=7)


def rows_of(path: Path, **options: Any) -> list[Rows]:
    return list(read(path, label="y", **options))


@pytest.mark.parametrize("kind", KINDS)
def test_every_type_of_column(tmp_path: Path, pa: Any, kind: str) -> None:
    table = pa.table(
        {
            "i": pa.array([1, None], pa.int64()),
            "f": pa.array([0.5, math.nan], pa.float32()),
            "m": pa.array([decimal.Decimal("1.25"), None]),
            "b": [True, None],
            "s": ["w", None],
            "c": pa.array(["u", "v"]).dictionary_encode(),
            "l": [["x", "y"], []],
            "n": pa.nulls(2),
            "y": [1, 0],
        }
    )
    path = tmp_path / ("a.parquet" if kind == "parquet" else "a.arrow")
    write(pa, table, path, kind)
    (rows,) = rows_of(path)
    assert rows.features == [
        {"i": 1.0, "f": 0.5, "m": 1.25, "b": True, "s": "w", "c": "u", "l": ["x", "y"]},
        {"c": "v", "l": []},
    ]
    assert type(rows.features[0]["i"]) is float
    assert rows.y.tolist() == [1, -1]
    assert rows.lines.tolist() == [1, 2]


def test_columns_of_numbers_are_kept_as_a_matrix_with_the_floats_of_their_values(tmp_path: Path, pa: Any) -> None:
    columns = {
        "i": pa.array([2**53 + 1, -(2**63), 2**62 + 2**9 + 1], pa.int64()),
        "u": pa.array([2**64 - 1, 2**53 + 3, 0], pa.uint64()),
        "f": pa.array([0.1, -0.0, 1e-45], pa.float32()),
        "h": pa.array([np.float16(0.1), np.float16(-0.0), np.float16(6e-8)], pa.float16()),
        "d": pa.array([0.1, 5e-324, -1.7e308], pa.float64()),
    }
    write(pa, pa.table({**columns, "y": [True, False, True]}), tmp_path / "a.arrow", "arrow")
    (rows,) = rows_of(tmp_path / "a.arrow")
    assert isinstance(rows.features, NumberRows)
    expected = [{name: float(column[i].as_py()) for name, column in columns.items()} for i in range(3)]
    assert repr(list(rows.features)) == repr(expected)
    assert rows.y.tolist() == [1, -1, 1]


@pytest.mark.parametrize("kind", KINDS)
def test_chunks_follow_one_another(tmp_path: Path, pa: Any, kind: str) -> None:
    path = tmp_path / ("a.parquet" if kind == "parquet" else "a.feather")
    write(pa, pa.table({"a": list(range(20)), "y": [i % 2 for i in range(20)]}), path, kind)
    chunks = rows_of(path, chunk_rows=4)
    assert max(map(len, chunks)) <= 4
    assert [r["a"] for c in chunks for r in c.features] == list(range(20))
    assert [line for c in chunks for line in c.lines] == list(range(1, 21))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("labels", "positive", "expected"),
    [
        ([True, False], None, [1, -1]),
        ([1.0, -1.0], None, [1, -1]),
        (["no", "yes"], "yes", [-1, 1]),
        ([1, 2], "2", [-1, 1]),
    ],
)
def test_labels(
    tmp_path: Path, pa: Any, kind: str, labels: list[object], positive: str | None, expected: list[float]
) -> None:
    path = tmp_path / ("a.parquet" if kind == "parquet" else "a.ipc")
    write(pa, pa.table({"a": [1, 2], "y": labels}), path, kind)
    (rows,) = rows_of(path, positive=positive)
    assert rows.y.tolist() == expected


def test_a_bad_row_names_file_row_column_and_value(tmp_path: Path, pa: Any) -> None:
    path = tmp_path / "bad.parquet"
    for column, values, got in (("a", [1.0, math.inf], "inf"), ("l", [["x"], ["y", None]], "['y', None]")):
        write(pa, pa.table({column: values, "y": [0, 1]}), path, "parquet")
        with pytest.raises(BadRow) as caught:
            rows_of(path)
        assert (caught.value.file, caught.value.line, caught.value.column) == (str(path), 2, column)
        assert str(caught.value).endswith(f"got {got}")
    for labels, got in (([0, 3], "'3'"), ([0, None], "''")):
        write(pa, pa.table({"a": [1, 2], "y": pa.array(labels)}), path, "parquet")
        with pytest.raises(BadRow, match=rf"bad\.parquet, line 2, column y: expected a label.*got {got}"):
            rows_of(path)


def test_columns_that_cannot_be_used_are_refused_at_once(tmp_path: Path, pa: Any) -> None:
    path = tmp_path / "a.parquet"
    write(pa, pa.table({"t": pa.array([{"a": 0}], pa.struct([("a", pa.int64())])), "y": [1]}), path, "parquet")
    with pytest.raises(InvalidParams, match=r"column t: expected a column of numbers.*got 'struct<a: int64>'"):
        read(path, label="y")
    with pytest.raises(InvalidParams, match=r"label: expected a column of .*'t', 'y', got 'z'"):
        read(path, label="z")


def test_words_as_labels_are_listed(tmp_path: Path, pa: Any) -> None:
    path = tmp_path / "a.parquet"
    write(pa, pa.table({"a": [1, 2], "y": ["no", "yes"]}), path, "parquet")
    with pytest.raises(InvalidParams, match="'no', 'yes'"):
        rows_of(path)


def test_a_stream_may_be_compressed_and_piped_a_file_may_not(tmp_path: Path, pa: Any) -> None:
    table = pa.table({"a": [1, 2], "y": [0, 1]})
    for kind, name in (("stream", "s.arrow"), ("arrow", "f.arrow"), ("parquet", "p.parquet")):
        write(pa, table, tmp_path / name, kind)
        packed = tmp_path / f"{name}.gz"
        packed.write_bytes(gzip.compress((tmp_path / name).read_bytes()))
        if kind == "stream":
            assert rows_of(packed)[0].y.tolist() == [-1, 1]
            packed.write_bytes(packed.read_bytes()[:-20])
            with pytest.raises(BadRow, match=r"s\.arrow\.gz.*whole gzip data"):
                rows_of(packed)
        else:
            with pytest.raises(InvalidParams, match=r"expected a plain file: .* is read from its end"):
                read(packed, label="y")
    data = io.BytesIO((tmp_path / "s.arrow").read_bytes())
    assert len(list(read_arrow(data, kind="arrow", label="y"))) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_cut_file_is_refused_by_name(tmp_path: Path, pa: Any, kind: str) -> None:
    path = tmp_path / ("cut.parquet" if kind == "parquet" else "cut.arrow")
    write(pa, pa.table({"a": list(range(100)), "y": [0] * 100}), path, kind)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises((InvalidParams, BadRow), match="cut"):
        rows_of(path)


def test_an_empty_table_has_no_rows(tmp_path: Path, pa: Any) -> None:
    for kind, name in (("stream", "s.arrow"), ("arrow", "f.arrow"), ("parquet", "p.parquet")):
        write(
            pa,
            pa.table({"a": pa.array([], pa.int64()), "y": pa.array([], pa.int64())}),
            tmp_path / name,
            kind,
        )
        assert rows_of(tmp_path / name) == []


def test_elec2_equals_its_csv(tmp_path: Path, pa: Any) -> None:
    path = data_path("elec2.csv.gz")
    write(pa, pa.csv.read_csv(path).slice(0, 3000), tmp_path / "elec2.parquet", "parquet")
    options = {"label": "class", "positive": "UP"}
    got = [r for c in read(tmp_path / "elec2.parquet", **options) for r in c.features]
    with read(path, chunk_rows=3000, **options) as reader:
        expected = next(reader)
    assert got == list(expected.features)
    y = np.concatenate([c.y for c in read(tmp_path / "elec2.parquet", **options)])
    assert np.array_equal(y, expected.y)


def test_without_pyarrow_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str, *rest: object) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1")
    with pytest.raises(InvalidParams, match=r'pip install "aucstream\[arrow\]"'):
        read(path, label="y")
