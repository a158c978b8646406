from __future__ import annotations

import json
from typing import Any

import httpx
import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from aucstream import from_bytes
from aucstream.pipeline import Pipeline
from tests.service.running import NDJSON, Running, problem
from tests.service.stream import lines, rows


def reference(bodies: list[dict[str, Any]], **spec: Any) -> tuple[Pipeline, list[float]]:
    """Return a pipeline that learned the bodies one by one, and the scores before each."""
    pipeline = Pipeline.from_spec({"algorithm": "solam", **spec})
    scores = []
    for body in bodies:
        sign = np.array([1.0 if body["label"] == 1 else -1.0])
        weight = np.array([float(body.get("weight", 1.0))])
        scores.append(float(pipeline.engine.learn_rows([body["features"]], sign, weight)[0]))
    return pipeline, scores


def test_learn_one_answers_seq_and_the_score_before_the_update(service: Running, model: str) -> None:
    bodies = rows(300)
    expected_model, expected = reference(bodies)
    for number, (body, score) in enumerate(zip(bodies, expected, strict=True), 1):
        answer = service.post(model, "learn-one", body)
        assert answer.json() == {"seq": number, "score": score, "duplicate": False}
    probe = rows(1, seed=9)[0]["features"]
    predicted = service.post(model, "predict-one", {"features": probe}).json()
    score = expected_model.engine.score_rows([probe])
    assert predicted == {
        "score": score[0],
        "probability": expected_model.engine.probabilities(score)[0],
        "seq": 300,
    }
    description = service.describe(model)
    assert description["examples"] == description["seq"] == 300
    assert description["positives"] == sum(body["label"] for body in bodies)
    assert description["resolved"] == {"scaler": "standard+bounded"}
    auc = roc_auc_score([body["label"] for body in bodies], expected)
    evaluation = service.evaluation(model)
    assert description["auc"] == evaluation["window"]["auc"] == pytest.approx(auc, abs=1e-12)
    assert evaluation["total"]["auc"] == pytest.approx(auc, abs=1e-4)
    assert evaluation["window"]["auc_low"] < auc < evaluation["window"]["auc_high"]
    assert evaluation["window"]["size"] == 10000
    calibration = evaluation["calibration"]
    assert calibration["slope"] > 0
    assert 0 < calibration["log_loss"] < 1
    assert 0 < calibration["brier"] < 0.3
    curve = service.http.get(f"/v1/models/{model}/roc").json()
    assert curve["thresholds"][0] is None
    assert (curve["fpr"][0], curve["tpr"][0], curve["fpr"][-1], curve["tpr"][-1]) == (0, 0, 1, 1)
    assert np.trapezoid(curve["tpr"], curve["fpr"]) == pytest.approx(auc, abs=1e-9)
    weights = service.http.get(f"/v1/models/{model}/weights?top=2").json()["weights"]
    assert len(weights) == 2
    assert abs(weights[0]["weight"]) >= abs(weights[1]["weight"])
    everything = service.http.get(f"/v1/models/{model}/weights").json()["weights"]
    assert {entry["name"]: entry["weight"] for entry in everything} == expected_model.weights


def test_a_new_model_scores_zero_and_is_not_ready(service: Running, model: str) -> None:
    assert service.post(model, "predict-one", {"features": {"never": 1}}).json() == {
        "score": 0.0,
        "probability": 0.5,
        "seq": 0,
    }
    evaluation = service.evaluation(model)
    nothing = {"examples": 0, "positives": 0, "auc": None, "auc_low": None, "auc_high": None, "ready": False}
    assert evaluation == {
        "window": {"size": 10000, **nothing},
        "total": nothing,
        "calibration": {"slope": None, "intercept": None, "log_loss": None, "brier": None},
        "drift": {"strength": 0.0, "last_alarm_seq": None, "alarms": 0},
        "members": None,
        "figures": {
            "average_precision": None,
            "average_precision_low": None,
            "average_precision_high": None,
            "at": [],
        },
    }
    assert service.http.get(f"/v1/models/{model}/roc").json() == {"fpr": [], "tpr": [], "thresholds": []}
    assert service.http.get(f"/v1/models/{model}/weights").json() == {"weights": []}


