"""Which offsets of a segment are in which lane, and the file that keeps it: `.lanes`.

A lane is a priority of records. Neighbouring offsets of one lane are one range, so that a segment without priorities is
a single range. Offsets without a record (markers, what compaction removed) count as those before them: every offset is
in some lane, and none is forgotten by readers that go lane by lane.

The file is a copy of what a scan of the segment finds. It says which batch it ends with, and it has a checksum: a file
that is damaged or belongs to another segment is never used.
"""

import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import le, lt
from struct import Struct
from typing import Final, NamedTuple, Self

from fastcrc.crc32 import iscsi as crc32c

from headwater.protocol.batches.batch import BatchHeader
from headwater.protocol.batches.directives import PRIORITIES
from headwater.storage.index import DamagedIndex, Entries

LANES: Final = range(PRIORITIES)

_MAGIC: Final = b"HWLANES1"
# Magic, base offset, position and offset up to which batches are covered; of the last batch its position, base offset,
# leader epoch and checksum; the number of ranges of each lane. Behind it, for each lane: first offsets, last offsets,
# relative to the base offset, as little-endian numbers of 32 bits. At the end a CRC32C of all that.
_HEADER: Final = Struct(f"<8sqqqqqiI{PRIORITIES}I")
_CHECKSUM: Final = Struct("<I")
_ITEM: Final = "I"
_ITEM_BYTES: Final = 4


class BatchMark(NamedTuple):
    """Tells a batch from any other that could be at its position: after a crash, other batches have a later epoch."""

    position: int
    base_offset: int
    leader_epoch: int
    crc: int


