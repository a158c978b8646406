"""A folder, a pattern or a list of files is one stream, in order."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aucstream.errors import BadRow, InvalidParams
from aucstream.io import read
from aucstream.io.files import files_of


def parts(folder: Path) -> list[Path]:
    """Write a folder as Spark does."""
    folder.mkdir()
    (folder / "_SUCCESS").write_text("")
    (folder / ".part-0.csv.crc").write_bytes(b"\0\1")
    (folder / "part-2.csv").write_text("b,a,y\n7,6,1\n")
    (folder / "part-0.csv").write_text("a,b,y\n1,2,0\n3,4,1\n")
    (folder / "part-1.csv.gz").write_bytes(gzip.compress(b"a,b,y\n5,x,0\n"))
    (folder / "part-3.csv").write_text("")
    (folder / "later").mkdir()
    (folder / "later" / "part.csv").write_text("a,b,y\n8,9,1\n")
    return [folder / "later" / "part.csv", folder / "part-0.csv", folder / "part-1.csv.gz", folder / "part-2.csv"]


def rows_of(path) -> list[dict[str, object]]:
    return [dict(x) for chunk in read(path, label="y") for x in chunk.features]


def test_a_folder_is_its_files_by_name(tmp_path: Path) -> None:
    expected = parts(tmp_path / "rows")
    assert files_of(tmp_path / "rows") == [str(file) for file in expected]
    rows = rows_of(tmp_path / "rows")
    assert rows == [
        {"a": 8.0, "b": 9.0},
        {"a": 1.0, "b": 2.0},
        {"a": 3.0, "b": 4.0},
        {"a": 5.0, "b": "x"},
        {"a": 6.0, "b": 7.0},
    ]


def test_a_pattern_and_a_list_are_files_in_order(tmp_path: Path) -> None:
    later, first, packed, last = parts(tmp_path / "rows")
    assert files_of(f"{tmp_path}/rows/part-[02].csv") == [str(first), str(last)]
    assert files_of(f"{tmp_path}/**/part.csv") == [str(later)]
    assert files_of([last, first]) == [str(last), str(first)]
    assert [x["a"] for x in rows_of([last, f"{tmp_path}/rows/part-0*", packed])] == [6.0, 1.0, 3.0, 5.0]
    odd = tmp_path / "a[1].csv"
    odd.write_text("a,y\n1,0\n")
    assert files_of(odd) == [str(odd)]


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidParams, match="a folder with files"):
        read(tmp_path / "empty")
    with pytest.raises(InvalidParams, match="a pattern that a file has"):
        read(f"{tmp_path}/*.csv")
    with pytest.raises(InvalidParams, match="at least one file"):
        read([])
    with pytest.raises(InvalidParams, match="a file that can be read"):
        list(read([tmp_path / "none.csv", tmp_path / "other.csv"], label="y"))


def test_the_first_file_decides_columns_and_progress_is_of_all(tmp_path: Path) -> None:
    first, second = tmp_path / "1.csv", tmp_path / "2.csv"
    first.write_text("id,y\n" + "".join(f"a{i},{i % 2}\n" for i in range(1500)))
    second.write_text("id,y\n7,0\n8,1\n")
    with read([first, second], label="y") as reader:
        chunks = list(reader)
        assert reader.bytes_read == reader.bytes_total == first.stat().st_size + second.stat().st_size
        assert reader.decisions["id"].kind in ("category", "id")
        assert reader.name == f"{first} and 1 more"
    assert chunks[-1].features[0] == {"id": "7"}
    assert [remark for remark in reader.remarks if remark[0] == "id"]


def test_a_bad_row_names_its_own_file(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("a,y\n1,0\n")
    (tmp_path / "2.csv").write_text("a,y\n1,0\n1,2,3\n")
    with pytest.raises(BadRow, match=r"2\.csv, line 3"):
        list(read(f"{tmp_path}/*.csv", label="y"))


def test_parquet_and_svmlight_folders(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    for k in range(3):
        pq.write_table(pa.table({"a": [float(k)], "y": [k % 2]}), tmp_path / "p" / f"part-{k}.parquet")
    assert [x["a"] for x in rows_of(tmp_path / "p")] == [0.0, 1.0, 2.0]
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "a9a").write_text("1 1:1\n-1 2:1\n")
    (tmp_path / "s" / "a9a.t").write_text("1 3:1\n")
    blocks = list(read(tmp_path / "s"))
    assert np.concatenate([block.y for block in blocks]).tolist() == [1, -1, 1]
