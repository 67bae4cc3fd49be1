"""The events of share-partitions.

Durable ones are records of `__share_group_state`. A snapshot has the whole state, an update what changed since.
Volatile events concern acquisitions, which end with the broker's life.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from headwater.coordination.decisions import volatile
from headwater.coordination.shares.outbox import OutboxChange, OutboxStored
from headwater.coordination.shares.pending import PendingTransaction
from headwater.coordination.shares.terms import DeliveryState, SharePartitionId
from headwater.ids import MemberId, ProducerId


class StateBatch(NamedTuple):
    """Neighbouring offsets that are in the same state."""

    first: int
    last: int
    state: DeliveryState
    delivery_count: int


# -- durable events


class ShareSnapshotStored(NamedTuple):
    """The whole state. A new state epoch replaces what was known; with the same one it repeats it, so that everything
    before it in the log may go."""

    id: SharePartitionId
    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    # Of the offsets from the start on, how many are in a final state.
    complete_count: int
    created_ms: int
    written_ms: int
    batches: Sequence[StateBatch]
    outbox: OutboxStored | None = None
    pending: Sequence[PendingTransaction] = ()


class ShareUpdated(NamedTuple):
    id: SharePartitionId
    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    complete_count: int
    batches: Sequence[StateBatch]
    outbox: OutboxChange | None = None
    # What a transaction acknowledges in addition, if it is committed.
    pending: PendingTransaction | None = None
    # The producer whose transaction has ended: the batches say how.
    ended: ProducerId | None = None


class ShareForgotten(NamedTuple):
    id: SharePartitionId


class ShareUpdatesForgotten(NamedTuple):
    """Follows ShareForgotten: snapshots and updates have keys of their own."""

    id: SharePartitionId


ShareEvent: TypeAlias = ShareSnapshotStored | ShareUpdated | ShareForgotten | ShareUpdatesForgotten


# -- volatile events


class AcquiredRange(NamedTuple):
    """Neighbouring records that a member was given, all for the same time."""

    first: int
    last: int
    delivery_count: int


@volatile
class Acquired(NamedTuple):
    id: SharePartitionId
    member_id: MemberId
    ranges: Sequence[AcquiredRange]
    deadline_ms: int


@volatile
class Skipped(NamedTuple):
    """Offsets that hold nothing to deliver: control records, aborted records, gaps that compaction left. Not stored: a
    restart finds them in the log again."""

    id: SharePartitionId
    ranges: Sequence[tuple[int, int]]


@volatile
class Renewed(NamedTuple):
    id: SharePartitionId
    member_id: MemberId
    ranges: Sequence[AcquiredRange]
    deadline_ms: int


@volatile
class Deferred(NamedTuple):
    """Available records that are not to be acquired before this time."""

    id: SharePartitionId
    ranges: Sequence[AcquiredRange]
    until_ms: int


@volatile
class Resumed(NamedTuple):
    """Records that have waited long enough."""

    id: SharePartitionId
    ranges: Sequence[AcquiredRange]


@volatile
class LocksChecked(NamedTuple):
    """No lock and no wait ends before this time; None if there is neither."""

    id: SharePartitionId
    next_deadline_ms: int | None
