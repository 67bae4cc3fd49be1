"""Drives one pure machine over one internal partition: decide, append, apply, and reply once it is committed.

There is one path: the events that change the machine live are the events that rebuild it after a restart.
"""

from collections.abc import Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from headwater.broker.partition import ACKS_ALL, Append, Partition
from headwater.broker.pending import Pending
from headwater.clock import Clock
from headwater.errors import CorruptBatch, HeadwaterError
from headwater.protocol import batch as batches
from headwater.protocol.records import Record

EventT = TypeVar("EventT")
EventT_contra = TypeVar("EventT_contra", contravariant=True)

# Batches of a state log are built by this process alone; the bound only keeps a damaged one from filling the memory.
REPLAY_BATCH_BYTES_MAX = 1 << 30
REPLAY_READ_BYTES = 4 << 20


class DamagedState(HeadwaterError):
    """A machine is not rebuilt from a log that is not whole: what it then does not know would look deleted."""


class Machine(Protocol[EventT_contra]):
    def apply(self, event: EventT_contra) -> None: ...


class EventFormat(Protocol[EventT]):
    """An event as a record: the key decides what compaction keeps, no value means that the key is gone."""

    def encode(self, event: EventT) -> tuple[bytes, bytes | None]: ...

    def decode(self, key: bytes, value: bytes | None) -> EventT | None: ...


class Shard(Generic[EventT]):
    def __init__(
        self, partition: Partition, machine: Machine[EventT], event_format: EventFormat[EventT], clock: Clock
    ) -> None:
        self.partition = partition
        self._machine = machine
        self._format = event_format
        self._clock = clock

    def replay(self) -> int:
        """Rebuilds the machine from its log; gives the number of events."""
        count = 0
        for record in self._records():
            if record.key is None:
                continue
            event = self._format.decode(record.key, record.value)
            if event is not None:
                self._machine.apply(event)
                count += 1
        return count

    async def commit(self, events: Sequence[EventT]) -> None:
        """Appends, and applies what is on disk: an event that a full disk refused has never happened. The caller lets
        one commit follow the other, so that each decision sees the outcome of the one before."""
        if not events:
            return
        now_ms = self._clock.now_ms()
        records = [Record(index, now_ms, *self._format.encode(event)) for index, event in enumerate(events)]
        batch = memoryview(batches.build(records))
        done: Pending[Append] = Pending()
        append = Append(done.resolve)
        self.partition.stage(batches.read_header(batch), batch, append, acks=ACKS_ALL, now_ms=now_ms)
        await done.wait()
        if append.error is not None:
            raise append.error
        for event in events:
            self._machine.apply(event)

    def _records(self) -> Iterator[Record]:
        partition = self.partition
        offset = partition.start_offset
        while offset < partition.high_watermark:
            read_from = offset
            try:
                file_range = partition.read(
                    offset, REPLAY_READ_BYTES, limit_offset=partition.high_watermark, first_batch_whole=True
                )
                for header, batch in batches.iterate(file_range.read() if file_range else b""):
                    batches.verify(batch, header)
                    if not header.is_control:
                        yield from batches.read_records(batch, header, REPLAY_BATCH_BYTES_MAX)
                    offset = header.next_offset
                if offset == read_from:
                    raise CorruptBatch("no whole batch is there")
            except HeadwaterError as error:
                raise DamagedState(
                    f"{partition.log.directory} is damaged at offset {offset}, restore it from a backup: {error}"
                ) from error
