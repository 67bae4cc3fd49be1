"""Settlements in transactions over power failures: after each step of the disk, in every way in which it may lose what
was not synced, each order is settled if and only if its invoice is visible."""

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from headwater.broker.shares import prune as prune_module
from headwater.broker.shares.queue import Receive
from headwater.clock import ManualClock
from headwater.coordination.shares.share_partition import SharePartition
from headwater.coordination.shares.terms import DeliveryState
from headwater.coordination.transactions.commands import ProducerIdentity
from headwater.errors import ErrorCode, Refusal
from headwater.ids import NO_PRODUCER_ID
from tests.broker.shares.transactional_till import BILLING, SETTINGS, Till, open_till, reopened
from tests.coordination.shares.driver import ACCEPT, REJECT
from tests.faults.power_loss.history import NEVER
from tests.faults.power_loss.recording import RecordingDisk, Step
from tests.faults.power_loss.states import LOSSES, Loss, after_crash
from tests.support.broker.embedded_broker import NOW_MS, crash, run, start
from tests.support.broker.transactions import end, initialized
from tests.support.storage.transactions import read_committed

pytestmark = pytest.mark.slow

NOBODY = ProducerIdentity(NO_PRODUCER_ID, -1)
ORDERS = 12
CRASHES = 200
FEW_UPDATES = {
    **SETTINGS,
    "share.coordinator.snapshot.update.records.per.snapshot": "4",
    # No order is given up.
    "group.share.delivery.count.limit": "10",
}


@dataclass
class Deal:
    """One transaction: the orders that it settles, and the steps of the disk at which the client knew what."""

    orders: list[int]
    is_commit: bool
    # Of the first of them.
    settled: int = NEVER
    end_asked: int = NEVER
    end_told: int = NEVER


async def _live(till: Till, disk: RecordingDisk, chance: random.Random) -> AsyncIterator[Deal]:
    while received := await till.receive(chance.randint(1, 3)):
        deal = Deal([each.record.offset for each in received], chance.random() < 0.7)
        yield deal
        for sequence, each in enumerate(received):
            assert await till.settle([each], chance.choice([ACCEPT, REJECT])) == [None]
            deal.settled = min(deal.settled, len(disk.steps))
            await till.write(b"%d" % each.record.offset, sequence)
        deal.end_asked = len(disk.steps)
        till.producer = await end(till.broker, till.producer, is_commit=deal.is_commit)
        deal.end_told = len(disk.steps)
        await till.ended()
        if chance.random() < 0.3:
            await till.broker.prune_shares()


async def _check(till: Till, deals: list[Deal], step: int) -> None:
    await till.ended()
    invoices = till.broker.partition("invoices", 0)
    visible = {int(record.value or b"") for record in read_committed(invoices._log)}
    share = till.share
    for order in range(ORDERS):
        state = _state(share, order)
        assert state.is_final == (order in visible), f"order {order} is {state.name}, its invoice is not"
    for deal in deals:
        states = {_state(share, order) for order in deal.orders}
        if deal.is_commit and deal.end_told <= step:
            assert all(each.is_final for each in states), f"{deal} was committed, and its orders are {states}"
        elif deal.settled <= step <= deal.end_asked:
            assert _state(share, deal.orders[0]) is DeliveryState.PENDING, f"{deal} is open, its orders are {states}"
    # A successor aborts what is open, and gets each order that is not done with.
    await run(_successor(till))
    wanted = Receive(BILLING, ["orders"], 100, reset="earliest")
    left = await run(till.broker.shares.queue.receive(till.guard, wanted))
    assert {each.record.offset for each in left} == set(range(ORDERS)) - visible


def _state(share: SharePartition, order: int) -> DeliveryState:
    runs = share.runs
    found = runs.at(order)
    if found is not None:
        return found.state
    return DeliveryState.ACKNOWLEDGED if order < runs.start else DeliveryState.AVAILABLE


async def _successor(till: Till) -> None:
    while True:
        try:
            await initialized(till.broker)
        except Refusal as refusal:
            if refusal.code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                raise
            await asyncio.sleep(0)
        else:
            return


async def _recover(root: Path, steps: list[Step], deals: list[Deal], step: int, loss: Loss) -> None:
    after_crash(steps[:step], loss).materialize(root)
    broker = start(root, FEW_UPDATES, clock=ManualClock(NOW_MS))
    try:
        till = await reopened(broker, NOBODY)
        await _check(till, deals, step)
    finally:
        await crash(broker)


@pytest.mark.parametrize("seed", range(3))
async def test_an_order_is_settled_if_and_only_if_its_invoice_is_visible(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prune_module, "PRUNE_RECORDS_MIN", 3)
    chance = random.Random(seed)
    disk = RecordingDisk(tmp_path / "life")
    broker = start(tmp_path / "life", FEW_UPDATES, clock=ManualClock(NOW_MS), disk=disk)
    till = await open_till(broker, ORDERS)
    deals: list[Deal] = []
    first_step = 0
    async for deal in _live(till, disk, chance):
        first_step = first_step or len(disk.steps)
        deals.append(deal)
    steps = disk.steps[:]
    await crash(broker)
    assert len(deals) > 3
    for _ in range(CRASHES):
        step = chance.randint(first_step, len(steps))
        loss = Loss(*chance.choice(LOSSES), chance.randrange(1 << 30))
        try:
            await _recover(tmp_path / "crashed", steps, deals, step, loss)
        except Exception as error:
            raise AssertionError(f"seed {seed}, step {step} of {len(steps)}, {loss}: {error}") from error
