"""Random lives of a few ids on one model, with crashes, beside an oracle of plain dictionaries."""

from __future__ import annotations

import math
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from aucstream.pipeline import Pipeline
from tests.service.running import NDJSON, Direct
from tests.service.stream import lines, rows

TTL, EARLY, CAPACITY = 20.0, 10.0, 4
IDS = [f"id{number}" for number in range(7)]
HUGE = dict.fromkeys(("p", "q", "r", "s"), 1.7e308)  # scores 0, and no step from it is finite
FEATURES = [*(body["features"] for body in rows(4, seed=3)), HUGE]
PROBES = [body["features"] for body in rows(5, seed=4)]


@dataclass
class State:
    """What the oracle knows of an id: waiting, held, learned, discarded or negative."""

    what: str
    label: bool | None = None
    features: Any = None
    answer: Any = None  # of predict-one
    due: float = 0.0
    seq: int = 0
    skipped: bool = False  # its step was not finite: forgotten after the call


class Oracle:
    """The rules once more, written for reading only: one dictionary of ids, one list of events."""

    def __init__(self, on_expiry: str, hold: bool, when_full: str) -> None:
        self.on_expiry = on_expiry
        self.hold = hold
        self.when_full = when_full
        self.now = 1.7e9
        self.seq = 0
        self.ids: dict[str, State] = {}
        self.pipeline = Pipeline.from_spec({"algorithm": "solam", "scaler": "none"})
        self.judged: list[tuple[bool, float]] = []  # label and the score that counts
        self.brier = 0.0
        self.line = (0.0, 0.0, math.inf)

    @property
    def pending(self) -> list[str]:
        return [id_ for id_, state in self.ids.items() if state.what in ("waiting", "held")]

    def event(self, features: Any, label: bool, given: Any = None) -> float | None:
        """Learn; None: the step was skipped."""
        sign = np.array([1.0 if label else -1.0])
        score = float(self.pipeline.engine.learn_rows([features], sign)[0])
        if math.isnan(score):
            self.advance()
            return None
        if given is not None:
            score, probability = given["score"], given["probability"]
        else:
            slope, intercept, largest = self.line
            probability = 1 / (1 + math.exp(-slope * max(-largest, min(largest, score)) - intercept))
        self.judged.append((label, score))
        self.brier += (label - probability) ** 2
        self.advance()
        return score

    def advance(self) -> None:
        self.seq += 1
        if self.seq <= 64 or self.seq % 64 == 0:
            self.line = self.pipeline.engine.log_odds_line

    def expire(self, ids: list[str]) -> None:
        due = [id_ for id_ in ids if id_ in self.pending and self.ids[id_].due <= self.now]
        for id_ in sorted(due, key=lambda id_: self.ids[id_].due):  # stable: as they came
            state = self.ids[id_]
            if state.what == "held":
                del self.ids[id_]
            elif self.on_expiry == "negative":
                score = self.event(state.features, False, state.answer)
                self.ids[id_] = State("negative", False, state.features, state.answer, 0.0, self.seq, score is None)
            else:
                self.advance()
                self.ids[id_] = State("discarded", seq=self.seq)

    def drop_oldest(self) -> None:
        id_ = min(self.pending, key=lambda id_: self.ids[id_].due)  # the first of equals
        if self.ids[id_].what == "held":
            del self.ids[id_]
        else:
            self.advance()
            self.ids[id_] = State("discarded", seq=self.seq)

    def predict(self, id_: str, features: Any) -> Any:
        score = self.pipeline.engine.score_rows([features])
        answer = {"score": score[0], "probability": self.pipeline.engine.probabilities(score)[0], "seq": self.seq}
        self.expire([id_])
        if len(self.pending) + 1 > CAPACITY:
            self.expire(list(self.ids))
        state = self.ids.get(id_)
        if state is None:
            if len(self.pending) >= CAPACITY:
                if self.when_full == "refuse":
                    return "pending-full"
                if self.when_full == "score-only":
                    return {**answer, "kept": False}
                self.drop_oldest()
            self.ids[id_] = State("waiting", None, features, answer, self.now + TTL)
        elif state.what == "held":
            assert state.label is not None
            score = self.event(features, state.label, answer)
            self.ids[id_] = State("learned", state.label, features, answer, 0.0, self.seq, score is None)
        elif state.what == "discarded":
            return "expired"
        elif state.answer is None:
            return "already-labelled"
        elif state.features != features:
            return "features-conflict"
        else:
            return state.answer
        return answer

    def label(self, id_: str, label: bool, features: Any = None) -> Any:
        """label-one, or learn-one where there are features."""
        self.expire([id_])
        state = self.ids.get(id_)
        if state is None and features is None:
            if not self.hold:
                return "unknown-id"
            before = self.seq
            if len(self.pending) >= CAPACITY:
                if self.when_full != "drop-oldest":
                    return "pending-full"
                self.drop_oldest()
            self.ids[id_] = State("held", label, due=self.now + EARLY)
            return {"seq": before, "score": None, "duplicate": False}
        if state is None or (state.what == "held" and features is not None and state.label == label):
            score = self.event(features, label)
            self.ids[id_] = State("learned", label, None, None, 0.0, self.seq, score is None)
            if score is None:
                return "non-finite-step"
            return {"seq": self.seq, "score": score, "duplicate": False}
        if state.what == "waiting":
            if features is not None and features != state.features:
                return "features-conflict"
            score = self.event(state.features, label, state.answer)
            self.ids[id_] = State("learned", label, state.features, state.answer, 0.0, self.seq, score is None)
            if score is None:
                return "non-finite-step"
            return {"seq": self.seq, "score": score, "duplicate": False}
        if state.what == "discarded":
            return "expired"
        if state.label != label:
            return "label-expired-negative" if state.what == "negative" else "label-conflict"
        if state.skipped:
            return "non-finite-step"
        return {"seq": self.seq if state.what == "held" else state.seq, "score": None, "duplicate": True}

    def forget_skipped(self) -> None:
        self.ids = {id_: state for id_, state in self.ids.items() if not state.skipped}

    @property
    def auc(self) -> float | None:
        positives = [score for label, score in self.judged if label]
        negatives = [score for label, score in self.judged if not label]
        if not positives or not negatives:
            return None
        pairs = [(p > n) + (p == n) / 2 for p in positives for n in negatives]
        return sum(pairs) / len(pairs)


