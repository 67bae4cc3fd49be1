"""What one connection has proved: the exchange that is under way, who its client is, and until when that counts.

A session with a limited life (`connections.max.reauth.ms`, a token that expires) is renewed by another exchange on the
same connection (KIP-368), with the same mechanism and the same principal.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from headwater.broker.audit.event import EventType, Result
from headwater.errors import ErrorCode
from headwater.listeners.kafka.sasl.listener import SaslListener
from headwater.listeners.tcp.connection import Connection
from headwater.security.mechanisms import Challenge, Exchange, Failure, Success, Work
from headwater.security.principals import USER, Principal

logger = logging.getLogger(__name__)

# Names of real users are shorter; a stranger chooses this one.
_LOGGED_NAME_LENGTH_MAX = 64


class Gate(Protocol):
    """Stands between a connection and the APIs that need to know who the client is."""

    def open(self, principal: Principal) -> None: ...

    def shut(self) -> None: ...


class Answer(NamedTuple):
    """What the client is told about its message."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    data: bytes = b""
    # 0 is for ever, and also says that the exchange is not over.
    lifetime_ms: int = 0


class SaslSession:
    __slots__ = (
        "_closed",
        "_connection",
        "_exchange",
        "_gate",
        "_has_failed",
        "_is_first",
        "_listener",
        "_mechanism",
        "_proven",
        "has_expired",
        "is_by_token",
        "takes_bare_messages",
    )

    def __init__(self, listener: SaslListener, connection: Connection, gate: Gate) -> None:
        self._listener = listener
        self._connection = connection
        self._gate = gate
        # Of the handshake.
        self._mechanism = ""
        self._exchange: Exchange | None = None
        # Whether the exchange has failed, although it goes on until the client has been told.
        self._has_failed = False
        # Set when the connection closes; only a session that waits has one.
        self._closed: asyncio.Event | None = None
        # The mechanism and principal of the first authentication, which later ones must repeat.
        self._proven: tuple[str, Principal] | None = None
        # Whether the client sends the messages of the mechanism as such, without a header (SaslHandshake v0).
        self.takes_bare_messages = False
        self.is_by_token = False
        self.has_expired = False

    def handshake(self, mechanism: str, *, is_bare: bool) -> tuple[ErrorCode, Sequence[str]]:
        """Begin an exchange; gives the mechanisms of the listener, too."""
        mechanisms = self._listener.mechanisms
        if self._proven is not None and (is_bare or not (self.has_expired or self._listener.is_limited(self))):
            # As in Kafka: a session without an end cannot be renewed.
            return ErrorCode.ILLEGAL_SASL_STATE, []
        if self._exchange is not None:
            # As in Kafka: an exchange that has begun ends, and a failure of it counts.
            self._connection.drain()
            return ErrorCode.ILLEGAL_SASL_STATE, []
        begin = mechanisms.get(mechanism)
        if begin is None:
            self._connection.drain()
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM, list(mechanisms)
        self._mechanism = mechanism
        self._exchange = begin()
        self._has_failed = False
        self.takes_bare_messages = is_bare
        return ErrorCode.NONE, list(mechanisms)

    async def authenticate(self, message: bytes) -> Answer:
        # Taken out, so that no second message can come in between while a thread works on this one.
        exchange, self._exchange = self._exchange, None
        if exchange is None:
            if self._proven is None:
                self._connection.drain()
            return Answer(ErrorCode.ILLEGAL_SASL_STATE, "SaslHandshake comes before each authentication")
        size_max = self._listener.config.sasl_server_max_receive_size
        if len(message) > size_max:
            problem = f"a message of {len(message)} bytes, more than {size_max} (sasl.server.max.receive.size)"
            return await self._refuse(Failure(problem))
        if self._proven is not None and self._proven[0] != self._mechanism:
            return await self._refuse(
                Failure(f"it authenticated with {self._proven[0]} before"),
                f"SASL mechanism '{self._mechanism}' requested by client is not supported for re-authentication of "
                f"mechanism '{self._proven[0]}'",
            )
        step = exchange.respond(message)
        if isinstance(step, Work):
            step = await self._listener.authentication.finish(step)
        match step:
            case Challenge(data, failure):
                if failure is not None:
                    await self._fail(failure)
                self._exchange = exchange
                return Answer(data=data)
            case Success():
                return await self._accept(step)
            case Failure():
                return await self._refuse(step)

    async def _accept(self, success: Success) -> Answer:
        if self._proven is not None and self._proven[1] != success.principal:
            return await self._refuse(
                Failure(f"it was {self._proven[1]} before", success.principal.name),
                "Cannot change principals during re-authentication",
            )
        if self._connection.is_closed:
            return Answer()
        listener = self._listener
        listener.measurements.authentications[self._mechanism, True] += 1
        by = "delegation token" if success.is_by_token else None
        self._record(EventType.AUTHENTICATION_SUCCESS, str(success.principal), Result.SUCCESS, by=by)
        lifetime_ms = self._lifetime_ms(success)
        listener.limit(self, lifetime_ms)
        self._proven = self._mechanism, success.principal
        self.is_by_token = success.is_by_token
        self.takes_bare_messages = False
        self.has_expired = False
        listener.release(self._connection)
        self._gate.open(success.principal)
        return Answer(data=success.data, lifetime_ms=lifetime_ms or 0)

    def _lifetime_ms(self, success: Success) -> int | None:
        limit_ms = self._listener.config.connections_max_reauth_ms
        lifetimes_ms = [limit_ms] if limit_ms else []
        if success.expires_ms is not None:
            lifetimes_ms.append(max(success.expires_ms - self._listener.clock.now_ms(), 0))
        return min(lifetimes_ms, default=None)

    async def _refuse(self, failure: Failure, told: str | None = None) -> Answer:
        """The client learns only that its credentials are invalid."""
        self._connection.drain()
        if not self._has_failed:
            await self._fail(failure)
        if told is None:
            during = "authentication" if self._proven is None else "re-authentication"
            told = f"Authentication failed during {during} due to invalid credentials with SASL mechanism"
            told += f" {self._mechanism}"
        return Answer(ErrorCode.SASL_AUTHENTICATION_FAILED, told)

    async def _fail(self, failure: Failure) -> None:
        """Count the failure, and wait, which slows down guessing."""
        self._has_failed = True
        self._listener.measurements.authentications[self._mechanism, False] += 1
        self._record(EventType.AUTHENTICATION_FAILURE, f"{USER}:{failure.user}", Result.FAILURE, failure.reason)
        self._connection.failures.warn(
            logger,
            "failed authentications",
            "authentication of %r at %s:%s with %s failed: %s",
            failure.user[:_LOGGED_NAME_LENGTH_MAX],
            *self._connection.peer[:2],
            self._mechanism,
            failure.reason,
        )
        self._closed = asyncio.Event()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._listener.config.connection_failed_authentication_delay_ms / 1000):
                await self._closed.wait()

    def _record(
        self, event_type: EventType, principal: str, result: Result, reason: str | None = None, *, by: str | None = None
    ) -> None:
        audit = self._listener.audit
        if audit is not None:
            details = {"mechanism": self._mechanism, "listener": self._listener.name}
            if reason is not None:
                details["reason"] = reason
            if by is not None:
                details["by"] = by
            audit.record(event_type, principal, self._connection.peer_host, "", result, details)

    def expire(self) -> None:
        """From now on the client has to authenticate again before anything else."""
        self.has_expired = True
        self._gate.shut()

    def count_expired(self) -> None:
        self._listener.measurements.sessions_expired.value += 1

    def end(self) -> None:
        """The connection has closed."""
        if self._closed is not None:
            self._closed.set()
        self._listener.release(self._connection)
        self._listener.limit(self, None)
