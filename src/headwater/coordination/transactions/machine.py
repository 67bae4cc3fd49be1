"""The machine of one shard: its transactional ids, and the transaction of each.

Pure: no clock, no I/O. `decide_*` returns events, `apply` alone mutates, live and in recovery. A decision to commit or
abort is final once it is on disk; the markers that carry it out are an effect, which is repeated until it is done.
"""

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from headwater.coordination.deadlines import Deadlines
from headwater.coordination.decisions import Decision, Now
from headwater.coordination.transactions.commands import (
    EndTransaction,
    InitProducer,
    ProducerIdentity,
    PublishBatch,
    PublishResult,
    TransactionDescription,
    TransactionListing,
    TransactionSettings,
    WriteMarkers,
)
from headwater.coordination.transactions.end import check_owner, ended
from headwater.coordination.transactions.events import (
    NO_BATCH_ID,
    TimeLimitSet,
    TransactionForgotten,
    TransactionStored,
)
from headwater.coordination.transactions.filter import TransactionFilter
from headwater.coordination.transactions.initialization import check_init, check_taker, reinitialized
from headwater.coordination.transactions.publication import check_publish, published
from headwater.coordination.transactions.refusals import concurrent, unknown_producer
from headwater.coordination.transactions.transitions import (
    DEAD,
    IDLE,
    ONGOING,
    PREPARED,
    begun,
    completed,
    created,
    extended,
    fenced,
    identity_of,
    markers_of,
)
from headwater.errors import ErrorCode, Refusal
from headwater.ids import STAGING_INFIX, TopicPartition, TransactionalId, application_of

ResultT = TypeVar("ResultT")

ID_LENGTH_MAX = 1000


