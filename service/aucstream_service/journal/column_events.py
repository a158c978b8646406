"""Events whose rows have one form, as the journal keeps them: names once, then numbers; no pyarrow is needed.

A payload of this kind begins with a zero byte, which no line of JSON does. After it comes one msgpack map:
`names`, `values` (float64, little-endian, row after row), `labels` (a byte each, 1 or 0), `weights` (float64) or null,
`ids` or null, and `erased`, the rows whose raw record was removed on request.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from aucstream.block import Floats
from aucstream.features.number_rows import NumberRows

MARK = b"\x00"


class ColumnEvent(msgspec.Struct):
    """Rows of one event."""

    names: list[str]
    values: bytes
    labels: bytes
    weights: bytes | None
    ids: list[str | None] | None
    erased: list[int]

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def matrix(self) -> np.ndarray:
        """The values (n, k), as kernels want them."""
        return np.frombuffer(bytearray(self.values), dtype="<f8").reshape(len(self), len(self.names))

    @property
    def features(self) -> NumberRows:
        """The rows."""
        return NumberRows(self.names, np.asarray(self.matrix, dtype=np.float64))

    @property
    def signs(self) -> Floats:
        """+1.0 or -1.0 a row."""
        return np.where(np.frombuffer(self.labels, dtype=np.uint8) > 0, 1.0, -1.0)

    @property
    def each_weight(self) -> Floats | None:
        """The weight of each row; None: all are 1."""
        if self.weights is None:
            return None
        return np.asarray(np.frombuffer(bytearray(self.weights), dtype="<f8"), dtype=np.float64)

    def pack(self) -> bytes:
        """Return the payload."""
        return MARK + _encode(self)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ColumnEvent).decode


def is_columns(payload: bytes) -> bool:
    """Return whether a payload is of this kind."""
    return payload[:1] == MARK


def event_of(payload: bytes) -> ColumnEvent:
    """Return the rows of a payload."""
    return _decode(memoryview(payload)[1:])


def payload_of(features: NumberRows, signs: Floats, weights: Floats | None, ids: Sequence[str | None] | None) -> bytes:
    """Return the payload of these rows."""
    return ColumnEvent(
        features.names,
        features.values.astype("<f8", copy=False).tobytes(),
        (signs > 0.0).tobytes(),
        None if weights is None else weights.astype("<f8", copy=False).tobytes(),
        None if ids is None else list(ids),
        [],
    ).pack()


def without(payload: bytes, id_: str) -> tuple[bytes, list[int]]:
    """Return the payload without the rows of this id, and which rows they were."""
    if id_.encode() not in payload:
        return payload, []
    event = event_of(payload)
    erased = [row for row, other in enumerate(event.ids or ()) if other == id_]
    if not erased or event.ids is None:
        return payload, []
    matrix, labels = event.matrix, bytearray(event.labels)
    weights = None if event.weights is None else np.frombuffer(bytearray(event.weights), dtype="<f8")
    for row in erased:
        matrix[row], labels[row], event.ids[row] = 0.0, 0, None
        if weights is not None:
            weights[row] = 0.0
    event.values, event.labels = matrix.tobytes(), bytes(labels)
    event.weights = None if weights is None else weights.tobytes()
    event.erased = [*event.erased, *erased]
    return event.pack(), erased
