"""Replies to successful produce requests, as frames with three numbers left open for each partition.

A client names the same few topics and partitions again and again. The encoded reply is kept, and the next one is filled
in, which takes less than half the time of encoding on the path of every request."""

from collections.abc import Callable, Sequence
from struct import Struct
from typing import NamedTuple, TypeAlias

from headwater.broker.writes.journal import Append
from headwater.protocol.messages.records.produce import ProduceResponse
from headwater.protocol.wire.codec import reply_frame_parts

# A version, then the names or ids of topics, each followed by the indexes of its partitions.
Shape: TypeAlias = tuple[str | bytes | int, ...]

# Older versions have only two numbers per partition; hardly any client is that old.
FIRST_VERSION = 5
# Bounds, because clients choose the shapes. The codec encodes larger replies, and replies with a topic that has no
# partitions (such a topic need not exist). When there are too many shapes, all are forgotten and learned again.
PARTITIONS_MAX = 16
SHAPES_MAX = 4096

# Base offset, time of the append and start of the log lie side by side.
_NUMBERS = Struct(">qqq")
_fill = _NUMBERS.pack_into
# Higher than any offset, so that its encoded bytes can be found in the reply.
_MARK = 2**62


class ReplyTemplate(NamedTuple):
    encoded: bytes
    positions: Sequence[int]

    def filled(self, appends: Sequence[Append]) -> bytearray:
        out = bytearray(self.encoded)
        for position, append in zip(self.positions, appends, strict=True):
            _fill(out, position, append.base_offset, append.log_append_time_ms, append.log_start_offset)
        return out


class ReplyTemplates:
    def __init__(self) -> None:
        self._known: dict[Shape, ReplyTemplate] = {}
        self.find = self._known.get

    def learn(
        self, shape: Shape, version: int, partition_count: int, respond: Callable[[Sequence[Append]], ProduceResponse]
    ) -> None:
        """Keep the encoded form of what `respond` makes for a request of that shape."""
        if version < FIRST_VERSION or partition_count > PARTITIONS_MAX:
            return
        marks = range(_MARK, _MARK + partition_count)
        response = respond([_marked(mark) for mark in marks])
        if not all(topic.partition_responses for topic in response.responses):
            return
        if len(self._known) == SHAPES_MAX:
            self._known.clear()
        (frame,) = reply_frame_parts(response, version, 0, has_tagged_header=response.is_flexible(version))
        encoded = bytes(frame)
        self._known[shape] = ReplyTemplate(encoded, [encoded.index(_NUMBERS.pack(mark, mark, mark)) for mark in marks])


def _marked(mark: int) -> Append:
    append = Append(lambda _: None)
    append.base_offset = append.log_append_time_ms = append.log_start_offset = mark
    return append
