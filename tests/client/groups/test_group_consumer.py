"""GroupConsumer: reads and commits step by step against a scripted group, and beside other members at a real broker."""

from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.consumer import ConsumedRecord
from headwater.client.errors import ClientError, Refused
from headwater.client.groups.admin import GroupAdmin
from headwater.client.groups.group_consumer import AUTO_COMMIT_MS, GroupConsumer
from headwater.client.offsets import LATEST
from headwater.client.producer import Producer
from headwater.clock import ManualClock
from headwater.errors import ErrorCode
from headwater.ids import TopicName, TopicPartition
from headwater.protocol.messages.records.fetch import FetchRequest
from headwater.protocol.messages.topics.metadata import MetadataRequest
from headwater.protocol.wire.codec import Request, Response
from headwater.testing import Broker
from tests.support.client.scripted_group import GROUP, INTERVAL_MS, ScriptedGroup, beat

FIRST, SECOND = (TopicPartition(TopicName("orders"), index) for index in range(2))
INVOICES = TopicPartition(TopicName("invoices"), 0)


class Scene:
    def __init__(self, group: ScriptedGroup, cluster: Cluster, clock: ManualClock) -> None:
        self.group = group
        self.clock = clock
        self.cluster = cluster

    def consumer(self, *, reset: int = -2, auto_commit_ms: int | None = AUTO_COMMIT_MS) -> GroupConsumer:
        consumer = GroupConsumer(self.cluster, GROUP, reset=reset, auto_commit_ms=auto_commit_ms)
        consumer.subscribe(["orders", "invoices"])
        return consumer

    def revoke(self, consumer: GroupConsumer, **left: list[int]) -> list[ConsumedRecord]:
        """The next heartbeat response leaves the member only these partitions."""
        self.group.beats = [beat(1, left)]
        self.clock.advance(INTERVAL_MS)
        return consumer.poll()


@pytest.fixture
def scene() -> Iterator[Scene]:
    clock = ManualClock()
    with (
        ScriptedGroup({"orders": 2, "invoices": 1}) as group,
        Cluster(
            group.bootstrap,
            clock=clock,
            topic_wait_ms=0,
            sleep=lambda seconds: clock.advance(round(seconds * 1000)),
        ) as cluster,
    ):
        group.beats = [beat(1, {"orders": [0, 1]})]
        yield Scene(group, cluster, clock)


def offsets(records: list[ConsumedRecord]) -> dict[TopicPartition, list[int]]:
    found: dict[TopicPartition, list[int]] = {}
    for record in records:
        found.setdefault(TopicPartition(TopicName(record.topic), record.partition), []).append(record.offset)
    return found


def test_reading_begins_at_the_committed_offset_or_as_the_reset_policy_says(scene: Scene) -> None:
    scene.group.committed = {FIRST: 7}
    scene.group.starts[SECOND] = 5
    assert offsets(scene.consumer().poll()) == {FIRST: [7, 8, 9], SECOND: [5, 6, 7, 8, 9]}
    scene.group.beats = [beat(1, {"orders": [0, 1]})]
    assert offsets(scene.consumer(reset=LATEST).poll()) == {FIRST: [7, 8, 9]}


def test_records_are_not_committed_before_they_are_processed(scene: Scene) -> None:
    consumer = scene.consumer(auto_commit_ms=0)
    consumer.poll()
    assert scene.group.committed == {}, "the records are the caller's now, but not done"
    consumer.poll()
    assert scene.group.committed == {FIRST: 10, SECOND: 10}
    (request,) = scene.group.commits
    assert (request.member_id, request.generation_id_or_member_epoch) == (consumer.member_id, 1)
    consumer.poll()
    assert len(scene.group.commits) == 1, "what is committed need not be committed again"


def test_offsets_are_committed_at_the_auto_commit_interval(scene: Scene) -> None:
    consumer = scene.consumer(auto_commit_ms=1_000)
    consumer.poll()
    scene.clock.advance(999)
    consumer.poll()
    assert scene.group.commits == []
    scene.clock.advance(1)
    consumer.poll()
    assert len(scene.group.commits) == 1


