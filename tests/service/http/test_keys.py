"""API keys: the file, the commands, and what each role may call."""

from __future__ import annotations

import json
import logging
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from aucstream.cli.commands import app as commands
from aucstream_service.errors.exceptions import StartRefused
from aucstream_service.http.admission import OPEN
from aucstream_service.ops.main import main
from aucstream_service.ops.openapi import document
from aucstream_service.settings import Settings
from aucstream_service.storage import api_keys as keys
from aucstream_service.storage.api_keys import BadKeys, Keyring, Role
from tests.service.running import JSON, NDJSON, ROOT, Local, problem

OWN = "0123456789abcdef" * 4


class Keyed(Local):
    """A service with one key of each role and one of the operator's own."""

    def __init__(self, data_dir: Path) -> None:
        self.file = data_dir / "keys.json"
        self.keys = {role: keys.create(self.file, role, role.name)[1] for role in Role}
        super().__init__(data_dir, admin_key=OWN)
        self.http.headers["Authorization"] = f"Bearer {self.keys[Role.ADMIN]}"

    def asked(self, method: str, path: str, key: str | None, body: Any = None) -> httpx.Response:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        return httpx.request(method, f"{self.http.base_url}{path}", headers=headers, json=body)


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    running = Keyed(tmp_path_factory.mktemp("keyed") / "data")
    assert running.create("m").status_code == 201
    yield running
    running.stop()


# ---- what a role may call -----------------------------------------------------------------------

FEATURES = {"features": {"a": 1}}
LEARN = {**FEATURES, "label": 1}
CALLS: list[tuple[str, str, Any, Role]] = [
    ("GET", "/v1/models", None, Role.READ),
    ("GET", "/v1/models/m", None, Role.READ),
    ("GET", "/v1/models/m/evaluation", None, Role.READ),
    ("GET", "/v1/models/m/roc", None, Role.READ),
    ("GET", "/v1/models/m/weights", None, Role.READ),
    ("GET", "/no-such-path", None, Role.READ),
    ("POST", "/v1/models/m/predict-one", FEATURES, Role.READ),
    ("POST", "/v1/models/m/predict-many", [FEATURES], Role.READ),
    ("POST", "/v1/models/m/predict-one", {**FEATURES, "id": "x"}, Role.WRITE),
    ("POST", "/v1/models/m/predict-many", [FEATURES, {**FEATURES, "id": "y"}], Role.WRITE),
    ("POST", "/v1/models/m/learn-one", LEARN, Role.WRITE),
    ("POST", "/v1/models/m/learn-many", [LEARN], Role.WRITE),
    ("PUT", "/v1/models/m", {"algorithm": "solam"}, Role.ADMIN),
    ("GET", "/v1/models/m/snapshot", None, Role.ADMIN),
    ("PATCH", "/v1/models/m", {}, Role.ADMIN),
    ("POST", "/v1/models/m/rename", {}, Role.ADMIN),
    ("POST", "/v1/models/m/rollback", {}, Role.ADMIN),
    ("GET", "/v1/models/m/snapshots", None, Role.READ),
    ("GET", "/v1/models/m/export?what=events", None, Role.ADMIN),
    ("POST", "/v1/models/m/reset-evaluation", {}, Role.ADMIN),
    ("DELETE", "/v1/models/none", None, Role.ADMIN),
    ("DELETE", "/v1/models/m/events?id=x", None, Role.ADMIN),
]


@pytest.mark.parametrize(("method", "path", "body", "least"), CALLS)
def test_a_role_may_call_what_is_its_own_and_no_more(
    keyed: Keyed, method: str, path: str, body: Any, least: Role
) -> None:
    for role, key in keyed.keys.items():
        answer = keyed.asked(method, path, key, body)
        if role >= least:
            assert answer.status_code not in (401, 403), (role, answer.text)
        else:
            document = problem(answer, 403, "forbidden")
            assert least.name.lower() in document["detail"]
            assert f'scope="{least.name.lower()}"' in answer.headers["www-authenticate"]
    assert keyed.asked(method, path, OWN, body).status_code not in (401, 403)
    anonymous = keyed.asked(method, path, None, body)
    problem(anonymous, 401, "unauthorized")
    assert anonymous.headers["www-authenticate"] == 'Bearer realm="aucstream"'


