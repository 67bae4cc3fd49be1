"""The conversation with a client that has not authenticated, or whose session has expired: it serves what this takes,
one request at a time.

Then the connection is handed over to the usual conversation, whose requests so pay nothing for authentication.
"""

import asyncio
import logging
from struct import Struct
from typing import Final

from headwater.config.broker import BrokerConfig
from headwater.errors import ProtocolError
from headwater.listeners.kafka.apis.cluster import api_versions
from headwater.listeners.kafka.apis.security import sasl_authenticate, sasl_handshake
from headwater.listeners.kafka.conversation import KafkaConversation, KafkaServices
from headwater.listeners.kafka.sasl.listener import SaslListener
from headwater.listeners.kafka.sasl.session import SaslSession
from headwater.listeners.tcp.connection import Connection, Slot
from headwater.listeners.tcp.request_memory import RequestMemory
from headwater.protocol.wire.framing import FrameReader
from headwater.security.principals import Principal

logger = logging.getLogger(__name__)

_SERVED: Final = {each.REQUEST.api_key for each in (api_versions, sasl_handshake, sasl_authenticate)}
_api_key = Struct(">h").unpack_from
_size = Struct(">i").pack


class AuthenticatingConversation:
    __slots__ = ("_connection", "_conversation", "_services", "_session", "frames", "requests_max")

    def __init__(
        self, services: KafkaServices, listener: SaslListener, connection: Connection, memory: RequestMemory
    ) -> None:
        # The client's next request waits until it has the reply to this one, as in Kafka.
        self.requests_max = 1
        self._services = services
        self._connection = connection
        self._session = SaslSession(listener, connection, self)
        self._conversation = KafkaConversation(services, listener.name, connection, memory, self._session)
        self.frames: FrameReader = self._conversation.frames
        self.use_config(services.broker.config)
        if not listener.admit(connection):
            # Not at once: the connection is only being made.
            asyncio.get_running_loop().call_soon(
                connection.hang_up,
                "too many connections of this address have not authenticated "
                "(headwater.connections.unauthenticated.max.per.ip)",
            )

    def use_config(self, config: BrokerConfig) -> None:
        self._conversation.use_config(config)
        self.frames.frame_bytes_max = min(
            self.frames.frame_bytes_max, config.headwater_socket_request_max_bytes_unauthenticated
        )

    def serve(self, frame: memoryview, slot: Slot) -> None:
        if self._session.takes_bare_messages:
            self._services.run(self._answer_bare(bytes(frame), slot), self._connection)
            return
        if len(frame) < 2 or _api_key(frame)[0] not in _SERVED:
            if self._session.has_expired:
                self._session.count_expired()
                raise ProtocolError("its session has expired and it did not authenticate again")
            raise ProtocolError("it has to authenticate before it sends other requests")
        self._conversation.serve(frame, slot)

    async def _answer_bare(self, message: bytes, slot: Slot) -> None:
        answer = await self._session.authenticate(message)
        # There is no way to tell an error: the connection just ends.
        slot.fill([] if answer.error_code else [_size(len(answer.data)), answer.data])

    def open(self, principal: Principal) -> None:
        """The client has proved who it is."""
        self._conversation.authenticated(principal)
        self._conversation.use_config(self._services.broker.config)
        self._connection.hand_over(self._conversation)

    def shut(self) -> None:
        """The client's session has expired."""
        self._connection.hand_over(self)
        self.use_config(self._services.broker.config)

    def end(self) -> None:
        self._conversation.end()
