"""The client for threads."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, Unpack

import httpx

from aucstream.answers import (
    Evaluation,
    ExportedEvent,
    ExportedPending,
    ModelEvent,
    Predicted,
    Prediction,
    Roc,
    RolledBack,
    Snapshot,
    Weight,
)
from aucstream.client.answers import Description, Learned, LearnedMany
from aucstream.client.calls import AUTO, DEFAULT_URL, Spec
from aucstream.client.flow import Effect, Emit, Flow, Read, Reply, Send, Sleep, Take, advance
from aucstream.client.many import BATCH_ROWS, Ids, OnError
from aucstream.client.retry import Retry
from aucstream.client.rows import Features, LabelRow, LearnRow, PredictRow
from aucstream.client.transport import LIMITS, Common, check_open, connection_failure, reply_of

T = TypeVar("T")
S = TypeVar("S")

Rows = Iterable[S]


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
        The caller's own client (certificates, proxies), which `close` leaves open.

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
        """Close all connections; a client of httpx that the caller passed stays open."""
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
        """Create a model. The same spec again changes nothing.

        Parameters
        ----------
        model : str
            Name of the model, 1 to 64 of `a-z 0-9 _ -`.
        algorithm : str, default="psam"
            Name of the learner.
        if_match : str, optional
            The `etag` that the model must have, or "*": it must exist.
        **spec
            `params`, `scaler`, `map`, `encoder`, `calibration`, `evaluation`, `pending` and `seed`, as in the body of
            `PUT /v1/models/{name}`.

        Returns
        -------
        Description
            The model with its `etag`.

        Raises
        ------
        SpecConflict
            The name belongs to a model with another spec.
        PreconditionFailed
            The model has another tag, or does not exist.
        InvalidParams
            An argument is invalid; nothing was sent.
        Problem
            The service refuses the request; its class names the reason.
        ConnectionFailed
            No answer came before the deadline of `retry`.
        BadAnswer
            The answer is not one of the service's.
        """
        return self._run(self._calls.create(model, algorithm, spec, if_match))

    def models(self, *, page: int = 100) -> Iterator[Description]:
        """Iterate over all models by name.

        Parameters
        ----------
        page : int, default=100
            Models of one request, 1 to 1000.

        Yields
        ------
        Description
            One model.

        Raises
        ------
        Problem
            The service refuses the request; its class names the reason.
        ConnectionFailed
            No answer came before the deadline of `retry`.
        BadAnswer
            The answer is not one of the service's.
        """
        return self._iterate(self._calls.models(page))

    def describe(self, model: str) -> Description:
        """Return spec and counts of a model.

        Parameters
        ----------
        model : str
            Name of the model, 1 to 64 of `a-z 0-9 _ -`.

        Returns
        -------
        Description
            The model with its `etag`.

        Raises
        ------
        InvalidParams
            An argument is invalid; nothing was sent.
        ModelNotFound
            No model has that name.
        Problem
            The service refuses the request; its class names the reason.
        ConnectionFailed
            No answer came before the deadline of `retry`.
        BadAnswer
            The answer is not one of the service's.
        """
        return self._run(self._calls.describe(model))

    def patch(self, model: str, changes: Mapping[str, Any], *, if_match: str | None = None) -> Description:
        """Change a model that serves; what it learned, ids and waiting examples stay.

        Parameters
        ----------
        model : str
            Name of the model, 1 to 64 of `a-z 0-9 _ -`.
        changes : mapping
            A merge patch of the spec: `pending`, `evaluation`, `encoder` (`capacity`) and `params` (step sizes and
            penalties), each with what changes in it. None stands for a default.
        if_match : str, optional
            The `etag` that the model must have, or "*": it must exist.

        Returns
        -------
        Description
            The model with its `etag`.

        Raises
        ------
        FixedSetting
            A part of the spec that is fixed would change.
        PreconditionFailed
            The model has another tag, or does not exist.
        InvalidParams
            An argument is invalid; nothing was sent.
        ModelNotFound
            No model has that name.
        Problem
            The service refuses the request; its class names the reason.
        ConnectionFailed
            No answer came before the deadline of `retry`.
        BadAnswer
            The answer is not one of the service's.
        """
        return self._run(self._calls.patch(model, changes, if_match))

    def reset_evaluation(self, model: str, *, if_match: str | None = None) -> Description:
        """Begin the evaluation of a model anew; what it learned stays. Repeated only if no connection was made.

        Parameters
        ----------
        model : str
            Name of the model, 1 to 64 of `a-z 0-9 _ -`.
        if_match : str, optional
            The `etag` that the model must have, or "*": it must exist.

        Returns
        -------
        Description
            The model with its `etag`.

        Raises
        ------
        PreconditionFailed
            The model has another tag, or does not exist.
        InvalidParams
            An argument is invalid; nothing was sent.
        ModelNotFound
            No model has that name.
        Problem
            The service refuses the request; its class names the reason.
        ConnectionFailed
            No answer came before the deadline of `retry`.
        BadAnswer
            The answer is not one of the service's.
        """
        return self._run(self._calls.reset_evaluation(model, if_match))

    def rename(self, model: str, to: str, *, if_match: str | None = None) -> Description:
        """Give a model another name.

        Parameters
        ----------
        model : str
            Name of the model, 1 to 64 of `a-z 0-9 _ -`.
        to : str
            The new name.
        if_match : str, optional
            The `etag` that the model must have, or "*": it must exist.

        Returns
        -------
        Description
            The model with its `etag`.

        Raises
        ------
        NameTaken
            A model has the new name.
        PreconditionFailed
            The model has another tag, or does not exist.
        InvalidParams
            An argument is invalid; nothing was sent.
        ModelNotFound
            No model has that name.
        Problem
            The service refuses the request; its class names the reason.
        ConnectionFailed
            No answer came before the deadline of `retry`.
        BadAnswer
            The answer is not one of the service's.
        """
        return self._run(self._calls.rename(model, to, if_match))

    def delete(self, model: str, *, if_match: str | None = None) -> None:
        """Delete a model and all it learned.

        Parameters
        ----------
        model : str
            Name of the model, 1 to 64 of `a-z 0-9 _ -`.
        if_match : str, optional
            The `etag` that the model must have, or "*": it must exist.

        Raises
        ------
        PreconditionFailed
            The model has another tag, or does not exist.
        InvalidParams
            An argument is invalid; nothing was sent.
        ModelNotFound
            No model has that name.
        Problem
            The service refuses the request; its class names the reason.
        ConnectionFailed
            No answer came before the deadline of `retry`.
        BadAnswer
            The answer is not one of the service's.
        """
        self._run(self._calls.delete(model, if_match))

    # ---- one row -----------------------------------------------------------------------------

    def learn_one(
        self, model: str, features: Features, label: object, *, weight: float = 1.0, id: str | None = AUTO
    ) -> Learned:
        """Learn one example; return when it is durable and applied.

        Parameters
        ----------
        model : str
            Name of the model, 1 to 64 of `a-z 0-9 _ -`.
        features : mapping or sequence of float
            Names to values (number, bool, string, list of strings, None = absent), or the values of one array row.
        label : object
            Positive (True, 1) or negative (False, 0, -1).
        weight : float, default=1.0
            Weight of the example, >= 0.
        id : str or None, default="auto"
            An example is learned once under an id. "auto": the client makes a new id. None: no id; the call is repeated
            only if no connection was made.

        Returns
        -------
        Learned
            Number of the event, the score before the update, and the id.

        Raises
        ------
        InvalidBlock, InvalidLabel
            A value is invalid; nothing was sent.
        LabelConflict
            The id was learned with the other label.
        InvalidParams
            An argument is invalid; nothing was sent.
        ModelNotFound
            No model has that name.
        Problem
            The service refuses the request; its class names the reason.
        ConnectionFailed
            No answer came before the deadline of `retry`.
        BadAnswer
            The answer is not one of the service's.

        Notes
        -----
        The `id` of a ConnectionFailed lets the caller send the example again without learning it twice.
        """
        return self._run(self._calls.learn_one(model, features, label, weight, id))

    def predict_one(self, model: str, features: Features, *, id: str | None = None, explain: bool = False) -> Predicted:
        """Score one example.

        Parameters
        ----------
        model : str
            Name of the model, 1 to 64 of `a-z 0-9 _ -`.
        features : mapping or sequence of float
            Names to values (number, bool, string, list of strings, None = absent), or the values of one array row.
        id : str, optional
            The example waits under it for its label.
        explain : bool, default=False
            Whether to return contributions.

        Returns
        -------
        Predicted
            Score, probability and, with `explain`, what each feature adds to the score.

        Raises
        ------
        InvalidBlock
            A feature is invalid; nothing was sent.
        FeaturesConflict
            The id was predicted with other features.
        InvalidParams
            An argument is invalid; nothing was sent.
        ModelNotFound
            No model has that name.
        Problem
            The service refuses the request; its class names the reason.
        ConnectionFailed
            No answer came before the deadline of `retry`.
        BadAnswer
            The answer is not one of the service's.
        """
        return self._run(self._calls.predict_one(model, features, id, explain))

    def label_one(self, model: str, id: str, label: object) -> Learned:
        """Learn the prediction that waits under an id.

        Parameters
        ----------
        model : str
            Name of the model, 1 to 64 of `a-z 0-9 _ -`.
        id : str
            The id of the prediction.
        label : object
            Positive (True, 1) or negative (False, 0, -1).

        Returns
        -------
        Learned
            Number of the event, and the score of the prediction.

        Raises
        ------
        InvalidLabel
            The label is invalid; nothing was sent.
        UnknownId, Expired
            No prediction waits under the id.
        InvalidParams
            An argument is invalid; nothing was sent.
        ModelNotFound
            No model has that name.
        Problem
            The service refuses the request; its class names the reason.
        ConnectionFailed
            No answer came before the deadline of `retry`.
        BadAnswer
            The answer is not one of the service's.
        """
        return self._run(self._calls.label_one(model, id, label))

    # ---- many rows ---------------------------------------------------------------------------

    def learn_many(
        self,
        model: str,
        rows: Rows[LearnRow],
        *,
        ids: Ids = AUTO,
        on_error: OnError = "abort",
        batch_rows: int = BATCH_ROWS,
    ) -> LearnedMany:
        """Learn rows in order, from an iterable of any length.

        Parameters
        ----------
        model : str
            Name of the model, 1 to 64 of `a-z 0-9 _ -`.
        rows : iterable
            `(features, label)`, an `Example`, or a dict of its fields: `zip(X, y)` and the datasets of River fit.
        ids : "auto" or None
            auto: rows without an id get a new one. None: rows are sent as they are; a batch that has a row without an
            id is not repeated.
        on_error : "abort" or "skip"
            abort: the first bad row raises, after the rows before it are confirmed. skip: bad rows are counted in `rejected`.
        batch_rows : int, default=1000
            Rows of one request, at most about 1 MiB. They are kept until the service confirms them.

        Returns
        -------
        LearnedMany
            The sum of the counts of all batches.

        Raises
        ------
        InvalidBlock, InvalidLabel, InvalidParams
            A row or an argument is invalid (under skip an argument alone).
        ModelNotFound
            No model has that name.
        Problem
            The service refuses the request; its class names the reason.
        ConnectionFailed
            No answer came before the deadline of `retry`.
        BadAnswer
            The answer is not one of the service's.

        Notes
        -----
        An error has the counts of confirmed rows as `learned`, and names rows by `line`, from 1. Rows that a failed attempt
        had brought count as duplicates where they have ids of their own. An exception of the iterable ends the call; rows
        after the last batch are not sent.
        """
        return self._run(self._calls.learn_many(model, ids, on_error, batch_rows, each=False), rows)

    def learn_batches(
        self,
        model: str,
        rows: Rows[LearnRow],
        *,
        ids: Ids = AUTO,
        on_error: OnError = "abort",
        batch_rows: int = BATCH_ROWS,
    ) -> Iterator[LearnedMany]:
        """Learn rows as `learn_many` does, and yield the counts of each batch when it is confirmed.

        Parameters
        ----------
        model : str
            Name of the model, 1 to 64 of `a-z 0-9 _ -`.
        rows : iterable
            `(features, label)`, an `Example`, or a dict of its fields: `zip(X, y)` and the datasets of River fit.
        ids : "auto" or None
            auto: rows without an id get a new one. None: rows are sent as they are; a batch that has a row without an
            id is not repeated.
        on_error : "abort" or "skip"
            abort: the first bad row raises, after the rows before it are confirmed. skip: bad rows are counted in `rejected`.
        batch_rows : int, default=1000
            Rows of one request, at most about 1 MiB. They are kept until the service confirms them.

        Yields
        ------
        LearnedMany
            The counts of one batch.

        Raises
        ------
        InvalidBlock, InvalidLabel, InvalidParams
            A row or an argument is invalid (under skip an argument alone).
        ModelNotFound
            No model has that name.
        Problem
            The service refuses the request; its class names the reason.
        ConnectionFailed
            No answer came before the deadline of `retry`.
        BadAnswer
            The answer is not one of the service's.
        """
        return self._iterate(self._calls.learn_many(model, ids, on_error, batch_rows, each=True), rows)

    def label_many(
        self, model: str, rows: Rows[LabelRow], *, on_error: OnError = "abort", batch_rows: int = BATCH_ROWS
    ) -> LearnedMany:
        """Label predictions by id, in order.

        Parameters
        ----------
        model : str
            Name of the model, 1 to 64 of `a-z 0-9 _ -`.
        rows : iterable
            `(id, label)`, or a dict of both.
        on_error : "abort" or "skip"
            abort: the first bad row raises, after the rows before it are confirmed. skip: bad rows are counted in `rejected`.
        batch_rows : int, default=1000
            Rows of one request, at most about 1 MiB. They are kept until the service confirms them.

        Returns
        -------
        LearnedMany
            The sum of the counts of all batches.

        Raises
        ------
        InvalidBlock, InvalidLabel, InvalidParams
            A row or an argument is invalid (under skip an argument alone).
        ModelNotFound
            No model has that name.
        Problem
            The service refuses the request; its class names the reason.
        ConnectionFailed
            No answer came before the deadline of `retry`.
        BadAnswer
            The answer is not one of the service's.

        Notes
        -----
        An error has the counts of confirmed rows as `learned`, and names rows by `line`, from 1. Rows that a failed attempt
        had brought count as duplicates where they have ids of their own. An exception of the iterable ends the call; rows
        after the last batch are not sent.
        """
        return self._run(self._calls.label_many(model, on_error, batch_rows, each=False), rows)

    def label_batches(
        self, model: str, rows: Rows[LabelRow], *, on_error: OnError = "abort", batch_rows: int = BATCH_ROWS
    ) -> Iterator[LearnedMany]:
        """Label predictions as `label_many` does, and yield the counts of each batch when it is confirmed.

        Parameters
        ----------
        model : str
            Name of the model, 1 to 64 of `a-z 0-9 _ -`.
        rows : iterable
            `(id, label)`, or a dict of both.
        on_error : "abort" or "skip"
            abort: the first bad row raises, after the rows before it are confirmed. skip: bad rows are counted in `rejected`.
        batch_rows : int, default=1000
            Rows of one request, at most about 1 MiB. They are kept until the service confirms them.

        Yields
        ------
        LearnedMany
            The counts of one batch.

        Raises
        ------
        InvalidBlock, InvalidLabel, InvalidParams
            A row or an argument is invalid (under skip an argument alone).
        ModelNotFound
            No model has that name.
        Problem
            The service refuses the request; its class names the reason.
        ConnectionFailed
            No answer came before the deadline of `retry`.
        BadAnswer
            The answer is not one of the service's.
        """
        return self._iterate(self._calls.label_many(model, on_error, batch_rows, each=True), rows)

    def predict_many(
        self, model: str, rows: Rows[PredictRow], *, on_error: OnError = "abort", batch_rows: int = BATCH_ROWS
    ) -> Iterator[Prediction]:
        """Score rows in order; one batch is read at a time.

        Parameters
        ----------
        model : str
            Name of the model, 1 to 64 of `a-z 0-9 _ -`.
        rows : iterable
            Features, or an `Example`; one with an id waits for its label.
        on_error : "abort" or "skip"
            abort: the first bad row raises, after the rows before it are confirmed. skip: the Prediction of a bad row has `errors`.
        batch_rows : int, default=1000
            Rows of one request, at most about 1 MiB. They are kept until the service confirms them.

        Yields
        ------
        Prediction
            Score and probability of one row.

        Raises
        ------
        InvalidBlock, InvalidLabel, InvalidParams
            A row or an argument is invalid (under skip an argument alone).
        ModelNotFound
            No model has that name.
        Problem
            The service refuses the request; its class names the reason.
        ConnectionFailed
            No answer came before the deadline of `retry`.
        BadAnswer
            The answer is not one of the service's.
        """
        return self._iterate(self._calls.predict_many(model, on_error, batch_rows), rows)

    # ---- evaluation -------------------------------------------------------------------------

    def evaluation(self, model: str, at: Sequence[str] = ()) -> Evaluation:
        """Return AUC and average precision with intervals, and calibration, of the scores before each update.

        Parameters
        ----------
        model : str
            Name of the model, 1 to 64 of `a-z 0-9 _ -`.
        at : sequence of str, optional
            Cuts of the window's ranking, at most 20: `"fpr:0.01"`, `"top:100"`, `"top:0.05"`, `"threshold:0.7"`, `"cost:50"`.

        Returns
        -------
        Evaluation
            Over the window and over all rows.

        Raises
        ------
        InvalidParams
            An argument is invalid; nothing was sent.
        ModelNotFound
            No model has that name.
        Problem
            The service refuses the request; its class names the reason.
        ConnectionFailed
            No answer came before the deadline of `retry`.
        BadAnswer
            The answer is not one of the service's.
        """
        return self._run(self._calls.evaluation(model, at))

    def roc(self, model: str) -> Roc:
        """Return the ROC curve over the window.

        Parameters
        ----------
        model : str
            Name of the model, 1 to 64 of `a-z 0-9 _ -`.

        Returns
        -------
        Roc
            Rates and thresholds; empty until both classes are in the window.

        Raises
        ------
        InvalidParams
            An argument is invalid; nothing was sent.
        ModelNotFound
            No model has that name.
        Problem
            The service refuses the request; its class names the reason.
        ConnectionFailed
            No answer came before the deadline of `retry`.
        BadAnswer
            The answer is not one of the service's.
        """
        return self._run(self._calls.roc(model))

    def weights(self, model: str, *, top: int = 100) -> tuple[Weight, ...]:
        """Return the largest weights by absolute value.

        Parameters
        ----------
        model : str
            Name of the model, 1 to 64 of `a-z 0-9 _ -`.
        top : int, default=100
            How many, 1 to 1,000,000.

        Returns
        -------
        tuple of Weight
            Names and weights, the largest first.

        Raises
        ------
        WeightsUnavailable
            The model keeps no names of its features.
        InvalidParams
            An argument is invalid; nothing was sent.
        ModelNotFound
            No model has that name.
        Problem
            The service refuses the request; its class names the reason.
        ConnectionFailed
            No answer came before the deadline of `retry`.
        BadAnswer
            The answer is not one of the service's.
        """
        return self._run(self._calls.weights(model, top))

    def events(self, model: str, *, after: int | None = None) -> Iterator[ModelEvent]:
        """Iterate over the numbers of a model as they change; end when the model is deleted.

        Parameters
        ----------
        model : str
            Name of the model, 1 to 64 of `a-z 0-9 _ -`.
        after : int, optional
            The event whose numbers the caller knows.

        Yields
        ------
        ModelEvent
            The newest numbers.

        Raises
        ------
        TooManyStreams
            The limit of event streams is reached.
        InvalidParams
            An argument is invalid; nothing was sent.
        ModelNotFound
            No model has that name.
        Problem
            The service refuses the request; its class names the reason.
        ConnectionFailed
            No answer came before the deadline of `retry`.
        BadAnswer
            The answer is not one of the service's.

        Notes
        -----
        A broken stream is opened again within the deadline of `retry`.
        """
        return self._iterate(self._calls.events(model, after))

    def export(
        self, model: str, what: Literal["events", "pending"] = "events"
    ) -> Iterator[ExportedEvent | ExportedPending]:
        """Iterate over the events of a model that the journal holds, or over what waits for a label.

        Parameters
        ----------
        model : str
            Name of the model, 1 to 64 of `a-z 0-9 _ -`.
        what : {"events", "pending"}, default="events"
            What to export, as it was when the request arrived.

        Yields
        ------
        ExportedEvent or ExportedPending
            One line.

        Raises
        ------
        InvalidParams
            An argument is invalid; nothing was sent.
        ModelNotFound
            No model has that name.
        Problem
            The service refuses the request; its class names the reason.
        ConnectionFailed
            The connection broke: what was read so far is not all.
        BadAnswer
            The answer is not one of the service's.
        """
        return self._iterate(self._calls.export(model, what))

    def delete_event(self, model: str, id: str) -> int:
        """Remove the raw record of an example; what the model learned from it stays.

        Parameters
        ----------
        model : str
            Name of the model, 1 to 64 of `a-z 0-9 _ -`.
        id : str
            The id of the example.

        Returns
        -------
        int
            Records that were removed; 0 also where an earlier attempt of the call removed them.

        Raises
        ------
        InvalidParams
            An argument is invalid; nothing was sent.
        ModelNotFound
            No model has that name.
        Problem
            The service refuses the request; its class names the reason.
        ConnectionFailed
            No answer came before the deadline of `retry`.
        BadAnswer
            The answer is not one of the service's.

        Notes
        -----
        A prediction that waits is dropped, and its label is then refused.
        """
        return self._run(self._calls.delete_event(model, id))

    # ---- snapshots ---------------------------------------------------------------------------

    def download_snapshot(self, model: str) -> bytes:
        """Return the whole state of a model.

        Parameters
        ----------
        model : str
            Name of the model, 1 to 64 of `a-z 0-9 _ -`.

        Returns
        -------
        bytes
            A snapshot; `aucstream.from_bytes` reads it.

        Raises
        ------
        InvalidParams
            An argument is invalid; nothing was sent.
        ModelNotFound
            No model has that name.
        Problem
            The service refuses the request; its class names the reason.
        ConnectionFailed
            No answer came before the deadline of `retry`.
        BadAnswer
            The answer is not one of the service's.
        """
        return self._run(self._calls.download_snapshot(model))

    def upload_snapshot(self, model: str, data: bytes, *, if_match: str | None = None) -> Description:
        """Create or replace a model from a snapshot; the request is never sent twice.

        Parameters
        ----------
        model : str
            Name of the model, 1 to 64 of `a-z 0-9 _ -`.
        data : bytes
            The snapshot.
        if_match : str, optional
            The `etag` that the model must have, or "*": it must exist.

        Returns
        -------
        Description
            The model with its `etag`.

        Raises
        ------
        SnapshotRefused
            The snapshot is damaged, foreign or too new.
        PreconditionFailed
            The model has another tag, or does not exist.
        InvalidParams
            An argument is invalid; nothing was sent.
        Problem
            The service refuses the request; its class names the reason.
        ConnectionFailed
            No answer came before the deadline of `retry`.
        BadAnswer
            The answer is not one of the service's.
        """
        return self._run(self._calls.upload_snapshot(model, data, if_match))

    def snapshots(self, model: str) -> tuple[Snapshot, ...]:
        """Return the snapshots that the service keeps of a model, the newest first.

        Parameters
        ----------
        model : str
            Name of the model, 1 to 64 of `a-z 0-9 _ -`.

        Returns
        -------
        tuple of Snapshot
            `seq`, `written_at` and `bytes` of each.

        Raises
        ------
        InvalidParams
            An argument is invalid; nothing was sent.
        ModelNotFound
            No model has that name.
        Problem
            The service refuses the request; its class names the reason.
        ConnectionFailed
            No answer came before the deadline of `retry`.
        BadAnswer
            The answer is not one of the service's.
        """
        return self._run(self._calls.snapshots(model))

    def rollback(self, model: str, snapshot: int, *, if_match: str | None = None) -> RolledBack:
        """Bring a model back to one of its snapshots; ids and waiting examples stay. The request is never sent twice.

        Parameters
        ----------
        model : str
            Name of the model, 1 to 64 of `a-z 0-9 _ -`.
        snapshot : int
            The `seq` of the snapshot.
        if_match : str, optional
            The `etag` that the model must have, or "*": it must exist.

        Returns
        -------
        RolledBack
            The `seq` of this event, the rows learned, and how many fewer (`undone`) or more (`restored`) than before.

        Raises
        ------
        SnapshotNotFound
            The model has no such snapshot.
        PreconditionFailed
            The model has another tag, or does not exist.
        InvalidParams
            An argument is invalid; nothing was sent.
        ModelNotFound
            No model has that name.
        Problem
            The service refuses the request; its class names the reason.
        ConnectionFailed
            No answer came before the deadline of `retry`.
        BadAnswer
            The answer is not one of the service's.
        """
        return self._run(self._calls.rollback(model, snapshot, if_match))

    # ---- the service -------------------------------------------------------------------------

    def live(self) -> bool:
        """Return whether the process answers.

        Returns
        -------
        bool
            Whether the answer is 200.
        """
        return self._run(self._calls.live())

    def ready(self) -> bool:
        """Return whether the service accepts work.

        Returns
        -------
        bool
            Whether the answer is 200.
        """
        return self._run(self._calls.ready())

    def wait_ready(self, seconds: float = 60.0) -> None:
        """Wait until the service is ready.

        Parameters
        ----------
        seconds : float, default=60.0
            The longest wait.

        Raises
        ------
        Problem, ConnectionFailed
            The last outcome, when the time is over.
        """
        self._run(self._calls.wait_ready(seconds))

    def metrics(self, *, openmetrics: bool = False) -> str:
        """Return the metrics of the service.

        Parameters
        ----------
        openmetrics : bool, default=False
            In the format of OpenMetrics instead of Prometheus' text format.

        Returns
        -------
        str
            All families.

        Raises
        ------
        Problem
            The service refuses the request; its class names the reason.
        ConnectionFailed
            No answer came before the deadline of `retry`.
        """
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
        check_open(http.is_closed)
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
