"""The Java client's share consumers with our broker, and the same steps with Apache Kafka's."""

from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.interop.clients.program import Program
from tests.interop.clients.share_consumer import ShareAdmin, ShareConsumer
from tests.interop.exchange import Refused
from tests.support.broker.processes import BrokerProcess
from tests.support.kafka.raw_client import RawClient, batch_of
from tests.support.kafka.raw_shares import configure, new_group

pytestmark = pytest.mark.interop

# How long nothing may come before a test takes it that nothing will.
QUIET_MS = 1500


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[RawClient]:
    with RawClient(broker) as client:
        yield client


@pytest.fixture
def group(client: RawClient) -> str:
    return new_group(client)


@pytest.fixture
def admin(java_program: Program, broker: BrokerProcess) -> ShareAdmin:
    return ShareAdmin(java_program, broker.bootstrap_servers)


@pytest.fixture
def open_consumer(
    java_program: Program, broker: BrokerProcess, group: str, topic: str
) -> Iterator[Callable[..., ShareConsumer]]:
    opened: list[ShareConsumer] = []

    def open_one(**options: str) -> ShareConsumer:
        name = f"{group}-{len(opened)}"
        opened.append(ShareConsumer(java_program, broker.bootstrap_servers, group, topic, name, **options))
        return opened[-1]

    yield open_one
    for consumer in opened:
        consumer.close()


def produce(client: RawClient, topic: str, values: Sequence[int]) -> None:
    assert client.produce(topic, batch_of(*(b"%d" % each for each in values))).error_code == 0


def test_records_are_accepted_as_they_are_polled(
    client: RawClient, topic: str, group: str, admin: ShareAdmin, open_consumer: Callable[..., ShareConsumer]
) -> None:
    client.create(topic)
    produce(client, topic, range(10))
    consumer = open_consumer()
    polled = consumer.poll(10)
    assert [(each.offset, each.value, each.deliveries) for each in polled.records] == [
        (offset, str(offset), 1) for offset in range(10)
    ]
    assert polled.errors == []
    assert admin.offsets(group) == {f"{topic}-0": {"start": 10, "lag": 0}}
    assert admin.describe(group) == {"state": "Stable", "members": {f"{group}-0": [0]}}


def test_a_consumer_says_of_each_record_what_becomes_of_it(
    client: RawClient, topic: str, group: str, admin: ShareAdmin, open_consumer: Callable[..., ShareConsumer]
) -> None:
    client.create(topic)
    produce(client, topic, range(10))
    consumer = open_consumer(share_acknowledgement_mode="explicit")
    assert consumer.poll(10, say="RELEASE").offsets == [*range(10)]
    # What was renewed is polled again, and the delivery is the same one.
    assert {each.deliveries for each in consumer.poll(10, say="RENEW").records} == {2}
    assert consumer.poll(10, commits=False).offsets == [*range(10)]
    assert consumer.acknowledge("ACCEPT", *range(5)) == []
    assert consumer.acknowledge("REJECT", 5, 6, 7) == []
    assert admin.offsets(group) == {f"{topic}-0": {"start": 8, "lag": 2}}
    assert consumer.acknowledge("ACCEPT", 8, 9) == []
    assert consumer.poll(1, timeout_ms=QUIET_MS).offsets == []


def test_records_of_a_consumer_that_closes_go_to_another(
    client: RawClient, topic: str, open_consumer: Callable[..., ShareConsumer]
) -> None:
    client.create(topic)
    produce(client, topic, range(4))
    first = open_consumer(share_acknowledgement_mode="explicit")
    assert first.poll(4, commits=False).offsets == [0, 1, 2, 3]
    second = open_consumer()
    assert second.poll(1, timeout_ms=QUIET_MS).offsets == []
    first.close()
    assert second.poll(4).offsets == [0, 1, 2, 3]


def test_a_strict_limit_of_records_is_kept(
    client: RawClient, topic: str, open_consumer: Callable[..., ShareConsumer]
) -> None:
    client.create(topic)
    produce(client, topic, range(10))
    consumer = open_consumer(share_acquire_mode="record_limit", max_poll_records="3")
    assert consumer.poll(3).offsets == [0, 1, 2]
    assert consumer.poll(7).offsets == [3, 4, 5, 6, 7, 8, 9]


def test_two_consumers_share_one_partition(
    client: RawClient, topic: str, open_consumer: Callable[..., ShareConsumer]
) -> None:
    client.create(topic)
    for base in range(0, 1000, 10):
        produce(client, topic, range(base, base + 10))
    one, other = open_consumer(max_poll_records="10"), open_consumer(max_poll_records="10")
    offsets: list[int] = []
    while len(offsets) < 1000:
        for consumer in (one, other):
            offsets += consumer.poll(10, timeout_ms=QUIET_MS).offsets
    assert sorted(offsets) == [*range(1000)]


def test_an_administrator_moves_and_deletes_what_a_group_has_done(
    client: RawClient, topic: str, group: str, admin: ShareAdmin, open_consumer: Callable[..., ShareConsumer]
) -> None:
    client.create(topic)
    produce(client, topic, range(10))
    consumer = open_consumer()
    assert len(consumer.poll(10).records) == 10
    for change in (
        lambda: admin.alter_offset(group, topic, 3),
        lambda: admin.delete_offsets(group, topic),
        lambda: admin.delete(group),
    ):
        with pytest.raises(Refused, match="NON_EMPTY_GROUP"):
            change()
    consumer.close()
    admin.alter_offset(group, topic, 3)
    assert admin.offsets(group) == {f"{topic}-0": {"start": 3, "lag": 7}}
    again = open_consumer()
    assert again.poll(7).offsets == [*range(3, 10)]
    again.close()
    admin.delete_offsets(group, topic)
    assert admin.offsets(group) == {}
    admin.delete(group)
    with pytest.raises(Refused, match="GROUP_ID_NOT_FOUND"):
        admin.describe(group)


def test_settings_of_a_group_are_followed_at_once(
    client: RawClient, topic: str, group: str, open_consumer: Callable[..., ShareConsumer]
) -> None:
    client.create(topic)
    configure(client, group, share_delivery_count_limit="2")
    produce(client, topic, range(2))
    consumer = open_consumer(share_acknowledgement_mode="explicit")
    assert [each.deliveries for each in consumer.poll(4, say="RELEASE").records] == [1, 1, 2, 2]
    assert consumer.poll(1, say="RELEASE", timeout_ms=QUIET_MS).records == []
