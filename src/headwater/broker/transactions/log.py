"""The log of a machine of transactions. The last event of a transactional id is its whole state, so a batch leaves out
earlier events of the same id, which compaction would drop later."""

from collections.abc import Sequence

from headwater.broker.partition import Partition
from headwater.broker.shards.state_log import StateLog
from headwater.broker.transactions.format import TransactionFormat
from headwater.broker.writes.append import Append
from headwater.coordination.transactions.events import Event


class TransactionLog(StateLog[Event]):
    def __init__(self, partition: Partition) -> None:
        super().__init__(partition, TransactionFormat())

    def append(self, events: Sequence[Event], append: Append, now_ms: int) -> None:
        if len(events) > 1:
            events = tuple({event.transactional_id: event for event in events}.values())
        super().append(events, append, now_ms)
