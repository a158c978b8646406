"""`Pipeline`: encoder, scalers, a map and a learner as one model. It is what a service model is."""

from __future__ import annotations

import copy
import heapq
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    model_serializer,
    model_validator,
)

from aucstream import snapshot
from aucstream.block import Block, Floats, Ints
from aucstream.constraints import rules_of
from aucstream.errors import BadSnapshot, CannotMerge, Description, InvalidParams
from aucstream.exclusive import Gate, in_order, lock_free
from aucstream.features.columns import Columns
from aucstream.features.encoding.encoder import Encoder
from aucstream.features.encoding.turnover import Eviction
from aucstream.features.encoding.vocabulary import DEFAULT_CAPACITY, Usage, Vocabulary
from aucstream.features.maps.mapping import Mapped
from aucstream.features.maps.maps import map_of
from aucstream.features.scaling.scalers import (
    OFFERED,
    OFFERED_TEXT,
    AutoScale,
    full_name,
    is_scaling,
    scaling_of,
    with_half_life,
    without_half_life,
)
from aucstream.features.scaling.scaling import FIRST_RULES, SECOND_RULES
from aucstream.features.scaling.scaling import RULES as SCALING_RULES
from aucstream.kernels import ledger
from aucstream.learners._base.capabilities import Capability
from aucstream.learners._base.engine import RowKind as RowKind
from aucstream.learners._base.estimator import RankingClassifier
from aucstream.learners._base.learner import Learner
from aucstream.learners._base.stateful import encoder_from_state
from aucstream.native.row_entry import NO_ENTRY, RowEntry, uncalibrated, under_lock
from aucstream.registry import learner_class, make, mutable_params
from aucstream.stages import Stages
from aucstream.steps import encoder_of, sorted_steps, steps_of

Calibration = Literal["logistic", "none"]


def _checked_scaler(name: str) -> str:
    if not is_scaling(name):
        raise ValueError(OFFERED_TEXT)
    return name


# Of a new model: the first two are those of the scaling, the third is the calibration's, by the fourth "auto" completes
# sparse rows. A model keeps those that it began with.
CALIBRATION_RULES, RULES = 3, 4

ScalerName = Annotated[
    str,
    AfterValidator(_checked_scaler),
    Field(
        description=f"One of {', '.join(f'`{name}`' for name in OFFERED)}. `auto@h`, `standard@h…` and `scale@h…` forget: "
        "a value of a column counts half after `h` more of them.",
        examples=["auto", "standard@3000+bounded"],
    ),
]


class ScalerSpec(BaseModel):
    """A scaling that forgets, in words."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: ScalerName
    half_life: Annotated[float, Field(ge=1.0, allow_inf_nan=False)] | None = Field(
        default=None, description="Values of a column after which an old one counts half; null: all count the same."
    )

    @property
    def name(self) -> str:
        """The scaling in one word."""
        return with_half_life(self.kind, self.half_life)


class TimeColumnSpec(BaseModel):
    """Columns of times, and what of each time is a feature of its own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(description="Name or pattern.")
    parts: list[Literal["hour", "weekday"]] = Field(
        default_factory=list, description="In UTC; words under `name.hour` and `name.weekday`."
    )


