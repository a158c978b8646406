"""Crosses of categories: a feature for each pair of words that come together in a row.

A linear learner cannot rank by what only two categories together say, and trees seldom find it where each has many
values. A cross makes it one feature more.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, Literal

from aucstream.errors import InvalidBlock
from aucstream.features.encoding.entries import INDICATOR, Name, checked_name

MOST_CATEGORIES = 16  # of a row, with crosses="all"

Pairs = tuple[tuple[Name, Name], ...]
Crosses = Literal["all"] | Pairs | None

ALLOWED = "None, 'all', or pairs of two different names"


def checked_crosses(value: Any) -> Crosses:
    """Return crosses in their plain form, or raise ValueError.

    Parameters
    ----------
    value : None, "all", or sequence of pairs of (str or int)
    """
    if value is None or value == "all":
        return value  # type: ignore[no-any-return]
    if not isinstance(value, (list, tuple)) or not value:
        raise ValueError(ALLOWED)
    pairs = []
    for pair in value:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise ValueError(ALLOWED)
        try:
            first, second = (checked_name(name, "") for name in pair)
        except InvalidBlock:
            raise ValueError(ALLOWED) from None
        if first == second:
            raise ValueError(ALLOWED)
        pairs.append((first, second))
    if len({frozenset(pair) for pair in pairs}) < len(pairs):
        raise ValueError(ALLOWED)
    return tuple(pairs)


def crosses_spec(crosses: Crosses) -> dict[str, Any]:
    """Return what crosses are in the spec of an encoder: nothing where there are none."""
    if crosses is None:
        return {}
    return {"crosses": crosses if crosses == "all" else [list(pair) for pair in crosses]}


def crosses_of(x: Mapping[Any, Any], crosses: Literal["all"] | Pairs) -> list[tuple[Name, float, int]]:
    """Return the entries `a=v&b=w` of a row, each 1.

    Parameters
    ----------
    x : mapping
        A row that `entries_of` takes.
    crosses : "all" or pairs of names
        "all": each pair of the first 16 features, by name, whose value is a string.

    Returns
    -------
    list of (name, value, kind)
        Only of pairs both of whose values are strings.
    """
    words = {checked_name(name, ""): value for name, value in x.items() if isinstance(value, str)}
    if crosses == "all":
        names = sorted(words, key=lambda name: (isinstance(name, str), name))[:MOST_CATEGORIES]
        pairs: Any = itertools.combinations(names, 2)
    else:
        pairs = [pair for pair in crosses if pair[0] in words and pair[1] in words]
    return [(f"{a}={words[a]}&{b}={words[b]}", 1.0, INDICATOR) for a, b in pairs]
