"""Transactions over all shards: the internal topic, and records and offsets that wait for their coordinator."""

import asyncio
from pathlib import Path

import pytest

from headwater.broker.pending import Pending
from headwater.broker.transactions import coordinator as transactions_module
from headwater.broker.transactions import sequence_guard as sequence_guard_module
from headwater.broker.transactions.coordinator import TransactionMembership
from headwater.broker.transactions.sequence_guard import SequenceGuard
from headwater.clock import ManualClock
from headwater.coordination.catalog.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from headwater.coordination.groups.classic.commands import NO_GENERATION
from headwater.coordination.groups.offsets.commands import Commit, OffsetQuery, OffsetToCommit
from headwater.coordination.groups.terms import NO_MEMBER
from headwater.coordination.transactions.commands import PROTOCOL_1, ProducerIdentity
from headwater.coordination.transactions.filter import TransactionFilter
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import NO_TOPIC_ID, GroupId, MemberId, ProducerId, TopicName, TopicPartition, TransactionalId
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.batch import BatchHeader, Marker
from tests.support.broker.embedded_broker import NOW_MS, batch_of, create, readable, run, running, settled, start
from tests.support.broker.transactions import (
    FIRST_PROTOCOL,
    SETTINGS,
    TIMEOUT_MS,
    TX,
    end,
    initialized,
    loaded,
    refused,
    shard_of,
    stage,
)


@pytest.fixture(autouse=True)
def _retries_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions_module, "RETRY_PAUSE_S", 0.001)
    monkeypatch.setattr(transactions_module, "RETRY_PAUSE_S_MAX", 0.001)


# -- creation of __transaction_state


async def test_the_first_lookup_of_a_coordinator_creates_the_topic(tmp_path: Path) -> None:
    settings = {**SETTINGS, "transaction.state.log.segment.bytes": "12345678"}
    async with running(tmp_path, settings) as broker:
        assert broker.topics.find(TRANSACTIONS_TOPIC) is None
        await run(asyncio.gather(*(broker.transactions.prepare() for _ in range(5))))
        topic = broker.topics.find(TRANSACTIONS_TOPIC)
        assert topic is not None
        assert topic.partition_count == len(broker.transactions.shards) == 3
        config = broker.partition(TRANSACTIONS_TOPIC, 0).config
        assert (config.cleanup_policy, config.segment_bytes) == ({"compact"}, 12_345_678)
        assert config.compression_type == "producer"


async def test_commands_before_the_topic_exists_are_refused(tmp_path: Path) -> None:
    producer, where = ProducerIdentity(ProducerId(1), 0), TopicPartition(TopicName("topic"), 0)
    async with running(tmp_path, SETTINGS) as broker:
        transactions = broker.transactions
        with pytest.raises(Refusal) as refusal:
            await run(transactions.init_producer(TX, TIMEOUT_MS, None))
        assert refusal.value.code is ErrorCode.NOT_COORDINATOR
        with pytest.raises(Refusal) as refusal:
            await end(broker, producer)
        assert refusal.value.code is ErrorCode.NOT_COORDINATOR
        assert await refused(transactions.add_partitions(TX, producer, [where], 1)) is ErrorCode.NOT_COORDINATOR
        # A produce request is not sent to a coordinator: the client retries on this code.
        for adds_partitions in (True, False):
            membership = TransactionMembership(TX, adds_partitions, knows_abortable=True)
            assert await refused(transactions.join(membership, producer, where)) is ErrorCode.NOT_ENOUGH_REPLICAS
        assert await transactions.list(TransactionFilter()) == []
        await transactions.expire()
        transactions.end_waits()


