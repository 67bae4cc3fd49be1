"""Topics, their partitions and their settings: the catalog's machine on its own log, and the directories behind it.

A topic's directories are made before the catalog says that it exists, and go after the catalog says that it is gone: a
crash in between leaves a stray directory, never a topic whose data is missing.
"""

import asyncio
import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias
from uuid import UUID, uuid4

from headwater.broker.catalog.format import CatalogFormat, DamagedCatalog
from headwater.broker.partition import Partition
from headwater.broker.shards.state_log import StateLog
from headwater.broker.writes.journal import Journal
from headwater.clock import Clock
from headwater.config.broker import BrokerConfig
from headwater.config.group import GroupConfig
from headwater.config.topic import TopicConfig
from headwater.coordination.catalog.events import Event, Topic
from headwater.coordination.catalog.machine import PRODUCER_ID_BLOCK, CatalogMachine
from headwater.coordination.catalog.topic_names import is_internal
from headwater.errors import ConfigError, ErrorCode, HeadwaterError, Refusal
from headwater.ids import GroupId, ProducerId, TopicId, TopicName, TopicPartition
from headwater.storage.cleaning.garbage import Garbage
from headwater.storage.data_directory import DataDirectory

logger = logging.getLogger(__name__)

CATALOG = TopicPartition(TopicName("__headwater_catalog"), 0)
CATALOG_ID = TopicId(UUID(int=2))
CATALOG_CONFIG = TopicConfig(cleanup_policy=frozenset({"compact"}), headwater_flush="ack")

RECOVERY_THREADS = 16
REPLAY_READ_BYTES = 4 << 20

# From the settings that something has of its own to those it shall have, decided when it is their turn.
Change: TypeAlias = Callable[[Mapping[str, str]], Mapping[str, str]]