class ColumnsSpec(BaseModel):
    """What columns are, by name or by a pattern of a shell, and how the names of a vocabulary become columns."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ignore: list[str] = Field(default_factory=list, description="Left out.", examples=[["id", "tmp_*"]])
    category: list[str] = Field(
        default_factory=list, description="Each value is a word: the number 7 is the feature `name=7`."
    )
    number: list[str] = Field(
        default_factory=list,
        description="A string is read as a number under `decimal` and `thousands`; an empty one, `NA`, `null`, `-`, `?` "
        "and the like are missing.",
    )
    time: list[
        Annotated[
            Annotated[str, Tag("time-name")] | Annotated[TimeColumnSpec, Tag("time-object")],
            Discriminator(lambda value: "time-object" if isinstance(value, (dict, TimeColumnSpec)) else "time-name"),
        ]
    ] = Field(
        default_factory=list,
        description="Dates and times are seconds since 1970, in UTC where they name no zone; numbers stay.",
        examples=[["when", {"name": "created_at", "parts": ["hour", "weekday"]}]],
    )
    decimal: Literal[".", ","] = Field(default=".", description="Decimal mark of strings in columns of numbers.")
    thousands: Literal[",", ".", " ", "'", "_"] | None = Field(
        default=None, description="Mark between groups of three digits; null: there is none."
    )
    min_count: Annotated[int, Field(ge=1)] = Field(
        default=1, description="Learned rows in which a name has to be seen before it gets a column."
    )
    eviction: Eviction = Field(
        default="none",
        description="What a new name does when the vocabulary is full: `none`: it is left out; `least-recent`: it takes the "
        "column of the name that was least recently seen in a learned row.",
    )

    @model_validator(mode="after")
    def _checked(self) -> Self:
        try:
            self.rules()
        except InvalidParams as error:
            raise ValueError(error.message) from None
        return self

    @model_serializer(mode="wrap")
    def _without_defaults(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what earlier versions did not have, where it says nothing: the text of their specs stays."""
        document: dict[str, Any] = serialize(self)
        fields = type(self).model_fields
        for name in OF_VALUES & document.keys():
            if getattr(self, name) == fields[name].get_default(call_default_factory=True):
                del document[name]
        return document

    def rules(self) -> Columns:
        """Return what it says as a step of a pipeline.

        Raises
        ------
        InvalidParams
            A name stands in two lists, a pattern is none, or both marks are the same.
        """
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        fields["time"] = [each if isinstance(each, str) else each.model_dump() for each in self.time]
        return Columns(**fields)

    @classmethod
    def of(cls, columns: Columns) -> Self:
        """Return a step of a pipeline in words."""
        values = {name: getattr(columns, name) for name in cls.model_fields}
        return cls(
            **{
                name: list(value) if isinstance(value, (tuple, set, frozenset)) else value
                for name, value in values.items()
            }
        )


# Of `columns`: what changes values. A spec that says nothing of them has the text that it had before there were any.
OF_VALUES = frozenset({"ignore", "category", "number", "time", "decimal", "thousands"})


class PipelineSpec(BaseModel):
    """A model in words: what a service is asked to create."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    algorithm: str = Field(default="auto", description="Registry name of the learner, e.g. `psam`.")
    params: dict[str, Any] = Field(default_factory=dict, description="Its parameters; the rest are defaults.")
    scaler: Annotated[
        Annotated[ScalerName, Tag("scaler-name")] | Annotated[ScalerSpec, Tag("scaler-object")],
        Discriminator(lambda value: "scaler-object" if isinstance(value, (dict, ScalerSpec)) else "scaler-name"),
    ] = "auto"
    map: dict[str, Any] | None = Field(
        default=None,
        description="A feature map, or null: `kind` is `kmeansnystroem` (with `landmarks`, `bandwidth`), "
        "`randomfourier` (`components`, `bandwidth`), `randomthresholds` (`components`) or `randomnetwork` "
        "(`components`); all have `warmup` and `seed`, all but thresholds `max_columns`. Until `warmup` rows were "
        "learned every score is 0.",
        examples=[{"kind": "kmeansnystroem", "landmarks": 100, "warmup": 1000}],
    )
    encoder: dict[str, Any] = Field(
        default_factory=lambda: {"kind": "vocabulary", "capacity": DEFAULT_CAPACITY},
        description='`{"kind":"vocabulary","capacity":n}` or `{"kind":"hashing","bits":b}`; both take `crosses`.',
    )
    columns: ColumnsSpec = Field(default_factory=ColumnsSpec, description="How names become columns.")
    calibration: Calibration = "logistic"
    seed: int | None = 0

    @model_serializer(mode="wrap")
    def _without_defaults(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave `columns` out where it says nothing: the text of a spec from before it had the key stays as it is."""
        document: dict[str, Any] = serialize(self)
        if self.columns == ColumnsSpec():
            document.pop("columns", None)
        return document

    def new_encoder(self) -> Encoder:
        """Return the encoder that `encoder` and `columns` describe.

        Raises
        ------
        InvalidParams
            A parameter is out of its range, or has no meaning for this encoder.
        """
        misplaced = sorted(ColumnsSpec.model_fields.keys() & self.encoder.keys())
        if misplaced:
            raise InvalidParams("encoder", "no such key: it belongs to `columns`", misplaced[0])
        encoder = encoder_of(self.encoder)
        default = ColumnsSpec()
        for name in ("min_count", "eviction"):
            value = getattr(self.columns, name)
            if value != getattr(default, name) and not isinstance(encoder, Vocabulary):
                raise InvalidParams(
                    f"columns.{name}", f"{getattr(default, name)!r} with an encoder that keeps no names", value
                )
        if isinstance(encoder, Vocabulary):
            encoder.change(min_count=self.columns.min_count, eviction=self.columns.eviction)
        return encoder


