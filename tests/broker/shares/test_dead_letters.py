"""Dead letters: each record that a group gives up is copied once, over restarts and beside all kinds of trouble."""

import asyncio
import errno
import os
from pathlib import Path
from typing import Any

import pytest

from headwater.broker.broker import Broker
from headwater.broker.shares import dead_letters as dead_letters_module
from headwater.broker.shares import prune as prune_module
from headwater.coordination.shares import outbox as outbox_module
from headwater.coordination.shares.terms import AcknowledgeType
from headwater.ids import MemberId
from headwater.protocol.batches import dead_letter_headers
from headwater.protocol.batches.compression import Codec
from headwater.protocol.batches.dead_letter_headers import DeadLetterOrigin, Reason
from headwater.storage.disk import File
from tests.broker.shares.dead_letter_cases import (
    allow,
    brief,
    configure,
    letters,
    queue,
    records_of,
    settled,
    until,
)
from tests.broker.shares.share_commands import ACCEPT, ANN, GROUP, RELEASE, SETTINGS, Shared, loaded, shared
from tests.support.broker.embedded_broker import batch_of, crash, create, produce, run, running, start

REJECT, GAP = AcknowledgeType.REJECT, AcknowledgeType.GAP
FAST_S = 0.01


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters_module, "RETRY_PAUSE_S", FAST_S)
    monkeypatch.setattr(dead_letters_module, "RETRY_PAUSE_S_MAX", FAST_S)


