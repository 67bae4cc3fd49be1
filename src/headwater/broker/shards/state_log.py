"""The log of one machine: its events as records of an internal partition, read back in order, appended in batches."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from headwater.broker.partition import Partition
from headwater.broker.pending import Pending
from headwater.broker.writes.journal import ACKS_ALL, Append
from headwater.errors import CorruptBatch, HeadwaterError
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.batch import BatchHeader
from headwater.protocol.batches.compression import Codec
from headwater.protocol.batches.records import Record

EventT = TypeVar("EventT")

# The broker alone builds the batches of a state log; the bound keeps a damaged batch from filling the memory.
REPLAY_BATCH_BYTES_MAX = 1 << 30
FLUSH_POLL_S = 0.005


class DamagedState(HeadwaterError):
    """A machine is not rebuilt from a damaged log: state that it misses would look deleted."""


class EventFormat(Protocol[EventT]):
    """An event as a record. Compaction keeps the last record of each key; a record without a value is a tombstone."""

    def encode(self, event: EventT) -> tuple[bytes, bytes | None]: ...

    def decode(self, key: bytes, value: bytes | None) -> EventT | None: ...


class StateLog(Generic[EventT]):
    def __init__(self, partition: Partition, event_format: EventFormat[EventT], codec: int = Codec.NONE) -> None:
        self.partition = partition
        self._format = event_format
        self._codec = codec

    def replay(self, read_bytes: int) -> Iterator[list[EventT]]:
        """All events in order, in lists from about `read_bytes` each: the caller may pause between two of them."""
        partition = self.partition
        partition.check_online()
        offset = partition.start_offset
        # Up to the log end, not the high watermark: `wait_until_flushed` precedes the first reply that rests on it.
        end_offset = partition.end_offset
        while offset < end_offset:
            read_from = offset
            events: list[EventT] = []
            try:
                found = partition.read_written(offset, read_bytes, end_offset)
                for header, batch in batches.iterate(found.read()):
                    batches.verify(batch, header)
                    events += self._events(header, batches.read_records(batch, header, REPLAY_BATCH_BYTES_MAX))
                    offset = header.next_offset
                if offset == read_from:
                    raise CorruptBatch("no whole batch is there")
            except HeadwaterError as error:
                raise DamagedState(
                    f"{partition.directory} is damaged at offset {offset}, restore it from a backup: {error}"
                ) from error
            yield events

    def check(self, events: Sequence[object]) -> None:
        """Refuse events that the log would refuse. Called before they are applied, for then the log must take them."""

    def append(self, events: Sequence[EventT], append: Append, now_ms: int) -> None:
        """Append the events as one batch; `append` completes when it is on disk. Raises if the partition is offline."""
        self._stage(batches.build(self._records(events, now_ms), codec=self._codec), append, now_ms)

    def _records(self, events: Sequence[EventT], now_ms: int) -> list[Record]:
        encode = self._format.encode
        return [Record(index, now_ms, *encode(event)) for index, event in enumerate(events)]

    def _stage(self, batch: bytearray, append: Append, now_ms: int) -> None:
        view = memoryview(batch)
        self.partition.stage(batches.read_header(view), view, append, acks=ACKS_ALL, now_ms=now_ms)

    async def wait_until_flushed(self) -> None:
        """Wait until everything that is written is on disk: only then may a reply rest on replayed events."""
        partition = self.partition
        end_offset = partition.end_offset
        while partition.high_watermark < end_offset:
            partition.check_online()
            await asyncio.sleep(FLUSH_POLL_S)

    async def commit(self, events: Sequence[EventT], now_ms: int) -> None:
        """Append the events and wait until they are on disk. Events that a full disk refuses have never happened."""
        done: Pending[Append] = Pending()
        append = Append(done.resolve)
        self.append(events, append, now_ms)
        await done.wait()
        if append.error is not None:
            raise append.error

    def _events(self, header: BatchHeader, records: Sequence[Record]) -> Iterable[EventT]:
        # Control records concern the partition, not the machine.
        return () if header.is_control else self._decoded(records)

    def _decoded(self, records: Sequence[Record]) -> Iterator[EventT]:
        for record in records:
            if record.key is not None:
                event = self._format.decode(record.key, record.value)
                if event is not None:
                    yield event
