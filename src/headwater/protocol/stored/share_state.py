"""The state of a share-partition: the whole of it, and what changed since."""

from uuid import UUID

from headwater.protocol.stored.record import Key
from headwater.protocol.wire.codec import Data, Struct, field, int8, int16, int32, int64


class StateBatch(Struct):
    first_offset: int64
    last_offset: int64
    delivery_state: int8
    delivery_count: int16


class ShareSnapshotKey(Key, record_type=0):
    group_id: str
    topic_id: UUID
    partition: int32


class ShareSnapshotValue(Data, versions="0", flexible="0+"):
    snapshot_epoch: int32
    state_epoch: int32
    leader_epoch: int32
    start_offset: int64
    delivery_complete_count: int32 = field(tag=0, default=-1)
    create_timestamp: int64 = field()
    write_timestamp: int64
    state_batches: list[StateBatch]


class ShareUpdateKey(Key, record_type=1):
    group_id: str
    topic_id: UUID
    partition: int32


class ShareUpdateValue(Data, versions="0", flexible="0+"):
    snapshot_epoch: int32
    leader_epoch: int32
    # -1 if the start offset has not changed.
    start_offset: int64
    delivery_complete_count: int32 = field(tag=0, default=-1)
    state_batches: list[StateBatch] = field()
