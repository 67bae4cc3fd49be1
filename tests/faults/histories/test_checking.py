"""The checks over histories of a few lines: lawful ones pass, and each violation is found, and only that one."""

import json
import math
from pathlib import Path

from tests.faults.histories.facts import AUDIT
from tests.faults.histories.recording import Operation, Recorder, merge, read
from tests.faults.histories.registers import Access, Register
from tests.faults.histories.short_history import END, SENT, Fields, History


def test_a_correct_history_has_no_violations() -> None:
    history = History()
    history.send("a", 0)
    history.send("b", 1)
    history.poll((0, "a"), (1, "b"))
    history.fetch(0, "a", "b")

    assert not history.broken


def test_an_acknowledged_record_that_is_missing_is_lost() -> None:
    history = History()
    history.send("a", 0)
    history.send("b", 1)
    history.fetch(0, "a")

    assert history.broken == {"I1"}


def test_a_send_without_an_answer_may_be_there_or_not() -> None:
    history = History()
    history.send("a")
    history.send("b")
    history.fetch(0, "b")

    assert not history.broken


def test_retention_removes_only_records_before_the_log_start() -> None:
    history = History(is_limited=True)
    history.send("a", 0)
    history.send("b", 1)
    history.fetch(1, "b", log_start_offset=1)
    assert not history.broken

    history.send("c", 3)
    assert history.broken == {"I1"}


def test_a_topic_without_retention_keeps_everything() -> None:
    history = History()
    history.send("a", 0)
    history.send("b", 1)
    history.fetch(1, "b", log_start_offset=1)

    assert history.broken == {"I1"}


def test_compaction_removes_only_superseded_records_and_may_leave_gaps() -> None:
    history = History(is_compacted=True)
    history.send("a1", 0)
    history.send("b1", 1)
    history.send("a2", 2)
    history.fetch(1, "b1", "a2", batches=[(1, 1, 1), (2, 2, 1)])
    assert not history.broken

    history.send("c1", 3)
    assert history.broken == {"I1"}


def test_an_offset_has_one_value() -> None:
    history = History()
    history.send("a", 0)
    history.send("b")
    history.poll((0, "b"))
    history.fetch(0, "a")

    assert history.broken == {"I2"}


def test_a_record_has_one_offset() -> None:
    history = History()
    history.send("a", 0)
    history.fetch(0, "a", "a")

    assert history.broken == {"I3"}


def test_one_producer_never_overtakes_itself_but_several_may_mix() -> None:
    history = History()
    history.send("a")
    history.send("b", process="other")
    history.send("c")
    history.fetch(0, "b", "a", "c")
    assert not history.broken

    history.send("d")
    history.fetch(3, "d")
    history.send("e")
    history.fetch(2, "c", process="late")
    assert not history.broken

    disordered = History()
    disordered.send("a")
    disordered.send("b")
    disordered.fetch(0, "b", "a")
    assert disordered.broken == {"I4"}


def test_records_never_sent_or_refused_are_never_read() -> None:
    history = History()
    history.fetch(0, "a")
    assert history.broken == {"I5"}

    refused = History()
    refused.send("a", outcome="fail")
    refused.fetch(0, "a")
    assert refused.broken == {"I5"}


def test_a_consumer_polls_an_offset_again_only_after_a_new_assignment() -> None:
    history = History()
    history.send("a", 0)
    history.assign()
    history.poll((0, "a"))
    history.assign(generation=2)
    history.poll((0, "a"), generation=2)
    history.fetch(0, "a")
    assert not history.broken

    history.poll((0, "a"), generation=2)
    assert history.broken == {"I6"}


def test_every_offset_has_a_record_or_a_marker() -> None:
    history = History()
    history.fetch(0, batches=[(0, 0, 1), (2, 3, 2)])
    assert history.broken == {"I7"}

    emptied = History()
    emptied.fetch(0, batches=[(0, 3, 3)])
    assert emptied.broken == {"I7"}


def test_aborted_records_are_never_read_with_read_committed() -> None:
    history = History()
    history.send("a", 0, transaction="x")
    history.end("x", is_commit=False)
    history.fetch(0, "a")
    assert not history.broken

    history.fetch(0, "a", committed_only=True)
    assert history.broken == {"I8"}


def test_a_transaction_is_atomic_whatever_its_outcome() -> None:
    history = History()
    history.send("a", 0, transaction="x")
    history.send("b", 1, transaction="x")
    history.end("x", outcome="info")
    history.fetch(0, "a", "b")
    assert not history.broken, "nothing of it"

    history.fetch(0, "a", process="reader", committed_only=True)
    assert history.broken == {"I8"}, "half of it"

    history.fetch(1, "b", process="reader", committed_only=True)
    assert not history.broken, "all of it"


def test_an_unfinished_transaction_is_not_seen() -> None:
    history = History()
    history.send("a", 0, transaction="x")
    history.fetch(0, "a")
    history.fetch(0, "a", process="reader", committed_only=True)

    assert history.broken == {"I8"}


def test_offsets_of_a_transaction_count_when_it_is_committed_and_not_before() -> None:
    history = History()
    history.end("x", offsets=[("t", 0, 5)])
    history.end("y", is_commit=False, offsets=[("t", 0, 9)])
    history("committed", group="copiers", topic="t", offsets=[(0, 5)])
    assert not history.broken

    history("committed", group="copiers", topic="t", offsets=[(0, -1)])
    history("committed", group="copiers", topic="t", offsets=[(0, 9)])
    assert history.broken == {"I8"}


