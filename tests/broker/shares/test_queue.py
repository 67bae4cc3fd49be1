"""Receives, settlements, peeks and stats of a broker without listeners."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from headwater.broker.broker import Broker
from headwater.broker.partition import Partition
from headwater.broker.shares import received as received_module
from headwater.broker.shares.queue import Receive, ReceivedRecord, Settlement
from headwater.clock import ManualClock
from headwater.coordination.shares.terms import DeliveryState
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import GroupId
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.compression import Codec
from headwater.protocol.batches.records import Record
from headwater.security.principals import ANONYMOUS
from tests.broker.groups.group_commands import commit_of
from tests.broker.shares.share_commands import ACCEPT, RELEASE, SETTINGS, Shared
from tests.coordination.shares.driver import GAP, REJECT, RENEW
from tests.support.broker.embedded_broker import NOW_MS, batch_of, create, produce, run, running, start

BILLING = GroupId("billing")


class Desk:
    """A client that receives from the topic `orders` for the group `billing`."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.guard = broker.access.guard(ANONYMOUS, "10.0.0.1")

    @property
    def queue(self) -> Any:
        return self.broker.shares.queue

    async def receive(self, records_max: int = 100, **options: Any) -> list[ReceivedRecord]:
        fields: dict[str, Any] = {"topics": ["orders"], "reset": "earliest", **options}
        return await run(self.queue.receive(self.guard, Receive(BILLING, records_max=records_max, **fields)))

    async def offsets(self, records_max: int = 100, **options: Any) -> list[int]:
        return [each.record.offset for each in await self.receive(records_max, **options)]

    async def settle(
        self, received: Sequence[ReceivedRecord | str], kind: int, duration_ms: int | None = None, group: str = BILLING
    ) -> list[ErrorCode | None]:
        said = [Settlement(each if isinstance(each, str) else each.receipt, kind, duration_ms) for each in received]
        outcomes: list[HeadwaterError | None] = await run(self.queue.settle(self.guard, GroupId(group), said))
        return [None if each is None else each.code for each in outcomes]

    async def peek(self, records_max: int = 100, *, bytes_max: int = 1 << 20) -> list[tuple[int, DeliveryState, int]]:
        views = self.broker.shares.queue_views
        found = await run(views.peek(self.guard, BILLING, ["orders"], records_max=records_max, bytes_max=bytes_max))
        return [(each.record.offset, each.state, each.delivery_count) for each in found]

    async def stats(self, topics: Sequence[str] | None = None) -> list[Any]:
        return await run(self.broker.shares.queue_views.stats(self.guard, BILLING, topics))


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with running(tmp_path, SETTINGS) as started:
        yield started


@pytest.fixture
async def orders(broker: Broker) -> Partition:
    return await create(broker, "orders")


@pytest.fixture
def desk(broker: Broker, orders: Partition) -> Desk:
    return Desk(broker)


async def fill(broker: Broker, orders: Partition, count: int, **options: Any) -> None:
    values = [b"%d" % each for each in range(count)]
    assert (await produce(broker, orders, batch_of(*values, **options))).error is None


# -- receive and settle


async def test_records_are_received_in_one_call_and_settled_in_another(
    broker: Broker, orders: Partition, desk: Desk
) -> None:
    await fill(broker, orders, 5)
    received = await desk.receive(3)
    assert [(each.record.offset, each.record.value, each.delivery_count) for each in received] == [
        (0, b"0", 1),
        (1, b"1", 1),
        (2, b"2", 1),
    ]
    assert {each.where for each in received} == {orders.id}
    assert await desk.settle(received[:2], ACCEPT) == [None, None]
    assert await desk.settle([received[2]], RELEASE) == [None]
    assert [(each.record.offset, each.delivery_count) for each in await desk.receive()] == [(2, 2), (3, 1), (4, 1)]
    assert await desk.receive() == []


async def test_a_receipt_counts_once(broker: Broker, orders: Partition, desk: Desk) -> None:
    await fill(broker, orders, 2)
    first, second = await desk.receive()
    assert await desk.settle([first, first, second], ACCEPT) == [None, None, None]
    for kind in (ACCEPT, RELEASE, REJECT, RENEW):
        assert await desk.settle([first], kind) == [ErrorCode.INVALID_RECORD_STATE]


async def test_of_two_verdicts_in_one_request_the_first_counts(broker: Broker, orders: Partition, desk: Desk) -> None:
    await fill(broker, orders, 1)
    (first,) = await desk.receive()
    queue, guard = desk.queue, desk.guard
    said = [Settlement(first.receipt, ACCEPT), Settlement(first.receipt, RELEASE)]
    outcomes = await run(queue.settle(guard, BILLING, said))
    assert outcomes[0] is None
    assert outcomes[1].code is ErrorCode.INVALID_RECORD_STATE
    assert await desk.receive() == []


