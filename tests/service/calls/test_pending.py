"""Labels that come late, early, twice, contradictory or never: what each call answers, and that it is learned once."""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import httpx
import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from aucstream_service.journal.migrations import first_tables
from aucstream_service.models.spec import ModelSpec
from tests.service.calls.test_learning import reference
from tests.service.models.test_restart import picture
from tests.service.running import NDJSON, Calls, Direct, Local, problem
from tests.service.stream import lines, rows

TTL = 100.0
EARLY = 50.0
FEATURES = {"a": 1.0, "b": 2, "word": "x", "tags": ["p", "q"], "gone": None}
SAME = {"tags": ["q", "p"], "word": "x", "b": 2.0, "a": 1}  # means the same
OTHER = {**FEATURES, "b": 3}
HUGE = dict.fromkeys(("p", "q", "r", "s"), 1.7e308)  # where nothing is scaled no step from it is finite

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

    def __init__(self, local: Calls, name: str) -> None:
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
    reply = answer.json()
    if expected[:1] == "4":
        status, kind = expected.split()
        document = problem(answer, int(status), kind)
        assert len(document["errors"]) == 1
        if kind == "label-conflict":
            assert document["first_label"] is True
        assert (events, examples) == (settled, settled and (spec == "negative" or state is not expired))
    elif expected in ("kept", "first"):
        assert answer.status_code == 200
        assert set(reply) == {"score", "probability", "seq"}
        assert reply == life.first or expected == "kept"
        assert events == examples == (settled or state is held)
        assert after["pending"] == (events == 0)
    elif expected in ("new", "joined"):
        assert reply == {
            "seq": 51,
            "score": life.first["score"] if expected == "joined" else reply["score"],
            "duplicate": False,
        }
        assert events == examples == 1
        assert after["pending"] == 0
    elif "held" in expected:
        assert answer.status_code == 202
        assert reply == {"seq": 50, "score": None, "duplicate": "again" in expected}
        assert (events, after["pending"]) == (0, 1)
    else:
        assert reply == {"seq": 51, "score": None, "duplicate": True}
        assert events == examples == 1
    again = CALLS[call](life)  # and once more: nothing moves
    if expected in ("new", "joined"):
        assert again.json() == {"seq": 51, "score": None, "duplicate": True}
    elif expected == "held":
        assert again.json() == {"seq": 50, "score": None, "duplicate": True}
    else:
        assert again.json() | {"request_id": 0} == reply | {"request_id": 0}
    assert local.describe(model) == after


def test_every_state_survives_a_restart(tmp_path: Path) -> None:
    service = Direct(tmp_path / "data", clock=CLOCK)
    lives: list[tuple[Life, str]] = []
    for name, spec in SPECS.items():
        service.create(name, **spec)
        service.post(name, "learn-many", rows(50))
    # those that let time pass come first: nothing else expires
    for name, state, answers in sorted(TABLE, key=lambda line: line[1] not in (expired, held_expired)):
        life = Life(service, name)
        state(life)
        lives.append((life, answers[0]))
    before = [service.describe(name) for name in SPECS]
    shutil.copytree(tmp_path / "data", tmp_path / "copy", ignore=shutil.ignore_patterns("lock"))
    service.stop()
    service = Direct(tmp_path / "copy", clock=CLOCK)
    assert [service.describe(name) for name in SPECS] == before
    for life, expected in lives:
        life.local = service
        answer = life.predict(SAME)
        if expected == "first":
            assert answer.json() == life.first
        elif expected == "kept":
            assert answer.status_code == 200
        else:
            problem(answer, *((int(part) if part.isdigit() else part) for part in expected.split()))  # type: ignore[arg-type]
    service.stop()


