"""A client for tests of HTTP: one connection, answers with their JSON, and bytes that no real client would send."""

import base64
import http.client
import json
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from headwater.testing import Broker

TIMEOUT_S = 30


@dataclass(frozen=True)
class Answer:
    status: int
    # By name in small letters.
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def basic(user: str, password: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


class HttpClient:
    def __init__(
        self, broker: Broker, headers: Mapping[str, str] | None = None, *, context: ssl.SSLContext | None = None
    ) -> None:
        """`headers` go with every request."""
        self.broker = broker
        self.headers = dict(headers or {})
        url = urlsplit(broker.http_url)
        assert url.hostname is not None
        if url.scheme == "https":
            context = context or ssl.create_default_context(cafile=broker.ca_file)
            self.connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                url.hostname, url.port, timeout=TIMEOUT_S, context=context
            )
        else:
            self.connection = http.client.HTTPConnection(url.hostname, url.port, timeout=TIMEOUT_S)

    def ask(self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Answer:
        """`body` is sent as it is if it is bytes, otherwise as JSON."""
        sent = {**self.headers, **(headers or {})}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            sent.setdefault("content-type", "application/json")
        self.connection.request(method, path, body, sent)
        response = self.connection.getresponse()
        content = response.read()
        found: dict[str, str] = {}
        for name, value in response.getheaders():
            found[name.lower()] = f"{found[name.lower()]}, {value}" if name.lower() in found else value
        return Answer(response.status, found, content)

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})

    def post(self, path: str, body: object = None, **headers: str) -> Answer:
        return self.ask("POST", path, body, {name.replace("_", "-"): value for name, value in headers.items()})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.connection.close()


def raw_connection(broker: Broker) -> socket.socket:
    return socket.create_connection(broker.node.addresses["http"], timeout=TIMEOUT_S)


def raw_exchange(broker: Broker, sent: bytes, *, ends: bool = False) -> bytes:
    """All that the broker answers until it closes the connection. With `ends` the client sends no more."""
    with raw_connection(broker) as connection:
        connection.sendall(sent)
        if ends:
            connection.shutdown(socket.SHUT_WR)
        received = bytearray()
        try:
            while data := connection.recv(65536):
                received += data
        except ConnectionResetError:
            pass
        return bytes(received)
