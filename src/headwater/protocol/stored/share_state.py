"""The state of a share-partition: the whole of it, and what changed since.

Dead letters that are not copied yet are stored as well, and so are acknowledgements of open transactions, under tags
that Kafka skips: to its tools a record is available until the transaction that accepts it is committed.
"""

from typing import Final
from uuid import UUID

from headwater.protocol.stored.record import Key
from headwater.protocol.wire.codec import Data, Struct, field, int8, int16, int32, int64

# Far from Kafka's tags, which are assigned from 0 on.
_LETTERS_TAG: Final = 10_000
_LETTERS_NEXT_NUMBER_TAG: Final = 10_001
_LETTERS_WRITTEN_BEFORE_TAG: Final = 10_002
_LETTERS_TARGET_TAG: Final = 10_003
_PENDING_TAG: Final = 10_010
_ENDED_TAG: Final = 10_011


class StateBatch(Struct):
    first_offset: int64
    last_offset: int64
    delivery_state: int8
    delivery_count: int16


class Letters(Struct):
    number: int64
    first_offset: int64
    last_offset: int64
    delivery_count: int16
    reason: int8
    time: int64


class LetterTarget(Struct):
    topic_id: UUID
    partition: int32
    producer_id: int64


class PendingBatch(Struct):
    first_offset: int64
    last_offset: int64
    delivery_count: int16
    # As in ShareAcknowledge: accept or reject.
    type: int8


class PendingTransaction(Struct):
    producer_id: int64
    producer_epoch: int16
    batches: list[PendingBatch]


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
    letters: list[Letters] = field(tag=_LETTERS_TAG)
    letters_next_number: int64 = field(tag=_LETTERS_NEXT_NUMBER_TAG, default=0)
    # One or none.
    letters_target: list[LetterTarget] = field(tag=_LETTERS_TARGET_TAG)
    pending: list[PendingTransaction] = field(tag=_PENDING_TAG)


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
    letters: list[Letters] = field(tag=_LETTERS_TAG)
    letters_written_before: int64 = field(tag=_LETTERS_WRITTEN_BEFORE_TAG, default=0)
    letters_target: list[LetterTarget] = field(tag=_LETTERS_TARGET_TAG)
    # What a transaction acknowledges in addition: one or none.
    pending: list[PendingTransaction] = field(tag=_PENDING_TAG)
    # The producer whose transaction has ended with this update; -1 if none has.
    ended: int64 = field(tag=_ENDED_TAG, default=-1)