def test_every_kind_of_event_is_replayed(tmp_path: Path) -> None:
    service = Direct(tmp_path / "data", clock=CLOCK)

    stream = [{**body, "id": f"{number}"} for number, body in enumerate(rows(201))]

    def predict(name: str, ids: range) -> None:
        bodies = [{"features": stream[number]["features"], "id": f"{number}"} for number in ids]
        assert service.post(name, "predict-many", bodies).status_code == 200

    for name, spec in SPECS.items():
        service.create(name, **spec)
        service.post(name, "learn-many", rows(40))
        predict(name, range(150))
        labels = [{"id": f"{number}", "label": number % 3 == 0} for number in range(20)]
        assert service.post(name, "label-many", labels).json()["accepted"] == 20
        mixed = stream[145:155]  # half of them wait
        assert service.post(name, "learn-many", mixed).json()["accepted"] == 10
    assert service.post("early", "label-one", {"id": "200", "label": 1}).status_code == 202
    predict("early", range(200, 201))
    CLOCK.now += TTL
    service.sweep()
    for name in SPECS:
        service.post(name, "learn-many", rows(40, seed=1))
    assert [service.describe(name)["seq"] for name in SPECS] == [235, 235, 236]
    before = [picture(service, name) for name in SPECS]
    shutil.copytree(tmp_path / "data", tmp_path / "copy", ignore=shutil.ignore_patterns("lock"))
    service.stop()
    service = Direct(tmp_path / "copy", clock=CLOCK)
    assert service.host.replayed == 235 + 235 + 236
    assert [picture(service, name) for name in SPECS] == before
    service.stop()


# ---- expiry and time --------------------------------------------------------------------------


def test_examples_expire_without_a_call(local: Local, fresh: Callable[..., str]) -> None:  # S10, S11
    name = fresh(pending={"ttl_seconds": TTL, "on_expiry": "negative"})
    bodies = [{"features": body["features"], "id": f"x{number}"} for number, body in enumerate(rows(600))]
    assert local.raw(f"/v1/models/{name}/predict-many", lines(bodies), NDJSON).status_code == 200
    assert local.describe(name)["pending"] == 600
    CLOCK.now += TTL
    until = time.monotonic() + 20
    while local.describe(name)["seq"] < 650 and time.monotonic() < until:
        time.sleep(0.05)
    described = local.describe(name)
    assert (described["pending"], described["seq"], described["examples"]) == (0, 650, 650)
    assert local.app.model_host.models[name].counts.expired_negative == 600
    # in the order in which they came
    pipeline, _ = reference([*rows(50), *({"features": body["features"], "label": False} for body in bodies)])
    assert local.score(name, FEATURES) == pipeline.engine.score_rows([FEATURES])[0]


def test_no_time_but_the_servers_counts_and_it_may_step_back(local: Local, fresh: Callable[..., str]) -> None:  # S14
    name = fresh(**SPECS["discard"])
    body = {"features": {"a": 1}, "id": "t", "time": "2100-01-01T00:00:00Z"}
    assert problem(local.post(name, "predict-one", body), 422, "invalid-body")["errors"][0]["pointer"] == "/time"
    one, two = Life(local, name), Life(local, name)
    predicted(one)
    CLOCK.now += TTL
    predicted(two)
    problem(one.label(1), 410, "expired")
    CLOCK.now -= TTL + 50
    problem(one.label(1), 410, "expired")  # what has expired stays so
    assert two.label(1).json()["seq"] == 52  # and what came in the future is learned all the same
    late = Life(local, name)
    predicted(late)
    assert late.label(0).status_code == 200
    CLOCK.now += TTL + 50


