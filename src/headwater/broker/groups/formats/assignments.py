"""Assignments in records, as groups of several kinds store them."""

from collections.abc import Iterable

from headwater.coordination.groups.assignment import Assignment
from headwater.ids import TopicId
from headwater.protocol.stored.consumer_group import TopicPartitions


def listed(assignment: Assignment) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic_id=topic_id, partitions=sorted(partitions)) for topic_id, partitions in assignment.items()
    ]


def partitions_by_topic(topics: Iterable[TopicPartitions]) -> Assignment:
    return {TopicId(each.topic_id): frozenset(each.partitions) for each in topics if each.partitions}
