"""A client of the broker's WebSockets, with what it was pushed."""

import json
from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from websockets.sync.client import connect

from headwater.testing import Broker
from tests.support.http.client import TIMEOUT_S

# Of a client that speaks bytes.
HANDSHAKE = (
    b"GET /v1/ws HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


class WebSocketClient:
    def __init__(
        self, broker: Broker, headers: Mapping[str, str] | None = None, *, origin: str | None = None, **options: Any
    ) -> None:
        url = broker.http_url.replace("http", "ws", 1) + "/v1/ws"
        connection = connect(url, additional_headers=headers, origin=origin, proxy=None, **options)  # type: ignore[arg-type]
        self.socket = connection.__enter__()
        self.pushed: deque[dict[str, Any]] = deque()
        self._count = 0

    def begin(self, command: str, params: object = None, **fields: object) -> int:
        self._count += 1
        sent: dict[str, object] = {"id": self._count, "command": command, **fields}
        if params is not None:
            sent["params"] = params
        self.socket.send(json.dumps(sent))
        return self._count

    def _receive(self) -> dict[str, Any]:
        return json.loads(self.socket.recv(TIMEOUT_S))

    def answer(self) -> dict[str, Any]:
        """The next answer; what is pushed before it is kept."""
        while "success" not in (message := self._receive()):
            self.pushed.append(message)
        return message

    def ask(self, command: str, params: object = None, **fields: object) -> dict[str, Any]:
        """The answer, also of a refusal."""
        number = self.begin(command, params, **fields)
        answer = self.answer()
        assert answer["id"] == number
        return answer

    def do(self, command: str, params: object = None, **fields: object) -> Any:
        """The data of the answer."""
        answer = self.ask(command, params, **fields)
        assert answer["success"], answer
        return answer["data"]

    def push(self) -> dict[str, Any]:
        return self.pushed.popleft() if self.pushed else self._receive()

    def messages(self, count: int) -> list[dict[str, Any]]:
        """The data of so many messages."""
        found = [self.push() for _ in range(count)]
        assert {each["command"] for each in found} <= {"message"}, found
        return [each["data"] for each in found]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.__exit__(kind, error, trace)
