"""Transaction events as records: round trips, both stored versions, and one clear error for damaged records."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.broker.transactions.log import DamagedTransactions, TransactionFormat
from headwater.coordination.transactions.events import (
    Event,
    TransactionForgotten,
    TransactionState,
    TransactionStored,
)
from headwater.ids import ProducerId, TopicName, TopicPartition, TransactionalId
from headwater.protocol.stored.record import write_value
from headwater.protocol.stored.transaction_log import PartitionsSchema, TransactionLogValue

FORMAT = TransactionFormat()
NAME, TOPIC = TransactionalId("t"), TopicName("topic")
KEY, _ = FORMAT.encode(TransactionForgotten(NAME))

names = st.text(max_size=10).map(TransactionalId)
epochs = st.integers(-1, 2**15 - 1)
producer_ids = st.integers(-1, 2**63 - 1).map(ProducerId)
timestamps = st.integers(-1, 2**63 - 1)
partitions = st.frozensets(
    st.builds(TopicPartition, st.text(max_size=3).map(TopicName), st.integers(0, 2**31 - 1)), max_size=5
)


def in_state(state: TransactionState) -> st.SearchStrategy[TransactionStored]:
    return st.builds(
        TransactionStored,
        names,
        producer_ids,
        epochs,
        st.integers(0, 2**31 - 1),
        st.just(state),
        st.just(frozenset[TopicPartition]()) if state is TransactionState.EMPTY else partitions,
        timestamps,
        timestamps,
        st.sampled_from((1, 2)),
        producer_ids,
        producer_ids,
        epochs,
        epochs,
        published_batch_id=st.integers(-1, 2**63 - 1),
    )


# Built once: building strategies for each example would take nearly all of the time.
stored = st.one_of(*map(in_state, TransactionState))
events: st.SearchStrategy[Event] = stored | st.builds(TransactionForgotten, names)


def value(**changed: Any) -> TransactionLogValue:
    fields: dict[str, Any] = {
        "producer_id": 5,
        "producer_epoch": 6,
        "transaction_timeout_ms": 7,
        "transaction_status": TransactionState.ONGOING,
        "transaction_partitions": [PartitionsSchema(topic=TOPIC, partition_ids=[3, 1])],
        "transaction_last_update_timestamp_ms": 9,
        "transaction_start_timestamp_ms": 8,
    }
    return TransactionLogValue(**(fields | changed))


ONGOING = TransactionStored(
    NAME,
    ProducerId(5),
    6,
    7,
    TransactionState.ONGOING,
    frozenset({TopicPartition(TOPIC, 1), TopicPartition(TOPIC, 3)}),
    start_timestamp_ms=8,
    update_timestamp_ms=9,
)


@given(events)
def test_events_survive_a_round_trip(event: Event) -> None:
    key, written = FORMAT.encode(event)

    read = FORMAT.decode(key, written)

    assert type(read) is type(event)
    assert read == event


@given(stored)
def test_a_tombstone_has_the_key_of_the_record_it_deletes(event: TransactionStored) -> None:
    key, _ = FORMAT.encode(event)
    forgotten = TransactionForgotten(event.transactional_id)

    assert FORMAT.encode(forgotten) == (key, None)
    assert FORMAT.decode(key, None) == forgotten


@given(stored)
def test_equal_events_have_equal_bytes(event: TransactionStored) -> None:
    same = event._replace(partitions=frozenset(sorted(event.partitions, reverse=True)))

    assert FORMAT.encode(same) == FORMAT.encode(event)


@pytest.mark.parametrize("version", [0, 1])
def test_transactions_are_read_in_every_version_of_kafka(version: int) -> None:
    assert FORMAT.decode(KEY, write_value(value(), version)) == ONGOING


@pytest.mark.parametrize(("client_version", "protocol_version"), [(0, 1), (1, 1), (2, 2)])
def test_the_protocol_follows_from_the_feature_that_the_client_uses(client_version: int, protocol_version: int) -> None:
    written = write_value(value(client_transaction_version=client_version), 1)

    assert FORMAT.decode(KEY, written) == ONGOING._replace(protocol_version=protocol_version)


def test_a_protocol_1_transaction_has_kafkas_bytes() -> None:
    listed = [PartitionsSchema(topic=TOPIC, partition_ids=[1, 3])]

    _, written = FORMAT.encode(ONGOING)

    assert written == write_value(value(transaction_partitions=listed, client_transaction_version=0), 1)


@pytest.mark.parametrize("listed", [None, [], [PartitionsSchema(topic=TOPIC, partition_ids=[3])]])
def test_an_id_without_a_transaction_has_no_partitions(listed: list[PartitionsSchema] | None) -> None:
    written = write_value(value(transaction_status=TransactionState.EMPTY, transaction_partitions=listed), 1)

    assert FORMAT.decode(KEY, written) == ONGOING._replace(state=TransactionState.EMPTY, partitions=frozenset())


@pytest.mark.parametrize("record_type", [1, 32767, -1])
@pytest.mark.parametrize("written", [None, b"", b"\x00\x00anything"])
def test_records_of_unknown_kinds_are_skipped(record_type: int, written: bytes | None) -> None:
    assert FORMAT.decode(record_type.to_bytes(2, "big", signed=True) + b"anything", written) is None


WRITTEN = write_value(value(), 1)


@pytest.mark.parametrize(
    ("key", "written"),
    [
        (b"", None),
        (b"\x00", WRITTEN),
        (KEY[:-1], WRITTEN),
        (KEY + b"\x00", None),
        (b"\x00\x00\x00\x01\xff", None),
        (KEY, b""),
        (KEY, b"\x00"),
        (KEY, WRITTEN[:-1]),
        (KEY, WRITTEN + b"\x00"),
        (KEY, b"\x00\x02" + WRITTEN[2:]),
        (KEY, b"\xff\xff" + WRITTEN[2:]),
        (KEY, write_value(value(transaction_status=8), 1)),
        (KEY, write_value(value(transaction_status=-1), 0)),
        (KEY, write_value(value(client_transaction_version=3), 1)),
        (KEY, write_value(value(transaction_partitions=None), 1)),
    ],
)
def test_an_unreadable_record_raises_one_clear_error(key: bytes, written: bytes | None) -> None:
    with pytest.raises(DamagedTransactions, match="is not understood"):
        FORMAT.decode(key, written)


@given(stored, st.data())
def test_a_damaged_record_is_decoded_or_refused(event: TransactionStored, data: st.DataObject) -> None:
    key, written = FORMAT.encode(event)
    assert written is not None
    damaged = bytearray(written)
    damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with suppress(DamagedTransactions):
        FORMAT.decode(key, bytes(damaged))
