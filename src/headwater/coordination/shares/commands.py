"""Requests to share-partitions and their results, free of any wire format."""

from collections.abc import Sequence
from typing import NamedTuple

from headwater.coordination.shares.events import AcquiredRange
from headwater.coordination.shares.terms import AcknowledgeType, SharePartitionId
from headwater.ids import MemberId


class LogBatch(NamedTuple):
    """Offsets of the partition's log: a batch of records, or offsets between or in batches with nothing to deliver."""

    first: int
    last: int
    is_deliverable: bool
    # Whether the time of these records is over (time to live): they are given up instead of delivered.
    is_expired: bool = False


class Acquire(NamedTuple):
    member_id: MemberId
    # What the log has, in order and without a gap, from the offset on that `next_fetch_offset` names.
    batches: Sequence[LogBatch]
    records_max: int
    # Whether `records_max` and the limit of locks cut batches; otherwise a batch that has begun is taken whole.
    is_strict: bool = False
    # How long the records are held; None as the group's setting says.
    lock_duration_ms: int | None = None


class Acknowledgement(NamedTuple):
    """Offsets in the order of the log, with one type for all of them or one for each."""

    first: int
    last: int
    types: Sequence[int]


class AcknowledgedRange(NamedTuple):
    first: int
    last: int
    type: AcknowledgeType


class Acknowledged(NamedTuple):
    """How many records were acknowledged in which way."""

    accepted: int = 0
    released: int = 0
    rejected: int = 0
    renewed: int = 0
    # Of the released ones, those that had no attempt left.
    exhausted: int = 0


class Verdict(NamedTuple):
    """The same said of several records that one receive has given out."""

    type: AcknowledgeType
    # How long a released record waits, or a renewed one is held from now on; None as the group's settings say.
    duration_ms: int | None = None


class Settled(NamedTuple):
    acknowledged: Acknowledged
    # The offsets that the receive does not hold any more; nothing has changed about them.
    refused: frozenset[int]


class RecordsAvailable(NamedTuple):
    """An effect: records may be acquired that could not be before."""

    id: SharePartitionId
    # How many locks ran out, and how many of these records had no attempt left.
    expired: int = 0
    exhausted: int = 0


class RecordsGivenUp(NamedTuple):
    """An effect: records were archived without having been accepted."""

    id: SharePartitionId
    # How many of them because their time to live was over.
    expired: int = 0
    # Whether dead letters wait to be copied.
    has_letters: bool = False


class ShareStatus(NamedTuple):
    """A share-partition as administrators see it."""

    id: SharePartitionId
    state_epoch: int
    leader_epoch: int
    start_offset: int
    # Of the offsets from the start on, how many are in a final state.
    complete_count: int
    # The first offset that no member was given yet.
    end_offset: int
    acquired_count: int
    # Dead letters that are not written yet.
    letter_count: int = 0
    # Of the records that came back, how many wait for their next delivery.
    waiting_count: int = 0


AcquiredRanges = Sequence[AcquiredRange]
