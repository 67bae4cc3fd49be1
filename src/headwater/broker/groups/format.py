"""Group events as the records of `__consumer_offsets`, byte for byte as Kafka writes them.

Older versions of the values are read as well, so that a partition which Kafka wrote can be taken over.
"""

import struct
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final
from uuid import UUID

from headwater.coordination.groups.assignment import Assignment
from headwater.coordination.groups.classic.events import (
    ClassicGroupForgotten,
    GenerationStored,
    StoredMember,
    SupportedProtocol,
)
from headwater.coordination.groups.consumer.events import (
    ClassicDetails,
    ConsumerGroupForgotten,
    ConsumerGroupStored,
    CurrentForgotten,
    CurrentStored,
    MemberForgotten,
    MemberState,
    MemberStored,
    RegexForgotten,
    RegexResolved,
    TargetEpochForgotten,
    TargetEpochStored,
    TargetForgotten,
    TargetStored,
)
from headwater.coordination.groups.events import Event
from headwater.coordination.groups.offsets.events import (
    CommittedOffset,
    OffsetCommitted,
    OffsetForgotten,
    TransactionalOffsetCommitted,
    TransactionEnded,
)
from headwater.errors import HeadwaterError, ProtocolError
from headwater.ids import GroupId, MemberId, TopicId, TopicName
from headwater.protocol.stored import consumer_group as stored
from headwater.protocol.stored.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from headwater.protocol.stored.offset_commit import OffsetCommitKey, OffsetCommitValue, pack_key, pack_value
from headwater.protocol.stored.record import read_key, read_record_type, read_value, write_key, write_value

# What Kafka 4.2 writes, beside offsets in version 4; other versions are only read.
_GENERATION_VERSION: Final = 3
_CONSUMER_GROUP_VERSION: Final = 0
# The only one with a time of expiry. It lacks the leader epoch, but so do the requests that name such a time.
_EXPIRING_OFFSET_VERSION: Final = 1

# Nearly all offsets are of this shape, and a broker that starts reads many: the newest version, no metadata, and the
# topic's id as the only tagged field.
_PLAIN_OFFSET: Final = struct.Struct(">hqiBq3s16s")
_PLAIN_VERSION: Final = 4
_PLAIN_TAG: Final = bytes((1, 0, 16))

# Offsets had this type before Kafka 0.9.
_OLD_OFFSET_TYPE: Final = 0
_NOT_STORED: Final = -1
_MEMBER_STATES: Final = {state.value: state for state in MemberState}


class DamagedGroups(HeadwaterError):
    """Groups are not loaded from what cannot be read: an offset that is left out would look as if never committed."""