def test_a_line_with_an_id_needs_the_role_even_where_bad_lines_are_skipped(keyed: Keyed) -> None:
    lines = b'{"features":{"a":1}}\n{"features":{"a":1},"id":"z"}\n'
    headers = {**NDJSON, "Authorization": f"Bearer {keyed.keys[Role.READ]}"}
    problem(keyed.raw("/v1/models/m/predict-many?on_error=skip", lines, headers), 403, "forbidden")


def test_the_description_names_the_role_of_every_call(keyed: Keyed) -> None:
    described = json.loads(document())
    assert set(described["components"]["securitySchemes"]) == {"bearer", "header"}
    for method, path, _, least in CALLS:
        operations = described["paths"].get(path.partition("?")[0].replace("/m", "/{name}", 1), {})
        if least is Role.WRITE and "predict" in path:
            continue  # its body decides
        if method.lower() in operations and path != "/v1/models":
            assert operations[method.lower()]["security"] == [
                {"bearer": [least.name.lower()]},
                {"header": [least.name.lower()]},
            ]
    for path in OPEN & set(described["paths"]):
        assert described["paths"][path]["get"]["security"] == []


@pytest.mark.parametrize("path", sorted(OPEN))
def test_health_and_pages_are_open(keyed: Keyed, path: str) -> None:
    assert keyed.asked("GET", path, None).status_code == 200


def test_a_key_may_come_in_either_header(keyed: Keyed) -> None:
    key = keyed.keys[Role.READ]
    url = f"{keyed.http.base_url}/v1/models"
    for headers in ({"X-API-Key": key}, {"Authorization": f"bearer {key}"}, {"Authorization": f"BEARER  {key}"}):
        assert httpx.get(url, headers=headers).status_code == 200
    for headers in (
        {"Authorization": f"Basic {key}"},
        {"Authorization": "Bearer"},
        {"X-API-Key": ""},
        {"X-API-Key": key[:-1]},
        {"X-API-Key": key[:-1] + ("a" if key[-1] != "a" else "b")},
        {"Authorization": "Bearer nonsense", "X-API-Key": key},
        {"X-API-Key": "auc_" + "a" * 100_00},
        {"X-API-Key": b"\xff\xfe" * 20},
    ):
        problem(httpx.get(url, headers=headers), 401, "unauthorized")


def test_a_refusal_does_not_wait_for_the_body(keyed: Keyed) -> None:
    with socket.create_connection(("127.0.0.1", keyed.http.base_url.port or 0)) as connection:
        connection.settimeout(10)
        connection.sendall(
            b"POST /v1/models/m/learn-one HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            b"Content-Length: 1000000\r\nExpect: 100-continue\r\n\r\n"
        )
        assert connection.recv(4096).startswith(b"HTTP/1.1 401")


# ---- the file and the commands ------------------------------------------------------------------


