"""A broker's life on a recording disk: a sequence of operations chosen by a seed, and the promises of each."""

import random
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from headwater.broker.broker import Broker
from headwater.broker.pending import Pending
from headwater.broker.transactions.coordinator import TransactionMembership
from headwater.broker.writes.journal import ACKS_ALL, Append
from headwater.clock import ManualClock
from headwater.coordination.groups.classic.commands import NO_GENERATION
from headwater.coordination.groups.offsets.commands import Commit, OffsetToCommit
from headwater.coordination.groups.terms import NO_MEMBER
from headwater.coordination.transactions.commands import PROTOCOL_2, ProducerIdentity
from headwater.errors import ErrorCode, HeadwaterError
from headwater.ids import NO_TOPIC_ID, GroupId, MemberId, TopicName, TransactionalId
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.records import Record
from headwater.security.acl import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from tests.faults.power_loss.history import History, PartitionHistory, Sent, Span, TopicHistory, Transaction
from tests.faults.power_loss.recording import RecordingDisk
from tests.support.broker.embedded_broker import NOW_MS, run, settled, start

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "log.cleaner.min.cleanable.ratio": "0",
    "log.cleaner.delete.retention.ms": "0",
    "log.index.interval.bytes": "100",
    "authorizer.class.name": "acl",
}
SEGMENT_BYTES = 700
# This topic is never deleted, because committed offsets are deleted with their topic.
KEPT = "kept"
KEYS = 4
TRANSACTIONAL_ID = TransactionalId("transactional")
TRANSACTION_TIMEOUT_MS = 60_000
RULE = Acl(ResourceType.TOPIC, "", PatternType.LITERAL, "User:ann", "*", Operation.READ, Permission.ALLOW)
JOINING = TransactionMembership(TRANSACTIONAL_ID, adds_partitions=True, knows_abortable=True)