@pytest.mark.parametrize("many", ["array", "lines", "one by one"])
def test_every_way_to_learn_is_the_same_model_to_the_last_bit(service: Running, model: str, many: str) -> None:
    bodies = rows(700, seed=3)
    if many == "array":
        answer = service.post(model, "learn-many", bodies)
    elif many == "lines":
        answer = service.raw(f"/v1/models/{model}/learn-many", lines(bodies), NDJSON)
    else:
        for body in bodies[:350]:
            service.post(model, "learn-one", body)
        answer = service.post(model, "learn-many", bodies[350:])
    accepted = 350 if many == "one by one" else 700
    assert answer.json() == {"accepted": accepted, "duplicates": 0, "rejected": 0, "seq": 700, "errors": []}
    expected, scores = reference(bodies)
    probes = [body["features"] for body in rows(50, seed=4)]
    answer = service.post(model, "predict-many", [{"features": features} for features in probes])
    counts = answer.json()
    assert counts["seq"] == 700
    assert [entry["score"] for entry in counts["predictions"]] == expected.engine.score_rows(probes).tolist()
    evaluation = service.evaluation(model)
    assert evaluation["window"]["auc"] == pytest.approx(roc_auc_score([row["label"] for row in bodies], scores))
    # sums that do not depend on how the rows came
    EVALUATIONS.append(evaluation)
    assert evaluation == EVALUATIONS[0]


EVALUATIONS: list[dict[str, Any]] = []


def test_predict_many_answers_lines_with_lines(service: Running, model: str) -> None:
    service.post(model, "learn-many", rows(100))
    probes = rows(1000, seed=1)
    for probe in probes:
        del probe["label"]
    as_lines = service.raw(f"/v1/models/{model}/predict-many", lines(probes), NDJSON)
    assert as_lines.headers["content-type"] == "application/x-ndjson"
    predictions = [json.loads(line) for line in as_lines.text.splitlines()]
    assert predictions == service.post(model, "predict-many", probes).json()["predictions"]


def test_a_long_stream_of_predictions_does_not_dead_lock_a_client_that_writes_first(
    service: Running, model: str
) -> None:
    n = 40_000  # more than two mebibytes of answer, past what sockets and memory hold
    answer = service.raw(f"/v1/models/{model}/predict-many", b'{"features":{"a":1}}\n' * n, NDJSON)
    assert answer.status_code == 200
    assert answer.text.count("\n") == n


def test_an_array_is_taken_whole_or_not_at_all(service: Running, model: str) -> None:
    bodies = rows(300)
    bodies[200]["features"]["b"] = {"no": 1}
    document = problem(service.post(model, "learn-many", bodies), 422, "invalid-features")
    assert [error["pointer"] for error in document["errors"]] == ["/200/features/b"]
    bodies = rows(300)
    bodies[299]["label"] = 3
    document = problem(service.post(model, "learn-many", bodies), 422, "invalid-label")
    assert [error["pointer"] for error in document["errors"]] == ["/299/label"]
    assert service.describe(model)["seq"] == 0
    problem(service.post(model, "learn-many", {"features": {}}), 422, "invalid-body")
    answer = service.post(model, "learn-many", [])
    assert answer.json() == {"accepted": 0, "duplicates": 0, "rejected": 0, "seq": 0, "errors": []}
    document = problem(service.post(model, "learn-many", rows(2001)), 413, "body-too-large")
    assert service.describe(model)["seq"] == 0


