"""One look at each request when it has ended: counts for the metrics, a line for the access log."""

from __future__ import annotations

import time
from typing import Any

from service.exchange import Exchange
from service.histogram import Histogram
from service.logs import AccessLog
from service.spec import NAME

UNMATCHED = "unmatched"  # all paths that no route takes share one label
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
MODELS = "/v1/models/"
MODEL_ROUTE = "/v1/models/{name}"
NOBODY = (0, 401, 403, 404)  # statuses that do not say that there is such a model
STREAM_ROUTE = "/v1/models/{name}/events"  # its time says how long somebody looked on


class Watch:
    """Counts requests by template of the path, method and class of the status."""

    def __init__(self, access: AccessLog | None) -> None:
        self.requests: dict[tuple[str, str, str], int] = {}
        self.durations: dict[tuple[str, str], Histogram] = {}
        self.in_flight = 0
        self._access = access

    @property
    def dropped(self) -> int:
        """Lines of the access log that were dropped."""
        return 0 if self._access is None else self._access.dropped

    def ended(self, exchange: Exchange) -> None:
        """Count a request whose answer has ended, or whose client left."""
        self.in_flight -= 1
        seconds = time.perf_counter() - exchange.began
        route = exchange.route or UNMATCHED
        method = exchange.method if exchange.method in METHODS else "other"
        status = exchange.status
        key = (route, method, _CLASSES[status // 100])
        self.requests[key] = self.requests.get(key, 0) + 1
        if route != STREAM_ROUTE:
            histogram = self.durations.get((route, method))
            if histogram is None:
                histogram = self.durations[route, method] = Histogram()
            histogram.observe(seconds)
        if self._access is not None:
            self._access.write(
                exchange.request_id,
                exchange.trace_id,
                route,
                method,
                status,
                seconds,
                exchange.bytes_in,
                exchange.bytes_out,
                _model_of(exchange, route),
                exchange.rows,
            )


_CLASSES: Any = {0: "none", 1: "1xx", 2: "2xx", 3: "3xx", 4: "4xx", 5: "5xx"}


def _model_of(exchange: Exchange, route: str) -> str | None:
    """Return the model's name, where there is one of that name: other text of a path is not logged."""
    if not route.startswith(MODEL_ROUTE) or exchange.status in NOBODY:
        return None
    name = exchange.path[len(MODELS) :].partition("/")[0]
    return name if NAME.match(name) else None
