"""One machine over one log: decided, applied, written, and answered once it is on disk."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headwater.broker.broker import Broker
from headwater.broker.partition import Partition
from headwater.broker.pending import Pending
from headwater.broker.shard import Decide, Shard
from headwater.broker.state_log import StateLog
from headwater.clock import ManualClock
from headwater.coordination.decisions import WAITING, Answer, Decision, Now, Ticket, Volatile, Waiting
from headwater.errors import ErrorCode, HeadwaterError, KafkaError
from tests.broker.faulty_disk import FULL, FaultyDisk
from tests.broker.running import TIMEOUT_S, create, run, running


@dataclass(frozen=True, slots=True)
class Asked(Volatile):
    ticket: Ticket


@dataclass(frozen=True, slots=True)
class AlarmSet(Volatile):
    due_ms: int | None


@dataclass(frozen=True, slots=True)
class Unlucky(Volatile):
    """An event that the machine cannot take: a bug."""


class Words:
    """Remembers words, and who waits for the next one."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.asked: list[Ticket] = []
        self.due_ms: int | None = None
        self.load_count = 0

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
            raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, f"{word} was said before")
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
        """Written, and waiting for a sync that does not come before it is allowed."""
        self.disk.sync_allowed.clear()
        said = self.shard.submit(say(word))
        # The shard gathers for its partition, which is then the next to write.
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


