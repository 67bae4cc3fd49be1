"""Settlements inside transactions, at a broker without listeners: both come about or neither, whatever happens."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from headwater.broker.broker import Broker
from headwater.broker.shares import prune as prune_module
from headwater.broker.shares.queue import Settlement
from headwater.broker.shares.transactional_queue import OpenTransaction
from headwater.broker.transactions import coordinator as transactions_module
from headwater.broker.transactions.markers import MarkerWriter
from headwater.clock import ManualClock
from headwater.coordination.catalog.topic_names import SHARE_STATE_TOPIC
from headwater.coordination.shares.terms import DeliveryState
from headwater.coordination.transactions.commands import PROTOCOL_1, PROTOCOL_2
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import ProducerId
from headwater.protocol.batches.batch import Marker
from tests.broker.shares.share_commands import ACCEPT, RELEASE
from tests.broker.shares.transactional_till import BILLING, SETTINGS, Till, open_till, reopened
from tests.coordination.shares.driver import REJECT, RENEW
from tests.support.broker.embedded_broker import NOW_MS, batch_of, create, produce, readable, run, running, start
from tests.support.broker.faulty_disk import FULL, FaultyDisk
from tests.support.broker.transactions import ENDS, PROTOCOLS, TIMEOUT_MS, TX, crashed, end, eventually, initialized

PENDING = DeliveryState.PENDING


@pytest.fixture(autouse=True)
def _retries_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions_module, "RETRY_PAUSE_S", 0.001)
    monkeypatch.setattr(transactions_module, "RETRY_PAUSE_S_MAX", 0.001)


@PROTOCOLS
async def test_a_commit_carries_out_what_was_said(tmp_path: Path, protocol_version: int) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        till = await open_till(broker, 4)
        received = await till.receive(3)
        assert await till.settle(received[:2]) == [None, None]
        assert await till.settle(received[2:], REJECT) == [None]
        await till.write(b"invoice")
        assert await till.received() == [(3, 1)]
        peeked = broker.shares.queue_views.peek(till.guard, BILLING, ["orders"], records_max=9, bytes_max=1 << 20)
        assert [each.state for each in await run(peeked)] == [PENDING] * 3 + [DeliveryState.ACQUIRED]
        assert till.share.runs.start == 0
        await end(broker, till.producer, protocol_version=protocol_version)
        await till.ended()
        assert (till.share.runs.start, till.markers) == (3, [True])
        tally = broker.shares.measurements.tally(till.share.id)
        assert (tally.accepted, tally.archived) == (2, 1)


@PROTOCOLS
async def test_an_abort_gives_the_records_back(tmp_path: Path, protocol_version: int) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        till = await open_till(broker, 3)
        received = await till.receive()
        await till.settle(received[:1])
        await till.settle(received[1:2], REJECT)
        await till.write(b"invoice")
        await end(broker, till.producer, is_commit=False, protocol_version=protocol_version)
        await till.ended()
        assert await till.received() == [(0, 2), (1, 2)]
        assert till.markers == [False]


async def test_the_next_transaction_is_another_one(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        till = await open_till(broker, 3)
        for number, is_commit in enumerate((True, False, True)):
            (received,) = await till.receive(1)
            assert received.record.offset == min(number, 1)
            assert await till.settle([received]) == [None]
            till.producer = await end(broker, till.producer, is_commit=is_commit)
        await till.ended()
        assert await till.received() == [(2, 1)]


async def test_only_accept_and_reject_are_said_in_a_transaction(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        till = await open_till(broker, 2)
        first, second = await till.receive()
        assert await till.settle([first], RELEASE) == [ErrorCode.INVALID_REQUEST]
        assert await till.settle([first], RENEW) == [ErrorCode.INVALID_REQUEST]
        said = [Settlement(first.receipt, ACCEPT), Settlement(second.receipt, RELEASE), Settlement("?", ACCEPT)]
        transaction = OpenTransaction(TX, till.producer)
        outcomes = await run(broker.shares.transactional_queue.settle(till.guard, transaction, BILLING, said))
        assert [None if each is None else each.code for each in outcomes] == [None] + 2 * [ErrorCode.INVALID_REQUEST]
        assert "outside of the transaction" in str(outcomes[1])


async def test_a_receipt_goes_to_one_transaction(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        till = await open_till(broker, 2)
        received = await till.receive()
        assert await till.settle(received[:1]) == [None]
        assert await till.settle(received) == [None, None], "a request whose answer was lost is repeated"
        assert await till.settle(received, REJECT) == 2 * [ErrorCode.INVALID_RECORD_STATE]
        plain = [Settlement(each.receipt, kind) for each in received for kind in (ACCEPT, RELEASE, RENEW)]
        outcomes = await run(broker.shares.queue.settle(till.guard, BILLING, plain))
        assert {each.code for each in outcomes if each is not None} == {ErrorCode.INVALID_RECORD_STATE}
        assert None not in outcomes


@pytest.mark.parametrize("fields", [{"epoch": 1}, {"producer_id": ProducerId(99)}])
async def test_a_producer_that_has_no_such_transaction_is_refused(tmp_path: Path, fields: dict[str, int]) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        till = await open_till(broker, 1)
        received = await till.receive()
        with pytest.raises(HeadwaterError):
            await till.settle(received, producer=till.producer._replace(**fields))  # pyright: ignore[reportArgumentType]
        assert await till.settle(received) == [None], "nothing has changed"


async def test_a_zombie_is_fenced_and_what_it_has_said_is_taken_back(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        till = await open_till(broker, 2)
        zombie, received = till.producer, await till.receive()
        await till.settle(received[:1])
        with pytest.raises(Refusal):
            await initialized(broker)
        await till.ended()
        till.producer = await initialized(broker)
        with pytest.raises(Refusal) as refusal:
            await till.settle(received[1:], producer=zombie)
        assert refusal.value.code is ErrorCode.PRODUCER_FENCED
        with pytest.raises(Refusal):
            await end(broker, zombie)
        assert await till.received() == [(0, 2)]
        assert await till.settle(received[1:]) == [None]


async def test_a_lock_does_not_run_out_before_the_transaction_and_its_time_out_gives_the_record_back(
    tmp_path: Path,
) -> None:
    clock = ManualClock(NOW_MS)
    async with running(tmp_path, SETTINGS, clock=clock) as broker:
        till = await open_till(broker, 2)
        received = await till.receive()
        await till.settle(received[:1])
        clock.advance(TIMEOUT_MS - 1)
        wake(broker)
        assert await till.received() == [(1, 2)], "the lock of the other one is over"
        clock.advance(1)
        wake(broker)
        await eventually(lambda: not till.share.pending)
        assert await till.received() == [(0, 2)]
        with pytest.raises(Refusal):
            await end(broker, till.producer)


def wake(broker: Broker) -> None:
    for shard in (*broker.shares.shards, *broker.transactions.shards):
        shard.wake()


async def refused_or(job: Awaitable[Any]) -> Any:
    """The result, or the code of the refusal."""
    try:
        return await job
    except Refusal as refusal:
        return refusal.code


async def test_an_end_that_overtakes_the_answer_leaves_nothing_pending(tmp_path: Path) -> None:
    """The request and the end of its transaction under way at the same time, with any number of turns in between."""
    async with running(tmp_path, SETTINGS) as broker:
        till = await open_till(broker, 12)
        for turns in range(12):
            (received,) = await till.receive(1)
            settling = asyncio.ensure_future(refused_or(till.settle([received])))
            for _ in range(turns):
                await asyncio.sleep(0)
            ended = await refused_or(end(broker, till.producer))
            settled = await settling
            if ended is ErrorCode.INVALID_TXN_STATE:
                # It came first, and there was nothing to commit yet.
                ended = await end(broker, till.producer)
            till.producer = ended
            await till.ended()
            assert not till.share.pending
            run_of = till.share.runs.at(received.record.offset)
            assert (run_of is None or run_of.is_final) == (settled == [None])


# -- crashes

Step = Callable[[Till], Awaitable[None]]


async def _settle(till: Till) -> None:
    received = await till.receive(2)
    assert await till.settle(received) == [None, None]


async def _write(till: Till) -> None:
    await till.write(b"invoice")


async def _commit(till: Till) -> None:
    till.producer = await end(till.broker, till.producer)


async def _abort(till: Till) -> None:
    till.producer = await end(till.broker, till.producer, is_commit=False)


@pytest.mark.parametrize("has_markers", [True, False])
@pytest.mark.parametrize("last", [_commit, _abort])
@pytest.mark.parametrize("count", [0, 1, 2, 3])
async def test_a_crash_between_any_two_steps_leaves_both_or_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, last: Step, has_markers: bool
) -> None:
    steps: list[Step] = [_settle, _write, last]
    broker = start(tmp_path, SETTINGS)
    till = await open_till(broker, 3)
    await till.receive(1)
    write_markers = MarkerWriter.start
    if not has_markers:
        monkeypatch.setattr(MarkerWriter, "start", lambda _: None)
    for step in steps[:count]:
        await step(till)
    if has_markers:
        await till.ended()
    await crashed(broker)
    monkeypatch.setattr(MarkerWriter, "start", write_markers)

    async with running(tmp_path, SETTINGS) as again:
        till = await reopened(again, till.producer)
        if 0 < count < 3:
            assert [run.state for run in till.share.runs][1:2] == [PENDING]
            assert await till.received() == [(0, 1)], "what is pending is given to nobody"
            with pytest.raises(Refusal):
                await initialized(again)
        await till.ended()
        is_committed = count == 3 and last is _commit
        # Of the deliveries that the crash ended, those that were pending count.
        back = [] if is_committed else [(1, 2 if count else 1), (2, 2 if count else 1)]
        found = await till.received()
        assert [each for each in found if each[0] > 0] == back
        assert not till.share.pending
        # A marker may be written again.
        assert set(till.markers) == (set() if count < 2 else {is_committed})


@ENDS
async def test_one_transaction_settles_records_of_several_queues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_commit: bool
) -> None:
    settings = {**SETTINGS, "share.coordinator.state.topic.num.partitions": "5"}
    topics = ["orders", "returns", "claims", "gifts"]
    broker = start(tmp_path, settings)
    till = await open_till(broker, 1)
    for topic in topics[1:]:
        assert (await produce(broker, await create(broker, topic), batch_of(b"0"))).error is None
    received = await till.receive(topics=topics)
    assert sorted(each.where.topic for each in received) == sorted(topics)
    assert await till.settle(received) == [None] * len(topics)
    (machine,) = (each for each in broker.transactions.machines() if TX in each.transactions)
    assert len(machine.transactions[TX].partitions) > 1, "they are kept in several partitions of the state"
    with monkeypatch.context() as patch:
        patch.setattr(MarkerWriter, "start", lambda _: None)
        await end(broker, till.producer, is_commit=is_commit)
        await crashed(broker)
    async with running(tmp_path, settings) as again:
        till = await reopened(again, till.producer)
        await till.ended()
        # A log of an earlier process is verified before it is read, so that not all may come at once.
        left = [each for topic in topics for each in await till.receive(topics=[topic])]
        assert [each.where.topic for each in left] == ([] if is_commit else topics)


async def test_what_a_transaction_rejects_becomes_a_dead_letter_with_its_commit(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        till = await open_till(broker, 2)
        await broker.configs.replace(32, BILLING, {"headwater.deadletterqueue.enable": "true"}, validate_only=False)
        for is_commit in (False, True):
            received = await till.receive(1)
            await till.settle(received, REJECT)
            assert "orders.dlq" not in broker.partitions.by_topic
            till.producer = await end(broker, till.producer, is_commit=is_commit)
            await till.ended()
        await eventually(lambda: "orders.dlq" in broker.partitions.by_topic)
        letters = broker.partition("orders.dlq", 0)
        await eventually(lambda: letters.high_watermark == 1)
        assert readable(letters) == [b"0"]


@ENDS
async def test_a_transaction_goes_on_after_a_restart_of_the_broker(tmp_path: Path, is_commit: bool) -> None:
    broker = start(tmp_path, SETTINGS)
    till = await open_till(broker, 2)
    received = await till.receive()
    await till.settle(received[:1])
    await broker.stop()
    async with running(tmp_path, SETTINGS) as again:
        till = await reopened(again, till.producer)
        assert await till.settle(received[1:]) == [ErrorCode.INVALID_REQUEST], "receipts end with the process"
        await till.write(b"invoice")
        await end(again, till.producer, is_commit=is_commit)
        await till.ended()
        assert await till.received() == ([(1, 1)] if is_commit else [(0, 2), (1, 1)])
        assert till.markers == [is_commit]


@ENDS
async def test_a_marker_waits_for_a_state_that_is_loaded_again(tmp_path: Path, is_commit: bool) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        till = await open_till(broker, 2)
        await till.settle((await till.receive())[:1])
        shard = broker.shares.shards[0]
        shard._drop_and_reload("for this test")
        await end(broker, till.producer, is_commit=is_commit)
        assert broker.transactions._marker_writers
        await till.ended()
        assert await till.received() == ([(1, 1)] if is_commit else [(0, 2), (1, 1)])


async def test_a_full_disk_settles_nothing(tmp_path: Path) -> None:
    disk = FaultyDisk()
    disk.cursed = SHARE_STATE_TOPIC
    async with running(tmp_path, SETTINGS, disk=disk) as broker:
        till = await open_till(broker, 1)
        received = await till.receive()
        disk.write_error = FULL
        (code,) = await till.settle(received)
        assert code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        disk.heal()
        await eventually(lambda: broker.shares.shards[0].machine is not None)
        await end(broker, till.producer)
        await till.ended()
        assert await till.received() == [(0, 1)]


async def test_a_log_that_is_pruned_keeps_what_is_pending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prune_module, "PRUNE_RECORDS_MIN", 10)
    broker = start(tmp_path, SETTINGS)
    till = await open_till(broker, 30)
    received = await till.receive()
    for each in received[:20]:
        await till.settle([each])
    log = broker.partition(SHARE_STATE_TOPIC, 0)
    before = log.end_offset
    await broker.prune_shares()
    assert (log.start_offset, log.end_offset) == (before, before + 1)
    await crashed(broker)
    async with running(tmp_path, SETTINGS) as again:
        till = await reopened(again, till.producer)
        await end(again, till.producer)
        await till.ended()
        assert till.share.runs.start == 20


# -- administration while acknowledgements are pending


async def _delete_group(till: Till) -> None:
    assert await run(till.broker.delete_group(BILLING).wait()) is None


async def _alter_offsets(till: Till) -> None:
    assert await till.broker.shares.restart_at(till.share.id, 0, till.orders.leader_epoch) is None


async def _delete_topic(till: Till) -> None:
    await till.broker.topics.delete("orders")


@ENDS
@pytest.mark.parametrize("change", [_delete_group, _alter_offsets, _delete_topic])
async def test_what_an_administrator_changes_is_no_longer_in_the_transaction(
    tmp_path: Path, change: Step, is_commit: bool
) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        till = await open_till(broker, 2)
        await till.settle(await till.receive())
        await till.write(b"invoice")
        await run(change(till))
        await end(broker, till.producer, is_commit=is_commit)
        await till.ended()
        assert till.markers == [is_commit], "the rest of the transaction is not affected"
        if change is not _delete_topic:
            assert await till.received() == [(0, 1), (1, 1)]


async def test_an_administrator_can_end_what_its_coordinator_has_forgotten(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        till = await open_till(broker, 2)
        await till.settle(await till.receive())
        where = broker.shares.log_of(till.share.id.coordinator_key)
        producer_id, epoch = till.producer
        write = broker.transactions.write_admin_marker
        late = await run(write(where, producer_id, epoch, Marker(True, 0), protocol_version=PROTOCOL_2).wait())
        assert late is not None
        assert late.code is ErrorCode.INVALID_PRODUCER_EPOCH
        told = await run(write(where, producer_id, epoch, Marker(False, 0), protocol_version=PROTOCOL_1).wait())
        assert told is None
        assert await till.received() == [(0, 2), (1, 2)]
        beyond = where._replace(partition=99)
        missing = await run(write(beyond, producer_id, epoch, Marker(False, 0), protocol_version=PROTOCOL_1).wait())
        assert missing is not None
        assert missing.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
