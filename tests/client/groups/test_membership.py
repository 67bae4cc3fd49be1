"""The member's side of the next-generation protocol, heartbeat by heartbeat; time is moved by hand."""

from collections.abc import Iterator

import pytest

from headwater.client.cluster import Cluster
from headwater.client.coordinator import GroupCoordinator
from headwater.client.errors import Refused
from headwater.client.groups.membership import HEARTBEAT_INTERVAL_MS_MIN, GroupMembership, Rebalance
from headwater.clock import ManualClock
from headwater.errors import ErrorCode
from headwater.ids import TopicName, TopicPartition
from headwater.protocol.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from headwater.protocol.messages.topics.metadata import MetadataRequest
from tests.support.client.scripted_group import GROUP, INTERVAL_MS, ScriptedGroup, beat, topic_id

FIRST, SECOND = (TopicPartition(TopicName("orders"), index) for index in range(2))
NOTHING: frozenset[TopicPartition] = frozenset()


class Scene:
    def __init__(self, group: ScriptedGroup, cluster: Cluster, clock: ManualClock) -> None:
        self.group = group
        self.clock = clock
        self.member = GroupMembership(GroupCoordinator(cluster, GROUP), assignor="uniform", rebalance_timeout_ms=60_000)
        self.member.subscribe(["orders"])

    def join(self, *partitions: int) -> None:
        """Join the group and acknowledge these partitions."""
        self.group.beats = [beat(1, {"orders": list(partitions)}), beat(1)]
        self.member.poll()
        self.member.acknowledge()
        self.member.poll()

    @property
    def last(self) -> ConsumerGroupHeartbeatRequest:
        return self.group.heartbeats[-1]


@pytest.fixture
def scene() -> Iterator[Scene]:
    clock = ManualClock()
    with (
        ScriptedGroup() as group,
        Cluster(group.bootstrap, clock=clock, sleep=lambda seconds: clock.advance(round(seconds * 1000))) as cluster,
    ):
        yield Scene(group, cluster, clock)


def rebalance(
    *, revoked: frozenset[TopicPartition] = NOTHING, assigned: frozenset[TopicPartition] = NOTHING, lost: bool = False
) -> Rebalance:
    return Rebalance(revoked, assigned, lost)


def test_joining_sends_every_field_and_a_plain_heartbeat_none(scene: Scene) -> None:
    scene.join(0)
    joining, acknowledging = scene.group.heartbeats
    assert joining == ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=scene.member.member_id,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["orders"],
        server_assignor="uniform",
        topic_partitions=[],
    )
    assert acknowledging == ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=scene.member.member_id,
        member_epoch=1,
        topic_partitions=[TopicPartitions(topic_id=topic_id("orders"), partitions=[0])],
    )
    scene.clock.advance(INTERVAL_MS)
    assert scene.member.poll() is None
    assert scene.last == ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=scene.member.member_id, member_epoch=1)


def test_heartbeats_follow_the_interval_of_the_coordinator(scene: Scene) -> None:
    scene.join(0)
    count = len(scene.group.heartbeats)
    scene.clock.advance(INTERVAL_MS - 1)
    scene.member.poll()
    assert scene.member.until_heartbeat_ms() == 1
    assert len(scene.group.heartbeats) == count
    scene.clock.advance(1)
    scene.member.poll()
    scene.member.poll()
    assert len(scene.group.heartbeats) == count + 1


def test_a_heartbeat_interval_of_zero_is_raised_to_the_minimum(scene: Scene) -> None:
    answer = beat(1)
    scene.group.beats = [type(answer)(member_epoch=1, heartbeat_interval_ms=0)]
    scene.member.poll()
    assert scene.member.until_heartbeat_ms() == HEARTBEAT_INTERVAL_MS_MIN


def test_a_rebalance_is_returned_until_it_is_acknowledged(scene: Scene) -> None:
    scene.group.beats = [beat(1, {"orders": [0, 1]})]
    wanted = rebalance(assigned=frozenset({FIRST, SECOND}))
    assert scene.member.poll() == wanted
    assert scene.member.poll() == wanted
    assert scene.member.owned == NOTHING
    scene.member.acknowledge()
    assert scene.member.poll() is None
    assert scene.member.owned == {FIRST, SECOND}


def test_a_revocation_is_sent_to_the_coordinator_only_after_it_is_acknowledged(scene: Scene) -> None:
    scene.join(0, 1)
    scene.group.beats = [beat(1, {"orders": [1]})]
    scene.clock.advance(INTERVAL_MS)
    assert scene.member.poll() == rebalance(revoked=frozenset({FIRST}))
    assert scene.last.topic_partitions is None
    scene.clock.advance(INTERVAL_MS)
    assert scene.member.poll() == rebalance(revoked=frozenset({FIRST}))
    assert scene.last.topic_partitions is None, "it has not let go yet"

    scene.member.acknowledge()
    scene.group.beats = [beat(2)]
    scene.member.poll()

    assert scene.last.topic_partitions == [TopicPartitions(topic_id=topic_id("orders"), partitions=[1])]
    assert (scene.member.epoch, scene.member.owned) == (2, {SECOND})


