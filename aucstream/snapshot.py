"""Named arrays and a JSON header to bytes and back: safetensors, versioned, never pickle.

The header stands in the safetensors metadata under `aucstream`; a SHA-256 over the header and
all tensor bytes stands beside it, so that a flipped bit or a cut is found at load.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors import deserialize as _deserialize

from aucstream.errors import BadSnapshot, Description, NewerSnapshot
from aucstream.version import __version__

LONGEST_HEADER = 100_000_000  # bytes, the format's own limit
FORMAT = 1  # raised only when an older reader could not understand the file
_HEADER = "aucstream"
_CHECKSUM = "sha256"
_DTYPES = {"F64": np.float64, "I64": np.int64, "U64": np.uint64, "U8": np.uint8, "F32": np.float32, "I32": np.int32}
_CODES = {dtype: code for code, dtype in _DTYPES.items()}

Arrays = dict[str, NDArray[Any]]


def _checksum(header: str, arrays: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256(header.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name}|{array.dtype.str}|{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def pack(arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> bytes:
    """Return one self-contained snapshot.

    Parameters
    ----------
    arrays : mapping of str to ndarray
        float64, int64, uint64 or uint8; any shape.
    meta : mapping
        JSON-serialisable; floats are kept exactly, NaN and infinity are refused.
    """
    header = json.dumps({"format": FORMAT, "library": __version__, "meta": dict(meta)}, sort_keys=True, allow_nan=False)
    contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    # Written here, not by the library: it puts the metadata in another order every time, and equal models
    # are to be equal bytes. Widest types first, so that every array is aligned.
    names = sorted(contiguous, key=lambda name: (-contiguous[name].itemsize, name))
    tensors: dict[str, Any] = {"__metadata__": {_HEADER: header, _CHECKSUM: _checksum(header, contiguous)}}
    end = 0
    for name in names:
        array = contiguous[name]
        start, end = end, end + array.nbytes
        tensors[name] = {"dtype": _CODES[array.dtype.type], "shape": list(array.shape), "data_offsets": [start, end]}
    text = json.dumps(tensors, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *(contiguous[name].tobytes() for name in names)])


def unpack(data: bytes) -> tuple[Arrays, dict[str, Any]]:
    """Return (arrays, meta) of a snapshot made by `pack`.

    Raises
    ------
    NewerSnapshot
        The format number is higher than this version knows.
    BadSnapshot
        Cut, damaged, or not one of ours.
    """
    if len(data) < 8:
        raise BadSnapshot("snapshot", "a safetensors file", Description(f"{len(data)} bytes"))
    size = int.from_bytes(data[:8], "little")
    if size > LONGEST_HEADER or data[8:9] not in (b"{", b""):
        raise BadSnapshot("snapshot", "a safetensors file", Description(f"one that begins with {data[:8]!r}"))
    if size > len(data) - 8:
        raise BadSnapshot("snapshot", f"{size} bytes of header", Description(f"{len(data) - 8} bytes: the file is cut"))
    try:
        metadata = json.loads(data[8 : 8 + size]).get("__metadata__", {})
        header_text = metadata[_HEADER]
        header = json.loads(header_text)
        format_number = int(header["format"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadSnapshot(
            "snapshot", "a header written by aucstream", Description(f"{type(error).__name__}: {error}")
        ) from error
    if format_number > FORMAT:
        raise NewerSnapshot(
            "snapshot",
            f"a format up to {FORMAT}",
            Description(f"format {format_number}, made by a newer version (aucstream {header.get('library')})"),
        )
    try:
        tensors = _deserialize(data)  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise BadSnapshot("snapshot", "an undamaged safetensors file", str(error)) from error
    arrays: Arrays = {}
    for name, tensor in tensors:
        dtype = _DTYPES.get(tensor["dtype"])
        if dtype is None:
            raise BadSnapshot("snapshot", f"types {', '.join(_DTYPES)}", tensor["dtype"], path=name)
        arrays[name] = np.frombuffer(tensor["data"], dtype=dtype).reshape(tensor["shape"]).copy()
    if _checksum(header_text, arrays) != metadata.get(_CHECKSUM):
        raise BadSnapshot("snapshot", "the checksum written with it", Description("another: the file is damaged"))
    return arrays, header["meta"]


def write(path: str | os.PathLike[str], data: bytes) -> None:
    """Write `data` to `path` so that a reader sees the old file or the new one, never a part."""
    target = Path(path)
    handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
