"""Lines of learn-many and label-many to the checked rows of one model."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from aucstream.block import sign_of
from aucstream.errors import AucstreamError
from aucstream.pipeline import Pipeline, RowKind
from aucstream_service.bodies.bodies import (
    Call,
    LabelBody,
    LearnBody,
    RowLimits,
    checked_id,
    checked_row,
    known_fields,
    label_body,
    learn_bodies,
    learn_body,
)
from aucstream_service.bodies.decode_errors import BadLine, located, row_of
from aucstream_service.errors.exceptions import BodyTooLarge
from aucstream_service.journal.event_codec import Features
from aucstream_service.journal.row_batch import Line, RowBatch

Skip = Callable[[int, AucstreamError], None]

_SIGNS = {True: 1.0, False: -1.0}


def form_of(rows: RowBatch, pipeline: Pipeline, kind: RowKind | None) -> RowKind | None:
    """Return the form of rows that the model can learn; None: decoded one by one they say what is wrong."""
    try:
        return pipeline.engine.check_rows(rows.features, kind)
    except AucstreamError:
        return None


class RowDecoder:
    """Decodes the rows of one body.

    Parameters
    ----------
    pipeline : Pipeline
        Of the model that learns them.
    kind : {"named", "columns"} or None
        The form of the model's rows so far.
    call : Call
    limits : RowLimits
    longest : int
        Bytes of a line at most.
    skip : callable or None
        Counts a bad line, which is then left out; None: it ends the body.
    ignores_fields : bool
        Whether fields that a body does not have are passed over.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        kind: RowKind | None,
        call: Call,
        limits: RowLimits,
        longest: int,
        skip: Skip | None,
        *,
        ignores_fields: bool,
    ) -> None:
        self.kind = kind
        self._ignores_fields = ignores_fields
        self._pipeline = pipeline
        self._call = call
        self._limits = limits
        self._longest = longest
        self._skip = skip

    def rows(self, part: RowBatch | Sequence[Line]) -> tuple[RowBatch, BadLine | None]:
        """Return the rows of a part of the body, and the bad line that ends it.

        Raises
        ------
        AucstreamError
            A row of an array is bad: nothing of the body is learned.
        """
        if isinstance(part, RowBatch):
            kind = form_of(part, self._pipeline, self.kind)
            assert part.as_lines is not None
            if kind is None:
                return self.rows(part.as_lines())
            self.kind = kind
            part.as_lines = None
            return part, None
        if self._call is Call.LEARN and self.kind == "named":
            rows = self._decode_at_once(part)
            if rows is not None:
                return rows, None
        return self._decode_each(part)

    def _decode_at_once(self, lines: Sequence[Line]) -> RowBatch | None:
        """Return rows that have no fault, and names that are known; None: there are others among them."""
        raws = [raw if type(raw) is bytes else bytes(raw or b"") for _, raw in lines]
        bodies = learn_bodies(raws)
        if not bodies:
            return None
        features = [body.features for body in bodies]
        weights = [body.weight for body in bodies]
        try:
            signs = [_SIGNS[body.label] if type(body.label) is bool else sign_of(body.label) for body in bodies]
            ids = [None if body.id is None else checked_id(body.id) for body in bodies]
        except AucstreamError:
            return None
        if not (min(weights) >= 0.0 and max(weights) < math.inf):
            return None
        reading = self._pipeline.columns
        block = self._pipeline.engine.block_of(features, np.array(signs), np.array(weights))
        if block is None and not self._pipeline.engine.all_known_finite(features):
            return None
        places = [place for place, _ in lines]
        batch = RowBatch(features, signs, weights, ids, raws, places, sum(map(len, raws)), block)
        batch.pipeline, batch.reading = self._pipeline, reading
        return _tidy(batch)

    def _decode_each(self, lines: Sequence[Line]) -> tuple[RowBatch, BadLine | None]:
        rows: list[_Row] = []
        end: BadLine | None = None
        unchecked = 0  # the first row whose features are not checked yet
        try:
            for place, raw in lines:
                try:
                    rows.append(self._row(place, raw))
                except AucstreamError as error:
                    self._check(rows, unchecked)  # an earlier bad row is refused first
                    unchecked = len(rows)
                    self._refuse(place, error)
            self._check(rows, unchecked)
        except BadLine as error:
            end = error
        if not rows:
            return RowBatch([]), end
        features, signs, weights, ids, raws, places = map(list, zip(*rows, strict=True))
        size = sum(map(_size, raws))
        if self._call is Call.LABEL:
            return RowBatch([], signs, None, ids, (), places, size), end
        return _tidy(RowBatch(features, signs, weights, ids, raws, places, size)), end

    def _row(self, place: int, raw: bytes | msgspec.Raw | None) -> _Row:
        if raw is None:
            raise BodyTooLarge("line", f"at most {self._longest} bytes a line")
        if self._ignores_fields:
            raw = known_fields(raw, LabelBody if self._call is Call.LABEL else LearnBody)
        if self._call is Call.LABEL:
            label = label_body(raw)
            sign = sign_of(label.label, "$.label")
            return _Row({}, sign, 1.0, checked_id(label.id), raw, place)
        body = learn_body(raw)
        return _Row(body.features, checked_row(body, _size(raw), self._limits), body.weight, body.id, raw, place)

    def _check(self, rows: list[_Row], first: int) -> None:
        """Check the features of the rows from `first` on; drop bad ones, or all from the bad one on."""
        while first < len(rows) and self._call is not Call.LABEL:
            features = [row.features for row in rows[first:]]
            try:
                self.kind = self._pipeline.engine.check_rows(features, self.kind)
                return
            except AucstreamError as error:
                bad = row_of(error)
                place = rows[first + bad].place
                del rows[first + bad : None if self._skip is None else first + bad + 1]
                if bad and self.kind is None:
                    self.kind = self._pipeline.engine.check_rows(features[:bad], None)
                self._refuse(place, error)
                first += bad

    def _refuse(self, place: int, error: AucstreamError) -> None:
        if place < 0:  # an array's row: the whole body is refused
            raise located(error, -1 - place) from None
        error = located(error)
        if self._skip is None:
            raise BadLine(place, error) from None
        self._skip(place, error)


class _Row(NamedTuple):
    features: Features
    sign: float
    weight: float
    id: str | None
    line: bytes | msgspec.Raw
    place: int


def _tidy(rows: RowBatch) -> RowBatch:
    """Leave out weights that are all 1, and ids where there are none."""
    if set(rows.weights or ()) == {1.0}:
        rows.weights = None
    if not any(rows.ids or ()):
        rows.ids = None
    return rows


def _size(raw: bytes | msgspec.Raw) -> int:
    return memoryview(raw).nbytes
