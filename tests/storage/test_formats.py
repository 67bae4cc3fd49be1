"""Indexes, checkpoints and leader epochs: the small files byte for byte, and damaged ones."""

import os
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.ids import TopicId, TopicName, TopicPartition
from headwater.storage import checkpoints, names
from headwater.storage.checkpoints import DamagedCheckpoint
from headwater.storage.disk import Disk, File
from headwater.storage.epochs import EpochStart, LeaderEpochs
from headwater.storage.index import OffsetIndex, TimeIndex
from headwater.storage.inspection import segment_report
from tests.support.storage.builders import NOW_MS, create, flush, numbered, settings


def test_index_entries_are_kafkas_to_the_byte(tmp_path: Path) -> None:
    log = create(tmp_path, settings(segment_bytes=1 << 20, index_interval_bytes=100))
    size = numbered(0)[0].size
    for offset in range(5):
        log.append([numbered(offset, timestamp=NOW_MS + offset)], NOW_MS)
    log.close()

    # A batch that begins more than the interval behind the last entry gets one, under its last offset.
    assert log.segments[0].path(".index").read_bytes() == b"".join(
        offset.to_bytes(4, "big") + (offset * size).to_bytes(4, "big") for offset in (2, 4)
    )
    assert log.segments[0].path(".timeindex").read_bytes() == b"".join(
        (NOW_MS + offset).to_bytes(8, "big") + offset.to_bytes(4, "big") for offset in (2, 4)
    )


def test_the_time_index_of_a_closed_segment_ends_with_its_latest_time(tmp_path: Path) -> None:
    log = create(tmp_path, settings(index_interval_bytes=1 << 20))
    for offset, timestamp in enumerate([NOW_MS, NOW_MS + 9, NOW_MS + 3]):
        log.append([numbered(offset, timestamp=timestamp)], NOW_MS)
    log.roll(NOW_MS)
    flush(log)
    assert log.segments[0].path(".timeindex").read_bytes() == (NOW_MS + 9).to_bytes(8, "big") + (1).to_bytes(4, "big")
    assert log.segments[0].path(".index").read_bytes() == b""


@given(st.lists(st.integers(1, 50), min_size=1, max_size=40), st.integers(0, 2100))
def test_an_offset_lookup_gives_the_last_entry_at_or_before_it(steps: list[int], target: int) -> None:
    index = OffsetIndex(Disk(), Path("unused.index"), 100, is_new=True)
    entries: list[tuple[int, int]] = []
    offset = 100
    for number, step in enumerate(steps):
        offset += step
        entries.append((offset, number * 10))
        index.append(*entries[-1])

    assert index.lookup(target) == max((e for e in entries if e[0] <= target), default=None)
    assert index.lookup_position(target) == max((e for e in entries if e[1] <= target), default=None)
    assert index.is_ascending()
    index.truncate(target)
    assert [index.at(n) for n in range(len(index))] == [e for e in entries if e[1] < target]


def test_a_time_index_takes_only_later_times() -> None:
    index = TimeIndex(Disk(), Path("unused.timeindex"), 0, is_new=True)
    for timestamp, offset in [(5, 0), (5, 1), (4, 2), (9, 3)]:
        index.append(timestamp, offset)
    assert [index.at(n) for n in range(len(index))] == [(5, 0), (9, 3)]
    assert index.lookup(5) is None
    assert index.lookup(6) == (5, 0)
    index.truncate(3)
    assert index.last() == (5, 0)


def test_offset_checkpoints_are_kafkas(tmp_path: Path) -> None:
    path = tmp_path / checkpoints.RECOVERY_POINTS
    assert checkpoints.read_offsets(Disk(), path) == {}
    offsets = {TopicPartition(TopicName("orders"), 0): 17, TopicPartition(TopicName("a-b.c"), 12): 2**40}
    checkpoints.write_offsets(Disk(), path, offsets)

    assert path.read_bytes() == b"0\n2\norders 0 17\na-b.c 12 1099511627776\n"
    assert checkpoints.read_offsets(Disk(), path) == offsets
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "data", [b"", b"0\n", b"1\n0\n", b"0\n2\na 0 1\n", b"0\n1\na 0\n", b"0\n1\na b c\n", b"\xff\xfe", b"0\nx\n"]
)
def test_a_damaged_checkpoint_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(data)
    with pytest.raises(DamagedCheckpoint):
        checkpoints.read_offsets(Disk(), path)


