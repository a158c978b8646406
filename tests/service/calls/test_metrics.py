"""/metrics and the log: what an operator's tools read (S25)."""

from __future__ import annotations

import gc
import io
import json
import logging
import math
import re
import shutil
import subprocess
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as prometheus

from aucstream_service.calls import metrics
from aucstream_service.storage import api_keys
from aucstream_service.telemetry.logs import COLLECT_SECONDS, MOST_LINES, Sink, logging_to
from tests.service.running import NDJSON, ROOT, Calls, Direct, Running
from tests.service.stream import lines, rows

OPEN = {"Accept": "application/openmetrics-text; version=1.0.0"}
Sample = tuple[str, tuple[tuple[str, str], ...]]


def scraped(service: Calls) -> dict[Sample, float]:
    """Return every sample by name and labels."""
    text = service.http.get("/metrics").text
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in prometheus(text)
        for sample in family.samples
    }


ALERTS = ROOT / "docs" / "alerts.yml"


def value(samples: dict[Sample, float], name: str, **labels: str) -> float:
    return samples[name, tuple(sorted(labels.items()))]


def promtool() -> str | None:
    local = ROOT / ".venv" / "promtool" / "usr" / "bin" / "promtool"
    return str(local) if local.exists() else shutil.which("promtool")


def test_both_formats_are_read_by_their_parsers(service: Running, model: str) -> None:
    service.post(model, "learn-many", rows(50))
    plain = service.http.get("/metrics")
    assert plain.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert plain.headers["cache-control"] == "no-store"
    families = list(prometheus(plain.text))
    answer = service.http.get("/metrics", headers=OPEN)
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert answer.text.endswith("# EOF\n")
    assert {family.name for family in open_metrics(answer.text)} == {
        family.name.removesuffix("_info") if family.type == "info" else family.name
        for family in open_metrics(answer.text)
    }
    names = {family.name for family in families}
    assert len(names) == len(families)
    for family in families:
        assert family.documentation, family.name
        assert re.fullmatch(r"(aucstream|process)_[a-z0-9_]*[a-z0-9]", family.name), family.name
        for sample in family.samples:
            assert sample.name.endswith("_total") == (family.type == "counter"), sample.name
    assert {
        "aucstream_build_info",
        "aucstream_durability_info",
        "aucstream_ready",
        "aucstream_queue_rows",
        "aucstream_journal_lag_rows",
        "aucstream_journal_commit_seconds",
        "aucstream_replayed_rows",
        "aucstream_model_auc",
        "aucstream_model_auc_low",
        "aucstream_model_snapshot_failures",
        "process_resident_memory_bytes",
        "process_cpu_seconds",
        "process_open_fds",
        "process_start_time_seconds",
    } <= names


@pytest.mark.skipif(promtool() is None, reason="no promtool; on Debian, .ci/tools fetches it as root")
def test_promtool_finds_nothing(service: Running, model: str) -> None:
    service.post(model, "learn-many", rows(50))
    text = service.http.get("/metrics").content
    tool = promtool()
    assert tool is not None
    checked = subprocess.run([tool, "check", "metrics"], input=text, capture_output=True, check=False)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")


