"""Bugs that break a promise of share groups each, for a broker in a process of its own."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

from headwater.broker.schedule.delivery import Delivery
from headwater.broker.shares.coordinator import ShareCoordinator
from headwater.broker.shares.dead_letters import DeadLetterWriter
from headwater.broker.shares.expiry import Expiry
from headwater.coordination.decisions import Decision
from headwater.coordination.schedule.entries import PendingEntries
from headwater.coordination.schedule.events import TransactionEnded
from headwater.coordination.schedule.machine import ScheduleMachine
from headwater.coordination.shares import share_partition
from headwater.coordination.shares.commands import AcknowledgedRange, Acquire
from headwater.coordination.shares.events import AcquiredRange, Skipped
from headwater.coordination.shares.outbox import GivenUp, Outbox, OutboxChange
from headwater.coordination.shares.share_partition import SharePartition
from headwater.coordination.shares.terms import AcknowledgeType, DeliveryState
from headwater.errors import Refusal
from headwater.protocol.batches.dead_letter_headers import Reason
from headwater.storage.log import Log
from tests.faults.histories.planted import Bug

EACH = 7
EARLY_MS = 500


def _due() -> Any:
    """True once in a few calls."""
    numbers = count(1)
    return lambda: next(numbers) % EACH == 0


def _give_out_what_is_held() -> None:
    right = SharePartition.decide_acquire

    def wrong(self: SharePartition, command: Acquire, limits: Any, now: Any) -> Decision[Any]:
        decision = right(self, command, limits, now)
        held = [
            AcquiredRange(run.first, run.last, run.delivery_count)
            for batch in command.batches
            for run in self.runs.within(batch.first, batch.last)
            if run.state is DeliveryState.ACQUIRED and run.member_id != command.member_id
        ]
        if decision.result or not held:
            return decision
        event = share_partition.Acquired(self.id, command.member_id, held, now.monotonic_ms + limits.lock_duration_ms)
        return Decision([event], held)

    SharePartition.decide_acquire = wrong
    # A fetch looks only where something is available.
    SharePartition.next_fetch_offset = property(lambda self: self.runs.start)  # pyright: ignore[reportAttributeAccessIssue]
    SharePartition.has_room = lambda *_: True  # pyright: ignore[reportAttributeAccessIssue]
    SharePartition.available_size = lambda *_: 1  # pyright: ignore[reportAttributeAccessIssue]


def _acknowledge(replace: Any) -> None:
    """Wrap acknowledgements: what was said is replaced, and the answer is as if it was not."""
    right = SharePartition.decide_acknowledge
    is_due = _due()

    def wrong(
        self: SharePartition, member_id: Any, ranges: Sequence[AcknowledgedRange], limits: Any, now: Any
    ) -> Decision[Any]:
        return right(self, member_id, replace(ranges) if is_due() else ranges, limits, now)

    SharePartition.decide_acknowledge = wrong


def _forget_acceptances() -> None:
    _acknowledge(lambda ranges: [each._replace(type=AcknowledgeType.RELEASE) for each in ranges])


def _reject_what_was_accepted() -> None:
    _acknowledge(lambda ranges: [each._replace(type=AcknowledgeType.REJECT) for each in ranges])


def _skip_records() -> None:
    right = SharePartition.decide_acquire
    is_due = _due()

    def wrong(self: SharePartition, command: Acquire, limits: Any, now: Any) -> Decision[Any]:
        decision = right(self, command, limits, now)
        if not decision.result or not is_due():
            return decision
        return Decision([Skipped(self.id, [each[:2] for each in decision.result])], ())

    SharePartition.decide_acquire = wrong


def _limit(more: int) -> Any:
    def plant() -> None:
        right = ShareCoordinator.limits_of

        def wrong(self: ShareCoordinator, group_id: Any) -> Any:
            limits = right(self, group_id)
            return limits._replace(delivery_count_max=limits.delivery_count_max + more)

        ShareCoordinator.limits_of = wrong

    return plant


def _forget_letters() -> None:
    right = Outbox.addition

    def wrong(self: Outbox, given_up: Sequence[GivenUp], time_ms: int) -> OutboxChange:
        kept = [each for each in given_up if each.reason is not Reason.REJECTED]
        return right(self, kept, time_ms)

    Outbox.addition = wrong


def _write_letters_twice() -> None:
    """The writer forgets now and then that it has written them, and nothing recognises what it writes again."""
    right = DeadLetterWriter._done
    is_due = _due()

    async def wrong(self: DeadLetterWriter, share: Any, before: int, **more: Any) -> bool:
        return False if is_due() else await right(self, share, before, **more)

    DeadLetterWriter._done = wrong
    DeadLetterWriter._last_sequence = lambda *_: -1  # pyright: ignore[reportAttributeAccessIssue]
    Log.check_sequence = lambda *_: None  # pyright: ignore[reportAttributeAccessIssue]


def _give_out_what_expired() -> None:
    Expiry.applied = lambda self, scan, *_: scan  # pyright: ignore[reportAttributeAccessIssue]


def _take_late_acknowledgements() -> None:
    right = SharePartition._held_by

    def wrong(self: SharePartition, member_id: Any, first: int, last: int, kind: Any) -> Any:
        try:
            return right(self, member_id, first, last, kind)
        except Refusal:
            # Nothing is done, and the member is told that it counts.
            return []

    SharePartition._held_by = wrong


# -- delayed records


def _deliver_early() -> None:
    right = PendingEntries.due_before

    def wrong(self: PendingEntries, until_ms: int, count_max: int, bytes_max: int) -> list[int]:
        return right(self, until_ms + EARLY_MS, count_max, bytes_max)

    PendingEntries.due_before = wrong


def _deliver_twice() -> None:
    right = Delivery.run
    is_due = _due()

    async def wrong(self: Delivery) -> bool:
        if is_due():
            Log.check_sequence = lambda *_: None  # pyright: ignore[reportAttributeAccessIssue]
            await right(self)
        return await right(self)

    Delivery.run = wrong


def _deliver_nothing() -> None:
    right = Delivery.run
    is_due = _due()

    async def wrong(self: Delivery) -> bool:
        return True if is_due() else await right(self)

    Delivery.run = wrong


def _ignore_cancellations() -> None:
    ScheduleMachine.decide_cancel = lambda self, target, entries: Decision((), len(entries))  # pyright: ignore[reportAttributeAccessIssue]


def _deliver_what_was_aborted() -> None:
    right = ScheduleMachine._apply_transaction_ended

    def wrong(self: ScheduleMachine, event: TransactionEnded) -> None:
        right(self, event._replace(is_committed=True))

    ScheduleMachine._apply_transaction_ended = wrong


class QueueBug(NamedTuple):
    plant: Any
    # What the checker says; empty if one of several things.
    text: str


_BUGS: Mapping[str, QueueBug] = {
    "give-out-what-is-held": QueueBug(_give_out_what_is_held, "given to two at once"),
    "forget-acceptances": QueueBug(_forget_acceptances, "was accepted 2 times"),
    "reject-what-was-accepted": QueueBug(_reject_what_was_accepted, "although nobody rejected it"),
    "skip-records": QueueBug(_skip_records, "neither accepted nor given up"),
    "deliver-once-more": QueueBug(_limit(1), "was delivered for the 4th time"),
    "give-up-early": QueueBug(_limit(-1), "was given up after 2 deliveries"),
    "forget-letters": QueueBug(_forget_letters, "was rejected, and is no dead letter"),
    "write-letters-twice": QueueBug(_write_letters_twice, "dead letters"),
    "give-out-what-expired": QueueBug(_give_out_what_expired, "had expired"),
    "take-late-acknowledgements": QueueBug(_take_late_acknowledgements, ""),
}
SHARE_TEXTS: Mapping[str, str] = {name: bug.text for name, bug in _BUGS.items()}
_DELAY_BUGS: Mapping[str, QueueBug] = {
    "deliver-early": QueueBug(_deliver_early, "appeared early"),
    "deliver-twice": QueueBug(_deliver_twice, "appeared twice"),
    "deliver-nothing": QueueBug(_deliver_nothing, "never appeared"),
    "ignore-cancellations": QueueBug(_ignore_cancellations, "was cancelled and appeared"),
    "deliver-what-was-aborted": QueueBug(_deliver_what_was_aborted, "was aborted and appeared"),
}
DELAY_TEXTS: Mapping[str, str] = {name: bug.text for name, bug in _DELAY_BUGS.items()}
QUEUE_BUGS: Mapping[str, Bug] = {
    **{name: Bug("I14", ["sharer"], bug.plant) for name, bug in _BUGS.items()},
    **{name: Bug("I15", ["delayer"], bug.plant) for name, bug in _DELAY_BUGS.items()},
}
