"""What all HTTP listeners of a node share: the broker, the routes, the streams that are open, and their end."""

from email.utils import formatdate
from typing import TYPE_CHECKING, Protocol

from headwater.broker.broker import Broker
from headwater.config.broker import BrokerConfig
from headwater.errors import ErrorCode
from headwater.listeners.http.idempotency import IdempotencyKeys
from headwater.listeners.http.measurements import HttpMeasurements
from headwater.listeners.http.problem import Rejection
from headwater.listeners.http.received_bytes import SCRATCH_BYTES
from headwater.listeners.http.route_table import load_areas
from headwater.listeners.http.router import Router
from headwater.listeners.tcp.pool import ConnectionPool

if TYPE_CHECKING:
    from headwater.listeners.http.proxy.state import ProxyState


class Busy(Protocol):
    def sweep(self, now_ms: int) -> None: ...


class OpenStream(Protocol):
    """An event stream or a WebSocket."""

    def broker_stops(self) -> None: ...


class HttpServices:
    def __init__(self, broker: Broker, pool: ConnectionPool) -> None:
        self.broker = broker
        self.pool = pool
        self.config: BrokerConfig
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        # The connections whose requests are being answered, or read; and WebSockets.
        self.busy: set[Busy] = set()
        # Event streams and WebSockets that are open.
        self.streams: set[OpenStream] = set()
        self.is_stopping = False
        self.idempotency_keys = IdempotencyKeys(broker.clock)
        self.router = Router(load_areas(with_rest_proxy=broker.config.headwater_rest_proxy_enable))
        self.measurements = HttpMeasurements(broker.measurements.metrics, lambda: len(self.streams))
        self._date: tuple[int, str] = (0, "")
        self._proxy: ProxyState | None = None
        broker.live_config.follow(self._use_config)
        pool.on_sweep(self._sweep)

    def _use_config(self, config: BrokerConfig) -> None:
        self.config = config

    def date(self) -> str:
        """The time as HTTP writes it."""
        now_s = self.broker.clock.now_ms() // 1000
        if self._date[0] != now_s:
            self._date = now_s, formatdate(now_s, usegmt=True)
        return self._date[1]

    @property
    def proxy(self) -> "ProxyState":
        """What the REST proxy keeps between requests."""
        if self._proxy is None:
            # Late import: most brokers serve none.
            from headwater.listeners.http.proxy.state import ProxyState  # noqa: PLC0415

            self._proxy = ProxyState(self)
        return self._proxy

    def check_stream_count(self) -> None:
        count_max = self.config.headwater_http_streams_max
        if len(self.streams) >= count_max:
            raise Rejection(
                503,
                f"there are {count_max} streams already (headwater.http.streams.max)",
                code=ErrorCode.THROTTLING_QUOTA_EXCEEDED,
            )

    def _sweep(self, now_ms: int) -> None:
        """Called about once a second."""
        for each in tuple(self.busy):
            each.sweep(now_ms)
        if self._proxy is not None:
            self._proxy.consumers.sweep(now_ms)

    def end_streams(self) -> None:
        """The broker is about to stop."""
        self.is_stopping = True
        for each in tuple(self.streams):
            each.broker_stops()
        if self._proxy is not None:
            self._proxy.consumers.end()
