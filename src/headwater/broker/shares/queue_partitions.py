"""The partitions that clients of queues name by their topics."""

from collections.abc import Sequence
from typing import Final

from headwater.broker.access.guard import Guard
from headwater.broker.catalog.hosted_partitions import HostedPartitions
from headwater.broker.partition import Partition
from headwater.broker.shares.share_fetch import SharedPartition
from headwater.broker.topics import Topics
from headwater.coordination.shares.terms import SharePartitionId
from headwater.errors import ErrorCode, Refusal
from headwater.ids import GroupId, TopicPartition
from headwater.security.acl import Operation, topic

TOPICS_MAX: Final = 100


class QueuePartitions:
    def __init__(self, topics: Topics, hosted: HostedPartitions) -> None:
        self.topics = topics
        self._hosted = hosted

    def find(self, share_id: SharePartitionId) -> Partition | None:
        found = self.topics.find_by_id(share_id.topic_id)
        return None if found is None else self._hosted.find(TopicPartition(found.name, share_id.partition))

    def of(self, guard: Guard, operation: Operation, group_id: GroupId, topics: Sequence[str]) -> list[SharedPartition]:
        """The partitions as the group reads them. Refuses topics that do not exist, and those that the client has no
        right to."""
        names = dict.fromkeys(topics)
        if not 1 <= len(names) <= TOPICS_MAX:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"a request is for 1 to {TOPICS_MAX} topics, not for {len(names)}")
        for name in names:
            # First: no refusal may tell whether a topic exists.
            guard.check(operation, topic(name))
        return [
            SharedPartition(SharePartitionId(group_id, existing.id, index), partition)
            for existing in map(self.topics.existing, names)
            for index, partition in enumerate(self._hosted.by_topic[existing.name])
        ]
