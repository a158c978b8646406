"""The client for threads."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, Unpack

import httpx

from aucstream.answers import Evaluation, ModelEvent, Predicted, Prediction, Roc, Weight
from aucstream.client.answers import Description, Learned, LearnedMany
from aucstream.client.calls import AUTO, DEFAULT_URL, Spec
from aucstream.client.flow import Effect, Emit, Flow, Read, Reply, Send, Sleep, Take, advance
from aucstream.client.many import BATCH_ROWS, OnError
from aucstream.client.retry import Retry
from aucstream.client.rows import Example, Features
from aucstream.client.transport import LIMITS, Common, connection_failure, reply_of

T = TypeVar("T")


class Client(Common):
    """A client of a running service.

    Parameters
    ----------
    base_url : str, default="http://127.0.0.1:8000"
    api_key : str, optional
        Else `AUCSTREAM_API_KEY`, else what stands in the file `AUCSTREAM_API_KEY_FILE`.
    timeout : float, default=60.0
        Seconds that an answer may be silent.
    retry : Retry, optional
        For how long requests are repeated; `Retry(deadline=0)`: never.
    http : httpx.Client, optional
        One of your own (certificates, proxies); who made it closes it.

    Notes
    -----
    Requests are repeated after a broken connection, 408, 429, 502, 503 and 504, where this is safe: all but a learn
    without an id and the upload of a snapshot, which are sent again only if no connection was made. Examples are
    given ids (uuid4) unless they have their own, so that each is learned exactly once; `id=None` and `ids=None` do
    without, and are not repeated.

    Values are checked before they are sent, by the library's rules: `InvalidBlock`, `InvalidLabel`. What the service
    refuses is a `Problem`; where no answer came, `ConnectionFailed`.

    One client may be used by many threads; `close` it (or leave its `with`) when they are done. An iterator that it
    returned belongs to one thread, holds a connection while it is open, and is closed by its end, `close()` or the
    garbage collector. A client does not cross a fork.
    """

    def __init__(
        self,
        base_url: str = DEFAULT_URL,
        api_key: str | None = None,
        *,
        timeout: float = 60.0,
        retry: Retry | None = None,
        http: httpx.Client | None = None,
    ) -> None:
        super().__init__(base_url, api_key, timeout, retry)
        self._own = http is None
        self._http = httpx.Client(limits=LIMITS) if http is None else http

    def close(self) -> None:
        """Close all connections."""
        if self._own:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- models ------------------------------------------------------------------------------

    def create(
        self, model: str, algorithm: str = "psam", *, if_match: str | None = None, **spec: Unpack[Spec]
    ) -> Description:
        """Create a model; the same spec again changes nothing, another one raises SpecConflict.

        `if_match` (here, in `delete` and in `upload_snapshot`) is the `etag` of a description, or "*": a model
        that has another by then, or is not there, raises PreconditionFailed.
        """
        return self._run(self._calls.create(model, algorithm, spec, if_match))

    def models(self, *, page: int = 100) -> Iterator[Description]:
        """Yield all models by name, `page` of them a request."""
        return self._iterate(self._calls.models(page))

    def describe(self, model: str) -> Description:
        """Return spec and counts of a model."""
        return self._run(self._calls.describe(model))

    def delete(self, model: str, *, if_match: str | None = None) -> None:
        """Delete a model and all it learned."""
        self._run(self._calls.delete(model, if_match))

    # ---- one row -----------------------------------------------------------------------------

    def learn_one(
        self, model: str, features: Features, label: object, *, weight: float = 1.0, id: str | None = AUTO
    ) -> Learned:
        """Learn one example; returns when it is durable and applied.

        `id="auto"` makes an id. Should the call fail with ConnectionFailed, its `id` lets you send the example
        again without learning it twice.
        """
        return self._run(self._calls.learn_one(model, features, label, weight, id))

    def predict_one(self, model: str, features: Features, *, id: str | None = None, explain: bool = False) -> Predicted:
        """Score one example; with an `id` it waits for its label. `explain`: with contributions."""
        return self._run(self._calls.predict_one(model, features, id, explain))

    def label_one(self, model: str, id: str, label: object) -> Learned:
        """Learn the prediction that waits under an id."""
        return self._run(self._calls.label_one(model, id, label))

    # ---- many rows ---------------------------------------------------------------------------

    def learn_many(
        self,
        model: str,
        rows: Iterable[Example | tuple[Features, object] | Mapping[str, Any]],
        *,
        ids: Literal["auto"] | None = AUTO,
        on_error: OnError = "abort",
        batch_rows: int = BATCH_ROWS,
    ) -> LearnedMany:
        """Learn rows in order, from an iterable of any length; return the sum of their counts.

        Parameters
        ----------
        rows : iterable
            `(features, label)`, an `Example`, or a dict of its fields: `zip(X, y)` and River's datasets will do.
        ids : "auto" or None
            auto: rows without an id are given one. None: they are sent as they are, and a batch with such a
            row is not repeated.
        on_error : "abort" or "skip"
            abort: the first bad row raises, when those before it are learned. skip: it is counted in `rejected`.
        batch_rows : int, default=1000
            Rows that are sent as one request, kept until it is answered and then forgotten (at most about 1 MiB).

        Notes
        -----
        An error has the counts of what was confirmed before as `learned`, and names rows by `line`, from 1. Rows
        that a broken attempt had brought already count as duplicates where they have ids of their own.
        An exception of the iterable's own ends the call as it is; rows taken since the last batch are not sent.
        """
        return self._run(self._calls.learn_many(model, ids, on_error, batch_rows, each=False), rows)

    def learn_batches(
        self,
        model: str,
        rows: Iterable[Example | tuple[Features, object] | Mapping[str, Any]],
        *,
        ids: Literal["auto"] | None = AUTO,
        on_error: OnError = "abort",
        batch_rows: int = BATCH_ROWS,
    ) -> Iterator[LearnedMany]:
        """As `learn_many`, but yield the counts of each batch when it is confirmed."""
        return self._iterate(self._calls.learn_many(model, ids, on_error, batch_rows, each=True), rows)

    def label_many(
        self,
        model: str,
        rows: Iterable[tuple[str, object] | Mapping[str, Any]],
        *,
        on_error: OnError = "abort",
        batch_rows: int = BATCH_ROWS,
    ) -> LearnedMany:
        """Label predictions by id: rows of `(id, label)`; see `learn_many`."""
        return self._run(self._calls.label_many(model, on_error, batch_rows, each=False), rows)

    def label_batches(
        self,
        model: str,
        rows: Iterable[tuple[str, object] | Mapping[str, Any]],
        *,
        on_error: OnError = "abort",
        batch_rows: int = BATCH_ROWS,
    ) -> Iterator[LearnedMany]:
        """As `label_many`, but yield the counts of each batch when it is confirmed."""
        return self._iterate(self._calls.label_many(model, on_error, batch_rows, each=True), rows)

    def predict_many(
        self,
        model: str,
        rows: Iterable[Example | Features],
        *,
        on_error: OnError = "abort",
        batch_rows: int = BATCH_ROWS,
    ) -> Iterator[Prediction]:
        """Yield a score for each row, in order; rows are taken a batch at a time.

        A row is its features, or an `Example` with an id, which then waits for its label. skip: a bad row is
        answered by a Prediction with `errors`.
        """
        return self._iterate(self._calls.predict_many(model, on_error, batch_rows), rows)

    # ---- evaluation -------------------------------------------------------------------------

    def evaluation(self, model: str) -> Evaluation:
        """Return AUC with its interval, and calibration, of the scores given before each update."""
        return self._run(self._calls.evaluation(model))

    def roc(self, model: str) -> Roc:
        """Return the ROC curve over the window."""
        return self._run(self._calls.roc(model))

    def weights(self, model: str, *, top: int = 100) -> tuple[Weight, ...]:
        """Return the largest weights by absolute value."""
        return self._run(self._calls.weights(model, top))

    def events(self, model: str, *, after: int | None = None) -> Iterator[ModelEvent]:
        """Yield the model's numbers as they change, after event `after`; ends when the model is deleted.

        A broken stream is opened again, as long as that succeeds within the deadline of `retry`.
        """
        return self._iterate(self._calls.events(model, after))

    def delete_event(self, model: str, id: str) -> int:
        """Remove the raw record of an example; return how many there were.

        What the model learned from it stays. A prediction that waits is dropped: its label is then refused.
        A call that was repeated may return 0, for what its first attempt removed.
        """
        return self._run(self._calls.delete_event(model, id))

    # ---- snapshots ---------------------------------------------------------------------------

    def download_snapshot(self, model: str) -> bytes:
        """Return the whole state; `aucstream.from_bytes` reads it."""
        return self._run(self._calls.download_snapshot(model))

    def upload_snapshot(self, model: str, data: bytes, *, if_match: str | None = None) -> Description:
        """Create or replace a model from a snapshot."""
        return self._run(self._calls.upload_snapshot(model, data, if_match))

    # ---- the service -------------------------------------------------------------------------

    def live(self) -> bool:
        """Return whether the process answers."""
        return self._run(self._calls.live())

    def ready(self) -> bool:
        """Return whether it may be sent work."""
        return self._run(self._calls.ready())

    def wait_ready(self, seconds: float = 60.0) -> None:
        """Return when the service is ready, or raise what it said last."""
        self._run(self._calls.wait_ready(seconds))

    def metrics(self, *, openmetrics: bool = False) -> str:
        """Return the metrics in Prometheus' text format, or in that of OpenMetrics."""
        return self._run(self._calls.metrics(openmetrics=openmetrics))

    # ---- effects -----------------------------------------------------------------------------

    def _run(self, flow: Flow[T], rows: Iterable[Any] = ()) -> T:
        io = _Io(self, rows)
        outcome: object = None
        try:
            while True:
                outcome = io.perform(advance(flow, outcome))
        except StopIteration as end:
            result: T = end.value
            return result

    def _iterate(self, flow: Flow[Any], rows: Iterable[Any] = ()) -> Iterator[Any]:
        io = _Io(self, rows)
        outcome: object = None
        try:
            while True:
                try:
                    effect = advance(flow, outcome)
                except StopIteration:
                    return
                if isinstance(effect, Emit):
                    outcome = yield effect.value
                else:
                    outcome = io.perform(effect)
        finally:
            io.close()


class _Io:
    """Performs the effects of one flow."""

    def __init__(self, client: Client, rows: Iterable[Any]) -> None:
        self._client = client
        self._rows = iter(rows)
        self._open: httpx.Response | None = None
        self._parts: Iterator[bytes] = iter(())

    def perform(self, effect: Effect) -> object:
        """Return the result of an effect, or the ConnectionFailed that it ended with."""
        match effect:
            case Take(most):
                return list(itertools.islice(self._rows, most))
            case Sleep(seconds):
                time.sleep(seconds)
        try:
            match effect:
                case Send():
                    return self._send(effect)
                case Read():
                    return next(self._parts, b"")
        except httpx.RequestError as error:
            return connection_failure(error)
        return None

    def _send(self, effect: Send) -> Reply:
        self.close()
        http = self._client._http
        answer = http.send(http.build_request(**self._client._options(effect)), stream=True)
        self._open = answer
        if effect.stream and answer.is_success:
            self._parts = answer.iter_bytes()
            return reply_of(answer, b"")
        try:
            return reply_of(answer, answer.read())
        finally:
            self.close()

    def close(self) -> None:
        """Close the stream that is open, if any."""
        if self._open is not None:
            self._open.close()
            self._open = None