def test_a_clean_shutdown_mark_is_consumed_by_the_first_read(tmp_path: Path) -> None:
    assert checkpoints.take_clean_mark(Disk(), tmp_path) is None
    checkpoints.mark_clean(Disk(), tmp_path)
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert checkpoints.take_clean_mark(Disk(), tmp_path) == []
    assert checkpoints.take_clean_mark(Disk(), tmp_path) is None


@pytest.mark.parametrize("mark", [b'{"version":0}', b"{}"])
def test_kafkas_clean_shutdown_mark_is_accepted(tmp_path: Path, mark: bytes) -> None:
    (tmp_path / ".kafka_cleanshutdown").write_bytes(mark)
    assert checkpoints.take_clean_mark(Disk(), tmp_path) == []


@pytest.mark.parametrize("mark", [b"", b"[]", b"{", b'{"headwater.checksums":[]}', b"\xff"])
def test_an_unreadable_clean_shutdown_mark_does_not_count(tmp_path: Path, mark: bytes) -> None:
    (tmp_path / ".kafka_cleanshutdown").write_bytes(mark)
    assert checkpoints.take_clean_mark(Disk(), tmp_path) is None


def test_checkpoints_that_rotted_after_a_clean_shutdown_are_named(tmp_path: Path) -> None:
    path = tmp_path / checkpoints.RECOVERY_POINTS
    checkpoints.write_offsets(Disk(), path, {TopicPartition(TopicName("orders"), 0): 40})
    checkpoints.mark_clean(Disk(), tmp_path)
    path.write_bytes(path.read_bytes().replace(b"40", b"48"))
    assert checkpoints.take_clean_mark(Disk(), tmp_path) == [checkpoints.RECOVERY_POINTS]


def test_a_topic_id_is_written_as_kafka_prints_it() -> None:
    topic_id = TopicId(UUID("b5e6a5e3-6a5f-4d0d-9f1e-3a0f4b9d2c11"))
    assert checkpoints.partition_metadata(topic_id) == b"version: 0\ntopic_id: teal42pfTQ2fHjoPS50sEQ"


def test_properties_are_read_as_java_writes_them(tmp_path: Path) -> None:
    path = tmp_path / checkpoints.META_PROPERTIES
    assert checkpoints.read_properties(Disk(), path) is None
    path.write_text("#\n#Tue Jan 01\nversion=1\n cluster.id = abc \n\n")
    assert checkpoints.read_properties(Disk(), path) == {"version": "1", "cluster.id": "abc"}
    checkpoints.write_properties(Disk(), path, {"node.id": "1"})
    assert path.read_text() == "node.id=1\n"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(DamagedCheckpoint):
        checkpoints.read_properties(Disk(), path)


def test_an_epoch_ends_where_the_next_begins() -> None:
    epochs = LeaderEpochs()
    assert epochs.end_offset(0, 99) == (-1, -1)
    for epoch, offset in [(1, 0), (2, 10), (5, 30)]:
        epochs.assign(epoch, offset)

    assert epochs.end_offset(5, 99) == (5, 99)
    assert epochs.end_offset(2, 99) == (2, 30)
    assert epochs.end_offset(4, 99) == (2, 30)
    assert epochs.end_offset(0, 99) == (0, 0), "older than all we know: where our knowledge begins"
    assert epochs.end_offset(6, 99) == (-1, -1)
    assert epochs.end_offset(-1, 99) == (-1, -1)
    assert [epochs.epoch_at(offset) for offset in (0, 9, 10, 30, 98)] == [1, 1, 2, 5, 5]
    assert LeaderEpochs().epoch_at(3) == -1


def test_epochs_that_contradict_a_new_one_are_removed() -> None:
    epochs = LeaderEpochs([EpochStart(1, 0), EpochStart(2, 10), EpochStart(3, 20)])
    epochs.assign(3, 25)
    assert not epochs.is_changed
    epochs.assign(4, 15)
    assert epochs.starts == [(1, 0), (2, 10), (4, 15)]
    epochs.assign(-1, 99)
    assert epochs.latest == 4