@pytest.mark.parametrize("at", [0, 1, 150, 499])
def test_lines_stop_at_a_bad_one_and_keep_what_came_before(service: Running, model: str, at: int) -> None:
    bodies = rows(500)
    bodies[at]["label"] = "spam"
    answer = service.raw(f"/v1/models/{model}/learn-many", lines(bodies), NDJSON)
    document = problem(answer, 422, "invalid-label")
    assert (document["accepted"], document["duplicates"], document["rejected"], document["seq"]) == (
        at,
        0,
        1,
        at,
    )
    assert [(error["line"], error["pointer"]) for error in document["errors"]] == [(at + 1, "/label")]
    assert "'spam'" in document["errors"][0]["message"]
    assert service.describe(model)["examples"] == at


def test_lines_under_skip_leave_the_bad_ones_out(service: Running, model: str) -> None:
    bodies = rows(600)
    text = lines(bodies).split(b"\n")
    bad = {
        10: (b'{"features":{"a":1},"label":2}', "/label"),
        11: (b'{"features":{"a":[1]},"label":1}', "/features/a"),
        12: (b"{", ""),
        13: (b'{"features":{"a":NaN},"label":1}', "/features/a"),
        14: (b'{"features":{"a":1}}', "/label"),
        15: (b'{"features":{"a":"' + b"x" * 101 + b'"},"label":1}', "/features/a"),
        16: (b'{"features":[1],"label":1}', "/features"),
        400: (b'{"features":{"a":1},"label":1,"id":""}', "/id"),
        401: (b'{"features":{"a":1},"label":1,"pad":"' + b"x" * 20_000 + b'"}', ""),
    }
    for line, (raw, _) in bad.items():
        text[line - 1] = raw
    text.insert(500, b"  ")  # a blank line counts as a line only
    answer = service.raw(f"/v1/models/{model}/learn-many?on_error=skip", b"\r\n".join(text), NDJSON).json()
    assert answer["accepted"] == answer["seq"] == 600 - len(bad)
    assert answer["rejected"] == len(bad)
    assert [(error["line"], error["pointer"]) for error in answer["errors"]] == [
        (line, pointer) for line, (_, pointer) in bad.items()
    ]
    good = [body for line, body in enumerate(bodies, 1) if line not in bad]
    assert service.describe(model)["positives"] == sum(body["label"] for body in good)
    expected, _ = reference(good)
    assert service.score(model, {"a": 1.0, "b": 2.0}) == expected.engine.score_rows([{"a": 1.0, "b": 2.0}])[0]


def test_only_the_first_hundred_errors_are_told(service: Running, model: str) -> None:
    answer = service.raw(f"/v1/models/{model}/learn-many?on_error=skip", b"{}\n" * 1000, NDJSON).json()
    assert (answer["rejected"], len(answer["errors"]), answer["errors"][-1]["line"]) == (1000, 100, 100)


def test_bad_lines_to_predict(service: Running, model: str) -> None:
    text = b'{"features":{"a":1}}\n{"features":{"a":{}}}\n{"features":{}}'
    document = problem(service.raw(f"/v1/models/{model}/predict-many", text, NDJSON), 422, "invalid-features")
    assert [(error["line"], error["pointer"]) for error in document["errors"]] == [(2, "/features/a")]
    answer = service.raw(f"/v1/models/{model}/predict-many?on_error=skip", text, NDJSON)
    predictions = [json.loads(line) for line in answer.text.splitlines()]
    assert [entry["score"] for entry in predictions] == [0.0, None, 0.0]
    assert predictions[1]["errors"][0]["line"] == 2
    document = problem(service.post(model, "predict-many", [{"features": {}}, {"features": 1}]), 422, "invalid-body")
    assert [error["pointer"] for error in document["errors"]] == ["/1/features"]


