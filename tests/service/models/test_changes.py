"""Changes of a model that serves: a patch of its spec, another name, an evaluation that begins anew; none of it is lost."""

from __future__ import annotations

import json
import shutil
import sqlite3
import tarfile
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from aucstream.client import Client, FixedSetting, NameTaken
from aucstream.pipeline import Pipeline
from aucstream.registry import LEARNERS, learner_class, mutable_params
from aucstream_service.journal.commands import EventRecord, ModelRecord
from aucstream_service.models.model import Model, packed, unpacked
from tests.service.models.test_restart import PROBES, picture
from tests.service.proof.test_care import fsck
from tests.service.running import JSON, NDJSON, Calls, Direct, Local, Running, problem
from tests.service.stream import lines, rows

MERGE = {"Content-Type": "application/merge-patch+json"}
OCTETS = {"Content-Type": "application/octet-stream"}
OLD = Path(__file__).parent / "data" / "before-changes.tar.gz"


def patch(service: Calls, name: str, changes: Any, **headers: str) -> httpx.Response:
    return service.raw(f"/v1/models/{name}", json.dumps(changes), {**MERGE, **headers}, "PATCH")


def patched(service: Calls, name: str, changes: Any) -> dict[str, Any]:
    answer = patch(service, name, changes)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    assert found == service.describe(name)
    assert answer.headers["etag"] == service.http.get(f"/v1/models/{name}").headers["etag"]
    return found


def killed(service: Direct, **settings: Any) -> Direct:
    """Return a service on what a kill leaves of another one, which is stopped."""
    copy = service.data_dir.with_name(f"{service.data_dir.name}x")
    shutil.copytree(service.data_dir, copy, ignore=shutil.ignore_patterns("lock"))
    service.stop()
    return Direct(copy, **settings)


def straight(data_dir: Path) -> Model:
    """Return a model that learned all of the journal without a break."""
    with sqlite3.connect(f"file:{data_dir}/journal.sqlite3?immutable=1", uri=True) as db:
        record = db.execute("SELECT model, name, spec, created_at, base_seq, seed, pruned_seq FROM models").fetchone()
        model = Model(ModelRecord(*record))
        for event in db.execute(
            "SELECT seq_first, seq_last, kind, payload, received_at FROM events ORDER BY seq_first"
        ):
            model.replay(EventRecord(*event))
    return model


def bits(model: Model) -> bytes:
    """Return the state as a snapshot brings it back: what only makes a step faster is made anew then."""
    again = Model(ModelRecord(model.number, model.name, model.canonical, model.created_at, 0, model.seed))
    again.restore(*unpacked(packed(model.state())))
    return packed((again.state()[0], {}))


def seen_of(service: Calls, name: str = "m") -> dict[str, Any]:
    """Return all that a client sees of a model; some have no weights."""
    seen = picture(service, name)
    return {part: value for part, value in seen.items() if part != "weights" or "weights" in value}


# ---- PATCH ------------------------------------------------------------------------------------


def test_a_full_store_and_a_small_window_are_raised_while_the_model_serves(data_dir: Path) -> None:
    service = Direct(data_dir)
    service.create("m", pending={"capacity": 2}, evaluation={"window": 20})
    service.post("m", "learn-many", rows(60))
    for number in range(3):
        answer = service.post("m", "predict-one", {"features": {"a": 1.0}, "id": f"p{number}"}).json()
        assert answer.get("kept", True) == (number < 2)
    before = service.http.get("/v1/models/m")
    found = patched(service, "m", {"pending": {"capacity": 4, "when_full": "refuse"}, "evaluation": {"window": 30}})
    assert found["spec"]["pending"] == {**before.json()["spec"]["pending"], "capacity": 4, "when_full": "refuse"}
    assert (found["seq"], found["examples"], found["pending"]) == (61, 60, 2)
    assert service.http.get("/v1/models/m").headers["etag"] != before.headers["etag"]
    assert service.evaluation("m")["window"]["examples"] == 20  # those that were kept
    service.post("m", "learn-many", rows(20, seed=1))
    assert service.evaluation("m")["window"]["examples"] == 30
    for number in range(2, 5):
        answer = service.post("m", "predict-one", {"features": {"a": 1.0}, "id": f"p{number}"})
        assert answer.status_code == (200 if number < 4 else 429)
    assert service.post("m", "label-one", {"id": "p0", "label": True}).status_code == 200  # ids are kept
    assert 'aucstream_model_pending_capacity{model="m"} 4.0' in service.http.get("/metrics").text
    same = patched(service, "m", {"pending": {"capacity": 4}})  # changes nothing, and is no event
    assert same["seq"] == 82
    back = patched(service, "m", {"evaluation": {"window": 10}, "pending": None})
    assert (back["spec"]["pending"]["capacity"], back["spec"]["pending"]["when_full"]) == (1_000_000, "score-only")
    assert service.evaluation("m")["window"]["examples"] == 10
    before_kill = picture(service)
    again = killed(service)
    assert again.host.replayed == 83
    assert picture(again) == before_kill
    again.stop()


