"""The metrics of a broker: every number has its name and its meaning here.

Hot paths hold the counters that they add to; sizes, offsets and lags are read from the partitions at each collection.
"""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from headwater.clock import Clock
from headwater.errors import ErrorCode
from headwater.metrics import Counter, Histogram, Metrics, Sample

if TYPE_CHECKING:
    from headwater.broker.broker import Broker
    from headwater.broker.partition import Partition

MICROSECOND = 1e-6


# One request in this many is timed: two readings of the clock and a histogram would be 2 % of a small request's CPU.
TIMED_EVERY = 16
NOT_TIMED = 0


class RequestMeasurement:
    """The requests of one API: their number, the errors in their responses, and the latencies of a sample."""

    __slots__ = ("_clock", "count", "errors", "latency_us")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.count = 0
        self.errors: Tally[int] = Tally()
        self.latency_us = Histogram(MICROSECOND)

    def now_us(self) -> int:
        return self._clock.monotonic_us()

    def end(self, began_us: int) -> None:
        """A request that is timed has its reply."""
        self.latency_us.observe(self._clock.monotonic_us() - began_us)


class Measurements:
    def __init__(self, clock: Clock) -> None:
        self.metrics = Metrics()
        self._clock = clock
        # By the name of the API.
        self.requests: dict[str, RequestMeasurement] = {}
        declare = self.metrics.declare
        declare("headwater_requests_total", "counter", "Requests, by API.", self._request_counts)
        declare(
            "headwater_request_errors_total",
            "counter",
            "Errors in responses, by API and Kafka's name of the error.",
            self._request_errors,
        )
        declare(
            "headwater_request_seconds",
            "histogram",
            f"From a request to its reply, waiting included, by API; one in {TIMED_EVERY} is timed.",
            self._request_latencies,
        )
        self.received_bytes: Counter = self.metrics.counter(
            "headwater_network_received_bytes_total", "Bytes received from clients."
        )
        self.connections_accepted: Counter = self.metrics.counter(
            "headwater_connections_accepted_total", "Connections that were accepted."
        )
        self.connections_refused: Counter = self.metrics.counter(
            "headwater_connections_refused_total", "Connections that were refused because there were too many."
        )
        self.replies_failed: Counter = self.metrics.counter(
            "headwater_replies_failed_total",
            "Requests that a fault of the broker kept from being answered; their connections were closed.",
        )
        self.batch_check_us: Histogram = self.metrics.histogram(
            "headwater_batch_check_seconds",
            "How long large batches were checked in threads, waiting included.",
            MICROSECOND,
        )
        self.flush_us: Histogram = self.metrics.histogram(
            "headwater_flush_seconds", "From the plan of a flush to its end.", MICROSECOND
        )
        self.flushes_failed: Counter = self.metrics.counter(
            "headwater_flushes_failed_total", "Flushes that failed and took a partition out of service."
        )

    def request(self, api: str) -> RequestMeasurement:
        return self.requests.setdefault(api, RequestMeasurement(self._clock))

    def _request_counts(self) -> Iterator[Sample]:
        for api, measured in self.requests.items():
            if measured.count:
                yield Sample((("api", api),), measured.count)

    def _request_errors(self) -> Iterator[Sample]:
        for api, measured in self.requests.items():
            for code, count in sorted(measured.errors.items()):
                yield Sample((("api", api), ("error", _error_name(code))), count)

    def _request_latencies(self) -> Iterator[Sample]:
        for api, measured in self.requests.items():
            if any(measured.latency_us.counts):
                yield from measured.latency_us.samples((("api", api),))

    def observe(self, broker: "Broker") -> None:
        """Declare the metrics that are read from the broker's own state."""
        metrics, partitions, state = self.metrics, broker.partitions, broker.metadata.state

        def per_partition(value: "Callable[[Partition], float]") -> Callable[[], Iterable[Sample]]:
            return lambda: [
                Sample((("topic", each.id.topic), ("partition", str(each.id.partition))), value(each))
                for each in partitions.all()
            ]

        metrics.gauge("headwater_topics", "Topics.", lambda: len(state.by_name))
        metrics.gauge(
            "headwater_partitions", "Partitions of all topics.", lambda: broker.metadata.state.partition_total
        )
        metrics.gauge(
            "headwater_partitions_offline",
            "Partitions that are out of service.",
            lambda: sum(not each.is_online for each in partitions.all()),
        )
        for name, text, value in _PARTITION_GAUGES:
            metrics.declare(name, "gauge", text, per_partition(value))
        metrics.gauge("headwater_groups", "Groups.", lambda: sum(1 for _ in broker.groups.ids()))
        metrics.declare(
            "headwater_group_offset",
            "gauge",
            "Committed offsets, by group and partition.",
            broker.groups.offset_samples,
        )
        metrics.declare(
            "headwater_group_lag",
            "gauge",
            "Records between the committed offset and the high watermark, by group and partition.",
            broker.groups.lag_samples,
        )
        metrics.gauge(
            "headwater_transactional_ids",
            "Transactional ids.",
            lambda: sum(len(machine.transactions) for machine in broker.transactions.machines()),
        )


_PARTITION_GAUGES: tuple[tuple[str, str, "Callable[[Partition], float]"], ...] = (
    ("headwater_partition_start_offset", "First offset of the log.", lambda each: each.start_offset),
    ("headwater_partition_high_watermark", "The offset up to which consumers read.", lambda each: each.high_watermark),
    ("headwater_partition_size_bytes", "Bytes of the log's segments.", lambda each: each.size_bytes),
)


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