class GroupFormat:
    def encode(self, event: Event) -> tuple[bytes, bytes | None]:
        assert not isinstance(event, TransactionEnded), "a transaction ends with a batch of another kind"
        match event:
            case OffsetCommitted(group_id, topic, partition, committed):
                return pack_key(group_id, topic, partition), _offset(committed)
            case TransactionalOffsetCommitted(_, _, group_id, topic, partition, committed):
                # By what batch it is in, it is told from any other commit.
                return pack_key(group_id, topic, partition), _offset(committed)
            case OffsetForgotten(group_id, topic, partition):
                return pack_key(group_id, topic, partition), None
            case GenerationStored():
                return write_key(GroupMetadataKey(group=event.group_id)), _generation(event)
            case ClassicGroupForgotten():
                return write_key(GroupMetadataKey(group=event.group_id)), None
            case ConsumerGroupStored():
                key = stored.ConsumerGroupMetadataKey(group_id=event.group_id)
                value = stored.ConsumerGroupMetadataValue(epoch=event.epoch, metadata_hash=event.metadata_hash)
            case ConsumerGroupForgotten():
                key, value = stored.ConsumerGroupMetadataKey(group_id=event.group_id), None
            case MemberStored():
                key, value = _member_key(event), _member(event)
            case MemberForgotten():
                key, value = _member_key(event), None
            case TargetEpochStored():
                key = stored.ConsumerGroupTargetAssignmentMetadataKey(group_id=event.group_id)
                value = stored.ConsumerGroupTargetAssignmentMetadataValue(
                    assignment_epoch=event.assignment_epoch, assignment_timestamp=event.assignment_timestamp_ms
                )
            case TargetEpochForgotten():
                key, value = stored.ConsumerGroupTargetAssignmentMetadataKey(group_id=event.group_id), None
            case TargetStored():
                key = _target_key(event)
                value = stored.ConsumerGroupTargetAssignmentMemberValue(topic_partitions=_listed(event.partitions))
            case TargetForgotten():
                key, value = _target_key(event), None
            case CurrentStored():
                key, value = _current_key(event), _current(event)
            case CurrentForgotten():
                key, value = _current_key(event), None
            case RegexResolved():
                key = _regex_key(event)
                value = stored.ConsumerGroupRegularExpressionValue(
                    topics=sorted(event.topics), version=event.version, timestamp=event.timestamp_ms
                )
            case RegexForgotten():
                key, value = _regex_key(event), None
        return write_key(key), None if value is None else write_value(value, _CONSUMER_GROUP_VERSION)

    def decode(self, key: bytes, value: bytes | None) -> Event | None:
        try:
            read = _READERS.get(read_record_type(key))
            # Groups of other kinds, what Kafka itself no longer reads, and what a newer version will read again.
            return None if read is None else read(key, value)
        except ProtocolError as error:
            # The checksum was right, so it was written like this: by what, is for a person to find out.
            raise DamagedGroups(f"the group record {key[:80]!r} is not understood: {error}") from error


# -- offsets


def _offset(committed: CommittedOffset) -> bytes:
    offset, leader_epoch, metadata, commit_timestamp_ms, expire_timestamp_ms, topic_id = committed
    if expire_timestamp_ms == _NOT_STORED:
        return pack_value(offset, leader_epoch, metadata, commit_timestamp_ms, topic_id)
    value = OffsetCommitValue(
        offset=offset,
        metadata=metadata,
        commit_timestamp=commit_timestamp_ms,
        expire_timestamp=expire_timestamp_ms,
    )
    return write_value(value, _EXPIRING_OFFSET_VERSION)


def _read_offset(key: bytes, value: bytes | None) -> Event:
    name = read_key(OffsetCommitKey, key)
    group_id, topic = GroupId(name.group), TopicName(name.topic)
    if value is None:
        return OffsetForgotten(group_id, topic, name.partition)
    committed = _read_plain_offset(value) if len(value) == _PLAIN_OFFSET.size else None
    return OffsetCommitted(group_id, topic, name.partition, committed or _read_any_offset(value))


def _read_plain_offset(value: bytes) -> CommittedOffset | None:
    version, offset, leader_epoch, metadata_length, commit_timestamp_ms, tag, topic_id = _PLAIN_OFFSET.unpack(value)
    if version != _PLAIN_VERSION or metadata_length != 1 or tag != _PLAIN_TAG:
        return None
    return CommittedOffset(offset, leader_epoch, "", commit_timestamp_ms, _NOT_STORED, _topic_id(topic_id))


def _read_any_offset(value: bytes) -> CommittedOffset:
    read = read_value(OffsetCommitValue, value)
    return CommittedOffset(
        read.offset,
        read.leader_epoch,
        read.metadata,
        read.commit_timestamp,
        read.expire_timestamp,
        TopicId(read.topic_id),
    )


@lru_cache(maxsize=1024)
def _topic_id(topic_id: bytes) -> TopicId:
    """One for all offsets of a topic: to make it costs more than to read the rest."""
    return TopicId(UUID(bytes=topic_id))


# -- classic groups


def _generation(event: GenerationStored) -> bytes:
    value = GroupMetadataValue(
        protocol_type=event.protocol_type,
        generation=event.generation,
        protocol=event.protocol,
        leader=event.leader,
        current_state_timestamp=event.state_timestamp_ms,
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.subscription,
                assignment=member.assignment,
            )
            for member in event.members
        ],
    )
    return write_value(value, _GENERATION_VERSION)


