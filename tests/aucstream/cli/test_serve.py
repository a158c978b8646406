"""`aucstream serve` and `aucstream warm`; what a start refuses is tested with the service."""

from __future__ import annotations

from pathlib import Path

from aucstream_service.settings import Settings

from .running import process, refused


def test_serve_hands_its_flags_to_the_service_and_its_status_back(tmp_path: Path) -> None:
    data = tmp_path / "data"
    ended = process("serve", "--host", "0.0.0.0", "--port", "0", "--data-dir", data)
    assert ended.status == 2
    assert "host=0.0.0.0" in ended.err
    assert "--insecure" in ended.err
    assert "Traceback" not in ended.err
    assert not data.exists()


def test_serve_reads_its_variables(tmp_path: Path) -> None:
    ended = process("serve", "--data-dir", tmp_path / "data", env={"AUCSTREAM_WORKERS": "2"})
    assert ended.status == 2
    assert "workers=2" in ended.err


def test_help_of_serve_lists_the_settings() -> None:
    ended = process("serve", "--help")
    assert ended.status == 0
    for name in Settings.model_fields:
        assert "--" + name.replace("_", "-") in ended.out


def test_warm_names_an_unknown_model() -> None:
    assert "'salam'" in refused("warm", "--model", "salam")
