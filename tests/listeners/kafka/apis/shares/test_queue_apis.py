"""ReceiveRecords and its siblings on the wire: what depends on the connection, on rights, and on odd requests."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from headwater.errors import ErrorCode
from headwater.protocol.messages.shares.describe_queue import DescribeQueueRequest, DescribeQueueResponse
from headwater.protocol.messages.shares.peek_records import PeekRecordsRequest, PeekRecordsResponse
from headwater.protocol.messages.shares.receive_records import (
    RESET_EARLIEST,
    ReceivedRecord,
    ReceiveRecordsRequest,
    ReceiveRecordsResponse,
)
from headwater.protocol.messages.shares.settle_records import (
    Settlement,
    SettleRecordsRequest,
    SettleRecordsResponse,
)
from headwater.security.acl import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from headwater.security.principals import ANONYMOUS
from headwater.testing import Broker
from tests.support.broker.on_loop import eventually
from tests.support.kafka.raw_client import RawClient, batch_of
from tests.support.kafka.raw_shares import ACCEPT, LONG_MS


@pytest.fixture
def other(broker: Broker) -> Iterator[RawClient]:
    with RawClient(broker) as client:
        yield client


@pytest.fixture
def group(name: str) -> str:
    return f"readers-of-{name}"


def ask_for(group: str, topic: str, **fields: Any) -> ReceiveRecordsRequest:
    asked: dict[str, Any] = {"max_records": 100, "reset": RESET_EARLIEST, **fields}
    return ReceiveRecordsRequest(group_id=group, topics=[topic], **asked)


def receive(client: RawClient, group: str, topic: str, **fields: Any) -> list[ReceivedRecord]:
    response = client.ask(ask_for(group, topic, **fields), ReceiveRecordsResponse, 0)
    assert response.error_code == ErrorCode.NONE, response.error_message
    return response.records


def settle(client: RawClient, group: str, *receipts: str) -> list[int]:
    said = [Settlement(receipt=each, type=ACCEPT) for each in receipts]
    request = SettleRecordsRequest(group_id=group, settlements=said)
    response = client.ask(request, SettleRecordsResponse, 0)
    return [each.error_code for each in response.results] if not response.error_code else [response.error_code]


def produce(client: RawClient, topic: str, *values: bytes) -> None:
    assert client.produce(topic, batch_of(*values)).error_code == ErrorCode.NONE


@pytest.mark.usefixtures("topic_id")
def test_a_receipt_outlives_the_connection_that_got_it(
    broker: Broker, client: RawClient, other: RawClient, name: str, group: str
) -> None:
    produce(other, name, b"a", b"b")
    with RawClient(broker) as first:
        records = receive(first, group, name)
    assert [(each.offset, each.value, each.delivery_count) for each in records] == [(0, b"a", 1), (1, b"b", 1)]
    assert receive(client, group, name) == []
    assert settle(client, group, *(each.receipt for each in records)) == [0, 0]
    assert settle(other, group, records[0].receipt) == [ErrorCode.INVALID_RECORD_STATE]


def test_a_client_that_hangs_up_while_it_waits_takes_nothing(
    broker: Broker, client: RawClient, name: str, group: str, topic_id: UUID
) -> None:
    partition = broker.node.broker.partition_by_id(topic_id, 0)  # pyright: ignore[reportArgumentType]
    with RawClient(broker) as gone:
        gone.send(ask_for(group, name, max_wait_ms=LONG_MS), 0)
        eventually(broker, lambda: partition.watchers)
    eventually(broker, lambda: not partition.watchers)
    produce(client, name, b"a")
    assert [(each.offset, each.delivery_count) for each in receive(client, group, name)] == [(0, 1)]


@pytest.mark.usefixtures("topic_id")
def test_waiting_ends_with_the_first_record(
    broker: Broker, client: RawClient, other: RawClient, name: str, group: str
) -> None:
    client.send(ask_for(group, name, max_wait_ms=LONG_MS), 0)
    eventually(broker, lambda: broker.node.broker.hosted(name)[0].watchers)  # pyright: ignore[reportArgumentType]
    produce(other, name, b"a")
    _, response = client.receive(ReceiveRecordsResponse, 0)
    assert [each.value for each in response.records] == [b"a"]


@pytest.mark.usefixtures("topic_id")
@pytest.mark.parametrize(
    "fields", [{"reset": 9}, {"max_records": 0}, {"lock_duration_ms": 5}, {"lock_duration_ms": -2}]
)
def test_requests_that_mean_nothing_are_refused(
    client: RawClient, name: str, group: str, fields: dict[str, Any]
) -> None:
    response = client.ask(ask_for(group, name, **fields), ReceiveRecordsResponse, 0)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert response.error_message


@pytest.mark.usefixtures("topic_id")
@pytest.mark.parametrize("bad", ["", "x" * 300])
def test_a_group_needs_a_name(client: RawClient, name: str, bad: str) -> None:
    expected = ErrorCode.INVALID_GROUP_ID
    assert client.ask(ask_for(bad * 5, name), ReceiveRecordsResponse, 0).error_code == expected
    peeked = client.ask(PeekRecordsRequest(group_id=bad * 5, topics=[name]), PeekRecordsResponse, 0)
    assert peeked.error_code == expected


def test_topics_that_do_not_exist_are_refused(client: RawClient, name: str, group: str) -> None:
    response = client.ask(ask_for(group, name), ReceiveRecordsResponse, 0)
    assert response.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    described = client.ask(DescribeQueueRequest(group_id=group, topics=[name]), DescribeQueueResponse, 0)
    assert described.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_rights_are_asked_for_with_every_request(name: str) -> None:
    group = "billing"
    with Broker({"authorizer.class.name": "acl"}) as broker, RawClient(broker) as client:
        rules = broker.node.broker.access.rules
        broker.call(broker.node.broker.topics.create(name, {}, partition_count=1))

        def rule(resource_type: ResourceType, resource: str, operation: Operation) -> Acl:
            return Acl(resource_type, resource, PatternType.LITERAL, str(ANONYMOUS), "*", operation, Permission.ALLOW)

        def code_of_receive() -> int:
            return client.ask(ask_for(group, name), ReceiveRecordsResponse, 0).error_code

        topic_right = rule(ResourceType.TOPIC, name, Operation.READ)
        assert code_of_receive() == ErrorCode.GROUP_AUTHORIZATION_FAILED
        broker.call(rules.create([rule(ResourceType.GROUP, group, Operation.READ)]))
        assert code_of_receive() == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        described = client.ask(DescribeQueueRequest(group_id=group, topics=[name]), DescribeQueueResponse, 0)
        assert described.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        broker.call(rules.create([topic_right, rule(ResourceType.TOPIC, name, Operation.WRITE)]))
        produce(client, name, b"a", b"b")
        first, second = receive(client, group, name)
        assert settle(client, group, first.receipt) == [0]
        assert settle(client, "other", second.receipt) == [ErrorCode.GROUP_AUTHORIZATION_FAILED]
        listed = client.ask(DescribeQueueRequest(group_id=group, topics=None), DescribeQueueResponse, 0)
        assert [each.topic for each in listed.partitions] == [name]
        of_topic = AclFilter(ResourceType.TOPIC, name, PatternType.LITERAL, None, None, Operation.ANY, Permission.ANY)
        broker.call(rules.delete([of_topic]))
        assert settle(client, group, second.receipt) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        listed = client.ask(DescribeQueueRequest(group_id=group, topics=None), DescribeQueueResponse, 0)
        assert listed.partitions == []
