"""The snapshot format: exact, deterministic, readable by others, written at once."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from safetensors.numpy import load as read_by_safetensors

from aucstream.errors import BadSnapshot
from aucstream.snapshot import pack, unpack, write

ARRAYS = st.dictionaries(
    st.text(min_size=1, max_size=8).filter(lambda name: name != "__metadata__"),
    st.sampled_from([np.float64, np.int64, np.uint64, np.uint8]).flatmap(
        lambda dtype: arrays_of.arrays(dtype, arrays_of.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
    ),
    max_size=5,
)


@given(ARRAYS)
def test_arrays_come_back_bit_for_bit_whatever_the_order_they_are_given_in(arrays):
    meta = {"tenth": 0.1, "list": [1, None, "é"]}
    data = pack(arrays, meta)
    got, header = unpack(data)
    assert header == meta
    assert set(got) == set(arrays)
    for name, array in arrays.items():
        assert got[name].dtype == array.dtype
        assert got[name].shape == array.shape
        assert got[name].tobytes() == np.ascontiguousarray(array).tobytes()
        assert got[name].flags.writeable
    assert pack(dict(reversed(arrays.items())), dict(reversed(meta.items()))) == data
    assert set(read_by_safetensors(data)) == set(arrays)


def test_arrays_lie_on_multiples_of_their_item_size():
    data = pack({"a": np.zeros(3, np.uint8), "b": np.zeros(2), "c": np.zeros(1, np.int64)}, {})
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    for name, width in (("a", 1), ("b", 8), ("c", 8)):
        assert (8 + size + header[name]["data_offsets"][0]) % width == 0


def test_what_json_cannot_hold_is_refused():
    with pytest.raises(ValueError, match="JSON"):
        pack({}, {"x": math.nan})


def test_a_file_is_replaced_at_once_and_nothing_is_left_behind(tmp_path):
    target = tmp_path / "model"
    write(target, b"old")
    write(target, b"new")
    assert target.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [target]
    with pytest.raises(OSError, match="missing"):
        write(tmp_path / "missing" / "model", b"x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        write(tmp_path / "folder", b"x")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "model"]


def test_a_foreign_safetensors_file_is_refused():
    from safetensors.numpy import save

    with pytest.raises(BadSnapshot, match="header written by aucstream"):
        unpack(save({"a": np.zeros(2)}))
