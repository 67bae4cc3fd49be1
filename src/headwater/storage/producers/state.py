"""The state of one producer in a log: its epoch, its newest batches, and its open transaction."""

from typing import Final, NamedTuple

from headwater.protocol.batches.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP

NO_OFFSET: Final = -1
NO_COORDINATOR_EPOCH: Final = -1


class ProducedBatch(NamedTuple):
    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1


class ProducerState:
    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
    )

    def __init__(self, producer_id: int, producer_epoch: int = NO_PRODUCER_EPOCH) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.batches: list[ProducedBatch] = []  # the newest five, oldest first
        self.last_timestamp = NO_TIMESTAMP  # when the broker last heard from it
        self.coordinator_epoch = NO_COORDINATOR_EPOCH  # of its last marker
        self.current_txn_first_offset = NO_OFFSET

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    def is_open_at(self, offset: int) -> bool:
        """Whether the producer's batch at `offset` belongs to the open transaction."""
        return self.current_txn_first_offset != NO_OFFSET and offset >= self.current_txn_first_offset

    def enter_epoch(self, producer_epoch: int) -> None:
        if producer_epoch != self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.batches.clear()

    def copy(self) -> "ProducerState":
        same = ProducerState(self.producer_id, self.producer_epoch)
        same.batches = self.batches.copy()
        same.last_timestamp = self.last_timestamp
        same.coordinator_epoch = self.coordinator_epoch
        same.current_txn_first_offset = self.current_txn_first_offset
        return same