@pytest.mark.parametrize(
    "code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND]
)
def test_a_fenced_member_loses_its_partitions_and_joins_again(scene: Scene, code: ErrorCode) -> None:
    scene.join(0)
    scene.group.beats = [beat(0, code=code)]
    scene.clock.advance(INTERVAL_MS)
    lost = rebalance(revoked=frozenset({FIRST}), lost=True)
    assert scene.member.poll() == lost
    count = len(scene.group.heartbeats)
    scene.clock.advance(INTERVAL_MS)
    assert scene.member.poll() == lost
    assert len(scene.group.heartbeats) == count, "it joins again only after it has let go"

    scene.member.acknowledge()
    scene.group.beats = [beat(7, {"orders": [0]})]

    assert scene.member.poll() == rebalance(assigned=frozenset({FIRST}))
    assert (scene.last.member_epoch, scene.last.topic_partitions) == (0, [])
    assert scene.last.member_id == scene.group.heartbeats[0].member_id
    assert scene.last.subscribed_topic_names == ["orders"]


def test_a_fenced_member_without_partitions_joins_again_at_once(scene: Scene) -> None:
    scene.join()
    scene.group.beats = [beat(0, code=ErrorCode.UNKNOWN_MEMBER_ID), beat(3, {"orders": [1]})]
    scene.clock.advance(INTERVAL_MS)
    assert scene.member.poll() is None
    assert scene.member.poll() == rebalance(assigned=frozenset({SECOND}))


def test_after_a_lost_response_the_next_heartbeat_sends_every_field(scene: Scene) -> None:
    scene.join(0)
    scene.group.beats = [None, beat(2)]
    scene.clock.advance(INTERVAL_MS)
    scene.member.poll()
    assert scene.group.heartbeats[-2].subscribed_topic_names is None
    assert scene.last.subscribed_topic_names == ["orders"]
    assert scene.last.topic_partitions == [TopicPartitions(topic_id=topic_id("orders"), partitions=[0])]
    assert scene.member.epoch == 2


def test_joining_is_retried_while_the_coordinator_loads(scene: Scene) -> None:
    scene.group.beats = [
        beat(0, code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        beat(0, code=ErrorCode.NOT_COORDINATOR),
        beat(1, {"orders": [0]}),
    ]
    assert scene.member.poll() == rebalance(assigned=frozenset({FIRST}))


def test_a_refusal_to_join_is_raised(scene: Scene) -> None:
    scene.group.beats = [beat(0, code=ErrorCode.GROUP_MAX_SIZE_REACHED)]
    with pytest.raises(Refused, match="as many members as the broker allows"):
        scene.member.poll()
    scene.group.beats = [beat(0, code=ErrorCode.UNKNOWN_MEMBER_ID)]
    with pytest.raises(Refused, match="UNKNOWN_MEMBER_ID"):
        scene.member.poll()


def test_partitions_of_a_topic_unknown_to_metadata_are_assigned_later(scene: Scene) -> None:
    scene.group.beats = [beat(1, {"orders": [0], "newer": [0]})]
    assert scene.member.poll() == rebalance(assigned=frozenset({FIRST}))
    scene.member.acknowledge()
    scene.group.topics["newer"] = 1
    newer = TopicPartition(TopicName("newer"), 0)
    assert scene.member.poll() == rebalance(assigned=frozenset({newer}))
    scene.member.acknowledge()
    assert scene.member.poll() is None
    asked = [request for request in scene.group.sent(MetadataRequest) if isinstance(request, MetadataRequest)]
    assert len(asked) == 2


def test_a_changed_subscription_is_sent_at_once(scene: Scene) -> None:
    scene.join(0)
    scene.member.subscribe(regex="ord.*")
    scene.member.poll()
    assert (scene.last.subscribed_topic_names, scene.last.subscribed_topic_regex) == ([], "ord.*")
    scene.member.subscribe(["b", "a", "b"])
    scene.member.poll()
    assert (scene.last.subscribed_topic_names, scene.last.subscribed_topic_regex) == (["a", "b"], "")
    assert scene.last.member_epoch == 1


def test_leaving_is_sent_once_and_its_failure_is_ignored(scene: Scene) -> None:
    scene.member.leave()
    assert scene.group.heartbeats == [], "who never joined need not leave"
    scene.join(0)
    scene.group.beats = [beat(0, code=ErrorCode.UNKNOWN_MEMBER_ID)]
    scene.member.leave()
    scene.member.leave()
    assert [request.member_epoch for request in scene.group.heartbeats] == [0, 1, -1]
    assert scene.member.owned == NOTHING


def test_each_member_has_its_own_id(scene: Scene) -> None:
    other = GroupMembership(GroupCoordinator(Cluster("127.0.0.1:1"), GROUP))
    assert other.member_id != scene.member.member_id
