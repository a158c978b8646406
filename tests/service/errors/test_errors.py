"""Every exit is a problem document (S15-S18 and their kinds)."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator

import pytest

from tests.service.running import JSON, NDJSON, Running, problem

LEARN = '{"features":{"amount":%s,"b":1},"label":1}'


def resident(service: Running) -> int:
    """Return the resident memory of the service in bytes."""
    with open(f"/proc/{service.process.pid}/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * 4096


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400", "-1e999", "9" * 400])
def test_numbers_that_are_not_finite_are_named(service: Running, model: str, number: str) -> None:  # S15
    body = (LEARN % number).encode()
    document = problem(service.raw(f"/v1/models/{model}/learn-one", body), 422, document_type(service, model, body))
    assert [error["pointer"] for error in document["errors"]] == ["/features/amount"]
    predict = ('{"features":{"amount":%s}}' % number).encode()
    answer = service.raw(f"/v1/models/{model}/predict-one", predict)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/features/amount"
    for call, one in (("learn-many", body), ("predict-many", predict)):
        answer = service.raw(f"/v1/models/{model}/{call}", b'[{"features":{}},' + one + b"]")
        if call == "learn-many":
            answer = service.raw(f"/v1/models/{model}/{call}", b'[{"features":{},"label":1},' + one + b"]")
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["pointer"] == "/1/features/amount"
        answer = service.raw(f"/v1/models/{model}/{call}", one, NDJSON)
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["line"] == 1
        assert answer.json()["errors"][0]["pointer"] == "/features/amount"
    array = ('{"features":[0,%s],"label":1}' % number).encode()
    answer = service.raw(f"/v1/models/{model}/learn-one", array)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/features/1")
    assert service.describe(model)["seq"] == 0
    assert service.learn(model, {"amount": 1}, 1)["seq"] == 1  # nothing of it was kept, not even its form


@pytest.mark.parametrize(
    ("features", "pointer"),
    [(r'{"a":"\ud800"}', "/features/a"), (r'{"\udfff":1}', "/features"), (r'{"a":["b","\ud800x"]}', "/features/a/1")],
)
def test_half_a_character_is_named_as_such(service: Running, model: str, features: str, pointer: str) -> None:
    body = f'{{"features":{features},"label":1}}'.encode()
    for call, whole, content, place in (
        ("learn-one", body, JSON, pointer),
        ("learn-many", b"[" + body + b"]", JSON, "/0" + pointer),
        ("learn-many", body + b"\n", NDJSON, pointer),
    ):
        document = problem(service.raw(f"/v1/models/{model}/{call}", whole, content), 422, "malformed-json")
        assert document["detail"].endswith(f" - at {place}")
        assert "half of a surrogate pair" in document["detail"]
        assert "truncated" not in document["detail"]


def test_a_score_that_is_not_finite_is_a_problem_and_never_null(service: Running) -> None:  # S15
    service.create("huge", scaler="none")
    names = [f"f{number}" for number in range(200)]
    for sign in (1, -1) * 10:
        service.learn("huge", dict.fromkeys(names, sign), sign)
    row = {"features": dict.fromkeys(names, 1.7e308)}
    problem(service.post("huge", "predict-one", row), 422, "non-finite-score")
    good = {"features": {"f0": 1}}
    document = problem(service.post("huge", "predict-many", [good, row, good, row]), 422, "non-finite-score")
    assert [error["pointer"] for error in document["errors"]] == ["/1"]
    lines = b"".join(json.dumps(each).encode() + b"\n" for each in (good, row, good, row))
    document = problem(service.raw("/v1/models/huge/predict-many", lines, NDJSON), 422, "non-finite-score")
    assert [(error["line"], error["pointer"]) for error in document["errors"]] == [(2, "")]
    answer = service.raw("/v1/models/huge/predict-many?on_error=skip", lines, NDJSON)
    predictions = [json.loads(line) for line in answer.text.splitlines()]
    assert [prediction["score"] is None for prediction in predictions] == [False, True, False, True]
    assert [prediction["errors"][0]["line"] for prediction in predictions[1::2]] == [2, 4]
    assert service.describe("huge")["seq"] == 20
    assert service.score("huge", {"f0": 1}) > 0
    service.http.delete("/v1/models/huge")


def document_type(service: Running, model: str, body: bytes) -> str:
    uri: str = service.raw(f"/v1/models/{model}/learn-one", body).json()["type"]
    return uri.rsplit(":", 1)[1]


@pytest.mark.parametrize(
    ("body", "kind", "pointer"),
    [
        (b"", "malformed-json", ""),
        (b"{", "malformed-json", ""),
        (b'{"features":{"a":1},"label":1} x', "malformed-json", ""),
        (b'{"features":{"a":"\xff"},"label":1}', "malformed-json", ""),
        (b'{"features":{"a":"\\ud800"},"label":1}', "malformed-json", ""),
        (b'{"features":{"a":' + b"[" * 9000 + b"]" * 9000 + b'},"label":1}', "malformed-json", ""),
        (b"[" * 100_000, "invalid-body", ""),
        (b"3", "invalid-body", ""),
        (b"null", "invalid-body", ""),
        (b'{"label":1}', "invalid-body", "/features"),
        (b'{"features":{"a":1}}', "invalid-body", "/label"),
        (b'{"features":3,"label":1}', "invalid-body", "/features"),
        (b'{"features":{"a":1,"b":2,"a":1},"label":1}', "invalid-body", "/features/a"),
        (b'{"features":{"a":1,"\\u0061":1},"label":1}', "invalid-body", "/features/a"),
        (b'{"features":{"a":1,"a":"\\u003a"},"label":1}', "invalid-body", "/features/a"),
        (b'{"features":{"a":1,"a":"::"},"label":1}', "invalid-body", "/features/a"),
        (b'{"features":{"a":1,"a":["::"]},"label":1,"id":"a:b"}', "invalid-body", "/features/a"),
        (b'{"features":{"a":1},"label":1,"id":null}', "invalid-body", "/id"),
        (b'{"features":{"a:b":"::"},"label":1, "id" : null, "weight": 1}', "invalid-body", "/id"),
        (b'{"features":{"a":"\\u003a"},"label":1,"\\u0069d":null}', "invalid-body", "/id"),
        (b'{"features":{"a":1},"label":1,"label":1}', "invalid-body", "/label"),
        (b'{"features":{"a":1},"label":1,"features":{"a":1}}', "invalid-body", "/features"),
        (b'{"features":{"a":{"x":1,"x":1}},"label":1}', "invalid-body", "/features/a/x"),
        (b'{"features":[1],"label":1,"weight":1,"weight":1}', "invalid-body", "/weight"),
        (b'{"features":{"a":1},"label":1,"x/y":2}', "invalid-body", "/x~1y"),
        (b'{"features":{"a~/":{}},"label":1}', "invalid-features", "/features/a~0~1"),
        (b'{"features":{"a\\"]":[1]},"label":1}', "invalid-features", '/features/a"]'),
        (b'{"features":[1,"2"],"label":1}', "invalid-features", "/features/1"),
        (b'{"features":[1,null],"label":1}', "invalid-features", "/features/1"),
        (b'{"features":{"' + b"n" * 101 + b'":1},"label":1}', "invalid-features", "/features"),
        (b'{"features":{"a":"' + b"v" * 101 + b'"},"label":1}', "invalid-features", "/features/a"),
        (b'{"features":{"a":["' + b"v" * 101 + b'"]},"label":1}', "invalid-features", "/features/a"),
        (b'{"features":[' + b"1," * 500 + b'1],"label":1}', "invalid-features", "/features"),
        (b'{"features":{"a":["x"' + b',"x"' * 500 + b']},"label":1}', "invalid-features", "/features/a"),
    ],
)
def test_a_bad_body_names_its_field(service: Running, model: str, body: bytes, kind: str, pointer: str) -> None:
    document = problem(service.raw(f"/v1/models/{model}/learn-one", body), 422, kind)
    assert [error["pointer"] for error in document["errors"]] == [pointer]
    assert service.describe(model)["seq"] == 0


CANARY = "3141592653"
REFUSED = (
    '{"features":{"a":{"x":"%s"}}@}',
    '{"features":{"a":[1,"%s"]}@}',
    '{"features":{"a":[%s]}@}',
    '{"features":{"a":[["%s"]]}@}',
    '{"features":{"a":%se999}@}',
    '{"features":{"a":%s'.replace("%s", "%s" * 40) + "}@}",
    '{"features":{"a":NaN,"b":"%s"}@}',
    '{"features":{"a":"%s"b}@}',
    '{"features":{"a":%sx}@}',
    '{"features":{"a":"%s\\ud800"}@}',
    '{"features":{"a":"%s'.replace("%s", "%s" * 20) + '"}@}',
    '{"features":{"a":["%s'.replace("%s", "%s" * 20) + '"]}@}',
    '{"features":{"%s'.replace("%s", "%s" * 20) + '":1}@}',
    '{"features":{"a":["%s","b"],"a=b":1}@}',
    '{"features":{"a=%s":1,"a":"%s"}@}',
    '{"features":["%s"]@}',
    '{"features":[%s,null]@}',
    '{"features":[%se999]@}',
    '{"features":"%s"@}',
    '{"features":%s@}',
    '{"features":{"a":%s}',
    '{"features":{"a":%s},"b":1@}',
    '{"a":"%s"@}',
    '"%s"',
    "%s",
)


def test_no_answer_and_no_log_has_a_feature(service: Running, model: str) -> None:
    service.learn(model, {"a": 1}, 1)
    answers = []
    for text in REFUSED:
        for call, rest in (("learn", ',"label":1'), ("predict", "")):
            body = text.replace("%s", CANARY).replace("@", rest).encode()
            path = f"/v1/models/{model}/{call}"
            answers += [
                service.raw(f"{path}-one", body),
                service.raw(f"{path}-many", b"[" + body + b"]"),
                service.raw(f"{path}-many", body + b"\n", NDJSON),
                service.raw(f"{path}-many?on_error=skip", body + b"\n", NDJSON),
            ]
    for label in ('{"a":"%s"}', '["%s"]', '"%s%s%s%s%s"'):
        body = '{"features":{"a":1},"label":' + label.replace("%s", CANARY) + "}"
        answers.append(service.raw(f"/v1/models/{model}/learn-one", body.encode()))
    for answer in answers:
        assert "expected" in answer.text, answer.request.content
        shown = re.sub(r"/features/a=\d+", "", answer.text)  # a name in a pointer may be told
        assert CANARY not in shown, (answer.request.content, answer.text)
        assert len(answer.text) < 1000
    assert service.logged(answers[-1].headers["x-request-id"])
    assert CANARY not in service.log


@pytest.mark.parametrize(
    "name", ["it's\x1f", "'", "\"'", "back\\slash'\n", "it's \U0001f600 \u2028", "a]['b", "\x00'é"]
)
def test_a_name_of_any_letters_is_pointed_at(service: Running, model: str, name: str) -> None:
    token = name.replace("~", "~0").replace("/", "~1")
    row = {"features": {name: {}}, "label": 1}
    for call, body in (("learn-one", row), ("learn-many", [row]), ("predict-one", {"features": {name: [1]}})):
        answer = service.post(model, call, body)
        assert answer.status_code == 422, answer.text
        assert answer.json()["errors"][0]["pointer"].endswith(f"/features/{token}")
    nameless = {"algorithm": "solam", "params": {"": True}}
    problem(service.http.put("/v1/models/letters", json=nameless), 422, "invalid-params")
    spec = {"algorithm": "solam", "params": {name: {name: []}}}
    answer = service.http.put("/v1/models/letters", json=spec)
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["pointer"] == f"/params/{token}"


@pytest.mark.parametrize(
    "body",
    [
        b'{"features":{"a:b":1,"c":"::","d":["x:","y:"],"e":"\\u003a"},"label":1,"id":"a:b","weight":1.0}',
        b'{"features": {"a:b" : 1, "c" : null, "d":["x:","y:"]}, "label":1, "weight":1}',
        b'{"features":[1,2],"label":true,"weight":1.0,"id":":"}',
        b'{"features":{},"label":0}',
    ],
)
def test_a_colon_is_not_a_name(service: Running, model: str, body: bytes) -> None:
    for call, sent in (("one", body), ("many", b"[" + body.replace(b'"a:b",', b'"a:c",') + b"]")):
        assert service.raw(f"/v1/models/{model}/learn-{call}", sent).status_code == 200
    predict = re.sub(rb',? *"(label|weight|id)": *("[^"]*"|[\w.]+)', b"", body)
    assert service.raw(f"/v1/models/{model}/predict-one", predict[:-1] + b',"explain":false}').status_code == 200


@pytest.mark.parametrize(
    "path", ["", "/roc", "/evaluation", "/weights", "/snapshot", "/events", "/predict-one", "/learn-many"]
)
def test_an_unknown_or_doubled_parameter_is_named(service: Running, model: str, path: str) -> None:
    known = {"/weights": "top=1", "/events": "id=x", "/learn-many": "on_error=skip"}.get(path)
    method = "DELETE" if path in ("", "/events") else "POST" if path[-4:] in ("-one", "many") else "GET"
    for query, text in (("colour=1", "colour"), (f"{known}&{known}", "this parameter once")):
        if known or query[0] == "c":
            answer = service.http.request(method, f"/v1/models/{model}{path}?{query}")
            assert text in problem(answer, 422, "invalid-query")["detail"]
    assert service.describe(model)["seq"] == 0


@pytest.mark.parametrize("call", ["learn-one", "learn-many", "predict-one", "predict-many"])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_over_the_limit_is_refused_and_memory_stays_flat(  # S16
    service: Running, model: str, call: str, *, chunked: bool
) -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(160):
            yield b" " * 65_536

    before = resident(service)
    for _ in range(3):
        answer = service.raw(f"/v1/models/{model}/{call}", parts() if chunked else b"".join(parts()))
        document = problem(answer, 413, "body-too-large")
        assert str(1 << 20) in document["detail"]
    assert resident(service) - before < 8 << 20
    spec = service.raw(f"/v1/models/{model}", parts() if chunked else b"".join(parts()), method="PUT")
    problem(spec, 413, "body-too-large")


def test_a_line_over_the_limit(service: Running, model: str) -> None:
    def parts() -> Iterator[bytes]:
        yield b'{"features":{"a":1},"label":1}\n'
        for _ in range(100):
            yield b" " * 65_536

    before = resident(service)
    document = problem(service.raw(f"/v1/models/{model}/learn-many", parts(), NDJSON), 413, "body-too-large")
    assert (document["accepted"], document["errors"][0]["line"]) == (1, 2)
    assert resident(service) - before < 8 << 20


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "application/json; charset=latin-1"},
        {"Content-Type": "application/problem+json"},
        {**JSON, "Content-Encoding": "gzip"},
        {**NDJSON, "Content-Encoding": "zstd"},
    ],
)
def test_another_content_type_is_refused_with_what_is_accepted(  # S17
    service: Running, model: str, headers: dict[str, str]
) -> None:
    body = b'{"features":{"a":1},"label":1}'
    for call in ("learn-one", "predict-one", "learn-many", "predict-many"):
        document = problem(service.raw(f"/v1/models/{model}/{call}", body, headers), 415, "unsupported-media-type")
        if "Content-Encoding" not in headers:
            assert "application/json" in document["detail"]
            assert ("application/x-ndjson" in document["detail"]) == call.endswith("-many")
    problem(service.raw(f"/v1/models/{model}", b"{}", headers, "PUT"), 415, "unsupported-media-type")
    assert service.describe(model)["seq"] == 0


BOM = b"\xef\xbb\xbf"


def test_a_mark_before_a_text_and_the_encoding_identity_change_nothing(service: Running, model: str) -> None:
    row, identity = b'{"features":{"a":1},"label":1}', {"Content-Encoding": "identity"}
    kinds = ({}, identity, {**identity, "Content-Encoding": "Identity"})
    for number, more in enumerate(kinds):
        for body in (row, BOM + row):
            assert service.raw(f"/v1/models/{model}/learn-one", body, {**JSON, **more}).status_code == 200
            assert service.raw(f"/v1/models/{model}/learn-many", b"[" + row + b"]", {**JSON, **more}).status_code == 200
        assert service.describe(model)["examples"] == 4 * (number + 1)
    assert service.raw("/v1/models/marked", BOM + b"{}", {**JSON, **identity}, "PUT").status_code == 201
    patch = {"Content-Type": "application/merge-patch+json"}
    text = BOM + b'{"evaluation":{"window":50}}'
    assert service.raw("/v1/models/marked", text, patch, "PATCH").json()["spec"]["evaluation"]["window"] == 50
    assert service.raw("/v1/models/marked/learn-many", BOM + b"[" + row + b"]", JSON).json()["accepted"] == 1
    for body in (row, BOM + row):
        service.raw("/v1/models/marked/learn-one", body, JSON)
    events = service.raw("/v1/models/marked/export?what=events", None, {}, "GET").text.splitlines()
    rows = [event["features"] for event in map(json.loads, events) if "features" in event]
    assert rows == [{"a": 1}] * 3


@pytest.mark.parametrize("kind", ["application/x-ndjson", "application/jsonl", "Application/JSONL; charset=utf-8"])
@pytest.mark.parametrize("cut", [0, 1, 2, 3, 40])
def test_lines_have_two_names_and_may_begin_with_a_mark(service: Running, model: str, kind: str, cut: int) -> None:
    rows = b"".join(b'{"features":{"a":%d},"label":%d}\n' % (i, i % 2) for i in range(20))
    for before in (b"", BOM):
        body = before + rows
        parts = iter([body[:cut], body[cut:]]) if cut else body
        answer = service.raw(f"/v1/models/{model}/learn-many", parts, {"Content-Type": kind}).json()
        assert (answer["accepted"], answer["rejected"]) == (20, 0)
    inside = service.raw(f"/v1/models/{model}/learn-many", rows + BOM + rows, {"Content-Type": kind}).json()
    assert inside["errors"][0]["line"] == 21


def test_usual_spellings_of_json_are_accepted(service: Running, model: str) -> None:
    for kind in ("application/json; charset=utf-8", "Application/JSON", 'application/json;charset="UTF-8"'):
        answer = service.raw(f"/v1/models/{model}/learn-one", b'{"features":{"a":1},"label":1}', {"Content-Type": kind})
        assert answer.status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/models/x/learn-one", {"POST", "OPTIONS"}),
        ("POST", "/v1/models/x", {"GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"}),
        ("POST", "/v1/models", {"GET", "HEAD", "OPTIONS"}),
        ("DELETE", "/v1/models/x/snapshot", {"GET", "HEAD", "PUT", "OPTIONS"}),
        ("POST", "/livez", {"GET", "HEAD", "OPTIONS"}),
    ],
)
def test_another_method_is_405_with_all_that_are_allowed(
    service: Running, method: str, path: str, allowed: set[str]
) -> None:
    answer = service.http.request(method, path)
    problem(answer, 405, "method-not-allowed")
    assert set(re.split(", *", answer.headers["allow"])) == allowed
    answer = service.http.options(path)
    assert (answer.status_code, answer.content) == (204, b"")
    assert set(re.split(", *", answer.headers["allow"])) == allowed


@pytest.mark.parametrize("path", ["/nope", "/v1", "/v1/models/", "/v1/models/x/nope", "/v1/models/x/y/z", "/docs/"])
def test_another_path_is_404(service: Running, path: str) -> None:
    problem(service.http.get(path), 404, "not-found")
    if path != "/v1/models/x/nope":
        assert service.http.post(path).status_code in (404, 405)


def test_bytes_that_are_not_http_get_a_problem_document(service: Running) -> None:
    with socket.create_connection(("127.0.0.1", service.port)) as connection:
        connection.sendall(b"GET /livez HTTP/1.1\r\nX-Request-ID: no-host\r\n\r\n")
        answer = b""
        while part := connection.recv(4096):
            answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert b"application/problem+json" in head
    assert b"urn:aucstream:problem:bad-request" in body
    assert service.logged('"request_id":"no-host"')
    assert re.search(r'"request_id":"no-host",.*"route":"unmatched","method":"GET","status":400', service.log)
    counted = service.http.get("/metrics").text
    assert 'aucstream_connections_refused_total{reason="bad-request"}' in counted
    assert 'aucstream_http_requests_total{method="GET",route="unmatched",status="4xx"}' in counted


def test_request_id_and_trace_go_in_and_out(service: Running, model: str) -> None:
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    headers = {**JSON, "X-Request-ID": "abc-123", "traceparent": trace}
    for answer in (
        service.raw(f"/v1/models/{model}/predict-one", b'{"features":{}}', headers),
        service.raw(f"/v1/models/{model}/predict-one", b"{}", headers),
        service.http.get(f"/v1/models/{model}", headers=headers),
        service.http.get("/nope", headers=headers),
    ):
        assert answer.headers["x-request-id"] == "abc-123"
        assert answer.headers["traceparent"].startswith(trace[:36])
        assert answer.headers["traceparent"].endswith("-01")
        assert answer.headers["traceparent"] != trace
        assert answer.headers["aucstream-durability"] == "disk"
    odd = service.http.get("/livez", headers={"X-Request-ID": "a b\t{}", "traceparent": "00-xyz"})
    assert odd.headers["x-request-id"] != "a b\t{}"
    assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-00", odd.headers["traceparent"])
    for invalid in (f"00-{'0' * 32}-00f067aa0ba902b7-01", f"00-{'1' * 32}-{'0' * 16}-01"):
        assert (
            service.http.get("/livez", headers={"traceparent": invalid}).headers["traceparent"][3:35] != invalid[3:35]
        )
    other = service.http.get("/livez")
    assert other.headers["x-request-id"] != odd.headers["x-request-id"]


def test_health_and_pages(service: Running) -> None:
    for path in ("/livez", "/healthz", "/readyz"):
        assert service.http.get(path).json()["status"] in ("live", "ready")
        assert service.http.head(path).status_code == 200
    for path in ("/", "/docs"):
        page = service.http.get(path)
        assert page.headers["content-type"].startswith("text/html")
        assert not re.search(r'(src|href)="?https?:', page.text)  # nothing from elsewhere
