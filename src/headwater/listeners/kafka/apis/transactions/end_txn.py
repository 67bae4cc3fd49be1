"""EndTxn (key 26), v0-5: commits or aborts a transaction. Answered when the decision is on disk; markers are written
after.

v2 adds PRODUCER_FENCED, v3 is flexible, v4 adds TRANSACTION_ABORTABLE, v5 raises the epoch and returns it (KIP-890)."""

# Lazy annotations: nested functions are defined per request.
from __future__ import annotations

from headwater.broker.pending import Pending
from headwater.broker.shards.shard import Outcome
from headwater.coordination.transactions.commands import PROTOCOL_1, PROTOCOL_2, ProducerIdentity
from headwater.errors import HeadwaterError
from headwater.ids import ProducerId, TransactionalId
from headwater.listeners.kafka.context import Context
from headwater.listeners.kafka.transaction_codes import KnownFrom
from headwater.protocol.messages.transactions.end_txn import EndTxnRequest, EndTxnResponse
from headwater.security.acl import Operation, transactional_id

REQUEST = EndTxnRequest

FIRST_VERSION_WITH_EPOCH_BUMP = 5
KNOWN_FROM = KnownFrom(fenced=2, abortable=4)


def handle(request: EndTxnRequest, context: Context) -> EndTxnResponse | Pending[EndTxnResponse]:
    version = context.api_version
    guard = context.guard
    denial = None if guard.is_open else guard.denial(Operation.WRITE, transactional_id(request.transactional_id))
    if denial is not None:
        return EndTxnResponse(error_code=denial.code)

    def ended(outcome: Outcome[ProducerIdentity]) -> EndTxnResponse:
        if isinstance(outcome, HeadwaterError):
            return EndTxnResponse(error_code=KNOWN_FROM.code(outcome, version))
        return EndTxnResponse(producer_id=outcome.producer_id, producer_epoch=outcome.epoch)

    return context.broker.transactions.end(
        TransactionalId(request.transactional_id),
        ProducerIdentity(ProducerId(request.producer_id), request.producer_epoch),
        is_commit=request.committed,
        protocol_version=PROTOCOL_2 if version >= FIRST_VERSION_WITH_EPOCH_BUMP else PROTOCOL_1,
    ).map(ended)
