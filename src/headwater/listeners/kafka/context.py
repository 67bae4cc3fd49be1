"""What a handler knows beside its request: the broker, the version spoken, and who asks."""

from typing import TYPE_CHECKING, NamedTuple

from headwater.broker.broker import Broker

if TYPE_CHECKING:
    from headwater.listeners.kafka.fetch_sessions import FetchSessions


class HangUp(NamedTuple):
    """In place of a response: the connection ends, because it is the only way to tell the client."""

    reason: str


class Context(NamedTuple):
    """One for each version that a connection speaks; it holds nothing of a single request."""

    broker: Broker
    fetch_sessions: "FetchSessions"
    api_version: int
    client_id: str | None
    peer_host: str
    # Where this client was told to connect: host and port that Metadata answers with.
    advertised: tuple[str, int]

    @property
    def client_host(self) -> str:
        """The address as groups show it, which is Java's way to write one."""
        return f"/{self.peer_host}"
