"""Drives the machine of one shard as its driver does: decides, applies, keeps the log and advances a manual clock.

Each decision is made twice and must come out the same: deciding does not change the machine.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from uuid import UUID

from headwater.coordination.decisions import VOLATILE_TYPES, Decision, Now
from headwater.coordination.shares.acknowledgement import ranges_of
from headwater.coordination.shares.commands import Acknowledged, Acknowledgement, Acquire, LogBatch
from headwater.coordination.shares.limits import ShareLimits
from headwater.coordination.shares.machine import ShareMachine
from headwater.coordination.shares.share_partition import SharePartition
from headwater.coordination.shares.terms import AcknowledgeType, SharePartitionId
from headwater.ids import GroupId, MemberId, TopicId

ResultT = TypeVar("ResultT")

ORDERS = SharePartitionId(GroupId("billing"), TopicId(UUID(int=1)), 0)
ANN, BOB = MemberId("ann"), MemberId("bob")
LOCK_MS = 30_000
UNLIMITED = 1 << 30
ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT
RENEW, GAP = AcknowledgeType.RENEW, AcknowledgeType.GAP


class Driver:
    def __init__(self, limits: ShareLimits | None = None, start_offset: int | None = 0) -> None:
        self.limits = limits or ShareLimits(lock_duration_ms=LOCK_MS)
        self.monotonic_ms = 1000
        self.log: list[object] = []
        self.effects: list[object] = []
        self.topics = {ORDERS.topic_id}
        self.machine = self.new_machine()
        if start_offset is not None:
            self.begin(start_offset)

    def new_machine(self) -> ShareMachine:
        return ShareMachine(lambda _: self.limits, self.topics.__contains__, lambda: True)

    @property
    def now(self) -> Now:
        return Now(1_700_000_000_000 + self.monotonic_ms, self.monotonic_ms)

    @property
    def share(self) -> SharePartition:
        return self.machine.partitions[ORDERS]

    def run(self, decide: Callable[[], Decision[ResultT]]) -> ResultT:
        decision = decide()
        assert decision == decide(), "deciding must not change the machine"
        for event in decision.events:
            self.machine.apply(event)
            if type(event) not in VOLATILE_TYPES:
                self.log.append(event)
        self.effects += decision.effects
        return decision.result

    def begin(self, start_offset: int, share_id: SharePartitionId = ORDERS) -> None:
        self.run(lambda: self.machine.decide_begin(share_id, start_offset, 0, self.now))

    def acquire(
        self,
        member_id: MemberId,
        *batches: tuple[int, int] | tuple[int, int, bool],
        records_max: int = UNLIMITED,
        is_strict: bool = False,
    ) -> list[tuple[int, int, int]]:
        """First and last offset and delivery count of what the member gets."""
        read = [LogBatch(batch[0], batch[1], batch[2] if len(batch) > 2 else True) for batch in batches]
        command = Acquire(member_id, read, records_max, is_strict)
        given = self.run(lambda: self.machine.decide_acquire(ORDERS, command, self.now))
        return [(first, last, count) for first, last, count in given]

    def acknowledge(self, member_id: MemberId, *batches: tuple[int, int, int | Sequence[int]]) -> Acknowledged:
        asked = [
            Acknowledgement(first, last, [types] if isinstance(types, int) else list(types))
            for first, last, types in batches
        ]
        ranges = ranges_of(asked, allows_renewal=True)
        return self.run(lambda: self.machine.decide_acknowledge(ORDERS, member_id, ranges, self.now))

    def release_all(self, member_id: MemberId) -> None:
        self.run(lambda: self.machine.decide_release_all(ORDERS, member_id, self.now))

    def advance(self, milliseconds: int) -> None:
        self.monotonic_ms += milliseconds
        while (due_ms := self.machine.next_deadline_ms()) is not None and due_ms <= self.monotonic_ms:
            before = (self.machine.next_deadline_ms(), len(self.log))
            self.run(lambda: self.machine.decide_due(self.now))
            assert (self.machine.next_deadline_ms(), len(self.log)) != before, "a deadline that is due must move or go"

    def restart(self, log: Sequence[object] | None = None) -> None:
        """Rebuild the machine from its log, or from what is left of it."""
        self.log = list(self.log if log is None else log)
        self.machine = self.new_machine()
        for event in self.log:
            self.machine.apply(event)
        self.run(lambda: self.machine.decide_loaded(self.now))

    def states(self) -> dict[int, tuple[str, int]]:
        """State and delivery count of every offset between start and end."""
        return {
            offset: (run.state.name, run.delivery_count)
            for run in self.share.runs
            for offset in range(run.first, run.last + 1)
        }

    def forget(self, concerns: Callable[[Any], bool]) -> None:
        self.run(lambda: self.machine.decide_forget(concerns))
