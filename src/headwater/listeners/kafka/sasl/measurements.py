"""The metrics of authentication. Their labels are the mechanisms that there are, never what a client sends."""

from collections import Counter as Tally
from collections.abc import Iterator

from headwater.metrics import Counter, Metrics, Sample


class SaslMeasurements:
    def __init__(self, metrics: Metrics) -> None:
        # By mechanism and whether it was a success.
        self.authentications: Tally[tuple[str, bool]] = Tally()
        # Connections that have still to authenticate.
        self.unauthenticated = 0
        metrics.declare(
            "headwater_authentications_total",
            "counter",
            "Authentications of SASL clients, by mechanism and result.",
            self._authentications,
        )
        metrics.gauge(
            "headwater_connections_unauthenticated",
            "Connections that have still to authenticate.",
            lambda: self.unauthenticated,
        )
        self.timeouts: Counter = metrics.counter(
            "headwater_authentication_timeouts_total", "Connections that were closed because they never authenticated."
        )
        self.sessions_expired: Counter = metrics.counter(
            "headwater_sessions_expired_total", "Connections that were closed because they did not authenticate again."
        )

    def _authentications(self) -> Iterator[Sample]:
        for (mechanism, is_success), count in sorted(self.authentications.items()):
            result = "success" if is_success else "failure"
            yield Sample((("mechanism", mechanism), ("result", result)), count)
