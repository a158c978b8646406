"""Imports point down, in no circle; each file has one name; numba is named in five files."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.data import ROOT
from tests.import_graph import circles, import_graph, imported_names, modules

# From the bottom up; a room imports itself and the lines below its own, and no other room of its line. A room is a
# dotted prefix, and the longest one that fits counts: `aucstream.learners._base.state` is not of `aucstream.learners`.
# `__init__` stands for a package's own file.
RANKS = [
    ["aucstream.problem_types", "aucstream.answers", "aucstream.version"],
    ["aucstream.errors"],
    ["aucstream.block", "aucstream.constraints", "aucstream.exclusive", "aucstream.snapshot"],
    ["aucstream.kernels"],
    ["aucstream.native", "aucstream.learners._base.state", "aucstream.metrics", "aucstream.drift"],
    ["aucstream.features"],
    ["aucstream.io", "aucstream.client"],
    ["aucstream.learners._base"],
    ["aucstream.learners._families", "aucstream.batch"],
    ["aucstream.learners"],
    ["aucstream.features.maps.mapping"],
    ["aucstream.features.maps"],
    ["aucstream.registry", "aucstream.steps", "aucstream.features.__init__"],
    ["aucstream.stages"],
    ["aucstream.portfolio"],
    ["aucstream.pipeline"],
    ["aucstream.loading", "aucstream.evaluate", "aucstream.sklearn", "aucstream.warmup"],
    ["aucstream.__init__"],
    ["aucstream_service.errors", "aucstream_service"],
    ["aucstream_service.storage", "aucstream_service.telemetry"],
    ["aucstream_service.settings"],
    ["aucstream_service.http", "aucstream_service.journal"],
    ["aucstream_service.bodies"],
    ["aucstream_service.models"],
    ["aucstream_service.api"],
    ["aucstream_service.calls"],
    ["aucstream_service.app"],
    ["aucstream_service.ops"],
    ["aucstream.cli"],
    ["aucstream.__main__"],
    ["aucstream.dev"],
]

NUMBA = {
    *("aucstream.kernels.digest", "aucstream.kernels.jit"),
    *("aucstream.kernels.rows.simd", "aucstream.kernels.text.bits", "aucstream.native.memory"),
}

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
HATCH = PROJECT["tool"]["hatch"]["build"]
PACKAGES = {Path(name).name: ROOT / name for name in HATCH["targets"]["wheel"]["packages"]}
FILES = modules(PACKAGES)
GRAPH = import_graph(FILES)
RANK = {room: rank for rank, rooms in enumerate(RANKS) for room in rooms}


def room(module: str) -> str:
    """Return the longest prefix of a module that has a rank."""
    parts = (f"{module}.__init__" if FILES[module].name == "__init__.py" else module).split(".")
    prefixes = [".".join(parts[:n]) for n in range(len(parts), 0, -1)]
    return next((prefix for prefix in prefixes if prefix in RANK), "")


@pytest.mark.parametrize("module", FILES)
def test_imports_point_down(module):
    here = room(module)
    assert here, f"{module}: say where it stands in RANKS"
    for other in GRAPH[module]:
        there = room(other)
        assert there == here or RANK[there] < RANK[here], f"{module} ({here}) imports {other} ({there})"


def test_every_room_with_a_rank_has_a_file():
    assert set(RANK) == set(map(room, FILES))


def test_there_are_no_circles():
    assert list(circles(GRAPH)) == []


@pytest.mark.parametrize("module", FILES)
def test_numba_is_imported_in_five_files_and_the_library_never_imports_the_service(module):
    outside = {source.split(".")[0] for source, _ in imported_names(module, FILES[module])}
    if module not in NUMBA:
        assert not outside & {"numba", "llvmlite"}, module
    if module.split(".")[0] == "aucstream" and not module.startswith("aucstream.cli"):
        assert not outside & ({"fastapi", "uvicorn", "starlette", "typer"} | set(PACKAGES) - {"aucstream"}), module


def test_tools_are_imported_by_nothing_else():
    for module in FILES:
        if room(module) != "aucstream.dev":
            assert not {other for other in GRAPH[module] if room(other) == "aucstream.dev"}, module


def test_learners_do_not_import_each_other():
    for module in FILES:
        if room(module) == "aucstream.learners":
            assert not {other for other in GRAPH[module] if room(other) == "aucstream.learners"}, module


# -- one file, one name ------------------------------------------------------------------------------

EDITABLE = HATCH.get("dev-mode-dirs") or [str(Path(name).parent) for name in HATCH["targets"]["wheel"]["packages"]]
IMPORT_ROOTS = {
    (ROOT / name).resolve() for name in [*PROJECT["tool"]["pytest"]["ini_options"]["pythonpath"], *EDITABLE]
}


def names_of(path: Path, roots: set[Path], *, namespaces: bool) -> set[str]:
    """Return the dotted names of a file from the roots; `namespaces`: folders without `__init__.py` count as packages."""
    names = set()
    for root in roots & set(path.parents):
        parts = path.relative_to(root).with_suffix("").parts
        folders = [root.joinpath(*parts[:n]) for n in range(1, len(parts))]
        if namespaces or all((folder / "__init__.py").is_file() for folder in folders):
            names.add(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return names


def test_no_file_can_be_imported_under_two_names():
    for module, path in FILES.items():
        assert names_of(path, IMPORT_ROOTS, namespaces=False) == {module}, path


def test_no_file_is_imported_by_the_name_that_a_folder_without_init_would_give_it():
    others = {
        name for module, path in FILES.items() for name in names_of(path, IMPORT_ROOTS, namespaces=True) - {module, ""}
    }
    for folder in ("aucstream", "service", "tests", "benchmarks", "examples"):
        for path in (ROOT / folder).rglob("*.py"):
            named = {part for source, name in imported_names("", path) for part in (source, f"{source}.{name}")}
            assert not named & others, path


# -- the tests' own tools ----------------------------------------------------------------------------


@pytest.fixture
def package(tmp_path):
    """Return a function that writes files and returns the modules of package `p`."""

    def write(**files: str) -> dict[str, Path]:
        for name, text in files.items():
            path = tmp_path / "p" / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return modules({"p": tmp_path / "p"})

    return write


def test_the_graph_has_every_form_of_import(package):
    files = package(
        **{"__init__": "", "low": "", "room/__init__": "from . import inner", "room/inner": "from .. import low"},
        by_name="from p.low import x",
        by_module="from p import low",
        by_package="from p import VERSION",
        by_path="import p.low as z, p.room.inner",
        by_relative="from .room.inner import x",
        by_function="def f():\n    if x:\n        from p import low",
        by_type="if TYPE_CHECKING:\n    from p.low import X",
        outside="import os\nfrom q import low",
    )
    assert import_graph(files) == {
        "p": set(),
        "p.low": set(),
        "p.room": {"p.room.inner"},
        "p.room.inner": {"p.low"},
        "p.by_name": {"p.low"},
        "p.by_module": {"p.low"},
        "p.by_package": {"p"},
        "p.by_path": {"p.low", "p.room.inner"},
        "p.by_relative": {"p.room.inner"},
        "p.by_function": {"p.low"},
        "p.by_type": {"p.low"},
        "p.outside": set(),
    }


def test_circles_are_the_sets_of_files_that_reach_each_other():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a", "g"}, "g": set(), "h": {"h"}}
    assert sorted(map(sorted, circles(graph))) == [["a", "b", "c"], ["d", "e"], ["h"]]


def test_a_stray_init_or_a_second_root_gives_a_file_a_second_name(tmp_path):
    file = tmp_path / "service" / "p" / "m.py"
    file.parent.mkdir(parents=True)
    file.touch()
    (file.parent / "__init__.py").touch()
    roots = {tmp_path, tmp_path / "service"}
    assert names_of(file, roots, namespaces=False) == {"p.m"}
    assert names_of(file, roots, namespaces=True) == {"p.m", "service.p.m"}
    assert names_of(file, roots | {file.parent}, namespaces=False) == {"p.m", "m"}
    (tmp_path / "service" / "__init__.py").touch()
    assert names_of(file, roots, namespaces=False) == {"p.m", "service.p.m"}