async def test_a_rejected_record_becomes_a_dead_letter_with_all_that_is_known_of_it(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        orders = await queue(broker)
        await orders.produce(b"a", b"b", b"c")
        assert await orders.fetched() == [(0, 2, 1)]
        await orders.acknowledge(0, 0, ACCEPT)
        await orders.acknowledge(1, 1, REJECT)
        await settled(broker, orders)
        ((value, origin),) = letters(broker)
        (record,) = records_of(broker.partition("orders.dlq", 0))
        source = records_of(orders.partition)[1]
        assert value == b"b"
        assert record.key == source.key
        assert origin == DeadLetterOrigin(
            "orders", 0, 1, GROUP, 1, Reason.REJECTED, origin.time_ms, source.timestamp, True
        )
        await until(lambda: broker.shares.measurements.letters == {(GROUP, "rejected"): 1})
        assert broker.topics.existing("orders.dlq").overrides["errors.deadletterqueue.group.enable"] == "true"


async def test_records_without_an_attempt_left_become_dead_letters_however_they_ended(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        orders = await queue(broker)
        await orders.produce(b"a", b"b", b"c", b"d")
        assert await orders.fetched() == [(0, 3, 1)]
        await orders.acknowledge(0, 3, RELEASE)
        assert await orders.fetched() == [(0, 3, 2)]
        await orders.acknowledge(0, 1, RELEASE)
        broker.shares.release_all([orders.id], ANN)
        await settled(broker, orders)
        reason = Reason.EXHAUSTED
        assert brief(broker) == [(b"a", 0, 2, reason), (b"b", 1, 2, reason), (b"c", 2, 2, reason), (b"d", 3, 2, reason)]


async def test_nothing_is_copied_where_no_dead_letters_are_asked_for(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        orders = await shared(broker)
        await orders.produce(b"a")
        await orders.fetched()
        await orders.acknowledge(0, 0, REJECT)
        assert broker.topics.find("orders.dlq") is None
        share = broker.shares.find(orders.id)
        assert share is not None
        assert share.outbox.stored() is None
        assert broker.shares._dead_letter_writer is None


async def test_a_gap_is_no_dead_letter(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        orders = await queue(broker)
        await orders.produce(b"a", b"b")
        await orders.fetched()
        await orders.acknowledge(0, 0, GAP)
        await orders.acknowledge(1, 1, REJECT)
        await settled(broker, orders)
        assert brief(broker) == [(b"b", 1, 1, Reason.REJECTED)]


async def test_a_group_may_have_its_letters_without_content(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        orders = await queue(
            broker, errors_deadletterqueue_topic_name="dlq.all", errors_deadletterqueue_copy_record_enable="false"
        )
        await orders.produce(b"a")
        await orders.fetched()
        await orders.acknowledge(0, 0, REJECT)
        await settled(broker, orders)
        ((value, origin),) = letters(broker, "dlq.all")
        assert (value, origin.offset, origin.is_copied, origin.timestamp_ms) == (None, 0, False, None)


@pytest.mark.parametrize("cleanly", [True, False])
@pytest.mark.parametrize("is_copied", [True, False])
async def test_a_restart_between_the_archival_and_the_end_of_the_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cleanly: bool, is_copied: bool
) -> None:
    broker = start(tmp_path, SETTINGS)
    orders = await queue(broker)
    await orders.produce(*(b"%d" % each for each in range(6)))
    await orders.fetched()
    await orders.acknowledge(0, 0, REJECT)
    await settled(broker, orders)

    if is_copied:
        # The copies are on disk, and the outbox does not hear of it.
        monkeypatch.setattr(dead_letters_module.DeadLetterWriter, "_done", _unheard)
    else:
        monkeypatch.setattr(dead_letters_module.DeadLetterWriter, "_append", _never)
    await orders.acknowledge(1, 2, REJECT)
    await orders.acknowledge(4, 4, REJECT)
    dead = broker.partition("orders.dlq", 0)
    if is_copied:
        await until(lambda: dead.high_watermark >= 3)
    monkeypatch.undo()
    await (broker.stop() if cleanly else crash(broker))

    async with running(tmp_path, SETTINGS) as again:
        orders = await loaded(again, orders)
        await settled(again, orders)
        assert [offset for _, offset, _, _ in brief(again)] == [0, 1, 2, 4]
        assert [value for value, _, _, _ in brief(again)] == [b"0", b"1", b"2", b"4"]


async def _unheard(*_: object, **__: object) -> bool:
    return False


async def _never(*_: object) -> None:
    await asyncio.get_running_loop().create_future()


# -- a dead-letter topic that cannot be written


async def trouble(broker: Broker, orders: Shared, caplog: pytest.LogCaptureFixture, names: str) -> None:
    """A rejected record waits, the log says what to do, and the queue goes on."""
    await orders.produce(b"a", b"b")
    await orders.fetched()
    await orders.acknowledge(0, 0, REJECT)
    await until(lambda: names in caplog.text)
    share = broker.shares.find(orders.id)
    assert share is not None
    assert (share.outbox.size, share.status().letter_count) == (1, 1)
    assert broker.shares.measurements.letters_failed.value > 0
    await orders.acknowledge(1, 1, ACCEPT)
    await orders.produce(b"c")
    assert await orders.fetched() == [(2, 2, 1)]
    assert share.runs.start == 2


async def test_a_missing_topic_that_is_not_to_be_created(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = {**SETTINGS, "errors.deadletterqueue.auto.create.topics.enable": "false"}
    async with running(tmp_path, settings) as broker:
        orders = await queue(broker)
        await trouble(broker, orders, caplog, "create it with errors.deadletterqueue.group.enable=true")
        await create(broker, "orders.dlq", errors_deadletterqueue_group_enable="true")
        await settled(broker, orders)
        assert brief(broker) == [(b"a", 0, 1, Reason.REJECTED)]


async def test_a_topic_that_does_not_take_dead_letters(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        orders = await queue(broker)
        await create(broker, "orders.dlq")
        await trouble(broker, orders, caplog, "takes no dead letters: set errors.deadletterqueue.group.enable=true")
        await allow(broker)
        await settled(broker, orders)
        assert brief(broker) == [(b"a", 0, 1, Reason.REJECTED)]


async def test_a_name_that_is_not_permitted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        orders = await queue(broker, errors_deadletterqueue_topic_name="payments")
        await trouble(broker, orders, caplog, "must begin with 'dlq.' (errors.deadletterqueue.topic.name.prefix)")
        await configure(broker, errors_deadletterqueue_topic_name="dlq.payments")
        await settled(broker, orders)
        assert brief(broker, "dlq.payments") == [(b"a", 0, 1, Reason.REJECTED)]


async def test_a_compacted_topic_takes_no_letter_without_a_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        orders = await queue(
            broker, errors_deadletterqueue_topic_name="dlq.all", errors_deadletterqueue_copy_record_enable="false"
        )
        await create(broker, "dlq.all", cleanup_policy="compact", errors_deadletterqueue_group_enable="true")
        await trouble(broker, orders, caplog, "set cleanup.policy=delete on it")


async def test_a_full_disk(tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        orders = await queue(broker)
        write = File.pwritev

        def full(self: File, buffers: Any, position: int) -> None:
            if "orders.dlq-0" in str(self.path):
                raise OSError(errno.ENOSPC, "No space left on device")
            write(self, buffers, position)

        with monkeypatch.context() as patch:
            patch.setattr(File, "pwritev", full)
            await trouble(broker, orders, caplog, "No space left on device")
        await settled(broker, orders)
        assert brief(broker) == [(b"a", 0, 1, Reason.REJECTED)]


async def test_a_partition_that_fails_is_asked_again_after_the_next_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = start(tmp_path, {**SETTINGS, "headwater.flush.engine": "thread"})
    orders = await queue(broker)
    await orders.produce(b"first")
    await orders.fetched()
    await orders.acknowledge(0, 0, REJECT)
    await settled(broker, orders)
    sync = File.sync_data

    def broken(self: File) -> None:
        if "orders.dlq-0" in str(self.path):
            raise OSError(errno.EIO, "Input/output error")
        sync(self)

    await orders.produce(b"a")
    await orders.fetched()
    with monkeypatch.context() as patch:
        patch.setattr(File, "sync_data", broken)
        await orders.acknowledge(1, 1, REJECT)
        await until(lambda: "orders.dlq-0 is offline" in caplog.text)
    await crash(broker)
    async with running(tmp_path, SETTINGS) as again:
        orders = await loaded(again, orders)
        await settled(again, orders)
        assert [offset for _, offset, _, _ in brief(again)] == [0, 1]


async def test_too_many_waiting_letters_hold_up_the_queue_until_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_module, "LETTERS_MAX", 2)
    async with running(tmp_path, SETTINGS) as broker:
        orders = await queue(broker)
        await create(broker, "orders.dlq")
        await orders.produce(b"a", b"b")
        await orders.fetched()
        await orders.acknowledge(0, 1, REJECT)
        await orders.produce(b"c")
        assert await orders.fetched(wait_ms=50) == []
        waiting = asyncio.ensure_future(orders.fetched())
        await allow(broker)
        assert await run(waiting) == [(2, 2, 1)]


async def test_a_topic_is_not_its_own_dead_letter_topic(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running(tmp_path, {**SETTINGS, "errors.deadletterqueue.topic.name.prefix": ""}) as broker:
        orders = await queue(broker, errors_deadletterqueue_topic_name="orders")
        await orders.produce(b"a")
        await orders.fetched()
        await orders.acknowledge(0, 0, REJECT)
        await settled(broker, orders)
        assert "'orders' cannot be its own dead-letter topic" in caplog.text
        assert orders.partition.end_offset == 1
        await until(lambda: broker.shares.measurements.letters_dropped.value == 1)


# -- what is copied


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD, Codec.GZIP])
async def test_a_large_record_is_copied_as_it_is(tmp_path: Path, codec: Codec) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        orders = await queue(broker)
        value = b"large" * ((1 << 20) // 5 - 100) * (1 if codec is Codec.NONE else 8)
        appended = await produce(broker, orders.partition, batch_of(value, codec=codec))
        assert appended.error is None
        await orders.fetched()
        await orders.acknowledge(0, 0, REJECT)
        await settled(broker, orders)
        ((copied, origin),) = letters(broker)
        assert copied == value
        assert origin.is_copied


async def test_a_record_that_the_topic_does_not_take_leaves_a_letter_without_content(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        orders = await queue(broker)
        await create(broker, "orders.dlq", errors_deadletterqueue_group_enable="true", max_message_bytes="1000")
        await orders.produce(b"small", b"x" * 2000, b"tiny")
        await orders.fetched()
        await orders.acknowledge(0, 2, REJECT)
        await settled(broker, orders)
        assert [(value, origin.offset, origin.is_copied) for value, origin in letters(broker)] == [
            (b"small", 0, True),
            (None, 1, False),
            (b"tiny", 2, True),
        ]


async def test_a_record_that_retention_deleted_leaves_a_letter_without_content(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        orders = await queue(broker)
        await create(broker, "orders.dlq")
        await orders.produce(b"a", b"b")
        await orders.fetched()
        await orders.acknowledge(0, 1, REJECT)
        await broker.delete_records("orders", 0, 1)
        await allow(broker)
        await settled(broker, orders)
        assert [(value, origin.offset, origin.is_copied) for value, origin in letters(broker)] == [
            (None, 0, False),
            (b"b", 1, True),
        ]


async def test_many_letters_at_once_are_copied_in_order_in_batches(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        orders = await queue(broker)
        total = 3 * dead_letters_module.BATCH_LETTERS_MAX // 2
        for first in range(0, total, 50):
            await orders.produce(*(b"%d" % each for each in range(first, first + 50)))
        taken = 0
        while taken < total:
            for low, high, _ in await orders.fetched():
                await orders.acknowledge(low, high, REJECT)
                taken += high - low + 1
        await settled(broker, orders)
        assert [value for value, _ in letters(broker)] == [b"%d" % each for each in range(total)]
        await until(lambda: broker.shares.measurements.letters == {(GROUP, "rejected"): total})


async def test_another_name_counts_for_letters_from_then_on(tmp_path: Path) -> None:
    broker = start(tmp_path, SETTINGS)
    orders = await queue(broker)
    await orders.produce(b"a", b"b", b"c")
    await orders.fetched()
    await orders.acknowledge(0, 0, REJECT)
    await settled(broker, orders)
    await configure(broker, errors_deadletterqueue_topic_name="dlq.all")
    await orders.acknowledge(1, 1, REJECT)
    await settled(broker, orders)
    await configure(broker, headwater_deadletterqueue_enable="true")
    await crash(broker)
    async with running(tmp_path, SETTINGS) as again:
        orders = await loaded(again, orders)
        await orders.fetched()
        await orders.acknowledge(2, 2, REJECT)
        await settled(again, orders)
        assert [offset for _, offset, _, _ in brief(again)] == [0, 2]
        assert [offset for _, offset, _, _ in brief(again, "dlq.all")] == [1]


async def test_a_deleted_dead_letter_topic_is_created_again(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        orders = await queue(broker)
        await orders.produce(b"a", b"b")
        await orders.fetched()
        await orders.acknowledge(0, 0, REJECT)
        await settled(broker, orders)
        await broker.topics.delete("orders.dlq")
        await orders.acknowledge(1, 1, REJECT)
        await settled(broker, orders)
        assert brief(broker) == [(b"b", 1, 1, Reason.REJECTED)]


async def test_letters_that_wait_survive_pruning_and_restarts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prune_module, "PRUNE_RECORDS_MIN", 1)
    monkeypatch.setattr(prune_module, "PRUNE_RECORDS_EACH", 0)
    broker = start(tmp_path, SETTINGS)
    orders = await queue(broker)
    await create(broker, "orders.dlq")
    await orders.produce(b"a", b"b")
    await orders.fetched()
    await orders.acknowledge(0, 1, REJECT)
    await broker.prune_shares()
    log = broker.partition("__share_group_state", 0)
    assert log.start_offset == log.end_offset - 1
    await crash(broker)
    async with running(tmp_path, SETTINGS) as again:
        orders = await loaded(again, orders)
        await allow(again)
        await settled(again, orders)
        assert [offset for _, offset, _, _ in brief(again)] == [0, 1]
        await again.prune_shares()


async def test_letters_of_records_that_power_loss_took_are_dropped(tmp_path: Path) -> None:
    broker = start(tmp_path, SETTINGS)
    orders = await queue(broker)
    await create(broker, "orders.dlq")
    await orders.produce(b"a")
    size = next(orders.partition.directory.glob("*.log")).stat().st_size
    await orders.produce(b"b")
    assert await orders.fetched() == [(0, 1, 1)]
    await orders.acknowledge(1, 1, REJECT)
    await orders.acknowledge(0, 0, REJECT)
    (segment,) = orders.partition.directory.glob("*.log")
    await crash(broker)
    os.truncate(segment, size)
    async with running(tmp_path, SETTINGS) as again:
        orders = await loaded(again, orders)
        await orders.produce(b"new")
        assert await orders.fetched() == [(1, 1, 1)]
        await allow(again)
        await settled(again, orders)
        assert brief(again) == [(b"a", 0, 1, Reason.REJECTED)]


async def test_a_dead_letter_that_fails_again_has_both_histories(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        orders = await queue(broker)
        await orders.produce(b"a")
        await orders.fetched()
        await orders.acknowledge(0, 0, REJECT)
        await settled(broker, orders)
        again = Shared(broker, broker.partition("orders.dlq", 0))
        await again.join(MemberId("cid"))
        assert await again.fetched(MemberId("cid")) == [(0, 0, 1)]
        await again.acknowledge(0, 0, REJECT, MemberId("cid"))
        await settled(broker, again)
        (record,) = records_of(broker.partition("orders.dlq.dlq", 0))
        origin = dead_letter_headers.read(record.headers)
        assert origin is not None
        assert (origin.topic, record.value) == ("orders.dlq", b"a")
        first = dead_letter_headers.read(dead_letter_headers.stripped(record.headers))
        assert first is not None
        assert first.topic == "orders"
