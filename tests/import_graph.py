"""Which file imports which: the graph of imports of the repository's packages, read from their sources."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


def modules(roots: dict[str, Path]) -> dict[str, Path]:
    """Return every module of some packages by its dotted name; `roots` are the folders of the packages."""
    files = {}
    for package, folder in roots.items():
        for path in sorted(folder.rglob("*.py")):
            parts = [package, *path.relative_to(folder).with_suffix("").parts]
            files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return files


@cache
def _statements(path: Path) -> tuple[ast.Import | ast.ImportFrom, ...]:
    return tuple(
        node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, (ast.Import, ast.ImportFrom))
    )


def imported_names(module: str, path: Path) -> set[tuple[str, str]]:
    """Return what a module imports as (module, name) pairs, for type checkers and inside functions too.

    The name is empty where a module is imported whole. Relative imports are resolved.
    """
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    names = set()
    for node in _statements(path):
        if isinstance(node, ast.Import):
            names |= {(alias.name, "") for alias in node.names}
            continue
        source = node.module or ""
        if node.level:
            base = package.split(".")[: len(package.split(".")) - node.level + 1]
            source = ".".join([*base, *filter(None, [source])])
        names |= {(source, alias.name) for alias in node.names}
    return names


def import_graph(files: dict[str, Path]) -> dict[str, set[str]]:
    """Return for every module those of `files` that it imports.

    `from package import submodule` counts as the submodule, `from package import name` as the package's own file.
    """
    graph: dict[str, set[str]] = {}
    for module, path in files.items():
        graph[module] = set()
        for source, name in imported_names(module, path):
            target = f"{source}.{name}" if f"{source}.{name}" in files else source
            if target in files:
                graph[module].add(target)
    return graph


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Return the sets of modules that import each other, by any way around (Tarjan's components)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        stack.append(module)
        for other in sorted(graph[module]):
            if other not in number:
                visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in stack:
                lowest[module] = min(lowest[module], number[other])
        if lowest[module] == number[module]:
            at = stack.index(module)
            component = set(stack[at:])
            del stack[at:]
            if len(component) > 1 or module in graph[module]:
                found.append(component)

    for module in sorted(graph):
        if module not in number:
            visit(module)
    return found
