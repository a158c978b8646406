"""Objects that threads may share: one thread at a time is in their methods.

`Exclusive` wraps every public method and property of its subclasses, so that nothing public can be forgotten. A method
that needs no lock says so with `lock_free`; a private one that such a method relies on is `exclusive`.
"""

from __future__ import annotations

import copy
import functools
import threading
import weakref
from array import array
from collections.abc import Callable
from threading import get_ident
from types import FunctionType
from typing import Any, Self, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

SHUT = -1


class Gate:
    """The lock of one object, and a number in memory that tells compiled calls whether they may run without it.

    A copy or a pickle of it is a new one: a lock belongs to one object.

    Attributes
    ----------
    lock : RLock
    owner : int
        Identifier of the thread that is in a method, 0: none is.
    version : int
        >= 0. Of the object's arrays: compiled calls of another version point to arrays that were replaced.
    cell : array of int64 (1,)
        SHUT while a method is at work, else the version.
    address : int
        Of the cell.
    private : bool
        The object is a copy that only a pickle in the making knows.
    whole : weak reference or None
        The object, where its parts have its gate, too.
    """

    __slots__ = ("address", "cell", "lock", "owner", "private", "version", "whole")

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.owner = 0
        self.version = 0
        self.private = False
        self.cell = array("q", [0])
        self.address: int = self.cell.buffer_info()[0]
        self.whole: weakref.ref[Any] | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Gate:
        return Gate()

    def __reduce__(self) -> tuple[type[Gate], tuple[()]]:
        return Gate, ()


def exclusive(method: F) -> F:
    """Return a method that runs while no other thread is in one of the same object; it may call others of these."""

    @functools.wraps(method)
    def alone(self: Exclusive, *arguments: Any, **named: Any) -> Any:
        gate, thread = self._gate, get_ident()
        if gate.owner == thread:  # only this thread itself can have written that
            return method(self, *arguments, **named)
        with gate.lock:
            try:
                gate.owner = thread
                gate.cell[0] = SHUT
                return method(self, *arguments, **named)
            finally:
                gate.owner = 0
                if self._is_outdated():
                    gate.version += 1
                gate.cell[0] = gate.version

    alone.is_guarded = True  # type: ignore[attr-defined]
    return alone  # type: ignore[return-value]


def lock_free(method: F) -> F:
    """Mark a public method that takes no lock: what it does itself is one step, or touches no state."""
    method.is_guarded = True  # type: ignore[attr-defined]
    return method


class Exclusive:
    """Base of what threads may share. A subclass sets `_gate` before anything else."""

    _gate: Gate

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        for name, member in list(vars(cls).items()):
            if name.startswith("_"):
                continue
            if isinstance(member, property):
                setattr(cls, name, property(_guarded(member.fget), _guarded(member.fset), doc=member.__doc__))
            elif isinstance(member, FunctionType):
                setattr(cls, name, _guarded(member))

    def _is_outdated(self) -> bool:
        """Return whether compiled calls made before point to arrays that were replaced."""
        return False

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self._copied(memo)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        # A copy: a pickle reads the state after this method has returned. What is in the copy is not copied again, or
        # what two of its parts share would become two.
        if self._gate.private:
            return _blank, (type(self),), self.__getstate__()
        memo: dict[int, Any] = {}
        twin = self._copied(memo)
        for part in memo.values():
            if isinstance(part, Exclusive):
                part._gate.private = True
        return _blank, (type(self),), twin.__getstate__()

    @exclusive
    def _copied(self, memo: dict[int, Any]) -> Self:
        twin = memo[id(self)] = _blank(type(self))
        state: Any = copy.deepcopy(self.__getstate__(), memo)
        if hasattr(twin, "__setstate__"):
            twin.__setstate__(state)
        else:
            twin.__dict__.update(state)
        return twin


def _guarded(member: Any) -> Any:
    return member if member is None or getattr(member, "is_guarded", False) else exclusive(member)


def _blank(cls: type[T]) -> T:
    return object.__new__(cls)


def in_order(one: Exclusive, other: Exclusive, call: Callable[[], Any]) -> Any:
    """Call a function while no other thread is in either object; whoever takes two locks takes them in one order."""
    first, second = sorted((one, other), key=lambda part: id(part._gate))
    return _locked(first, lambda: _locked(second, call))


@exclusive
def _locked(_: Exclusive, call: Callable[[], Any]) -> Any:
    return call()
