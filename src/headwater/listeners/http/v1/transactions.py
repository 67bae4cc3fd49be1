"""/v1/transactions: records of several topics that become visible together, or never; with them, what becomes of
records that were received from queues.

A producer begins with its transactional id and gets an identity, which each further request names. A client that
begins with the same id later gets a new one, and the old is refused. Every end gives a new identity, for the next
transaction.
"""

import asyncio
from collections.abc import Sequence
from typing import Annotated, TypeAlias
from weakref import WeakValueDictionary

import msgspec

from headwater.broker.broker import Broker
from headwater.broker.partition import Partition
from headwater.broker.pending import Pending
from headwater.broker.shares.queue import RECEIPTS_MAX, Settlement
from headwater.broker.shares.transactional_queue import OpenTransaction
from headwater.broker.transactions.coordinator import TransactionMembership
from headwater.broker.writes.journal import ACKS_ALL, Append
from headwater.coordination.shares.terms import AcknowledgeType
from headwater.coordination.transactions.commands import PROTOCOL_2, ProducerIdentity
from headwater.coordination.transactions.filter import TransactionFilter
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import GroupId, ProducerId, TransactionalId
from headwater.listeners.http.operation import operation
from headwater.listeners.http.outcome import granted
from headwater.listeners.http.records.json_form import NewRecordForm
from headwater.listeners.http.records.writer import NewRecord, Written, as_record, chunks, place, writable_topic
from headwater.listeners.http.request import Request
from headwater.listeners.http.response import Response
from headwater.listeners.http.router import Area
from headwater.listeners.http.v1.page import PageQuery, page_of
from headwater.listeners.http.v1.records import RECORDS_MAX, SOME_REFUSED, Receipts, receipts_response
from headwater.protocol.batches import batch as batches
from headwater.security.acl import Operation
from headwater.security.acl import transactional_id as named

TAG = "transactions"
SOME_RECEIPTS_REFUSED = {207: "Some of the receipts were refused; the results say why."}
TIMEOUT_MS_DEFAULT = 60_000
Epoch: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=2**15)]
ProducerNumber: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
# One request of a transactional id at a time: a partition takes batches in the order of their sequence numbers.
_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()


class Beginning(msgspec.Struct, forbid_unknown_fields=True):
    """The transactional id of the producer, and when an unfinished transaction of it is aborted."""

    transactional_id: Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]
    timeout_ms: Annotated[int, msgspec.Meta(ge=1, lt=2**31)] = TIMEOUT_MS_DEFAULT


class Producer(msgspec.Struct, forbid_unknown_fields=True):
    """The identity of a producer: what the last answer gave it."""

    producer_id: ProducerNumber
    epoch: Epoch


class Publication(msgspec.Struct, forbid_unknown_fields=True):
    """Records to write in the transaction."""

    producer_id: ProducerNumber
    epoch: Epoch
    topic: str
    records: Annotated[list[NewRecordForm], msgspec.Meta(min_length=1, max_length=RECORDS_MAX)]


class TransactionSettlement(msgspec.Struct, forbid_unknown_fields=True):
    """Receipts of records of a queue, to be settled with the transaction."""

    producer_id: ProducerNumber
    epoch: Epoch
    group: str
    receipts: Annotated[list[str], msgspec.Meta(min_length=1, max_length=RECEIPTS_MAX)]


class TransactionSettlementResult(msgspec.Struct, omit_defaults=True):
    """Whether a receipt counts in the transaction. Empty if it does."""

    error: str = ""
    # Kafka's name of the error.
    code: str = ""


class TransactionSettlementResults(msgspec.Struct):
    """One result for each receipt, in their order."""

    results: list[TransactionSettlementResult]


class TransactionEntry(msgspec.Struct):
    """One transactional id and the state of its transaction."""

    transactional_id: str
    producer_id: int
    state: str


class TransactionPage(msgspec.Struct):
    """Transactional ids, in their order."""

    transactions: list[TransactionEntry]
    next: str | None


class TransactionPartition(msgspec.Struct):
    """A partition that a transaction writes to; in `__share_group_state` are records that it settles."""

    topic: str
    partition: int


