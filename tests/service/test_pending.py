"""Labels that come late, early, twice, contradictory or never: what each call answers, and that it is learned once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from .running import Local, problem
from .stream import rows

TTL = 100.0
EARLY = 50.0
FEATURES = {"a": 1.0, "b": 2, "word": "x", "tags": ["p", "q"], "gone": None}
SAME = {"tags": ["q", "p"], "word": "x", "b": 2.0, "a": 1}  # means the same
OTHER = {**FEATURES, "b": 3}

SPECS: dict[str, dict[str, Any]] = {
    "discard": {"pending": {"ttl_seconds": TTL}},
    "negative": {"pending": {"ttl_seconds": TTL, "on_expiry": "negative"}},
    "early": {"pending": {"ttl_seconds": TTL, "hold_early_seconds": EARLY}},
}


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1.7e9

    def __call__(self) -> float:
        return self.now


CLOCK = Clock()
_numbers = itertools.count()


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    service = Local(tmp_path_factory.mktemp("pending") / "data", clock=CLOCK)
    yield service
    service.stop()


@pytest.fixture
def fresh(local: Local) -> Iterator[Callable[..., str]]:
    """Create models that are deleted afterwards."""
    names: list[str] = []

    def create(**spec: Any) -> str:
        names.append(f"fresh-{next(_numbers)}")
        assert local.create(names[-1], **spec).status_code == 201
        local.post(names[-1], "learn-many", rows(50))
        return names[-1]

    yield create
    for name in names:
        local.http.delete(f"/v1/models/{name}")


# ---- the life of an id ------------------------------------------------------------------------

Answer = dict[str, Any]


class Life:
    """One id of one model, and what was answered about it."""

    def __init__(self, local: Local, name: str) -> None:
        self.local = local
        self.name = name
        self.id = f"id-{next(_numbers)}"
        self.first: Answer = {}

    def predict(self, features: Any = FEATURES) -> httpx.Response:
        return self.local.post(self.name, "predict-one", {"features": features, "id": self.id})

    def label(self, label: Any) -> httpx.Response:
        return self.local.post(self.name, "label-one", {"id": self.id, "label": label})

    def learn(self, label: Any, features: Any = FEATURES) -> httpx.Response:
        return self.local.post(self.name, "learn-one", {"features": features, "label": label, "id": self.id})


def unknown(life: Life) -> None:
    """Nothing was ever said of the id."""


def predicted(life: Life) -> None:
    life.first = life.predict().json()


def labelled(life: Life) -> None:
    predicted(life)
    assert life.label(True).status_code == 200


def learned(life: Life) -> None:
    assert life.learn(1).status_code == 200


def joined(life: Life) -> None:
    predicted(life)
    assert life.learn(1).status_code == 200


def expired(life: Life) -> None:
    predicted(life)
    CLOCK.now += TTL


def held(life: Life) -> None:
    assert life.label(1).status_code == 202


def held_expired(life: Life) -> None:
    held(life)
    CLOCK.now += EARLY


CALLS: dict[str, Callable[[Life], httpx.Response]] = {
    "predict": lambda life: life.predict(SAME),
    "predict other": lambda life: life.predict(OTHER),
    "label 1": lambda life: life.label(1),
    "label 0": lambda life: life.label(False),
    "learn 1": lambda life: life.learn(1.0, SAME),
    "learn 0": lambda life: life.learn(-1, SAME),
    "learn other": lambda life: life.learn(1, OTHER),
}

# (spec, state): the answer to each call, in the order of CALLS. new: learned or kept now; joined:
# learned with the score given at prediction; first: the first answer; again: a duplicate.
LABEL, FEAT, LATE = "409 label-conflict", "409 features-conflict", "409 label-expired-negative"
TABLE: list[tuple[str, Callable[[Life], None], tuple[str, ...]]] = [
    ("discard", unknown, ("kept", "kept", "404 unknown-id", "404 unknown-id", "new", "new", "new")),
    ("discard", predicted, ("first", FEAT, "joined", "joined", "joined", "joined", FEAT)),
    ("discard", labelled, ("first", FEAT, "again", LABEL, "again", LABEL, "again")),
    ("discard", joined, ("first", FEAT, "again", LABEL, "again", LABEL, "again")),
    ("discard", learned, ("409 already-labelled",) * 2 + ("again", LABEL, "again", LABEL, "again")),
    ("discard", expired, ("410 expired",) * 7),
    (
        "negative",
        expired,
        ("first", FEAT, LATE, "expired", LATE, "expired", LATE),
    ),
    ("early", unknown, ("kept", "kept", "held", "held", "new", "new", "new")),
    ("early", held, ("kept", "kept", "held again", LABEL, "new", LABEL, "new")),
    ("early", held_expired, ("kept", "kept", "held", "held", "new", "new", "new")),
    ("early", predicted, ("first", FEAT, "joined", "joined", "joined", "joined", FEAT)),
    ("early", expired, ("410 expired",) * 7),
]
CASES = [
    pytest.param(spec, state, call, expected, id=f"{spec}-{state.__name__}-{call}")
    for spec, state, answers in TABLE
    for call, expected in zip(CALLS, answers, strict=True)
]


@pytest.mark.parametrize(("spec", "state", "call", "expected"), CASES)
def test_the_life_of_an_id(  # S7, S8, S9, S10, S11
    local: Local, fresh: Callable[..., str], spec: str, state: Callable[[Life], None], call: str, expected: str
) -> None:
    model = fresh(**SPECS[spec])
    life = Life(local, model)
    state(life)
    answer = CALLS[call](life)
    after = local.describe(model)
    settled = state in (labelled, joined, learned, expired)  # one event: learned, or expired by now
    events, examples = after["seq"] - 50, after["examples"] - 50
    found = answer.json()
    if expected[:1] == "4":
        status, kind = expected.split()
        document = problem(answer, int(status), kind)
        assert len(document["errors"]) == 1
        if kind == "label-conflict":
            assert document["first_label"] is True
        assert (events, examples) == (settled, settled and (spec == "negative" or state is not expired))
    elif expected in ("kept", "first"):
        assert answer.status_code == 200
        assert set(found) == {"score", "probability", "seq"}
        assert found == life.first or expected == "kept"
        assert events == examples == (settled or state is held)
        assert after["pending"] == (events == 0)
    elif expected in ("new", "joined"):
        assert found == {
            "seq": 51,
            "score": life.first["score"] if expected == "joined" else found["score"],
            "duplicate": False,
        }
        assert events == examples == 1
        assert after["pending"] == 0
    elif "held" in expected:
        assert answer.status_code == 202
        assert found == {"seq": 50, "score": None, "duplicate": "again" in expected}
        assert (events, after["pending"]) == (0, 1)
    else:
        assert found == {"seq": 51, "score": None, "duplicate": True}
        assert events == examples == 1
    again = CALLS[call](life)  # and once more: nothing moves
    if expected in ("new", "joined"):
        assert again.json() == {"seq": 51, "score": None, "duplicate": True}
    elif expected == "held":
        assert again.json() == {"seq": 50, "score": None, "duplicate": True}
    else:
        assert again.json() | {"request_id": 0} == found | {"request_id": 0}
    assert local.describe(model) == after
