"""The machine of schedules: what is due, what is delivered, and what a restart finds."""

from random import Random

import pytest

from headwater.coordination.schedule.events import Done
from headwater.coordination.schedule.machine import PURGE_ENTRIES, PURGE_PAUSE_MS
from headwater.coordination.schedule.terms import DELIVERY_RECORDS_MAX, Target
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import TopicId
from headwater.protocol.batches.batch import Marker
from tests.coordination.schedule.driver import TARGET, TOPIC, WALL_MS, Driver, batch


def end(driver: Driver, *, committed: bool, producer_id: int = 7) -> None:
    driver.run(driver.machine.decide_end_transaction(producer_id, 0, Marker(committed, 0), 1, driver.now))


def test_entries_are_delivered_when_they_are_due() -> None:
    driver = Driver()
    driver.schedule(300, 100, 200)
    driver.advance(99)
    assert driver.deliver() == []
    driver.advance(1)
    assert driver.deliver() == [1]
    driver.advance(500)
    assert driver.deliver() == [2, 0]
    assert driver.machine.count == 0
    assert driver.machine.next_deadline_ms() is None


def test_one_delivery_for_a_target_at_a_time() -> None:
    driver = Driver()
    driver.schedule(1, 2)
    driver.advance(1)
    (first,) = driver.take()
    driver.advance(1)
    assert driver.take() == []
    driver.run(driver.machine.decide_delivered(TARGET, first.base_sequence, driver.now))
    driver.wake()
    (second,) = driver.take()
    assert (first.base_sequence, second.base_sequence) == (0, 1)


def test_a_delivery_is_bounded() -> None:
    driver = Driver()
    driver.schedule(*[1] * (DELIVERY_RECORDS_MAX + 1))
    driver.advance(1)
    (first,) = driver.take()
    assert len(first.entries) == DELIVERY_RECORDS_MAX


def test_entries_wait_until_the_target_has_their_batch() -> None:
    driver = Driver()
    scheduled = driver.schedule(10, confirmed=False)
    driver.advance(1000)
    assert driver.deliver() == []
    driver.confirm(scheduled)
    driver.wake()
    assert driver.deliver() == [0]


def test_a_batch_that_the_target_refused_is_forgotten() -> None:
    driver = Driver()
    scheduled = driver.schedule(10, produced=batch(0), confirmed=False)
    driver.run(driver.machine.decide_withdraw(TARGET, scheduled.first_offset))
    driver.confirm(scheduled)
    driver.advance(1000)
    assert driver.deliver() == []
    assert driver.machine.count == 0


@pytest.mark.parametrize("is_restarted", [True, False])
def test_sequences_of_a_batch_that_the_target_refused_may_be_used_again(*, is_restarted: bool) -> None:
    driver = Driver()
    scheduled = driver.schedule(10, 10, produced=batch(0, 2), confirmed=False)
    assert driver.run(driver.machine.decide_withdraw(TARGET, scheduled.first_offset)) is True
    if is_restarted:
        driver.restart()
    assert not driver.schedule(10, 10, produced=batch(0, 2)).is_repeated
    driver.advance(1000)
    assert len(driver.deliver()) == 2


def test_what_was_loaded_from_the_log_is_not_withdrawn() -> None:
    """It may have been delivered already, so that its producer must not hear that nothing was kept."""
    driver = Driver()
    scheduled = driver.schedule(10, produced=batch(0), confirmed=False)
    driver.restart()
    assert driver.schedule(10, produced=batch(0), confirmed=False).is_repeated
    assert driver.run(driver.machine.decide_withdraw(TARGET, scheduled.first_offset)) is False
    driver.advance(10)
    assert driver.deliver() == [0]


def test_a_second_attempt_waits_for_the_end_of_the_first() -> None:
    driver = Driver()
    driver.schedule(10, produced=batch(0), confirmed=False)
    with pytest.raises(Refusal, match="under way"):
        driver.schedule(10, produced=batch(0))


