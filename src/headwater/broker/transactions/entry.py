"""How a batch of a transaction enters a partition: once the coordinator knows that the transaction writes there."""

# Lazy annotations: nested functions are defined per request.
from __future__ import annotations

from typing import Protocol

from headwater.broker.partition import Partition
from headwater.broker.pending import Fault
from headwater.broker.topics import internal_topic
from headwater.broker.transactions.coordinator import TransactionCoordinator, TransactionMembership
from headwater.broker.transactions.sequence_guard import SequenceGuard
from headwater.broker.writes import intake
from headwater.broker.writes.journal import Append
from headwater.clock import Clock
from headwater.config.live import LiveConfig
from headwater.coordination.transactions.commands import ProducerIdentity
from headwater.errors import ErrorCode, HeadwaterError
from headwater.ids import ProducerId
from headwater.protocol.batches import batch as batches


class Produce(Protocol):
    """Stages a batch whose partition is part of its transaction."""

    def __call__(
        self,
        partition: Partition,
        records: memoryview,
        append: Append,
        *,
        acks: int,
        in_transaction: bool,
        admit: intake.Admit,
    ) -> None: ...


class TransactionEntry:
    def __init__(
        self, transactions: TransactionCoordinator, config: LiveConfig, clock: Clock, produce: Produce
    ) -> None:
        self._transactions = transactions
        self._config = config
        self._clock = clock
        self._produce = produce
        self._sequence_guard = SequenceGuard()

    def enter(
        self,
        partition: Partition,
        records: memoryview,
        append: Append,
        acks: int,
        membership: TransactionMembership,
        admit: intake.Admit,
    ) -> None:
        """The first batch that a transaction writes to a partition waits until the coordinator knows of the partition:
        otherwise a batch that comes too late would open a transaction there that no marker ends."""
        header = batches.read_header(records)
        producer = ProducerIdentity(ProducerId(header.producer_id), header.producer_epoch)
        is_open = partition.has_open_transaction(header.producer_id, header.producer_epoch)
        config = self._config.current
        must_join = membership.adds_partitions or config.transaction_partition_verification_enable
        may_enter = (is_open or not must_join) and not self._transactions.is_joining(producer.producer_id, partition.id)
        # A plain batch joins nothing: `produce` refuses it.
        if may_enter or not header.is_transactional:
            self._produce(partition, records, append, acks=acks, in_transaction=True, admit=admit)
            return
        if partition.is_internal:
            raise internal_topic(partition.id.topic)
        header, records = admit(records, partition.config, config, self._clock.now_ms())
        joins = self._transactions.join(membership, producer, partition.id)
        if not joins.is_done:
            # The connection's buffer keeps what was received only until the end of the turn.
            records = memoryview(bytearray(records))

        def joined(refusal: HeadwaterError | Fault | None) -> None:
            is_unknown = partition.producer(producer.producer_id) is None
            try:
                if refusal is not None:
                    if is_unknown and refusal.code is ErrorCode.NOT_ENOUGH_REPLICAS:
                        self._sequence_guard.note_refused(header, partition.id)
                    raise refusal
                if is_unknown:
                    # In protocol 2 each transaction begins at sequence 0.
                    self._sequence_guard.check_first(header, partition.id, at_zero=membership.adds_partitions)
                self._produce(partition, records, append, acks=acks, in_transaction=True, admit=intake.admit_checked)
            except HeadwaterError as error:
                append.fail(error)
            except Exception as error:
                append.fail(error if isinstance(error, Fault) else Fault(error))

        joins.then(joined)