def test_ids_are_forgotten_by_age_and_by_count(tmp_path: Path) -> None:
    service = Direct(tmp_path / "data", clock=CLOCK, id_seconds=1000, max_ids=640)
    service.create("m", pending={"ttl_seconds": TTL})
    life = Life(service, "m")
    expired(life)
    problem(life.label(1), 410, "expired")
    other = Life(service, "m")
    labelled(other)
    CLOCK.now += 999
    service.sweep()
    problem(life.label(1), 410, "expired")
    CLOCK.now += 1
    service.sweep()
    problem(life.label(1), 404, "unknown-id")
    assert other.predict().json() != other.first  # forgotten: it waits anew
    bodies = [{"features": {"a": 1}, "label": 1, "id": f"n{number}"} for number in range(700)]
    for start in range(0, 700, 100):
        service.post("m", "learn-many", bodies[start : start + 100])
    again = service.post("m", "learn-many", bodies[60:]).json()
    assert (again["duplicates"], again["accepted"]) == (640, 0)
    assert service.post("m", "learn-one", bodies[0]).json()["duplicate"] is False
    service.stop()


def test_when_as_many_wait_as_may(local: Local, fresh: Callable[..., str]) -> None:
    name = fresh(pending={"ttl_seconds": TTL, "capacity": 3, "hold_early_seconds": EARLY, "when_full": "refuse"})
    lives = [Life(local, name) for _ in range(5)]
    assert lives[0].label(1).status_code == 202
    predicted(lives[1])
    predicted(lives[2])
    for answer in (lives[3].predict(), lives[3].label(1)):
        problem(answer, 429, "pending-full")
        assert answer.headers["retry-after"]
    assert lives[1].predict().json() == lives[1].first  # what waits is answered
    bodies = [{"features": FEATURES, "id": life.id} for life in lives]
    problem(local.post(name, "predict-many", bodies), 429, "pending-full")
    assert local.describe(name)["pending"] == 3
    answer = local.raw(f"/v1/models/{name}/predict-many?on_error=skip", lines(bodies), NDJSON)
    predictions = [json.loads(line) for line in answer.text.splitlines()]
    assert [entry["score"] is None for entry in predictions] == [
        False,
        False,
        False,
        False,
        True,
    ]  # the first one was joined
    assert local.describe(name)["seq"] == 51
    CLOCK.now += TTL
    assert lives[4].predict().status_code == 200  # room is made when it is needed
    assert local.app.model_host.models[name].counts.refused["pending-full"] == 4


# ---- many rows --------------------------------------------------------------------------------


def test_labels_of_a_batch_have_their_own_results(local: Local, fresh: Callable[..., str]) -> None:  # S12
    name = fresh()
    bodies = [{"features": body["features"], "id": f"p{number}"} for number, body in enumerate(rows(300))]
    predictions = local.post(name, "predict-many", bodies).json()["predictions"]
    assert local.post(name, "predict-many", bodies).json()["predictions"] == predictions
    path = f"/v1/models/{name}/label-many"
    labels: list[Any] = [{"id": f"p{number}", "label": number % 3 == 0} for number in range(300)]
    bad: list[Any] = [
        {"id": "nobody", "label": 1},
        {"id": 42, "label": 1},  # S11
        {"id": "p1", "label": "yes"},
        {"id": "p2"},
        {"id": "p3", "label": 0},
    ]
    document = problem(local.post(name, "label-many", [*labels[:5], bad[0]]), 404, "unknown-id")
    assert document["errors"][0]["pointer"] == "/5/id"
    assert local.describe(name)["seq"] == 50  # an array is taken whole or not at all
    document = problem(local.raw(path, lines([*labels[:4], bad[4], labels[5]]), NDJSON), 409, "label-conflict")
    assert (document["accepted"], document["rejected"], document["seq"]) == (4, 1, 54)
    answer = local.raw(f"{path}?on_error=skip", lines([*bad, *labels, labels[7], {"id": "p7", "label": 1}]), NDJSON)
    summary = answer.json()
    assert (summary["accepted"], summary["duplicates"], summary["rejected"], summary["seq"]) == (296, 5, 6, 350)
    assert [(error["line"], error["pointer"]) for error in summary["errors"]] == [
        (1, "/id"),
        (2, "/id"),
        (3, "/label"),
        (4, "/label"),
        (5, "/label"),
        (307, "/label"),
    ]
    assert local.describe(name)["pending"] == 0
    model = local.app.model_host.models[name]
    assert (model.counts.kept, model.counts.labelled, model.counts.learned) == (300, 300, 50)
    learned_then = [body["label"] for body in rows(50)]
    signs = [bool(label) for label in learned_then] + [label["label"] for label in labels]
    _, first = reference(rows(50))
    scores = first + [entry["score"] for entry in predictions]
    window = local.evaluation(name)["window"]
    assert window["auc"] == pytest.approx(roc_auc_score(signs, scores), abs=1e-12)  # the scores given at prediction


