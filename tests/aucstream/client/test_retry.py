"""What is sent again and what is not, through a server that drops, cuts and refuses."""

from __future__ import annotations

import threading
import time
from email.utils import formatdate
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aucstream.client import (
    Busy,
    Client,
    ClientClosed,
    ConnectionFailed,
    Example,
    InvalidRequest,
    LearnedMany,
    ModelNotFound,
    Problem,
    Retry,
    Unavailable,
)
from tests.service import running
from tests.service.running import Local, Running, free_port
from tests.service.stream import rows

from .awkward import DROPPED, HALF_ANSWERED, HALF_SENT, LOST, Awkward
from .both import BOTH, Blocking
from .test_calls import pairs

pytestmark = [pytest.mark.xdist_group("client"), pytest.mark.usefixtures("awkward")]

BREAKS = [LOST, DROPPED, HALF_SENT, HALF_ANSWERED]
REFUSED = (503, {"Retry-After": "0"})


@pytest.mark.parametrize("fault", [*BREAKS, REFUSED], ids=str)
def test_one_example_is_learned_once_whatever_breaks(
    client: Any, model: str, awkward: Awkward, local: Local, fault: Any
) -> None:
    awkward.faults.extend([fault, fault])
    learned = client.learn_one(model, {"a": 1.0}, True)
    assert (learned.seq, learned.duplicate, len(awkward.requests)) == (1, False, 3)
    assert (learned.score is None) == (fault in (LOST, HALF_ANSWERED))
    awkward.faults.append(fault)
    mine = client.learn_one(model, {"a": 1.0}, False, id="mine")
    assert (mine.seq, mine.duplicate) == (2, fault in (LOST, HALF_ANSWERED))
    assert local.describe(model)["examples"] == 2


@pytest.mark.parametrize("fault", [*BREAKS, REFUSED, (429, {"Retry-After": "0"})], ids=str)
def test_a_learn_without_an_id_is_not_sent_again(client: Any, model: str, awkward: Awkward, fault: Any) -> None:
    awkward.faults.append(fault)
    with pytest.raises((ConnectionFailed, Problem)) as failed:
        client.learn_one(model, {"a": 1.0}, True, id=None)
    assert (len(awkward.requests), failed.value.attempts, failed.value.id) == (1, 1, None)
    awkward.faults.extend(["", fault])
    with pytest.raises((ConnectionFailed, Problem)) as failed:
        client.learn_many(model, [Example({"a": 1.0}, True, id="x"), *pairs(20)], ids=None, batch_rows=10)
    assert len(awkward.requests) == 3
    assert failed.value.learned.accepted == 10  # type: ignore[union-attr]


@pytest.mark.parametrize("fault", BREAKS)
def test_a_broken_batch_is_sent_again_and_no_other(
    client: Any, model: str, awkward: Awkward, local: Local, fault: str
) -> None:
    awkward.faults.extend(["", fault, fault, ""])
    sums = client.learn_many(model, pairs(1_000), batch_rows=400)
    assert sums == LearnedMany(accepted=1_000, seq=1_000)
    assert len(awkward.requests) == 5
    assert local.describe(model)["examples"] == 1_000
    local.create("unbroken")
    local.post("unbroken", "learn-many", rows(1_000))
    assert local.evaluation(model) == local.evaluation("unbroken")
    local.http.delete("/v1/models/unbroken")
    mine = [Example(x, y, id=f"m{number}") for number, (x, y) in enumerate(pairs(500))]
    awkward.faults.append(fault)
    sums = client.learn_many(model, mine, batch_rows=500)
    assert (sums.rows, local.describe(model)["examples"]) == (500, 1_500)
    assert (sums.duplicates > 0) == (fault != DROPPED)


def test_rows_before_a_refused_one_are_counted_once_however_often_they_are_sent(
    client: Any, model: str, awkward: Awkward
) -> None:
    labelled_rows: list[Any] = pairs(100)
    labelled_rows[70] = ({"a": "x" * 2_000}, True)  # too long for the service
    awkward.faults.append(HALF_SENT)
    with pytest.raises(InvalidRequest) as refused:
        client.learn_many(model, labelled_rows)
    assert refused.value.learned is not None
    assert (refused.value.attempts, refused.value.learned.accepted, refused.value.learned.duplicates) == (2, 70, 0)
    assert client.describe(model).examples == 70


def test_predictions_labels_and_the_rest_are_sent_again(client: Any, model: str, awkward: Awkward) -> None:
    for fault in BREAKS:
        labelled_rows = [
            Example(x, id=f"{fault}{number}".replace(" ", "-")) for number, (x, _) in enumerate(pairs(300))
        ]
        awkward.faults.extend([fault, REFUSED])
        assert len(list(client.predict_many(model, labelled_rows))) == 300
        awkward.faults.extend([REFUSED, fault])
        assert client.label_many(model, [(str(one.id), True) for one in labelled_rows]).rows == 300
        awkward.faults.append(fault)
        assert client.predict_one(model, {"a": 1.0}).probability is not None
        awkward.faults.append(fault)
        assert client.describe(model).pending == 0
        awkward.faults.append(fault)
        assert client.create("again", "solam").seq == 0
        awkward.faults.append(fault)
        client.delete("again")  # also where the first attempt had deleted it
        with pytest.raises(ModelNotFound):
            client.describe("again")
    assert client.describe(model).examples == 300 * len(BREAKS)


