"""The catalog's machine: decisions, state, and rebuilding from its log alone."""

import copy
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headwater.coordination.access.machine import AccessLimits
from headwater.coordination.catalog.events import (
    BrokerDefaults,
    BrokerOverrides,
    Event,
    GroupOverrides,
    ProducerIdsReserved,
    Topic,
    TopicDeleted,
)
from headwater.coordination.catalog.machine import PRODUCER_ID_BLOCK, CatalogMachine
from headwater.coordination.catalog.topic_names import check_topic_name
from headwater.errors import ErrorCode, Refusal
from headwater.ids import GroupId, TopicId, TopicName

ORDERS = Topic(TopicName("orders"), TopicId(UUID(int=1)), 3, {"retention.ms": "5"})
USERS = Topic(TopicName("users"), TopicId(UUID(int=2)), 1, {})
ANN = GroupOverrides(GroupId("ann"), {"consumer.session.timeout.ms": "50000"})
BOB = GroupId("bob")


def topics_of(*events: Event, topics_max: int = 10, partitions_max: int = 20, groups_max: int = 2) -> CatalogMachine:
    topics = CatalogMachine(
        topics_max=topics_max, partitions_max=partitions_max, groups_max=groups_max, access_limits=AccessLimits()
    )
    for event in events:
        topics.apply(event)
    return topics


def state(topics: CatalogMachine) -> dict[str, Any]:
    return copy.deepcopy({**vars(topics), "access": vars(topics.access), "identities": vars(topics.identities)})


def refusal(topics: CatalogMachine, decide: str, *arguments: object) -> ErrorCode:
    before = state(topics)
    with pytest.raises(Refusal) as refused:
        getattr(topics, decide)(*arguments)
    assert state(topics) == before
    return refused.value.code


# -- decisions


def test_a_topic_is_created_and_deciding_does_not_mutate() -> None:
    topics = topics_of(ORDERS)
    before = state(topics)

    assert topics.decide_create("users", USERS.id, 1, {}) == [USERS]
    assert topics.decide_delete("orders") == [TopicDeleted(ORDERS.name)]
    assert topics.decide_add_partitions("orders", 5) == [Topic(ORDERS.name, ORDERS.id, 5, ORDERS.overrides)]
    assert topics.decide_configure("orders", {"a": "b"}) == [Topic(ORDERS.name, ORDERS.id, 3, {"a": "b"})]
    assert topics.decide_configure_broker({"a": "b"}) == [BrokerOverrides({"a": "b"})]
    assert topics.decide_configure_brokers({"a": "b"}) == [BrokerDefaults({"a": "b"})]
    assert topics.decide_configure_group(ANN.group_id, ANN.values) == [ANN]
    assert topics.decide_reserve_producer_ids() == [ProducerIdsReserved(PRODUCER_ID_BLOCK)]
    assert state(topics) == before


def test_a_change_without_effect_creates_no_event() -> None:
    topics = topics_of(ORDERS, BrokerOverrides({"a": "b"}), BrokerDefaults({"c": "d"}), ANN)
    assert topics.decide_configure("orders", {"retention.ms": "5"}) == []
    assert topics.decide_configure_broker({"a": "b"}) == []
    assert topics.decide_configure_brokers({"c": "d"}) == []
    assert topics.decide_configure_group(ANN.group_id, ANN.values) == []
    assert topics.decide_configure_group(BOB, {}) == []


def test_an_event_holds_its_own_copy_of_the_settings() -> None:
    overrides = {"retention.ms": "1"}
    topics = topics_of(ORDERS)
    created = topics.decide_create("users", USERS.id, 1, overrides)
    configured = topics.decide_configure("orders", overrides)
    broker = topics.decide_configure_broker(overrides)
    group = topics.decide_configure_group(BOB, overrides)
    overrides["retention.ms"] = "2"
    for (event,) in (created, configured):
        assert isinstance(event, Topic)
        assert event.overrides == {"retention.ms": "1"}
    assert broker == [BrokerOverrides({"retention.ms": "1"})]
    assert group == [GroupOverrides(BOB, {"retention.ms": "1"})]


