"""A share-partition: who holds which record, until when, and which records are done with (KIP-932).

Pure: no clock, no I/O. `decide_*` returns events; `apply` is the only writer, live and in recovery. An acquisition is
volatile: a restart ends it, and the record counts as delivered once less. All else is stored before a member is told.
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import groupby

from headwater.coordination.decisions import Decision, Now
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
    AcquiredRange,
    LocksChecked,
    Renewed,
    Resumed,
    ShareEvent,
    ShareSnapshotStored,
    ShareUpdated,
    Skipped,
    StateBatch,
)
from headwater.coordination.shares.limits import ShareLimits
from headwater.coordination.shares.outbox import GivenUp, without_lost
from headwater.coordination.shares.runs import Run, Runs
from headwater.coordination.shares.share_state import state_after_release
from headwater.coordination.shares.terms import NOT_BEGUN, AcknowledgeType, DeliveryState
from headwater.coordination.shares.transactional_share import TransactionalShare
from headwater.errors import ErrorCode, Refusal
from headwater.ids import MemberId
from headwater.protocol.batches.dead_letter_headers import Reason

_FINAL_BY_TYPE = {
    AcknowledgeType.GAP: DeliveryState.ARCHIVED,
    AcknowledgeType.ACCEPT: DeliveryState.ACKNOWLEDGED,
    AcknowledgeType.REJECT: DeliveryState.ARCHIVED,
}


class SharePartition(TransactionalShare):
    @property
    def has_begun(self) -> bool:
        """Whether it is known where the group begins."""
        return self.runs.start != NOT_BEGUN

    @property
    def next_fetch_offset(self) -> int:
        """The first offset that a member could acquire."""
        return self.runs.first_available()

    def has_room(self, locks_max: int) -> bool:
        """Whether anything could be acquired, if the log has it: all that is in flight is available again at some
        time, so no more than this may be unfinished. Nor may more dead letters wait than are kept."""
        has_records = self.runs.available_count > 0 or self.runs.unfinished_count < locks_max
        return has_records and not self.outbox.is_full

    def available_size(self, first: int, last: int) -> int:
        """How many of these offsets may be acquired."""
        return sum(high - low + 1 for low, high, _ in self._available(first, last))

    def status(self) -> ShareStatus:
        runs = self.runs
        return ShareStatus(
            self.id,
            self.state_epoch,
            self.leader_epoch,
            runs.start,
            runs.final_count,
            runs.end,
            runs.acquired_count,
            self.outbox.size,
            runs.waiting_count,
        )

    # -- members

    def decide_acquire(self, command: Acquire, limits: ShareLimits, now: Now) -> Decision[AcquiredRanges]:
        runs = self.runs
        left = command.records_max
        room = limits.locks_max - runs.unfinished_count
        acquired: list[AcquiredRange] = []
        skipped: list[tuple[int, int]] = []
        archived: list[StateBatch] = []
        letters: list[GivenUp] = []
        expired = 0
        for batch in command.batches:
            if left <= 0:
                break
            is_cut = False
            for first, last, count in self._available(batch.first, batch.last):
                if not batch.is_deliverable:
                    skipped.append((first, last))
                    continue
                if batch.is_expired:
                    archived.append(StateBatch(first, last, DeliveryState.ARCHIVED, count))
                    expired += last - first + 1
                    if limits.has_expired_dead_letters:
                        letters.append(GivenUp(first, last, count, Reason.EXPIRED))
                    continue
                if count >= limits.delivery_count_max:
                    # The limit was lowered since the record was given back.
                    archived.append(StateBatch(first, last, DeliveryState.ARCHIVED, count))
                    letters.append(GivenUp(first, last, count, Reason.EXHAUSTED))
                    continue
                if command.is_strict and left <= 0:
                    is_cut = True
                    break
                end = last
                if first >= runs.end:
                    if room <= 0:
                        is_cut = True
                        break
                    if command.is_strict:
                        end = min(end, first + room - 1)
                    room -= end - first + 1
                if command.is_strict:
                    end = min(end, first + left - 1)
                acquired.append(AcquiredRange(first, end, count + 1))
                left -= end - first + 1
                if end < last:
                    is_cut = True
                    break
            if is_cut:
                break
        acquired = _joined(acquired)
        events: list[object] = []
        if skipped:
            events.append(Skipped(self.id, skipped))
        if acquired:
            deadline_ms = now.monotonic_ms + (command.lock_duration_ms or limits.lock_duration_ms)
            events.append(Acquired(self.id, command.member_id, acquired, deadline_ms))
        if not archived:
            return Decision(events, acquired)
        if not limits.has_dead_letters:
            letters.clear()
        events += self._decide_change(archived, limits, now, letters)
        return Decision(events, acquired, effects=[RecordsGivenUp(self.id, expired, bool(letters))])

    def _available(self, first: int, last: int) -> Sequence[tuple[int, int, int]]:
        """The offsets of a batch that may be acquired, with their delivery counts."""
        runs = self.runs
        found = [
            (max(run.first, first), min(run.last, last), run.delivery_count)
            for run in runs.within(first, last)
            if run.state is DeliveryState.AVAILABLE
        ]
        if last >= runs.end:
            found.append((max(first, runs.end), last, 0))
        return found

    def decide_acknowledge(
        self, member_id: MemberId, ranges: Sequence[AcknowledgedRange], limits: ShareLimits, now: Now
    ) -> Decision[Acknowledged]:
        """All of the ranges count, or none does."""
        changes: list[StateBatch] = []
        renewed: list[AcquiredRange] = []
        tally = dict.fromkeys(AcknowledgeType, 0)
        letters: list[GivenUp] = []
        exhausted = 0
        for first, last, kind in ranges:
            for run in self._held_by(member_id, first, last, kind):
                tally[kind] += run.size
                if kind is AcknowledgeType.RENEW:
                    renewed.append(AcquiredRange(run.first, run.last, run.delivery_count))
                    continue
                state = _FINAL_BY_TYPE.get(kind) or state_after_release(run, limits)
                if kind is AcknowledgeType.RELEASE and state is DeliveryState.ARCHIVED:
                    exhausted += run.size
                changes.append(StateBatch(run.first, run.last, state, run.delivery_count))
                if limits.has_dead_letters and state is DeliveryState.ARCHIVED and kind is not AcknowledgeType.GAP:
                    reason = Reason.REJECTED if kind is AcknowledgeType.REJECT else Reason.EXHAUSTED
                    letters.append(GivenUp(run.first, run.last, run.delivery_count, reason))
        events: list[object] = []
        effects: list[object] = []
        if renewed:
            events.append(Renewed(self.id, member_id, renewed, now.monotonic_ms + limits.lock_duration_ms))
        if changes:
            events += self._decide_change(changes, limits, now, letters)
            # Records that were released, or room below the limit of locks.
            effects.append(RecordsAvailable(self.id))
        if letters:
            effects.append(RecordsGivenUp(self.id, has_letters=True))
        result = Acknowledged(
            accepted=tally[AcknowledgeType.ACCEPT],
            released=tally[AcknowledgeType.RELEASE],
            rejected=tally[AcknowledgeType.REJECT],
            renewed=tally[AcknowledgeType.RENEW],
            exhausted=exhausted,
        )
        return Decision(events, result, effects=effects)

    def _held_by(self, member_id: MemberId, first: int, last: int, kind: AcknowledgeType) -> list[Run]:
        """The runs, cut to these offsets, which the member must hold. Offsets before the start are done with already:
        retention deleted them, or an administrator moved the start."""
        first = max(first, self.runs.start)
        if first > last:
            return []
        if last >= self.runs.end:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"offset {last} was never given to a member")
        held: list[Run] = []
        for run in self.runs.within(first, last):
            if kind is AcknowledgeType.GAP and run.is_final:
                continue
            if not _is_held_by(run, member_id):
                raise Refusal(
                    ErrorCode.INVALID_RECORD_STATE,
                    f"offset {max(run.first, first)} is not held by member '{member_id}': "
                    "its lock may have run out (share.record.lock.duration.ms)",
                )
            held.append(Run(max(run.first, first), min(run.last, last), *run[2:]))
        return held

    def decide_settle(
        self, hold: MemberId, offsets: Collection[int], verdict: Verdict, limits: ShareLimits, now: Now
    ) -> Decision[Settled]:
        """As `decide_acknowledge`, by receipts: each counts for itself, whether the others do or not."""
        held = sorted(offset for offset in offsets if self._is_held(hold, offset))
        ranges = [AcknowledgedRange(first, last, verdict.type) for first, last in _neighbours(held)]
        if verdict.duration_ms is not None:
            limits = limits.for_once(verdict.duration_ms)
        decision = self.decide_acknowledge(hold, ranges, limits, now)
        settled = Settled(decision.result, frozenset(offsets).difference(held))
        return Decision(decision.events, settled, effects=decision.effects)

    def _is_held(self, hold: MemberId, offset: int) -> bool:
        run = self.runs.at(offset)
        return run is not None and _is_held_by(run, hold)

    def decide_return(self, hold: MemberId, first: int) -> Decision[int]:
        """What was acquired from offset `first` on was not given to a client after all: the delivery does not count.
        Gives the number of records."""
        held = [run for run in self.runs.within(first, self.runs.end - 1) if _is_held_by(run, hold)]
        if not held:
            return Decision((), 0)
        returned = [AcquiredRange(max(run.first, first), run.last, run.delivery_count - 1) for run in held]
        count = sum(each.last - each.first + 1 for each in returned)
        return Decision([Resumed(self.id, returned)], count, effects=[RecordsAvailable(self.id)])

    def decide_release_all(self, member_id: MemberId, limits: ShareLimits, now: Now) -> Decision[None]:
        """The member is gone, or ends its session. Its deliveries count: a record that kills its members must leave the
        queue at some time."""
        held = [run for run in self.runs if _is_held_by(run, member_id)]
        if not held:
            return Decision((), None)
        changes = [
            StateBatch(run.first, run.last, state_after_release(run, limits), run.delivery_count) for run in held
        ]
        exhausted = sum(each.last - each.first + 1 for each in changes if each.state.is_final)
        effects = [
            RecordsAvailable(self.id, exhausted=exhausted),
            *self._given_up(letters := _exhausted(changes, limits)),
        ]
        return Decision(self._decide_change(changes, limits, now, letters), None, effects=effects)

    def _given_up(self, letters: Sequence[GivenUp]) -> Sequence[RecordsGivenUp]:
        return [RecordsGivenUp(self.id, has_letters=True)] if letters else []

    # -- time

    def decide_due(self, limits: ShareLimits, now: Now) -> Decision[None]:
        """The members of expired locks have lost their records, and records that waited long enough are available."""
        changes: list[StateBatch] = []
        resumed: list[AcquiredRange] = []
        expired = exhausted = 0
        next_ms: int | None = None
        for run in self.runs:
            if run.state is not DeliveryState.ACQUIRED and run.state is not DeliveryState.WAITING:
                continue
            if run.deadline_ms > now.monotonic_ms:
                next_ms = run.deadline_ms if next_ms is None else min(next_ms, run.deadline_ms)
                continue
            if run.state is DeliveryState.WAITING:
                resumed.append(AcquiredRange(run.first, run.last, run.delivery_count))
                continue
            state = state_after_release(run, limits)
            expired += run.size
            exhausted += run.size if state is DeliveryState.ARCHIVED else 0
            changes.append(StateBatch(run.first, run.last, state, run.delivery_count))
        events: list[object] = [LocksChecked(self.id, next_ms)]
        if resumed:
            events.append(Resumed(self.id, resumed))
        letters = _exhausted(changes, limits)
        if changes:
            events += self._decide_change(changes, limits, now, letters)
        effects = [RecordsAvailable(self.id, expired, exhausted)] if expired or resumed else []
        return Decision(events, None, effects=[*effects, *self._given_up(letters)])

    # -- administration

    def decide_begin(self, start_offset: int, leader_epoch: int) -> Decision[None]:
        """The group begins here, unless it has begun: another broker may have initialized the state without saying
        where."""
        if self.has_begun:
            return Decision((), None)
        began = ShareUpdated(self.id, self.snapshot_epoch, leader_epoch, start_offset, 0, ())
        return Decision([began], None, effects=[RecordsAvailable(self.id)])

    def decide_log_start(self, log_start_offset: int) -> Sequence[ShareEvent]:
        """Records before this offset are deleted. Members that hold some of them need not acknowledge them."""
        runs = self.runs
        if log_start_offset <= runs.start:
            return ()
        final = sum(
            min(run.last, log_start_offset - 1) - run.first + 1
            for run in runs.within(runs.start, log_start_offset - 1)
            if run.is_final
        )
        return [
            ShareUpdated(
                self.id, self.snapshot_epoch, self.leader_epoch, log_start_offset, runs.final_count - final, ()
            )
        ]

    def decide_leader_epoch(self, leader_epoch: int, end_offset: int, now: Now) -> Sequence[ShareEvent]:
        """The log has a new leader epoch; of the one that is known, it has the records before `end_offset`. What was
        acknowledged behind it was lost with the tail of the log, and other records have these offsets now."""
        runs = self.runs
        if leader_epoch == self.leader_epoch:
            return ()
        if runs.end <= end_offset:
            return [ShareUpdated(self.id, self.snapshot_epoch, leader_epoch, runs.start, runs.final_count, ())]
        kept = Runs(min(runs.start, end_offset))
        for run in runs.within(runs.start, end_offset - 1):
            kept.set(Run(run.first, min(run.last, end_offset - 1), *run[2:]))
        stored = self._snapshot(kept, now)._replace(state_epoch=self.state_epoch + 1, leader_epoch=leader_epoch)
        return [stored if stored.outbox is None else stored._replace(outbox=without_lost(stored.outbox, end_offset))]

    def decide_restart(self, start_offset: int, now: Now) -> ShareSnapshotStored:
        """Begin again at an offset: everything else is forgotten."""
        return ShareSnapshotStored(
            self.id,
            self.snapshot_epoch + 1,
            self.state_epoch + 1,
            self.leader_epoch,
            start_offset,
            0,
            self.created_ms,
            now.wall_ms,
            (),
        )

    def decide_snapshot(self, now: Now) -> ShareSnapshotStored:
        return self._snapshot(self.runs, now)


def _is_held_by(run: Run, member_id: MemberId) -> bool:
    return run.state is DeliveryState.ACQUIRED and run.member_id == member_id


def _exhausted(changes: Sequence[StateBatch], limits: ShareLimits) -> Sequence[GivenUp]:
    """Of records that their members did not acknowledge, the dead letters: those without an attempt left."""
    if not limits.has_dead_letters:
        return ()
    return [
        GivenUp(first, last, count, Reason.EXHAUSTED)
        for first, last, state, count in changes
        if state is DeliveryState.ARCHIVED
    ]


def _neighbours(offsets: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Ascending offsets as ranges."""
    for _, numbered in groupby(enumerate(offsets), lambda pair: pair[1] - pair[0]):
        near = [offset for _, offset in numbered]
        yield near[0], near[-1]


def _joined(ranges: Sequence[AcquiredRange]) -> list[AcquiredRange]:
    """Neighbours with the same delivery count become one."""
    joined: list[AcquiredRange] = []
    for each in ranges:
        if joined and joined[-1].last + 1 == each.first and joined[-1].delivery_count == each.delivery_count:
            joined[-1] = AcquiredRange(joined[-1].first, each.last, each.delivery_count)
        else:
            joined.append(each)
    return joined
