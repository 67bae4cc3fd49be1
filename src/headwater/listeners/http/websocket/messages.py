"""The messages of a WebSocket, each a JSON object in a text message.

The client sends commands; each is answered once, in the order in which they are done. Pushes belong to a subscription.
"""

import msgspec
from msgspec import Raw

from headwater.errors import HeadwaterError
from headwater.listeners.http.problem import Rejection, render_problem


class Command(msgspec.Struct, forbid_unknown_fields=True):
    command: str
    # Comes back with the answer.
    id: str | int | None = None
    params: Raw = Raw(b"{}")
    # A command that is repeated under the same key is done once; of `produce`.
    idempotency_key: str | None = None


class Success(msgspec.Struct):
    id: str | int | None
    data: Raw
    success: bool = True


class Failure(msgspec.Struct):
    id: str | int | None
    # Problem details, as HTTP has them.
    error: Raw
    success: bool = False


class Push(msgspec.Struct):
    # message, missing or ended.
    command: str
    data: Raw


class Ended(msgspec.Struct):
    subscription: str
    positions: str
    error: Raw


def read_command(message: bytes) -> Command:
    """Raises a Rejection."""
    try:
        return _decode(message)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Rejection(400, f"a command is {{'id', 'command', 'params'}}: {error}") from None


def success(command: Command, data: bytes) -> bytes:
    return _encode(Success(command.id, Raw(data)))


def failure(command_id: str | int | None, refusal: HeadwaterError) -> bytes:
    return _encode(Failure(command_id, Raw(render_problem(refusal).body)))


def push(command: str, data: object) -> bytes:
    return _encode(Push(command, Raw(_encode(data))))


def ended(subscription: str, positions: str, refusal: HeadwaterError) -> bytes:
    """A subscription ends by itself: its topic is gone, or the client may not read it any more."""
    return push("ended", Ended(subscription, positions, Raw(render_problem(refusal).body)))


_decode = msgspec.json.Decoder(Command).decode
_encode = msgspec.json.encode
