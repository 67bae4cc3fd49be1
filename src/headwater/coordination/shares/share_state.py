"""What is known of one share-partition: the state of each record, and how a change of it is stored.

`apply` is the only writer, live and in recovery. What decides changes is in `share_partition.py`.
"""

from collections.abc import Iterator, Sequence

from headwater.coordination.decisions import Now
from headwater.coordination.shares.events import (
    Acquired,
    AcquiredRange,
    Deferred,
    LocksChecked,
    Renewed,
    Resumed,
    ShareSnapshotStored,
    ShareUpdated,
    Skipped,
    StateBatch,
)
from headwater.coordination.shares.limits import ShareLimits
from headwater.coordination.shares.outbox import GivenUp, LetterTarget, Outbox, OutboxChange
from headwater.coordination.shares.pending import PendingAcknowledgements, PendingTransaction
from headwater.coordination.shares.runs import NOBODY, Run, Runs
from headwater.coordination.shares.terms import DeliveryState
from headwater.ids import ProducerId

_HELD = frozenset({DeliveryState.ACQUIRED, DeliveryState.PENDING})


class ShareState:
    def __init__(self, first: ShareSnapshotStored) -> None:
        self.id = first.id
        self.created_ms = first.created_ms
        self.snapshot_epoch = first.snapshot_epoch
        self.state_epoch = first.state_epoch
        self.leader_epoch = first.leader_epoch
        self.updates_since_snapshot = 0
        self.runs = Runs(first.start_offset)
        self.outbox = Outbox(first.outbox)
        self.pending = PendingAcknowledgements()
        # No lock and no wait ends before this time; None if there is neither.
        self.next_deadline_ms: int | None = None
        _put(self.runs, first.batches)
        for transaction in first.pending:
            self._add_pending(transaction)

    # -- changes

    def _decide_change(
        self,
        changes: Sequence[StateBatch],
        limits: ShareLimits,
        now: Now,
        given_up: Sequence[GivenUp] = (),
        ended: ProducerId | None = None,
    ) -> Sequence[object]:
        """`changes` are in the order of the log, and of offsets in no final state. Of them, those that are `given_up`
        become dead letters. They come about by the end of a producer's transaction, if one has `ended`."""
        runs = self.runs
        start = self._start_after(changes)
        finished = sum(each.last - each.first + 1 for each in changes if each.state.is_final)
        final_count = runs.final_count + finished - (start - runs.start)
        kept = [each for each in changes if each.last >= start]
        letters = self.outbox.addition(given_up, now.wall_ms) if given_up else None
        update = ShareUpdated(
            self.id, self.snapshot_epoch, self.leader_epoch, start, final_count, kept, letters, ended=ended
        )
        events: list[object] = [update]
        if self.updates_since_snapshot + 1 >= limits.updates_per_snapshot:
            after = runs.copy()
            _put(after, changes)
            after.advance(start)
            events.append(self._snapshot(after, now, letters, ended))
        if limits.backoff_ms:
            events += self._deferred(changes, limits, now)
        return events

    def _deferred(self, changes: Sequence[StateBatch], limits: ShareLimits, now: Now) -> Iterator[Deferred]:
        """Records that were given back wait, the longer the more often they were delivered."""
        by_count: dict[int, list[AcquiredRange]] = {}
        for first, last, state, count in changes:
            if state is DeliveryState.AVAILABLE:
                by_count.setdefault(count, []).append(AcquiredRange(first, last, count))
        for count, ranges in by_count.items():
            yield Deferred(self.id, ranges, now.monotonic_ms + limits.backoff_after(count))

    def _start_after(self, changes: Sequence[StateBatch]) -> int:
        """The start moves past everything that is done with."""
        runs = self.runs
        offset = runs.start
        left = iter(changes)
        change = next(left, None)
        while True:
            while change is not None and change.last < offset:
                change = next(left, None)
            if change is not None and change.first <= offset:
                if not change.state.is_final:
                    return offset
                offset = change.last + 1
                continue
            run = runs.at(offset)
            if run is None or not run.is_final:
                return offset
            offset = run.last + 1

    def decide_letters_written(self, before: int) -> ShareUpdated:
        """The letters before this number are copied."""
        return self._outbox_changed(OutboxChange(written_before=before))

    def decide_letter_target(self, target: LetterTarget) -> ShareUpdated:
        """Letters are copied there from now on. None may be copied already that still waits."""
        return self._outbox_changed(OutboxChange(target=target))

    def _outbox_changed(self, change: OutboxChange) -> ShareUpdated:
        runs = self.runs
        return ShareUpdated(self.id, self.snapshot_epoch, self.leader_epoch, runs.start, runs.final_count, (), change)

    def _snapshot(
        self, runs: Runs, now: Now, letters: OutboxChange | None = None, ended: ProducerId | None = None
    ) -> ShareSnapshotStored:
        outbox = self.outbox
        if letters is not None:
            outbox = Outbox(outbox.stored())
            outbox.apply(letters)
        return ShareSnapshotStored(
            self.id,
            self.snapshot_epoch + 1,
            self.state_epoch,
            self.leader_epoch,
            runs.start,
            runs.final_count,
            self.created_ms,
            now.wall_ms,
            [batch for run in runs if (batch := _stored(run)) is not None],
            outbox.stored(),
            self.pending.stored(runs.start, runs.end, without=ended),
        )

    # -- state

    def apply(self, event: object) -> None:
        match event:
            case ShareUpdated():
                _put(self.runs, event.batches)
                self.runs.advance(event.start_offset)
                self.leader_epoch = event.leader_epoch
                self.updates_since_snapshot += 1
                if event.outbox is not None:
                    self.outbox.apply(event.outbox)
                if event.pending is not None:
                    self._add_pending(event.pending)
                if event.ended is not None:
                    self.pending.remove(event.ended)
            case ShareSnapshotStored():
                # The same as what is known, but for acquisitions, which it lacks: one of another state epoch would
                # begin a new `SharePartition`.
                assert event.state_epoch == self.state_epoch
                self.snapshot_epoch = event.snapshot_epoch
                self.updates_since_snapshot = 0
            case Acquired(_, member_id, ranges, deadline_ms) | Renewed(_, member_id, ranges, deadline_ms):
                for first, last, count in ranges:
                    self.runs.set(Run(first, last, DeliveryState.ACQUIRED, count, member_id, deadline_ms))
                self._expect(deadline_ms)
            case Deferred(_, ranges, until_ms):
                for first, last, count in ranges:
                    self.runs.set(Run(first, last, DeliveryState.WAITING, count, NOBODY, until_ms))
                self._expect(until_ms)
            case Resumed(_, ranges):
                for first, last, count in ranges:
                    self.runs.set(Run(first, last, DeliveryState.AVAILABLE, count))
            case Skipped(_, ranges):
                for first, last in ranges:
                    self.runs.set(Run(first, last, DeliveryState.ARCHIVED, 0))
            case LocksChecked(_, next_deadline_ms):
                self.next_deadline_ms = next_deadline_ms
            case _:
                raise AssertionError(f"not an event of a share-partition: {event!r}")

    def _add_pending(self, transaction: PendingTransaction) -> None:
        self.pending.add(transaction)
        for first, last, count, _ in transaction.batches:
            run = self.runs.at(first)
            hold = NOBODY if run is None else run.member_id
            self.runs.set(Run(first, last, DeliveryState.PENDING, count, hold))

    def _expect(self, deadline_ms: int) -> None:
        if self.next_deadline_ms is None or deadline_ms < self.next_deadline_ms:
            self.next_deadline_ms = deadline_ms


def state_after_release(run: Run, limits: ShareLimits) -> DeliveryState:
    if run.delivery_count >= limits.delivery_count_max:
        # Out of attempts: a record that fails every member must leave the queue.
        return DeliveryState.ARCHIVED
    return DeliveryState.AVAILABLE


def _put(runs: Runs, batches: Sequence[StateBatch]) -> None:
    for first, last, state, count in batches:
        runs.set(Run(first, last, state, count, NOBODY))


def _stored(run: Run) -> StateBatch | None:
    """What a restart must know of a run; None if nothing."""
    state, count = run.state, run.delivery_count
    if state in _HELD:
        # As it was before: a delivery counts once it has ended.
        state, count = DeliveryState.AVAILABLE, count - 1
    elif state is DeliveryState.WAITING:
        state = DeliveryState.AVAILABLE
    if state is DeliveryState.AVAILABLE and count == 0:
        return None
    return StateBatch(run.first, run.last, state, count)