def test_keys_come_and_go_while_the_service_runs(keyed: Keyed) -> None:
    runner = CliRunner()
    data_dir = str(keyed.file.parent)
    made = runner.invoke(commands, ["keys", "create", "--data-dir", data_dir, "--role", "write", "--name", "gateway"])
    assert made.exit_code == 0, made.output
    text = made.stdout.strip()
    assert text.startswith("auc_")
    assert keyed.asked("POST", "/v1/models/m/learn-one", text, LEARN).status_code == 200
    id_ = text[4:12]
    listed = runner.invoke(commands, ["keys", "list", "--data-dir", data_dir, "--json"])
    entry = json.loads(listed.stdout.splitlines()[-1])
    assert (entry["id"], entry["role"], entry["name"]) == (id_, "write", "gateway")
    told = runner.invoke(commands, ["keys", "list", "--data-dir", data_dir]).stdout  # no terminal: no box
    assert told.splitlines()[-1].split("\t")[:3] == [id_, "write", "gateway"]
    for shown in (listed.stdout, keyed.file.read_text()):
        assert text not in shown
        assert text[13:] not in shown
    assert stat.S_IMODE(keyed.file.stat().st_mode) == 0o600
    assert runner.invoke(commands, ["keys", "revoke", id_, "--data-dir", data_dir]).exit_code == 0
    problem(keyed.asked("POST", "/v1/models/m/learn-one", text, LEARN), 401, "unauthorized")
    again = runner.invoke(commands, ["keys", "revoke", id_, "--data-dir", data_dir])
    assert isinstance(again.exception, BadKeys)


def test_an_event_stream_ends_when_its_key_is_revoked(keyed: Keyed) -> None:
    runner = CliRunner()
    data_dir = str(keyed.file.parent)
    text = runner.invoke(commands, ["keys", "create", "--data-dir", data_dir, "--role", "read"]).stdout.strip()
    headers = {"Authorization": f"Bearer {text}"}
    with keyed.http.stream("GET", "/v1/models/m/events", headers=headers, timeout=20) as answer:
        assert answer.status_code == 200
        lines = answer.iter_lines()
        next(lines)
        assert runner.invoke(commands, ["keys", "revoke", text[4:12], "--data-dir", data_dir]).exit_code == 0
        assert 'data: {"reason":"revoked"}' in list(lines)


