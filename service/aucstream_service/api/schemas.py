"""JSON schemas and examples of bodies and answers, made from the types that decode and encode them."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from aucstream import answers
from aucstream.registry import LEARNERS
from aucstream_service.bodies.bodies import LabelBody, LearnBody, PredictBody, RenameBody, RollbackBody
from aucstream_service.models.spec import ModelSpec

BODIES = (LearnBody, PredictBody, LabelBody, RenameBody, RollbackBody)
ANSWERS = [
    kind
    for kind in vars(answers).values()
    if isinstance(kind, type) and issubclass(kind, answers.Answer) and kind is not answers.Answer
]
NAMES = {
    "LearnBody": "Learn",
    "PredictBody": "Predict",
    "LabelBody": "Label",
    "RenameBody": "Rename",
    "RollbackBody": "Rollback",
    "Evaluation": "EvaluationAnswer",
}
REF = "#/components/schemas/"


def ref(kind: type) -> dict[str, str]:
    """Return the reference to a type's schema."""
    return {"$ref": REF + NAMES.get(kind.__name__, kind.__name__)}


def _components() -> dict[str, Any]:
    _, structs = msgspec.json.schema_components((*BODIES, *ANSWERS), ref_template=REF + "{name}")
    text = re.sub(rf'(?<="{REF})\w+', lambda match: NAMES.get(match[0], match[0]), json.dumps(structs))
    schemas: dict[str, Any] = {}
    for name, schema in json.loads(text).items():
        schema["title"] = NAMES.get(name, name)
        schemas[schema["title"]] = schema
        if hasattr(answers, name):
            _describe_as_encoded(schema)
        elif "id" in schema["properties"]:  # an id is a string, or is left out: null is refused
            member = schema["properties"]["id"]
            member.update(*[kind for kind in member.pop("anyOf", ()) if kind != {"type": "null"}])
            member.pop("default", None)
    schemas["Problem"]["additionalProperties"] = True
    spec = ModelSpec.model_json_schema(ref_template=REF + "{model}")
    spec["properties"]["algorithm"]["enum"] = list(LEARNERS)
    schemas |= {**spec.pop("$defs"), "ModelSpec": spec}
    return dict(sorted(schemas.items()))


def _describe_as_encoded(schema: dict[str, Any]) -> None:
    """Narrow an answer's schema, as it is decoded, to what the service encodes."""
    schema["additionalProperties"] = False
    for member in schema["properties"].values():
        if "default" in member:  # the service leaves the member out
            del member["default"]
            kinds = [kind for kind in member.pop("anyOf", ()) if kind != {"type": "null"}]
            member.update({"anyOf": kinds} if kinds[1:] else dict(*kinds))


SCHEMAS = _components()


def example_of(schema: dict[str, Any]) -> Any:
    """Return the example of a schema: its own, or one that is made of those of its members."""
    if "$ref" in schema:
        return example_of(SCHEMAS[schema["$ref"].removeprefix(REF)])
    if "examples" in schema:
        return schema["examples"][0]
    if "anyOf" in schema:
        return example_of(schema["anyOf"][0])
    if schema.get("type") == "array":
        return [example_of(schema["items"])]
    members = schema.get("properties", {}).items()
    required = schema.get("required", ())
    return {name: example_of(member) for name, member in members if name in required or "examples" in member}