def test_epochs_follow_the_ends_of_the_log() -> None:
    epochs = LeaderEpochs([EpochStart(1, 0), EpochStart(2, 10), EpochStart(3, 20)])
    epochs.truncate_start(0)
    assert not epochs.is_changed
    epochs.truncate_start(15)
    assert epochs.starts == [(2, 15), (3, 20)]
    epochs.truncate_end(20)
    assert epochs.starts == [(2, 15)]
    epochs.truncate_end(0)
    assert (epochs.starts, epochs.latest) == ([], -1)


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100))))
def test_epochs_survive_a_round_trip_through_their_file(assigned: list[tuple[int, int]]) -> None:
    epochs = LeaderEpochs()
    for epoch, offset in assigned:
        epochs.assign(epoch, offset)
    assert LeaderEpochs.decode(epochs.encode(), Path("x")).starts == epochs.starts


def test_only_kafkas_names_are_segments() -> None:
    assert names.offset_of("00000000000000000042.log", names.LOG) == 42
    for name in ("42.log", "0000000000000000004x.log", "00000000000000000042.log.deleted", "partition.metadata"):
        assert names.offset_of(name, names.LOG) is None


class ShortFile(File):
    """Writes only a few bytes per call, as the system call may."""

    @staticmethod
    def _write_vector(descriptor: int, buffers: list[bytes], position: int) -> int:
        return os.pwrite(descriptor, b"".join(buffers)[:7], position)


class ShortDisk(Disk):
    file_type = ShortFile


@pytest.mark.parametrize("disk", [Disk(), ShortDisk()])
@pytest.mark.parametrize("count", [1, 3, 1500])
def test_a_gathered_write_is_complete_however_the_kernel_splits_it(tmp_path: Path, disk: Disk, count: int) -> None:
    file = disk.open(tmp_path / "file", create=True)
    buffers = [b"%d;" % number * (number % 3) for number in range(count)] + [b"end"]
    file.pwritev(buffers, 5)
    assert file.pread(1 << 20, 5) == b"".join(buffers)
    whole = memoryview(bytearray(1 << 20))
    assert file.pread_into(whole, 5) == len(b"".join(buffers))


def test_a_second_owner_of_a_directory_is_refused(tmp_path: Path) -> None:
    held = Disk().lock_directory(tmp_path)
    with pytest.raises(BlockingIOError):
        Disk().lock_directory(tmp_path)
    held.close()
    assert Disk().lock_directory(tmp_path).fileno() >= 0


def test_an_inspection_names_every_damage_and_goes_on(tmp_path: Path) -> None:
    log = create(tmp_path, settings(segment_bytes=1 << 20))
    for offset in range(20):
        log.append([numbered(offset, timestamp=NOW_MS + offset)], NOW_MS)
    log.close()
    path = log.segments[0].path(".log")
    reports = list(segment_report.inspect_segment(Disk(), path, with_records=True))
    assert [report.records[0].offset for report in reports] == list(range(20))
    assert not any(report.problems for report in reports)
    assert list(segment_report.inspect_indexes(Disk(), path)) == []

    size = reports[0].size
    data = bytearray(path.read_bytes())
    data[2 * size + 65] ^= 1
    data[5 * size : 5 * size + 8] = (3).to_bytes(8, "big")
    path.write_bytes(data + b"torn")
    reports = list(segment_report.inspect_segment(Disk(), path, with_records=True))
    problems = {number: report.problems for number, report in enumerate(reports) if report.problems}
    assert set(problems) == {2, 5, 20}
    assert "checksum" in problems[2][0]
    assert "offset 3 where 5" in problems[5][0]
    assert reports[20].header is None

    path.write_bytes(data[: 3 * size] + b"\xff" * 100)
    last = list(segment_report.inspect_segment(Disk(), path))[-1]
    assert (last.position, last.size, last.header) == (3 * size, 100, None)
    assert "no batch" in last.problems[0]
    found = list(segment_report.inspect_indexes(Disk(), path))
    assert any(".index" in problem for problem in found)
    assert any(".timeindex" in problem for problem in found)

    entries = b"".join(number.to_bytes(4, "big") * 2 for number in (1, 9, 8, 20))
    log.segments[0].path(".index").write_bytes(entries)
    assert any("ascending" in problem for problem in segment_report.inspect_indexes(Disk(), path))
    log.segments[0].path(".index").write_bytes(b"odd")
    assert any("multiple" in problem for problem in segment_report.inspect_indexes(Disk(), path))
