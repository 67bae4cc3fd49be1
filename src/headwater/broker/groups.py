"""Consumer groups and their offsets: which shard keeps a group, and every command to it.

Groups are spread over the partitions of `__consumer_offsets` by Kafka's hash of their id; each partition is the log of
one machine. The topic is made for the first who looks for a coordinator. A refused command is an outcome, never raised.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeVar

from headwater.broker.catalog import Catalog
from headwater.broker.group_format import GroupFormat
from headwater.broker.journal import Journal
from headwater.broker.pending import Pending
from headwater.broker.shard import Decide, Outcome, Shard
from headwater.broker.state_log import StateLog
from headwater.clock import Clock
from headwater.config import BrokerConfig
from headwater.coordination.decisions import Decision, Now, Ticket
from headwater.coordination.groups.commands import (
    ClassicDescription,
    Commit,
    ConsumerDescription,
    GroupListing,
    Join,
    JoinResult,
    Leaving,
    Left,
    MemberAnswer,
    MemberHeartbeat,
    OffsetsAsked,
    Sync,
    SyncResult,
)
from headwater.coordination.groups.events import CommittedOffset
from headwater.coordination.groups.machine import GroupMachine
from headwater.coordination.topics import OFFSETS_TOPIC
from headwater.errors import ErrorCode, HeadwaterError, KafkaError
from headwater.ids import GroupId, MemberId, TopicName, TopicPartition

logger = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")

PROGRESS_INTERVAL_MS = 2000
GROUP_ID_LENGTH_MAX = 1000


class Groups:
    def __init__(self, catalog: Catalog, config: Callable[[], BrokerConfig], journal: Journal, clock: Clock) -> None:
        self._catalog = catalog
        self._config = config
        self._journal = journal
        self._clock = clock
        self.shards: list[Shard[GroupMachine]] = []
        self._preparing = asyncio.Lock()
        self._loading: asyncio.Task[None] | None = None
        if OFFSETS_TOPIC in catalog.partitions:
            self._open_shards()
            self._loading = asyncio.get_running_loop().create_task(self._load(), name="load groups")

    # -- shards

    async def prepare(self) -> None:
        """Makes the topic that groups are kept in, if it is not there yet."""
        if self.shards:
            return
        async with self._preparing:
            if self.shards:
                return
            config = self._config()
            overrides = {
                "cleanup.policy": "compact",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
                "compression.type": "producer",
            }
            await self._catalog.create(OFFSETS_TOPIC, config.offsets_topic_num_partitions, overrides)
            self._open_shards()
            await self._load()

    def _open_shards(self) -> None:
        event_format, codec = GroupFormat(), self._config().offsets_topic_compression_codec
        self.shards = [
            Shard(StateLog(partition, event_format, codec), self._new_machine, self._journal, self._clock)
            for partition in self._catalog.partitions[OFFSETS_TOPIC]
        ]

    def _new_machine(self) -> GroupMachine:
        return GroupMachine(
            self._config(), self._catalog.group_config, self._catalog.topics, self._has_room, self._bytes_left
        )

    def _has_room(self) -> bool:
        """Whether one more group may begin."""
        total = sum(len(shard.machine.groups) for shard in self.shards if shard.machine is not None)
        return total < self._config().headwater_groups_max

    def _bytes_left(self) -> int:
        """What the members of all groups may still take."""
        taken = sum(shard.machine.weight for shard in self.shards if shard.machine is not None)
        return self._config().headwater_groups_memory_max_bytes - taken

    async def _load(self) -> None:
        began_ms = reported_ms = self._clock.monotonic_ms()
        count = 0
        for loaded, shard in enumerate(self.shards, 1):
            count += await shard.load()
            now_ms = self._clock.monotonic_ms()
            if now_ms - reported_ms >= PROGRESS_INTERVAL_MS:
                reported_ms = now_ms
                logger.info("loaded %d of %d partitions of %s", loaded, len(self.shards), OFFSETS_TOPIC)
        if count:
            took_ms = self._clock.monotonic_ms() - began_ms
            logger.info("loaded groups and offsets from %d records in %d ms", count, took_ms)

    def end_waits(self) -> None:
        for shard in self.shards:
            shard.end_waits()

    async def stop(self) -> None:
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.gather(self._loading, return_exceptions=True)
        for shard in self.shards:
            await shard.close()

    def _submit(
        self,
        group_id: GroupId,
        decide: Decide[GroupMachine, ResultT],
        *,
        nameless: ErrorCode | None = ErrorCode.INVALID_GROUP_ID,
    ) -> Pending[Outcome[ResultT]]:
        """`nameless` is the refusal of a group without a name, None where Kafka allows one."""
        refusal = None
        if not group_id and nameless is not None:
            refusal = KafkaError(nameless, "a group has a name (group.id)")
        elif len(group_id) > GROUP_ID_LENGTH_MAX:
            refusal = KafkaError(
                ErrorCode.INVALID_GROUP_ID, f"a group's name has at most {GROUP_ID_LENGTH_MAX} characters (group.id)"
            )
        elif not self.shards:
            refusal = KafkaError(ErrorCode.NOT_COORDINATOR, "look for the coordinator first: no group has begun yet")
        if refusal is not None:
            refused: Pending[Outcome[ResultT]] = Pending()
            refused.resolve(refusal)
            return refused
        return self.shards[partition_of(group_id, len(self.shards))].submit(decide)

    # -- the classic protocol

    def join(self, group_id: GroupId, join: Join) -> Pending[Outcome[JoinResult]]:
        return self._submit(group_id, lambda machine, ticket, now: machine.decide_join(group_id, join, ticket, now))

    def sync(self, group_id: GroupId, sync: Sync) -> Pending[Outcome[SyncResult]]:
        return self._submit(group_id, lambda machine, ticket, now: machine.decide_sync(group_id, sync, ticket, now))

    def heartbeat(
        self, group_id: GroupId, member_id: MemberId, instance_id: str | None, generation: int
    ) -> Pending[Outcome[ErrorCode]]:
        return self._submit(
            group_id,
            lambda machine, _, now: machine.decide_heartbeat(group_id, member_id, instance_id, generation, now),
        )

    def leave(self, group_id: GroupId, leaving: Sequence[Leaving]) -> Pending[Outcome[Sequence[Left]]]:
        return self._submit(group_id, lambda machine, _, now: machine.decide_leave(group_id, leaving, now))

    # -- the next-generation protocol

    def member_heartbeat(self, group_id: GroupId, heartbeat: MemberHeartbeat) -> Pending[Outcome[MemberAnswer]]:
        return self._submit(
            group_id,
            lambda machine, _, now: machine.decide_member_heartbeat(group_id, heartbeat, now),
            nameless=ErrorCode.INVALID_REQUEST,
        )

    # -- offsets

    def commit(self, group_id: GroupId, commit: Commit) -> Pending[Outcome[Sequence[ErrorCode]]]:
        """An error code for each of the offsets, in their order."""
        return self._submit(
            group_id, lambda machine, _, now: machine.decide_commit(group_id, commit, now), nameless=None
        )

    def committed(
        self, group_id: GroupId, asked: OffsetsAsked
    ) -> Pending[Outcome[Sequence[tuple[TopicPartition, CommittedOffset | None]]]]:
        return self._submit(group_id, lambda machine, _ticket, _now: machine.committed(group_id, asked), nameless=None)

    def delete_offsets(
        self, group_id: GroupId, partitions: Sequence[TopicPartition]
    ) -> Pending[Outcome[Sequence[ErrorCode]]]:
        return self._submit(
            group_id, lambda machine, _ticket, _now: machine.decide_delete_offsets(group_id, partitions)
        )

    # -- groups as wholes

    def describe_classic(self, group_id: GroupId) -> Pending[Outcome[ClassicDescription]]:
        return self._question(group_id, lambda machine: machine.describe_classic(group_id), nameless=None)

    def describe_consumer(self, group_id: GroupId) -> Pending[Outcome[ConsumerDescription]]:
        return self._question(group_id, lambda machine: machine.describe_consumer(group_id))

    def delete(self, group_id: GroupId) -> Pending[Outcome[None]]:
        return self._submit(group_id, lambda machine, _ticket, _now: machine.decide_delete(group_id), nameless=None)

    async def list(self) -> list[GroupListing]:
        """Of all shards; one that cannot answer makes the whole a refusal, because a part would look like all."""
        asked = [shard.submit(_listing) for shard in self.shards]
        listings: list[GroupListing] = []
        for outcome in [await pending.wait() for pending in asked]:
            if isinstance(outcome, HeadwaterError):
                raise outcome
            listings += outcome
        return listings

    async def topics_deleted(self, names: Sequence[TopicName]) -> None:
        """What was committed for them is of no use to a topic that gets the same name."""
        asked = [
            shard.submit(lambda machine, _ticket, _now: machine.decide_forget_topics(names)) for shard in self.shards
        ]
        for pending in asked:
            await pending.wait()

    async def expire(self) -> None:
        """Forgets offsets that nobody has used for `offsets.retention.minutes`, and groups that have nothing left."""
        for shard in self.shards:
            await shard.submit(lambda machine, _ticket, now: machine.decide_expire(now)).wait()

    def _question(
        self,
        group_id: GroupId,
        ask: Callable[[GroupMachine], ResultT],
        *,
        nameless: ErrorCode | None = ErrorCode.INVALID_GROUP_ID,
    ) -> Pending[Outcome[ResultT]]:
        def decide(machine: GroupMachine, _ticket: Ticket, _now: Now) -> Decision[ResultT]:
            return Decision((), ask(machine))

        return self._submit(group_id, decide, nameless=nameless)


def _listing(machine: GroupMachine, _ticket: Ticket, _now: Now) -> Decision[Sequence[GroupListing]]:
    return Decision((), machine.listings())


@lru_cache(maxsize=10_000)
def partition_of(group_id: str, partition_count: int) -> int:
    """Java's hash of a string, which every tool uses to find the partition that keeps a group."""
    hashed = 0
    utf16 = group_id.encode("utf-16-be", "surrogatepass")
    for high, low in zip(utf16[::2], utf16[1::2], strict=True):
        hashed = (31 * hashed + (high << 8 | low)) & 0xFFFF_FFFF
    signed = hashed - (1 << 32) if hashed >> 31 else hashed
    # The least number has no opposite in 32 bits; Kafka takes zero for it.
    return 0 if signed == -(1 << 31) else abs(signed) % partition_count