def test_a_retry_is_recognised_until_the_target_has_the_batch() -> None:
    driver = Driver()
    first = driver.schedule(10, produced=batch(0), confirmed=False)
    driver.restart()
    again = driver.schedule(10, produced=batch(0))
    assert (again.first_offset, again.is_repeated) == (first.first_offset, True)
    assert driver.machine.count == 1
    # After a whole round of sequences these are other records.
    assert not driver.schedule(10, produced=batch(0)).is_repeated


def test_after_a_crash_a_retry_is_recognised_only_if_the_target_lacks_the_batch() -> None:
    driver = Driver()
    driver.schedule(10, produced=batch(0), confirmed=False)
    driver.schedule(10, produced=batch(1), confirmed=False)
    driver.batches.add((TARGET, batch(0)))
    driver.restart()
    assert not driver.schedule(10, produced=batch(0)).is_repeated
    assert driver.schedule(10, produced=batch(1)).is_repeated


def test_a_transaction_decides_about_its_entries() -> None:
    driver = Driver()
    driver.schedule(10, produced=batch(0), transactional=True)
    driver.advance(100)
    assert driver.deliver() == []
    end(driver, committed=True)
    driver.advance(9)
    assert driver.deliver() == []
    driver.advance(1)
    assert driver.deliver() == [0]

    driver.schedule(10, produced=batch(1), transactional=True)
    end(driver, committed=False)
    driver.advance(100)
    assert driver.deliver() == []
    assert driver.machine.count == 0


@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_survives_a_restart(*, committed: bool) -> None:
    driver = Driver()
    driver.schedule(10, produced=batch(0), transactional=True)
    driver.restart(ahead_ms=50)
    driver.advance(100)
    assert driver.deliver() == []
    end(driver, committed=committed)
    driver.restart()
    driver.advance(10)
    assert driver.deliver() == ([0] if committed else [])


def test_a_delivery_that_was_not_noted_is_repeated_under_its_sequence() -> None:
    driver = Driver()
    driver.schedule(10, 20)
    driver.advance(10)
    (before,) = driver.take()
    driver.restart()
    (after,) = driver.take()
    assert after == before
    driver.run(driver.machine.decide_delivered(TARGET, after.base_sequence, driver.now))
    driver.restart(ahead_ms=10)
    driver.wake()
    (next_one,) = driver.take()
    assert (next_one.base_sequence, [entry.offset for entry in next_one.entries]) == (1, [1])


def test_a_target_that_expects_another_sequence_gets_it() -> None:
    driver = Driver()
    driver.schedule(10, 10)
    driver.advance(10)
    (before,) = driver.take()
    driver.run(driver.machine.decide_begin_again(TARGET, before.base_sequence, 40))
    (after,) = driver.take()
    assert after == before._replace(base_sequence=40)
    # What the old attempt says comes too late.
    driver.run(driver.machine.decide_delivered(TARGET, before.base_sequence, driver.now))
    assert driver.machine.count == 2
    driver.run(driver.machine.decide_delivered(TARGET, 40, driver.now))
    assert driver.machine.count == 0


def test_cancelled_entries_never_appear() -> None:
    driver = Driver()
    driver.schedule(10, 20, 30)
    assert driver.cancel(1, 1, 77) == 1
    assert driver.cancel(1) == 0
    driver.advance(100)
    assert driver.deliver() == [0, 2]


def test_an_entry_that_is_being_delivered_can_neither_be_cancelled_nor_moved() -> None:
    driver = Driver()
    driver.schedule(10)
    driver.advance(10)
    for attempt in (lambda: driver.cancel(0), lambda: driver.move(0, 0)):
        with pytest.raises(HeadwaterError, match="being delivered") as refused:
            attempt()
        assert refused.value.code == ErrorCode.INVALID_RECORD_STATE
    assert driver.deliver() == [0]


def test_entries_are_moved_to_and_fro() -> None:
    driver = Driver()
    driver.schedule(100, 200)
    assert driver.move(WALL_MS + 300, 0) == 1
    driver.advance(200)
    assert driver.deliver() == [1]
    driver.move(WALL_MS + 250, 0)
    driver.move(WALL_MS + 300, 0)
    driver.restart()
    driver.advance(99)
    assert driver.deliver() == []
    driver.advance(1)
    assert driver.deliver() == [0]
    # Its move goes with it.
    assert [event for event in driver.log if isinstance(event, Done)][-1].moved == [0]