def _read_generation(key: bytes, value: bytes | None) -> Event:
    group_id = GroupId(read_key(GroupMetadataKey, key).group)
    if value is None:
        return ClassicGroupForgotten(group_id)
    read = read_value(GroupMetadataValue, value)
    return GenerationStored(
        group_id,
        read.protocol_type,
        read.generation,
        read.protocol,
        None if read.leader is None else MemberId(read.leader),
        read.current_state_timestamp,
        [_read_classic_member(member) for member in read.members],
    )


def _read_classic_member(read: MemberMetadata) -> StoredMember:
    # Before the two were told apart, members had the time of a session to rejoin.
    rebalance_timeout_ms = read.session_timeout if read.rebalance_timeout == _NOT_STORED else read.rebalance_timeout
    return StoredMember(
        MemberId(read.member_id),
        read.group_instance_id,
        read.client_id,
        read.client_host,
        rebalance_timeout_ms,
        read.session_timeout,
        read.subscription,
        read.assignment,
    )


# -- consumer groups


def _read_group(key: bytes, value: bytes | None) -> Event:
    group_id = GroupId(read_key(stored.ConsumerGroupMetadataKey, key).group_id)
    if value is None:
        return ConsumerGroupForgotten(group_id)
    read = read_value(stored.ConsumerGroupMetadataValue, value)
    return ConsumerGroupStored(group_id, read.epoch, read.metadata_hash)


def _member_key(event: MemberStored | MemberForgotten) -> stored.ConsumerGroupMemberMetadataKey:
    return stored.ConsumerGroupMemberMetadataKey(group_id=event.group_id, member_id=event.member_id)


def _member(event: MemberStored) -> stored.ConsumerGroupMemberMetadataValue:
    return stored.ConsumerGroupMemberMetadataValue(
        instance_id=event.instance_id,
        rack_id=event.rack_id,
        client_id=event.client_id,
        client_host=event.client_host,
        subscribed_topic_names=sorted(event.topic_names),
        subscribed_topic_regex=event.topic_regex,
        rebalance_timeout_ms=event.rebalance_timeout_ms,
        server_assignor=event.assignor,
        classic_member_metadata=None if event.classic is None else _classic(event.classic),
    )


def _classic(membership: ClassicDetails) -> stored.ClassicMemberMetadata:
    return stored.ClassicMemberMetadata(
        session_timeout_ms=membership.session_timeout_ms,
        supported_protocols=[
            stored.ClassicProtocol(name=protocol.name, metadata=protocol.metadata) for protocol in membership.protocols
        ],
    )


def _read_member(key: bytes, value: bytes | None) -> Event:
    name = read_key(stored.ConsumerGroupMemberMetadataKey, key)
    group_id, member_id = GroupId(name.group_id), MemberId(name.member_id)
    if value is None:
        return MemberForgotten(group_id, member_id)
    read = read_value(stored.ConsumerGroupMemberMetadataValue, value)
    classic = read.classic_member_metadata
    return MemberStored(
        group_id,
        member_id,
        read.instance_id,
        read.rack_id,
        read.client_id,
        read.client_host,
        frozenset(TopicName(topic) for topic in read.subscribed_topic_names),
        read.subscribed_topic_regex,
        read.rebalance_timeout_ms,
        read.server_assignor,
        None if classic is None else _read_classic(classic),
    )


def _read_classic(read: stored.ClassicMemberMetadata) -> ClassicDetails:
    protocols = (SupportedProtocol(protocol.name, protocol.metadata) for protocol in read.supported_protocols)
    return ClassicDetails(read.session_timeout_ms, tuple(protocols))


def _read_target_epoch(key: bytes, value: bytes | None) -> Event:
    group_id = GroupId(read_key(stored.ConsumerGroupTargetAssignmentMetadataKey, key).group_id)
    if value is None:
        return TargetEpochForgotten(group_id)
    read = read_value(stored.ConsumerGroupTargetAssignmentMetadataValue, value)
    return TargetEpochStored(group_id, read.assignment_epoch, read.assignment_timestamp)


