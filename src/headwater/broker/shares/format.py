"""Events of share-partitions as the records of `__share_group_state`, as Kafka's share coordinator writes them."""

from collections.abc import Sequence
from typing import Final

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
from headwater.errors import HeadwaterError, ProtocolError
from headwater.ids import NO_PRODUCER_ID, GroupId, ProducerId, TopicId
from headwater.protocol.batches.dead_letter_headers import Reason
from headwater.protocol.stored import share_state as stored
from headwater.protocol.stored.record import read_key, read_record_type, read_value, write_key, write_value

# What Kafka 4.3 writes.
_VERSION: Final = 0
_STATES: Final = {
    state.value: state for state in (DeliveryState.AVAILABLE, DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED)
}
_REASONS: Final = frozenset(Reason)
_PENDING_TYPES: Final = {each.value: each for each in (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT)}


class DamagedShares(HeadwaterError):
    """Share-partitions are not loaded from records that cannot be read: what was accepted would be delivered again."""


class ShareFormat:
    def encode(self, event: ShareEvent) -> tuple[bytes, bytes | None]:
        is_snapshot = isinstance(event, ShareSnapshotStored | ShareForgotten)
        group_id, topic_id, partition = event.id
        key = stored.ShareSnapshotKey if is_snapshot else stored.ShareUpdateKey
        name = write_key(key(group_id=group_id, topic_id=topic_id, partition=partition))
        match event:
            case ShareSnapshotStored():
                return name, write_value(_snapshot(event), _VERSION)
            case ShareUpdated():
                return name, write_value(_update(event), _VERSION)
            case ShareForgotten() | ShareUpdatesForgotten():
                return name, None

    def decode(self, key: bytes, value: bytes | None) -> ShareEvent | None:
        try:
            match read_record_type(key):
                case stored.ShareSnapshotKey.record_type:
                    share_id = _id(read_key(stored.ShareSnapshotKey, key))
                    if value is None:
                        return ShareForgotten(share_id)
                    return _read_snapshot(share_id, read_value(stored.ShareSnapshotValue, value))
                case stored.ShareUpdateKey.record_type:
                    share_id = _id(read_key(stored.ShareUpdateKey, key))
                    if value is None:
                        return ShareUpdatesForgotten(share_id)
                    return _read_update(share_id, read_value(stored.ShareUpdateValue, value))
                case _:
                    # Written by a newer version, which will read it again.
                    return None
        except ProtocolError as error:
            # The checksum was right, so the record was written like this: an operator must find out by which program.
            raise DamagedShares(f"the share group record {key[:80]!r} is not understood: {error}") from error


def _id(key: stored.ShareSnapshotKey | stored.ShareUpdateKey) -> SharePartitionId:
    return SharePartitionId(GroupId(key.group_id), TopicId(key.topic_id), key.partition)


def _snapshot(event: ShareSnapshotStored) -> stored.ShareSnapshotValue:
    outbox = event.outbox or OutboxStored(0, (), None)
    return stored.ShareSnapshotValue(
        snapshot_epoch=event.snapshot_epoch,
        state_epoch=event.state_epoch,
        leader_epoch=event.leader_epoch,
        start_offset=event.start_offset,
        delivery_complete_count=event.complete_count,
        create_timestamp=event.created_ms,
        write_timestamp=event.written_ms,
        state_batches=_batches(event.batches),
        letters=_letters(outbox.letters),
        letters_next_number=outbox.next_number,
        letters_target=_target(outbox.target),
        pending=_pending(event.pending),
    )


def _update(event: ShareUpdated) -> stored.ShareUpdateValue:
    outbox = event.outbox or OutboxChange()
    return stored.ShareUpdateValue(
        snapshot_epoch=event.snapshot_epoch,
        leader_epoch=event.leader_epoch,
        start_offset=event.start_offset,
        delivery_complete_count=event.complete_count,
        state_batches=_batches(event.batches),
        letters=_letters(outbox.added),
        letters_written_before=outbox.written_before,
        letters_target=_target(outbox.target),
        pending=_pending(() if event.pending is None else (event.pending,)),
        ended=NO_PRODUCER_ID if event.ended is None else event.ended,
    )


def _batches(batches: Sequence[StateBatch]) -> list[stored.StateBatch]:
    return [
        stored.StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
        for first, last, state, count in batches
    ]


