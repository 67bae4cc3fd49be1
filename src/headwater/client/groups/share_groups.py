"""Share groups as administrators see them: their members, and how far they are in each partition."""

from typing import NamedTuple

from headwater.client.coordinator import GroupCoordinator
from headwater.client.errors import check, only
from headwater.ids import TopicName, TopicPartition
from headwater.protocol.messages.shares.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
)
from headwater.protocol.messages.shares.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)

SHARE = "share"
NOT_TOLD = -1


class ShareOffset(NamedTuple):
    """Everything before `start` is done with. `backlog` is what is not done with, None if the broker does not tell."""

    start: int
    backlog: int | None


def describe_share_group(coordinator: GroupCoordinator) -> DescribedGroup:
    request = ShareGroupDescribeRequest(group_ids=[coordinator.group_id], include_authorized_operations=False)

    def read(response: ShareGroupDescribeResponse) -> DescribedGroup:
        group = only(response.groups)
        coordinator.check(group.error_code, group.error_message)
        return group

    return coordinator.ask(request, ShareGroupDescribeResponse, read)


def share_offsets(coordinator: GroupCoordinator) -> dict[TopicPartition, ShareOffset]:
    """The partitions that the group has begun with."""
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=coordinator.group_id, topics=None)

    def read(response: DescribeShareGroupOffsetsResponse) -> dict[TopicPartition, ShareOffset]:
        group = only(response.groups)
        coordinator.check(group.error_code, group.error_message)
        found: dict[TopicPartition, ShareOffset] = {}
        for topic in group.topics:
            for each in topic.partitions:
                check(each.error_code, f"the offsets of {topic.topic_name}-{each.partition_index}")
                if each.start_offset >= 0:
                    where = TopicPartition(TopicName(topic.topic_name), each.partition_index)
                    found[where] = ShareOffset(each.start_offset, None if each.lag == NOT_TOLD else each.lag)
        return found

    return coordinator.ask(DescribeShareGroupOffsetsRequest(groups=[asked]), DescribeShareGroupOffsetsResponse, read)
