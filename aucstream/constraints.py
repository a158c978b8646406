"""Bounds of parameters as data, inside `Annotated`: `R: Annotated[float, Gt(0)] = 30.0`.

The constructor, assignment, `Pipeline` specs, the command line, the service and the documentation all read the
same declaration, and an error always has the same form. A parameter that decides how much memory a model takes is
declared with a `Size` besides: the service has a limit for each kind of size.
"""

from __future__ import annotations

import inspect
import math
import numbers
import operator
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal

from aucstream.errors import InvalidParams


@dataclass(frozen=True)
class Bound:
    """A limit of a number."""

    bound: float

    sign: ClassVar[str]
    holds_for: ClassVar[Callable[[Any, float], Any]]

    def __str__(self) -> str:
        whole = float(self.bound).is_integer() and abs(self.bound) < 1e15
        return f"{self.sign} {int(self.bound) if whole else self.bound:{'d' if whole else 'g'}}"

    def holds(self, value: Any) -> bool:
        """Return whether `value` obeys."""
        return bool(type(self).holds_for(value, self.bound))


class Gt(Bound):
    """Greater than `bound`."""

    sign, holds_for = ">", operator.gt


class Ge(Bound):
    """At least `bound`."""

    sign, holds_for = ">=", operator.ge


class Le(Bound):
    """At most `bound`."""

    sign, holds_for = "<=", operator.le


class Lt(Bound):
    """Less than `bound`."""

    sign, holds_for = "<", operator.lt


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of a few words."""

    words: tuple[str, ...]

    def __str__(self) -> str:
        return " | ".join(map(repr, self.words))


@dataclass(frozen=True, slots=True)
class InfinityAllowed:
    """Infinity is a value (`cap=inf` restores a paper's uncapped step)."""


@dataclass(frozen=True, slots=True)
class CheckedBy:
    """A value of a form of its own.

    Attributes
    ----------
    check : function
        Returns the value in its plain form, or raises ValueError.
    text : str
        What is allowed, in words.
    """

    check: Callable[[Any], Any]
    text: str


SizeKind = Literal[
    "buffered rows", "warm-up rows", "directions", "features", "columns", "names", "bits", "trees", "nodes"
]


@dataclass(frozen=True, slots=True)
class Size:
    """A parameter that memory grows with: `capacity: Annotated[int, Ge(1), Size("buffered rows")]`.

    Attributes
    ----------
    kind : SizeKind
        What it counts: rows that a learner keeps, of each class or in a window; rows that a map is fitted on;
        directions of all features; features that a map makes; columns that it reads; names of a vocabulary; bits of
        a hash; trees of a forest; nodes of a tree.
    numbers : int
        Of directions: floats for each direction and feature.
    where : (str, str) or None
        Another parameter and its value: with any other value nothing grows.
    """

    kind: SizeKind
    numbers: int = 0
    where: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """All that one parameter may be."""

    kind: type
    optional: bool
    bounds: tuple[Bound, ...]
    words: tuple[str, ...]
    infinite: bool
    default: Any = None
    size: Size | None = None
    form: CheckedBy | None = None

    def expected(self) -> str:
        """Return the constraint in words."""
        if self.form is not None:
            return self.form.text
        if self.words:
            text = " | ".join(map(repr, self.words))
        else:
            noun = {int: "an integer", float: "a finite number", bool: "true or false", str: "a string"}[self.kind]
            if self.infinite:
                noun = "a number"
            text = " and ".join([noun + (f" {self.bounds[0]}" if self.bounds else ""), *map(str, self.bounds[1:])])
        return text + (" or None" if self.optional else "")

    def checked(self, where: str, value: Any) -> Any:
        """Return `value` in its plain Python type, or raise InvalidParams."""
        if self.form is not None:
            try:
                return self.form.check(value)
            except ValueError:
                raise InvalidParams(where, self.expected(), value) from None
        if value is None and self.optional:
            return None
        plain: Any = value.item() if type(value).__module__ == "numpy" and hasattr(value, "item") else value
        if self.words:
            good = isinstance(plain, str) and plain in self.words
        elif self.kind is bool:
            good = isinstance(plain, bool)
        elif self.kind is str:
            good = isinstance(plain, str)
        elif isinstance(plain, bool) or not isinstance(plain, (int, float)):
            good = False
        else:
            if self.kind is int:
                if isinstance(plain, float) and plain.is_integer():
                    plain = int(plain)
                good = isinstance(plain, int)
            else:
                try:
                    plain = float(plain)
                except OverflowError:
                    plain = math.inf
                good = math.isfinite(plain) or (self.infinite and plain == math.inf)
            good = good and all(bound.holds(plain) for bound in self.bounds)
        if not good:
            raise InvalidParams(where, self.expected(), value)
        return plain


def _rule(hint: Any, default: Any) -> Rule:
    marks: tuple[Any, ...] = ()
    optional = False
    if typing.get_origin(hint) is typing.Annotated:
        hint, *rest = typing.get_args(hint)
        marks = tuple(rest)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        members = [member for member in typing.get_args(hint) if member is not type(None)]
        optional = len(members) < len(typing.get_args(hint))
        hint = members[0]
    words: tuple[str, ...] = ()
    if typing.get_origin(hint) is typing.Literal:
        words = typing.get_args(hint)
        hint = str
    for mark in marks:
        if isinstance(mark, OneOf):
            words = mark.words
    bounds = tuple(mark for mark in marks if isinstance(mark, Bound))
    size = next((mark for mark in marks if isinstance(mark, Size)), None)
    form = next((mark for mark in marks if isinstance(mark, CheckedBy)), None)
    infinite = any(isinstance(mark, InfinityAllowed) for mark in marks)
    return Rule(hint, optional, bounds, words, infinite, default, size, form)


def check_epochs(epochs: Any) -> int:
    """Return the passes that `fit` is to make."""
    if not isinstance(epochs, numbers.Integral) or epochs < 1:
        raise InvalidParams("fit.epochs", "an integer >= 1", epochs)
    return int(epochs)


@cache
def rules_of(cls: type) -> dict[str, Rule]:
    """Return the rule of every constructor parameter, in order.

    Parameters
    ----------
    cls : type
        A parameter dataclass, or a class whose constructor annotates its parameters.
    """
    import dataclasses

    if dataclasses.is_dataclass(cls):
        hints = typing.get_type_hints(cls, include_extras=True)
        return {f.name: _rule(hints[f.name], f.default) for f in dataclasses.fields(cls) if f.init}
    hints = typing.get_type_hints(vars(cls)["__init__"], include_extras=True)
    return {p.name: _rule(hints[p.name], p.default) for p in inspect.signature(cls).parameters.values()}
