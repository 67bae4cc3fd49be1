"""What another broker may do with the state of a share-partition, case by case."""

from collections.abc import Callable

import pytest

from headwater.coordination.decisions import Decision
from headwater.coordination.shares.commands import RecordsAvailable
from headwater.coordination.shares.limits import ShareLimits
from headwater.coordination.shares.state_requests import OFFSET_MAX, ReadState, WriteState
from headwater.coordination.shares.terms import NOT_BEGUN
from headwater.errors import ErrorCode, Refusal
from tests.coordination.shares.driver import ACCEPT, ANN, BOB, ORDERS, RELEASE, Driver

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4


class Leader:
    """A broker that leads the partition, at leader epoch 0 and state epoch 0 unless it says otherwise."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver

    def initialize(self, start_offset: int, state_epoch: int = 0) -> None:
        driver = self.driver
        driver.run(lambda: driver.machine.decide_initialize(ORDERS, state_epoch, start_offset, driver.now))

    def write(
        self, start_offset: int, *batches: tuple[int, int, int, int], leader_epoch: int = 0, state_epoch: int = 0
    ) -> None:
        command = WriteState(state_epoch, leader_epoch, start_offset, batches)
        self.driver.run(lambda: self.driver.machine.decide_write(ORDERS, command, self.driver.now))

    def read(self, leader_epoch: int = 0) -> ReadState:
        """Compares equal to plain tuples."""
        return self.driver.run(lambda: self.driver.machine.decide_read(ORDERS, leader_epoch, self.driver.now))


@pytest.fixture
def leader() -> Leader:
    return Leader(Driver(start_offset=None))


def refused(decide: Callable[[], Decision[None] | ReadState | None]) -> ErrorCode:
    with pytest.raises(Refusal) as refusal:
        decide()
    return refusal.value.code


def test_what_was_written_is_read_also_after_a_restart(leader: Leader) -> None:
    leader.initialize(7)
    leader.write(7, (7, 9, ACKNOWLEDGED, 1), (10, 12, AVAILABLE, 2), (15, 20, ARCHIVED, 3))
    # Offsets that nothing is said of are available.
    expected = (0, 7, [(7, 9, ACKNOWLEDGED, 1), (10, 12, AVAILABLE, 2), (15, 20, ARCHIVED, 3)])
    assert leader.read() == expected
    leader.driver.restart()
    assert leader.read() == expected
    status = leader.driver.share.status()
    assert (status.start_offset, status.complete_count, status.end_offset) == (7, 9, 21)


def test_nothing_is_read_or_written_before_it_is_initialized(leader: Leader) -> None:
    assert refused(leader.read) is ErrorCode.INVALID_REQUEST
    assert refused(lambda: leader.write(0)) is ErrorCode.INVALID_REQUEST


def test_the_start_may_be_left_for_the_first_write(leader: Leader) -> None:
    leader.initialize(NOT_BEGUN)
    assert leader.read() == (0, NOT_BEGUN, [])
    assert refused(lambda: leader.write(NOT_BEGUN, (5, 6, ACKNOWLEDGED, 1))) is ErrorCode.INVALID_REQUEST
    leader.write(5, (5, 6, ACKNOWLEDGED, 1), (9, 9, AVAILABLE, 1))
    expected = (0, 5, [(5, 6, ACKNOWLEDGED, 1), (9, 9, AVAILABLE, 1)])
    assert leader.read() == expected
    leader.driver.restart()
    assert leader.read() == expected


def test_a_group_of_this_broker_begins_where_its_settings_say_if_the_start_was_left_open(leader: Leader) -> None:
    leader.initialize(NOT_BEGUN)
    assert not leader.driver.share.has_begun
    leader.driver.begin(4)
    assert leader.driver.share.has_begun
    assert leader.driver.acquire(ANN, (4, 9)) == [(4, 9, 1)]
    # It begins once.
    leader.driver.begin(0)
    assert leader.driver.share.status().start_offset == 4


def test_an_initialization_forgets_what_was_there(leader: Leader) -> None:
    leader.initialize(0)
    leader.driver.acquire(ANN, (0, 9))
    leader.driver.acknowledge(ANN, (0, 3, ACCEPT))
    for state_epoch in (0, 3):
        leader.initialize(5, state_epoch)
        expected = (state_epoch, 5, [])
        assert leader.read() == expected
        leader.driver.restart()
        assert leader.read() == expected
    assert leader.driver.acquire(BOB, (5, 9)) == [(5, 9, 1)]


def test_older_state_epochs_are_fenced(leader: Leader) -> None:
    assert refused(lambda: leader.initialize(0, -1)) is ErrorCode.FENCED_STATE_EPOCH
    leader.initialize(0, 3)
    assert refused(lambda: leader.initialize(0, 2)) is ErrorCode.FENCED_STATE_EPOCH
    assert refused(lambda: leader.write(0, state_epoch=2)) is ErrorCode.FENCED_STATE_EPOCH
    leader.write(1, state_epoch=3)
    assert leader.read().start_offset == 1


def test_a_leader_that_has_read_fences_older_ones(leader: Leader) -> None:
    leader.initialize(0)
    leader.read(leader_epoch=6)
    leader.driver.restart()
    assert leader.driver.share.leader_epoch == 6
    assert refused(lambda: leader.write(0, leader_epoch=5)) is ErrorCode.FENCED_LEADER_EPOCH
    assert refused(lambda: leader.read(leader_epoch=5)) is ErrorCode.FENCED_LEADER_EPOCH
    # -1 names no epoch.
    leader.write(1, leader_epoch=-1)
    assert leader.read(leader_epoch=-1).start_offset == 1
    assert leader.driver.share.leader_epoch == 6


def test_a_write_that_was_overtaken_undoes_nothing(leader: Leader) -> None:
    leader.initialize(7)
    leader.write(7, (7, 9, ACKNOWLEDGED, 1), (10, 12, AVAILABLE, 2), (15, 20, ARCHIVED, 3))
    leader.write(8, (8, 11, ARCHIVED, 1), (9, 10, ACKNOWLEDGED, 5))
    # Higher delivery counts win, then higher states. Neighbours in final states are stored as one.
    assert leader.read() == (0, 8, [(8, 10, ARCHIVED, 5), (11, 12, AVAILABLE, 2), (15, 20, ARCHIVED, 3)])


def test_the_start_moves_forward_only(leader: Leader) -> None:
    leader.initialize(7)
    leader.write(20, (20, 21, AVAILABLE, 1), (4, 6, ACKNOWLEDGED, 1))
    assert leader.read() == (0, 20, [(20, 21, AVAILABLE, 1)])
    assert refused(lambda: leader.write(19)) is ErrorCode.INVALID_REQUEST
    leader.write(NOT_BEGUN, (30, 30, ACKNOWLEDGED, 1))
    assert leader.read() == (0, 20, [(20, 21, AVAILABLE, 1), (30, 30, ACKNOWLEDGED, 1)])


@pytest.mark.parametrize(
    "batch",
    [
        (9, 8, AVAILABLE, 1),
        (-2, 8, AVAILABLE, 1),
        (0, OFFSET_MAX, AVAILABLE, 1),
        (0, 1, 1, 1),
        (0, 1, -1, 1),
        (0, 1, 9, 1),
        (0, 1, AVAILABLE, -1),
    ],
)
def test_a_write_with_nonsense_changes_nothing(leader: Leader, batch: tuple[int, int, int, int]) -> None:
    leader.initialize(0)
    assert refused(lambda: leader.write(0, (0, 3, ACKNOWLEDGED, 1), batch)) is ErrorCode.INVALID_REQUEST
    assert refused(lambda: leader.initialize(-2)) is ErrorCode.INVALID_REQUEST
    assert leader.read() == (0, 0, [])


def test_a_write_is_about_records_that_members_of_this_broker_hold(leader: Leader) -> None:
    leader.initialize(0)
    leader.driver.acquire(ANN, (0, 9))
    leader.write(0, (0, 4, ACKNOWLEDGED, 1))
    assert leader.driver.effects[-1] == RecordsAvailable(ORDERS)
    with pytest.raises(Refusal, match="not held"):
        leader.driver.acknowledge(ANN, (4, 5, RELEASE))
    leader.driver.acknowledge(ANN, (5, 9, ACCEPT))
    assert leader.driver.share.status().start_offset == 10


def test_many_writes_become_snapshots_now_and_then() -> None:
    leader = Leader(Driver(ShareLimits(updates_per_snapshot=3), start_offset=None))
    leader.initialize(0)
    for offset in range(0, 20, 2):
        leader.write(0, (offset, offset, AVAILABLE, 1 + offset))
    expected = leader.read()
    assert leader.driver.share.snapshot_epoch == 3
    # From the last snapshot on, nothing older is needed.
    last = max(
        position for position, event in enumerate(leader.driver.log) if type(event).__name__ == "ShareSnapshotStored"
    )
    leader.driver.restart(leader.driver.log[last:])
    assert leader.read() == expected


def test_numbers_beyond_any_log_are_refused(leader: Leader) -> None:
    for state_epoch, start_offset in (((1 << 31) - 1, 0), (0, (1 << 63) - 1)):
        with pytest.raises(Refusal):
            leader.initialize(start_offset, state_epoch)
    leader.initialize(0)
    with pytest.raises(Refusal):
        leader.write((1 << 63) - 1)