def _target_key(event: TargetStored | TargetForgotten) -> stored.ConsumerGroupTargetAssignmentMemberKey:
    return stored.ConsumerGroupTargetAssignmentMemberKey(group_id=event.group_id, member_id=event.member_id)


def _read_target(key: bytes, value: bytes | None) -> Event:
    name = read_key(stored.ConsumerGroupTargetAssignmentMemberKey, key)
    group_id, member_id = GroupId(name.group_id), MemberId(name.member_id)
    if value is None:
        return TargetForgotten(group_id, member_id)
    read = read_value(stored.ConsumerGroupTargetAssignmentMemberValue, value)
    return TargetStored(group_id, member_id, _by_topic(read.topic_partitions))


def _current_key(event: CurrentStored | CurrentForgotten) -> stored.ConsumerGroupCurrentMemberAssignmentKey:
    return stored.ConsumerGroupCurrentMemberAssignmentKey(group_id=event.group_id, member_id=event.member_id)


def _current(event: CurrentStored) -> stored.ConsumerGroupCurrentMemberAssignmentValue:
    return stored.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=event.epoch,
        previous_member_epoch=event.previous_epoch,
        state=event.state,
        assigned_partitions=_listed(event.assigned),
        partitions_pending_revocation=_listed(event.pending_revocation),
    )


def _read_current(key: bytes, value: bytes | None) -> Event:
    name = read_key(stored.ConsumerGroupCurrentMemberAssignmentKey, key)
    group_id, member_id = GroupId(name.group_id), MemberId(name.member_id)
    if value is None:
        return CurrentForgotten(group_id, member_id)
    read = read_value(stored.ConsumerGroupCurrentMemberAssignmentValue, value)
    return CurrentStored(
        group_id,
        member_id,
        read.member_epoch,
        read.previous_member_epoch,
        _MEMBER_STATES.get(read.state, MemberState.UNKNOWN),
        _by_topic(read.assigned_partitions),
        _by_topic(read.partitions_pending_revocation),
    )


def _regex_key(event: RegexResolved | RegexForgotten) -> stored.ConsumerGroupRegularExpressionKey:
    return stored.ConsumerGroupRegularExpressionKey(group_id=event.group_id, regular_expression=event.regex)


def _read_regex(key: bytes, value: bytes | None) -> Event:
    name = read_key(stored.ConsumerGroupRegularExpressionKey, key)
    group_id, regex = GroupId(name.group_id), name.regular_expression
    if value is None:
        return RegexForgotten(group_id, regex)
    read = read_value(stored.ConsumerGroupRegularExpressionValue, value)
    topics = frozenset(TopicName(topic) for topic in read.topics)
    return RegexResolved(group_id, regex, topics, read.version, read.timestamp)


def _listed(assignment: Assignment) -> list[stored.TopicPartitions]:
    return [
        stored.TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
        for topic_id, partitions in assignment.items()
    ]


def _by_topic(listed: Iterable[stored.TopicPartitions]) -> Assignment:
    return {TopicId(each.topic_id): frozenset(each.partitions) for each in listed if each.partitions}


_READERS: Final[dict[int, Callable[[bytes, bytes | None], Event]]] = {
    _OLD_OFFSET_TYPE: _read_offset,
    OffsetCommitKey.record_type: _read_offset,
    GroupMetadataKey.record_type: _read_generation,
    stored.ConsumerGroupMetadataKey.record_type: _read_group,
    stored.ConsumerGroupMemberMetadataKey.record_type: _read_member,
    stored.ConsumerGroupTargetAssignmentMetadataKey.record_type: _read_target_epoch,
    stored.ConsumerGroupTargetAssignmentMemberKey.record_type: _read_target,
    stored.ConsumerGroupCurrentMemberAssignmentKey.record_type: _read_current,
    stored.ConsumerGroupRegularExpressionKey.record_type: _read_regex,
}
