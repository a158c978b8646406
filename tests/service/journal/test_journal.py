"""The journal alone: real SQLite, real files."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path

import apsw
import numpy as np
import pytest

from aucstream.features.number_rows import NumberRows
from aucstream_service.errors.exceptions import StartRefused
from aucstream_service.journal import migrations
from aucstream_service.journal.commands import (
    Append,
    AppendOutcome,
    CreateModel,
    DropModel,
    Keep,
    KeepOutcome,
    Kind,
    Mode,
    Prune,
)
from aucstream_service.journal.journal import Journal
from aucstream_service.journal.row_batch import Predictions, RowBatch
from aucstream_service.journal.rules import PendingSpec, Prediction, Reason, Refusal
from aucstream_service.journal.transaction import RUN_BYTES, RUN_ROWS
from tests.service.running import Local
from tests.service.stream import rows

POSITIVE = Refusal(Reason.LABEL_CONFLICT, 1.0)


def opened(path: Path, max_ids: int = 1000) -> Journal:
    journal = Journal(path, "disk", max_ids)
    journal.open()
    return journal


def created(journal: Journal, name: str = "m") -> int:
    model = journal.commit([CreateModel(name, "{}", 1.0, 0)])[0]
    assert isinstance(model, int)
    return model


def append(
    model: int, ids: Sequence[str | None], signs: Sequence[float] | None = None, mode: Mode = Mode.SKIP
) -> Append:
    lines = [str(row).encode() for row in range(len(ids))]
    rows = RowBatch([{}] * len(ids), [1.0] * len(ids) if signs is None else signs, ids=ids, lines=lines)
    return Append(model, Kind.LEARN, rows, mode, 2.0)


def row(line: bytes, ids: list[str | None] | None = None) -> RowBatch:
    return RowBatch([{}], [1.0], ids=ids, lines=[line])


def outcome(journal: Journal, command: Append) -> AppendOutcome:
    found = journal.commit([command])[0]
    assert isinstance(found, AppendOutcome)
    return found


def test_events_of_one_transaction_follow_each_other(tmp_path: Path) -> None:
    journal = opened(tmp_path / "j")
    model, other = created(journal), created(journal, "o")
    found = journal.commit([append(model, [None] * 3), append(other, [None]), append(model, [None])])
    assert [(each.seq_first, each.seq_last) for each in found if isinstance(each, AppendOutcome)] == [
        (1, 3),
        (1, 1),
        (4, 4),
    ]
    assert [(event.seq_first, event.payload) for event in journal.events(model, 0)] == [
        (1, b"0\n1\n2"),
        (4, b"0"),
    ]
    assert [event.seq_first for event in journal.events(model, 2)] == [1, 4]
    assert [event.seq_first for event in journal.events(model, 3)] == [4]
    journal.close()


def test_single_rows_of_one_model_that_follow_each_other_are_one_event(tmp_path: Path) -> None:
    journal = opened(tmp_path / "j")
    model, other = created(journal), created(journal, "o")
    rows = [
        Append(number, Kind.LEARN, row(b"%d" % at, ids), Mode.ALL, 2.0 + at)
        for at, (number, ids) in enumerate(
            [(model, None)] * 3 + [(other, None)] + [(model, ["a"])] + [(model, None)] * (RUN_ROWS + 1)
        )
    ]
    found = [each for each in journal.commit(rows) if isinstance(each, AppendOutcome)]
    seqs = [each.seq_first for each, row in zip(found, rows, strict=True) if row.model == model]
    assert seqs == list(range(1, len(rows)))
    assert all(each.seq_first == each.seq_last and each.rows is None for each in found if each is not found[4])
    events = list(journal.events(model, 0))
    assert [(e.seq_first, e.seq_last, e.received_at) for e in events] == [
        (1, 3, 4.0),
        (4, 4, 6.0),
        (5, 4 + RUN_ROWS, 6.0 + RUN_ROWS),
        (5 + RUN_ROWS, 5 + RUN_ROWS, 7.0 + RUN_ROWS),
    ]
    assert [e.payload for e in events][:2] == [b"0\n1\n2", b"4"]
    assert [(e.seq_first, e.payload) for e in journal.events(other, 0)] == [(1, b"3")]
    half = b"7" * (RUN_BYTES // 2)
    large = [Append(other, Kind.LEARN, row(half), Mode.ALL, 9.0 + at) for at in range(5)]
    assert [each.seq_first for each in journal.commit(large) if isinstance(each, AppendOutcome)] == [2, 3, 4, 5, 6]
    events = list(journal.events(other, 1))
    assert [(e.seq_first, e.seq_last, e.received_at) for e in events] == [(2, 3, 10.0), (4, 5, 12.0), (6, 6, 13.0)]
    assert [e.payload for e in events] == [half + b"\n" + half] * 2 + [half]
    journal.close()


def test_ids_within_and_across_transactions(tmp_path: Path) -> None:
    journal = opened(tmp_path / "j")
    model = created(journal)
    first = outcome(journal, append(model, ["a", "b", "a", None]))
    assert (first.rows, first.duplicates, first.seq_last) == ([0, 1, 3], {2: 1}, 3)
    second = outcome(journal, append(model, ["c", "b", "a"], [1.0, -1.0, 1.0], Mode.ABORT))
    assert (second.rows, second.duplicates, second.refusals, second.seq_last) == ([0], {}, {1: POSITIVE}, 4)
    third = outcome(journal, append(model, ["d", "b"], [1.0, -1.0], Mode.ALL))
    assert (third.rows, third.refusals, third.seq_last) == ([], {1: POSITIVE}, 4)
    fourth = outcome(journal, append(model, ["d", "b", "a"], [1.0, -1.0, 1.0], Mode.SKIP))
    assert (fourth.rows, fourth.duplicates, fourth.refusals, fourth.seq_last) == ([0], {2: 1}, {1: POSITIVE}, 5)
    journal.close()
    journal = opened(tmp_path / "j")
    list(journal.start_model(model, 5))
    assert outcome(journal, append(model, ["c", "x"])).duplicates == {0: 4}
    journal.close()


def test_ids_are_bounded_by_count_oldest_first(tmp_path: Path) -> None:
    journal = opened(tmp_path / "j", max_ids=128)
    model = created(journal)
    for start in range(0, 1000, 10):
        outcome(journal, append(model, [f"{start + n}" for n in range(10)]))
    kept = journal._integer("SELECT count(*) FROM ids")
    assert 128 <= kept <= 128 + 10 + 2
    assert outcome(journal, append(model, ["999"])).duplicates == {0: 1000}
    assert outcome(journal, append(model, ["0"])).duplicates == {}
    journal.close()


def test_dropped_models_are_purged_in_steps(tmp_path: Path) -> None:
    journal = opened(tmp_path / "j")
    model, kept = created(journal), created(journal, "kept")
    for _ in range(20):
        outcome(journal, append(model, [None] * 10))
    outcome(journal, append(kept, ["x"]))
    journal.commit([DropModel(model)])
    assert [record.name for record in journal.models()] == ["kept"]
    again = created(journal)
    assert again not in (model, kept)
    while journal.purging:
        journal.purge()
    assert journal._integer("SELECT count(*) FROM events") == 1
    assert journal._integer("SELECT count(*) FROM models") == 2
    journal.close()


def test_pruned_events_are_known_to_be_missing(tmp_path: Path) -> None:
    journal = opened(tmp_path / "j")
    model = created(journal)
    outcome(journal, append(model, [None] * 3))
    outcome(journal, append(model, [None] * 3))
    journal.commit([Prune(model, 4)])
    assert [event.seq_first for event in journal.events(model, 0)] == [4]
    assert journal.models()[0].pruned_seq == 4
    journal.close()


def test_a_journal_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    opened(tmp_path / "j").close()
    db = apsw.Connection(str(tmp_path / "j"))
    db.execute("UPDATE meta SET value = value || ' later' WHERE key = 'migrations'")
    db.close()
    with pytest.raises(StartRefused, match="a newer version"):
        opened(tmp_path / "j")


def test_events_that_older_versions_cannot_read_are_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def applied() -> list[str]:
        with contextlib.closing(apsw.Connection(str(tmp_path / "j"))) as db:
            return str(next(iter(db.execute("SELECT value FROM meta WHERE key = 'migrations'")))[0]).split()

    journal = opened(tmp_path / "j")
    model = created(journal)
    outcome(journal, append(model, [None, None]))
    journal.close()
    tables = applied()
    assert "column_events" not in tables  # an older version reads this one
    journal = opened(tmp_path / "j")
    list(journal.start_model(model, 2))
    columns = RowBatch(NumberRows(["a"], np.ones((3, 1))), np.ones(3))
    for _ in range(2):
        outcome(journal, Append(model, Kind.LEARN, columns, Mode.ALL, 3.0))
    journal.close()
    assert applied() == [*tables, "column_events"]
    opened(tmp_path / "j").close()
    assert applied() == [*tables, "column_events"]
    monkeypatch.setattr(migrations, "MARKS", frozenset())  # as a version that does not know them
    with pytest.raises(StartRefused, match="column_events: it was written by a newer version"):
        opened(tmp_path / "j")


def test_the_file_is_locked_and_synchronous_as_the_level_says(tmp_path: Path) -> None:
    for level, number in (("disk", 2), ("os", 1), ("memory", 0)):
        journal = Journal(tmp_path / level, level, 10)  # type: ignore[arg-type]
        journal.open()
        assert journal._integer("PRAGMA synchronous") == number
        assert journal._rows("PRAGMA journal_mode") == [("wal",)]
        assert journal._rows("PRAGMA locking_mode") == [("exclusive",)]
        journal.close()


def test_a_full_disk_stops_learning_and_not_scoring_until_there_is_room(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aucstream_service.journal.writer.FIRST_RETRY_SECONDS", 1.0)
    service = Local(data_dir)
    service.create("m")
    service.post("m", "learn-many", rows(100))
    before = service.describe("m")
    db = service.app.model_host.journal._db
    pages = next(iter(db.execute("PRAGMA page_count")))[0]
    db.execute(f"PRAGMA max_page_count = {pages}")  # what SQLite answers as on a full disk; of this connection alone
    refused = [service.post("m", "learn-many", rows(400, seed=seed)) for seed in range(3)]
    assert {answer.status_code for answer in refused} == {503}
    assert {answer.json()["type"] for answer in refused} == {"urn:aucstream:problem:journal-unavailable"}
    assert int(refused[0].headers["retry-after"]) == 1
    assert service.post("m", "learn-one", rows(1)[0]).status_code == 503
    assert service.create("n").status_code == 503
    assert service.http.delete("/v1/models/m").status_code == 503
    ready = service.http.get("/readyz")
    assert (ready.status_code, ready.json()["learning"]) == (200, False)
    assert "journal" in ready.json()["why"]
    assert service.http.get("/readyz?for=learning").status_code == 503
    assert service.http.get("/livez").status_code == 200
    assert service.post("m", "predict-one", {"features": {"a": 1}}).status_code == 200
    assert service.describe("m") == before
    until = time.monotonic() + 20
    while not (ready := service.http.get("/readyz").json())["learning"]:
        assert time.monotonic() < until
        time.sleep(0.02)
    assert ready["why"] is None
    assert service.http.get("/readyz?for=learning").status_code == 200
    assert service.post("m", "learn-many", rows(400)).json()["seq"] == 500
    assert "aucstream_journal_failures_total 1.0" in service.http.get("/metrics").text
    service.stop()
    service = Local(data_dir)
    assert service.describe("m")["seq"] == 500
    assert service.learn("m", {"a": 1}, 1)["seq"] == 501
    service.stop()


def test_what_labels_bring_back_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aucstream_service.journal.transaction.JOIN_BYTES", 1_000)
    journal = opened(tmp_path / "j")
    model = journal.commit([CreateModel("m", "{}", 1.0, 0, pending=PendingSpec(ttl_seconds=10, on_expiry="negative"))])[
        0
    ]
    assert isinstance(model, int)
    ids = [f"p{number}" for number in range(40)]
    features = b'{"a":"%s"}' % (b"x" * 92)
    first = [Prediction(b"digest", 0.5, 0.5, 0)] * 40
    kept = journal.commit([Keep(model, Predictions(ids, [features] * 40, first), Mode.ALL, 100.0)])[0]
    assert isinstance(kept, KeepOutcome) and kept.pending == 40

    def labels(of: list[str], mode: Mode, at: float) -> Append:
        return Append(model, Kind.LABEL, RowBatch([], [1.0] * len(of), ids=of), mode, at)

    whole = outcome(journal, labels(ids[:11], Mode.ALL, 105.0))
    assert (whole.rows, whole.refusals) == ([], {10: Refusal(Reason.TOO_LARGE)})
    some = journal.commit([labels(ids[at : at + 6], Mode.SKIP, 105.0) for at in (0, 6, 12, 18)])
    assert [len(each.predictions) for each in some if isinstance(each, AppendOutcome)] == [6, 6, 6, 2]
    assert isinstance(some[-1], AppendOutcome)
    assert set(some[-1].refusals.values()) == {Refusal(Reason.BUSY)}
    late = outcome(journal, labels(ids[18:], Mode.SKIP, 110.0))  # 20 wait and are due, and fit one transaction
    assert (late.expired[0].seq_first, late.expired[0].seq_last) == (21, 40)
    assert set(late.refusals.values()) == {Refusal(Reason.EXPIRED_NEGATIVE, -1.0)}
    assert (len(late.refusals), len(late.duplicates), late.pending) == (20, 2, 0)
    journal.close()