class TransactionMachine:
    def __init__(
        self, config: TransactionSettings, has_room: Callable[[], bool], partitions_left: Callable[[], int]
    ) -> None:
        self.transactions: dict[TransactionalId, TransactionStored] = {}
        # Number of partitions in unfinished transactions.
        self.partition_count = 0
        self._config = config
        self._has_room = has_room
        self._partitions_left = partitions_left
        # Time limits of open transactions.
        self._deadlines: Deadlines[TransactionalId] = Deadlines()
        # By application: its writers with open transactions, in the order in which the transactions began.
        self._staging: dict[TransactionalId, dict[TransactionalId, None]] = {}

    # -- producers

    def decide_init(self, init: InitProducer, now: Now) -> Decision[ProducerIdentity | Refusal]:
        """A refusal that comes with events is returned as a result: the open transaction is aborted first, and then the
        client may try again."""
        _check_id(init.transactional_id)
        check_init(init, self._config)
        transaction = self.transactions.get(init.transactional_id)
        if transaction is None:
            self._check_room(init.transactional_id)
            stored = created(init, now)
        elif transaction.state in PREPARED:
            raise concurrent(init.transactional_id)
        elif transaction.state is ONGOING:
            check_taker(transaction, init)
            return _ending(fenced(transaction, now), concurrent(init.transactional_id))
        else:
            stored = reinitialized(transaction, init, now)
        return Decision([stored], identity_of(stored))

    def decide_add_partitions(
        self,
        transactional_id: TransactionalId,
        producer: ProducerIdentity,
        partitions: Collection[TopicPartition],
        protocol_version: int,
        now: Now,
    ) -> Decision[None]:
        transaction = self._owned(transactional_id, producer)
        together = transaction.partitions.union(partitions)
        if len(together) == len(transaction.partitions):
            return Decision([], None)
        if len(together) > self._config.headwater_transaction_partitions_max:
            raise Refusal(
                ErrorCode.TRANSACTION_ABORTABLE,
                f"a transaction has at most {self._config.headwater_transaction_partitions_max} partitions "
                "(headwater.transaction.partitions.max): abort it and write less at a time",
            )
        if len(together) - len(transaction.partitions) > self._partitions_left():
            raise Refusal(
                ErrorCode.TRANSACTION_ABORTABLE,
                f"all transactions together have at most {self._config.headwater_transactions_partitions_max} "
                "partitions (headwater.transactions.partitions.max): abort this one, and try again later",
            )
        if transaction.state is ONGOING:
            return Decision([extended(transaction, together, protocol_version, now)], None)
        stored = begun(transaction, together, protocol_version, now)
        return Decision([stored, TimeLimitSet(transactional_id, now.monotonic_ms + stored.timeout_ms)], None)

    def decide_verify(
        self, transactional_id: TransactionalId, producer: ProducerIdentity, partitions: Collection[TopicPartition]
    ) -> Decision[Sequence[ErrorCode]]:
        """For each partition, whether it is part of the producer's open transaction."""
        transaction = self._owned(transactional_id, producer)
        return Decision(
            [],
            [
                ErrorCode.NONE if each in transaction.partitions else ErrorCode.TRANSACTION_ABORTABLE
                for each in partitions
            ],
        )

    def decide_end(self, end: EndTransaction, now: Now) -> Decision[ProducerIdentity]:
        """The result is the identity of the client from now on."""
        transaction = self._existing(end.transactional_id)
        stored = ended(transaction, end, now)
        if stored is None:
            return Decision([], identity_of(transaction))
        if stored.state in PREPARED:
            return _ending(stored, identity_of(stored))
        return Decision([stored], identity_of(stored))

    def decide_publish(self, publish: PublishBatch, now: Now) -> Decision[PublishResult]:
        """Ends the transactions of all writers of a batch and stores the batch id of the application in one step."""
        _check_id(publish.application_id)
        check_publish(publish, self._config)
        if publish.is_commit and publish.application_id not in self.transactions:
            self._check_room(publish.application_id)
        staging = self._staging.get(publish.application_id, {})
        return published(publish, self.transactions, staging, self._config, now)

    # -- the driver

    def decide_markers_written(self, markers: WriteMarkers, now: Now) -> Decision[None]:
        """All markers are on disk. Ignored if it is repeated or concerns an earlier transaction."""
        transaction = self.transactions.get(markers.transactional_id)
        if transaction is None or transaction.state not in PREPARED or markers_of(transaction) != markers:
            return Decision([], None)
        return Decision([completed(transaction, now)], None)

    def decide_expire(self, now: Now) -> Decision[None]:
        """Forgets ids that have not been used for long and have no unfinished transaction."""
        before_ms = now.wall_ms - self._config.transactional_id_expiration_ms
        # Longer, because a batch that is replayed after its id was forgotten would be published twice.
        published_before_ms = now.wall_ms - self._config.headwater_application_id_expiration_ms
        return Decision(
            [
                TransactionForgotten(transactional_id)
                for transactional_id, transaction in self.transactions.items()
                if transaction.state in IDLE
                and transaction.update_timestamp_ms
                <= (before_ms if transaction.published_batch_id == NO_BATCH_ID else published_before_ms)
            ],
            None,
        )

    # -- tools

    def describe(self, transactional_id: TransactionalId) -> TransactionDescription:
        _check_id(transactional_id)
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            raise Refusal(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"there is no transactional id '{transactional_id}'")
        return TransactionDescription(
            transactional_id,
            ProducerIdentity(transaction.producer_id, transaction.producer_epoch),
            transaction.state,
            transaction.timeout_ms,
            transaction.start_timestamp_ms,
            transaction.partitions,
            transaction.published_batch_id,
        )

    def listings(self, wanted: TransactionFilter, now: Now) -> Sequence[TransactionListing]:
        return [
            TransactionListing(transactional_id, transaction.producer_id, transaction.state)
            for transactional_id, transaction in self.transactions.items()
            if wanted.admits(transaction, now)
        ]

    # -- time

    def next_deadline_ms(self) -> int | None:
        return self._deadlines.next_ms()

    def decide_due(self, now: Now) -> Decision[None]:
        """Aborts a transaction that was open for too long, because it holds up all read_committed consumers."""
        transactional_id = self._deadlines.next_key()
        assert transactional_id is not None, "something is due"
        return _ending(fenced(self.transactions[transactional_id], now), None)

    def decide_loaded(self, now: Now) -> Decision[None]:
        """Markers that may be missing are written, and open transactions get the rest of their time."""
        events: list[object] = []
        effects: list[WriteMarkers] = []
        for transactional_id, transaction in self.transactions.items():
            if transaction.state is ONGOING:
                # At most the whole timeout, because the wall clock may have been set back.
                passed_ms = max(now.wall_ms - transaction.start_timestamp_ms, 0)
                left_ms = max(transaction.timeout_ms - passed_ms, 0)
                events.append(TimeLimitSet(transactional_id, now.monotonic_ms + left_ms))
            elif transaction.state in PREPARED:
                effects.append(markers_of(transaction))
        return Decision(events, None, effects=effects)

    # -- state

    def apply(self, event: object) -> None:
        match event:
            case TransactionStored():
                self._store(event)
            case TransactionForgotten(transactional_id):
                self._forget(transactional_id)
            case TimeLimitSet(transactional_id, due_ms):
                self._deadlines.set(transactional_id, due_ms)
            case _:
                raise AssertionError(f"{event} is no event of a transaction")

    def _store(self, transaction: TransactionStored) -> None:
        if transaction.state is DEAD:
            self._forget(transaction.transactional_id)
            return
        transactional_id = transaction.transactional_id
        former = self.transactions.get(transactional_id)
        self.partition_count += len(transaction.partitions) - (0 if former is None else len(former.partitions))
        self.transactions[transactional_id] = transaction
        if transaction.state is not ONGOING:
            self._close(transactional_id)
        elif STAGING_INFIX in transactional_id:
            self._staging.setdefault(application_of(transactional_id), {})[transactional_id] = None

    def _forget(self, transactional_id: TransactionalId) -> None:
        former = self.transactions.pop(transactional_id, None)
        if former is not None:
            self.partition_count -= len(former.partitions)
        self._close(transactional_id)

    def _close(self, transactional_id: TransactionalId) -> None:
        """The id has no open transaction now."""
        self._deadlines.cancel(transactional_id)
        if STAGING_INFIX in transactional_id:
            application_id = application_of(transactional_id)
            staging = self._staging.get(application_id, {})
            staging.pop(transactional_id, None)
            if not staging:
                self._staging.pop(application_id, None)

    def _existing(self, transactional_id: TransactionalId) -> TransactionStored:
        _check_id(transactional_id)
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            raise unknown_producer(transactional_id)
        return transaction

    def _owned(self, transactional_id: TransactionalId, producer: ProducerIdentity) -> TransactionStored:
        """For producers that write: refused until the previous transaction has its markers in all partitions."""
        transaction = self._existing(transactional_id)
        check_owner(transaction, producer)
        if transaction.state in PREPARED:
            raise concurrent(transactional_id)
        return transaction

    def _check_room(self, transactional_id: TransactionalId) -> None:
        if len(transactional_id) > ID_LENGTH_MAX:
            message = f"a transactional id has at most {ID_LENGTH_MAX} characters (transactional.id)"
            raise Refusal(ErrorCode.INVALID_REQUEST, message)
        if not self._has_room():
            raise Refusal(
                ErrorCode.POLICY_VIOLATION,
                f"there are {self._config.headwater_transactions_max} transactional ids already "
                "(headwater.transactions.max): use fewer, or let them expire sooner (transactional.id.expiration.ms)",
            )


def _check_id(transactional_id: TransactionalId) -> None:
    if not transactional_id:
        raise Refusal(ErrorCode.INVALID_REQUEST, "the transactional id is empty")


def _ending(transaction: TransactionStored, result: ResultT) -> Decision[ResultT]:
    return Decision([transaction], result, effects=[markers_of(transaction)])
