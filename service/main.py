"""Run the service: `aucstream serve` calls `main` with its arguments, `serve` with ready settings."""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
from collections.abc import Iterator, Sequence
from types import FrameType

import uvicorn
from pydantic import ValidationError
from pydantic_settings import CliApp, CliSettingsSource, SettingsError

from aucstream.errors import AucstreamError
from service.app import Service, create_app
from service.protocol import Protocol
from service.settings import Settings

log = logging.getLogger("aucstream")

REFUSED = 2  # exit status: the process must not start like this
FAILED = 1  # exit status: it started, and recovery failed


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
        signals = (signal.SIGINT, signal.SIGTERM)
        before = {sig: signal.signal(sig, self.handle_exit) for sig in signals}
        try:
            yield
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)


def serve(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT; return the exit status."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
    try:
        settings.check_start()
        app = create_app(settings)
        app.model_host.acquire()
    except AucstreamError as error:
        log.critical("start: expected %s", error.message)
        return REFUSED
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

    def stop(error: BaseException) -> None:
        app.fatal = error
        server.should_exit = True

    app.on_fatal = stop  # type: ignore[method-assign]
    try:
        server.run()
    except SystemExit:
        return FAILED  # uvicorn has said why (the port is taken)
    finally:
        app.model_host.directory.release()
    return FAILED if app.fatal is not None or not server.started else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Read flags and `AUCSTREAM_*` variables, and serve; return the exit status."""
    source: CliSettingsSource[Settings] = CliSettingsSource(
        Settings,
        cli_prog_name="aucstream serve",
        cli_kebab_case=True,
        cli_implicit_flags=True,
        cli_hide_none_type=True,
        cli_avoid_json=True,
    )
    try:
        settings = CliApp.run(
            Settings,
            cli_args=list(sys.argv[1:] if arguments is None else arguments),
            cli_settings_source=source,
        )
    except (ValidationError, SettingsError) as error:
        lines = (
            [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()]
            if isinstance(error, ValidationError)
            else [str(error)]
        )
        sys.stderr.write("".join(f"aucstream serve: {line}\n" for line in lines))
        return REFUSED
    return serve(settings)


if __name__ == "__main__":
    sys.exit(main())
