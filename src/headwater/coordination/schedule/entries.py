"""The pending records of one target in little memory: offset, due time, size and hash of the id in arrays, and a heap
of plain numbers. A million take less than 100 MB.

Offsets rise, so that the arrays are sorted and are cut into chunks; a chunk that has lost half of its entries is
packed. The heap is lazy: what was moved or removed stays in it until it comes up.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from headwater.coordination.schedule.terms import NO_ID_HASH

CHUNK_ENTRIES: Final = 1024
# Due times that stand for something else.
HELD: Final = -1
_GONE: Final = -2

# An item of the heap is due time and offset in one number.
_OFFSET_BITS: Final = 63
_OFFSET_MASK: Final = (1 << _OFFSET_BITS) - 1
# The heap is swept when it has this many stale items, and more of them than others.
_STALE_MIN: Final = 10_000
_ID_BUCKETS_MASK: Final = 0xFFFF


class PendingEntry(NamedTuple):
    offset: int
    due_ms: int
    size: int


class _Chunk:
    __slots__ = ("due_ms", "id_hashes", "live", "offsets", "sizes")

    def __init__(self) -> None:
        self.offsets = array("q")
        self.due_ms = array("q")
        self.sizes = array("I")
        self.id_hashes = array("q")
        self.live = 0

    def add(self, offset: int, due_ms: int, size: int, id_hash: int) -> None:
        self.offsets.append(offset)
        self.due_ms.append(due_ms)
        self.sizes.append(size)
        self.id_hashes.append(id_hash)
        self.live += 1


class PendingEntries:
    """Entries are added in the order of their offsets. A held entry is not due at any time until it is `set_due`.

    What is read from a log comes up once all of it is `loaded`."""

    def __init__(self, *, is_new: bool) -> None:
        self.count = 0
        self.size_bytes = 0
        self._chunks: list[_Chunk] = []
        self._first_offsets: list[int] = []
        self._heap: list[int] = []
        # Offsets by the low bits of the hash of their id, for entries that have an id.
        self._by_id: dict[int, array[int]] = {}
        # How many of a bucket are gone.
        self._gone_by_id: dict[int, int] = {}
        self._taken: list[int] = []
        self._is_loaded = is_new

    def __len__(self) -> int:
        return self.count

    def __contains__(self, offset: int) -> bool:
        return self._find(offset) is not None

    def add(self, offset: int, due_ms: int, size: int, id_hash: int) -> None:
        """The entry is held, or comes up once `loaded` is called."""
        chunks = self._chunks
        if not chunks or len(chunks[-1].offsets) == CHUNK_ENTRIES:
            chunks.append(_Chunk())
            self._first_offsets.append(offset)
        chunks[-1].add(offset, due_ms, size, id_hash)
        self.count += 1
        self.size_bytes += size
        if id_hash != NO_ID_HASH:
            bucket = self._by_id.get(id_hash & _ID_BUCKETS_MASK)
            if bucket is None:
                bucket = self._by_id[id_hash & _ID_BUCKETS_MASK] = array("q")
            bucket.append(offset)

    def loaded(self, except_for: Collection[int]) -> None:
        """All are loaded. Those of a delivery that had begun come up no more."""
        self._is_loaded = True
        heap = self._heap = [
            due_ms << _OFFSET_BITS | offset
            for chunk in self._chunks
            for offset, due_ms in zip(chunk.offsets, chunk.due_ms, strict=True)
            if due_ms >= 0
        ]
        if except_for:
            heap[:] = [item for item in heap if item & _OFFSET_MASK not in except_for]
        heapify(heap)

    def set_due(self, offset: int, due_ms: int) -> None:
        place = self._find(offset)
        if place is None:
            return
        chunk, index = place
        chunk.due_ms[index] = due_ms
        if self._is_loaded:
            heappush(self._heap, due_ms << _OFFSET_BITS | offset)
            self._sweep()

    def remove(self, offset: int) -> None:
        place = self._find(offset)
        if place is None:
            return
        chunk, index = place
        id_hash = chunk.id_hashes[index]
        self.count -= 1
        self.size_bytes -= chunk.sizes[index]
        chunk.due_ms[index] = _GONE
        if id_hash != NO_ID_HASH:
            self._forget_id(id_hash & _ID_BUCKETS_MASK)
        chunk.live -= 1
        if 2 * chunk.live < len(chunk.offsets):
            self._pack(chunk, offset)
        self._sweep()

    def _forget_id(self, key: int) -> None:
        """One entry more of the bucket is gone. It is swept once half of it is: all entries may have the same id."""
        bucket = self._by_id[key]
        gone = self._gone_by_id.get(key, 0) + 1
        if 2 * gone < len(bucket):
            self._gone_by_id[key] = gone
            return
        self._gone_by_id.pop(key, None)
        left = array("q", (offset for offset in bucket if offset in self))
        if left:
            self._by_id[key] = left
        else:
            del self._by_id[key]

    def due_ms(self, offset: int) -> int | None:
        """None if the entry is not pending."""
        place = self._find(offset)
        return None if place is None else place[0].due_ms[place[1]]

    def size(self, offset: int) -> int:
        place = self._find(offset)
        return 0 if place is None else place[0].sizes[place[1]]

    def with_hash(self, id_hash: int) -> list[int]:
        """The entries whose id has this hash."""
        found: list[int] = []
        for offset in self._by_id.get(id_hash & _ID_BUCKETS_MASK, ()):
            place = self._find(offset)
            if place is not None and place[0].id_hashes[place[1]] == id_hash:
                found.append(offset)
        return found

    def after(self, offset: int) -> Iterator[PendingEntry]:
        """Entries behind an offset, except for those held, in the order in which they were scheduled."""
        for chunk in self._chunks[max(bisect_right(self._first_offsets, offset) - 1, 0) :]:
            for index in range(bisect_right(chunk.offsets, offset), len(chunk.offsets)):
                if chunk.due_ms[index] >= 0:
                    yield PendingEntry(chunk.offsets[index], chunk.due_ms[index], chunk.sizes[index])

    def offsets(self) -> Iterator[int]:
        for chunk in self._chunks:
            for offset, due_ms in zip(chunk.offsets, chunk.due_ms, strict=True):
                if due_ms != _GONE:
                    yield offset

    # -- what is due

    def next_due_ms(self) -> int | None:
        """When the next entry is due; None if none will be."""
        self._put_back()
        heap = self._heap
        while heap:
            due_ms = heap[0] >> _OFFSET_BITS
            if self.due_ms(heap[0] & _OFFSET_MASK) == due_ms:
                return due_ms
            heappop(heap)
        return None

    def due_before(self, until_ms: int, count_max: int, bytes_max: int) -> list[int]:
        """The entries that are due first, as far as they are due by `until_ms`; the first may be larger than
        `bytes_max`. Calling it changes nothing: `forget_taken` keeps them from coming up again."""
        self._put_back()
        heap, taken, found = self._heap, self._taken, list[int]()
        while heap and len(found) < count_max and heap[0] >> _OFFSET_BITS <= until_ms:
            item = heap[0]
            offset = item & _OFFSET_MASK
            # An entry that was moved to and fro is in the heap twice.
            if self.due_ms(offset) == item >> _OFFSET_BITS and not (taken and taken[-1] == item):
                bytes_max -= self.size(offset)
                if bytes_max < 0 and found:
                    break
                found.append(offset)
                taken.append(item)
            heappop(heap)
        return found

    def forget_taken(self) -> None:
        self._taken.clear()

    def _put_back(self) -> None:
        for item in self._taken:
            heappush(self._heap, item)
        self._taken.clear()

    # -- the arrays

    def _find(self, offset: int) -> tuple[_Chunk, int] | None:
        number = bisect_right(self._first_offsets, offset) - 1
        if number < 0:
            return None
        chunk = self._chunks[number]
        index = bisect_left(chunk.offsets, offset)
        if index == len(chunk.offsets) or chunk.offsets[index] != offset or chunk.due_ms[index] == _GONE:
            return None
        return chunk, index

    def _pack(self, chunk: _Chunk, offset: int) -> None:
        """Leave out what is gone from the chunk of `offset`, and merge what is left into the chunk before."""
        number = bisect_right(self._first_offsets, offset) - 1
        before = self._chunks[number - 1] if number else None
        packed = before if before is not None and len(before.offsets) + chunk.live <= CHUNK_ENTRIES else _Chunk()
        for each in zip(chunk.offsets, chunk.due_ms, chunk.sizes, chunk.id_hashes, strict=True):
            if each[1] != _GONE:
                packed.add(*each)
        if packed is before or not packed.live:
            del self._chunks[number], self._first_offsets[number]
        else:
            self._chunks[number] = packed
            self._first_offsets[number] = packed.offsets[0]

    def _sweep(self) -> None:
        stale = len(self._heap) - self.count
        if stale > _STALE_MIN and stale > self.count:
            self._put_back()
            kept = {item for item in self._heap if self.due_ms(item & _OFFSET_MASK) == item >> _OFFSET_BITS}
            self._heap = list(kept)
            heapify(self._heap)
