"""The checks over histories of queues and delays of a few lines: lawful ones pass, and each violation is found."""

from typing import Any

import pytest

from tests.faults.histories.checking import violations
from tests.faults.histories.facts import AUDIT
from tests.faults.histories.short_history import History

Records = list[tuple[int, int, int]]


class Queue(History):
    def __init__(self) -> None:
        super().__init__()
        self("group", group="g", topic="t", limit=2, lock_ms=5000, has_letters=True)

    def give(self, member: str, count: int, *, offset: int = 0, end_ms: int | None = None, **more: Any) -> None:
        fields: dict[str, Any] = {"is_exact": True, "wall_ms": 1000, **more}
        self("share", member, group="g", topic="t", member=member, records=[(0, offset, count, end_ms)], **fields)

    def say(self, member: str, kind: str, count: int, *, offset: int = 0, **more: Any) -> None:
        self("settle", member, group="g", topic="t", member=member, verdict=kind, records=[(0, offset, count)], **more)

    def letters(self, *letters: tuple[int, int, str]) -> None:
        self("letters", f"{AUDIT}-queues", group="g", topic="t", records=[(0, *each) for each in letters])

    def over(self, *values: str) -> list[str]:
        for value, offset in zip(values, range(len(values)), strict=True):
            self.send(value, offset)
        self.fetch(0, *values)
        self.fetch(0, *values, committed_only=True)
        self("backlog", f"{AUDIT}-queues", group="g")
        return self.found()

    def found(self) -> list[str]:
        return [each.text for each in violations(self.operations) if each.invariant in ("I14", "I15")]


@pytest.fixture
def queue() -> Queue:
    return Queue()


def test_a_lawful_history_of_a_queue(queue: Queue) -> None:
    queue.give("a", 1)
    queue.say("a", "release", 1)
    queue.give("b", 2)
    queue.say("b", "accept", 2)
    queue.give("a", 1, offset=1)
    queue.say("a", "reject", 1, offset=1)
    queue.letters((1, 1, "rejected"))
    assert queue.over("a", "b") == []


def test_a_restart_forgets_a_delivery_and_a_lock_runs_out(queue: Queue) -> None:
    queue.give("a", 1)
    queue("restart", "driver")
    queue.give("b", 1)
    queue("idle")
    queue.give("a", 2, begun=20, ended=20.1)
    queue.say("b", "accept", 1, outcome="fail", begun=20.2, ended=20.3)
    queue.say("a", "accept", 2, begun=20.4, ended=20.5)
    queue.letters()
    assert queue.over("a") == []


def test_two_members_hold_a_record(queue: Queue) -> None:
    queue.give("a", 1)
    queue.give("b", 2)
    assert "given to two at once" in " ".join(queue.found())


def test_the_same_delivery_goes_to_two_members(queue: Queue) -> None:
    queue.give("a", 1)
    queue("idle")
    queue.give("b", 1, begun=60, is_exact=False)
    assert "given to two at once" in " ".join(queue.found())


def test_a_record_is_delivered_after_it_was_accepted(queue: Queue) -> None:
    queue.give("a", 1)
    queue.say("a", "accept", 1)
    queue.give("b", 2)
    assert "was delivered after it was accepted" in " ".join(queue.found())


def test_a_member_settles_what_it_has_lost(queue: Queue) -> None:
    queue.give("a", 1)
    queue.give("b", 2, begun=30, ended=31)
    queue.say("a", "accept", 1, begun=32, ended=33)
    assert "was settled by a member that had lost it" in " ".join(queue.found())


def test_two_members_accept_a_record(queue: Queue) -> None:
    queue.give("a", 1)
    queue.say("a", "accept", 1)
    queue.say("b", "accept", 1)
    assert "was accepted 2 times" in " ".join(queue.found())


def test_a_record_is_delivered_too_often_or_too_late(queue: Queue) -> None:
    queue.give("a", 3)
    queue.give("a", 1, offset=1, end_ms=999)
    found = " ".join(queue.found())
    assert "was delivered for the 3th time" in found
    assert "had expired" in found


@pytest.mark.parametrize(
    ("letters", "text"),
    [
        ([], "was rejected, and is no dead letter"),
        ([(0, 1, "rejected"), (0, 1, "rejected")], "has 2 dead letters"),
        ([(0, 1, "exhausted")], "was given up after 1 deliveries"),
        ([(0, 1, "rejected"), (1, 1, "rejected")], "was accepted, and is a dead letter"),
    ],
)
def test_dead_letters_are_wrong(queue: Queue, letters: list[tuple[int, int, str]], text: str) -> None:
    queue.give("a", 1)
    queue.say("a", "reject", 1)
    queue.give("a", 1, offset=1)
    queue.say("a", "accept", 1, offset=1)
    queue.letters(*letters)
    assert text in " ".join(queue.over("a", "b"))


def test_a_record_is_lost(queue: Queue) -> None:
    queue.give("a", 1)
    queue.say("a", "accept", 1)
    queue.letters()
    assert "was neither accepted nor given up: b" in " ".join(queue.over("a", "b"))


# -- delayed records


def schedule(history: History, value: str, delay_ms: int = 0, **more: Any) -> None:
    fields: dict[str, Any] = {"transaction": None, **more}
    history("schedule", topic="d", partition=0, value=value, delay_ms=delay_ms, **fields)


def appear(history: History, *values: str, process: str = f"{AUDIT}-queues", first: int = 0, **more: Any) -> None:
    history("appear", process, topic="d", partition=0, records=[*enumerate(values, first)], **more)


def test_a_lawful_history_of_delays(queue: Queue) -> None:
    schedule(queue, "a", 1000)
    schedule(queue, "b")
    queue("cancel", topic="d", value="b")
    schedule(queue, "c", transaction="x")
    queue("decide", transaction="x", is_commit=True)
    schedule(queue, "d", transaction="y")
    queue("decide", transaction="y", is_commit=False)
    schedule(queue, "e", outcome="info")
    appear(queue, "a", "c")
    assert queue.found() == []


def test_delays_that_are_not_kept(queue: Queue) -> None:
    schedule(queue, "early", 60_000)
    schedule(queue, "twice")
    schedule(queue, "lost")
    schedule(queue, "cancelled")
    queue("cancel", topic="d", value="cancelled")
    schedule(queue, "aborted", transaction="y")
    queue("decide", transaction="y", is_commit=False)
    appear(queue, "early", "twice", "twice", "cancelled", "aborted")
    assert sorted(queue.found()) == [
        "aborted was aborted and appeared",
        "cancelled was cancelled and appeared",
        "early appeared early",
        "lost never appeared",
        "twice appeared twice",
    ]


def test_a_record_appears_that_nobody_sent(queue: Queue) -> None:
    schedule(queue, "a")
    appear(queue, "a", "stranger")
    assert queue.found() == ["stranger appeared, and nobody sent it"]
