"""The main job in one run: start the service, let a model learn a real stream over HTTP, show its AUC.

The stream is River's Phishing data set. Half-way the service is killed without warning and started
again on the same data directory: it comes back knowing everything.

    python examples/quickstart.py
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from typing import Any

from river import datasets


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def call(base: str, method: str, path: str, body: Any = None) -> Any:
    request = urllib.request.Request(
        base + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=300) as answer:
        return json.load(answer)


def start(port: int, folder: str) -> subprocess.Popen[bytes]:
    """Start the service and wait until it is ready (a first start may compile kernels)."""
    command = [sys.executable, "-m", "aucstream", "serve", "--port", str(port), "--data-dir", folder]
    service = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    for _ in range(1200):
        if service.poll() is not None:
            sys.exit(f"the service stopped at once; run `{' '.join(command)}` to see why")
        try:
            call(f"http://127.0.0.1:{port}", "GET", "/readyz")
        except (urllib.error.URLError, OSError):
            time.sleep(0.25)
        else:
            return service
    sys.exit("the service did not get ready within five minutes")


def report(base: str, rows: int) -> None:
    window = call(base, "GET", "/v1/models/phishing/evaluation")["window"]
    if window["ready"]:
        low, high = window["auc_low"], window["auc_high"]
        print(f"{rows:5d} rows learned   AUC {window['auc']:.4f}   95 % interval {low:.4f} to {high:.4f}")


def main() -> None:
    port = free_port()
    base = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory(prefix="aucstream-") as folder:
        print("compiling the kernels (once; later starts load them) …")
        subprocess.run(
            [sys.executable, "-m", "aucstream", "warm", "--model", "psam"], check=True, stdout=subprocess.DEVNULL
        )
        print("starting the service …")
        service = start(port, folder)
        try:
            call(base, "PUT", "/v1/models/phishing", {"algorithm": "psam"})
            stream = list(datasets.Phishing())
            for number, (features, label) in enumerate(stream, start=1):
                call(base, "POST", "/v1/models/phishing/learn-one", {"features": features, "label": label})
                if number % 250 == 0:
                    report(base, number)
                if number == len(stream) // 2:
                    print("      kill -9, and start again on the same data directory …")
                    service.send_signal(signal.SIGKILL)
                    service.wait()
                    service = start(port, folder)
            probe = call(base, "POST", "/v1/models/phishing/predict-one", {"features": stream[0][0]})
            known = call(base, "GET", "/v1/models/phishing")["examples"]
            print(f"{known} rows known; first row: score {probe['score']:.3f}, probability {probe['probability']:.3f}")
        finally:
            service.send_signal(signal.SIGTERM)
            if service.wait(timeout=60) != 0:
                sys.exit("the service did not stop cleanly")


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main()
