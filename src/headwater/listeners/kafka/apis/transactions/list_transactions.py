"""ListTransactions (key 66), v0-2: transactional ids by state and producer; v1 filters by duration, v2 by a regular
expression."""

from headwater.coordination.transactions.filter import read_filter
from headwater.errors import HeadwaterError
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.transactions.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from headwater.protocol.messages.transactions.list_transactions import TransactionState as Listed
from headwater.security.acl import Operation, transactional_id

REQUEST = ListTransactionsRequest


async def handle(request: ListTransactionsRequest, context: Context) -> ListTransactionsResponse:
    try:
        wanted, unknown = read_filter(
            request.state_filters,
            request.producer_id_filters,
            request.duration_filter,
            request.transactional_id_pattern,
        )
        found = await context.broker.transactions.list(wanted)
    except HeadwaterError as error:
        return ListTransactionsResponse(error_code=error.code, unknown_state_filters=[], transaction_states=[])
    return ListTransactionsResponse(
        unknown_state_filters=list(unknown),
        transaction_states=[
            Listed(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                transaction_state=each.state.label,
            )
            for each in found
            if context.guard.allows(Operation.DESCRIBE, transactional_id(each.transactional_id), is_probe=True)
        ],
    )