def test_rows_to_learn_may_wait_already(local: Local, fresh: Callable[..., str]) -> None:
    name = fresh()
    life = Life(local, name)
    predicted(life)
    other = {"features": {"a": 5.0}, "label": 1, "id": "fresh"}
    waits = {"features": SAME, "label": 0, "id": life.id, "weight": 2}
    counts = local.post(
        name, "learn-many", [other, waits, {"features": other["features"], "label": 1}, waits, other]
    ).json()
    assert (counts["accepted"], counts["duplicates"], counts["seq"]) == (3, 2, 53)
    bodies = [*rows(50), other, {"features": FEATURES, "label": 0, "weight": 2}, other]
    pipeline, _ = reference(bodies)
    assert local.score(name, {"a": 1.0, "b": 1.0}) == pipeline.engine.score_rows([{"a": 1.0, "b": 1.0}])[0]
    document = problem(
        local.post(name, "learn-many", [{**other, "id": "new"}, {**waits, "id": "new", "label": 0}]),
        409,
        "label-conflict",
    )
    assert document["errors"][0]["pointer"] == "/1/label"


def test_predictions_in_lines_stop_or_skip(local: Local, fresh: Callable[..., str]) -> None:
    name = fresh()
    good = {"features": FEATURES, "id": "a"}
    other = {"features": OTHER, "id": "a"}
    last = {"features": FEATURES, "id": "b"}
    path = f"/v1/models/{name}/predict-many"
    document = problem(local.post(name, "predict-many", [last, good, other]), 409, "features-conflict")
    assert document["errors"][0]["pointer"] == "/2/features"
    assert local.describe(name)["pending"] == 0
    document = problem(local.raw(path, lines([good, other, last]), NDJSON), 409, "features-conflict")
    assert document["errors"][0]["line"] == 2
    assert (document["accepted"], document["seq"]) == (1, local.describe(name)["seq"])
    assert local.describe(name)["pending"] == 1
    plain = {"features": FEATURES}
    bad = {"features": {"a": {}}, "id": "c"}
    document = problem(local.raw(path, lines([plain, last, bad]), NDJSON), 422, "invalid-features")
    assert local.describe(name)["pending"] == 2  # what came before the bad line waits
    answer = local.raw(f"{path}?on_error=skip", lines([good, bad, other, plain]), NDJSON)
    predictions = [json.loads(line) for line in answer.text.splitlines()]
    assert [entry["score"] is None for entry in predictions] == [False, True, True, False]
    assert [predictions[line]["errors"][0]["line"] for line in (1, 2)] == [2, 3]


@pytest.mark.parametrize(
    ("body", "kind", "pointer"),
    [
        (b'{"id":42,"label":1}', "invalid-body", "/id"),  # S11
        (b'{"id":"","label":1}', "invalid-body", "/id"),
        (b'{"label":1}', "invalid-body", "/id"),
        (b'{"id":"a"}', "invalid-body", "/label"),
        (b'{"id":"a","label":1,"weight":2}', "invalid-body", "/weight"),
        (b'{"id":"a","label":2}', "invalid-label", "/label"),
        (b'{"id":"a","label":null}', "invalid-label", "/label"),
        (b'{"id":"a","label":NaN}', "invalid-body", "/label"),
        (b"[]", "invalid-body", ""),
        (b"{", "malformed-json", ""),
    ],
)
def test_a_bad_label_names_its_field(local: Local, body: bytes, kind: str, pointer: str) -> None:
    local.create("labels")
    document = problem(local.raw("/v1/models/labels/label-one", body), 422, kind)
    assert [error["pointer"] for error in document["errors"]] == [pointer]


