"""The machine of one shard: its share-partitions, each of one group.

Pure: no clock, no I/O. It finds the share-partition that a command names, begins and ends share-partitions, and knows
their deadlines.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from headwater.coordination.deadlines import Deadlines
from headwater.coordination.decisions import Decision, Now
from headwater.coordination.shares import state_requests
from headwater.coordination.shares.commands import (
    Acknowledged,
    AcknowledgedRange,
    Acquire,
    AcquiredRanges,
    RecordsAvailable,
    RecordsGivenUp,
    Settled,
    ShareStatus,
    Verdict,
)
from headwater.coordination.shares.events import (
    Acquired,
    Deferred,
    LocksChecked,
    Renewed,
    Resumed,
    ShareForgotten,
    ShareSnapshotStored,
    ShareUpdated,
    ShareUpdatesForgotten,
    Skipped,
)
from headwater.coordination.shares.limits import ShareLimits
from headwater.coordination.shares.outbox import LetterTarget
from headwater.coordination.shares.share_partition import SharePartition
from headwater.coordination.shares.state_requests import ReadState, WriteState
from headwater.coordination.shares.terms import AcknowledgeType, SharePartitionId
from headwater.coordination.transactions.commands import PROTOCOL_2
from headwater.errors import ErrorCode, Refusal
from headwater.ids import GroupId, MemberId, ProducerId, TopicId


class ShareMachine:
    def __init__(
        self,
        limits_of: Callable[[GroupId], ShareLimits],
        has_topic: Callable[[TopicId], bool],
        has_room: Callable[[], bool],
    ) -> None:
        self.partitions: dict[SharePartitionId, SharePartition] = {}
        self._limits_of = limits_of
        self._has_topic = has_topic
        self._has_room = has_room
        self._deadlines: Deadlines[SharePartitionId] = Deadlines()
        # Those with acknowledgements of open transactions, as an ordered set.
        self._with_pending: dict[SharePartitionId, None] = {}

    def find(self, share_id: SharePartitionId) -> SharePartition | None:
        return self.partitions.get(share_id)

    # -- members

    def decide_begin(
        self, share_id: SharePartitionId, start_offset: int, leader_epoch: int, now: Now
    ) -> Decision[None]:
        """The group reads this partition for the first time, from this offset on."""
        share = self.partitions.get(share_id)
        if share is not None:
            return share.decide_begin(start_offset, leader_epoch)
        self._check_room()
        began = ShareSnapshotStored(share_id, 0, 0, leader_epoch, start_offset, 0, now.wall_ms, now.wall_ms, ())
        return Decision([began], None, effects=[RecordsAvailable(share_id)])

    def _check_room(self) -> None:
        if not self._has_room():
            raise Refusal(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                "there are too many share-partitions (headwater.share.partitions.max): delete some share groups",
            )

    def decide_acquire(self, share_id: SharePartitionId, command: Acquire, now: Now) -> Decision[AcquiredRanges]:
        share = self._existing(share_id)
        return share.decide_acquire(command, self._limits_of(share_id.group_id), now)

    def decide_acknowledge(
        self, share_id: SharePartitionId, member_id: MemberId, ranges: Sequence[AcknowledgedRange], now: Now
    ) -> Decision[Acknowledged]:
        share = self._existing(share_id)
        return share.decide_acknowledge(member_id, ranges, self._limits_of(share_id.group_id), now)

    def decide_settle(
        self, share_id: SharePartitionId, hold: MemberId, offsets: Collection[int], verdict: Verdict, now: Now
    ) -> Decision[Settled]:
        share = self.partitions.get(share_id)
        if share is None:
            # The group or the topic was deleted.
            return Decision((), Settled(Acknowledged(), frozenset(offsets)))
        return share.decide_settle(hold, offsets, verdict, self._limits_of(share_id.group_id), now)

    def decide_settle_in_transaction(
        self,
        share_id: SharePartitionId,
        hold: MemberId,
        offsets: Collection[int],
        kind: AcknowledgeType,
        producer_id: ProducerId,
        producer_epoch: int,
    ) -> Decision[Settled]:
        share = self.partitions.get(share_id)
        if share is None:
            return Decision((), Settled(Acknowledged(), frozenset(offsets)))
        return share.decide_settle_in_transaction(hold, offsets, kind, producer_id, producer_epoch)

    def decide_end_transaction(
        self, producer_id: ProducerId, producer_epoch: int, protocol_version: int, now: Now, *, is_committed: bool
    ) -> Decision[Mapping[SharePartitionId, Acknowledged]]:
        """The end of a producer's transaction, in all share-partitions of this shard. It may be repeated."""
        events: list[object] = []
        effects: list[object] = []
        results: dict[SharePartitionId, Acknowledged] = {}
        for share_id in self._with_pending:
            share = self.partitions[share_id]
            known = share.pending.of(producer_id)
            if known is None:
                continue
            # In protocol 2 the marker of a transaction has a higher epoch than its requests.
            oldest = known.producer_epoch + (protocol_version >= PROTOCOL_2)
            if producer_epoch < oldest:
                raise Refusal(
                    ErrorCode.INVALID_PRODUCER_EPOCH,
                    f"producer {producer_id} has epoch {known.producer_epoch}, the marker {producer_epoch}",
                )
            limits = self._limits_of(share_id.group_id)
            decision = share.decide_end_transaction(producer_id, limits, now, is_committed=is_committed)
            events += decision.events
            effects += decision.effects
            results[share_id] = decision.result
        return Decision(events, results, effects=effects)

    def decide_return(self, share_id: SharePartitionId, hold: MemberId, first: int) -> Decision[int]:
        share = self.partitions.get(share_id)
        return Decision((), 0) if share is None else share.decide_return(hold, first)

    def decide_release_all(self, share_id: SharePartitionId, member_id: MemberId, now: Now) -> Decision[None]:
        share = self.partitions.get(share_id)
        if share is None:
            return Decision((), None)
        return share.decide_release_all(member_id, self._limits_of(share_id.group_id), now)

    def decide_log_start(self, share_id: SharePartitionId, log_start_offset: int) -> Decision[None]:
        share = self.partitions.get(share_id)
        return Decision(() if share is None else share.decide_log_start(log_start_offset), None)

    def decide_leader_epoch(
        self, share_id: SharePartitionId, leader_epoch: int, end_offset: int, now: Now
    ) -> Decision[None]:
        share = self.partitions.get(share_id)
        return Decision(() if share is None else share.decide_leader_epoch(leader_epoch, end_offset, now), None)

    # -- dead letters

    def decide_letters_written(self, share_id: SharePartitionId, state_epoch: int, before: int) -> Decision[None]:
        """The letters before this number are copied. Ignored if the group has begun again meanwhile."""
        share = self.partitions.get(share_id)
        if share is None or share.state_epoch != state_epoch:
            return Decision((), None)
        # Fetches may wait because too many letters did.
        effects = [RecordsAvailable(share_id)] if share.outbox.is_full else []
        return Decision([share.decide_letters_written(before)], None, effects=effects)

    def decide_letter_target(
        self, share_id: SharePartitionId, state_epoch: int, target: LetterTarget
    ) -> Decision[None]:
        share = self.partitions.get(share_id)
        if share is None or share.state_epoch != state_epoch:
            return Decision((), None)
        return Decision([share.decide_letter_target(target)], None)

    # -- other brokers

    def decide_initialize(
        self, share_id: SharePartitionId, state_epoch: int, start_offset: int, now: Now
    ) -> Decision[None]:
        share = self.partitions.get(share_id)
        if share is None:
            self._check_room()
        return state_requests.decide_initialize(share, share_id, state_epoch, start_offset, now)

    def decide_read(self, share_id: SharePartitionId, leader_epoch: int, now: Now) -> Decision[ReadState]:
        return state_requests.decide_read(self.partitions.get(share_id), leader_epoch, now)

    def decide_write(self, share_id: SharePartitionId, command: WriteState, now: Now) -> Decision[None]:
        limits = self._limits_of(share_id.group_id)
        return state_requests.decide_write(self.partitions.get(share_id), command, limits, now)

    # -- administration

    def decide_restart(
        self, share_id: SharePartitionId, start_offset: int, leader_epoch: int, now: Now
    ) -> Decision[None]:
        """Begin at that offset, and forget what is known. The caller has made sure that the group has no members."""
        share = self.partitions.get(share_id)
        if share is None:
            return self.decide_begin(share_id, start_offset, leader_epoch, now)
        return Decision([share.decide_restart(start_offset, now)], None, effects=[RecordsAvailable(share_id)])

    def decide_forget(self, concerns: Callable[[SharePartitionId], bool]) -> Decision[None]:
        return Decision(_forget(each for each in self.partitions if concerns(each)), None)

    def decide_snapshots(self, now: Now) -> Decision[None]:
        """Write all that is known once more, so that what the log has now may be deleted."""
        return Decision([share.decide_snapshot(now) for share in self.partitions.values()], None)

    def status(self, share_id: SharePartitionId) -> ShareStatus | None:
        share = self.partitions.get(share_id)
        return None if share is None else share.status()

    def statuses(self, group_id: GroupId) -> Sequence[ShareStatus]:
        return [share.status() for share_id, share in self.partitions.items() if share_id.group_id == group_id]

    # -- time

    def next_deadline_ms(self) -> int | None:
        return self._deadlines.next_ms()

    def decide_due(self, now: Now) -> Decision[None]:
        share_id = self._deadlines.next_key()
        assert share_id is not None, "something is due"
        return self.partitions[share_id].decide_due(self._limits_of(share_id.group_id), now)

    def decide_loaded(self, now: Now) -> Decision[None]:
        """A crash may have come between the deletion of a topic and that of what groups knew of it. Dead letters that
        wait are copied."""
        del now
        waiting = [
            RecordsGivenUp(share_id, has_letters=True)
            for share_id, share in self.partitions.items()
            if share.outbox.size
        ]
        forgotten = _forget(each for each in self.partitions if not self._has_topic(each.topic_id))
        return Decision(forgotten, None, effects=waiting)

    # -- state

    def apply(self, event: object) -> None:
        match event:
            case ShareSnapshotStored():
                known = self.partitions.get(event.id)
                if known is None or known.state_epoch != event.state_epoch:
                    self.partitions[event.id] = begun = SharePartition(event)
                    self._deadlines.cancel(event.id)
                    self._follow_pending(begun)
                else:
                    known.apply(event)
            case ShareForgotten(share_id):
                self.partitions.pop(share_id, None)
                self._deadlines.cancel(share_id)
                self._with_pending.pop(share_id, None)
            case ShareUpdatesForgotten():
                pass
            case ShareUpdated() | Acquired() | Skipped() | Renewed() | Deferred() | Resumed() | LocksChecked():
                share = self.partitions.get(event.id)
                # Without a snapshot, all that is left of it was deleted.
                if share is not None:
                    share.apply(event)
                    self._follow(share)
            case _:
                raise AssertionError(f"not an event of share-partitions: {event!r}")

    def _follow(self, share: SharePartition) -> None:
        if share.next_deadline_ms is None:
            self._deadlines.cancel(share.id)
        else:
            self._deadlines.set(share.id, share.next_deadline_ms)
        self._follow_pending(share)

    def _follow_pending(self, share: SharePartition) -> None:
        if share.pending:
            self._with_pending[share.id] = None
        else:
            self._with_pending.pop(share.id, None)

    def _existing(self, share_id: SharePartitionId) -> SharePartition:
        share = self.partitions.get(share_id)
        if share is None:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the group knows nothing of {share_id.partition} yet")
        return share


def _forget(share_ids: Iterable[SharePartitionId]) -> Sequence[object]:
    return [forgotten(each) for each in share_ids for forgotten in (ShareForgotten, ShareUpdatesForgotten)]
