"""The spec of a model: what the library's pipeline takes, and what the service adds."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any

import msgspec
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from aucstream.features.encoding.vocabulary import DEFAULT_CAPACITY
from aucstream.features.maps.maps import MAPS
from aucstream.pipeline import PipelineSpec
from aucstream_service.bodies.decode_errors import DECODE_ERRORS, explained, refuse_twice
from aucstream_service.errors.exceptions import InvalidBody, InvalidName, pointer_of
from aucstream_service.errors.refusal_text import of_pydantic
from aucstream_service.journal.rules import PendingSpec
from aucstream_service.settings import MODEL_NAME, Settings

SPEC_EXAMPLE: dict[str, Any] = {
    "algorithm": "psam",
    "params": {"lam": 1e-05},
    "scaler": "auto",
    "calibration": "logistic",
    "evaluation": {"window": 10000},
    "seed": 0,
}


class EvaluationSpec(BaseModel):
    """How the running evaluation is kept."""

    model_config = ConfigDict(extra="forbid")

    window: Annotated[int, Field(ge=1, description="rows in the exact window")] = 10_000


class ModelSpec(PipelineSpec):
    """Body of PUT /v1/models/{name}."""

    model_config = ConfigDict(json_schema_extra={"examples": [SPEC_EXAMPLE]})

    evaluation: EvaluationSpec = EvaluationSpec()
    pending: PendingSpec = PendingSpec()

    def pipeline(self, seed: int) -> PipelineSpec:
        """Return the library's part; `seed` stands where the spec says null.

        A seed that the library drew would be another at each start, and a replay another model.
        """
        document = self.model_dump(exclude={"evaluation", "pending"})
        if document["seed"] is None:
            document["seed"] = seed
        for part in (document["params"], document["map"] or {}):
            if "seed" in part and part["seed"] is None:
                part["seed"] = seed
        return PipelineSpec.model_validate(document)

    def canonical(self) -> str:
        """Return the one JSON text of this spec: defaults filled in, names sorted, 1.0 as 1."""
        return json.dumps(_plain(self.model_dump(mode="json")), sort_keys=True, separators=(",", ":"), allow_nan=False)


def etag_of(canonical: str) -> str:
    """Return the entity tag of a canonical spec."""
    return f'"{hashlib.sha256(canonical.encode()).hexdigest()[:32]}"'


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def checked_name(name: str) -> str:
    """Return a model name, or raise InvalidName."""
    if MODEL_NAME.match(name) is None:
        raise InvalidName("model", "a name of 1 to 64 of a-z 0-9 _ -", name)
    return name


def spec_of(body: bytes, settings: Settings) -> ModelSpec:
    """Read a spec, or raise InvalidBody naming the field."""
    try:
        document = msgspec.json.decode(body)
        refuse_twice(body)
    except DECODE_ERRORS as error:
        raise explained(body, error) from None
    try:
        spec = ModelSpec.model_validate(document, strict=True)
    except ValidationError as error:
        raise _refused(error) from None
    sizes = (
        ("/evaluation/window", spec.evaluation.window, settings.max_window, "rows"),
        ("/pending/capacity", spec.pending.capacity, settings.max_pending, "examples"),
        ("/encoder/capacity", spec.encoder.get("capacity"), settings.max_vocabulary, "names"),
        ("/encoder/bits", spec.encoder.get("bits"), settings.max_hash_bits, "bits"),
        ("/params/capacity", spec.params.get("capacity"), settings.max_buffer_rows, "rows"),
        ("/params/n_buffer", spec.params.get("n_buffer"), settings.max_buffer_rows, "rows"),
        ("/params/batch", spec.params.get("batch"), settings.max_buffer_rows, "rows"),
        *_directions(spec, settings),
        *_map_sizes(spec.map, settings),
    )
    for pointer, size, most, unit in sizes:
        if isinstance(size, (int, float)) and size > most:
            raise InvalidBody(pointer.rpartition("/")[2], f"at most {most} {unit}", size, pointer=pointer)
    return spec


def _directions(spec: ModelSpec, settings: Settings) -> list[tuple[str, Any, int, str]]:
    """Return (pointer, size, most, unit) of what learns some directions of all features."""
    learners = {"opauc": ("rank", 2, None), "mba": ("sketch_size", 4, 64)}
    if spec.algorithm not in learners:
        return []
    name, numbers, default = learners[spec.algorithm]
    directions = spec.params.get(name, default)
    sketched = spec.algorithm != "mba" or spec.params.get("moments") == "sketch"
    if not (sketched and isinstance(directions, int) and directions >= 1) or spec.map is not None:
        return []
    most = settings.max_cells // (numbers * directions)
    condition = f"with {name}={directions}"
    bits = spec.encoder.get("bits")
    names = spec.encoder.get("capacity", DEFAULT_CAPACITY) if bits is None else None
    return [
        (f"/params/{name}", directions, settings.max_directions, "directions"),
        ("/encoder/capacity", names, most, f"names {condition}"),
        ("/encoder/bits", bits, most.bit_length() - 1, f"bits {condition}"),
    ]


def _map_sizes(document: dict[str, Any] | None, settings: Settings) -> list[tuple[str, Any, int, str]]:
    """Return (pointer, size, most, unit) of a feature map; what it lacks is its default."""
    if document is None or not isinstance(document.get("kind"), str):
        return []
    cls = MAPS.get(document["kind"])
    if cls is None:
        return []
    name, *_ = (name for name in ("landmarks", "components") if hasattr(cls, name))
    features = document.get(name, getattr(cls, name))
    sizes = [
        (f"/map/{name}", features, settings.max_map_features, "features"),
        ("/map/warmup", document.get("warmup"), settings.max_map_rows, "rows"),
    ]
    if hasattr(cls, "max_columns") and isinstance(features, (int, float)) and features >= 1:
        most = settings.max_map_cells // int(features)
        columns = document.get("max_columns", cls.max_columns)
        sizes.append(("/map/max_columns", columns, most, f"columns with {int(features)} features"))
    return sizes


def _refused(error: ValidationError) -> InvalidBody:
    refusals = []
    for item in error.errors(include_url=False, include_context=False):
        pointer = pointer_of([token for token in item["loc"] if not str(token).startswith("function-")])
        got = ... if item["type"] in ("missing", "extra_forbidden") else item["input"]
        refusals.append(InvalidBody("spec", of_pydantic(item["msg"]), got, path=pointer, pointer=pointer))
    refusals[0].errors = [entry for each in refusals for entry in each.errors]
    return refusals[0]
