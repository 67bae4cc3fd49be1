"""The partitions of this node: opened at start, created and removed with their topics.

A topic's directories are made before the metadata says that it exists, and removed after the metadata says that it is
gone: a crash in between leaves a stray directory, never a topic whose data is missing.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager

from headwater.broker.partition import Partition
from headwater.broker.writes.journal import Journal
from headwater.clock import Clock
from headwater.config.topic import TopicConfig
from headwater.coordination.catalog.events import Topic
from headwater.coordination.catalog.topic_names import is_internal
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import TopicName, TopicPartition
from headwater.storage.cleaning.garbage import Garbage
from headwater.storage.data_directory import DataDirectory

logger = logging.getLogger(__name__)

RECOVERY_THREADS = 16


class HostedPartitions:
    def __init__(self, data: DataDirectory, clock: Clock, journal: Journal, metadata_partition: Partition) -> None:
        """`metadata_partition` belongs to no topic, but is flushed, compacted and closed like any other."""
        self.by_topic: dict[TopicName, list[Partition]] = {}
        # Held from the moment offsets are gathered until they are written. Otherwise a checkpoint that is under way
        # while a topic is deleted and created again would give the new topic the offsets of the old one. It also makes
        # sure that only one task writes the files.
        self.checkpoint_lock = asyncio.Lock()
        self._data = data
        self._clock = clock
        self._journal = journal
        self._metadata_partition = metadata_partition
        # The verified bytes of each log that recovery had to open.
        self._recovered: list[int] = []

    def all(self) -> Iterable[Partition]:
        yield self._metadata_partition
        for partitions in self.by_topic.values():
            yield from partitions

    def find(self, identity: TopicPartition) -> Partition | None:
        partitions = self.by_topic.get(identity.topic, ())
        return partitions[identity.partition] if 0 <= identity.partition < len(partitions) else None

    # -- start

    def open(self, topics: Sequence[tuple[Topic, TopicConfig]], progress: Callable[[int, int], None]) -> None:
        """Open the log of every partition of these topics, and set aside the directories of others."""
        identities: list[TopicPartition] = []
        configs: list[TopicConfig] = []
        for topic, config in topics:
            identities += [TopicPartition(topic.name, index) for index in range(topic.partition_count)]
            configs += [config] * topic.partition_count
        self._set_strays_aside({*identities, self._metadata_partition.id})
        for opened, partition in enumerate(self._opened(identities, configs), 1):
            self.by_topic.setdefault(partition.id.topic, []).append(partition)
            progress(opened, len(identities))
        if self._recovered:
            logger.warning(
                "after an unclean stop, %d partitions were recovered and %d bytes verified",
                len(self._recovered),
                sum(self._recovered),
            )

    def _opened(self, identities: Sequence[TopicPartition], configs: Sequence[TopicConfig]) -> Iterator[Partition]:
        if self._data.is_clean or not identities:
            yield from map(self._open, identities, configs)
            return
        # Late import: a clean start does without it, and start-up time counts.
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

        # After a crash, recovery of each log waits for the disk, which serves many logs at once in about the time of
        # one.
        with ThreadPoolExecutor(RECOVERY_THREADS) as threads:
            yield from threads.map(self._open, identities, configs)

    def _open(self, identity: TopicPartition, config: TopicConfig) -> Partition:
        is_deletable = not is_internal(identity.topic)
        log = self._data.open_partition(identity, config, self._clock.now_ms(), is_deletable=is_deletable)
        epoch = max(log.epochs.latest, 0)
        if log.is_recovered:
            self._recovered.append(log.verified_bytes)
            # A power failure may have taken the end of the log. In a new epoch, clients find out where it was cut.
            epoch += 1
            try:
                log.begin_epoch(epoch)
            except HeadwaterError as error:
                # On a full disk the first append tries again; any other error has taken the log out of service.
                logger.error("leader epoch %d of %s could not be written: %s", epoch, identity, error)
        return Partition(identity, log, config, self._journal, epoch)

    def _set_strays_aside(self, known: Collection[TopicPartition]) -> None:
        for identity in self._data.partitions_found():
            if identity not in known:
                try:
                    outcome = f"kept as {self._data.set_aside(identity).name}, remove it if it is not needed"
                except OSError as error:
                    outcome = f"it cannot be renamed: {error}"
                logger.warning(
                    "directory of %s is not in the catalog (an interrupted creation or deletion leaves one behind): %s",
                    identity,
                    outcome,
                )

    # -- changes

    async def make(self, topic: Topic, indexes: range, config: TopicConfig) -> list[Partition]:
        """Make directories for partitions of the topic. They are hosted once they are given to `add`."""
        identities = [TopicPartition(topic.name, index) for index in indexes]
        now_ms = self._clock.now_ms()
        try:
            async with self.checkpoint_lock:
                logs = await asyncio.to_thread(self._data.create_partitions, identities, config, topic.id, now_ms)
        except OSError as error:
            raise Refusal(
                ErrorCode.KAFKA_STORAGE_ERROR, f"cannot create the directories of topic '{topic.name}': {error}"
            ) from error
        return [Partition(identity, log, config, self._journal) for identity, log in zip(identities, logs, strict=True)]

    def add(self, name: TopicName, partitions: Sequence[Partition]) -> None:
        self.by_topic.setdefault(name, []).extend(partitions)

    async def remove(self, name: TopicName) -> None:
        """Remove the partitions of a topic, which the metadata no longer names."""
        partitions = self.by_topic.pop(name)
        for partition in partitions:
            partition.close()
        # A flush under way writes by name: it must not find the directory of a topic that is created next.
        await self._journal.wait_for_flushes(partitions)
        await self.discard(partitions)

    async def discard(self, partitions: Sequence[Partition]) -> None:
        """Remove directories. The next start removes, or sets aside, those that cannot be removed now."""
        garbage: list[tuple[Partition, Garbage]] = []
        for partition in partitions:
            with _reported(partition):
                garbage.append((partition, partition.delete()))

        def remove() -> None:
            for partition, directory in garbage:
                with _reported(partition):
                    directory.run()

        await asyncio.to_thread(remove)

    def use_config(self, name: TopicName, config: TopicConfig) -> None:
        for partition in self.by_topic.get(name, ()):
            partition.use_config(config)

    # -- checkpoints and the end

    async def checkpoint(self) -> None:
        """Write where recovery would begin, and where each log starts. A failed log keeps the point it reached."""
        async with self.checkpoint_lock:
            points = {each.id: each.recovery_point for each in self.all()}
            await asyncio.to_thread(self._data.write_recovery_points, points)
        await self.checkpoint_start_offsets()

    async def checkpoint_start_offsets(self) -> None:
        async with self.checkpoint_lock:
            offsets = {each.id: each.start_offset for each in self.all()}
            await asyncio.to_thread(self._data.write_start_offsets, offsets)

    def close(self) -> None:
        """Close every log; the data directory is marked as cleanly closed if all could be."""
        self._data.close({each.id: each.hand_over_log() for each in self.all()})


@contextmanager
def _reported(partition: Partition) -> Generator[None]:
    try:
        yield
    except OSError as error:
        logger.error("the directory of %s cannot be removed: %s", partition.id, error)
