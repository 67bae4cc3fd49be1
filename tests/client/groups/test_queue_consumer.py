"""QueueConsumer at a real broker."""

from uuid import uuid4

import pytest

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.errors import Refused, UnknownGroup
from headwater.client.groups.queue_consumer import NotSettled, QueueConsumer
from headwater.client.producer import Producer
from headwater.errors import ErrorCode


@pytest.fixture
def name() -> str:
    return f"q-{uuid4().hex}"


@pytest.fixture
def queue(cluster: Cluster, name: str) -> QueueConsumer:
    Admin(cluster).create_topic(name, partition_count=2)
    return QueueConsumer(cluster, f"{name}-workers", [name])


def send(cluster: Cluster, name: str, count: int) -> None:
    with Producer(cluster) as producer:
        for number in range(count):
            producer.send(name, b"v%d" % number, key=b"k%d" % number, headers=(("h", b"x"), ("none", None)))


def test_records_come_with_receipts_that_settle_them(cluster: Cluster, name: str, queue: QueueConsumer) -> None:
    send(cluster, name, 4)
    received = [*queue.receive(2), *queue.receive(10), *queue.receive(10)]
    assert sorted(each.value or b"" for each in received) == [b"v0", b"v1", b"v2", b"v3"]
    one = received[0]
    assert (one.topic, one.headers, one.delivery_count) == (name, (("h", b"x"), ("none", None)), 1)
    queue.ack(received[0].receipt, received[1].receipt)
    queue.extend(received[2].receipt, lock_duration_ms=20_000)
    queue.nack(received[2].receipt, delay_ms=0)
    queue.reject(received[3].receipt)
    (again,) = queue.receive(10, wait_ms=10_000)
    assert (again.value, again.delivery_count) == (received[2].value, 2)
    queue.nack(again.receipt, delay_ms=60_000)
    assert queue.receive(10) == []
    (left,) = queue.peek(10)
    assert (left.value, left.state, left.delivery_count) == (again.value, "waiting", 2)
    stats = queue.stats()
    assert sum(each.backlog for each in stats) == sum(each.waiting for each in stats) == 1
    assert sum(each.deliveries for each in stats) == 5
    assert sum(each.accepted for each in stats) == 2
    assert sum(each.archived for each in stats) == 1


def test_what_is_refused_is_told_by_receipt(cluster: Cluster, name: str, queue: QueueConsumer) -> None:
    send(cluster, name, 1)
    received = [*queue.receive(), *queue.receive()]
    receipt = received[0].receipt
    with pytest.raises(NotSettled, match="1 of 2 receipts were refused") as refused:
        queue.ack(receipt, "not a receipt")
    assert refused.value.refusals.keys() == {"not a receipt"}
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    with pytest.raises(NotSettled, match="holds its record no longer") as refused:
        queue.nack(receipt)
    assert refused.value.refusals[receipt].code is ErrorCode.INVALID_RECORD_STATE


def test_a_group_begins_where_the_consumer_says(cluster: Cluster, name: str, queue: QueueConsumer) -> None:
    send(cluster, name, 3)
    late = QueueConsumer(cluster, f"{name}-late", [name], reset="latest")
    assert late.receive(10) == []
    assert len(queue.receive(10)) + len(queue.receive(10)) == 3
    with pytest.raises(ValueError, match="reset is"):
        QueueConsumer(cluster, "g", [name], reset="beginning")


def test_only_what_exists_can_be_looked_at(cluster: Cluster, name: str, queue: QueueConsumer) -> None:
    with pytest.raises(UnknownGroup):
        queue.peek()
    with pytest.raises(UnknownGroup):
        queue.stats()
    with pytest.raises(Refused, match=r"group\.share\.max\.record\.lock\.duration\.ms"):
        queue.receive(lock_duration_ms=3_600_000)
