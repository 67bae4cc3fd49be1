"""A machine that remembers words, for tests of the shard that drives machines."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from headwater.broker.broker import Broker
from headwater.broker.partition import Partition
from headwater.broker.pending import Pending
from headwater.broker.shards.shard import Decide, Shard
from headwater.broker.shards.state_log import StateLog
from headwater.clock import ManualClock
from headwater.coordination.decisions import WAITING, Answer, Decision, Now, Ticket, Waiting, volatile
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from tests.support.broker.embedded_broker import TIMEOUT_S, create, run, running
from tests.support.broker.faulty_disk import FaultyDisk


@volatile
class Asked(NamedTuple):
    ticket: Ticket


@volatile
class AlarmSet(NamedTuple):
    due_ms: int | None


@volatile
class Unlucky(NamedTuple):
    """An event that the machine cannot take: a bug."""


class Words:
    """Remembers words, and the tickets of commands that wait for the next word."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.asked: list[Ticket] = []
        self.due_ms: int | None = None

    def apply(self, event: object) -> None:
        match event:
            case str():
                self.seen.append(event)
                self.asked.clear()
            case Asked(ticket):
                self.asked.append(ticket)
            case AlarmSet(due_ms):
                self.due_ms = due_ms
            case _:
                raise ValueError(event)

    def decide_say(self, word: str) -> Decision[int]:
        if word in self.seen:
            raise Refusal(ErrorCode.DUPLICATE_RESOURCE, f"{word} was said before")
        return Decision([word], len(self.seen) + 1, [Answer(ticket, word) for ticket in self.asked])

    def decide_listen(self, ticket: Ticket) -> Decision[Waiting]:
        return Decision([Asked(ticket)], WAITING)

    def next_deadline_ms(self) -> int | None:
        return self.due_ms

    def decide_due(self, now: Now) -> Decision[None]:
        said = self.decide_say("alarm")
        return Decision([f"alarm at {now.monotonic_ms}", AlarmSet(None)], None, said.answers)

    def decide_loaded(self, now: Now) -> Decision[None]:
        return Decision([AlarmSet(None)], None)


class WordFormat:
    def encode(self, event: str) -> tuple[bytes, bytes | None]:
        return event.encode(), b""

    def decode(self, key: bytes, value: bytes | None) -> str | None:
        return key.decode()


def say(word: str) -> Decide[Words, int]:
    return lambda words, _ticket, _now: words.decide_say(word)


def told(word: str) -> Decide[Words, None]:
    return lambda _words, _ticket, _now: Decision([word], None)


def listen(words: Words, ticket: Ticket, _now: Now) -> Decision[str | Waiting]:
    return words.decide_listen(ticket)


def count(words: Words, _ticket: Ticket, _now: Now) -> Decision[int]:
    return Decision([], len(words.seen))


def alarm(due_ms: int | None) -> Decide[Words, None]:
    return lambda _words, _ticket, _now: Decision([AlarmSet(due_ms)], None)


class Stage:
    """A shard on a broker whose disk and clock the test moves."""

    def __init__(self, broker: Broker, partition: Partition, disk: FaultyDisk, clock: ManualClock) -> None:
        self.broker = broker
        self.partition = partition
        self.disk = disk
        self.clock = clock
        self.shard = self.new_shard()

    def new_shard(self, perform: Callable[[object], None] | None = None) -> Shard[Words]:
        return Shard(StateLog(self.partition, WordFormat()), Words, self.broker.journal, self.clock, perform)

    @property
    def words(self) -> Words:
        assert self.shard.machine is not None
        return self.shard.machine

    async def say(self, *words: str) -> None:
        for word in words:
            assert await settled(self.shard.submit(say(word)))

    def say_without_the_disk(self, word: str) -> Pending[Any]:
        """Writes the word; its sync waits until the test allows it."""
        self.disk.sync_allowed.clear()
        said = self.shard.submit(say(word))
        # The first write goes from the shard to its partition, the second from the partition to the file.
        self.broker.journal.write_now()
        self.broker.journal.write_now()
        return said

    async def replayed(self) -> list[str]:
        other = self.new_shard()
        await run(other.load())
        assert other.machine is not None
        return other.machine.seen


@asynccontextmanager
async def on_stage(path: Path) -> AsyncGenerator[Stage]:
    disk, clock = FaultyDisk(), ManualClock()
    async with running(path, disk=disk, clock=clock) as broker:
        stage = Stage(broker, await create(broker, "cursed-words"), disk, clock)
        await run(stage.shard.load())
        yield stage
        await stage.shard.close()


async def settled(pending: Pending[Any]) -> object:
    return await asyncio.wait_for(pending.wait(), TIMEOUT_S)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():
            await asyncio.sleep(0)


def refusal(outcome: object) -> ErrorCode:
    assert isinstance(outcome, HeadwaterError)
    return outcome.code
