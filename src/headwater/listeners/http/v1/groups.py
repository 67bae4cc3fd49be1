"""/v1/groups: groups of every kind, their members, and their committed offsets."""

from typing import Annotated, TypeAlias

import msgspec

from headwater.broker.audit.event import EventType
from headwater.coordination.groups.offsets.commands import Commit, FoundOffset, OffsetQuery, OffsetToCommit
from headwater.coordination.groups.terms import GroupType
from headwater.errors import ErrorCode, Refusal
from headwater.ids import GroupId, MemberId, TopicName, TopicPartition
from headwater.listeners.http.operation import operation
from headwater.listeners.http.outcome import granted
from headwater.listeners.http.records.reader import offset_of
from headwater.listeners.http.request import Request
from headwater.listeners.http.response import Response
from headwater.listeners.http.router import Area
from headwater.listeners.http.v1.page import PageQuery, page_of
from headwater.security.acl import CLUSTER, Operation
from headwater.security.acl import group as named
from headwater.security.acl import topic as named_topic

TAG = "groups"
OFFSETS_MAX = 10_000
Offset: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
PartitionIndex: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
# As an administrator commits: no member, no generation.
_NO_GENERATION = -1


class GroupEntry(msgspec.Struct):
    """One group of the list."""

    group: str
    # classic, consumer or share.
    type: str
    state: str


class GroupPage(msgspec.Struct):
    """Groups, in the order of their names."""

    groups: list[GroupEntry]
    next: str | None


class Member(msgspec.Struct):
    """One member of a group."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str


class GroupOffset(msgspec.Struct):
    """What a group has committed for a partition, and how much is left to read."""

    topic: str
    partition: int
    offset: int
    metadata: str
    # null if the partition does not exist any more.
    lag: int | None


class GroupDescription(msgspec.Struct):
    """One group with its members and committed offsets."""

    group: str
    type: str
    state: str
    members: list[Member]
    offsets: list[GroupOffset]


class OffsetReset(msgspec.Struct, forbid_unknown_fields=True):
    """Where the group is to read on: an offset, or `to`: earliest, latest, time:MILLISECONDS."""

    topic: str
    partition: PartitionIndex
    offset: Offset | None = None
    to: str | None = None


class OffsetsReset(msgspec.Struct, forbid_unknown_fields=True):
    """Offsets to commit for a group without members."""

    offsets: Annotated[list[OffsetReset], msgspec.Meta(min_length=1, max_length=OFFSETS_MAX)]


class Offsets(msgspec.Struct):
    """The committed offsets of a group."""

    offsets: list[GroupOffset]


@operation("GET", "/v1/groups", tag=TAG)
async def list_groups(request: Request, query: PageQuery) -> GroupPage:
    """List the groups that the client may describe."""
    guard = request.guard
    sees_all = guard.allows(Operation.DESCRIBE, CLUSTER, is_probe=True)
    found = {
        each.group_id: GroupEntry(each.group_id, each.type.value, each.state.value)
        for each in await request.broker.groups.list()
        if sees_all or guard.allows(Operation.DESCRIBE, named(each.group_id), is_probe=True)
    }
    names, following = page_of(found, query)
    return GroupPage([found[GroupId(name)] for name in names], following)


@operation("GET", "/v1/groups/{group}", tag=TAG)
async def describe_group(request: Request, group: str) -> GroupDescription:
    """Describe a group: its members, its committed offsets and its lag."""
    request.guard.check(Operation.DESCRIBE, named(group))
    _check_there_are_groups(request, group)
    broker, group_id = request.broker, GroupId(group)
    listing = next((each for each in await broker.groups.list() if each.group_id == group_id), None)
    if listing is None:
        raise _unknown(group)
    match listing.type:
        case GroupType.SHARE:
            members = (await granted(broker.groups.describe_share(group_id))).members
        case GroupType.CONSUMER:
            members = (await granted(broker.groups.describe_consumer(group_id))).members
        case _:
            members = (await granted(broker.groups.describe_classic(group_id))).members
    shown = [
        Member(each.member_id, getattr(each, "instance_id", None), each.client_id, each.client_host) for each in members
    ]
    offsets = await _offsets(request, group_id) if listing.type is not GroupType.SHARE else []
    return GroupDescription(group, listing.type.value, listing.state.value, shown, offsets)


@operation("DELETE", "/v1/groups/{group}", status=204, tag=TAG)
async def delete_group(request: Request, group: str) -> None:
    """Delete a group without members, with the offsets that it committed."""
    request.guard.check(Operation.DELETE, named(group))
    _check_there_are_groups(request, group)
    with request.guard.change(EventType.GROUP_DELETE, str(named(group))):
        await granted(request.broker.delete_group(GroupId(group)))


@operation("GET", "/v1/groups/{group}/offsets", tag=TAG)
async def committed_offsets(request: Request, group: str) -> Offsets:
    """The committed offsets of a group, of the topics that the client may describe."""
    request.guard.check(Operation.DESCRIBE, named(group))
    _check_there_are_groups(request, group)
    return Offsets(await _offsets(request, GroupId(group)))


@operation("PUT", "/v1/groups/{group}/offsets", tag=TAG)
async def reset_offsets(request: Request, group: str, body: OffsetsReset) -> Response | Offsets:
    """Set the committed offsets of a group that has no members."""
    guard, broker = request.guard, request.broker
    guard.check(Operation.READ, named(group))
    if not group:
        raise Refusal(ErrorCode.INVALID_GROUP_ID, "a group has a name")
    offsets: list[OffsetToCommit] = []
    for each in body.offsets:
        guard.check(Operation.READ, named_topic(each.topic))
        broker.partition(each.topic, each.partition)
        if (each.offset is None) is (each.to is None):
            raise Refusal(ErrorCode.INVALID_REQUEST, "give either `offset` or `to`")
        offset = each.offset
        if offset is None:
            offset = await offset_of(broker, each.topic, each.partition, each.to or "")
        topic = broker.topics.existing(each.topic)
        offsets.append(OffsetToCommit(topic.name, each.partition, offset, -1, "", topic.id))
    await broker.groups.prepare()
    commit = Commit(MemberId(""), None, _NO_GENERATION, offsets)
    for each, code in zip(offsets, await granted(broker.groups.commit(GroupId(group), commit)), strict=True):
        if code:
            raise Refusal(code, f"the offset of {each.topic}-{each.partition} is not committed: {code.name}")
    return Response(200, msgspec.json.encode(Offsets(await _offsets(request, GroupId(group)))))


def _check_there_are_groups(request: Request, group: str) -> None:
    """Their topic is created with the first of them."""
    if not request.broker.groups.shards:
        raise _unknown(group)


def _unknown(group: str) -> Refusal:
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group[:100]!r}")


async def _offsets(request: Request, group_id: GroupId) -> list[GroupOffset]:
    found = await granted(request.broker.groups.committed(group_id, OffsetQuery(None)))
    return [
        _shown(request, each)
        for each in found
        if each.committed is not None
        and request.guard.allows(Operation.DESCRIBE, named_topic(each.partition.topic), is_probe=True)
    ]


def _shown(request: Request, found: FoundOffset) -> GroupOffset:
    assert found.committed is not None, "it was asked for all that are"
    where = TopicPartition(TopicName(found.partition.topic), found.partition.partition)
    partition = request.broker.partitions.find(where)
    offset = found.committed.offset
    lag = None if partition is None else max(partition.high_watermark - offset, 0)
    return GroupOffset(where.topic, where.partition, offset, found.committed.metadata, lag)


AREA = Area("groups", (list_groups, describe_group, delete_group, committed_offsets, reset_offsets))
