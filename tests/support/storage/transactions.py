"""Producers that write transactions into a log as a partition does, and a read_committed consumer."""

from collections.abc import Iterable, Sequence

from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.batch import BatchHeader, Buffer, Marker
from headwater.protocol.batches.records import Record
from headwater.storage.log import Log
from tests.support.storage.builders import NOW_MS

NO_PRODUCER = -1


class Writer:
    """Stages batches, each checked and given its offset, and appends all of them with one write."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.staged: list[tuple[BatchHeader, bytearray]] = []

    @property
    def next_offset(self) -> int:
        return self.staged[-1][0].next_offset if self.staged else self.log.end_offset

    def data(
        self,
        pairs: Sequence[tuple[bytes | None, bytes | None]],
        producer_id: int = NO_PRODUCER,
        *,
        epoch: int = 0,
        sequence: int = -1,
        transactional: bool = False,
    ) -> int:
        offset = self.next_offset
        batch = batches.build(
            [Record(offset + n, NOW_MS, key, value) for n, (key, value) in enumerate(pairs)],
            base_offset=offset,
            leader_epoch=0,
            producer_id=producer_id,
            producer_epoch=epoch if producer_id >= 0 else -1,
            base_sequence=sequence,
            transactional=transactional,
        )
        header = batches.read_header(batch)
        if producer_id >= 0:
            assert self.log.check_sequence(header) is None, "no batch is sent twice"
            self.log.producers.update(header, NOW_MS)
        self.staged.append((header, batch))
        return offset

    def end(self, producer_id: int, *, committed: bool, epoch: int = 0, version: int = 1) -> int:
        marker = Marker(committed, coordinator_epoch=0)
        self.log.producers.check_marker(producer_id, epoch, marker, version)
        offset = self.next_offset
        batch = batches.build_marker(
            marker,
            base_offset=offset,
            timestamp_ms=NOW_MS,
            producer_id=producer_id,
            producer_epoch=epoch,
            leader_epoch=0,
        )
        header = batches.read_header(batch)
        self.log.end_transaction(header, marker, NOW_MS)
        self.staged.append((header, batch))
        return offset

    def write(self) -> None:
        staged, self.staged = self.staged, []
        self.log.append(staged, NOW_MS)

    def refuse(self) -> None:
        """Takes back the staged batches, as after a write to a full disk."""
        self.staged = []
        self.log.rebuild_producers()

    # -- whole transactions of one batch

    def transaction(
        self, producer_id: int, *keys: bytes, committed: bool, value: bytes | None = b"v"
    ) -> tuple[int, int]:
        """Writes one transaction and returns the offsets of its first record and of its marker."""
        first = self.data([(key, value) for key in keys], producer_id, transactional=True)
        last = self.end(producer_id, committed=committed)
        self.write()
        return first, last


def stable(log: Log) -> int:
    """The last stable offset if every appended batch were visible."""
    return log.producers.transactions.stable_before(log.end_offset)


def read_committed(log: Log, stable_offset: int | None = None, *, bytes_max: int = 1 << 20) -> list[Record]:
    """The records that a consumer keeps of each fetch after it dropped the listed aborted transactions."""
    if stable_offset is None:
        stable_offset = stable(log)
    found: list[Record] = []
    offset = log.start_offset
    while offset < stable_offset:
        read = log.read(offset, bytes_max, limit_offset=stable_offset, first_batch_whole=True)
        if not len(read):
            break
        coming = sorted(log.aborted.in_range(read, offset), key=lambda one: one.first_offset)
        aborting: set[int] = set()
        for header, batch in batches.iterate(read.read()):
            batches.verify(batch, header)
            while coming and coming[0].first_offset <= header.last_offset:
                aborting.add(coming.pop(0).producer_id)
            records = batches.read_records(batch, header, 1 << 20)
            if header.is_control:
                marker = batches.read_marker(records[0]) if records else None
                if marker is not None and not marker.committed:
                    aborting.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborting):
                found += [record for record in records if record.offset >= offset]
            offset = max(offset, header.next_offset)
    return found


def account(appended: Iterable[Buffer], end_offset: int) -> tuple[list[Record], int, dict[int, int]]:
    """A simple model of the batches before `end_offset`: the committed records, the last stable offset, and the first
    offset of each open transaction by producer."""
    records: list[tuple[Record, list[bool]]] = []
    outcomes: dict[int, list[bool]] = {}
    opened: dict[int, int] = {}
    for batch in appended:
        header = batches.read_header(batch)
        if header.base_offset >= end_offset:
            break
        found = batches.read_records(batch, header, 1 << 20)
        if header.is_control:
            marker = batches.read_marker(found[0])
            assert marker is not None
            opened.pop(header.producer_id, None)
            outcomes.pop(header.producer_id, []).append(marker.committed)
        elif header.is_transactional:
            opened.setdefault(header.producer_id, header.base_offset)
            outcome = outcomes.setdefault(header.producer_id, [])
            records += [(record, outcome) for record in found]
        else:
            records += [(record, [True]) for record in found]
    stable_offset = min([end_offset, *opened.values()])
    committed = [record for record, outcome in records if outcome == [True] and record.offset < stable_offset]
    return committed, stable_offset, opened
