"""All TCP connections of this node, over all listeners: the limits that they share, the sweep that finds hung ones."""

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from headwater import tcp
from headwater.broker.broker import Broker
from headwater.config.broker import BrokerConfig
from headwater.config.listeners import ListenerAddress
from headwater.listeners.tcp.connection import Connection, Converse
from headwater.listeners.tcp.failure_log import FailureLog
from headwater.listeners.tcp.poller import Poller
from headwater.listeners.tcp.request_memory import RequestMemory
from headwater.listeners.tcp.transport import PlainTransport, Transport
from headwater.metrics import Sample

if TYPE_CHECKING:
    from headwater.listeners.tcp.tls.handshakes import Handshakes

logger = logging.getLogger(__name__)

SWEEP_INTERVAL_S = 1.0


class ConnectionPool:
    def __init__(self, broker: Broker) -> None:
        self.config = broker.config
        self.memory = RequestMemory(self.config.queued_max_request_bytes, self._reclaim)
        self.failures = FailureLog()
        self._live_config = broker.live_config
        self._clock = broker.clock
        self._audit = broker.access.audit
        self._replies = broker.journal.replies
        self._measurements = measurements = broker.measurements
        self._connections: set[Connection] = set()
        self._no_connections = asyncio.Event()
        self._no_connections.set()
        # Connections, and clients in their TLS handshake.
        self._per_host: Counter[str] = Counter()
        self._handshakes: list[Handshakes] = []
        # Bytes that were sent by connections that are closed.
        self._sent_bytes_before = 0
        self._sweeping: asyncio.TimerHandle | None = None
        self._on_sweep: list[Callable[[int], None]] = []
        self._loop = asyncio.get_running_loop()
        self._poller = Poller(broker.journal)
        broker.live_config.follow(self._use_config)
        metrics = measurements.metrics
        metrics.declare(
            "headwater_network_sent_bytes_total",
            "counter",
            "Bytes sent to clients.",
            lambda: [Sample((), self.sent_bytes)],
        )
        metrics.gauge("headwater_connections", "Open connections.", lambda: len(self._connections))
        metrics.gauge("headwater_request_memory_bytes", "Memory of requests in flight.", lambda: self.memory.used)
        self._sweep()

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    @property
    def sent_bytes(self) -> int:
        return self._sent_bytes_before + sum(connection.sent_bytes for connection in self._connections)

    def handshakes(self, address: ListenerAddress) -> "Handshakes":
        """The TLS of a listener. Raises ConfigError if its certificate cannot be used."""
        # Late import: OpenSSL takes 4.5 MB.
        from headwater.listeners.tcp.tls.handshakes import Handshakes  # noqa: PLC0415
        from headwater.listeners.tcp.tls.live_context import LiveContext  # noqa: PLC0415

        live = LiveContext(self._live_config, address, self._clock)
        handshakes = Handshakes(address, live, self._poller, self._clock, self.failures, self._audit)
        if not self._handshakes:
            self._declare_tls_metrics()
        self._handshakes.append(handshakes)
        return handshakes

    def admit(
        self, accepted: socket.socket, peer: Any, converse: Converse, handshakes: "Handshakes | None" = None
    ) -> None:
        """Begin to serve a client, unless there are too many already."""
        host = peer[0]
        count = len(self._connections) + sum(map(len, self._handshakes))
        if count >= self.config.max_connections:
            self._refuse(accepted, host, count, "max.connections")
            return
        if self._per_host[host] >= self.config.max_connections_per_ip:
            self._refuse(accepted, host, self._per_host[host], "max.connections.per.ip")
            return
        accepted.setblocking(False)
        tcp.prepare(accepted)
        # As in Kafka: the system notices a client's machine that vanished without closing the connection.
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._per_host[host] += 1
        serve = partial(self._serve, host, converse)
        if handshakes is None:
            serve(PlainTransport.adopt(accepted))
        else:
            handshakes.begin(accepted, peer, serve)

    def _serve(self, host: str, converse: Converse, transport: Transport | None) -> None:
        """None if the client's TLS handshake failed."""
        if transport is None:
            self._left(host)
            return
        try:
            connection = Connection(
                transport,
                self.config,
                converse,
                self.memory,
                self._poller,
                self._replies,
                self._measurements,
                self.failures,
                self._closed,
                self._clock.monotonic_ms(),
            )
        except OSError:  # the client is gone already
            transport.close()
            self._left(host)
            return
        self._measurements.connections_accepted.value += 1
        self._connections.add(connection)
        self._no_connections.clear()

    def _refuse(self, accepted: socket.socket, host: str, count: int, setting: str) -> None:
        message = "refusing a connection from %s: there are %d already (%s)"
        self.failures.warn(logger, "refused connections", message, host, count, setting)
        self._measurements.connections_refused.value += 1
        accepted.close()

    def _closed(self, connection: Connection) -> None:
        self._sent_bytes_before += connection.sent_bytes
        self._connections.discard(connection)
        if not self._connections:
            self._no_connections.set()
        self._left(connection.peer_host)

    def _left(self, host: str) -> None:
        self._per_host[host] -= 1
        if not self._per_host[host]:
            del self._per_host[host]

    def _sweep(self) -> None:
        # Schedule the next sweep first, so that a sweep that raises is not the last one.
        self._sweeping = self._loop.call_later(SWEEP_INTERVAL_S, self._sweep)
        self.sweep()

    def sweep(self) -> None:
        now_ms = self._clock.monotonic_ms()
        for connection in tuple(self._connections):
            connection.sweep(now_ms)
        for handshakes in self._handshakes:
            handshakes.sweep(now_ms)
        for sweep in self._on_sweep:
            sweep(now_ms)
        self.failures.sweep()

    def on_sweep(self, sweep: Callable[[int], None]) -> None:
        """Call `sweep` with the time, about once a second."""
        self._on_sweep.append(sweep)

    def _reclaim(self) -> None:
        for connection in self._connections:
            connection.relax()

    def _use_config(self, config: BrokerConfig) -> None:
        self.config = config
        self.memory.bytes_max = config.queued_max_request_bytes
        for connection in self._connections:
            connection.use_config(config)

    def drain(self) -> None:
        """Take no more requests; answer those under way."""
        for handshakes in self._handshakes:
            handshakes.close()
        for connection in tuple(self._connections):
            connection.drain()

    async def close(self, timeout_ms: int) -> None:
        """Wait until the clients have taken their replies, at most `timeout_ms`, then close every connection."""
        self.drain()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._no_connections.wait()
        except TimeoutError:
            logger.warning("%d clients did not take their replies in time", len(self._connections))
        if self._sweeping is not None:
            self._sweeping.cancel()
        for connection in tuple(self._connections):
            connection.close()
        self.failures.sweep()
        self._poller.close()

    def _declare_tls_metrics(self) -> None:
        declare = self._measurements.metrics.declare
        declare(
            "headwater_tls_handshakes_total",
            "counter",
            "TLS handshakes, by listener and by their outcome: ok, or why they failed.",
            self._handshake_counts,
        )
        declare(
            "headwater_tls_certificate_expiry_seconds",
            "gauge",
            "How long the listener's certificate is still valid.",
            lambda: [Sample((("listener", each.listener),), each.live.expires_in_s) for each in self._handshakes],
        )

    def _handshake_counts(self) -> Iterator[Sample]:
        for each in self._handshakes:
            for outcome, count in sorted(each.outcomes.items()):
                yield Sample((("listener", each.listener), ("outcome", outcome)), count)
