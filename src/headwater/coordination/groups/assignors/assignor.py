"""The server-side assignors, by the names that members and `group.consumer.assignors` use.

Pure: the same group gets the same target, regardless of the order in which members and topics are listed.
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
    """The new target of every member. An unchanged target is the identical object that the member came with.

    Subscriptions to topics that are not in `topics` are ignored.
    """
    return ASSIGNORS[name](members, topics)
