"""Events of share-partitions as records: back and forth, and what is not understood."""

from uuid import UUID

import pytest

from headwater.broker.shares.format import DamagedShares, ShareFormat
from headwater.coordination.shares.events import (
    ShareEvent,
    ShareForgotten,
    ShareSnapshotStored,
    ShareUpdated,
    ShareUpdatesForgotten,
    StateBatch,
)
from headwater.coordination.shares.outbox import Letters, LetterTarget, OutboxChange, OutboxStored
from headwater.coordination.shares.pending import PendingBatch, PendingTransaction
from headwater.coordination.shares.terms import AcknowledgeType, DeliveryState, SharePartitionId
from headwater.ids import GroupId, ProducerId, TopicId
from headwater.protocol.batches.dead_letter_headers import Reason
from headwater.protocol.stored import share_state as stored
from headwater.protocol.stored.record import write_key, write_value

ORDERS = SharePartitionId(GroupId("billing"), TopicId(UUID(int=7)), 3)
BATCHES = [
    StateBatch(5, 9, DeliveryState.ACKNOWLEDGED, 1),
    StateBatch(10, 10, DeliveryState.AVAILABLE, 2),
    StateBatch(11, 1 << 40, DeliveryState.ARCHIVED, 5),
]

LETTERS = [Letters(3, 5, 6, 5, Reason.EXHAUSTED, 1_700_000_000_002), Letters(5, 2, 2, 1, Reason.REJECTED, 7)]
PENDING = PendingTransaction(
    ProducerId(77),
    3,
    (PendingBatch(10, 12, 2, AcknowledgeType.ACCEPT), PendingBatch(20, 20, 1, AcknowledgeType.REJECT)),
)
TARGET = LetterTarget(TopicId(UUID(int=8)), 2, ProducerId(4000))


@pytest.mark.parametrize(
    "event",
    [
        ShareSnapshotStored(ORDERS, 4, 1, 2, 5, 6, 1, 2, BATCHES, OutboxStored(6, LETTERS, TARGET)),
        ShareSnapshotStored(ORDERS, 4, 1, 2, 5, 6, 1, 2, BATCHES, OutboxStored(6, [], TARGET)),
        ShareUpdated(ORDERS, 4, 2, 5, 6, BATCHES, OutboxChange(LETTERS)),
        ShareUpdated(ORDERS, 4, 2, 5, 6, [], OutboxChange([], 4)),
        ShareUpdated(ORDERS, 4, 2, 5, 6, [], OutboxChange([], 0, TARGET)),
        ShareSnapshotStored(ORDERS, 4, 1, 2, 5, 6, 1_700_000_000_000, 1_700_000_000_001, BATCHES),
        ShareUpdated(ORDERS, 4, 2, 5, 6, BATCHES),
        ShareUpdated(ORDERS, 0, 0, 17, 0, []),
        ShareSnapshotStored(ORDERS, 4, 1, 2, 5, 6, 1, 2, BATCHES, None, (PENDING, PENDING._replace(producer_epoch=0))),
        ShareUpdated(ORDERS, 4, 2, 5, 6, [], pending=PENDING),
        ShareUpdated(ORDERS, 4, 2, 5, 6, BATCHES, ended=ProducerId(0)),
        ShareForgotten(ORDERS),
        ShareUpdatesForgotten(ORDERS),
    ],
)
def test_an_event_is_read_as_it_was_written(event: ShareEvent) -> None:
    assert ShareFormat().decode(*ShareFormat().encode(event)) == event


def test_snapshots_and_updates_have_keys_of_their_own() -> None:
    keys = [ShareFormat().encode(event)[0] for event in (ShareForgotten(ORDERS), ShareUpdatesForgotten(ORDERS))]
    assert [key[:2] for key in keys] == [b"\0\0", b"\0\1"]
    assert keys[0][2:] == keys[1][2:] == b"\0\x07billing" + UUID(int=7).bytes + b"\0\0\0\x03"


def test_records_of_newer_kinds_are_passed_over() -> None:
    assert ShareFormat().decode(b"\0\x09newer", b"\0\0") is None


@pytest.mark.parametrize(("first", "last", "state"), [(5, 9, DeliveryState.ACQUIRED), (5, 9, 3), (9, 5, 2), (-1, 5, 2)])
def test_a_record_that_makes_no_sense_is_refused(first: int, last: int, state: int) -> None:
    key = write_key(stored.ShareUpdateKey(group_id="g", topic_id=UUID(int=1), partition=0))
    batch = stored.StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=1)
    value = stored.ShareUpdateValue(snapshot_epoch=0, leader_epoch=0, start_offset=0, state_batches=[batch])
    with pytest.raises(DamagedShares, match="is not understood"):
        ShareFormat().decode(key, write_value(value, 0))
    with pytest.raises(DamagedShares):
        ShareFormat().decode(key, b"\0\0\1")


@pytest.mark.parametrize(("first", "last", "kind"), [(5, 4, 1), (-1, 4, 1), (5, 5, 2), (5, 5, 0)])
def test_impossible_acknowledgements_of_a_transaction_are_not_loaded(first: int, last: int, kind: int) -> None:
    batch = stored.PendingBatch(first_offset=first, last_offset=last, delivery_count=1, type=kind)
    pending = [stored.PendingTransaction(producer_id=7, producer_epoch=0, batches=[batch])]
    key, _ = ShareFormat().encode(ShareUpdated(ORDERS, 4, 2, 5, 6, []))
    value = stored.ShareUpdateValue(snapshot_epoch=4, leader_epoch=2, start_offset=5, state_batches=[], pending=pending)
    with pytest.raises(DamagedShares, match=f"offsets {first} to {last}"):
        ShareFormat().decode(key, write_value(value, 0))


def test_one_update_has_the_acknowledgements_of_one_transaction() -> None:
    pending = [stored.PendingTransaction(producer_id=each, producer_epoch=0, batches=[]) for each in (7, 8)]
    key, _ = ShareFormat().encode(ShareUpdated(ORDERS, 4, 2, 5, 6, []))
    value = stored.ShareUpdateValue(snapshot_epoch=4, leader_epoch=2, start_offset=5, state_batches=[], pending=pending)
    with pytest.raises(DamagedShares, match="2 transactions"):
        ShareFormat().decode(key, write_value(value, 0))
