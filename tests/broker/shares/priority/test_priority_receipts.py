"""Receipts from topics with priorities: the most urgent records first, also within one receive."""

from pathlib import Path
from typing import Any

from headwater.broker.broker import Broker
from headwater.broker.shares.queue import Receive, ReceivedRecord, Settlement
from headwater.coordination.shares.terms import AcknowledgeType
from headwater.security.principals import ANONYMOUS
from tests.broker.shares.priority.priority_cases import put, queue
from tests.broker.shares.share_commands import GROUP, SETTINGS
from tests.support.broker.embedded_broker import run, running


async def receive(broker: Broker, records_max: int, **options: Any) -> list[ReceivedRecord]:
    guard = broker.access.guard(ANONYMOUS, "10.0.0.1")
    return await run(broker.shares.queue.receive(guard, Receive(GROUP, ["jobs"], records_max, **options)))


async def settle(broker: Broker, received: ReceivedRecord, kind: AcknowledgeType) -> None:
    guard = broker.access.guard(ANONYMOUS, "10.0.0.1")
    told = await run(broker.shares.queue.settle(guard, GROUP, [Settlement(received.receipt, kind, None)]))
    assert told == [None]


async def test_the_most_urgent_are_received_first(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        jobs = await queue(broker)
        await put(jobs, 4, 3, None, 1, 0, 0)
        received = await receive(broker, 4)
        assert [each.record.offset for each in received] == [4, 5, 3, 2]
        await settle(broker, received[0], AcknowledgeType.RELEASE)
        await settle(broker, received[1], AcknowledgeType.ACCEPT)
        (again,) = await receive(broker, 1)
        assert (again.record.offset, again.delivery_count) == (4, 2)
        assert [each.record.offset for each in await receive(broker, 10)] == [1, 0]
        assert await receive(broker, 10) == []


async def test_what_does_not_fit_into_a_receive_comes_with_the_next(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        jobs = await queue(broker)
        await put(jobs, *[number % 5 for number in range(50)], value=b"v" * 1000)
        offsets: list[int] = []
        for _ in range(50):
            received = await receive(broker, 10, bytes_max=3000)
            if not received:
                break
            offsets += [each.record.offset for each in received]
            for each in received:
                await settle(broker, each, AcknowledgeType.ACCEPT)
        assert sorted(offsets) == [*range(50)]
