"""InitProducerId (key 22): an id for an idempotent producer."""

from headwater.errors import ErrorCode, HeadwaterError
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

REQUEST = InitProducerIdRequest


async def handle(request: InitProducerIdRequest, context: Context) -> InitProducerIdResponse:
    if request.transactional_id is not None:
        return InitProducerIdResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    # An epoch belongs to a transactional id: an idempotent producer that names its old one gets a new id all the same.
    try:
        producer_id = await context.broker.catalog.new_producer_id()
    except HeadwaterError as error:
        return InitProducerIdResponse(error_code=error.code)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