# ---- at once ----------------------------------------------------------------------------------


def test_fifty_clients_with_one_id(local: Local, fresh: Callable[..., str]) -> None:
    name = fresh()
    url = f"{local.http.base_url}/v1/models/{name}"

    async def race(calls: list[tuple[str, Any]]) -> list[Answer]:
        async with httpx.AsyncClient(timeout=60) as http:
            answers = await asyncio.gather(*(http.post(f"{url}/{call}", json=body) for call, body in calls))
        return [{**answer.json(), "status": answer.status_code} for answer in answers]

    predict = ("predict-one", {"features": FEATURES, "id": "one"})
    learn = ("learn-one", {"features": {"a": 1}, "label": 1})
    answers = [answer for answer in asyncio.run(race([predict, learn] * 50)) if "probability" in answer]
    assert len(answers) == 50
    assert all(answer == answers[0] for answer in answers)
    yes, no = ("label-one", {"id": "one", "label": 1}), ("label-one", {"id": "one", "label": 0})
    same = ("learn-one", {"features": SAME, "label": 1, "id": "one"})
    answers = asyncio.run(race([yes, no, same, yes, no] * 10))
    learned_once = [answer for answer in answers if answer.get("duplicate") is False]
    assert len(learned_once) == 1
    assert (learned_once[0]["seq"], learned_once[0]["score"]) == (101, learned_once[0]["score"])
    statuses = [answer["status"] for answer in answers]
    assert sorted(set(statuses)) == [200, 409]
    assert statuses.count(409) in (20, 30)  # all that said the other thing than the first one
    assert (local.describe(name)["seq"], local.describe(name)["pending"]) == (101, 0)


# ---- what is learned, and what is told -----------------------------------------------------------


def test_a_step_that_would_not_be_finite(local: Local, fresh: Callable[..., str]) -> None:
    name = fresh(scaler="none")
    huge = {"features": HUGE, "id": "huge"}
    assert local.post(name, "predict-one", huge).status_code == 200
    before = local.score(name, {"a": 1.0})
    problem(local.post(name, "label-one", {"id": "huge", "label": 1}), 422, "non-finite-step")
    assert local.score(name, {"a": 1.0}) == before
    assert (local.describe(name)["seq"], local.describe(name)["examples"]) == (51, 50)
    assert local.evaluation(name)["window"]["examples"] == 50
    # as if it had never been sent: the label alone is unknown, what is corrected is learned, what is not is refused
    problem(local.post(name, "label-one", {"id": "huge", "label": 1}), 404, "unknown-id")
    for seq in (52, 53):
        problem(local.post(name, "learn-one", {**huge, "label": 1}), 422, "non-finite-step")
        assert local.describe(name)["seq"] == seq
    assert local.learn(name, {"a": 1.0}, 1, id="huge") == {"seq": 54, "score": before, "duplicate": False}
    assert local.learn(name, {"a": 1.0}, 1, id="huge")["duplicate"] is True


