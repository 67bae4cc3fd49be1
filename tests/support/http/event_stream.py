"""A client of server-sent events, as a browser reads them (the HTML standard, 9.2.6)."""

import json
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from headwater.testing import Broker
from tests.support.http.client import TIMEOUT_S


@dataclass
class Event:
    kind: str = "message"
    id: str = ""
    lines: list[str] = field(default_factory=list)

    @property
    def data(self) -> Any:
        return json.loads("\n".join(self.lines))


class EventStreamClient:
    def __init__(
        self,
        broker: Broker,
        path: str,
        headers: Mapping[str, str] | None = None,
        *,
        receive_buffer_bytes: int | None = None,
    ) -> None:
        host, port = broker.node.addresses["http"]
        self.socket = socket.socket()
        if receive_buffer_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.settimeout(TIMEOUT_S)
        self.socket.connect((host, port))
        lines = [f"GET {path} HTTP/1.1", f"host: {host}", "accept: text/event-stream"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        self.socket.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        self.file = self.socket.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        self.headers: dict[str, str] = {}
        while line := self.file.readline().strip():
            name, _, value = line.decode().partition(":")
            self.headers[name.lower()] = value.strip()
        self.last_id = ""
        self.comments = 0

    def events(self) -> Iterator[Event]:
        """Ends with the stream."""
        event = Event()
        for raw in self.file:
            line = raw.decode().rstrip("\n")
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if not line:
                if event.lines:
                    event.id = self.last_id
                    yield event
                event = Event()
            elif not name:
                self.comments += 1
            elif name == "data":
                event.lines.append(value)
            elif name == "id":
                self.last_id = value
            elif name == "event":
                event.kind = value

    def take(self, count: int) -> list[Event]:
        events = self.events()
        return [next(events) for _ in range(count)]

    def close(self) -> None:
        self.file.close()
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
