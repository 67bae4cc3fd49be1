import pytest

from headwater.coordination.groups.consumer.events import RegexResolved
from headwater.coordination.groups.consumer.subscriptions import (
    NO_METADATA_HASH,
    TopicSubscription,
    metadata_hash,
    resolve,
    resubscribe,
    subscribed_names,
    topic_ids_of,
)
from headwater.coordination.patterns import LENGTH_MAX
from headwater.errors import ErrorCode, Refusal
from headwater.ids import TopicName
from tests.support.coordination.consumer_driver import GROUP, Topics


def names(*each: str) -> frozenset[TopicName]:
    return frozenset(map(TopicName, each))


@pytest.mark.parametrize(
    ("regex", "found"),
    [
        ("orders", {"orders"}),
        ("order", set()),
        ("orders.*", {"orders", "orders-eu"}),
        (".*-eu", {"orders-eu", "stock-eu"}),
        ("(?i)ORDERS", {"orders"}),
        (".*", {"orders", "orders-eu", "stock-eu"}),
        ("__.*", set()),
        ("orders|stock-eu", {"orders", "stock-eu"}),
    ],
)
def test_a_regular_expression_matches_whole_names_and_no_internal_topics(regex: str, found: set[str]) -> None:
    topics = Topics({"orders": 1, "orders-eu": 1, "stock-eu": 1, "__consumer_offsets": 50})

    assert resolve(regex, topics) == found


@pytest.mark.parametrize(
    "regex",
    [
        "(",
        "a{1000}{1000}",
        "(?P<name>x",
        "(?=look)",
        "\\1",
        "a\ud800",
        "x" * 1025,
        "(?:[a-z0-9]?){1000}b",
        "(x|[a-z0-9]{1,20}){20}b",
    ],
)
def test_an_expression_that_re2_does_not_support_is_refused(regex: str) -> None:
    with pytest.raises(Refusal) as refused:
        resolve(regex, Topics())

    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_the_longest_regular_expression_is_accepted() -> None:
    assert resolve("x" * LENGTH_MAX, Topics({"orders": 1})) == frozenset()


def test_a_pattern_that_would_make_a_backtracking_engine_hang_is_answered_at_once() -> None:
    topics = Topics({"a" * 200: 1})

    assert resolve("(a*)*b", topics) == frozenset()


def test_the_hash_changes_with_every_relevant_property_of_the_subscribed_topics() -> None:
    def hashed(topics: Topics, *subscribed: str) -> int:
        return metadata_hash(names(*(subscribed or ("a", "b"))), topics)

    plain = hashed(Topics({"a": 1, "b": 2}))
    grown = hashed(Topics({"a": 2, "b": 2}))
    recreated = Topics({"a": 1, "b": 2})
    recreated.delete("a")
    recreated.put("a", 1)
    racked = Topics({"a": 1, "b": 2})
    racked.racks_of["b", 1] = frozenset({"east"})
    fewer = hashed(Topics({"a": 1, "b": 2}), "a")

    assert len({plain, grown, hashed(recreated), hashed(racked), fewer}) == 5
    assert hashed(Topics({"a": 1, "b": 2, "c": 5})) == plain, "other topics do not matter"
    assert hashed(Topics({"a": 1, "b": 2}), "b", "a", "missing") == plain, "nor do those that do not exist"
    assert hashed(Topics(), "a") == NO_METADATA_HASH
    assert -(2**63) <= plain < 2**63


def test_the_hash_is_the_same_after_a_restart() -> None:
    assert metadata_hash(names("a"), Topics({"a": 3})) == 7_373_055_845_747_325_977


def test_members_with_the_same_subscription_are_counted_together() -> None:
    one, other = TopicSubscription(names("a"), None), TopicSubscription(names("a"), "b.*")
    subscribers = resubscribe({}, (), [one, one, other])

    assert subscribers == {one: 2, other: 1}
    assert resubscribe(subscribers, [one, other], []) == {one: 1}
    assert subscribers == {one: 2, other: 1}


def test_a_subscription_includes_its_names_and_the_matches_of_its_expression() -> None:
    topics = Topics({"a": 1, "b": 1})
    subscription = TopicSubscription(names("a", "missing"), "b.*")
    regexes = {"b.*": RegexResolved(GROUP, "b.*", names("b", "gone"), 1, 0)}

    assert subscribed_names({subscription: 1}, regexes) == {"a", "missing", "b", "gone"}
    assert topic_ids_of(subscription, regexes, topics) == frozenset(topics.by_id)
    assert subscribed_names({subscription: 1}, {}) == {"a", "missing"}, "not resolved yet: it stands for nothing"
