"""Changes of a live model: what a merge patch makes of its spec, and what events that no row brings do when applied.

Such an event has a place of its own among those of the model, so a replay applies it there. `decoded` reads its payload
and `CHANGES` says what it does; both are used alike for a model that serves and for a replay.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
from pydantic import ValidationError

from aucstream.constraints import rules_of
from aucstream.features.encoding.vocabulary import Vocabulary
from aucstream.pipeline import Pipeline
from aucstream.registry import LEARNERS, learner_class, mutable_params
from aucstream_service.bodies.decode_errors import DECODE_ERRORS, explained, refuse_twice
from aucstream_service.errors.exceptions import FixedSetting, InvalidBody, pointer_of
from aucstream_service.errors.refusal_text import quoted
from aucstream_service.models.spec import NOTHING, ModelSpec, StoredSpec, check_sizes, plain, refused
from aucstream_service.settings import Settings

OF_THE_SERVICE = ("pending", "evaluation", "unknown_fields")  # every member of these may change
COLUMNS = ("ignore", "min_count", "eviction")  # of `columns`
ANOTHER_MODEL = "another model: create it, and send it the rows that `GET …/export?what=events` gives"


def patched(body: bytes, stored: StoredSpec, pipeline: Pipeline, settings: Settings) -> ModelSpec:
    """Return the spec that a merge patch (RFC 7396) makes of a model's.

    Parameters
    ----------
    body : bytes
        JSON; null stands for the default.
    stored : StoredSpec
        The model's, as it is.
    pipeline : Pipeline
        The model's.
    settings : Settings
        Their limits hold for what changes.

    Raises
    ------
    InvalidBody, InvalidParams
        The patch is no object, or what it asks for is out of range.
    FixedSetting
        What it asks for would be another model.
    """
    try:
        patch = msgspec.json.decode(body)
        refuse_twice(body)
    except DECODE_ERRORS as error:
        raise explained(body, error) from None
    if not isinstance(patch, dict):
        raise InvalidBody("patch", "an object (RFC 7396)", patch, pointer="")
    before = stored.spec
    try:
        spec = ModelSpec.model_validate(merged(before.model_dump(mode="json"), patch), strict=True)
    except ValidationError as error:
        raise refused(error) from None
    for tokens, value in differences(stored, spec):
        pointer = pointer_of(tokens)
        expected = f"{quoted(value)}, as the model was created; another value needs {ANOTHER_MODEL}"
        raise FixedSetting(tokens[-1], expected, _at(spec, tokens), pointer=pointer)
    check_sizes(spec, settings, before)
    encoder = pipeline.encoder
    capacity = spec.encoder.get("capacity")
    if isinstance(encoder, Vocabulary) and isinstance(capacity, int) and capacity < len(encoder):
        expected = f"at least {len(encoder)}, the names that the model knows; fewer need {ANOTHER_MODEL}"
        raise FixedSetting("capacity", expected, capacity, pointer="/encoder/capacity")
    return spec


def merged(document: Any, patch: Any) -> Any:
    """Return what a merge patch makes of a JSON value (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(document) if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def differences(stored: StoredSpec, spec: ModelSpec) -> Iterator[tuple[list[str], Any]]:
    """Yield where another spec differs from a stored one in what is fixed, and the value that is stored."""
    ours, theirs = plain(spec.model_dump(mode="json")), plain(stored.spec.model_dump(mode="json"))
    for name in sorted({*ours, *theirs}):
        mine, other = ours.get(name, {}), theirs.get(name, {})  # `columns` is left out where it says nothing
        if mine == other or name in OF_THE_SERVICE:
            continue
        if name == "params" and ours["algorithm"] == theirs["algorithm"]:
            yield from _params(stored, mine, other)
        elif name == "encoder" and mine.get("kind") == other.get("kind") == "vocabulary":
            yield from (
                ([name, key], other.get(key, NOTHING))
                for key in sorted({*mine, *other} - {"capacity"})
                if mine.get(key) != other.get(key)
            )
        elif name == "columns" and isinstance(mine, dict) and isinstance(other, dict):
            yield from (
                ([name, key], other.get(key, NOTHING))
                for key in sorted({*mine, *other} - {*COLUMNS})
                if mine.get(key) != other.get(key)
            )
        else:
            yield [name], other


def _params(stored: StoredSpec, ours: dict[str, Any], theirs: dict[str, Any]) -> Iterator[tuple[list[str], Any]]:
    algorithm = stored.spec.algorithm
    rules = rules_of(learner_class(algorithm)) if algorithm in LEARNERS else {}
    defaults = {**{key: rule.default for key, rule in rules.items()}, **stored.defaults}
    for key in sorted({*ours, *theirs} - mutable_params(algorithm)):
        value = theirs.get(key, defaults.get(key, NOTHING))
        if key in rules and plain(ours.get(key, defaults.get(key))) != plain(value):
            yield ["params", key], value


def _at(spec: ModelSpec, tokens: list[str]) -> Any:
    value: Any = spec.model_dump(mode="json")
    for token in tokens:
        value = value.get(token, NOTHING) if isinstance(value, dict) else NOTHING
    return value


def rollback_payload(seq: int, snapshot: bytes) -> bytes:
    """Return the payload of an event that brings a model back to a snapshot."""
    return b'{"snapshot":%d}\n%s' % (seq, snapshot)


def snapshot_of_payload(payload: bytes) -> bytes:
    """Return the snapshot in the payload of such an event."""
    return payload[payload.index(b"\n") + 1 :]


def spec_payload(spec: ModelSpec) -> bytes:
    """Return the payload of an event that gives a model another spec."""
    return b'{"spec":%s}' % spec.canonical().encode()


def spec_of_payload(stored: StoredSpec, payload: bytes) -> StoredSpec:
    """Return what the registry would keep of a model after such an event."""
    return replace(stored, spec=ModelSpec.model_validate(json.loads(payload)["spec"]))
