"""Topics and the directories behind them: across restarts, crashes, full disks, and unknown directories beside them."""

import asyncio
import shutil
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.broker.catalog.format import CatalogFormat, DamagedCatalog
from headwater.coordination.catalog.events import (
    BrokerDefaults,
    BrokerOverrides,
    Event,
    GroupOverrides,
    ProducerIdsReserved,
    Topic,
    TopicDeleted,
)
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import GroupId, TopicId, TopicName
from tests.support.broker.embedded_broker import (
    batch_of,
    crash,
    create,
    produce,
    readable,
    run,
    running,
    sequenced,
    stage,
    start,
)
from tests.support.broker.faulty_disk import BROKEN, FULL, FaultyDisk


def directories(path: Path) -> list[str]:
    return sorted(one.name for one in path.iterdir() if one.is_dir() and not one.name.startswith("__"))


# -- across restarts


@pytest.mark.parametrize("cleanly", [True, False])
async def test_acknowledged_changes_survive_a_restart(tmp_path: Path, cleanly: bool) -> None:
    broker = start(tmp_path)
    await create(broker, "kept", 2, retention_ms="777")
    await create(broker, "grown")
    await create(broker, "gone")
    await broker.topics.add_partitions("grown", 3)
    await broker.configs.change_topic("grown", lambda before: {**before, "segment.bytes": "2000000"})
    await broker.topics.delete("gone")
    await broker._effective.change_broker(lambda _: {"num.partitions": "9"}, validate_only=False)
    await produce(broker, broker.partition("kept", 1), batch_of(b"value"))
    await produce(broker, broker.partition("kept", 0), sequenced(0))
    before = dict(broker.metadata.state.by_name)
    producer_id = await broker.producer_ids.next()
    await (broker.stop() if cleanly else crash(broker))

    async with running(tmp_path) as again:
        assert again.metadata.state.by_name == before
        assert again.metadata.state.by_id == {topic.id: topic for topic in before.values()}
        assert again.partition("kept", 0).config.retention_ms == 777
        assert again.partition("grown", 2).config.segment_bytes == 2_000_000
        assert again.config.num_partitions == 9
        assert readable(again.partition("kept", 1)) == [b"value"]
        assert await again.producer_ids.next() > producer_id
        duplicate = await produce(again, again.partition("kept", 0), sequenced(0))
        assert duplicate.base_offset == 0, "idempotence survives"
        assert again.cluster_id == broker.cluster_id
        assert directories(tmp_path) == ["grown-0", "grown-1", "grown-2", "kept-0", "kept-1"]


async def test_producer_ids_are_never_given_twice(tmp_path: Path) -> None:
    seen: set[int] = set()
    for _ in range(3):
        broker = start(tmp_path)
        ids = await asyncio.gather(*(broker.producer_ids.next() for _ in range(1500)))
        assert len(set(ids)) == 1500
        assert seen.isdisjoint(ids)
        seen.update(ids)
        await crash(broker)


