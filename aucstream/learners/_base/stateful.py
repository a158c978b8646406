"""What a learner consists of, written once: parameters and a declared state, which grows, is copied and is saved."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Self

from aucstream import snapshot
from aucstream.block import writable
from aucstream.constraints import rules_of
from aucstream.errors import BadSnapshot, Description, InvalidParams
from aucstream.exclusive import Gate, exclusive
from aucstream.features.encoding.encoder import Encoder
from aucstream.features.encoding.hashing import Hashing
from aucstream.features.encoding.vocabulary import Vocabulary
from aucstream.kernels import ledger
from aucstream.kernels.pairs.buffers import compacted
from aucstream.kernels.random import seeded
from aucstream.learners._base.calibrated import new_ledger, whole_ledger
from aucstream.learners._base.estimator import RankingClassifier
from aucstream.learners._base.state import PoolIdx, PoolVal, Program, Scratch, Slots, Table, Vector

SMALLEST_WIDTH = 8
MOST_INTEGER = 1 << 63  # kernels take parameters as int64; none is as large
_STANDS_ON = frozenset({"_arrays", "_ledger", "_kernel_params", "_encoder"})  # what compiled calls of a row point to


class StatefulClassifier(RankingClassifier):
    """Parameters, and arrays that a program declares; a learner's file gives both."""

    _parameters: ClassVar[frozenset[str]] = frozenset()
    _steps_and_penalties: ClassVar[frozenset[str]] = frozenset()  # parameters that may change later
    _random: ClassVar[bool] = False  # has a `seed`, and a state field `generator` in programs that draw

    def __post_init__(self) -> None:
        self._gate = Gate()
        self._set_all()
        self._seed: int = 0
        if self._random:
            seed = self.seed  # type: ignore[attr-defined]
            self._seed = secrets.randbits(63) if seed is None else int(seed)
        self._program: Program = self._chosen_program()
        self._kernel_params: tuple[float, ...] = self._kernel_args()
        if any(type(value) is int and value >= MOST_INTEGER for value in self._kernel_params):
            raise self._too_large(f"an integer < {MOST_INTEGER}")
        self._buffered = self._slots() > 0
        parts = self._program.parts.values()
        self._pool_at = next((i for i, part in enumerate(parts) if isinstance(part, Slots)), -1)
        self._encoder: Encoder = Vocabulary()
        self._reset()
        self._built = True

    # -- what a learner's file gives ---------------------------------------------------------------

    def _chosen_program(self) -> Program:
        """Return the program that the parameters select."""
        raise NotImplementedError

    def _kernel_args(self) -> tuple[float, ...]:
        """Return the parameters as its kernels take them, in order."""
        raise NotImplementedError

    def _slots(self) -> int:
        """Return how many rows the buffers hold (0: no buffers)."""
        return 0

    def _sizes(self) -> dict[str, int]:
        """Return the sizes that the declared state names."""
        return {}

    def _max_width(self) -> tuple[int, str] | None:
        """Return (most features, what to do instead) where the state would not hold any number."""
        return None

    def _capacity_for(self, width: int) -> int:
        """Return how many columns the arrays need for `width` features."""
        widest = self._max_width()
        return width if widest is None else min(width, widest[0])

    def _init_state(self) -> None:
        """Set what does not start at zero, in place."""

    # -- parameters ------------------------------------------------------------------------------

    def _set_all(self) -> None:
        for name, rule in rules_of(type(self)).items():
            object.__setattr__(self, name, rule.checked(f"{type(self).__name__}.{name}", getattr(self, name)))

    @property
    def _mutable_attributes(self) -> set[str]:
        return set(self._steps_and_penalties)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._parameters and self.__dict__.get("_built"):
            if name not in self._steps_and_penalties:
                raise AttributeError(f"{type(self).__name__}.{name} is fixed at construction; make a new learner")
            self._change_parameter(name, rules_of(type(self))[name].checked(f"{type(self).__name__}.{name}", value))
            return
        object.__setattr__(self, name, value)
        if name == "_kernel_params":
            self._number_types = tuple(map(type, value))
        if name in _STANDS_ON:
            object.__setattr__(self, "_generation", object())

    @exclusive
    def _change_parameter(self, name: str, value: Any) -> None:
        """Set a parameter that may change later."""
        object.__setattr__(self, name, value)
        self._kernel_params = self._kernel_args()

    def __getstate__(self) -> dict[str, Any]:
        # The program is code, chosen by the parameters: a copy finds it, compiled, where it is.
        return {
            name: value for name, value in self.__dict__.items() if name not in ("_program", "_entry", "_generation")
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({name: writable(value) for name, value in state.items()})
        self.__dict__["_ledger"] = whole_ledger(self._ledger)
        self.__dict__["_program"] = self._chosen_program()
        self.__dict__["_generation"] = object()

    @property
    def _is_stochastic(self) -> bool:
        return self._random and self.seed is None  # type: ignore[attr-defined]

    @classmethod
    def _extreme_params(cls) -> Iterator[dict[str, Any]]:
        """Yield parameters whose steps are far too long, for the tests."""
        for name in sorted(cls._steps_and_penalties):
            yield {name: 1e6}

    # -- state -----------------------------------------------------------------------------------

    def _reset(self) -> None:
        self._adopt(type(self._encoder)(**{k: v for k, v in self._encoder.spec.items() if k != "kind"}))
        self._capacity = max(SMALLEST_WIDTH, self._capacity_for(self._encoder.width))
        self._arrays: tuple[Any, ...] = self._new_arrays()
        before = self.__dict__.get("_ledger")
        self._ledger = new_ledger(ledger.NEW_RULES if before is None else before[ledger.RULES])
        if "generator" in self._program.parts:
            self._field("generator")[:] = seeded(self._seed)
        self._init_state()

    def _take_rules(self, rules: float) -> None:
        """Go by these rules, see `kernels.ledger`, before the first row; the model keeps them."""
        self._ledger[ledger.RULES] = rules

    def _new_arrays(self) -> tuple[Any, ...]:
        """Return fresh arrays, or raise InvalidParams naming the largest size where memory has no room for them."""
        try:
            return self._program.new_arrays(self._capacity, self._slots(), self._sizes())
        except (MemoryError, OverflowError, ValueError) as error:  # numpy has an error for each order of magnitude
            raise self._too_large("a size that memory has room for") from error

    def _too_large(self, expected: str) -> InvalidParams:
        """Return the error that names the largest of the parameters that are counts."""
        rules = rules_of(type(self))
        counts = {name: getattr(self, name) or 0 for name, rule in rules.items() if rule.kind is int and name != "seed"}
        name = max(counts, key=counts.__getitem__)
        return InvalidParams(f"{type(self).__name__}.{name}", expected, counts[name])

    def _adopt(self, encoder: Encoder) -> None:
        """Take columns from `encoder` from now on."""
        widest = self._max_width()
        if widest is not None:
            encoder.narrow(*widest)
        self._encoder = encoder

    def _share(self, encoder: Encoder) -> None:
        """Take columns from an equal encoder from now on."""
        self._encoder = encoder

    def _twin(self) -> Self:
        """Return a learner for scoring that has copies of all arrays that learning writes, and shares the rest."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._restore(self._checkpoint())
        return twin

    def _field(self, name: str) -> Any:
        return self._arrays[list(self._program.parts).index(name)]

    def _ensure(self, width: int) -> None:
        width = self._capacity_for(width)
        if width > self._capacity:
            self._capacity = max(width, self._capacity_for(2 * self._capacity))
            self._arrays = self._program.widened(self._arrays, self._capacity)

    def _bytes_at(self, more: int) -> int:
        return self._state_bytes(self._encoder.width + more)

    def _state_bytes(self, width: int) -> int:
        """Return the bytes of the state when so many columns are in use: what one step may have to write."""
        capacity = self._capacity
        if self._capacity_for(width) > capacity:
            capacity = max(self._capacity_for(width), self._capacity_for(2 * capacity))
        return self._program.bytes_at(self._arrays, capacity, self._sizes())

    def _reserve(self, entries: int, longest: int) -> None:
        """Make room in the buffers for what rows of `entries` values in all can put there."""
        at = self._pool_at
        slots, pool_idx, pool_val = self._arrays[at : at + 3]
        if entries <= pool_val.size - slots.item(-1, 0):
            return
        live = int(slots[:, 1].sum())
        # a quarter more than what must fit, so that closing gaps is rare
        need = live + min(entries, (len(slots) - 1) * longest) + live // 4
        if need <= pool_val.size:
            return
        slots, pool_idx, pool_val = compacted(slots, pool_idx, pool_val, max(need, 2 * live))
        self._arrays = (*self._arrays[:at], slots, pool_idx, pool_val, *self._arrays[at + 3 :])

    # -- snapshots -------------------------------------------------------------------------------

    def _checkpoint(self) -> tuple[Any, ...]:
        """Return a copy of all that learning changes but the names, for `_restore`."""
        return tuple(array.copy() for array in self._arrays), self._ledger.copy(), self._capacity

    def _restore(self, checkpoint: tuple[Any, ...]) -> None:
        """Restore what `_checkpoint` returned."""
        self._arrays, self._ledger, self._capacity = checkpoint

    def _settle(self) -> None:
        self._program.settle(*self._arrays)

    def _params(self) -> dict[str, Any]:
        return {name: _plain(getattr(self, name)) for name in rules_of(type(self))}

    def state_dict(self) -> tuple[snapshot.Arrays, dict[str, Any]]:
        """Return (arrays, meta): everything, so that a model made from it goes on bit for bit.

        Returns
        -------
        arrays : dict of ndarray
            By name.
        meta : dict
            All else, as JSON can say it: class, parameters, encoder.
        """
        encoder_arrays, encoder_meta = self._encoder.state_dict()
        own, meta = self._own_state()
        arrays: snapshot.Arrays = {f"encoder.{name}": array for name, array in encoder_arrays.items()}
        return arrays | own, {**meta, "encoder": encoder_meta}

    def _own_state(self) -> tuple[snapshot.Arrays, dict[str, Any]]:
        """Return (arrays, meta) of `state_dict` but for the encoder's; no array is written later."""
        arrays: snapshot.Arrays = {"ledger": self._ledger.copy()}
        width = self._encoder.width
        program = self._program
        current = list(self._arrays)
        for i, part in enumerate(program.parts.values()):
            if isinstance(part, Slots):
                live = int(current[i][:, 1].sum())
                current[i : i + 3] = compacted(current[i], current[i + 1], current[i + 2], live)
        for (name, part), array in zip(program.parts.items(), current, strict=True):
            if isinstance(part, Scratch):
                continue
            if isinstance(part, Vector):
                array = array[:width]
            elif isinstance(part, Table):
                array = part.cut(array, width)
            arrays[f"state.{name}"] = array.copy()
        meta = {
            "class": type(self).__name__,
            "params": self._params(),
            "seed": self._seed,
        }
        return arrays, meta

    @classmethod
    def from_state_dict(cls, arrays: snapshot.Arrays, meta: dict[str, Any]) -> Self:
        """Return the learner that `state_dict` described.

        Parameters
        ----------
        arrays : dict of ndarray
        meta : dict
            Both as `state_dict` returned them.

        Returns
        -------
        learner

        Raises
        ------
        BadSnapshot
            An array is not there, or of another shape.
        """
        model = cls(**{name: _unplain(value) for name, value in meta["params"].items()})
        model._seed = meta["seed"]
        model._adopt(
            encoder_from_state(
                {name[8:]: array for name, array in arrays.items() if name.startswith("encoder.")}, meta["encoder"]
            )
        )
        model._program = model._program_of(arrays)
        width = model._encoder.width
        model._capacity = max(SMALLEST_WIDTH, model._capacity_for(width))
        fresh = list(model._program.new_arrays(model._capacity, model._slots(), model._sizes()))
        for i, (name, part) in enumerate(model._program.parts.items()):
            if isinstance(part, Scratch):
                continue
            saved = arrays.get(f"state.{name}")
            if saved is None:
                raise BadSnapshot("snapshot", f"the array state.{name}", Description("none"))
            if isinstance(part, Vector):
                fresh[i][: saved.size] = saved
            elif isinstance(part, Table) and saved.shape == part.cut(fresh[i], width).shape:
                part.cut(fresh[i], width)[:] = saved
            elif isinstance(part, (PoolIdx, PoolVal)) or saved.shape == fresh[i].shape:
                fresh[i] = saved
            else:
                raise BadSnapshot("snapshot", f"state.{name} of shape {fresh[i].shape}", saved.shape)
        model._arrays = tuple(fresh)
        model._ledger = whole_ledger(arrays["ledger"])
        model._resumed()
        return model

    def _program_of(self, arrays: snapshot.Arrays) -> Program:
        """Return the program that made the arrays of a snapshot."""
        return self._program

    def _resumed(self) -> None:
        """Make scratch agree with the state just loaded."""


def _plain(value: Any) -> Any:
    return "inf" if isinstance(value, float) and math.isinf(value) else value


def _unplain(value: Any) -> Any:
    return math.inf if value == "inf" else value


def encoder_from_state(arrays: snapshot.Arrays, meta: dict[str, Any]) -> Encoder:
    """Return the encoder that its `state_dict` described."""
    kinds: dict[str, Callable[..., Encoder]] = {
        "vocabulary": Vocabulary.from_state_dict,
        "hashing": Hashing.from_state_dict,
    }
    return kinds[meta["kind"]](arrays, meta)
