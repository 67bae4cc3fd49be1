"""A committed offset: only v1 has an expiry time, v3 adds the leader epoch, v4 is flexible and adds the topic's id.

A commit writes one for each partition, so the newest version is also packed by hand, in a third of the codec's time.
"""

import struct
from typing import Final
from uuid import UUID

from headwater.protocol.stored.record import Key, write_value
from headwater.protocol.wire.codec import Data, field, int32, int64

_PACKED_VERSION: Final = 4
# From this value on a varint takes more than one byte.
_LENGTH_SHORT: Final = 128
_pack_group_length = struct.Struct(">hh").pack
_pack_topic_length = struct.Struct(">h").pack
_pack_partition = struct.Struct(">i").pack
_pack_head = struct.Struct(">hqiB").pack
_pack_tail = struct.Struct(">qx").pack
_pack_tail_with_tag = struct.Struct(">qBBB16s").pack


class OffsetCommitKey(Key, record_type=1):
    group: str
    topic: str
    partition: int32


class OffsetCommitValue(Data, versions="0-4", flexible="4+"):
    offset: int64
    leader_epoch: int32 = field(versions="3+", default=-1)
    metadata: str
    commit_timestamp: int64
    expire_timestamp: int64 = field(versions="1", default=-1)
    topic_id: UUID = field(versions="4+", tag=0)


def pack_key(group: str, topic: str, partition: int) -> bytes:
    """The bytes of an OffsetCommitKey."""
    group_bytes, topic_bytes = group.encode(), topic.encode()
    return b"".join(
        (
            _pack_group_length(OffsetCommitKey.record_type, len(group_bytes)),
            group_bytes,
            _pack_topic_length(len(topic_bytes)),
            topic_bytes,
            _pack_partition(partition),
        )
    )


def pack_value(offset: int, leader_epoch: int, metadata: str, commit_timestamp: int, topic_id: UUID) -> bytes:
    """The bytes of an OffsetCommitValue in its newest version."""
    metadata_bytes = metadata.encode()
    length = len(metadata_bytes) + 1
    if length >= _LENGTH_SHORT:
        value = OffsetCommitValue(
            offset=offset,
            leader_epoch=leader_epoch,
            metadata=metadata,
            commit_timestamp=commit_timestamp,
            topic_id=topic_id,
        )
        return write_value(value, _PACKED_VERSION)
    if topic_id.int:
        tail = _pack_tail_with_tag(commit_timestamp, 1, 0, 16, topic_id.int.to_bytes(16, "big"))
    else:
        tail = _pack_tail(commit_timestamp)
    return _pack_head(_PACKED_VERSION, offset, leader_epoch, length) + metadata_bytes + tail
