"""Invariants of every consumer group, and the refusals that its clients may get."""

from headwater.coordination.groups.consumer.group import ConsumerGroup
from headwater.errors import ErrorCode, Refusal
from headwater.ids import TopicId

# The codes for a client that was removed or replaced.
LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)


def expect(refusal: Refusal, *codes: ErrorCode) -> None:
    assert refusal.code in codes, refusal


def check_owners(group: ConsumerGroup) -> None:
    membership = group.roster
    held: set[tuple[TopicId, int]] = set()
    for member in membership.members.values():
        for topic_id, partitions in member.held.items():
            for partition in partitions:
                assert (topic_id, partition) not in held, "a partition with two owners"
                assert membership.owner(topic_id, partition) == member.id
                held.add((topic_id, partition))
