"""One client: bytes in, requests out, replies back in the order of the requests. The client's conversation knows the
protocol.

Back-pressure instead of failure: while a reply cannot be sent, too many requests are under way, or memory for requests
is used up, the socket is not read.
"""

import errno
import logging
import select
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from headwater.broker.measurements import Measurements
from headwater.broker.writes.journal import ReplyBatch
from headwater.config.broker import BrokerConfig
from headwater.errors import ProtocolError
from headwater.listeners.tcp.conversation import Conversation
from headwater.listeners.tcp.failure_log import FailureLog
from headwater.listeners.tcp.output import Output, Part
from headwater.listeners.tcp.poller import Poller
from headwater.listeners.tcp.request_memory import RequestMemory
from headwater.listeners.tcp.transport import Transport
from headwater.security.principals import Principal

logger = logging.getLogger(__name__)

# A large request may take its time as long as it flows faster than this.
SLOWEST_BYTES_PER_S = 64 * 1024


class Slot:
    """The place of one reply in the order of replies. Filled with no parts, it sends nothing."""

    __slots__ = ("_connection", "abandon", "parts")

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection
        self.parts: list[Part] | None = None
        # Called when the client goes away before its reply is ready.
        self.abandon: Callable[[], object] | None = None

    def fill(self, parts: list[Part]) -> None:
        self.parts = parts
        self.abandon = None
        self._connection.reply_ready()

    def hang_up(self, reason: str) -> None:
        self._connection.hang_up(reason)

    def fail(self, error: Exception) -> None:
        self._connection.fail(error)


Converse: TypeAlias = Callable[["Connection"], Conversation]


