"""The seam between a connection and its socket: plain here, encrypted where a listener asks for TLS."""

import os
import socket
from collections.abc import Iterable
from typing import Any, Protocol, Self

from headwater.file_range import ReadableFile
from headwater.security.principals import ANONYMOUS, Principal


class Transport(Protocol):
    """A non-blocking socket: BlockingIOError means that nothing can be received or sent now."""

    @property
    def principal(self) -> Principal:
        """The client as its certificate names it; ANONYMOUS if it showed none."""
        ...

    def fileno(self) -> int: ...

    def getpeername(self) -> Any: ...

    def recv_into(self, buffer: memoryview, /) -> int:
        """0 is the end of what the client sends."""
        ...

    def pending(self) -> int:
        """Bytes that are received already, so that the socket does not become readable for them."""
        ...

    def send(self, data: bytes | bytearray | memoryview, /) -> int: ...

    def sendmsg(self, parts: Iterable[bytes | bytearray | memoryview], ancillary: Any, flags: int, /) -> int: ...

    def send_range(self, file: ReadableFile, position: int, length: int) -> int:
        """Send bytes of a file; 0 means that the file ends before `position`."""
        ...

    def close(self) -> None: ...


class PlainTransport(socket.socket):
    """The accepted socket itself, so that the seam costs nothing."""

    __slots__ = ()
    principal = ANONYMOUS

    @classmethod
    def adopt(cls, accepted: socket.socket) -> Self:
        return cls(accepted.family, accepted.type, accepted.proto, accepted.detach())

    def pending(self) -> int:
        return 0

    def send_range(self, file: ReadableFile, position: int, length: int) -> int:
        return os.sendfile(self.fileno(), file.fileno(), position, length)
