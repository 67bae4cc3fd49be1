"""The composition root: builds a broker and its listeners from settings, starts them, stops them in the right order."""

import asyncio
import logging
import resource
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

from headwater.broker.broker import Broker
from headwater.clock import Clock, SystemClock
from headwater.config.broker import BrokerConfig
from headwater.endpoint import Endpoint
from headwater.listeners.http.activation import http_listeners
from headwater.listeners.kafka.listener import NAME as KAFKA
from headwater.listeners.kafka.listener import kafka_listeners
from headwater.listeners.listener import Listener
from headwater.listeners.tcp.pool import ConnectionPool
from headwater.storage.data_directory import DataDirectory
from headwater.storage.disk import Disk

logger = logging.getLogger(__name__)

# Makes the listeners of one protocol that the settings ask for.
MakeListeners: TypeAlias = Callable[[Broker, ConnectionPool], Iterable[Listener]]

# Started in this order, stopped in the reverse one.
LISTENERS: Sequence[MakeListeners] = (kafka_listeners, http_listeners)


class Node:
    def __init__(self, config: BrokerConfig, *, clock: Clock | None = None, disk: Disk | None = None) -> None:
        self._config = config
        self._clock = clock or SystemClock()
        self._disk = disk or Disk()
        # True while logs are verified after an unclean stop. That blocks the event loop, and may take minutes.
        self.is_recovering = False
        self.broker: Broker
        self.connections: ConnectionPool
        self.listeners: list[Listener] = []

    @property
    def data_directory(self) -> Path:
        return self.broker.data.root

    @property
    def addresses(self) -> dict[str, Endpoint]:
        """Where each listener listens, by its name."""
        return {listener.name: listener.endpoint for listener in self.listeners}

    @property
    def kafka_address(self) -> str:
        """Where the first of the listeners that speak Kafka's protocol listens."""
        return str(self.addresses[KAFKA])

    async def start(self) -> None:
        """Start everything; requests are served when it returns. Errors in settings, data or addresses are raised."""
        _raise_file_limit()
        data = DataDirectory(Path(self._config.log_dir).absolute(), self._config.node_id, self._disk)
        self.is_recovering = not data.is_clean
        try:
            self.broker = Broker(self._config, self._clock, data)
        except BaseException:
            data.release()
            raise
        finally:
            self.is_recovering = False
        self.connections = ConnectionPool(self.broker)
        try:
            await self.broker.start()
            for make in LISTENERS:
                for listener in make(self.broker, self.connections):
                    self.listeners.append(listener)
                    listener.start()
        except BaseException:
            await self.stop()
            raise

    def reload(self, config: BrokerConfig) -> None:
        self.broker.reload(config)

    async def stop(self) -> None:
        """Take no new requests, send the replies to those under way, flush everything; bounded by
        headwater.shutdown.timeout.ms."""
        listeners = self.listeners[::-1]
        for listener in listeners:
            listener.stop_accepting()
        self.connections.drain()
        self.broker.end_waits()
        timeout_ms = self.broker.config.headwater_shutdown_timeout_ms
        await asyncio.gather(self.connections.close(timeout_ms), *(each.stop(timeout_ms) for each in listeners))
        await self.broker.stop()


def _raise_file_limit() -> None:
    """Raise the soft limit of open files, usually 1,024: each connection and each segment that is read is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