@pytest.mark.parametrize("call", ["learn-many", "predict-many", "label-many"])
@pytest.mark.parametrize("goes_on", [True, False])
def test_a_stream_ends_when_its_key_is_revoked(keyed: Keyed, call: str, goes_on: bool) -> None:
    """Also where nothing more comes of the body: it must not wait for the next row."""
    name = f"{call}-{goes_on}".lower()
    keyed.create(name)
    rows = {
        "learn-many": b'{"features":{"a":1},"label":1}\n',
        "predict-many": b'{"features":{"a":1},"id":"%s-%d"}\n',
        "label-many": b'{"id":"%s-%d","label":1}\n',
    }
    if call == "label-many":
        for number in range(100):
            body = {"features": {"a": 1}, "id": f"{name}-{number}"}
            assert keyed.post(name, "predict-one", body).status_code == 200
    key, text = keys.create(keyed.file, Role.WRITE, "stream")
    assert keyed.asked("POST", f"/v1/models/{name}/predict-one", text, FEATURES).status_code == 200
    with socket.create_connection(("127.0.0.1", keyed.port)) as connection:
        connection.settimeout(20)
        connection.sendall(
            f"POST /v1/models/{name}/{call} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {text}\r\n"
            "Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        )

        def send(number: int) -> None:
            row = (
                rows[call]
                if call == "learn-many"
                else rows[call] % (name.encode(), number % 100 if call == "label-many" else number)
            )
            connection.sendall(b"%x\r\n%s\r\n" % (len(row), row))

        for number in range(100):
            send(number)
            time.sleep(0.001)
        time.sleep(0.3)
        before = keyed.describe(name)["seq"]
        keys.revoke(keyed.file, key.id)
        began = time.monotonic()
        connection.setblocking(False)
        answer, number = b"", 100
        while b"\r\n\r\n{" not in answer:
            assert time.monotonic() < began + 10
            try:
                if goes_on:
                    send(number)
                    number += 1
            except OSError:
                pass
            time.sleep(0.01)
            try:
                answer += connection.recv(65_536)
            except BlockingIOError:
                continue
        assert time.monotonic() - began < 2
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 401 ")
    assert b"connection: close" in head.lower()
    assert b"www-authenticate" in head.lower()
    document = json.loads(body)
    assert document["type"] == "urn:aucstream:problem:unauthorized"
    assert 100 <= document["accepted"] <= 105
    described = keyed.describe(name)
    if call == "predict-many":
        assert described["pending"] == document["accepted"]
    else:
        assert described["seq"] == document["accepted"] == document["seq"]
        assert before <= described["seq"]


# ---- what a key is limited to --------------------------------------------------------------------


def made(keyed: Keyed, *options: str) -> str:
    """Return a key that the command line has made."""
    made_ = CliRunner().invoke(commands, ["keys", "create", "--data-dir", str(keyed.file.parent), *options])
    assert made_.exit_code == 0, made_.output
    return made_.stdout.strip()


def test_a_key_for_single_models_opens_no_other(keyed: Keyed) -> None:
    for name in ("shop-a", "shop-b", "other"):
        assert keyed.create(name).status_code == 201
    text = made(keyed, "--role", "admin", "--models", "shop-*", "--models", "one")
    for call, body in (("learn-one", LEARN), ("predict-one", FEATURES), ("learn-many", [LEARN])):
        assert keyed.asked("POST", f"/v1/models/shop-a/{call}", text, body).status_code == 200
        for name in ("other", "none", "shop", "shop-a%2Fx/../other"):
            refused = keyed.asked("POST", f"/v1/models/{name}/{call}", text, body)
            assert refused.status_code in (403, 404)
            if name in ("other", "none", "shop"):
                document = problem(refused, 403, "forbidden")
                assert document["title"] == "The API key does not allow this"
                assert document["detail"] == "key: expected one that may be used for this model"
    assert keyed.asked("PUT", "/v1/models/one", text, {"algorithm": "solam"}).status_code == 201
    for method, path in (
        *(("GET", f"/v1/models/other{call}") for call in ("", "/evaluation", "/snapshot", "/events", "/weights")),
        *(("PUT", "/v1/models/new"), ("DELETE", "/v1/models/other"), ("GET", "/metrics"), ("GET", "/no-such-path")),
        ("GET", "/v1/models/"),
    ):
        problem(keyed.asked(method, path, text, {} if method == "PUT" else None), 403, "forbidden")
    listed = keyed.asked("GET", "/v1/models?limit=1", text).json()
    assert [model["name"] for model in listed["models"]] == ["one"]
    rest = keyed.asked("GET", f"/v1/models?cursor={listed['next']}", text).json()
    assert ([model["name"] for model in rest["models"]], rest["next"]) == (["shop-a", "shop-b"], None)
    for to in ("mine", "other"):  # no way out of its models, whether the name is free or not
        problem(keyed.asked("POST", "/v1/models/one/rename", text, {"to": to}), 403, "forbidden")
    assert keyed.asked("POST", "/v1/models/one/rename", text, {"to": "shop-one"}).status_code == 200
    assert keyed.asked("DELETE", "/v1/models/shop-one", text).status_code == 204
    assert keyed.asked("GET", "/livez", text).status_code == 200


def test_a_key_for_single_models_changes_no_other(keyed: Keyed) -> None:
    for name in ("mine-a", "theirs"):
        assert keyed.create(name).status_code == 201
    text = made(keyed, "--role", "admin", "--models", "mine-*")
    headers = {"Authorization": f"Bearer {text}"}
    url = f"{keyed.http.base_url}/v1/models"
    before = keyed.describe("theirs")
    data = httpx.get(f"{url}/mine-a/snapshot", headers=headers).content
    sent = {**headers, "Content-Type": "application/octet-stream"}
    for name in ("theirs", "new", "%74heirs"):
        problem(httpx.put(f"{url}/{name}/snapshot", content=data, headers=sent), 403, "forbidden")
    for call, body in (("rollback", {"snapshot": 0}), ("rename", {"to": "mine-b"}), ("reset-evaluation", None)):
        problem(keyed.asked("POST", f"/v1/models/theirs/{call}", text, body), 403, "forbidden")
    merge = {**headers, "Content-Type": "application/merge-patch+json"}
    problem(httpx.patch(f"{url}/theirs", content=b"{}", headers=merge), 403, "forbidden")
    for call in ("snapshots", "export?what=events", "export?what=pending"):
        problem(keyed.asked("GET", f"/v1/models/theirs/{call}", text), 403, "forbidden")
    problem(keyed.asked("DELETE", "/v1/models/theirs/events?id=e", text), 403, "forbidden")
    assert httpx.put(f"{url}/mine-c/snapshot", content=data, headers=sent).status_code == 201
    assert keyed.asked("POST", "/v1/models/mine-c/rename", text, {"to": "mine-d"}).status_code == 200
    problem(keyed.asked("POST", "/v1/models/mine-d/rename", text, {"to": "theirs"}), 403, "forbidden")
    assert keyed.describe("theirs") == before
    for name in ("mine-a", "mine-d", "theirs"):
        assert keyed.http.delete(f"/v1/models/{name}").status_code == 204


def test_a_key_expires(keyed: Keyed) -> None:
    text = made(keyed, "--role", "write", "--expires", "2s")
    lasting = made(keyed, "--role", "write", "--expires", "2h")
    assert keyed.asked("POST", "/v1/models/m/learn-one", text, LEARN).status_code == 200
    with socket.create_connection(("127.0.0.1", keyed.port)) as connection:
        connection.settimeout(20)
        connection.sendall(
            f"POST /v1/models/m/learn-many HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {text}\r\n"
            "Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
            '1f\r\n{"features":{"a":1},"label":1}\n\r\n'.encode()
        )
        began = time.monotonic()
        answer = connection.recv(65_536)  # an open stream ends by itself
        assert answer.startswith(b"HTTP/1.1 401 ")
        assert time.monotonic() - began < 4
    refused = keyed.asked("POST", "/v1/models/m/learn-one", text, LEARN)
    assert "has not expired" in problem(refused, 401, "unauthorized")["detail"]
    assert keyed.asked("POST", "/v1/models/m/learn-one", lasting, LEARN).status_code == 200
    listed = CliRunner().invoke(commands, ["keys", "list", "--data-dir", str(keyed.file.parent)]).stdout
    assert "(expired)" in next(line for line in listed.splitlines() if line.startswith(text[4:12]))


@pytest.mark.parametrize("path", ["/v1/models/m/predict-one", "/v1/models/m/predict-many"])
@pytest.mark.parametrize("parts", [1, 2])  # a small body is served past ASGI where it comes at once
def test_a_key_has_a_rate(keyed: Keyed, path: str, parts: int) -> None:
    text = made(keyed, "--rate", "5", "--burst", "10")
    other = made(keyed, "--rate", "5", "--burst", "10")
    listed = CliRunner().invoke(commands, ["keys", "list", "--data-dir", str(keyed.file.parent)]).stdout
    assert listed.count("5/s, 10 at once") >= 2
    body = json.dumps([FEATURES] if path.endswith("many") else FEATURES).encode()
    statuses = []
    with socket.create_connection(("127.0.0.1", keyed.port)) as connection:
        connection.settimeout(20)
        began = time.monotonic()
        for _ in range(15):
            head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {text}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            if parts == 1:
                connection.sendall(head.encode() + body)
            else:
                connection.sendall(head.encode())
                time.sleep(0.002)
                connection.sendall(body)
            answer = connection.recv(65_536)
            statuses.append(int(answer[9:12]))
            if statuses[-1] == 429:
                assert b"retry-after: 1" in answer
                assert b"urn:aucstream:problem:rate-limited" in answer
                if b"connection: close" in answer:  # the body had not come
                    break
        seconds = time.monotonic() - began
    served = statuses.count(200)
    assert set(statuses) == {200, 429}
    assert 10 <= served <= 10 + 5 * seconds + 1
    assert keyed.asked("GET", "/v1/models", other).status_code == 200  # each key has its own
    assert keyed.asked("GET", "/livez", text).status_code == 200
    time.sleep(0.5)
    assert keyed.asked("GET", "/v1/models", text).status_code == 200


def test_keys_without_limits_are_written_as_before_and_old_files_open(tmp_path: Path) -> None:
    file = tmp_path / "data" / "keys.json"
    key, text = keys.create(file, Role.WRITE, "old")
    document = json.loads(file.read_text())
    assert document["format"] == 1
    assert sorted(document["keys"][0]) == ["created_at", "id", "name", "role", "sha256"]
    limited, _ = keys.create(file, Role.READ, "new", models=["a*"], rate=2.5)
    document = json.loads(file.read_text())
    assert document["format"] == 2  # a version that does not know limits refuses all rather than to take it for more
    assert keys.read(file) == [key, limited]
    found = Keyring(file)
    assert found.needed
    assert found.key_of(text.encode()) == key
    keys.revoke(file, limited.id)
    assert json.loads(file.read_text())["format"] == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--rate", "0"), "--rate: expected a finite number > 0"),
        (("--rate", "nan"), "--rate: expected a finite number > 0"),
        (("--burst", "3"), "--burst"),
        (("--models", "a/b"), "--models"),
        (("--expires", "soon"), "--expires: expected a time to live"),
        (("--expires", "2030-01-31T12:00:00"), "with its zone"),
        (("--expires", "2001-01-31T12:00:00Z"), "to come"),
    ],
)
def test_limits_that_are_none_are_refused(tmp_path: Path, options: tuple[str, ...], told: str) -> None:
    found = CliRunner().invoke(commands, ["keys", "create", "--data-dir", str(tmp_path / "data"), *options])
    assert found.exit_code != 0
    assert told in f"{found.exception}{found.output}"
    assert not (tmp_path / "data" / "keys.json").exists()


