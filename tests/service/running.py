"""A real service, called over HTTP: in a process of its own, or in this one where nothing is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from aucstream_service.app import create_app
from aucstream_service.ops.server import server_of
from aucstream_service.settings import Settings
from aucstream_service.storage.directory import DataDirectory

ROOT = Path(__file__).parents[2]
JSON = {"Content-Type": "application/json"}
NDJSON = {"Content-Type": "application/x-ndjson"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Calls:
    """The calls of version 1."""

    http: httpx.Client

    def create(self, name: str, **spec: Any) -> httpx.Response:
        return self.http.put(f"/v1/models/{name}", json={"algorithm": "solam", **spec})

    def post(self, name: str, call: str, body: Any) -> httpx.Response:
        return self.http.post(f"/v1/models/{name}/{call}", json=body)

    def raw(
        self, path: str, content: Any, headers: dict[str, str] | None = None, method: str = "POST"
    ) -> httpx.Response:
        return self.http.request(method, path, content=content, headers=JSON if headers is None else headers)

    def learn(self, name: str, features: Any, label: Any, **more: Any) -> dict[str, Any]:
        answer = self.post(name, "learn-one", {"features": features, "label": label, **more})
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def score(self, name: str, features: Any) -> float:
        answer = self.post(name, "predict-one", {"features": features})
        assert answer.status_code == 200, answer.text
        return float(answer.json()["score"])

    def describe(self, name: str) -> dict[str, Any]:
        answer = self.http.get(f"/v1/models/{name}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def evaluation(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.http.get(f"/v1/models/{name}/evaluation").json()
        return found


class Running(Calls):
    """`python -m aucstream_service.ops.main` on a data directory; flags are keyword arguments."""

    def __init__(self, data_dir: Path, *, wait: bool = True, env: dict[str, str] | None = None, **flags: Any) -> None:
        self.data_dir = data_dir
        self.port = flags.pop("port", 0) or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log_path: Path = flags.pop("log_path", None) or data_dir.with_suffix(f".{self.port}.log")
        told: list[str] = []
        for name, value in {"port": self.port, "data_dir": data_dir, "drain_seconds": 0, **flags}.items():
            flag = "--" + name.replace("_", "-")
            told += [flag] if value is True else [flag, str(value)]
        self._log = self.log_path.open("wb")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "aucstream_service.ops.main", *told],
            cwd=ROOT,
            env={**os.environ, **(env or {})},
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        self.http = httpx.Client(base_url=self.url, timeout=120)
        if wait:
            self.wait_ready()

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    def logged(self, text: str, seconds: float = 10) -> bool:
        """Return whether the log has a text, soon: another thread writes it."""
        until = time.monotonic() + seconds
        while text not in self.log:
            if time.monotonic() > until:
                return False
            time.sleep(0.02)
        return True

    def wait_ready(self, seconds: float = 150) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.process.poll() is not None:
                raise AssertionError(f"the service ended with {self.process.returncode}:\n{self.log}")
            try:
                if self.http.get("/readyz").status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.05)
        raise AssertionError(f"not ready after {seconds} s:\n{self.log}")

    def ended(self, seconds: float = 60) -> int:
        """Wait for the process to end; return its exit status."""
        try:
            return self.process.wait(seconds)
        finally:
            self._tidy()

    def kill(self) -> None:
        """SIGKILL."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self._tidy()

    def stop(self) -> int:
        """SIGTERM; return the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.ended(30)

    def _tidy(self) -> None:
        self.http.close()
        self._log.close()


class Local(Calls):
    """The same server in a thread of this process: no kernels to load again."""

    def __init__(self, data_dir: Path, *, clock: Callable[[], float] = time.time, **settings: Any) -> None:
        told = Settings(data_dir=data_dir, port=free_port(), **settings)
        self.app = create_app(told, clock=clock)
        self.server = server_of(self.app, told)
        self.port = told.port
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{told.port}", timeout=120)
        self._thread = threading.Thread(target=self.server.run, daemon=True)
        self._thread.start()
        while not self._ready() and self._thread.is_alive():
            time.sleep(0.02)

    def _ready(self) -> bool:
        try:
            return self.http.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False

    @property
    def replayed(self) -> int:
        return self.app.model_host.replayed

    @property
    def fatal(self) -> str:
        """Why the process would have ended."""
        return str(self.app.fatal)

    def stop(self) -> None:
        """What SIGTERM does."""
        self.server.should_exit = True
        self._thread.join()
        self.http.close()


class Direct(Calls):
    """The application without a server: it runs only while a call is being answered, so nothing is left to chance."""

    def __init__(
        self,
        data_dir: Path,
        *,
        clock: Callable[[], float] = time.time,
        directory: DataDirectory | None = None,
        **settings: Any,
    ) -> None:
        self.data_dir = data_dir
        self.loop = asyncio.new_event_loop()
        self.app = create_app(Settings(data_dir=data_dir, **settings), directory, clock=clock)
        self.host = self.app.model_host
        try:
            self.host.acquire()
            self.loop.run_until_complete(self.host.recover())
        except BaseException:
            self.loop.run_until_complete(self.host.stop())
            self.loop.close()
            raise
        self.host._timers[0].cancel()  # of `expiry`; the test says when: `sweep`
        self.http = httpx.Client(transport=_Straight(self.app, self.loop), base_url="http://localhost")

    def sweep(self) -> None:
        """Let all that is due expire."""

        async def sweep() -> None:
            self.host.expiry.sweep()
            while self.host.expiry.sweeping or any(model.queued for model in self.host.models.values()):
                await asyncio.sleep(0)

        self.loop.run_until_complete(sweep())

    def stop(self) -> None:
        """What SIGTERM does."""
        self.loop.run_until_complete(self.host.stop())
        self.loop.close()
        self.http.close()


class _Straight(httpx.BaseTransport):
    def __init__(self, app: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._inner = httpx.ASGITransport(app=app)
        self._loop = loop

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        async def answer() -> tuple[httpx.Response, bytes]:
            found = await self._inner.handle_async_request(request)
            return found, await found.aread()

        found, content = self._loop.run_until_complete(answer())
        return httpx.Response(found.status_code, headers=found.headers, content=content, request=request)


def problem(answer: httpx.Response, status: int, kind: str) -> dict[str, Any]:
    """Check that an answer is a problem document of this kind; return it."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = answer.json()
    assert document["type"] == f"urn:aucstream:problem:{kind}"
    assert document["status"] == status
    assert document["title"]
    assert document["detail"]
    assert isinstance(document["errors"], list)
    assert document["request_id"] == answer.headers["x-request-id"]
    return document