def test_what_repeats_a_skipped_row_is_skipped_with_it(local: Local, fresh: Callable[..., str]) -> None:
    name = fresh(scaler="none")
    bad = {"features": HUGE, "label": 1, "id": "x"}
    good = {"features": {"a": 1.0}, "label": 1, "id": "x"}
    counts = local.post(name, "learn-many", [bad, {**good, "id": "y"}, bad]).json()
    assert (counts["accepted"], counts["duplicates"], counts["rejected"], counts["seq"]) == (1, 0, 2, 52)
    assert [error["line"] for error in counts["errors"]] == [1, 3]
    counts = local.raw(f"/v1/models/{name}/learn-many", lines([bad, bad, {**good, "id": "y"}]), NDJSON).json()
    assert (counts["accepted"], counts["duplicates"], counts["rejected"], counts["seq"]) == (0, 1, 2, 53)

    async def race() -> list[httpx.Response]:
        url = f"{local.http.base_url}/v1/models/{name}/learn-one"
        async with httpx.AsyncClient(timeout=60) as http:
            return await asyncio.gather(*(http.post(url, json=body) for body in [bad] * 9 + [good] + [bad] * 9))

    answers = asyncio.run(race())
    learned_once = [answer for answer in answers if answer.status_code == 200 and not answer.json()["duplicate"]]
    assert len(learned_once) <= 1
    assert all(answer.status_code in (200, 422) for answer in answers)
    last = local.learn(name, **good)  # learned in the end, and once
    assert last["duplicate"] is bool(learned_once)
    assert local.describe(name)["examples"] == 52
    model = local.app.model_host.models[name]
    assert not model.skipped


@pytest.mark.parametrize("form", ["array", "lines", "skip"])
@pytest.mark.parametrize("between", [0, 600])  # rows, so that the correction is of another event
def test_a_row_that_corrects_a_skipped_one_of_its_body_is_learned(
    local: Local, fresh: Callable[..., str], form: str, between: int
) -> None:
    name = fresh(scaler="none")
    bad = {"features": HUGE, "label": 1, "id": "x"}
    good = {"features": {"a": 1.0}, "label": 1, "id": "x"}
    others = [{"features": {"a": 1.0 * (row % 3)}, "label": row % 2, "id": f"o{row}"} for row in range(between)]
    bodies = [bad, *others, good, good, bad, {**good, "id": "y"}]
    path = f"/v1/models/{name}/learn-many"
    if form == "array":
        answer = local.post(name, "learn-many", bodies)
    else:
        answer = local.raw(path + ("?on_error=skip" if form == "skip" else ""), lines(bodies), NDJSON)
    counts = answer.json()
    assert answer.status_code == 200
    assert counts["accepted"] == between + 2
    if form == "array" or not between:
        assert (counts["duplicates"], counts["rejected"]) == (1, 2)
        assert [error["line"] for error in counts["errors"]] == [1, between + 4]
    else:  # the last bad row comes before the correction or after it
        assert (counts["duplicates"], counts["rejected"]) in ((1, 2), (2, 1))
    described = local.describe(name)
    assert counts["seq"] == described["seq"]
    assert described["examples"] == 50 + between + 2
    assert local.learn(name, **good)["duplicate"] is True
    assert not local.app.model_host.models[name].skipped


def test_a_skipped_row_frees_its_id_whenever_the_service_is_killed(tmp_path: Path) -> None:
    service = Direct(tmp_path / "data", clock=CLOCK)
    service.create("m", scaler="none", pending={"ttl_seconds": TTL})
    for id_ in ("learned", "labelled"):
        assert service.post("m", "predict-one", {"features": HUGE, "id": id_}).status_code == 200
    assert service.learn("m", {"a": 1.0}, 1, id="good")["seq"] == 1
    free, service.host._release = service.host._release, lambda model: None  # type: ignore[method-assign]
    bodies: list[tuple[str, Any]] = [
        ("learn-one", {"features": HUGE, "label": 1, "id": "learned"}),
        ("label-one", {"label": 0, "id": "labelled"}),
    ]
    for _ in range(2):  # the journal still holds the ids, the second time
        for call, body in bodies:
            problem(service.post("m", call, body), 422, "non-finite-step")
    model = service.host.models["m"]
    assert (model.seq, len(model.skipped)) == (3, 2)
    shutil.copytree(tmp_path / "data", tmp_path / "before", ignore=shutil.ignore_patterns("lock"))
    free(model)
    service.loop.run_until_complete(service.host.snapshotter.write(model))
    shutil.copytree(tmp_path / "data", tmp_path / "after", ignore=shutil.ignore_patterns("lock"))
    service.stop()
    for copy, replayed in (("before", 3), ("after", 0)):
        service = Direct(tmp_path / copy, clock=CLOCK)
        assert service.host.replayed == replayed
        assert service.learn("m", {"a": 1.0}, 1, id="good")["duplicate"] is True
        problem(service.post("m", *bodies[1]), 404, "unknown-id")
        for seq, (_, body) in enumerate(bodies, 4):
            assert service.learn("m", {"a": 2.0}, 1, id=body["id"])["seq"] == seq
        service.stop()