@pytest.mark.skipif(promtool() is None, reason="no promtool; on Debian, .ci/tools fetches it as root")
def test_promtool_takes_the_alert_rules() -> None:
    tool = promtool()
    assert tool is not None
    checked = subprocess.run([tool, "check", "rules", str(ALERTS)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_each_metric_of_the_alert_rules_is_there(data_dir: Path) -> None:
    service = Direct(data_dir)
    service.create("m")
    service.post("m", "learn-many", [{**body, "id": f"e{n}"} for n, body in enumerate(rows(200))])
    service.post("m", "learn-one", {})
    service.sweep()
    text = service.http.get("/metrics").text
    names = {sample.name for family in prometheus(text) for sample in family.samples}
    names |= {"aucstream_connections_refused_total"}  # of a server
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) > 8
    for rule in rules:
        assert rule["annotations"]["summary"]
        metrics = set(re.findall(r"\baucstream_\w+", rule["expr"]))
        assert metrics, rule
        assert metrics <= names, metrics - names
    service.stop()


def test_what_fills_is_seen_before_it_is_full(data_dir: Path) -> None:
    now = 1.7e9
    service = Direct(data_dir, clock=lambda: now)
    service.create("m", encoder={"kind": "vocabulary", "capacity": 3}, pending={"capacity": 10}, scaler="none")

    def gauge(name: str) -> float:
        found = re.search(rf'^aucstream_model_{name}\{{model="m"\}} (\S+)$', service.http.get("/metrics").text, re.M)
        assert found is not None, name
        return float(found[1])

    def remarks() -> str:
        told = service.describe("m")["remarks"]
        assert service.http.get("/readyz").json()["remarks"] == [f"m: {remark}" for remark in told]
        return " | ".join(told)

    assert remarks() == ""
    service.learn("m", {"a": 1.0, "b": 2.0}, 1, id="first")
    now += 100
    service.learn("m", {"a": 1.0, "c": 2.0}, 0, id="second")
    service.sweep()
    assert gauge("vocabulary_names") == gauge("vocabulary_capacity") == 3
    assert gauge("vocabulary_names_dropped") == 0
    assert gauge("oldest_id_timestamp_seconds") == now - 100
    assert "3 of 3 names are there" in remarks()
    service.learn("m", {"d": 1.0, "e": 1.0}, 0)
    assert gauge("vocabulary_names_dropped") == 2
    assert "2 names were left out" in remarks()
    merge = {"Content-Type": "application/merge-patch+json"}
    assert service.http.patch("/v1/models/m", content='{"encoder":{"capacity":9}}', headers=merge).status_code == 200
    assert "vocabulary" not in remarks()  # a remedy ends what it was for
    for number in range(9):
        service.post("m", "predict-one", {"features": {"a": 1.0}, "id": f"p{number}"})
    assert "9 of 10 examples wait" in remarks()
    service.http.delete("/v1/models/m")

    service.create("m")
    service.post("m", "learn-many", [{"features": {"a": 1.0 * (row % 7)}, "label": 0} for row in range(1_000)])
    assert "all of 1000 rows were negative" in remarks()
    model = service.host.models["m"]
    model.score_magnitude = 1e9
    assert gauge("score_magnitude") == 1e9
    assert "magnitude is 1e+09" in remarks()
    model.counts.refuse("label-conflict", 500)
    assert "refusals: 500 since the start, most of them label-conflict (500)" in remarks()
    service.stop()


def test_the_magnitude_of_scores_follows_the_newest(data_dir: Path) -> None:
    service = Direct(data_dir)
    service.create("m")
    model = service.host.models["m"]
    for size in (2.0, -4.0):
        model._note_magnitude([size] * 10_000)
        assert model.score_magnitude == pytest.approx(abs(size), rel=0.01)
    model._note_magnitude([8.0] * 500 + [math.nan] * 100)
    model._note_magnitude([8.0] * 500)
    assert model.score_magnitude == pytest.approx(6.0, rel=0.01)
    service.stop()


def test_requests_are_counted_by_template_and_junk_shares_one_label(service: Running, model: str) -> None:
    learn = {"route": "/v1/models/{name}/learn-one", "method": "POST"}
    before = scraped(service)
    for body in rows(5):
        service.post(model, "learn-one", body)
    service.raw(f"/v1/models/{model}/learn-one", b"{")
    for number in range(20):
        service.http.get(f"/junk/{number}?key=secret{number}")
        service.http.get(f"/v1/models/junk-{number}")
        service.http.get(f"/v1/models/x/junk-{number}")
    service.http.request("PROPFIND", "/coffee")
    service.http.request("POST", "/livez")
    after = scraped(service)

    def rise(name: str, **labels: str) -> float:
        return value(after, name, **labels) - before.get((name, tuple(sorted(labels.items()))), 0.0)

    requests = "aucstream_http_requests_total"
    assert rise(requests, **learn, status="2xx") == 5
    assert rise(requests, **learn, status="4xx") == 1
    assert rise("aucstream_http_request_duration_seconds_count", **learn) == 6
    assert rise("aucstream_http_request_duration_seconds_bucket", **learn, le="+Inf") == 6
    assert rise(requests, route="unmatched", method="GET", status="4xx") == 40
    assert rise(requests, route="/v1/models/{name}", method="GET", status="4xx") == 20
    assert rise(requests, route="unmatched", method="other", status="4xx") == 1
    assert rise(requests, route="/livez", method="POST", status="4xx") == 1
    assert value(after, "aucstream_http_requests_in_flight") == 1  # the scrape itself
    labels = json.dumps([key for key in after if key[0] == requests])
    assert "junk" not in labels
    assert "secret" not in labels


def test_a_model_is_measured_while_it_lives(service: Running) -> None:
    service.create("measured", evaluation={"window": 100})
    bodies = [{**body, "id": f"e{number}"} for number, body in enumerate(rows(300))]
    service.post("measured", "learn-many", bodies)
    service.post("measured", "learn-many", bodies[:10])
    samples = scraped(service)
    evaluation = service.evaluation("measured")
    assert value(samples, "aucstream_model_examples_total", model="measured") == 300
    assert value(samples, "aucstream_model_positives_total", model="measured") == sum(body["label"] for body in bodies)
    assert value(samples, "aucstream_model_seq", model="measured") == 300
    for over in ("window", "total"):
        for member in ("auc", "auc_low", "auc_high"):
            assert value(samples, f"aucstream_model_{member}", model="measured", over=over) == evaluation[over][member]
    assert value(samples, "aucstream_model_auc_examples", model="measured", over="window") == 100
    assert value(samples, "aucstream_journal_commit_seconds_count") > 0
    assert value(samples, "aucstream_journal_lag_rows") == 0
    assert value(samples, "aucstream_ready") == 1
    assert value(samples, "aucstream_connections") >= 1
    assert value(samples, "aucstream_model_pending", model="measured") == 0
    assert value(samples, "aucstream_model_rows_total", model="measured", outcome="learned") == 300
    assert value(samples, "aucstream_model_rows_total", model="measured", outcome="duplicates") == 10
    service.http.delete("/v1/models/measured")
    assert "measured" not in service.http.get("/metrics").text


def entries(service: Running, request_id: str) -> list[dict[str, Any]]:
    """Return the lines of the log with a request id; each line of the log must be a JSON object."""
    until = time.monotonic() + 5
    while request_id not in service.log and time.monotonic() < until:
        time.sleep(0.02)
    documents = [json.loads(line) for line in service.log.splitlines()]
    return [entry for entry in documents if entry.get("request_id") == request_id]


def test_a_request_is_one_json_line_without_what_it_carried(service: Running, model: str) -> None:
    body = lines([{"features": {"feature-secret": 1.25e-7}, "label": 1, "id": "event-secret"}] * 3)
    answer = service.raw(
        f"/v1/models/{model}/learn-many?on_error=skip",
        body,
        {
            **NDJSON,
            "X-Request-ID": "one-line",
            "Authorization": "Bearer key-secret",
            "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        },
    )
    (entry,) = entries(service, "one-line")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", entry.pop("time"))
    assert 0 < entry.pop("seconds") < 60
    assert entry == {
        "level": "info",
        "logger": "aucstream.access",
        "request_id": "one-line",
        "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
        "route": "/v1/models/{name}/learn-many",
        "method": "POST",
        "status": 200,
        "bytes_in": len(body),
        "bytes_out": len(answer.content),
        "model": model,
        "rows": 3,
        "key": None,
    }
    for path in ("/v1/models/name-secret", "/v1/models/%22%0A/evaluation", f"/v1/models/{model}", "/path-secret"):
        service.http.get(path, headers={"X-Request-ID": "reads"})
    service.http.get("/livez", headers={"X-Request-ID": "last"})
    entries(service, "last")
    assert [(entry["route"], entry["model"], entry["status"]) for entry in entries(service, "reads")] == [
        ("/v1/models/{name}", None, 404),
        ("/v1/models/{name}/evaluation", None, 404),
        ("/v1/models/{name}", model, 200),
        ("unmatched", None, 404),
    ]
    assert "secret" not in service.log


def test_the_access_log_has_the_id_of_the_key_and_is_sampled(data_dir: Path) -> None:
    key, text = api_keys.create(data_dir / "keys.json", api_keys.Role.ADMIN, "mine")
    service = Running(data_dir, wait=False, access_log_share=0.25)
    service.http.headers["Authorization"] = f"Bearer {text}"
    service.wait_ready()
    service.create("m")
    for number in range(200):
        trace = {"traceparent": f"00-{number + 1:024x}{number * 21_474_836:08x}-00f067aa0ba902b7-01"}
        service.http.get("/v1/models/m", headers={**trace, "X-Request-ID": f"served-{number}"})
        service.http.get("/v1/models/none", headers={**trace, "X-Request-ID": f"refused-{number}"})
    service.http.get("/v1/models/none", headers={"X-Request-ID": "last"})
    entries(service, "last")
    found = [json.loads(line) for line in service.log.splitlines() if '"route"' in line]
    served = [entry for entry in found if entry["request_id"].startswith("served-")]
    assert [entry["request_id"] for entry in served] == [f"served-{number}" for number in range(51)]
    assert sum(entry["request_id"].startswith("refused-") for entry in found) == 200
    assert {entry["key"] for entry in served} == {key.id}
    assert text[13:] not in service.log
    assert 'aucstream_http_requests_total{method="GET",route="/v1/models/{name}",status="2xx"} 200.0' in (
        service.http.get("/metrics").text
    )
    assert service.stop() == 0


def test_models_with_metrics_of_their_own_are_chosen(data_dir: Path) -> None:
    def named(service: Direct) -> set[str]:
        return set(re.findall(r'aucstream_model_seq\{model="([^"]+)"\}', service.http.get("/metrics").text))

    service = Direct(data_dir, metrics_models="shop-*,one")
    for name in ("shop-a", "shop-b", "one", "two"):
        service.create(name)
    text = service.http.get("/metrics").text
    assert named(service) == {"shop-a", "shop-b", "one"}
    assert 'model="two"' not in text
    assert "aucstream_models 4.0" in text
    assert "aucstream_models_hidden 1.0" in text
    service.stop()
    service = Direct(data_dir, max_metrics_models=2)
    assert named(service) == {"one", "shop-a"}
    service.stop()


def test_errors_are_logged_by_type_and_place_in_both_formats() -> None:
    log = logging.getLogger("aucstream")
    messages = {}
    for form in ("json", "text"):
        stream = io.StringIO()
        with logging_to(stream, form, "warning", access=False) as access:
            assert access is None
            log.info("quiet")
            with warnings.catch_warnings():
                warnings.simplefilter("always")
                warnings.warn("value-secret", RuntimeWarning, stacklevel=1)  # as of a vocabulary that is full
            logging.getLogger("asyncio").error("never retrieved\nfuture: ValueError('value-secret')")
            try:
                float("value-secret")
            except ValueError as error:
                log.critical("model %s: it is set aside", "m", exc_info=error, extra={"request_id": "id"})
        messages[form] = stream.getvalue()
        assert "secret" not in messages[form]
        assert "quiet" not in messages[form]
    warned, _, entry = map(json.loads, messages["json"].splitlines())
    assert warned["message"].startswith("RuntimeWarning at ")
    assert (entry["level"], entry["message"], entry["request_id"]) == ("critical", "model m: it is set aside", "id")
    assert entry["error"]["type"] == "ValueError"
    assert "test_metrics.py" in entry["error"]["at"]
    assert re.search(
        r"\S+Z CRITICAL aucstream: model m: it is set aside request_id=id \(ValueError at ", messages["text"]
    )


def test_a_log_that_nobody_reads_loses_lines_and_counts_them() -> None:
    class Stuck(io.StringIO):
        def __init__(self) -> None:
            super().__init__()
            self.reading = threading.Event()

        def write(self, text: str) -> int:
            self.reading.wait()
            return super().write(text)

    stream = Stuck()
    sink = Sink(stream)
    sink.put("first\n")
    time.sleep(3 * COLLECT_SECONDS)  # the writer has taken it and waits
    for _ in range(MOST_LINES + 7):
        sink.put("line\n")
    assert sink.dropped == 7
    stream.reading.set()
    sink.close()
    assert stream.getvalue().count("\n") == MOST_LINES + 1


def test_no_garbage_is_looked_for_during_a_scrape(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look through all objects stops the loop; a scrape of a thousand models would bring several on."""
    service = Direct(data_dir)
    for number in range(30):
        service.create(f"m{number}")
    service.http.get("/metrics")
    started: list[bool] = []
    rendering: list[bool] = []
    choose = metrics.choose_encoder

    def spied(accept: str) -> tuple[Any, str]:
        encoder, kind = choose(accept)

        def render(registry: Any) -> bytes:
            rendering.append(gc.isenabled())
            return bytes(encoder(registry))

        return render, kind

    monkeypatch.setattr(metrics, "choose_encoder", spied)
    thresholds = gc.get_threshold()
    gc.callbacks.append(count := lambda phase, _: started.append(phase == "start" and bool(inside)))
    inside: list[bool] = []
    summarise = metrics.Reader.families

    async def families(self: Any) -> Any:
        inside.append(True)
        try:
            return await summarise(self)
        finally:
            inside.clear()

    monkeypatch.setattr(metrics.Reader, "families", families)
    try:
        gc.set_threshold(50, 2, 2)
        assert service.http.get("/metrics").status_code == 200
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(count)
    assert rendering == [False]
    assert not any(started)
    assert gc.isenabled()

    def broken(self: Any) -> Any:
        raise RuntimeError("no families")

    monkeypatch.setattr(metrics.Reader, "families", broken)
    assert service.http.get("/metrics").status_code == 500
    assert gc.isenabled()
    service.stop()
