"""Who the client of a request is: by its Authorization header (Basic, Bearer) or by its certificate.

Every request proves it anew; what a connection has proved is only remembered so that a log-in is counted and recorded
once. Passwords and tokens are verified by the same code as those of Kafka's clients.
"""

import asyncio
import base64
import logging
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from headwater.broker.access.authentication import BeginExchange
from headwater.broker.access.guard import Guard
from headwater.broker.audit.event import EventType, Result
from headwater.broker.broker import Broker
from headwater.config.listeners import BASIC, BEARER, ListenerAddress
from headwater.errors import ConfigError, ErrorCode
from headwater.listeners.http.measurements import HttpMeasurements
from headwater.listeners.http.problem import Rejection
from headwater.listeners.http.request import Request
from headwater.listeners.tcp.failure_log import FailureLog
from headwater.security import oauth_bearer, plain
from headwater.security.mechanisms import OAUTHBEARER, PLAIN, Challenge, Failure, Success, Work
from headwater.security.principals import ANONYMOUS, USER, Principal

logger = logging.getLogger(__name__)

_REALM = "headwater"
_LOGGED_NAME_LENGTH_MAX = 64
_MECHANISMS = {BASIC: PLAIN, BEARER: OAUTHBEARER}
_CHALLENGES = {BASIC: f'Basic realm="{_REALM}", charset="UTF-8"', BEARER: f'Bearer realm="{_REALM}"'}


class Identity(NamedTuple):
    """What a connection has proved last, and with what."""

    authorization: str
    guard: Guard
    # The scheme whose credential expires, and when that is.
    expires_ms: int | None


