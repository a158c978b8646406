"""Bodies of the hot calls: JSON bytes to checked rows, with the field named when they are refused.

A name that stands twice in one JSON object is refused. msgspec takes the last without a word; but each name has
its colon, so a body with no more colons than decoded names has none twice: a count, where a second reading would
cost more than the first.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from aucstream.answers import schema
from aucstream.block import Block, Floats, sign_of
from aucstream.errors import AucstreamError, Description, InvalidBlock, InvalidLabel
from aucstream.features.encoding.entries import entries_of
from aucstream_service.errors.exceptions import InvalidBody, MalformedBody, pointer_of
from aucstream_service.errors.problems import tokens_of
from aucstream_service.errors.refusal_text import kind_of_number, names_in, of_validator
from aucstream_service.journal import column_events as columns
from aucstream_service.journal.rules import Prediction

if TYPE_CHECKING:
    from aucstream_service.journal.commands import Joined

MAX_ID_LENGTH = 256

Features = dict[str, Any] | list[Any]
Numbers = list[float] | Floats


_WORDS = {"type": "array", "items": {"type": "string"}}

# What the structs of bodies say to OpenAPI; none of it changes what they decode.
_Value = Annotated[Any, schema(anyOf=[{"type": kind} for kind in ("number", "boolean", "string", "null")] + [_WORDS])]
_Number = Annotated[Any, schema(type="number")]
_Features = Annotated[
    dict[str, _Value] | list[_Number],
    schema(
        "An object of names (number, bool, string = one-hot, list of strings = multi-hot, null = missing), or an array "
        "of numbers; one model takes either names or arrays. An object with a name that stands twice is refused.",
        {"amount": 12.5, "country": "CH", "tags": ["new", "mobile"], "age": None},
    ),
]
_Label = Annotated[Any, schema("negative: false, 0, -1; positive: true, 1", True, enum=[False, True, 0, 1, -1])]
_Id = Annotated[str, schema(minLength=1, maxLength=MAX_ID_LENGTH, pattern=r"^[^\s\x00-\x1f\x7f]+$")]


class LearnBody(msgspec.Struct, forbid_unknown_fields=True):
    """One labelled example."""

    features: _Features
    label: _Label
    weight: Annotated[
        float, schema("0: gets a seq and counts in the AUC, but leaves the model as it is", minimum=0)
    ] = 1.0
    id: Annotated[_Id | None, schema("learned at most once; retries with an id are safe", "click-1")] = None


class PredictBody(msgspec.Struct, forbid_unknown_fields=True):
    """One example to score."""

    features: _Features
    id: Annotated[
        _Id | None,
        schema("the example waits under it for its label; the same id and features: the first answer", "click-2"),
    ] = None
    explain: Annotated[
        bool, schema("true: what each name adds to the score; predict-one only, refused in predict-many")
    ] = False


class LabelBody(msgspec.Struct, forbid_unknown_fields=True):
    """The label of an example that was predicted under an id."""

    id: Annotated[_Id, schema(example="click-2")]
    label: _Label


class EventRow(LearnBody, forbid_unknown_fields=True):
    """One row of an event: a learn body as it came, or one that was predicted before."""

    score: float | None = None
    probability: float | None = None


_LEARN = msgspec.json.Decoder(LearnBody)
_LABEL = msgspec.json.Decoder(LabelBody)
_EVENT = msgspec.json.Decoder(EventRow | None)
ERASED = b"null"  # in an event: a row whose raw record was removed on request
_encode = msgspec.json.Encoder().encode
_PREDICT = msgspec.json.Decoder(PredictBody)
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_RAW_LIST = msgspec.json.Decoder(list[msgspec.Raw])


Item = tuple[int, bytes | msgspec.Raw | None]  # a row of a -many body: its place (index or line number), its bytes


@dataclass(frozen=True, slots=True)
class RowLimits:
    """The limits of one row (from the settings)."""

    features: int
    name_length: int


@dataclass(slots=True)
class Rows:
    """Checked rows to learn, column by column, and the bytes that the journal keeps of them.

    Labels by id have no features.
    """

    features: Sequence[Features]
    signs: Numbers  # with the weights arrays where the features are Columns
    weights: Numbers | None
    ids: list[str | None] | None
    size: int
    payload: Callable[[Sequence[int] | None], bytes]
    line: Callable[[int], bytes] | None = None  # one row as a line of JSON; None: as `payload` of it alone
    block: Block | None = None  # the rows, where all their names are known

    def __len__(self) -> int:
        return len(self.signs)

    @property
    def sample(self) -> Sequence[Features]:
        """A row, for its form."""
        return self.features[:1]

    def digest(self, row: int) -> bytes:
        """Return the digest of a row's features."""
        return digest_of(self.features[row])


