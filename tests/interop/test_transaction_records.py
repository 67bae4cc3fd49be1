"""The records of transactions are those of Kafka: what we write its own classes read, and what they write we read."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from headwater.broker.transactions.log import TransactionFormat
from headwater.coordination.transactions.events import (
    Event,
    TransactionForgotten,
    TransactionState,
    TransactionStored,
)
from headwater.ids import ProducerId, TopicName, TopicPartition, TransactionalId
from headwater.protocol.batches.batch import build
from headwater.protocol.batches.records import Record
from tests.interop.dump_log import DumpLog
from tests.interop.stored_records import Printed, printed, rewritten

pytestmark = pytest.mark.interop

INTERNAL = "__transaction_state"
FORMAT = TransactionFormat()
NAME = TransactionalId("übertrag-1")
STARTED_MS, UPDATED_MS = 1_700_000_000_000, 1_700_000_000_777
PARTITIONS = frozenset(
    TopicPartition(TopicName(topic), partition)
    for topic, partition in [("topic", 10), ("other", 0), ("topic", 2), ("__consumer_offsets", 49)]
)
LISTED = [
    {"topic": "__consumer_offsets", "partitionIds": [49]},
    {"topic": "other", "partitionIds": [0]},
    {"topic": "topic", "partitionIds": [2, 10]},
]
KEY = ("0", {"transactionalId": NAME})

EMPTY = TransactionStored(NAME, ProducerId(2**40), 0, 60_000, TransactionState.EMPTY, frozenset(), -1, UPDATED_MS)
ENDED = EMPTY._replace(
    state=TransactionState.COMPLETE_ABORT,
    producer_epoch=7,
    start_timestamp_ms=STARTED_MS,
    protocol_version=2,
    previous_producer_id=ProducerId(2**39),
    last_producer_epoch=6,
)
MOVING_ON = EMPTY._replace(
    state=TransactionState.PREPARE_COMMIT,
    partitions=PARTITIONS,
    producer_epoch=32_767,
    start_timestamp_ms=STARTED_MS,
    protocol_version=2,
    next_producer_id=ProducerId(2**62),
    next_producer_epoch=1,
)
# Of a client that does not know of the second protocol: the older version of the value can hold these, too.
OLDER = [
    EMPTY._replace(
        state=state,
        partitions=frozenset() if state is TransactionState.EMPTY else PARTITIONS,
        start_timestamp_ms=STARTED_MS,
    )
    for state in TransactionState
]

# Every event, and what Kafka finds in its record: the type and the fields of the key, version and fields of the value.
RECORDS: Sequence[tuple[Event, Printed]] = [
    (
        EMPTY,
        (
            KEY,
            (
                "1",
                {
                    "producerId": 2**40,
                    "producerEpoch": 0,
                    "transactionTimeoutMs": 60_000,
                    "transactionStatus": 0,
                    "transactionPartitions": None,
                    "transactionLastUpdateTimestampMs": UPDATED_MS,
                    "transactionStartTimestampMs": -1,
                },
            ),
        ),
    ),
    (
        ENDED,
        (
            KEY,
            (
                "1",
                {
                    "producerId": 2**40,
                    "previousProducerId": 2**39,
                    "producerEpoch": 7,
                    "transactionTimeoutMs": 60_000,
                    "transactionStatus": 5,
                    "transactionPartitions": [],
                    "transactionLastUpdateTimestampMs": UPDATED_MS,
                    "transactionStartTimestampMs": STARTED_MS,
                    "clientTransactionVersion": 2,
                },
            ),
        ),
    ),
    (
        MOVING_ON,
        (
            KEY,
            (
                "1",
                {
                    "producerId": 2**40,
                    "nextProducerId": 2**62,
                    "producerEpoch": 32_767,
                    "nextProducerEpoch": 1,
                    "transactionTimeoutMs": 60_000,
                    "transactionStatus": 2,
                    "transactionPartitions": LISTED,
                    "transactionLastUpdateTimestampMs": UPDATED_MS,
                    "transactionStartTimestampMs": STARTED_MS,
                    "clientTransactionVersion": 2,
                },
            ),
        ),
    ),
    (TransactionForgotten(NAME), (KEY, None)),
]
EVENTS = [event for event, _ in RECORDS]


def test_every_event_is_tried() -> None:
    assert {type(event) for event in EVENTS} == set(Event.__args__)


def test_the_dump_of_kafka_shows_what_was_written(dump_log: DumpLog, tmp_path: Path) -> None:
    records = [Record(offset, 5, *FORMAT.encode(event)) for offset, event in enumerate(EVENTS)]
    segment = tmp_path / "00000000000000000000.log"
    segment.write_bytes(build(records))

    dump = dump_log([segment], "--transaction-log-decoder")

    assert not dump.complaints
    assert printed(dump) == [expected for _, expected in RECORDS]


def test_kafka_would_write_the_same_bytes() -> None:
    ours = [FORMAT.encode(event) for event in [*EVENTS, *OLDER]]

    for (our_key, our_value), (key, values) in zip(ours, rewritten(INTERNAL, ours), strict=True):
        assert key == our_key
        assert our_value in values if our_value is not None else not values


def test_records_of_kafka_in_the_older_version_are_read() -> None:
    ours = [FORMAT.encode(event) for event in OLDER]

    for event, (key, values) in zip(OLDER, rewritten(INTERNAL, ours), strict=True):
        assert [value[:2] for value in values] == [b"\x00\x00", b"\x00\x01"]
        assert [FORMAT.decode(key, value) for value in values] == [event, event]
