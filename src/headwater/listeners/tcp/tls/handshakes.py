"""The clients of one listener that are in their TLS handshake: they become connections when it is done.

A handshake is the most that a stranger can make the broker work for, so it is bounded in every respect: one step of one
client in each turn of the loop, in between which all others are served; a time limit; and a number, at which the client
that has taken longest makes room. Before its first byte a client costs no more than its socket.
"""

import asyncio
import logging
import ssl
from collections import Counter, deque
from collections.abc import Callable
from socket import MSG_PEEK, socket
from typing import TYPE_CHECKING, Any, TypeAlias

from headwater.broker.audit.event import EventType, Result
from headwater.clock import Clock
from headwater.config.listeners import ListenerAddress
from headwater.listeners.tcp.failure_log import FailureLog
from headwater.listeners.tcp.poller import Poller
from headwater.listeners.tcp.tls.live_context import LiveContext
from headwater.listeners.tcp.tls.server_context import reason_of
from headwater.listeners.tcp.tls.transport import PIECE_BYTES, TlsTransport
from headwater.printable import printable
from headwater.security.acl import FIELD_LENGTH_MAX
from headwater.security.distinguished_names import rfc2253_name
from headwater.security.principals import ANONYMOUS, USER, Principal, user
from headwater.security.x509 import MalformedCertificate, read_certificate

if TYPE_CHECKING:
    from headwater.broker.audit.audit_log import AuditLog

logger = logging.getLogger(__name__)

# The first byte of all that TLS sends before it encrypts (RFC 8446, 5.1).
_HANDSHAKE_RECORD = 0x16
OK = "ok"
# Why handshakes fail, as metrics count it.
PLAINTEXT, CLOSED, LATE, OVERTAKEN = "plaintext", "closed", "timeout", "overtaken"
CERTIFICATE, NO_CERTIFICATE, PRINCIPAL = "certificate", "no_certificate", "principal"
REFUSED_BY_CLIENT, MISMATCH, MALFORMED = "refused_by_client", "mismatch", "malformed"

# The client did not prove who it is; all other failures are no attempt of that.
_AUTHENTICATION_FAILURES = frozenset({CERTIFICATE, NO_CERTIFICATE, PRINCIPAL})

_CODES = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": NO_CERTIFICATE,
    "CERTIFICATE_VERIFY_FAILED": CERTIFICATE,
    "UNSUPPORTED_PROTOCOL": MISMATCH,
    "NO_SHARED_CIPHER": MISMATCH,
    "NO_SUITABLE_SIGNATURE_ALGORITHM": MISMATCH,
    "NO_SUITABLE_KEY_SHARE": MISMATCH,
}

# Takes the client over when its handshake is over, or None if it failed.
Finish: TypeAlias = Callable[[TlsTransport | None], None]


class _Refused(Exception):
    def __init__(self, code: str, problem: str) -> None:
        super().__init__(problem)
        self.code = code


class _Client:
    __slots__ = ("finish", "peer", "since_ms", "stream")

    def __init__(self, accepted: socket, peer: Any, since_ms: int, finish: Finish) -> None:
        # A TlsTransport from its first byte on.
        self.stream = accepted
        self.peer = peer
        self.since_ms = since_ms
        self.finish = finish

    def fileno(self) -> int:
        return self.stream.fileno()

    def pending(self) -> int:
        return 0


