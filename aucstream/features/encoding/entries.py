"""From one dict of features to (name, value) entries: what a value may be is decided here, once."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from aucstream.errors import InvalidBlock

Name = str | int
NUMERIC = 1
INDICATOR = 2  # made from a bool, a string or a list: scalers pass it unchanged

VALUES = "a finite number, a bool, a string, a list of strings or None"


def checked_name(name: object, path: str) -> Name:
    """Return a feature's name: a string, or an integer (the name of an array's column)."""
    if type(name) is str:
        return name
    if isinstance(name, (bool, np.bool_)) or not isinstance(name, (str, int, np.integer)):
        raise InvalidBlock("feature name", "a string or an integer", name, path=path)
    return str(name) if isinstance(name, str) else int(name)


def entries_of(x: Mapping[Any, Any], path: str = "") -> list[tuple[Name, float, int]]:
    """Return (name, value, kind) for every feature of `x` that is there.

    Parameters
    ----------
    x : mapping
        Numbers stay numbers; a bool is 1 or 0; a string `v` under `a` is the indicator `a=v`; a list
        of strings is one indicator each; None is absent.
    path : str
        Put before the feature's name in an error.

    Raises
    ------
    InvalidBlock
        A value of another kind, not finite, or two features that make the same name.
    """
    entries: list[tuple[Name, float, int]] = []
    names: set[Name] = set()
    for key, value in x.items():
        name = checked_name(key, path)
        if value is None:
            continue
        kind = type(value)
        if kind is float or kind is int:
            entries.append((name, finite_value(value, name, path), NUMERIC))
        elif isinstance(value, str):
            names.add(f"{name}={value}")
            entries.append((f"{name}={value}", 1.0, INDICATOR))
        elif isinstance(value, (bool, np.bool_)):
            entries.append((name, 1.0 if value else 0.0, INDICATOR))
        elif isinstance(value, (list, tuple, set, frozenset)):
            for member in value:  # before they are sorted or hashed, which not all values can be
                if not isinstance(member, str):
                    raise InvalidBlock("feature", "a list of strings", member, path=f"{path}[{name!r}]")
            for member in sorted(value) if isinstance(value, (set, frozenset)) else dict.fromkeys(value):
                names.add(f"{name}={member}")
                entries.append((f"{name}={member}", 1.0, INDICATOR))
        elif isinstance(value, numbers.Real) or (
            hasattr(value, "__float__") and not hasattr(value, "__len__") and not isinstance(value, np.generic)
        ):
            entries.append((name, finite_value(value, name, path), NUMERIC))
        else:
            raise InvalidBlock("feature", VALUES, value, path=f"{path}[{name!r}]")
    if names and len({name for name, _, _ in entries}) < len(entries):
        raise _met(x, path)
    return entries


def _met(x: Mapping[Any, Any], path: str) -> InvalidBlock:
    """Return the error for a one-hot name that another feature has, too; it names the one-hot feature."""
    pairs = [
        (key, f"{key}={member}")
        for key, value in x.items()
        if value is not None and not isinstance(value, (bool, np.bool_, numbers.Real))
        for member in ([value] if isinstance(value, str) else set(value) if isinstance(value, Iterable) else ())
    ]
    names = [name for _, name in pairs]
    key, name = next(((key, name) for key, name in pairs if names.count(name) > 1 or name in x), pairs[0])
    message = "names that differ: a one-hot name=value meets another feature"
    return InvalidBlock("feature", message, name, path=f"{path}[{key!r}]")


def finite_value(value: Any, name: Name, path: str) -> float:
    """Return a feature's number as a float, or raise InvalidBlock."""
    try:
        number = float(value)
    except (OverflowError, TypeError, ValueError) as error:
        raise InvalidBlock("feature", VALUES, value, path=f"{path}[{name!r}]") from error
    if not math.isfinite(number):
        raise InvalidBlock("feature", "a finite number", value, path=f"{path}[{name!r}]")
    return number
