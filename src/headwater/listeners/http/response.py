"""What a handler gives back: a whole response, or a stream that it writes as long as it likes."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from headwater.listeners.http.conversation import HttpConversation

Headers: TypeAlias = Sequence[tuple[str, str]]

JSON = "application/json"


class Response(NamedTuple):
    status: int
    body: bytes = b""
    # Empty where there is no body.
    content_type: str = JSON
    headers: Headers = ()


NO_CONTENT = Response(204, b"", "")


class StreamWriter(Protocol):
    """Sends the parts of a stream. When the broker stops, or the client leaves, the task of the stream is cancelled."""

    async def send(self, data: bytes) -> None:
        """Returns when the client keeps up. Raises ConnectionResetError when it has gone."""
        ...


class Stream(NamedTuple):
    """A response without an end: `write` sends it, until it returns, the client leaves, or the broker stops."""

    content_type: str
    write: Callable[[StreamWriter], Awaitable[None]]
    headers: Headers = ()


class Upgrade(NamedTuple):
    """The connection continues with another protocol. `begin` takes it over, with the bytes that came already."""

    begin: "Callable[[HttpConversation, bytes], None]"


Answer: TypeAlias = Response | Stream | Upgrade
