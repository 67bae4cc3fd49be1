"""Topics of a consumer group are created, grow and are deleted; members subscribe by name and by regular expression."""

import pytest

from headwater.coordination.groups.consumer.commands import LEAVE_EPOCH
from headwater.coordination.groups.consumer.events import MemberDeadlineSet, RegexResolved, TopicsSeen
from headwater.ids import MemberId, TopicName
from tests.coordination.groups.consumer.walks import count, settle
from tests.support.coordination.consumer_driver import GROUP, Driver, Topics, heartbeat

ANN, BOB = MemberId("ann"), MemberId("bob")


@pytest.fixture
def topics() -> Topics:
    return Topics({"a": 4, "b": 2, "__internal": 1})


@pytest.fixture
def driver(topics: Topics) -> Driver:
    return Driver(topics)


# -- topics


def test_new_partitions_are_assigned_and_deleted_ones_revoked(topics: Topics, driver: Driver) -> None:
    driver.join("ann", topics=["a", "b"])
    topics.put("a", 6)
    assert count(driver.heartbeat(heartbeat("ann", 1)).assignment) == 8

    topics.delete("b")
    told = driver.heartbeat(heartbeat("ann", 2))
    assert (told.epoch, count(told.assignment)) == (2, 6)
    assert driver.heartbeat(heartbeat("ann", 2, owned=told.assignment)).epoch == 3


def test_topics_without_subscribers_change_no_assignment(topics: Topics, driver: Driver) -> None:
    driver.join("ann", topics=["a"])
    topics.put("other", 3)

    decision = driver.group.decide_member_heartbeat(heartbeat("ann", 1), driver.now)

    assert [type(event) for event in decision.events] == [TopicsSeen, MemberDeadlineSet]
    driver.apply(decision.events)
    assert len(driver.group.decide_member_heartbeat(heartbeat("ann", 1), driver.now).events) == 1


def test_a_recreated_topic_is_another_topic(topics: Topics, driver: Driver) -> None:
    driver.join("ann", topics=["b"])
    topics.delete("b")
    again = topics.put("b", 2)

    driver.heartbeat(heartbeat("ann", 1))
    assert driver.heartbeat(heartbeat("ann", 1, owned={})).assignment == {again: frozenset({0, 1})}


# -- regular expressions


def test_a_regular_expression_follows_created_and_deleted_topics(topics: Topics, driver: Driver) -> None:
    driver.join("ann", regex="a|c.*")
    driver.join("bob", regex="a|c.*")
    settle(driver, "ann", "bob")
    resolved = [event for event in driver.log if isinstance(event, RegexResolved)]
    assert [(event.regex, event.topics) for event in resolved] == [("a|c.*", {"a"})]

    topics.put("c1", 2)
    settle(driver, "ann", "bob")
    assert sum(count(driver.group.roster.target_of(MemberId(each))) for each in ("ann", "bob")) == 6
    assert driver.group.roster.regexes["a|c.*"].topics == {"a", "c1"}

    driver.heartbeat(heartbeat("ann", driver.group.roster.epoch, regex=""))
    assert "a|c.*" in driver.group.roster.regexes, "bob still needs it"
    driver.heartbeat(heartbeat("bob", LEAVE_EPOCH))
    assert driver.group.roster.regexes == {}


def test_names_and_a_regular_expression_are_combined(topics: Topics, driver: Driver) -> None:
    assert count(driver.join("ann", topics=["b"], regex="a").assignment) == 6
    assert driver.group.is_subscribed_to(TopicName("a"))


def test_topics_that_move_between_expressions_count_even_if_the_groups_set_is_the_same(
    topics: Topics, driver: Driver
) -> None:
    driver.join("ann", regex="a|x")
    driver.join("bob", topics=["a", "b", "x"])
    settle(driver, "ann", "bob")
    epoch = driver.group.roster.epoch
    topics.put("x", 1)
    settle(driver, "ann", "bob")

    assert driver.group.roster.epoch == epoch + 1


def test_an_expression_that_is_no_longer_valid_does_not_affect_the_others(topics: Topics, driver: Driver) -> None:
    driver.join("ann", topics=["a"])
    stored = driver.group.roster.members[ANN].details._replace(member_id=BOB, topic_regex="(")
    driver.apply([stored, RegexResolved(GROUP, "(", frozenset({TopicName("b")}), 1, 0)])
    topics.put("c", 1)

    driver.heartbeat(heartbeat("ann", 1))

    assert driver.group.roster.regexes["("].topics == frozenset()
