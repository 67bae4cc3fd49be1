"""One machine over one log: events are decided, applied and written; answers leave once they are on disk."""

from pathlib import Path

from headwater.errors import ErrorCode
from tests.broker.shards.words import alarm, count, listen, on_stage, refusal, say, settled, told, until
from tests.support.broker.embedded_broker import run


async def test_commands_of_one_turn_share_a_batch_and_see_each_others_effects(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        outcomes = [stage.shard.submit(say(word)) for word in ("one", "two", "three")]
        again = stage.shard.submit(say("two"))

        assert [await settled(outcome) for outcome in outcomes] == [1, 2, 3]
        assert refusal(await settled(again)) is ErrorCode.DUPLICATE_RESOURCE
        header_count = sum(1 for _ in stage.shard._log.replay(1))
        assert header_count == 1, "a batch is the least that is read at a time"


async def test_no_answer_leaves_before_the_events_it_depends_on_are_on_disk(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        stage.disk.sync_allowed.clear()
        said = stage.shard.submit(say("one"))
        question = stage.shard.submit(count)
        refused = stage.shard.submit(say("one"))
        assert stage.words.seen == ["one"], "the next command is decided on it"
        stage.broker.journal.write_now()
        stage.broker.journal.write_now()
        late_question = stage.shard.submit(count)
        assert stage.partition._log.end_offset == 1, "it is written, and the flush is under way"
        assert not any(pending.is_done for pending in (said, question, refused, late_question))

        stage.disk.sync_allowed.set()
        assert await settled(late_question) == 1
        assert stage.partition.high_watermark == 1
        assert all(pending.is_done for pending in (said, question, refused))


async def test_a_told_event_is_written_with_the_next_command(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        stage.shard.submit_write_behind(told("one"))
        stage.broker.journal.write_now()
        assert stage.words.seen == ["one"]
        assert stage.partition._log.end_offset == 0
        await stage.say("two")
        assert list(stage.shard._log.replay(1)) == [["one", "two"]], "one batch, in their order"


async def test_a_told_event_is_written_later_when_no_command_follows(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        stage.shard.submit_write_behind(told("one"))
        await until(lambda: stage.partition._log.end_offset == 1)
        stage.shard.submit_write_behind(told("two"))
        await until(lambda: stage.partition._log.end_offset == 2)


async def test_an_answer_that_depends_on_a_told_event_waits_until_it_is_on_disk(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        stage.shard.submit_write_behind(told("one"))
        question = stage.shard.submit(count)
        assert not question.is_done
        assert await settled(question) == 1
        assert stage.partition.high_watermark == 1


async def test_told_events_are_written_when_the_shard_closes(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        stage.shard.submit_write_behind(told("one"))
        await stage.shard.close()
        await run(stage.broker.journal.drain())
        assert await stage.replayed() == ["one"]


async def test_told_events_are_lost_with_their_dropped_machine(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        await stage.say("kept")
        stage.shard.submit_write_behind(told("lost"))
        stage.shard.drop("for the test")
        stage.shard.submit_write_behind(told("unheard"))
        await run(stage.shard.load())
        assert stage.words.seen == ["kept"]
        await stage.say("next")
        assert await stage.replayed() == ["kept", "next"]


async def test_a_query_is_answered_at_once_when_no_write_is_under_way(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        await stage.say("one")
        assert stage.shard.submit(count).is_done


async def test_a_waiting_command_is_answered_by_a_later_decision(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        listener = stage.shard.submit(listen)
        assert not listener.is_done
        stage.shard.submit(say("news"))
        assert await settled(listener) == "news"


async def test_waiting_commands_are_refused_when_the_broker_stops(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        listener = stage.shard.submit(listen)
        stage.shard.end_waits()
        assert refusal(await settled(listener)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await stage.say("news")
        assert stage.words.seen == ["news"], "the machine still serves new commands"


async def test_a_machine_rebuilt_from_its_log_is_the_same(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        await stage.say("one", "two", "three")
        assert await stage.replayed() == stage.words.seen == ["one", "two", "three"]


async def test_a_due_deadline_answers_waiting_commands(tmp_path: Path) -> None:
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


async def test_the_shard_wakes_itself_at_a_deadline(tmp_path: Path) -> None:
    async with on_stage(tmp_path) as stage:
        stage.shard.submit(alarm(3_600_000))
        stage.shard.submit(alarm(0))
        await until(lambda: stage.words.seen != [])
        assert stage.words.seen == ["alarm at 0"]
