"""One connection to one broker. Requests are pipelined: several may be in flight, and answers come in their order.

Law: a failure after which the position in the stream is unknown (time-out, interruption, malformed bytes) closes the
connection.
"""

import socket
import struct
from collections import deque
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from headwater import tcp
from headwater.client.errors import ClientError, ConnectionLost, UnsupportedApi, check
from headwater.client.security.security import PLAINTEXT, Security
from headwater.clock import Clock, SystemClock
from headwater.endpoint import Endpoint
from headwater.errors import ErrorCode, ProtocolError
from headwater.protocol.buffer_pool import BufferPool
from headwater.protocol.messages.cluster.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headwater.protocol.wire.codec import (
    Request,
    Response,
    decode,
    encode_parts,
    read_response_header,
    write_request_header,
)

CLIENT_ID = "headwater"
TIMEOUT_MS = 30_000
# Kafka accepts frames of 100 MiB, and a fetch response may hold one batch of that size plus its own fields.
RESPONSE_BYTES_MAX = 128 * 1024 * 1024

_SIZE = struct.Struct(">i")
_INT16 = struct.Struct(">h")
_CORRELATION_ID_MAX = 2**31 - 1
# Frames from this size on are read into pooled buffers. Smaller ones are cheap: the allocator reuses their memory.
_LARGE_BYTES_MIN = 256 * 1024
# While a large frame arrives, the socket becomes readable only once this much is there (SO_RCVLOWAT).
_LOW_WATER_BYTES = 512 * 1024
_SOFTWARE_VERSION = "1"
# First bytes of a plaintext TLS alert (record type 21, major version 3): we spoke Kafka to a TLS port.
_TLS_ALERT = 0x1503

R = TypeVar("R", bound=Response)


class InFlightRequest(Generic[R]):
    """A request that was sent. `answer` is None until the response is read."""

    __slots__ = ("answer", "correlation_id", "response", "version")

    def __init__(self, response: type[R], version: int, correlation_id: int) -> None:
        self.response = response
        self.version = version
        self.correlation_id = correlation_id
        self.answer: R | None = None


