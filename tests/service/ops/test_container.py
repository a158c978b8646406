"""The container's entry point where no container engine is: another user, a read-only tree, no home."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.service.running import ROOT, free_port

pytestmark = pytest.mark.xdist_group("image")  # made once: it compiles

NOBODY = 65534
ENTRY = "aucstream_service.ops.container"
DOCKERFILE = (ROOT / "Dockerfile").read_text()

# Prints the hits and misses of numba's cache, over all kernels, after a model has learned and scored rows.
COUNT_HITS = """
import gc
from numba.core.dispatcher import Dispatcher
import aucstream
model = aucstream.Pipeline(aucstream.AutoScale(), aucstream.SOLAM())
for number in range(40):
    model.learn_one({"a": number * 0.5, "b": 1.0}, number % 2 == 0)
model.score_one({"a": 1.0})
found = [f for f in gc.get_objects() if isinstance(f, Dispatcher) and f.py_func.__module__.startswith("aucstream.")]
print(sum(sum(f.stats.cache_hits.values()) for f in found), sum(sum(f.stats.cache_misses.values()) for f in found))
"""


@dataclass
class Image:
    """What the image has at run time: a package tree and compiled kernels, neither writable."""

    folder: Path
    python: str
    user: int | None

    @property
    def tree(self) -> Path:
        return self.folder / "tree"

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    def private(self, name: str) -> Path:
        """Return a fresh folder that belongs to the container's user."""
        made = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.folder))
        if self.user is not None:
            os.chown(made, self.user, self.user)
        return made

    def environment(self, **more: str) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": "/nonexistent",
            "PYTHONPATH": os.pathsep.join([str(self.tree), sysconfig.get_path("purelib")]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "NUMBA_CPU_NAME": "generic",
            "AUCSTREAM_IMAGE_CACHE": str(self.cache),
            **more,
        }

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.python, *arguments],
            cwd="/",
            env=self.environment(**environment),
            user=self.user,
            group=self.user,
            extra_groups=None if self.user is None else [],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def python_for_nobody() -> str | None:
    """Return an interpreter that another user may run: this one may lie in a closed home."""
    if os.getuid() != 0:
        return None
    name = "python{}.{}".format(*sys.version_info[:2])
    for python in (sys.executable, f"/usr/local/bin/{name}", f"/usr/bin/{name}"):
        environment = {"PYTHONPATH": sysconfig.get_path("purelib")}
        try:
            subprocess.run(
                [python, "-c", "import numba"], cwd="/", env=environment, user=NOBODY, group=NOBODY, check=True
            )
        except (OSError, subprocess.CalledProcessError):
            continue
        return python
    return None