def test_on_error_is_checked(service: Running, model: str) -> None:
    for path in (f"/v1/models/{model}/learn-many", f"/v1/models/{model}/predict-many"):
        problem(service.raw(f"{path}?on_error=ignore", b"", NDJSON), 422, "invalid-query")
        problem(service.raw(f"{path}?on_eror=skip", b"", NDJSON), 422, "invalid-query")
        problem(service.raw(f"{path}?on_error=skip", b"[]"), 422, "invalid-query")
        assert service.raw(f"{path}?on_error=abort", b"[]").status_code == 200


def test_lines_that_come_in_odd_parts(service: Running, model: str) -> None:
    text = lines(rows(50))
    parts = (text[at : at + 7] for at in range(0, len(text), 7))
    answer = service.raw(f"/v1/models/{model}/learn-many", parts, NDJSON)
    assert answer.json()["accepted"] == 50


def test_a_pretty_printed_array_is_kept_in_the_journal_as_it_was_meant(service: Running, model: str) -> None:
    bodies = rows(20)
    answer = service.raw(f"/v1/models/{model}/learn-many", json.dumps(bodies, indent=3).encode())
    assert answer.json()["accepted"] == 20
    answer = service.raw(f"/v1/models/{model}/learn-one", json.dumps(bodies[0], indent=3).encode())
    assert answer.json()["seq"] == 21


def test_an_id_is_learned_once(service: Running, model: str) -> None:
    first = service.learn(model, {"a": 1}, 1, id="é-1")
    assert first == {"seq": 1, "score": 0.0, "duplicate": False}
    service.learn(model, {"a": 2}, 0)
    assert service.learn(model, {"a": 1}, True, id="é-1") == {"seq": 1, "score": None, "duplicate": True}
    document = problem(
        service.post(model, "learn-one", {"features": {"a": 1}, "label": 0, "id": "é-1"}),
        409,
        "label-conflict",
    )
    assert "positive" in document["detail"]
    assert service.describe(model)["seq"] == 2


def test_the_same_lines_twice_are_learned_once(service: Running, model: str) -> None:  # S13
    bodies = [{**body, "id": f"event-{number}"} for number, body in enumerate(rows(1000))]
    path = f"/v1/models/{model}/learn-many"
    first = service.raw(path, lines(bodies), NDJSON).json()
    assert first == {"accepted": 1000, "duplicates": 0, "rejected": 0, "seq": 1000, "errors": []}
    again = service.raw(path, lines(bodies), NDJSON).json()
    assert again == {"accepted": 0, "duplicates": 1000, "rejected": 0, "seq": 1000, "errors": []}
    mixed = [
        *bodies[:5],
        *({**body, "id": f"other-{n}"} for n, body in enumerate(rows(5, seed=1))),
        bodies[7],
    ]
    assert service.post(model, "learn-many", [*mixed, mixed[5]]).json() == {
        "accepted": 5,
        "duplicates": 7,
        "rejected": 0,
        "seq": 1005,
        "errors": [],
    }


def test_a_conflict_of_labels_in_many_rows(service: Running, model: str) -> None:
    service.learn(model, {"a": 1}, 1, id="x")
    rows_ = [
        {"features": {"a": 1}, "label": 0, "id": "y"},
        {"features": {"a": 1}, "label": 0, "id": "x"},
        {"features": {"a": 1}, "label": 0, "id": "z"},
    ]
    document = problem(service.post(model, "learn-many", rows_), 409, "label-conflict")
    assert [error["pointer"] for error in document["errors"]] == ["/1/label"]
    assert service.describe(model)["seq"] == 1
    path = f"/v1/models/{model}/learn-many"
    document = problem(service.raw(path, lines(rows_), NDJSON), 409, "label-conflict")
    assert (document["accepted"], document["rejected"], document["seq"]) == (1, 1, 2)
    assert document["errors"][0]["line"] == 2
    counts = service.raw(f"{path}?on_error=skip", lines(rows_), NDJSON).json()
    assert (counts["accepted"], counts["duplicates"], counts["rejected"], counts["seq"]) == (1, 1, 1, 3)


