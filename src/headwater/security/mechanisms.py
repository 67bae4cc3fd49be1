"""SASL on the broker's side: the mechanisms, and what follows from each message of a client that authenticates.

An exchange is sans I/O: it is given the client's messages and knows neither sockets nor the clock.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias

from headwater.security.principals import Principal

PLAIN = "PLAIN"
SCRAM_SHA_256 = "SCRAM-SHA-256"
SCRAM_SHA_512 = "SCRAM-SHA-512"
OAUTHBEARER = "OAUTHBEARER"
MECHANISMS = (SCRAM_SHA_256, SCRAM_SHA_512, PLAIN, OAUTHBEARER)


class Failure(NamedTuple):
    """`reason` is for the broker's log. The client learns only that its credentials are invalid."""

    reason: str
    # The name that the client gave itself, if it came that far.
    user: str = ""


class Challenge(NamedTuple):
    """The exchange continues: the client gets these bytes and answers them."""

    data: bytes
    # The exchange has failed already. These bytes tell the client so; its answer is refused.
    failure: Failure | None = None


class Success(NamedTuple):
    principal: Principal
    # The last bytes that the client gets.
    data: bytes = b""
    # When the credential itself expires, in ms since 1970.
    expires_ms: int | None = None
    # By a delegation token: such a client may not ask for further tokens.
    is_by_token: bool = False


class Work(NamedTuple):
    """The outcome takes milliseconds of computation, which belong in a thread."""

    run: Callable[[], Success | Failure]


Step: TypeAlias = Challenge | Success | Failure | Work


class Exchange(Protocol):
    """One attempt to authenticate. After `Success`, `Failure` or `Work` it is over."""

    def respond(self, message: bytes) -> Step: ...
