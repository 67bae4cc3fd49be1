"""Accepts Kafka clients: the listening socket, the limits on connections, the sweep that finds hung ones, the end."""

import asyncio
import logging
import socket
from collections import Counter

from headwater import tcp
from headwater.broker.broker import Broker
from headwater.config.broker import BrokerConfig
from headwater.listeners.kafka.dispatch import Dispatcher
from headwater.listeners.tcp.connection import Connection
from headwater.listeners.tcp.poller import Poller
from headwater.listeners.tcp.request_memory import RequestMemory

logger = logging.getLogger(__name__)

SWEEP_INTERVAL_S = 1.0
# Accepted in one loop turn at most, so that a flood of new clients does not starve those that are connected.
ACCEPTED_PER_TURN_MAX = 64


class KafkaServer:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._config = broker.config
        self._clock = broker.clock
        self._memory = RequestMemory(self._config.queued_max_request_bytes, self._reclaim)
        self._connections: set[Connection] = set()
        self._no_connections = asyncio.Event()
        self._no_connections.set()
        self._per_host: Counter[str] = Counter()
        self._listening: socket.socket | None = None
        self._dispatcher: Dispatcher | None = None
        self._sweeping: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._poller = Poller(broker.journal)
        self.host = ""
        self.port = 0

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    @property
    def request_memory_used(self) -> int:
        return self._memory.used

    def start(self) -> None:
        """Binds and begins to accept; an address in use is an OSError that names it."""
        endpoint = self._config.listener
        family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
        listening = socket.create_server(
            (endpoint.host, endpoint.port), family=family, backlog=self._config.socket_listen_backlog_size
        )
        listening.setblocking(False)
        self._set_buffers(listening)
        self._listening = listening
        self.host, self.port = listening.getsockname()[:2]
        advertised = self._config.advertised
        self._dispatcher = Dispatcher(
            self._broker, (advertised.host, advertised.port) if advertised is not None else (self.host, self.port)
        )
        self._loop.add_reader(listening, self._accept)
        self._sweep()

    def _set_buffers(self, listening: socket.socket) -> None:
        """Connections inherit them. The size of the window is agreed on before a connection is accepted."""
        for option, size in (
            (socket.SO_SNDBUF, self._config.socket_send_buffer_bytes),
            (socket.SO_RCVBUF, self._config.socket_receive_buffer_bytes),
        ):
            if size > 0:
                listening.setsockopt(socket.SOL_SOCKET, option, size)

    def _accept(self) -> None:
        assert self._listening is not None
        for _ in range(ACCEPTED_PER_TURN_MAX):
            try:
                connected, address = self._listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                # Out of file descriptors, most likely: clients wait in the backlog until there are some again.
                logger.error("cannot accept a connection: %s", error)
                self._loop.remove_reader(self._listening)
                self._loop.call_later(SWEEP_INTERVAL_S, self._accept_again)
                return
            self._admit(connected, address[0])

    def _accept_again(self) -> None:
        if self._listening is not None:
            self._loop.add_reader(self._listening, self._accept)

    def _admit(self, connected: socket.socket, host: str) -> None:
        if len(self._connections) >= self._config.max_connections:
            self._turn_away(connected, host, len(self._connections), "max.connections")
            return
        if self._per_host[host] >= self._config.max_connections_per_ip:
            self._turn_away(connected, host, self._per_host[host], "max.connections.per.ip")
            return
        assert self._dispatcher is not None
        connected.setblocking(False)
        tcp.prepare(connected)
        # A client whose machine vanished says no goodbye: the system then asks, as it does for Kafka's connections.
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        try:
            connection = Connection(
                connected,
                self._config,
                self._dispatcher,
                self._memory,
                self._poller,
                self._broker.journal.gathering,
                self._closed,
                self._clock.monotonic_ms(),
            )
        except OSError:  # the client is gone already
            connected.close()
            return
        self._connections.add(connection)
        self._no_connections.clear()
        self._per_host[host] += 1

    def _turn_away(self, connected: socket.socket, host: str, count: int, setting: str) -> None:
        logger.warning("refusing a connection from %s: there are %d already (%s)", host, count, setting)
        connected.close()

    def _closed(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._no_connections.set()
        host = connection.peer_host
        self._per_host[host] -= 1
        if not self._per_host[host]:
            del self._per_host[host]

    def _sweep(self) -> None:
        # First, so that whatever goes wrong with one sweep does not end them all.
        self._sweeping = self._loop.call_later(SWEEP_INTERVAL_S, self._sweep)
        self.sweep()

    def sweep(self) -> None:
        if self._config is not self._broker.config:
            self._use_config(self._broker.config)
        now_ms = self._clock.monotonic_ms()
        for connection in tuple(self._connections):
            connection.sweep(now_ms)

    def _reclaim(self) -> None:
        for connection in self._connections:
            connection.relax()

    def _use_config(self, config: BrokerConfig) -> None:
        self._config = config
        self._memory.bytes_max = config.queued_max_request_bytes
        for connection in self._connections:
            connection.use_config(config)

    def stop_accepting(self) -> None:
        if self._listening is not None:
            self._loop.remove_reader(self._listening)
            self._listening.close()
            self._listening = None
        for connection in tuple(self._connections):
            connection.drain()

    async def stop(self, timeout_ms: int) -> None:
        """Answers what is under way, then closes every connection; waits no longer than told."""
        self.stop_accepting()
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