class LaneTable:
    __slots__ = ("base_offset", "firsts", "is_whole", "last_batch", "last_lane", "lasts", "next_offset", "position")

    def __init__(self, base_offset: int, position: int, next_offset: int) -> None:
        self.base_offset = base_offset
        # The batches before this position, with the offsets before this one, are covered.
        self.position = position
        self.next_offset = next_offset
        self.last_batch: BatchMark | None = None
        # Whether all batches could be read. If not, no file may say so: the next process looks again.
        self.is_whole = True
        # The lane of the offset before `next_offset`.
        self.last_lane = -1
        self.firsts: list[Sequence[int]] = [array(_ITEM) for _ in LANES]
        self.lasts: list[Sequence[int]] = [array(_ITEM) for _ in LANES]

    @classmethod
    def empty(cls, base_offset: int) -> Self:
        return cls(base_offset, 0, base_offset)

    def continuation(self) -> "LaneTable":
        """An empty table that begins where this one ends."""
        following = LaneTable(self.base_offset, self.position, self.next_offset)
        following.last_lane = self.last_lane
        return following

    @property
    def range_count(self) -> int:
        return sum(map(len, self.firsts))

    # -- changes

    def add(self, first: int, last: int, lane: int) -> None:
        """These offsets follow in this lane. Those in front of them that were left out are in the lane before them."""
        if first > self.next_offset:
            self.fill(first)
        self._append(self.next_offset - self.base_offset, last - self.base_offset, lane)
        self.next_offset = last + 1

    def fill(self, next_offset: int) -> None:
        """There are no records up to this offset."""
        if next_offset > self.next_offset:
            # In front of the first record: the most urgent lane passes over them soonest.
            self._append(
                self.next_offset - self.base_offset, next_offset - 1 - self.base_offset, max(self.last_lane, 0)
            )
            self.next_offset = next_offset

    def end_with(self, header: BatchHeader, position: int) -> None:
        """The last batch that is covered."""
        self.fill(header.next_offset)
        self.position = position + header.size
        self.last_batch = BatchMark(position, header.base_offset, header.leader_epoch, header.crc)

    def give_up(self, position: int) -> None:
        """What comes before this position is taken as it is."""
        self.position = position
        self.is_whole = False

    def extend(self, following: "LaneTable") -> None:
        """Take what a `continuation` has."""
        for lane in LANES:
            firsts, lasts = following.firsts[lane], following.lasts[lane]
            if lane == self.last_lane and firsts and firsts[0] == self.next_offset - self.base_offset:
                own = self._own(lane)
                own[1][-1] = lasts[0]
                firsts, lasts = firsts[1:], lasts[1:]
            if firsts:
                own = self._own(lane)
                own[0].extend(firsts)
                own[1].extend(lasts)
        self.position, self.next_offset = following.position, following.next_offset
        self.last_batch = following.last_batch or self.last_batch
        self.is_whole &= following.is_whole
        self.last_lane = following.last_lane

    def _append(self, first: int, last: int, lane: int) -> None:
        firsts, lasts = self._own(lane)
        if lane == self.last_lane and lasts:
            lasts[-1] = last
        else:
            firsts.append(first)
            lasts.append(last)
            self.last_lane = lane

    def _own(self, lane: int) -> "tuple[array[int], array[int]]":
        """The ranges of a lane, to be changed: those of a file are copied first."""
        firsts, lasts = self.firsts[lane], self.lasts[lane]
        if not isinstance(firsts, array) or not isinstance(lasts, array):
            firsts = self.firsts[lane] = array(_ITEM, firsts)
            lasts = self.lasts[lane] = array(_ITEM, lasts)
        return firsts, lasts

    # -- lookups

    def next_range(self, lane: int, offset: int) -> tuple[int, int] | None:
        """The first range of the lane that reaches `offset`, cut to what lies from there on."""
        base_offset = self.base_offset
        relative = max(offset - base_offset, 0)
        lasts = self.lasts[lane]
        number = bisect_left(lasts, relative)
        if number == len(lasts):
            return None
        return base_offset + max(self.firsts[lane][number], relative), base_offset + lasts[number]

    def lane_at(self, offset: int) -> int:
        for lane in LANES:
            found = self.next_range(lane, offset)
            if found is not None and found[0] == offset:
                return lane
        raise AssertionError(f"offset {offset} is in no lane")

    def ranges(self) -> Iterator[tuple[int, int, int]]:
        """First offset, last offset and lane of all ranges, in the order of the log."""
        offset = self.base_offset
        while offset < self.next_offset:
            lane = self.lane_at(offset)
            found = self.next_range(lane, offset)
            assert found is not None, "the lane has this offset"
            yield *found, lane
            offset = found[1] + 1

    # -- the file

    def encode(self) -> bytes:
        mark = self.last_batch
        assert mark is not None, "an empty table has no file"
        counts = [len(firsts) for firsts in self.firsts]
        parts = [_HEADER.pack(_MAGIC, self.base_offset, self.position, self.next_offset, *mark, *counts)]
        for firsts, lasts in zip(self.firsts, self.lasts, strict=True):
            parts += [_to_bytes(firsts), _to_bytes(lasts)]
        data = b"".join(parts)
        return data + _CHECKSUM.pack(crc32c(data))

    @classmethod
    def decode(cls, data: Entries, base_offset: int) -> Self:
        """The table in a file. Raises DamagedIndex for anything that was not written for a segment with this base."""
        view = memoryview(data)
        if len(view) < _HEADER.size + _CHECKSUM.size:
            raise DamagedIndex(f"it has {len(view)} bytes")
        covered = view[: -_CHECKSUM.size]
        if crc32c(covered) != _CHECKSUM.unpack_from(view, len(covered))[0]:
            raise DamagedIndex("its checksum is wrong")
        magic, base, position, next_offset, *fields = _HEADER.unpack_from(view)
        counts = fields[len(BatchMark._fields) :]
        if magic != _MAGIC or base != base_offset:
            raise DamagedIndex("it is no index of the lanes of this segment")
        if len(covered) != _HEADER.size + 2 * _ITEM_BYTES * sum(counts):
            raise DamagedIndex("its length is wrong")
        table = cls(base_offset, position, next_offset)
        table.last_batch = BatchMark(*fields[: len(BatchMark._fields)])
        start, size = _HEADER.size, 0
        for lane, count in enumerate(counts):
            middle, end = start + count * _ITEM_BYTES, start + 2 * count * _ITEM_BYTES
            firsts, lasts = _from_bytes(covered[start:middle]), _from_bytes(covered[middle:end])
            start = end
            if not (all(map(le, firsts, lasts)) and all(map(lt, lasts, islice(firsts, 1, None)))):
                raise DamagedIndex("its ranges overlap")
            size += sum(lasts) - sum(firsts) + count
            table.firsts[lane], table.lasts[lane] = firsts, lasts
            if count and base_offset + lasts[-1] == next_offset - 1:
                table.last_lane = lane
        if size != next_offset - base_offset or table.last_lane < 0:
            raise DamagedIndex("its ranges do not cover the segment")
        return table


def _to_bytes(column: Sequence[int]) -> bytes:
    if sys.byteorder == "little":
        return bytes(memoryview(column).cast("B")) if column else b""  # pyright: ignore[reportArgumentType]
    swapped = array(_ITEM, column)
    swapped.byteswap()
    return swapped.tobytes()


def _from_bytes(view: memoryview) -> Sequence[int]:
    if sys.byteorder == "little":
        return view.cast(_ITEM)
    column = array(_ITEM, bytes(view))
    column.byteswap()
    return column
