"""What a handler knows beside its request: the broker, the API version, and the client."""

from typing import TYPE_CHECKING, NamedTuple

from headwater.broker.access.guard import Guard
from headwater.broker.broker import Broker
from headwater.errors import ErrorCode, Refusal
from headwater.listeners.kafka.fetch_sessions import FetchSessions
from headwater.listeners.kafka.reply_templates import ReplyTemplates
from headwater.listeners.kafka.share_sessions import ConnectionLink, ShareSessions
from headwater.security.principals import ANONYMOUS, Principal

if TYPE_CHECKING:
    from headwater.broker.writes.check_threads import RequestBytes
    from headwater.listeners.kafka.sasl.session import SaslSession


class Context(NamedTuple):
    """One for each API version that a connection speaks, shared by all requests of that version."""

    broker: Broker
    fetch_sessions: FetchSessions
    share_sessions: ShareSessions
    reply_templates: ReplyTemplates
    api_version: int
    client_id: str | None
    peer_host: str
    # What the client may do.
    guard: Guard
    # The name of the listener that the client is connected to: it decides which broker addresses responses contain.
    listener: str
    # Holds the memory in which the client's requests lie.
    request_bytes: "RequestBytes"
    # The connection, for what ends with it.
    link: ConnectionLink
    # What the connection has proved; None on a listener without SASL.
    session: "SaslSession | None" = None

    @property
    def principal(self) -> Principal:
        """Who the client is."""
        return self.guard.principal

    @property
    def client_host(self) -> str:
        """The client's address as groups show it, in Java's notation."""
        return f"/{self.peer_host}"

    def check_may_use_tokens(self) -> None:
        """As in Kafka, delegation tokens are for clients that have authenticated, and not by such a token."""
        if self.principal == ANONYMOUS or (self.session is not None and self.session.is_by_token):
            raise Refusal(
                ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
                "delegation tokens are for clients that authenticate by other means",
            )
