"""A connection that speaks AMQP 0-9-1 with RabbitMQ: one channel, whose frames pamqp encodes.

Frames that come once for each record are taken apart by hand (AMQP 0-9-1, 2.3.5): pamqp decodes a few ten thousand
a second.
"""

import struct
from collections.abc import Generator
from types import TracebackType
from typing import Any, Self

from pamqp import commands, frame
from pamqp.base import Frame
from pamqp.header import ProtocolHeader

from benchmarks.loads import frames
from benchmarks.loads.queues import receive_some

CHANNEL = 1
METHOD, BODY = 1, 3
DELIVER, ACK = (60, 60), (60, 80)

# Type, channel, and the size of the payload, behind which one byte ends the frame.
_HEADER = struct.Struct(">BHI")
_END_SIZE = 1
_METHOD = struct.Struct(">HH")


class Connection:
    def __init__(self, address: str) -> None:
        self.socket = frames.connect(address)
        self._rest = b""
        self.socket.sendall(ProtocolHeader(0, 9, 1).marshal())
        self._await(commands.Connection.Start)
        self._send(0, commands.Connection.StartOk(client_properties={}, response="\0guest\0guest"))
        tune = self._await(commands.Connection.Tune)
        # No heartbeats: a load takes seconds.
        self._send(0, commands.Connection.TuneOk(tune.channel_max, tune.frame_max, 0))
        self._send(0, commands.Connection.Open())
        self._await(commands.Connection.OpenOk)
        self.call(commands.Channel.Open(), commands.Channel.OpenOk)

    def call(self, request: Frame, response: type[Frame]) -> Any:
        """Nothing else may be under way to this client."""
        self._send(CHANNEL, request)
        return self._await(response)

    def received(self) -> Generator[tuple[int, bytes]]:
        """The type and payload of each whole frame that has arrived; none if nothing comes for a moment."""
        data = self._rest + receive_some(self.socket)
        position = 0
        while position + _HEADER.size <= len(data):
            kind, _, size = _HEADER.unpack_from(data, position)
            start, end = position + _HEADER.size, position + _HEADER.size + size
            if end + _END_SIZE > len(data):
                break
            yield kind, data[start:end]
            position = end + _END_SIZE
        self._rest = data[position:]

    def _send(self, channel: int, request: Frame) -> None:
        self.socket.sendall(frame.marshal(request, channel))

    def _await(self, response: type[Frame]) -> Any:
        header = bytes(frames.read_exactly(self.socket, _HEADER.size))
        rest = frames.read_exactly(self.socket, _HEADER.unpack(header)[2] + _END_SIZE)
        _, _, answer = frame.unmarshal(header + rest)
        if not isinstance(answer, response):
            raise TypeError(f"the server sent {answer} instead of {response.__name__}")
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()


def method_of(payload: bytes) -> tuple[int, ...]:
    return _METHOD.unpack_from(payload)
