"""What a handler knows beside its request: the broker, the version spoken, and who asks."""

from typing import NamedTuple

from headwater.broker.broker import Broker
from headwater.listeners.kafka.fetch_sessions import FetchSessions
from headwater.listeners.kafka.reply_templates import ReplyTemplates


class Context(NamedTuple):
    """One for each version that a connection speaks; it holds nothing of a single request."""

    broker: Broker
    fetch_sessions: FetchSessions
    reply_templates: ReplyTemplates
    api_version: int
    client_id: str | None
    peer_host: str
    # The name of the listener that the client is connected to: it decides which addresses the client is told.
    listener: str

    @property
    def client_host(self) -> str:
        """The address as groups show it, which is Java's way to write one."""
        return f"/{self.peer_host}"
