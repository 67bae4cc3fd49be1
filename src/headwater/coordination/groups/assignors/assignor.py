"""The server-side assignors, by the names that members and `group.consumer.assignors` call them.

Pure: the same group gives the same target, in whatever order its members and topics are listed.
"""

from collections.abc import Mapping, Sequence

from headwater.coordination.groups.assignment import Assignment
from headwater.coordination.groups.assignors.group_spec import Assignor, MemberSubscription, SubscribedTopic
from headwater.coordination.groups.assignors.range import assign_range
from headwater.coordination.groups.assignors.uniform import assign_uniform
from headwater.ids import MemberId, TopicId

__all__ = ["ASSIGNORS", "MemberSubscription", "SubscribedTopic", "assign"]

# The first is the default, as in Kafka.
ASSIGNORS: Mapping[str, Assignor] = {
    "uniform": assign_uniform,
    "range": assign_range,
}


def assign(
    name: str, members: Sequence[MemberSubscription], topics: Mapping[TopicId, SubscribedTopic]
) -> Mapping[MemberId, Assignment]:
    """The new target of every member; where it has not changed it is the very object that the member came with.

    A subscription to a topic that is not in `topics` counts for nothing.
    """
    return ASSIGNORS[name](members, topics)
