"""Checks of an installed distribution: `python -I core.py core|service FOLDER`. Standard library only.

`core`: the library and its commands work without any extra, and what an extra brings is refused with the command
that installs it. `service`: the service starts, learns, scores and stops. FOLDER takes the files that are made.
"""

import importlib.util
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROWS = 400
REFUSED = 2
READY_SECONDS = 240  # kernels are compiled at the first start on a machine
OPTIONAL = {
    "service": [
        *("apsw", "fastapi", "httptools", "prometheus_client", "pydantic_settings"),
        *("starlette", "uvicorn", "uvloop"),
    ],
    "client": ["anyio", "httpx"],
    "arrow": ["pyarrow"],
    "plot": ["matplotlib"],
    "dev": ["hypothesis", "pandas", "pytest", "sklearn"],
}
COMMAND = Path(sys.executable).with_name("aucstream")


def main(part: str, folder: Path) -> None:
    """Run the checks of one part; an AssertionError says what does not hold."""
    import aucstream

    assert Path(aucstream.__file__).is_relative_to(sys.prefix), aucstream.__file__
    assert importlib.util.find_spec("service") is None, "a top-level module `service` is installed"
    installed = {
        extra: [name for name in names if importlib.util.find_spec(name) is not None]
        for extra, names in OPTIONAL.items()
    }
    if part == "core":
        assert not any(installed.values()), installed
        check_library()
        check_commands(folder)
        check_refusals(folder)
    else:
        assert installed["service"] == OPTIONAL["service"], installed
        check_service(folder)
    print(f"{part}: sound")


# -- the core --------------------------------------------------------------------------------------


def check_library() -> None:
    """Learn dicts in a pipeline of River, arrays, and sparse rows; save and load."""
    import numpy as np
    from river import preprocessing
    from scipy import sparse

    from aucstream import PSAM, from_bytes
    from aucstream.metrics import AUC

    model, auc = preprocessing.StandardScaler() | PSAM(), AUC()
    for x, y in rows():
        auc.update(y, model["PSAM"].score_one(x))
        model.learn_one(x, y)
    assert auc.get() > 0.7, auc.get()
    X = np.array([list(x.values()) for x, _ in rows()])
    y = np.array([label for _, label in rows()])
    for data in (X, sparse.csr_array(X)):
        learner = PSAM().partial_fit(data, y)
        copy = from_bytes(learner.to_bytes())
        assert np.array_equal(copy.decision_function(data), learner.decision_function(data))


def check_commands(folder: Path) -> None:
    """Run each command of the library on a small CSV file."""
    import zstandard

    data, model = folder / "data.csv", folder / "model.safetensors"
    lines = ["a,b,y", *(f"{x['a']},{x['b']},{int(y)}" for x, y in rows())]
    data.write_text("\n".join(lines) + "\n")
    packed = folder / "packed.csv.zst"
    packed.write_bytes(zstandard.ZstdCompressor().compress(data.read_bytes()))
    options = ("--label", "y", "--model", "psam")
    for name in (data, packed):
        result = json.loads(aucstream("evaluate", name, *options, "--json"))
        assert result["rows"] == ROWS, result
        assert result["progressive_auc"] > 0.7, result
    assert "psam" in aucstream("evaluate", data, *options)
    assert f"{ROWS} rows" in aucstream("train", data, *options, "--out", model)
    scores = [json.loads(line) for line in aucstream("score", model, data, "--label", "y").splitlines()]
    assert len(scores) == ROWS, len(scores)
    assert all(0 < score["probability"] < 1 for score in scores)
    facts = json.loads(aucstream("inspect", model, "--json"))
    assert (facts["algorithm"], facts["examples"]) == ("psam", ROWS), facts
    assert {weight["name"] for weight in facts["weights"]} == {"a", "b"}, facts
    assert "psam" in aucstream("models")
    assert "warm: psam" in aucstream("warm", "--model", "psam")
    assert aucstream("keys", "create", "--data-dir", folder / "keys").startswith("auc_")
    assert len(aucstream("keys", "list", "--data-dir", folder / "keys").splitlines()) == 1