@pytest.mark.parametrize("bad", [42, "", "a b", "a\n", "x" * 257, "\x7f", True, ["a"]])
def test_a_bad_id_is_refused(service: Running, model: str, bad: object) -> None:
    for call, body in (
        ("learn-one", {"features": {}, "label": 1, "id": bad}),
        ("predict-one", {"features": {}, "id": bad}),
    ):
        document = problem(service.post(model, call, body), 422, "invalid-body")
        assert document["errors"][0]["pointer"] == "/id"


@pytest.mark.parametrize(
    ("label", "positive"), [(True, 1), (1, 1), (1.0, 1), (False, 0), (0, 0), (0.0, 0), (-1, 0), (-1.0, 0)]
)
def test_labels(service: Running, model: str, label: object, positive: int) -> None:
    service.learn(model, {"a": 1}, label)
    assert service.describe(model)["positives"] == positive


@pytest.mark.parametrize("label", [2, "1", "", None, [1], {}, 0.5, 10**400])
def test_other_labels_are_refused_and_named(service: Running, model: str, label: object) -> None:
    document = problem(service.post(model, "learn-one", {"features": {"a": 1}, "label": label}), 422, "invalid-label")
    assert document["errors"][0]["pointer"] == "/label"
    assert service.describe(model)["seq"] == 0


def test_weight_zero_gets_a_seq_and_counts_in_the_auc_only(service: Running, model: str) -> None:
    for body in rows(30):
        service.post(model, "learn-one", body)
    before = service.describe(model)
    probe = {"a": 0.3, "b": -1.0, "word": "w1"}
    score = service.score(model, probe)
    learned = service.learn(model, probe, 1, weight=0)
    assert learned == {"seq": 31, "score": score, "duplicate": False}
    after = service.describe(model)
    assert (after["seq"], after["examples"]) == (31, before["examples"])
    assert service.evaluation(model)["window"]["examples"] == 31
    assert service.score(model, probe) == score


def test_weights_of_examples_are_used(service: Running, model: str) -> None:
    bodies = [{**body, "weight": 1 + number % 3} for number, body in enumerate(rows(100))]
    service.post(model, "learn-many", bodies)
    expected, _ = reference(bodies)
    assert service.score(model, {"a": 1.0}) == expected.engine.score_rows([{"a": 1.0}])[0]


@pytest.mark.parametrize("weight", ["-1", "-0.5", "1e400", "NaN", '"1"', "null", "true"])
def test_a_bad_weight_is_refused(service: Running, model: str, weight: str) -> None:
    answer = service.raw(
        f"/v1/models/{model}/learn-one", f'{{"features":{{"a":1}},"label":1,"weight":{weight}}}'.encode()
    )
    assert problem(answer, 422, "invalid-body")["errors"][0]["pointer"] == "/weight"


def test_arrays_and_names_do_not_mix_in_one_model(service: Running, model: str) -> None:
    assert service.learn(model, [1.0, 2.0], 1)["seq"] == 1
    for call, body in (
        ("learn-one", {"features": {"a": 1}, "label": 1}),
        ("predict-one", {"features": {"a": 1}}),
    ):
        document = problem(service.post(model, call, body), 422, "invalid-features")
        assert document["errors"][0]["pointer"] == "/features"
    assert service.learn(model, [1.0, 2.0, 3.0], 0)["seq"] == 2
    weights = service.http.get(f"/v1/models/{model}/weights").json()["weights"]
    assert {entry["name"] for entry in weights} == {"0", "1", "2"}


