"""Drives one machine over one internal partition: decide, apply, append, and answer once everything is on disk.

There is one path: the events that change the machine live are the events that rebuild it. They are applied at once, so
that the next command is decided on their outcome; what was decided together is one batch of the log; and no answer, not
even that of a mere question, leaves before everything it may rest on is on disk. Where an append fails, the machine has
gone ahead of its log: it is dropped and rebuilt.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar, cast

from headwater.broker.pending import Pending
from headwater.broker.shards.state_log import StateLog
from headwater.broker.writes.append import Append
from headwater.broker.writes.journal import Journal
from headwater.clock import Clock
from headwater.coordination.decisions import Answer, Decision, Now, Ticket, Volatile, Waiting
from headwater.errors import ErrorCode, HeadwaterError, Refusal

logger = logging.getLogger(__name__)

# Read and applied in one go while loading: a few milliseconds, in which nobody else is served.
LOAD_STEP_BYTES = 128 << 10
RELOAD_PAUSE_S = 0.1
RELOAD_PAUSE_S_MAX = 10
# How long events that nobody waits for are held back, to be written along with others.
WRITE_LATER_S = 0.1


class Machine(Protocol):
    def apply(self, event: object) -> None: ...

    def next_deadline_ms(self) -> int | None:
        """When time alone changes something, on the monotonic clock."""
        ...

    def decide_due(self, now: Now) -> Decision[None]:
        """What the deadline brings about that is due first; its events move or cancel that deadline."""
        ...

    def decide_loaded(self, now: Now) -> Decision[None]:
        """What begins anew with a machine that was rebuilt from its log."""
        ...


MachineT = TypeVar("MachineT", bound=Machine)
ResultT = TypeVar("ResultT")

Outcome: TypeAlias = ResultT | HeadwaterError
Decide: TypeAlias = Callable[[MachineT, Ticket, Now], Decision[ResultT | Waiting]]


class _Reply(NamedTuple):
    """Somebody is told an outcome."""

    pending: Pending[object]
    outcome: object

    def send(self) -> None:
        try:
            self.pending.resolve(self.outcome)
        except Exception:
            # Whoever cannot take its result must not keep the others from theirs.
            logger.exception("an outcome could not be told")


class _Effect(NamedTuple):
    """Something is to be done. What is lost with a machine, the one that is loaded in its place decides again."""

    perform: Callable[[object], None]
    effect: object

    def send(self) -> None:
        try:
            self.perform(self.effect)
        except Exception:
            # Nor may this keep others from theirs, or pass for a failure of the disk that has just been written to.
            logger.exception("%s could not be done", self.effect)


class Shard(Generic[MachineT]):
    def __init__(
        self,
        log: StateLog[Any],
        make_machine: Callable[[], MachineT],
        journal: Journal,
        clock: Clock,
        perform: Callable[[object], None] | None = None,
    ) -> None:
        # None while it is not loaded: until then, and after it was lost.
        self.machine: MachineT | None = None
        self._log = log
        self._make_machine = make_machine
        self._perform = perform
        self._journal = journal
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._trouble = Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{self.name} is being loaded")
        # Events of this turn and those that could wait, and the replies that wait for them.
        self._unwritten: list[object] = []
        self._is_write_due = False
        self._later: asyncio.TimerHandle | None = None
        self._held: list[_Reply | _Effect] = []
        # Replies that wait for an append, in the order of the appends.
        self._in_flight: deque[list[_Reply | _Effect]] = deque()
        self._waiting: dict[Ticket, Pending[object]] = {}
        self._ticket_count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._reloading: asyncio.Task[None] | None = None
        self._reload_pause_s = RELOAD_PAUSE_S
        self._is_closed = False

    @property
    def name(self) -> str:
        return str(self._log.partition.id)

    # -- loading

    async def load(self) -> int:
        """Rebuilds the machine, step by step so that others are served in between; gives the number of events."""
        assert self.machine is None, "a machine is loaded once"
        machine = self._make_machine()
        count = 0
        try:
            for events in self._log.replay(LOAD_STEP_BYTES):
                for event in events:
                    machine.apply(event)
                count += len(events)
                await asyncio.sleep(0)
            await self._log.settle()
            begun = machine.decide_loaded(self._now())
        except HeadwaterError as error:
            logger.error("%s cannot be loaded: %s", self.name, error)
            self._trouble = Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error))
            return count
        except Exception as error:
            # Too many open files, for one: it may well be over soon.
            logger.exception("%s cannot be loaded and is tried again", self.name)
            self._trouble = Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self.name} cannot be loaded: {error}")
            self._load_later()
            return count
        self.machine = machine
        self._take(machine, begun)
        return count

    def drop(self, reason: str) -> None:
        """The machine is gone, and whoever waits for it is told to look for its coordinator again."""
        self.machine = None
        self._trouble = Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, reason)
        for timer in (self._timer, self._later):
            if timer is not None:
                timer.cancel()
        self._timer = self._later = None
        held = chain(chain.from_iterable(self._in_flight), self._held)
        waiting = [*(reply.pending for reply in held if isinstance(reply, _Reply)), *self._waiting.values()]
        self._unwritten, self._held = [], []
        self._in_flight.clear()
        self._waiting.clear()
        for pending in waiting:
            _Reply(pending, self._trouble).send()

    def end_waits(self) -> None:
        """Whoever waits for a decision that may be long in coming is told to look for its coordinator again."""
        stopping = Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker stops")
        waiting, self._waiting = self._waiting, {}
        for pending in waiting.values():
            _Reply(pending, stopping).send()

    async def close(self) -> None:
        self._is_closed = True
        # What could wait is not left to the next start, which would do it again.
        self.write_staged(self._clock.now_ms())
        self.drop(f"{self.name} is closed, for the broker stops")
        if self._reloading is not None:
            self._reloading.cancel()
            await asyncio.gather(self._reloading, return_exceptions=True)

    # -- commands

    def submit(self, decide: Decide[MachineT, ResultT]) -> Pending[Outcome[ResultT]]:
        """The result, or why it was refused, once everything that it rests on is on disk."""
        pending: Pending[Outcome[ResultT]] = Pending()
        machine = self.machine
        if machine is None:
            pending.resolve(self._trouble)
            return pending
        self._ticket_count += 1
        ticket = Ticket(self._ticket_count)
        waiter = cast("Pending[object]", pending)
        try:
            decision = decide(machine, ticket, self._now())
            self._log.check(decision.events)
        except HeadwaterError as error:
            self._reply([_Reply(waiter, error.kept())])
            return pending
        if isinstance(decision.result, Waiting):
            self._waiting[ticket] = waiter
            self._take(machine, decision)
        else:
            self._take(machine, decision, [_Reply(waiter, decision.result)])
        return pending

    def tell(self, decide: Decide[MachineT, None]) -> None:
        """A command of which nothing is lost if a crash undoes it, for it is then given again: its events are written
        with those of the next, or a moment later."""
        machine = self.machine
        if machine is not None:
            self._ticket_count += 1
            decision = decide(machine, Ticket(self._ticket_count), self._now())
            self._log.check(decision.events)
            self._take(machine, decision, can_wait=True)

    def wake(self) -> None:
        """Lets happen what is due by now."""
        self._timer = None
        machine = self.machine
        if machine is None:
            return
        now = self._now()
        try:
            while self.machine is machine and (due_ms := machine.next_deadline_ms()) is not None:
                if due_ms > now.monotonic_ms:
                    break
                decision = machine.decide_due(now)
                assert decision.events, "a deadline that is due must move or go"
                self._take(machine, decision)
        except Exception:
            logger.exception("%s failed at a deadline and is loaded again", self.name)
            self._lost("it failed at a deadline")
        else:
            self._set_timer(machine)

    def _now(self) -> Now:
        return Now(self._clock.now_ms(), self._clock.monotonic_ms())

    def _take(
        self,
        machine: MachineT,
        decision: Decision[object],
        replies: Sequence[_Reply | _Effect] = (),
        *,
        can_wait: bool = False,
    ) -> None:
        try:
            for event in decision.events:
                machine.apply(event)
        except Exception:
            # Half of it is applied: what the machine is now, no log would rebuild.
            logger.exception("%s cannot take its own events and is loaded again", self.name)
            self._held += replies
            self._lost("it could not take its own events")
            return
        durable = [event for event in decision.events if not isinstance(event, Volatile)]
        if durable:
            self._unwritten += durable
            if can_wait:
                self._write_later()
            else:
                self._write_soon()
        if decision.answers:
            replies = [*replies, *self._answers(decision.answers)]
        if decision.effects:
            assert self._perform is not None, "a machine with effects has somebody to perform them"
            replies = [*replies, *(_Effect(self._perform, effect) for effect in decision.effects)]
        self._reply(replies)
        self._set_timer(machine)

    def _answers(self, answers: Sequence[Answer]) -> Iterator[_Reply]:
        for ticket, result in answers:
            waiter = self._waiting.pop(ticket, None)
            # When the broker stops, some were sent away while the machine still knows them.
            if waiter is not None:
                yield _Reply(waiter, result)

    def _reply(self, replies: Sequence[_Reply | _Effect]) -> None:
        if self._unwritten:
            if replies:
                self._held += replies
                self._write_soon()
        elif self._in_flight:
            self._in_flight[-1] += replies
        else:
            for reply in replies:
                reply.send()

    # -- the log

    def _write_soon(self) -> None:
        if not self._is_write_due:
            self._is_write_due = True
            self._journal.write_soon(self)

    def _write_later(self) -> None:
        if not self._is_write_due and self._later is None:
            self._later = self._loop.call_later(WRITE_LATER_S, self._write_overdue)

    def _write_overdue(self) -> None:
        self._later = None
        if self._unwritten:
            self._write_soon()

    def write_staged(self, now_ms: int) -> None:
        """End of turn: what was decided in it becomes one batch."""
        self._is_write_due = False
        events, self._unwritten = self._unwritten, []
        replies, self._held = self._held, []
        if not events:
            return
        self._in_flight.append(replies)
        try:
            self._log.append(events, Append(lambda append: self._appended(append, replies)), now_ms)
        except Exception as error:
            if not isinstance(error, HeadwaterError):
                logger.exception("events of %s cannot be written", self.name)
            self._lost(str(error))

    def _appended(self, append: Append, replies: list[_Reply | _Effect]) -> None:
        # An append that a machine made which is gone concerns nobody any more.
        if append.error is not None:
            # A write that is refused overtakes those that wait for the disk.
            if any(each is replies for each in self._in_flight):
                self._lost(str(append.error))
            return
        # What is written gets to the disk in its order.
        if not self._in_flight or self._in_flight[0] is not replies:
            return
        self._in_flight.popleft()
        self._reload_pause_s = RELOAD_PAUSE_S
        for reply in replies:
            reply.send()

    def _lost(self, reason: str) -> None:
        logger.error("%s is dropped and loaded again: %s", self.name, reason)
        self.drop(f"{self.name} is loaded again: {reason}")
        self._load_later()

    def _load_later(self) -> None:
        if not self._is_closed:
            self._reloading = self._loop.create_task(self._reload(), name=f"load {self.name}")

    async def _reload(self) -> None:
        # What is wrong, a full disk for one, will hardly be right at once.
        pause_s, self._reload_pause_s = self._reload_pause_s, min(2 * self._reload_pause_s, RELOAD_PAUSE_S_MAX)
        await asyncio.sleep(pause_s)
        await self.load()

    # -- time

    def _set_timer(self, machine: MachineT) -> None:
        due_ms = machine.next_deadline_ms()
        if due_ms is None:
            return
        if self._timer is not None:
            if due_ms >= self._timer_ms:
                # It wakes too early at worst, and looks again.
                return
            self._timer.cancel()
        self._timer_ms = due_ms
        delay_ms = max(due_ms - self._clock.monotonic_ms(), 0)
        self._timer = self._loop.call_later(delay_ms / 1000, self.wake)
