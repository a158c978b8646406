"""Threads that share a model; run as a process of its own, so that a crash is a result: python -m contracts.shared.

Prints one line of JSON, a list of what was wrong.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from aucstream import AutoScale, Hashing, Pipeline, UnitNorm, from_bytes
from aucstream.features import KMeansNystroem, RandomFourier
from aucstream.learners._base.capabilities import Capability
from aucstream.learners._base.estimator import RankingClassifier
from aucstream.metrics import AUC, FadingAUC, PairedAUC
from aucstream.registry import LEARNERS, learner_class, make

Make = Callable[[], RankingClassifier]

ROWS = 240
SHAPES = ((10, 2), (3, 1), (16, 4))  # numbers and strings of a row


def models() -> dict[str, Make]:
    """Return every learner, alone and scaled, and pipelines of every kind."""
    made: dict[str, Make] = {}
    for name in LEARNERS:
        for number, params in enumerate(learner_class(name)._unit_test_params()):
            made[f"{name} {number}"] = lambda name=name, params=params: make(name, params)  # type: ignore[misc]
        made[f"scaled {name}"] = lambda name=name: Pipeline(AutoScale(), make(name, {}))  # type: ignore[misc]
    made["unit"] = lambda: Pipeline(UnitNorm(), make("solam", {}))
    made["hashed"] = lambda: Pipeline(Hashing(bits=10), AutoScale(), make("solam", {}))
    made["hashed alone"] = lambda: Pipeline(Hashing(bits=10), make("ftrl", {}))
    made["mapped"] = lambda: Pipeline(AutoScale(), RandomFourier(components=16, warmup=20), make("solam", {}))
    made["landmarks"] = lambda: Pipeline(Hashing(bits=10), KMeansNystroem(landmarks=8, warmup=20), make("psam", {}))
    made["uncalibrated"] = lambda: Pipeline(AutoScale(), make("psam", {}), calibration="none")
    return made


def row(seed: int) -> dict[Any, Any]:
    """Return a row; rows differ in names, order, length and kinds of values."""
    random = np.random.default_rng(seed)
    numbers, words = SHAPES[seed % len(SHAPES)]
    names = random.permutation(24)[:numbers].tolist()
    x: dict[Any, Any] = {f"n{name}": float(random.normal()) * 2.0 ** (name % 5) for name in names}
    x |= {f"s{k}": f"v{int(random.integers(4))}" for k in range(words)}
    if seed % 7 == 0:
        x[f"rare{seed % 61}"] = 1  # new names come all along
    return x


def rows(n: int = ROWS) -> list[tuple[dict[Any, Any], bool]]:
    """Return labelled rows."""
    made = []
    for seed in range(n):
        x = row(seed)
        made.append((x, sum(value for value in x.values() if isinstance(value, float)) > 1.0))
    return made


PROBES = [row(seed) for seed in range(1000, 1012)]


def learned(make_one: Make, n: int = ROWS) -> RankingClassifier:
    model = make_one()
    for x, y in rows(n):
        model.learn_one(x, y)
    return model


class Threads:
    """Threads that run until one of them fails or the time is over."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def run(self, work: Callable[[], Any], *, forever: bool = True) -> None:
        def loop() -> None:
            try:
                while not self.stop.is_set():
                    work()
                    if not forever:
                        break
            except BaseException as error:
                self.wrong.append(f"{type(error).__name__}: {error}")
                self.stop.set()

        self._threads.append(threading.Thread(target=loop, daemon=True))

    def wait(self, seconds: float, until: int = 0) -> list[str]:
        """Start all, wait; `until`: for so many of the first ones to end, at most so long."""
        for thread in self._threads:
            thread.start()
        end = time.monotonic() + seconds
        for thread in self._threads[:until]:
            thread.join(max(0.0, end - time.monotonic()))
        while not until and time.monotonic() < end and not self.stop.is_set():
            time.sleep(0.02)
        stuck = [thread for thread in self._threads[:until] if thread.is_alive()]
        self.stop.set()
        for thread in self._threads:
            thread.join(30.0)
            if thread.is_alive():
                stuck.append(thread)
        return self.wrong + ["a thread did not come to its end"] * bool(stuck)

    def expect(self, fine: bool, text: str) -> None:
        if not fine:
            self.wrong.append(text)
            self.stop.set()


