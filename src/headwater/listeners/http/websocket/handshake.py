"""The handshake that turns a request into a WebSocket (RFC 6455), and its compression (RFC 7692)."""

import logging
from http import HTTPStatus
from typing import NamedTuple

from websockets.datastructures import Headers
from websockets.extensions.permessage_deflate import ServerPerMessageDeflateFactory
from websockets.http11 import Request as HandshakeRequest
from websockets.protocol import Protocol, Side
from websockets.server import ServerProtocol

from headwater.listeners.http.problem import Rejection
from headwater.listeners.http.request import Request

_logger = logging.getLogger("websockets")
# Each message by itself: what zlib remembers of earlier ones takes up to 300 KB for each client.
_COMPRESSION = ServerPerMessageDeflateFactory(
    server_no_context_takeover=True, client_no_context_takeover=True, compress_settings={"level": 1, "memLevel": 5}
)


class Handshake(NamedTuple):
    protocol: Protocol
    # What the client is answered.
    answer: bytes


def accept(request: Request) -> Handshake:
    """Raises a Rejection."""
    handshake = ServerProtocol(extensions=[_COMPRESSION], logger=_logger)
    response = handshake.accept(HandshakeRequest("/", Headers(request.headers)))
    if response.status_code != HTTPStatus.SWITCHING_PROTOCOLS:
        headers = [("upgrade", "websocket")] if response.status_code == HTTPStatus.UPGRADE_REQUIRED else []
        detail = bytes(response.body or b"").decode().strip()
        raise Rejection(response.status_code, detail, headers=headers)
    if not request.is_upgrade or request.method != "GET" or request.version != "1.1" or _has_body(request):
        raise Rejection(400, "a WebSocket begins with a GET request of HTTP/1.1 without a body")
    # The protocol of a handshake would wait for the head of the request, which is read already.
    protocol = Protocol(Side.SERVER, logger=_logger)
    protocol.extensions = handshake.extensions
    return Handshake(protocol, response.serialize())


def _has_body(request: Request) -> bool:
    return request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers
