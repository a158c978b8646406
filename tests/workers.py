"""Which tests run in one worker, and in which order the workers take them.

A kernel is compiled where it is first called. Two workers that need it at the same time compile it twice, and each
that needs it later loads it from the cache. So the tests of one learner, of all files, are one group, and the tests of
any other file are one. A slow test that says nothing of groups is alone.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from aucstream.registry import LEARNERS

ROOT = Path(__file__).parents[1]
LEARNER_ROOMS = ("contracts", "golden", "learners")
FILES = {"minibatch": "minibatchauc", "univariate": "univariateexp"}  # of tests that are not called as their learner
FIRST = ("image", "solam")  # one compiles for another processor, the other what all learners need
LAST = ("auto",)  # of the learners: it compiles what it does not find of its members
LONG = "tests/aucstream/portfolio/"  # files of few tests that take long: they are no good end


def assign(items: list[pytest.Item]) -> None:
    """Give each test its group."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None and item.get_closest_marker("slow") is None:
            item.add_marker(pytest.mark.xdist_group(_group(item)))


def order(items: list[pytest.Item]) -> None:
    """Put the groups in the order in which they are to be taken: compilers first, long ones before short ones."""
    sizes: dict[str, int] = {}
    for item in items:
        sizes[_name(item)] = sizes.get(_name(item), 0) + 1
    items.sort(key=lambda item: (_rank(_name(item)), -sizes[_name(item)], _name(item)))


def _name(item: pytest.Item) -> str:
    marker = item.get_closest_marker("xdist_group")
    return item.nodeid if marker is None else str(marker.args[0])


def _rank(group: str) -> int:
    if group in FIRST:
        return FIRST.index(group)
    if group in LEARNERS:
        return len(FIRST) + LAST.count(group)
    if group.startswith(LONG):
        return len(FIRST) + 2
    return len(FIRST) + (3 if "::" in group else 4)  # slow tests, then files


def _group(item: pytest.Item) -> str:
    path = item.path.relative_to(ROOT)
    if path.parts[:2] == ("tests", "aucstream") and path.parts[2] in LEARNER_ROOMS:
        values = item.callspec.params.values() if hasattr(item, "callspec") else ()
        words = [value.split()[0] for value in values if isinstance(value, str) and value.strip()]
        stem = path.stem.removeprefix("test_")
        for word in (*words, FILES.get(stem, stem)):
            if word in LEARNERS:
                return word
    return path.with_suffix("").as_posix()