def state(model: RankingClassifier) -> bytes:
    """Return all that a model is, without working space: its bytes as a loaded model writes them."""
    return from_bytes(model.to_bytes()).to_bytes()


def probe_scores(model: RankingClassifier) -> list[tuple[float, float]]:
    return [(model.score_one(x), model.predict_proba_one(x)[True]) for x in PROBES]


def scoring(make_one: Make, seconds: float) -> list[str]:
    """Score a model that does not learn from several threads: each row gets its own score."""
    model = learned(make_one)
    expected = probe_scores(model)
    block = {k: model.engine.score_rows([PROBES[k]] * 20)[0] for k in range(len(PROBES))}
    threads = Threads()

    def one(start: int) -> Callable[[], None]:
        turns = itertools.count(start)

        def score() -> None:
            k = next(turns) % len(PROBES)
            threads.expect(model.score_one(PROBES[k]) == expected[k][0], f"score of row {k}")
            found = model.predict_proba_one(PROBES[k])
            threads.expect((found.score, found[True]) == expected[k], f"probability of row {k}")  # type: ignore[attr-defined]

        return score

    def many() -> None:
        k = int(time.monotonic() * 1e6) % len(PROBES)
        scores = model.engine.score_rows([PROBES[k]] * 20)
        threads.expect(bool((scores == block[k]).all()), f"score of rows {k}")

    for start in (0, 5):
        threads.run(one(start))
    threads.run(many)
    return threads.wait(seconds)


def learning(make_one: Make, seconds: float, times: int = 1) -> list[str]:
    """Learn in one thread and score in three: each score is one of a state between two rows, the end that of one thread."""
    stream = rows()
    alone = make_one()
    states: list[set[tuple[float, float]]] = [set() for _ in PROBES]

    def note() -> None:
        for held, pair in zip(states, probe_scores(alone), strict=True):
            held.add(pair)

    note()
    for _ in range(times):
        for x, y in stream:
            alone.learn_one(x, y)
            note()
    model = make_one()
    threads = Threads()

    def learn() -> None:
        for _ in range(times):
            for x, y in stream:
                model.learn_one(x, y)
                if threads.stop.is_set():
                    return

    def score(start: int) -> Callable[[], None]:
        turns = itertools.count(start)

        def one() -> None:
            k = next(turns) % len(PROBES)
            found = model.predict_proba_one(PROBES[k])
            threads.expect((found.score, found[True]) in states[k], f"row {k}: a score of no state")  # type: ignore[attr-defined]
            score = model.score_one(PROBES[k])
            threads.expect(any(score == known for known, _ in states[k]), f"row {k}: a score of no state")

        return one

    threads.run(learn, forever=False)
    for start in (0, 4, 8):
        threads.run(score(start))
    wrong = threads.wait(seconds, until=1)
    if not wrong and state(model) != state(alone):
        wrong.append("the model is not what one thread makes of the rows")
    return wrong


def learning_again(make_one: Make, seconds: float) -> list[str]:
    """Learn longer streams, one model after the other, until the time is over."""
    end = time.monotonic() + seconds
    wrong: list[str] = []
    while not wrong and time.monotonic() < end:
        wrong = learning(make_one, seconds, 10)
    return wrong


