"""The records of share groups are those of Kafka: what we write its tool prints, and its own classes write again."""

from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import pytest

from headwater.broker.shares.format import ShareFormat
from headwater.coordination.shares.events import (
    ShareEvent,
    ShareForgotten,
    ShareSnapshotStored,
    ShareUpdated,
    ShareUpdatesForgotten,
    StateBatch,
)
from headwater.coordination.shares.pending import PendingBatch, PendingTransaction
from headwater.coordination.shares.terms import AcknowledgeType, DeliveryState, SharePartitionId
from headwater.ids import GroupId, ProducerId, TopicId
from headwater.protocol.batches.batch import build
from headwater.protocol.batches.records import Record
from tests.interop.dump_log import DumpLog
from tests.interop.stored_records import Printed, printed, rewritten

pytestmark = pytest.mark.interop

INTERNAL = "__share_group_state"
FORMAT = ShareFormat()
ORDERS = SharePartitionId(GroupId("übertrag"), TopicId(UUID("9bd8b2c4-6c33-4ec1-a4a4-6a6e1c8d3f10")), 3)
WRITTEN_MS = 1_700_000_000_000
BATCHES = [
    StateBatch(5, 9, DeliveryState.ACKNOWLEDGED, 1),
    StateBatch(11, 2**40, DeliveryState.ARCHIVED, 5),
    StateBatch(2**40 + 1, 2**40 + 1, DeliveryState.AVAILABLE, 2),
]
LISTED = [
    {"firstOffset": 5, "lastOffset": 9, "deliveryState": 2, "deliveryCount": 1},
    {"firstOffset": 11, "lastOffset": 2**40, "deliveryState": 4, "deliveryCount": 5},
    {"firstOffset": 2**40 + 1, "lastOffset": 2**40 + 1, "deliveryState": 0, "deliveryCount": 2},
]
PENDING = PendingTransaction(ProducerId(77), 3, (PendingBatch(12, 14, 2, AcknowledgeType.ACCEPT),))
NAME = {"groupId": "übertrag", "topicId": "m9iyxGwzTsGkpGpuHI0_EA", "partition": 3}

# Every event, and what Kafka finds in its record: the type and the fields of the key, version and fields of the value.
RECORDS: Sequence[tuple[ShareEvent, Printed]] = [
    (
        ShareSnapshotStored(ORDERS, 4, 1, 2, 5, 6, WRITTEN_MS, WRITTEN_MS + 1, BATCHES),
        (
            ("0", NAME),
            (
                "0",
                {
                    "snapshotEpoch": 4,
                    "stateEpoch": 1,
                    "leaderEpoch": 2,
                    "startOffset": 5,
                    "deliveryCompleteCount": 6,
                    "createTimestamp": WRITTEN_MS,
                    "writeTimestamp": WRITTEN_MS + 1,
                    "stateBatches": LISTED,
                },
            ),
        ),
    ),
    (
        ShareUpdated(ORDERS, 4, 2, 5, 0, BATCHES),
        (
            ("1", NAME),
            (
                "0",
                {
                    "snapshotEpoch": 4,
                    "leaderEpoch": 2,
                    "startOffset": 5,
                    "deliveryCompleteCount": 0,
                    "stateBatches": LISTED,
                },
            ),
        ),
    ),
    # Of what is pending in a transaction Kafka shows nothing: until the commit nothing of it counts.
    (
        ShareUpdated(ORDERS, 4, 2, 5, 0, [], pending=PENDING),
        (
            ("1", NAME),
            (
                "0",
                {
                    "snapshotEpoch": 4,
                    "leaderEpoch": 2,
                    "startOffset": 5,
                    "deliveryCompleteCount": 0,
                    "stateBatches": [],
                },
            ),
        ),
    ),
    (
        ShareUpdated(ORDERS, 4, 2, 5, 0, BATCHES, ended=PENDING.producer_id),
        (
            ("1", NAME),
            (
                "0",
                {
                    "snapshotEpoch": 4,
                    "leaderEpoch": 2,
                    "startOffset": 5,
                    "deliveryCompleteCount": 0,
                    "stateBatches": LISTED,
                },
            ),
        ),
    ),
    (ShareForgotten(ORDERS), (("0", NAME), None)),
    (ShareUpdatesForgotten(ORDERS), (("1", NAME), None)),
]


def test_the_dump_of_kafka_shows_what_was_written(dump_log: DumpLog, tmp_path: Path) -> None:
    segment = tmp_path / f"{0:020}.log"
    records = [Record(index, WRITTEN_MS, *FORMAT.encode(event)) for index, (event, _) in enumerate(RECORDS)]
    segment.write_bytes(build(records))
    dump = dump_log([segment], "--share-group-state-decoder")
    assert not dump.complaints
    assert printed(dump) == [shown for _, shown in RECORDS]


def test_kafka_would_write_the_same_bytes() -> None:
    written = [FORMAT.encode(event) for event, _ in RECORDS]
    for (key, value), (same_key, values) in zip(written, rewritten(INTERNAL, written), strict=True):
        assert same_key == key
        assert list(values) == ([] if value is None else [value])
