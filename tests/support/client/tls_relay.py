"""Ends TLS in front of a broker that speaks none."""

import socket
import ssl
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from headwater.endpoint import Endpoint
from headwater.testing import Broker
from tests.support.client.certificates import Identity
from tests.support.client.scripted import Relay


class TlsRelay(Relay):
    """`clients` is the authority that clients must show a certificate of."""

    def __init__(self, identity: Identity, *, clients: Path | None = None) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(identity.certificate, identity.key)
        if clients is not None:
            self.context.load_verify_locations(clients)
            self.context.verify_mode = ssl.CERT_REQUIRED
        super().__init__()

    def serve(self, connection: socket.socket) -> None:
        with self.context.wrap_socket(connection, server_side=True) as secured:
            # It has taken the connection over, and is closed with the relay if the client does not hang up.
            self._sockets.append(secured)
            super().serve(secured)


@contextmanager
def secured(relay: TlsRelay) -> Generator[TlsRelay]:
    """The relay with a broker behind it, which sends clients to the relay."""
    with relay, Broker({"advertised.listeners": str(relay.endpoint)}) as broker:
        relay.target = Endpoint.parse(f"127.0.0.1:{broker.node.addresses['kafka'].port}")
        yield relay
