"""Consumer groups (KIP-848) as records: group, members, target and current assignments, regular expressions."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from headwater.broker.groups.formats.assignments import listed, partitions_by_topic
from headwater.broker.groups.formats.record import Read, StoredRecord, Write
from headwater.coordination.groups.classic.events import SupportedProtocol
from headwater.coordination.groups.consumer.events import (
    ClassicDetails,
    ConsumerEvent,
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
from headwater.ids import GroupId, MemberId, TopicName
from headwater.protocol.stored import consumer_group as stored
from headwater.protocol.stored.record import read_key, read_value, write_key, write_value

# What Kafka 4.2 writes.
_VERSION: Final = 0
_MEMBER_STATES: Final = {state.value: state for state in MemberState}


def _group_key(event: ConsumerGroupStored | ConsumerGroupForgotten) -> stored.ConsumerGroupMetadataKey:
    return stored.ConsumerGroupMetadataKey(group_id=event.group_id)


def _group(event: ConsumerGroupStored) -> stored.ConsumerGroupMetadataValue:
    return stored.ConsumerGroupMetadataValue(epoch=event.epoch, metadata_hash=event.metadata_hash)


def _read_group(key: bytes, value: bytes | None) -> ConsumerEvent:
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


def _classic(details: ClassicDetails) -> stored.ClassicMemberMetadata:
    return stored.ClassicMemberMetadata(
        session_timeout_ms=details.session_timeout_ms,
        supported_protocols=[
            stored.ClassicProtocol(name=protocol.name, metadata=protocol.metadata) for protocol in details.protocols
        ],
    )


def _read_member(key: bytes, value: bytes | None) -> ConsumerEvent:
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


def _target_epoch_key(
    event: TargetEpochStored | TargetEpochForgotten,
) -> stored.ConsumerGroupTargetAssignmentMetadataKey:
    return stored.ConsumerGroupTargetAssignmentMetadataKey(group_id=event.group_id)


def _target_epoch(event: TargetEpochStored) -> stored.ConsumerGroupTargetAssignmentMetadataValue:
    return stored.ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=event.assignment_epoch, assignment_timestamp=event.assignment_timestamp_ms
    )


def _read_target_epoch(key: bytes, value: bytes | None) -> ConsumerEvent:
    group_id = GroupId(read_key(stored.ConsumerGroupTargetAssignmentMetadataKey, key).group_id)
    if value is None:
        return TargetEpochForgotten(group_id)
    read = read_value(stored.ConsumerGroupTargetAssignmentMetadataValue, value)
    return TargetEpochStored(group_id, read.assignment_epoch, read.assignment_timestamp)


def _target_key(event: TargetStored | TargetForgotten) -> stored.ConsumerGroupTargetAssignmentMemberKey:
    return stored.ConsumerGroupTargetAssignmentMemberKey(group_id=event.group_id, member_id=event.member_id)


def _target(event: TargetStored) -> stored.ConsumerGroupTargetAssignmentMemberValue:
    return stored.ConsumerGroupTargetAssignmentMemberValue(topic_partitions=listed(event.partitions))


def _read_target(key: bytes, value: bytes | None) -> ConsumerEvent:
    name = read_key(stored.ConsumerGroupTargetAssignmentMemberKey, key)
    group_id, member_id = GroupId(name.group_id), MemberId(name.member_id)
    if value is None:
        return TargetForgotten(group_id, member_id)
    read = read_value(stored.ConsumerGroupTargetAssignmentMemberValue, value)
    return TargetStored(group_id, member_id, partitions_by_topic(read.topic_partitions))


def _current_key(event: CurrentStored | CurrentForgotten) -> stored.ConsumerGroupCurrentMemberAssignmentKey:
    return stored.ConsumerGroupCurrentMemberAssignmentKey(group_id=event.group_id, member_id=event.member_id)


def _current(event: CurrentStored) -> stored.ConsumerGroupCurrentMemberAssignmentValue:
    return stored.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=event.epoch,
        previous_member_epoch=event.previous_epoch,
        state=event.state,
        assigned_partitions=listed(event.assigned),
        partitions_pending_revocation=listed(event.pending_revocation),
    )


def _read_current(key: bytes, value: bytes | None) -> ConsumerEvent:
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
        partitions_by_topic(read.assigned_partitions),
        partitions_by_topic(read.partitions_pending_revocation),
    )


def _regex_key(event: RegexResolved | RegexForgotten) -> stored.ConsumerGroupRegularExpressionKey:
    return stored.ConsumerGroupRegularExpressionKey(group_id=event.group_id, regular_expression=event.regex)


def _regex(event: RegexResolved) -> stored.ConsumerGroupRegularExpressionValue:
    return stored.ConsumerGroupRegularExpressionValue(
        topics=sorted(event.topics), version=event.version, timestamp=event.timestamp_ms
    )


def _read_regex(key: bytes, value: bytes | None) -> ConsumerEvent:
    name = read_key(stored.ConsumerGroupRegularExpressionKey, key)
    group_id, regex = GroupId(name.group_id), name.regular_expression
    if value is None:
        return RegexForgotten(group_id, regex)
    read = read_value(stored.ConsumerGroupRegularExpressionValue, value)
    topics = frozenset(TopicName(topic) for topic in read.topics)
    return RegexResolved(group_id, regex, topics, read.version, read.timestamp)


def _stored(key_of: Callable[[Any], Any], value_of: Callable[[Any], Any]) -> Write:
    def write(event: object) -> StoredRecord:
        return write_key(key_of(event)), write_value(value_of(event), _VERSION)

    return write


def _tombstone(key_of: Callable[[Any], Any]) -> Write:
    def write(event: object) -> StoredRecord:
        return write_key(key_of(event)), None

    return write


WRITERS: Final[Mapping[type, Write]] = {
    ConsumerGroupStored: _stored(_group_key, _group),
    ConsumerGroupForgotten: _tombstone(_group_key),
    MemberStored: _stored(_member_key, _member),
    MemberForgotten: _tombstone(_member_key),
    TargetEpochStored: _stored(_target_epoch_key, _target_epoch),
    TargetEpochForgotten: _tombstone(_target_epoch_key),
    TargetStored: _stored(_target_key, _target),
    TargetForgotten: _tombstone(_target_key),
    CurrentStored: _stored(_current_key, _current),
    CurrentForgotten: _tombstone(_current_key),
    RegexResolved: _stored(_regex_key, _regex),
    RegexForgotten: _tombstone(_regex_key),
}
READERS: Final[Mapping[int, Read]] = {
    stored.ConsumerGroupMetadataKey.record_type: _read_group,
    stored.ConsumerGroupMemberMetadataKey.record_type: _read_member,
    stored.ConsumerGroupTargetAssignmentMetadataKey.record_type: _read_target_epoch,
    stored.ConsumerGroupTargetAssignmentMemberKey.record_type: _read_target,
    stored.ConsumerGroupCurrentMemberAssignmentKey.record_type: _read_current,
    stored.ConsumerGroupRegularExpressionKey.record_type: _read_regex,
}
