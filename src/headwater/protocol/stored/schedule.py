"""The records of `__headwater_schedule`. They are read by the million at a start, hence plain structs.

A key names the target, and the entry by its offset in this log; a record without a value ends what its key names.
"""

import struct
from typing import Final, NamedTuple
from uuid import UUID

from headwater.errors import ProtocolError

ENTRY: Final = 1
MOVE: Final = 2
DELIVERY: Final = 3

_VERSION: Final = 0
_AFTER_COMMIT: Final = 1
_OFFSET_MAX: Final = 2**62

_KEY: Final = struct.Struct(">B16siq")
# Version, flags, producer id, epoch, base and last sequence, due time or delay, and the length of the id.
_ENTRY: Final = struct.Struct(">bBqhiiqH")
_MOVE: Final = struct.Struct(">bq")
_DELIVERY: Final = struct.Struct(">biI")

# The bytes of a key that name the target, and those of an entry's value that name the produced batch.
TARGET_BYTES: Final = slice(1, 21)
BATCH_BYTES: Final = slice(2, 20)


class StoredKey(NamedTuple):
    kind: int
    topic_id: UUID
    partition: int
    offset: int


class StoredEntry(NamedTuple):
    is_after_commit: bool
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int
    when_ms: int
    schedule_id: bytes
    record: bytes


def write_key(kind: int, topic_id: UUID, partition: int, offset: int = 0) -> bytes:
    return _KEY.pack(kind, topic_id.bytes, partition, offset)


def read_key(key: bytes) -> StoredKey:
    if len(key) != _KEY.size:
        raise ProtocolError(f"the key of a schedule's record has {len(key)} bytes, not {_KEY.size}")
    kind, topic_id, partition, offset = _KEY.unpack(key)
    if partition < 0 or not 0 <= offset < _OFFSET_MAX:
        raise ProtocolError(f"the key of a schedule's record names partition {partition} and offset {offset}")
    return StoredKey(kind, UUID(bytes=topic_id), partition, offset)


def write_entry(entry: StoredEntry) -> bytes:
    return b"".join(
        (
            _ENTRY.pack(
                _VERSION,
                _AFTER_COMMIT if entry.is_after_commit else 0,
                entry.producer_id,
                entry.producer_epoch,
                entry.base_sequence,
                entry.last_sequence,
                entry.when_ms,
                len(entry.schedule_id),
            ),
            entry.schedule_id,
            entry.record,
        )
    )


def read_entry(value: bytes) -> StoredEntry:
    if len(value) < _ENTRY.size or value[0] != _VERSION:
        raise ProtocolError(f"{len(value)} bytes are no scheduled record of version {_VERSION}")
    _, flags, producer_id, epoch, base_sequence, last_sequence, when_ms, id_length = _ENTRY.unpack_from(value)
    end = _ENTRY.size + id_length
    if end > len(value) or when_ms < 0:
        raise ProtocolError(f"a scheduled record is due at {when_ms}, and has an id of {id_length} bytes")
    return StoredEntry(
        bool(flags & _AFTER_COMMIT),
        producer_id,
        epoch,
        base_sequence,
        last_sequence,
        when_ms,
        value[_ENTRY.size : end],
        value[end:],
    )


def write_move(due_ms: int) -> bytes:
    return _MOVE.pack(_VERSION, due_ms)


def read_move(value: bytes) -> int:
    if len(value) != _MOVE.size or value[0] != _VERSION:
        raise ProtocolError(f"{len(value)} bytes are no move of version {_VERSION}")
    due_ms: int = _MOVE.unpack(value)[1]
    if due_ms < 0:
        raise ProtocolError(f"a record is moved to {due_ms}")
    return due_ms


def write_delivery(base_sequence: int, entries: tuple[int, ...]) -> bytes:
    return _DELIVERY.pack(_VERSION, base_sequence, len(entries)) + struct.pack(f">{len(entries)}q", *entries)


def read_delivery(value: bytes) -> tuple[int, tuple[int, ...]]:
    if len(value) < _DELIVERY.size or value[0] != _VERSION:
        raise ProtocolError(f"{len(value)} bytes are no delivery of version {_VERSION}")
    _, base_sequence, count = _DELIVERY.unpack_from(value)
    if base_sequence < 0 or count == 0 or len(value) != _DELIVERY.size + 8 * count:
        raise ProtocolError(f"a delivery of {count} records from sequence {base_sequence} has {len(value)} bytes")
    return base_sequence, struct.unpack_from(f">{count}q", value, _DELIVERY.size)
