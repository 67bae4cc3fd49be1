"""Drives one machine over one internal partition: decide, apply, append, and reply once everything is on disk.

The events that change the machine live are the same that rebuild it from its log. They are applied at once, so that the
next command is decided on their outcome. All events of one loop turn are one batch of the log (`GroupLog` needs more
for transactions). No reply, not even to a query, leaves before everything that it may rest on is on disk. When an
append fails, the machine is ahead of its log: it is dropped and rebuilt.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar, cast

from headwater.broker.pending import Pending
from headwater.broker.shards.state_log import StateLog
from headwater.broker.writes.journal import Append, Journal
from headwater.clock import Clock
from headwater.coordination.decisions import VOLATILE_TYPES, Answer, Decision, Now, Ticket, Waiting
from headwater.errors import ErrorCode, HeadwaterError, Refusal

logger = logging.getLogger(__name__)

# Bytes that are read and applied in one step of a load: a few milliseconds, in which the loop serves no client.
LOAD_STEP_BYTES = 128 << 10
RELOAD_PAUSE_S = 0.1
RELOAD_PAUSE_S_MAX = 10
# How long events that no client waits for are held back, to be written in one batch with others.
WRITE_LATER_S = 0.1


class Machine(Protocol):
    def apply(self, event: object) -> None: ...

    def next_deadline_ms(self) -> int | None:
        """The earliest time at which the machine changes without a command, on the monotonic clock."""
        ...

    def decide_due(self, now: Now) -> Decision[None]:
        """Decide what the earliest deadline brings about. The events must move or cancel that deadline."""
        ...

    def decide_loaded(self, now: Now) -> Decision[None]:
        """Decide what must start again after the machine was rebuilt from its log."""
        ...


MachineT = TypeVar("MachineT", bound=Machine)
ResultT = TypeVar("ResultT")

Outcome: TypeAlias = ResultT | HeadwaterError
Decide: TypeAlias = Callable[[MachineT, Ticket, Now], Decision[ResultT | Waiting]]


class _DeferredReply(NamedTuple):
    """The outcome of a command, sent once the events that it rests on are on disk."""

    pending: Pending[object]
    outcome: object

    def send(self) -> None:
        try:
            self.pending.resolve(self.outcome)
        except Exception:
            # One client's callback must not keep the other clients from their replies.
            logger.exception("an outcome could not be told")


class _DeferredEffect(NamedTuple):
    """Work that a decision asks for, started once its events are on disk. If the machine is dropped before, the machine
    that is loaded in its place decides the work again."""

    perform: Callable[[object], None]
    effect: object

    def send(self) -> None:
        try:
            self.perform(self.effect)
        except Exception:
            # As above; nor may this look like a failure of the append that has just succeeded.
            logger.exception("%s could not be done", self.effect)


_Deferred: TypeAlias = _DeferredReply | _DeferredEffect


class Shard(Generic[MachineT]):
    def __init__(
        self,
        log: StateLog[Any],
        make_machine: Callable[[], MachineT],
        journal: Journal,
        clock: Clock,
        perform: Callable[[object], None] | None = None,
    ) -> None:
        # None until it is loaded, and while it is loaded again.
        self.machine: MachineT | None = None
        self._log = log
        self._make_machine = make_machine
        self._perform = perform
        self._journal = journal
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._refusal = Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{self.name} is being loaded")
        # Events that are applied but not written: those of this turn, and write-behind ones.
        self._unwritten: list[object] = []
        self._is_write_due = False
        self._delayed_write: asyncio.TimerHandle | None = None
        # What leaves once the unwritten events are on disk.
        self._deferred: list[_Deferred] = []
        # What leaves once an append is on disk: one list per append, in the order of the appends.
        self._in_flight: deque[list[_Deferred]] = deque()
        # Commands that a later decision answers.
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
        """Rebuild the machine, in steps so that clients are served in between; gives the number of events."""
        assert self.machine is None, "a machine is loaded once"
        machine = self._make_machine()
        count = 0
        try:
            for events in self._log.replay(LOAD_STEP_BYTES):
                for event in events:
                    machine.apply(event)
                if events and type(events[-1]) not in VOLATILE_TYPES:
                    count += len(events)
                await asyncio.sleep(0)
            await self._log.wait_until_flushed()
            decision = machine.decide_loaded(self._now())
        except HeadwaterError as error:
            logger.error("%s cannot be loaded: %s", self.name, error)
            self._refusal = Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error))
            return count
        except Exception as error:
            # For example too many open files, which may soon be over.
            logger.exception("%s cannot be loaded and is tried again", self.name)
            self._refusal = Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self.name} cannot be loaded: {error}")
            self._schedule_reload()
            return count
        self.machine = machine
        self._carry_out(machine, decision)
        return count

    def drop(self, reason: str) -> None:
        """Drop the machine, and tell every client that waits for it to look for its coordinator again."""
        self.machine = None
        self._refusal = Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, reason)
        for timer in (self._timer, self._delayed_write):
            if timer is not None:
                timer.cancel()
        self._timer = self._delayed_write = None
        deferred = chain(chain.from_iterable(self._in_flight), self._deferred)
        waiting = [*(each.pending for each in deferred if isinstance(each, _DeferredReply)), *self._waiting.values()]
        self._unwritten, self._deferred = [], []
        self._in_flight.clear()
        self._waiting.clear()
        for pending in waiting:
            _DeferredReply(pending, self._refusal).send()

    def end_waits(self) -> None:
        """Tell every client whose decision may be long in coming (a rebalance) to look for its coordinator again."""
        stopping = Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker stops")
        waiting, self._waiting = self._waiting, {}
        for pending in waiting.values():
            _DeferredReply(pending, stopping).send()

    async def close(self) -> None:
        self._is_closed = True
        # Write-behind events are written now: the next start would otherwise do that work again.
        self.write_staged(self._clock.now_ms())
        self.drop(f"{self.name} is closed, for the broker stops")
        if self._reloading is not None:
            self._reloading.cancel()
            await asyncio.gather(self._reloading, return_exceptions=True)

    # -- commands

    def submit(self, decide: Decide[MachineT, ResultT]) -> Pending[Outcome[ResultT]]:
        """Run a command. Gives its result, or its refusal, once everything that it rests on is on disk."""
        pending: Pending[Outcome[ResultT]] = Pending()
        machine = self.machine
        if machine is None:
            pending.resolve(self._refusal)
            return pending
        self._ticket_count += 1
        ticket = Ticket(self._ticket_count)
        waiter = cast("Pending[object]", pending)
        try:
            decision = decide(machine, ticket, self._now())
            self._log.check(decision.events)
        except HeadwaterError as error:
            self._send_when_durable([_DeferredReply(waiter, error.kept())])
            return pending
        except Exception as error:
            # A bug, and nothing is decided. The caller may be about to give commands of other clients.
            pending.fail(error)
            return pending
        if isinstance(decision.result, Waiting):
            self._waiting[ticket] = waiter
            self._carry_out(machine, decision)
        else:
            self._carry_out(machine, decision, [_DeferredReply(waiter, decision.result)])
        return pending

    def submit_write_behind(self, decide: Decide[MachineT, None]) -> None:
        """Run a command that may be lost in a crash, because it is then given again. Its events are written with those
        of the next command, or after WRITE_LATER_S."""
        machine = self.machine
        if machine is not None:
            self._ticket_count += 1
            decision = decide(machine, Ticket(self._ticket_count), self._now())
            self._log.check(decision.events)
            self._carry_out(machine, decision, is_write_behind=True)

    def wake(self) -> None:
        """Decide everything that is due by now."""
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
                self._carry_out(machine, decision)
        except Exception:
            logger.exception("%s failed at a deadline and is loaded again", self.name)
            self._drop_and_reload("it failed at a deadline")
        else:
            self._set_timer(machine)

    def _now(self) -> Now:
        return Now(self._clock.now_ms(), self._clock.monotonic_ms())

    def _carry_out(
        self,
        machine: MachineT,
        decision: Decision[object],
        replies: Sequence[_Deferred] = (),
        *,
        is_write_behind: bool = False,
    ) -> None:
        try:
            for event in decision.events:
                machine.apply(event)
        except Exception:
            # Only some of the events are applied: no log would rebuild the machine in this state.
            logger.exception("%s cannot take its own events and is loaded again", self.name)
            self._deferred += replies
            self._drop_and_reload("it could not take its own events")
            return
        durable = [event for event in decision.events if type(event) not in VOLATILE_TYPES]
        if durable:
            self._unwritten += durable
            if is_write_behind:
                self._write_later()
            else:
                self._write_soon()
        if decision.answers:
            replies = [*replies, *self._deferred_answers(decision.answers)]
        if decision.effects:
            assert self._perform is not None, "a machine with effects needs a function that performs them"
            replies = [*replies, *(_DeferredEffect(self._perform, effect) for effect in decision.effects)]
        self._send_when_durable(replies)
        self._set_timer(machine)

    def _deferred_answers(self, answers: Sequence[Answer]) -> Iterator[_DeferredReply]:
        for ticket, result in answers:
            waiter = self._waiting.pop(ticket, None)
            # `end_waits` answers clients of which the machine still holds the tickets.
            if waiter is not None:
                yield _DeferredReply(waiter, result)

    def _send_when_durable(self, replies: Sequence[_Deferred]) -> None:
        if self._unwritten:
            if replies:
                self._deferred += replies
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
        if not self._is_write_due and self._delayed_write is None:
            self._delayed_write = self._loop.call_later(WRITE_LATER_S, self._write_delayed)

    def _write_delayed(self) -> None:
        self._delayed_write = None
        if self._unwritten:
            self._write_soon()

    def write_staged(self, now_ms: int) -> None:
        """End of turn: append the events of the turn together."""
        self._is_write_due = False
        events, self._unwritten = self._unwritten, []
        replies, self._deferred = self._deferred, []
        if not events:
            return
        self._in_flight.append(replies)
        try:
            self._log.append(events, Append(lambda append: self._appended(append, replies)), now_ms)
        except Exception as error:
            if not isinstance(error, HeadwaterError):
                logger.exception("events of %s cannot be written", self.name)
            self._drop_and_reload(str(error))

    def _appended(self, append: Append, replies: list[_Deferred]) -> None:
        # Ignore appends of a machine that has since been dropped: their replies are not in flight any more.
        if append.error is not None:
            # A refused write may overtake earlier appends that still wait for their flush.
            if any(each is replies for each in self._in_flight):
                self._drop_and_reload(str(append.error))
            return
        # Appends reach the disk in the order in which they were written.
        if not self._in_flight or self._in_flight[0] is not replies:
            return
        self._in_flight.popleft()
        self._reload_pause_s = RELOAD_PAUSE_S
        for reply in replies:
            reply.send()

    def _drop_and_reload(self, reason: str) -> None:
        logger.error("%s is dropped and loaded again: %s", self.name, reason)
        self.drop(f"{self.name} is loaded again: {reason}")
        self._schedule_reload()

    def _schedule_reload(self) -> None:
        if not self._is_closed:
            self._reloading = self._loop.create_task(self._reload(), name=f"load {self.name}")

    async def _reload(self) -> None:
        # The cause, such as a full disk, rarely goes away at once.
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
                # At worst it wakes too early, and sets the timer again.
                return
            self._timer.cancel()
        self._timer_ms = due_ms
        delay_ms = max(due_ms - self._clock.monotonic_ms(), 0)
        self._timer = self._loop.call_later(delay_ms / 1000, self.wake)
