"""The spec of a model: what the library's pipeline takes, and what the service adds."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec
from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, ValidationError, model_serializer

from aucstream.constraints import Rule, Size, SizeKind, rules_of
from aucstream.errors import Description, InvalidParams
from aucstream.features.encoding.vocabulary import DEFAULT_CAPACITY
from aucstream.features.maps.maps import MAPS
from aucstream.features.scaling.scaling import FIRST_RULES
from aucstream.pipeline import RULES, ColumnsSpec, PipelineSpec
from aucstream.portfolio.portfolio import candidates_named
from aucstream.registry import LEARNERS, learner_class
from aucstream.steps import ENCODERS
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
    unknown_fields: Literal["refuse", "ignore"] = Field(
        default="refuse",
        description="What a field does that a body does not have, beside `features`, `label`, `weight` and `id`: `refuse`: 422, "
        "which names it; `ignore`: it is passed over.",
    )

    @model_serializer(mode="wrap")
    def _without_defaults(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what earlier versions did not have, where it says nothing: the text of their specs stays."""
        document: dict[str, Any] = serialize(self)
        if self.columns == ColumnsSpec():
            document.pop("columns", None)
        if self.unknown_fields == "refuse":
            document.pop("unknown_fields", None)
        return document

    @property
    def ignores_fields(self) -> bool:
        """Whether fields that a body does not have are passed over."""
        return self.unknown_fields == "ignore"

    def pipeline(self, seed: int) -> PipelineSpec:
        """Return the library's part; `seed` stands where the spec says null.

        A seed that the library drew would be another at each start, and a replay another model.
        """
        document = self.model_dump(exclude={"evaluation", "pending", "unknown_fields"})
        if document["seed"] is None:
            document["seed"] = seed
        for part in (document["params"], document["map"] or {}):
            if "seed" in part and part["seed"] is None:
                part["seed"] = seed
        return PipelineSpec.model_validate(document)

    def canonical(self) -> str:
        """Return the one JSON text of this spec: defaults filled in, names sorted, 1.0 as 1."""
        return json.dumps(plain(self.model_dump(mode="json")), sort_keys=True, separators=(",", ":"), allow_nan=False)


WHEN_FULL = PendingSpec().when_full
RULES_KEY = "rules"  # in the stored text alone: what a model's steps do is settled when it is created
DEFAULTS_KEY = "defaults"  # likewise: the parameters that its spec leaves to this version

MEMBERS_KEY = "members"  # likewise, of a spec that names the members of a portfolio: the defaults that these have

# Defaults that later versions have changed, as the first one had them: a stored spec that says nothing means these.
FIRST_DEFAULTS: dict[str, dict[str, Any]] = {"solam": {"cap": 0.25}, "regsolam": {"cap": 0.25}}
_MEMBER = re.compile(r"(?P<name>[a-z0-9]+)(?:\((?P<params>[^()]*)\))?\Z")


def stored_spec(canonical: str, rules: int = RULES) -> str:
    """Return what the registry keeps of a new model: its spec, the rules of its steps, and this version's defaults."""
    document = json.loads(canonical)
    parameters = rules_of(learner_class(document["algorithm"]))
    defaults = {name: rule.default for name, rule in parameters.items() if name not in ("seed", *document["params"])}
    document |= {RULES_KEY: rules, DEFAULTS_KEY: defaults}
    if "portfolio" in document["params"]:
        document[MEMBERS_KEY] = {
            name: {param: rules_of(learner_class(name))[param].default for param in params}
            for name, params in FIRST_DEFAULTS.items()
        }
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class StoredSpec:
    """What the registry keeps of a model.

    Attributes
    ----------
    spec : ModelSpec
        As it was sent.
    rules : int
        Those of its scaling, its calibration and its solves, see `Pipeline.from_spec`.
    defaults : dict
        Parameters that the spec left to the version that created the model. A later version may have others.
    sent : frozenset of str
        The canonical texts of the spec as a client may send it again.
    """

    spec: ModelSpec
    rules: int
    defaults: dict[str, Any]
    sent: frozenset[str] = field(default=frozenset(), compare=False)

    def pipeline(self, seed: int) -> PipelineSpec:
        """Return the library's part, as `ModelSpec.pipeline`, with all parameters."""
        spec = self.spec.pipeline(seed)
        params = {**self.defaults, **spec.params}
        if "portfolio" in self.defaults:  # that of the spec, with the defaults of its members
            params["portfolio"] = self.defaults["portfolio"]
        return spec.model_copy(update={"params": params})


