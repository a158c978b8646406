"""The distribution: what its wheel and sdist hold, and that each extra has what its code imports."""

from __future__ import annotations

import ast
import email
import importlib.metadata
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Mapping
from email.message import Message
from functools import cache
from pathlib import Path

import pytest

from aucstream.cli.extras import EXTRAS
from tests.data import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PACKAGES = {"aucstream": ROOT / "aucstream", "aucstream_service": ROOT / "service" / "aucstream_service"}
# Modules that code tries to import and does without, or that only a caller who has them can bring in.
BROUGHT_BY_CALLERS = {"pandas", "polars", "pyarrow"}  # who has a frame of theirs has them


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def distributions(requirements: list[str]) -> set[str]:
    """Return the distributions that requirements name, those of the project's own extras included."""
    names: set[str] = set()
    for requirement in requirements:
        match = re.match(r"([\w.-]+)(?:\[([\w,]+)\])?", requirement)
        assert match, requirement
        if match[1] == PROJECT["name"]:
            for extra in match[2].split(","):
                names |= distributions(PROJECT["optional-dependencies"][extra])
        else:
            names.add(normal(match[1]))
    return names


CORE = distributions(PROJECT["dependencies"])
EXTRA = {extra: distributions(names) for extra, names in PROJECT["optional-dependencies"].items()}


@cache
def imported(path: Path) -> set[str]:
    """Return the top-level modules that a file imports at run time, in functions too; by name as well as by string."""
    found: set[str] = set()

    def walk(node: ast.AST) -> None:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for other in node.orelse:
                walk(other)
            return
        if isinstance(node, ast.Import):
            found.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            found.update(str(name.value).split(".")[0] for name in node.args[:1] if isinstance(name, ast.Constant))
        for child in ast.iter_child_nodes(node):
            walk(child)

    walk(ast.parse(path.read_text()))
    return found - set(sys.stdlib_module_names) - {"aucstream"}


@cache
def installed() -> Mapping[str, list[str]]:
    """Return the installed distributions by top-level module."""
    return importlib.metadata.packages_distributions()


def owners(module: str) -> set[str]:
    """Return the installed distributions that have a top-level module."""
    return {normal(name) for name in installed().get(module, [module])}


def part_of(path: Path) -> str:
    """Return the extra that a file of the library belongs to, "" for the core."""
    own = path.relative_to(PACKAGES["aucstream"]).as_posix()
    if own.startswith("client/"):
        return "client"
    return {"io/arrow.py": "arrow", "cli/plot.py": "plot", "cli/report_plots.py": "plot", "sklearn.py": "sklearn"}.get(
        own, ""
    )


FILES = sorted(PACKAGES["aucstream"].rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_of_the_library_imports_what_its_part_installs(path: Path) -> None:
    extra = part_of(path)
    allowed = CORE | EXTRA.get(extra, set())
    for module in imported(path) - BROUGHT_BY_CALLERS:
        if module == "aucstream_service":
            assert path.is_relative_to(PACKAGES["aucstream"] / "cli"), "only commands may import the service"
            continue
        assert owners(module) & allowed, f"{path.relative_to(ROOT)} imports {module}, which {extra or 'core'} lacks"


def test_every_dependency_of_the_core_is_imported_by_the_core() -> None:
    modules = set().union(*(imported(path) for path in FILES if not part_of(path)))
    for name in CORE:
        assert any(name in owners(module) for module in modules), name


def test_the_service_imports_what_its_extra_installs_and_nothing_else() -> None:
    modules = set().union(*(imported(path) for path in PACKAGES["aucstream_service"].rglob("*.py")))
    allowed = CORE | EXTRA["service"] | {"pyarrow"}  # Arrow bodies are refused with 415 where it is missing
    for module in modules - {"aucstream_service"}:
        assert owners(module) & allowed, module
    loops = {"uvloop"}  # uvicorn imports it by the name in ops/server.py
    for name in EXTRA["service"] - loops:
        assert any(name in owners(module) for module in modules), name
    assert '"uvloop"' in (PACKAGES["aucstream_service"] / "ops" / "server.py").read_text()


@pytest.mark.parametrize("extra", EXTRAS)
def test_commands_look_for_the_modules_that_an_extra_installs(extra: str) -> None:
    assert set().union(*(owners(module) for module in EXTRAS[extra])) == EXTRA[extra] - CORE


def test_every_extra_has_something_that_uses_it() -> None:
    assert set(EXTRA) == {"service", "client", "arrow", "plot", "polars", "sklearn", "bench", "dev"}
    benchmarks = set().union(*(imported(path) for path in (ROOT / "benchmarks").rglob("*.py")))
    for name in ("pandas", "scikit-learn", "vowpalwabbit"):
        assert any(name in owners(module) for module in benchmarks), name


@pytest.mark.parametrize("name", ["numba", "uvicorn"])
def test_a_package_whose_private_names_are_used_has_an_upper_bound(name: str) -> None:
    requirements = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["service"]]
    (requirement,) = [text for text in requirements if re.match(rf"{name}\b", text)]
    least, most = (tuple(map(int, text.split("."))) for text in re.findall(r"[<>=]+([\d.]+)", requirement))
    installed = tuple(map(int, importlib.metadata.version(name).split(".")[: len(most)]))
    assert least <= installed < most
    assert most == (*installed[:-1], installed[-1] + 1), "the bound is the first version that is not locked"


# -- what is built ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)], cwd=ROOT, check=True, timeout=120
    )
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    (path,) = built.glob("*.whl")
    return zipfile.ZipFile(path)


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    return email.message_from_bytes(wheel.read(name))


def sources() -> set[str]:
    """Return the files of both packages as their names in a wheel; tools for a checkout are not in it."""
    return {
        f"{package}/{path.relative_to(folder).as_posix()}"
        for package, folder in PACKAGES.items()
        for path in folder.rglob("*")
        if path.is_file() and not {"__pycache__", "dev"} & set(path.relative_to(folder).parts)
    }


def test_the_wheel_holds_both_packages_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    assert {name for name in names if not name.split("/")[0].endswith(".dist-info")} == sources()
    assert {"aucstream/py.typed", "aucstream_service/static/dashboard.html"} <= names
    assert not (ROOT / "service" / "__init__.py").exists()


def test_the_wheel_has_one_command_and_its_licence(wheel: zipfile.ZipFile) -> None:
    (points,) = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
    assert wheel.read(points).decode().split() == ["[console_scripts]", "aucstream", "=", "aucstream.cli:main"]
    assert any(name.endswith("licenses/LICENSE") for name in wheel.namelist())


def test_the_metadata_has_the_core_and_each_extra(metadata: Message) -> None:
    assert metadata["Name"] == PROJECT["name"]
    assert metadata["Version"] == PROJECT["version"]
    assert set(metadata.get_all("Provides-Extra", [])) == set(EXTRA)
    lines = metadata.get_all("Requires-Dist", [])
    assert distributions([line for line in lines if "extra ==" not in line]) == CORE
    for extra, names in EXTRA.items():
        assert distributions([line for line in lines if f"extra == '{extra}'" in line]) == names


def test_the_sdist_builds_the_same_wheel(built: Path, wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        archive.extractall(tmp_path, filter="data")
    (tree,) = tmp_path.iterdir()
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)],
        cwd=tree,
        check=True,
        timeout=120,
    )
    (again,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(again) as other:
        assert set(other.namelist()) == set(wheel.namelist())
        assert {name: other.read(name) for name in sources()} == {name: wheel.read(name) for name in sources()}
