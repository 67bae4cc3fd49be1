"""A listener on a TCP port, for any protocol: the protocol is in the conversations that it begins."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from headwater.endpoint import Endpoint
from headwater.listeners.tcp.acceptor import Acceptor
from headwater.listeners.tcp.connection import Converse
from headwater.listeners.tcp.pool import ConnectionPool

if TYPE_CHECKING:
    from headwater.listeners.tcp.tls.handshakes import Handshakes


class TcpListener:
    def __init__(
        self,
        name: str,
        endpoint: Endpoint,
        pool: ConnectionPool,
        converse: Converse,
        on_bound: Callable[[Endpoint], None] | None = None,
        handshakes: "Handshakes | None" = None,
    ) -> None:
        """`on_bound` is called with the bound address, with the port that the system chose if the settings say 0. With
        `handshakes`, clients speak TLS."""
        self.name = name
        self.endpoint = endpoint
        self._acceptor = Acceptor(pool, converse, handshakes)
        self._on_bound = on_bound

    def start(self) -> None:
        self.endpoint = self._acceptor.start(self.endpoint)
        if self._on_bound is not None:
            self._on_bound(self.endpoint)

    def stop_accepting(self) -> None:
        self._acceptor.stop()

    async def stop(self, timeout_ms: int) -> None:  # noqa: ARG002 (the pool ends the connections of all listeners)
        self._acceptor.stop()
