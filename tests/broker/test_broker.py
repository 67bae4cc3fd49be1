"""The broker as a whole: start, ownership of its data directory, live settings, and stop."""

import threading
from pathlib import Path

import pytest

from headwater import testing
from headwater.clock import ManualClock
from headwater.config.broker import BrokerConfig
from headwater.errors import ConfigError, ErrorCode, Refusal
from headwater.storage.data_directory import DataDirectoryInUse, WrongNode
from tests.support.broker.embedded_broker import QUIET, batch_of, create, produce, readable, running, stage, start
from tests.support.broker.faulty_disk import BROKEN, FaultyDisk


def flush_threads() -> int:
    return sum(1 for thread in threading.enumerate() if thread.name == "headwater-flush")


def open_files(directory: Path) -> list[Path]:
    """Files below the directory that this process has open, without the descriptor that lists them."""
    descriptors = (each for each in Path("/proc/self/fd").iterdir() if each.is_symlink())
    return [target for target in (each.readlink() for each in descriptors) if directory in target.parents]


async def test_a_data_directory_has_one_owner(tmp_path: Path) -> None:
    async with running(tmp_path):
        with pytest.raises(DataDirectoryInUse, match="in use by another process"):
            start(tmp_path)
    async with running(tmp_path):
        pass


async def test_a_data_directory_belongs_to_one_broker_id(tmp_path: Path) -> None:
    async with running(tmp_path, {"node.id": "3"}) as broker:
        cluster_id = broker.cluster_id
    with pytest.raises(WrongNode, match="belongs to broker 3, this is broker 4"):
        start(tmp_path, {"node.id": "4"})
    async with running(tmp_path, {"node.id": "3"}) as broker:
        assert broker.cluster_id == cluster_id


async def test_settings_that_contradict_a_topic_stop_the_start_without_a_trace(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await create(broker, "picky", max_compaction_lag_ms="1000")
    before = flush_threads()
    with pytest.raises(ConfigError, match="topic 'picky'"):
        testing.Broker({"log.cleaner.min.compaction.lag.ms": "5000"}, data_directory=tmp_path).start()
    assert flush_threads() == before
    async with running(tmp_path) as broker:
        assert broker.topics.find("picky") is not None


async def test_a_reload_applies_live_settings_and_names_those_that_need_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as broker:
        partition = await create(broker, "t")
        await broker._effective.change_broker(lambda _: {"fetch.max.bytes": "5000"}, validate_only=False)

        broker.reload(
            BrokerConfig.from_values(
                {**QUIET, "log.retention.ms": "123", "fetch.max.bytes": "9000", "socket.listen.backlog.size": "7"}
            )
        )

        assert partition.config.retention_ms == 123
        assert broker.config.fetch_max_bytes == 5000, "what was changed through the protocol lies over the file"
        assert "socket.listen.backlog.size changed" in caplog.text
        assert broker.config.socket_listen_backlog_size != 7


async def test_a_reload_of_contradictory_settings_changes_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        partition = await create(broker, "picky", max_compaction_lag_ms="1000")
        before = broker.config
        for values in (
            {"log.cleaner.min.compaction.lag.ms": "5000", "log.retention.ms": "1"},
            {"socket.request.max.bytes": "2000000000", "log.retention.ms": "1"},
        ):
            with pytest.raises(ConfigError):
                broker.reload(BrokerConfig.from_values({**QUIET, **values}))
        await broker._effective.change_broker(lambda _: {"num.partitions": "4"}, validate_only=False)
        assert broker.config.log_retention_ms == before.log_retention_ms
        assert partition.config.retention_ms == 604_800_000
        assert broker.config.num_partitions == 4


async def test_a_validate_only_change_changes_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await broker._effective.change_broker(lambda _: {"num.partitions": "4"}, validate_only=True)
        assert broker.config.num_partitions == 3
        with pytest.raises(ConfigError):
            await broker._effective.change_broker(lambda _: {"num.partitions": "x"}, validate_only=True)


async def test_min_insync_replicas_above_one_refuses_acks_all(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        partition = await create(broker, "t", min_insync_replicas="2")
        with pytest.raises(Refusal) as refused:
            stage(broker, partition, batch_of(b"v"))
        assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
        assert (await produce(broker, partition, batch_of(b"v"), acks=1)).error is None


async def test_a_clean_stop_leaves_a_mark_and_a_crash_leaves_none(tmp_path: Path) -> None:
    mark = tmp_path / ".kafka_cleanshutdown"
    async with running(tmp_path) as broker:
        partition = await create(broker, "t")
        assert not mark.exists()
        outcomes = [stage(broker, partition, batch_of(b"v")) for _ in range(5)]
    assert all(outcome.is_done for outcome in outcomes), "a stop answers what is under way"
    assert mark.exists()

    disk = FaultyDisk()
    disk.cursed = "t"
    async with running(tmp_path, disk=disk) as broker:
        assert broker.data.is_clean
        disk.write_error = BROKEN
        await produce(broker, broker.partition("t", 0), batch_of(b"v"))
    assert not mark.exists()
    async with running(tmp_path) as broker:
        assert len(readable(broker.partition("t", 0))) == 5


async def test_a_broker_that_has_stopped_has_no_file_open(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        partition = await create(broker, "t")
        await produce(broker, partition, batch_of(b"v"))
        assert readable(partition) == [b"v"]
        assert open_files(tmp_path)
    # Test suites start many brokers in one process: files close without waiting for the garbage collector.
    assert open_files(tmp_path) == []


async def test_an_unclean_stop_raises_the_leader_epoch(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        partition = await create(broker, "t")
        await produce(broker, partition, batch_of(b"v"))
    async with running(tmp_path) as broker:
        assert broker.partition("t", 0).leader_epoch == 0
    (tmp_path / ".kafka_cleanshutdown").unlink()
    async with running(tmp_path) as broker:
        partition = broker.partition("t", 0)
        assert partition.leader_epoch == 1
        await produce(broker, partition, batch_of(b"w"))
        assert partition._log.epochs.latest == 1
        assert readable(partition) == [b"v", b"w"]


async def test_a_long_start_logs_its_progress(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Hurried(ManualClock):
        def monotonic_ms(self) -> int:
            self.advance(1500)
            return super().monotonic_ms()

    async with running(tmp_path) as broker:
        for number in range(4):
            await create(broker, f"t{number}", 2)
    caplog.set_level("INFO")
    async with running(tmp_path, clock=Hurried()):
        told = [record.getMessage() for record in caplog.records if "of 8 partitions" in record.getMessage()]
    assert told == [f"opened {count} of 8 partitions" for count in (2, 4, 6, 8)]


def test_a_testing_broker_restarts_on_the_same_data(tmp_path: Path) -> None:
    broker = testing.Broker(data_directory=tmp_path)
    for _ in range(2):
        with broker:
            assert broker.node.data_directory == tmp_path
            assert broker.bootstrap_servers.startswith("127.0.0.1:")
    assert tmp_path.exists()


def test_a_testing_broker_deletes_its_data_at_the_end() -> None:
    with testing.Broker() as broker:
        path = broker.data_directory
        assert path.exists()
    assert not path.exists()
    broker.stop()


def test_a_running_node_reloads_its_settings() -> None:
    with testing.Broker() as broker:

        async def reload() -> int:
            config = BrokerConfig.from_values({"listeners": "127.0.0.1:0", "num.partitions": "6"})
            broker.node.reload(config)
            return broker.node.broker.config.num_partitions

        assert broker.call(reload()) == 6
