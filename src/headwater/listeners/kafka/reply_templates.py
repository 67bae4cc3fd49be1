"""Replies to produce requests that succeed: bytes with three numbers left open for each partition.

A client names the same few topics and partitions over and over. What the codec makes of a reply to them is kept, and
the next one is filled in: on the path of every request that takes less than half the time.
"""

from collections.abc import Callable, Sequence
from struct import Struct
from typing import NamedTuple, TypeAlias

from headwater.broker.partition import Append
from headwater.protocol.messages.records.produce import ProduceResponse
from headwater.protocol.wire.codec import encode

# A version, then the names or ids of topics, each followed by the indexes of its partitions.
Shape: TypeAlias = tuple[str | bytes | int, ...]

# Before it, a partition has two numbers only; hardly any client is as old.
FIRST_VERSION = 5
# What clients make up must not fill the memory: longer replies are left to the codec, as are topics that nothing was
# written to, which need not exist; and when there are too many shapes, all are learned anew.
PARTITIONS_MAX = 16
SHAPES_MAX = 4096

# Base offset, time of the append and start of the log lie side by side.
_NUMBERS = Struct(">qqq")
_fill = _NUMBERS.pack_into
# No offset is as high, so that it is found again among the bytes.
_MARK = 2**62


class Template(NamedTuple):
    encoded: bytes
    positions: Sequence[int]

    def filled(self, appends: Sequence[Append]) -> bytearray:
        out = bytearray(self.encoded)
        for position, append in zip(self.positions, appends, strict=True):
            _fill(out, position, append.base_offset, append.log_append_time_ms, append.log_start_offset)
        return out


class Templates:
    def __init__(self) -> None:
        self._known: dict[Shape, Template] = {}
        self.find = self._known.get

    def learn(
        self, shape: Shape, version: int, partition_count: int, respond: Callable[[Sequence[Append]], ProduceResponse]
    ) -> None:
        """`respond` makes a response of that shape."""
        if version < FIRST_VERSION or partition_count > PARTITIONS_MAX:
            return
        marks = range(_MARK, _MARK + partition_count)
        response = respond([_marked(mark) for mark in marks])
        if not all(topic.partition_responses for topic in response.responses):
            return
        if len(self._known) == SHAPES_MAX:
            self._known.clear()
        encoded = encode(response, version)
        self._known[shape] = Template(encoded, [encoded.index(_NUMBERS.pack(mark, mark, mark)) for mark in marks])


def _marked(mark: int) -> Append:
    append = Append(lambda _: None)
    append.base_offset = append.log_append_time_ms = append.log_start_offset = mark
    return append
