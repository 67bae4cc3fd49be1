"""Terms that all kinds of groups share."""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple, Protocol, TypeAlias

from headwater.coordination.catalog.events import Topic
from headwater.ids import GroupId, MemberId, TopicId, TopicName

# Group, kind of deadline, member; NO_MEMBER for a deadline of the whole group.
DeadlineKey: TypeAlias = tuple[GroupId, str, str]

NO_MEMBER = MemberId("")
CONSUMER_PROTOCOL_TYPE = "consumer"


class TopicImage(Protocol):
    """The topics as groups see them."""

    @property
    def version(self) -> int:
        """Rises whenever a topic is created, deleted or gets more partitions."""
        ...

    @property
    def by_name(self) -> Mapping[TopicName, Topic]: ...

    @property
    def by_id(self) -> Mapping[TopicId, Topic]: ...

    def racks(self, topic_id: TopicId, partition: int) -> frozenset[str]:
        """The racks of the partition's replicas; empty if they are not known."""
        ...


class GroupState(Enum):
    """The states of groups of every kind, by the names that clients and tools are told."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class GroupType(Enum):
    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"


class GroupListing(NamedTuple):
    group_id: GroupId
    protocol_type: str
    state: GroupState
    type: GroupType
