"""The transactions whose abort markers lie in one segment: Kafka's `.txnindex`.

Law: an entry is on disk before the recovery point passes its marker. A missing file means that no transaction was
aborted, so the name of the file is made durable, too.
"""

from bisect import bisect_left
from operator import lt
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from headwater.protocol.batches.batch import NO_OFFSET
from headwater.storage.disk import Disk
from headwater.storage.index import DamagedIndex, Entries, Index

_VERSION: Final = 0
_LAST_OFFSET: Final = 3  # column by which entries ascend


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int  # of its marker
    last_stable_offset: int  # transactions that are aborted later begin at this offset or after it


class TransactionIndex(Index):
    __slots__ = ()
    entry = Struct(">hqqqq")
    is_optional = True

    def __init__(self, disk: Disk, path: Path, base_offset: int, *, is_new: bool) -> None:
        super().__init__(disk, path, base_offset, is_new=is_new)
        if is_new:
            self.written_bytes = 0

    @property
    def is_damaged(self) -> bool:
        try:
            self.size_bytes  # noqa: B018 (reads the file, unless it was read before)
        except DamagedIndex:
            return True
        return False

    @property
    def last_offset(self) -> int:
        """The offset of the last marker in the index."""
        count = len(self)
        return self._column(_LAST_OFFSET)(count - 1) if count else NO_OFFSET

    @property
    def first_pending_offset(self) -> int:
        """The offset of the first marker that the file may not have, or have wrongly."""
        number = max(self.written_bytes, 0) // self.entry.size
        return self._column(_LAST_OFFSET)(number) if number < len(self) else self.base_offset

    def append(self, aborted: AbortedTransaction) -> None:
        self._append(_VERSION, *aborted)

    def search(self, offset: int, end_offset: int, found: list[AbortedTransaction]) -> bool:
        """Adds the transactions that reach into [offset, end_offset). True: later segments have no more of them."""
        start = bisect_left(range(len(self)), offset, key=self._column(_LAST_OFFSET))
        # While one transaction is open, many others may begin and end behind the range: those are passed over.
        coming = memoryview(self.entries)[start * self.entry.size :]
        for _, producer_id, first_offset, last_offset, last_stable_offset in self.entry.iter_unpack(coming):
            if first_offset < end_offset:
                found.append(AbortedTransaction(producer_id, first_offset, last_offset, last_stable_offset))
            if last_stable_offset >= end_offset:
                return True
        return False

    def truncate(self, offset: int) -> None:
        """Removes the entries whose markers are at `offset` or after it."""
        self._cut(bisect_left(range(len(self)), offset, key=self._column(_LAST_OFFSET)))

    def release(self) -> None:
        # An empty index is kept in memory, so that the next reader does not look for a file that is not there.
        if self._entries:
            super().release()

    def _map(self) -> Entries:
        try:
            entries = self._disk.open(self.path).map()
        except FileNotFoundError:
            return b""
        if not is_valid(entries, self.base_offset):
            raise DamagedIndex(f"{self.path.name} is no index of aborted transactions")
        return entries


def is_valid(entries: Entries, base_offset: int) -> bool:
    if len(entries) % TransactionIndex.entry.size:
        return False
    columns = list(zip(*TransactionIndex.entry.iter_unpack(entries), strict=True))
    if not columns:
        return True
    versions, producer_ids, first_offsets, last_offsets, stable_offsets = columns
    return (
        not any(versions)
        and last_offsets[0] >= base_offset
        and all(min(column) >= 0 for column in (producer_ids, first_offsets, stable_offsets))
        and all(map(lt, last_offsets, last_offsets[1:]))
        and all(map(lt, first_offsets, last_offsets))
        and all(stable <= last + 1 for stable, last in zip(stable_offsets, last_offsets, strict=True))
    )


def decode(entries: Entries) -> list[AbortedTransaction]:
    return [AbortedTransaction(*fields[1:]) for fields in TransactionIndex.entry.iter_unpack(entries)]
