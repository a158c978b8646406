"""The pages for users: their Python runs, their calls are answered, their options exist."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import typer.main

from aucstream.cli.commands import app
from aucstream.constraints import rules_of
from aucstream.errors import InvalidParams
from aucstream.learners._base.state import PoolVal
from aucstream.registry import LEARNERS, learner_class, make
from aucstream_service.settings import Settings
from tests.data import ROOT
from tests.service.running import Local

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NEEDS_SERVICE = "<!-- needs a running service -->"
ADDRESS = re.compile(r"(?:localhost|127\.0\.0\.1):8000")
FENCE = re.compile(r"(?:(<!-- [^\n]+ -->)\n)?```(\w*)\n(.*?)\n```", re.DOTALL)


class Code(NamedTuple):
    """A fenced block of a page."""

    mark: str  # the comment on the line above, if any
    language: str
    text: str
    line: int


def blocks(page: Path) -> list[Code]:
    text = page.read_text()
    return [
        Code(match[1] or "", match[2], match[3], text.count("\n", 0, match.start(3))) for match in FENCE.finditer(text)
    ]


def names(pages: list[Path]) -> list[str]:
    return [page.relative_to(ROOT).as_posix() for page in pages]


def with_python(*, service: bool) -> list[str]:
    """Return the pages that have Python of the kind that needs a service, or of the kind that does not."""
    return names(
        [
            page
            for page in PAGES
            if any(code.language == "python" and (code.mark == NEEDS_SERVICE) == service for code in blocks(page))
        ]
    )


def commands(page: Path) -> list[list[str]]:
    """Return the words of each command in the shell blocks of a page."""
    lines = [
        line
        for code in blocks(page)
        if code.language == "sh"
        for line in code.text.replace("\\\n", " ").splitlines()
        if line.strip()
    ]
    return [shlex.split(line, comments=True) for line in lines]


def execute(code: Code, page: str, namespace: dict[str, Any], text: str | None = None) -> None:
    exec(compile("\n" * code.line + (text or code.text), page, "exec"), namespace)


@pytest.mark.parametrize("page", with_python(service=False))
def test_the_python_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for code in blocks(ROOT / page):
        if code.language == "python" and code.mark != NEEDS_SERVICE:
            execute(code, page, namespace)


def test_only_one_mark_keeps_a_block_from_being_run_alone():
    marks = {code.mark for page in PAGES for code in blocks(page) if code.mark}
    assert marks == {NEEDS_SERVICE}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    running = Local(tmp_path_factory.mktemp("docs") / "data")
    yield running
    running.stop()


def curl(words: list[str], port: int) -> httpx.Response:
    """Make the call that a documented `curl` command makes."""
    method, headers, body, url = "GET", {}, None, ""
    rest = iter(words[1:])
    for word in rest:
        if word == "-X":
            method = next(rest)
        elif word == "-H":
            name, _, value = next(rest).partition(": ")
            headers[name] = value
        elif word == "-d":
            body = next(rest)
        else:
            assert not word.startswith("-"), word
            url = "http://" + ADDRESS.sub(f"127.0.0.1:{port}", word)
    return httpx.request(method, url, headers=headers, content=body, timeout=120)


@pytest.mark.parametrize("page", names([page for page in PAGES if any(w[0] == "curl" for w in commands(page))]))
def test_the_calls_of_a_page_are_answered(page, service):
    service.http.delete("/v1/models/clicks")
    for words in commands(ROOT / page):
        if words[0] == "curl":
            answer = curl(words, service.port)
            assert answer.is_success, f"{shlex.join(words)}: {answer.text}"


@pytest.mark.parametrize("page", with_python(service=True))
def test_the_python_that_calls_the_service_runs(page, service):
    service.http.delete("/v1/models/clicks")
    assert service.create("clicks", algorithm="psam").status_code == 201
    for code in blocks(ROOT / page):
        if code.language == "python" and code.mark == NEEDS_SERVICE:
            text, changed = ADDRESS.subn(f"127.0.0.1:{service.port}", code.text)
            assert changed == 1
            execute(code, page, {"__name__": "__main__"}, text)
    assert service.describe("clicks")["examples"] > 0


def cli_options() -> dict[str, set[str]]:
    """Return the options of each command of the command line, those of a group's commands with it."""

    def options(command: Any) -> set[str]:
        found = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        return found.union({"--help"}, *(options(one) for one in getattr(command, "commands", {}).values()))

    group: Any = typer.main.get_command(app)
    return {name: options(command) for name, command in group.commands.items()}


