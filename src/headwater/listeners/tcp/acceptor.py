"""One listening socket: bound, its clients accepted and handed to the pool."""

import asyncio
import logging
import socket
from typing import TYPE_CHECKING

from headwater.endpoint import Endpoint
from headwater.listeners.tcp.connection import Converse
from headwater.listeners.tcp.pool import ConnectionPool

if TYPE_CHECKING:
    from headwater.listeners.tcp.tls.handshakes import Handshakes

logger = logging.getLogger(__name__)

RETRY_INTERVAL_S = 1.0
# Per loop turn, so that a flood of new clients does not starve those that are connected.
ACCEPTED_PER_TURN_MAX = 64


class Acceptor:
    def __init__(self, pool: ConnectionPool, converse: Converse, handshakes: "Handshakes | None" = None) -> None:
        """`converse` begins the conversation with an accepted client."""
        self._pool = pool
        self._converse = converse
        self._handshakes = handshakes
        self._loop = asyncio.get_running_loop()
        self._listening: socket.socket | None = None

    def start(self, endpoint: Endpoint) -> Endpoint:
        """Bind and begin to accept; gives the address that was bound."""
        config = self._pool.config
        family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
        listening = socket.create_server(
            (endpoint.host, endpoint.port), family=family, backlog=config.socket_listen_backlog_size
        )
        listening.setblocking(False)
        # Set on the listening socket: connections inherit the sizes, and TCP agrees on its window before the accept.
        for option, size in (
            (socket.SO_SNDBUF, config.socket_send_buffer_bytes),
            (socket.SO_RCVBUF, config.socket_receive_buffer_bytes),
        ):
            if size > 0:
                listening.setsockopt(socket.SOL_SOCKET, option, size)
        self._listening = listening
        self._loop.add_reader(listening, self._accept)
        host, port = listening.getsockname()[:2]
        return Endpoint(host, port)

    def stop(self) -> None:
        if self._listening is not None:
            self._loop.remove_reader(self._listening)
            self._listening.close()
            self._listening = None

    def _accept(self) -> None:
        assert self._listening is not None
        for _ in range(ACCEPTED_PER_TURN_MAX):
            try:
                accepted, address = self._listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                # Most likely out of file descriptors: clients wait in the backlog until some are free again.
                logger.error("cannot accept a connection: %s", error)
                self._loop.remove_reader(self._listening)
                self._loop.call_later(RETRY_INTERVAL_S, self._accept_again)
                return
            self._pool.admit(accepted, address, self._converse, self._handshakes)

    def _accept_again(self) -> None:
        if self._listening is not None:
            self._loop.add_reader(self._listening, self._accept)
