"""Every call against a real service, by both clients."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from aucstream import from_bytes
from aucstream.client import (
    Client,
    ConnectionFailed,
    Example,
    Expired,
    FeaturesConflict,
    InvalidRequest,
    LabelConflict,
    Learned,
    ModelNotFound,
    PreconditionFailed,
    Problem,
    Retry,
    SpecConflict,
    TooManyModels,
    Unauthorized,
)
from aucstream.client.problems import InvalidQuery
from aucstream.errors import InvalidBlock, InvalidLabel, InvalidParams
from tests.service.running import Local, free_port
from tests.service.stream import rows

from .both import BOTH, Blocking

pytestmark = [pytest.mark.xdist_group("client"), pytest.mark.usefixtures("awkward")]


def pairs(n: int, seed: int = 0) -> list[tuple[dict[str, Any], bool]]:
    return [(body["features"], body["label"]) for body in rows(n, seed)]


# ---- models -------------------------------------------------------------------------------------


def test_models_are_made_listed_described_and_deleted(client: Any, local: Local) -> None:
    for name in ("b", "a", "c"):
        created = client.create(name, "solam", params={"R": np.float64(5.0)}, evaluation={"window": 100}, seed=3)
        assert (created.name, created.seq, created.spec["params"], created.spec["seed"]) == (name, 0, {"R": 5.0}, 3)
    assert client.create("a", "solam", params={"R": 5}, evaluation={"window": 100}, seed=3).name == "a"
    with pytest.raises(SpecConflict) as refused:
        client.create("a", "psam")
    assert (refused.value.status, refused.value.type, refused.value.attempts) == (409, "spec-conflict", 1)
    for page in (1, 2, 100):
        names = [description.name for description in client.models(page=page)]
        assert [name for name in names if len(name) == 1] == ["a", "b", "c"]
    listed = next(one for one in client.models() if one.name == "a")
    described = client.describe("a")
    assert msgspec.structs.replace(described, etag=None) == listed
    etag = described.etag
    assert etag == created.etag is not None  # the same spec
    other = client.create("d", "solam").etag
    for refused_call in (
        lambda: client.delete("a", if_match=other),
        lambda: client.create("a", "solam", if_match=other),
        lambda: client.create("nobody", "solam", if_match="*"),
        lambda: client.upload_snapshot("a", client.download_snapshot("d"), if_match=other),
    ):
        with pytest.raises(PreconditionFailed):
            refused_call()
    with pytest.raises(InvalidParams, match="if_match"):
        client.delete("a", if_match="")
    client.delete("a", if_match=etag)
    client.delete("d")
    for name in ("b", "c"):
        client.delete(name)
        with pytest.raises(ModelNotFound):
            client.describe(name)
    with pytest.raises(ModelNotFound):
        client.delete("a")


def test_what_a_spec_cannot_say_is_not_sent(client: Any, awkward: Any) -> None:
    with pytest.raises(InvalidParams, match="finite"):
        client.create("m", params={"R": float("nan")})
    with pytest.raises(InvalidParams, match="set"):
        client.create("m", params={"R": {1}})
    with pytest.raises(InvalidParams, match="model: expected a name of 1 to 64"):
        client.describe("../metrics")
    assert awkward.requests == []
    with pytest.raises(InvalidRequest) as refused:
        client.create("m", "psam", params={"nonsense": 1})
    assert refused.value.request_id
    assert "nonsense" in str(refused.value)


# ---- one row ------------------------------------------------------------------------------------


def test_one_row_at_a_time_with_ids_made_by_the_client(client: Any, model: str) -> None:
    answers = [client.learn_one(model, features, label) for features, label in pairs(80)]
    assert [one.seq for one in answers] == list(range(1, 81))
    assert len({one.id for one in answers}) == 80
    assert not any(one.duplicate for one in answers)
    auc = roc_auc_score([label for _, label in pairs(80)], [one.score for one in answers])
    evaluation = client.evaluation(model)
    assert evaluation.window.auc == pytest.approx(auc)
    assert evaluation.window.auc_low < auc < evaluation.window.auc_high
    assert (evaluation.window.size, evaluation.total.examples) == (10_000, 80)
    assert evaluation.calibration.slope > 0
    first, second = client.evaluation(model, at=["fpr:0.1", "top:20"]).figures.at
    assert (first.at, second.at, second.rows) == ("fpr:0.1", "top:20", 20.0)
    assert first.recall_low < first.recall < first.recall_high
    assert evaluation.figures.at == ()
    assert evaluation.figures.average_precision_low < evaluation.figures.average_precision
    with pytest.raises(InvalidQuery, match=r"at: expected fpr:RATE"):
        client.evaluation(model, at=["top:none"])
    with pytest.raises(InvalidParams, match="at: expected texts"):
        client.evaluation(model, at="top:20")
    curve = client.roc(model)
    assert np.trapezoid(curve.tpr, curve.fpr) == pytest.approx(auc)
    assert curve.thresholds[0] is None
    weights = client.weights(model, top=2)
    assert weights[0].name == "a"
    assert len(weights) == 2
    prediction = client.predict_one(model, {"a": 1.5, "b": 0}, explain=True)
    assert sum(prediction.contributions.values()) == pytest.approx(prediction.score)
    assert 0 < prediction.probability < 1
    assert client.predict_one(model, {"a": 1.5, "b": 0}).contributions is None
    assert client.learn_one(model, {"a": 0}, False, id=None).id is None
    first = client.learn_one(model, {"a": 0}, False, id="mine", weight=np.float32(2))
    assert client.learn_one(model, {"a": 0}, False, id="mine") == Learned(first.seq, None, True, "mine")
    with pytest.raises(LabelConflict) as refused:
        client.learn_one(model, {"a": 0}, True, id="mine")
    assert refused.value.id == "mine"


def test_numpy_values_are_the_same_features(client: Any, model: str) -> None:
    plain: dict[Any, Any] = {"n": 2.5, "i": 3, "t": True, "s": "x", "l": ["p", "q"], "3": 1.0}
    numpy: dict[Any, Any] = {
        "n": np.float64(2.5),
        "i": np.int64(3),
        "t": np.bool_(True),
        "s": np.str_("x"),
        "l": {"q", "p"},
        "none": None,
        3: np.float32(1),
    }
    client.learn_one(model, plain, np.True_)
    client.learn_one(model, {"n": 1}, np.int8(-1))
    first = client.predict_one(model, plain, id="x")
    assert client.predict_one(model, numpy, id="x") == first
    with pytest.raises(FeaturesConflict):
        client.predict_one(model, {**plain, "i": 4}, id="x")


def test_what_the_library_refuses_is_not_sent(client: Any, model: str, awkward: Any) -> None:
    for value in (float("nan"), np.float64("inf"), {"no": 1}, [1], b"bytes", object(), 10**400):
        with pytest.raises(InvalidBlock, match=r"\['a'\]"):
            client.learn_one(model, {"ok": 1, "a": value}, True)
    for features in ("text", 3, np.zeros((2, 2)), [1.0, float("nan")], ["x"], {3: 1, "3": 2}, {None: 1}):
        with pytest.raises(InvalidBlock):
            client.predict_one(model, features)
    for label in (2, "yes", None, float("nan")):
        with pytest.raises(InvalidLabel):
            client.learn_one(model, {"a": 1}, label)
    for weight in (-1, float("nan"), float("inf"), "x"):
        with pytest.raises(InvalidBlock, match="weights"):
            client.learn_one(model, {"a": 1}, True, weight=weight)
    for id_ in ("", "a b", "x" * 257, 3):
        with pytest.raises(InvalidParams, match="id"):
            client.learn_one(model, {"a": 1}, True, id=id_)
    with pytest.raises(InvalidParams, match="id of a prediction"):
        client.label_one(model, None, True)
    assert awkward.requests == []


def test_labels_come_later(client: Any, model: str) -> None:
    first = client.predict_one(model, {"a": 1}, id="p1")
    assert client.describe(model).pending == 1
    learned = client.label_one(model, "p1", True)
    assert (learned.seq, learned.score, learned.duplicate, learned.id) == (1, first.score, False, "p1")
    assert client.label_one(model, "p1", 1).duplicate
    with pytest.raises(LabelConflict):
        client.label_one(model, "p1", 0)
    early = client.label_one(model, "early", True)
    assert (early.score, early.duplicate) == (None, False)
    assert client.describe(model).examples == 1
    client.predict_one(model, {"a": 2}, id="early")
    assert client.describe(model).examples == 2


# ---- many rows ----------------------------------------------------------------------------------


def test_many_rows_in_batches_are_learned_in_order(client: Any, model: str, local: Local, awkward: Any) -> None:
    examples = pairs(2_500)
    sums = client.learn_many(model, iter(examples))
    assert (sums.accepted, sums.duplicates, sums.rejected, sums.seq, sums.errors) == (2_500, 0, 0, 2_500, ())
    assert len(awkward.requests) == 3
    local.create("one-by-one")
    local.post("one-by-one", "learn-many", rows(2_500))
    scores = [prediction.score for prediction in client.predict_many(model, (x for x, _ in examples))]
    assert scores == [one.score for one in client.predict_many("one-by-one", (x for x, _ in examples), batch_rows=77)]
    local.http.delete("/v1/models/one-by-one")


def test_rows_may_come_in_several_forms(client: Any, model: str) -> None:
    forms = [
        ({"a": 1}, True),
        Example({"a": 2}, 0, id="two"),
        {"features": {"a": 3}, "label": -1, "weight": 0.5},
        Example({"a": 2}, 0, id="two"),
    ]
    sums = client.learn_many(model, forms)
    assert (sums.accepted, sums.duplicates, sums.rows) == (3, 1, 4)
    batches = list(client.learn_batches(model, pairs(25), ids=None, batch_rows=10))
    assert [batch.accepted for batch in batches] == [10, 10, 5]
    for bad in (({"a": 1},), [{"a": 1}, True], {"features": {}}, {"features": {}, "label": 1, "x": 1}, "row"):
        with pytest.raises(InvalidBlock, match="Example"):
            client.learn_many(model, [bad])


def test_arrays_are_rows(client: Any, model: str) -> None:
    X = np.random.default_rng(0).normal(size=(50, 3))
    y = X[:, 0] > 1
    assert client.learn_many(model, zip(X, y, strict=True)).accepted == 50
    by_array = list(client.predict_many(model, X))
    assert by_array == list(client.predict_many(model, X.tolist()))
    assert client.predict_one(model, X[0]).score == by_array[0].score
    assert [weight.name for weight in client.weights(model, top=1)] == ["0"]
    parts = client.predict_one(model, X[0], explain=True).contributions
    assert {weight.name for weight in client.weights(model)} == set(parts)


def test_no_rows_still_ask_for_the_model(client: Any, model: str) -> None:
    client.learn_one(model, {"a": 1}, True)
    assert client.learn_many(model, []).seq == 1
    assert list(client.predict_many(model, [])) == []
    with pytest.raises(ModelNotFound):
        client.learn_many("absent", [])


@pytest.mark.parametrize("bad", [({"a": float("nan")}, True), ({"a": "x" * 2_000}, True)], ids=["here", "there"])
def test_a_bad_row_ends_the_call_or_is_passed_over(client: Any, model: str, bad: Any) -> None:
    labelled_rows = pairs(250)
    labelled_rows[170] = bad
    with pytest.raises((InvalidBlock, Problem)) as refused:
        client.learn_many(model, labelled_rows, batch_rows=100)
    learned = refused.value.learned  # type: ignore[union-attr]
    assert (learned.accepted, client.describe(model).examples) == (170, 170)
    if isinstance(refused.value, Problem):
        assert [error["line"] for error in refused.value.errors] == [171]
        assert "line 171, /features/a" in str(refused.value)
    else:
        assert "row 171['a']" in str(refused.value)
    sums = client.learn_many(model, labelled_rows, on_error="skip", batch_rows=100)
    assert (sums.accepted, sums.rejected) == (249, 1)
    assert [error.line for error in sums.errors] == [171]
    predictions = list(client.predict_many(model, (x for x, _ in labelled_rows), on_error="skip", batch_rows=100))
    assert [number for number, one in enumerate(predictions, 1) if one.score is None] == [171]
    assert predictions[170].errors[0].line == 171
    with pytest.raises((InvalidBlock, Problem)):
        list(client.predict_many(model, (x for x, _ in labelled_rows), batch_rows=100))


def test_only_the_first_hundred_errors_are_kept(client: Any, model: str) -> None:
    sums = client.learn_many(model, [({"a": float("nan")}, 1)] * 150, on_error="skip")
    assert (sums.rejected, len(sums.errors), sums.errors[-1].line) == (150, 100, 100)


def test_a_raw_record_is_removed(client: Any, model: str) -> None:
    client.predict_one(model, {"a": 1}, id="a/b?&é")
    assert [client.delete_event(model, "a/b?&é") for _ in range(2)] == [1, 0]
    with pytest.raises(Expired):
        client.label_one(model, "a/b?&é", True)
    with pytest.raises(InvalidParams, match="id"):
        client.delete_event(model, "")


def test_many_labels(client: Any, model: str) -> None:
    labelled_rows = pairs(300)
    examples = [Example(x, id=f"p{number}") for number, (x, _) in enumerate(labelled_rows)]
    assert len(list(client.predict_many(model, examples, batch_rows=128))) == 300
    assert client.describe(model).pending == 300
    labels = [(f"p{number}", y) for number, (_, y) in enumerate(labelled_rows)]
    assert client.label_many(model, labels[:200], batch_rows=64).accepted == 200
    counts = list(client.label_batches(model, ({"id": id_, "label": y} for id_, y in labels), batch_rows=150))
    assert [(one.accepted, one.duplicates) for one in counts] == [(0, 150), (100, 50)]
    assert client.describe(model).pending == 0
    with pytest.raises(LabelConflict) as refused:
        client.label_many(model, [*labels[:10], ("p0", not labelled_rows[0][1])])
    assert [error["line"] for error in refused.value.errors] == [11]
    with pytest.raises(InvalidBlock, match="row"):
        client.label_many(model, ["p0"])


def test_options_of_many_are_checked(client: Any, model: str) -> None:
    with pytest.raises(InvalidParams, match="on_error"):
        client.learn_many(model, [], on_error="ignore")
    with pytest.raises(InvalidParams, match="batch_rows"):
        client.label_many(model, [], batch_rows=0)
    with pytest.raises(InvalidParams, match="ids"):
        client.learn_many(model, [], ids="uuid")


def test_an_endless_iterable_is_taken_a_batch_at_a_time(client: Any, model: str) -> None:
    source = itertools.count(1)
    endless = (({"a": 1.0}, True) for _ in source)
    batches = client.learn_batches(model, endless, batch_rows=10)
    assert next(batches).accepted == 10
    assert next(source) == 11
    batches.close()


# ---- snapshots, health, events ------------------------------------------------------------------


def test_a_snapshot_goes_down_and_up(client: Any, model: str) -> None:
    client.learn_many(model, pairs(100))
    data = client.download_snapshot(model)
    score = client.predict_one(model, {"a": 1}).score
    assert from_bytes(data).score_one({"a": 1.0}) == score
    copy = client.upload_snapshot(f"{model}-copy", data)
    assert (copy.name, copy.seq) == (f"{model}-copy", 100)
    assert client.predict_one(copy.name, {"a": 1}).score == score
    client.delete(copy.name)
    with pytest.raises(InvalidRequest) as refused:
        client.upload_snapshot("damaged", data[:-1])
    assert refused.value.type == "bad-snapshot"


def test_health_and_metrics(client: Any, model: str) -> None:
    assert (client.live(), client.ready()) == (True, True)
    client.wait_ready()
    assert f'model="{model}"' in client.metrics()
    assert client.metrics(openmetrics=True).endswith("# EOF\n")


@pytest.mark.parametrize("make", BOTH)
def test_where_nothing_listens(make: Any) -> None:
    with make(f"http://127.0.0.1:{free_port()}", retry=Retry(deadline=0)) as client:
        assert (client.live(), client.ready()) == (False, False)
        with pytest.raises(ConnectionFailed):
            client.wait_ready(0.2)
        with pytest.raises(ConnectionFailed) as failed:
            client.learn_one("m", {}, True)
        assert (failed.value.sent, failed.value.attempts) == (False, 1)
        assert failed.value.id


def test_alarms_are_in_evaluation_and_in_the_numbers_of_events(direct: Any, local: Local, model: str) -> None:
    bodies = [(body["features"], body["label"]) for body in rows(900, positives=0.4)]
    direct.learn_many(model, bodies)
    events = direct.events(model)
    before = next(events).drift
    assert before == direct.evaluation(model).drift
    direct.learn_many(model, [(features, not label) for features, label in bodies[:200]])
    drift = direct.evaluation(model).drift
    assert drift.alarms == before.alarms + 1
    assert 900 < drift.last_alarm_seq <= 1_100
    assert next(event for event in events if event.seq == 1_100).drift == drift
    events.close()


def test_events_come_until_the_model_is_gone(direct: Any, local: Local, model: str) -> None:
    direct.learn_many(model, pairs(50))
    events = direct.events(model)
    first = next(events)
    assert (first.name, first.seq, first.window.examples) == (model, 50, 50)
    local.learn(model, {"a": 1}, 1)
    assert next(events).seq == 51
    events.close()
    events = direct.events(model, after=51)
    local.learn(model, {"a": 1}, 1)
    assert next(events).seq == 52
    local.http.delete(f"/v1/models/{model}")
    assert list(events) == []
    with pytest.raises(ModelNotFound):
        next(direct.events(model))


# ---- what a client is told ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    running = Local(tmp_path_factory.mktemp("keyed") / "data", admin_key="k" * 40, max_models=1)
    yield running
    running.stop()


@pytest.mark.parametrize("make", BOTH)
def test_keys_are_told_or_found(keyed: Local, make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = str(keyed.http.base_url)
    for name in ("AUCSTREAM_API_KEY", "AUCSTREAM_API_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    with make(url) as client, pytest.raises(Unauthorized):
        client.describe("m")
    with make(url, "k" * 40) as client:
        client.create("m", "solam")
        assert "k" * 40 not in repr(client) + str(vars(client).get("_calls"))
        with pytest.raises(TooManyModels) as refused:  # does not pass with time: not repeated
            client.create("m2", "solam")
        assert refused.value.attempts == 1
    monkeypatch.setenv("AUCSTREAM_API_KEY", "k" * 40)
    with make(url + "/") as client:
        assert client.describe("m").name == "m"
    file = tmp_path / "key"
    file.write_text("k" * 40 + "\n")
    monkeypatch.setenv("AUCSTREAM_API_KEY_FILE", str(file))
    with pytest.raises(InvalidParams, match="got both"):
        make(url)
    monkeypatch.delenv("AUCSTREAM_API_KEY")
    with make(url) as client:
        assert client.describe("m").name == "m"
    file.unlink()
    with pytest.raises(InvalidParams, match="readable"):
        make(url)


def test_bad_arguments_are_refused_without_showing_the_key() -> None:
    for url in ("localhost:8000", "ftp://x", "http://", "http://x/?a=1", ""):
        with pytest.raises(InvalidParams, match="base_url"):
            Client(url)
    for key in ("", "a b", "schlüssel", "x\r\nHost: y"):
        with pytest.raises(InvalidParams, match="api_key") as refused:
            Client(api_key=key)
        assert not key or key not in str(refused.value)
    with pytest.raises(InvalidParams, match="timeout"):
        Client(timeout=0)


def test_many_threads_share_a_client(client: Any, local: Local, model: str, awkward: Any) -> None:
    if isinstance(client, Blocking):
        pytest.skip("an asynchronous client belongs to one loop")
    errors: list[Exception] = []

    def learn() -> None:
        try:
            for _ in range(20):
                client.learn_one(model, {"a": 1}, True)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=learn) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert local.describe(model)["examples"] == 160