def test_the_window_that_grew_or_shrank_has_the_newest_rows(data_dir: Path) -> None:
    service = Direct(data_dir)
    bodies = rows(100)
    for name in ("m", "other"):
        service.create(name, evaluation={"window": 50 if name == "m" else 30})
        service.post(name, "learn-many", bodies)
    patched(service, "m", {"evaluation": {"window": 30}})
    assert service.evaluation("m")["window"] == service.evaluation("other")["window"]
    for name in ("m", "other"):
        service.post(name, "learn-many", rows(45, seed=3))
    assert service.evaluation("m")["window"] == service.evaluation("other")["window"]
    assert service.evaluation("m")["total"] == service.evaluation("other")["total"]
    service.stop()


@pytest.mark.parametrize("algorithm", LEARNERS)
def test_parameters_and_vocabulary_of_every_algorithm_change_with_the_same_bits(data_dir: Path, algorithm: str) -> None:
    service = Direct(data_dir, snapshot_keep=20)
    created = {"encoder": {"kind": "vocabulary", "capacity": 4}, "evaluation": {"window": 60}}
    assert service.create("m", algorithm=algorithm, **created).status_code == 201
    first, more, new = (rows(n, seed=8 + n, positives=0.4) for n in (150, 151, 60))
    for number, body in enumerate(new):
        body["features"]["word"] = f"v{number // 4 % 3}"
    service.post("m", "learn-many", first)
    values = dict.fromkeys(sorted(mutable_params(algorithm)), 0.75)
    if algorithm == "auto":
        values = {"cost": 3.0}
    found = patched(service, "m", {"params": values, "encoder": {"capacity": 100}})
    assert found["spec"]["params"] == values
    assert found["spec"]["encoder"]["capacity"] == 100
    model = service.host.models["m"]
    learner = model.pipeline.learner
    assert {name: getattr(learner, name) for name in values} == values
    assert len(model.pipeline.encoder) == 4
    snapshot = service.http.get("/v1/models/m/snapshot").content
    service.post("m", "learn-many", more)
    assert len(model.pipeline.encoder) == 7
    turned = {"columns": {"min_count": 2, "eviction": "least-recent"}, "encoder": {"capacity": 7}}
    assert patched(service, "m", turned)["spec"]["columns"] == turned["columns"]
    service.post("m", "learn-many", new)
    names = set(model.pipeline.encoder.names)  # type: ignore[attr-defined]
    assert {"word=v1", "word=v2"} <= names
    assert len(names) == 7
    seen, state = seen_of(service), bits(model)
    service.raw("/v1/models/copy/snapshot", snapshot, OCTETS, "PUT")  # the change is in the snapshot
    assert service.describe("copy")["spec"] == found["spec"]
    service.post("copy", "learn-many", more)
    patched(service, "copy", turned)
    service.post("copy", "learn-many", new)
    assert bits(service.host.models["copy"]) == state
    service.http.delete("/v1/models/copy")
    again = killed(service, snapshot_keep=20)
    assert again.host.replayed == 363
    assert seen_of(again) == seen
    assert bits(again.host.models["m"]) == state
    again.stop()
    clean = Direct(again.data_dir)
    assert (clean.host.replayed, seen_of(clean), bits(clean.host.models["m"])) == (0, seen, state)
    clean.stop()


