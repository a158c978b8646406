"""Checksums of the journal's rows: SQLite keeps none of its pages, and a disk may change a bit.

CRC-32 of the columns in msgpack: every single flip is found, a damaged row passes once in four thousand million.
The form is on disk: never change it.
"""

from __future__ import annotations

import zlib
from typing import Any

import msgspec

_encode = msgspec.msgpack.Encoder().encode

# The columns that are covered, by table, in this order.
COVERED = {
    "models": ("model", "name", "spec", "created_at", "base_seq", "seed", "pruned_seq"),
    "ids": ("model", "id", "seq", "sign", "at", "fate", "digest", "score", "probability", "predicted_seq"),
    "pending": (*("model", "id", "sign", "digest", "score", "probability", "seq", "features", "at", "expires_at"),),
    "events": ("model", "seq_first", "seq_last", "kind", "received_at", "payload"),
}


def of_row(values: tuple[Any, ...]) -> int:
    """Return the checksum of a row of `models`, `ids` or `pending`."""
    return zlib.crc32(_encode(values))


def of_event(model: int, seq_first: int, seq_last: int, kind: int, received_at: float, payload: bytes) -> int:
    """Return the checksum of a row of `events`."""
    return zlib.crc32(payload, zlib.crc32(_encode((model, seq_first, seq_last, kind, received_at))))


def of(table: str, values: tuple[Any, ...]) -> int:
    """Return the checksum of a row of any table; `values` are its covered columns."""
    return of_event(*values) if table == "events" else of_row(values)