def flags() -> set[str]:
    """Return the flags of the service."""
    named = {name.replace("_", "-"): field.annotation for name, field in Settings.model_fields.items()}
    return {"--help", *(f"--{name}" for name in named), *(f"--no-{name}" for name in named if named[name] is bool)}


@pytest.mark.parametrize("page", names(PAGES))
def test_documented_commands_have_the_options_that_they_are_given(page):
    options = {**cli_options(), "serve": flags()}
    for words in commands(ROOT / page):
        if words[0] == "aucstream":
            assert words[1] in options, words
            given = {word for word in words[2:] if word.startswith("--")}
            assert given <= options[words[1]], words


@pytest.mark.parametrize("page", names(PAGES))
def test_options_that_a_page_names_exist(page):
    known = flags().union(*cli_options().values())
    for line in (ROOT / page).read_text().splitlines():
        if line.startswith("docker ") or "benchmarks/" in line:
            continue
        assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*\w", line)) <= known, line


def test_benchmarks_that_a_page_names_exist():
    pages = [*PAGES, *(ROOT / "docs/lab").glob("*.md"), *(ROOT / "benchmarks").rglob("*.md")]
    named = {name for page in pages for name in re.findall(r"benchmarks/[\w/]+\.(?:py|c)\b", page.read_text())}
    assert len(named) > 10
    assert {name for name in named if not (ROOT / name).is_file()} == set()


def test_the_walks_of_the_architecture_stop_at_files():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    named = set(re.findall(r"`((?:aucstream|service|tests)/[\w./]*)`", text))
    assert len(named) > 20
    assert {name for name in named if not (ROOT / name).exists()} == set()
    for walk in text.split("\n## Walk")[1:]:
        stops = re.findall(r"(?m)^(\d+)\. `[\w/]+\.py`: ", walk.split("\n## ")[0])
        assert [int(number) for number in stops] == list(range(1, len(stops) + 1))
        assert 3 <= len(stops) <= 10


def test_no_page_counts_the_learners_which_a_new_one_would_make_false():
    counted = re.compile(rf"\b{len(LEARNERS)} (?:learners|algorithms)\b")
    assert [name for name in names(PAGES) if counted.search((ROOT / name).read_text())] == []


def test_every_page_for_users_is_named_in_the_readme():
    readme = (ROOT / "README.md").read_text()
    assert [name for name in names(PAGES[1:]) if f"({name})" not in readme] == []


def test_every_learner_has_one_line_in_the_page_of_learners():
    table = (ROOT / "docs" / "learners.md").read_text().split("## All learners\n")[1]
    lines = re.findall(r"(?m)^\| `(\w+)` \| [^|]+ \| [^|]+ \| [^|]+ \|$", table)
    assert sorted(lines) == sorted(entry.class_name for entry in LEARNERS.values())


def test_operations_names_the_learners_whose_snapshots_have_values_of_rows():
    known = {}
    for name in LEARNERS:
        cls = learner_class(name)
        choices = [*cls._unit_test_params(), *({key: 4} for key, rule in rules_of(cls).items() if rule.optional)]
        for params in choices:
            with contextlib.suppress(InvalidParams):
                program = getattr(make(name, params), "_program", None)
                parts = program.parts.values() if program is not None else ()
                known.setdefault(cls.__name__, set()).add(any(isinstance(part, PoolVal) for part in parts))
    text = (ROOT / "docs/operations.md").read_text()
    said = re.search(r"Learners that buffer rows \(([^)]+)\)", text)[1].replace("\n", " ").split(", ")
    expected = {name for name, values in known.items() if values == {True}}
    expected |= {f"{name} with `sampled_pairs`" for name, values in known.items() if values == {True, False}}
    assert set(said) == expected
    assert len(said) == len(expected)