async def test_listings_and_commands_are_refused_while_a_shard_loads(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        producer = await initialized(broker)
    async with running(tmp_path, {**SETTINGS, "transaction.state.log.num.partitions": "7"}) as again:
        asked = again.transactions.add_partitions(TX, producer, [], PROTOCOL_1)
        with pytest.raises(Refusal) as refusal:
            await again.transactions.list(TransactionFilter())
        assert refusal.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert await refused(asked) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        transactions = await loaded(again)
        assert [each.transactional_id for each in await transactions.list(TransactionFilter())] == [TX]
        assert len(transactions.shards) == 3, "as the topic has, whatever the settings say now"


async def test_a_stop_while_shards_load_loses_no_transaction(tmp_path: Path) -> None:
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
        with pytest.raises(Refusal) as refusal:
            await initialized(broker)
        assert refusal.value.code is ErrorCode.POLICY_VIOLATION
        clock.advance(999)
        await initialized(broker, TransactionalId("a"))
        clock.advance(1)
        await run(broker.transactions.expire())
        assert [each.transactional_id for each in await broker.transactions.list(TransactionFilter())] == ["a"]
        await initialized(broker)


# -- records and offsets that wait for the coordinator


async def test_records_do_not_overtake_records_that_a_loading_coordinator_turned_away(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        topic = await create(broker, "topic")
        producer = await initialized(broker)
        assert await run(broker.transactions.add_partitions(TX, producer, [topic.id], PROTOCOL_1).wait()) is None

        async def send(sequence: int) -> ErrorCode:
            append = await settled(stage(broker, topic, producer, b"%d" % sequence, FIRST_PROTOCOL, sequence))
            return ErrorCode.NONE if append.error is None else append.error.code

        # A partition accepts any first sequence from a producer that it does not know.
        shard_of(broker).drop("for a test")
        assert [await send(5), await send(6)] == [ErrorCode.NOT_ENOUGH_REPLICAS] * 2
        await run(shard_of(broker).load())
        assert [await send(7), await send(6)] == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER] * 2
        assert [await send(5), await send(6), await send(7)] == [ErrorCode.NONE] * 3
        assert readable(topic) == [b"5", b"6", b"7"]


def test_the_number_of_remembered_refused_producers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence_guard_module, "REFUSED_MAX", 2)
    guard, where = SequenceGuard(), TopicPartition(TopicName("topic"), 0)

    def header(producer_id: int, sequence: int) -> BatchHeader:
        batch = batch_of(b"", producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True)
        return batches.read_header(memoryview(batch))

    for producer_id in (1, 2, 3):
        guard.note_refused(header(producer_id, 0), where)
    guard.check_first(header(1, 1), where, at_zero=False)
    for producer_id in (2, 3):
        with pytest.raises(Refusal) as refusal:
            guard.check_first(header(producer_id, 1), where, at_zero=False)
        assert refusal.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


async def test_no_marker_comes_between_offsets_and_the_coordinators_permission(tmp_path: Path) -> None:
    """In protocol 1 such offsets would look like offsets of the next transaction."""
    group, orders = GroupId("group"), TopicName("orders")
    async with running(tmp_path, SETTINGS) as broker:
        await create(broker, orders)
        await run(broker.groups.prepare())
        producer = await initialized(broker)
        where = TopicPartition(OFFSETS_TOPIC, broker.groups.partition_of(group))
        # Requests from here on are answered when this event is on disk.
        added = broker.transactions.add_partitions(TX, producer, [where], PROTOCOL_1)
        offsets = [OffsetToCommit(orders, 0, 7, -1, "", NO_TOPIC_ID)]
        commit = Commit(MemberId(NO_MEMBER), None, NO_GENERATION, offsets)
        committed = broker.transactions.commit_offsets(group, commit, producer, FIRST_PROTOCOL)
        marker = Marker(committed=True, coordinator_epoch=0)
        ended: list[Pending[HeadwaterError | None]] = []

        def write_marker(_: object) -> None:
            ended.append(broker.transactions.write_marker(where, *producer, marker, protocol_version=PROTOCOL_1))

        broker.transactions.describe(TX).then(write_marker)
        assert await run(added.wait()) is None
        assert await run(committed.wait()) == [ErrorCode.NONE]
        assert await run(ended[0].wait()) is None
        asked = OffsetQuery([TopicPartition(orders, 0)], require_stable=True)
        (found,) = await run(broker.groups.committed(group, asked).wait())
        assert found.committed is not None
        assert found.committed.offset == 7
