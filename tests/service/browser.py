"""A real browser, told what to do by the WebDriver protocol (W3C): Chromium without a window."""

from __future__ import annotations

import base64
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx

from .running import free_port

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--window-size=1100,900",
)


def missing() -> str:
    """Return what the machine lacks to run a browser, '' when nothing."""
    lacks = [program for program in ("chromium", "chromedriver") if shutil.which(program) is None]
    return f"no {' and no '.join(lacks)}; on Debian, .ci/tools installs them as root" if lacks else ""


class Browser:
    """One session with a profile of its own."""

    def __init__(self, profile: Path) -> None:
        port = free_port()
        self._driver = subprocess.Popen(
            ["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=90)
        self._session = ""
        try:
            self._when(lambda: self._get("/status")["ready"], 30)
            options = {"binary": shutil.which("chromium"), "args": [*FLAGS, f"--user-data-dir={profile}"]}
            wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
            made = self._post("/session", {"capabilities": {"alwaysMatch": wanted}})
            self._session = f"/session/{made['sessionId']}"
        except BaseException:
            self.close()
            raise

    def _get(self, path: str) -> Any:
        return self._http.get(path).json()["value"]

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        answer = self._http.post(path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()["value"]

    @staticmethod
    def _when(true: Any, seconds: float) -> None:
        until = time.monotonic() + seconds
        while True:
            try:
                if true():
                    return
            except httpx.TransportError:
                pass
            assert time.monotonic() < until
            time.sleep(0.05)

    def open(self, url: str) -> None:
        """Go to a page."""
        self._post(f"{self._session}/url", {"url": url})

    def run(self, script: str, *arguments: Any) -> Any:
        """Run a script in the page; return what it returns."""
        return self._post(f"{self._session}/execute/sync", {"script": script, "args": list(arguments)})

    def wait(self, condition: str, seconds: float = 30) -> None:
        """Wait until an expression is true in the page."""
        until = time.monotonic() + seconds
        while not self.run(f"return Boolean({condition})"):
            assert time.monotonic() < until, f"{condition}\n{self.run('return document.body.innerText')}\n{self.log()}"
            time.sleep(0.05)

    def resize(self, width: int, height: int) -> None:
        """Make the window so large."""
        self._post(f"{self._session}/window/rect", {"width": width, "height": height})

    def log(self) -> list[str]:
        """Return the errors that the console was told since the last look, refusals of the policy among them."""
        entries = self._post(f"{self._session}/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] == "SEVERE"]

    def picture(self, path: Path) -> None:
        """Save what a person would see."""
        path.write_bytes(base64.b64decode(self._get(f"{self._session}/screenshot")))

    def close(self) -> None:
        """End the session and the driver."""
        if self._session:
            self._http.delete(self._session)
        self._driver.terminate()
        self._driver.wait()
        self._http.close()
