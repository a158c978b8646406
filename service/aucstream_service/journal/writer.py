"""The one thread that writes the journal.

What arrives while a transaction is being flushed is the next transaction; what one round of the event
loop brings is handed over at its end, in one piece: a thread that is woken for each request costs more
than the requests, and would find one of them each time. Outcomes go back to the
event loop in the order of the transactions. After a failed write or flush nothing is tried again
on that file: every command from then on fails, until the process starts anew.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import apsw

from aucstream_service.errors.exceptions import JournalUnavailable
from aucstream_service.journal.commands import Command, Outcome
from aucstream_service.journal.journal import Journal
from aucstream_service.telemetry.histogram import Histogram

log = logging.getLogger("aucstream")

GROUP = 1_024  # commands after which a transaction takes no more
Ticket = tuple[Command, Any]  # the command, and what its sender wants back with the outcome
Done = Callable[[Sequence[tuple[Any, Outcome]], BaseException | None], None]


class Writer:
    """Group commit: `submit` on the loop, `done` is called on the loop."""

    def __init__(self, journal: Journal, loop: asyncio.AbstractEventLoop, done: Done, commits: Histogram) -> None:
        self._journal = journal
        self._loop = loop
        self._done = done
        self._commits = commits
        self._gathered: list[Ticket] = []  # in this round of the loop
        self._queue: queue.SimpleQueue[list[Ticket] | None] = queue.SimpleQueue()  # no empty lists
        self._thread = threading.Thread(target=self._run, name="journal-writer", daemon=True)
        self.failed: str | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def submit(self, command: Command, token: object) -> None:
        """Hand a command over; `done` will get `token` back."""
        if not self._gathered:
            self._loop.call_soon(self._hand_over)
        self._gathered.append((command, token))

    def _hand_over(self) -> None:
        if self._gathered:
            self._queue.put(self._gathered)
            self._gathered = []

    async def stop(self) -> None:
        """Finish what was submitted, close the journal, end the thread."""
        self._hand_over()
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        stopping = False
        while not stopping:
            group: list[Ticket] = []
            try:
                item = self._queue.get(block=not self._journal.purging or self.failed is not None)
            except queue.Empty:
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

    def _commit(self, group: list[Ticket]) -> None:
        outcomes: list[Outcome] = []

        def work() -> None:
            began = time.perf_counter()
            outcomes.extend(self._journal.commit([command for command, _ in group]))
            self._commits.observe(time.perf_counter() - began)

        if self.failed is None:
            self._attempt(work)
        tokens = [token for _, token in group]
        if self.failed is None:
            self._loop.call_soon_threadsafe(self._done, list(zip(tokens, outcomes, strict=True)), None)
            self._attempt(self._journal.checkpoint)
        else:
            refusal = JournalUnavailable("journal", f"a journal that can be written, it failed: {self.failed}")
            self._loop.call_soon_threadsafe(self._done, [(token, None) for token in tokens], refusal)

    def _purge(self) -> None:
        self._journal.purge()
        self._journal.checkpoint()

    def _attempt(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # whatever it was, the state of the file is unknown
            self.failed = f"{type(error).__name__}: {error}"
            log.critical("journal: %s: learning stops, scoring goes on, restart to recover", self.failed)
