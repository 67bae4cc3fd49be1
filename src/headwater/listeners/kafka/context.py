"""What a handler knows beside its request: the broker, the API version, and the client."""

from typing import NamedTuple

from headwater.broker.access.guard import Guard
from headwater.broker.broker import Broker
from headwater.listeners.kafka.fetch_sessions import FetchSessions
from headwater.listeners.kafka.reply_templates import ReplyTemplates


class Context(NamedTuple):
    """One for each API version that a connection speaks, shared by all requests of that version."""

    broker: Broker
    fetch_sessions: FetchSessions
    reply_templates: ReplyTemplates
    api_version: int
    client_id: str | None
    peer_host: str
    # What the client may do.
    guard: Guard
    # The name of the listener that the client is connected to: it decides which broker addresses responses contain.
    listener: str

    @property
    def client_host(self) -> str:
        """The client's address as groups show it, in Java's notation."""
        return f"/{self.peer_host}"
