"""With which sequence a producer must begin in a partition that knows nothing of it.

Such a partition takes a stranger's first batch at any sequence. Of several in flight the first may have been turned
away for a moment: were another let in before it comes again, it would be too late.
"""

from headwater.errors import ErrorCode, Refusal
from headwater.ids import TopicPartition
from headwater.protocol.batches.batch import BatchHeader

# Of older ones nothing more is known than before they came.
TURNED_AWAY_MAX = 10_000


class SequenceGuard:
    def __init__(self) -> None:
        # The lowest sequence that a producer was told to send again.
        self._turned_away: dict[tuple[int, TopicPartition], int] = {}

    def turn_away(self, header: BatchHeader, where: TopicPartition) -> None:
        key = header.producer_id, where
        self._turned_away[key] = min(header.base_sequence, self._turned_away.get(key, header.base_sequence))
        if len(self._turned_away) > TURNED_AWAY_MAX:
            del self._turned_away[next(iter(self._turned_away))]

    def begin(self, header: BatchHeader, where: TopicPartition, *, at_zero: bool) -> None:
        """Refuses a batch that others must precede: their producer sends all of them again, in order."""
        key = header.producer_id, where
        first = 0 if at_zero else self._turned_away.get(key, header.base_sequence)
        if header.base_sequence > first:
            raise Refusal(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"epoch {header.producer_epoch} of producer {header.producer_id} must begin at {first} in {where}, "
                f"not at {header.base_sequence}",
            )
        self._turned_away.pop(key, None)