async def test_receipts_that_are_forged_old_or_foreign_are_refused_each_by_itself(
    broker: Broker, orders: Partition, desk: Desk
) -> None:
    await fill(broker, orders, 3)
    received = await desk.receive()
    forged = received[0].receipt[:-1] + ("A" if received[0].receipt[-1] != "A" else "B")
    assert await desk.settle([forged, received[1], "", "x" * 76], ACCEPT) == [
        ErrorCode.INVALID_REQUEST,
        None,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
    ]
    assert await desk.settle([received[0]], ACCEPT, group="other") == [ErrorCode.INVALID_REQUEST]
    assert await desk.settle([received[0], received[2]], ACCEPT) == [None, None]


async def test_a_restart_ends_all_holds_and_receipts(tmp_path: Path) -> None:
    broker = start(tmp_path, SETTINGS)
    orders = await create(broker, "orders")
    await fill(broker, orders, 3)
    desk = Desk(broker)
    received = await desk.receive()
    assert await desk.settle(received[:1], ACCEPT) == [None]
    await broker.stop()
    async with running(tmp_path, SETTINGS) as again:
        desk = Desk(again)
        for loading in (again.shares._loading, again.groups._loading):
            assert loading is not None
            await run(loading)
        assert await desk.settle(received, ACCEPT) == [ErrorCode.INVALID_REQUEST] * 3
        assert [(each.record.offset, each.delivery_count) for each in await desk.receive()] == [(1, 1), (2, 1)]


