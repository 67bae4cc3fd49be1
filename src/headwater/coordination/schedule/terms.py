"""What a schedule is about: where a record goes, which produced batch brought it, and how it is named."""

from typing import Final, NamedTuple

from headwater.ids import TopicId

# One delivery is one batch of the target, with at most so many records and, unless its first is larger, bytes.
DELIVERY_RECORDS_MAX: Final = 1000
DELIVERY_BYTES_MAX: Final = 512 << 10
# Retries of batches are recognised among a producer's newest five, as a partition does: no client has more in flight.
BATCHES_REMEMBERED: Final = 5
NO_ID_HASH: Final = 0


class Target(NamedTuple):
    """The partition in which records appear when they are due."""

    topic_id: TopicId
    partition: int

    @property
    def key(self) -> str:
        """What decides which machine knows the target."""
        return f"{self.topic_id}-{self.partition}"


class ProducedBatch(NamedTuple):
    """A batch as its producer named it."""

    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int


def hash_of_id(schedule_id: str | None) -> int:
    """Names an id in memory; the id itself stays on disk. Different ids may share a hash, though hardly ever do."""
    if schedule_id is None:
        return NO_ID_HASH
    return hash(schedule_id) or 1