def test_contributions_go_with_the_first_answer(local: Local, fresh: Callable[..., str]) -> None:
    name = fresh()
    body = {"features": FEATURES, "id": "told", "explain": True}
    first = local.post(name, "predict-one", body).json()
    contributions = first.pop("contributions")
    assert sum(contributions.values()) == pytest.approx(first["score"], rel=1e-9)
    assert local.post(name, "predict-one", body).json() == {**first, "contributions": contributions}
    local.learn(name, {"a": 3.0}, 1)
    assert local.post(name, "predict-one", body).json() == first  # those of today would not add up to it


def test_what_waits_settles_the_form_of_the_rows(tmp_path: Path) -> None:
    service = Direct(tmp_path / "data", clock=CLOCK)
    service.create("m")
    assert service.post("m", "predict-one", {"features": [1.0, 2.0]}).status_code == 200
    assert service.post("m", "predict-one", {"features": {"a": 1.0}}).status_code == 200  # nothing waits: still open
    assert service.post("m", "predict-one", {"features": [1.0, 2.0], "id": "x"}).status_code == 200
    for _ in range(2):
        for call, body in (
            ("predict-one", {"features": {"a": 1}, "id": "y"}),
            ("learn-one", {"features": {"a": 1}, "label": 1}),
            ("predict-many", [{"features": {"a": 1}, "id": "y"}]),
        ):
            assert service.post("m", call, body).json()["type"].endswith("invalid-features")
        service.stop()
        service = Direct(tmp_path / "data", clock=CLOCK)
    mixed = [{"features": [1.0, 1.0], "id": "z"}, {"features": {"a": 1.0}, "id": "w"}]
    service.create("n")
    problem(service.post("n", "predict-many", mixed), 422, "invalid-features")
    assert service.post("m", "label-one", {"id": "x", "label": 1}).json()["seq"] == 1
    service.stop()


def test_an_uploaded_model_begins_without_ids(local: Local, fresh: Callable[..., str]) -> None:
    name = fresh()
    life, done = Life(local, name), Life(local, name)
    predicted(life)
    labelled(done)
    data = local.http.get(f"/v1/models/{name}/snapshot").content
    octets = {"Content-Type": "application/octet-stream"}
    described = local.raw(f"/v1/models/{name}/snapshot", data, octets, "PUT").json()
    assert (described["seq"], described["pending"]) == (51, 0)
    problem(life.label(1), 404, "unknown-id")
    problem(done.label(1), 404, "unknown-id")


def test_weights_correct_the_probabilities_of_a_thinned_stream(local: Local) -> None:
    # 200,000 rows with 5 % positives, of which all positives and a tenth of the negatives came here
    sample = [{**body, "weight": 1 if body["label"] else 10} for body in rows(29_000, positives=10 / 29)]
    local.create("thinned", algorithm="psam")
    assert local.raw("/v1/models/thinned/learn-many", lines(sample), NDJSON).json()["accepted"] == len(sample)
    whole = rows(5_000, seed=1, positives=0.05)
    answer = local.raw(
        "/v1/models/thinned/predict-many", lines([{"features": body["features"]} for body in whole]), NDJSON
    )
    probabilities = [json.loads(line)["probability"] for line in answer.text.splitlines()]
    rate = np.mean([body["label"] for body in whole])
    print(f"mean probability {np.mean(probabilities):.4f}, positives {rate:.4f}")
    assert np.mean(probabilities) == pytest.approx(rate, rel=0.1)


