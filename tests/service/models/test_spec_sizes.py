"""A size is bounded by what its declaration says it counts, whatever its name."""

from __future__ import annotations

import json
import sys
from types import ModuleType
from typing import Annotated, Any

import pytest

from aucstream.constraints import Ge, Size, rules_of
from aucstream.errors import InvalidParams
from aucstream.features.maps.maps import MAPS
from aucstream.learners._base.learner import Learner, learner
from aucstream.registry import LEARNERS, Entry, learner_class
from aucstream.steps import ENCODERS
from aucstream_service.models.spec import ModelSpec, _sizes, first_difference, spec_of
from aucstream_service.settings import Settings


@learner
class Hoarder(Learner):
    """A learner whose buffers have names of their own."""

    memory: Annotated[int, Ge(1), Size("buffered rows")] = 10
    width: Annotated[int, Ge(1), Size("directions", numbers=2)] = 3
    store: str = "none"
    depth: Annotated[int, Ge(1), Size("directions", numbers=1, where=("store", "deep"))] = 5000
    passes: Annotated[int, Ge(1)] = 1


@pytest.fixture
def hoarder(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("hoarder")
    module.Hoarder = Hoarder  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "aucstream.learners.hoarder", module)
    monkeypatch.setitem(LEARNERS, "hoarder", Entry("Hoarder", "hoarder", "O(d)", "O(nnz)", "none"))


def refusal(settings: Settings, **spec: Any) -> str | None:
    """Return pointer and sentence of what a spec is refused for; None where its sizes are allowed."""
    try:
        spec_of(json.dumps({"algorithm": "hoarder", **spec}).encode(), settings)
    except InvalidParams as error:
        return f"{error.path} {error.message}"
    return None


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, None),
        ({"params": {"memory": 100_000, "passes": 10**12}}, None),
        (
            {"params": {"memory": 100_001}},
            "/params/memory memory: expected at most 100000 rows (--max-buffer-rows), got 100001",
        ),
        (
            {"params": {"width": 1001}},
            "/params/width width: expected at most 1000 directions (--max-directions), got 1001",
        ),
        ({"params": {"width": 1001}, "map": {"kind": "randomfourier"}}, "/params/width width: expected at most 1000"),
        (
            {"params": {"width": 1000}, "encoder": {"kind": "vocabulary", "capacity": 67_109}},
            "/encoder/capacity capacity: expected at most 67108 names with width=1000 (--max-cells), got 67109",
        ),
        (
            {"params": {"width": 1000}, "encoder": {"kind": "hashing", "bits": 17}},
            "/encoder/bits bits: expected at most 16 bits with width=1000 (--max-cells), got 17",
        ),
        (
            {"params": {"store": "deep"}},
            "/params/depth depth: expected at most 1000 directions (--max-directions), got 5000",
        ),
        ({"params": {"depth": 10**9}}, None),  # not kept
    ],
)
def test_a_buffer_of_any_name_is_bounded(hoarder: None, spec: dict[str, Any], expected: str | None) -> None:
    answer = refusal(Settings(), **spec)
    assert answer == expected or (answer and expected and answer.startswith(expected))


def test_every_declared_size_has_a_limit_that_a_spec_meets() -> None:
    owners = {
        **{f"/params {name}": learner_class(name) for name in LEARNERS},
        **{f"/encoder {kind}": cls for kind, cls in ENCODERS.items()},
        **{f"/map {kind}": cls for kind, cls in MAPS.items()},
    }
    met = 0
    for owner, cls in owners.items():
        place, kind = owner[1:].split()
        for param, rule in rules_of(cls).items():
            if rule.size is None:
                continue
            values = {param: 10**12, **dict([rule.size.where] if rule.size.where else [])}
            spec = {"algorithm": kind, "params": values} if place == "params" else {place: {"kind": kind, **values}}
            answer = refusal(Settings(), **{"algorithm": "psam", **spec})
            assert answer is not None and answer.startswith(f"/{place}/{param} "), (owner, param, answer)
            met += 1
    assert met > 15


def test_a_limit_that_is_named_is_a_setting() -> None:
    spec = ModelSpec(algorithm="mba", params={"moments": "sketch"}, map={"kind": "randomfourier"})
    hashed = ModelSpec(algorithm="opauc", params={"rank": 3}, encoder={"kind": "hashing", "bits": 5})
    settings = {limit[4] for each in (spec, hashed) for limit in _sizes(each, Settings())}
    assert len(settings) > 6
    assert settings <= set(Settings.model_fields)


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ({"a": 1, "b": {"c": 2, "d": 3}}, {"a": 1, "b": {"c": 2, "d": 4}}, ("/b/d", 3, 4)),
        ({"a": {"x/y": 1}}, {"a": {}}, ("/a/x~1y", 1, "nothing")),
        ({"a": None}, {"a": {"kind": "k"}}, ("/a", None, {"kind": "k"})),
        ({"a": 1, "b": 1}, {"a": 2, "b": 2}, ("/a", 1, 2)),
    ],
)
def test_the_first_field_that_differs(ours: Any, theirs: Any, expected: tuple[str, Any, Any]) -> None:
    assert first_difference(json.dumps(ours), json.dumps(theirs)) == expected
