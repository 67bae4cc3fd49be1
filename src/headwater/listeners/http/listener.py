"""The listeners that serve HTTP, one for each address in `headwater.http.listeners`."""

import logging
from collections.abc import Iterator
from functools import partial

from headwater.broker.broker import Broker
from headwater.config.listeners import ListenerAddress
from headwater.endpoint import Endpoint
from headwater.listeners.http.authentication import HttpAuthentication
from headwater.listeners.http.conversation import HttpConversation
from headwater.listeners.http.dispatcher import Dispatcher
from headwater.listeners.http.services import HttpServices
from headwater.listeners.tcp.listener import TcpListener
from headwater.listeners.tcp.pool import ConnectionPool

logger = logging.getLogger(__name__)

NAME = "http"


class HttpListener:
    def __init__(self, tcp: TcpListener, services: HttpServices) -> None:
        self._tcp = tcp
        self._services = services

    @property
    def name(self) -> str:
        return self._tcp.name

    @property
    def endpoint(self) -> Endpoint:
        return self._tcp.endpoint

    def start(self) -> None:
        self._tcp.start()

    def stop_accepting(self) -> None:
        self._tcp.stop_accepting()
        self._services.end_streams()

    async def stop(self, timeout_ms: int) -> None:
        await self._tcp.stop(timeout_ms)


def serve(broker: Broker, pool: ConnectionPool) -> Iterator[HttpListener]:
    services = HttpServices(broker, pool)
    for number, address in enumerate(broker.config.http_addresses):
        # The first listener is just `http`, whatever the settings name it.
        name = f"{NAME}.{address.name}" if number else NAME
        yield _listener(name, address, services, pool)


def _listener(name: str, address: ListenerAddress, services: HttpServices, pool: ConnectionPool) -> HttpListener:
    if address.protocol.is_sasl and not address.protocol.is_encrypted and not address.bound.loopback:
        logger.warning(
            "listener %s: clients of other machines send their secrets unencrypted; HTTPS encrypts them", name
        )
    authentication = HttpAuthentication(services.broker, address, services.measurements, pool.failures)
    dispatcher = Dispatcher(services, address, authentication)
    handshakes = pool.handshakes(address) if address.protocol.is_encrypted else None
    converse = partial(HttpConversation, services, dispatcher, pool.memory)
    return HttpListener(TcpListener(name, address.bound, pool, converse, handshakes=handshakes), services)
