"""Which transactions of a log are undecided, and so how far a read_committed consumer may read.

A transaction is open from its first batch to its marker, and decided once its marker lies below the high watermark.
Transactions begin in the order of their first offsets, so the first open one is found at once.
"""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from headwater.protocol.batches.batch import NO_OFFSET

if TYPE_CHECKING:
    from headwater.storage.producers.states import ProducerState


class EndedTransaction(NamedTuple):
    """A marker that consumers do not see yet: a truncation may still take it back."""

    marker_offset: int
    first_offset: int  # of the transaction; NO_OFFSET where the marker ended none
    past: "ProducerState"  # the state before the marker


class OpenTransactions:
    __slots__ = ("decided_before", "ended", "open")

    def __init__(self, states: "Iterable[ProducerState]" = ()) -> None:
        # First offsets. Unlike a dict, an OrderedDict finds its first key at once, however many before it were removed.
        self.open: OrderedDict[int, None] = OrderedDict()
        self.ended: list[EndedTransaction] = []
        # `ended` has no markers before this offset any more.
        self.decided_before = 0
        self.reopen(states)

    def reopen(self, states: "Iterable[ProducerState]") -> None:
        """Takes the open transactions from the states."""
        first_offsets = (state.current_txn_first_offset for state in states)
        self.open = OrderedDict.fromkeys(sorted(offset for offset in first_offsets if offset != NO_OFFSET))

    def begin(self, first_offset: int) -> None:
        self.open[first_offset] = None

    def end(self, past: "ProducerState", marker_offset: int) -> int:
        """Ends a transaction. Returns the last stable offset as of when everything up to the marker is decided."""
        self.open.pop(past.current_txn_first_offset, None)
        self.ended.append(EndedTransaction(marker_offset, past.current_txn_first_offset, past))
        return next(iter(self.open), marker_offset + 1)

    def take_back(self, offset: int) -> "list[ProducerState] | None":
        """Takes back the markers at `offset` and after it. Returns the states before them, the earliest last; None:
        some of the states are no longer known."""
        if offset < self.decided_before:
            return None
        past: list[ProducerState] = []
        while self.ended and self.ended[-1].marker_offset >= offset:
            past.append(self.ended.pop().past)
        return past

    def states_before(self, offset: int) -> "list[ProducerState]":
        """The states that `take_back` would return."""
        return [ended.past for ended in reversed(self.ended) if ended.marker_offset >= offset]

    def carry_over(self, earlier: "OpenTransactions", end_offset: int) -> None:
        """These were read from a log that ends at `end_offset`. What consumers see of it is known from `earlier`."""
        self.ended = [ended for ended in earlier.ended if ended.marker_offset < end_offset]
        self.decided_before = min(earlier.decided_before, end_offset)

    def stable_before(self, high_watermark: int) -> int:
        """Decides the transactions whose markers lie below the high watermark. Returns the last stable offset."""
        del self.ended[: bisect_left(self.ended, high_watermark, key=_marker_offset)]
        self.decided_before = high_watermark
        undecided = (one.first_offset for one in self.ended if one.first_offset != NO_OFFSET)
        return min(high_watermark, next(iter(self.open), high_watermark), min(undecided, default=high_watermark))


def _marker_offset(ended: EndedTransaction) -> int:
    return ended.marker_offset
