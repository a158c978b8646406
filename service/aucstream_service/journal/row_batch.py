"""Rows on their way from a body to the journal and to the learner, column by column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from aucstream.block import Block, Floats, joined
from aucstream.features.number_rows import NumberRows
from aucstream_service.journal.column_events import payload_of
from aucstream_service.journal.event_codec import Features, digest_of, lines_of
from aucstream_service.journal.rules import Prediction

Numbers = Sequence[float] | Floats
Line = tuple[int, bytes | msgspec.Raw | None]  # its place in the body, its bytes; None: it is too long

_encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class RowBatch:
    """Rows of one call: a matrix where all have one form, else lines of JSON with what they say.

    Attributes
    ----------
    features : NumberRows, or sequence of dict or list
        Empty for labels by id.
    signs : sequence of float or ndarray of float64
        +1.0 or -1.0 a row; empty for rows that are only scored.
    weights : sequence of float or ndarray of float64, or None
        Finite and >= 0; None: all are 1.
    ids : sequence of (str or None), or None
        None: no row has an id.
    lines : sequence of bytes
        The rows as JSON, which the journal keeps; empty for NumberRows and for labels by id.
    places : sequence of int
        Of each row in the body: the number of its line, or -1 - its index in an array.
    size : int
        Bytes of the rows in their request.
    block : Block or None
        The rows, where the model knows all their names.
    pipeline : object
        Whose columns the block has.
    reading : object
        What that model said of its columns when the block was made.
    as_lines : callable or None
        Returns the rows of NumberRows as lines, and holds the part of the body that they are in.
    """

    features: Sequence[Features]
    signs: Numbers = ()
    weights: Numbers | None = None
    ids: Sequence[str | None] | None = None
    lines: Sequence[bytes | msgspec.Raw] = ()
    places: Sequence[int] = ()
    size: int = 0
    block: Block | None = None
    as_lines: Callable[[], list[Line]] | None = None
    pipeline: object = None
    reading: object = None

    def __len__(self) -> int:
        return len(self.signs) or len(self.features)

    @property
    def sample(self) -> Sequence[Features]:
        """One row, for its form."""
        return self.features[:1]

    def digest(self, row: int) -> bytes:
        """Return the digest of a row's features."""
        return digest_of(self.features[row])

    def payload(self, rows: Sequence[int] | None = None) -> bytes:
        """Return the bytes that the journal keeps of these rows (None: of all)."""
        if isinstance(self.features, NumberRows):
            part = self if rows is None else self.take(rows)
            return payload_of(part.features, part.signs, part.weights, part.ids)  # type: ignore[arg-type]
        return lines_of(self.lines if rows is None else [self.lines[row] for row in rows])

    def line(self, row: int) -> bytes:
        """Return a row as a line of JSON."""
        if not isinstance(self.features, NumberRows):
            return lines_of([self.lines[row]])
        return _encode(
            {
                "features": self.features[row],
                "label": float(self.signs[row]),
                "weight": 1.0 if self.weights is None else float(self.weights[row]),
                "id": None if self.ids is None else self.ids[row],
            }
        )

    def take(self, rows: Sequence[int]) -> RowBatch:
        """Return what is learned of these rows, in this order; `size` stays that of all."""
        order = np.array(rows, dtype=np.int64)
        features = self.features
        return RowBatch(
            features.take(rows) if isinstance(features, NumberRows) else [features[row] for row in rows],
            np.asarray(self.signs)[order],
            None if self.weights is None else np.asarray(self.weights)[order],
            None if self.ids is None else [self.ids[row] for row in rows],
            size=self.size,
            block=None if self.block is None else self.block.take(order),
            pipeline=self.pipeline,
            reading=self.reading,
        )


def concatenate(parts: Sequence[RowBatch]) -> RowBatch:
    """Return the rows of several batches of lines as one."""
    if len(parts) == 1:
        return parts[0]
    pipeline, reading = parts[0].pipeline, parts[0].reading
    blocks = [
        part.block for part in parts if part.block is not None and part.pipeline is pipeline and part.reading is reading
    ]
    weighted = any(part.weights is not None for part in parts)
    identified = any(part.ids is not None for part in parts)
    return RowBatch(
        [row for part in parts for row in part.features],
        [sign for part in parts for sign in part.signs],
        [weight for part in parts for weight in (part.weights or [1.0] * len(part))] if weighted else None,
        [id_ for part in parts for id_ in (part.ids or [None] * len(part))] if identified else None,
        [line for part in parts for line in part.lines],
        [place for part in parts for place in part.places],
        sum(part.size for part in parts),
        joined(blocks) if len(blocks) == len(parts) else None,
        pipeline=pipeline,
        reading=reading,
    )


@dataclass(slots=True)
class Predictions:
    """Scored rows with ids, which wait for their labels."""

    ids: list[str] = field(default_factory=list)
    features: list[bytes] = field(default_factory=list)
    firsts: list[Prediction] = field(default_factory=list)  # the answer, unless there is an earlier one
    sample: list[Features] = field(default_factory=list)  # one row, for its form
    size: int = 0

    def __len__(self) -> int:
        return len(self.ids)

    def add(self, id_: str, features: Features, score: float, probability: float | None, seq: int) -> None:
        """Add a row."""
        data = _encode(features)
        self.ids.append(id_)
        self.features.append(data)
        self.firsts.append(Prediction(digest_of(features), score, probability, seq))
        self.size += len(data)
        if not self.sample:
            self.sample.append(features)


def bytes_of(part: RowBatch | Sequence[Line]) -> int:
    """Return the bytes of rows, decoded or not."""
    if isinstance(part, RowBatch):
        return part.size
    return sum(memoryview(raw).nbytes for _, raw in part if raw is not None)
