"""TransactionalProducer at a real broker."""

from uuid import uuid4

import pytest

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.errors import Refused
from headwater.client.transactions.admin import TransactionAdmin
from headwater.client.transactions.producer import TransactionalProducer
from headwater.client.transactions.staging import WriterFenced
from headwater.ids import TopicName, TopicPartition
from headwater.protocol.batches.records import Record
from tests.support.client.dead_letters import values


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = f"t-{uuid4().hex}"
    Admin(cluster).create_topic(name, partition_count=2)
    return name


def write(producer: TransactionalProducer, topic: str, *numbers: int) -> None:
    for partition in range(2):
        records = [each for each in numbers if each % 2 == partition]
        producer.write(
            TopicPartition(TopicName(topic), partition),
            [Record(index, 1, None, b"%d" % number) for index, number in enumerate(records)],
        )


def test_what_is_committed_appears_and_what_is_aborted_does_not(cluster: Cluster, topic: str) -> None:
    producer = TransactionalProducer(cluster, f"id-{topic}")
    producer.commit()
    producer.abort()
    for first in range(0, 40, 4):
        write(producer, topic, first, first + 1)
        producer.commit()
        write(producer, topic, first + 2, first + 3)
        producer.abort()
    producer.settle()
    assert values(cluster, topic) == [each for each in range(40) if each % 4 < 2]


def test_a_later_producer_takes_over(cluster: Cluster, topic: str) -> None:
    first = TransactionalProducer(cluster, f"id-{topic}")
    write(first, topic, 1, 2)
    second = TransactionalProducer(cluster, f"id-{topic}")
    second.initialize()
    write(second, topic, 3, 4)
    for attempt in (first.commit, first.abort, first.settle, lambda: write(first, topic, 5)):
        with pytest.raises(WriterFenced, match="another process has taken over"):
            attempt()
    assert not first.is_open
    second.commit()
    second.settle()
    assert values(cluster, topic) == [3, 4]
    first.initialize()
    write(first, topic, 6)
    first.commit()
    with pytest.raises(WriterFenced):
        second.settle()
    first.settle()
    assert values(cluster, topic) == [3, 4, 6]


def test_who_was_taken_over_does_not_take_the_id_back_by_an_abort(cluster: Cluster, topic: str) -> None:
    """It would go on with what it knew before the other one was at work."""
    Admin(cluster).alter_settings(topic, {"max.message.bytes": "1000"})
    first = TransactionalProducer(cluster, f"id-{topic}")
    write(first, topic, 1)
    first.write(TopicPartition(TopicName(topic), 0), [Record(0, 1, None, bytes(5000))])
    with pytest.raises(Refused, match="MESSAGE_TOO_LARGE"):
        first.flush()
    second = TransactionalProducer(cluster, f"id-{topic}")
    write(second, topic, 2)
    with pytest.raises(WriterFenced):
        first.abort()
    second.commit()
    second.settle()
    assert values(cluster, topic) == [2]


def test_after_an_error_nothing_is_written_until_it_is_aborted(cluster: Cluster, topic: str) -> None:
    Admin(cluster).alter_settings(topic, {"max.message.bytes": "1000"})
    producer = TransactionalProducer(cluster, f"id-{topic}")
    write(producer, topic, 1)
    producer.write(TopicPartition(TopicName(topic), 0), [Record(0, 1, None, bytes(5000))])
    for attempt in (producer.flush, producer.commit, lambda: write(producer, topic, 2)):
        with pytest.raises(Refused, match="MESSAGE_TOO_LARGE"):
            attempt()
    producer.abort()
    producer.abort()
    write(producer, topic, 3)
    producer.commit()
    producer.settle()
    assert values(cluster, topic) == [3]


def test_after_a_refusal_it_goes_on_with_a_new_transaction(cluster: Cluster, topic: str) -> None:
    Admin(cluster).alter_settings(topic, {"max.message.bytes": "1000"})
    producer = TransactionalProducer(cluster, f"id-{topic}")
    write(producer, topic, 1)
    producer.write(TopicPartition(TopicName(topic), 0), [Record(0, 1, None, bytes(5000))])
    with pytest.raises(Refused, match="MESSAGE_TOO_LARGE"):
        producer.commit()
    producer.abort()
    write(producer, topic, 2, 3)
    producer.commit()
    producer.settle()
    assert values(cluster, topic) == [2, 3]
    assert TransactionAdmin(cluster).describe_transaction(f"id-{topic}").state != "Ongoing"
