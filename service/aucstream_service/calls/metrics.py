"""What a scrape of /metrics sees: numbers that the loop reads in slices, and a text that a thread makes of them.

Nothing is counted here: requests are counted by `http/access.py`, commits by the writer, rows by the models.
A deleted
model is not in the host any more, so its series end with it.
"""

from __future__ import annotations

import asyncio
import fnmatch
import gc
import platform
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

import aucstream
from aucstream_service.calls.event_stream import Streams
from aucstream_service.http.access import Watch
from aucstream_service.models.counts import Counts
from aucstream_service.models.host import ModelHost
from aucstream_service.models.model import Model, Reading
from aucstream_service.telemetry.histogram import Histogram

SUMMARY_SECONDS = 0.05  # that one scrape may spend on AUC intervals (about 2 ms a model)
SLICE_SECONDS = 0.005  # after which a scrape lets others have the loop

OUTCOMES = tuple(name for name in Counts.__dataclass_fields__ if name != "refused")

Labels = tuple[str, ...]


def _counter(name: str, help_text: str, labels: Labels, samples: Iterable[tuple[Labels, float]]) -> Metric:
    family = CounterMetricFamily(name, help_text, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family


def _gauge(name: str, help_text: str, labels: Labels, samples: Iterable[tuple[Labels, float | None]]) -> Metric:
    """Return a gauge; what is not defined yet has no sample."""
    family = GaugeMetricFamily(name, help_text, labels=labels)
    for values, value in samples:
        if value is not None:
            family.add_metric(values, value)
    return family


def _info(name: str, help_text: str, values: dict[str, str]) -> Metric:
    return InfoMetricFamily(name, help_text, value=values)


def _one(value: float | None) -> list[tuple[Labels, float | None]]:
    return [((), value)]


class Collection(Collector):
    """Families that were read."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> list[Metric]:
        """Return them."""
        return self._families


class Reader:
    """Reads the host and the watch at each scrape; runs on the event loop, a moment at a time."""

    def __init__(self, host: ModelHost, watch: Watch, streams: Streams) -> None:
        self._host = host
        self._watch = watch
        self._streams = streams

    async def families(self) -> list[Metric]:
        """Return all families."""
        models, hidden = self._chosen()
        await self._summarise(models)
        begun = time.perf_counter()
        families = [*self._service(), *self._requests(), *self._journal()]
        readings: dict[int, Reading] = {}
        for model in models:
            readings[model.number] = model.reading
            if time.perf_counter() - begun > SLICE_SECONDS:
                await asyncio.sleep(0)
                begun = time.perf_counter()
        for family in self._models(models, hidden, readings):
            families.append(family)
            if time.perf_counter() - begun > SLICE_SECONDS:
                await asyncio.sleep(0)
                begun = time.perf_counter()
        return families

    def _service(self) -> Iterator[Metric]:
        host = self._host
        yield _info(
            "aucstream_build",
            "Version of the service and of Python.",
            {"version": aucstream.__version__, "python": platform.python_version()},
        )
        yield _info(
            "aucstream_durability",
            "What an acknowledged event survives: disk = kill and loss of power, os = kill, memory = neither.",
            {"level": host.settings.durability},
        )
        yield _gauge("aucstream_ready", "1: replayed, warm, journal writable, not stopping.", (), _one(host.is_ready))
        yield _gauge("aucstream_draining", "1: help_text to stop.", (), _one(host.draining))
        yield _gauge("aucstream_models", "Models there are.", (), _one(len(host.models)))
        yield _gauge(
            "aucstream_queue_rows", "Rows waiting for the journal or to be applied.", (), _one(host.waiting_rows)
        )
        yield _gauge("aucstream_queue_bytes", "Bytes of the requests in the queue.", (), _one(host.waiting_bytes))
        yield _histogram(
            "aucstream_loop_lag_seconds",
            "How late a timer of the event loop comes, which is due every ten milliseconds.",
            host.lag.histogram,
        )
        yield _gauge("aucstream_replay_rows", "Rows to replay at this start.", (), _one(host.to_replay))
        yield _gauge("aucstream_replayed_rows", "Rows replayed so far at this start.", (), _one(host.replayed))

    def _requests(self) -> Iterator[Metric]:
        watch = self._watch
        yield _counter(
            "aucstream_http_requests",
            "Requests by template of the path, method and class of the status (unmatched: no route, or refused before; "
            "none: the client left).",
            ("route", "method", "status"),
            [(key, count) for key, count in watch.requests.items()],
        )
        family = HistogramMetricFamily(
            "aucstream_http_request_duration_seconds",
            "From the head of a request to the end of its answer; without event streams.",
            labels=("route", "method"),
        )
        for (route, method), histogram in watch.durations.items():
            family.add_metric((route, method), list(histogram.buckets()), histogram.sum)
        yield family
        yield _gauge("aucstream_http_requests_in_flight", "Requests being served.", (), _one(watch.in_flight))
        if watch.gate is not None:
            yield _gauge("aucstream_connections", "Connections being served.", (), _one(watch.gate.serving))
            yield _counter(
                "aucstream_connections_refused",
                "Connections and heads of requests refused before they were requests, by type of problem.",
                ("reason",),
                [((reason,), count) for reason, count in sorted(watch.gate.refused.items())],
            )
        yield _gauge("aucstream_event_streams", "Event streams being served.", (), _one(self._streams.open))
        yield _counter(
            "aucstream_event_streams_dropped",
            "Event streams ended because their reader took nothing.",
            (),
            [((), self._streams.dropped)],
        )
        yield _counter(
            "aucstream_log_lines_dropped",
            "Lines of the access log dropped because nobody read them in time.",
            (),
            [((), watch.dropped)],
        )

    def _journal(self) -> Iterator[Metric]:
        host = self._host
        yield _gauge(
            "aucstream_journal_writable",
            "0: a write or a flush failed, and the journal was not opened again yet.",
            (),
            _one(not host.journal_failed),
        )
        failures = 0 if host.writer is None else host.writer.failures
        yield _counter("aucstream_journal_failures", "Writes or flushes that failed.", (), [((), failures)])
        yield _gauge(
            "aucstream_journal_lag_rows",
            "Rows handed to the journal and not on disk yet.",
            (),
            _one(host.unwritten_rows),
        )
        yield _histogram(
            "aucstream_journal_commit_seconds", "Transactions of the journal, flush included.", host.commits
        )
        yield _gauge("aucstream_journal_last_commit_seconds", "The newest transaction.", (), _one(host.commits.last))
        yield _gauge("aucstream_journal_bytes", "Size of the journal's files.", (), _one(host.journal.size()))

    def _models(self, models: list[Model], hidden: int, readings: dict[int, Reading]) -> Iterator[Metric]:
        yield _gauge("aucstream_models_hidden", "Models without metrics of their own.", (), _one(hidden))

        def each(value: Callable[[Model], float | None]) -> list[tuple[Labels, float | None]]:
            return [((model.name,), value(model)) for model in models]

        def total(value: Callable[[Model], float]) -> list[tuple[Labels, float]]:
            return [((model.name,), value(model)) for model in models]

        label = ("model",)
        faulted = each(lambda m: m.fault is not None) + [((name,), 1.0) for name in sorted(self._host.set_aside)]
        yield _counter("aucstream_model_examples", "Rows learned.", label, total(lambda m: readings[m.number].examples))
        yield _counter(
            "aucstream_model_positives", "Positive rows learned.", label, total(lambda m: readings[m.number].positives)
        )
        yield _gauge(
            "aucstream_model_pending", "Predictions and early labels that wait.", label, each(lambda m: m.pending)
        )
        yield _gauge(
            "aucstream_model_pending_capacity",
            "Predictions and early labels that may wait.",
            label,
            each(lambda m: m.spec.pending.capacity),
        )
        used = [(model.name, usage) for model in models if (usage := readings[model.number].usage) is not None]
        yield _gauge(
            "aucstream_model_vocabulary_names",
            "Names that have a column.",
            label,
            [((name,), usage.names) for name, usage in used],
        )
        yield _gauge(
            "aucstream_model_vocabulary_capacity",
            "Names that may have a column.",
            label,
            [((name,), usage.capacity) for name, usage in used],
        )
        yield _gauge(
            "aucstream_model_vocabulary_names_dropped",
            "Different names left out of learned rows because the vocabulary was full; an estimate beyond 1023.",
            label,
            [((name,), usage.names_dropped) for name, usage in used],
        )
        yield _counter(
            "aucstream_model_vocabulary_evictions",
            "Names that have lost their column to another.",
            label,
            [((name,), usage.evictions) for name, usage in used],
        )
        oldest = self._host.oldest_ids()
        yield _gauge(
            "aucstream_model_oldest_id_timestamp_seconds",
            "When the oldest id that is still remembered was learned or expired, as of a look within the last seconds.",
            label,
            each(lambda m: oldest.get(m.number)),
        )
        yield _gauge(
            "aucstream_model_score_magnitude",
            "Mean magnitude of the newest scores since the start, with a half-life of a thousand rows.",
            label,
            each(lambda m: m.score_magnitude),
        )
        yield _counter(
            "aucstream_model_rows",
            "Rows by what became of them since the start.",
            ("model", "outcome"),
            [((model.name, outcome), getattr(model.counts, outcome)) for model in models for outcome in OUTCOMES],
        )
        yield _counter(
            "aucstream_model_refused",
            "Rows, and requests refused as a whole, by type of problem since the start.",
            ("model", "reason"),
            [((model.name, reason), n) for model in models for reason, n in sorted(model.counts.refused.items())],
        )
        yield _gauge("aucstream_model_seq", "Number of the newest applied event.", label, each(lambda m: m.seq))
        yield _gauge("aucstream_model_faulted", "1: set aside after a fault.", label, faulted)
        yield _gauge(
            "aucstream_model_last_event_timestamp_seconds",
            "When the newest event was received.",
            label,
            each(lambda m: m.last_event_at),
        )
        yield _gauge("aucstream_model_snapshot_seq", "seq of the newest snapshot.", label, each(_snapshot_seq))
        yield _gauge(
            "aucstream_model_snapshot_timestamp_seconds",
            "When the newest snapshot was written.",
            label,
            each(lambda m: m.snapshot_at),
        )
        yield _counter(
            "aucstream_model_snapshot_failures",
            "Snapshots that could not be written since the start.",
            label,
            total(lambda m: m.snapshot_failures),
        )
        calibrated = [model for model in models if model.calibrated]
        yield _gauge(
            "aucstream_model_drift_strength",
            "Standard deviations by which log loss exceeds what the probabilities expect.",
            label,
            [((model.name,), model.evaluation.describe_drift()["strength"]) for model in calibrated],
        )
        yield _counter(
            "aucstream_model_drift_alarms",
            "Changes of the stream that were noticed.",
            label,
            [((model.name,), model.evaluation.alarms) for model in calibrated],
        )
        yield from self._evaluations(models)

    def _chosen(self) -> tuple[list[Model], int]:
        """Return the models that have metrics of their own, by name, and how many others there are."""
        settings, models = self._host.settings, self._host.models
        patterns = settings.metrics_models
        names = sorted(name for name in models if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns))
        chosen = names[: settings.max_metrics_models]
        return [models[name] for name in chosen], len(models) - len(chosen)

    def _evaluations(self, models: list[Model]) -> Iterator[Metric]:
        summaries = [(model.name, model.summary) for model in models if model.summary is not None]
        over: Labels = ("model", "over")

        def each(member: str) -> list[tuple[Labels, float | None]]:
            return [
                ((name, part), summary[part][member]) for name, summary in summaries for part in ("window", "total")
            ]

        yield _gauge("aucstream_model_auc", "AUC of the scores given before each update.", over, each("auc"))
        yield _gauge("aucstream_model_auc_low", "Lower end of its 95 % interval.", over, each("auc_low"))
        yield _gauge("aucstream_model_auc_high", "Upper end of its 95 % interval.", over, each("auc_high"))
        yield _gauge("aucstream_model_auc_examples", "Rows behind the AUC.", over, each("examples"))
        yield _gauge("aucstream_model_auc_positives", "Positive rows behind the AUC.", over, each("positives"))
        members = [(name, member) for name, summary in summaries for member in summary["members"] or ()]
        yield _gauge(
            "aucstream_model_member_weight",
            "Share of a member of an auto model in the local and in the global mixture.",
            ("model", "member", "mixture"),
            [
                ((name, member["name"], mixture), member[f"{mixture}_weight"])
                for name, member in members
                for mixture in ("local", "global")
            ],
        )
        label: Labels = ("model", "member")
        yield _gauge(
            "aucstream_model_member_auc",
            "Fading AUC of a member of an auto model.",
            label,
            [((name, member["name"]), member["auc"]) for name, member in members],
        )
        yield _gauge(
            "aucstream_model_member_resting",
            "1: the member rests, and learns again after an alarm.",
            label,
            [((name, member["name"]), member["resting_since"] is not None) for name, member in members],
        )

    async def _summarise(self, models: list[Model]) -> None:
        """Bring summaries up to date, the oldest first, as long as a scrape may take; not of models at work."""
        until = time.perf_counter() + SUMMARY_SECONDS
        due = [model for model in models if model.summary_due]
        for model in sorted(due, key=lambda model: model.summary_at):
            if not model.away:
                await self._host.workers.run_if_long(model, model.summarise, model.summary_size)
                await asyncio.sleep(0)
            if time.perf_counter() > until:
                return


def _snapshot_seq(model: Model) -> float | None:
    return model.snapshot_seq if model.snapshot_seq >= 0 else None


def _histogram(name: str, help_text: str, histogram: Histogram) -> Metric:
    family = HistogramMetricFamily(name, help_text, labels=())
    family.add_metric((), list(histogram.buckets()), histogram.sum)
    return family


class _CollectionPause:
    """Within, the interpreter looks for no garbage.

    A scrape of a thousand models makes a hundred thousand objects at once, none of them in a circle. They would have all
    objects of the process looked at, which stops the event loop for a tenth of a second.
    """

    def __init__(self) -> None:
        self._within = 0

    def __enter__(self) -> None:
        self._within += 1
        gc.disable()

    def __exit__(self, *_: object) -> None:
        self._within -= 1
        if not self._within:
            gc.enable()


class Metrics:
    """What a scrape is answered."""

    def __init__(self, host: ModelHost, watch: Watch, streams: Streams) -> None:
        self._reader = Reader(host, watch, streams)
        self._process = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self._process)
        self._pause = _CollectionPause()

    async def text(self, accept: str) -> tuple[bytes, str]:
        """Return the text and its content type: Prometheus, or OpenMetrics where the header asks for it."""
        with self._pause:
            return await self._text(accept)

    async def _text(self, accept: str) -> tuple[bytes, str]:
        encoder, kind = choose_encoder(accept)
        families = await self._reader.families()

        def text() -> bytes:
            registry = CollectorRegistry(auto_describe=False)
            registry.register(Collection([*families, *self._process.collect()]))
            written: Any = encoder(registry)
            return bytes(written)

        return await asyncio.to_thread(text), kind
