"""Each problem type has an exception on both sides, an answer in OpenAPI and a line in docs/problems.md; no more."""

from __future__ import annotations

import inspect
import json
import re
from collections import Counter
from collections.abc import Iterator

from aucstream import errors as library
from aucstream.client import problems
from aucstream.errors import AucstreamError
from aucstream.problem_types import PROBLEM_TYPES, TYPE_PREFIX
from aucstream_service.errors import exceptions
from aucstream_service.ops.openapi import document
from tests.service.running import ROOT

UNADDRESSED = {  # answers that belong to no operation: the path or the method is none, or only the library raises it
    "not-found",
    "method-not-allowed",
    "cannot-merge",
}


def page() -> str:
    """Return docs/problems.md: `python -m tests.test_problem_types > docs/problems.md`."""
    lines = [
        "# Problems that the service answers with",
        "",
        f"`type` of a problem document is `{TYPE_PREFIX}NAME`. *Again* says whether the same request may succeed later. The",
        "classes are those of `aucstream.client.problems`; most are names of `aucstream.client`, too.",
        "",
        "| status | name | what was refused, and what to do | again | exception of the client |",
        "|---|---|---|---|---|",
    ]
    for entry in sorted(PROBLEM_TYPES.values(), key=lambda entry: entry.status):
        again = "yes" if entry.passes else "no"
        name = problems._BY_TYPE[entry.name].__name__
        lines.append(f"| {entry.status} | `{entry.name}` | {entry.title}. {entry.meaning} | {again} | `{name}` |")
    return "\n".join(lines) + "\n"


def declared(kind: type[AucstreamError]) -> Iterator[str]:
    """Yield the problem types that an exception and those derived from it in the library and the service declare."""
    if kind.__module__ in (library.__name__, exceptions.__name__):
        if "problem_type" in vars(kind):
            yield kind.problem_type.name
        for derived in kind.__subclasses__():
            yield from declared(derived)


def test_each_has_one_exception_that_is_raised() -> None:
    counts = Counter(declared(AucstreamError))
    assert counts == Counter(set(PROBLEM_TYPES) - {"internal-error"})  # that is any other exception


def test_each_has_an_exception_of_the_client() -> None:
    assert set(problems._BY_TYPE) == set(PROBLEM_TYPES)
    for name, kind in problems._BY_TYPE.items():
        assert kind.problem_type.name == name
        assert inspect.getdoc(kind)
        assert getattr(problems, kind.__name__) is kind


def test_each_has_an_answer_in_openapi() -> None:
    described = json.loads(document())
    components = described["components"]
    assert set(components["responses"]) == set(components["examples"]) == set(PROBLEM_TYPES)
    for name, entry in PROBLEM_TYPES.items():
        example = components["examples"][name]
        assert (example["summary"], example["description"]) == (entry.title, entry.meaning)
        assert example["value"]["type"] == TYPE_PREFIX + name
        assert example["value"]["status"] == entry.status
    used = set(re.findall(r'"#/components/(?:responses|examples)/([^"]*)"', json.dumps(described["paths"])))
    assert used == set(PROBLEM_TYPES) - UNADDRESSED


def test_each_has_a_line_in_the_docs() -> None:
    assert (ROOT / "docs" / "problems.md").read_text() == page(), (
        "python -m tests.test_problem_types > docs/problems.md"
    )
    for entry in PROBLEM_TYPES.values():
        assert entry.title
        assert entry.meaning.endswith((".", "`")), entry.name


if __name__ == "__main__":
    print(page(), end="")
