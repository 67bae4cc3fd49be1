"""PublishBatch: the transactions of all writers of a batch end together, and their application stores the batch id.

Invariant: a batch is published once. Its id is stored in the same step that ends its writers' transactions, so a batch
that is sent again, by any client and after any crash, is recognized and aborted.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, takewhile

from headwater.coordination.decisions import Decision, Now
from headwater.coordination.transactions.commands import (
    PROTOCOL_2,
    InitProducer,
    PublishBatch,
    PublishResult,
    StagedWriter,
    TransactionSettings,
)
from headwater.coordination.transactions.end import check_owner
from headwater.coordination.transactions.events import NO_BATCH_ID, TransactionStored
from headwater.coordination.transactions.refusals import (
    aborted_writer,
    nothing_to_publish,
    outdated_batch,
    unknown_producer,
)
from headwater.coordination.transactions.transitions import (
    COMPLETE_ABORT,
    ONGOING,
    PREPARE_ABORT,
    created,
    fenced,
    identity_before,
    identity_of,
    markers_of,
    prepared,
)
from headwater.errors import ErrorCode, Refusal
from headwater.ids import NO_PRODUCER_ID, STAGING_INFIX, TransactionalId, staging_id

Transactions = Mapping[TransactionalId, TransactionStored]

# Upper bounds of what a stored transaction takes besides its names, of a topic besides its name, and of a partition.
_STORED_BYTES = 200
_TOPIC_BYTES = 10
_PARTITION_BYTES = 4


def check_publish(publish: PublishBatch, settings: TransactionSettings) -> None:
    """Refuses what can be refused without looking at any transaction."""
    if STAGING_INFIX in publish.application_id:
        raise _invalid(f"the application id '{publish.application_id}' contains '{STAGING_INFIX}'")
    if publish.batch_id < 0:
        raise _invalid(f"the batch id {publish.batch_id} is negative")
    if len(publish.writers) > settings.headwater_publish_writers_max:
        raise Refusal(
            ErrorCode.POLICY_VIOLATION,
            f"a batch of {len(publish.writers)} writers is too large: at most "
            f"{settings.headwater_publish_writers_max} are published at once (headwater.publish.writers.max)",
        )
    prefix = staging_id(publish.application_id, "")
    seen: set[TransactionalId] = set()
    for writer in publish.writers:
        if not writer.transactional_id.startswith(prefix):
            raise _invalid(
                f"'{writer.transactional_id}' is no writer of this application: it must begin with '{prefix}'"
            )
        if writer.transactional_id in seen:
            raise _invalid(f"the writer '{writer.transactional_id}' is named twice")
        seen.add(writer.transactional_id)


def published(
    publish: PublishBatch,
    transactions: Transactions,
    staging: Iterable[TransactionalId],
    settings: TransactionSettings,
    now: Now,
) -> Decision[PublishResult]:
    """`staging` are the application's writers with open transactions."""
    application = transactions.get(publish.application_id)
    last_id = NO_BATCH_ID if application is None else application.published_batch_id
    if not publish.is_commit:
        return _ended(_aborted(publish.writers, transactions, now), PublishResult(False, last_id))
    if publish.batch_id < last_id:
        raise outdated_batch(publish.application_id, publish.batch_id, last_id)
    is_replay = publish.batch_id == last_id
    if is_replay:
        ended = _aborted(publish.writers, transactions, now)
        # If no named writer has an open transaction, the network may have delayed this request until the next batch is
        # being written, whose writers must not be disturbed.
        others = staging if ended else ()
    else:
        ended = [_committed(writer, transactions, now) for writer in publish.writers]
        others = staging
    _check_size(ended, settings)
    # No other batch of the application is written before this one is published. So any other open transaction was left
    # behind by a task that failed, or that lost to a faster attempt.
    named = {writer.transactional_id for writer in publish.writers}
    left_behind = (fenced(transactions[each], now) for each in others if each not in named)
    ended += _fitting(left_behind, settings.transaction_state_log_segment_bytes - _size_of(ended))
    if is_replay:
        return _ended(ended, PublishResult(True, last_id))
    remembered = _remembered(application, publish, settings, now)
    return _ended(ended, PublishResult(False, publish.batch_id), remembered)


def _committed(writer: StagedWriter, transactions: Transactions, now: Now) -> TransactionStored:
    transaction = transactions.get(writer.transactional_id)
    if transaction is None:
        raise unknown_producer(writer.transactional_id)
    if writer.producer == identity_before(transaction) and transaction.state in {PREPARE_ABORT, COMPLETE_ABORT}:
        raise aborted_writer(transaction)
    check_owner(transaction, writer.producer)
    if transaction.state is not ONGOING:
        raise nothing_to_publish(transaction)
    # No client continues as this producer. So it needs no new producer id if its epochs are used up: the next task
    # under this transactional id is given one.
    return prepared(transaction, NO_PRODUCER_ID, now, is_commit=True, protocol_version=PROTOCOL_2)


def _aborted(writers: Iterable[StagedWriter], transactions: Transactions, now: Now) -> list[TransactionStored]:
    """Aborts the writers whose transactions are still open under the named identities, and leaves the others alone."""
    found = ((transactions.get(writer.transactional_id), writer.producer) for writer in writers)
    return [
        fenced(transaction, now)
        for transaction, producer in found
        if transaction is not None and transaction.state is ONGOING and identity_of(transaction) == producer
    ]


def _remembered(
    application: TransactionStored | None, publish: PublishBatch, settings: TransactionSettings, now: Now
) -> TransactionStored:
    if application is None:
        timeout_ms = settings.transaction_max_timeout_ms
        application = created(InitProducer(publish.application_id, timeout_ms, publish.new_producer_id), now)
    # If a producer uses the application's id as its own transactional id, its transaction continues unchanged.
    return application._replace(published_batch_id=publish.batch_id, update_timestamp_ms=now.wall_ms)


def _ended(
    ended: Sequence[TransactionStored], result: PublishResult, *remembered: TransactionStored
) -> Decision[PublishResult]:
    return Decision([*ended, *remembered], result, effects=[markers_of(each) for each in ended])


# -- all events of a decision are one batch of the log, which has to fit into a segment


def _check_size(ended: Sequence[TransactionStored], settings: TransactionSettings) -> None:
    size, size_max = _size_of(ended), settings.transaction_state_log_segment_bytes
    if size > size_max:
        raise Refusal(
            ErrorCode.POLICY_VIOLATION,
            f"{len(ended)} writers with the partitions that they wrote to take {size} bytes, more than "
            f"{size_max} (transaction.state.log.segment.bytes): write with fewer tasks",
        )


def _fitting(transactions: Iterable[TransactionStored], size_max: int) -> list[TransactionStored]:
    """The oldest that fit. The others are aborted with the next batch, or when they time out."""
    found = list(transactions)
    sizes = accumulate(map(_size, found))
    return found[: sum(1 for _ in takewhile(lambda size: size <= size_max, sizes))]


def _size_of(transactions: Iterable[TransactionStored]) -> int:
    return sum(map(_size, transactions))


def _size(transaction: TransactionStored) -> int:
    topics = {each.topic for each in transaction.partitions}
    return (
        _STORED_BYTES
        + len(transaction.transactional_id.encode())
        + sum(len(topic) + _TOPIC_BYTES for topic in topics)
        + len(transaction.partitions) * _PARTITION_BYTES
    )


def _invalid(reason: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, reason)
