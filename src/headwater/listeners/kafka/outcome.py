"""What a handler returns: a response, something in its place, or one of them later."""

from collections.abc import Coroutine
from typing import Any, NamedTuple, TypeAlias

from headwater.broker.pending import Pending
from headwater.protocol.wire.codec import Response

# The frame of a reply that the handler has encoded itself, all but the correlation id.
EncodedReply: TypeAlias = bytearray


class HangUp(NamedTuple):
    """Close the connection: the only way to let the client know of a failure."""

    reason: str


class NoReply:
    """The client expects no response (produce with acks=0)."""


NO_REPLY = NoReply()

Reply: TypeAlias = Response | EncodedReply | HangUp | NoReply
# Pending where waiting is part of the hot path, a coroutine elsewhere.
Outcome: TypeAlias = Reply | Pending[Any] | Coroutine[Any, Any, Response]
