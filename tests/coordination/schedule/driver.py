"""Drives a machine of schedules without a broker, and rebuilds it from its durable events."""

from collections.abc import Sequence
from typing import Any, cast
from uuid import UUID

from headwater.coordination.decisions import VOLATILE_TYPES, Decision, Now
from headwater.coordination.schedule.commands import Deliver, Schedule, ScheduledBatch, ScheduleItem
from headwater.coordination.schedule.events import Contents, LogEnd, Scheduled
from headwater.coordination.schedule.machine import ScheduleMachine
from headwater.coordination.schedule.terms import ProducedBatch, Target
from headwater.errors import HeadwaterError
from headwater.ids import TopicId

TOPIC = TopicId(UUID(int=1))
TARGET = Target(TOPIC, 0)
NO_PRODUCER = ProducedBatch(-1, -1, -1, -1)
WALL_MS = 1_700_000_000_000


def batch(sequence: int, count: int = 1, producer_id: int = 7, epoch: int = 0) -> ProducedBatch:
    return ProducedBatch(producer_id, epoch, sequence, sequence + count - 1)


class Driver:
    def __init__(self) -> None:
        self.topics = {TOPIC}
        self.batches: set[tuple[Target, ProducedBatch]] = set()
        self.refusal: HeadwaterError | None = None
        self.log: list[Any] = []
        self.effects: list[Deliver] = []
        self.now = Now(WALL_MS, 0)
        self.machine = self._loaded()

    def _loaded(self) -> ScheduleMachine:
        machine = ScheduleMachine(
            self.topics.__contains__, lambda target, batch: (target, batch) in self.batches, lambda *_: self.refusal
        )
        for event in self.log:
            machine.apply(event)
        end = self.log[-1].offset + self.log[-1].record_count if self.log else 0
        machine.apply(LogEnd(end))
        self.machine = machine
        self._carry_out(machine.decide_loaded(self.now))
        return machine

    def restart(self, ahead_ms: int = 0) -> None:
        """What was under way is gone."""
        self.effects.clear()
        self.now = Now(self.now.wall_ms + ahead_ms, 0)
        self._loaded()

    def _carry_out(self, decision: Decision[Any]) -> Any:
        for event in decision.events:
            self.machine.apply(event)
            if type(event) not in VOLATILE_TYPES:
                # As it is read again: without contents.
                self.log.append(event._replace(contents=()) if isinstance(event, Scheduled) else event)
        self.effects += cast("Sequence[Deliver]", decision.effects)
        return decision.result

    def advance(self, milliseconds: int) -> None:
        self.now = Now(self.now.wall_ms + milliseconds, self.now.monotonic_ms + milliseconds)
        self.wake()

    def jump(self, milliseconds: int) -> None:
        self.now = self.now._replace(wall_ms=self.now.wall_ms + milliseconds)
        self.wake()

    def wake(self) -> None:
        while (due_ms := self.machine.next_deadline_ms()) is not None and due_ms <= self.now.monotonic_ms:
            self._carry_out(self.machine.decide_due(self.now))

    # -- commands

    def schedule(
        self,
        *delays_ms: int,
        target: Target = TARGET,
        produced: ProducedBatch = NO_PRODUCER,
        transactional: bool = False,
        name: str | None = None,
        confirmed: bool = True,
    ) -> ScheduledBatch:
        start_ms = 0 if transactional else self.now.wall_ms
        items = [ScheduleItem(start_ms + each, transactional, Contents(name, b"record")) for each in delays_ms]
        command = Schedule(target, produced, transactional, items)
        scheduled = self._carry_out(self.machine.decide_schedule(command))
        if confirmed:
            self.confirm(scheduled, target)
        return scheduled

    def confirm(self, scheduled: ScheduledBatch, target: Target = TARGET) -> None:
        self._carry_out(self.machine.decide_appended(target, scheduled.first_offset, self.now))

    def run(self, decision: Decision[Any]) -> Any:
        return self._carry_out(decision)

    def cancel(self, *offsets: int, target: Target = TARGET) -> int:
        return self._carry_out(self.machine.decide_cancel(target, offsets))

    def move(self, due_ms: int, *offsets: int, target: Target = TARGET) -> int:
        return self._carry_out(self.machine.decide_move(target, offsets, due_ms, self.now))

    def take(self) -> list[Deliver]:
        effects, self.effects = self.effects, []
        return effects

    def deliver(self) -> list[int]:
        """Everything that is due, acknowledged; gives the offsets in order."""
        delivered: list[int] = []
        while effects := self.take():
            for each in effects:
                delivered += [entry.offset for entry in each.entries]
                self._carry_out(self.machine.decide_delivered(each.target, each.base_sequence, self.now))
            self.wake()
        return delivered