def everything(make_one: Make, seconds: float) -> list[str]:
    """Call all there is at once, blocks that release the GIL and copies too: nothing fails, and all rows are learned."""
    model, other = learned(make_one, 60), learned(make_one, 40)
    stream = rows()
    threads = Threads()
    count = {"rows": model.examples}
    counting = threading.Lock()
    mapped = isinstance(model, Pipeline) and model._map_pattern is not None
    named = not isinstance(model._encoder, Hashing)
    learner = model.learner if isinstance(model, Pipeline) else model
    linear = Capability.LINEAR_WEIGHTS in learner._capabilities

    def learn_one() -> None:
        for x, y in stream[:60]:
            model.learn_one(x, y, 1)
        add(60)

    def add(n: int) -> None:
        with counting:
            count["rows"] += n

    def learn_many() -> None:
        picked = stream[60:200]
        model.engine.learn_rows([x for x, _ in picked], np.array([1.0 if y else -1.0 for _, y in picked]))
        add(140)

    def read() -> None:
        for x in PROBES:
            threads.expect(math.isfinite(model.score_one(x)), "a score that is not finite")
            model.predict_one(x)
        model.engine.score_rows(PROBES * 3)
        if not mapped:
            model.explain_one(PROBES[0])
            if named and linear:
                model.weights
        model.examples, model.positives, model.engine.calibration_line

    def copied() -> None:
        made = [from_bytes(model.to_bytes()), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)]
        made.append(model.clone(include_attributes=True))
        for each in made:
            scores = [each.score_one(x) for x in PROBES]  # type: ignore[union-attr]
            threads.expect(bool(np.isfinite(scores).all()), "a copy whose score is not finite")
        checked = copy.deepcopy(made[2])
        threads.expect(checked.to_bytes() == made[2].to_bytes(), "a copy of a copy differs")

    def change() -> None:
        target = model.learner if isinstance(model, Pipeline) else model
        for name in sorted(target._steps_and_penalties):
            value = getattr(target, name)
            if value is not None:
                setattr(target, name, value)
        time.sleep(0.001)

    for work in (learn_one, learn_many, read, copied, change):
        threads.run(work)
    for x, _ in stream[:20]:
        other.learn_one(x, True)
    wrong = threads.wait(seconds)
    if not wrong and model.examples != count["rows"]:
        wrong.append(f"{count['rows']} rows were learned, {model.examples} are counted")
    return wrong


