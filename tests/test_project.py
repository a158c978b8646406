"""What the repository says of itself: commands, links, locks, versions."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.data import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TEST_COMMAND = "sh .ci/setup && .venv/bin/python -m pytest"
PLAIN = ("tests/aucstream/golden", "tests/aucstream/kernels")  # what runs as plain Python too
MAIN_COMMAND = "sh .ci/setup && .venv/bin/python examples/quickstart.py"


def tracked() -> list[Path]:
    """Return the files of the repository: what git knows, or, in a bare tree, what lies there."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode == 0 and listed.stdout:
        paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    else:
        hidden = {".venv", ".git", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", "__pycache__"}
        paths = [path for path in ROOT.rglob("*") if not hidden & set(path.relative_to(ROOT).parts)]
    return [path for path in paths if path.is_file()]


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(name: str) -> dict[str, tuple[int, ...]]:
    """Return the pinned versions of a lock file."""
    pins = re.findall(r"(?m)^([A-Za-z0-9._-]+)==(\d+(?:\.\d+)*)", (ROOT / name).read_text())
    return {normal(package): tuple(map(int, version.split("."))) for package, version in pins}


def wanted(requirements: list[str]) -> dict[str, tuple[int, ...]]:
    """Return package and lowest version of requirements such as "numpy>=2.0"."""
    found = {}
    for requirement in requirements:
        match = re.match(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?(?:>=([\d.]+))?", requirement)
        assert match, requirement
        found[normal(match[1])] = tuple(map(int, (match[2] or "0").split(".")))
    return found


def test_the_readme_opens_with_the_two_commands() -> None:
    readme = (ROOT / "README.md").read_text()
    blocks = re.findall(r"```sh\n(.*?)\n```", readme, re.DOTALL)
    assert blocks[:2] == [MAIN_COMMAND, TEST_COMMAND]
    assert (ROOT / ".ci/setup").is_file()
    assert (ROOT / "examples/quickstart.py").is_file()


def test_the_checks_run_the_readmes_test_command() -> None:
    lines = (ROOT / ".ci/run").read_text().splitlines()
    assert TEST_COMMAND in lines
    assert not any("|| true" in line for line in lines)


def test_the_checks_install_the_core_alone_and_run_kernels_as_plain_python_and_with_checked_bounds() -> None:
    lines = (ROOT / ".ci/run").read_text().splitlines()
    assert ".ci/core" in lines
    for setting in ("NUMBA_DISABLE_JIT=1", "NUMBA_BOUNDSCHECK=1"):
        assert f"{setting} .venv/bin/python -m pytest -m plain_python {' '.join(PLAIN)}" in lines
    marker = "mark." + "plain_python"
    marked = [path for path in (ROOT / "tests").rglob("*.py") if marker in path.read_text()]
    assert len(marked) > 5
    for path in marked:
        assert path.relative_to(ROOT).as_posix().startswith(tuple(f"{folder}/" for folder in PLAIN)), path


def test_scripts_are_sound() -> None:
    for shell, name in (("sh", ".ci/setup"), ("sh", ".ci/tools"), ("bash", ".ci/run"), ("bash", ".ci/core")):
        subprocess.run([shell, "-n", name], cwd=ROOT, check=True)


def test_every_relative_link_leads_somewhere() -> None:
    broken = []
    for page in tracked():
        if page.suffix != ".md":
            continue
        text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"[a-z]+:", target) or target.startswith("#"):
                continue
            if not (page.parent / target.split("#")[0]).exists():
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert broken == []


def test_files_that_the_readme_names_are_there() -> None:
    names = set(
        re.findall(r"`((?:examples|openapi|docs|benchmarks|service)/[\w./-]+)`", (ROOT / "README.md").read_text())
    )
    assert names
    for name in names:
        assert (ROOT / name).exists(), name


LOCKS = {  # the extras that each has beside the core
    "requirements-core.lock": [],
    "requirements.lock": ["service"],
    "requirements-dev.lock": list(PROJECT["optional-dependencies"]),
}


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_covers_what_its_extras_need(name: str) -> None:
    extras = PROJECT["optional-dependencies"]
    requirements = wanted([*PROJECT["dependencies"], *(one for extra in LOCKS[name] for one in extras[extra])])
    requirements.pop("aucstream", None)  # an extra that has others
    pins = locked(name)
    for package, least in requirements.items():
        assert package in pins, f"{name} lacks {package}"
        assert pins[package] >= least, f"{name}: {package}"


def test_a_lock_has_the_versions_of_the_larger_ones() -> None:
    core, runtime, development = (locked(name) for name in LOCKS)
    assert core.items() < runtime.items() < development.items()
    assert not {"fastapi", "uvicorn", "apsw", "httpx", "pandas", "pyarrow"} & set(core)
    assert not {"pytest", "ruff", "mypy", "pyarrow", "httpx"} & set(runtime)


@pytest.mark.parametrize("name", LOCKS)
def test_every_pin_has_hashes(name: str) -> None:
    text = (ROOT / name).read_text()
    entries = re.split(r"(?m)^(?=[A-Za-z0-9])", text)[1:]
    assert len(entries) >= len(locked(name)) > 10
    for entry in entries:
        assert "--hash=sha256:" in entry, entry.splitlines()[0]


def test_the_changelog_begins_with_the_version() -> None:
    from aucstream import __version__

    assert __version__ == PROJECT["version"]
    headings = re.findall(r"(?m)^## (.+)$", (ROOT / "CHANGELOG.md").read_text())
    assert __version__ in headings[0]


def test_no_file_names_a_package_registry() -> None:
    hosts = ["pypi." + "org", "files.python" + "hosted", "registry.npm" + "js", "crates." + "io", "conda." + "anaconda"]
    named = []
    for path in tracked():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        named += [f"{path.relative_to(ROOT)}: {host}" for host in hosts if host in text]
    assert named == []


def test_the_licence_is_bsd_with_three_clauses() -> None:
    assert PROJECT["license"] == "BSD-3-Clause"
    text = (ROOT / "LICENSE").read_text()
    assert "Neither the name of the copyright holder" in text
