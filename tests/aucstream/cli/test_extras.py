"""What a command says where the packages of an extra are not installed; `.ci/core` tries it where they really are not."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from aucstream.cli.extras import EXTRAS, require_extra

from .running import refused, run


def hide(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    """Make modules look as if they were not installed."""
    for module in modules:
        monkeypatch.setitem(sys.modules, module, None)
        assert importlib.util.find_spec(module) is None


@pytest.mark.parametrize("arguments", [("serve",), ("serve", "--help"), ("serve", "--port", 8000), ("fsck", "data")])
@pytest.mark.parametrize("module", EXTRAS["service"])
def test_a_command_of_the_service_names_what_is_missing_and_the_extra(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[object, ...], module: str
) -> None:
    hide(monkeypatch, module)
    sentence = refused(*arguments)
    assert sentence == (
        f'aucstream: {arguments[0]}: expected the package {module}, which pip install "aucstream[service]" installs'
    )


def test_all_that_is_missing_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "apsw", "uvicorn")
    assert "the packages apsw, uvicorn, which" in refused("serve")


def test_a_plot_names_its_extra_before_any_work_is_done(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hide(monkeypatch, "matplotlib")
    sentence = refused("evaluate", "absent.svm", "--model", "solam", "--plot", tmp_path / "auc.png")
    assert sentence.startswith("aucstream: --plot: ")
    assert 'pip install "aucstream[plot]"' in sentence


def test_an_import_that_fails_for_another_reason_is_not_taken_for_a_missing_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "aucstream_service.ops.main", None)
    monkeypatch.setattr(sys, "argv", ["aucstream", "serve", "--help"])
    from aucstream.cli import main

    with pytest.raises(ModuleNotFoundError, match=r"aucstream_service\.ops\.main"):
        main()


def test_nothing_is_raised_where_all_is_installed() -> None:
    for extra in EXTRAS:
        require_extra("serve", extra)


def test_keys_need_no_package_of_the_service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hide(monkeypatch, *EXTRAS["service"])
    data = tmp_path / "data"
    assert run("keys", "create", "--data-dir", data).out.startswith("auc_")
    assert len(run("keys", "list", "--data-dir", data).out.splitlines()) == 1
