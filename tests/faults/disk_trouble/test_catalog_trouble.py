"""A topic created while the catalog's disk fails may exist after the next start, but then it is complete."""

from pathlib import Path

import pytest

from headwater.broker.broker import Broker
from headwater.errors import HeadwaterError
from headwater.ids import TopicName
from tests.support.broker.embedded_broker import batch_of, produce, running
from tests.support.broker.faulty_disk import BROKEN, FaultyDisk

OLD = TopicName("old")


async def create_or_add(broker: Broker) -> None:
    if broker.topics.find("old") is None:
        await broker.topics.create("old", {}, partition_count=1)
    else:
        await broker.topics.add_partitions("old", 2)


@pytest.mark.parametrize("fault", ["write_error", "sync_error"])
@pytest.mark.parametrize("created_before", [0, 1])
async def test_a_topic_that_the_catalog_may_have_kept_has_its_directories(
    tmp_path: Path, fault: str, created_before: int
) -> None:
    """A failed flush leaves the outcome open: the next start finds the event if the kernel wrote it after all."""
    disk = FaultyDisk()
    disk.cursed = "__headwater_catalog"
    async with running(tmp_path, disk=disk) as broker:
        for _ in range(created_before):
            await create_or_add(broker)
        setattr(disk, fault, BROKEN)
        # A client that got the error tries again, which must not remove the directories of the first attempt.
        for _ in range(3):
            with pytest.raises(HeadwaterError):
                await create_or_add(broker)
        disk.heal()
    async with running(tmp_path) as broker:
        for partition in broker.partitions.all():
            assert partition._log.failure is None, f"{partition.id}: {partition._log.failure}"
        while broker.topics.find("old") is None or len(broker.partitions.by_topic[OLD]) <= created_before:
            await create_or_add(broker)
        for partition in broker.partitions.by_topic[OLD]:
            assert (await produce(broker, partition, batch_of(b"value"))).error is None


@pytest.mark.parametrize("fault", ["write_error", "sync_error"])
async def test_no_record_is_acknowledged_for_a_topic_that_may_be_deleted(tmp_path: Path, fault: str) -> None:
    disk = FaultyDisk()
    disk.cursed = "__headwater_catalog"
    async with running(tmp_path, disk=disk) as broker:
        await create_or_add(broker)
        (partition,) = broker.partitions.by_topic[OLD]
        await produce(broker, partition, batch_of(b"before"))
        setattr(disk, fault, BROKEN)
        with pytest.raises(HeadwaterError):
            await broker.topics.delete("old")
        disk.heal()
        with pytest.raises(HeadwaterError, match="next start"):
            await produce(broker, partition, batch_of(b"after"))
