"""The events of schedules. A durable event is one or more records of the log; it knows the offset of its first."""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from headwater.coordination.decisions import Now, volatile
from headwater.coordination.schedule.terms import ProducedBatch, Target


class Entry(NamedTuple):
    """One scheduled record, without its contents. Its name is the offset at which it lies in the schedule's log."""

    offset: int
    # When it is due; for a delay in a transaction, how long after the commit.
    when_ms: int
    is_after_commit: bool
    size: int
    id_hash: int


class Contents(NamedTuple):
    """What stays on disk of a scheduled record."""

    schedule_id: str | None
    record: bytes


class Scheduled(NamedTuple):
    """The delayed records of one produced batch."""

    target: Target
    batch: ProducedBatch
    is_transactional: bool
    entries: Sequence[Entry]
    # Empty where the event was read from the log.
    contents: Sequence[Contents] = ()

    @property
    def offset(self) -> int:
        return self.entries[0].offset

    @property
    def record_count(self) -> int:
        return len(self.entries)


class TransactionEnded(NamedTuple):
    """The marker of a producer's transaction. Delays that were produced in it begin now, or are gone."""

    offset: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_committed: bool
    ended_ms: int
    transaction_version: int = 1

    record_count = 1


class Moved(NamedTuple):
    """Entries are due at another time."""

    offset: int
    target: Target
    entries: Sequence[int]
    due_ms: int

    @property
    def record_count(self) -> int:
        return len(self.entries)


class DeliveryBegun(NamedTuple):
    """Entries are about to be appended to the target, as one batch of the schedule's own producer. Stored before the
    append, so that an append that is repeated after a crash is recognised by its sequence."""

    offset: int
    target: Target
    base_sequence: int
    entries: Sequence[int]

    record_count = 1


class Done(NamedTuple):
    """Entries that are pending no more: delivered, cancelled, or without a target."""

    offset: int
    target: Target
    entries: Sequence[int]
    # Entries that were moved have a second record.
    moved: Sequence[int] = ()
    # The target has refused their batch: if its producer uses these sequences again, it is for another attempt.
    is_withdrawn: bool = False

    @property
    def record_count(self) -> int:
        return len(self.entries) + len(self.moved)


class TargetForgotten(NamedTuple):
    """Nothing is known of the target any more."""

    offset: int
    target: Target

    record_count = 1


DurableEvent: TypeAlias = Scheduled | TransactionEnded | Moved | DeliveryBegun | Done | TargetForgotten


@volatile
class LogEnd(NamedTuple):
    """The log was read up to here."""

    offset: int


@volatile
class Loaded(NamedTuple):
    """All of the log was read. The targets have all batches but these, which are repeated, or never."""

    now: Now
    in_doubt: Sequence[tuple[Target, ProducedBatch]]


@volatile
class BatchAppended(NamedTuple):
    """The target has the batch that brought these entries, so that they may be delivered."""

    target: Target
    first_offset: int
    now: Now


@volatile
class TopicGone(NamedTuple):
    """Targets that do not exist any more."""

    targets: Sequence[Target]
    now: Now


@volatile
class ClockRead(NamedTuple):
    """How wall time and monotonic time stand to each other."""

    now: Now
