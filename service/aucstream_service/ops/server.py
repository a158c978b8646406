"""uvicorn in this process, with one worker, until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType

import uvicorn

from aucstream_service.app import Service, create_app
from aucstream_service.http.protocol import LINGERING, Protocol, protocol_of
from aucstream_service.settings import Settings
from aucstream_service.storage.directory import DataDirectory
from aucstream_service.telemetry.logs import Sink

log = logging.getLogger("aucstream")

HURRIED_SECONDS = 5  # from the second signal to the end of the process at the latest
QUIET_SECONDS = (
    0.25  # from the first answer that says that it is the last to the end of idle connections at the earliest
)
LOOK_TICKS = 5  # ticks of a tenth of a second between two looks at the connections
SPARE_FILES = LINGERING + 256  # journal, snapshots, libraries, and connections that are being refused
SWITCH_SECONDS = 0.001  # that the loop waits for a thread of Python's own code, each time it needs the interpreter
FAILED = 1  # exit status: recovery failed, or the port is taken


class Server(uvicorn.Server):
    """uvicorn that says at once that it is stopping, and exits 0 after SIGTERM.

    After the first signal /readyz is 503; after `drain` seconds event streams end, requests in flight get
    half of the time that is left, snapshots the rest. A second signal leaves out what can be left out: the
    journal is closed, no snapshot is begun.
    """

    def __init__(self, config: uvicorn.Config, app: Service) -> None:
        super().__init__(config)
        self._app = app
        self._settings = app.model_host.settings
        self._drained_at: float | None = None
        self._draining_since = math.inf

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal. No logging here: the signal may have interrupted whoever holds a lock of the log."""
        host = self._app.model_host
        if host.draining:
            host.hurried = self.should_exit = self.force_exit = True
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(HURRIED_SECONDS)  # should anything hang, the process ends here: the journal has it all
        else:
            host.draining = True
            self._drained_at = time.monotonic() + self._settings.drain

    async def on_tick(self, counter: int) -> bool:
        """Look at the connections for slow clients; begin to stop when the time to drain is over."""
        if counter % LOOK_TICKS == 0:
            now = asyncio.get_running_loop().time()
            for connection in tuple(self.server_state.connections):
                if isinstance(connection, Protocol):
                    connection.look(now)
        if self._app.model_host.draining:
            self._end_answers()
        if self._drained_at is not None and time.monotonic() >= self._drained_at:
            self.should_exit = True
        return await super().on_tick(counter)

    def _end_answers(self) -> None:
        """Have each answer from now on say that it is the last of its connection."""
        gate = self._app.watch.gate
        if gate is None or gate.draining:
            return
        gate.draining = True
        self._draining_since = time.monotonic()
        for connection in tuple(self.server_state.connections):
            if isinstance(connection, Protocol):
                connection.drain()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop in the time that is left."""
        host = self._app.model_host
        host.draining = True
        left = self._settings.shutdown_seconds - (0.0 if self._drained_at is None else self._settings.drain)
        log.info("stopping: %.1f s for requests in flight and snapshots", left)
        host.stop_by = time.monotonic() + left
        self._app.streams.end()
        self._end_answers()
        # A client that is at work sends its next request within a moment, and is answered: to close at once what is idle
        # between two requests would leave that request without an answer.
        until = self._draining_since + min(QUIET_SECONDS, left / 4)
        while self.server_state.connections and time.monotonic() < until and not self.force_exit:
            await asyncio.sleep(0.01)
        self.config.timeout_graceful_shutdown = left / 2  # type: ignore[assignment]
        await super().shutdown(sockets)
        if self.force_exit:  # uvicorn leaves this out; the journal must be closed
            await self.lifespan.shutdown()
        log.info("stopped")

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle SIGINT and SIGTERM; at the end, when everything is closed, one more changes nothing."""
        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread is told of signals
            return
        signals = (signal.SIGINT, signal.SIGTERM)
        for sig in signals:
            signal.signal(sig, self.handle_exit)
        try:
            yield
        finally:
            signal.alarm(0)
            for sig in signals:
                signal.signal(sig, signal.SIG_IGN)


def server_of(app: Service, settings: Settings) -> Server:
    """Return the server of an application; it ends when recovery fails."""
    protocol = protocol_of(settings)
    app.watch.gate = protocol.gate
    protocol.gate.ended = app.watch.refused
    protocol.gate.call_of = app.edge.call_of
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        workers=1,
        loop="uvloop" if sys.platform != "win32" else "asyncio",
        http=protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=math.ceil(settings.idle_seconds),
    )
    server = Server(config, app)

    def stop() -> None:
        server.should_exit = True

    app.when_fatal = stop
    return server


def _allow_files(wanted: int) -> None:
    """Raise the soft limit of open files, as far as the hard one lets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def run(settings: Settings, directory: DataDirectory, access: Sink | None = None) -> int:
    """Serve on a directory that this process owns; return the exit status."""
    _allow_files(settings.max_connections + SPARE_FILES)
    sys.setswitchinterval(SWITCH_SECONDS)
    app = create_app(settings, directory, access)
    server = server_of(app, settings)
    try:
        server.run()
    except SystemExit:
        return FAILED  # uvicorn has said why
    return FAILED if app.fatal is not None or not server.started else 0