class Pipeline(RankingClassifier):
    """Encoder, scalers, a map and a learner in one River classifier with an array fast path.

    Parameters
    ----------
    *steps : Columns, Vocabulary or Hashing, scalers, map, learner
        In this order; all but the learner may be left out. No steps at all: `AutoScale(), PSAM()`. The
        scalers are `AutoScale`, or `Standardize` and then `BoundedNorm`, `UnitNorm`, or `Arctan` and `BoundedNorm`; the map is one of
        `KMeansNystroem`, `RandomFourier`, `RandomThresholds`, `RandomNetwork`. The steps given are
        patterns: the pipeline works on fresh copies and never changes them.
    calibration : {"logistic", "none"}
        "none": `predict_proba_one` is one half for both, and the service answers null.

    Notes
    -----
    A row is scored with the state before it. Then each stage learns it and passes it on transformed by
    its applied state. When a scaler's applied values change, everything that was learned is carried over
    into the new units first (see `Learner.change_units`).

    With a map the first `warmup` rows are kept, and every score is 0. The last of them sets the scaler's
    applied values from all of them, for good, and fits the map; the learner then learns them in order. From
    then on each row is scaled, mapped and learned; a name that no kept row had counts 0. `fit` fits the map
    on the rows it is given, up to 80,000, and `end_warmup`, which `aucstream.evaluate` and the command line
    call at the end of their data, on those kept so far.

    Examples
    --------
    >>> from aucstream import Pipeline, SOLAM, AutoScale
    >>> model = Pipeline(AutoScale(), SOLAM())
    >>> for amount, y in [(900.0, True), (20.0, False)] * 50:
    ...     model.learn_one({"amount": amount, "country": "NL"}, y)
    >>> model.predict_one({"amount": 800.0, "country": "NL"})
    True
    """

    _rules = RULES
    _columns: Columns | None = None  # None: rows are read as they are

    def __init__(self, *steps: Any, calibration: Calibration = "logistic") -> None:
        if calibration not in ("logistic", "none"):
            raise InvalidParams("Pipeline.calibration", "'logistic' | 'none'", calibration)
        self._gate = Gate()
        self.steps = steps or (AutoScale(), make("psam", {}))
        self.calibration: Calibration = calibration
        self._spec: PipelineSpec | None = None
        columns, self._encoder_pattern, self._scaler_name, self._map_pattern, learner = sorted_steps(self.steps)
        self._columns = columns if columns is not None and columns.changes_values else None
        self._learner_pattern = learner
        self._reset()

    @classmethod
    def from_spec(cls, spec: PipelineSpec | Mapping[str, Any], rules: int = RULES) -> Self:
        """Return the model that a spec describes.

        Parameters
        ----------
        spec : PipelineSpec or mapping
            As the body of PUT /v1/models/{name}, without what the service adds.
        rules : int
            Of the scaling, the calibration and the solves. 1 or 2 for a model that an earlier version made: its rows
            give the bits they gave then.

        Returns
        -------
        Pipeline

        Raises
        ------
        InvalidParams, UnknownLearner
            What the spec asks for does not exist or is out of range.
        """
        if not isinstance(spec, PipelineSpec):
            spec = PipelineSpec.model_validate(dict(spec))
        params = dict(spec.params)
        cls_of_learner = learner_class(spec.algorithm)
        if "seed" in cls_of_learner._parameters:
            params.setdefault("seed", spec.seed)
        learner = make(spec.algorithm, params)
        scaler = full_name(spec.scaler if isinstance(spec.scaler, str) else spec.scaler.name)
        if not is_scaling(scaler):
            raise InvalidParams("Pipeline.scaler", OFFERED_TEXT, scaler)
        steps: list[Any] = [spec.new_encoder(), *steps_of(scaler)]
        if (columns := spec.columns.rules()).changes_values:
            steps.insert(0, columns)
        if spec.map is not None:
            steps.append(map_of({"seed": spec.seed, **spec.map}))
        model = cls(*steps, learner, calibration=spec.calibration)
        model._scaler_name = scaler
        model._spec = spec
        model._rules = rules
        model._reset()
        return model

    @property
    def spec(self) -> PipelineSpec | None:
        """The spec it was made from; None where it was made from steps."""
        return self._spec

    @property
    def encoder(self) -> Encoder:
        """The encoder at work."""
        return self._encoder

    def change(self, spec: PipelineSpec) -> None:
        """Go on with what another spec says, of parameters that may change and of how names become columns.

        Parameters
        ----------
        spec : PipelineSpec
            With all parameters that are not defaults. A capacity below the names in use is as many as these.

        Raises
        ------
        InvalidParams
            A value is out of its range. Nothing is changed.
        """
        learner, pattern = self._stages.learner, self._learner_pattern
        before = {} if self._spec is None else self._spec.params
        values = {}
        for name in sorted(mutable_params(spec.algorithm) & {*before, *spec.params}):  # the others stay as they are
            rule = rules_of(type(learner))[name]
            values[name] = rule.checked(f"{type(learner).__name__}.{name}", spec.params.get(name, rule.default))
        encoder, other = self._encoder, spec.new_encoder()
        if isinstance(encoder, Vocabulary) and isinstance(other, Vocabulary):
            capacity = max(other.capacity, len(encoder))
            if (encoder.capacity, encoder.min_count, encoder.eviction) != (capacity, other.min_count, other.eviction):
                self.change_columns(capacity=capacity, min_count=other.min_count, eviction=other.eviction)
            spec = spec.model_copy(update={"encoder": {**spec.encoder, "capacity": capacity}})
        for name, value in values.items():
            if getattr(learner, name) != value:
                setattr(learner, name, value)
                setattr(pattern, name, value)
        self._take_columns(spec.columns.rules())
        self._spec = spec

    def _take_columns(self, columns: Columns) -> None:
        """Read rows by other columns from now on."""
        if ColumnsSpec.of(columns) == (ColumnsSpec() if self._columns is None else ColumnsSpec.of(self._columns)):
            return
        self._columns = columns if columns.changes_values else None
        steps = tuple(step for step in self.steps if not isinstance(step, Columns))
        self.steps = steps if self._columns is None else (columns, *steps)
        self._gate.version += 1  # calls that other threads have in their hands read rows as they are
        self._entry = self._stages.learner._entry = NO_ENTRY

    @property
    def columns(self) -> Columns | None:
        """What is said of its columns; None where nothing is."""
        return self._columns

    def _read_row(self, x: Any) -> Any:
        return x if self._columns is None else self._columns.row(x)

    def _read_rows(self, rows: Sequence[Any]) -> Sequence[Any]:
        return rows if self._columns is None else self._columns.rows(rows)

    def _read_array(self, X: Any) -> Any:
        return X if self._columns is None else self._columns.array(X)

    def _read_block(self, block: Block) -> Block:
        return block if self._columns is None else self._columns.block(block)

    @property
    def resolved(self) -> dict[str, Any] | None:
        """What "auto" became; None before the first row."""
        return None if self._stages.resolved is None else {"scaler": self._stages.resolved}

    @property
    def learner(self) -> Learner:
        """The learner at work."""
        return self._stages.learner

    @property
    def _ledger(self) -> Floats:  # type: ignore[override]
        return self._stages.learner._ledger

    @property
    def _seed(self) -> int:
        return self._stages.learner._seed

    @property
    def _learns_every_row(self) -> bool:
        stages = self._stages
        return stages.mapping is None and not stages.scaling.scheduled and stages.learner._learns_every_row

    @property
    def _is_stochastic(self) -> bool:
        return self._learner_pattern._is_stochastic or (
            self._map_pattern is not None and self._map_pattern._is_stochastic
        )

    def _reset(self) -> None:
        encoder = copy.deepcopy(self._encoder_pattern)
        learner = self._learner_pattern.clone()
        learner._take_rules(ledger.NEW_RULES if self._rules >= CALIBRATION_RULES else ledger.FIRST_RULES)
        mapping = None
        if self._map_pattern is None:
            learner._adopt(encoder)
        else:
            mapping = Mapped(self._map_pattern.clone(), encoder, learner)
        name, half_life = without_half_life(self._scaler_name)
        resolved = None if name == "auto" else self._scaler_name
        if Capability.STEPS_BEFORE not in learner._capabilities:
            self._refuse_map("Pipeline.map")
            if self._scaler_name not in ("auto", "none"):
                raise InvalidParams(
                    "Pipeline.scaler", f"no scaler in front of {type(learner).__name__}", self._scaler_name
                )
        if mapping is None and Capability.RUNNING_SCALER not in learner._capabilities:
            if name == "auto":
                name, half_life = "none", None
            resolved = with_half_life(name, half_life)
            if scaling_of(name).moves:
                raise InvalidParams("Pipeline.scaler", f"no running scaler in front of {type(learner).__name__}", name)
        name = with_half_life("standard+bounded" if name == "auto" else name, half_life)
        self._stages = Stages(
            encoder,
            scaling_of(name, SCALING_RULES if self._rules >= RULES else min(self._rules, SECOND_RULES)),
            learner,
            resolved,
            mapping,
        )
        self._adopt_stages()

    def _adopt_stages(self) -> None:
        """Share with the stages what is one: the encoder and the gate."""
        learner = self._stages.learner
        self._encoder = self._stages.encoder
        if self._stages.mapping is None and learner._encoder is not self._encoder:
            learner._share(self._encoder)
        self._gate.whole = weakref.ref(self)
        learner._gate, learner._entry = self._gate, NO_ENTRY

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._adopt_stages()

    def clone(self, new_params: dict[str, Any] | None = None, include_attributes: bool = False) -> Self:
        """Return a pipeline with the same steps; with its state too where attributes are included.

        Parameters
        ----------
        new_params : dict, optional
            Parameters that differ, by name.
        include_attributes : bool, default=False
            Whether the copy has what was learned, too.

        Returns
        -------
        Pipeline

        Raises
        ------
        InvalidParams
            A new parameter is out of its range.
        """
        copied = super().clone(new_params, include_attributes)
        copied._adopt_stages()  # copied apart, they would be two
        return copied

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}

    def _get_params(self) -> dict[str, Any]:
        return {"_POSITIONAL_ARGS": self.steps, "calibration": self.calibration}

    # -- names ---------------------------------------------------------------------------------------

    @property
    def usage(self) -> Usage | None:
        """How full the vocabulary is; None for an encoder that keeps no names."""
        return self._encoder.usage if isinstance(self._encoder, Vocabulary) else None

    def change_columns(
        self, *, capacity: int | None = None, min_count: int | None = None, eviction: Eviction | None = None
    ) -> None:
        """Change how names become columns, from the next row on; what is None stays.

        What was learned stays as it is. The same rows before and after the same change give the same bits.

        Parameters
        ----------
        capacity : int, optional
            Most names of the vocabulary, at least those in use.
        min_count : int, optional
            Learned rows in which a name has to be seen, >= 1.
        eviction : {"none", "least-recent"}, optional
            What a new name does when the vocabulary is full. With eviction from now on, all names count as seen least
            recently until they are seen again.

        Raises
        ------
        InvalidParams
            A value is out of its range, there are more names than `capacity`, or the encoder keeps no names; nothing
            was changed.
        """
        encoder, pattern = self._encoder, self._encoder_pattern
        if not isinstance(encoder, Vocabulary) or not isinstance(pattern, Vocabulary):
            raise InvalidParams("columns", "an encoder that keeps names", encoder.spec["kind"])
        encoder.change(capacity=capacity, min_count=min_count, eviction=eviction)
        pattern.change(capacity=capacity, min_count=min_count, eviction=eviction)
        if self._spec is not None:
            self._spec = self._spec.model_copy(
                update={
                    "encoder": {**self._spec.encoder, "capacity": encoder.capacity},
                    "columns": self._spec.columns.model_copy(
                        update={"min_count": encoder.min_count, "eviction": encoder.eviction}
                    ),
                }
            )
        self._entry = self._stages.learner._entry = NO_ENTRY  # they note which names were seen, or not

    # -- learning ------------------------------------------------------------------------------------

    def _learn(self, block: Block) -> Floats:
        return self._stages.learn(block)

    def _learn_row(self, idx: Ints | None, val: Floats, sign: float, weight: float) -> float:
        return self._stages.learn_row(idx, val, sign, weight)

    def _score(self, block: Block) -> Floats:
        return self._stages.score(block)

    def _score_row(self, idx: Ints | None, val: Floats) -> float:
        return self._stages.score_row(idx, val)

    def _look_at(self, X: Any) -> None:
        self._stages.look_at(X)

    def _end_warmup(self) -> None:
        self._stages.end_warmup()

    def _checkpoint(self) -> Any:
        """Return a copy of all that learning changes but the names, for `_restore`."""
        return self._stages.checkpoint()

    def _restore(self, checkpoint: Any) -> None:
        """Restore what `_checkpoint` returned."""
        self._stages.restore(checkpoint)

    def _forget_columns(self, columns: Ints) -> None:
        self._stages.forget_columns(columns)

    @property
    def _generation(self) -> object:  # type: ignore[override]
        stages, generation = self._stages, self._entry.generation
        scaling, encoder = stages.scaling, stages.encoder
        if (
            generation[0] is stages.learner._generation
            and generation[1] is scaling
            and generation[2] is scaling.columns
            and generation[3] is encoder.kinds
            and generation[4] is encoder.reader.val
            and generation[5] is stages.resolved
        ):
            return generation
        return None

    def _new_entry(self) -> RowEntry:
        stages = self._stages
        learner, scaling, encoder = stages.learner, stages.scaling, stages.encoder
        if stages.mapping is not None or stages.resolved is None:
            return NO_ENTRY
        generation = (learner._generation, scaling, scaling.columns, encoder.kinds, encoder.reader.val, stages.resolved)
        scaled = scaling.scaled_row(encoder.reader, encoder.kinds) if scaling.scheduled else None
        entry = learner._new_entry(generation, scaled)
        if self.calibration != "logistic":
            entry = uncalibrated(entry)
        return entry if self._columns is None else under_lock(entry)

    def _probability(self, score: float) -> float:
        return 0.5 if self.calibration == "none" else super()._probability(score)

    def _probabilities(self, scores: Floats) -> Floats:
        """Return the calibrated probability of each score; one half where calibration is off."""
        return np.full(len(scores), 0.5) if self.calibration == "none" else super()._probabilities(scores)

    def _bytes_at(self, more: int) -> int:
        """Return the bytes that one step may have to write when the encoder has so many columns more."""
        return self._stages.bytes_at(self._encoder.width + more)

    # -- reading -------------------------------------------------------------------------------------

    @property
    def examples(self) -> int:
        """Rows learned, and rows kept for the map."""
        return super().examples + (0 if self._stages.mapping is None else self._stages.mapping.warmup.rows)

    @property
    def positives(self) -> int:
        """Positive rows learned, and those kept for the map."""
        return super().positives + (0 if self._stages.mapping is None else self._stages.mapping.warmup.positives)

    @property
    def weights(self) -> dict[Any, float]:
        """Name to weight of the output score, in the units that the scaler applies at present."""
        self._refuse_map("weights")
        return self._stages.learner.weights

    def largest_weights(self, most: int) -> list[tuple[Any, float]]:
        """Return names and weights of the output score, the largest by absolute value first.

        Parameters
        ----------
        most : int
            How many at most, >= 1.

        Returns
        -------
        list of (name, float)
            Those of one absolute value in the order of their names as text.

        Raises
        ------
        InvalidParams
            The model has a feature map, or its score is no sum over names.
        """
        self._refuse_map("weights")
        learner = self._stages.learner
        names, weights = learner._names(), learner.coefficients()
        sizes = np.abs(weights)
        at = np.arange(weights.size)
        if most < weights.size:  # all that are as large as the smallest of them: names decide among equals
            at = np.flatnonzero(sizes >= np.partition(sizes, weights.size - most)[weights.size - most])
        pairs = ((names[j], weights.item(j)) for j in at.tolist())
        return heapq.nsmallest(most, pairs, key=lambda pair: (-abs(pair[1]), str(pair[0])))

    def _refuse_map(self, where: str) -> None:
        if self._map_pattern is not None:
            raise InvalidParams(where, "a model without a feature map", self._map_pattern.spec["kind"])

    def explain_one(self, x: Mapping[Any, Any]) -> dict[Any, float]:
        """Return name to contribution (weight times scaled value); they add up to the score.

        Names that share a hashed column are scaled as one value: its contribution is theirs in proportion
        to their values, or in equal parts where these cancel. A learner with an intercept gives it the
        name "(intercept)".

        Parameters
        ----------
        x : dict
            Name to number, bool, string, list of strings, or None (absent).

        Returns
        -------
        dict
            Name to contribution.

        Raises
        ------
        InvalidBlock
            A feature cannot be used.
        InvalidParams
            The model has a feature map.
        """
        return self._stages.explain(self._read_row(x))

    @lock_free
    def merge(self, other: Self, approximate: bool = False) -> Self:
        """Merge `other` into this model; refused where a running scaler makes units differ.

        Parameters
        ----------
        other : Pipeline
            With the same fixed scaling and learner; it stays as it is.
        approximate : bool
            Whether an average is taken where there is no exact merge.

        Returns
        -------
        self

        Raises
        ------
        CannotMerge
            Nothing was changed.
        """
        if type(other) is not type(self):
            raise CannotMerge("Pipeline.merge", "a Pipeline", type(other).__name__)
        in_order(self, other, lambda: self._merge(other, approximate))
        return self

    def _merge(self, other: Self, approximate: bool) -> None:
        ours, others = (
            (ColumnsSpec.of(each) if each is not None else None) for each in (self._columns, other._columns)
        )
        if ours != others:
            raise CannotMerge("Pipeline.merge", "pipelines that read columns alike", Description("other columns"))
        mine, theirs = self._stages.mapping, other._stages.mapping
        if mine is not None or theirs is not None:
            if mine is None or theirs is None or not mine.same_as(theirs):
                raise CannotMerge("Pipeline.merge", "pipelines with one fitted map", Description("maps that differ"))
        elif self._stages.scaling.scheduled:
            raise CannotMerge("Pipeline.merge", "a pipeline without a running scaler", self._stages.resolved)
        self._stages.learner.merge(other._stages.learner, approximate)

    # -- snapshots -----------------------------------------------------------------------------------

    def state_dict(self) -> tuple[snapshot.Arrays, dict[str, Any]]:
        """Return (arrays, meta): everything, so that a model made from it goes on bit for bit.

        Returns
        -------
        arrays : dict of ndarray
            By name.
        meta : dict
            All else, as JSON can say it: class, parameters, encoder.
        """
        stages = self._stages
        arrays, meta = stages.state_dict()
        meta |= {
            "class": "Pipeline",
            "calibration": self.calibration,
            "scaler": self._scaler_name,
            "encoder": self._encoder_pattern.spec,
            "spec": None if self._spec is None else self._spec.model_dump(mode="json"),
        }
        if self._columns is not None:
            meta["columns"] = ColumnsSpec.of(self._columns).model_dump(mode="json")
        if stages.mapping is not None:
            encoder_arrays, meta["map"]["encoder"] = stages.encoder.state_dict()
            arrays |= {f"encoder.{name}": array for name, array in encoder_arrays.items()}
        return arrays, meta

    @classmethod
    def from_state_dict(cls, arrays: snapshot.Arrays, meta: dict[str, Any]) -> Self:
        """Return the pipeline that `state_dict` described.

        Parameters
        ----------
        arrays : dict of ndarray
        meta : dict
            Both as `state_dict` returned them.

        Returns
        -------
        Pipeline

        Raises
        ------
        BadSnapshot
            It is not the state of a pipeline, or an array is not there.
        """
        if meta.get("class") != "Pipeline":
            raise BadSnapshot("snapshot", "a Pipeline", meta.get("class"))

        steps: list[Any] = [encoder_of(meta["encoder"]), *steps_of(meta["scaler"])]
        if "columns" in meta:
            steps.insert(0, ColumnsSpec.model_validate(meta["columns"]).rules())
        map_meta, encoder = meta.get("map"), None
        if map_meta is not None:
            steps.append(map_of(map_meta["spec"]))
            own = {
                name.removeprefix("encoder."): array for name, array in arrays.items() if name.startswith("encoder.")
            }
            encoder = encoder_from_state(own, map_meta["encoder"])
        stages = Stages.from_state_dict(arrays, meta, encoder)
        model = cls(*steps, stages.learner.clone(), calibration=meta["calibration"])
        model._scaler_name = meta["scaler"]
        model._rules = meta["scaling"].get("rules", FIRST_RULES)
        if stages.learner._ledger[ledger.RULES] != ledger.FIRST_RULES:
            model._rules = RULES if model._rules == SCALING_RULES else CALIBRATION_RULES
        if meta["spec"] is not None:
            model._spec = PipelineSpec.model_validate(meta["spec"])
        model._stages = stages
        model._adopt_stages()
        return model
