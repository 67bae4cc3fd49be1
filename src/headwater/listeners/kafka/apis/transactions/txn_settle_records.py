"""TxnSettleRecords (key 10030), v0, Headwater's own: what becomes of received records if a transaction is committed.
Answered when the settlements are on disk, pending until the transaction ends."""

from headwater.broker.shares.queue import Settlement
from headwater.broker.shares.transactional_queue import OpenTransaction
from headwater.coordination.transactions.commands import ProducerIdentity
from headwater.errors import HeadwaterError
from headwater.ids import GroupId, ProducerId, TransactionalId
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.transactions.txn_settle_records import (
    TxnSettleRecordsRequest,
    TxnSettleRecordsResponse,
    TxnSettleResult,
)

REQUEST = TxnSettleRecordsRequest


async def handle(request: TxnSettleRecordsRequest, context: Context) -> TxnSettleRecordsResponse:
    transaction = OpenTransaction(
        TransactionalId(request.transactional_id),
        ProducerIdentity(ProducerId(request.producer_id), request.producer_epoch),
    )
    settlements = [Settlement(each.receipt, each.type) for each in request.settlements]
    queue = context.broker.shares.transactional_queue
    try:
        outcomes = await queue.settle(context.guard, transaction, GroupId(request.group_id), settlements)
    except HeadwaterError as error:
        return TxnSettleRecordsResponse(error_code=error.code, error_message=str(error), results=[])
    return TxnSettleRecordsResponse(
        results=[
            TxnSettleResult() if error is None else TxnSettleResult(error_code=error.code, error_message=str(error))
            for error in outcomes
        ]
    )