class Handshakes:
    def __init__(
        self,
        address: ListenerAddress,
        live: LiveContext,
        poller: Poller,
        clock: Clock,
        failures: FailureLog,
        audit: "AuditLog | None",
    ) -> None:
        self.listener = address.name
        # Where clients authenticate by SASL, that decides who they are.
        self._is_certificate_identity = not address.protocol.is_sasl
        self._audit = audit
        self.live = live
        self.outcomes: Counter[str] = Counter()
        self._poller = poller
        self._clock = clock
        self._failures = failures
        self._loop = asyncio.get_running_loop()
        self._scratch = memoryview(bytearray(PIECE_BYTES))
        # In the order in which they came.
        self._clients: dict[_Client, None] = {}
        # Those whose sockets are ready.
        self._ready: deque[_Client] = deque()

    def __len__(self) -> int:
        return len(self._clients)

    def begin(self, accepted: socket, peer: Any, finish: Finish) -> None:
        """`finish` is called once."""
        if len(self._clients) >= self.live.config.headwater_tls_handshakes_max:
            longest = next(iter(self._clients))
            self._fail(longest, OVERTAKEN, "newer clients took its place (headwater.tls.handshakes.max)")
        client = _Client(accepted, peer, self._clock.monotonic_ms(), finish)
        self._clients[client] = None
        self._watch(client)

    def sweep(self, now_ms: int) -> None:
        """Called about once a second."""
        self.live.check_files()
        self.live.warn_of_expiry()
        timeout_ms = self.live.config.headwater_tls_handshake_timeout_ms
        for client in tuple(self._clients):
            if now_ms - client.since_ms < timeout_ms:
                break
            self._fail(client, LATE, f"it took over {timeout_ms} ms (headwater.tls.handshake.timeout.ms)")

    def close(self) -> None:
        for client in tuple(self._clients):
            self._end(client, None)

    # -- one client

    def _watch(self, client: _Client) -> None:
        self._poller.watch(client, lambda: self._socket_ready(client))

    def _socket_ready(self, client: _Client) -> None:
        self._poller.ignore(client)
        if not self._ready:
            self._loop.call_soon(self._step_one)
        self._ready.append(client)

    def _step_one(self) -> None:
        client = self._ready.popleft()
        if self._ready:
            self._loop.call_soon(self._step_one)
        if client not in self._clients:
            return
        try:
            transport = self._transport_of(client)
            transport.do_handshake()
            transport.principal = self._principal_of(transport)
        except (ssl.SSLWantReadError, BlockingIOError, InterruptedError):
            self._watch(client)
        except ssl.SSLWantWriteError:
            self._watch(client)
            self._poller.await_writable(client)
        except _Refused as refused:
            self._fail(client, refused.code, str(refused))
        except OSError as error:
            self._fail(client, *_diagnosis(error))
        except Exception:
            logger.exception("the TLS handshake of %s:%s failed", *client.peer[:2])
            self._fail(client, MALFORMED, "this is a bug of the broker")
        else:
            self.outcomes[OK] += 1
            if self._is_certificate_identity and transport.principal is not ANONYMOUS:
                self._record(client, EventType.AUTHENTICATION_SUCCESS, str(transport.principal))
            self._end(client, transport)

    def _transport_of(self, client: _Client) -> TlsTransport:
        if isinstance(client.stream, TlsTransport):
            return client.stream
        first = client.stream.recv(1, MSG_PEEK)
        if not first:
            raise ConnectionResetError
        if first[0] != _HANDSHAKE_RECORD:
            raise _Refused(PLAINTEXT, "the client does not speak TLS, this port does (security.protocol of the client)")
        context = self.live.current.context
        transport = context.wrap_socket(client.stream, server_side=True, do_handshake_on_connect=False)
        assert isinstance(transport, TlsTransport)
        transport.begin(self._poller, self._scratch)
        client.stream = transport
        return transport

    def _principal_of(self, transport: TlsTransport) -> Principal:
        certificate = transport.getpeercert(binary_form=True)
        if certificate is None:
            return ANONYMOUS
        try:
            subject = rfc2253_name(read_certificate(certificate).subject)
        except MalformedCertificate as error:
            raise _Refused(CERTIFICATE, f"its certificate cannot be read: {error}") from None
        name = self.live.current.mapping.name_of(subject)
        if not name:
            raise _Refused(PRINCIPAL, f"ssl.principal.mapping.rules have no name for {printable(subject)[:500]!r}")
        principal = user(name)
        if len(str(principal)) > FIELD_LENGTH_MAX:
            raise _Refused(
                PRINCIPAL,
                f"its name has {len(name)} characters, more than an ACL can name: ssl.principal.mapping.rules can "
                f"shorten {printable(name)[:100]!r}",
            )
        return principal

    def _fail(self, client: _Client, code: str, problem: str) -> None:
        self.outcomes[code] += 1
        if code in _AUTHENTICATION_FAILURES:
            self._record(client, EventType.AUTHENTICATION_FAILURE, f"{USER}:", problem)
        self._failures.warn(
            logger,
            "failed TLS handshakes",
            "no TLS with %s:%s (listener %s): %s",
            *client.peer[:2],
            self.listener,
            problem,
        )
        self._end(client, None)

    def _record(self, client: _Client, event_type: EventType, principal: str, reason: str | None = None) -> None:
        if self._audit is None:
            return
        details = {"mechanism": "TLS", "listener": self.listener} | ({} if reason is None else {"reason": reason})
        result = Result.SUCCESS if reason is None else Result.FAILURE
        self._audit.record(event_type, principal, client.peer[0], "", result, details)

    def _end(self, client: _Client, transport: TlsTransport | None) -> None:
        del self._clients[client]
        self._poller.ignore(client)
        if transport is None:
            client.stream.close()
        client.finish(transport)


def _diagnosis(error: OSError) -> tuple[str, str]:
    """Why a handshake failed: for metrics, and in words."""
    if not isinstance(error, ssl.SSLError) or isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return CLOSED, "the client hung up"
    reason = reason_of(error)
    code = _CODES.get(error.reason or "", MALFORMED)
    if code == MALFORMED and "alert" in reason:
        return REFUSED_BY_CLIENT, f"the client refused: {reason}"
    if code == CERTIFICATE:
        return code, f"its certificate is refused: {reason}"
    return code, reason
