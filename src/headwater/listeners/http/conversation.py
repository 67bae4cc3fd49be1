"""One HTTP/1.1 client: its requests are answered one after the other, in their order.

httptools (Node's parser) reads the requests; `listeners/tcp` has the socket, TLS, and the limits. The body of a request
is not read before its handler asks for it, so a stranger cannot make the broker keep one.
"""

import asyncio
import logging
from collections import deque

import httptools

from headwater.config.broker import BrokerConfig
from headwater.errors import ErrorCode, Refusal
from headwater.listeners.http.authentication import Identity
from headwater.listeners.http.dispatcher import Dispatcher
from headwater.listeners.http.message_head import render_head
from headwater.listeners.http.problem import render_problem
from headwater.listeners.http.received_bytes import ReceivedBytes
from headwater.listeners.http.request import Request
from headwater.listeners.http.response import Answer, Headers, Response, Stream, Upgrade
from headwater.listeners.http.services import HttpServices
from headwater.listeners.tcp.connection import Connection, Slot
from headwater.listeners.tcp.output import Part
from headwater.listeners.tcp.request_memory import RequestMemory

logger = logging.getLogger(__name__)

HEADERS_MAX = 128
# How long the rest of a body that nobody wants is read, so that the client gets to read the answer.
LINGER_MS = 2_000
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_BODILESS = frozenset({204, 304})