def test_closing_commits_processed_records_and_leaves_the_group(scene: Scene) -> None:
    with scene.consumer() as consumer:
        consumer.poll()
        consumer.processed[FIRST] = 3
    assert scene.group.committed == {FIRST: 3}, "the rest of what the last poll gave may not be done"
    assert scene.group.heartbeats[-1].member_epoch == -1
    assert consumer.positions == {}


def test_closing_leaves_the_group_even_if_the_commit_fails(scene: Scene) -> None:
    scene.group.commit_codes = [ErrorCode.GROUP_AUTHORIZATION_FAILED]
    consumer = scene.consumer()
    consumer.poll()
    consumer.poll()
    with pytest.raises(Refused, match="GROUP_AUTHORIZATION_FAILED"):
        consumer.close()
    assert scene.group.heartbeats[-1].member_epoch == -1


def test_the_caller_may_commit_all_polled_offsets_or_chosen_ones(scene: Scene) -> None:
    with scene.consumer(auto_commit_ms=None) as consumer:
        consumer.poll()
        consumer.commit({FIRST: 2})
        assert scene.group.committed == {FIRST: 2}
        consumer.commit()
        assert scene.group.committed == {FIRST: 10, SECOND: 10}
        consumer.commit({FIRST: 1})
    assert scene.group.committed[FIRST] == 1
    scene.group.commit_codes = [ErrorCode.STALE_MEMBER_EPOCH]
    with pytest.raises(Refused, match="the group has moved on"):
        consumer.commit({FIRST: 4})


def test_a_revoked_partition_is_given_back_after_its_offset_is_committed(scene: Scene) -> None:
    consumer = scene.consumer(auto_commit_ms=INTERVAL_MS * 10)
    consumer.poll()
    scene.revoke(consumer, orders=[1])
    assert scene.group.committed == {FIRST: 10, SECOND: 10}
    assert consumer.positions == {SECOND: 10}
    assert FIRST not in consumer.processed
    consumer.poll()
    kinds = [type(request).__name__ for request in scene.group.requests]
    commit = kinds.index("OffsetCommitRequest")
    acknowledged = scene.group.heartbeats[-1].topic_partitions
    assert acknowledged is not None
    assert acknowledged[0].partitions == [1]
    assert "ConsumerGroupHeartbeatRequest" in kinds[commit:]


def test_without_auto_commit_a_revoked_partition_is_given_back_uncommitted(scene: Scene) -> None:
    consumer = scene.consumer(auto_commit_ms=None)
    consumer.poll()
    scene.revoke(consumer, orders=[1])
    assert (scene.group.committed, dict(consumer.positions)) == ({}, {SECOND: 10})


def test_after_a_stale_commit_a_partition_is_given_back_only_at_the_next_heartbeat(
    scene: Scene,
) -> None:
    consumer = scene.consumer(auto_commit_ms=INTERVAL_MS * 10)
    consumer.poll()
    scene.group.commit_codes = [ErrorCode.STALE_MEMBER_EPOCH]
    scene.revoke(consumer, orders=[1])
    assert set(consumer.positions) == {FIRST, SECOND}
    scene.group.beats = [beat(2)]
    consumer.poll()
    assert scene.group.committed[FIRST] == 10
    assert scene.group.commits[-1].generation_id_or_member_epoch == 2
    assert set(consumer.positions) == {SECOND}


def test_a_fenced_member_commits_nothing_and_resumes_from_the_committed_offsets(scene: Scene) -> None:
    consumer = scene.consumer(auto_commit_ms=INTERVAL_MS * 10)
    consumer.poll()
    scene.group.beats = [beat(0, code=ErrorCode.FENCED_MEMBER_EPOCH)]
    scene.clock.advance(INTERVAL_MS)
    assert consumer.poll() == []
    assert (dict(consumer.positions), consumer.processed) == ({}, {})
    scene.group.committed = {FIRST: 6}
    scene.group.beats = [beat(3, {"orders": [0]})]
    assert offsets(consumer.poll()) == {FIRST: [6, 7, 8, 9]}
    assert scene.group.commits == []


