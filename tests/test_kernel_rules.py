"""Rules of compiled functions: documented, silent, and none that raises."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "aucstream"
FILES = [
    path
    for room in ("kernels", "native", "learners", "features", "metrics")
    for path in sorted((PACKAGE / room).rglob("*.py"))
]


def kernels(path: Path) -> list[ast.FunctionDef]:
    """Return the functions of a file that `jit` compiles."""
    return [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
        and any(ast.unparse(d) in ("jit", "jit_allocating", "jit_inlined", "jit_holding") for d in node.decorator_list)
    ]


FOUND = {f"{path.relative_to(PACKAGE)}:{node.name}": node for path in FILES for node in kernels(path)}


def test_there_are_kernels():
    assert len(FOUND) > 60


@pytest.mark.parametrize("name", FOUND)
def test_a_kernel_is_documented_silent_and_never_raises(name):
    node = FOUND[name]
    if not node.name.startswith("_"):
        assert ast.get_docstring(node), f"{name} has no docstring"
    for inner in ast.walk(node):
        assert not isinstance(inner, (ast.Raise, ast.Try, ast.Assert)), f"{name}: line {inner.lineno}"
        if isinstance(inner, ast.Call):
            assert ast.unparse(inner.func) not in ("print", "np.random.rand", "np.random.random"), name
