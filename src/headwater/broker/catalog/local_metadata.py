"""The metadata of a single node: the catalog's machine, folded over a log in the data directory.

Unlike the machines of groups and transactions, this one applies an event only when it is on disk: a topic's directories
must be created before the event and removed after it. So changes are made one at a time.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from headwater.broker.catalog.effective_config import access_limits
from headwater.broker.catalog.format import CatalogFormat, DamagedCatalog
from headwater.broker.partition import Partition
from headwater.broker.ports.metadata import MetadataLog
from headwater.broker.shards.state_log import StateLog
from headwater.clock import Clock
from headwater.config.broker import BrokerConfig
from headwater.config.topic import TopicConfig
from headwater.coordination.catalog.events import Event
from headwater.coordination.catalog.machine import CatalogMachine
from headwater.ids import TopicId, TopicName, TopicPartition
from headwater.storage.data_directory import DataDirectory

if TYPE_CHECKING:
    from headwater.broker.writes.journal import Journal

CATALOG = TopicPartition(TopicName("__headwater_catalog"), 0)
CATALOG_ID = TopicId(UUID(int=2))
CATALOG_CONFIG = TopicConfig(cleanup_policy=frozenset({"compact"}), headwater_flush="ack")

REPLAY_READ_BYTES = 4 << 20


class LocalMetadata:
    def __init__(self, data: DataDirectory, config: BrokerConfig, clock: Clock, journal: "Journal") -> None:
        self._clock = clock
        self.change_lock = asyncio.Lock()
        self.state = CatalogMachine(
            topics_max=config.headwater_topics_max,
            partitions_max=config.headwater_partitions_max,
            groups_max=config.headwater_groups_max,
            access_limits=access_limits(config),
        )
        self.partition = _open_catalog(data, clock, journal)
        self._log = StateLog(self.partition, CatalogFormat())
        for events in self._log.replay(REPLAY_READ_BYTES):
            for event in events:
                self.state.apply(event)

    @property
    def is_in_doubt(self) -> bool:
        return self.partition.failure is not None

    @property
    def log(self) -> MetadataLog:
        return MetadataLog(self.partition.leader_epoch, self.partition.high_watermark)

    def check_online(self) -> None:
        self.partition.check_online()

    async def commit(self, events: Sequence[Event]) -> None:
        if not events:
            return
        await self._log.commit(events, self._clock.now_ms())
        for event in events:
            self.state.apply(event)


def _open_catalog(data: DataDirectory, clock: Clock, journal: "Journal") -> Partition:
    now_ms = clock.now_ms()
    if data.is_new:
        (log,) = data.create_partitions([CATALOG], CATALOG_CONFIG, CATALOG_ID, now_ms)
    else:
        log = data.open_partition(CATALOG, CATALOG_CONFIG, now_ms, is_deletable=False)
    recovery_point = data.recovery_point(CATALOG)
    if log.failure is not None or log.end_offset < recovery_point:
        reason = log.failure or f"it ends at offset {log.end_offset}, but {recovery_point} were on disk"
        raise DamagedCatalog(
            f"the catalog, without which no topic is known, is lost or damaged ({reason}): restore "
            f"{data.root / str(CATALOG)} from a backup, or start with another --data-dir"
        )
    data.claim()
    return Partition(CATALOG, log, CATALOG_CONFIG, journal)