def _read_snapshot(share_id: SharePartitionId, value: stored.ShareSnapshotValue) -> ShareSnapshotStored:
    return ShareSnapshotStored(
        share_id,
        value.snapshot_epoch,
        value.state_epoch,
        value.leader_epoch,
        value.start_offset,
        value.delivery_complete_count,
        value.create_timestamp,
        value.write_timestamp,
        _read_batches(value.state_batches),
        _read_outbox(value),
        _read_pending(value.pending),
    )


def _read_update(share_id: SharePartitionId, value: stored.ShareUpdateValue) -> ShareUpdated:
    pending = _read_pending(value.pending)
    if len(pending) > 1:
        raise ProtocolError(f"acknowledgements of {len(pending)} transactions in one update")
    return ShareUpdated(
        share_id,
        value.snapshot_epoch,
        value.leader_epoch,
        value.start_offset,
        value.delivery_complete_count,
        _read_batches(value.state_batches),
        _read_change(value),
        pending[0] if pending else None,
        None if value.ended == NO_PRODUCER_ID else ProducerId(value.ended),
    )


def _letters(letters: Sequence[Letters]) -> list[stored.Letters]:
    return [
        stored.Letters(
            number=number, first_offset=first, last_offset=last, delivery_count=count, reason=reason, time=time_ms
        )
        for number, first, last, count, reason, time_ms in letters
    ]


def _target(target: LetterTarget | None) -> list[stored.LetterTarget]:
    if target is None:
        return []
    return [stored.LetterTarget(topic_id=target.topic_id, partition=target.partition, producer_id=target.producer_id)]


def _read_outbox(value: stored.ShareSnapshotValue) -> OutboxStored | None:
    if not value.letters_next_number and not value.letters_target:
        return None
    return OutboxStored(value.letters_next_number, _read_letters(value.letters), _read_target(value.letters_target))


def _read_change(value: stored.ShareUpdateValue) -> OutboxChange | None:
    if not value.letters and not value.letters_written_before and not value.letters_target:
        return None
    return OutboxChange(_read_letters(value.letters), value.letters_written_before, _read_target(value.letters_target))


def _read_letters(letters: Sequence[stored.Letters]) -> list[Letters]:
    read: list[Letters] = []
    for each in letters:
        if each.reason not in _REASONS or not 0 <= each.first_offset <= each.last_offset or each.number < 0:
            raise ProtocolError(f"dead letters {each.first_offset} to {each.last_offset} of reason {each.reason}")
        reason = Reason(each.reason)
        read.append(Letters(each.number, each.first_offset, each.last_offset, each.delivery_count, reason, each.time))
    return read


def _read_target(targets: Sequence[stored.LetterTarget]) -> LetterTarget | None:
    if not targets:
        return None
    if len(targets) > 1:
        raise ProtocolError(f"{len(targets)} targets of dead letters")
    (target,) = targets
    return LetterTarget(TopicId(target.topic_id), target.partition, ProducerId(target.producer_id))


def _pending(transactions: Sequence[PendingTransaction]) -> list[stored.PendingTransaction]:
    return [
        stored.PendingTransaction(
            producer_id=producer_id,
            producer_epoch=epoch,
            batches=[
                stored.PendingBatch(first_offset=first, last_offset=last, delivery_count=count, type=kind)
                for first, last, count, kind in batches
            ],
        )
        for producer_id, epoch, batches in transactions
    ]


def _read_pending(transactions: Sequence[stored.PendingTransaction]) -> Sequence[PendingTransaction]:
    return tuple(
        PendingTransaction(
            ProducerId(each.producer_id), each.producer_epoch, tuple(map(_read_pending_batch, each.batches))
        )
        for each in transactions
    )


def _read_pending_batch(batch: stored.PendingBatch) -> PendingBatch:
    first, last, kind = batch.first_offset, batch.last_offset, _PENDING_TYPES.get(batch.type)
    if kind is None or not 0 <= first <= last:
        raise ProtocolError(f"offsets {first} to {last} with acknowledge type {batch.type} in a transaction")
    return PendingBatch(first, last, batch.delivery_count, kind)


def _read_batches(batches: Sequence[stored.StateBatch]) -> list[StateBatch]:
    read: list[StateBatch] = []
    for each in batches:
        state = _STATES.get(each.delivery_state)
        if state is None or not 0 <= each.first_offset <= each.last_offset:
            raise ProtocolError(f"offsets {each.first_offset} to {each.last_offset} in state {each.delivery_state}")
        read.append(StateBatch(each.first_offset, each.last_offset, state, each.delivery_count))
    return read