def test_a_changed_step_counts_as_it_does_in_the_library(data_dir: Path) -> None:
    service = Direct(data_dir)
    service.create("m", algorithm="ftrl", params={"alpha": 1.0})
    first, more = rows(40), rows(40, seed=1)
    twin = Pipeline.from_spec({"algorithm": "ftrl", "params": {"alpha": 1.0}})
    service.post("m", "learn-many", first)
    patched(service, "m", {"params": {"alpha": 0.1, "l1": 0.5}})
    service.post("m", "learn-many", more)
    for bodies in (first, more):
        signs = np.array([1.0 if body["label"] else -1.0 for body in bodies])
        twin.engine.learn_rows([body["features"] for body in bodies], signs)
        twin.learner.mutate({"alpha": 0.1, "l1": 0.5})
    assert [service.score("m", features) for features in PROBES] == twin.engine.score_rows(PROBES).tolist()
    found = patched(service, "m", {"params": {"alpha": None}})  # the default
    assert found["spec"]["params"] == {"l1": 0.5}
    assert service.host.models["m"].pipeline.learner.alpha == learner_class("ftrl")().alpha  # type: ignore[attr-defined]
    service.stop()


def test_what_would_be_another_model_is_refused_and_says_from(data_dir: Path) -> None:
    service = Direct(data_dir)
    service.create("m", algorithm="psam", encoder={"kind": "vocabulary", "capacity": 10})
    service.create("hashed", encoder={"kind": "hashing", "bits": 8})
    service.create("auto", algorithm="auto")
    service.post("m", "learn-many", rows(30))
    refused: list[tuple[str, Any, str]] = [
        ("m", {"algorithm": "ftrl"}, "/algorithm"),
        ("m", {"seed": 4}, "/seed"),
        ("m", {"calibration": "none"}, "/calibration"),
        ("m", {"scaler": "none"}, "/scaler"),
        ("m", {"scaler": {"kind": "standard", "half_life": 100}}, "/scaler"),
        ("m", {"map": {"kind": "randomfourier"}}, "/map"),
        ("m", {"params": {"capacity": 7}}, "/params/capacity"),
        ("m", {"params": {"lam": 0.5, "kappa": 3.0}}, "/params/kappa"),
        ("m", {"encoder": {"kind": "hashing", "bits": 8, "capacity": None}}, "/encoder"),
        ("m", {"encoder": {"capacity": 6}}, "/encoder/capacity"),  # seven names are known
        ("hashed", {"encoder": {"bits": 9}}, "/encoder"),
        ("m", {"encoder": {"capacity": 6}, "columns": {"eviction": "least-recent"}}, "/encoder/capacity"),
        ("auto", {"params": {"portfolio": "l2/ftrl"}}, "/params/portfolio"),
    ]
    before = {name: picture_of(service, name) for name in ("m", "hashed", "auto")}
    for name, changes, pointer in refused:
        document = problem(patch(service, name, changes), 409, "fixed-setting")
        assert document["errors"][0]["pointer"] == pointer
        assert "create it, and send it the rows that `GET …/export?what=events` gives" in document["detail"]
        assert "`from`" not in json.dumps(document)
    assert {name: picture_of(service, name) for name in before} == before
    patched(service, "m", {"params": {"capacity": learner_class("psam")().capacity}})  # type: ignore[attr-defined]
    service.stop()


def picture_of(service: Calls, name: str) -> Any:
    return service.describe(name), service.evaluation(name)


