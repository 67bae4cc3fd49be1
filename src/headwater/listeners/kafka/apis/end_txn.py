"""EndTxn (key 26): commit or abort. Answered when the decision is on disk; the markers follow by themselves."""

from headwater.coordination.transactions.commands import PROTOCOL_1, PROTOCOL_2, ProducerIdentity
from headwater.errors import HeadwaterError
from headwater.ids import ProducerId, TransactionalId
from headwater.listeners.kafka.context import Context
from headwater.listeners.kafka.transaction_codes import KnownFrom
from headwater.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

REQUEST = EndTxnRequest

FIRST_VERSION_WITH_EPOCH_BUMP = 5
KNOWN_FROM = KnownFrom(fenced=2, abortable=4)


async def handle(request: EndTxnRequest, context: Context) -> EndTxnResponse:
    is_bumped = context.api_version >= FIRST_VERSION_WITH_EPOCH_BUMP
    try:
        producer = await context.broker.transactions.end(
            TransactionalId(request.transactional_id),
            ProducerIdentity(ProducerId(request.producer_id), request.producer_epoch),
            is_commit=request.committed,
            protocol_version=PROTOCOL_2 if is_bumped else PROTOCOL_1,
        )
    except HeadwaterError as error:
        return EndTxnResponse(error_code=KNOWN_FROM.code(error, context.api_version))
    return EndTxnResponse(producer_id=producer.producer_id, producer_epoch=producer.epoch)
