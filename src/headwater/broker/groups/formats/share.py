"""Share groups (KIP-932) as records: group, members, target and current assignments."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from headwater.broker.groups.formats.assignments import listed, partitions_by_topic
from headwater.broker.groups.formats.record import Read, StoredRecord, Write
from headwater.coordination.groups.consumer.events import MemberState
from headwater.coordination.groups.share.events import (
    ShareCurrentForgotten,
    ShareCurrentStored,
    ShareGroupEvent,
    ShareGroupForgotten,
    ShareGroupStored,
    ShareMemberForgotten,
    ShareMemberStored,
    ShareTargetEpochForgotten,
    ShareTargetEpochStored,
    ShareTargetForgotten,
    ShareTargetStored,
)
from headwater.ids import GroupId, MemberId, TopicName
from headwater.protocol.stored import share_group as stored
from headwater.protocol.stored.record import Key, read_key, read_value, write_key, write_value
from headwater.protocol.wire.codec import Data

# What Kafka 4.3 writes.
_VERSION: Final = 0


def _group_key(event: ShareGroupStored | ShareGroupForgotten) -> Key:
    return stored.ShareGroupMetadataKey(group_id=event.group_id)


def _group(event: ShareGroupStored) -> Data:
    return stored.ShareGroupMetadataValue(epoch=event.epoch, metadata_hash=event.metadata_hash)


def _read_group(key: bytes, value: bytes | None) -> ShareGroupEvent:
    group_id = GroupId(read_key(stored.ShareGroupMetadataKey, key).group_id)
    if value is None:
        return ShareGroupForgotten(group_id)
    read = read_value(stored.ShareGroupMetadataValue, value)
    return ShareGroupStored(group_id, read.epoch, read.metadata_hash)


def _member_key(event: ShareMemberStored | ShareMemberForgotten) -> Key:
    return stored.ShareGroupMemberMetadataKey(group_id=event.group_id, member_id=event.member_id)


def _member(event: ShareMemberStored) -> Data:
    return stored.ShareGroupMemberMetadataValue(
        rack_id=event.rack_id,
        client_id=event.client_id,
        client_host=event.client_host,
        subscribed_topic_names=sorted(event.topic_names),
    )


def _read_member(key: bytes, value: bytes | None) -> ShareGroupEvent:
    name = read_key(stored.ShareGroupMemberMetadataKey, key)
    group_id, member_id = GroupId(name.group_id), MemberId(name.member_id)
    if value is None:
        return ShareMemberForgotten(group_id, member_id)
    read = read_value(stored.ShareGroupMemberMetadataValue, value)
    topics = frozenset(TopicName(topic) for topic in read.subscribed_topic_names)
    return ShareMemberStored(group_id, member_id, read.rack_id, read.client_id, read.client_host, topics)


def _target_epoch_key(event: ShareTargetEpochStored | ShareTargetEpochForgotten) -> Key:
    return stored.ShareGroupTargetAssignmentMetadataKey(group_id=event.group_id)


def _target_epoch(event: ShareTargetEpochStored) -> Data:
    return stored.ShareGroupTargetAssignmentMetadataValue(
        assignment_epoch=event.assignment_epoch, assignment_timestamp=event.assignment_timestamp_ms
    )


def _read_target_epoch(key: bytes, value: bytes | None) -> ShareGroupEvent:
    group_id = GroupId(read_key(stored.ShareGroupTargetAssignmentMetadataKey, key).group_id)
    if value is None:
        return ShareTargetEpochForgotten(group_id)
    read = read_value(stored.ShareGroupTargetAssignmentMetadataValue, value)
    return ShareTargetEpochStored(group_id, read.assignment_epoch, read.assignment_timestamp)


def _target_key(event: ShareTargetStored | ShareTargetForgotten) -> Key:
    return stored.ShareGroupTargetAssignmentMemberKey(group_id=event.group_id, member_id=event.member_id)


def _target(event: ShareTargetStored) -> Data:
    return stored.ShareGroupTargetAssignmentMemberValue(topic_partitions=listed(event.partitions))


def _read_target(key: bytes, value: bytes | None) -> ShareGroupEvent:
    name = read_key(stored.ShareGroupTargetAssignmentMemberKey, key)
    group_id, member_id = GroupId(name.group_id), MemberId(name.member_id)
    if value is None:
        return ShareTargetForgotten(group_id, member_id)
    read = read_value(stored.ShareGroupTargetAssignmentMemberValue, value)
    return ShareTargetStored(group_id, member_id, partitions_by_topic(read.topic_partitions))


def _current_key(event: ShareCurrentStored | ShareCurrentForgotten) -> Key:
    return stored.ShareGroupCurrentMemberAssignmentKey(group_id=event.group_id, member_id=event.member_id)


def _current(event: ShareCurrentStored) -> Data:
    return stored.ShareGroupCurrentMemberAssignmentValue(
        member_epoch=event.epoch,
        previous_member_epoch=event.previous_epoch,
        # A member of a share group has its assignment at once.
        state=MemberState.STABLE,
        assigned_partitions=listed(event.assigned),
    )


def _read_current(key: bytes, value: bytes | None) -> ShareGroupEvent:
    name = read_key(stored.ShareGroupCurrentMemberAssignmentKey, key)
    group_id, member_id = GroupId(name.group_id), MemberId(name.member_id)
    if value is None:
        return ShareCurrentForgotten(group_id, member_id)
    read = read_value(stored.ShareGroupCurrentMemberAssignmentValue, value)
    assigned = partitions_by_topic(read.assigned_partitions)
    return ShareCurrentStored(group_id, member_id, read.member_epoch, read.previous_member_epoch, assigned)


def _stored(key_of: Callable[[Any], Key], value_of: Callable[[Any], Data]) -> Write:
    def write(event: object) -> StoredRecord:
        return write_key(key_of(event)), write_value(value_of(event), _VERSION)

    return write


def _tombstone(key_of: Callable[[Any], Key]) -> Write:
    def write(event: object) -> StoredRecord:
        return write_key(key_of(event)), None

    return write


WRITERS: Final[Mapping[type, Write]] = {
    ShareGroupStored: _stored(_group_key, _group),
    ShareGroupForgotten: _tombstone(_group_key),
    ShareMemberStored: _stored(_member_key, _member),
    ShareMemberForgotten: _tombstone(_member_key),
    ShareTargetEpochStored: _stored(_target_epoch_key, _target_epoch),
    ShareTargetEpochForgotten: _tombstone(_target_epoch_key),
    ShareTargetStored: _stored(_target_key, _target),
    ShareTargetForgotten: _tombstone(_target_key),
    ShareCurrentStored: _stored(_current_key, _current),
    ShareCurrentForgotten: _tombstone(_current_key),
}
READERS: Final[Mapping[int, Read]] = {
    stored.ShareGroupMetadataKey.record_type: _read_group,
    stored.ShareGroupMemberMetadataKey.record_type: _read_member,
    stored.ShareGroupTargetAssignmentMetadataKey.record_type: _read_target_epoch,
    stored.ShareGroupTargetAssignmentMemberKey.record_type: _read_target,
    stored.ShareGroupCurrentMemberAssignmentKey.record_type: _read_current,
}
