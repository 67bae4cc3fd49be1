"""The machine of one partition of `__headwater_schedule`: which records are scheduled, and which are due.

A record is named by its offset in that log, where its contents stay. The life of an entry: *held* until the target has
the rest of its batch, or its transaction is committed; *pending* until it is due, moved or cancelled; *under way* while
a delivery that names it is appended to the target, once; then gone.

Deadlines are wall time. It may jump: what is due is decided by the wall clock alone, and it is compared with the
monotonic clock, which the driver's timer runs on, at least every `CLOCK_CHECK_MS`.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import islice

from headwater.coordination.deadlines import Deadlines
from headwater.coordination.decisions import Decision, Now
from headwater.coordination.schedule.commands import (
    Deliver,
    DueEntry,
    Schedule,
    ScheduledBatch,
    ScheduleStatus,
)
from headwater.coordination.schedule.entries import HELD, PendingEntry
from headwater.coordination.schedule.events import (
    BatchAppended,
    ClockRead,
    DeliveryBegun,
    Done,
    Entry,
    Loaded,
    LogEnd,
    Moved,
    Scheduled,
    TargetForgotten,
    TopicGone,
    TransactionEnded,
)
from headwater.coordination.schedule.target_schedule import TargetSchedule
from headwater.coordination.schedule.terms import (
    DELIVERY_BYTES_MAX,
    DELIVERY_RECORDS_MAX,
    ProducedBatch,
    Target,
    hash_of_id,
)
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import TopicId
from headwater.protocol.batches.batch import Marker

# How soon a jump of the wall clock is noticed.
CLOCK_CHECK_MS = 1000
# Entries of a deleted topic go in steps, so that the event loop serves clients in between.
PURGE_ENTRIES = 2000
PURGE_PAUSE_MS = 10

# Whether a producer cannot repeat the batch any more, because the target has it.
HasBatch = Callable[[Target, ProducedBatch], bool]


class _Held:
    """Entries of one batch that may not be delivered yet."""

    __slots__ = ("entries", "is_transactional", "target")

    def __init__(self, event: Scheduled) -> None:
        self.target = event.target
        self.entries = event.entries
        self.is_transactional = event.is_transactional


class ScheduleMachine:
    def __init__(
        self,
        has_topic: Callable[[TopicId], bool],
        has_batch: HasBatch,
        refusal_of_more: Callable[[TopicId, int], HeadwaterError | None],
    ) -> None:
        """`refusal_of_more` says why so many entries more of a topic are too many."""
        self.targets: dict[Target, TargetSchedule] = {}
        self.counts: Counter[TopicId] = Counter()
        self._has_topic = has_topic
        self._has_batch = has_batch
        self._refusal_of_more = refusal_of_more
        # Batches that are held until their target has them, by target and first entry.
        self._held: dict[tuple[Target, int], _Held] = {}
        # Those held until the end of their producer's transaction.
        self._transactions: dict[int, list[_Held]] = {}
        # When each target is due, in wall time.
        self._due = Deadlines[Target]()
        self._next_offset = 0
        self._is_loading = True
        self._clock = Now(0, 0)

    # -- queries

    @property
    def count(self) -> int:
        return self.counts.total()

    def find(self, target: Target) -> TargetSchedule | None:
        found = self.targets.get(target)
        return None if found is None or found.is_gone else found

    def statuses(self, topic_id: TopicId) -> list[ScheduleStatus]:
        found: list[ScheduleStatus] = []
        for target, schedule in self.targets.items():
            if target.topic_id == topic_id and not schedule.is_gone and schedule.entries:
                due_ms = schedule.entries.next_due_ms()
                found.append(
                    ScheduleStatus(
                        target, len(schedule.entries), schedule.entries.size_bytes, -1 if due_ms is None else due_ms
                    )
                )
        return found

    def page(self, target: Target, after_offset: int, count_max: int) -> list[PendingEntry]:
        """The next entries behind one, in the order in which they were scheduled."""
        schedule = self.find(target)
        return [] if schedule is None else list(islice(schedule.entries.after(after_offset), count_max))

    def with_id(self, target: Target, schedule_id: str) -> list[int]:
        """Entries that may have this id: only their contents say so for certain."""
        schedule = self.find(target)
        return [] if schedule is None else schedule.entries.with_hash(hash_of_id(schedule_id))

    # -- produced batches

    def decide_schedule(self, command: Schedule) -> Decision[ScheduledBatch]:
        target, batch = command.target, command.batch
        schedule = self.targets.get(target)
        if schedule is not None and batch.producer_id >= 0:
            first_offset = schedule.recognise(batch)
            if first_offset is not None:
                if (target, first_offset) in self._held:
                    # Were both to go on, one might be withdrawn and the other acknowledged.
                    raise Refusal(ErrorCode.NOT_ENOUGH_REPLICAS, "an earlier attempt of the batch is under way")
                return Decision((), ScheduledBatch(first_offset, is_repeated=True))
        refusal = self._refusal_of_more(target.topic_id, len(command.items))
        if refusal is not None:
            raise refusal
        offset = self._next_offset
        entries = [
            Entry(
                offset + index,
                item.when_ms,
                item.is_after_commit,
                len(item.contents.record),
                hash_of_id(item.contents.schedule_id),
            )
            for index, item in enumerate(command.items)
        ]
        contents = [item.contents for item in command.items]
        event = Scheduled(target, batch, command.is_transactional, entries, contents)
        return Decision((event,), ScheduledBatch(offset))

    def decide_appended(self, target: Target, first_offset: int, now: Now) -> Decision[None]:
        """The target has the batch that brought the entries from `first_offset` on."""
        return Decision((BatchAppended(target, first_offset, now),), None)

    def decide_withdraw(self, target: Target, first_offset: int) -> Decision[bool]:
        """The target has refused the batch: none of it counts. False if entries are not held any more, because the
        machine was loaded since they were scheduled: they may be delivered already."""
        held = self._held.get((target, first_offset))
        if held is None:
            return Decision((), result=False)
        entries = [entry.offset for entry in held.entries]
        return Decision((Done(self._next_offset, target, entries, is_withdrawn=True),), result=True)

    def decide_end_transaction(
        self, producer_id: int, epoch: int, marker: Marker, version: int, now: Now
    ) -> Decision[None]:
        event = TransactionEnded(
            self._next_offset,
            producer_id,
            epoch,
            marker.coordinator_epoch,
            marker.committed,
            now.wall_ms,
            version,
        )
        return Decision((event, ClockRead(now)), None)

    # -- administration

    def decide_cancel(self, target: Target, entries: Collection[int]) -> Decision[int]:
        """How many were pending, and are not any more."""
        schedule, pending = self._pending(target, entries)
        if not pending:
            return Decision((), 0)
        moved = [offset for offset in pending if offset in schedule.moved]
        return Decision((Done(self._next_offset, target, pending, moved),), len(pending))

    def decide_move(self, target: Target, entries: Collection[int], due_ms: int, now: Now) -> Decision[int]:
        """How many were pending, and are due at another time."""
        _, pending = self._pending(target, entries)
        if not pending:
            return Decision((), 0)
        return Decision((Moved(self._next_offset, target, pending, due_ms), ClockRead(now)), len(pending))

    def _pending(self, target: Target, entries: Collection[int]) -> tuple[TargetSchedule, list[int]]:
        schedule = self.find(target)
        if schedule is None:
            raise Refusal(ErrorCode.RESOURCE_NOT_FOUND, "nothing is scheduled there")
        if schedule.delivery is not None and not set(entries).isdisjoint(schedule.delivery.entries):
            raise Refusal(ErrorCode.INVALID_RECORD_STATE, "the record is being delivered")
        found = ((offset, schedule.entries.due_ms(offset)) for offset in sorted(set(entries)))
        return schedule, [offset for offset, due_ms in found if due_ms is not None and due_ms >= 0]

    def decide_forget(self, now: Now) -> Decision[None]:
        """Schedules of deleted topics go."""
        gone = [each.id for each in self.targets.values() if not each.is_gone and not self._has_topic(each.id.topic_id)]
        return Decision((TopicGone(gone, now),) if gone else (), None)

    # -- deliveries

    def decide_delivered(self, target: Target, base_sequence: int, now: Now) -> Decision[None]:
        """The target has the batch of the delivery, on disk."""
        schedule = self.targets.get(target)
        delivery = None if schedule is None else schedule.delivery
        if schedule is None or delivery is None or delivery.base_sequence != base_sequence:
            return Decision((), None)
        moved = [offset for offset in delivery.entries if offset in schedule.moved]
        return Decision((Done(self._next_offset, target, delivery.entries, moved), ClockRead(now)), None)

    def decide_begin_again(self, target: Target, base_sequence: int, next_sequence: int) -> Decision[None]:
        """The target does not take this sequence, because it or this log was restored from a backup: the delivery is
        repeated under another."""
        schedule = self.targets.get(target)
        delivery = None if schedule is None else schedule.delivery
        if schedule is None or delivery is None or delivery.base_sequence != base_sequence:
            return Decision((), None)
        again = DeliveryBegun(self._next_offset, target, next_sequence, delivery.entries)
        return Decision((again,), None, effects=(self._deliver(schedule, again),))

    def _deliver(self, schedule: TargetSchedule, delivery: DeliveryBegun) -> Deliver:
        dues = ((offset, schedule.entries.due_ms(offset)) for offset in delivery.entries)
        entries = [DueEntry(offset, due_ms) for offset, due_ms in dues if due_ms is not None]
        return Deliver(schedule.id, delivery.base_sequence, len(delivery.entries), entries)

    # -- time

    def next_deadline_ms(self) -> int | None:
        due_ms = self._due.next_ms()
        if due_ms is None:
            return None
        clock = self._clock
        return clock.monotonic_ms + min(due_ms - clock.wall_ms, CLOCK_CHECK_MS)

    def decide_due(self, now: Now) -> Decision[None]:
        target = self._due.next_key()
        due_ms = self._due.next_ms()
        if target is None or due_ms is None or due_ms > now.wall_ms:
            return Decision((ClockRead(now),), None)
        schedule = self.targets[target]
        if schedule.is_gone:
            return self._decide_purge(schedule, now)
        entries = schedule.entries.due_before(now.wall_ms, DELIVERY_RECORDS_MAX, DELIVERY_BYTES_MAX)
        assert entries, "a target that is due has an entry that is due"
        begun = DeliveryBegun(self._next_offset, target, schedule.next_sequence, entries)
        return Decision((begun, ClockRead(now)), None, effects=(self._deliver(schedule, begun),))

    def _decide_purge(self, schedule: TargetSchedule, now: Now) -> Decision[None]:
        entries = list(islice(schedule.entries.offsets(), PURGE_ENTRIES))
        if not entries:
            return Decision((TargetForgotten(self._next_offset, schedule.id), ClockRead(now)), None)
        moved = [offset for offset in entries if offset in schedule.moved]
        return Decision((Done(self._next_offset, schedule.id, entries, moved), ClockRead(now)), None)

    def decide_loaded(self, now: Now) -> Decision[None]:
        in_doubt = [
            (target, batch)
            for target, schedule in self.targets.items()
            for known in schedule.unconfirmed.values()
            for batch, _ in known
            if not self._has_batch(target, batch)
        ]
        deliveries = [
            self._deliver(each, each.delivery)
            for each in self.targets.values()
            if each.delivery is not None and any(offset in each.entries for offset in each.delivery.entries)
        ]
        gone = [each.id for each in self.targets.values() if not self._has_topic(each.id.topic_id)]
        return Decision((Loaded(now, in_doubt), TopicGone(gone, now)), None, effects=deliveries)

    # -- events

    def apply(self, event: object) -> None:
        match event:
            case Scheduled():
                self._apply_scheduled(event)
            case Done():
                self._apply_done(event)
            case DeliveryBegun():
                self._target(event.target).begin(event)
                self._due.cancel(event.target)
            case BatchAppended():
                self._apply_appended(event)
            case TransactionEnded():
                self._apply_transaction_ended(event)
            case Moved():
                self._apply_moved(event)
            case ClockRead():
                self._clock = event.now
            case TopicGone():
                self._apply_topic_gone(event)
            case TargetForgotten():
                self.targets.pop(event.target, None)
                self._due.cancel(event.target)
            case LogEnd():
                self._next_offset = event.offset
            case Loaded():
                self._apply_loaded(event)
            case _:
                raise TypeError(f"no event of schedules: {event!r}")
        if not self._is_loading and isinstance(
            event, Scheduled | Done | DeliveryBegun | TransactionEnded | Moved | TargetForgotten
        ):
            self._next_offset = event.offset + event.record_count

    def _apply_scheduled(self, event: Scheduled) -> None:
        schedule = self._target(event.target)
        entries = schedule.entries
        is_held = event.is_transactional or not self._is_loading
        for offset, when_ms, _, size, id_hash in event.entries:
            entries.add(offset, HELD if is_held else when_ms, size, id_hash)
        self.counts[event.target.topic_id] += len(event.entries)
        schedule.remember(event.batch, event.offset)
        if not is_held:
            return
        held = _Held(event)
        if event.is_transactional:
            self._transactions.setdefault(event.batch.producer_id, []).append(held)
        if not self._is_loading:
            self._held[event.target, event.offset] = held

    def _apply_appended(self, event: BatchAppended) -> None:
        self._clock = event.now
        held = self._held.pop((event.target, event.first_offset), None)
        schedule = self.targets.get(event.target)
        if schedule is None:
            return
        schedule.confirm(event.first_offset)
        if held is not None and not held.is_transactional:
            for entry in held.entries:
                schedule.entries.set_due(entry.offset, entry.when_ms)
            self._note_due(schedule)

    def _apply_transaction_ended(self, event: TransactionEnded) -> None:
        for held in self._transactions.pop(event.producer_id, ()):
            self._held.pop((held.target, held.entries[0].offset), None)
            schedule = self.targets.get(held.target)
            if schedule is None:
                continue
            schedule.unconfirmed.pop(event.producer_id, None)
            if event.is_committed:
                for entry in held.entries:
                    due_ms = entry.when_ms + (event.ended_ms if entry.is_after_commit else 0)
                    schedule.entries.set_due(entry.offset, due_ms)
            else:
                self._remove(schedule, [entry.offset for entry in held.entries])
            if not self._is_loading:
                self._note_due(schedule)

    def _apply_done(self, event: Done) -> None:
        schedule = self.targets.get(event.target)
        if schedule is None:
            return
        self._held.pop((event.target, event.entries[0]), None)
        self._remove(schedule, event.entries)
        if event.is_withdrawn:
            schedule.forget(frozenset(event.entries))
        if schedule.delivery is not None and schedule.delivery.entries is event.entries:
            schedule.delivery = None
        if not self._is_loading:
            self._note_due(schedule)

    def _remove(self, schedule: TargetSchedule, entries: Sequence[int]) -> None:
        before = len(schedule.entries)
        for offset in entries:
            schedule.entries.remove(offset)
        schedule.moved.difference_update(entries)
        if not schedule.is_gone:
            self.counts[schedule.id.topic_id] -= before - len(schedule.entries)

    def _apply_moved(self, event: Moved) -> None:
        schedule = self.targets.get(event.target)
        if schedule is None:
            return
        for offset in event.entries:
            # Compaction may have left the move of an entry that is gone.
            if offset in schedule.entries:
                schedule.entries.set_due(offset, event.due_ms)
                schedule.moved.add(offset)
        if not self._is_loading:
            self._note_due(schedule)

    def _apply_topic_gone(self, event: TopicGone) -> None:
        self._clock = event.now
        for target in event.targets:
            schedule = self.targets[target]
            schedule.is_gone = True
            schedule.delivery = None
            self.counts.pop(target.topic_id, None)
            self._due.set(target, event.now.wall_ms)

    def _apply_loaded(self, event: Loaded) -> None:
        self._is_loading = False
        self._clock = event.now
        in_doubt = set(event.in_doubt)
        for target, schedule in self.targets.items():
            schedule.unconfirmed = {
                producer_id: kept
                for producer_id, known in schedule.unconfirmed.items()
                if (kept := [each for each in known if (target, each[0]) in in_doubt])
            }
            delivery = schedule.delivery
            if delivery is not None and not any(offset in schedule.entries for offset in delivery.entries):
                schedule.delivery = delivery = None
            schedule.entries.loaded(frozenset(() if delivery is None else delivery.entries))
            self._note_due(schedule)

    def _note_due(self, schedule: TargetSchedule) -> None:
        if schedule.is_gone:
            self._due.set(schedule.id, self._clock.wall_ms + PURGE_PAUSE_MS)
            return
        due_ms = schedule.due_ms()
        if due_ms is None:
            self._due.cancel(schedule.id)
        else:
            self._due.set(schedule.id, due_ms)

    def _target(self, target: Target) -> TargetSchedule:
        schedule = self.targets.get(target)
        if schedule is None:
            schedule = self.targets[target] = TargetSchedule(target, is_new=not self._is_loading)
        return schedule
