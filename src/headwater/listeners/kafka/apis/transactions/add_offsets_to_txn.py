"""AddOffsetsToTxn (key 25), v0-4: adds a group's partition of `__consumer_offsets` to a transaction (protocol 1).

v2 adds PRODUCER_FENCED, v3 is flexible, v4 adds TRANSACTION_ABORTABLE."""

from headwater.coordination.catalog.topic_names import OFFSETS_TOPIC
from headwater.coordination.transactions.commands import PROTOCOL_1, ProducerIdentity
from headwater.errors import HeadwaterError
from headwater.ids import ProducerId, TopicPartition, TransactionalId
from headwater.listeners.kafka.context import Context
from headwater.listeners.kafka.transaction_codes import KnownFrom
from headwater.protocol.messages.transactions.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from headwater.security.acl import Operation, group, transactional_id

REQUEST = AddOffsetsToTxnRequest

KNOWN_FROM = KnownFrom(fenced=2, abortable=4)


async def handle(request: AddOffsetsToTxnRequest, context: Context) -> AddOffsetsToTxnResponse:
    broker = context.broker
    try:
        context.guard.check(Operation.WRITE, transactional_id(request.transactional_id))
        context.guard.check(Operation.READ, group(request.group_id))
        await broker.groups.prepare()
    except HeadwaterError as error:
        return AddOffsetsToTxnResponse(error_code=error.code)
    partition = TopicPartition(OFFSETS_TOPIC, broker.groups.partition_of(request.group_id))
    refusal = await broker.transactions.add_partitions(
        TransactionalId(request.transactional_id),
        ProducerIdentity(ProducerId(request.producer_id), request.producer_epoch),
        [partition],
        PROTOCOL_1,
    ).wait()
    return AddOffsetsToTxnResponse(error_code=KNOWN_FROM.code(refusal, context.api_version))