def arrays(make_one: Make, seconds: float) -> list[str]:
    """Learn and score arrays, which release the GIL, beside rows of integer names, which do not."""
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 12))
    y = X[:, 0] + 0.5 * random.normal(size=400) > 0.0
    model = make_one().partial_fit(X, y)
    wide = np.hstack([X, random.normal(size=(400, 6))])
    threads = Threads()
    count = [model.examples]

    def block() -> None:
        model.partial_fit(wide[:, : 12 + count[0] // 400 % 7], y)
        count[0] += 400

    single = [0]

    def one() -> None:
        for i in range(50):
            model.learn_one(dict(enumerate(X[i].tolist())), bool(y[i]))
        single[0] += 50

    def score() -> None:
        threads.expect(bool(np.isfinite(model.decision_function(X)).all()), "a score that is not finite")
        for i in range(20):
            threads.expect(math.isfinite(model.score_one(dict(enumerate(X[i].tolist())))), "a score that is not finite")

    for work in (block, one, score, score):
        threads.run(work)
    wrong = threads.wait(seconds)
    if not wrong and model.examples != count[0] + single[0]:
        wrong.append(f"{count[0] + single[0]} rows were learned, {model.examples} are counted")
    return wrong


def merges(model: RankingClassifier) -> bool:
    """Return whether a learner merges with another of its kind."""
    return bool({Capability.EXACT_MERGE, Capability.APPROXIMATE_MERGE} & model._capabilities)  # type: ignore[attr-defined]


def merging(make_one: Make, seconds: float) -> list[str]:
    """Merge two models into each other from two threads: neither waits for the other for ever."""
    one, other = learned(make_one, 40), learned(make_one, 60)
    threads = Threads()

    def merge(a: RankingClassifier, b: RankingClassifier) -> Callable[[], None]:
        def work() -> None:
            for _ in range(5):
                a.merge(b, approximate=True)  # type: ignore[attr-defined]

        return work

    threads.run(merge(one, other), forever=False)
    threads.run(merge(other, one), forever=False)
    threads.run(lambda: (one.score_one(PROBES[0]), other.score_one(PROBES[0])))
    return threads.wait(seconds, until=2)


def metrics(seconds: float) -> list[str]:
    """Update metrics from several threads while others read them: no row is lost, and labels keep their scores."""
    wrong: list[str] = []
    for metric in (AUC(), AUC(window=100_000), FadingAUC(decay=0.99999), PairedAUC(window=100_000)):
        threads = Threads()
        each = 6000
        pair = isinstance(metric, PairedAUC)

        def update(metric: Any = metric, pair: bool = pair, each: int = each) -> None:
            for i in range(each):
                label = i % 3 == 0
                score = (1.0 if label else 0.0) + 0.25 * (i % 4)
                if pair:
                    metric.update(label, score, -score)
                else:
                    metric.update(label, score)

        def read(metric: Any = metric, threads: Threads = threads) -> None:
            value = metric.get()
            threads.expect(math.isnan(value) or value > 0.5, f"{type(metric).__name__}: {value}")
            metric.interval()
            copy.deepcopy(metric).get()

        for _ in range(3):
            threads.run(update, forever=False)
        threads.run(read)
        wrong += threads.wait(seconds + 30.0, until=3)
        if metric.examples != 3 * each or metric.positives != each:
            wrong.append(f"{type(metric).__name__}: {metric.examples} rows, {metric.positives} positive")
    return wrong


def transformers(seconds: float) -> list[str]:
    """Transform rows from two threads while a third learns: scalers, and a fitted map."""
    wrong: list[str] = []
    dicts = [{name: value for name, value in x.items() if isinstance(value, float)} for x, _ in rows()]
    for step in (AutoScale(), RandomFourier(components=8, warmup=50)):
        for x in dicts[:100]:
            step.learn_one(x)
        expected = [step.transform_one(x) for x in dicts[:12]]
        threads = Threads()

        def check(step: Any = step, expected: Any = expected, threads: Threads = threads) -> None:
            for x, known in zip(dicts[:12], expected, strict=True):
                threads.expect(step.transform_one(x) == known, f"{type(step).__name__}: the values of another row")

        for _ in range(2):
            threads.run(check)
        wrong += threads.wait(seconds / 2)
        if isinstance(step, AutoScale):
            threads = Threads()

            def learn(step: Any = step) -> None:
                for x in dicts:
                    step.learn_one(x)

            def transform(step: Any = step) -> None:
                for x in dicts[:12]:
                    step.transform_one(x)

            threads.run(learn)
            threads.run(transform)
            wrong += threads.wait(seconds / 2)
    return wrong


def tasks(part: str, seconds: float, names: list[str]) -> Iterator[tuple[str, list[str]]]:
    every = models()
    if part in ("metrics", "transformers"):
        yield part, {"metrics": metrics, "transformers": transformers}[part](seconds)
        return
    kinds: dict[str, Callable[[Make, float], list[str]]] = {
        "scoring": scoring,
        "learning": learning if seconds < 10 else learning_again,
        "everything": everything,
        "arrays": arrays,
        "merging": merging,
    }
    for name in names or list(every):
        array_model = not name.startswith(("hashed", "landmarks", "mapped"))
        alone = name.split()[-1].isdigit()
        if (part == "arrays" and not array_model) or (part == "merging" and not (alone and merges(every[name]()))):
            continue
        yield name, kinds[part](every[name], seconds)


def main(part: str, seconds: str, *names: str) -> None:
    sys.setswitchinterval(1e-5)  # threads change places between almost any two steps
    found = []
    for name, wrong in tasks(part, float(seconds), list(names)):
        found += [f"{part} {name}: {text}" for text in wrong]
        print(f"{part} {name}: {wrong or 'right'}", file=sys.stderr, flush=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
