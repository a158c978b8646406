"""The -many calls: rows to batches of lines, batches to answers.

A batch is kept until it is answered. After a broken connection the whole batch is sent again; rows with ids that had
arrived are duplicates, so each row is learned once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from aucstream.answers import Prediction, RowError
from aucstream.client.answers import LearnedMany
from aucstream.client.decoding import decode, decode_lines
from aucstream.client.flow import Emit, Flow, Request, Take, exchange
from aucstream.client.problems import BadAnswer, ClientError, Problem
from aucstream.client.retry import Retry
from aucstream.client.rows import Line
from aucstream.errors import AucstreamError, InvalidParams

NDJSON = {"Content-Type": "application/x-ndjson"}
BATCH_ROWS = 1_000  # batches of 100 take half as long again a row, of 5,000 no less
MAX_BATCH_BYTES = 1 << 20

OnError = Literal["abort", "skip"]
Ids = Literal["auto"] | None
Encode = Callable[[object, str], Line]


class Batch:
    """Lines of one request, with the number of each row (from 1)."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.numbers: list[int] = []
        self.size = 0
        self.with_ids = True
        self.new_ids = True

    def __len__(self) -> int:
        return len(self.lines)

    def add(self, line: Line, number: int) -> None:
        """Add a row."""
        self.lines.append(line.data)
        self.numbers.append(number)
        self.size += len(line.data) + 1
        self.with_ids = self.with_ids and line.id is not None
        self.new_ids = self.new_ids and line.new_id

    def number(self, line: int) -> int:
        """Return the number of the row that stands in a line (from 1)."""
        return self.numbers[line - 1] if 0 < line <= len(self.numbers) else line


class Many:
    """One -many call: its path, the encoder of its rows, and the sum of its answers."""

    def __init__(self, path: str, encode: Encode, retry: Retry, timeout: float, on_error: str, rows: int) -> None:
        if on_error not in ("abort", "skip"):
            raise InvalidParams("on_error", "'abort' or 'skip'", on_error)
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
            raise InvalidParams("batch_rows", "an integer > 0", rows)
        self._path = path if on_error == "abort" else f"{path}?on_error=skip"
        self._skip = on_error == "skip"
        self._encode = encode
        self._retry = retry
        self._timeout = timeout
        self._rows = rows
        self.learned = LearnedMany()

    def run(self) -> Flow[LearnedMany]:
        """Send all rows; a bad one ends the call (abort), when those before it are answered, or is passed over."""
        batch = Batch()
        number = sent = 0
        while True:
            rows = yield Take(self._rows - len(batch))
            for row in rows:
                number += 1
                try:
                    line = self._encode(row, f"row {number}")
                except AucstreamError as error:
                    if batch:
                        yield from self._deliver(batch)
                        batch, sent = Batch(), sent + 1
                    if not self._skip:
                        error.learned = self.learned  # type: ignore[attr-defined]
                        raise
                    yield from self._refuse(RowError(number, "", error.message))
                    continue
                batch.add(line, number)
                if len(batch) == self._rows or batch.size >= MAX_BATCH_BYTES:
                    yield from self._deliver(batch)
                    batch, sent = Batch(), sent + 1
            if not rows:
                break
        if batch or not sent:  # without rows, too: the service answers whether the model exists
            yield from self._deliver(batch)
        return self.learned

    def _deliver(self, batch: Batch) -> Flow[None]:
        request = Request("POST", self._path, b"\n".join(batch.lines), NDJSON, self._safe(batch))
        try:
            reply, attempts = yield from exchange(request, self._retry, self._timeout)
            yield from self._receive(batch, reply.content, attempts)
        except ClientError as error:
            if isinstance(error, Problem):
                self._locate(error, batch)
            error.learned = self.learned
            raise

    def _locate(self, problem: Problem, batch: Batch) -> None:
        """Number the rows of a problem as the caller counts them, and add the counts that it carries."""
        for entry in problem.errors:
            if isinstance(entry.get("line"), int):
                entry["line"] = batch.number(entry["line"])
        problem.update_sentence()

    def _safe(self, batch: Batch) -> bool:
        raise NotImplementedError

    def _receive(self, batch: Batch, content: bytes, attempts: int) -> Flow[None]:
        raise NotImplementedError

    def _refuse(self, error: RowError) -> Flow[None]:
        raise NotImplementedError


class Learning(Many):
    """learn-many and label-many; `each`: every batch's counts are handed out as they come."""

    def __init__(self, *arguments: Any, each: bool) -> None:
        super().__init__(*arguments)
        self._each = each

    def _safe(self, batch: Batch) -> bool:
        return batch.with_ids

    def _receive(self, batch: Batch, content: bytes, attempts: int) -> Flow[None]:
        counts = _own(decode(LearnedMany, content), batch, attempts)
        errors = tuple(msgspec.structs.replace(error, line=batch.number(error.line)) for error in counts.errors)
        yield from self._add(msgspec.structs.replace(counts, errors=errors))

    def _refuse(self, error: RowError) -> Flow[None]:
        yield from self._add(LearnedMany(rejected=1, errors=(error,)))

    def _add(self, counts: LearnedMany) -> Flow[None]:
        self.learned += counts
        if self._each:
            yield Emit(counts)

    def _locate(self, problem: Problem, batch: Batch) -> None:
        super()._locate(problem, batch)
        if "accepted" in problem.members:
            counts = {name: problem.members.get(name, 0) for name in ("accepted", "duplicates", "rejected", "seq")}
            self.learned += _own(msgspec.convert(counts, LearnedMany), batch, problem.attempts)


def _own(counts: LearnedMany, batch: Batch, attempts: int) -> LearnedMany:
    """Count duplicates of a repeated batch as accepted: an id made for this call can only come from its first attempt."""
    if attempts == 1 or not batch.new_ids:
        return counts
    return msgspec.structs.replace(counts, accepted=counts.accepted + counts.duplicates, duplicates=0)


class Scoring(Many):
    """predict-many: a Prediction for each row, in order."""

    def _safe(self, batch: Batch) -> bool:
        return True  # without an id it changes nothing; with one it is answered as before

    def _receive(self, batch: Batch, content: bytes, attempts: int) -> Flow[None]:
        predictions = decode_lines(Prediction, content)
        if len(predictions) != len(batch):
            raise BadAnswer(f"expected {len(batch)} lines, got {len(predictions)}")
        for prediction in predictions:
            if prediction.errors:
                errors = tuple(msgspec.structs.replace(e, line=batch.number(e.line)) for e in prediction.errors)
                prediction = msgspec.structs.replace(prediction, errors=errors)
            yield Emit(prediction)

    def _refuse(self, error: RowError) -> Flow[None]:
        yield Emit(Prediction(None, None, (error,)))
