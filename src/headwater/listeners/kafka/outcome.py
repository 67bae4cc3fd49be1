"""What a handler gives for a request: a response, something in its place, or either of them later."""

from collections.abc import Coroutine
from typing import Any, NamedTuple, TypeAlias

from headwater.broker.pending import Pending
from headwater.protocol.wire.codec import Response

# The body of a response that the handler has encoded itself.
EncodedResponse: TypeAlias = bytearray


class HangUp(NamedTuple):
    """The connection ends, because that is the only way to tell the client."""

    reason: str


class NoReply:
    """The client wants no response (produce with acks=0)."""


NO_REPLY = NoReply()

Reply: TypeAlias = Response | EncodedResponse | HangUp | NoReply
# Pending where waiting is part of the hot path, a coroutine elsewhere.
Outcome: TypeAlias = Reply | Pending[Any] | Coroutine[Any, Any, Response]
