"""One look at each request when it has ended: counts for the metrics, a line for the access log."""

from __future__ import annotations

import time

from aucstream_service.http.gate import Gate
from aucstream_service.http.request_context import RequestContext
from aucstream_service.settings import MODEL_NAME
from aucstream_service.telemetry.histogram import Histogram
from aucstream_service.telemetry.logs import Ended, Sink

UNMATCHED = "unmatched"  # all paths that no route takes share one label
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
MODELS = "/v1/models/"
MODEL_ROUTE = "/v1/models/{name}"
NOBODY = (0, 401, 403, 404)  # statuses that do not say that there is such a model
STREAM_ROUTE = "/v1/models/{name}/events"  # its time says how long somebody looked on


class Cell:
    """Requests of one route, method and status; the histogram is that of route and method."""

    __slots__ = ("count", "histogram")

    def __init__(self, histogram: Histogram) -> None:
        self.count = 0
        self.histogram = histogram


class Watch:
    """Counts requests by template of the path, method and status."""

    def __init__(self, access: Sink | None, share: float = 1.0) -> None:
        self.durations: dict[tuple[str, str], Histogram] = {}
        self.in_flight = 0
        self.gate: Gate | None = None  # of the server, where there is one
        self._cells: dict[tuple[str | None, str, int], Cell] = {}
        self._access = access
        self._share = share  # of the requests that were served, which have a line; all that were refused have one

    @property
    def dropped(self) -> int:
        """Lines of the access log that were dropped."""
        return 0 if self._access is None else self._access.dropped

    @property
    def requests(self) -> dict[tuple[str, str, str], int]:
        """Return requests by template, method and class of the status (`none`: the client left)."""
        totals: dict[tuple[str, str, str], int] = {}
        for (route, method, status), cell in self._cells.items():
            key = (route or UNMATCHED, _known(method), f"{status // 100}xx" if status else "none")
            totals[key] = totals.get(key, 0) + cell.count
        return totals

    def ended(self, context: RequestContext) -> None:
        """Count a request whose answer has ended, or whose client left."""
        self.in_flight -= 1
        seconds = time.perf_counter() - context.began
        key = (context.route, context.method, context.status)
        cell = self._cells.get(key)
        if cell is None:
            cell = self._cell(*key)
        cell.count += 1
        cell.histogram.observe(seconds)
        if self._access is not None and (self._share >= 1.0 or self._is_logged(context)):
            self._access.put(
                Ended(
                    time.time(),
                    context.request_id,
                    context.trace_id,
                    context.route or UNMATCHED,
                    context.method,
                    context.status,
                    seconds,
                    context.bytes_in,
                    context.bytes_out,
                    context.model or _model_of(context),
                    context.rows,
                    None if context.entry is None else context.entry.id,
                )
            )

    def _is_logged(self, context: RequestContext) -> bool:
        """Return whether a request has a line: by its trace, so that all requests of a trace have one or none has."""
        return not 200 <= context.status < 400 or int(context.trace_id[-8:], 16) < self._share * 2**32

    def refused(self, context: RequestContext) -> None:
        """Count a request that was refused before it came to a route."""
        self.in_flight += 1
        self.ended(context)

    def _cell(self, route: str | None, method: str, status: int) -> Cell:
        method = _known(method)
        key = (route, method, status)
        if key not in self._cells:
            place = (route or UNMATCHED, method)
            histogram = Histogram() if route == STREAM_ROUTE else self.durations.setdefault(place, Histogram())
            self._cells[key] = Cell(histogram)
        return self._cells[key]


def _known(method: str) -> str:
    return method if method in METHODS else "other"


def _model_of(context: RequestContext) -> str | None:
    """Return the model's name, where there is one of that name: other text of a path is not logged."""
    route = context.route
    if route is None or not route.startswith(MODEL_ROUTE) or context.status in NOBODY:
        return None
    name = context.path[len(MODELS) :].partition("/")[0]
    return name if MODEL_NAME.match(name) else None
