"""Offsets committed inside transactions: permission, when they take effect, and their deletion and expiry."""

from collections.abc import Callable
from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.config.group_defaults import GroupDefaults
from headwater.coordination.catalog.events import Topic
from headwater.coordination.groups.classic.events import ClassicGroupForgotten
from headwater.coordination.groups.offsets.events import OffsetForgotten, TransactionEnded
from headwater.coordination.groups.terms import GroupState
from headwater.errors import ErrorCode, Refusal
from headwater.ids import NO_TOPIC_ID, GroupId, ProducerId, TopicId, TopicName
from tests.coordination.groups.machine_driver import SETTINGS, MachineDriver
from tests.coordination.groups.one_group import OneGroup, completing, mixed, nothing, offset, preparing
from tests.support.coordination.consumer_driver import Topics

NAME = "payments"
PAYMENTS = GroupId(NAME)
ANN, BOB = 1, 2
HERE, THERE = ("a", 0), ("a", 1)
RETENTION_MS = SETTINGS.offsets_retention_ms
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT

Begin = Callable[[OneGroup], None]


@pytest.fixture
def driver() -> MachineDriver:
    return MachineDriver(Topics({"a": 2, "b": 1}))


@pytest.fixture
def group(driver: MachineDriver) -> OneGroup:
    return driver.group(NAME)


# -- who may commit


@pytest.mark.parametrize(
    ("begin", "member_id", "generation"),
    [
        (nothing, "", -1),
        (nothing, "somebody", -1),
        (OneGroup.empty_classic, "", -1),
        (OneGroup.empty_consumer, "", -1),
        (OneGroup.stable_classic, "bob", 1),
        (preparing, "bob", 1),
        # Commits in transactions do not wait for the assignment: the producer consumed before the rebalance.
        (completing, "bob", 1),
        (OneGroup.stable_consumer, "ann", 1),
        (mixed, "ann", 2),
        (mixed, "bob", 2),
        # Producers that do not name the member for which they commit.
        (OneGroup.stable_classic, "", -1),
        (OneGroup.stable_consumer, "", -1),
    ],
)
def test_members_and_producers_without_a_member_commit_in_transactions(
    driver: MachineDriver, group: OneGroup, begin: Begin, member_id: str, generation: int
) -> None:
    begin(group)
    codes = group.commit_in_transaction(
        ANN, offset(*HERE, 7), offset(*THERE, 8), epoch=3, member_id=member_id, generation=generation
    )
    assert codes == [ErrorCode.NONE] * 2
    assert group.committed() == {}
    assert [event[:5] for event in driver.log[-2:]] == [(ANN, 3, NAME, *HERE), (ANN, 3, NAME, *THERE)]

    driver.end_transaction(ANN, is_committed=True)
    assert group.committed() == {HERE: 7, THERE: 8}