async def test_commands_that_arrive_together_share_one_batch_and_see_each_other(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        outcomes = [stage.shard.submit(say(word)) for word in ("one", "two", "three")]
        again = stage.shard.submit(say("two"))

        assert [await settled(outcome) for outcome in outcomes] == [1, 2, 3]
        assert refusal(await settled(again)) is ErrorCode.DUPLICATE_RESOURCE
        header_count = sum(1 for _ in stage.shard._log.replay(1))
        assert header_count == 1, "a batch is the least that is read at a time"


async def test_no_answer_leaves_before_what_it_rests_on_is_on_disk(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        stage.disk.sync_allowed.clear()
        said = stage.shard.submit(say("one"))
        question = stage.shard.submit(count)
        refused = stage.shard.submit(say("one"))
        assert stage.words.seen == ["one"], "the next command is decided on it"
        stage.broker.journal.write_now()
        stage.broker.journal.write_now()
        late_question = stage.shard.submit(count)
        assert stage.partition.log.end_offset == 1, "it is written, and the flush is under way"
        assert not any(pending.is_done for pending in (said, question, refused, late_question))

        stage.disk.sync_allowed.set()
        assert await settled(late_question) == 1
        assert stage.partition.high_watermark == 1
        assert all(pending.is_done for pending in (said, question, refused))


async def test_what_nobody_waits_for_is_written_with_what_comes_next(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        stage.shard.tell(told("one"))
        stage.broker.journal.write_now()
        assert stage.words.seen == ["one"]
        assert stage.partition.log.end_offset == 0
        await stage.say("two")
        assert list(stage.shard._log.replay(1)) == [["one", "two"]], "one batch, in their order"


async def test_what_nobody_waits_for_is_written_when_nothing_comes(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        stage.shard.tell(told("one"))
        await until(lambda: stage.partition.log.end_offset == 1)
        stage.shard.tell(told("two"))
        await until(lambda: stage.partition.log.end_offset == 2)


async def test_no_answer_rests_on_what_could_wait_and_is_not_on_disk(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        stage.shard.tell(told("one"))
        question = stage.shard.submit(count)
        assert not question.is_done
        assert await settled(question) == 1
        assert stage.partition.high_watermark == 1


async def test_what_could_wait_is_written_when_the_broker_stops(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        stage.shard.tell(told("one"))
        await stage.shard.close()
        await run(stage.broker.journal.drain())
        assert await stage.replayed() == ["one"]


async def test_what_could_wait_is_gone_with_its_machine(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        await stage.say("kept")
        stage.shard.tell(told("lost"))
        stage.shard.drop("for the test")
        stage.shard.tell(told("unheard"))
        await run(stage.shard.load())
        assert stage.words.seen == ["kept"]
        await stage.say("next")
        assert await stage.replayed() == ["kept", "next"]


async def test_a_question_is_answered_at_once_when_nothing_is_under_way(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        await stage.say("one")
        assert stage.shard.submit(count).is_done


async def test_whoever_waits_is_answered_by_a_later_decision(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        listener = stage.shard.submit(listen)
        assert not listener.is_done
        stage.shard.submit(say("news"))
        assert await settled(listener) == "news"


async def test_nobody_waits_longer_than_the_broker_runs(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        listener = stage.shard.submit(listen)
        stage.shard.end_waits()
        assert refusal(await settled(listener)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await stage.say("news")
        assert stage.words.seen == ["news"], "the machine serves whoever is still being served"


async def test_a_rebuilt_machine_is_the_same(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        await stage.say("one", "two", "three")
        assert await stage.replayed() == stage.words.seen == ["one", "two", "three"]


async def test_deadlines_are_kept_and_answer_who_waits(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        stage.shard.submit(alarm(60_000))
        listener = stage.shard.submit(listen)
        stage.clock.advance(59_999)
        stage.shard.wake()
        assert stage.words.seen == []
        stage.clock.advance(1)
        stage.shard.wake()
        assert stage.words.seen == ["alarm at 60000"]
        assert await settled(listener) == "alarm"


async def test_the_shard_wakes_by_itself(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        stage.shard.submit(alarm(3_600_000))
        stage.shard.submit(alarm(0))
        await until(lambda: stage.words.seen != [])
        assert stage.words.seen == ["alarm at 0"]


async def test_a_failed_append_takes_back_what_was_applied(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        await stage.say("kept")
        listener = stage.shard.submit(listen)
        stage.disk.write_error = FULL
        said = stage.shard.submit(say("lost"))
        question = stage.shard.submit(count)

        for pending in (said, question, listener):
            assert refusal(await settled(pending)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert refusal(await settled(stage.shard.submit(count))) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        stage.disk.heal()
        await until(lambda: stage.shard.machine is not None)
        assert stage.words.seen == ["kept"]
        await stage.say("next")
        assert await stage.replayed() == ["kept", "next"]


async def test_an_append_that_fails_while_one_before_it_waits_for_the_disk_is_noticed(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        waits_for_the_disk = stage.say_without_the_disk("one")
        stage.disk.write_error = FULL
        refused = stage.shard.submit(say("lost"))

        for pending in (waits_for_the_disk, refused):
            assert refusal(await settled(pending)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        stage.disk.heal()
        stage.disk.sync_allowed.set()
        await until(lambda: stage.shard.machine is not None)
        assert stage.words.seen == ["one"]
        await stage.say("next")
        assert await stage.replayed() == ["one", "next"]


async def test_an_append_of_a_machine_that_is_gone_answers_nobody_else(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        first = stage.say_without_the_disk("one")
        stage.shard.drop("for the test")
        assert refusal(await settled(first)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        loading = asyncio.ensure_future(stage.shard.load())
        await asyncio.sleep(0)
        assert refusal(await settled(stage.shard.submit(count))) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        stage.disk.sync_allowed.set()
        await run(loading)
        assert stage.words.seen == ["one"], "it was written, and is on disk before anybody is told of it"
        await stage.say("two")
        assert await stage.replayed() == ["one", "two"]


async def test_a_partition_out_of_service_refuses_and_says_so(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        stage.partition.log.fail("the disk is gone")
        assert refusal(await settled(stage.shard.submit(say("one")))) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await until(lambda: "offline: the disk is gone" in str(stage.shard._trouble))
        assert stage.shard.machine is None


async def test_a_damaged_log_is_not_served(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        await stage.say("precious")
        (path,) = stage.partition.log.directory.glob("*.log")
        damaged = bytearray(path.read_bytes())
        damaged[-3] ^= 1
        path.write_bytes(damaged)

        shard = stage.new_shard()
        await run(shard.load())
        outcome = await settled(shard.submit(count))
        assert refusal(outcome) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert "restore it from a backup" in str(outcome)


async def test_what_a_moment_mends_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with on_stage(tmp_path) as stage:
        await stage.say("kept")
        shard = stage.new_shard()
        read = type(stage.partition.log).read

        def fail(*_: object, **__: object) -> None:
            raise OSError(24, "too many open files")

        monkeypatch.setattr(type(stage.partition.log), "read", fail)
        await run(shard.load())
        assert "too many open files" in str(await settled(shard.submit(count)))
        monkeypatch.setattr(type(stage.partition.log), "read", read)
        await until(lambda: shard.machine is not None)
        assert await settled(shard.submit(count)) == 1
        await run(shard.close())


async def test_a_machine_that_fails_once_it_is_loaded_is_loaded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with on_stage(tmp_path) as stage:
        await stage.say("kept")
        shard = stage.new_shard()

        def fail(*_: object) -> Decision[None]:
            raise ValueError("not my day")

        with monkeypatch.context() as patch:
            patch.setattr(Words, "decide_loaded", fail)
            await run(shard.load())
            assert refusal(await settled(shard.submit(count))) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await until(lambda: shard.machine is not None)
        assert await settled(shard.submit(count)) == 1
        await run(shard.close())


async def test_a_reply_that_nobody_can_take_keeps_no_other_from_its_own(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:

        def burst(_: object) -> None:
            raise ValueError("not my day")

        stage.shard.submit(say("one")).then(burst)
        assert await settled(stage.shard.submit(say("two"))) == 2


async def test_what_cannot_be_done_is_no_trouble_of_the_log(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        done: list[object] = []

        def perform(effect: object) -> None:
            if effect == "impossible":
                raise ValueError("not my day")
            done.append(effect)

        shard = stage.new_shard(perform)
        await run(shard.load())
        asked = shard.submit(lambda _words, _ticket, _now: Decision(["one"], 1, effects=["impossible", "easy"]))
        assert await settled(asked) == 1
        assert await settled(shard.submit(say("two"))) == 2
        assert done == ["easy"]
        await run(shard.close())


async def test_a_shard_that_is_closed_while_it_waits_to_load_again_stays_closed(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        stage.disk.write_error = FULL
        assert refusal(await settled(stage.shard.submit(say("lost")))) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        stage.disk.heal()
        await run(stage.shard.close())
        assert stage.shard.machine is None
        assert "stops" in str(await settled(stage.shard.submit(count)))


@pytest.mark.parametrize("at_deadline", [False, True])
async def test_a_machine_that_fails_is_rebuilt(tmp_path: Path, at_deadline: bool) -> None:
    async with on_stage(tmp_path) as stage:
        await stage.say("kept")
        if at_deadline:
            await stage.say("alarm")
            stage.shard.submit(alarm(0))
            stage.shard.wake()
        else:
            failing = stage.shard.submit(lambda _words, _ticket, _now: Decision(["half", Unlucky()], None))
            assert refusal(await settled(failing)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert stage.shard.machine is None
        await until(lambda: stage.shard.machine is not None)
        assert stage.words.seen[:1] == ["kept"]
        assert "half" not in stage.words.seen


async def test_commands_are_refused_until_the_machine_is_loaded(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        shard = stage.new_shard()
        assert refusal(await settled(shard.submit(count))) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        shard.wake()
        await run(shard.load())
        assert await settled(shard.submit(count)) == 0
