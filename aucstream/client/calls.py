"""Each call of the service as a flow: its request, whether it may be repeated, and its result."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypedDict, TypeVar
from urllib.parse import quote

import msgspec
import numpy as np

from aucstream.answers import (
    Evaluation,
    ExportedEvent,
    ExportedPending,
    ModelEvent,
    Predicted,
    Removed,
    Roc,
    RolledBack,
    Snapshot,
    Snapshots,
    Weight,
    Weights,
)
from aucstream.client.answers import Description, Learned, LearnedMany, Page
from aucstream.client.decoding import decode
from aucstream.client.flow import (
    Emit,
    Flow,
    Patience,
    Read,
    Reply,
    Request,
    Send,
    Sleep,
    exchange,
    is_passing,
    open_stream,
)
from aucstream.client.many import Encode, Ids, Learning, OnError, Scoring
from aucstream.client.problems import ClientError, ConnectionFailed, ModelNotFound, Problem, problem_of
from aucstream.client.retry import Retry
from aucstream.client.rows import (
    Example,
    Features,
    Line,
    label_line,
    label_row,
    learn_line,
    learn_row,
    predict_line,
    predict_row,
)
from aucstream.client.sse import EventReader
from aucstream.errors import InvalidParams
from aucstream.version import __version__

DEFAULT_URL = "http://127.0.0.1:8000"
JSON = {"Content-Type": "application/json"}
MERGE_PATCH = {"Content-Type": "application/merge-patch+json"}
OCTETS = {"Content-Type": "application/octet-stream"}
SILENCE_SECONDS = 60.0  # an event stream that says nothing for four of the service's heartbeats is dead
PROBE_SECONDS = 5.0  # time to answer /livez and /readyz
POLL_SECONDS = 0.1

EXPORTS: dict[str, type[ExportedEvent] | type[ExportedPending]] = {"events": ExportedEvent, "pending": ExportedPending}
NAME = re.compile(r"[a-z0-9_-]{1,64}\Z")
AUTO: Final = "auto"

T = TypeVar("T")


def base_of(url: str) -> str:
    """Return the address without a slash at its end, or raise InvalidParams."""
    if not re.match(r"https?://[^/?#]+[^?#]*\Z", url):
        raise InvalidParams("base_url", "http://host:port or https://host:port", url)
    return url.rstrip("/")


def headers_of(api_key: str | None) -> dict[str, str]:
    """Return what every request says; the key is the argument, or AUCSTREAM_API_KEY, or that of its _FILE."""
    headers = {"User-Agent": f"aucstream-python/{__version__}"}
    key = _key_of_environment() if api_key is None else api_key
    if key is not None:
        if not key or not key.isascii() or not key.isprintable() or " " in key:
            raise InvalidParams("api_key", "visible ASCII characters, at least one")  # the key is not shown
        headers["Authorization"] = f"Bearer {key}"
    return headers


def _key_of_environment() -> str | None:
    key, file = os.environ.get("AUCSTREAM_API_KEY"), os.environ.get("AUCSTREAM_API_KEY_FILE")
    if key and file:
        raise InvalidParams("api_key", "one of AUCSTREAM_API_KEY and AUCSTREAM_API_KEY_FILE, got both")
    if file:
        try:
            return Path(file).read_text("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidParams("AUCSTREAM_API_KEY_FILE", f"a readable file ({error})") from error
    return key or None


class Spec(TypedDict, total=False):
    """What `create` takes beside the algorithm, each as in the body of `PUT /v1/models/{name}`."""

    params: Mapping[str, Any]
    scaler: str | None
    map: Mapping[str, Any] | None
    encoder: Mapping[str, Any] | None
    calibration: str
    evaluation: Mapping[str, int]
    pending: Mapping[str, Any]
    seed: int | None


class Calls:
    """The calls; `timeout` is how long an answer may be silent."""

    def __init__(self, retry: Retry, timeout: float) -> None:
        self._retry = retry
        self._timeout = timeout

    # ---- models ------------------------------------------------------------------------------

    def create(self, model: str, algorithm: str, spec: Spec, if_match: str | None) -> Flow[Description]:
        """PUT /v1/models/{name}."""
        body = _document("spec", {"algorithm": algorithm, **spec})
        return self._described(Request("PUT", _path(model), body, JSON | _matching(if_match)))

    def models(self, page: int) -> Flow[None]:
        """GET /v1/models, page by page."""
        cursor: str | None = None
        while True:
            path = f"/v1/models?limit={int(page)}" + ("" if cursor is None else f"&cursor={quote(cursor)}")
            answer = yield from self._answer(Request("GET", path), Page)
            for description in answer.models:
                yield Emit(description)
            if answer.next is None:
                return
            cursor = answer.next

    def describe(self, model: str) -> Flow[Description]:
        """GET /v1/models/{name}."""
        return self._described(Request("GET", _path(model)))

    def patch(self, model: str, changes: Mapping[str, Any], if_match: str | None) -> Flow[Description]:
        """PATCH /v1/models/{name}."""
        if not isinstance(changes, Mapping):
            raise InvalidParams("changes", "a mapping of parts of the spec", changes)
        return self._described(
            Request("PATCH", _path(model), _document("changes", dict(changes)), MERGE_PATCH | _matching(if_match))
        )

    def reset_evaluation(self, model: str, if_match: str | None) -> Flow[Description]:
        """POST …/reset-evaluation; never sent twice: the second would forget the rows since the first."""
        return self._described(
            Request("POST", _path(model, "reset-evaluation"), b"{}", JSON | _matching(if_match), False)
        )

    def rename(self, model: str, to: str, if_match: str | None) -> Flow[Description]:
        """POST …/rename."""
        _path(to)
        body = _document("to", {"to": to})
        request = Request("POST", _path(model, "rename"), body, JSON | _matching(if_match))
        try:
            reply, _ = yield from exchange(request, self._retry, self._timeout)
        except ModelNotFound as error:
            if error.attempts == 1:
                raise
            return (yield from self.describe(to))  # the answer of an earlier attempt was lost
        return msgspec.structs.replace(decode(Description, reply.content), etag=reply.headers.get("etag"))

    def delete(self, model: str, if_match: str | None) -> Flow[None]:
        """DELETE /v1/models/{name}."""
        try:
            yield from self._reply(Request("DELETE", _path(model), headers=_matching(if_match)))
        except ModelNotFound as error:
            if error.attempts == 1:
                raise  # else the answer of an earlier attempt was lost

    # ---- one row -----------------------------------------------------------------------------

    def learn_one(self, model: str, features: Features, label: object, weight: float, id_: str | None) -> Flow[Learned]:
        """POST …/learn-one."""
        make = id_ == AUTO
        line = learn_line(Example(features, label, weight, None if make else id_), make_id=make)
        request = self._post(model, "learn-one", line, safe=line.id is not None)
        try:
            reply, attempts = yield from exchange(request, self._retry, self._timeout)
            learned = decode(Learned, reply.content)
        except ClientError as error:
            error.id = line.id
            raise
        # an id made for this call can only be its own, from an attempt whose answer was lost
        repeated = line.new_id and attempts > 1
        return msgspec.structs.replace(learned, id=line.id, duplicate=learned.duplicate and not repeated)

    def predict_one(self, model: str, features: Features, id_: str | None, explain: bool) -> Flow[Predicted]:
        """POST …/predict-one."""
        line = predict_line(Example(features, id=id_), explain=bool(explain))
        return self._answer(self._post(model, "predict-one", line), Predicted)

    def label_one(self, model: str, id_: str, label: object) -> Flow[Learned]:
        """POST …/label-one."""
        learned = yield from self._answer(self._post(model, "label-one", label_line(id_, label)), Learned)
        return msgspec.structs.replace(learned, id=id_)

    # ---- many rows ---------------------------------------------------------------------------

    def learn_many(self, model: str, ids: Ids, on_error: OnError, batch_rows: int, *, each: bool) -> Flow[LearnedMany]:
        """POST …/learn-many, batch by batch."""
        if ids not in (AUTO, None):
            raise InvalidParams("ids", "'auto' or None", ids)

        def encode(row: object, path: str) -> Any:
            return learn_line(learn_row(row, path), path, make_id=ids == AUTO)

        return self._learning(model, "learn-many", encode, on_error, batch_rows, each)

    def label_many(self, model: str, on_error: OnError, batch_rows: int, *, each: bool) -> Flow[LearnedMany]:
        """POST …/label-many, batch by batch."""

        def encode(row: object, path: str) -> Any:
            return label_line(*label_row(row, path), path)

        return self._learning(model, "label-many", encode, on_error, batch_rows, each)

    def predict_many(self, model: str, on_error: OnError, batch_rows: int) -> Flow[LearnedMany]:
        """POST …/predict-many, batch by batch; emits each Prediction."""

        def encode(row: object, path: str) -> Any:
            return predict_line(predict_row(row, path), path)

        return Scoring(_path(model, "predict-many"), encode, self._retry, self._timeout, on_error, batch_rows).run()

    def _learning(
        self, model: str, call: str, encode: Encode, on_error: str, batch_rows: int, each: bool
    ) -> Flow[LearnedMany]:
        return Learning(_path(model, call), encode, self._retry, self._timeout, on_error, batch_rows, each=each).run()

    # ---- evaluation -------------------------------------------------------------------------

    def evaluation(self, model: str, at: Sequence[str]) -> Flow[Evaluation]:
        """GET …/evaluation."""
        if isinstance(at, str) or not all(isinstance(text, str) for text in at):
            raise InvalidParams("at", "texts such as 'fpr:0.01'", at)
        query = "&".join(f"at={quote(text, safe=':')}" for text in at)
        path = _path(model, "evaluation")
        return self._answer(Request("GET", f"{path}?{query}" if query else path), Evaluation)

    def roc(self, model: str) -> Flow[Roc]:
        """GET …/roc."""
        return self._answer(Request("GET", _path(model, "roc")), Roc)

    def weights(self, model: str, top: int) -> Flow[tuple[Weight, ...]]:
        """GET …/weights."""
        answer = yield from self._answer(Request("GET", _path(model, f"weights?top={int(top)}")), Weights)
        return answer.weights

    def events(self, model: str, after: int | None) -> Flow[None]:
        """GET …/events; opens the stream again when it breaks, until the model is gone."""
        patience = Patience(self._retry)
        last_id = None if after is None else str(int(after))
        while True:
            reader = EventReader()
            headers = {"Accept": "text/event-stream", **({} if last_id is None else {"Last-Event-ID": last_id})}
            error: ClientError = ConnectionFailed("expected an event stream that goes on, got its end", sent=True)
            retry_after: float | None = None
            received = False
            try:
                yield from open_stream(
                    Request("GET", _path(model, "events"), headers=headers), patience.timeout(SILENCE_SECONDS)
                )
                while part := (yield Read()):
                    received = True
                    for event in reader.feed(part):
                        if event.kind == "message":
                            last_id = event.id
                            yield Emit(decode(ModelEvent, event.data.encode()))
                        elif event.kind != "end":  # alarms: the numbers after them count them
                            continue
                        elif '"deleted"' in event.data:
                            return
                        elif '"replaced"' in event.data:
                            last_id = None  # numbers of another state
            except (ConnectionFailed, Problem) as failure:
                if not is_passing(failure):
                    raise
                error, retry_after = failure, getattr(failure, "retry_after", None)
            if received:
                patience.renew()  # however long the caller took for the last event
            yield patience.pause(error, reader.retry if retry_after is None else retry_after)

    def export(self, model: str, what: str) -> Flow[None]:
        """GET …/export, line by line; a connection that breaks is not opened again."""
        if what not in EXPORTS:
            raise InvalidParams("what", "'events' or 'pending'", what)
        kind = EXPORTS[what]
        yield from open_stream(Request("GET", _path(model, f"export?what={what}")), self._timeout)
        rest = b""
        while part := (yield Read()):
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                yield Emit(decode(kind, line))

    def delete_event(self, model: str, id_: str) -> Flow[int]:
        """DELETE …/events?id=."""
        if not isinstance(id_, str) or not id_:
            raise InvalidParams("id", "the id of an example", id_)
        answer = yield from self._answer(Request("DELETE", _path(model, f"events?id={quote(id_, safe='')}")), Removed)
        return answer.removed

    # ---- snapshots ---------------------------------------------------------------------------

    def download_snapshot(self, model: str) -> Flow[bytes]:
        """GET …/snapshot."""
        reply = yield from self._reply(Request("GET", _path(model, "snapshot")))
        return reply.content

    def upload_snapshot(self, model: str, data: bytes, if_match: str | None) -> Flow[Description]:
        """PUT …/snapshot; never sent twice: the second would undo what was learned since the first."""
        headers = OCTETS | _matching(if_match)
        return self._described(Request("PUT", _path(model, "snapshot"), bytes(data), headers, safe=False))

    def snapshots(self, model: str) -> Flow[tuple[Snapshot, ...]]:
        """GET …/snapshots."""
        answer = yield from self._answer(Request("GET", _path(model, "snapshots")), Snapshots)
        return answer.snapshots

    def rollback(self, model: str, snapshot: int, if_match: str | None) -> Flow[RolledBack]:
        """POST …/rollback; never sent twice: the second would undo what was learned since the first."""
        body = _document("snapshot", {"snapshot": int(snapshot)})
        return self._answer(
            Request("POST", _path(model, "rollback"), body, JSON | _matching(if_match), False), RolledBack
        )

    # ---- the service -------------------------------------------------------------------------

    def live(self) -> Flow[bool]:
        """GET /livez."""
        return self._probe("/livez")

    def ready(self) -> Flow[bool]:
        """GET /readyz."""
        return self._probe("/readyz")

    def wait_ready(self, seconds: float) -> Flow[None]:
        """GET /readyz until it is."""
        until = time.monotonic() + seconds
        while True:
            try:
                reply = yield Send(Request("GET", "/readyz"), min(PROBE_SECONDS, max(0.001, seconds)))
                if reply.status == 200:
                    return
                error: ClientError = problem_of(reply.status, reply.headers, reply.content)
            except ConnectionFailed as failure:
                error = failure
            if not is_passing(error) or time.monotonic() + POLL_SECONDS > until:
                raise error
            yield Sleep(POLL_SECONDS)

    def metrics(self, *, openmetrics: bool) -> Flow[str]:
        """GET /metrics."""
        accept = "application/openmetrics-text; version=1.0.0" if openmetrics else "text/plain"
        reply = yield from self._reply(Request("GET", "/metrics", headers={"Accept": accept}))
        return reply.content.decode()

    # ---- parts -------------------------------------------------------------------------------

    def _post(self, model: str, call: str, line: Line, *, safe: bool = True) -> Request:
        return Request("POST", _path(model, call), line.data, JSON, safe)

    def _reply(self, request: Request) -> Flow[Reply]:
        reply, _ = yield from exchange(request, self._retry, self._timeout)
        return reply

    def _answer(self, request: Request, kind: type[T]) -> Flow[T]:
        reply = yield from self._reply(request)
        return decode(kind, reply.content)

    def _described(self, request: Request) -> Flow[Description]:
        reply = yield from self._reply(request)
        return msgspec.structs.replace(decode(Description, reply.content), etag=reply.headers.get("etag"))

    def _probe(self, path: str) -> Flow[bool]:
        try:
            reply = yield Send(Request("GET", path), PROBE_SECONDS)
        except ConnectionFailed:
            return False
        return bool(reply.status == 200)


def _path(model: str, call: str = "") -> str:
    if not isinstance(model, str) or NAME.match(model) is None:
        raise InvalidParams("model", "a name of 1 to 64 of a-z 0-9 _ -", model)
    return f"/v1/models/{model}/{call}" if call else f"/v1/models/{model}"


def _document(where: str, value: dict[str, Any]) -> bytes:
    try:
        return json.dumps(value, allow_nan=False, default=_plain).encode()
    except (TypeError, ValueError) as error:
        raise InvalidParams(where, f"finite numbers, bools, strings, lists, dicts and None ({error})") from error


def _matching(etag: str | None) -> dict[str, str]:
    if etag is None:
        return {}
    if not isinstance(etag, str) or not etag or not etag.isascii() or not etag.isprintable():
        raise InvalidParams("if_match", "the etag of a description, or '*'", etag)
    return {"If-Match": etag}


def _plain(value: object) -> Any:
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"got {type(value).__name__}")