async def test_a_catalog_survives_its_own_compaction(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        for number in range(20):
            await create(broker, f"t{number}")
            if number % 2:
                await broker.topics.delete(f"t{number}")
            await broker.producer_ids.next()
        before = dict(broker.metadata.state.by_name)
        shard = broker.metadata.partition
        shard._log.roll(broker.clock.now_ms())
        size = shard._log.size_bytes
        broker.journal.flush_soon(shard)
        await run(broker.journal.drain())
        await run(broker.housekeeping.compact())
        assert shard._log.size_bytes < size
    async with running(tmp_path) as again:
        assert again.metadata.state.by_name == before


# -- unknown and missing directories


async def test_a_directory_unknown_to_the_catalog_is_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as broker:
        await produce(broker, await create(broker, "known"), batch_of(b"v"))
    shutil.copytree(tmp_path / "known-0", tmp_path / "stray-4")
    (tmp_path / "not-a-partition").mkdir()
    async with running(tmp_path) as broker:
        assert broker.topics.find("stray") is None
        (aside,) = tmp_path.glob("stray-4.*-stray")
        assert (aside / f"{0:020}.log").stat().st_size > 0, "data that nobody claims is never deleted"
        assert "stray-4 is not in the catalog" in caplog.text
        await create(broker, "stray", 5)
    async with running(tmp_path) as broker:
        assert aside.exists()
        assert (tmp_path / "not-a-partition").exists()


async def test_a_partition_whose_directory_is_missing_is_offline_and_its_topic_can_be_deleted(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await create(broker, "hurt", 2)
        await produce(broker, broker.partition("hurt", 1), batch_of(b"fine"))
    (tmp_path / "hurt-0").rename(tmp_path.parent / "lost")
    async with running(tmp_path) as broker:
        with pytest.raises(Refusal, match="missing") as offline:
            stage(broker, broker.partition("hurt", 0), batch_of(b"v"))
        assert offline.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert readable(broker.partition("hurt", 1)) == [b"fine"]

    # The operator finds the directory and puts it back.
    (tmp_path.parent / "lost").rename(tmp_path / "hurt-0")
    async with running(tmp_path) as broker:
        await produce(broker, broker.partition("hurt", 0), batch_of(b"v"))
    shutil.rmtree(tmp_path / "hurt-0")
    async with running(tmp_path) as broker:
        await broker.topics.delete("hurt")
        assert directories(tmp_path) == []


async def test_a_directory_in_the_way_of_a_new_topic_is_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as broker:
        (tmp_path / "new-0").mkdir()
        (tmp_path / "new-0" / "precious").write_text("data")
        partition = await create(broker, "new")
        assert (await produce(broker, partition, batch_of(b"v"))).base_offset == 0
        (aside,) = tmp_path.glob("new-0.*-stray")
        assert (aside / "precious").read_text() == "data"
        assert "was there before its topic" in caplog.text


# -- refusals and faults


async def test_a_refused_change_leaves_topics_and_directories_as_they_were(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await create(broker, "t")
        topics, configs = broker.topics, broker.configs
        for refused in (
            topics.create("t", {}),
            topics.create("a/b", {}),
            topics.create("u", {"retention.ms": "x"}),
            topics.delete("nobody"),
            topics.add_partitions("t", 1),
            configs.change_topic("nobody", dict),
            configs.change_topic("t", lambda _: {"no.such": "1"}),
        ):
            with pytest.raises(HeadwaterError):
                await refused
        assert [topic.name for topic in topics.all()] == ["t"]
        assert directories(tmp_path) == ["t-0"]


async def test_concurrent_creations_of_one_topic_succeed_once(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        creations = (broker.topics.create("t", {}, partition_count=1) for _ in range(5))
        outcomes = await asyncio.gather(*creations, return_exceptions=True)
        assert sum(1 for one in outcomes if isinstance(one, Topic)) == 1
        assert {one.code for one in outcomes if isinstance(one, Refusal)} == {ErrorCode.TOPIC_ALREADY_EXISTS}
        assert directories(tmp_path) == ["t-0"]


@pytest.mark.parametrize("fault", [FULL, BROKEN])
async def test_a_topic_whose_directories_cannot_be_made_does_not_exist(tmp_path: Path, fault: int) -> None:
    disk = FaultyDisk()
    async with running(tmp_path, disk=disk) as broker:
        disk.create_error = fault
        disk.cursed = "cursed-1"
        for _ in range(3):
            with pytest.raises(Refusal) as refused:
                await broker.topics.create("cursed", {}, partition_count=2)
            assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert broker.topics.find("cursed") is None
        assert directories(tmp_path) == []
        disk.heal()
        assert (await produce(broker, await create(broker, "cursed", 2), batch_of(b"v"))).base_offset == 0


async def test_a_change_that_cannot_be_written_to_the_catalog_is_undone(tmp_path: Path) -> None:
    disk = FaultyDisk()
    disk.cursed = "__headwater_catalog"
    async with running(tmp_path, disk=disk) as broker:
        await create(broker, "old")
        before = dict(broker.metadata.state.by_name)
        disk.write_error = FULL
        for refused in (
            broker.topics.create("new", {}, partition_count=2),
            broker.topics.add_partitions("old", 5),
            broker.topics.delete("old"),
            broker.configs.change_topic("old", lambda _: {"retention.ms": "1"}),
            broker._effective.change_broker(lambda _: {"num.partitions": "7"}, validate_only=False),
            broker.producer_ids.next(),
        ):
            with pytest.raises(HeadwaterError):
                await run(refused)

        assert broker.metadata.state.by_name == before
        assert list(broker.partitions.by_topic) == ["old"]
        assert broker.partition("old", 0).config.retention_ms != 1
        assert broker.config.num_partitions == 3
        assert directories(tmp_path) == ["old-0"], "what was made for it is gone again"
        disk.heal()
        await create(broker, "new", 2)
        await broker.topics.add_partitions("old", 2)
        assert await broker.producer_ids.next() == 0
    async with running(tmp_path) as again:
        assert sorted(again.metadata.state.by_name) == ["new", "old"]


async def test_a_topic_recreated_at_once_inherits_nothing_from_its_namesake(tmp_path: Path) -> None:
    """A flush writes indexes and checkpoints by name: the last one of the old topic must not reach the new one."""
    async with running(tmp_path) as broker:
        for _ in range(10):
            partition = await create(broker, "phoenix", index_interval_bytes="0")
            for number in range(20):
                await produce(broker, partition, batch_of(b"%d" % number), acks=1)
            stage(broker, partition, batch_of(b"last"))
            await asyncio.gather(
                broker.topics.delete("phoenix"), broker.topics.create("phoenix", {}, partition_count=1)
            )
            await run(broker.journal.drain())
            files = {path.name: path.stat().st_size for path in (tmp_path / "phoenix-0").iterdir()}
            assert files.pop("partition.metadata")
            assert files.pop("leader-epoch-checkpoint") == len("0\n1\n0 0\n")
            assert set(files.values()) == {0}
            await broker.topics.delete("phoenix")
        assert directories(tmp_path) == []


async def test_a_changed_broker_setting_reaches_topics_without_an_override(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        own = await create(broker, "own", retention_ms="5")
        other = await create(broker, "other")
        await broker._effective.change_broker(lambda _: {"log.retention.ms": "9"}, validate_only=False)
        assert (own.config.retention_ms, other.config.retention_ms) == (5, 9)
        assert other._log.config is other.config


async def test_a_partition_is_found_by_topic_and_number(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await create(broker, "t", 2)
        assert str(broker.partition("t", 1).id) == "t-1"
        for name, index in (("t", 2), ("t", -1), ("nobody", 0), ("__headwater_catalog", 0)):
            with pytest.raises(Refusal) as unknown:
                broker.partition(name, index)
            assert unknown.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# -- events as records

names = st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True).map(TopicName)
overrides = st.dictionaries(st.text(max_size=10), st.text(max_size=10), max_size=3)
events: st.SearchStrategy[Event] = st.one_of(
    st.builds(Topic, names, st.uuids().map(TopicId), st.integers(1, 10_000), overrides),
    st.builds(TopicDeleted, names),
    st.builds(BrokerOverrides, overrides),
    st.builds(BrokerDefaults, overrides),
    st.builds(GroupOverrides, st.text(max_size=20).map(GroupId), overrides),
    st.builds(ProducerIdsReserved, st.integers(0, 2**53)),
)


@given(events)
def test_an_event_survives_the_round_trip_through_its_record(event: Event) -> None:
    assert CatalogFormat().decode(*CatalogFormat().encode(event)) == event


def test_fields_that_a_newer_version_adds_to_a_topic_are_ignored() -> None:
    event = Topic(TopicName("orders"), TopicId(UUID(int=7)), 3, {"retention.ms": "1"})
    key, value = CatalogFormat().encode(event)
    assert value is not None
    assert CatalogFormat().decode(key, value.replace(b"{", b'{"colour":"blue",', 1)) == event


@pytest.mark.parametrize(("key", "value"), [(b"from the future", b"{}"), (b"broker", None), (b"producer-ids", None)])
def test_a_record_of_an_unknown_event_decodes_to_none(key: bytes, value: bytes | None) -> None:
    assert CatalogFormat().decode(key, value) is None


ORDERS_ID = b'"id":"8d1ac1a4-1c1b-4d0b-9d8f-6e3f0e9c2a11"'


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"topic/orders", b"{"),
        (b"topic/orders", b"[]"),
        (b"topic/orders", b'{"id":"orders","partitions":1,"config":{}}'),
        (b"topic/orders", b'{"id":7,"partitions":1,"config":{}}'),
        (b"topic/orders", b"{" + ORDERS_ID + b',"partitions":1}'),
        (b"topic/orders", b"{" + ORDERS_ID + b',"partitions":true,"config":{}}'),
        (b"topic/orders", b"{" + ORDERS_ID + b',"partitions":1,"config":null}'),
        (b"topic/orders", b"{" + ORDERS_ID + b',"partitions":1,"config":{"retention.ms":1}}'),
        (b"topic/\xff", b"{}"),
        (b"group/\xff", b"{}"),
        (b"group/ann", b'{"consumer.session.timeout.ms":3}'),
        (b"broker", b"[]"),
        (b"broker", b'{"num.partitions":3}'),
        (b"producer-ids", b'"1000"'),
        (b"producer-ids", b"1e3"),
    ],
)
def test_an_unreadable_record_stops_the_start_and_is_named(key: bytes, value: bytes) -> None:
    with pytest.raises(DamagedCatalog, match="catalog's record"):
        CatalogFormat().decode(key, value)