@pytest.mark.parametrize(
    ("decide", "arguments", "code"),
    [
        ("decide_create", ("orders", UUID(int=9), 1, {}), ErrorCode.TOPIC_ALREADY_EXISTS),
        ("decide_create", ("new", UUID(int=9), 0, {}), ErrorCode.INVALID_PARTITIONS),
        ("decide_create", ("new", UUID(int=9), -1, {}), ErrorCode.INVALID_PARTITIONS),
        ("decide_create", ("new", UUID(int=9), 18, {}), ErrorCode.POLICY_VIOLATION),
        ("decide_delete", ("nobody",), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("decide_add_partitions", ("nobody", 5), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("decide_add_partitions", ("orders", 3), ErrorCode.INVALID_PARTITIONS),
        ("decide_add_partitions", ("orders", 2), ErrorCode.INVALID_PARTITIONS),
        ("decide_add_partitions", ("orders", 21), ErrorCode.POLICY_VIOLATION),
        ("decide_configure", ("nobody", {}), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("decide_configure_group", ("", {"a": "b"}), ErrorCode.INVALID_REQUEST),
    ],
)
def test_invalid_changes_are_refused_with_kafkas_codes(
    decide: str, arguments: tuple[object, ...], code: ErrorCode
) -> None:
    assert refusal(topics_of(ORDERS), decide, *arguments) is code


def test_the_number_of_topics_is_bounded() -> None:
    assert (
        refusal(topics_of(ORDERS, topics_max=1), "decide_create", "new", UUID(int=9), 1, {})
        is ErrorCode.POLICY_VIOLATION
    )
    assert topics_of(ORDERS, partitions_max=4).decide_create("new", UUID(int=9), 1, {})


def test_the_number_of_groups_with_settings_is_bounded() -> None:
    full = topics_of(ANN, GroupOverrides(BOB, {"a": "b"}))
    assert refusal(full, "decide_configure_group", "eve", {"a": "b"}) is ErrorCode.POLICY_VIOLATION
    assert full.decide_configure_group(BOB, {"a": "c"})
    assert full.decide_configure_group(BOB, {}) == [GroupOverrides(BOB, {})]


@pytest.mark.parametrize("name", ["a", "A.b_c-1", "x" * 249, "...", "__consumer_offsets", "_", "0"])
def test_valid_topic_names_are_accepted(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "x" * 250, "a b", "a/b", "ä", "a\n", "a\x00", "Ⅷ", "٣", "__headwater_", "__headwater_catalog"],
)
def test_invalid_topic_names_are_refused(name: str) -> None:
    with pytest.raises(Refusal) as refused:
        check_topic_name(name)
    assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_names_that_differ_only_in_dot_and_underscore_collide() -> None:
    topics = topics_of(Topic(TopicName("a.b_c"), TopicId(UUID(int=1)), 1, {}))
    assert refusal(topics, "decide_create", "a_b.c", UUID(int=2), 1, {}) is ErrorCode.INVALID_TOPIC_EXCEPTION
    topics.apply(TopicDeleted(TopicName("a.b_c")))
    assert topics.decide_create("a_b.c", UUID(int=2), 1, {})


# -- state


def test_a_topic_is_found_by_name_and_by_id_until_it_is_deleted() -> None:
    topics = topics_of(ORDERS, USERS)
    assert topics.existing("orders") is topics.by_id[ORDERS.id] is ORDERS
    assert topics.partition_total == 4

    topics.apply(TopicDeleted(ORDERS.name))

    assert (topics.by_name, topics.by_id, topics.partition_total) == ({"users": USERS}, {USERS.id: USERS}, 1)


def test_a_recreated_topic_is_another_topic() -> None:
    again = Topic(ORDERS.name, TopicId(UUID(int=7)), 1, {})
    topics = topics_of(ORDERS, again)
    assert topics.by_id == {again.id: again}
    assert topics.partition_total == 1


def test_a_deletion_of_a_topic_that_was_compacted_away_is_ignored() -> None:
    topics = topics_of(TopicDeleted(ORDERS.name), USERS)
    assert list(topics.by_name) == ["users"]


def test_a_group_has_settings_until_they_are_unset() -> None:
    topics = topics_of(ANN)
    assert topics.group_overrides == {"ann": ANN.values}
    topics.apply(GroupOverrides(ANN.group_id, {}))
    topics.apply(GroupOverrides(BOB, {}))
    assert topics.group_overrides == {}


def test_the_version_rises_whenever_a_topic_changes_and_only_then() -> None:
    topics = topics_of()
    seen = [topics.version]
    grown = Topic(ORDERS.name, ORDERS.id, 5, ORDERS.overrides)
    for event in (ORDERS, grown, USERS, TopicDeleted(ORDERS.name)):
        topics.apply(event)
        seen.append(topics.version)
    assert seen == sorted(set(seen)), "strictly rising"
    for event in (ANN, BrokerOverrides({}), ProducerIdsReserved(1)):
        topics.apply(event)
    assert topics.version == seen[-1]


def test_producer_ids_are_reserved_block_after_block() -> None:
    topics = topics_of()
    for _ in range(3):
        (event,) = topics.decide_reserve_producer_ids()
        topics.apply(event)
    assert topics.next_producer_id == 3 * PRODUCER_ID_BLOCK


# -- replay

names = st.sampled_from(["a", "b", "c.d", "c_d", "e"]).map(TopicName)
settings = st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from(["1", "2"]))


class Life(RuleBasedStateMachine):
    """After any commands the log rebuilds the catalog, compacted or not."""

    def __init__(self) -> None:
        super().__init__()
        self.topics = topics_of(topics_max=4, partitions_max=12)
        self.log: list[Event] = []
        self.ids = iter(range(1, 10**6))

    def commit(self, decide: str, *arguments: object) -> None:
        before = state(self.topics)
        try:
            events = getattr(self.topics, decide)(*arguments)
        except Refusal:
            events = []
        assert state(self.topics) == before, "deciding must not mutate"
        for event in events:
            self.topics.apply(event)
            self.log.append(event)

    @rule(name=names, count=st.integers(-1, 5), overrides=settings)
    def create(self, name: str, count: int, overrides: dict[str, str]) -> None:
        self.commit("decide_create", name, UUID(int=next(self.ids)), count, overrides)

    @rule(name=names)
    def delete(self, name: str) -> None:
        self.commit("decide_delete", name)

    @rule(name=names, count=st.integers(-1, 8))
    def grow(self, name: str, count: int) -> None:
        self.commit("decide_add_partitions", name, count)

    @rule(name=names, overrides=settings)
    def configure(self, name: str, overrides: dict[str, str]) -> None:
        self.commit("decide_configure", name, overrides)

    @rule(values=settings)
    def configure_broker(self, values: dict[str, str]) -> None:
        self.commit("decide_configure_broker", values)

    @rule(group_id=st.sampled_from(["ann", "bob", "eve"]), values=settings)
    def configure_group(self, group_id: str, values: dict[str, str]) -> None:
        self.commit("decide_configure_group", group_id, values)

    @rule()
    def reserve(self) -> None:
        self.commit("decide_reserve_producer_ids")

    @invariant()
    def what_is_counted_is_what_is_there(self) -> None:
        found = self.topics.by_name.values()
        assert self.topics.partition_total == sum(topic.partition_count for topic in found) <= 12
        assert self.topics.by_id == {topic.id: topic for topic in found}
        assert len(found) <= 4

    @invariant()
    def the_log_rebuilds_the_machine(self) -> None:
        assert state(topics_of(*self.log, topics_max=4, partitions_max=12)) == state(self.topics)

    @invariant()
    def so_does_the_compacted_log(self) -> None:
        latest: dict[object, Event] = {}
        for event in self.log:
            match event:
                case Topic() | TopicDeleted():
                    key = event.name
                case GroupOverrides(group_id):
                    key = group_id
                case _:
                    key = type(event)
            latest.pop(key, None)
            latest[key] = event
        rebuilt, expected = state(topics_of(*latest.values(), topics_max=4, partitions_max=12)), state(self.topics)
        # The machine rebuilt from a compacted log has seen fewer changes, so its version is lower.
        assert rebuilt.pop("version") <= expected.pop("version")
        assert rebuilt == expected


Life.TestCase.settings = hypothesis_settings(max_examples=50, stateful_step_count=30)
TestLife = Life.TestCase


@given(st.text(max_size=300))
def test_a_name_is_accepted_or_refused_and_an_accepted_one_is_a_safe_file_name(name: str) -> None:
    try:
        check_topic_name(name)
    except Refusal:
        return
    assert name.isascii()
    assert 0 < len(name) <= 249
    assert not set(name) & set("/\\\0\n")
    assert name not in (".", "..")
