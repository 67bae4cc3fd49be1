"""PublishBatch (key 10000), v0: an API of Headwater's own: commits what many writers staged in one step, or aborts it.

Answered once the decision is on disk and consumers see the outcome, or some markers are long in coming."""

from headwater.coordination.transactions.commands import ProducerIdentity, StagedWriter
from headwater.errors import HeadwaterError
from headwater.ids import ProducerId, TransactionalId
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.transactions.publish_batch import PublishBatchRequest, PublishBatchResponse
from headwater.security.acl import Operation, transactional_id

REQUEST = PublishBatchRequest


async def handle(request: PublishBatchRequest, context: Context) -> PublishBatchResponse:
    transactions = context.broker.transactions
    writers = [
        StagedWriter(
            TransactionalId(each.transactional_id), ProducerIdentity(ProducerId(each.producer_id), each.producer_epoch)
        )
        for each in request.writers
    ]
    try:
        for each in (request.application_id, *(writer.transactional_id for writer in writers)):
            context.guard.check(Operation.WRITE, transactional_id(each))
        await transactions.prepare()
        published = await transactions.publish(
            TransactionalId(request.application_id), request.batch_id, writers, is_commit=request.committed
        )
    except HeadwaterError as error:
        return PublishBatchResponse(error_code=error.code, error_message=str(error))
    return PublishBatchResponse(is_replay=published.is_replay, published_batch_id=published.published_batch_id)
