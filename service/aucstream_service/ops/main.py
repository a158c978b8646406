"""Run the service: `process` is `aucstream serve`, `main` reads its arguments, `serve` takes ready settings."""

from __future__ import annotations

import contextlib
import difflib
import gc
import logging
import os
import socket
import sys
from collections.abc import Sequence
from typing import NoReturn

from pydantic import ValidationError
from pydantic_settings import CliApp, CliSettingsSource, SettingsError

from aucstream.errors import AucstreamError, shown
from aucstream_service.errors.exceptions import StartRefused
from aucstream_service.errors.refusal_text import of_pydantic
from aucstream_service.settings import Settings
from aucstream_service.storage.api_keys import Keyring
from aucstream_service.storage.directory import DataDirectory
from aucstream_service.telemetry.logs import Sink, logging_to

log = logging.getLogger("aucstream")

PREFIX = "AUCSTREAM_"
OTHER_VARIABLES = frozenset(  # which the library, the client, the container and the tests read
    f"{PREFIX}{name}" for name in ("CACHE_DIR", "API_KEY", "API_KEY_FILE", "DATA", "IMAGE_CACHE", "PICTURES")
)
REFUSED = 2  # exit status: the process must not start like this


def serve(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT; return the exit status."""
    with logging_to(sys.stderr, settings.log_format, settings.log_level, access=settings.access_log) as access:
        return _serve(settings, access)


def _serve(settings: Settings, access: Sink | None) -> int:
    os.umask(0o077)  # what is written holds raw features: for this user alone
    directory = DataDirectory(settings.data_dir, expect_existing=settings.expect_existing)
    try:
        keys = Keyring(directory.keys, settings.own_key()).check()
        settings.check_start(keys=keys)
        if not directory.path.exists():  # on one that is there, its owner is the better reason
            _check_port(settings)
        directory.acquire()
    except AucstreamError as error:
        return _refused(error)
    try:
        _check_port(settings)
        gc.disable()  # what is imported stays: to look through it again and again is a tenth of the start
        from aucstream_service.ops.server import run  # compilers and frameworks: not for a refusal, nor for --help

        gc.freeze()
        gc.enable()
        return run(settings, directory, access)
    except StartRefused as error:
        return _refused(error)
    finally:
        directory.release()


def _refused(error: AucstreamError) -> int:
    log.critical("start: expected %s", error.message)
    return REFUSED


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
    words = list(sys.argv[1:] if arguments is None else arguments)
    unknown = _unknown_variables()
    if unknown:
        sys.stderr.write("".join(f"aucstream serve: {line}\n" for line in unknown))
        return REFUSED
    try:
        settings = CliApp.run(Settings, cli_args=words, cli_settings_source=source)
    except (ValidationError, SettingsError) as error:
        lines = _refusals(error, words) if isinstance(error, ValidationError) else [str(error)]
        sys.stderr.write("".join(f"aucstream serve: {line}\n" for line in lines))
        return REFUSED
    return serve(settings)


def _refusals(error: ValidationError, words: Sequence[str]) -> list[str]:
    """Return a sentence for each setting that is refused, with the flag or the variable that it came by."""
    lines = []
    for item in error.errors():
        name = str(item["loc"][0]) if item["loc"] else "settings"
        flag, variable = f"--{name.replace('_', '-')}", f"AUCSTREAM_{name.upper()}"
        by_flag = any(word.partition("=")[0] == flag for word in words)
        where = variable if variable in os.environ and not by_flag else flag
        got = "" if name in _SECRET else f", got {shown(item['input'])}"
        lines.append(f"{where}: expected {of_pydantic(item['msg'])}{got}")
    return lines


_SECRET = frozenset({"admin_key"})


def _unknown_variables() -> list[str]:
    """Return a sentence for each `AUCSTREAM_*` variable that nothing reads: a misspelt setting would be ignored."""
    known = OTHER_VARIABLES | {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    lines = []
    for name in sorted(os.environ):
        if name.upper().startswith(PREFIX) and name.upper() not in known:
            near = difflib.get_close_matches(name.upper(), known, n=1, cutoff=0.0)
            lines.append(f"{name}: expected a variable that is known, the nearest is {near[0]}")
    return lines


def _check_port(settings: Settings) -> None:
    """Raise StartRefused where the address cannot be listened on, before a data directory is made."""
    if settings.port == 0:
        return
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(address)
    except OSError as error:
        raise StartRefused(
            f"an address to listen on, got host={settings.host}, port={settings.port}: {error}"
        ) from error


def process(arguments: Sequence[str] | None = None) -> NoReturn:
    """Be the whole process: `main`, and an end at once.

    All is closed and written by then. To take apart what compilers and frameworks made takes a second, and five
    on a busy machine, which who waits for the end (an orchestrator, the next owner of a port) does not have.
    """
    status = main(arguments)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


if __name__ == "__main__":
    process()
