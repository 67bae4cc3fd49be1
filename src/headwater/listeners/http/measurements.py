"""The metrics of HTTP. Their labels are operations and statuses that there are, never what a client sends."""

from collections import Counter as Tally
from collections.abc import Callable, Iterator

from headwater.metrics import Metrics, Sample


class HttpMeasurements:
    def __init__(self, metrics: Metrics, stream_count: Callable[[], int]) -> None:
        # By scheme and whether it was a success.
        self.authentications: Tally[tuple[str, bool]] = Tally()
        # By HTTP's status.
        self.responses: Tally[int] = Tally()
        metrics.declare(
            "headwater_http_authentications_total",
            "counter",
            "Log-ins over HTTP, by scheme and result; once for each connection and credential.",
            self._authentications,
        )
        metrics.declare(
            "headwater_http_responses_total",
            "counter",
            "Responses of HTTP, by status.",
            lambda: [Sample((("status", str(status)),), count) for status, count in sorted(self.responses.items())],
        )
        metrics.gauge("headwater_http_streams", "Event streams and WebSockets that are open.", stream_count)

    def _authentications(self) -> Iterator[Sample]:
        for (scheme, is_success), count in sorted(self.authentications.items()):
            result = "success" if is_success else "failure"
            yield Sample((("scheme", scheme), ("result", result)), count)