class TransactionDescription(msgspec.Struct):
    """One transactional id."""

    transactional_id: str
    producer_id: int
    epoch: int
    state: str
    timeout_ms: int
    # In ms since 1970; -1 if there has been none.
    began_ms: int
    partitions: list[TransactionPartition]


@operation("GET", "/v1/transactions", tag=TAG)
async def list_transactions(request: Request, query: PageQuery) -> TransactionPage:
    """List the transactional ids that the client may describe."""
    found = {
        each.transactional_id: TransactionEntry(each.transactional_id, each.producer_id, each.state.label)
        for each in await request.broker.transactions.list(TransactionFilter())
        if request.guard.allows(Operation.DESCRIBE, named(each.transactional_id), is_probe=True)
    }
    names, following = page_of(found, query)
    return TransactionPage([found[TransactionalId(name)] for name in names], following)


@operation("POST", "/v1/transactions", status=201, tag=TAG)
async def begin(request: Request, body: Beginning) -> Producer:
    """Begin: get an identity for a transactional id. A transaction that an earlier producer left open is aborted."""
    request.guard.check(Operation.WRITE, named(body.transactional_id))
    transactions = request.broker.transactions
    await transactions.prepare()
    producer = await transactions.init_producer(TransactionalId(body.transactional_id), body.timeout_ms, None)
    return Producer(producer.producer_id, producer.epoch)


@operation("GET", "/v1/transactions/{transactional_id}", tag=TAG)
async def describe_transaction(request: Request, transactional_id: str) -> TransactionDescription:
    """Describe a transactional id: its producer, and the partitions that it writes to."""
    request.guard.check(Operation.DESCRIBE, named(transactional_id))
    _check_there_are_transactions(request, transactional_id)
    found = await granted(request.broker.transactions.describe(TransactionalId(transactional_id)))
    return TransactionDescription(
        transactional_id=found.transactional_id,
        producer_id=found.producer.producer_id,
        epoch=found.producer.epoch,
        state=found.state.label,
        timeout_ms=found.timeout_ms,
        began_ms=found.start_timestamp_ms,
        partitions=[TransactionPartition(each.topic, each.partition) for each in sorted(found.partitions)],
    )


@operation("POST", "/v1/transactions/{transactional_id}/records", tag=TAG, further_statuses=SOME_REFUSED)
async def publish(request: Request, transactional_id: str, body: Publication) -> Response | Receipts:
    """Write records in the transaction. Consumers that read committed records see them once it is committed.

    Repeat a request that got no answer under the same Idempotency-Key."""
    broker = request.broker
    request.guard.check(Operation.WRITE, named(transactional_id))
    _check_there_are_transactions(request, transactional_id)
    writable_topic(broker, request.guard, body.topic)
    producer = ProducerIdentity(ProducerId(body.producer_id), body.epoch)

    async def answer() -> Response:
        records = [each.to_record() for each in body.records]
        async with _locks.setdefault(transactional_id, asyncio.Lock()):
            return receipts_response(await _write(broker, transactional_id, producer, body.topic, records))

    return await request.services.idempotency_keys.once(request, await request.body(), answer)


@operation("POST", "/v1/transactions/{transactional_id}/ack", tag=TAG, further_statuses=SOME_RECEIPTS_REFUSED)
async def ack(
    request: Request, transactional_id: str, body: TransactionSettlement
) -> Response | TransactionSettlementResults:
    """Records of a queue are done with once the transaction is committed; an abort has them delivered again.

    If a receipt is refused, abort: what was written may belong to its record. A request may be repeated."""
    return await _settle(request, transactional_id, body, AcknowledgeType.ACCEPT)


@operation("POST", "/v1/transactions/{transactional_id}/reject", tag=TAG, further_statuses=SOME_RECEIPTS_REFUSED)
async def reject(
    request: Request, transactional_id: str, body: TransactionSettlement
) -> Response | TransactionSettlementResults:
    """Records of a queue are hopeless, and leave it once the transaction is committed."""
    return await _settle(request, transactional_id, body, AcknowledgeType.REJECT)


