"""Terms that the modules of share-partitions share."""

from base64 import urlsafe_b64encode
from enum import IntEnum
from typing import Final, NamedTuple

from headwater.ids import GroupId, TopicId

# The start offset of a share-partition that another broker initialized without one.
NOT_BEGUN: Final = -1


class SharePartitionId(NamedTuple):
    """A partition as one share group reads it."""

    group_id: GroupId
    topic_id: TopicId
    partition: int

    @property
    def coordinator_key(self) -> str:
        """The name under which Kafka's share coordinator looks for the state. The topic id is in Java's notation."""
        topic = urlsafe_b64encode(self.topic_id.bytes).rstrip(b"=").decode()
        return f"{self.group_id}:{topic}:{self.partition}"


class DeliveryState(IntEnum):
    """The states of a record, by Kafka's numbers. ACQUIRED and WAITING are never stored: a restart ends both."""

    # Kafka does not have the negative ones. PENDING: acknowledged in a transaction that is open. It is stored beside
    # the states. WAITING: available in a while (retry with back-off).
    PENDING = -2
    WAITING = -1
    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_final(self) -> bool:
        return self in FINAL_STATES


FINAL_STATES: Final = frozenset({DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED})


class AcknowledgeType(IntEnum):
    """What a member says of a record that it holds, by Kafka's numbers."""

    # There is no record at this offset: compaction removed it, or it is a control record.
    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4
