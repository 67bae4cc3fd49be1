"""Requests to schedules, their results, and the work that they ask for."""

from collections.abc import Sequence
from typing import NamedTuple

from headwater.coordination.schedule.events import Contents
from headwater.coordination.schedule.terms import ProducedBatch, Target


class ScheduleItem(NamedTuple):
    """A record to be scheduled."""

    when_ms: int
    # Whether `when_ms` is a delay that begins with the commit of the transaction.
    is_after_commit: bool
    contents: Contents


class Schedule(NamedTuple):
    """The delayed records of one produced batch are to be scheduled."""

    target: Target
    batch: ProducedBatch
    is_transactional: bool
    items: Sequence[ScheduleItem]


class ScheduledBatch(NamedTuple):
    """What was scheduled for a produced batch: named by the offset of the first entry."""

    first_offset: int
    # An earlier attempt of the producer has scheduled it.
    is_repeated: bool = False


class DueEntry(NamedTuple):
    offset: int
    due_ms: int


class Deliver(NamedTuple):
    """An effect: the batch to append to the target, under just this sequence, until it is there."""

    target: Target
    base_sequence: int
    # So many sequences the batch takes, whether all entries are still there or not.
    sequence_count: int
    entries: Sequence[DueEntry]


class ScheduleStatus(NamedTuple):
    """What is pending for one target."""

    target: Target
    pending_count: int
    size_bytes: int
    # -1 if nothing is due at any time.
    next_due_ms: int
