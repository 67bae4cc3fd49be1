"""TxnSettleRecords on the wire: rights, odd requests, and producers of Kafka's own protocol."""

from collections.abc import Iterator
from typing import Any

import pytest

from headwater.errors import ErrorCode
from headwater.protocol.messages.shares.receive_records import (
    RESET_EARLIEST,
    ReceiveRecordsRequest,
    ReceiveRecordsResponse,
)
from headwater.protocol.messages.transactions.txn_settle_records import (
    TxnSettlement,
    TxnSettleRecordsRequest,
    TxnSettleRecordsResponse,
)
from headwater.security.acl import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from headwater.security.principals import ANONYMOUS
from headwater.testing import Broker
from tests.support.kafka.raw_client import RawClient, batch_of
from tests.support.kafka.raw_shares import ACCEPT, RELEASE
from tests.support.kafka.raw_transactions import SETTINGS, Producer, ended, init, written

GROUP = "billing"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(SETTINGS) as broker:
        yield broker


def receive(client: RawClient, topic: str, group: str = GROUP, wait_ms: int = 0) -> list[tuple[int, str]]:
    request = ReceiveRecordsRequest(
        group_id=group, topics=[topic], max_records=100, reset=RESET_EARLIEST, max_wait_ms=wait_ms
    )
    response = client.ask(request, ReceiveRecordsResponse, 0)
    assert response.error_code == ErrorCode.NONE, response.error_message
    return [(each.offset, each.receipt) for each in response.records]


def settle(
    client: RawClient, producer: Producer, *receipts: str, kind: int = ACCEPT, **fields: Any
) -> TxnSettleRecordsResponse:
    asked: dict[str, Any] = {
        "transactional_id": producer.transactional_id,
        "producer_id": producer.id,
        "producer_epoch": producer.epoch,
        "group_id": GROUP,
        **fields,
    }
    request = TxnSettleRecordsRequest(
        settlements=[TxnSettlement(receipt=each, type=kind) for each in receipts], **asked
    )
    return client.ask(request, TxnSettleRecordsResponse, 0)


def codes(response: TxnSettleRecordsResponse) -> list[int]:
    assert response.error_code == ErrorCode.NONE, response.error_message
    return [each.error_code for each in response.results]


@pytest.fixture
def orders(client: RawClient, name: str) -> str:
    client.create(f"orders-{name}")
    assert client.produce(f"orders-{name}", batch_of(b"a", b"b", b"c")).error_code == ErrorCode.NONE
    return f"orders-{name}"


@pytest.fixture
def producer(client: RawClient, name: str) -> Producer:
    return init(client, f"tx-{name}")


@pytest.mark.parametrize("version", [3, 5])
def test_producers_of_both_protocols_settle(
    client: RawClient, topic: str, orders: str, producer: Producer, version: int
) -> None:
    (_, first), *_ = receive(client, orders)
    assert codes(settle(client, producer, first)) == [0]
    if version == 5:
        written(client, producer, topic, b"invoice")
    ended(client, producer, commit=False, version=version)
    assert [offset for offset, _ in receive(client, orders, wait_ms=20_000)] == [0]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"transactional_id": "x" * 2000}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ({"transactional_id": "never heard of"}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ({"producer_id": -1}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ({"producer_id": 2**62}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ({"producer_epoch": -1}, ErrorCode.PRODUCER_FENCED),
        ({"producer_epoch": 7}, ErrorCode.PRODUCER_FENCED),
    ],
)
def test_who_has_no_such_transaction_is_refused(
    client: RawClient, orders: str, producer: Producer, fields: dict[str, Any], code: ErrorCode
) -> None:
    (_, receipt), *_ = receive(client, orders)
    assert settle(client, producer, receipt, **fields).error_code == code
    assert codes(settle(client, producer, receipt)) == [0], "nothing has changed"


def test_receipts_that_mean_nothing_are_refused_one_by_one(client: RawClient, orders: str, producer: Producer) -> None:
    (_, first), (_, second), _ = receive(client, orders)
    wrong = [first[:-1] + ("a" if first[-1] != "a" else "b"), "", "x" * 30_000, "\0", "ü"]
    assert codes(settle(client, producer, *wrong, second)) == [ErrorCode.INVALID_REQUEST] * len(wrong) + [0]
    assert codes(settle(client, producer, first, group_id="another")) == [ErrorCode.INVALID_REQUEST]
    assert codes(settle(client, producer, first, kind=RELEASE)) == [ErrorCode.INVALID_REQUEST]
    assert codes(settle(client, producer, first, kind=-7)) == [ErrorCode.INVALID_REQUEST]
    assert codes(settle(client, producer)) == []
    many = settle(client, producer, *10_001 * [""])
    assert many.error_code == ErrorCode.INVALID_REQUEST
    assert "10000" in (many.error_message or "")


def test_rights_are_asked_for_with_every_request(name: str) -> None:
    with Broker({**SETTINGS, "authorizer.class.name": "acl"}) as broker, RawClient(broker) as client:
        rules = broker.node.broker.access.rules

        def rule(resource_type: ResourceType, resource: str, operation: Operation) -> Acl:
            return Acl(resource_type, resource, PatternType.LITERAL, str(ANONYMOUS), "*", operation, Permission.ALLOW)

        def forget(resource_type: ResourceType, resource: str) -> None:
            literal = PatternType.LITERAL
            of_it = AclFilter(resource_type, resource, literal, None, None, Operation.ANY, Permission.ANY)
            broker.call(rules.delete([of_it]))

        def refusal(receipt: str) -> int:
            response = settle(client, producer, receipt)
            return response.error_code or response.results[0].error_code

        broker.call(broker.node.broker.topics.create(name, {}, partition_count=1))
        of_id = rule(ResourceType.TRANSACTIONAL_ID, "tx", Operation.WRITE)
        of_group, of_topic = (
            rule(ResourceType.GROUP, GROUP, Operation.READ),
            rule(ResourceType.TOPIC, name, Operation.READ),
        )
        broker.call(rules.create([of_id, of_group, of_topic, rule(ResourceType.TOPIC, name, Operation.WRITE)]))
        assert client.produce(name, batch_of(b"a")).error_code == ErrorCode.NONE
        producer = init(client, "tx")
        ((_, receipt),) = receive(client, name)
        forget(ResourceType.TRANSACTIONAL_ID, "tx")
        assert refusal(receipt) == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        broker.call(rules.create([of_id]))
        forget(ResourceType.GROUP, GROUP)
        assert refusal(receipt) == ErrorCode.GROUP_AUTHORIZATION_FAILED
        broker.call(rules.create([of_group]))
        forget(ResourceType.TOPIC, name)
        assert refusal(receipt) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        broker.call(rules.create([of_topic]))
        assert refusal(receipt) == ErrorCode.NONE