def test_entries_are_found_by_their_id() -> None:
    driver = Driver()
    driver.schedule(100, 200, name="a")
    driver.schedule(100, name="b")
    assert driver.machine.with_id(TARGET, "a") == [0, 1]
    driver.cancel(0)
    assert driver.machine.with_id(TARGET, "a") == [1]
    assert driver.machine.with_id(TARGET, "c") == []
    driver.restart()
    assert driver.machine.with_id(TARGET, "a") == [1]


def test_more_than_may_be_is_refused() -> None:
    driver = Driver()
    driver.refusal = Refusal(ErrorCode.POLICY_VIOLATION, "too many")
    with pytest.raises(HeadwaterError, match="too many"):
        driver.schedule(10)
    assert driver.machine.count == 0


@pytest.mark.parametrize("is_noticed_at_start", [True, False])
def test_the_schedule_of_a_deleted_topic_goes_in_steps(*, is_noticed_at_start: bool) -> None:
    driver = Driver()
    other = Target(TopicId(TOPIC), 1)
    count = 2 * PURGE_ENTRIES + 1
    driver.schedule(*[10] * count, target=other)
    driver.topics.clear()
    if is_noticed_at_start:
        driver.restart()
    else:
        driver.run(driver.machine.decide_forget(driver.now))
    assert driver.machine.count == 0
    assert driver.machine.find(other) is None
    for _ in range(10):
        driver.advance(PURGE_PAUSE_MS)
    assert driver.take() == []
    assert driver.machine.targets == {}
    assert sum(len(event.entries) for event in driver.log if isinstance(event, Done)) == count


def test_the_wall_clock_decides_and_is_read_every_second() -> None:
    driver = Driver()
    driver.schedule(10_000)
    driver.jump(-5000)
    driver.advance(10_000)
    assert driver.deliver() == []
    driver.now = driver.now._replace(wall_ms=driver.now.wall_ms + 60_000)
    deadline_ms = driver.machine.next_deadline_ms()
    assert deadline_ms is not None
    assert deadline_ms <= driver.now.monotonic_ms + 1000
    driver.advance(1000)
    assert driver.deliver() == [0]


@pytest.mark.parametrize("seed", range(8))
def test_any_history_delivers_each_entry_once_and_none_early(seed: int) -> None:
    """Against the simplest model: a dictionary of due times."""
    random = Random(seed)
    driver = Driver()
    targets = [Target(TOPIC, partition) for partition in range(3)]
    due_ms: dict[int, int] = {}
    where: dict[int, Target] = {}
    delivered: set[int] = set()
    for _ in range(400):
        match random.randrange(9):
            case 0 | 1 | 2:
                target = random.choice(targets)
                delays = [random.randrange(1, 3000) for _ in range(random.randrange(1, 40))]
                first = driver.schedule(*delays, target=target).first_offset
                for index, delay in enumerate(delays):
                    due_ms[first + index] = driver.now.wall_ms + delay
                    where[first + index] = target
            case 3 if due_ms:
                offset = random.choice(list(due_ms))
                if driver.cancel(offset, target=where[offset]):
                    del due_ms[offset]
            case 4 if due_ms:
                offset = random.choice(list(due_ms))
                at_ms = driver.now.wall_ms + random.randrange(-500, 3000)
                assert driver.move(at_ms, offset, target=where[offset]) == 1
                due_ms[offset] = at_ms
            case 5:
                driver.restart(ahead_ms=random.randrange(200))
            case _:
                driver.advance(random.randrange(600))
        driver.wake()
        for offset in driver.deliver():
            assert due_ms.pop(offset) <= driver.now.wall_ms
            assert offset not in delivered
            delivered.add(offset)
        assert all(at_ms > driver.now.wall_ms for at_ms in due_ms.values())
        assert driver.machine.count == len(due_ms)
        assert {each.offset for target in targets for each in driver.machine.page(target, -1, 10_000)} == set(due_ms)
