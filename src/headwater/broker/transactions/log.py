"""The log of a machine of transactions: its events as the records of `__transaction_state`, as Kafka writes them.

The older version of the value is read as well, so that a partition which Kafka wrote can be taken over.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

from headwater.broker.partition import Partition
from headwater.broker.shards.state_log import StateLog
from headwater.broker.writes.journal import Append
from headwater.coordination.transactions.events import (
    Event,
    TransactionForgotten,
    TransactionState,
    TransactionStored,
)
from headwater.errors import HeadwaterError, ProtocolError
from headwater.ids import ProducerId, TopicName, TopicPartition, TransactionalId
from headwater.protocol.stored.record import read_key, read_record_type, read_value, write_key, write_value
from headwater.protocol.stored.transaction_log import PartitionsSchema, TransactionLogKey, TransactionLogValue

# What Kafka writes from `transaction.version` (a feature of the cluster) 1 on.
_VALUE_VERSION: Final = 1
# The stored number is the version of that feature which the client uses. Kafka stores 0 for older clients; version 1
# only changed this record, so clients behave the same under both.
_PROTOCOL_VERSIONS: Final = {0: 1, 1: 1, 2: 2}
_CLIENT_VERSIONS: Final = {1: 0, 2: 2}
_STATES: Final = {state.value: state for state in TransactionState}


class DamagedTransactions(HeadwaterError):
    """Transactions are not loaded from records that cannot be read: a transaction left out would never end in its
    partitions."""


class TransactionFormat:
    def encode(self, event: Event) -> tuple[bytes, bytes | None]:
        key = write_key(TransactionLogKey(transactional_id=event.transactional_id))
        return key, None if isinstance(event, TransactionForgotten) else write_value(_value(event), _VALUE_VERSION)

    def decode(self, key: bytes, value: bytes | None) -> Event | None:
        try:
            if read_record_type(key) != TransactionLogKey.record_type:
                # Written by a newer version, which will read it again.
                return None
            transactional_id = TransactionalId(read_key(TransactionLogKey, key).transactional_id)
            if value is None:
                return TransactionForgotten(transactional_id)
            return _read(transactional_id, read_value(TransactionLogValue, value))
        except ProtocolError as error:
            # The checksum was right, so the record was written like this: an operator must find out by which program.
            raise DamagedTransactions(f"the transaction record {key[:80]!r} is not understood: {error}") from error


def _value(event: TransactionStored) -> TransactionLogValue:
    return TransactionLogValue(
        producer_id=event.producer_id,
        previous_producer_id=event.previous_producer_id,
        next_producer_id=event.next_producer_id,
        producer_epoch=event.producer_epoch,
        next_producer_epoch=event.next_producer_epoch,
        transaction_timeout_ms=event.timeout_ms,
        transaction_status=event.state,
        transaction_partitions=_listed(event),
        transaction_last_update_timestamp_ms=event.update_timestamp_ms,
        transaction_start_timestamp_ms=event.start_timestamp_ms,
        client_transaction_version=_CLIENT_VERSIONS[event.protocol_version],
        last_producer_epoch=event.last_producer_epoch,
        published_batch_id=event.published_batch_id,
    )


def _read(transactional_id: TransactionalId, read: TransactionLogValue) -> TransactionStored:
    state = _STATES.get(read.transaction_status)
    if state is None:
        raise ProtocolError(f"there is no state {read.transaction_status}")
    protocol_version = _PROTOCOL_VERSIONS.get(read.client_transaction_version)
    if protocol_version is None:
        raise ProtocolError(f"there is no transaction version {read.client_transaction_version}")
    return TransactionStored(
        transactional_id,
        ProducerId(read.producer_id),
        read.producer_epoch,
        read.transaction_timeout_ms,
        state,
        _partitions(read.transaction_partitions, state),
        read.transaction_start_timestamp_ms,
        read.transaction_last_update_timestamp_ms,
        protocol_version,
        ProducerId(read.previous_producer_id),
        ProducerId(read.next_producer_id),
        read.next_producer_epoch,
        read.last_producer_epoch,
        read.published_batch_id,
    )


def _listed(event: TransactionStored) -> list[PartitionsSchema] | None:
    if event.state is TransactionState.EMPTY:
        assert not event.partitions, "an id without a transaction has no partitions in it"
        return None
    return [
        PartitionsSchema(topic=topic, partition_ids=[each.partition for each in partitions])
        for topic, partitions in groupby(sorted(event.partitions), attrgetter("topic"))
    ]


def _partitions(listed: Iterable[PartitionsSchema] | None, state: TransactionState) -> frozenset[TopicPartition]:
    if state is TransactionState.EMPTY:
        return frozenset()
    if listed is None:
        raise ProtocolError(f"in state {state.name} there are partitions")
    return frozenset(
        TopicPartition(TopicName(each.topic), partition) for each in listed for partition in each.partition_ids
    )


class TransactionLog(StateLog[Event]):
    """The last event of a transactional id is its whole state. So a batch leaves out earlier ones of the same id, which
    compaction would drop later."""

    def __init__(self, partition: Partition) -> None:
        super().__init__(partition, TransactionFormat())

    def append(self, events: Sequence[Event], append: Append, now_ms: int) -> None:
        if len(events) > 1:
            events = tuple({event.transactional_id: event for event in events}.values())
        super().append(events, append, now_ms)
