"""What a process refuses to start on, and why (S4, S21)."""

from __future__ import annotations

import logging
import os
import socket
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from aucstream.cli.commands import app as commands
from aucstream_service.errors.exceptions import StartRefused
from aucstream_service.ops.main import main
from aucstream_service.settings import Settings
from tests.service.running import Local, Running


def refused(data_dir: Path, env: dict[str, str] | None = None, **flags: object) -> str:
    service = Running(data_dir, wait=False, env=env, **flags)
    assert service.ended() == 2
    assert "Traceback" not in service.log
    return service.log


def test_a_second_process_on_a_data_directory_is_refused(data_dir: Path) -> None:  # S21
    first = Running(data_dir)
    log = refused(data_dir)
    assert f"process {first.process.pid} owns it" in log
    assert str(data_dir) in log
    assert first.create("m").status_code == 201
    assert first.logged(f"data directory {data_dir}: empty")
    first.kill()
    second = Local(data_dir, expect_existing=True)  # the lock of a killed process is free
    assert second.describe("m")["seq"] == 0
    second.stop()


def test_commands_make_folders_for_their_owner_alone(data_dir: Path) -> None:
    before = os.umask(0o022)
    try:
        made = CliRunner().invoke(commands, ["keys", "create", "--data-dir", str(data_dir)])
        assert made.exit_code == 0, made.output
        assert stat.S_IMODE(data_dir.stat().st_mode) == 0o700
        service = Local(data_dir, admin_key="0123456789abcdef" * 4)
        service.stop()
        (data_dir / "spool").chmod(0o755)  # as an older version left it
        checked = CliRunner().invoke(commands, ["fsck", str(data_dir)])
        assert checked.exit_code == 0, checked.output
        salvaged = CliRunner().invoke(commands, ["fsck", str(data_dir), "--salvage", str(data_dir.with_name("new"))])
        assert salvaged.exit_code == 0, salvaged.output
    finally:
        os.umask(before)
    for folder in (data_dir, data_dir.with_name("new")):
        for path in (folder, folder / "spool", folder / "snapshots"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o700, path


def test_several_workers_are_refused(data_dir: Path) -> None:  # S21
    assert "one process owns a data directory" in refused(data_dir, workers=2)
    log = refused(data_dir, {"WEB_CONCURRENCY": "2"})
    assert "WEB_CONCURRENCY=2" in log
    assert not data_dir.exists()


def test_a_variable_that_nothing_reads_is_refused(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = refused(data_dir, {"AUCSTREAM_MAX_MODEL": "5", "AUCSTREAM_DURABLITY": "os"})
    assert "AUCSTREAM_MAX_MODEL: expected a variable that is known, the nearest is AUCSTREAM_MAX_MODELS" in log
    assert "AUCSTREAM_DURABLITY: expected a variable that is known, the nearest is AUCSTREAM_DURABILITY" in log
    assert not data_dir.exists()
    for name in ("AUCSTREAM_CACHE_DIR", "AUCSTREAM_API_KEY", "AUCSTREAM_DATA", "aucstream_port"):
        monkeypatch.setenv(name, "1")
    assert main(["--data-dir", str(data_dir), "--expect-existing"]) == 2  # not for these
    monkeypatch.setenv("AUCSTREAM_SHUTDOWN", "1")
    assert main(["--help-me"]) == 2


def test_another_address_without_keys_is_refused(data_dir: Path) -> None:
    assert "--insecure" in refused(data_dir, host="0.0.0.0")
    for host in ("0.0.0.0", "::", "10.1.2.3", "example.org"):
        with pytest.raises(StartRefused, match="--insecure"):
            Settings(host=host).check_start()
        Settings(host=host, insecure=True).check_start()
    for host in ("127.0.0.1", "127.1.2.3", "::1", "localhost"):
        Settings(host=host).check_start()


def test_an_empty_directory_is_refused_where_one_is_expected(data_dir: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "aucstream"):
        assert main(["--data-dir", str(data_dir), "--expect-existing"]) == 2
    assert str(data_dir) in caplog.text


def test_a_directory_that_cannot_be_written_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    assert main(["--data-dir", str(tmp_path / "file" / "data")]) == 2
    assert "a writable data directory" in caplog.text


@pytest.mark.parametrize(
    ("flag", "value"), [("port", "x"), ("durability", "none"), ("snapshot-keep", "1"), ("max-rows", "0")]
)
def test_bad_flags_are_named(flag: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"--{flag}", value]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"aucstream serve: --{flag}: expected ")
    assert said.endswith(f", got '{value}'\n")
    assert "Input should" not in said


def test_bad_variables_are_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("AUCSTREAM_PORT", "abc")
    assert main([]) == 2
    assert capsys.readouterr().err == "aucstream serve: AUCSTREAM_PORT: expected an integer, got 'abc'\n"
    assert main(["--port=99999"]) == 2
    said = "aucstream serve: --port: expected a number less than or equal to 65535, got '99999'\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("is_new", [True, False])
def test_a_port_that_is_taken_is_refused_before_a_directory_is_made(
    is_new: bool, data_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    if not is_new:
        Local(data_dir).stop()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["--data-dir", str(data_dir), "--host", "127.0.0.1", "--port", str(port)]) == 2
    assert f"start: expected an address to listen on, got host=127.0.0.1, port={port}" in caplog.text
    assert data_dir.exists() != is_new
    if not is_new:
        Local(data_dir).stop()  # the lock is free


def test_unknown_flags_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--colour", "red"])
    assert ended.value.code == 2
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    told = capsys.readouterr().out
    for name in Settings.model_fields:
        assert "--" + name.replace("_", "-") in told


def test_settings_come_from_the_environment_and_flags_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUCSTREAM_DURABILITY", "os")
    monkeypatch.setenv("AUCSTREAM_MAX_MODELS", "1")
    settings = Settings(max_models=2)
    assert (settings.durability, settings.max_models) == ("os", 2)