async def _settle(
    request: Request, transactional_id: str, body: TransactionSettlement, outcome: AcknowledgeType
) -> Response:
    """Each receipt counts for itself. If none does, the whole request is refused."""
    producer = ProducerIdentity(ProducerId(body.producer_id), body.epoch)
    outcomes = await request.broker.shares.transactional_queue.settle(
        request.guard,
        OpenTransaction(TransactionalId(transactional_id), producer),
        GroupId(body.group),
        [Settlement(receipt, outcome) for receipt in body.receipts],
    )
    refusals = [each for each in outcomes if each is not None]
    if len(refusals) == len(outcomes):
        raise refusals[0]
    results = [
        TransactionSettlementResult() if each is None else TransactionSettlementResult(str(each), each.code.name)
        for each in outcomes
    ]
    return Response(207 if refusals else 200, msgspec.json.encode(TransactionSettlementResults(results)))


@operation("POST", "/v1/transactions/{transactional_id}/commit", tag=TAG)
async def commit(request: Request, transactional_id: str, body: Producer) -> Producer:
    """Commit: all records of the transaction become visible, and what it settles is settled. Gives the identity for
    the next transaction."""
    return await _end(request, transactional_id, body, is_commit=True)


@operation("POST", "/v1/transactions/{transactional_id}/abort", tag=TAG)
async def abort(request: Request, transactional_id: str, body: Producer) -> Producer:
    """Abort: none of the records becomes visible, and what it settles is delivered again. Gives the identity for the
    next transaction."""
    return await _end(request, transactional_id, body, is_commit=False)


async def _end(request: Request, transactional_id: str, producer: Producer, *, is_commit: bool) -> Producer:
    request.guard.check(Operation.WRITE, named(transactional_id))
    _check_there_are_transactions(request, transactional_id)
    ended = await granted(
        request.broker.transactions.end(
            TransactionalId(transactional_id),
            ProducerIdentity(ProducerId(producer.producer_id), producer.epoch),
            is_commit=is_commit,
            protocol_version=PROTOCOL_2,
        )
    )
    return Producer(ended.producer_id, ended.epoch)


def _check_there_are_transactions(request: Request, transactional_id: str) -> None:
    """Their topic is created with the first of them."""
    if not request.broker.transactions.shards:
        message = f"there is no transactional id {transactional_id[:100]!r}"
        raise Refusal(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, message)


async def _write(
    broker: Broker, transactional_id: str, producer: ProducerIdentity, topic_name: str, records: Sequence[NewRecord]
) -> list[Written]:
    topic = broker.topics.existing(topic_name)
    membership = TransactionMembership(TransactionalId(transactional_id), adds_partitions=True, knows_abortable=True)
    now_ms = broker.clock.now_ms()
    written: list[Written | None] = [None] * len(records)
    for index, positions in place(topic, records).items():
        partition = broker.online_partition(topic.name, index)
        for chunk in chunks(partition, positions, records):
            built = [as_record(number, records[position], now_ms) for number, position in enumerate(chunk)]
            batch = batches.build(
                built,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                base_sequence=_next_sequence(partition, producer),
                transactional=True,
            )
            outcome: Pending[Append] = Pending()
            append = Append(outcome.resolve)
            try:
                broker.produce_in_transaction(
                    partition, memoryview(batch), append, acks=ACKS_ALL, membership=membership
                )
            except HeadwaterError as error:
                append.fail(error)
            done = await outcome.wait()
            for number, position in enumerate(chunk):
                offset = -1 if done.error is not None else done.base_offset + number
                written[position] = Written(index, offset, built[number].timestamp, done.error)
    return [each for each in written if each is not None]


def _next_sequence(partition: Partition, producer: ProducerIdentity) -> int:
    """The partition knows what it got last. A new epoch begins at 0."""
    known = partition.producer(producer.producer_id)
    if known is None or known.producer_epoch != producer.epoch or known.last_sequence < 0:
        return 0
    return (known.last_sequence + 1) % 2**31


AREA = Area("transactions", (list_transactions, begin, describe_transaction, publish, ack, reject, commit, abort))
