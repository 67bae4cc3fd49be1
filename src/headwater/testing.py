"""A real broker for your own tests, in the process of the test.

    with Broker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

It listens on a free port of the loopback interface and keeps its data in a temporary directory, which is deleted when
it stops. `security` makes it one that wants TLS, a password or a certificate, and `client_settings` has what its
clients need:

    with Broker(security="SASL_SSL") as broker:
        producer = Producer(broker.client_settings())
"""

import asyncio
import tempfile
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from headwater.broker_security import BrokerSecurity, SecuredClients
from headwater.clock import Clock
from headwater.config.broker import BrokerConfig
from headwater.listeners.tcp.poller import ServingLoop
from headwater.node import Node
from headwater.storage.disk import Disk

__all__ = ["Broker", "BrokerSecurity"]

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
    the broker stops. `security` is a `BrokerSecurity`, or just its protocol: SSL, SASL_PLAINTEXT or SASL_SSL.

    `http=True` serves HTTP, too, at `http_url`; with `security` its clients log in with the same names and passwords
    (Basic), over TLS where the Kafka clients use TLS.
    """

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        security: BrokerSecurity | str | None = None,
        http: bool | str = False,
        data_directory: Path | None = None,
        clock: Clock | None = None,
        disk: Disk | None = None,
    ) -> None:
        if isinstance(security, str):
            security = BrokerSecurity(security)
        self._secured = None if security is None else SecuredClients(security)
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if data_directory is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="headwater-")
            data_directory = Path(self._temporary.name)
        self.data_directory = data_directory
        try:
            config = self._config({**self._http_settings(http), **(settings or {})})
        except BaseException:
            self._clean_up()
            raise
        self._node = Node(config, clock=clock, disk=disk)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def _config(self, settings: Mapping[str, str]) -> BrokerConfig:
        secured: Mapping[str, str] = {} if self._secured is None else self._secured.broker_settings
        return BrokerConfig.from_values({**_SETTINGS, "log.dir": str(self.data_directory), **secured, **settings})

    @property
    def bootstrap_servers(self) -> str:
        return self._node.kafka_address

    def _http_settings(self, http: bool | str) -> Mapping[str, str]:
        if not http:
            return {}
        if isinstance(http, str):
            return {"headwater.http.listeners": http}
        if self._secured is None:
            return {"headwater.http.listeners": "HTTP://127.0.0.1:0"}
        return self._secured.http_settings

    @property
    def http_url(self) -> str:
        """Where HTTP is served, without a slash at the end."""
        name = "https" if self._secured is not None and self._secured.is_encrypted else "http"
        return f"{name}://{self._node.addresses['http']}"

    @property
    def ca_file(self) -> Path:
        """The certificate of the authority that clients must trust (PEM)."""
        assert self._secured is not None, "the broker has no `security`"
        return self._secured.ca_file

    def client_settings(self, user: str | None = None) -> dict[str, Any]:
        """What a client needs to connect, as `user` or as the first of the users: for confluent-kafka, for
        `headwater.client`, and for a file that --client-config names. Without `security` that is the address alone."""
        return {"bootstrap.servers": self.bootstrap_servers} | (
            {} if self._secured is None else self._secured.settings(user)
        )

    def aiokafka_settings(self, user: str | None = None) -> dict[str, Any]:
        """The same as arguments of `AIOKafkaProducer` and `AIOKafkaConsumer`."""
        return {"bootstrap_servers": self.bootstrap_servers} | (
            {} if self._secured is None else self._secured.aiokafka_settings(user)
        )

    def kafka_python_settings(self, user: str | None = None) -> dict[str, Any]:
        """The same as arguments of `KafkaProducer` and `KafkaConsumer`."""
        return {"bootstrap_servers": self.bootstrap_servers} | (
            {} if self._secured is None else self._secured.kafka_python_settings(user)
        )

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
        loop = ServingLoop()
        try:
            loop.run_until_complete(self._start_node())
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

    async def _start_node(self) -> None:
        await self._node.start()
        if self._secured is None:
            return
        try:
            await self._secured.add_users(self._node.broker)
        except BaseException:
            await self._node.stop()
            raise

    def _clean_up(self) -> None:
        if self._secured is not None:
            self._secured.clean_up()
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None
