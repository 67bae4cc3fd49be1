"""The index of aborted transactions: its file, when it is flushed, and its life with the segment."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from struct import Struct

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from headwater.protocol.batches.batch import Buffer
from headwater.storage.disk import Disk, File
from headwater.storage.errors import LogFailed
from headwater.storage.index import DamagedIndex
from headwater.storage.log import Log
from headwater.storage.producers.transaction_index import AbortedTransaction, TransactionIndex, decode, is_valid
from tests.support.storage.builders import NOW_MS, QuickDisk, create, fill, flush, names_in, reopen, settings
from tests.support.storage.transactions import Writer, read_committed, stable

ENTRY = Struct(">hqqqq")


def seal(log: Log) -> None:
    log.roll(NOW_MS)
    flush(log)


def on_disk(log: Log) -> dict[str, list[AbortedTransaction]]:
    return {name: decode((log.directory / name).read_bytes()) for name in names_in(log, ".txnindex")}


def kept(log: Log) -> list[AbortedTransaction]:
    return log.aborted.within(log.start_offset, log.end_offset)


# -- the file


def test_an_entry_is_kafkas_to_the_byte(tmp_path: Path) -> None:
    log = create(tmp_path)
    writer = Writer(log)
    writer.data([(b"k", b"v")])
    writer.data([(b"k", b"v")], 0x0102030405060708, transactional=True)
    writer.data([(b"k", b"v")], 9, transactional=True)
    writer.end(0x0102030405060708, committed=False)
    writer.end(9, committed=False)
    writer.write()
    seal(log)

    name = "00000000000000000000.txnindex"
    assert (log.directory / name).read_bytes() == bytes.fromhex(
        "0000 0102030405060708 0000000000000001 0000000000000003 0000000000000002"
        "0000 0000000000000009 0000000000000002 0000000000000004 0000000000000005"
    ), "the second was open when the first ended: nothing was stable from its beginning on"


def test_a_segment_without_aborted_transactions_has_no_file(tmp_path: Path) -> None:
    log = create(tmp_path)
    writer = Writer(log)
    writer.transaction(7, b"k", committed=True)
    writer.end(8, committed=False)  # a producer that never wrote here
    writer.write()
    seal(log)
    writer.transaction(7, b"k", committed=False)
    log.close()
    assert on_disk(log) == {f"{3:020}.txnindex": [(7, 3, 4, 5)]}
    assert kept(reopen(log, clean=True)) == [(7, 3, 4, 5)]


def test_entries_of_the_active_segment_are_in_memory_until_a_flush_writes_its_indexes(tmp_path: Path) -> None:
    log = create(tmp_path)
    writer = Writer(log)
    writer.transaction(7, b"k", committed=False)
    flush(log)
    assert (on_disk(log), len(kept(log)), log.recovery_point) == ({}, 1, 1)

    seal(log)
    assert (len(on_disk(log)), log.recovery_point) == (1, 2)


@pytest.mark.parametrize(
    "data",
    [
        b"torn",
        bytes(34),
        ENTRY.pack(1, 7, 4, 13, 14),
        ENTRY.pack(0, -7, 4, 13, 14),
        ENTRY.pack(0, 7, -4, 13, 14),
        ENTRY.pack(0, 7, 4, 9, 10),
        ENTRY.pack(0, 7, 13, 13, 14),
        ENTRY.pack(0, 7, 4, 13, 15),
        ENTRY.pack(0, 7, 4, 13, -1),
        ENTRY.pack(0, 7, 4, 13, 14) * 2,
        ENTRY.pack(0, 7, 4, 13, 14) + ENTRY.pack(0, 8, 4, 12, 14),
        ENTRY.pack(0, 7, 4, 13, 14) + b"torn",
    ],
)
def test_a_malformed_file_is_recognised_as_damaged(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "00000000000000000010.txnindex"
    path.write_bytes(data)
    index = TransactionIndex(Disk(), path, 10, is_new=False)
    assert index.is_damaged
    with pytest.raises(DamagedIndex, match="txnindex"):
        len(index)
    assert not is_valid(data, 10)


@hypothesis_settings(max_examples=200)
@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(1, 30)), max_size=30),
    st.integers(0, 200),
    st.integers(0, 200),
)
def test_a_search_finds_the_transactions_that_overlap_the_range_and_stops_behind_it(
    tmp_path_factory: pytest.TempPathFactory, spans: Sequence[tuple[int, int]], offset: int, length: int
) -> None:
    index = TransactionIndex(Disk(), tmp_path_factory.mktemp("index") / "x.txnindex", 0, is_new=True)
    entries: list[AbortedTransaction] = []
    last = 0
    for step, size in spans:
        last += step
        first = max(last - size, 0)
        entries.append(AbortedTransaction(7, first, last, last + 1))
    # A transaction that ends later begins at or after the last stable offset of every earlier entry.
    for number in reversed(range(len(entries) - 1)):
        least = min(entries[number + 1].first_offset, entries[number + 1].last_stable_offset)
        entries[number] = entries[number]._replace(last_stable_offset=min(entries[number].last_stable_offset, least))
    for entry in entries:
        index.append(entry)
    found: list[AbortedTransaction] = []
    end_offset = offset + length

    is_over = index.search(offset, end_offset, found)

    assert found == [entry for entry in entries if entry.last_offset >= offset and entry.first_offset < end_offset]
    if is_over:
        assert any(entry.last_stable_offset >= end_offset for entry in entries)


# -- its life with the segment


def aborting(path: Path, count: int = 6, **changes: object) -> Log:
    """A flushed log whose segments have several transactions each; every other one is aborted."""
    log = create(path, settings(**{"segment_bytes": 500, **changes}))
    writer = Writer(log)
    for number in range(count):
        writer.transaction(number % 3, b"k%d" % number, committed=number % 2 == 0, value=b"%d" % number)
    seal(log)
    assert len(on_disk(log)) >= 2
    return log


def test_retention_and_deletion_remove_the_file(tmp_path: Path) -> None:
    log = aborting(tmp_path)
    files = names_in(log, ".txnindex")
    log.advance_start(log.segments[1].base_offset).run()
    assert names_in(log, ".txnindex") == files[1:]
    log.config = settings(retention_ms=0)
    log.expire(NOW_MS + 1, log.end_offset).run()
    assert names_in(log, ".txnindex") == names_in(log, ".deleted") == []
    assert kept(log) == []
    fill(log, 1)
    assert [record.offset for record in read_committed(log)] == [12]


@pytest.mark.parametrize("flushed", [True, False])
def test_truncation_removes_entries_of_truncated_markers(tmp_path: Path, flushed: bool) -> None:
    log = aborting(tmp_path)
    before = kept(log)
    writer = Writer(log)
    first, last = writer.transaction(7, b"k", committed=False)
    if flushed:
        seal(log)

    log.truncate_to(last).run()

    assert stable(log) == first, "the transaction is open again"
    state = log.producers.get(7)
    assert state is not None
    assert state.current_txn_first_offset == first
    writer.end(7, committed=True)
    writer.write()
    assert kept(log) == before
    assert read_committed(log)[-1].offset == first
    log.close()
    assert kept(reopen(log, clean=True)) == before


def test_truncation_removes_the_entries_of_removed_segments(tmp_path: Path) -> None:
    log = aborting(tmp_path, 12)
    end_offset, base_offset = log.end_offset, log.segments[1].base_offset
    assert len(log.segments) > 3
    before = [one for one in kept(log) if one.last_offset < base_offset]
    log.truncate_to(base_offset).run()
    assert kept(log) == before
    fill(log, end_offset - base_offset)
    assert kept(log) == before
    first, last = Writer(log).transaction(7, b"k", committed=False)
    assert kept(log) == [*before, (7, first, last, last + 1)]


def test_a_transaction_that_spans_segments_is_found_from_each_of_them(tmp_path: Path) -> None:
    log = create(tmp_path)
    writer = Writer(log)
    for _ in range(3):
        writer.data([(b"k", b"aborted")], 7, transactional=True)
        writer.data([(b"k", b"plain")])
        writer.write()
        seal(log)
    writer.end(7, committed=False)
    writer.write()
    assert [record.value for record in read_committed(log, bytes_max=1)] == [b"plain"] * 3
    assert [one.last_offset for one in log.aborted.within(2, 3)] == [6]


@pytest.mark.parametrize("snapshots", [True, False])
@pytest.mark.parametrize("clean", [True, False])
def test_a_damaged_index_is_rebuilt_from_the_log(tmp_path: Path, clean: bool, snapshots: bool) -> None:
    log = aborting(tmp_path)
    expected, before = read_committed(log), kept(log)
    recovery_point = log.end_offset
    log.close()
    for name in names_in(log, ".txnindex"):
        (log.directory / name).write_bytes(b"damaged")
    if not snapshots:
        for name in names_in(log, ".snapshot")[:-1]:
            (log.directory / name).unlink()
    reports: list[str] = []

    again = reopen(log, clean=clean, recovery_point=recovery_point, reports=reports)

    assert read_committed(again) == expected
    assert kept(again) == before
    assert any("txnindex" in line for line in reports)
    again.expire(NOW_MS, 0)  # periodic retention: the next flush writes the rebuilt index
    again.close()
    assert kept(reopen(log, clean=True)) == before


def test_an_index_with_entries_of_another_segment_is_rebuilt(tmp_path: Path) -> None:
    log = aborting(tmp_path)
    before = kept(log)
    log.close()
    (log.directory / names_in(log, ".txnindex")[0]).write_bytes(ENTRY.pack(0, 7, 4, 99, 100))
    assert kept(reopen(log, clean=True)) == before


def test_an_abort_rebuilds_a_damaged_active_index(tmp_path: Path) -> None:
    log = create(tmp_path)
    Writer(log).transaction(7, b"k", committed=False)
    log.close()
    (log.directory / f"{0:020}.txnindex").write_bytes(b"damaged")
    again = reopen(log, clean=True)
    writer = Writer(again)
    writer.data([(b"k", b"v")], 7, transactional=True)
    writer.data([(b"k", b"v")], 8, transactional=True)
    writer.end(7, committed=False)
    writer.end(8, committed=False)
    writer.write()
    assert kept(again) == [(7, 0, 1, 2), (7, 2, 4, 3), (8, 3, 5, 6)]
    assert read_committed(again) == []


def test_recovery_finds_aborted_transactions_that_the_file_lacks(tmp_path: Path) -> None:
    log = create(tmp_path)
    writer = Writer(log)
    writer.data([(b"k", b"aborted")], 7, transactional=True)
    writer.write()
    seal(log)
    writer.end(7, committed=False)
    writer.write()
    flush(log)

    again = reopen(log, recovery_point=log.recovery_point)

    assert kept(again) == [(7, 0, 1, 2)], "where it began, a snapshot knows"
    assert read_committed(again) == []


def test_a_file_without_its_segment_is_removed_at_the_next_start(tmp_path: Path) -> None:
    log = aborting(tmp_path)
    log.close()
    stray = log.directory / f"{5:020}.txnindex"
    stray.write_bytes(b"")
    reopen(log, clean=True)
    assert not stray.exists()


def test_an_idle_segment_reads_its_entries_again(tmp_path: Path) -> None:
    log = aborting(tmp_path)
    before = kept(log)
    for _ in range(2):
        for segment in log.segments:
            segment.close_if_idle()
    assert kept(log) == before


# -- a disk without room for it


class NarrowDisk(QuickDisk):
    """A disk without room for `.txnindex` files."""

    is_full = True

    def __init__(self) -> None:
        disk = self

        class NarrowFile(File):
            def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
                if disk.is_full and self.path.suffix == ".txnindex":
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                super().pwritev(buffers, position)

            def sync_data(self) -> None:
                """Skips the sync: no test cuts the power."""

        self.file_type = NarrowFile


def test_the_recovery_point_stays_before_entries_that_a_full_disk_refused(tmp_path: Path) -> None:
    disk = NarrowDisk()
    log = create(tmp_path, disk=disk)
    writer = Writer(log)
    writer.data([(b"k", b"plain")])
    first, last = writer.transaction(7, b"k", committed=False)
    seal(log)
    fill(log, 3)
    flush(log)
    assert (log.flushed_offset, log.recovery_point) == (6, last)
    again = reopen(log, recovery_point=log.recovery_point)
    assert [record.offset for record in read_committed(again)] == [0, 3, 4, 5]

    disk.is_full = False
    flush(log)
    assert log.recovery_point == 6
    assert on_disk(log) == {f"{0:020}.txnindex": [(7, first, last, last + 1)]}


def test_a_log_whose_index_cannot_be_written_is_not_closed_cleanly(tmp_path: Path) -> None:
    log = create(tmp_path, disk=NarrowDisk())
    Writer(log).transaction(7, b"k", committed=False)
    with pytest.raises(LogFailed, match="aborted transactions"):
        log.close()
    assert log.recovery_point == 1
    assert read_committed(reopen(log, recovery_point=log.recovery_point)) == []
