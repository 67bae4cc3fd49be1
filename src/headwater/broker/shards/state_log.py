"""The log of one machine: its events as records of an internal partition, read back in order, appended in batches."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from headwater.broker.partition import Partition
from headwater.broker.pending import Pending
from headwater.broker.writes.append import ACKS_ALL, Append
from headwater.errors import CorruptBatch, HeadwaterError
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.batch import BatchHeader
from headwater.protocol.batches.compression import Codec
from headwater.protocol.batches.records import Record

EventT = TypeVar("EventT")

# Batches of a state log are built by this process alone; the bound only keeps a damaged one from filling the memory.
REPLAY_BATCH_BYTES_MAX = 1 << 30
SETTLE_STEP_S = 0.005


class DamagedState(HeadwaterError):
    """A machine is not rebuilt from a log that is not whole: what it then does not know would look deleted."""


class EventFormat(Protocol[EventT]):
    """An event as a record: the key decides what compaction keeps, no value means that the key is gone."""

    def encode(self, event: EventT) -> tuple[bytes, bytes | None]: ...

    def decode(self, key: bytes, value: bytes | None) -> EventT | None: ...


class StateLog(Generic[EventT]):
    def __init__(self, partition: Partition, event_format: EventFormat[EventT], codec: int = Codec.NONE) -> None:
        self.partition = partition
        self._format = event_format
        self._codec = codec

    def replay(self, read_bytes: int) -> Iterator[list[EventT]]:
        """All events in order, as many at a time as about `read_bytes` hold: the reader may pause in between."""
        partition = self.partition
        partition.check_online()
        offset = partition.start_offset
        # Beyond the high watermark, too: what is written will be on disk before anybody is told what follows from it.
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
        """Asked before events are applied, for the log must then take them: refuses those that it would not."""

    def append(self, events: Sequence[EventT], append: Append, now_ms: int) -> None:
        """As one batch; `append` hears when it is on disk. A partition that is out of service is raised at once."""
        self._stage(batches.build(self._records(events, now_ms), codec=self._codec), append, now_ms)

    def _records(self, events: Sequence[EventT], now_ms: int) -> list[Record]:
        encode = self._format.encode
        return [Record(index, now_ms, *encode(event)) for index, event in enumerate(events)]

    def _stage(self, batch: bytearray, append: Append, now_ms: int) -> None:
        view = memoryview(batch)
        self.partition.stage(batches.read_header(view), view, append, acks=ACKS_ALL, now_ms=now_ms)

    async def settle(self) -> None:
        """Waits until all that is written is also on disk: what was replayed from it may then be told."""
        partition = self.partition
        end_offset = partition.end_offset
        while partition.high_watermark < end_offset:
            partition.check_online()
            await asyncio.sleep(SETTLE_STEP_S)

    async def commit(self, events: Sequence[EventT], now_ms: int) -> None:
        """Appends, and returns when they are on disk; an event that a full disk refused has never happened."""
        done: Pending[Append] = Pending()
        append = Append(done.resolve)
        self.append(events, append, now_ms)
        await done.wait()
        if append.error is not None:
            raise append.error

    def _events(self, header: BatchHeader, records: Sequence[Record]) -> Iterable[EventT]:
        # Control records are for the partition alone.
        return () if header.is_control else self._decoded(records)

    def _decoded(self, records: Sequence[Record]) -> Iterator[EventT]:
        for record in records:
            if record.key is not None:
                event = self._format.decode(record.key, record.value)
                if event is not None:
                    yield event