@pytest.mark.parametrize(
    ("begin", "member_id", "generation", "code"),
    [
        (nothing, "bob", 1, ErrorCode.ILLEGAL_GENERATION),
        (OneGroup.empty_classic, "bob", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        (OneGroup.stable_classic, "bob", 0, ErrorCode.ILLEGAL_GENERATION),
        (OneGroup.stable_classic, "stranger", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        # Producers do not know the codes of member epochs, so they get codes that they know.
        (OneGroup.stable_consumer, "ann", 0, ErrorCode.ILLEGAL_GENERATION),
        (OneGroup.stable_consumer, "stranger", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        (mixed, "bob", 1, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_a_commit_for_a_replaced_consumer_is_refused(
    driver: MachineDriver, group: OneGroup, begin: Begin, member_id: str, generation: int, code: ErrorCode
) -> None:
    begin(group)
    before = driver.snapshot()
    with pytest.raises(Refusal) as refused:
        group.commit_in_transaction(ANN, offset(*HERE, 7), member_id=member_id, generation=generation)
    assert refused.value.code is code
    assert driver.snapshot() == before


def test_a_commit_beyond_the_limit_of_groups_is_refused(driver: MachineDriver, group: OneGroup) -> None:
    driver.groups_max = 0
    with pytest.raises(Refusal) as refused:
        group.commit_in_transaction(ANN, offset(*HERE, 7))
    assert refused.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_metadata_that_is_too_long_keeps_only_its_own_partition_from_being_committed(
    driver: MachineDriver, group: OneGroup
) -> None:
    too_long = "x" * (SETTINGS.offset_metadata_max_bytes + 1)
    codes = group.commit_in_transaction(ANN, offset(*HERE, 7, note=too_long), offset(*THERE, 8))
    assert codes == [ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.NONE]
    driver.end_transaction(ANN, is_committed=True)
    assert group.committed() == {THERE: 8}


# -- when they take effect


def test_an_aborted_transaction_leaves_the_previous_offsets(driver: MachineDriver, group: OneGroup) -> None:
    group.commit(offset(*HERE, 1))
    group.commit_in_transaction(ANN, offset(*HERE, 7), offset(*THERE, 8))
    driver.end_transaction(ANN, is_committed=False)
    assert group.committed() == {HERE: 1}
    assert driver.pending() == {}


def test_a_transaction_ends_for_all_of_its_groups_and_for_no_other_producer(driver: MachineDriver) -> None:
    one, two = driver.group("one"), driver.group("two")
    one.commit_in_transaction(ANN, offset(*HERE, 1))
    two.commit_in_transaction(ANN, offset(*HERE, 2))
    two.commit_in_transaction(BOB, offset(*THERE, 3))
    driver.end_transaction(ANN, is_committed=True)
    assert one.committed() == {HERE: 1}
    assert two.committed() == {HERE: 2}
    assert driver.pending() == {("two", *THERE): [(BOB, 3)]}


def test_the_last_of_two_commits_in_a_transaction_counts(driver: MachineDriver, group: OneGroup) -> None:
    group.commit_in_transaction(ANN, offset(*HERE, 7))
    group.commit_in_transaction(ANN, offset(*HERE, 5))
    driver.end_transaction(ANN, is_committed=True)
    assert group.committed() == {HERE: 5}


def test_the_end_of_a_transaction_is_logged_even_without_pending_offsets(driver: MachineDriver) -> None:
    driver.end_transaction(ANN, is_committed=True, epoch=4)
    assert driver.log == [TransactionEnded(ProducerId(ANN), 4, 0, True)]
    assert driver.machine.groups == {}


def test_a_plain_commit_counts_if_it_is_later_in_the_log(driver: MachineDriver, group: OneGroup) -> None:
    group.commit_in_transaction(ANN, offset(*HERE, 7), offset(*THERE, 8))
    group.commit(offset(*HERE, 1))
    driver.end_transaction(ANN, is_committed=True)
    assert group.committed() == {HERE: 1, THERE: 8}


@pytest.mark.parametrize("first", [ANN, BOB])
def test_of_two_transactions_the_later_commit_counts_whichever_ends_first(
    driver: MachineDriver, group: OneGroup, first: int
) -> None:
    group.commit_in_transaction(BOB, offset(*HERE, 6))
    group.commit_in_transaction(ANN, offset(*HERE, 7))
    group.commit_in_transaction(BOB, offset(*HERE, 8))
    for producer in (first, ANN + BOB - first):
        driver.end_transaction(producer, is_committed=True)
    assert group.committed() == {HERE: 8}
    assert driver.pending() == {}


def test_an_aborted_transaction_supersedes_no_commit(driver: MachineDriver, group: OneGroup) -> None:
    group.commit_in_transaction(ANN, offset(*HERE, 7))
    group.commit_in_transaction(BOB, offset(*HERE, 8))
    driver.end_transaction(BOB, is_committed=False)
    driver.end_transaction(ANN, is_committed=True)
    assert group.committed() == {HERE: 7}


# -- fetches while they are pending


def test_a_stable_fetch_is_refused_while_an_offset_is_pending(driver: MachineDriver, group: OneGroup) -> None:
    group.commit(offset(*HERE, 1), offset("b", 0, 2))
    group.commit_in_transaction(ANN, offset(*HERE, 7), offset(*THERE, 8))

    assert group.committed(HERE, THERE, ("b", 0)) == {HERE: 1, THERE: None, ("b", 0): 2}
    stable = group.committed(HERE, THERE, ("b", 0), require_stable=True)
    assert stable == {HERE: UNSTABLE, THERE: UNSTABLE, ("b", 0): 2}
    assert group.committed(require_stable=True) == {HERE: UNSTABLE, ("b", 0): 2}

    driver.end_transaction(ANN, is_committed=True)
    assert group.committed(HERE, THERE, require_stable=True) == {HERE: 7, THERE: 8}


def test_a_stable_fetch_succeeds_once_no_transaction_can_change_the_offset(group: OneGroup) -> None:
    group.commit_in_transaction(ANN, offset(*HERE, 7))
    group.commit(offset(*HERE, 1))
    assert group.committed(HERE, require_stable=True) == {HERE: 1}


# -- what is deleted and what expires


def test_deleting_an_offset_deletes_its_pending_offsets(driver: MachineDriver, group: OneGroup) -> None:
    group.commit(offset(*HERE, 1))
    group.commit_in_transaction(ANN, offset(*HERE, 7), offset(*THERE, 8), offset("b", 0, 9))
    assert group.delete_offsets(HERE, THERE) == [ErrorCode.NONE] * 2
    driver.end_transaction(ANN, is_committed=True)
    assert group.committed() == {("b", 0): 9}


def test_deleting_a_group_deletes_its_pending_offsets(driver: MachineDriver, group: OneGroup) -> None:
    group.commit(offset(*HERE, 1))
    group.commit_in_transaction(ANN, offset(*HERE, 7), offset(*THERE, 8))
    assert driver.delete(NAME) == [
        OffsetForgotten(PAYMENTS, TopicName("a"), 0),
        OffsetForgotten(PAYMENTS, TopicName("a"), 1),
        ClassicGroupForgotten(PAYMENTS),
    ]
    driver.end_transaction(ANN, is_committed=True)
    assert driver.machine.groups == {}
    assert driver.offsets() == {}


def test_deleting_a_topic_deletes_its_pending_offsets(driver: MachineDriver, group: OneGroup) -> None:
    group.commit(offset(*HERE, 1))
    group.commit_in_transaction(ANN, offset(*HERE, 7), offset(*THERE, 8), offset("b", 0, 9))
    group.commit_in_transaction(BOB, offset(*HERE, 6))
    driver.forget_topics("a")
    assert driver.log[-2:] == [OffsetForgotten(PAYMENTS, TopicName("a"), partition) for partition in (0, 1)]
    assert driver.pending() == {(NAME, "b", 0): [(ANN, 9)]}


def test_offsets_with_a_pending_change_do_not_expire_nor_does_their_group(
    driver: MachineDriver, group: OneGroup
) -> None:
    group.commit(offset(*HERE, 1), offset(*THERE, 2))
    group.commit_in_transaction(ANN, offset(*HERE, 7))
    driver.pass_time(2 * RETENTION_MS)
    assert driver.expire() == [OffsetForgotten(PAYMENTS, TopicName("a"), 1)]
    assert group.committed() == {HERE: 1}

    driver.end_transaction(ANN, is_committed=False)
    assert driver.expire() == [OffsetForgotten(PAYMENTS, TopicName("a"), 0), ClassicGroupForgotten(PAYMENTS)]


def test_a_group_with_nothing_but_pending_offsets_is_not_removed(driver: MachineDriver, group: OneGroup) -> None:
    group.empty_classic()
    group.commit_in_transaction(ANN, offset(*HERE, 7))
    driver.pass_time(2 * RETENTION_MS)
    assert driver.expire() == []
    driver.end_transaction(ANN, is_committed=False)
    assert driver.expire() == [ClassicGroupForgotten(PAYMENTS)]


def test_while_a_group_rebalances_its_pending_offsets_are_kept_too(driver: MachineDriver, group: OneGroup) -> None:
    completing(group)
    group.commit_in_transaction(ANN, offset(*HERE, 7))
    assert driver.expire() == []
    assert driver.pending() == {(NAME, *HERE): [(ANN, 7)]}


def test_a_group_begun_only_by_an_aborted_transaction_ends_with_it(driver: MachineDriver, group: OneGroup) -> None:
    group.commit_in_transaction(ANN, offset(*HERE, 7))
    assert group.state is GroupState.EMPTY
    assert driver.machine.offsets.has_offsets(PAYMENTS)
    driver.end_transaction(ANN, is_committed=False)
    assert driver.machine.groups == {}


@pytest.mark.parametrize("begin", [OneGroup.empty_classic, OneGroup.stable_classic, OneGroup.stable_consumer])
def test_a_group_older_than_an_aborted_transaction_stays(driver: MachineDriver, group: OneGroup, begin: Begin) -> None:
    begin(group)
    group.commit_in_transaction(ANN, offset(*HERE, 7))
    driver.end_transaction(ANN, is_committed=False)
    assert PAYMENTS in driver.machine.groups


def test_pending_offsets_keep_a_group_whose_last_member_leaves_before_its_assignment(
    driver: MachineDriver, group: OneGroup
) -> None:
    group.commit_in_transaction(ANN, offset(*HERE, 7))
    completing(group)
    group.leave(("bob", None))
    assert group.state is GroupState.EMPTY
    driver.end_transaction(ANN, is_committed=True)
    assert group.committed() == {HERE: 7}


# -- restarts


OLD, NEW = TopicId(UUID(int=1)), TopicId(UUID(int=2))


@pytest.mark.parametrize(
    ("committed", "pending", "is_forgotten"),
    [
        (None, [OLD], True),
        (OLD, [OLD], True),
        (None, [NO_TOPIC_ID], False),
        # Where some offset is of the topic that is there now, it is kept with all the others.
        (None, [OLD, NEW], False),
        (OLD, [NEW], False),
        (NEW, [OLD], False),
    ],
)
def test_pending_offsets_of_a_recreated_topics_namesake_are_deleted(
    driver: MachineDriver, group: OneGroup, committed: TopicId | None, pending: list[TopicId], is_forgotten: bool
) -> None:
    if committed is not None:
        group.commit(offset(*HERE, 1)._replace(topic_id=committed))
    for producer, topic_id in enumerate(pending):
        group.commit_in_transaction(producer, offset(*HERE, 7)._replace(topic_id=topic_id))
    name = TopicName("a")
    found = driver.machine.offsets.decide_forget_gone({name: Topic(name, NEW, 2, {})})
    assert found == ([OffsetForgotten(PAYMENTS, name, 0)] if is_forgotten else [])


def test_an_open_transaction_goes_on_after_a_restart(driver: MachineDriver, group: OneGroup) -> None:
    group.commit(offset(*HERE, 1))
    group.commit_in_transaction(ANN, offset(*HERE, 7))
    again = driver.restarted()
    assert again.pending() == driver.pending() == {(NAME, *HERE): [(ANN, 7)]}
    again.end_transaction(ANN, is_committed=True)
    assert again.group(NAME).committed() == {HERE: 7}


# Producer, group and partition, or the end of the producer's transaction, or none of it: a plain commit or deletion.
producers = st.integers(1, 3)
names = st.sampled_from(["one", "two"])
places = st.tuples(st.sampled_from(["a", "b"]), st.just(0))
steps = st.one_of(
    st.tuples(st.just("commit"), names, places),
    st.tuples(st.just("delete"), names, places),
    st.tuples(st.just("pend"), names, places, producers),
    st.tuples(st.just("end"), producers, st.booleans()),
)


@given(st.lists(steps, max_size=30), st.integers(0, 1 << 30))
def test_every_prefix_of_a_log_compacted_or_not_gives_the_same_offsets(
    steps: list[tuple[object, ...]], seed: int
) -> None:
    driver = MachineDriver(Topics({"a": 1, "b": 1}), GroupDefaults())
    random = Random(seed)
    for at, step in enumerate(steps):
        match step:
            case "commit", str(name), (str(topic), int(partition)):
                driver.group(name).commit(offset(topic, partition, at))
            case "delete", str(name), (str(topic), int(partition)):
                if name in driver.machine.groups:
                    driver.group(name).delete_offsets((topic, partition))
            case "pend", str(name), (str(topic), int(partition)), int(producer):
                driver.group(name).commit_in_transaction(producer, offset(topic, partition, at))
            case _, int(producer), bool(is_committed):
                driver.end_transaction(producer, is_committed=is_committed)
            case _:
                raise AssertionError(step)
        for records in (driver.records, driver.compacted(random, tombstones_kept=random.choice((0.0, 0.5, 1.0)))):
            rebuilt = driver.replayed(records)
            assert rebuilt.offsets() == driver.offsets()
            assert rebuilt.pending() == driver.pending()
        # Compacted for good: what follows is decided on what is left.
        if random.random() < 0.2:
            driver = driver.replayed(driver.compacted(random, tombstones_kept=random.random()))
