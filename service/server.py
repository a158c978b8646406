"""uvicorn in this process, with one worker, until it is told to stop."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

import uvicorn

from service.app import Service, create_app
from service.directory import DataDirectory
from service.logs import AccessLog
from service.protocol import Protocol
from service.settings import Settings

FAILED = 1  # exit status: recovery failed, or the port is taken


class Server(uvicorn.Server):
    """uvicorn that says at once that it is stopping, and exits 0 after SIGTERM."""

    def __init__(self, config: uvicorn.Config, app: Service) -> None:
        super().__init__(config)
        self._app = app

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Answer 503 on /readyz from now on, then stop."""
        self._app.model_host.draining = True
        super().handle_exit(sig, frame)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle SIGINT and SIGTERM without raising them again at the end."""
        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread is told of signals
            return
        signals = (signal.SIGINT, signal.SIGTERM)
        before = {sig: signal.signal(sig, self.handle_exit) for sig in signals}
        try:
            yield
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)


def server_of(app: Service, settings: Settings) -> Server:
    """Return the server of an application; it ends when recovery fails."""
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        workers=1,
        loop="uvloop" if sys.platform != "win32" else "asyncio",
        http=Protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=max(1, round(settings.shutdown_seconds)),
    )
    server = Server(config, app)

    def stop() -> None:
        server.should_exit = True

    app.when_fatal = stop
    return server


def run(settings: Settings, directory: DataDirectory, access: AccessLog | None = None) -> int:
    """Serve on a directory that this process owns; return the exit status."""
    app = create_app(settings, directory, access)
    server = server_of(app, settings)
    try:
        server.run()
    except SystemExit:
        return FAILED  # uvicorn has said why
    return FAILED if app.fatal is not None or not server.started else 0