class Predictions:
    """Scored rows with ids, which wait for their labels."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.features: list[bytes] = []
        self.firsts: list[Prediction] = []  # the answer, unless there is an earlier one
        self.sample: list[Features] = []
        self.size = 0

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


# ---- bytes to bodies --------------------------------------------------------------------------


def learn_body(data: bytes | msgspec.Raw) -> LearnBody:
    """Decode one learn body, or raise InvalidBody naming the field."""
    try:
        body = _LEARN.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise explained(bytes(data), error) from None
    features = body.features
    names = 2 + (len(features) if type(features) is dict else 0) + (body.weight != 1.0) + (body.id is not None)
    text = data if type(data) is bytes else bytes(data)
    if text.count(b":") != names:
        _look_closer(text, names, features, body.id)
    return body


def learn_bodies(lines: Sequence[bytes]) -> list[LearnBody] | None:
    """Decode lines of learn bodies in one go; None where one is refused, or has to be looked at more closely."""
    return _decoded(_LEARN, lines, lambda bodies: 2 * len(bodies) + sum(body.weight != 1.0 for body in bodies))


def predict_bodies(lines: Sequence[bytes]) -> list[PredictBody] | None:
    """Decode lines of predict bodies as `learn_bodies` does."""
    return _decoded(_PREDICT, lines, lambda bodies: len(bodies) + sum(body.explain for body in bodies))


def _decoded(decoder: Any, lines: Sequence[bytes], fields: Callable[[list[Any]], int]) -> list[Any] | None:
    text = b"\n".join(lines)
    try:
        bodies: list[Any] = decoder.decode_lines(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    names = fields(bodies) + len(bodies) - [body.id for body in bodies].count(None)
    names += sum([len(body.features) for body in bodies if type(body.features) is dict])
    # No line has fewer colons than names: where they are as many in all, they are in each.
    return bodies if len(bodies) == len(lines) and text.count(b":") == names else None


def predict_body(data: bytes | msgspec.Raw) -> PredictBody:
    """Decode one predict body, or raise InvalidBody naming the field."""
    try:
        body = _PREDICT.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise explained(bytes(data), error) from None
    features = body.features
    names = 1 + (len(features) if type(features) is dict else 0) + (body.id is not None) + body.explain
    text = data if type(data) is bytes else bytes(data)
    if text.count(b":") != names:
        _look_closer(text, names, features, body.id)
    return body


def label_body(data: bytes | msgspec.Raw) -> LabelBody:
    """Decode one label body, or raise InvalidBody naming the field."""
    try:
        body = _LABEL.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise explained(bytes(data), error) from None
    text = data if type(data) is bytes else bytes(data)
    if text.count(b":") != 2:
        _look_closer(text, 2, [], body.id)
    return body


def _look_closer(data: bytes, names: int, features: Features, id_: str | None) -> None:
    """Raise InvalidBody if a name stands twice; strings may hold colons, too, and fields their defaults."""
    colons = data.count(b":") - names
    if b"\\u003" not in data:  # a colon written so would make up for a name
        if id_ is not None:
            colons -= id_.count(":")
        if colons and type(features) is dict:
            colons -= "".join(features).count(":") + sum(map(_colons, features.values()))
        if not colons or colons == len(_FIELDS.decode(data)) - names + len(features) * (type(features) is dict):
            return
    refuse_twice(data)


def _colons(value: Any) -> int:
    if type(value) is str:
        return value.count(":")
    return sum(map(_colons, value)) if type(value) is list else 0


def refuse_twice(data: bytes) -> None:
    """Raise InvalidBody if a name stands twice in an object of a body that can be decoded."""
    try:
        document = json.loads(data, object_pairs_hook=_unique)
    except RecursionError:
        raise MalformedBody("body", "JSON that nests less deeply", pointer="") from None
    for tokens, value in _walked(document):
        if isinstance(value, _Twice):
            pointer = pointer_of(names_in([*tokens, value.name]))
            raise InvalidBody(
                "body", "each name once", Description("one that comes again"), path=pointer, pointer=pointer
            )


def raw_list(data: bytes) -> list[msgspec.Raw]:
    """Split a JSON array into its elements without decoding them."""
    try:
        return _RAW_LIST.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise explained(data, error) from None


def replayed(payload: bytes) -> list[EventRow | None]:
    """Decode the payload of an event whose rows are learned, one a line; None: removed on request."""
    return _EVENT.decode_lines(payload)


def event_line(row: Joined) -> bytes:
    """Return the line of an event for a prediction that is learned."""
    probability = b"" if row.probability is None else b',"probability":%s' % _encode(row.probability)
    return b'{"features":%s,"label":%d,"weight":%s,"id":%s,"score":%s%s}' % (
        row.features,
        row.sign > 0,
        _encode(row.weight),
        _encode(row.id),
        _encode(row.score),
        probability,
    )


def expired_line(id_: str) -> bytes:
    """Return the line of an event for a prediction that is discarded."""
    return b'{"id":%s}' % _encode(id_)


def without(payload: bytes, id_: str) -> tuple[bytes, list[int]]:
    """Return the payload of an event without the rows of this id, and which lines they were."""
    if columns.is_columns(payload):
        return columns.without(payload, id_)
    if _encode(id_)[1:-1] not in payload and b"\\u" not in payload:
        return payload, []
    lines = payload.split(b"\n")
    found = []
    for at, line in enumerate(lines):
        row = msgspec.json.decode(line)
        if row is not None and row.get("id") == id_:
            lines[at] = ERASED
            found.append(at)
    return b"\n".join(lines), found


def features_of(data: bytes) -> Features:
    """Return the features of a prediction that waited."""
    features: Features = msgspec.json.decode(data)
    return features


def digest_of(features: Features) -> bytes:
    """Return a digest that is equal for features that mean the same to a model.

    The order of names, 1 or 1.0, null or absent, "v" or ["v"] make no difference.
    """
    if isinstance(features, dict):
        meant: Any = sorted((name, value + 0.0, kind) for name, value, kind in entries_of(features))
    else:
        meant = [value + 0.0 for value in features]  # + 0.0: a float, and no negative zero
    return hashlib.blake2b(_encode(meant), digest_size=16).digest()


def compact(raw: msgspec.Raw | bytes) -> bytes:
    """Return one JSON value as one line (a value printed over several lines is joined)."""
    data = bytes(raw)
    return msgspec.json.format(data, indent=-1) if b"\n" in data or b"\r" in data else data


def no_payload(_taken: Sequence[int] | None) -> bytes:
    """Return nothing: an event of labels is made of the predictions they belong to."""
    return b""


def lines_of(raws: Sequence[msgspec.Raw | bytes]) -> bytes:
    """Return JSON values as lines, one each."""
    text = b"\n".join(raws)
    if text.count(b"\n") == len(raws) - 1 and b"\r" not in text:
        return text
    return b"\n".join(map(compact, raws))


# ---- bodies to rows ---------------------------------------------------------------------------


def check_features(features: Features, limits: RowLimits) -> None:
    """Raise InvalidBlock if a row has too many features or too long a name or value."""
    if len(features) > limits.features:
        told = Description(f"{len(features)} features")
        raise InvalidBlock("features", f"at most {limits.features} features a row", told, path="[0]")
    if type(features) is not dict:
        return
    longest = limits.name_length
    for at, (name, value) in enumerate(features.items()):
        if len(name) > longest:  # a pointer would tell it
            told = Description(f"name {at + 1} of the row of {len(name)} characters")
            raise InvalidBlock("features", f"names of at most {longest} characters", told, path="[0]")
        kind = type(value)
        if kind is str and len(value) > longest:
            raise _long(longest, value, name)
        if kind is list:
            if len(value) > limits.features:
                told = Description(f"{len(value)} values")
                raise InvalidBlock("features", f"at most {limits.features} values", told, path=_key(name))
            for item in value:
                if type(item) is str and len(item) > longest:
                    raise _long(longest, item, name)


def _long(longest: int, value: str, name: str) -> InvalidBlock:
    return InvalidBlock("features", f"strings of at most {longest} characters", value, path=_key(name))


def _key(name: str) -> str:
    return f"[0][{json.dumps(name)}]"


def checked_id(id_: str) -> str:
    """Return an event id, or raise InvalidBody."""
    if 0 < len(id_) <= MAX_ID_LENGTH and id_.isprintable() and " " not in id_:
        return id_
    raise InvalidBody("id", f"1 to {MAX_ID_LENGTH} visible characters", id_, pointer="/id")


def checked_row(body: LearnBody, size: int, limits: RowLimits) -> float:
    """Check all of a learn body but the values of its features; return its sign."""
    sign = sign_of(body.label, "$.label")
    if not body.weight >= 0.0 or body.weight == math.inf:
        raise InvalidBody("weight", "a finite number >= 0", body.weight, pointer="/weight")
    if body.id is not None:
        checked_id(body.id)
    if size > limits.name_length or len(body.features) > limits.features:
        check_features(body.features, limits)
    return sign


def row_of(error: AucstreamError) -> int:
    """Return the row that `check_rows` refused, counted within the rows it was given."""
    tokens = tokens_of(error.path)
    return tokens[0] if tokens and isinstance(tokens[0], int) else 0


def located(error: AucstreamError, row: int | None = None) -> AucstreamError:
    """Return an error of one row with the place in the whole body.

    `check_rows` names a place by row and feature, `[3]["amount"]`; in the body that is
    `/3/features/amount`, and `/features/amount` where the body is one row (`row=None`).
    """
    if isinstance(error, InvalidBody):
        if row is not None:
            for entry in error.errors:
                entry["pointer"] = f"/{row}{entry['pointer']}"
            error.path = f"/{row}{error.path}" if error.path else error.path
        return error
    prefix: list[str | int] = [] if row is None else [row]
    if isinstance(error, InvalidLabel):
        error.path = _dotted([*prefix, "label"])
    elif isinstance(error, InvalidBlock):
        error.path = _dotted([*prefix, "features", *tokens_of(error.path)[1:]])
    return error


def _dotted(tokens: Sequence[str | int]) -> str:
    # the form that problems.tokens_of reads
    return "$" + "".join(f"[{token}]" if isinstance(token, int) else f"[{json.dumps(token)}]" for token in tokens)


# ---- why a body was refused (slow, only on the way to an error) ----------------------------------

_AT = re.compile(r"^(?P<what>.*?)(?: - at `(?P<path>[^`]*)`)?$", re.DOTALL)
_FIELD = re.compile(r"unknown field `(?P<field>.*)`$", re.DOTALL)
_MISSING = re.compile(r"missing required field `(?P<field>.*)`$", re.DOTALL)


class _NonFinite(str):
    """A number of the body that is not finite, as it was written."""

    __slots__ = ()


def _number(text: str) -> float | _NonFinite:
    value = float(text)
    return value if math.isfinite(value) else _NonFinite(text)


def _integer(text: str) -> int | _NonFinite:
    return int(text) if len(text) <= 309 else _NonFinite(text)


def explained(data: bytes, error: Exception) -> InvalidBody:
    """Return the error that names the field for what msgspec refused."""
    if isinstance(error, msgspec.ValidationError):
        match = _AT.match(str(error))
        what, path = (match["what"], match["path"] or "$") if match else (str(error), "$")
        if "out of range" in what:
            found = _non_finite(data)
            if found is not None:
                return found
        tokens = tokens_of(path.replace("[...]", ""))
        field = _FIELD.search(what)
        if field:
            name = field["field"]
            place = names_in([*tokens, name])
            told = name if len(place) > len(tokens) else Description(f"a name of {len(name)} characters")
            return InvalidBody("body", "no other fields than the described ones", told, pointer=pointer_of(place))
        missing = _MISSING.search(what)
        if missing:
            told = f"the field {missing['field']}, which is missing"
            return InvalidBody("body", told, pointer=pointer_of([*tokens, missing["field"]]))
        pointer = pointer_of(tokens)
        return InvalidBody("body", of_validator(what), path=pointer, pointer=pointer)
    if isinstance(error, RecursionError):
        return MalformedBody("body", "JSON that nests less deeply", pointer="")
    found = _non_finite(data)
    if found is not None:
        return found
    if isinstance(error, UnicodeDecodeError):
        return MalformedBody("body", "JSON in UTF-8", pointer="")
    return MalformedBody("body", f"JSON in UTF-8 ({error})", pointer="")


def _non_finite(data: bytes) -> InvalidBody | None:
    try:
        document = json.loads(data, parse_constant=_NonFinite, parse_float=_number, parse_int=_integer)
    except (ValueError, RecursionError):
        return None
    for tokens, value in _walked(document):
        if isinstance(value, _NonFinite):
            pointer = pointer_of(names_in(tokens))
            return InvalidBody(
                "number", "a finite number", Description(kind_of_number(value)), path=pointer, pointer=pointer
            )
    return None


class _Twice(dict[str, Any]):
    """An object with a name that stands in it twice."""

    name = ""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    marked = _Twice(found)
    seen: set[str] = set()
    marked.name = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
    return marked


def _walked(document: Any) -> Iterator[tuple[list[str | int], Any]]:
    """Yield each value of a document with its place, in the order in which they stand there."""
    stack: list[tuple[list[str | int], Any]] = [([], document)]
    while stack:
        tokens, value = stack.pop()
        yield tokens, value
        if isinstance(value, dict):
            stack.extend(([*tokens, name], item) for name, item in reversed(value.items()))
        elif isinstance(value, list):
            stack.extend(([*tokens, at], value[at]) for at in range(len(value) - 1, -1, -1))