def test_a_record_is_copied_once() -> None:
    history = History()
    history("topic", topic="copies", partitions=1, is_compacted=False, is_limited=False)
    for offset, value in enumerate(("x", "y")):
        fields: Fields = {"topic": "copies", "partition": 0, "key": "k", "value": value, "transaction": value}
        history("send", **fields, source=["t", 0, 7], offset=offset)
        history.end(value)
    for committed_only in (False, True):
        told: Fields = {
            "high_watermark": 2,
            "last_stable_offset": 2,
            "log_start_offset": 0,
            "batches": [(0, 1, 2)],
        }
        asked: Fields = {"topic": "copies", "partition": 0, "offset": 0, "committed_only": committed_only}
        history("fetch", AUDIT, **asked, **told, records=[(0, "x"), (1, "y")])

    assert history.broken == {"I8"}


def test_the_ends_of_a_partition_never_go_back() -> None:
    for name in ("high_watermark", "last_stable_offset"):
        history = History()
        ends: Fields = {"high_watermark": END + 1, "last_stable_offset": END}
        less = ends | {name: ends[name] - 1}
        history.fetch(0, **ends)
        # The second fetch was sent before the first was answered.
        history.fetch(0, **less, begun=1.1)
        assert not history.broken
        history.fetch(0, **less)
        assert history.broken == {"I10"}


def test_committed_offsets_may_go_down_if_a_client_commits_lower_ones() -> None:
    history = History()
    history.commit(5)
    history.commit(3)
    history.committed(3)
    assert not history.broken

    history.committed(5)
    assert history.broken == {"I12"}


def test_a_commit_without_an_answer_may_take_effect_at_any_later_time_and_then_stays() -> None:
    history = History()
    history.commit(5)
    history.commit(7, outcome="info")
    history.committed(5)
    history.committed(7)
    assert not history.broken

    history.committed(5)
    assert history.broken == {"I12"}, "it was seen"


def test_a_member_resumes_at_a_committed_offset_and_never_at_the_start_without_reason() -> None:
    history = History()
    for offset, value in enumerate("abc"):
        history.send(value, offset)
    history.fetch(0, "a", "b", "c")
    history.commit(2)
    history.commit(3, outcome="info")
    history.assign(generation=2)
    history.poll((2, "c"), generation=2)
    assert not history.broken

    history.assign(generation=3)
    history.poll((0, "a"), generation=3)
    assert history.broken == {"I12"}


def test_a_commit_with_an_outdated_generation_is_a_violation() -> None:
    history = History()
    history.assign(generation=1)
    history.assign("other", generation=2)
    history.commit(1, "other", generation=2)
    history.commit(1, generation=1, outcome="fail")
    assert not history.broken

    history.commit(1, generation=1)
    assert history.broken == {"I12"}


def test_a_partition_has_one_owner_in_a_generation() -> None:
    history = History()
    history.send("a", 0)
    history.fetch(0, "a")
    history.assign(generation=1)
    history.assign("other", generation=2)
    assert not history.broken

    history.poll((0, "a"), generation=2)
    assert history.broken == {"I13"}


def test_every_client_except_killed_ones_makes_progress_within_a_minute() -> None:
    history = History()
    history("gone", "driver", client="killed")
    history("heal", begun=10)
    history("send", "killed", outcome="info", begun=9, **SENT)
    history("send", outcome="info", begun=11, **SENT)
    history("drain", "driver", begun=10, ended=20)
    assert history.broken == {"I16"}

    history("send", begun=12, ended=69, **SENT, offset=0)
    history.fetch(0, "a")
    assert not history.broken

    history("died", client="one", code=1)
    assert history.broken == {"I16"}


def test_a_register_rules_out_values_that_were_certainly_overwritten() -> None:
    operation = Operation("one", 0, "commit", 0)
    first, second = Access(0, 1, 10, operation), Access(2, 3, 20, operation)

    assert {write.value for write in Register([first, second]).possible(4, 5)} == {20}
    assert {write.value for write in Register([first, second]).possible(2.5, 5)} == {10, 20}
    assert {write.value for write in Register([first]).possible(0.5, 2)} == {-1, 10}


def test_recorded_operations_are_read_back_without_a_half_written_line(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, "one")
    recorder.invoke("send", value="a").ok(offset=3)
    recorder.invoke("send", value="b").info(error="timed out")
    recorder.invoke("send", value="c")
    recorder.close()
    with (tmp_path / "one.jsonl").open("a") as file:
        file.write('{"process": "one", "id": 2, "ty')

    first, second, third = read(tmp_path)

    assert (first.outcome, first["value"], first["offset"]) == ("ok", "a", 3)
    assert (second.outcome, second.ended_ns) == ("info", math.inf)
    assert (third.outcome, third.ended_ns) == ("info", math.inf)


def test_a_result_belongs_to_the_invocation_with_its_id() -> None:
    lines = [
        {"process": "one", "id": number, "time_ns": time_ns, "type": kind, "operation": "send"}
        for number, time_ns, kind in ((0, 1, "invoke"), (1, 2, "invoke"), (1, 3, "fail"), (0, 4, "ok"))
    ]

    merged = {each.id: each for each in merge(json.loads(json.dumps(lines)))}

    assert (merged[0].begun_ns, merged[0].ended_ns, merged[0].outcome) == (1, 4, "ok")
    assert (merged[1].begun_ns, merged[1].ended_ns, merged[1].outcome) == (2, 3, "fail")
