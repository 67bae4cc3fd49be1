"""A program that receives orders from a queue and writes invoices, both in a transaction, at a broker without
listeners."""

from collections.abc import Sequence
from typing import Any

from headwater.broker.broker import Broker
from headwater.broker.partition import Partition
from headwater.broker.shares.queue import Receive, ReceivedRecord, Settlement
from headwater.broker.shares.transactional_queue import OpenTransaction
from headwater.coordination.shares.terms import SharePartitionId
from headwater.coordination.transactions.commands import ProducerIdentity
from headwater.errors import ErrorCode, HeadwaterError
from headwater.ids import GroupId
from headwater.security.principals import ANONYMOUS
from tests.broker.shares.share_commands import ACCEPT
from tests.broker.shares.share_commands import SETTINGS as SHARE_SETTINGS
from tests.support.broker.embedded_broker import batch_of, create, produce, run
from tests.support.broker.transactions import SETTINGS as TRANSACTION_SETTINGS
from tests.support.broker.transactions import TX, eventually, initialized, loaded, markers, stage

SETTINGS = {**TRANSACTION_SETTINGS, **SHARE_SETTINGS}
BILLING = GroupId("billing")


class Till:
    def __init__(self, broker: Broker, producer: ProducerIdentity) -> None:
        self.broker = broker
        self.producer = producer
        self.guard = broker.access.guard(ANONYMOUS, "10.0.0.1")

    @property
    def orders(self) -> Partition:
        return self.broker.partition("orders", 0)

    @property
    def share(self) -> Any:
        topic = self.broker.topics.existing("orders")
        return self.broker.shares.find(SharePartitionId(BILLING, topic.id, 0))

    async def receive(self, records_max: int = 100, topics: Sequence[str] = ("orders",)) -> list[ReceivedRecord]:
        request = Receive(BILLING, topics, records_max, reset="earliest")
        return await run(self.broker.shares.queue.receive(self.guard, request))

    async def received(self) -> list[tuple[int, int]]:
        """Offset and delivery count of what the queue gives now."""
        return [(each.record.offset, each.delivery_count) for each in await self.receive()]

    async def settle(
        self, received: Sequence[ReceivedRecord], kind: int = ACCEPT, producer: ProducerIdentity | None = None
    ) -> list[ErrorCode | None]:
        said = [Settlement(each.receipt, kind) for each in received]
        transaction = OpenTransaction(TX, producer or self.producer)
        queue = self.broker.shares.transactional_queue
        outcomes: list[HeadwaterError | None] = await run(queue.settle(self.guard, transaction, BILLING, said))
        return [None if each is None else each.code for each in outcomes]

    async def write(self, value: bytes, sequence: int = 0) -> None:
        invoices = self.broker.partition("invoices", 0)
        append = await run(stage(self.broker, invoices, self.producer, value, sequence=sequence).wait())
        assert append.error is None, append.error

    @property
    def markers(self) -> list[bool]:
        """How the transactions that wrote invoices ended."""
        return markers(self.broker.partition("invoices", 0))

    async def ended(self) -> None:
        """All markers are written."""
        await eventually(lambda: not self.broker.transactions._marker_writers)


async def open_till(broker: Broker, count: int) -> Till:
    """With so many orders to work on."""
    await create(broker, "invoices")
    orders = await create(broker, "orders")
    appended = await produce(broker, orders, batch_of(*(b"%d" % each for each in range(count))))
    assert appended.error is None
    return Till(broker, await initialized(broker))


async def reopened(broker: Broker, producer: ProducerIdentity) -> Till:
    """After a restart."""
    await loaded(broker)
    for machines in (broker.shares, broker.groups):
        assert machines._loading is not None
        await run(machines._loading)
    return Till(broker, producer)
