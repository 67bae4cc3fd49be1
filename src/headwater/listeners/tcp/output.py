"""Bytes on their way to one client: small parts are gathered into one system call, file ranges go by sendfile.

Never holds record data in memory: a slow reader costs the broker a file position, not a buffer.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from headwater.file_range import FileRange, FileRanges
from headwater.listeners.tcp.transport import Transport

Part: TypeAlias = bytes | bytearray | FileRange

# Up to this size, a read into memory that is sent together with its neighbours costs less than a sendfile of its own.
COPIED_BYTES_MAX = 32 * 1024
# The most that one sendfile call sends, so that a fast reader of a long range does not keep the loop to itself.
SENT_BYTES_MAX = 4 << 20
GATHERED_PARTS_MAX = 64


class Output:
    __slots__ = (
        "_loop",
        "_on_broken",
        "_on_drained",
        "_position",
        "_stopped",
        "_transport",
        "_waiting",
        "_was_warmed",
        "parts",
        "sent_bytes",
    )

    def __init__(
        self, transport: Transport, on_drained: Callable[[], None], on_broken: Callable[[Exception], None]
    ) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self.parts: deque[Part] = deque()
        self._position = 0  # how much of the first part is sent
        self._waiting = False
        self._stopped = False
        self._was_warmed = False
        self._on_drained = on_drained
        self._on_broken = on_broken
        self.sent_bytes = 0  # a sweep that sees it stand still closes the connection

    def send(self, parts: list[Part]) -> None:
        """Send what the socket takes now; the rest follows when it is writable again."""
        if not self.parts and len(parts) == 1 and type(parts[0]) is bytearray:
            # Fast path: most replies are one piece.
            try:
                sent = self._transport.send(parts[0])
            except (BlockingIOError, InterruptedError):
                sent = 0
            except OSError as error:
                self._break(error)
                return
            if sent == len(parts[0]):
                self.sent_bytes += sent
                return
            self._position = sent
            self.sent_bytes += sent
        self.parts.extend(part for part in parts if len(part))
        self._pump()

    def _pump(self) -> None:
        if self._waiting or self._stopped:
            return
        try:
            while self.parts:
                if not self._send_some():
                    return
        except (BlockingIOError, InterruptedError):
            self._waiting = True
            self._loop.add_writer(self._transport, self._writable)
        except Exception as error:
            self._break(error)

    def _break(self, error: Exception) -> None:
        self.stop()
        self._on_broken(error)

    def stop(self) -> None:
        if self._waiting:
            self._loop.remove_writer(self._transport)
            self._waiting = False
        self._stopped = True
        self.parts.clear()

    def _writable(self) -> None:
        self._loop.remove_writer(self._transport)
        self._waiting = False
        self._pump()
        if not self.parts and not self._stopped:
            self._on_drained()

    def _send_some(self) -> bool:
        """One system call. False means that sending goes on later, from a callback."""
        first = self.parts[0]
        if isinstance(first, FileRange):
            return self._send_range(first)
        if len(self.parts) == 1:
            self._advance(self._transport.send(memoryview(first)[self._position :] if self._position else first))
        else:
            self._send_gathered()
        return True

    def _send_gathered(self) -> None:
        gathered: list[bytes | bytearray | memoryview] = []
        flags = 0
        for index, part in enumerate(self.parts):
            if len(gathered) == GATHERED_PARTS_MAX:
                break
            if isinstance(part, FileRange):
                copied = part.read_resident() if len(part) <= COPIED_BYTES_MAX else None
                if copied is None:
                    flags = socket.MSG_MORE
                    break
                part = self.parts[index] = copied
            gathered.append(part)
        if self._position:
            gathered[0] = memoryview(gathered[0])[self._position :]
        sent = self._transport.sendmsg(gathered, (), flags)
        if len(gathered) == len(self.parts) and sent == sum(map(len, gathered)):
            # Mostly everything is sent at once.
            self.sent_bytes += sent
            self.parts.clear()
            self._position = 0
        else:
            self._advance(sent)

    def _send_range(self, part: FileRange) -> bool:
        if isinstance(part, FileRanges):
            self.parts.popleft()
            self.parts.extendleft(reversed(part.ranges))
            return True
        position, length = part.position + self._position, min(len(part) - self._position, SENT_BYTES_MAX)
        if not self._was_warmed and not part.file.is_resident(position, length):
            # A cold range would stop the loop for as long as the disk takes: a thread brings it into memory first.
            self._waiting = True
            warmed = self._loop.run_in_executor(None, part.file.warm, position, length)
            warmed.add_done_callback(self._warmed)
            return False
        self._was_warmed = False
        sent = self._transport.send_range(part.file, position, length)
        if sent == 0:
            raise EOFError(f"{part.file.path} ends before the range that was promised")
        self._advance(sent)
        return True

    def _warmed(self, warmed: asyncio.Future[None]) -> None:
        self._waiting = False
        self._was_warmed = True
        if self._stopped:
            return
        if (error := warmed.exception()) is not None:
            self._break(error if isinstance(error, Exception) else RuntimeError(str(error)))
            return
        self._pump()
        if not self.parts and not self._stopped:
            self._on_drained()

    def _advance(self, sent: int) -> None:
        self.sent_bytes += sent
        parts = self.parts
        self._position += sent
        while parts and self._position >= len(parts[0]):
            self._position -= len(parts.popleft())