def test_memory_stays_flat_while_predictions_come_and_go(local: Local) -> None:
    local.create("many", pending={"ttl_seconds": TTL})

    def turn(number: int) -> None:
        ids = [f"{number}-{row}" for row in range(2_000)]
        bodies = [{"features": {"a": row % 7, "b": 1.0}, "id": id_} for row, id_ in enumerate(ids)]
        assert local.raw("/v1/models/many/predict-many", lines(bodies), NDJSON).status_code == 200
        labels = [{"id": id_, "label": row % 5 == 0} for row, id_ in enumerate(ids)]
        assert local.raw("/v1/models/many/label-many", lines(labels), NDJSON).json()["accepted"] == 2_000

    turn(0)
    gc.collect()
    before = resident()
    for number in range(1, 4):
        turn(number)
    gc.collect()
    assert resident() - before < 8 << 20
    assert local.describe("many")["pending"] == 0


def resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * 4096


def test_a_failed_journal_keeps_no_prediction_but_scores(tmp_path: Path) -> None:
    service = Direct(tmp_path / "data", clock=CLOCK)
    service.create("m")
    service.post("m", "learn-many", rows(50))
    life = Life(service, "m")
    predicted(life)
    db = service.host.journal._db
    pages = next(iter(db.execute("PRAGMA page_count")))[0]
    db.execute(f"PRAGMA max_page_count = {pages}")  # what SQLite answers as on a full disk
    large = {"features": {f"f{n}": 1.0 for n in range(400)}, "id": "large"}
    statuses = [service.post("m", "predict-one", {**large, "id": f"{n}"}).status_code for n in range(9)]
    assert statuses[-1] == 503
    for answer in (life.predict(), life.label(1), life.learn(1)):
        problem(answer, 503, "journal-unavailable")
    CLOCK.now += 2 * 604_800
    service.sweep()  # nothing expires: the journal is not tried again
    CLOCK.now -= 2 * 604_800
    assert service.score("m", {"a": 1.0}) is not None
    service.stop()
    service = Direct(tmp_path / "data", clock=CLOCK)
    life.local = service
    assert life.predict().json() == life.first
    assert service.describe("m")["pending"] == 1 + statuses.count(200)
    service.stop()


def test_a_journal_from_before_delayed_labels_is_brought_up_to_date(tmp_path: Path) -> None:
    (tmp_path / "data" / "snapshots").mkdir(parents=True)
    db = apsw.Connection(str(tmp_path / "data" / "journal.sqlite3"))
    first_tables(db)
    db.execute("CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID")
    db.execute("INSERT INTO meta VALUES ('migrations', 'first_tables')")
    spec = ModelSpec.model_validate({"algorithm": "solam"}).canonical()
    db.execute("INSERT INTO models(name, spec, created_at, base_seq, seed) VALUES ('m', ?, 1, 0, 0)", (spec,))
    payload = b'{"features":{"a":1},"label":1,"id":"x"}'
    db.execute("INSERT INTO events VALUES (1, 1, 1, 1, 1, ?, 1)", (payload,))
    db.execute("INSERT INTO ids VALUES (1, 'x', 1, 1.0, 1)")
    db.close()
    service = Direct(tmp_path / "data", clock=CLOCK)
    assert service.post("m", "label-one", {"id": "x", "label": 1}).json()["duplicate"] is True
    problem(service.post("m", "predict-one", {"features": {"a": 1}, "id": "x"}), 409, "already-labelled")
    service.stop()
