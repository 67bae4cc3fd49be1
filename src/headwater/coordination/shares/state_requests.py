"""What another broker asks of a share-partition's state: that broker leads the partition, this one keeps the state.

Pure. The rules are those of Kafka's share coordinator (KIP-932, keys 83 to 87).
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from headwater.coordination.decisions import Decision, Now
from headwater.coordination.shares.commands import RecordsAvailable
from headwater.coordination.shares.events import (
    ShareForgotten,
    ShareSnapshotStored,
    ShareUpdated,
    ShareUpdatesForgotten,
    StateBatch,
)
from headwater.coordination.shares.limits import ShareLimits
from headwater.coordination.shares.runs import Run, Runs
from headwater.coordination.shares.share_partition import SharePartition
from headwater.coordination.shares.terms import NOT_BEGUN, DeliveryState, SharePartitionId
from headwater.errors import ErrorCode, Refusal

# Far beyond any log, and far enough from the limits of 64 bits.
OFFSET_MAX: Final = 1 << 62
_STORABLE: Final = frozenset({DeliveryState.AVAILABLE, DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED})


class WriteState(NamedTuple):
    state_epoch: int
    # -1: as it is.
    leader_epoch: int
    # `NOT_BEGUN`: as it is.
    start_offset: int
    # First and last offset, state by its number, delivery count. Nothing of this was checked yet.
    batches: Sequence[tuple[int, int, int, int]]


class ReadState(NamedTuple):
    state_epoch: int
    start_offset: int
    batches: Sequence[StateBatch]


def decide_initialize(
    share: SharePartition | None, share_id: SharePartitionId, state_epoch: int, start_offset: int, now: Now
) -> Decision[None]:
    """Begin, or begin again, without any state. The start offset may be left for later (`NOT_BEGUN`)."""
    _check_state_epoch(state_epoch, 0 if share is None else share.state_epoch)
    if start_offset < NOT_BEGUN:
        raise _invalid(f"a share group cannot begin at offset {start_offset}")
    events: list[object] = []
    snapshot_epoch = 0
    if share is not None:
        # A snapshot with a known state epoch would only repeat what is known.
        events += [ShareForgotten(share_id), ShareUpdatesForgotten(share_id)]
        snapshot_epoch = share.snapshot_epoch + 1
    events.append(
        ShareSnapshotStored(share_id, snapshot_epoch, state_epoch, 0, start_offset, 0, now.wall_ms, now.wall_ms, ())
    )
    return Decision(events, None, effects=[RecordsAvailable(share_id)])


def decide_read(share: SharePartition | None, leader_epoch: int, now: Now) -> Decision[ReadState]:
    """All that is stored. A new leader that reads it fences the writes of older ones."""
    if share is None:
        raise _not_initialized()
    _check_leader_epoch(leader_epoch, share)
    read = ReadState(share.state_epoch, share.runs.start, share.decide_snapshot(now).batches)
    if leader_epoch <= share.leader_epoch:
        return Decision((), read)
    runs = share.runs
    return Decision(
        [ShareUpdated(share.id, share.snapshot_epoch, leader_epoch, runs.start, runs.final_count, ())], read
    )


def decide_write(share: SharePartition | None, command: WriteState, limits: ShareLimits, now: Now) -> Decision[None]:
    if share is None:
        raise _not_initialized()
    _check_leader_epoch(command.leader_epoch, share)
    _check_state_epoch(command.state_epoch, share.state_epoch)
    start_offset = share.runs.start if command.start_offset == NOT_BEGUN else command.start_offset
    if start_offset < share.runs.start:
        raise _invalid(f"the start offset {start_offset} is before the known one, {share.runs.start}")
    if start_offset == NOT_BEGUN and command.batches:
        raise _invalid("the share-partition has no start offset yet: send one with its first records")
    after = share.runs.copy()
    after.advance(start_offset)
    changes: list[StateBatch] = []
    for each in command.batches:
        for change in _newer(_checked(*each), after):
            after.set(Run(*change))
            changes.append(change)
    events: list[object] = []
    snapshot_epoch = share.snapshot_epoch
    if share.updates_since_snapshot >= limits.updates_per_snapshot:
        events.append(snapshot := share.decide_snapshot(now))
        snapshot_epoch = snapshot.snapshot_epoch
    leader_epoch = max(command.leader_epoch, share.leader_epoch)
    events.append(ShareUpdated(share.id, snapshot_epoch, leader_epoch, after.start, after.final_count, changes))
    return Decision(events, None, effects=[RecordsAvailable(share.id)])


def _checked(first: int, last: int, state: int, count: int) -> StateBatch:
    if not 0 <= first <= last < OFFSET_MAX:
        raise _invalid(f"the offsets {first} to {last} are no range")
    if state not in _STORABLE or count < 0:
        raise _invalid(f"the offsets {first} to {last} cannot be stored in state {state} with delivery count {count}")
    return StateBatch(first, last, DeliveryState(state), count)


def _newer(batch: StateBatch, known: Runs) -> list[StateBatch]:
    """The parts of a batch that are newer than what is known: a request that was overtaken must not undo the later.
    What a transaction acknowledges is up to its end."""
    first, last, state, count = batch
    newer = [
        StateBatch(max(run.first, first), min(run.last, last), state, count)
        for run in known.within(first, last)
        if run.state is not DeliveryState.PENDING and (count, state) > _precedence(run)
    ]
    if last >= known.end:
        newer.append(StateBatch(max(first, known.end), last, state, count))
    return newer


def _precedence(run: Run) -> tuple[int, int]:
    if run.state is DeliveryState.ACQUIRED:
        # As it is stored: a delivery counts once it has ended.
        return run.delivery_count - 1, DeliveryState.AVAILABLE
    return run.delivery_count, max(run.state, DeliveryState.AVAILABLE)


def _check_state_epoch(asked: int, known: int) -> None:
    if asked < known:
        raise Refusal(ErrorCode.FENCED_STATE_EPOCH, f"the state epoch is {known}, not {asked}")


def _check_leader_epoch(asked: int, share: SharePartition) -> None:
    """-1 names none."""
    if 0 <= asked < share.leader_epoch:
        raise Refusal(ErrorCode.FENCED_LEADER_EPOCH, f"the leader epoch is {share.leader_epoch}, not {asked}")


def _not_initialized() -> Refusal:
    return _invalid("the share-partition is not initialized: send InitializeShareGroupState first")


def _invalid(text: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, text)
