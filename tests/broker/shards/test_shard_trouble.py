"""Failures of a machine or its log: clients never hear of an unwritten event, and the machine is loaded again."""

import asyncio
from pathlib import Path

import pytest

from headwater.coordination.decisions import Decision
from headwater.errors import ErrorCode
from tests.broker.shards.words import (
    Unlucky,
    Words,
    alarm,
    count,
    listen,
    on_stage,
    refusal,
    say,
    settled,
    until,
)
from tests.support.broker.embedded_broker import run
from tests.support.broker.faulty_disk import FULL


async def test_a_failed_append_undoes_the_applied_events(tmp_path: Path) -> None:
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


async def test_an_append_that_fails_behind_one_waiting_for_the_disk_is_noticed(tmp_path: Path) -> None:
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


async def test_an_append_of_a_dropped_machine_answers_no_later_command(tmp_path: Path) -> None:
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


async def test_an_offline_partition_refuses_commands_and_says_why(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        stage.partition._log.fail("the disk is gone")
        assert refusal(await settled(stage.shard.submit(say("one")))) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await until(lambda: "offline: the disk is gone" in str(stage.shard._refusal))
        assert stage.shard.machine is None


async def test_a_damaged_log_is_not_served(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        await stage.say("precious")
        (path,) = stage.partition._log.directory.glob("*.log")
        damaged = bytearray(path.read_bytes())
        damaged[-3] ^= 1
        path.write_bytes(damaged)

        shard = stage.new_shard()
        await run(shard.load())
        outcome = await settled(shard.submit(count))
        assert refusal(outcome) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert "restore it from a backup" in str(outcome)


async def test_a_load_that_fails_temporarily_is_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with on_stage(tmp_path) as stage:
        await stage.say("kept")
        shard = stage.new_shard()
        read = type(stage.partition._log).read

        def fail(*_: object, **__: object) -> None:
            raise OSError(24, "too many open files")

        monkeypatch.setattr(type(stage.partition._log), "read", fail)
        await run(shard.load())
        assert "too many open files" in str(await settled(shard.submit(count)))
        monkeypatch.setattr(type(stage.partition._log), "read", read)
        await until(lambda: shard.machine is not None)
        assert await settled(shard.submit(count)) == 1
        await run(shard.close())


async def test_a_machine_that_fails_right_after_loading_is_loaded_again(
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


async def test_a_failing_callback_does_not_prevent_other_replies(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:

        def burst(_: object) -> None:
            raise ValueError("not my day")

        stage.shard.submit(say("one")).then(burst)
        assert await settled(stage.shard.submit(say("two"))) == 2


async def test_a_failing_effect_does_not_stop_the_shard(tmp_path: Path) -> None:
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


async def test_a_shard_closed_before_its_reload_stays_closed(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        stage.disk.write_error = FULL
        assert refusal(await settled(stage.shard.submit(say("lost")))) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        stage.disk.heal()
        await run(stage.shard.close())
        assert stage.shard.machine is None
        assert "stops" in str(await settled(stage.shard.submit(count)))


@pytest.mark.parametrize("at_deadline", [False, True])
async def test_a_machine_whose_apply_fails_is_rebuilt_from_its_log(tmp_path: Path, at_deadline: bool) -> None:
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