class Connection:
    __slots__ = (
        "_config",
        "_conversation",
        "_frame_count_seen",
        "_frames",
        "_hold_count",
        "_is_advancing",
        "_is_blocked",
        "_is_draining",
        "_is_reading",
        "_memory",
        "_on_closed",
        "_output",
        "_partial_bytes_seen",
        "_poller",
        "_quiet_since_ms",
        "_received_bytes",
        "_replies",
        "_replies_failed",
        "_sent_bytes_seen",
        "_slots",
        "_slow_since_ms",
        "_swept_ms",
        "_transport",
        "_was_active",
        "failures",
        "is_closed",
        "on_drained",
        "peer",
        "peer_host",
    )

    def __init__(
        self,
        transport: Transport,
        config: BrokerConfig,
        converse: Converse,
        memory: RequestMemory,
        poller: Poller,
        replies: ReplyBatch,
        measurements: Measurements,
        failures: FailureLog,
        on_closed: Callable[["Connection"], None],
        now_ms: int,
    ) -> None:
        self._transport = transport
        self._config = config
        self._memory = memory
        self.failures = failures
        self._on_closed = on_closed
        self._poller = poller
        self._replies = replies
        self._received_bytes = measurements.received_bytes
        self._replies_failed = measurements.replies_failed
        self._output = Output(transport, self._drained, self._broken)
        # Called when the socket has taken all that was sent, after it had not.
        self.on_drained: Callable[[], object] | None = None
        self._slots: deque[Slot] = deque()
        self._is_reading = False
        self._is_advancing = False
        self._is_draining = False
        self._hold_count = 0
        # Draining or held: no further request is served.
        self._is_blocked = False
        self._was_active = True
        self._quiet_since_ms = now_ms
        self._sent_bytes_seen = 0
        self._slow_since_ms = now_ms
        self._swept_ms = now_ms
        self._partial_bytes_seen = 0
        self._frame_count_seen = 0
        self.is_closed = False
        self.peer = transport.getpeername()
        self.peer_host = str(self.peer[0])
        self._conversation = converse(self)
        self._frames = self._conversation.frames
        self._resume()

    @property
    def sent_bytes(self) -> int:
        return self._output.sent_bytes

    @property
    def certificate_principal(self) -> Principal:
        """The client as its certificate names it; ANONYMOUS if it showed none."""
        return self._transport.principal

    @property
    def is_idle(self) -> bool:
        return not self._slots and not self._output.parts

    # -- requests and replies

    def _readable(self) -> None:
        space = self._frames.space()
        if space is None:
            self._pause()
            self._memory.wait(self._resume)
            return
        try:
            count = self._transport.recv_into(space)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._broken(error)
            return
        finally:
            space.release()
        if count == 0:
            self._end_of_requests()
            return
        self._was_active = True
        self._received_bytes.value += count
        self._frames.received(count)
        self.advance()

    def advance(self) -> None:
        """Serve the frames that have arrived, send the replies that are ready, and read on only if both kept up.

        Called when bytes have arrived, and when the client has taken its replies.
        """
        if self._is_advancing or self.is_closed:
            return
        self._is_advancing = True
        is_caught_up = False
        try:
            is_caught_up = self._serve_frames()
            while self._send_replies() and not is_caught_up:
                is_caught_up = self._serve_frames()
        except ProtocolError as error:
            self.hang_up(str(error))
        except Exception as error:
            self.fail(error)
        finally:
            self._is_advancing = False
        if self.is_closed:
            return
        if self._memory.waiting:
            self.relax()
        if is_caught_up and self._is_reading and not self._output.parts:
            return
        if self._is_draining and self.is_idle:
            self.close()
        elif self._may_serve():
            self._resume()
        else:
            self._pause()

    def reply_ready(self) -> None:
        if not self._is_advancing and not self._replies.takes(self):
            self.send_ready()

    def send_ready(self) -> None:
        if self.is_closed:
            return
        if not self._is_reading or self._is_draining:
            self.advance()
            return
        try:
            # While the socket is read, every whole frame has been served: only replies are left to send.
            self._send_replies()
        except Exception as error:
            self.fail(error)
        if self._output.parts:
            self._pause()

    # -- streams, which are longer than a reply

    def push(self, parts: list[Part]) -> None:
        """Send bytes that belong to no slot."""
        self._output.send(parts)
        if self._output.parts:
            self._pause()

    @property
    def is_congested(self) -> bool:
        """Whether bytes wait for the client to take those before them."""
        return bool(self._output.parts)

    def _drained(self) -> None:
        self.advance()
        if self.on_drained is not None:
            self.on_drained()

    def _may_serve(self) -> bool:
        # A client that does not take its replies need not be given more of them.
        return (
            not self._output.parts
            and len(self._slots) < self._conversation.requests_max
            and not self._is_blocked
            and not self.is_closed
        )

    def _serve_frames(self) -> bool:
        """Whether every whole frame that has arrived was served."""
        while self._may_serve():
            frame = self._frames.next_frame()
            if frame is None:
                return True
            slot = Slot(self)
            self._slots.append(slot)
            self._conversation.serve(frame, slot)
        return False

    def _send_replies(self) -> int:
        """Send the replies that are ready and follow no reply that is not; gives their number."""
        slots = self._slots
        ready: list[list[Part]] = []
        while slots and (parts := slots[0].parts) is not None:
            slots.popleft()
            ready.append(parts)
        if ready:
            self._output.send(ready[0] if len(ready) == 1 else [part for parts in ready for part in parts])
        return len(ready)

    def _pause(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._poller.ignore(self._transport)

    def _resume(self) -> None:
        if not (self._is_reading or self.is_closed or self._is_blocked):
            self._is_reading = True
            self._poller.watch(self._transport, self._readable)

    def hold(self) -> None:
        """Leave the bytes of the request that is being served where they are, and serve no further one, until
        `release`. Their memory counts as taken, even if the client leaves."""
        self._hold_count += 1
        self._is_blocked = True

    def release(self) -> None:
        self._hold_count -= 1
        if self._hold_count:
            return
        self._is_blocked = self._is_draining
        if self.is_closed:
            self._frames.close()
        else:
            self.advance()

    def hang_up(self, reason: str) -> None:
        message = "closing the connection of %s:%s: %s"
        self.failures.warn(logger, "connections that were closed", message, *self.peer[:2], reason)
        self.close()

    def fail(self, error: Exception) -> None:
        """A request is not answered, for a fault of ours. Close the connection: its client then tries again at once,
        instead of waiting until its own time-out. Nobody else is affected."""
        self._replies_failed.value += 1
        message = "a request of %s:%s cannot be answered, its connection is closed"
        logger.error(message, *self.peer[:2], exc_info=error)
        self.close()

    def _broken(self, error: Exception) -> None:
        if isinstance(error, OSError) and error.errno != errno.EIO:
            logger.debug("connection of %s:%s broke: %s", *self.peer[:2], error)
            self.close()
        else:
            # No socket fails so: it is the disk, or a bug.
            self.fail(error)

    def relax(self) -> None:
        """Give back the memory of an empty buffer."""
        if not self._hold_count:
            self._frames.relax()

    def use_config(self, config: BrokerConfig) -> None:
        self._config = config
        self._conversation.use_config(config)

    def hand_over(self, conversation: Conversation) -> None:
        """Let another conversation serve the frames that come next."""
        assert conversation.frames is self._frames, "bytes that have arrived must not be lost"
        self._conversation = conversation

    # -- time-outs and the end

    def _end_of_requests(self) -> None:
        """The client sends no more. It may have gone, or may have closed one direction and still wait for its replies.
        The connection is not kept for long polls alone."""
        if self._has_only_long_polls():
            self.close()
        else:
            self.drain()

    def sweep(self, now_ms: int) -> None:
        """Close the connection if its client hangs or has gone. Called about once a second."""
        if self._slots and not self._is_reading and self._has_gone():
            self.close()
            return
        if self._is_request_late(now_ms):
            self._give_up(now_ms, "did not finish its request", "headwater.request.read.timeout.ms")
            return
        sent_bytes = self._output.sent_bytes
        if self._was_active or sent_bytes != self._sent_bytes_seen:
            self._was_active = False
            self._sent_bytes_seen = sent_bytes
            self._quiet_since_ms = now_ms
            return
        quiet_ms = now_ms - self._quiet_since_ms
        if self._output.parts:
            if quiet_ms >= self._config.headwater_response_write_timeout_ms:
                self._give_up(now_ms, "did not take its reply", "headwater.response.write.timeout.ms")
        elif not self._slots:
            self._frames.relax()
            if 0 <= self._config.connections_max_idle_ms <= quiet_ms:
                self._give_up(now_ms, "was idle", "connections.max.idle.ms")

    def _has_gone(self) -> bool:
        """Whether the client has gone while its socket is not read. A client that has closed one direction may still
        wait for its replies, as in `_end_of_requests`."""
        poll = select.poll()
        poll.register(self._transport, select.POLLRDHUP)
        for _, event in poll.poll(0):
            return bool(event & (select.POLLHUP | select.POLLERR)) or self._has_only_long_polls()
        return False

    def _has_only_long_polls(self) -> bool:
        """Whether every request under way may be abandoned."""
        return all(slot.abandon is not None for slot in self._slots)

    def _is_request_late(self, now_ms: int) -> bool:
        """Whether a request that has begun neither arrived whole nor kept flowing."""
        frames = self._frames
        is_same = frames.frame_count == self._frame_count_seen and self._is_reading
        flowed = frames.partial_bytes - self._partial_bytes_seen
        needed = (now_ms - self._swept_ms) * SLOWEST_BYTES_PER_S // 1000
        if not frames.partial_bytes or not is_same or flowed >= max(needed, 1):
            self._slow_since_ms = now_ms
        self._frame_count_seen = frames.frame_count
        self._partial_bytes_seen = frames.partial_bytes
        self._swept_ms = now_ms
        return now_ms - self._slow_since_ms >= self._config.headwater_request_read_timeout_ms

    def _give_up(self, now_ms: int, what: str, setting: str) -> None:
        since_ms = now_ms - self._quiet_since_ms
        logger.info("closing the connection of %s:%s, which %s for %d ms (%s)", *self.peer[:2], what, since_ms, setting)
        self.close()

    def drain(self) -> None:
        """Take no more requests, answer those under way, then close."""
        self._is_draining = self._is_blocked = True
        self._pause()
        if self.is_idle:
            self.close()

    def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self._pause()
        self._output.stop()
        for slot in self._slots:
            if slot.abandon is not None:
                slot.abandon()
        self._slots.clear()
        if not self._hold_count:
            self._frames.close()
        self._transport.close()
        self._conversation.end()
        self._on_closed(self)
