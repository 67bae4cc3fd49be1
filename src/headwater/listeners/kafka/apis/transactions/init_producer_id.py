"""InitProducerId (key 22), v0-5: an id for an idempotent producer, or the next epoch of a transactional one.

v2 is flexible, v3 lets a producer name its id and epoch, v4 adds PRODUCER_FENCED, v5 TRANSACTION_ABORTABLE."""

from headwater.coordination.transactions.commands import ProducerIdentity
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import NO_PRODUCER_ID, ProducerId, TransactionalId
from headwater.listeners.kafka.context import Context
from headwater.listeners.kafka.transaction_codes import KnownFrom
from headwater.protocol.batches.batch import NO_PRODUCER_EPOCH
from headwater.protocol.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headwater.security.acl import Operation, transactional_id

REQUEST = InitProducerIdRequest

KNOWN_FROM = KnownFrom(fenced=4, abortable=5)


async def handle(request: InitProducerIdRequest, context: Context) -> InitProducerIdResponse:
    broker = context.broker
    try:
        if request.transactional_id is None:
            context.guard.check_makes_producer_id()
        else:
            context.guard.check(Operation.WRITE, transactional_id(request.transactional_id))
        expected = _expected(request)
        if request.transactional_id is None:
            # An epoch belongs to a transactional id: an idempotent producer that names its old one gets a new id.
            return InitProducerIdResponse(producer_id=await broker.producer_ids.next(), producer_epoch=0)
        await broker.transactions.prepare()
        producer = await broker.transactions.init_producer(
            TransactionalId(request.transactional_id), request.transaction_timeout_ms, expected
        )
    except HeadwaterError as error:
        return InitProducerIdResponse(
            error_code=KNOWN_FROM.code(error, context.api_version), producer_epoch=NO_PRODUCER_EPOCH
        )
    return InitProducerIdResponse(producer_id=producer.producer_id, producer_epoch=producer.epoch)


def _expected(request: InitProducerIdRequest) -> ProducerIdentity | None:
    """The producer id and epoch that the client had so far."""
    named = (request.producer_id != NO_PRODUCER_ID, request.producer_epoch != NO_PRODUCER_EPOCH)
    if not any(named):
        return None
    if not all(named):
        raise Refusal(ErrorCode.INVALID_REQUEST, "a producer id and its epoch are told together, or neither")
    return ProducerIdentity(ProducerId(request.producer_id), request.producer_epoch)