class HttpAuthentication:
    """For one listener."""

    def __init__(
        self, broker: Broker, address: ListenerAddress, measurements: HttpMeasurements, failures: FailureLog
    ) -> None:
        self._access = broker.access
        self._clock = broker.clock
        self._name = address.name
        self._live_config = broker.live_config
        self._measurements = measurements
        self._failures = failures
        self._is_required = address.protocol.is_sasl
        self.schemes = broker.config.of_listener(address.name).headwater_http_authentication
        self._begin: Mapping[str, BeginExchange] = (
            broker.access.authentication.mechanisms(
                broker.config.of_listener(address.name), broker.config.mechanisms_of(address)
            )
            if self._is_required
            else {}
        )
        # How many credentials of each address are being verified: guesses must not fill the memory.
        self._verifying: Counter[str] = Counter()
        # Open connections of each address whose clients still have to log in.
        self._strangers: Counter[str] = Counter()

    async def identify(self, request: Request) -> Guard:
        """The guard of the client. Raises a Rejection if it is not who it says, or says nothing where it has to."""
        authorization = request.headers.get("authorization")
        if not self._is_required or (authorization is None and request.certificate_principal is not ANONYMOUS):
            return self._guard(request, request.certificate_principal, "")
        if authorization is None:
            raise self._unauthorized("the request has no credentials (the Authorization header)")
        known = request.identity
        if known is not None and known.authorization != authorization:
            known = None
        # A token is valid until it expires. A password may have been changed: it is verified each time.
        if known is not None and known.expires_ms is not None and self._clock.now_ms() < known.expires_ms:
            return known.guard
        scheme, _, credentials = authorization.partition(" ")
        success = await self.verify(scheme.lower(), credentials.strip(), request.peer_host)
        if known is not None and known.guard.principal == success.principal:
            return known.guard
        self._count(scheme.lower(), success.principal, request.peer_host)
        return self._guard(request, success.principal, authorization, success.expires_ms)

    def _guard(self, request: Request, principal: Principal, proof: str, expires_ms: int | None = None) -> Guard:
        known = request.identity
        if known is not None and not proof and known.guard.principal == principal and not known.authorization:
            return known.guard
        guard = self._access.guard(principal, request.peer_host)
        request.identity = Identity(proof, guard, expires_ms)
        return guard

    def session_end_ms(self, identity: Identity | None) -> int | None:
        """Until when a stream that begins now may go on without another log-in, in ms since 1970; None: for ever."""
        if identity is None or not identity.authorization:
            return None
        limit_ms = self._live_config.current.of_listener(self._name).connections_max_reauth_ms
        ends_ms = [self._clock.now_ms() + limit_ms] if limit_ms else []
        if identity.expires_ms is not None:
            ends_ms.append(identity.expires_ms)
        return min(ends_ms, default=None)

    def is_stranger(self, request: Request) -> bool:
        """Whether the client still has to say who it is: it may log in on an open connection (WebSocket)."""
        return (
            self._is_required and "authorization" not in request.headers and request.certificate_principal is ANONYMOUS
        )

    def check_stranger_count(self, peer_host: str) -> None:
        count_max = self._live_config.current.headwater_connections_unauthenticated_max_per_ip
        if self._strangers[peer_host] >= count_max:
            raise _too_many("too many connections of this address have not authenticated")

    def stranger_came(self, peer_host: str) -> None:
        self._strangers[peer_host] += 1

    def stranger_left(self, peer_host: str) -> None:
        """It has authenticated, or has gone."""
        self._strangers[peer_host] -= 1
        if not self._strangers[peer_host]:
            del self._strangers[peer_host]

    async def log_in(self, scheme: str, credentials: str, peer_host: str) -> Identity:
        """Raises a Rejection, after the delay of a failed authentication."""
        success = await self.verify(scheme, credentials, peer_host)
        self._count(scheme, success.principal, peer_host)
        return Identity(scheme, self._access.guard(success.principal, peer_host), success.expires_ms)

    async def verify(self, scheme: str, credentials: str, peer_host: str) -> Success:
        """Raises a Rejection, after the delay of a failed authentication."""
        if scheme not in self.schemes:
            raise self._unauthorized(f"this listener takes {', '.join(self.schemes)} (headwater.http.authentication)")
        with self._bounded(peer_host):
            outcome = await self._outcome(scheme, credentials)
            if isinstance(outcome, Success):
                return outcome
            self._report(scheme, outcome, peer_host)
            await asyncio.sleep(self._live_config.current.connection_failed_authentication_delay_ms / 1000)
        raise self._unauthorized("the credentials are not valid")

    @contextmanager
    def _bounded(self, peer_host: str) -> Generator[None]:
        count_max = self._live_config.current.headwater_connections_unauthenticated_max_per_ip
        if self._verifying[peer_host] >= count_max:
            raise _too_many("too many credentials of this address are being verified")
        self._verifying[peer_host] += 1
        try:
            yield
        finally:
            self._verifying[peer_host] -= 1
            if not self._verifying[peer_host]:
                del self._verifying[peer_host]

    async def _outcome(self, scheme: str, credentials: str) -> Success | Failure:
        message = _message(scheme, credentials)
        if message is None:
            return Failure("the Authorization header is malformed")
        step = self._begin[_MECHANISMS[scheme]]().respond(message)
        if isinstance(step, Work):
            step = await self._access.authentication.finish(step)
        if isinstance(step, Challenge):
            # Of SASL: it tells the client that its token is refused.
            return step.failure or Failure("the exchange is not over")
        return step

    def _count(self, scheme: str, principal: Principal, peer_host: str) -> None:
        self._measurements.authentications[scheme, True] += 1
        self._record(EventType.AUTHENTICATION_SUCCESS, str(principal), peer_host, scheme, Result.SUCCESS)

    def _report(self, scheme: str, failure: Failure, peer_host: str) -> None:
        self._measurements.authentications[scheme, False] += 1
        principal = f"{USER}:{failure.user}"
        self._record(EventType.AUTHENTICATION_FAILURE, principal, peer_host, scheme, Result.FAILURE, failure.reason)
        self._failures.warn(
            logger,
            "failed authentications",
            "authentication of %r at %s with %s failed: %s",
            failure.user[:_LOGGED_NAME_LENGTH_MAX],
            peer_host,
            scheme,
            failure.reason,
        )

    def _record(
        self,
        event_type: EventType,
        principal: str,
        peer_host: str,
        scheme: str,
        result: Result,
        reason: str | None = None,
    ) -> None:
        audit = self._access.audit
        if audit is not None:
            details = {"mechanism": scheme, "listener": self._name}
            if reason is not None:
                details["reason"] = reason
            audit.record(event_type, principal, peer_host, "", result, details)

    def _unauthorized(self, detail: str) -> Rejection:
        challenges = [("www-authenticate", _CHALLENGES[scheme]) for scheme in self.schemes]
        return Rejection(401, detail, code=ErrorCode.SASL_AUTHENTICATION_FAILED, headers=challenges)


def _too_many(what: str) -> Rejection:
    return Rejection(
        429,
        f"{what} (headwater.connections.unauthenticated.max.per.ip)",
        code=ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        headers=[("retry-after", "1")],
    )


def _message(scheme: str, credentials: str) -> bytes | None:
    """The credentials as the message of the SASL mechanism; None if they are malformed."""
    if scheme == BEARER:
        try:
            return oauth_bearer.encode(credentials)
        except ConfigError:
            return None
    try:
        name, separator, password = base64.b64decode(credentials, validate=True).decode().partition(":")
    except ValueError:
        return None
    return plain.encode(name, password) if separator else None