def check_refusals(folder: Path) -> None:
    """Ask for what each extra brings: one sentence, with the command that installs it."""
    data, parquet = folder / "data.csv", folder / "data.parquet"
    parquet.write_bytes(b"PAR1")
    options = ("--label", "y", "--model", "psam")
    commands = (
        ("service", ("serve",)),
        ("service", ("serve", "--help")),
        ("service", ("fsck", folder)),
        ("plot", ("evaluate", data, *options, "--plot", folder / "auc.png")),
        ("arrow", ("evaluate", parquet, *options)),
    )
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda command: run(*command), (command for _, command in commands)))
    for (extra, command), done in zip(commands, results, strict=True):
        assert (done.returncode, done.stdout) == (REFUSED, ""), (command, done)
        assert len(done.stderr.splitlines()) == 1, (command, done.stderr)
        assert f'pip install "aucstream[{extra}]"' in done.stderr, (command, done.stderr)
    done = subprocess.run([sys.executable, "-I", "-c", "import aucstream.client"], capture_output=True, text=True)
    assert done.returncode == 1, done
    assert 'ModuleNotFoundError: aucstream.client needs httpx: pip install "aucstream[client]"' in done.stderr, done


# -- the service -----------------------------------------------------------------------------------


def check_service(folder: Path) -> None:
    """Start the service, let a model learn and score one row, stop it, check its data directory."""
    data = folder / "service"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    base = f"http://127.0.0.1:{port}"
    with (folder / "service.log").open("w+") as log:
        arguments = [COMMAND, "serve", "--port", str(port), "--data-dir", data]
        service = subprocess.Popen(arguments, cwd=folder, stderr=log)
        try:
            wait_ready(service, base)
            assert call(f"{base}/v1/models/clicks", {"algorithm": "psam"}, method="PUT")["name"] == "clicks"
            row = {"features": {"a": 1.5, "b": "x"}}
            learned = call(f"{base}/v1/models/clicks/learn-one", {**row, "label": True})
            assert (learned["seq"], learned["duplicate"]) == (1, False), learned
            assert call(f"{base}/v1/models/clicks/predict-one", row)["seq"] == 1
            service.send_signal(signal.SIGTERM)
            assert service.wait(60) == 0
        except BaseException:
            log.seek(0)
            print(log.read(), file=sys.stderr)
            raise
        finally:
            if service.poll() is None:
                service.kill()
                service.wait()
    assert aucstream("fsck", data).splitlines()[-1] == "sound"


def wait_ready(service: subprocess.Popen[bytes], base: str) -> None:
    """Return when the service is ready; it must not end before."""
    until = time.monotonic() + READY_SECONDS
    while time.monotonic() < until:
        assert service.poll() is None, f"the service ended with status {service.returncode}"
        try:
            with urllib.request.urlopen(f"{base}/readyz", timeout=5):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.1)
    raise AssertionError(f"the service was not ready within {READY_SECONDS} s")


def call(url: str, body: object, method: str = "POST") -> dict[str, object]:
    """Send JSON, return the JSON of the answer."""
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers, method=method)
    with urllib.request.urlopen(request, timeout=READY_SECONDS) as response:
        return dict(json.load(response))


# -- shared ----------------------------------------------------------------------------------------


def rows() -> list[tuple[dict[str, float], bool]]:
    """Return rows of two features, the same at each call; positives are larger on average in both."""
    draw = random.Random(1)
    labels = [draw.random() < 0.3 for _ in range(ROWS)]
    return [({"a": draw.gauss(1.5 * y, 1.0), "b": draw.gauss(0.5 * y, 1.0)}, y) for y in labels]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run `aucstream ARGUMENTS` as it was installed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [str(COMMAND), *map(str, arguments)], cwd=COMMAND.parent, env=environment, capture_output=True, text=True
    )


def aucstream(*arguments: object) -> str:
    """Run a command that must succeed; return its output."""
    done = run(*arguments)
    assert done.returncode == 0, (arguments, done.returncode, done.stderr)
    return done.stdout


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