class Life:
    def __init__(self, root: Path, flush: str, seed: int, disk_type: type[RecordingDisk] = RecordingDisk) -> None:
        self.description = f"seed {seed}, flush {flush}"
        self.settings = {**SETTINGS, "headwater.flush": flush}
        self.history = History()
        self.disk = disk_type(root)
        self.is_strict = flush == "ack"
        self._root = root
        self._chance = random.Random(seed)
        self._clock = ManualClock(NOW_MS)
        self._value_count = 0
        self._producer: ProducerIdentity | None = None
        self._sequences: dict[tuple[TopicHistory, int], int] = {}
        self._open: Transaction | None = None
        self.broker: Broker = start(root, self.settings, clock=self._clock, disk=self.disk)
        # The first step after which promises hold: a first start that is cut short promises nothing.
        self.first_step = len(self.disk.steps)

    @property
    def step(self) -> int:
        return len(self.disk.steps)

    async def begin(self) -> None:
        """Create the topics that every life has."""
        await self._create(KEPT, is_compacted=False, partitions=1)

    async def live(self, operations: int | Sequence[str]) -> None:
        """Run this many random operations, or the operations of these names."""
        if isinstance(operations, int):
            operations = self._chance.choices([*OPERATIONS], [*OPERATIONS.values()], k=operations)
        else:
            self.description += f", {' '.join(operations)}"
        for name in operations:
            operation: Callable[[], Awaitable[None]] = getattr(self, name)
            await operation()
            self._clock.advance(self._chance.choice((0, 1, 1000)))

    async def stop(self) -> None:
        await self.broker.stop()

    # -- operations

    async def create_topic(self) -> None:
        self._value_count += 1
        is_compacted = self._chance.random() < 0.4
        # Names are reused by later incarnations of a topic.
        name = f"topic-{self._chance.randint(0, 2)}"
        if all(topic.name != name for topic in self._topics()):
            await self._create(name, is_compacted=is_compacted, partitions=self._chance.randint(1, 2))

    async def _create(self, name: str, *, is_compacted: bool, partitions: int) -> None:
        topic = TopicHistory(
            TopicName(name), is_compacted, self._span(), [PartitionHistory() for _ in range(partitions)]
        )
        self.history.topics.append(topic)
        settings = {"segment.bytes": str(SEGMENT_BYTES), "cleanup.policy": "compact" if is_compacted else "delete"}
        await run(self.broker.topics.create(name, settings, partition_count=partitions))
        topic.created.acknowledged = self.step

    async def delete_topic(self) -> None:
        topics = [topic for topic in self._topics() if topic.name != KEPT]
        if not topics or self._open is not None:
            return
        topic = self._chance.choice(topics)
        topic.deleted = self._span()
        await run(self.broker.topics.delete(topic.name))
        topic.deleted.acknowledged = self.step

    async def produce(self) -> None:
        """Some batches in one turn."""
        appends: list[tuple[Pending[Append], TopicHistory, int, list[Sent]]] = []
        for _ in range(self._chance.randint(1, 3)):
            topic, index = self._partition()
            sent = self._records(self._chance.randint(1, 3))
            outcome: Pending[Append] = Pending()
            batch = memoryview(bytearray(_batch(sent)))
            partition = self.broker.partition(topic.name, index)
            self.broker.produce(partition, batch, Append(outcome.resolve), acks=ACKS_ALL)
            appends.append((outcome, topic, index, sent))
        for outcome, topic, index, sent in appends:
            self._sent(await settled(outcome), topic, index, sent)

    async def produce_in_transaction(self) -> None:
        producer_id, epoch = await self._initialized()
        transaction = self._transaction()
        for _ in range(self._chance.randint(1, 2)):
            topic, index = self._partition()
            sent = self._records(1, transaction)
            sequence = self._sequences.get((topic, index), 0)
            self._sequences[topic, index] = sequence + 1
            batch = _batch(
                sent, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True
            )
            outcome: Pending[Append] = Pending()
            partition, records = self.broker.partition(topic.name, index), memoryview(bytearray(batch))
            self.broker.produce_in_transaction(
                partition, records, Append(outcome.resolve), acks=ACKS_ALL, membership=JOINING
            )
            self._sent(await settled(outcome), topic, index, sent)

    async def commit_in_transaction(self) -> None:
        if self._open is None or self._producer is None:
            return
        group, offset = self._group(), self._next_value()
        commit = self.broker.transactions.commit_offsets(GroupId(group), _commit(offset), self._producer, JOINING)
        assert await run(commit.wait()) == [ErrorCode.NONE]
        self._open.commits.append((group, offset))

    async def end_transaction(self) -> None:
        if self._open is None or self._producer is None:
            return
        transaction, self._open = self._open, None
        transaction.is_commit = self._chance.random() < 0.6
        transaction.end = self._span()
        ended = self.broker.transactions.end(
            TRANSACTIONAL_ID, self._producer, is_commit=transaction.is_commit, protocol_version=PROTOCOL_2
        )
        outcome = await run(ended.wait())
        assert not isinstance(outcome, HeadwaterError), outcome
        self._producer = outcome
        # In the second protocol each transaction has a new epoch, so sequences restart.
        self._sequences.clear()
        transaction.end.acknowledged = self.step

    async def commit(self) -> None:
        await run(self.broker.groups.prepare())
        group, offset, span = self._group(), self._next_value(), self._span()
        self.history.groups[group].append((offset, span))
        assert await run(self.broker.groups.commit(GroupId(group), _commit(offset)).wait()) == [ErrorCode.NONE]
        span.acknowledged = self.step

    async def change_rule(self) -> None:
        acl = RULE._replace(name=f"topic-{self._chance.randint(0, 2)}")
        rules, span = self.broker.access.rules, self._span()
        is_added = not rules.describe(AclFilter(*acl))
        self.history.rules[acl].append((is_added, span))
        await run(rules.create([acl]) if is_added else rules.delete([AclFilter(*acl)]))
        span.acknowledged = self.step

    async def delete_records(self) -> None:
        topics = [topic for topic in self._topics() if not topic.is_compacted]
        topic = self._chance.choice(topics)
        index = self._chance.randrange(len(topic.partitions))
        partition = self.broker.partition(topic.name, index)
        offset, span = self._chance.randint(partition.start_offset, partition.high_watermark), self._span()
        topic.partitions[index].deletions.append((offset, span))
        await run(self.broker.delete_records(topic.name, index, offset))
        span.acknowledged = self.step

    async def add_partitions(self) -> None:
        topic = self._chance.choice(self._topics())
        if len(topic.partitions) < 3:
            topic.partitions.append(PartitionHistory())
            await run(self.broker.topics.add_partitions(topic.name, len(topic.partitions)))

    async def flush(self) -> None:
        await run(self.broker.housekeeping.flush_due())
        await run(self.broker.journal.drain())

    async def compact(self) -> None:
        await run(self.broker.housekeeping.compact())

    async def retain(self) -> None:
        await run(self.broker.housekeeping.retain())

    async def checkpoint(self) -> None:
        await run(self.broker.housekeeping.checkpoint())

    async def restart(self) -> None:
        await self.broker.stop()
        self.broker = start(self._root, self.settings, clock=self._clock, disk=self.disk)
        await loaded(self.broker)

    # -- choices

    def _topics(self) -> list[TopicHistory]:
        return [topic for topic in self.history.topics if topic.deleted is None]

    def _partition(self) -> tuple[TopicHistory, int]:
        topic = self._chance.choice(self._topics())
        return topic, self._chance.randrange(len(topic.partitions))

    def _group(self) -> str:
        return f"group-{self._chance.randint(0, 1)}"

    def _next_value(self) -> int:
        self._value_count += 1
        return self._value_count

    def _records(self, count: int, transaction: Transaction | None = None) -> list[Sent]:
        return [
            Sent(b"%d" % self._chance.randrange(KEYS), b"value %d" % self._next_value(), self._span(), transaction)
            for _ in range(count)
        ]

    async def _initialized(self) -> ProducerIdentity:
        if self._producer is not None:
            return self._producer
        transactions = self.broker.transactions
        await run(transactions.prepare())
        await run(self.broker.groups.prepare())
        producer = await transactions.init_producer(TRANSACTIONAL_ID, TRANSACTION_TIMEOUT_MS, None)
        self._producer = producer
        return producer

    def _transaction(self) -> Transaction:
        if self._open is None:
            self._open = Transaction()
            self.history.transactions.append(self._open)
        return self._open

    def _sent(self, append: Append, topic: TopicHistory, index: int, sent: Sequence[Sent]) -> None:
        assert append.error is None, append.error
        for offset, one in enumerate(sent, append.base_offset):
            one.span.acknowledged = self.step
            topic.partitions[index].sent[offset] = one
            if one.transaction is not None:
                one.transaction.records.append((topic, index, offset))

    def _span(self) -> Span:
        return Span(self.step)


# The relative frequency of each operation.
OPERATIONS = {
    "create_topic": 2,
    "delete_topic": 1,
    "produce": 4,
    "produce_in_transaction": 4,
    "commit_in_transaction": 2,
    "end_transaction": 3,
    "commit": 1,
    "change_rule": 2,
    "delete_records": 1,
    "add_partitions": 1,
    "flush": 1,
    "compact": 1,
    "retain": 1,
    "checkpoint": 1,
    "restart": 1,
}


async def loaded(broker: Broker) -> None:
    """Wait until the coordinators have loaded their logs and finished pending transactions."""
    for sharding in (broker.groups, broker.transactions):
        if sharding._loading is not None:
            await run(sharding._loading)


def _batch(sent: Sequence[Sent], **options: Any) -> bytes:
    records = [Record(index, NOW_MS, one.key, one.value) for index, one in enumerate(sent)]
    return bytes(batches.build(records, **options))


def _commit(offset: int) -> Commit:
    committed = OffsetToCommit(TopicName(KEPT), 0, offset, -1, "", NO_TOPIC_ID)
    return Commit(MemberId(NO_MEMBER), None, NO_GENERATION, [committed])