class HttpConversation:
    __slots__ = (
        "_deadline_ms",
        "_dispatcher",
        "_drained",
        "_identity",
        "_incoming",
        "_is_abandonable",
        "_is_deaf",
        "_is_ending",
        "_is_handed_over",
        "_is_late",
        "_leftover",
        "_linger_until_ms",
        "_parser",
        "_progress",
        "_quiet_bytes",
        "_requests",
        "_slot",
        "_task",
        "_was_last",
        "connection",
        "frames",
        "head_bytes",
        "services",
    )

    def __init__(
        self, services: HttpServices, dispatcher: Dispatcher, memory: RequestMemory, connection: Connection
    ) -> None:
        self.services = services
        self.connection = connection
        self.frames = ReceivedBytes(services.scratch, memory)
        self._dispatcher = dispatcher
        self._parser = httptools.HttpRequestParser(self)
        # The first is being answered.
        self._requests: deque[Request] = deque()
        # The request whose bytes are coming.
        self._incoming: Request | None = None
        self._task: asyncio.Task[None] | None = None
        self._slot: Slot | None = None
        self._identity: Identity | None = None
        # Calls of the parser so far, and the bytes that it was fed since the last one.
        self._progress = 0
        self._quiet_bytes = 0
        self.head_bytes = 0
        self._leftover = b""
        self._deadline_ms = 0
        self._is_late = False
        # Whether the request that is being answered only waits.
        self._is_abandonable = False
        # What comes is not read any more.
        self._is_deaf = False
        # No request follows those that have come.
        self._is_ending = False
        # The connection ends with the answer that was sent.
        self._was_last = False
        self._is_handed_over = False
        self._linger_until_ms: int | None = None
        self._drained: asyncio.Future[None] | None = None

    # -- bytes come

    @property
    def requests_max(self) -> int:
        """Whether to read on: for the next request, or for a body that is wanted."""
        if self._linger_until_ms is not None:
            return 2
        if not self._requests:
            return 0 if self._is_ending else 2
        first = self._requests[0]
        wants = first is self._incoming and first.is_body_wanted
        return 2 if wants else 0

    def use_config(self, config: BrokerConfig) -> None:
        """The settings are read where they count."""

    def serve(self, frame: memoryview, slot: Slot) -> None:
        held, self._slot = self._slot, slot
        if held is not None:
            held.fill([])
        self.services.busy.add(self)
        if self._is_deaf:
            self._next()
            return
        progress = self._progress
        try:
            self._parser.feed_data(frame)
        except httptools.HttpParserUpgrade as upgrade:
            # Nothing that follows is a request: the protocol changes, or the connection ends.
            self._leftover = bytes(frame[upgrade.args[0] :])
        except httptools.HttpParserCallbackError as error:
            raise error.__context__ or error  # noqa: B904 (a fault of ours)
        except httptools.HttpParserError as error:
            self._malformed(400, f"not HTTP: {error}")
        if self._incoming is not None and not self._incoming.is_complete and not self.frames.partial_bytes:
            # It came along with the end of another one.
            self.frames.partial_bytes = 1
        self._quiet_bytes = 0 if self._progress != progress else self._quiet_bytes + len(frame)
        incoming = self._incoming
        if self._quiet_bytes > self.services.config.headwater_http_head_bytes_max:
            self._malformed(431, "the head of the request is too large (headwater.http.head.bytes.max)")
        elif incoming is not None and incoming.refusal is not None and not incoming.version:
            self._malformed(incoming.refusal.status, str(incoming.refusal))
        self._next()

    def _malformed(self, status: int, detail: str) -> None:
        """What follows cannot be read any more."""
        self._is_ending = self._is_deaf = True
        request = self._incoming
        if request is None or (request.is_complete and request not in self._requests):
            request = self._incoming = self._new_request()
        request.refuse(status, detail)
        if request not in self._requests:
            self._requests.append(request)
        self._ended(request)

    # -- what the parser calls

    def on_message_begin(self) -> None:
        self._progress += 1
        self.head_bytes = 0
        self._incoming = self._new_request()

    def _new_request(self) -> Request:
        return Request(self.services, self.connection.peer_host, self.connection.certificate_principal)

    def on_url(self, url: bytes) -> None:
        assert self._incoming is not None, "a request has begun"
        self._progress += 1
        self._count_head(url)
        self._incoming.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        request = self._incoming
        assert request is not None, "a request has begun"
        self._progress += 1
        self._count_head(name, value)
        if request.version:
            # Behind the body: nothing here asks for it, and it must not pass for what was checked before.
            return
        if len(request.headers) >= HEADERS_MAX:
            request.refuse(431, f"the request has more than {HEADERS_MAX} header fields")
            return
        request.add_header(name.decode("latin-1").lower(), value.decode("latin-1"))

    def _count_head(self, *parts: bytes) -> None:
        assert self._incoming is not None, "a request has begun"
        self.head_bytes += sum(map(len, parts))
        if self.head_bytes > self.services.config.headwater_http_head_bytes_max:
            self._incoming.refuse(431, "the head of the request is too large (headwater.http.head.bytes.max)")

    def on_headers_complete(self) -> None:
        request, parser = self._incoming, self._parser
        assert request is not None, "a request has begun"
        self._progress += 1
        if self._is_ending:
            # It follows one that ends the connection.
            return
        request.method = parser.get_method().decode("ascii")
        request.version = parser.get_http_version()
        request.is_upgrade = parser.should_upgrade()
        # What follows an upgrade is another protocol, also if it is refused.
        request.is_keep_alive = parser.should_keep_alive() and not request.is_upgrade
        headers = request.headers
        if "content-length" in headers and "transfer-encoding" in headers:
            request.refuse(400, "the request has both a Content-Length and a Transfer-Encoding")
        expect = headers.get("expect", "")
        if expect and expect.lower() != "100-continue":
            request.refuse(417, "the broker cannot do what the request expects")
        request.expects_continue = bool(expect) and request.version == "1.1"
        request.read_target()
        request.await_body(self._body_needed)
        self._requests.append(request)
        if len(self._requests) > self.services.config.headwater_connection_requests_max:
            request.refuse(429, "too many requests on one connection at once (headwater.connection.requests.max)")
        self._is_ending = request.refusal is not None or not request.is_keep_alive

    def on_body(self, data: bytes) -> None:
        request = self._incoming
        assert request is not None, "a request has begun"
        self._progress += 1
        if request.discards_body or request.refusal is not None:
            return
        if request.body_bytes + len(data) > self.services.config.headwater_http_body_bytes_max:
            request.refuse(413, "the body is too large (headwater.http.body.bytes.max)")
            request.wake()
            return
        request.add_body(data)
        self.frames.keep(len(data))

    def on_message_complete(self) -> None:
        assert self._incoming is not None, "a request has begun"
        self._progress += 1
        self._ended(self._incoming)

    def _ended(self, request: Request) -> None:
        request.is_complete = True
        self.frames.keeps = False
        self.frames.request_ended()
        request.wake()

    def _body_needed(self) -> None:
        """A handler waits for the rest of the body."""
        request = self._requests[0]
        self.frames.keeps = True
        if request.expects_continue:
            request.expects_continue = False
            self.connection.push([_CONTINUE])
        self.connection.advance()

    # -- answers

    def _next(self) -> None:
        """Begin to answer the next request, or rest."""
        if self._task is not None:
            return
        if self._linger_until_ms is not None:
            if not self._is_deaf and (self._incoming is None or self._incoming.is_complete):
                self._end()
            return
        if self._requests:
            request = self._requests[0]
            request.identity = self._identity
            self._deadline_ms = self.services.broker.clock.monotonic_ms()
            self._deadline_ms += self.services.config.headwater_http_request_timeout_ms
            request.abandonable = self._may_be_abandoned
            self._is_late = self._is_abandonable = False
            self._task = asyncio.get_running_loop().create_task(self._answer(request))
            self._task.add_done_callback(self._answered)
            return
        if self._incoming is None or self._incoming.is_complete:
            self.services.busy.discard(self)
        slot, self._slot = self._slot, None
        if slot is not None:
            slot.fill([])

    async def _answer(self, request: Request) -> None:
        try:
            answer: Answer = await self._dispatcher.answer(request)
        except asyncio.CancelledError:
            if not self._is_late:
                raise
            refusal = Refusal(ErrorCode.REQUEST_TIMED_OUT, "the time is over (headwater.http.request.timeout.ms)")
            answer = render_problem(refusal)
        self._identity = request.identity
        self._deadline_ms = 0
        if self.connection.is_closed:
            return
        match answer:
            case Response():
                self._respond(request, answer)
            case Stream():
                await self._stream(request, answer)
            case Upgrade(begin):
                self.services.busy.discard(self)
                self._is_handed_over = True
                self.services.measurements.responses[101] += 1
                begin(self, self._leftover)
                slot, self._slot = self._slot, None
                if slot is not None:
                    slot.fill([])

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if task.cancelled() or self._is_handed_over:
            return
        error = task.exception()
        if error is not None and not isinstance(error, ConnectionResetError):
            self.connection.fail(error if isinstance(error, Exception) else RuntimeError(str(error)))
        if self.connection.is_closed:
            return
        self.frames.forget()
        request = self._requests.popleft()
        if self._was_last:
            self._linger(request) if self._is_cut_off(request) else self._end()
            return
        self._next()
        self.connection.advance()

    def _is_cut_off(self, request: Request) -> bool:
        """Whether the client may still be sending what is not going to be read."""
        return not request.is_complete or (
            self._is_deaf and request.refusal is not None and request.refusal.status > 400
        )

    def _respond(self, request: Request, response: Response) -> None:
        self._was_last = (
            not (request.is_keep_alive and request.is_complete)
            or request.refusal is not None
            or self.services.is_stopping
        )
        self.services.measurements.responses[response.status] += 1
        message = self._head(request, response.status, response.content_type, response.headers)
        if response.status not in _BODILESS:
            message += b"content-length: %d\r\n" % len(response.body)
        message += b"\r\n"
        if request.method != "HEAD" and response.status not in _BODILESS:
            message += response.body
        self.connection.push([message])

    def _head(self, request: Request, status: int, content_type: str, headers: Headers) -> bytearray:
        date = self.services.date()
        return render_head(status, content_type, headers, date=date, version=request.version, is_last=self._was_last)

    # -- streams

    async def _stream(self, request: Request, stream: Stream) -> None:
        self._may_be_abandoned()
        self._was_last = True
        self.services.measurements.responses[200] += 1
        self.connection.push([self._head(request, 200, stream.content_type, stream.headers) + b"\r\n"])
        if request.method == "HEAD":
            return
        self.services.streams.add(self)
        try:
            await stream.write(self)
        except asyncio.CancelledError:
            if not self.services.is_stopping:
                raise
        finally:
            self.services.streams.discard(self)

    def broker_stops(self) -> None:
        """The stream ends as if it were complete."""
        if self._task is not None:
            self._task.cancel()

    async def send(self, data: bytes) -> None:
        await self.send_parts([data])

    async def send_parts(self, parts: list[Part]) -> None:
        connection = self.connection
        if connection.is_closed:
            raise ConnectionResetError
        connection.push(parts)
        if connection.is_congested:
            connection.on_drained = self._has_drained
            self._drained = asyncio.get_running_loop().create_future()
            await self._drained
            if connection.is_closed:
                raise ConnectionResetError

    def _has_drained(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    # -- the end

    def _may_be_abandoned(self) -> None:
        """The request waits: its client may leave."""
        self._is_abandonable = True
        if self._slot is not None:
            self._slot.abandon = self._abandoned

    def _abandoned(self) -> None:
        """`end` does it."""

    def sweep(self, now_ms: int) -> None:
        """Called about once a second while a request is under way."""
        if self._linger_until_ms is not None and now_ms >= self._linger_until_ms:
            self._end()
        elif self._task is not None and self._deadline_ms and now_ms >= self._deadline_ms:
            self._is_late = True
            self._task.cancel()

    def _linger(self, request: Request) -> None:
        """Read on for a while what nobody wants, before the connection is closed: otherwise the system tells the client
        of a broken connection, perhaps before it has read the answer."""
        request.discards_body = True
        self._is_ending = True
        self._may_be_abandoned()
        self._linger_until_ms = self.services.broker.clock.monotonic_ms() + LINGER_MS
        self.connection.advance()

    def _end(self) -> None:
        self._requests.clear()
        self.connection.drain()
        slot, self._slot = self._slot, None
        if slot is not None:
            slot.fill([])

    def end(self) -> None:
        """The connection has closed."""
        self.services.busy.discard(self)
        self.services.streams.discard(self)
        self._has_drained()
        request = self._requests[0] if self._requests else None
        if request is not None and not request.is_complete:
            request.refuse(400, "the client left")
            request.wake()
        elif (
            self._task is not None
            and request is not None
            and (self._is_abandonable or request.method in ("GET", "HEAD"))
        ):
            # Other requests change something and run to their end.
            self._task.cancel()