def test_a_damaged_file_accepts_no_key_and_says_so(keyed: Keyed, caplog: pytest.LogCaptureFixture) -> None:
    good = keyed.file.read_bytes()
    try:
        for bad in (b"", b"{}", b'{"format":3,"keys":[]}', b'{"format":1,"keys":[{"id":"x"}]}', b"[1]"):
            keyed.file.write_bytes(bad)
            with caplog.at_level(logging.ERROR, "aucstream"):
                problem(keyed.asked("GET", "/v1/models", keyed.keys[Role.READ]), 401, "unauthorized")
            assert "no key of it is accepted" in caplog.text
            assert keyed.asked("GET", "/v1/models", OWN).status_code == 200
            with pytest.raises(StartRefused):
                Keyring(keyed.file).check()
    finally:
        keyed.file.write_bytes(good)
    assert keyed.asked("GET", "/v1/models", keyed.keys[Role.READ]).status_code == 200


def test_many_commands_at_once_lose_no_key(tmp_path: Path) -> None:
    file = tmp_path / "data" / "keys.json"
    made: list[str] = []

    def work() -> None:
        made.extend(keys.create(file, Role.READ, "x")[0].id for _ in range(5))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {key.id for key in keys.read(file)} == set(made)
    assert len(made) == 20


def test_without_its_last_key_a_service_stays_shut(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    ring = Keyring(file)
    assert not ring.needed
    key, text = keys.create(file, Role.ADMIN, "")
    assert ring.needed
    found = ring.key_of(text.encode())
    assert found is not None and found.role is Role.ADMIN
    keys.revoke(file, key.id)
    assert ring.needed
    assert ring.key_of(text.encode()) is None
    assert Keyring(file).needed  # the empty file still says that keys are needed
    file.unlink()
    assert ring.needed


def test_the_command_works_without_the_service_being_loaded(tmp_path: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-m", "aucstream", "keys", "create", "--data-dir", str(tmp_path / "new"), "--role", "admin"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(told.stdout.strip()) == len("auc_") + 8 + 1 + 52
    assert told.stdout.strip() not in told.stderr
    assert [key.role for key in keys.read(tmp_path / "new" / "keys.json")] == [Role.ADMIN]


# ---- start ---------------------------------------------------------------------------------------


def test_an_admin_key_comes_from_the_environment_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret"
    secret.write_text(OWN + "\n")
    assert Settings(admin_key_file=secret).own_key() == OWN
    monkeypatch.setenv("AUCSTREAM_ADMIN_KEY", OWN)
    settings = Settings()
    assert settings.own_key() == OWN
    assert OWN not in repr(settings)
    with pytest.raises(StartRefused, match="got both"):
        Settings(admin_key_file=secret).own_key()
    for bad in ("short", "x" * 31, "x" * 40 + " y", "é" * 40):
        with pytest.raises(StartRefused, match="32 random characters") as refused:
            Settings(admin_key=bad).own_key()
        assert bad not in str(refused.value)
    monkeypatch.delenv("AUCSTREAM_ADMIN_KEY")
    with pytest.raises(StartRefused, match="readable"):
        Settings(admin_key_file=tmp_path / "none").own_key()


def test_another_address_needs_a_key(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.CRITICAL, "aucstream"):
        assert main(["--data-dir", str(tmp_path / "data"), "--host", "0.0.0.0"]) == 2
    assert "aucstream keys create" in caplog.text
    assert "--insecure" in caplog.text
    Settings(host="0.0.0.0").check_start(keys=True)
    file = tmp_path / "data" / "keys.json"
    key, _ = keys.create(file, Role.ADMIN, "")
    assert Keyring(file).check()
    keys.revoke(file, key.id)
    assert not Keyring(file).check()


def test_names_are_told_with_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUCSTREAM_ALLOWED_HOSTS", "a.example, b.example")
    assert Settings().allowed_hosts == ["a.example", "b.example"]
    assert Settings(allowed_hosts=["c,d", "e"]).allowed_hosts == ["c", "d", "e"]


# ---- the name that is called (DNS rebinding) -------------------------------------------------------


@pytest.fixture(scope="module")
def open_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    running = Local(tmp_path_factory.mktemp("open") / "data", allowed_hosts=["auc.example"])
    yield running
    running.stop()


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:9", 200),
        ("127.0.0.1:8000", 200),
        ("127.8.9.10", 200),
        ("[::1]:8000", 200),
        ("[::1]", 200),
        ("10.1.2.3:80", 200),
        ("auc.example", 200),
        ("Auc.Example:8000", 200),
        ("evil.example", 421),
        ("evil.example:8000", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example", 421),
        ("auc.example.evil.example:80", 421),
        ("", 421),
        ("[evil.example]", 421),
    ],
)
def test_without_keys_only_names_it_was_told_are_answered(open_service: Local, host: str, status: int) -> None:
    for path in ("/livez", "/v1/models"):
        answer = open_service.http.get(path, headers={"Host": host})
        assert answer.status_code == status
        if status == 421:
            problem(answer, 421, "host-not-allowed")
    learn = open_service.http.post("/v1/models/none/learn-one", json=LEARN, headers={**JSON, "Host": host})
    assert learn.status_code == (404 if status == 200 else 421)


def test_no_other_site_may_read_an_answer(open_service: Local) -> None:
    for method, path in (("GET", "/v1/models"), ("OPTIONS", "/v1/models/m/learn-one"), ("OPTIONS", "/v1/models")):
        answer = open_service.http.request(method, path, headers={"Origin": "https://evil.example"})
        assert not [name for name in answer.headers if name.startswith("access-control")]


def test_with_keys_any_name_is_answered(keyed: Keyed) -> None:
    assert keyed.http.get("/v1/models", headers={"Host": "auc.internal:8000"}).status_code == 200
