"""A real broker for your own tests, in the process of the test.

    with Broker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

It listens on a free port of the loopback interface and keeps its data in a temporary directory, which is deleted when
it stops.
"""

import asyncio
import tempfile
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from headwater.clock import Clock
from headwater.config.broker import BrokerConfig
from headwater.node import Node
from headwater.storage.disk import Disk

__all__ = ["Broker"]

T = TypeVar("T")

# Tests should not wait: few partitions of internal topics, rebalances without delay, short time-outs, a quick stop. The
# settings for durability keep their defaults.
_SETTINGS = {
    "listeners": "127.0.0.1:0",
    "headwater.shutdown.timeout.ms": "1000",
    "offsets.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.heartbeat.interval.ms": "200",
}


class Broker:
    """`settings` have Kafka's names: `Broker({"num.partitions": "1"})`. Data in a given `data_directory` is kept when
    the broker stops."""

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        data_directory: Path | None = None,
        clock: Clock | None = None,
        disk: Disk | None = None,
    ) -> None:
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if data_directory is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="headwater-")
            data_directory = Path(self._temporary.name)
        self.data_directory = data_directory
        config = BrokerConfig.from_values({**_SETTINGS, "log.dir": str(data_directory), **(settings or {})})
        self._node = Node(config, clock=clock, disk=disk)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def bootstrap_servers(self) -> str:
        return self._node.kafka_address

    @property
    def node(self) -> Node:
        """The broker's internal objects. They belong to its event loop: use them only in a coroutine given to
        `call`."""
        return self._node

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the broker's own event loop, wait for it and return its result."""
        assert self._loop is not None, "the broker is not running"
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def start(self) -> Self:
        started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(started,), name="headwater-broker", daemon=True)
        self._thread.start()
        try:
            started.result()
        except BaseException:
            self._thread.join()
            self._clean_up()
            raise
        return self

    def stop(self) -> None:
        if self._loop is not None and self._thread is not None:
            self.call(self._node.stop())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop = None
        self._clean_up()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self, started: Future[None]) -> None:
        loop = asyncio.new_event_loop()
        try:
            loop.run_until_complete(self._node.start())
        except BaseException as error:
            loop.close()
            started.set_exception(error)
            return
        self._loop = loop
        started.set_result(None)
        try:
            loop.run_forever()
        finally:
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()

    def _clean_up(self) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None
