"""Groups as rows that commands show: members, partitions, committed offsets and lag."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from headwater.cli.options import with_leader
from headwater.printable import printable

if TYPE_CHECKING:
    from headwater.client.cluster import Cluster
    from headwater.client.groups.admin import GroupDescription, MemberDescription
    from headwater.ids import TopicPartition

MEMBERS_NAMED_MAX = 10


def offsets_at(cluster: "Cluster", partitions: "Iterable[TopicPartition]", when: int) -> "dict[TopicPartition, int]":
    """Look up the offsets of the partitions that exist and have a leader. A group may have offsets of deleted ones."""
    from headwater.client.offsets import list_offsets

    return list_offsets(cluster, with_leader(cluster, partitions), when)


def lag(committed: int | None, end: int | None) -> int | None:
    return None if committed is None or end is None else max(end - committed, 0)


def summary(described: "GroupDescription") -> dict[str, object]:
    """The row of the group itself."""
    return {
        "group": described.group_id,
        "type": described.type,
        "state": described.state,
        "protocol": described.protocol_type,
        "assignor": described.assignor or None,
        "epoch": described.epoch,
        "assignment_epoch": described.assignment_epoch,
        "coordinator": described.coordinator.id,
        "coordinator_address": str(described.coordinator.endpoint),
    }


def partition_rows(cluster: "Cluster", described: "GroupDescription") -> list[dict[str, object]]:
    """One row for each partition that is assigned to a member or has a committed offset."""
    from headwater.client.groups.admin import GroupAdmin
    from headwater.client.offsets import LATEST

    committed = GroupAdmin(cluster).committed(described.group_id)
    owners = {partition: member for member in described.members for partition in member.assigned}
    partitions = sorted(committed.keys() | owners.keys())
    ends = offsets_at(cluster, partitions, LATEST)
    rows: list[dict[str, object]] = []
    for partition in partitions:
        offset = committed[partition].offset if partition in committed else None
        owner = owners.get(partition)
        rows.append(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "committed": offset,
                "end": ends.get(partition),
                "lag": lag(offset, ends.get(partition)),
                "member": owner and owner.member_id,
                "client_id": owner and owner.client_id,
                "host": owner and owner.host,
            }
        )
    return rows


def share_partition_rows(cluster: "Cluster", described: "GroupDescription") -> list[dict[str, object]]:
    """One row for each partition that the share group has begun with or that is assigned to a member. What only
    Headwater's brokers tell is None with others."""
    from headwater.client.coordinator import GroupCoordinator
    from headwater.client.errors import UnsupportedApi
    from headwater.client.groups.admin import GroupAdmin
    from headwater.client.groups.queue_consumer import queue_stats
    from headwater.client.offsets import LATEST
    from headwater.ids import TopicName, TopicPartition

    offsets = GroupAdmin(cluster).share_offsets(described.group_id)
    try:
        found = queue_stats(GroupCoordinator(cluster, described.group_id))
    except UnsupportedApi:
        found = []
    stats = {TopicPartition(TopicName(each.topic), each.partition): each for each in found}
    readers: dict[TopicPartition, int] = {}
    for member in described.members:
        for partition in member.assigned:
            readers[partition] = readers.get(partition, 0) + 1
    partitions = sorted(offsets.keys() | readers.keys())
    ends = offsets_at(cluster, partitions, LATEST)
    return [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "start": offsets[partition].start if partition in offsets else None,
            "end": ends.get(partition),
            "backlog": offsets[partition].backlog if partition in offsets else None,
            "held": known and known.held,
            "waiting": known and known.waiting,
            "oldest_age_ms": known and known.oldest_age_ms,
            "deliveries": known and known.deliveries,
            "archived": known and known.archived,
            "members": readers.get(partition, 0),
        }
        for partition in partitions
        for known in [stats.get(partition)]
    ]


def member_row(member: "MemberDescription") -> dict[str, object]:
    return {
        "member": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "protocol": member.protocol,
        "epoch": member.epoch,
        "topics": member.topics,
        "topic_regex": member.topic_regex,
        "assigned": by_topic(member.assigned),
        "target": by_topic(member.target),
    }


def by_topic(partitions: "Iterable[TopicPartition]") -> dict[str, list[int]]:
    indexes: dict[str, list[int]] = {}
    for topic, index in partitions:
        indexes.setdefault(topic, []).append(index)
    return indexes


def abbreviated(partitions: Mapping[str, Sequence[int]]) -> list[str]:
    """Abbreviate partitions for a table: orders[0-3,7]."""
    return [f"{topic}[{','.join(_ranges(indexes))}]" for topic, indexes in partitions.items()]


def member_names(members: "Collection[MemberDescription]") -> str:
    """List members in a message, at most MEMBERS_NAMED_MAX of them."""
    names = [
        f"{printable(member.member_id)} (client id {printable(member.client_id)}, host {printable(member.host)})"
        for member in list(members)[:MEMBERS_NAMED_MAX]
    ]
    if len(members) > MEMBERS_NAMED_MAX:
        names.append(f"and {len(members) - MEMBERS_NAMED_MAX} more")
    return ", ".join(names)


def _ranges(indexes: Sequence[int]) -> list[str]:
    found: list[tuple[int, int]] = []
    for index in sorted(indexes):
        if found and index == found[-1][1] + 1:
            found[-1] = found[-1][0], index
        else:
            found.append((index, index))
    return [str(first) if first == last else f"{first}-{last}" for first, last in found]
