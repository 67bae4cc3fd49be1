"""An internal topic whose partitions are the logs of machines; a hash of the key, such as a group id, picks one.

The topic is created on first use and loaded at each start. A refused command is an outcome, never raised.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeVar

from headwater.broker.catalog.hosted_partitions import HostedPartitions
from headwater.broker.partition import Partition
from headwater.broker.pending import Pending
from headwater.broker.shards.shard import Decide, Machine, Outcome, Shard
from headwater.broker.shards.state_log import StateLog
from headwater.broker.topics import Topics
from headwater.broker.writes.journal import Journal
from headwater.clock import Clock
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import TopicName, TopicPartition

logger = logging.getLogger(__name__)

MachineT = TypeVar("MachineT", bound=Machine)
ResultT = TypeVar("ResultT")

PROGRESS_INTERVAL_MS = 2000
# Longer keys are hashed each time: a client that asks for ever longer names must not fill the cache with them.
CACHED_KEY_LENGTH_MAX = 250


class ShardedTopicDefinition(NamedTuple, Generic[MachineT]):
    """What a sharded topic stores, and how."""

    topic: TopicName
    # Called when the topic is created: its partitions, and its settings beside those of every sharded topic.
    partition_count: Callable[[], int]
    overrides: Callable[[], Mapping[str, str]]
    new_log: Callable[[Partition], StateLog[Any]]
    new_machine: Callable[[], MachineT]


class ShardedTopic(Generic[MachineT]):
    def __init__(
        self,
        definition: ShardedTopicDefinition[MachineT],
        topics: Topics,
        partitions: HostedPartitions,
        journal: Journal,
        clock: Clock,
        perform: Callable[[object], None] | None = None,
    ) -> None:
        self.shards: list[Shard[MachineT]] = []
        self._definition = definition
        self._topics = topics
        self._partitions = partitions
        self._journal = journal
        self._clock = clock
        self._perform = perform
        self._preparing = asyncio.Lock()
        self._loading: asyncio.Task[None] | None = None
        if definition.topic in partitions.by_topic:
            self._open_shards()
            self._loading = asyncio.get_running_loop().create_task(self._load(), name=f"load {definition.topic}")

    async def prepare(self) -> None:
        """Create the topic if it does not exist yet."""
        if self.shards:
            return
        async with self._preparing:
            if not self.shards:
                definition = self._definition
                overrides = {"cleanup.policy": "compact", "compression.type": "producer", **definition.overrides()}
                await self._topics.create_internal(definition.topic, definition.partition_count(), overrides)
                self._open_shards()
                await self._load()

    def _open_shards(self) -> None:
        definition = self._definition
        self.shards = [
            Shard(definition.new_log(partition), definition.new_machine, self._journal, self._clock, self._perform)
            for partition in self._partitions.by_topic[definition.topic]
        ]

    async def _load(self) -> None:
        began_ms = reported_ms = self._clock.monotonic_ms()
        count = 0
        for loaded, shard in enumerate(self.shards, 1):
            count += await shard.load()
            now_ms = self._clock.monotonic_ms()
            if now_ms - reported_ms >= PROGRESS_INTERVAL_MS:
                reported_ms = now_ms
                logger.info("loaded %d of %d partitions of %s", loaded, len(self.shards), self._definition.topic)
        if count:
            took_ms = self._clock.monotonic_ms() - began_ms
            logger.info("loaded %d records of %s in %d ms", count, self._definition.topic, took_ms)

    def machines(self) -> Iterator[MachineT]:
        """The machines that are loaded."""
        return (shard.machine for shard in self.shards if shard.machine is not None)

    @property
    def loading_count(self) -> int:
        """How many machines are not there yet: their clients are told to try again."""
        return sum(shard.machine is None for shard in self.shards)

    def partition_of(self, key: str) -> int:
        return partition_of(key, len(self.shards))

    def log_of(self, key: str) -> TopicPartition:
        """The partition that is the log of the key's machine."""
        return TopicPartition(self._definition.topic, self.partition_of(key))

    def submit(self, key: str, decide: Decide[MachineT, ResultT]) -> Pending[Outcome[ResultT]]:
        if not self.shards:
            return refused(
                Refusal(
                    ErrorCode.NOT_COORDINATOR, f"look for the coordinator first: there is no {self._definition.topic}"
                )
            )
        return self.shards[self.partition_of(key)].submit(decide)

    def submit_write_behind(self, key: str, decide: Decide[MachineT, None]) -> None:
        if self.shards:
            self.shards[self.partition_of(key)].submit_write_behind(decide)

    async def submit_to_all(self, decide: Decide[MachineT, ResultT]) -> list[Outcome[ResultT]]:
        outcomes = [shard.submit(decide) for shard in self.shards]
        return [await pending.wait() for pending in outcomes]

    def end_waits(self) -> None:
        for shard in self.shards:
            shard.end_waits()

    async def stop(self) -> None:
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.gather(self._loading, return_exceptions=True)
        for shard in self.shards:
            await shard.close()


def refused(error: HeadwaterError) -> Pending[Any]:
    """The outcome of a command that no shard needs to see."""
    pending: Pending[Any] = Pending()
    pending.resolve(error)
    return pending


def partition_of(key: str, partition_count: int) -> int:
    """The partition of a key, which is where Kafka's tools look for a group or a transactional id, too."""
    is_cached = len(key) <= CACHED_KEY_LENGTH_MAX
    return (_cached_partition_of if is_cached else _partition_of)(key, partition_count)


def _partition_of(key: str, partition_count: int) -> int:
    """Java's String.hashCode, modulo the number of partitions."""
    hashed = 0
    utf16 = key.encode("utf-16-be", "surrogatepass")
    for high, low in zip(utf16[::2], utf16[1::2], strict=True):
        hashed = (31 * hashed + (high << 8 | low)) & 0xFFFF_FFFF
    signed = hashed - (1 << 32) if hashed >> 31 else hashed
    # The lowest 32-bit number has no absolute value in 32 bits; Kafka uses 0 instead.
    return 0 if signed == -(1 << 31) else abs(signed) % partition_count


_cached_partition_of = lru_cache(maxsize=10_000)(_partition_of)