def set_writable(folder: Path, writable: bool) -> None:
    for path in [folder, *folder.rglob("*")]:
        mode = path.stat().st_mode
        path.chmod(mode | 0o200 if writable else mode & ~0o222)


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    """A copy of the packages as the image has them, with the kernels of one learner compiled."""
    folder = Path(tempfile.mkdtemp(prefix="aucstream-image-"))  # pytest's own folders are closed to other users
    folder.chmod(0o755)
    python = python_for_nobody()
    made = Image(folder, python or sys.executable, NOBODY if python else None)
    for package in ("aucstream", "service/aucstream_service"):
        source = ROOT / package
        shutil.copytree(source, made.tree / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in made.tree.rglob("*.py"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    warmed = subprocess.run(
        [made.python, "-m", "aucstream", "warm", "--model", "solam"],
        cwd="/",
        env=made.environment(AUCSTREAM_CACHE_DIR=str(made.cache)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert warmed.stdout.splitlines()[0] == "warm: solam"
    assert f"cache: {made.cache}" in warmed.stdout
    set_writable(made.folder / "tree", False)
    set_writable(made.cache, False)
    yield made
    set_writable(folder, True)
    shutil.rmtree(folder)


def kernels(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*.nb[ic]")}


def wait_ready(service: subprocess.Popen[str], base: str, seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        assert service.poll() is None, service.communicate()
        try:
            if httpx.get(f"{base}/readyz").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise AssertionError("not ready in time")


def stopped(service: subprocess.Popen[str]) -> str:
    service.send_signal(signal.SIGTERM)
    _, log = service.communicate(timeout=60)
    assert service.returncode == 0, log
    return log


def health(image: Image, port: int) -> int:
    check = image.start("-m", "aucstream_service.ops.health", AUCSTREAM_PORT=str(port))
    check.communicate(timeout=60)
    return check.returncode


@pytest.mark.slow
def test_the_service_starts_from_a_read_only_tree_and_compiles_nothing_again(image: Image) -> None:
    cache, data, port = image.private("run"), image.private("data"), free_port()
    before = kernels(image.cache)
    assert before
    service = image.start(
        "-m",
        ENTRY,
        AUCSTREAM_CACHE_DIR=str(cache),
        AUCSTREAM_DATA_DIR=str(data),
        AUCSTREAM_PORT=str(port),
    )
    try:
        base = f"http://127.0.0.1:{port}"
        wait_ready(service, base)
        start = time.monotonic()
        model = f"{base}/v1/models/clicks"
        assert httpx.put(model, json={"algorithm": "solam"}, timeout=120).status_code == 201
        for label in (True, False):
            learned = httpx.post(f"{model}/learn-one", json={"features": {"a": 1, "b": "x"}, "label": label})
            assert learned.status_code == 200, learned.text
        assert httpx.post(f"{model}/predict-one", json={"features": {"a": 1}}).status_code == 200
        assert httpx.post(f"{model}/learn-many", json=[{"features": {"c": 2}, "label": True}]).status_code == 200
        assert time.monotonic() - start < 15  # compiling takes longer
        assert health(image, port) == 0
    finally:
        log = stopped(service)
    assert f"cache: kernels from {image.cache} at {cache}" in log
    assert health(image, port) == 1
    assert kernels(cache) == before


@pytest.mark.slow
def test_the_image_of_these_tests_cannot_be_written_by_its_user(image: Image) -> None:
    if image.user is None:
        pytest.skip("not root, or no interpreter that another user may run: the entry point ran as this user")
    writing = "import pathlib, sys; pathlib.Path(sys.argv[1], 'x').touch()"
    for folder in (image.tree / "aucstream", image.cache):
        _, err = image.start("-c", writing, str(folder)).communicate(timeout=60)
        assert "PermissionError" in err


@pytest.mark.slow
def test_numba_takes_the_copied_kernels_for_its_own(image: Image) -> None:
    cache = image.private("hits")
    prepare = f"import sys, pathlib, {ENTRY} as c; print(c.prepare_cache(*map(pathlib.Path, sys.argv[1:])))"
    out, err = image.start("-c", prepare, str(image.cache), str(cache)).communicate(timeout=60)
    assert out.startswith("cache: kernels from"), err
    counting = image.start("-c", COUNT_HITS, AUCSTREAM_CACHE_DIR=str(cache))
    out, err = counting.communicate(timeout=120)
    assert counting.returncode == 0, err
    hits, misses = map(int, out.split())
    assert hits > 5
    assert misses == 0


@pytest.mark.slow
def test_where_nothing_can_be_written_it_starts_uncached_and_says_so(image: Image) -> None:
    data, port = image.private("data"), free_port()
    blocked = image.private("blocked") / "file"
    blocked.write_text("a file, not a folder: nobody can write below it, root neither")
    cache = blocked / "cache"
    service = image.start(
        "-m",
        ENTRY,
        "--data-dir",
        str(data),
        "--port",
        str(port),
        AUCSTREAM_CACHE_DIR=str(cache),
    )
    try:
        wait_ready(service, f"http://127.0.0.1:{port}")
    finally:
        log = stopped(service)
    assert f"cache: {cache} cannot be written" in log
    assert "kernels are compiled anew" in log
    assert "Traceback" not in log


def test_without_kernels_in_the_image_it_says_so(tmp_path: Path) -> None:
    from aucstream_service.ops.container import prepare_cache

    said = prepare_cache(tmp_path / "none", tmp_path / "cache")
    assert said == f"cache: the image has none at {tmp_path / 'none'}; kernels are compiled at start"
    assert not (tmp_path / "cache").exists()


def test_the_entry_point_refuses_what_the_service_refuses(tmp_path: Path) -> None:
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            ENTRY,
            "--host",
            "0.0.0.0",
            "--data-dir",
            str(tmp_path / "data"),
        ],
        cwd=ROOT,
        env={**os.environ, "AUCSTREAM_IMAGE_CACHE": str(tmp_path / "none")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert "--insecure" in ended.stderr
    assert "Traceback" not in ended.stderr


# -- the Dockerfile, read --------------------------------------------------------------------------


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"(?m)^#.*\n", "", DOCKERFILE).replace("\\\n", " ")
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in text.splitlines() if line.strip()]


def last_stage() -> list[tuple[str, str]]:
    told = instructions()
    starts = [at for at, (word, _) in enumerate(told) if word == "FROM"]
    return told[starts[-1] :]


def test_the_image_is_built_in_stages_and_its_last_one_only_copies() -> None:
    assert sum(word == "FROM" for word, _ in instructions()) == 2
    assert any(word == "COPY" and "--from=build" in rest for word, rest in last_stage())
    assert not any("pip" in rest for _, rest in last_stage())


def test_the_image_runs_as_a_user_that_is_not_root() -> None:
    users = [rest for word, rest in last_stage() if word == "USER"]
    assert users
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", users[-1])
    told = last_stage()
    entry = next(at for at, (word, _) in enumerate(told) if word == "ENTRYPOINT")
    assert max(at for at, (word, _) in enumerate(told) if word == "USER") < entry


def test_insecure_is_said_by_who_runs_the_image_and_never_in_it() -> None:
    assert "insecure" not in DOCKERFILE.lower()
    runs = [line for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("docker run")]
    assert len(runs) == 1
    assert runs[0].endswith(" aucstream --insecure")
    assert "--read-only" in runs[0]


def test_the_health_check_needs_nothing_but_python() -> None:
    checks = [rest for word, rest in instructions() if word == "HEALTHCHECK"]
    assert len(checks) == 1
    assert checks[0].endswith('CMD ["python", "-m", "aucstream_service.ops.health"]')


def test_the_image_starts_at_the_entry_point_of_these_tests() -> None:
    assert [rest for word, rest in last_stage() if word == "ENTRYPOINT"] == [f'["python", "-m", "{ENTRY}"]']


def test_every_file_that_the_image_copies_is_sent_to_its_build() -> None:
    sent = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = [
        name for word, rest in instructions() if word == "COPY" and "--from" not in rest for name in rest.split()[:-1]
    ]
    assert copied
    for name in copied:
        assert (ROOT / name).exists(), name
        assert any(name == path or name.startswith(f"{path}/") for path in sent), name


def test_the_image_has_the_pinned_runtime_and_nothing_for_development() -> None:
    assert "--require-hashes -r requirements.lock" in DOCKERFILE
    assert "requirements-dev" not in DOCKERFILE
    copied = {word for kind, rest in instructions() if kind == "COPY" for word in rest.split()}
    assert "." not in copied
    assert "tests" not in copied


def test_kernels_are_compiled_in_the_build_for_any_processor_of_the_kind() -> None:
    build = "\n".join(f"{word} {rest}" for word, rest in instructions()[: -len(last_stage())])
    assert "aucstream warm" in build
    final = "\n".join(f"{word} {rest}" for word, rest in last_stage())
    for stage in (build, final):
        assert "NUMBA_CPU_NAME=generic" in stage
    from aucstream_service.ops.container import IMAGE_CACHE

    assert f"AUCSTREAM_CACHE_DIR={IMAGE_CACHE}" in build
