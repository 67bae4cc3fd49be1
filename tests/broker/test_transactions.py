"""Transactions over all shards: their markers reach every partition in the end, whatever fails meanwhile."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from headwater.broker import first_sequences as first_sequences_module
from headwater.broker import transactions as transactions_module
from headwater.broker.broker import Broker
from headwater.broker.first_sequences import FirstSequences
from headwater.broker.partition import ACKS_ALL, Append, Partition
from headwater.broker.pending import Pending
from headwater.broker.shard import Shard
from headwater.broker.transactions import Joining, Transactions
from headwater.clock import ManualClock
from headwater.coordination.groups.commands import NO_GENERATION, NO_MEMBER, Commit, OffsetsAsked, OffsetToCommit
from headwater.coordination.topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from headwater.coordination.transactions.commands import PROTOCOL_1, PROTOCOL_2, ProducerIdentity
from headwater.coordination.transactions.events import TransactionState
from headwater.coordination.transactions.listing import TransactionFilter
from headwater.coordination.transactions.machine import TransactionMachine
from headwater.errors import ErrorCode, HeadwaterError, KafkaError
from headwater.ids import NO_TOPIC_ID, GroupId, MemberId, ProducerId, TopicName, TopicPartition, TransactionalId
from headwater.protocol import batch as batches
from headwater.protocol.batch import BatchHeader, Marker
from tests.broker.faulty_disk import BROKEN, FULL, FaultyDisk
from tests.broker.running import NOW_MS, TIMEOUT_S, batch_of, crash, create, readable, run, running, settled, start

SETTINGS = {"transaction.state.log.num.partitions": "3", "offsets.topic.num.partitions": "1"}
TX = TransactionalId("tx")
TIMEOUT_MS = 60_000
FIRST_PROTOCOL = Joining(TX, adds_partitions=False, knows_abortable=True)
SECOND_PROTOCOL = Joining(TX, adds_partitions=True, knows_abortable=True)
PROTOCOLS = pytest.mark.parametrize("protocol_version", [PROTOCOL_1, PROTOCOL_2])
ENDS = pytest.mark.parametrize("is_commit", [True, False])
EMPTY, ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
PREPARE_COMMIT, PREPARE_ABORT = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
COMPLETE_COMMIT, COMPLETE_ABORT = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT


@pytest.fixture(autouse=True)
def _retries_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions_module, "RETRY_PAUSE_S", 0.001)
    monkeypatch.setattr(transactions_module, "RETRY_PAUSE_S_MAX", 0.001)


async def eventually(condition: Callable[[], bool]) -> None:
    async def until() -> None:
        while not condition():
            await asyncio.sleep(0)

    await asyncio.wait_for(until(), TIMEOUT_S)


async def initialized(broker: Broker, transactional_id: TransactionalId = TX) -> ProducerIdentity:
    await run(broker.transactions.prepare())
    return await run(broker.transactions.init_producer(transactional_id, TIMEOUT_MS, None))


def stage(
    broker: Broker,
    partition: Partition,
    producer: ProducerIdentity,
    value: bytes,
    joining: Joining = SECOND_PROTOCOL,
    sequence: int = 0,
) -> Pending[Append]:
    producer_id, epoch = producer
    batch = batch_of(value, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True)
    outcome: Pending[Append] = Pending()
    records = memoryview(bytearray(batch))
    broker.produce_in_transaction(partition, records, Append(outcome.resolve), acks=ACKS_ALL, joining=joining)
    return outcome


async def written(broker: Broker, producer: ProducerIdentity, *topics: str) -> None:
    for topic in topics:
        append = await settled(stage(broker, broker.partition(topic, 0), producer, topic.encode()))
        assert append.error is None


def state(broker: Broker, transactional_id: TransactionalId = TX) -> TransactionState | None:
    """None while its machine is not loaded."""
    for machine in broker.transactions.machines():
        if transactional_id in machine.transactions:
            return machine.transactions[transactional_id].state
    return None


def markers(partition: Partition) -> list[bool]:
    """Whether each of them commits."""
    found: list[bool] = []
    offset = partition.start_offset
    while offset < partition.high_watermark:
        read = partition.read(offset, 1 << 20, limit_offset=partition.high_watermark, first_batch_whole=True)
        assert read is not None
        for header, batch in batches.iterate(read.read()):
            offset = header.next_offset
            if header.is_control:
                marker = batches.read_marker(batches.read_records(batch, header, 1 << 20)[0])
                assert marker is not None
                found.append(marker.committed)
    return found


def is_stable(partition: Partition) -> bool:
    return partition.last_stable_offset == partition.high_watermark


async def end(
    broker: Broker, producer: ProducerIdentity, *, is_commit: bool = True, protocol_version: int = PROTOCOL_2
) -> ProducerIdentity:
    transactions = broker.transactions
    ended = transactions.end(TX, producer, is_commit=is_commit, protocol_version=protocol_version)
    outcome = await run(ended.wait())
    if isinstance(outcome, HeadwaterError):
        raise outcome
    return outcome


async def crashed(broker: Broker) -> None:
    for task in broker.transactions._writing.values():
        task.cancel()
    await crash(broker)


@asynccontextmanager
async def with_cursed(
    path: Path, disk: FaultyDisk
) -> AsyncGenerator[tuple[Broker, ProducerIdentity, Partition, Partition]]:
    """A broker on which a transaction is open that has written to a topic with a fate and to another."""
    async with running(path, SETTINGS, disk=disk) as broker:
        cursed, healthy = await create(broker, "cursed"), await create(broker, "healthy")
        producer = await initialized(broker)
        await written(broker, producer, "cursed", "healthy")
        yield broker, producer, cursed, healthy


# -- the topic that transactions are kept in


async def test_the_topic_is_made_for_the_first_who_looks_for_a_coordinator(tmp_path: Path) -> None:
    settings = {**SETTINGS, "transaction.state.log.segment.bytes": "12345678"}
    async with running(tmp_path, settings) as broker:
        assert broker.topic(TRANSACTIONS_TOPIC) is None
        await run(asyncio.gather(*(broker.transactions.prepare() for _ in range(5))))
        topic = broker.topic(TRANSACTIONS_TOPIC)
        assert topic is not None
        assert topic.partition_count == len(broker.transactions.shards) == 3
        config = broker.partition(TRANSACTIONS_TOPIC, 0).config
        assert (config.cleanup_policy, config.segment_bytes) == ({"compact"}, 12_345_678)
        assert config.compression_type == "producer"


async def refused(outcome: Pending[HeadwaterError | None]) -> ErrorCode:
    error = await run(outcome.wait())
    assert error is not None
    return error.code


async def test_commands_before_anybody_has_looked_for_a_coordinator_are_refused(tmp_path: Path) -> None:
    producer, where = ProducerIdentity(ProducerId(1), 0), TopicPartition(TopicName("topic"), 0)
    async with running(tmp_path, SETTINGS) as broker:
        transactions = broker.transactions
        with pytest.raises(KafkaError) as refusal:
            await run(transactions.init_producer(TX, TIMEOUT_MS, None))
        assert refusal.value.code is ErrorCode.NOT_COORDINATOR
        with pytest.raises(KafkaError) as refusal:
            await end(broker, producer)
        assert refusal.value.code is ErrorCode.NOT_COORDINATOR
        assert await refused(transactions.add_partitions(TX, producer, [where], 1)) is ErrorCode.NOT_COORDINATOR
        # A producer that asks to write knows no coordinator: it tries again.
        for adds_partitions in (True, False):
            joining = Joining(TX, adds_partitions, knows_abortable=True)
            assert await refused(transactions.join(joining, producer, where)) is ErrorCode.NOT_ENOUGH_REPLICAS
        assert await transactions.list(TransactionFilter()) == []
        await transactions.expire()
        transactions.end_waits()


async def loaded(broker: Broker) -> Transactions:
    assert broker.transactions._loading is not None
    await run(broker.transactions._loading)
    return broker.transactions


async def test_nothing_is_told_while_a_shard_is_loaded(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        producer = await initialized(broker)
    async with running(tmp_path, {**SETTINGS, "transaction.state.log.num.partitions": "7"}) as again:
        asked = again.transactions.add_partitions(TX, producer, [], PROTOCOL_1)
        with pytest.raises(KafkaError) as refusal:
            await again.transactions.list(TransactionFilter())
        assert refusal.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert await refused(asked) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        transactions = await loaded(again)
        assert [each.transactional_id for each in await transactions.list(TransactionFilter())] == [TX]
        assert len(transactions.shards) == 3, "as the topic has, whatever the settings say now"


async def test_a_broker_that_stops_while_it_loads_loses_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        producer = await initialized(broker)
    broker = start(tmp_path, SETTINGS)
    await asyncio.sleep(0)
    assert broker.transactions._loading is not None
    await run(broker.stop())
    async with running(tmp_path, SETTINGS) as again:
        await loaded(again)
        assert await initialized(again) == producer._replace(epoch=1)


async def test_the_limit_counts_the_ids_of_all_shards_and_unused_ones_expire(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    settings = {**SETTINGS, "headwater.transactions.max": "3", "transactional.id.expiration.ms": "1000"}
    async with running(tmp_path, settings, clock=clock) as broker:
        for name in "abc":
            await initialized(broker, TransactionalId(name))
        with pytest.raises(KafkaError) as refusal:
            await initialized(broker)
        assert refusal.value.code is ErrorCode.POLICY_VIOLATION
        clock.advance(999)
        await initialized(broker, TransactionalId("a"))
        clock.advance(1)
        await run(broker.transactions.expire())
        assert [each.transactional_id for each in await broker.transactions.list(TransactionFilter())] == ["a"]
        await initialized(broker)


# -- records and offsets that wait for the coordinator


def shard_of(broker: Broker, transactional_id: TransactionalId = TX) -> Shard[TransactionMachine]:
    return broker.transactions.shards[broker.transactions.partition_of(transactional_id)]


async def test_records_do_not_overtake_those_that_a_coordinator_turned_away_while_it_was_loaded(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        topic = await create(broker, "topic")
        producer = await initialized(broker)
        assert await run(broker.transactions.add_partitions(TX, producer, [topic.id], PROTOCOL_1).wait()) is None

        async def send(sequence: int) -> ErrorCode:
            append = await settled(stage(broker, topic, producer, b"%d" % sequence, FIRST_PROTOCOL, sequence))
            return ErrorCode.NONE if append.error is None else append.error.code

        # A partition that has forgotten a producer, or never knew it, takes what comes first.
        shard_of(broker).drop("for a test")
        assert [await send(5), await send(6)] == [ErrorCode.NOT_ENOUGH_REPLICAS] * 2
        await run(shard_of(broker).load())
        assert [await send(7), await send(6)] == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER] * 2
        assert [await send(5), await send(6), await send(7)] == [ErrorCode.NONE] * 3
        assert readable(topic) == [b"5", b"6", b"7"]


def test_only_so_many_producers_that_were_turned_away_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_sequences_module, "TURNED_AWAY_MAX", 2)
    first_sequences, where = FirstSequences(), TopicPartition(TopicName("topic"), 0)

    def header(producer_id: int, sequence: int) -> BatchHeader:
        batch = batch_of(b"", producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True)
        return batches.read_header(memoryview(batch))

    for producer_id in (1, 2, 3):
        first_sequences.turn_away(header(producer_id, 0), where)
    first_sequences.begin(header(1, 1), where, at_zero=False)
    for producer_id in (2, 3):
        with pytest.raises(KafkaError) as refusal:
            first_sequences.begin(header(producer_id, 1), where, at_zero=False)
        assert refusal.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


async def test_no_end_comes_between_offsets_and_what_the_coordinator_said_of_them(tmp_path: Path) -> None:
    """In the first protocol nothing would tell them from those of the next transaction."""
    group, orders = GroupId("group"), TopicName("orders")
    async with running(tmp_path, SETTINGS) as broker:
        await create(broker, orders)
        await run(broker.groups.prepare())
        producer = await initialized(broker)
        where = TopicPartition(OFFSETS_TOPIC, broker.groups.partition_of(group))
        # What is asked now is answered when this is on disk.
        added = broker.transactions.add_partitions(TX, producer, [where], PROTOCOL_1)
        offsets = [OffsetToCommit(orders, 0, 7, -1, "", NO_TOPIC_ID)]
        commit = Commit(MemberId(NO_MEMBER), None, NO_GENERATION, offsets)
        committed = broker.commit_in_transaction(group, commit, producer, FIRST_PROTOCOL)
        marker = Marker(committed=True, coordinator_epoch=0)
        ended: list[Pending[HeadwaterError | None]] = []

        def write_marker(_: object) -> None:
            ended.append(broker.transactions.write_marker(where, *producer, marker, protocol_version=PROTOCOL_1))

        broker.transactions.describe(TX).then(write_marker)
        assert await run(added.wait()) is None
        assert await run(committed.wait()) == [ErrorCode.NONE]
        assert await run(ended[0].wait()) is None
        asked = OffsetsAsked([TopicPartition(orders, 0)], require_stable=True)
        (found,) = await run(broker.groups.committed(group, asked).wait())
        assert found.committed is not None
        assert found.committed.offset == 7


# -- markers


@PROTOCOLS
@ENDS
async def test_every_partition_gets_its_marker(tmp_path: Path, protocol_version: int, is_commit: bool) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        partitions = [await create(broker, name) for name in ("one", "two", "three")]
        producer = await initialized(broker)
        await written(broker, producer, "one", "three")
        after = await end(broker, producer, is_commit=is_commit, protocol_version=protocol_version)
        assert after == producer._replace(epoch=protocol_version - 1)
        complete = COMPLETE_COMMIT if is_commit else COMPLETE_ABORT
        await eventually(lambda: state(broker) is complete)
        assert [markers(each) for each in partitions] == [[is_commit], [], [is_commit]]
        assert all(is_stable(each) for each in partitions)
        await eventually(lambda: not broker.transactions._writing)


@PROTOCOLS
@ENDS
async def test_a_full_disk_delays_one_marker_and_no_other(
    tmp_path: Path, protocol_version: int, is_commit: bool, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FaultyDisk()
    async with with_cursed(tmp_path, disk) as (broker, producer, cursed, healthy):
        disk.write_error = FULL
        after = await end(broker, producer, is_commit=is_commit, protocol_version=protocol_version)
        await eventually(lambda: caplog.text.count("markers of 'tx' are missing in 1 partitions") >= 3)
        assert state(broker) is (PREPARE_COMMIT if is_commit else PREPARE_ABORT)
        assert (markers(healthy), is_stable(healthy)) == ([is_commit], True)
        assert (markers(cursed), is_stable(cursed)) == ([], False)
        # Until then nobody writes in the next transaction, and nobody takes the id over.
        append = await settled(stage(broker, healthy, after, b"next"))
        assert append.error is not None
        assert append.error.code is ErrorCode.CONCURRENT_TRANSACTIONS
        with pytest.raises(KafkaError) as refusal:
            await initialized(broker)
        assert refusal.value.code is ErrorCode.CONCURRENT_TRANSACTIONS

        disk.heal()
        await eventually(lambda: state(broker) is (COMPLETE_COMMIT if is_commit else COMPLETE_ABORT))
        assert (markers(cursed), is_stable(cursed)) == ([is_commit], True)
        assert markers(healthy) == [is_commit], "and no second one"


@ENDS
async def test_the_marker_of_a_partition_that_is_offline_is_written_after_a_restart(
    tmp_path: Path, is_commit: bool
) -> None:
    disk = FaultyDisk()
    async with with_cursed(tmp_path, disk) as (broker, producer, _, healthy):
        disk.sync_error = BROKEN
        after = await end(broker, producer, is_commit=is_commit)
        await eventually(lambda: markers(healthy) == [is_commit])
        assert state(broker) is (PREPARE_COMMIT if is_commit else PREPARE_ABORT)
        # The broker stops although a marker is missing.
    async with running(tmp_path, SETTINGS) as again:
        complete = COMPLETE_COMMIT if is_commit else COMPLETE_ABORT
        await eventually(lambda: state(again) is complete)
        cursed = again.partition("cursed", 0)
        assert set(markers(cursed)) == {is_commit}
        assert is_stable(cursed)
        await written(again, after, "cursed", "healthy")


@PROTOCOLS
@ENDS
async def test_a_crash_between_the_decision_and_the_last_marker_changes_nothing(
    tmp_path: Path, protocol_version: int, is_commit: bool
) -> None:
    disk = FaultyDisk()
    broker = start(tmp_path, SETTINGS, disk=disk)
    for name in ("cursed", "healthy"):
        await create(broker, name)
    producer = await initialized(broker)
    await written(broker, producer, "cursed", "healthy")
    disk.write_error = FULL
    await end(broker, producer, is_commit=is_commit, protocol_version=protocol_version)
    await eventually(lambda: markers(broker.partition("healthy", 0)) == [is_commit])
    await crashed(broker)

    async with running(tmp_path, SETTINGS) as again:
        complete = COMPLETE_COMMIT if is_commit else COMPLETE_ABORT
        await eventually(lambda: state(again) is complete)
        assert markers(again.partition("cursed", 0)) == [is_commit]
        assert set(markers(again.partition("healthy", 0))) == {is_commit}
        assert is_stable(again.partition("cursed", 0))
        assert await initialized(again) == producer._replace(epoch=protocol_version)


@pytest.mark.parametrize("cleanly", [True, False])
async def test_a_transaction_goes_on_after_a_restart(tmp_path: Path, cleanly: bool) -> None:
    broker = start(tmp_path, SETTINGS)
    await create(broker, "topic")
    producer = await initialized(broker)
    await written(broker, producer, "topic")
    await (broker.stop() if cleanly else crashed(broker))
    async with running(tmp_path, SETTINGS) as again:
        await loaded(again)
        assert state(again) is ONGOING
        topic = again.partition("topic", 0)
        assert not is_stable(topic)
        await end(again, producer)
        await eventually(lambda: state(again) is COMPLETE_COMMIT)
        assert (markers(topic), is_stable(topic)) == ([True], True)


@pytest.mark.parametrize("is_made_again", [True, False])
async def test_a_topic_that_is_deleted_needs_no_marker(tmp_path: Path, is_made_again: bool) -> None:
    disk = FaultyDisk()
    async with with_cursed(tmp_path, disk) as (broker, producer, _, healthy):
        disk.write_error = FULL
        await end(broker, producer)
        await eventually(lambda: markers(healthy) == [True])
        assert state(broker) is PREPARE_COMMIT
        await run(broker.delete_topic("cursed"))
        if is_made_again:
            disk.heal()
            await create(broker, "cursed")
        await eventually(lambda: state(broker) is COMPLETE_COMMIT)
        if is_made_again:
            assert is_stable(broker.partition("cursed", 0))


async def test_the_next_transaction_begins_as_soon_as_the_markers_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions_module, "HOLD_S", TIMEOUT_S)
    disk = FaultyDisk()
    async with with_cursed(tmp_path, disk) as (broker, producer, cursed, healthy):
        disk.write_error = FULL
        after = await end(broker, producer)
        next_of_all = [stage(broker, partition, after, b"next") for partition in (healthy, cursed)]
        await asyncio.sleep(0)
        assert not any(outcome.is_done for outcome in next_of_all)
        disk.heal()
        assert [(await settled(outcome)).error for outcome in next_of_all] == [None, None]
        assert (markers(healthy), markers(cursed), state(broker)) == ([True], [True], ONGOING)


async def test_a_broker_that_stops_sends_away_who_waits_for_markers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions_module, "HOLD_S", TIMEOUT_S)
    disk = FaultyDisk()
    async with with_cursed(tmp_path, disk) as (broker, producer, _, healthy):
        disk.write_error = FULL
        after = await end(broker, producer)
        waiting = stage(broker, healthy, after, b"next")
        await run(broker.transactions.stop())
        error = (await settled(waiting)).error
        assert error is not None
        assert error.code is ErrorCode.CONCURRENT_TRANSACTIONS
        disk.heal()


async def test_a_broker_that_stops_waits_for_no_marker(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with with_cursed(tmp_path, disk) as (broker, producer, cursed, _):
        disk.write_error = FULL
        await end(broker, producer)
        await eventually(lambda: bool(broker.transactions._writing))
        await run(broker.transactions.stop())
        assert not broker.transactions._writing
        assert markers(cursed) == []
        disk.heal()
    async with running(tmp_path, SETTINGS) as again:
        await eventually(lambda: state(again) is COMPLETE_COMMIT)
        assert markers(again.partition("cursed", 0)) == [True]


async def test_a_coordinator_that_is_loaded_again_writes_no_marker_into_a_later_transaction(tmp_path: Path) -> None:
    """In the first protocol a partition could not tell."""
    disk = FaultyDisk()
    async with with_cursed(tmp_path, disk) as (broker, producer, cursed, _):
        disk.write_error = FULL
        await end(broker, producer, protocol_version=PROTOCOL_1)
        shard = shard_of(broker)
        for _ in range(3):
            shard.drop("for a test")
            await run(shard.load())
        assert len(broker.transactions._writing) == 1
        disk.heal()
        await eventually(lambda: state(broker) is COMPLETE_COMMIT)
        await eventually(lambda: not broker.transactions._writing)
        assert markers(cursed) == [True]


async def test_a_decision_that_the_disk_refuses_has_no_markers(tmp_path: Path) -> None:
    disk = FaultyDisk()
    disk.cursed = TRANSACTIONS_TOPIC
    async with running(tmp_path, SETTINGS, disk=disk) as broker:
        topic = await create(broker, "topic")
        producer = await initialized(broker)
        await written(broker, producer, "topic")
        disk.write_error = FULL
        with pytest.raises(KafkaError) as refusal:
            await end(broker, producer)
        assert refusal.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        disk.heal()
        await eventually(lambda: state(broker) is ONGOING)
        assert markers(topic) == []
        await end(broker, producer, is_commit=False)
        await eventually(lambda: state(broker) is COMPLETE_ABORT)
        assert markers(topic) == [False]


@ENDS
async def test_offsets_of_groups_end_with_their_transaction(tmp_path: Path, is_commit: bool) -> None:
    group, orders = GroupId("group"), TopicName("orders")
    async with running(tmp_path, SETTINGS) as broker:
        await create(broker, orders)
        await run(broker.groups.prepare())
        producer = await initialized(broker)
        where = TopicPartition(OFFSETS_TOPIC, broker.groups.partition_of(group))
        assert await run(broker.transactions.join(SECOND_PROTOCOL, producer, where).wait()) is None
        offsets = [OffsetToCommit(orders, 0, 7, -1, "", NO_TOPIC_ID)]
        commit = Commit(MemberId(NO_MEMBER), None, NO_GENERATION, offsets)
        codes = await run(broker.groups.commit_in_transaction(group, commit, *producer).wait())
        assert codes == [ErrorCode.NONE]
        await end(broker, producer, is_commit=is_commit)
        await eventually(lambda: state(broker) is (COMPLETE_COMMIT if is_commit else COMPLETE_ABORT))
        asked = OffsetsAsked([TopicPartition(orders, 0)], require_stable=True)
        (found,) = await run(broker.groups.committed(group, asked).wait())
        assert (None if found.committed is None else found.committed.offset) == (7 if is_commit else None)


async def test_a_marker_for_a_partition_that_is_not_there_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        await create(broker, "topic")
        for where in (("topic", 1), ("topic", -1), ("nowhere", 0), (OFFSETS_TOPIC, 0)):
            outcome = broker.transactions.write_marker(
                TopicPartition(TopicName(where[0]), where[1]), ProducerId(1), 0, Marker(True, 0), protocol_version=1
            )
            assert await refused(outcome) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# -- time


def wake(broker: Broker) -> None:
    for shard in broker.transactions.shards:
        shard.wake()


async def test_a_transaction_that_is_open_for_too_long_is_aborted_and_its_producer_fenced(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    async with running(tmp_path, SETTINGS, clock=clock) as broker:
        topic = await create(broker, "topic")
        producer = await initialized(broker)
        await written(broker, producer, "topic")
        clock.advance(TIMEOUT_MS - 1)
        wake(broker)
        assert state(broker) is ONGOING
        clock.advance(1)
        wake(broker)
        await eventually(lambda: state(broker) is COMPLETE_ABORT)
        assert (markers(topic), is_stable(topic)) == ([False], True)
        append = await settled(stage(broker, topic, producer, b"late"))
        assert append.error is not None
        assert append.error.code is ErrorCode.INVALID_PRODUCER_EPOCH


async def test_the_time_limit_goes_on_over_a_restart(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    async with running(tmp_path, SETTINGS, clock=clock) as broker:
        await create(broker, "topic")
        await written(broker, await initialized(broker), "topic")
    clock.advance(TIMEOUT_MS - 1)
    async with running(tmp_path, SETTINGS, clock=clock) as again:
        await loaded(again)
        assert state(again) is ONGOING
        clock.advance(1)
        wake(again)
        await eventually(lambda: state(again) is COMPLETE_ABORT)
        assert is_stable(again.partition("topic", 0))
