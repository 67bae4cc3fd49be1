"""Committed offsets as records: in version 4, as Kafka 4.2 writes them, unless only version 1 can hold the event."""

import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Final
from uuid import UUID

from headwater.broker.groups.formats.record import Read, StoredRecord, Write
from headwater.coordination.groups.offsets.events import (
    CommittedOffset,
    OffsetCommitted,
    OffsetForgotten,
    TransactionalOffsetCommitted,
)
from headwater.ids import GroupId, TopicId, TopicName
from headwater.protocol.stored.offset_commit import OffsetCommitKey, OffsetCommitValue, pack_key, pack_value
from headwater.protocol.stored.record import read_key, read_value, write_value

# The only version with an expiry timestamp. It lacks the leader epoch, but so do the requests with a retention time.
_EXPIRING_OFFSET_VERSION: Final = 1

# Fast path: nearly all offsets have the newest version, no metadata, and the topic id as their only tagged field, and
# a start reads many of them.
_PLAIN_OFFSET: Final = struct.Struct(">hqiBq3s16s")
_PLAIN_VERSION: Final = 4
_PLAIN_TAG: Final = bytes((1, 0, 16))

# The record type of offsets before Kafka 0.9.
_OLD_OFFSET_TYPE: Final = 0
_NO_EXPIRE_TIMESTAMP: Final = -1


def _committed(event: OffsetCommitted | TransactionalOffsetCommitted) -> StoredRecord:
    """The same record with or without a transaction: only the batch that holds it tells which."""
    return pack_key(event.group_id, event.topic, event.partition), _offset(event.committed)


def _forgotten(event: OffsetForgotten) -> StoredRecord:
    return pack_key(event.group_id, event.topic, event.partition), None


def _offset(committed: CommittedOffset) -> bytes:
    offset, leader_epoch, metadata, commit_timestamp_ms, expire_timestamp_ms, topic_id = committed
    if expire_timestamp_ms == _NO_EXPIRE_TIMESTAMP:
        return pack_value(offset, leader_epoch, metadata, commit_timestamp_ms, topic_id)
    value = OffsetCommitValue(
        offset=offset,
        metadata=metadata,
        commit_timestamp=commit_timestamp_ms,
        expire_timestamp=expire_timestamp_ms,
    )
    return write_value(value, _EXPIRING_OFFSET_VERSION)


def _read_offset(key: bytes, value: bytes | None) -> OffsetCommitted | OffsetForgotten:
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
    return CommittedOffset(offset, leader_epoch, "", commit_timestamp_ms, _NO_EXPIRE_TIMESTAMP, _topic_id(topic_id))


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
    """Cached: making a UUID takes longer than reading the rest of an offset."""
    return TopicId(UUID(bytes=topic_id))


WRITERS: Final[Mapping[type, Write]] = {
    OffsetCommitted: _committed,
    TransactionalOffsetCommitted: _committed,
    OffsetForgotten: _forgotten,
}
READERS: Final[Mapping[int, Read]] = {
    _OLD_OFFSET_TYPE: _read_offset,
    OffsetCommitKey.record_type: _read_offset,
}