async def test_a_lock_that_ran_out_ends_the_hold(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    async with running(tmp_path, SETTINGS, clock=clock) as broker:
        orders = await create(broker, "orders")
        await fill(broker, orders, 2)
        desk = Desk(broker)
        short, long = await desk.receive(lock_duration_ms=15_000)
        assert await desk.settle([long], RENEW, 60_000) == [None]
        clock.advance(15_000)
        for shard in broker.shares.shards:
            shard.wake()
        (again,) = await desk.receive()
        assert (again.record.offset, again.delivery_count) == (0, 2)
        assert await desk.settle([short, long, again], ACCEPT) == [ErrorCode.INVALID_RECORD_STATE, None, None]


async def test_a_receive_waits_for_the_first_record(broker: Broker, orders: Partition, desk: Desk) -> None:
    waiting = asyncio.ensure_future(desk.offsets(wait_ms=20_000))
    while BILLING not in broker.groups.ids() or not orders.watchers:
        await asyncio.sleep(0)
    await fill(broker, orders, 2)
    assert await run(waiting) == [0, 1]


async def test_a_client_that_has_gone_was_given_nothing(broker: Broker, orders: Partition, desk: Desk) -> None:
    waiting = asyncio.ensure_future(desk.receive(wait_ms=20_000))
    while not orders.watchers:
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert not orders.watchers
    await fill(broker, orders, 2)
    assert [(each.record.offset, each.delivery_count) for each in await desk.receive()] == [(0, 1), (1, 1)]


async def test_a_client_that_goes_while_its_records_are_read_was_given_nothing(
    broker: Broker, orders: Partition, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(broker, orders, 2)

    async def read(*_: object) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(received_module.BatchReader, "read", read)
    with pytest.raises(asyncio.CancelledError):
        await desk.receive()
    monkeypatch.undo()
    assert [(each.record.offset, each.delivery_count) for each in await desk.receive()] == [(0, 1), (1, 1)]


async def test_partitions_take_turns(broker: Broker) -> None:
    first = await create(broker, "orders", partitions=3)
    for index in range(3):
        await fill(broker, broker.partition(first.id.topic, index), 5)
    desk = Desk(broker)
    served = [(await desk.receive(2))[0].where.partition for _ in range(3)]
    assert sorted(served) == [0, 1, 2]


# -- what is in the log


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
async def test_compressed_records_are_received(broker: Broker, orders: Partition, desk: Desk, codec: Codec) -> None:
    await fill(broker, orders, 5, codec=codec)
    assert [each.record.value for each in await desk.receive(3)] == [b"0", b"1", b"2"]
    assert [each.record.value for each in await desk.receive()] == [b"3", b"4"]


async def test_no_more_bytes_are_given_than_were_asked_for(broker: Broker, orders: Partition, desk: Desk) -> None:
    assert (await produce(broker, orders, batch_of(*[b"x" * 1000] * 10, codec=Codec.ZSTD))).error is None
    first = await desk.receive(bytes_max=2500)
    assert [each.record.offset for each in first] == [0, 1]
    # One at least, and what was left out was not delivered.
    second = await desk.receive(bytes_max=1)
    assert [(each.record.offset, each.delivery_count) for each in second] == [(2, 1)]
    (stats,) = await desk.stats()
    assert (stats.tally.deliveries, stats.held, stats.backlog) == (3, 3, 10)


async def test_offsets_whose_records_are_gone_are_done_with(broker: Broker, desk: Desk) -> None:
    compacted = await create(
        broker, "compacted", cleanup_policy="compact", min_cleanable_dirty_ratio="0", segment_bytes="1048576"
    )
    for keys in ((b"a", b"b", b"c"), (b"b",)):
        keyed = [Record(index, NOW_MS, key, b"v") for index, key in enumerate(keys)]
        assert (await produce(broker, compacted, bytes(batches.build(keyed)))).error is None
    compacted._log.roll(broker.clock.now_ms())
    await fill(broker, compacted, 1)
    await run(broker.housekeeping.compact())
    received = await desk.receive(topics=["compacted"])
    assert [each.record.offset for each in received] == [0, 2, 3], "the first batch lost its second record"
    received += await desk.receive(topics=["compacted"])
    assert await desk.settle(received, ACCEPT) == [None] * 4
    (stats,) = await desk.stats()
    assert stats.backlog == 0


async def test_what_cannot_be_read_leaves_the_queue_at_some_time(broker: Broker, orders: Partition, desk: Desk) -> None:
    await broker.configs.replace(2, "orders", {"headwater.record.validation": "header"}, validate_only=False)
    bad = bytearray(batch_of(b"0", b"1", codec=Codec.ZSTD))
    bad[batches.HEADER_SIZE :] = bytes(len(bad) - batches.HEADER_SIZE)
    batches._seal(bad)  # pyright: ignore[reportPrivateUsage]
    assert (await produce(broker, orders, bytes(bad))).error is None
    await fill(broker, orders, 1)
    for _ in range(5):
        with pytest.raises(HeadwaterError) as refused:
            await desk.receive(2)
        assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    assert await desk.offsets() == [2]


async def test_trouble_of_the_disk_is_told_and_costs_no_delivery(
    broker: Broker, orders: Partition, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(broker, orders, 2)

    async def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(received_module.BatchReader, "_read", fail)
    with pytest.raises(Refusal) as refused:
        await desk.receive()
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    monkeypatch.undo()
    assert [(each.record.offset, each.delivery_count) for each in await desk.receive()] == [(0, 1), (1, 1)]


# -- groups


async def test_members_and_receives_share_the_records_of_a_group(broker: Broker, orders: Partition, desk: Desk) -> None:
    shared = Shared(broker, orders)
    await shared.join()
    await fill(broker, orders, 3)
    first = await desk.receive(1)
    assert await shared.fetched() == [(1, 2, 1)]
    assert await desk.receive() == []
    assert (await shared.acknowledge(1, 1, RELEASE)).released == 1
    again = await desk.receive()
    assert [(each.record.offset, each.delivery_count) for each in again] == [(1, 2)]
    assert await desk.settle([*first, *again], ACCEPT) == [None, None]
    # The member that had it cannot settle what a receipt holds, and its leave takes nothing of it.
    (group,) = await run(broker.groups.list())
    assert (group.group_id, group.state.value) == (BILLING, "Stable")


async def test_a_group_that_was_made_on_demand_is_listed_and_deleted(
    broker: Broker, orders: Partition, desk: Desk
) -> None:
    await fill(broker, orders, 2)
    received = await desk.receive()
    (group,) = await run(broker.groups.list())
    assert (group.group_id, group.type.value, group.state.value) == (BILLING, "share", "Empty")
    assert await run(broker.delete_group(BILLING).wait()) is None
    assert await desk.settle(received, ACCEPT) == [ErrorCode.INVALID_RECORD_STATE] * 2
    assert await desk.offsets() == [0, 1]


async def test_a_group_of_another_kind_is_refused(broker: Broker, orders: Partition, desk: Desk) -> None:
    await broker.groups.prepare()
    assert not isinstance(await run(broker.groups.commit(BILLING, commit_of(3)).wait()), HeadwaterError)
    for call in (desk.receive(), desk.peek(), desk.stats()):
        with pytest.raises(Refusal, match="is not a share group"):
            await call


async def test_where_a_new_group_begins(broker: Broker, orders: Partition, desk: Desk) -> None:
    await fill(broker, orders, 2)
    assert await desk.offsets(reset=None) == [], "share.auto.offset.reset is latest"
    assert await run(broker.delete_group(BILLING).wait()) is None
    assert await desk.offsets(reset="latest") == []
    assert await run(broker.delete_group(BILLING).wait()) is None
    assert await desk.offsets() == [0, 1]
    assert await run(broker.delete_group(BILLING).wait()) is None
    await broker.configs.replace(32, BILLING, {"share.auto.offset.reset": "latest"}, validate_only=False)
    assert await desk.offsets() == [], "the group's own setting wins"


async def test_a_deleted_topic_takes_its_receipts_along(broker: Broker, orders: Partition, desk: Desk) -> None:
    await fill(broker, orders, 2)
    received = await desk.receive()
    await run(broker.topics.delete("orders"))
    assert await desk.settle(received, ACCEPT) == [ErrorCode.INVALID_RECORD_STATE] * 2
    with pytest.raises(Refusal, match="does not exist"):
        await desk.receive()


# -- limits


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"records_max": 0}, "1 to 1000 records"),
        ({"records_max": 1001}, "1 to 1000 records"),
        ({"bytes_max": 0}, "0 bytes"),
        ({"reset": "yesterday"}, "earliest or latest"),
        ({"lock_duration_ms": 0}, r"group\.share\.min\.record\.lock\.duration\.ms"),
        ({"lock_duration_ms": 60_001}, r"group\.share\.max\.record\.lock\.duration\.ms"),
        ({"topics": []}, "1 to 100 topics"),
        ({"topics": [f"t{each}" for each in range(101)]}, "1 to 100 topics"),
    ],
)
async def test_receives_beyond_the_limits_are_refused(desk: Desk, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(Refusal, match=reason):
        await desk.receive(**options)


async def test_verdicts_that_mean_nothing_are_refused(broker: Broker, orders: Partition, desk: Desk) -> None:
    await fill(broker, orders, 1)
    received = await desk.receive()
    for kind, duration_ms in [
        (GAP, None),
        (5, None),
        (-1, None),
        (ACCEPT, 0),
        (REJECT, 1000),
        (RELEASE, -2),
        (RELEASE, 86_400_001),
        (RENEW, 1),
        (RENEW, 60_001),
    ]:
        assert await desk.settle(received, kind, duration_ms) == [ErrorCode.INVALID_REQUEST]
    await broker.configs.replace(32, BILLING, {"share.renew.acknowledge.enable": "false"}, validate_only=False)
    assert await desk.settle(received, RENEW) == [ErrorCode.INVALID_REQUEST]
    assert await desk.settle(received, ACCEPT) == [None]
    with pytest.raises(Refusal, match="10000 receipts"):
        await desk.settle(["x"] * 10_001, ACCEPT)


# -- views


async def test_a_peek_shows_what_is_not_done_with_and_takes_nothing(
    broker: Broker, orders: Partition, desk: Desk
) -> None:
    for _ in range(3):
        await fill(broker, orders, 2)
    first, second, third, fourth = await desk.receive(4)
    assert await desk.settle([second, third], ACCEPT) == [None, None]
    assert await desk.settle([fourth], RELEASE, 60_000) == [None]
    seen = [
        (0, DeliveryState.ACQUIRED, 1),
        (3, DeliveryState.WAITING, 1),
        (4, DeliveryState.AVAILABLE, 0),
        (5, DeliveryState.AVAILABLE, 0),
    ]
    for _ in range(2):
        assert await desk.peek() == seen
    assert await desk.peek(2) == seen[:2]
    assert await desk.peek(bytes_max=1) == seen[:1]
    assert await desk.settle([first], ACCEPT) == [None]
    assert await desk.offsets() == [4, 5]


async def test_a_peek_of_a_group_that_does_not_exist_is_refused(desk: Desk, broker: Broker) -> None:
    await broker.groups.prepare()
    for call in (desk.peek(), desk.stats()):
        with pytest.raises(Refusal) as refused:
            await call
        assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND


async def test_stats_tell_how_far_a_group_is(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    async with running(tmp_path, SETTINGS, clock=clock) as broker:
        orders = await create(broker, "orders")
        await fill(broker, orders, 10)
        desk = Desk(broker)
        received = await desk.receive(6)
        await desk.settle(received[:2], ACCEPT)
        await desk.settle(received[3:4], REJECT)
        await desk.settle(received[4:5], RELEASE, 60_000)
        clock.advance(1234)
        (stats,) = await desk.stats(["orders"])
        assert stats.where == orders.id
        assert (stats.start_offset, stats.end_offset, stats.backlog) == (2, 10, 7)
        assert (stats.held, stats.waiting, stats.oldest_age_ms) == (2, 1, 1234)
        assert (stats.tally.deliveries, stats.tally.accepted, stats.tally.archived) == (6, 2, 1)
        received = await desk.receive()
        await desk.settle([*received], ACCEPT)
        assert [each.where for each in await desk.stats()] == [orders.id]
