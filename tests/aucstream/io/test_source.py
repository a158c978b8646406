"""Opening, decompressing, naming and sniffing."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import zstandard

from aucstream.errors import BadRow, InvalidParams
from aucstream.io import kind_of, open_source, read
from aucstream.io.source import Source, as_source, sniff, whole_lines

TEXT = b"".join(b"%d 1:%d 7:0.5\n" % (i % 2, i) for i in range(60_000))
PACK: dict[str, Any] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}


@pytest.mark.parametrize("suffix", PACK)
def test_compressed_files_are_told_by_name(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.svm{suffix}"
    path.write_bytes(PACK[suffix](TEXT))
    with open_source(path) as source:
        assert b"".join(whole_lines(source)) == TEXT
        assert source.bytes_read == source.bytes_total == path.stat().st_size


@pytest.mark.parametrize("suffix", ["", *PACK])
def test_standard_input_is_told_by_its_first_bytes(monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    data = PACK[suffix](TEXT) if suffix else TEXT
    stdin = io.BytesIO(data)
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=stdin))
    reader = read("-")
    assert reader.format == "svmlight"
    assert reader.bytes_total is None
    assert sum(len(block) for block in reader) == 60_000
    assert reader.bytes_read == len(data)
    assert not stdin.closed


def test_a_real_pipe_is_read() -> None:
    program = "from aucstream.io import read; print(sum(map(len, read('-'))))"
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=gzip.compress(b"a,y\n1,0\n2,1\n"),
        capture_output=True,
        cwd=root,
    )
    assert b"expected a column of standard input" in done.stderr
    program = "from aucstream.io import read; print(sum(map(len, read('-', label='y'))))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=gzip.compress(b"a,y\n1,0\n2,1\n"),
        capture_output=True,
        cwd=root,
        check=True,
    )
    assert done.stdout == b"2\n"


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("keep", [0.5, 0.999])
def test_a_cut_compressed_file_names_file_and_line(tmp_path: Path, suffix: str, keep: float) -> None:
    packed = PACK[suffix](TEXT)
    path = tmp_path / f"cut.svm{suffix}"
    path.write_bytes(packed[: int(len(packed) * keep)])
    with pytest.raises(BadRow, match=r"cut\.svm.* line \d+: expected whole .* it is cut or damaged") as caught:
        list(read(path, chunk_rows=1000))
    assert caught.value.file == str(path)
    assert 1 <= caught.value.line <= 60_001


@pytest.mark.parametrize("suffix", PACK)
def test_a_damaged_compressed_file_names_itself(tmp_path: Path, suffix: str) -> None:
    packed = bytearray(PACK[suffix](TEXT))
    packed[len(packed) // 2] ^= 0x55
    path = tmp_path / f"bad.svm{suffix}"
    path.write_bytes(packed)
    with pytest.raises(BadRow, match=r"bad\.svm"):
        list(read(path))


@pytest.mark.parametrize("suffix", PACK)
def test_plain_text_under_a_compressed_name_is_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"plain.svm{suffix}"
    path.write_bytes(b"1 1:1\n")
    with pytest.raises(BadRow, match="plain"):
        list(read(path))


@pytest.mark.parametrize("suffix", PACK)
def test_compressed_files_laid_end_to_end_are_one(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"two.svm{suffix}"
    path.write_bytes(PACK[suffix](b"1 1:1\n-1 ") + PACK[suffix](b"2:2\n"))
    (block,) = read(path)
    assert block.values.tolist() == [1, 2]


def test_zero_bytes_may_pad_gzip(tmp_path: Path) -> None:
    path = tmp_path / "padded.svm.gz"
    path.write_bytes(gzip.compress(b"1 1:1\n") + bytes(100_000))
    assert [len(block) for block in read(path)] == [1]
    path.write_bytes(bytes(100))
    with pytest.raises(BadRow, match="whole gzip data"):
        list(read(path))


@pytest.mark.parametrize("suffix", ["", *PACK])
def test_an_empty_file_has_no_rows(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"empty.svm{suffix}"
    path.write_bytes(PACK[suffix](b"") if suffix else b"")
    assert list(read(path)) == []


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.svm", "svmlight"),
        ("a.LIBSVM.gz", "svmlight"),
        ("a.svmlight", "svmlight"),
        ("d.x/a.txt.zst", "svmlight"),
        ("a.csv.bz2", "csv"),
        ("a.tsv", "csv"),
        ("a.ndjson", "ndjson"),
        ("a.jsonl.gz", "ndjson"),
        ("a.parquet", "parquet"),
        ("a.arrow", "arrow"),
        ("a.feather", "arrow"),
        ("a.ipc", "arrow"),
    ],
)
def test_the_extension_names_the_format(name: str, kind: str) -> None:
    assert kind_of(name) == kind
    assert kind_of(Path(name)) == kind
    assert kind_of(name, "ndjson") == "ndjson"


@pytest.mark.parametrize("name", ["a.xlsx", "a", "a.gz", "-"])
def test_an_unknown_extension_lists_what_is_known(name: str) -> None:
    with pytest.raises(InvalidParams, match=r"svmlight \.svm .*ndjson \.ndjson \.jsonl.*\.gz \.bz2 \.xz \.zst"):
        kind_of(name)


def test_an_unknown_format_lists_what_is_known() -> None:
    with pytest.raises(InvalidParams, match="format: expected one of svmlight, csv, ndjson, parquet, arrow, got 'xml'"):
        kind_of("a.svm", "xml")


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"+1 3:1 5:0.25 # note\n", "svmlight"),
        (b"# made by hand\n1 1:1\n", "svmlight"),
        (b"-1 qid:3 1:1\n", "svmlight"),
        (b"-1\n", "svmlight"),
        (b"\xef\xbb\xbfage,class\n", "csv"),
        (b'"age";"y"\n', "csv"),
        (b"a\tb\n", "csv"),
        (b'{"features": {}, "label": 1}\n', "ndjson"),
        (b' {"features": {}', "ndjson"),
        (b"PAR1....", "parquet"),
        (b"ARROW1\0\0", "arrow"),
        (b"\xff\xff\xff\xff\x10", "arrow"),
    ],
)
def test_the_first_bytes_show_the_format_and_stay(head: bytes, kind: str) -> None:
    source = as_source(io.BytesIO(head))
    assert sniff(source) == kind
    assert source.read() == head


@pytest.mark.parametrize("head", [b"", b"hello\n", b"\x00\x01"])
def test_bytes_that_show_no_format_are_refused(head: bytes) -> None:
    with pytest.raises(InvalidParams, match="expected a format"):
        sniff(as_source(io.BytesIO(head)))


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidParams, match=r"data: expected a file that can be read \(No such file"):
        read(tmp_path / "gone.svm")
    (tmp_path / "folder.svm").mkdir()
    with pytest.raises(InvalidParams, match="a folder with files of data"):
        read(tmp_path / "folder.svm")


class Dribble(io.RawIOBase):
    """Hands out one byte at a time, as a slow pipe may."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def read(self, _: int = -1) -> bytes:
        return self._data.read(1)


