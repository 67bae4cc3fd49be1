"""Producer snapshots in Kafka's format v1: `<offset>.snapshot` has the states when the log ended at that offset.

A snapshot has only the last batch of each producer; those before it are recalled from the log.
"""

from collections.abc import Iterable
from pathlib import Path
from struct import Struct
from typing import Final

from fastcrc.crc32 import iscsi as crc32c

from headwater.errors import HeadwaterError
from headwater.protocol.batches.batch import NO_OFFSET, NO_SEQUENCE
from headwater.storage.producers.states import ProducedBatch, ProducerState

_VERSION: Final = 1
_HEAD: Final = Struct(">hIi")
_CRC_END: Final = 6
# Producer id, its epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, first offset of an
# open transaction.
_ENTRY: Final = Struct(">qhiqiqiq")
_SEQUENCE_MASK: Final = 2**31 - 1


class DamagedSnapshot(HeadwaterError):
    """The file is not a whole snapshot. The states are rebuilt from an older one and the log."""


def encode(states: Iterable[ProducerState]) -> bytes:
    entries = [
        _ENTRY.pack(
            state.producer_id,
            state.producer_epoch,
            state.last_sequence,
            state.last_offset,
            state.batches[-1].last_offset - state.batches[-1].base_offset if state.batches else 0,
            state.last_timestamp,
            state.coordinator_epoch,
            state.current_txn_first_offset,
        )
        for state in states
    ]
    body = len(entries).to_bytes(4, "big") + b"".join(entries)
    return _VERSION.to_bytes(2, "big") + crc32c(body).to_bytes(4, "big") + body


def decode(data: bytes, path: Path) -> list[ProducerState]:
    if len(data) < _HEAD.size:
        raise DamagedSnapshot(f"{path.name} has {len(data)} bytes, too few for a producer snapshot")
    version, crc, count = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise DamagedSnapshot(f"{path.name} has version {version}, not {_VERSION}")
    if crc32c(memoryview(data)[_CRC_END:]) != crc or len(data) != _HEAD.size + count * _ENTRY.size:
        raise DamagedSnapshot(f"{path.name} does not match its checksum")
    return [_state(entry) for entry in _ENTRY.iter_unpack(memoryview(data)[_HEAD.size :])]


def _state(entry: tuple[int, ...]) -> ProducerState:
    producer_id, producer_epoch, last_sequence, last_offset, offset_delta, timestamp, *transaction = entry
    coordinator_epoch, current_txn_first_offset = transaction
    state = ProducerState(producer_id, producer_epoch)
    state.last_timestamp = timestamp
    state.coordinator_epoch = coordinator_epoch
    state.current_txn_first_offset = max(current_txn_first_offset, NO_OFFSET)
    if last_offset >= 0:
        has_sequence = last_sequence != NO_SEQUENCE
        base_sequence = (last_sequence - offset_delta) & _SEQUENCE_MASK if has_sequence else NO_SEQUENCE
        state.batches.append(ProducedBatch(base_sequence, last_sequence, last_offset - offset_delta, last_offset))
    return state