class BrokerConnection:
    """Connects, negotiates versions (ApiVersions), and authenticates if `security` has credentials. `timeout_ms` bounds
    each of these steps and, by default, the wait for every later answer.

    A broker that limits sessions (`connections.max.reauth.ms`) closes the connection when the session expires. The next
    request of the client then opens a new connection, which authenticates again.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        security: Security = PLAINTEXT,
        client_id: str = CLIENT_ID,
        timeout_ms: int = TIMEOUT_MS,
        response_bytes_max: int = RESPONSE_BYTES_MAX,
        clock: Clock | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.is_closed = False
        self._security = security
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self._response_bytes_max = response_bytes_max
        self._clock = clock or SystemClock()
        self._correlation_id = 0
        self._in_flight: deque[InFlightRequest[Any]] = deque()
        self._versions: Mapping[int, range] = {}
        self._large_frames = BufferPool()
        # Whether the broker answered anything but ApiVersions, which it answers also before authentication.
        self._was_answered = False
        self._socket = self._connect()
        # `SSLSocket.pending`: how many decrypted bytes wait to be read. None on a plaintext socket.
        self._pending: Callable[[], int] | None = getattr(self._socket, "pending", None)
        try:
            self._versions = self._negotiate()
            if security.credentials is not None:
                security.credentials.authenticate(self)
        except BaseException:
            self.close()
            raise

    def version(self, request: type[Request], version_max: int | None = None) -> int:
        """Return the newest version that client and broker have in common, at most `version_max`."""
        offered = self._versions.get(request.api_key, range(0))
        known_last = request.versions.stop - 1 if version_max is None else version_max
        version = min(known_last, offered.stop - 1)
        if version < max(request.versions.start, offered.start):
            api = request.__name__.removesuffix("Request")
            offer = f"versions {offered.start} to {offered.stop - 1}" if offered else "nothing"
            raise UnsupportedApi(
                f"the broker at {self.endpoint} offers {offer} of {api}, "
                f"this client knows {request.versions.start} to {known_last}"
            )
        return version

    def send(self, request: Request, response: type[R], *, version_max: int | None = None) -> InFlightRequest[R]:
        sent = self._send(request, response, self.version(type(request), version_max))
        self._in_flight.append(sent)
        return sent

    def send_only(self, request: Request, *, version_max: int | None = None) -> None:
        """Send a request that gets no response. Produce with acks=0 is the only one."""
        self._send(request, Response, self.version(type(request), version_max))

    def wait(self, sent: InFlightRequest[R], *, timeout_ms: int | None = None) -> R:
        """Return the answer to `sent`. Answers to earlier requests are read on the way and kept for their own
        `wait`."""
        deadline_ms = self._clock.monotonic_ms() + (self._timeout_ms if timeout_ms is None else timeout_ms)
        while sent.answer is None:
            if sent not in self._in_flight:
                raise self._lost("the connection was closed before the answer")
            self._receive(self._in_flight[0], deadline_ms)
            self._in_flight.popleft()
            self._was_answered = bool(self._versions)
        return sent.answer

    def call(
        self, request: Request, response: type[R], *, version_max: int | None = None, timeout_ms: int | None = None
    ) -> R:
        return self.wait(self.send(request, response, version_max=version_max), timeout_ms=timeout_ms)

    def fileno(self) -> int:
        """For `select`: the descriptor becomes readable when an answer begins to arrive, unless it `has_arrived`."""
        return self._socket.fileno()

    def has_arrived(self, sent: InFlightRequest[Any]) -> bool:
        """Whether the answer, or the beginning of one before it, has left the socket, where `select` would see it:
        either a `wait` for another answer has read it, or TLS has decrypted it."""
        return sent.answer is not None or (self._pending is not None and self._pending() > 0)

    def close(self) -> None:
        self.is_closed = True
        self._in_flight.clear()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _connect(self) -> socket.socket:
        try:
            connected = socket.create_connection(self.endpoint, self._timeout_ms / 1000)
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConnectionLost(
                f"cannot reach {self.endpoint}: {reason}; is the broker running? (--bootstrap)"
            ) from error
        tcp.prepare(connected)
        return connected if self._security.tls is None else self._security.tls.wrap(connected, self.endpoint)

    def _negotiate(self) -> Mapping[int, range]:
        version = ApiVersionsRequest.versions.stop - 1
        response = self._ask_versions(version)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            # A broker that does not know our version refuses in version 0, with its own range. Without a range it
            # knows version 0 only.
            offered = _ranges(response).get(ApiVersionsRequest.api_key, range(1))
            response = self._ask_versions(min(version, offered.stop - 1))
        check(response.error_code, f"the broker at {self.endpoint} refused ApiVersions")
        return _ranges(response)

    def _ask_versions(self, version: int) -> ApiVersionsResponse:
        request = ApiVersionsRequest(client_software_name=CLIENT_ID, client_software_version=_SOFTWARE_VERSION)
        sent = self._send(request, ApiVersionsResponse, version)
        self._in_flight.append(sent)
        return self.wait(sent)

    def _send(self, request: Request, response: type[R], version: int) -> InFlightRequest[R]:
        self._correlation_id = self._correlation_id + 1 if self._correlation_id < _CORRELATION_ID_MAX else 0
        frame = bytearray(_SIZE.size)
        try:
            write_request_header(frame, type(request), version, self._correlation_id, self._client_id)
            parts = encode_parts(request, version, frame)
            _SIZE.pack_into(frame, 0, len(frame) - _SIZE.size)
        except (UnicodeEncodeError, struct.error) as error:
            raise ClientError(
                f"what {type(request).__name__} should say has no form in the protocol: {error}"
            ) from error
        assert len(parts) == 1, "a client sends records that it holds in memory"
        if self.is_closed:
            raise self._lost("the connection is closed")
        try:
            self._socket.settimeout(self._timeout_ms / 1000)
            self._socket.sendall(frame)
        except TimeoutError:
            raise self._lost(f"it took no request for {self._timeout_ms} ms") from None
        except OSError as error:
            raise self._broken(error) from error
        except BaseException:
            self.close()
            raise
        return InFlightRequest(response, version, self._correlation_id)

    def _receive(self, sent: InFlightRequest[Response], deadline_ms: int) -> None:
        try:
            size: int = _SIZE.unpack(self._read(_SIZE.size, deadline_ms))[0]
            if not _SIZE.size <= size <= self._response_bytes_max:
                if size >> 16 == _TLS_ALERT and self._security.tls is None:
                    raise ProtocolError("it speaks TLS there (security.protocol)")
                raise ProtocolError(f"an answer of {size} bytes, where up to {self._response_bytes_max} are read")
            frame = self._read(size, deadline_ms)
            correlation_id, position = read_response_header(frame, sent.response, sent.version)
            if correlation_id != sent.correlation_id:
                raise ProtocolError(f"an answer to request {correlation_id}, where {sent.correlation_id} is next")
            sent.answer = decode(sent.response, _answer_version(sent, frame, position), frame, position)
        except ProtocolError as error:
            self.close()
            raise ClientError(f"the broker at {self.endpoint} sent what is no Kafka protocol: {error}") from error
        except TimeoutError:
            raise self._lost("no answer in time") from None
        except OSError as error:
            raise self._broken(error) from error
        except BaseException:
            self.close()
            raise

    def _read(self, size: int, deadline_ms: int) -> memoryview:
        is_large = size >= _LARGE_BYTES_MIN
        buffer = self._large_frames.get(size) if is_large else bytearray(size)
        frame = memoryview(buffer)[:size]
        # Not with TLS: the low-water mark counts bytes in the kernel, and TLS may have read ahead of it.
        is_low_water_set = is_large and self._pending is None
        position = 0
        while position < size:
            remaining_ms = deadline_ms - self._clock.monotonic_ms()
            if remaining_ms <= 0:
                raise TimeoutError
            if is_low_water_set:
                self._set_low_water(min(size - position, _LOW_WATER_BYTES))
            self._socket.settimeout(remaining_ms / 1000)
            received = self._socket.recv_into(frame[position:])
            if not received:
                is_unknown = self._security.credentials is None and self._versions and not self._was_answered
                hint = "; does it want to know who we are? (security.protocol)" if is_unknown else ""
                raise ConnectionResetError(f"it closed the connection{hint}")
            position += received
        if is_low_water_set:
            self._set_low_water(1)
        return frame

    def _set_low_water(self, size: int) -> None:
        """Let the socket become readable only from `size` bytes on. A wake-up for every few kilobytes of a large answer
        costs more than copying them."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)

    def _broken(self, error: OSError) -> ClientError:
        tls = self._security.tls
        refusal, hint = tls and tls.refusal(error, self.endpoint), ""
        if tls is not None and refusal is None and not self._versions:
            # In TLS 1.3 a broker refuses our certificate when the handshake is over for us: its alert may wait unread.
            refusal = tls.unread_refusal(self._socket, self.endpoint)
            hint = "; does it want a certificate of ours? (ssl.certificate.location)"
        lost = self._lost((error.strerror or str(error)) + hint)
        return refusal or lost

    def _lost(self, reason: str) -> ConnectionLost:
        self.close()
        return ConnectionLost(f"lost the connection to {self.endpoint}: {reason}")


def _answer_version(sent: InFlightRequest[Response], frame: memoryview, position: int) -> int:
    """A response has the version of its request, except that brokers refuse an unknown version of ApiVersions with a
    response in version 0."""
    if sent.response.api_key != ApiVersionsResponse.api_key or len(frame) < position + _INT16.size:
        return sent.version
    (error_code,) = _INT16.unpack_from(frame, position)
    return 0 if error_code == ErrorCode.UNSUPPORTED_VERSION else sent.version


def _ranges(response: ApiVersionsResponse) -> dict[int, range]:
    return {api.api_key: range(api.min_version, api.max_version + 1) for api in response.api_keys}