ids_ = st.sampled_from(IDS)
features_ = st.sampled_from(FEATURES)


class Lives(RuleBasedStateMachine):
    """The service and the oracle side by side."""

    @initialize(
        on_expiry=st.sampled_from(["discard", "negative"]),
        hold=st.booleans(),
        when_full=st.sampled_from(["refuse", "score-only", "drop-oldest"]),
    )
    def start(self, on_expiry: str, hold: bool, when_full: str) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.oracle = Oracle(on_expiry, hold, when_full)
        self.generation = 0
        self.service = self.open(self.folder / "0")
        pending = {
            "ttl_seconds": TTL,
            "capacity": CAPACITY,
            "on_expiry": on_expiry,
            "hold_early_seconds": EARLY if hold else 0,
            "when_full": when_full,
        }
        assert self.service.create("m", scaler="none", pending=pending).status_code == 201
        for body in rows(12):
            self.service.learn("m", **body)
            self.oracle.event(body["features"], body["label"])

    def open(self, data_dir: Path) -> Direct:
        return Direct(data_dir, clock=lambda: self.oracle.now)

    def check(self, call: str, body: Any, expected: Any) -> None:
        answer = self.service.post("m", call, body)
        found = answer.json()
        if isinstance(expected, str):
            assert found["type"] == f"urn:aucstream:problem:{expected}", found
        else:
            assert found == expected
            held = call == "label-one" and self.oracle.ids[body["id"]].what == "held"
            assert answer.status_code == (202 if held else 200)
        self.oracle.forget_skipped()

    @rule(id_=ids_, features=features_)
    def predict(self, id_: str, features: Any) -> None:
        expected = self.oracle.predict(id_, features)
        self.check("predict-one", {"features": features, "id": id_}, expected)

    @rule(id_=ids_, label=st.booleans())
    def label(self, id_: str, label: bool) -> None:
        self.check("label-one", {"id": id_, "label": label}, self.oracle.label(id_, label))

    @rule(id_=ids_, features=features_, label=st.booleans())
    def learn(self, id_: str, features: Any, label: bool) -> None:
        expected = self.oracle.label(id_, label, features)
        self.check("learn-one", {"id": id_, "features": features, "label": label}, expected)

    @rule(id_=ids_)
    def erase(self, id_: str) -> None:
        if id_ not in self.oracle.pending:  # else a snapshot would be taken, and less be replayed
            return
        state = self.oracle.ids.pop(id_)
        if state.what == "waiting":
            self.oracle.ids[id_] = State("discarded", seq=self.oracle.seq)
        removed = self.service.http.delete("/v1/models/m/events", params={"id": id_}).json()["removed"]
        assert removed >= 1  # skipped rows of that id are removed with it

    @rule(labels=st.lists(st.tuples(ids_, st.booleans()), max_size=5))
    def label_many(self, labels: list[tuple[str, bool]]) -> None:
        crowded = self.oracle.hold and len(self.oracle.pending) + len(labels) > CAPACITY
        if crowded and self.oracle.when_full == "drop-oldest":  # the oldest go after the batch, not row by row
            return
        for id_, _ in labels:  # what of a batch is due expires before it, in the order of the batch
            self.oracle.expire([id_])
        found = [self.oracle.label(id_, label) for id_, label in labels]
        self.oracle.forget_skipped()
        answer = self.service.raw(
            "/v1/models/m/label-many?on_error=skip",
            lines([{"id": id_, "label": label} for id_, label in labels]),
            NDJSON,
        ).json()
        assert answer["accepted"] == sum(not isinstance(each, str) and not each["duplicate"] for each in found)
        assert answer["duplicates"] == sum(not isinstance(each, str) and each["duplicate"] for each in found)
        refused = [line for line, each in enumerate(found, 1) if isinstance(each, str)]
        assert [error["line"] for error in answer["errors"]] == refused
        assert answer["rejected"] == len(refused)

    @rule(seconds=st.sampled_from([1.0, EARLY, TTL, -3.0]))
    def time_passes(self, seconds: float) -> None:
        self.oracle.now += seconds

    @rule()
    def sweep(self) -> None:
        self.service.sweep()
        self.oracle.expire(list(self.oracle.ids))
        self.oracle.forget_skipped()

    @precondition(lambda self: self.generation < 3)
    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        before = self.picture()
        self.generation += 1
        copy = self.folder / str(self.generation)
        old = self.service
        if clean:
            old.stop()
        shutil.copytree(old.data_dir, copy, ignore=shutil.ignore_patterns("lock"))
        if not clean:
            old.stop()  # what it still does is not in the copy
        self.service = self.open(copy)
        assert self.picture() == before

    def picture(self) -> dict[str, Any]:
        return {
            "description": self.service.describe("m"),
            "evaluation": self.service.evaluation("m"),
            "scores": [self.service.score("m", features) for features in PROBES],
        }

    @invariant()
    def equal(self) -> None:
        if not hasattr(self, "service"):
            return
        found = self.service.describe("m")
        assert (found["seq"], found["pending"]) == (self.oracle.seq, len(self.oracle.pending))
        assert found["examples"] == len(self.oracle.judged)
        assert found["auc"] is None or abs(found["auc"] - (self.oracle.auc or 0.0)) < 1e-12

    def teardown(self) -> None:
        if not hasattr(self, "service"):
            return
        scores = self.oracle.pipeline.engine.score_rows(PROBES).tolist()
        picture = self.picture()
        assert picture["scores"] == scores
        brier = self.oracle.brier / len(self.oracle.judged)
        assert picture["evaluation"]["calibration"]["brier"] == pytest.approx(brier, rel=1e-9)
        self.service.stop()
        again = self.open(self.service.data_dir)
        assert [again.score("m", features) for features in PROBES] == scores
        again.stop()
        shutil.rmtree(self.folder)


def _run(examples: int, steps: int) -> None:
    chosen = settings(
        max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=list(HealthCheck)
    )
    run_state_machine_as_test(Lives, settings=chosen)


def test_random_lives() -> None:
    _run(6, 25)


@pytest.mark.soak  # minutes
def test_many_random_lives() -> None:
    _run(200, 60)