def test_a_commit_refused_as_unknown_member_makes_the_member_rejoin(scene: Scene) -> None:
    consumer = scene.consumer(auto_commit_ms=0)
    consumer.poll()
    scene.group.commit_codes = [ErrorCode.UNKNOWN_MEMBER_ID]
    consumer.poll()
    scene.group.beats = [beat(0, code=ErrorCode.UNKNOWN_MEMBER_ID), beat(5, {"orders": [0]})]
    consumer.poll()
    assert offsets(consumer.poll()) == {FIRST: list(range(10))}


def test_a_commit_with_a_fatal_error_is_raised(scene: Scene) -> None:
    consumer = scene.consumer(auto_commit_ms=0)
    consumer.poll()
    scene.group.commit_codes = [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    with pytest.raises(Refused, match="OFFSET_METADATA_TOO_LARGE"):
        consumer.poll()


@pytest.mark.parametrize(("reset", "expected"), [(-2, [4, 5, 6, 7, 8, 9]), (LATEST, [])])
def test_an_offset_out_of_range_is_reset_and_no_other_partition_loses_records(
    scene: Scene, reset: int, expected: list[int]
) -> None:
    scene.group.committed = {FIRST: 2, SECOND: 1}
    scene.group.starts[SECOND] = 4
    consumer = scene.consumer(reset=reset)
    assert consumer.poll() == []
    found = offsets(consumer.poll())
    assert found.get(SECOND, []) == expected
    assert found[FIRST] == list(range(2, 10))


def test_after_a_failed_fetch_the_records_are_fetched_again(scene: Scene) -> None:
    healthy = scene.group.scripts[FetchRequest]
    consumer = scene.consumer()
    scene.group.scripts[FetchRequest] = lambda _: b"\x00\x00\x00\x04nonsense"
    with pytest.raises(ClientError, match="no Kafka protocol"):
        consumer.poll()
    assert dict(consumer.positions) == {FIRST: 0, SECOND: 0}
    scene.group.scripts[FetchRequest] = healthy
    assert offsets(consumer.poll()) == {FIRST: list(range(10)), SECOND: list(range(10))}


def test_a_deleted_topic_does_not_end_the_reading_of_others(scene: Scene) -> None:
    scene.group.beats = [beat(1, {"orders": [0], "invoices": [0]})]
    consumer = scene.consumer(auto_commit_ms=0)
    consumer.poll()
    consumer.poll()
    del scene.group.topics["invoices"]
    scene.group.ends[FIRST] = 12
    records = offsets(consumer.poll() + consumer.poll() + consumer.poll())
    assert records[FIRST] == [10, 11]
    assert set(consumer.positions) == {FIRST}
    consumer.poll()
    assert scene.group.committed[FIRST] == 12


def test_offsets_of_a_deleted_topic_do_not_block_the_commit_of_others(scene: Scene) -> None:
    scene.group.beats = [beat(1, {"orders": [0], "invoices": [0]})]
    consumer = scene.consumer()
    consumer.poll()
    consumer.processed.update(consumer.positions)
    del scene.group.topics["invoices"]
    consumer.close()
    assert scene.group.committed == {FIRST: 10}


def test_a_topic_deleted_during_assignment_does_not_fail_the_poll(scene: Scene) -> None:
    consumer = scene.consumer()
    scene.group.beats = [beat(1, {"orders": [0], "invoices": [0]})]
    describe = scene.group.scripts[MetadataRequest]

    def describe_once(request: Request) -> Response | bytes | None:
        answer = describe(request)
        scene.group.topics.pop("invoices", None)
        return answer

    scene.group.scripts[MetadataRequest] = describe_once
    assert consumer.poll() == []
    assert offsets(scene.revoke(consumer, orders=[0])) == {FIRST: list(range(10))}


def test_a_member_without_partitions_waits_until_the_next_heartbeat(scene: Scene) -> None:
    scene.group.beats = [beat(1, {})]
    consumer = scene.consumer()
    started_ms = scene.clock.monotonic_ms()
    assert consumer.poll() == []
    assert scene.clock.monotonic_ms() - started_ms == 500
    scene.clock.advance(INTERVAL_MS - 600)
    consumer.poll()
    assert scene.clock.monotonic_ms() - started_ms == INTERVAL_MS


def test_a_subscription_to_nothing_is_refused(scene: Scene) -> None:
    with pytest.raises(ClientError, match="nothing to subscribe to"):
        scene.consumer().subscribe()


# -- at a real broker


@pytest.fixture
def name() -> str:
    return f"g-{uuid4().hex}"


def fill(cluster: Cluster, topic: str, partition_count: int, count: int) -> None:
    Admin(cluster).create_topic(topic, partition_count=partition_count)
    with Producer(cluster) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=number % partition_count)


