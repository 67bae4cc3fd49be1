"""Two consumers with the same `group.instance.id`: each protocol has its own rule for which one stays."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from headwater.testing import Broker
from tests.support.groups.crew import DEADLINE_S, HEARTBEAT_INTERVAL_MS, SETTINGS
from tests.support.kafka.raw_client import RawClient
from tests.support.kafka.raw_groups import committed

POLL_S = 0.05


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    # The session outlasts the test: a static member that closes stays in the group.
    settings = {**SETTINGS, "group.consumer.max.session.timeout.ms": "600000"}
    with Broker({**settings, "group.consumer.session.timeout.ms": "600000"}) as broker:
        yield broker


@pytest.fixture
def topic(broker: Broker) -> str:
    name = f"topic-{uuid4().hex}"
    with RawClient(broker) as raw:
        raw.create(name)
    return name


class StaticMember:
    def __init__(self, broker: Broker, topic: str, **settings: str | int) -> None:
        self.topic = topic
        self.is_assigned = False
        config: dict[str, Any] = {
            "bootstrap.servers": broker.bootstrap_servers,
            # One group for each topic.
            "group.id": topic,
            "group.instance.id": "instance",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        self._consumer = Consumer(config)
        self._consumer.subscribe([topic], on_assign=self._assigned)

    def _assigned(self, *_: object) -> None:
        self.is_assigned = True

    def poll(self) -> str | None:
        """Poll once; the name of the error, if there is one."""
        try:
            message = self._consumer.poll(POLL_S)
        except KafkaException as error:
            return error.args[0].name()
        error = None if message is None else message.error()
        return None if error is None else error.name()

    def commit(self, offset: int) -> str | None:
        try:
            self._consumer.commit(offsets=[TopicPartition(self.topic, 0, offset)], asynchronous=False)
        except KafkaException as error:
            return error.args[0].name()
        return None

    def close(self) -> None:
        self._consumer.close()


def poll_until_error(member: StaticMember, other: StaticMember | None = None) -> str:
    for _ in range(int(DEADLINE_S / POLL_S)):
        if (error := member.poll()) is not None:
            return error
        if other is not None:
            other.poll()
    raise AssertionError("nothing was wrong")


def poll_until_assigned(*members: StaticMember) -> None:
    for _ in range(int(DEADLINE_S / POLL_S)):
        for member in members:
            member.poll()
        if members[-1].is_assigned:
            return
    raise AssertionError("nothing was assigned")


def offset(broker: Broker, topic: str) -> int:
    with RawClient(broker) as raw:
        return committed(raw, topic, topic).committed_offset


def test_the_later_of_two_classic_static_members_fences_the_earlier(broker: Broker, topic: str) -> None:
    settings: dict[str, str | int] = {
        "group_protocol": "classic",
        "heartbeat_interval_ms": HEARTBEAT_INTERVAL_MS,
        "session_timeout_ms": 30_000,
    }
    first = StaticMember(broker, topic, **settings)
    second = None
    try:
        poll_until_assigned(first)
        assert first.commit(1) is None
        second = StaticMember(broker, topic, **settings)

        assert poll_until_error(first, second) in {"_FATAL", "FENCED_INSTANCE_ID"}
        poll_until_assigned(second)

        assert first.commit(2) in {"_FATAL", "FENCED_INSTANCE_ID"}
        assert offset(broker, topic) == 1
        assert second.commit(3) is None
        assert offset(broker, topic) == 3
    finally:
        first.close()
        if second is not None:
            second.close()


def test_the_first_of_two_consumer_protocol_static_members_stays(broker: Broker, topic: str) -> None:
    first = StaticMember(broker, topic, group_protocol="consumer")
    second = third = None
    try:
        poll_until_assigned(first)
        assert first.commit(1) is None
        second = StaticMember(broker, topic, group_protocol="consumer")

        assert poll_until_error(second, first) in {"_FATAL", "UNRELEASED_INSTANCE_ID"}

        assert first.commit(2) is None
        first.close()
        third = StaticMember(broker, topic, group_protocol="consumer")
        poll_until_assigned(third)
        assert third.commit(3) is None
        assert offset(broker, topic) == 3
    finally:
        first.close()
        for other in (second, third):
            if other is not None:
                other.close()