def test_a_bad_patch_changes_nothing(data_dir: Path) -> None:
    service = Direct(data_dir, max_pending=100, max_window=1_000, max_vocabulary=1_000)
    limited = {"encoder": {"kind": "vocabulary", "capacity": 1_000}, "pending": {"capacity": 100}}
    service.create("m", algorithm="psam", evaluation={"window": 100}, **limited)
    service.post("m", "learn-many", rows(30))
    before = picture(service)
    refused: list[tuple[Any, str, str | None]] = [
        ([], "invalid-body", ""),
        (3, "invalid-body", ""),
        ({"color": "red"}, "invalid-body", "/color"),
        ({"pending": {"capacity": 0}}, "invalid-body", "/pending/capacity"),
        ({"pending": {"capacity": 101}}, "invalid-body", "/pending/capacity"),
        ({"pending": {"capacity": 5, "when_full": "wait"}}, "invalid-body", "/pending/when_full"),
        ({"evaluation": {"window": 1_001}}, "invalid-body", "/evaluation/window"),
        ({"evaluation": {"window": "5"}}, "invalid-body", "/evaluation/window"),
        ({"encoder": {"capacity": 1_001}}, "invalid-params", "/encoder/capacity"),
        ({"encoder": {"capacity": 20.5}}, "invalid-params", "/encoder/capacity"),
        ({"params": {"lam": -1.0}}, "invalid-params", "/params/lam"),
        ({"params": {"lam": "x"}}, "invalid-params", "/params/lam"),
        ({"params": {"nothing": 1}}, "invalid-params", "/params/nothing"),
    ]
    for changes, kind, pointer in refused:
        document = problem(patch(service, "m", changes), 422, kind)
        assert [entry["pointer"] for entry in document["errors"]][:1] == [pointer], changes
    for text in ("", "{", '{"pending":{"capacity":5,"capacity":6}}', '{"params":{"lam":NaN}}'):
        answer = service.raw("/v1/models/m", text, MERGE, "PATCH")
        assert answer.status_code == 422, text
    for columns in ({"min_count": 0}, {"min_count": 1.5}, {"eviction": "oldest"}, {"ignored": ["a"]}):
        assert patch(service, "m", {"columns": columns}).status_code == 422, columns
    for member in ("min_count", "eviction"):
        document = problem(patch(service, "m", {"columns": {member: 0}}), 422, "invalid-body")
        assert document["errors"][0]["pointer"] == f"/columns/{member}"
    assert problem(service.raw("/v1/models/m", "{}", JSON, "PATCH"), 415, "unsupported-media-type")
    problem(patch(service, "m", {}, **{"If-Match": '"other"'}), 412, "precondition-failed")
    problem(patch(service, "other", {}), 404, "model-not-found")
    assert picture(service) == before
    etag = service.http.get("/v1/models/m").headers["etag"]
    assert patch(service, "m", {"params": {"lam": 0.5}}, **{"If-Match": etag}).status_code == 200
    problem(patch(service, "m", {"params": {"lam": 0.6}}, **{"If-Match": etag}), 412, "precondition-failed")
    service.stop()


def test_a_limit_that_was_lowered_since_does_not_stop_another_change(data_dir: Path) -> None:
    service = Direct(data_dir)
    service.create("m", pending={"capacity": 500})
    service.stop()
    service = Direct(data_dir, max_pending=100)
    patched(service, "m", {"evaluation": {"window": 77}})
    problem(patch(service, "m", {"pending": {"capacity": 400}}), 422, "invalid-body")
    service.stop()


def test_who_creates_the_model_again_is_answered_with_it_as_it_is(data_dir: Path) -> None:
    service = Direct(data_dir)
    service.create("m", evaluation={"window": 50})
    patched(service, "m", {"pending": {"capacity": 7}})
    for spec in ({"evaluation": {"window": 50}}, {"evaluation": {"window": 50}, "pending": {"capacity": 7}}):
        answer = service.create("m", **spec)
        assert (answer.status_code, answer.json()["spec"]["pending"]["capacity"]) == (200, 7)
    problem(service.create("m", evaluation={"window": 50}, pending={"capacity": 8}), 409, "spec-conflict")
    service.stop()