def poll_until(condition: Callable[[], bool], *consumers: GroupConsumer) -> list[bytes | None]:
    """Poll all consumers in turn, with heartbeats due at once so that a rebalance does not wait for the interval."""
    values: list[bytes | None] = []
    for _ in range(200):
        if condition():
            return values
        for consumer in consumers:
            consumer._membership.heartbeat_now()
            values += [record.value for record in consumer.poll()]
    raise AssertionError("it did not happen within 200 polls")


def test_a_new_member_resumes_where_the_previous_one_stopped(cluster: Cluster, name: str) -> None:
    fill(cluster, name, 2, 20)
    with GroupConsumer(cluster, name, wait_ms_max=10) as consumer:
        consumer.subscribe([name])
        values = poll_until(lambda: sum(consumer.processed.values()) == 20, consumer)
    assert sorted(map(int, filter(None, values))) == list(range(20))
    with Producer(cluster) as producer:
        producer.send(name, b"20", partition=0)
    with GroupConsumer(cluster, name, wait_ms_max=10) as consumer:
        consumer.subscribe([name])
        values = poll_until(lambda: sum(consumer.processed.values()) == 21, consumer)
    assert values == [b"20"]
    assert sum(found.offset for found in GroupAdmin(cluster).committed(name).values()) == 21


def test_members_share_partitions_and_take_over_from_each_other(broker: Broker, cluster: Cluster, name: str) -> None:
    fill(cluster, name, 4, 40)
    with Cluster(broker.bootstrap_servers) as another:
        first, second = GroupConsumer(cluster, name, wait_ms_max=10), GroupConsumer(another, name, wait_ms_max=10)
        for consumer in (first, second):
            consumer.subscribe([name])
        values = poll_until(lambda: len(first.positions) == 4, first)
        values += poll_until(lambda: len(first.positions) == len(second.positions) == 2, first, second)
        assert not first.positions.keys() & second.positions.keys()
        values += poll_until(lambda: sum((*first.processed.values(), *second.processed.values())) == 40, first, second)
        assert sorted(map(int, filter(None, values))) == list(range(40)), "nothing is read twice"
        described = GroupAdmin(cluster).describe_group(name)
        assert {member.member_id for member in described.members} == {first.member_id, second.member_id}
        first.close()
        poll_until(lambda: len(second.positions) == 4, second)
        second.close()
    assert GroupAdmin(cluster).describe_group(name).members == ()


def test_topics_are_found_by_regular_expression(cluster: Cluster, name: str) -> None:
    fill(cluster, f"{name}.a", 1, 3)
    with GroupConsumer(cluster, name, wait_ms_max=10) as consumer:
        consumer.subscribe(regex=rf"{name}\..*")
        poll_until(lambda: sum(consumer.processed.values()) == 3, consumer)
        consumer.subscribe([f"{name}.b"])
        fill(cluster, f"{name}.b", 1, 4)
        poll_until(lambda: sum(consumer.processed.values()) == 4, consumer)