class Catalog:
    def __init__(self, data: DataDirectory, config: BrokerConfig, clock: Clock, journal: Journal) -> None:
        self._data = data
        self._config = config
        self._clock = clock
        self._journal = journal
        # Changes are made one after the other: each is decided on what the one before it left.
        self._turn = asyncio.Lock()
        # From the moment offsets are gathered until they are written: a checkpoint that was under way while a topic was
        # deleted and created again would give the new one the offsets of the old. Files are also written by one alone.
        self.checkpointing = asyncio.Lock()
        self._producer_ids = range(0)
        self.topics = CatalogMachine(
            topics_max=config.headwater_topics_max,
            partitions_max=config.headwater_partitions_max,
            groups_max=config.headwater_groups_max,
            rack=config.broker_rack,
        )
        self.partitions: dict[TopicName, list[Partition]] = {}
        # Of groups that set something themselves; all others share one. They are asked for with every heartbeat.
        self._group_configs: dict[GroupId, GroupConfig] = {}
        self._common_group_config = GroupConfig.from_overrides({}, config)
        self._log = self._open_log()
        for events in self._log.replay(REPLAY_READ_BYTES):
            for event in events:
                self.topics.apply(event)

    def _open_log(self) -> StateLog[Event]:
        now_ms = self._clock.now_ms()
        if self._data.is_new:
            (log,) = self._data.create_partitions([CATALOG], CATALOG_CONFIG, CATALOG_ID, now_ms)
        else:
            log = self._data.open_partition(CATALOG, CATALOG_CONFIG, now_ms, is_deletable=False)
        recovery_point = self._data.recovery_point(CATALOG)
        if log.failure is not None or log.end_offset < recovery_point:
            reason = log.failure or f"it ends at offset {log.end_offset}, but {recovery_point} were on disk"
            raise DamagedCatalog(
                f"the catalog, without which no topic is known, is lost or damaged ({reason}): restore "
                f"{self._data.root / str(CATALOG)} from a backup, or start with another --data-dir"
            )
        self._data.claim()
        return StateLog(Partition(CATALOG, log, CATALOG_CONFIG, self._journal), CatalogFormat())

    def open_partitions(self, config: BrokerConfig, progress: Callable[[int, int], None]) -> None:
        """Opens the log of every partition that the catalog names; sets aside directories that it does not name."""
        self._config = config
        self._read_group_configs()
        self._set_strays_aside()
        for opened, partition in enumerate(self._opened(), 1):
            self.partitions.setdefault(partition.id.topic, []).append(partition)
            progress(opened, self.topics.partition_total)

    def _opened(self) -> Iterator[Partition]:
        """Every partition, topic by topic."""
        identities: list[TopicPartition] = []
        configs: list[TopicConfig] = []
        for topic in self.topics.by_name.values():
            identities += [TopicPartition(topic.name, index) for index in range(topic.partition_count)]
            configs += [self.topic_config(topic)] * topic.partition_count
        if self._data.is_clean or not identities:
            yield from map(self._open_partition, identities, configs)
            return
        # Imported here because a clean start does without it, and because start-up time is counted.
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

        # After a crash each of them waits for the disk, which serves many at once in about the time of one.
        with ThreadPoolExecutor(RECOVERY_THREADS) as threads:
            yield from threads.map(self._open_partition, identities, configs)

    def _open_partition(self, identity: TopicPartition, config: TopicConfig) -> Partition:
        is_deletable = not is_internal(identity.topic)
        log = self._data.open_partition(identity, config, self._clock.now_ms(), is_deletable=is_deletable)
        epoch = max(log.epochs.latest, 0)
        if log.is_recovered:
            # A power failure may have taken the end of the log. In a new epoch, clients find out where it was cut.
            epoch += 1
            try:
                log.begin_epoch(epoch)
            except HeadwaterError as error:
                # On a full disk the first append tries again; any other error has taken the log out of service.
                logger.error("leader epoch %d of %s could not be written: %s", epoch, identity, error)
        return Partition(identity, log, config, self._journal, epoch)

    def _set_strays_aside(self) -> None:
        known = {
            TopicPartition(name, index)
            for name, topic in self.topics.by_name.items()
            for index in range(topic.partition_count)
        }
        for identity in self._data.partitions_found():
            if identity not in known and identity != CATALOG:
                try:
                    outcome = f"kept as {self._data.set_aside(identity).name}, remove it if it is not needed"
                except OSError as error:
                    outcome = f"it cannot be renamed: {error}"
                logger.warning(
                    "directory of %s is not in the catalog (an interrupted creation or deletion leaves one behind): %s",
                    identity,
                    outcome,
                )

    def all_partitions(self) -> Iterable[Partition]:
        yield self._log.partition
        for partitions in self.partitions.values():
            yield from partitions

    def unknown(self, topic: str, index: int) -> Refusal:
        """Why there is no such partition."""
        found = self.topics.by_name.get(TopicName(topic))
        reason = (
            f"topic '{topic}' does not exist"
            if found is None
            else f"topic '{topic}' has no partition {index}, only {found.partition_count}"
        )
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason)

    def topic_config(self, topic: Topic) -> TopicConfig:
        return TopicConfig.from_overrides(topic.overrides, self._config)

    def group_config(self, group_id: GroupId) -> GroupConfig:
        """The settings of a group, whether there is such a group or not."""
        return self._group_configs.get(group_id, self._common_group_config)

    def _read_group_configs(self) -> None:
        for group_id, overrides in self.topics.group_overrides.items():
            try:
                self._group_configs[group_id] = GroupConfig.from_overrides(overrides, self._config)
            except ConfigError as error:
                # The broker starts with other bounds, which go before what was set under the old ones.
                logger.warning(
                    "the settings of group %r do not suit the broker's and are not used: %s", group_id, error
                )

    # -- changes

    async def create(
        self, name: str, partition_count: int, overrides: Mapping[str, str], *, validate_only: bool = False
    ) -> Topic:
        async with self._turn:
            events = self.topics.decide_create(name, uuid4(), partition_count, overrides)
            (topic,) = events
            assert isinstance(topic, Topic)
            config = TopicConfig.from_overrides(overrides, self._config)
            if not validate_only:
                partitions = await self._make_partitions(topic, range(partition_count), config)
                await self._commit(events, partitions)
                self.partitions[topic.name] = partitions
                logger.info("created topic %s with %d partitions", name, partition_count)
            return topic

    async def delete(self, name: str) -> Topic:
        async with self._turn:
            topic = self.topics.existing(name)
            try:
                await self._commit(self.topics.decide_delete(name))
            except HeadwaterError:
                if self._log.partition.log.failure is not None:
                    # The next start may find that it is deleted: until then nobody is promised that records are kept.
                    for partition in self.partitions[topic.name]:
                        partition.flush_failed("whether it is deleted is known at the next start")
                raise
            partitions = self.partitions.pop(topic.name)
            for partition in partitions:
                partition.close()
            # A flush under way writes by name: it must not find the directory of a topic that is created next.
            await self._journal.settle(partitions)
            await _remove(partitions)
            logger.info("deleted topic %s", name)
            return topic

    async def add_partitions(self, name: str, partition_count: int, *, validate_only: bool = False) -> None:
        async with self._turn:
            before = self.topics.existing(name)
            events = self.topics.decide_add_partitions(name, partition_count)
            if validate_only:
                return
            added = range(before.partition_count, partition_count)
            partitions = await self._make_partitions(before, added, self.topic_config(before))
            await self._commit(events, partitions)
            self.partitions[before.name].extend(partitions)
            logger.info("topic %s now has %d partitions", name, partition_count)

    async def configure(self, name: str, change: Change, *, validate_only: bool = False) -> None:
        async with self._turn:
            topic = self.topics.existing(name)
            overrides = change(topic.overrides)
            events = self.topics.decide_configure(name, overrides)
            config = TopicConfig.from_overrides(overrides, self._config)
            if validate_only or not events:
                return
            await self._commit(events)
            self._apply_config(topic.name, config)
            logger.info("changed settings of topic %s", name)

    async def configure_broker(self, change: Change, *, validate_only: bool = False) -> None:
        async with self._turn:
            events = self.topics.decide_configure_broker(change(self.topics.broker_overrides))
            if not validate_only:
                await self._commit(events)

    async def configure_group(self, group_id: GroupId, change: Change, *, validate_only: bool = False) -> None:
        async with self._turn:
            overrides = change(self.topics.group_overrides.get(group_id, {}))
            events = self.topics.decide_configure_group(group_id, overrides)
            config = GroupConfig.from_overrides(overrides, self._config)
            if validate_only or not events:
                return
            await self._commit(events)
            if overrides:
                self._group_configs[group_id] = config
            else:
                self._group_configs.pop(group_id, None)
            logger.info("changed settings of group %r", group_id)

    def check_config(self, config: BrokerConfig) -> None:
        """Refuses settings of the broker that, as defaults, would contradict what a topic sets itself."""
        for topic in self.topics.by_name.values():
            try:
                TopicConfig.from_overrides(topic.overrides, config)
            except ConfigError as error:
                raise ConfigError(f"topic '{topic.name}' would have settings that contradict: {error}") from error

    def use_config(self, config: BrokerConfig) -> None:
        """New settings of the broker: they are also the defaults of every topic."""
        self._config = config
        self.topics.topics_max = config.headwater_topics_max
        self.topics.partitions_max = config.headwater_partitions_max
        for topic in self.topics.by_name.values():
            self._apply_config(topic.name, self.topic_config(topic))

    async def new_producer_id(self) -> ProducerId:
        """Ids are reserved in blocks, so that a crash skips some and never gives one twice."""
        if not self._producer_ids:
            async with self._turn:
                if not self._producer_ids:
                    first = self.topics.next_producer_id
                    await self._commit(self.topics.decide_reserve_producer_ids())
                    self._producer_ids = range(first, first + PRODUCER_ID_BLOCK)
        producer_id, self._producer_ids = self._producer_ids[0], self._producer_ids[1:]
        return ProducerId(producer_id)

    def _apply_config(self, name: TopicName, config: TopicConfig) -> None:
        for partition in self.partitions.get(name, ()):
            partition.config = partition.log.config = config

    async def _make_partitions(self, topic: Topic, indexes: range, config: TopicConfig) -> list[Partition]:
        # Whoever asks again after the catalog failed must not have the directories of the first attempt set aside.
        self._log.partition.check_online()
        identities = [TopicPartition(topic.name, index) for index in indexes]
        now_ms = self._clock.now_ms()
        try:
            async with self.checkpointing:
                logs = await asyncio.to_thread(self._data.create_partitions, identities, config, topic.id, now_ms)
        except OSError as error:
            raise Refusal(
                ErrorCode.KAFKA_STORAGE_ERROR, f"cannot create the directories of topic '{topic.name}': {error}"
            ) from error
        return [Partition(identity, log, config, self._journal) for identity, log in zip(identities, logs, strict=True)]

    async def _commit(self, events: Sequence[Event], made: Sequence[Partition] = ()) -> None:
        """On disk first, then applied: what a full disk refused has never happened, and the partitions that were made
        for it go again."""
        if not events:
            return
        try:
            await self._log.commit(events, self._clock.now_ms())
        except HeadwaterError:
            # A log that failed may have the events all the same, and the next start would look for the partitions.
            if self._log.partition.log.failure is None:
                await _remove(made)
            raise
        for event in events:
            self.topics.apply(event)

    async def settle(self) -> None:
        """Waits for the changes that are under way."""
        async with self._turn:
            pass


async def _remove(partitions: Sequence[Partition]) -> None:
    """The catalog no longer names them: what cannot be removed now is removed or set aside by the next start."""
    garbage: list[tuple[Partition, Garbage]] = []
    for partition in partitions:
        with _reported(partition):
            garbage.append((partition, partition.log.delete()))

    def remove() -> None:
        for partition, directory in garbage:
            with _reported(partition):
                directory.run()

    await asyncio.to_thread(remove)


@contextmanager
def _reported(partition: Partition) -> Generator[None]:
    try:
        yield
    except OSError as error:
        logger.error("the directory of %s cannot be removed: %s", partition.id, error)
