"""The records of a topic as they come, from chosen offsets on, for event streams and WebSockets.

A feed keeps no records: only its positions. Whoever takes a record sets the position behind it.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from headwater.broker.access.guard import Guard
from headwater.broker.broker import Broker
from headwater.errors import ErrorCode, Refusal
from headwater.listeners.http.records.reader import Position, check_readable, offset_of, read
from headwater.protocol.batches.records import Record

PARTITIONS_MAX: Final = 1000
# What one read takes of the log, unless its first batch is larger; the records wait in memory for a slow client.
READ_BYTES: Final = 64 << 10
READ_RECORDS: Final = 500


class FeedPart(NamedTuple):
    """What comes next in one partition."""

    partition: int
    records: Sequence[Record]
    next_offset: int
    # Where the client wanted to read, if what was there has been deleted.
    missing_from: int | None = None


class Feed:
    def __init__(
        self,
        broker: Broker,
        guard: Guard,
        topic: str,
        positions: Mapping[int, int],
        *,
        follows_growth: bool,
        committed_only: bool,
    ) -> None:
        """With `follows_growth` the feed reads partitions that the topic gets later, too."""
        self._broker = broker
        self._guard = guard
        self.topic = topic
        self._topic_id = broker.topics.existing(topic).id
        self.positions = dict(positions)
        self._follows_growth = follows_growth
        self._committed_only = committed_only
        self._turn = 0

    async def read(self, *, wait_ms: int, records_max: int = READ_RECORDS) -> list[FeedPart]:
        """Raises a Refusal when there is nothing more to read: no right, no topic."""
        # Others get their turn, also while there is always something to read.
        await asyncio.sleep(0)
        check_readable(self._broker, self._guard, self.topic)
        topic = self._broker.topics.existing(self.topic)
        if topic.id != self._topic_id:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_ID, f"topic '{self.topic}' was deleted, and created again")
        if self._follows_growth:
            for index in range(len(self.positions), min(topic.partition_count, PARTITIONS_MAX)):
                self.positions[index] = 0
        wanted = [Position(self.topic, index, offset) for index, offset in self.positions.items()]
        # Each partition comes first in its turn, so that none of them starves.
        self._turn = (self._turn + 1) % len(wanted)
        wanted = wanted[self._turn :] + wanted[: self._turn]
        reads = await read(
            self._broker,
            wanted,
            records_max=records_max,
            bytes_max=READ_BYTES,
            wait_ms=wait_ms,
            committed_only=self._committed_only,
        )
        # The right may have been taken away during the wait.
        check_readable(self._broker, self._guard, self.topic)
        found: list[FeedPart] = []
        for (_, index, offset), (records, next_offset, _, _, error) in zip(wanted, reads, strict=True):
            if error is None:
                if records or next_offset != offset:
                    found.append(FeedPart(index, records, next_offset))
            elif error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                found.append(self._repositioned(index, offset))
            else:
                raise error
        return found

    def _repositioned(self, index: int, offset: int) -> FeedPart:
        """What was there is deleted: the feed goes on at the start. After a loss of data it goes on at the end."""
        partition = self._broker.online_partition(self.topic, index)
        next_offset = partition.start_offset if offset < partition.start_offset else partition.high_watermark
        return FeedPart(index, (), next_offset, missing_from=offset)


async def open_feed(
    broker: Broker,
    guard: Guard,
    topic_name: str,
    *,
    partitions: Sequence[int] | None,
    offset: str,
    committed_only: bool,
    resumed: Mapping[int, int] | None = None,
) -> Feed:
    """A feed of these partitions (None: all). `resumed` has positions that go before `offset`."""
    check_readable(broker, guard, topic_name)
    topic = broker.topics.existing(topic_name)
    wanted = range(topic.partition_count) if partitions is None else sorted(set(partitions))
    if len(wanted) > PARTITIONS_MAX:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"a stream has at most {PARTITIONS_MAX} partitions: name some")
    positions: dict[int, int] = {}
    for index in wanted:
        known = None if resumed is None else resumed.get(index)
        broker.partition(topic_name, index)
        if known is None:
            known = await offset_of(broker, topic_name, index, offset, committed_only=committed_only)
        positions[index] = known
    return Feed(broker, guard, topic_name, positions, follows_growth=partitions is None, committed_only=committed_only)