def read_stored(text: str) -> StoredSpec:
    """Return what the registry's text says; one that names no rules and no defaults is from before there were others."""
    document = of_its_time(json.loads(text))
    rules, defaults = document.pop(RULES_KEY, FIRST_RULES), document.pop(DEFAULTS_KEY, None)
    if defaults is None:
        first = FIRST_DEFAULTS.get(document["algorithm"], {})
        defaults = {name: value for name, value in first.items() if name not in document["params"]}
    members = document.pop(MEMBERS_KEY, FIRST_DEFAULTS)
    portfolio = document["params"].get("portfolio")
    if isinstance(portfolio, str) and document["algorithm"] == "auto":
        defaults = {**defaults, "portfolio": " ".join(_pinned(member, members) for member in portfolio.split())}
    spec = ModelSpec.model_validate_json(json.dumps(document))
    sent = {spec.canonical()}
    if "when_full" not in json.loads(text).get("pending", {}):  # who sends this spec again does not say it either
        sent.add(
            spec.model_copy(update={"pending": spec.pending.model_copy(update={"when_full": WHEN_FULL})}).canonical()
        )
    return StoredSpec(spec, rules, defaults, frozenset(sent))


def of_its_time(document: dict[str, Any]) -> dict[str, Any]:
    """Return a spec that was stored, with what the version that stored it did where it says nothing."""
    document["pending"] = {"when_full": "refuse", **document.get("pending", {})}
    return document


