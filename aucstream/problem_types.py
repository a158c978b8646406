"""The types of problem documents (RFC 9457) that the HTTP service answers with: one table for all who name them.

The exceptions of the library, of the service and of the client are declared against an entry
(`class LabelConflict(ServiceError, problem="label-conflict")`). Answers, the OpenAPI document and docs/problems.md
are made from the same entries.
"""

from __future__ import annotations

from dataclasses import dataclass

TYPE_PREFIX = "urn:aucstream:problem:"


@dataclass(frozen=True, slots=True)
class ProblemType:
    """One type of problem document.

    Attributes
    ----------
    name : str
        The `type` of the document without `TYPE_PREFIX`.
    status : int
        The HTTP status.
    title : str
        What was refused, as the document says it.
    meaning : str
        When the service answers this, and what to do.
    passes : bool
        Whether the same request may succeed later.
    """

    name: str
    status: int
    title: str
    meaning: str
    passes: bool = False

    @property
    def uri(self) -> str:
        """The `type` of the document."""
        return TYPE_PREFIX + self.name


# fmt: off
_ENTRIES = (
    ProblemType("bad-request", 400, "The bytes are not an HTTP request",
        "The request does not follow RFC 9112, or the chunks of its body break. The connection ends. Correct the client or the proxy that wrote it."),
    ProblemType("unauthorized", 401, "A valid API key is needed",
        "The request has no key, or one that is unknown, revoked or expired. Send a key as `Authorization: Bearer KEY` or as `X-API-Key: KEY`."),
    ProblemType("forbidden", 403, "The API key does not allow this",
        "The call needs a key with a higher role, or one for this model; `detail` says which."),
    ProblemType("not-found", 404, "No such path",
        "No call has this path. `/openapi.json` lists all paths."),
    ProblemType("model-not-found", 404, "No model has that name",
        "The path names a model that does not exist; `near` lists similar names. Correct the name, or create the model."),
    ProblemType("snapshot-not-found", 404, "The model has no such snapshot",
        "`GET …/snapshots` lists those that are there. The service keeps the newest `--snapshot-keep`."),
    ProblemType("unknown-id", 404, "No prediction with that id waits for a label",
        "The service knows nothing of the id, or has forgotten it. Predict under the id before its label comes, or learn the whole example."),
    ProblemType("method-not-allowed", 405, "The path does not take this method",
        "The path exists with other methods; the header `Allow` lists them."),
    ProblemType("slow-request", 408, "The request took too long to come",
        "The head or the body arrived too slowly. The connection ends; rows of a stream that were learned before stay learned. Send smaller requests.", passes=True),
    ProblemType("spec-conflict", 409, "The name is taken by a model with another spec",
        "The model exists with another spec and stays as it is. Choose another name, or delete the model first."),
    ProblemType("fixed-setting", 409, "The setting of a model cannot change while it lives",
        "The model stays as it is. Another value needs another model: create one, and send it the rows that `GET …/export?what=events` gives where it is to learn the events of this one."),
    ProblemType("name-taken", 409, "A model has the new name",
        "Neither model was renamed. Choose another name, or delete or rename the other model first."),
    ProblemType("label-conflict", 409, "The other label came first for this id",
        "The id was learned with the other label, which stays; `first_label` holds it. Use one id for each example."),
    ProblemType("features-conflict", 409, "The id was predicted before with other features",
        "The first features of the id stay. Use one id for each example."),
    ProblemType("already-labelled", 409, "The id was learned before",
        "The id was learned without a prediction, so there is no first answer to repeat. Use one id for each example."),
    ProblemType("label-expired-negative", 409, "The example expired and was learned as negative",
        "A positive label came after the time to live of its prediction. A longer `pending.ttl_seconds` leaves labels more time."),
    ProblemType("cannot-merge", 409, "The models cannot be merged exactly",
        "The models differ in class or parameters, or have no exact merge."),
    ProblemType("weights-unavailable", 409, "The model keeps no names of its features",
        "The model hashes the names of its features or maps them, so its weights belong to no name. Use a spec without `bits` and `map`."),
    ProblemType("expired", 410, "The example expired before its label came",
        "The example was discarded when its time to live was over, or removed on request. A longer `pending.ttl_seconds` leaves labels more time."),
    ProblemType("precondition-failed", 412, "The model is not as the request expects",
        "`If-Match` or `If-None-Match` does not hold, and nothing was changed. Read the `ETag` of the model and decide again."),
    ProblemType("body-too-large", 413, "The body is over its limit",
        "A body, a line or a list of rows exceeds its limit; `detail` names the limit. Send smaller parts, or rows as NDJSON, which has no limit as a whole."),
    ProblemType("url-too-long", 414, "The URL is over its limit",
        "`detail` names the limit. Shorten the query."),
    ProblemType("unsupported-media-type", 415, "The content type is not accepted here",
        "The content type is missing or not accepted, the body is compressed and `--inflate` is not set, or pyarrow is not installed. `detail` lists what is accepted."),
    ProblemType("host-not-allowed", 421, "The service does not answer to this host name",
        "The header `Host` names a host that is not allowed; this protects against DNS rebinding. Add the name to `--allowed-hosts`."),
    ProblemType("invalid-request", 422, "The request cannot be carried out",
        "`detail` says what the service expected."),
    ProblemType("malformed-json", 422, "The body is not JSON",
        "The body is not JSON in UTF-8 (RFC 8259), or it nests too deeply."),
    ProblemType("malformed-arrow", 422, "The body is not an Arrow stream",
        "The body is no Arrow IPC stream, or the stream is cut or damaged. Write it with `pyarrow.ipc.new_stream`."),
    ProblemType("invalid-body", 422, "The body does not fit its description",
        "`errors` points to each field that was refused. Correct these fields."),
    ProblemType("bad-encoding", 422, "The body is not what its Content-Encoding says",
        "The body is no gzip or zstd stream, or the stream is cut or inflates too far."),
    ProblemType("invalid-query", 422, "A query parameter is out of its range",
        "A query parameter is unknown, comes twice, or is out of its range; `detail` names it."),
    ProblemType("invalid-name", 422, "The model name is not allowed",
        "A model name has 1 to 64 of the characters a-z, 0-9, `_` and `-`."),
    ProblemType("invalid-params", 422, "A parameter of the spec is out of its range",
        "`errors` points to the parameter. `aucstream models` lists the parameters of each algorithm and their ranges."),
    ProblemType("unknown-algorithm", 422, "No algorithm has that name",
        "`detail` lists the names of the algorithms."),
    ProblemType("invalid-features", 422, "The features cannot be used",
        "`errors` points to the feature: a value that is no finite number, string, boolean, list of strings or null, or too many or too long names."),
    ProblemType("invalid-label", 422, "The label is not one of the two classes",
        "A negative label is false, 0 or -1, a positive one true or 1."),
    ProblemType("non-finite-step", 422, "The step would leave the model non-finite: row skipped",
        "The row was not learned and the model is as before. Scale the features, or choose a smaller step size."),
    ProblemType("non-finite-score", 422, "The score is not a finite number",
        "The features are so large that their score overflows. Scale the features."),
    ProblemType("bad-snapshot", 422, "The snapshot is damaged or foreign",
        "The body is no snapshot of this service, or some of its bytes were changed or lost. Download it again."),
    ProblemType("newer-snapshot", 422, "The snapshot was made by a newer version",
        "Update the service before the upload."),
    ProblemType("queue-full", 429, "Too much is waiting: try again later",
        "Rows arrive faster than the journal writes them. Send again after `Retry-After`.", passes=True),
    ProblemType("pending-full", 429, "Too many examples wait for their label",
        "The model keeps as many predictions as `pending.capacity` allows, and `pending.when_full` is `refuse`, or an early label came. Send again when labels came or predictions expired, or raise the capacity.", passes=True),
    ProblemType("too-many-models", 429, "The limit of models is reached",
        "The service holds `--max-models` models. Delete one; time alone does not help."),
    ProblemType("rate-limited", 429, "The rate of this key is reached",
        "The key may send `--rate` requests a second and `--burst` at once (`aucstream keys create`). Send again after `Retry-After`.", passes=True),
    ProblemType("too-many-streams", 429, "The limit of event streams is reached",
        "`--max-event-streams` streams are open. Open the stream again when another one has ended.", passes=True),
    ProblemType("headers-too-large", 431, "The headers are over their limit",
        "The headers are too many or too long; `detail` names the limit."),
    ProblemType("internal-error", 500, "An unexpected error; the log has its place under this request id",
        "This is a fault of the service. Report it with the line of the log."),
    ProblemType("not-implemented", 501, "No path knows this method or transfer coding",
        "The service knows the methods of HTTP and the transfer coding `chunked`."),
    ProblemType("overloaded", 503, "Too many connections or bodies at once: try again later",
        "A limit on connections or on memory for bodies is reached. Send again after `Retry-After`.", passes=True),
    ProblemType("not-ready", 503, "The service is starting or stopping",
        "The service replays its journal, or it stops. Send again when `/readyz` answers 200.", passes=True),
    ProblemType("journal-unavailable", 503, "The journal cannot be written: nothing is learned",
        "A write or a flush failed. The service opens its journal again by itself when the disk works, and scores meanwhile. Send again after `Retry-After`; look at the disk and the log.", passes=True),
    ProblemType("model-faulted", 503, "The model is set aside after a fault",
        "The service cannot recover this model; the others serve. The log has the reason. Delete the model, or run `aucstream fsck`."),
    ProblemType("version-not-supported", 505, "HTTP 1.1 and 1.0 are spoken here",
        "Send the request as HTTP/1.1."),
)
# fmt: on

PROBLEM_TYPES = {entry.name: entry for entry in _ENTRIES}
