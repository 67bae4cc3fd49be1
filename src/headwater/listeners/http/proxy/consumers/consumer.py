"""A consumer that a client of HTTP has created: what it reads, how far it has come, and what it has committed.

Positions move when records are handed out. The records of an answer count as processed when the client asks for more,
or deletes the consumer; only then are their offsets committed by themselves (`auto.commit.enable`), so that a client
that dies with an answer in its hands loses nothing.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from headwater.broker.access.guard import Guard
from headwater.broker.broker import Broker
from headwater.coordination.groups.assignment import Assignment
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import GroupId, TopicName, TopicPartition
from headwater.listeners.http.proxy.answers import ILLEGAL_STATE, ProxyRefusal
from headwater.listeners.http.proxy.consumers.membership import GroupMembership
from headwater.listeners.http.proxy.consumers.offset_store import OffsetAndMetadata, OffsetStore
from headwater.listeners.http.proxy.consumers.settings import ConsumerSettings
from headwater.listeners.http.records.reader import Position, offset_of, read
from headwater.protocol.batches.records import Record

logger = logging.getLogger(__name__)

# Between two commits that a consumer makes by itself, as in Kafka's clients (auto.commit.interval.ms).
COMMIT_INTERVAL_MS: Final = 5_000
# How long a read waits until it looks whether the group has given the consumer other partitions.
_TURN_MS: Final = 1_000
# Between two questions for partitions of a consumer that has none yet.
_JOIN_RETRY_MS: Final = 200
RECORDS_MAX: Final = 10_000


class ConsumedRecords(NamedTuple):
    """Records that were read, and where their partitions are to be read on once they are handed out."""

    records: Sequence[tuple[TopicPartition, Record]]
    positions: Mapping[TopicPartition, int]

    def first(self, count: int) -> "ConsumedRecords":
        """So many of them."""
        positions = dict(self.positions)
        # Backwards, so that the first of those that are left decides.
        for where, record in reversed(self.records[count:]):
            positions[where] = record.offset
        return ConsumedRecords(self.records[:count], positions)


class Consumer:
    def __init__(self, broker: Broker, guard: Guard, group: str, name: str, settings: ConsumerSettings) -> None:
        self._broker = broker
        # Of the client's latest request.
        self.guard = guard
        self.group_id = GroupId(group)
        self.name = name
        self.settings = settings
        # One request after the other; heartbeats do not wait for them.
        self.lock = asyncio.Lock()
        self.requests_under_way = 0
        self.used_ms = broker.clock.monotonic_ms()
        self.offsets = OffsetStore(broker, self.group_id)
        self.membership: GroupMembership | None = None
        self.topic_names: Sequence[str] = ()
        self.pattern: str | None = None
        # Assigned by the client itself.
        self._chosen: tuple[TopicPartition, ...] = ()
        self._positions: dict[TopicPartition, int] = {}
        # Up to where the client has processed the records.
        self._processed: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._commit_due_ms = self.used_ms + COMMIT_INTERVAL_MS
        self._turn = 0

    # -- what it reads

    async def subscribe(self, names: Sequence[str], pattern: str | None) -> None:
        if self._chosen or (self.membership is not None and (pattern is None) is not (self.pattern is None)):
            raise ProxyRefusal(ILLEGAL_STATE, "Subscription to topics, partitions and pattern are mutually exclusive")
        if self.membership is None:
            self.membership = GroupMembership(
                self._broker,
                self.group_id,
                self.name,
                self.guard.host,
                self._before_revocation,
                self._forget_positions,
            )
        self.topic_names, self.pattern = names, pattern
        try:
            await self.membership.subscribe(names, pattern)
        except HeadwaterError:
            if not self.membership.epoch:
                # It never was a member.
                self._forget_subscription()
            raise

    async def unsubscribe(self) -> None:
        if self.membership is not None:
            await self._commit_processed(is_due=True)
            self.membership.leave()
        self._forget_subscription()

    def _forget_subscription(self) -> None:
        self.membership = None
        self.topic_names, self.pattern = (), None
        self._chosen = ()
        self._forget_positions()

    def _forget_positions(self) -> None:
        self._positions.clear()
        self._processed.clear()
        self._committed.clear()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        if self.membership is not None:
            raise ProxyRefusal(ILLEGAL_STATE, "Subscription to topics, partitions and pattern are mutually exclusive")
        self._chosen = tuple(dict.fromkeys(partitions))
        self._keep_positions(self._chosen)

    def assignment(self) -> Sequence[TopicPartition]:
        """The partitions that it reads now."""
        if self.membership is None:
            return self._chosen
        return self._by_name(self.membership.owned)

    def _by_name(self, assignment: Assignment) -> list[TopicPartition]:
        found: list[TopicPartition] = []
        for topic_id, indexes in assignment.items():
            topic = self._broker.topics.find_by_id(topic_id)
            if topic is not None:
                found += [TopicPartition(TopicName(topic.name), index) for index in sorted(indexes)]
        return found

    def _keep_positions(self, partitions: Iterable[TopicPartition]) -> None:
        kept = set(partitions)
        for known in (self._positions, self._processed, self._committed):
            for where in [each for each in known if each not in kept]:
                del known[where]

    async def _before_revocation(self, lost: Assignment) -> None:
        await self._commit_processed(is_due=True)
        for where in self._by_name(lost):
            for known in (self._positions, self._processed, self._committed):
                known.pop(where, None)

    # -- how far it has come

    def seek(self, where: TopicPartition, offset: int) -> None:
        if where not in self.assignment():
            raise ProxyRefusal(ILLEGAL_STATE, f"Illegal state: No current assignment for partition {where}")
        self._positions[where] = offset
        self._processed[where] = offset

    async def seek_to(self, where: TopicPartition, place: str) -> None:
        """`place` is earliest or latest."""
        if where not in self.assignment():
            raise ProxyRefusal(ILLEGAL_STATE, f"Illegal state: No current assignment for partition {where}")
        self.seek(where, await offset_of(self._broker, where.topic, where.partition, place))

    async def poll(self, wait_ms: int, bytes_max: int) -> ConsumedRecords:
        """Records that are there within the time. Raises a Refusal."""
        clock = self._broker.clock
        deadline_ms = clock.monotonic_ms() + wait_ms
        self._processed.update(self._positions)
        await self._commit_processed(is_due=False)
        while True:
            if self.membership is not None:
                now_ms = clock.monotonic_ms()
                if not self.membership.owned or now_ms >= self.membership.due_ms:
                    await self.membership.beat()
            assigned = self.assignment()
            # What others may have read since is found anew if it comes back.
            self._keep_positions(assigned)
            partitions = self._readable(assigned)
            left_ms = max(deadline_ms - clock.monotonic_ms(), 0)
            if partitions:
                await self._find_positions(partitions)
                found = await self._read(partitions, min(left_ms, _TURN_MS), bytes_max)
                if found.records:
                    return found
            elif left_ms:
                await asyncio.sleep(min(left_ms, _JOIN_RETRY_MS) / 1000)
            if clock.monotonic_ms() >= deadline_ms:
                return ConsumedRecords((), {})

    def _readable(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Those that are there, and that the client may read. A pattern passes over the others."""
        readable: list[TopicPartition] = []
        for where in partitions:
            if not self.guard.reads(where.topic):
                if self.pattern is None:
                    raise Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"no right to read topic '{where.topic}'")
            elif self._broker.partitions.find(where) is not None:
                readable.append(where)
        return readable

    async def _find_positions(self, partitions: Sequence[TopicPartition]) -> None:
        unknown = [where for where in partitions if where not in self._positions]
        if not unknown:
            return
        committed = await self.offsets.committed(unknown)
        for where in unknown:
            if where in committed:
                offset = self._committed[where] = committed[where].offset
            else:
                offset = await self._reset_offset(where)
            self._positions.setdefault(where, offset)
            self._processed.setdefault(where, offset)

    async def _reset_offset(self, where: TopicPartition) -> int:
        if self.settings.offset_reset == "none":
            message = f"{where} has no committed offset that is there, and auto.offset.reset is none"
            raise Refusal(ErrorCode.OFFSET_OUT_OF_RANGE, message)
        return await offset_of(self._broker, where.topic, where.partition, self.settings.offset_reset)

    async def _read(self, partitions: Sequence[TopicPartition], wait_ms: int, bytes_max: int) -> ConsumedRecords:
        # Another partition first each time: one alone may fill every answer.
        self._turn += 1
        begin = self._turn % len(partitions)
        partitions = [*partitions[begin:], *partitions[:begin]]
        positions = [Position(*where, self._positions[where]) for where in partitions if where in self._positions]
        reads = await read(
            self._broker,
            positions,
            records_max=RECORDS_MAX,
            bytes_min=min(self.settings.bytes_min, bytes_max),
            bytes_max=bytes_max,
            wait_ms=wait_ms,
        )
        records: list[tuple[TopicPartition, Record]] = []
        following: dict[TopicPartition, int] = {}
        error: Refusal | None = None
        for (topic, partition, offset), found in zip(positions, reads, strict=True):
            where = TopicPartition(TopicName(topic), partition)
            if self._positions.get(where) != offset:
                # It was taken away meanwhile.
                continue
            if found.error is not None:
                if found.error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                    self.seek(where, await self._reset_offset(where))
                else:
                    error = found.error
            elif found.records:
                records += [(where, record) for record in found.records]
                following[where] = found.next_offset
            else:
                # Batches that no client sees.
                self._positions[where] = found.next_offset
        if error is not None and not records:
            raise error
        return ConsumedRecords(records, following)

    def delivered(self, consumed: ConsumedRecords) -> None:
        """The records are handed out."""
        for where, offset in consumed.positions.items():
            if where in self._positions:
                self._positions[where] = offset

    # -- what it has committed

    async def commit_positions(self) -> None:
        """All that was handed out. Raises a Refusal."""
        self._processed.update(self._positions)
        await self._commit(self._processed)

    async def commit(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        """Raises a Refusal."""
        member = self.membership
        await self.offsets.commit(offsets, None if member is None else member.member_id, member.epoch if member else -1)
        self._committed.update({where: each.offset for where, each in offsets.items()})

    async def _commit(self, offsets: dict[TopicPartition, int]) -> None:
        changed = {where: offset for where, offset in offsets.items() if self._committed.get(where) != offset}
        await self.commit({where: OffsetAndMetadata(offset) for where, offset in changed.items()})

    async def _commit_processed(self, *, is_due: bool) -> None:
        """By itself. A failure is not the client's: what is not committed now is committed later, or read again."""
        now_ms = self._broker.clock.monotonic_ms()
        if not self.settings.commits_by_itself or not (is_due or now_ms >= self._commit_due_ms):
            return
        self._commit_due_ms = now_ms + COMMIT_INTERVAL_MS
        try:
            await self._commit(dict(self._processed))
        except HeadwaterError as error:
            logger.debug("consumer %s of group %s cannot commit: %s", self.name, self.group_id, error)

    # -- its life

    async def beat(self) -> None:
        """Keep the membership, without a request of the client."""
        if self.membership is None:
            return
        try:
            await self._commit_processed(is_due=False)
            await self.membership.beat()
        except HeadwaterError as error:
            logger.debug("consumer %s of group %s has no heartbeat: %s", self.name, self.group_id, error)

    async def close(self, *, is_deleted: bool) -> None:
        """Leave the group. A client that deletes its consumer has processed what it was given."""
        if is_deleted:
            self._processed.update(self._positions)
        await self._commit_processed(is_due=True)
        self.leave()

    def leave(self) -> None:
        if self.membership is not None:
            self.membership.leave()
