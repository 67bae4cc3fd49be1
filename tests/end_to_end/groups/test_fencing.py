"""Commits of fenced and unknown members are refused with Kafka's codes in every version of OffsetCommit."""

from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID, uuid4

import pytest

from headwater.errors import ErrorCode
from headwater.testing import Broker
from tests.support.kafka.raw_client import RawClient
from tests.support.kafka.raw_groups import (
    COMMIT_VERSIONS,
    SETTINGS,
    Place,
    commit,
    committed,
    consumer_member,
    find,
    heartbeat,
    join,
    leave,
    member_heartbeat,
    only_member,
    sync,
)

FIRST_VERSION_WITH_INSTANCES = 7
FIRST_VERSION_WITH_EPOCHS = 9


class Group(NamedTuple):
    """One group, one topic, and the version of OffsetCommit under test."""

    client: RawClient
    id: str
    topic: str
    topic_id: UUID
    version: int

    def commit(self, place: Place, offset: int) -> int:
        return commit(self.client, self.id, place, self.topic, offset, topic_id=self.topic_id, version=self.version)

    def committed(self) -> int:
        return committed(self.client, self.id, self.topic).committed_offset


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(SETTINGS) as broker:
        yield broker


@pytest.fixture
def client(broker: Broker) -> Iterator[RawClient]:
    with RawClient(broker) as client:
        yield client


@pytest.fixture(params=COMMIT_VERSIONS)
def group(client: RawClient, request: pytest.FixtureRequest) -> Group:
    topic = f"topic-{uuid4().hex}"
    return Group(client, f"group-{uuid4().hex}", topic, client.create(topic), request.param)


def test_a_commit_of_an_older_or_newer_generation_is_refused(group: Group) -> None:
    place = only_member(group.client, group.id)
    assert group.commit(place, 5) == 0

    for generation in (place.generation - 1, place.generation + 1):
        assert group.commit(place._replace(generation=generation), 9) == ErrorCode.ILLEGAL_GENERATION

    assert group.committed() == 5


def test_a_member_that_missed_a_rebalance_cannot_commit(group: Group) -> None:
    place = only_member(group.client, group.id)
    assert group.commit(place, 5) == 0
    again = join(group.client, group.id, place, topics=["another"])
    assert again.generation_id == place.generation + 1
    after = place._replace(generation=again.generation_id)

    assert group.commit(place, 6) == ErrorCode.ILLEGAL_GENERATION
    assert group.commit(after, 7) == ErrorCode.REBALANCE_IN_PROGRESS, "it has no assignment yet"
    assert sync(group.client, group.id, after, {place.member_id: b""}).error_code == 0
    assert group.commit(place, 8) == ErrorCode.ILLEGAL_GENERATION
    assert group.committed() == 5
    assert group.commit(after, 9) == 0
    assert group.committed() == 9


def test_a_commit_of_an_unknown_member_is_refused(group: Group) -> None:
    place = only_member(group.client, group.id)

    assert group.commit(place._replace(member_id="somebody"), 9) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.commit(Place(), 9) == ErrorCode.UNKNOWN_MEMBER_ID, "nobody sets offsets behind a member's back"
    assert group.committed() == -1


def test_a_member_that_left_cannot_commit(group: Group) -> None:
    place = only_member(group.client, group.id)
    assert group.commit(place, 5) == 0
    leave(group.client, group.id, place)

    assert group.commit(place, 9) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.committed() == 5
    assert group.commit(Place(), 3) == 0, "without members everybody may"


def test_a_commit_with_a_generation_for_a_missing_group_is_refused(group: Group) -> None:
    find(group.client, group.id)
    has_epochs = group.version >= FIRST_VERSION_WITH_EPOCHS
    refusal = ErrorCode.GROUP_ID_NOT_FOUND if has_epochs else ErrorCode.ILLEGAL_GENERATION
    assert group.commit(Place("somebody", 1), 9) == refusal


def test_a_static_member_that_was_replaced_is_fenced(group: Group) -> None:
    """Before version 7 a commit does not name the instance, so the broker sees only an unknown member id."""
    first = only_member(group.client, group.id, "instance")
    assert group.commit(first, 5) == 0
    joined = join(group.client, group.id, Place(instance_id="instance"))
    assert joined.error_code == 0
    second = Place(joined.member_id, joined.generation_id, "instance")
    assert second.member_id != first.member_id

    has_instances = group.version >= FIRST_VERSION_WITH_INSTANCES
    refusal = ErrorCode.FENCED_INSTANCE_ID if has_instances else ErrorCode.UNKNOWN_MEMBER_ID
    assert group.commit(first, 9) == refusal
    assert heartbeat(group.client, group.id, first) == ErrorCode.FENCED_INSTANCE_ID
    assert group.committed() == 5
    assert group.commit(second, 6) == 0
    assert group.committed() == 6


def test_a_consumer_protocol_member_commits_in_its_current_epoch_only(group: Group) -> None:
    place = consumer_member(group.client, group.id, group.topic)

    if group.version < FIRST_VERSION_WITH_EPOCHS:
        assert group.commit(place, 5) == ErrorCode.UNSUPPORTED_VERSION
        assert group.committed() == -1
        return
    assert group.commit(place, 5) == 0
    for epoch in (place.generation - 1, place.generation + 1, -1):
        assert group.commit(place._replace(generation=epoch), 9) == ErrorCode.STALE_MEMBER_EPOCH
    assert group.commit(place._replace(member_id="somebody"), 9) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.commit(Place(), 9) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.committed() == 5


def test_a_consumer_protocol_member_that_left_cannot_commit(group: Group) -> None:
    place = consumer_member(group.client, group.id, group.topic)
    stays = consumer_member(group.client, group.id, group.topic)
    assert member_heartbeat(group.client, group.id, place._replace(generation=-1)).error_code == 0

    assert group.commit(place, 9) == ErrorCode.UNKNOWN_MEMBER_ID
    assert member_heartbeat(group.client, group.id, stays).error_code == 0
    assert group.committed() == -1


def test_a_replaced_static_member_of_the_consumer_protocol_is_unknown(group: Group) -> None:
    first = consumer_member(group.client, group.id, group.topic, "instance")
    assert member_heartbeat(group.client, group.id, first, topics=[group.topic]).error_code == 0, (
        "it is alive and keeps its instance"
    )
    assert member_heartbeat(group.client, group.id, first._replace(generation=-2)).error_code == 0
    second = consumer_member(group.client, group.id, group.topic, "instance")

    assert group.commit(first, 9) == ErrorCode.UNKNOWN_MEMBER_ID
    assert member_heartbeat(group.client, group.id, first).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert member_heartbeat(group.client, group.id, second).error_code == 0
    assert group.committed() == -1
