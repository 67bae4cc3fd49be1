"""The WebSocket of one client: messages come out of its bytes, and each is run as a command.

`websockets` (sans I/O) reads the frames. While a client takes nothing, or has too many commands under way, its socket
is not read, so that neither its commands nor their answers pile up.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import Protocol, State

from headwater.config.broker import BrokerConfig
from headwater.listeners.http.received_bytes import ReceivedBytes
from headwater.listeners.http.request import Request
from headwater.listeners.http.response import Upgrade
from headwater.listeners.http.websocket.handshake import Handshake
from headwater.listeners.http.websocket.session import Session
from headwater.listeners.tcp.connection import Connection, Slot

if TYPE_CHECKING:
    from headwater.listeners.http.conversation import HttpConversation

# How many commands of one client are run at once; the next ones wait in its socket.
COMMANDS_MAX: Final = 32
# So many received bytes are decompressed before the messages among them are run: at most 4 MB.
_FED_BYTES: Final = 4 << 10
# Messages of other sizes are not worth it, or take too long at once.
_COMPRESSED_BYTES_MIN, _COMPRESSED_BYTES_MAX = 1400, 64 << 10
# How long a client may take to answer a close frame.
_CLOSE_MS: Final = 2_000


def begin(request: Request, handshake: Handshake) -> Upgrade:
    def take_over(before: "HttpConversation", received: bytes) -> None:
        conversation = WebSocketConversation(request, handshake.protocol, before.connection, before.frames)
        before.connection.hand_over(conversation)
        before.connection.push([handshake.answer])
        conversation.start(received)

    return Upgrade(take_over)


class WebSocketConversation:
    __slots__ = (
        "_connection",
        "_drained",
        "_end_at_ms",
        "_fragments",
        "_has_ponged",
        "_is_advancing",
        "_is_logging_in",
        "_is_stopping",
        "_is_text",
        "_kept_bytes",
        "_messages",
        "_ping_at_ms",
        "_protocol",
        "_running",
        "_sending",
        "_services",
        "_session",
        "_slot",
        "_stranger_until_ms",
        "_unfed",
        "frames",
    )

    def __init__(self, request: Request, protocol: Protocol, connection: Connection, frames: ReceivedBytes) -> None:
        self._services = request.services
        self._protocol = protocol
        self._connection = connection
        self.frames = frames
        self._session = Session(request, self.send)
        self._slot: Slot | None = None
        # Received bytes that the protocol has not been given yet.
        self._unfed = b""
        # The message whose frames are coming; whole ones that wait.
        self._fragments = bytearray()
        self._is_text = False
        self._messages: deque[bytes] = deque()
        self._kept_bytes = 0
        # Commands under way, and which of them end with the client.
        self._running: dict[asyncio.Task[None], bool] = {}
        self._is_logging_in = False
        self._is_advancing = False
        self._is_stopping = False
        self._sending = asyncio.Lock()
        self._drained: asyncio.Future[None] | None = None
        self._has_ponged = True
        now_ms = self._services.broker.clock.monotonic_ms()
        self._ping_at_ms = now_ms + self._services.config.headwater_http_websocket_ping_interval_ms
        self._stranger_until_ms = now_ms + self._services.config.headwater_authentication_timeout_ms
        # Until when the client may answer a close frame, once one was sent.
        self._end_at_ms: int | None = None

    def start(self, received: bytes) -> None:
        self._services.busy.add(self)
        self._services.streams.add(self)
        self._connection.on_drained = self._has_drained
        self.frames.forget()
        self.frames.keeps = False
        self.frames.request_ended()
        self._limit_messages()
        self._unfed = received
        self._advance()

    def _limit_messages(self) -> None:
        config = self._services.config
        bytes_max = config.headwater_http_websocket_message_bytes_max
        if not self._session.is_authenticated:
            bytes_max = min(bytes_max, config.headwater_socket_request_max_bytes_unauthenticated)
        self._protocol.max_message_size = bytes_max

    # -- bytes come

    @property
    def requests_max(self) -> int:
        """Whether to read on. One slot is held while commands are under way."""
        return 2 if self._is_over or (not self._unfed and self._may_start) else 0

    @property
    def _is_over(self) -> bool:
        return self._protocol.state is not State.OPEN

    @property
    def _may_start(self) -> bool:
        return not (self._messages or self._is_logging_in) and len(self._running) < COMMANDS_MAX

    def use_config(self, config: BrokerConfig) -> None:
        """The settings are read where they count."""

    def serve(self, frame: memoryview, slot: Slot) -> None:
        held, self._slot = self._slot, slot
        if held is not None:
            held.fill([])
        self._unfed += bytes(frame)
        self._advance()

    def _advance(self) -> None:
        """Run commands, and read further ones, as far as they may be under way at once."""
        if self._is_advancing:
            return
        self._is_advancing = True
        try:
            while not self._connection.is_closed:
                if self._messages and not self._is_logging_in and len(self._running) < COMMANDS_MAX:
                    self._run(self._messages.popleft())
                elif self._unfed and (self._may_start or self._is_over):
                    piece, self._unfed = self._unfed[:_FED_BYTES], self._unfed[_FED_BYTES:]
                    self._feed(piece)
                else:
                    break
        finally:
            self._is_advancing = False
        if self._running or self._messages:
            self._mark_slot()
            return
        slot, self._slot = self._slot, None
        if slot is not None:
            slot.fill([])

    def _mark_slot(self) -> None:
        """The connection is not kept for commands that only wait."""
        if self._slot is not None:
            self._slot.abandon = self._cancel_waits if all(self._running.values()) else None

    def _cancel_waits(self) -> None:
        for task, only_waits in tuple(self._running.items()):
            # Other commands change something and run to their end.
            if only_waits:
                task.cancel()

    def _feed(self, piece: bytes) -> None:
        protocol = self._protocol
        protocol.receive_data(piece)
        for event in protocol.events_received():
            # What came before the client's own close frame still counts.
            if isinstance(event, Frame) and self._end_at_ms is None:
                self._take(event)
        self._flush()
        buffered = len(protocol.reader.buffer) + len(self._fragments)
        if self._is_over or not buffered:
            self._kept_bytes = 0
            self.frames.keeps = False
            self.frames.forget()
            self.frames.request_ended()
            return
        self.frames.keeps = True
        # It may have come along with the handshake, or with the message before it.
        self.frames.partial_bytes = max(self.frames.partial_bytes, 1)
        if buffered > self._kept_bytes:
            self.frames.keep(buffered - self._kept_bytes)
            self._kept_bytes = buffered

    def _take(self, frame: Frame) -> None:
        match frame.opcode:
            case Opcode.PONG:
                self._has_ponged = True
            case Opcode.TEXT | Opcode.BINARY | Opcode.CONT:
                if frame.opcode is not Opcode.CONT:
                    self._is_text = frame.opcode is Opcode.TEXT
                if not self._is_text:
                    self.close(CloseCode.UNSUPPORTED_DATA, "commands are text messages")
                    return
                self._fragments += frame.data
                if frame.fin:
                    message, self._fragments = bytes(self._fragments), bytearray()
                    self._received(message)
            case _:
                pass

    def _received(self, message: bytes) -> None:
        try:
            message.decode()
        except UnicodeDecodeError:
            self.close(CloseCode.INVALID_DATA, "the message is not UTF-8")
        else:
            self._messages.append(message)

    def _flush(self) -> None:
        """Send what the protocol has to say."""
        said = self._protocol.data_to_send()
        parts: list[bytes] = [each for each in said if each]
        if parts and not self._connection.is_closed:
            self._connection.push([*parts])
        if self._is_over and self._end_at_ms is None:
            self._end_at_ms = self._services.broker.clock.monotonic_ms() + _CLOSE_MS
        if self._protocol.close_rcvd is not None and not self._connection.is_closed:
            # Both sides have said so.
            self._cancel_waits()
            self._connection.drain()

    # -- commands

    def _run(self, message: bytes) -> None:
        # Who the client is must be known before its next command is run.
        self._is_logging_in = not self._session.is_authenticated or b'"login"' in message
        task = asyncio.get_running_loop().create_task(self._run_one(message))
        self._running[task] = False
        task.add_done_callback(self._ended)

    async def _run_one(self, message: bytes) -> None:
        task = asyncio.current_task()
        assert task is not None, "it is one"

        def waits() -> None:
            self._running[task] = True
            self._mark_slot()

        try:
            may_go_on = await self._session.answer(message, waits)
        except ConnectionResetError:
            return
        if not may_go_on:
            self.close(CloseCode.POLICY_VIOLATION, "authentication failed")
        self._limit_messages()

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        self._is_logging_in = False
        if self._connection.is_closed:
            return
        if not task.cancelled() and (error := task.exception()) is not None:
            self._connection.fail(error if isinstance(error, Exception) else RuntimeError(str(error)))
            return
        if self._is_stopping and not self._running:
            self.broker_stops()
        self._advance()
        self._connection.advance()

    # -- messages go

    async def send(self, messages: Sequence[bytes]) -> None:
        """Returns when the client keeps up. Raises ConnectionResetError when it has gone."""
        async with self._sending:
            connection = self._connection
            await self._wait_until_drained()
            if connection.is_closed or self._is_over:
                raise ConnectionResetError
            connection.push([self._framed(each) for each in messages])
            await self._wait_until_drained()
            if connection.is_closed:
                raise ConnectionResetError

    def _framed(self, message: bytes) -> bytes:
        is_worth_it = _COMPRESSED_BYTES_MIN <= len(message) <= _COMPRESSED_BYTES_MAX
        extensions = self._protocol.extensions if is_worth_it else ()
        return Frame(Opcode.TEXT, message).serialize(mask=False, extensions=extensions)

    async def _wait_until_drained(self) -> None:
        while self._connection.is_congested and not self._connection.is_closed:
            if self._drained is None:
                self._drained = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._drained)

    def _has_drained(self) -> None:
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    # -- time-outs and the end

    def sweep(self, now_ms: int) -> None:
        """Called about once a second."""
        session, config = self._session, self._services.config
        if self._end_at_ms is not None:
            if now_ms >= self._end_at_ms:
                self._connection.close()
        elif not session.is_authenticated and now_ms >= self._stranger_until_ms:
            self.close(CloseCode.POLICY_VIOLATION, "not authenticated in time (headwater.authentication.timeout.ms)")
        elif session.end_ms is not None and self._services.broker.clock.now_ms() >= session.end_ms:
            self.close(CloseCode.POLICY_VIOLATION, "the session is over: log in again before its end")
        elif now_ms >= self._ping_at_ms:
            if not self._has_ponged:
                self._connection.hang_up("it did not answer a ping (headwater.http.websocket.ping.interval.ms)")
                return
            self._ping_at_ms = now_ms + config.headwater_http_websocket_ping_interval_ms
            if not self._connection.is_congested:
                self._has_ponged = False
                self._protocol.send_ping(b"")
                self._flush()

    def close(self, code: CloseCode, reason: str) -> None:
        """Say so to the client, which then closes its side, too."""
        self._messages.clear()
        if not self._is_over:
            self._protocol.send_close(code, reason)
            self._flush()

    def broker_stops(self) -> None:
        """Commands under way are answered first."""
        self._is_stopping = True
        self._messages.clear()
        self._cancel_waits()
        if not self._running:
            self.close(CloseCode.GOING_AWAY, "the broker stops")

    def end(self) -> None:
        """The connection has closed."""
        self._services.busy.discard(self)
        self._services.streams.discard(self)
        self._has_drained()
        self._session.end()
        self._cancel_waits()
