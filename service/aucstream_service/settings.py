"""Settings: read once from flags and `AUCSTREAM_*` variables, then passed down."""

from __future__ import annotations

import ipaddress
import os
import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, CliSuppress, NoDecode, SettingsConfigDict

from aucstream_service.errors.exceptions import StartRefused
from aucstream_service.storage.api_keys import MIN_OWN_KEY
from aucstream_service.telemetry.logs import Format, Level

MIB = 1 << 20
MODEL_NAME_PATTERN = "^[a-z0-9_-]{1,64}$"
MODEL_NAME = re.compile(r"[a-z0-9_-]{1,64}\Z")

Durability = Literal["disk", "os", "memory"]
Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]


class Settings(BaseSettings):
    """What an operator can choose. Every field is also a flag (`--max-body-bytes`) and a variable."""

    model_config = SettingsConfigDict(env_prefix="AUCSTREAM_", frozen=True, extra="forbid")

    host: str = Field(default="127.0.0.1", description="address to listen on")
    port: int = Field(default=8000, ge=0, le=65535, description="port to listen on")
    data_dir: Path = Field(
        default=Path("aucstream-data"), description="directory of journal and snapshots; one process owns it"
    )
    durability: Durability = Field(
        default="disk",
        description="what an acknowledged event survives: disk = kill and loss of power, os = kill only, memory = neither",
    )
    expect_existing: bool = Field(default=False, description="refuse to start on a data directory without a journal")
    insecure: bool = Field(default=False, description="allow an address other than loopback without API keys")
    allowed_hosts: Annotated[list[str], NoDecode] = Field(
        default=[],
        description="names that a request's Host may have (a,b,…), beside localhost and addresses; * is any. Without keys "
        "no other is answered; with keys any is, unless some are listed here",
    )
    admin_key: CliSuppress[SecretStr | None] = Field(
        default=None, description="an admin key of your own; AUCSTREAM_ADMIN_KEY, never a flag: flags are public"
    )
    admin_key_file: Path | None = Field(default=None, description="file with an admin key of your own")
    workers: int = Field(default=1, description="must be 1: one process owns a data directory")
    log_format: Format = Field(default="json", description="json: one object a line, or text")
    log_level: Level = Field(default="info", description="least level of what is logged: debug, info, warning, error")
    access_log: bool = Field(default=True, description="a line a request")
    access_log_share: float = Field(
        default=1.0,
        ge=0,
        le=1,
        description="share of the requests that have a line; those that were refused have one in any case",
    )
    metrics_models: Annotated[list[str], NoDecode] = Field(
        default=["*"], description="patterns of the models that have metrics of their own (a-*,b,…)"
    )
    max_metrics_models: int = Field(
        default=1_000, ge=0, description="most models with metrics of their own, the first by name"
    )
    shutdown_seconds: float = Field(
        default=10.0, gt=0, description="time to stop in after SIGTERM: half for requests in flight, half for snapshots"
    )
    drain_seconds: float | None = Field(
        default=None,
        ge=0,
        description="of these, go on serving for so long with /readyz 503 (at most half; 1, or half if that is less)",
    )

    max_event_streams: int = Field(default=100, ge=0, description="most event streams at a time")
    events_per_second: float = Field(default=1.0, gt=0, le=100, description="most events of a stream a second")
    event_heartbeat_seconds: float = Field(default=15.0, gt=0, description="longest silence of an event stream")

    max_body_bytes: Count = Field(default=8 * MIB, description="largest JSON body")
    max_snapshot_bytes: Count = Field(default=512 * MIB, description="largest uploaded snapshot")
    max_line_bytes: Count = Field(default=1 * MIB, description="longest NDJSON line")
    max_rows: Count = Field(default=100_000, description="most rows in a JSON array (NDJSON has no limit)")
    max_features: Count = Field(default=100_000, description="most features in a row")
    max_name_length: Count = Field(default=1024, description="longest feature name or string value, in characters")
    max_models: Count = Field(default=1_000, description="most models")
    max_window: Count = Field(default=1_000_000, description="largest evaluation window")
    max_pending: Count = Field(default=10_000_000, description="largest capacity for predictions that wait for a label")
    max_vocabulary: Count = Field(default=1 << 22, description="largest capacity of a vocabulary")
    max_hash_bits: Count = Field(default=20, description="most bits of a hashing encoder")
    max_buffer_rows: Count = Field(
        default=100_000, description="most rows a learner buffers, per class or in its window"
    )
    max_directions: Count = Field(default=1_000, description="largest rank or sketch of a learner")
    max_trees: Count = Field(default=100, description="most trees of a forest")
    max_nodes: Count = Field(default=4_001, description="most nodes of a tree of a forest")
    max_members: Count = Field(default=64, description="most members of an `auto` model's portfolio")
    max_cells: Count = Field(
        default=1 << 27, description="largest table of a learner's directions: the names it may learn times these"
    )
    max_map_rows: Count = Field(default=5_000, description="longest warm-up of a feature map, in rows")
    max_map_features: Count = Field(default=1_000, description="most landmarks or components of a feature map")
    max_map_cells: Count = Field(
        default=1 << 23, description="largest table of a feature map: its features times max_columns"
    )
    max_ids: Count = Field(default=1_000_000, description="event ids remembered per model, newest first")
    id_seconds: float = Field(default=2_592_000.0, gt=0, description="how long an event id is remembered (30 days)")
    max_bodies_bytes: Count = Field(
        default=64 * MIB,
        description="bytes of all bodies in flight: being read, scored or learned; decoded rows take several times that",
    )
    max_spool_bytes: Count = Field(
        default=4096 * MIB, description="bytes of NDJSON answers that wait on disk for the end of their requests"
    )
    max_connections: Count = Field(default=1_000, description="connections at once")
    max_url_bytes: Count = Field(default=8_192, description="longest URL")
    max_header_bytes: Count = Field(default=32_768, description="longest headers of a request, in all")
    max_headers: Count = Field(default=100, description="most headers of a request")
    head_seconds: Seconds = Field(default=10.0, description="time for the head of a request to come")
    body_seconds: Seconds = Field(
        default=30.0,
        description="time without a byte of a body, or of an answer being read; a JSON body has as long "
        "in all, and a second more for each 16 KiB",
    )
    stream_bytes_per_second: int = Field(
        default=64,
        ge=0,
        description="least pace of an NDJSON body or a snapshot, over each `body_seconds` that the service waits for it; "
        "0: any",
    )
    idle_seconds: Seconds = Field(default=30.0, description="time that an idle connection is kept")
    inflate: bool = Field(
        default=False, description="take bodies with Content-Encoding gzip or zstd; limits apply inflated"
    )
    max_queue_rows: Count = Field(default=200_000, description="rows waiting for the journal or to be applied")
    max_queue_bytes: Count = Field(default=64 * MIB, description="bytes waiting for the journal or to be applied")

    retain_seconds: float | None = Field(
        default=None,
        gt=0,
        description="raw features of learned examples are removed after so long; else when two newer snapshots are there",
    )
    snapshot_every_rows: Count = Field(default=100_000, description="rows of a model between background snapshots")
    snapshot_keep: int = Field(default=2, ge=2, description="snapshots kept per model")

    @field_validator("allowed_hosts", "metrics_models", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        names = [value] if isinstance(value, str) else value
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            return [part.strip() for name in names for part in name.split(",") if part.strip()]
        return names

    def own_key(self) -> str | None:
        """Return the admin key that the operator brings, or raise StartRefused."""
        if self.admin_key is not None and self.admin_key_file is not None:
            raise StartRefused("one of AUCSTREAM_ADMIN_KEY and AUCSTREAM_ADMIN_KEY_FILE, got both")
        if self.admin_key is not None:
            name, key = "AUCSTREAM_ADMIN_KEY", self.admin_key.get_secret_value()
        elif self.admin_key_file is not None:
            name = f"the admin key in {self.admin_key_file}"
            try:
                key = self.admin_key_file.read_text("ascii").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise StartRefused(f"{name} to be readable text: {error}") from error
        else:
            return None
        if len(key) < MIN_OWN_KEY or not (key.isascii() and key.isprintable() and " " not in key):
            raise StartRefused(
                f"{name} to be {MIN_OWN_KEY} random characters or more, visible ASCII (openssl rand -hex 32)"
            )
        return key

    @property
    def drain(self) -> float:
        """Seconds in which /readyz says 503 and all else is served as before."""
        return min(1.0, self.shutdown_seconds / 2) if self.drain_seconds is None else self.drain_seconds

    def check_start(self, *, keys: bool = False) -> None:
        """Raise StartRefused if the process must not start like this; `keys`: there are API keys."""
        concurrency = os.environ.get("WEB_CONCURRENCY", "1").strip() or "1"
        if self.workers != 1 or concurrency != "1":
            setting = f"workers={self.workers}" if self.workers != 1 else f"WEB_CONCURRENCY={concurrency}"
            raise StartRefused(
                f"one worker, got {setting}: one process owns a data directory and holds its models in memory; "
                "several workers would each learn a different part of the stream"
            )
        if self.drain > self.shutdown_seconds / 2:
            raise StartRefused(
                f"drain_seconds of at most half of shutdown_seconds={self.shutdown_seconds:g}, "
                f"got {self.drain:g}: requests and snapshots need the rest"
            )
        if not (self.insecure or keys or _is_loopback(self.host)):
            raise StartRefused(
                f"a loopback address, got host={self.host}: there are no API keys, so anyone who reaches this "
                "address could read and change every model; make one with `aucstream keys create --data-dir "
                f"{self.data_dir} --role admin`, or say --insecure to listen there all the same"
            )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
