"""A transaction that nobody ends keeps readers of committed records waiting, but not for ever."""

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition

from headwater.testing import Broker
from tests.listeners.raw import RawClient
from tests.transactions.topics import (
    high_watermark,
    last_stable_offset,
    read,
    reader,
    transactional_producer,
    wait_until,
)

# Long enough to see that the transaction is open while it is.
TIMEOUT_MS = 3000


def test_a_reader_that_waits_behind_an_open_transaction_goes_on_when_its_time_is_over() -> None:
    with Broker() as broker:
        with RawClient(broker) as raw:
            raw.create("topic")
        forgetful = transactional_producer(broker, "forgetful", transaction_timeout_ms=TIMEOUT_MS)
        forgetful.begin_transaction()
        forgetful.produce("topic", b"forgotten", key=b"forgotten")
        forgetful.flush()
        other = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for number in range(10):
            other.produce("topic", b"behind", key=b"%d" % number)
        other.flush()
        assert (last_stable_offset(broker, "topic"), high_watermark(broker, "topic")) == (0, 11)
        assert read(broker, "topic", 1)[0] == []
        consumer = reader(broker)
        found: list[bytes | str | None] = []

        def read_on() -> bool:
            found.extend(message.key() for message in consumer.consume(10, 0.1) if message.error() is None)
            return len(found) >= 10

        try:
            consumer.assign([TopicPartition("topic", 0, 0)])
            wait_until(read_on)
        finally:
            consumer.close()

        assert found == [b"%d" % number for number in range(10)]
        # Ten records, the forgotten one, and the marker that ended it.
        assert last_stable_offset(broker, "topic") == high_watermark(broker, "topic") == 12
        with pytest.raises(KafkaException):
            forgetful.commit_transaction()
        assert [copy.value for copy in read(broker, "topic", 1)[0]] == [b"behind"] * 10