def test_a_step_that_would_not_be_finite_is_refused_and_keeps_its_seq(service: Running) -> None:
    service.create("unscaled", scaler="none")
    for body in rows(40):
        service.post("unscaled", "learn-one", body)
    before = service.score("unscaled", {"a": 1.0})
    huge = {"features": dict.fromkeys(("p", "q", "r", "s"), 1.7e308), "label": 1}
    refused = problem(service.post("unscaled", "learn-one", huge), 422, "non-finite-step")
    said = "expected a row whose step keeps every state finite, got row 0, which was skipped"
    assert refused["errors"] == [{"pointer": "/features", "message": said}]
    assert refused["detail"] == f"row: {said} - at /features"
    assert service.score("unscaled", {"a": 1.0}) == before
    many = service.post("unscaled", "learn-many", [huge, rows(1)[0]]).json()
    assert (many["accepted"], many["rejected"], many["seq"]) == (1, 1, 43)
    assert [(error["line"], error["pointer"]) for error in many["errors"]] == [(1, "/0")]
    assert service.describe("unscaled")["examples"] == 41
    assert service.evaluation("unscaled")["window"]["examples"] == 41
    service.http.delete("/v1/models/unscaled")


HASHED = {"encoder": {"kind": "hashing", "bits": 2}}  # names share columns


@pytest.mark.parametrize("spec", [{}, HASHED, {"scaler": "none"}, {"algorithm": "ftrl"}], ids=str)
def test_contributions_have_the_rows_names_and_add_up_to_the_score(service: Running, spec: dict[str, Any]) -> None:
    service.create("told", **spec)
    for body in rows(60):
        service.post("told", "learn-one", body)
    features = {**rows(1, seed=9)[0]["features"], "word": "never", "tags": ["u", "v"], "gone": None}
    plain = service.post("told", "predict-one", {"features": features}).json()
    answer = service.post("told", "predict-one", {"features": features, "explain": True}).json()
    contributions = answer.pop("contributions")
    assert answer == plain
    assert sum(contributions.values()) == pytest.approx(plain["score"], rel=1e-9)
    if spec == HASHED:
        assert {"word=never", "tags=u", "tags=v"} < set(contributions)
    assert "gone" not in contributions
    assert ("(intercept)" in contributions) is ("algorithm" in spec)
    refused = problem(
        service.post("told", "predict-many", [{"features": features, "explain": True}]), 422, "invalid-body"
    )
    assert refused["errors"][0]["pointer"] == "/0/explain"
    service.http.delete("/v1/models/told")


def test_a_mapped_model_has_no_contributions_by_name(service: Running) -> None:
    service.create("mapped", map={"kind": "randomfourier"})
    body = {"features": {"a": 1.0}, "explain": True}
    document = problem(service.post("mapped", "predict-one", body), 422, "invalid-body")
    assert document["errors"][0]["pointer"] == "/explain"
    assert "a model without a feature map" in document["errors"][0]["message"]
    service.http.delete("/v1/models/mapped")


def test_contributions_of_an_array_are_named_by_column(service: Running, model: str) -> None:
    for number in range(40):
        service.learn(model, [float(number % 7), number % 2, 1.5], number % 2)
    body = {"features": [1.0, 0.0, 2.5, 9.0], "explain": True}  # the last column was never learned
    answer = service.post(model, "predict-one", body).json()
    assert set(answer["contributions"]) == {"0", "1", "2"}
    assert sum(answer["contributions"].values()) == pytest.approx(answer["score"], rel=1e-9)


def test_without_calibration_the_probability_is_null(service: Running) -> None:
    service.create("plain", calibration="none")
    service.learn("plain", {"a": 1}, 1)
    assert service.post("plain", "predict-one", {"features": {"a": 1}}).json()["probability"] is None
    assert service.evaluation("plain")["calibration"]["brier"] is None
    service.http.delete("/v1/models/plain")


def test_weights_of_hashed_features_cannot_be_told(service: Running) -> None:
    service.create("hashed", encoder={"kind": "hashing", "bits": 8})
    service.learn("hashed", {"a": 1}, 1)
    problem(service.http.get("/v1/models/hashed/weights"), 409, "weights-unavailable")
    service.http.delete("/v1/models/hashed")


