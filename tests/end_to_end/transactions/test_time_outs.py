"""A transaction that its producer never ends blocks read_committed consumers only until its time-out."""

import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition

from tests.support.broker.processes import BrokerProcess
from tests.support.kafka.raw_client import RawClient, Reachable
from tests.support.kafka.topic_contents import (
    DEADLINE_S,
    POLL_S,
    high_watermark,
    last_stable_offset,
    read,
    reader,
    transactional_producer,
    wait_until_stable,
)
from tests.support.transactions.copiers import SETTINGS

pytestmark = pytest.mark.slow

# Long enough for the test to observe the open transaction.
TIMEOUT_MS = 3000
BEHIND = 10


def leave_open(broker: Reachable) -> Producer:
    """Leave a transaction with one record open, followed by records of other producers."""
    with RawClient(broker) as raw:
        raw.create("topic")
    other = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    forgetful = transactional_producer(broker, "forgetful", transaction_timeout_ms=TIMEOUT_MS)
    forgetful.begin_transaction()
    forgetful.produce("topic", b"forgotten", key=b"forgotten")
    forgetful.flush()
    for number in range(BEHIND):
        other.produce("topic", b"behind", key=b"%d" % number)
    other.flush()
    return forgetful


def test_a_reader_behind_an_open_transaction_goes_on_after_its_time_out(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", SETTINGS) as broker:
        forgetful = leave_open(broker)
        assert (last_stable_offset(broker, "topic"), high_watermark(broker, "topic")) == (0, 1 + BEHIND)
        # Each record; None marks a poll that found nothing more to read.
        found: list[bytes | str | None] = []
        consumer = reader(broker)
        deadline = time.monotonic() + DEADLINE_S
        try:
            consumer.assign([TopicPartition("topic", 0, 0)])
            while b"%d" % (BEHIND - 1) not in found:
                messages = consumer.consume(BEHIND, POLL_S)
                found += [None if message.error() is not None else message.key() for message in messages]
                assert time.monotonic() < deadline, "it still waits"
        finally:
            consumer.close()

        assert found[: 1 + BEHIND] == [None, *(b"%d" % number for number in range(BEHIND))]
        # Including the marker that ended the transaction.
        assert last_stable_offset(broker, "topic") == high_watermark(broker, "topic") == 2 + BEHIND
        with pytest.raises(KafkaException):
            forgetful.commit_transaction()
        assert [copy.value for copy in read(broker, "topic", 1)[0]] == [b"behind"] * BEHIND


def test_a_transaction_times_out_although_the_broker_was_killed_meanwhile(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", SETTINGS) as broker:
        forgetful = leave_open(broker)
        broker.kill()
        broker.start()
        wait_until_stable(broker, "topic")

        with pytest.raises(KafkaException):
            forgetful.commit_transaction()
        assert [copy.value for copy in read(broker, "topic", 1)[0]] == [b"behind"] * BEHIND
