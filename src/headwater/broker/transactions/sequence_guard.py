"""The sequence at which a producer must begin in a partition that has no state of it.

Such a partition accepts an unknown producer's first batch at any sequence. A producer has several batches in flight,
and the first one may have been refused for a moment. If the partition accepted a later one before the first is sent
again, the first would be out of order for ever.
"""

from headwater.errors import ErrorCode, Refusal
from headwater.ids import TopicPartition
from headwater.protocol.batches.batch import BatchHeader

# Bounded: the oldest entries are evicted, and those producers count as never refused.
REFUSED_MAX = 10_000


class SequenceGuard:
    def __init__(self) -> None:
        # The lowest sequence that a producer was told to send again, by producer and partition.
        self._refused_sequences: dict[tuple[int, TopicPartition], int] = {}

    def note_refused(self, header: BatchHeader, where: TopicPartition) -> None:
        key = header.producer_id, where
        self._refused_sequences[key] = min(header.base_sequence, self._refused_sequences.get(key, header.base_sequence))
        if len(self._refused_sequences) > REFUSED_MAX:
            del self._refused_sequences[next(iter(self._refused_sequences))]

    def check_first(self, header: BatchHeader, where: TopicPartition, *, at_zero: bool) -> None:
        """Refuse a batch that earlier ones must precede; the producer then sends all of them again, in order."""
        key = header.producer_id, where
        first = 0 if at_zero else self._refused_sequences.get(key, header.base_sequence)
        if header.base_sequence > first:
            raise Refusal(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"epoch {header.producer_epoch} of producer {header.producer_id} must begin at {first} in {where}, "
                f"not at {header.base_sequence}",
            )
        self._refused_sequences.pop(key, None)
