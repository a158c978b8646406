"""The one thread that writes the journal.

Commands that arrive during the flush of a transaction form the next one. The commands of one round of the
event loop are handed over together at its end, because waking the thread costs more than a command. Outcomes
go back to the event loop in the order of the transactions. After a failed write or flush every later command fails
until the journal has been opened again, which is attempted at once and then at growing intervals.
"""

from __future__ import annotations

import asyncio
import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import apsw

from aucstream_service.journal.commands import Command, Outcome
from aucstream_service.journal.journal import Journal
from aucstream_service.telemetry.histogram import Histogram

log = logging.getLogger("aucstream")

GROUP = 1_024  # commands after which a transaction takes no more
FIRST_RETRY_SECONDS = (
    0.25  # from a failure to the first attempt to open the journal again; each later one is twice that
)
LAST_RETRY_SECONDS = 8.0  # between two attempts at most
Entry = tuple[Command, Any]  # the command, and what its sender wants back with the outcome
Receiver = Callable[[Sequence[tuple[Any, Outcome]], bool], None]  # tokens with outcomes; whether the journal failed


class Writer:
    """Group commit: `submit` is called on the loop, and so is the receiver of the outcomes."""

    def __init__(
        self,
        journal: Journal,
        loop: asyncio.AbstractEventLoop,
        receiver: Receiver,
        commits: Histogram,
        recovered: Callable[[], None] | None = None,
    ) -> None:
        self._journal = journal
        self._loop = loop
        self._receiver = receiver
        self._commits = commits
        self._round: list[Entry] = []  # of the event loop
        self._queue: queue.SimpleQueue[list[Entry] | None] = queue.SimpleQueue()  # no empty lists
        self._thread = threading.Thread(target=self._run, name="journal-writer", daemon=True)
        self._recovered = recovered  # called on the loop when the journal can be written again
        self._retry_seconds = FIRST_RETRY_SECONDS
        self._retry_at = 0.0  # of the monotonic clock
        self.failed: str | None = None
        self.failures = 0

    @property
    def retry_after(self) -> int:
        """Seconds until a command may be taken again, at the earliest: 1 or more."""
        return max(1, math.ceil(self._retry_at - time.monotonic()))

    def start(self) -> None:
        """Start the thread; a journal that could not be written when it was opened is opened again by it."""
        if self._journal.failure is not None:
            self._fail(self._journal.failure)
        self._thread.start()

    def submit(self, command: Command, token: object) -> None:
        """Hand a command over; the receiver gets `token` back with its outcome."""
        if not self._round:
            self._loop.call_soon(self._hand_over)
        self._round.append((command, token))

    def _hand_over(self) -> None:
        if self._round:
            self._queue.put(self._round)
            self._round = []

    async def stop(self) -> None:
        """Finish what was submitted, close the journal, end the thread."""
        self._hand_over()
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        stopping = False
        while not stopping:
            group: list[Entry] = []
            try:
                if self.failed is not None:
                    item = self._queue.get(timeout=max(0.0, self._retry_at - time.monotonic()))
                else:
                    item = self._queue.get(block=not self._journal.purging)
            except queue.Empty:
                if self.failed is not None:
                    self._reopen()
                else:
                    self._attempt(self._purge)
                continue
            while True:
                if item is None:
                    stopping = True
                    break
                group += item
                if len(group) >= GROUP:
                    break
                try:
                    item = self._queue.get_nowait()
                except queue.Empty:
                    break
            if group:
                self._commit(group)
        try:
            self._journal.close(failed=self.failed is not None)
        except apsw.Error as error:
            log.error("journal: closing failed: %s", error)

    def _commit(self, group: list[Entry]) -> None:
        outcomes: list[Outcome] = []

        def work() -> None:
            began = time.perf_counter()
            outcomes.extend(self._journal.commit([command for command, _ in group]))
            self._commits.observe(time.perf_counter() - began)

        if self.failed is None:
            self._attempt(work)
        tokens = [token for _, token in group]
        if self.failed is None:
            self._loop.call_soon_threadsafe(self._receiver, list(zip(tokens, outcomes, strict=True)), False)
            self._attempt(self._journal.checkpoint)
        else:
            self._loop.call_soon_threadsafe(self._receiver, [(token, None) for token in tokens], True)

    def _purge(self) -> None:
        self._journal.purge()
        self._journal.checkpoint()

    def _attempt(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # whatever it was, the state of the file is unknown
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self.failed = f"{type(error).__name__}: {error}"
        self.failures += 1
        if time.monotonic() > self._retry_at + LAST_RETRY_SECONDS:  # not again and again, of late
            self._retry_seconds = FIRST_RETRY_SECONDS
        self._retry_at = time.monotonic() + self._retry_seconds
        log.critical(
            "journal: %s: learning stops, scoring goes on; opened again in %.2g s", self.failed, self._retry_seconds
        )

    def _reopen(self) -> None:
        """Open the journal again, or wait for twice as long as before."""
        try:
            self._journal.reopen()
        except Exception as error:
            self._retry_seconds = min(2 * self._retry_seconds, LAST_RETRY_SECONDS)
            self._retry_at = time.monotonic() + self._retry_seconds
            reason = f"{type(error).__name__}: {error}"
            if reason != self.failed:
                self.failed = reason
                log.error("journal: still %s; opened again every %g s at most", reason, LAST_RETRY_SECONDS)
            return
        self._retry_at = time.monotonic()
        self._retry_seconds = min(2 * self._retry_seconds, LAST_RETRY_SECONDS)  # should it fail again at once
        self.failed = None
        log.warning("journal: it can be written again, learning goes on")
        if self._recovered is not None:
            self._loop.call_soon_threadsafe(self._recovered)
