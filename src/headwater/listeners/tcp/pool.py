"""All TCP connections of this node, over all listeners: the limits that they share, the sweep that finds hung ones."""

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Callable

from headwater import tcp
from headwater.broker.broker import Broker
from headwater.config.broker import BrokerConfig
from headwater.listeners.tcp.connection import Connection, Converse
from headwater.listeners.tcp.poller import Poller
from headwater.listeners.tcp.request_memory import RequestMemory
from headwater.listeners.tcp.transport import PlainTransport
from headwater.metrics import Sample

logger = logging.getLogger(__name__)

SWEEP_INTERVAL_S = 1.0


class ConnectionPool:
    def __init__(self, broker: Broker) -> None:
        self.config = broker.config
        self.memory = RequestMemory(self.config.queued_max_request_bytes, self._reclaim)
        self._clock = broker.clock
        self._replies = broker.journal.replies
        self._measurements = measurements = broker.measurements
        self._connections: set[Connection] = set()
        self._no_connections = asyncio.Event()
        self._no_connections.set()
        self._per_host: Counter[str] = Counter()
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

    def admit(self, accepted: socket.socket, host: str, converse: Converse) -> None:
        """Begin to serve a client, unless there are too many already."""
        if len(self._connections) >= self.config.max_connections:
            self._refuse(accepted, host, len(self._connections), "max.connections")
            return
        if self._per_host[host] >= self.config.max_connections_per_ip:
            self._refuse(accepted, host, self._per_host[host], "max.connections.per.ip")
            return
        accepted.setblocking(False)
        tcp.prepare(accepted)
        # As in Kafka: the system notices a client's machine that vanished without closing the connection.
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        transport = PlainTransport.adopt(accepted)
        try:
            connection = Connection(
                transport,
                self.config,
                converse,
                self.memory,
                self._poller,
                self._replies,
                self._measurements,
                self._closed,
                self._clock.monotonic_ms(),
            )
        except OSError:  # the client is gone already
            transport.close()
            return
        self._measurements.connections_accepted.value += 1
        self._connections.add(connection)
        self._no_connections.clear()
        self._per_host[host] += 1

    def _refuse(self, accepted: socket.socket, host: str, count: int, setting: str) -> None:
        logger.warning("refusing a connection from %s: there are %d already (%s)", host, count, setting)
        self._measurements.connections_refused.value += 1
        accepted.close()

    def _closed(self, connection: Connection) -> None:
        self._sent_bytes_before += connection.sent_bytes
        self._connections.discard(connection)
        if not self._connections:
            self._no_connections.set()
        host = connection.peer_host
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
        for sweep in self._on_sweep:
            sweep(now_ms)

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
        self._poller.close()
