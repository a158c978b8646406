"""Bounds of parameters as data, inside `Annotated`: `R: Annotated[float, Gt(0)] = 30.0`.

The constructor, assignment, `Pipeline` specs, the command line and the documentation all read the
same declaration, and an error always has the same form.
"""

from __future__ import annotations

import math
import numbers
import operator
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from aucstream.errors import InvalidParams


@dataclass(frozen=True)
class Bound:
    """A limit of a number."""

    bound: float

    sign: ClassVar[str]
    holds_for: ClassVar[Callable[[Any, float], Any]]

    def __str__(self) -> str:
        return f"{self.sign} {self.bound:g}"

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
class Rule:
    """All that one parameter may be."""

    kind: type
    optional: bool
    bounds: tuple[Bound, ...]
    words: tuple[str, ...]
    infinite: bool

    def expected(self) -> str:
        """Return the constraint in words."""
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


def _rule(hint: Any) -> Rule:
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
    return Rule(hint, optional, bounds, words, any(isinstance(mark, InfinityAllowed) for mark in marks))


def check_epochs(epochs: Any) -> int:
    """Return the passes that `fit` is to make."""
    if not isinstance(epochs, numbers.Integral) or epochs < 1:
        raise InvalidParams("fit.epochs", "an integer >= 1", epochs)
    return int(epochs)


@cache
def rules_of(cls: type) -> dict[str, Rule]:
    """Return the rule of every constructor parameter of a parameter dataclass, in order."""
    import dataclasses

    hints = typing.get_type_hints(cls, include_extras=True)
    return {f.name: _rule(hints[f.name]) for f in dataclasses.fields(cls) if f.init}