def _pinned(member: str, defaults: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a member of a portfolio with those defaults of its time that its learner has no more."""
    head, slash, learner = member.rpartition("/")
    match = _MEMBER.match(learner)
    if match is None or match["name"] not in defaults:
        return member
    rules = rules_of(learner_class(match["name"]))
    named = [part for part in (match["params"] or "").split(";") if part]
    names = {part.partition("=")[0] for part in named}
    named += [
        f"{name}={value:g}"
        for name, value in defaults[match["name"]].items()
        if name not in names and value != rules[name].default
    ]
    return f"{head}{slash}{match['name']}({';'.join(named)})" if named else member


def etag_of(canonical: str) -> str:
    """Return the entity tag of a canonical spec."""
    return f'"{hashlib.sha256(canonical.encode()).hexdigest()[:32]}"'


def plain(value: Any) -> Any:
    """Return a JSON value with 1.0 as 1."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def checked_name(name: str) -> str:
    """Return a model name, or raise InvalidName."""
    if MODEL_NAME.match(name) is None:
        raise InvalidName("model", "a name of 1 to 64 of a-z 0-9 _ -", name)
    return name


def spec_of(body: bytes, settings: Settings) -> ModelSpec:
    """Read a spec, or raise InvalidBody, or InvalidParams where a size is beyond its limit or two seeds differ."""
    try:
        document = msgspec.json.decode(body)
        refuse_twice(body)
    except DECODE_ERRORS as error:
        raise explained(body, error) from None
    try:
        spec = ModelSpec.model_validate(document, strict=True)
    except ValidationError as error:
        raise refused(error) from None
    check_sizes(spec, settings)
    own = spec.params.get("seed")
    if "seed" in spec.model_fields_set and own is not None and spec.seed not in (None, own):
        raise InvalidParams("seed", f"the seed of params, {own}, or none beside it", spec.seed, path="/seed")
    return spec


def check_sizes(spec: ModelSpec, settings: Settings, before: ModelSpec | None = None) -> None:
    """Raise InvalidBody or InvalidParams where a size is beyond its limit, but for those that another spec had before."""
    known = set() if before is None else {(pointer, size) for pointer, size, *_ in _sizes(before, settings)}
    for pointer, size, most, unit, setting in _sizes(spec, settings):
        if isinstance(size, (int, float)) and size > most and (pointer, size) not in known:
            name, allowed = pointer.rpartition("/")[2], f"at most {most} {unit} (--{setting.replace('_', '-')})"
            if pointer.startswith(("/evaluation", "/pending")):  # fields of the service, not parameters
                raise InvalidBody(name, allowed, size, pointer=pointer)
            raise InvalidParams(name, allowed, size, path=pointer)


def first_difference(ours: str, theirs: str) -> tuple[str, Any, Any]:
    """Return the JSON pointer of the first field in which two canonical specs differ, and both values."""
    return _difference(json.loads(ours), json.loads(theirs), [])


def _difference(ours: Any, theirs: Any, tokens: list[str]) -> tuple[str, Any, Any]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in sorted({*ours, *theirs}):
            mine, other = ours.get(name, NOTHING), theirs.get(name, NOTHING)
            if mine != other:
                return _difference(mine, other, [*tokens, name])
    return pointer_of(tokens), ours, theirs


NOTHING = Description("nothing")
_Limit = tuple[str, Any, int, str, str]  # pointer, size, most, unit, setting


def _sizes(spec: ModelSpec, settings: Settings) -> Iterator[_Limit]:
    """Yield every size that a spec asks for, with its limit; sizes of steps are those that the steps declare."""
    yield "/evaluation/window", spec.evaluation.window, settings.max_window, "rows", "max_window"
    yield "/pending/capacity", spec.pending.capacity, settings.max_pending, "examples", "max_pending"
    encoder, map_ = _class_of(spec.encoder, ENCODERS), _class_of(spec.map or {}, MAPS)
    learner = learner_class(spec.algorithm) if spec.algorithm in LEARNERS else None
    if encoder is not None:
        yield from _declared("/encoder", encoder, spec.encoder, settings)
    if learner is not None:
        yield from _declared("/params", learner, spec.params, settings)
        if spec.map is None:
            yield from _tables(spec.params, spec.encoder, rules_of(learner), settings)
        if spec.algorithm == "auto":
            yield from _members(spec, settings)
    if map_ is not None:
        yield from _declared("/map", map_, spec.map or {}, settings)
        yield from _columns(map_, spec.map or {}, settings)


def _class_of(document: dict[str, Any], classes: Mapping[str, type]) -> type | None:
    kind = document.get("kind")
    return classes.get(kind) if isinstance(kind, str) else None


def _declared(pointer: str, cls: type, values: Mapping[str, Any], settings: Settings) -> Iterator[_Limit]:
    """Yield the sizes among the parameters of an encoder, a learner or a map."""
    limits: dict[SizeKind, str] = {
        "buffered rows": "max_buffer_rows",
        "warm-up rows": "max_map_rows",
        "directions": "max_directions",
        "trees": "max_trees",
        "nodes": "max_nodes",
        "features": "max_map_features",
        "names": "max_vocabulary",
        "bits": "max_hash_bits",
    }
    rules = rules_of(cls)
    for name, rule in rules.items():
        if rule.size is not None and rule.size.kind in limits and _counts(rule.size, values, rules):
            kind = rule.size.kind
            default = rule.default if kind in ("directions", "features") else None
            most = getattr(settings, limits[kind])
            yield f"{pointer}/{name}", values.get(name, default), most, kind.rpartition(" ")[2], limits[kind]


def _counts(size: Size, values: Mapping[str, Any], rules: Mapping[str, Rule]) -> bool:
    """Return whether memory grows with a size under these parameters."""
    if size.where is None:
        return True
    name, value = size.where
    return bool(values.get(name, rules[name].default) == value)


def _members(spec: ModelSpec, settings: Settings) -> Iterator[_Limit]:
    """Yield the sizes that the members of a portfolio ask for, and how many there are."""
    portfolio = spec.params.get("portfolio")
    try:
        members = candidates_named(portfolio) if isinstance(portfolio, str) else ()
    except InvalidParams:  # `check_params` says so
        return
    pointer = "/params/portfolio"
    yield pointer, len(members), settings.max_members, "members", "max_members"
    for member in members:
        learner = learner_class(member.algorithm)
        for _, size, most, unit, setting in _declared(pointer, learner, member.params, settings):
            yield pointer, size, most, f"{unit} in {member.algorithm}", setting
        if member.map is None:
            yield from _tables(member.params, spec.encoder, rules_of(learner), settings)
        elif (map_ := _class_of(member.map, MAPS)) is not None:
            yield from _declared(pointer, map_, member.map, settings)
            yield from _columns(map_, member.map, settings)


def _tables(
    params: Mapping[str, Any], encoder: Mapping[str, Any], rules: Mapping[str, Rule], settings: Settings
) -> Iterator[_Limit]:
    """Yield the names that a learner may learn some directions of: their product is a table."""
    for name, rule in rules.items():
        size = rule.size
        if size is None or size.kind != "directions" or not _counts(size, params, rules):
            continue
        directions = params.get(name, rule.default)
        if isinstance(directions, int) and directions >= 1:
            most = settings.max_cells // (size.numbers * directions)
            condition = f"with {name}={directions}"
            bits = encoder.get("bits")
            names = encoder.get("capacity", DEFAULT_CAPACITY) if bits is None else None
            yield "/encoder/capacity", names, most, f"names {condition}", "max_cells"
            yield "/encoder/bits", bits, most.bit_length() - 1, f"bits {condition}", "max_cells"


def _columns(cls: type, document: dict[str, Any], settings: Settings) -> Iterator[_Limit]:
    """Yield the columns that a map reads: their product with its features is a table."""
    sizes = {rule.size.kind: (name, rule.default) for name, rule in rules_of(cls).items() if rule.size is not None}
    features = document.get(*sizes["features"])
    if "columns" in sizes and isinstance(features, (int, float)) and features >= 1:
        name, default = sizes["columns"]
        most = settings.max_map_cells // int(features)
        yield (
            f"/map/{name}",
            document.get(name, default),
            most,
            f"columns with {int(features)} features",
            "max_map_cells",
        )


_NOT_IN_THE_BODY = ("function-", "scaler-name", "scaler-object")  # tokens of pydantic's places that name its own parts


def refused(error: ValidationError) -> InvalidBody:
    """Return the error of a document that is no spec."""
    refusals = []
    for item in error.errors(include_url=False, include_context=False):
        pointer = pointer_of([token for token in item["loc"] if not str(token).startswith(_NOT_IN_THE_BODY)])
        got = ... if item["type"] in ("missing", "extra_forbidden") else item["input"]
        refusals.append(InvalidBody("spec", of_pydantic(item["msg"]), got, path=pointer, pointer=pointer))
    refusals[0].errors = [entry for each in refusals for entry in each.errors]
    return refusals[0]