def test_the_window_of_the_evaluation(service: Running) -> None:
    service.create("narrow", evaluation={"window": 50})
    bodies = rows(120)
    service.post("narrow", "learn-many", bodies)
    _, scores = reference(bodies)
    window = service.evaluation("narrow")["window"]
    assert (window["size"], window["examples"]) == (50, 50)
    assert window["auc"] == pytest.approx(roc_auc_score([row["label"] for row in bodies[-50:]], scores[-50:]))
    service.http.delete("/v1/models/narrow")


def test_a_snapshot_goes_down_and_up_and_both_go_on_equally(service: Running, model: str) -> None:
    bodies = rows(300)
    service.post(model, "learn-many", bodies[:200])
    down = service.http.get(f"/v1/models/{model}/snapshot")
    assert down.headers["content-type"] == "application/octet-stream"
    octets = {"Content-Type": "application/octet-stream"}
    probe = bodies[0]["features"]
    assert from_bytes(down.content).score_one(probe) == service.score(model, probe)  # and the library reads it
    up = service.raw("/v1/models/uploaded/snapshot", down.content, octets, "PUT")
    assert up.status_code == 201
    assert up.json()["seq"] == up.json()["examples"] == 200
    for name in (model, "uploaded"):
        service.post(name, "learn-many", bodies[200:])
    assert service.evaluation(model) == service.evaluation("uploaded")
    probe = {"a": 0.5, "b": 0.25, "word": "w3"}
    assert service.score(model, probe) == service.score("uploaded", probe)
    back = service.raw(
        "/v1/models/uploaded/snapshot", down.content, {"Content-Type": "application/vnd.safetensors"}, "PUT"
    )
    assert (back.status_code, back.json()["seq"]) == (200, 200)
    damaged = bytearray(down.content)
    damaged[-5] ^= 1
    problem(service.raw("/v1/models/uploaded/snapshot", bytes(damaged), octets, "PUT"), 422, "bad-snapshot")
    problem(service.raw("/v1/models/uploaded/snapshot", down.content[:-9], octets, "PUT"), 422, "bad-snapshot")
    problem(service.raw("/v1/models/uploaded/snapshot", b"", octets, "PUT"), 422, "bad-snapshot")
    problem(service.raw("/v1/models/uploaded/snapshot", down.content, None, "PUT"), 415, "unsupported-media-type")
    problem(service.raw("/v1/models/UP/snapshot", down.content, octets, "PUT"), 422, "invalid-name")
    assert service.describe("uploaded")["seq"] == 200
    service.http.delete("/v1/models/uploaded")


def test_a_line_that_a_lost_client_did_not_finish_is_not_learned(service: Running, model: str) -> None:
    def parts() -> Any:
        yield lines(rows(3)) + b'{"features":{"a":1},"label":1}'
        raise ConnectionError("the client is gone")

    with pytest.raises((ConnectionError, httpx.TransportError)):
        service.raw(f"/v1/models/{model}/learn-many", parts(), NDJSON)
    for _ in range(100):
        if service.describe(model)["seq"] == 3:
            break
    assert service.describe(model)["seq"] == 3


def test_rows_before_a_bad_line_decide_the_form_of_the_rows_of_a_new_model(service: Running) -> None:
    service.create("form", encoder={"kind": "hashing", "bits": 8})
    body = b'{"features":[1.0,2.0],"label":true}\n{"features":[1.0,"x"],"label":true}\n'
    answer = service.raw("/v1/models/form/learn-many", body, NDJSON)
    assert (answer.status_code, answer.json()["accepted"]) == (422, 1)
    answer = service.post("form", "learn-one", {"features": {"a": 1.0}, "label": True})
    assert problem(answer, 422, "invalid-features")["errors"][0]["pointer"] == "/features"
    service.http.delete("/v1/models/form")