def test_rows_in_the_same_transaction_are_learned_on_their_side_of_a_change(data_dir: Path) -> None:
    """Requests at once from many connections, with changes between them: a replay has the same bits."""
    import threading

    service = Running(data_dir, snapshot_every_rows=200, snapshot_keep=50)
    service.create("m", algorithm="ftrl", encoder={"kind": "vocabulary", "capacity": 5})
    bodies = rows(2_000)

    def learn(part: int) -> None:
        with httpx.Client(base_url=service.url, timeout=60) as http:
            for start in range(part, 2_000, 160):
                http.post("/v1/models/m/learn-many", content=lines(bodies[start : start + 40]), headers=NDJSON)

    threads = [threading.Thread(target=learn, args=(40 * part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for step in range(12):
        changes = {
            "params": {"alpha": 0.1 + step},
            "encoder": {"capacity": 7 + step},
            "evaluation": {"window": 10 + step},
            "columns": {"eviction": "least-recent" if step % 2 else "none", "min_count": 1 + step % 3},
        }
        patched_now = patch(service, "m", changes)
        assert patched_now.status_code == 200, patched_now.text
    for thread in threads:
        thread.join()
    before = picture(service)
    assert before["description"]["seq"] == 2_012
    service.kill()
    again = Direct(data_dir, snapshot_keep=50)
    assert picture(again) == before
    assert bits(again.host.models["m"]) == bits(straight(data_dir))
    again.stop()
    assert fsck(data_dir, "--replay")[0] == 0


# ---- reset-evaluation -------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["solam", "auto"])
def test_an_evaluation_that_begins_anew(data_dir: Path, algorithm: str) -> None:
    service = Direct(data_dir)
    service.create("m", algorithm=algorithm, evaluation={"window": 50})
    service.post("m", "learn-many", rows(150, positives=0.4))
    scores = picture(service)["scores"]["predictions"]
    answer = service.http.post("/v1/models/m/reset-evaluation")
    assert answer.status_code == 200, answer.text
    assert (answer.json()["seq"], answer.json()["examples"], answer.json()["auc"]) == (151, 150, None)
    found = service.evaluation("m")
    assert (found["window"]["examples"], found["total"]["examples"]) == (0, 0)
    assert (found["calibration"]["log_loss"], found["drift"]["alarms"]) == (None, 0)
    assert found["calibration"]["slope"] is not None
    assert picture(service)["scores"]["predictions"] == scores
    service.post("m", "learn-many", rows(20, seed=1, positives=0.4))
    assert service.evaluation("m")["total"]["examples"] == 20
    problem(service.raw("/v1/models/m/reset-evaluation", "", {"If-Match": '"x"'}), 412, "precondition-failed")
    for headers in ({"Content-Type": "text/plain"}, {"Origin": "https://elsewhere.example"}):
        problem(service.raw("/v1/models/m/reset-evaluation", "", headers), 415, "unsupported-media-type")
    before = seen_of(service)
    again = killed(service)
    assert seen_of(again) == before
    again.stop()


# ---- rename -----------------------------------------------------------------------------------


def test_a_name_changes_and_all_goes_with_the_model(data_dir: Path) -> None:
    service = Direct(data_dir)
    for name in ("m", "other"):
        service.create(name)
    service.post("m", "learn-many", [{**body, "id": f"e{number}"} for number, body in enumerate(rows(30))])
    service.post("m", "predict-one", {"features": {"a": 1.0}, "id": "waits"})
    before = picture(service)
    problem(service.post("m", "rename", {"to": "other"}), 409, "name-taken")
    problem(service.post("m", "rename", {"to": "m"}), 409, "name-taken")
    problem(service.post("m", "rename", {"to": "Not A Name"}), 422, "invalid-name")
    for body in ({}, {"to": 3}, {"to": "n", "more": 1}, []):
        problem(service.post("m", "rename", body), 422, "invalid-body")
    problem(service.post("nothing", "rename", {"to": "n"}), 404, "model-not-found")
    problem(service.raw("/v1/models/m/rename", '{"to":"n"}', {**JSON, "If-Match": '"x"'}), 412, "precondition-failed")
    assert picture(service) == before
    answer = service.post("m", "rename", {"to": "n"})
    assert (answer.status_code, answer.json()["name"], answer.json()["seq"]) == (200, "n", 31)
    assert answer.headers["etag"] == service.http.get("/v1/models/n").headers["etag"]
    assert [model["name"] for model in service.http.get("/v1/models").json()["models"]] == ["n", "other"]
    problem(service.post("m", "learn-one", rows(1)[0]), 404, "model-not-found")
    assert service.create("m").status_code == 201  # the name is free
    again_sent = service.post("n", "learn-one", {**rows(30)[3], "id": "e3"}).json()
    assert (again_sent["duplicate"], again_sent["seq"]) == (True, 4)
    assert service.post("n", "label-one", {"id": "waits", "label": True}).json()["seq"] == 32
    metrics = service.http.get("/metrics").text
    assert 'aucstream_model_seq{model="n"} 32.0' in metrics
    assert 'aucstream_model_seq{model="m"} 0.0' in metrics
    seen = {name: picture(service, name) for name in ("m", "n", "other")}
    again = killed(service)
    assert {name: picture(again, name) for name in seen} == seen
    again.stop()
    assert fsck(again.data_dir, "--replay")[0] == 0


def test_open_requests_and_event_streams_go_on_under_the_new_name(data_dir: Path) -> None:
    service = Local(data_dir, events_per_second=50)
    service.create("m")

    def parts() -> Any:
        yield lines(rows(100))
        while service.describe("m")["seq"] < 100:
            pass
        with service.http.stream("GET", "/v1/models/m/events") as stream:
            received = stream.iter_lines()
            assert next(received) == "retry: 2000"
            assert service.post("m", "rename", {"to": "n"}).status_code == 200
            assert any(line.startswith('data: {"name":"n"') for line in received)  # until it comes
        yield lines(rows(50, seed=1))

    answer = service.http.post("/v1/models/m/learn-many", content=parts(), headers=NDJSON).json()
    assert (answer["accepted"], answer["seq"]) == (150, 151)
    assert service.describe("n")["examples"] == 150
    service.stop()


def test_a_salvaged_model_has_its_newest_name(data_dir: Path) -> None:
    from aucstream_service.ops.fsck import salvage

    service = Direct(data_dir)
    service.create("m")
    service.post("m", "learn-many", rows(30))
    service.stop()
    service = Direct(data_dir)
    service.post("m", "rename", {"to": "n"})
    again = killed(service)
    again.stop()
    target = data_dir.with_name("salvaged")
    (again.data_dir / "snapshots" / "1" / "31.safetensors").unlink()
    told, whole = salvage(again.data_dir, target)
    assert (told, whole) == (["model n: as after seq 30"], True)


# ---- who may, and old directories --------------------------------------------------------------


def test_the_client_changes_a_model(data_dir: Path) -> None:
    service = Local(data_dir)
    with Client(str(service.http.base_url)) as client:
        client.create("m", "ftrl", pending={"capacity": 5})
        found = client.patch("m", {"pending": {"capacity": 9}, "params": {"alpha": np.float64(0.5)}})
        assert (found.spec["pending"]["capacity"], found.spec["params"]) == (9, {"alpha": 0.5})
        assert client.describe("m").etag == found.etag
        with pytest.raises(FixedSetting):
            client.patch("m", {"seed": 5}, if_match=found.etag)
        client.learn_one("m", {"a": 1.0}, True)
        assert client.reset_evaluation("m").seq == 3
        client.create("other", "ftrl")
        with pytest.raises(NameTaken):
            client.rename("m", "other")
        assert client.rename("m", "n").name == "n"
        assert [model.name for model in client.models()] == ["n", "other"]
    service.stop()


def test_a_data_directory_of_the_version_before_opens_and_takes_changes(tmp_path: Path) -> None:
    with tarfile.open(OLD) as archive:
        archive.extractall(tmp_path, filter="data")
    expected = json.loads((tmp_path / "expected.json").read_text())
    service = Direct(tmp_path / "killed")
    assert service.host.replayed > 0
    for name in ("m", "plain"):
        found = service.describe(name)
        pending = {**expected[name]["spec"]["pending"], "when_full": "refuse"}  # what it did
        spec = {**expected[name]["spec"], "pending": pending}
        assert found == {**expected[name], "spec": spec, "remarks": []}
    evaluation = service.evaluation("m")
    assert evaluation.pop("figures")["average_precision"] is not None  # that version said nothing of it
    assert evaluation == expected["evaluation"]
    scores = [service.score("m", body["features"]) for body in rows(5, seed=9)]
    assert scores == pytest.approx(expected["scores"], abs=1e-12)
    again = service.create(
        "m", pending={"capacity": 3, "ttl_seconds": 1e9}, evaluation={"window": 50}, params={"R": 5.0}
    )
    assert again.status_code == 200  # who sends its spec again need not know of when_full
    for number in range(3):
        answer = service.post("m", "predict-one", {"features": {"a": 1.0}, "id": f"n{number}"})
        assert answer.status_code == (200 if number < 2 else 429)
    patched(service, "m", {"pending": {"when_full": None, "capacity": 4}, "params": {"R": 6.0}})
    assert service.post("m", "predict-one", {"features": {"a": 1.0}, "id": "n2"}).status_code == 200
    assert service.post("m", "predict-one", {"features": {"a": 1.0}, "id": "n3"}).json()["kept"] is False
    assert service.post("m", "label-one", {"id": "w1", "label": True}).status_code == 200
    seen = picture(service)
    service.stop()
    service = Direct(tmp_path / "killed")
    assert picture(service) == seen
    service.stop()
    assert fsck(tmp_path / "killed", "--replay")[0] == 0
