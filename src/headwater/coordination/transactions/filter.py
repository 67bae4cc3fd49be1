"""ListTransactions: filters by state, producer, duration and pattern, each of them optional."""

from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

from headwater.coordination.decisions import Now
from headwater.coordination.patterns import whole_matcher
from headwater.coordination.transactions.events import TransactionState, TransactionStored

STATES: Final = {state.label: state for state in TransactionState}


class TransactionFilter(NamedTuple):
    """None, or a negative duration: not filtered."""

    states: frozenset[TransactionState] | None = None
    producer_ids: frozenset[int] | None = None
    duration_ms: int = -1
    matches: Callable[[str], object] | None = None

    def admits(self, transaction: TransactionStored, now: Now) -> bool:
        if self.producer_ids is not None and transaction.producer_id not in self.producer_ids:
            return False
        if self.states is not None and transaction.state not in self.states:
            return False
        # As in Kafka, an id that has had no transaction counts as old: tools filter by state as well.
        if self.duration_ms >= 0 and now.wall_ms - transaction.start_timestamp_ms <= self.duration_ms:
            return False
        return self.matches is None or self.matches(transaction.transactional_id) is not None


def read_filter(
    state_names: Collection[str], producer_ids: Collection[int], duration_ms: int, pattern: str | None
) -> tuple[TransactionFilter, Sequence[str]]:
    """The filter of a ListTransactions request, in which an empty list means all; and the unknown state names."""
    states = frozenset(STATES[name] for name in state_names if name in STATES)
    wanted = TransactionFilter(
        states if state_names else None,
        frozenset(producer_ids) if producer_ids else None,
        duration_ms,
        whole_matcher(pattern) if pattern else None,
    )
    return wanted, [name for name in dict.fromkeys(state_names) if name not in STATES]
