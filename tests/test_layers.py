"""Imports point down only; numba is named in five files."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted([*(ROOT / "aucstream").rglob("*.py"), *(ROOT / "service").rglob("*.py")])

# From the bottom up. A room may import its own rank and those below; `metrics` lends learners its parts.
RANKS = {
    "errors": 0,
    "kernels": 1,
    "constraints": 1,
    "block": 1,
    "snapshot": 1,
    "learners": 2,
    "batch": 2,
    "features": 2,
    "metrics": 2,
    "registry": 3,
    "client": 3,
    "io": 3,
    "steps": 3,
    "loading": 4,
    "pipeline": 4,
    "evaluate": 4,
    "warmup": 5,
    "cli": 6,
    "__main__": 7,
}
# The package itself only names where things are; a learner reads what a file's rows look like.
ALLOWED_UP = {("learners/face.py", "aucstream.io.rows")}


def imports(path: Path) -> set[str]:
    """Return every module that a file imports, but for type checkers only."""
    found: set[str] = set()

    def walk(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if isinstance(child, ast.Import):
                found.update(alias.name for alias in child.names)
            elif isinstance(child, ast.ImportFrom) and child.level == 0 and child.module:
                found.add(child.module)
                found.update(f"{child.module}.{alias.name}" for alias in child.names)
            walk(child)

    walk(ast.parse(path.read_text()))
    return found


def room(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down(path):
    own = path.relative_to(ROOT)
    if own.parts[0] == "service" or own.as_posix() == "aucstream/__init__.py":
        return
    here = own.with_suffix("").parts[1]
    assert here in RANKS, f"{here}: say where it stands in RANKS"
    for module in imports(path):
        if not module.startswith("aucstream.") or room(module) not in RANKS:
            continue
        if ("/".join(own.parts[1:]), module) in ALLOWED_UP:
            continue
        assert RANKS[room(module)] <= RANKS[here], f"{own} imports {module}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_numba_is_imported_in_five_files_and_the_library_never_imports_the_service(path):
    own = path.relative_to(ROOT).as_posix()
    found = imports(path)
    if own not in (f"aucstream/kernels/{name}.py" for name in ("digest", "jit", "lanes", "memory", "words")):
        assert not {m for m in found if m.split(".")[0] in ("numba", "llvmlite")}, own
    if own.startswith("aucstream/") and not own.startswith("aucstream/cli"):
        assert not {m for m in found if m.split(".")[0] in ("service", "fastapi", "uvicorn", "starlette", "typer")}, own


def test_learners_do_not_import_each_other():
    shared = {"base", "face", "merging", "one_row", "saddle", "sampled", "state", "units", "univariate", "windowed"}
    for path in (ROOT / "aucstream" / "learners").glob("*.py"):
        others = {m.split(".")[2] for m in imports(path) if m.startswith("aucstream.learners.")}
        assert others <= shared | {path.stem}, path.name


def test_the_walk_sees_imports_inside_functions():
    assert "scipy.sparse" in imports(ROOT / "aucstream" / "features" / "intake.py")
