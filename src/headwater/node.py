"""The composition root: builds a broker and its listeners from settings, starts them, stops them in the right order."""

import logging
import resource
from pathlib import Path

from headwater.broker.broker import Broker
from headwater.clock import Clock, SystemClock
from headwater.config.broker import BrokerConfig
from headwater.listeners.tcp.acceptor import KafkaServer
from headwater.storage.data_directory import DataDirectory
from headwater.storage.disk import Disk

logger = logging.getLogger(__name__)


class Node:
    def __init__(self, config: BrokerConfig, *, clock: Clock | None = None, disk: Disk | None = None) -> None:
        self._config = config
        self._clock = clock or SystemClock()
        self._disk = disk or Disk()
        self.broker: Broker
        self.kafka: KafkaServer

    @property
    def data_directory(self) -> Path:
        return self.broker.data.root

    @property
    def kafka_address(self) -> str:
        host = self.kafka.host
        return f"[{host}]:{self.kafka.port}" if ":" in host else f"{host}:{self.kafka.port}"

    async def start(self) -> None:
        """Ready for requests when it returns; whatever is wrong with settings, data or address is raised."""
        _raise_file_limit()
        data = DataDirectory(Path(self._config.log_dir).absolute(), self._config.node_id, self._disk)
        try:
            self.broker = Broker(self._config, self._clock, data)
        except BaseException:
            data.release()
            raise
        self.kafka = KafkaServer(self.broker)
        try:
            self.kafka.start()
        except BaseException:
            await self.broker.stop()
            raise

    def reload(self, config: BrokerConfig) -> None:
        self.broker.reload(config)

    async def stop(self) -> None:
        """No new requests, replies to those under way, everything on disk; bounded by headwater.shutdown.timeout.ms."""
        self.kafka.stop_accepting()
        self.broker.end_waits()
        await self.kafka.stop(self.broker.config.headwater_shutdown_timeout_ms)
        await self.broker.stop()


def _raise_file_limit() -> None:
    """Every segment that is read and every connection is an open file; the usual soft limit of 1,024 is low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