def test_a_snapshot_is_not_uploaded_twice(client: Any, model: str, awkward: Awkward) -> None:
    data = client.download_snapshot(model)
    awkward.faults.append(LOST)
    with pytest.raises(ConnectionFailed):
        client.upload_snapshot(model, data)
    assert len(awkward.requests) == 2


@pytest.mark.parametrize("make", BOTH)
def test_retry_after_is_waited_out_and_the_deadline_ends_it(make: Any, model: str, awkward: Awkward) -> None:
    date = int(time.time()) + 3
    with make(awkward.url, retry=Retry(deadline=20, first=0.01)) as client:
        awkward.faults.extend([(503, {"Retry-After": "1"}), (429, {"Retry-After": formatdate(date, usegmt=True)})])
        client.describe(model)
        first, second, third = awkward.times
        assert second - first >= 1
        assert third >= date
    awkward.requests.clear()
    with make(awkward.url, retry=Retry(deadline=0.5, first=0.05)) as client:
        start = time.monotonic()
        awkward.faults.extend([(429, {})] * 100)
        with pytest.raises(Busy) as busy:
            client.describe(model)
        assert time.monotonic() - start < 3
        assert busy.value.attempts == len(awkward.requests) > 1
        awkward.faults.clear()
        awkward.requests.clear()
        awkward.faults.append((503, {"Retry-After": "60"}))
        with pytest.raises(Unavailable) as refused:
            client.describe(model)
        assert (refused.value.retry_after, len(awkward.requests)) == (60.0, 1)
        assert "the proxy's own words" in str(refused.value)


def test_an_event_stream_is_opened_again_where_it_broke(
    client: Any, local: Local, model: str, awkward: Awkward
) -> None:
    client.learn_many(model, pairs(30))
    with Client(str(local.http.base_url)) as straight:
        events = straight.events(model)
        first = next(events)
        events.close()  # type: ignore[attr-defined]
    data = b"retry: 10\n\nid: 30\ndata: %s\n\n"
    event = data % msgspec.json.encode(first)
    over = b'event: end\ndata: {"reason":"%s"}\n\n'
    awkward.faults.extend(
        [
            event + b"id: 31\ndata: {",  # cut in an event
            DROPPED,
            (503, {}),
            event + over % b"stopping",
            event + over % b"replaced",
            event + over % b"deleted",
        ]
    )
    assert [one.seq for one in client.events(model)] == [30] * 4
    with Client(awkward.url, retry=Retry(deadline=0.3, first=0.01)) as impatient:
        awkward.faults.extend([event, event + over % b"deleted"])
        for _ in impatient.events(model):
            time.sleep(0.4)  # longer than the deadline: that of the next attempt begins when the stream breaks
    ids = [headers.get("last-event-id") for _, path, headers in awkward.requests if path.endswith("/events")]
    assert ids == [None, "30", "30", "30", "30", None, None, "30"]


def test_a_service_that_is_killed_and_comes_back_has_learned_each_example_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    monkeypatch.setattr(running, "free_port", lambda: port)
    service = Running(tmp_path / "data", durability="os")
    n = 2_000
    results: dict[str, Any] = {}
    underway = threading.Barrier(3)

    def stream(make: Any) -> None:
        with make(service.url, retry=Retry(deadline=100, first=0.05)) as client:
            client.create(make.__name__.lower(), "solam")
            batches = client.learn_batches(make.__name__.lower(), pairs(n), batch_rows=20)
            sums = LearnedMany()
            for number, batch in enumerate(batches):
                sums += batch
                if number == 20:
                    underway.wait()
            results[make.__name__] = (sums, client.learn_one(make.__name__.lower(), {"a": 1.0}, True).seq)

    threads = [threading.Thread(target=stream, args=(make,)) for make in BOTH]
    for thread in threads:
        thread.start()
    underway.wait()
    service.kill()
    assert results == {}
    local = Local(tmp_path / "data", durability="os")
    for thread in threads:
        thread.join()
    for make in BOTH:
        sums, seq = results[make.__name__]
        assert (sums.accepted, sums.duplicates, sums.rejected, seq) == (n, 0, 0, n + 1)
        assert local.describe(make.__name__.lower())["examples"] == n + 1
    local.stop()


def test_pauses_grow_and_are_drawn() -> None:
    retry = Retry(first=0.1, longest=1.0)
    for attempt, bound in ((1, 0.1), (2, 0.2), (3, 0.4), (5, 1.0), (5_000, 1.0)):
        drawn = {retry.pause(attempt) for _ in range(50)}
        assert bound / 2 <= min(drawn) < max(drawn) <= bound
        assert retry.pause(attempt, 3.0) >= 3.0


def test_the_threads_client_needs_no_loop_and_closes_what_it_opened() -> None:
    client = Client()
    assert repr(client) == "Client('http://127.0.0.1:8000')"
    client.close()
    with pytest.raises(RuntimeError, match="closed"):
        client.live()
    with pytest.raises(ClientClosed, match="expected an open client, got one that was closed"):
        client.learn_many("m", [({"a": 1}, 1)])
    other = Blocking()
    other.close()