@pytest.mark.parametrize("suffix", ["", *PACK])
def test_a_slow_pipe_gives_the_same(suffix: str) -> None:
    text = b"1 1:1\r\n\n-1 2:2"
    source = Source(Dribble(PACK[suffix](text) if suffix else text), "pipe")
    assert sniff(source) == "svmlight"
    assert b"".join(whole_lines(source)) == text + b"\n"


def test_a_line_without_an_end_is_not_gathered_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aucstream.io.source.MAX_LINE_BYTES", 1 << 20)
    with pytest.raises(BadRow, match="line 2: expected a line of at most 1,048,576 bytes"):
        for _ in whole_lines(as_source(io.BytesIO(b"1 1:1\n" + b"9" * (3 << 20)))):
            pass


def test_readers_do_not_read_ahead(tmp_path: Path) -> None:
    path = tmp_path / "long.svm"
    path.write_bytes(TEXT * 20)
    with read(path) as reader:
        next(reader)
        assert reader.bytes_read < reader.bytes_total / 4


def test_importing_the_package_loads_nothing_heavy() -> None:
    program = (
        "import sys, aucstream.io; "
        "print([m for m in ('numba', 'pandas', 'scipy', 'pyarrow', 'sklearn') if m in sys.modules])"
    )
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, cwd=root, check=True)
    assert done.stdout == b"[]\n"


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("a.svm", "label"),
        ("a.svm", "delimiter"),
        ("a.csv", "zero_based"),
        ("a.ndjson", "delimiter"),
    ],
)
def test_an_option_that_a_format_does_not_have_is_refused(tmp_path: Path, name: str, option: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"")
    with pytest.raises(InvalidParams, match=f"{option}: expected no {option} for"):
        read(path, **{option: "x"})


def test_a_chunk_has_at_least_one_row() -> None:
    with pytest.raises(InvalidParams, match="chunk_rows"):
        read("a.svm", chunk_rows=0)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_wide_text_is_read(tmp_path: Path, encoding: str, suffix: str) -> None:
    text = "naïve;y\n1;0\n2;1\n" + "".join(f"{i};{i % 2}\n" for i in range(50_000))
    path = tmp_path / f"a.csv{suffix}"
    path.write_bytes(gzip.compress(text.encode(encoding)) if suffix else text.encode(encoding))
    reader = read(path, label="y")
    assert reader.columns == ("naïve", "y")
    assert sum(len(chunk) for chunk in reader) == 50_002


def test_wide_text_that_is_cut_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.svm"
    path.write_bytes(TEXT.decode().encode("utf-16")[:-1])
    with pytest.raises(BadRow, match="whole utf-16-le text; it is cut or damaged"):
        list(read(path))


@pytest.mark.parametrize("end", ["\r", "\r\n"])
def test_lines_may_end_in_returns(tmp_path: Path, end: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(end.join(["a,y", "1,0", '"2",1', ""]).encode())
    (chunk,) = read(path, label="y")
    assert list(chunk.features) == [{"a": 1.0}, {"a": 2.0}]
    assert chunk.lines.tolist() == [2, 3]
    path.write_bytes(end.join(["a,y", "1,0", "2,x", ""]).encode())
    with pytest.raises(BadRow, match="line 3"):
        list(read(path, label="y"))


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("a9a", b"+1 3:1\n-1 4:1\n", "svmlight"),
        ("a9a.t", b"+1 3:1\n", "svmlight"),
        ("a9a.t.xz", lzma.compress(b"+1 3:1\n"), "svmlight"),
        ("rows.txt", b"a,y\n1,0\n", "csv"),
        ("rows.txt", b"a|y\n1|0\n", "csv"),
        ("rows.txt", b"1 1:2\n", "svmlight"),
        ("part-00000", b'{"features": {"a": 1}, "label": 0}\n', "ndjson"),
    ],
)
def test_a_name_that_says_nothing_leaves_it_to_the_first_bytes(
    tmp_path: Path, name: str, data: bytes, kind: str
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with read(path, label="y" if kind == "csv" else None, delimiter="|" if b"|" in data else None) as reader:
        assert reader.format == kind
        assert sum(map(len, reader)) >= 1


def test_what_neither_name_nor_bytes_tell_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "book.xlsx"
    path.write_bytes(b"PK\x03\x04rest")
    with pytest.raises(InvalidParams, match=r"a format .*svmlight \.svm"):
        read(path)
