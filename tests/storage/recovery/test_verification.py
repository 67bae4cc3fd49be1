"""Batches of an earlier process are verified before a reader gets them."""

import os
from pathlib import Path
from struct import Struct

import pytest

from headwater.errors import CorruptBatch
from headwater.file_range import FileRange
from headwater.protocol.batches import batch as batches
from headwater.storage import names
from headwater.storage.log import Log
from headwater.storage.recovery import verification
from headwater.storage.recovery.verification import UnverifiedRange
from tests.support.storage.builders import QuickDisk, create, fill, flush, numbered, reopen, settings

COUNT = 30
ONE_SEGMENT = settings(segment_bytes=1 << 20)
BASE_OFFSET = Struct(">q")


def written(path: Path, count: int = COUNT) -> Log:
    """A closed log of one segment."""
    log = create(path, ONE_SEGMENT)
    fill(log, count)
    flush(log)
    log.close()
    return log


def log_file(log: Log) -> Path:
    return log.directory / names.file_name(0, names.LOG)


def starts(log: Log) -> list[int]:
    """The position of each batch in the file."""
    data, position, found = log_file(log).read_bytes(), 0, list[int]()
    while position < len(data):
        found.append(position)
        position += batches.read_header(data, position).size
    return found


def flip_bit(log: Log, position: int) -> None:
    data = bytearray(log_file(log).read_bytes())
    data[position] ^= 1
    log_file(log).write_bytes(data)


def renumber(log: Log, position: int, base_offset: int) -> None:
    """Changes a base offset, which lies outside its batch's checksum."""
    data = bytearray(log_file(log).read_bytes())
    BASE_OFFSET.pack_into(data, position, base_offset)
    log_file(log).write_bytes(data)


def look(log: Log, offset: int, bytes_max: int = 1 << 20) -> FileRange | UnverifiedRange:
    return log.read(offset, bytes_max, limit_offset=log.end_offset, first_batch_whole=True, is_verified=True)


def read(log: Log, offset: int, bytes_max: int = 1 << 20) -> list[int]:
    """The offsets that one read returns once every unverified range is verified."""
    while isinstance(found := look(log, offset, bytes_max), UnverifiedRange):
        found.accept(found.verify())
    return [header.base_offset for header, _ in batches.iterate(found.read())]


def test_batches_of_this_process_need_no_verification(tmp_path: Path) -> None:
    log = create(tmp_path, ONE_SEGMENT)
    fill(log, COUNT)

    assert not isinstance(look(log, 0), UnverifiedRange)


def test_batches_of_an_earlier_process_are_verified_once(tmp_path: Path) -> None:
    log = reopen(written(tmp_path), clean=True)
    found = look(log, 0)
    assert isinstance(found, UnverifiedRange)
    assert read(log, 0) == list(range(COUNT))

    assert not isinstance(look(log, 0), UnverifiedRange)
    assert not isinstance(look(log, COUNT - 1), UnverifiedRange)


def test_a_read_spans_verified_and_newly_appended_batches(tmp_path: Path) -> None:
    log = reopen(written(tmp_path), clean=True)
    fill(log, 5)

    assert not isinstance(look(log, COUNT), UnverifiedRange)
    assert read(log, COUNT - 1) == list(range(COUNT - 1, COUNT + 5))
    assert read(log, 3) == list(range(3, COUNT + 5))


@pytest.mark.parametrize("ahead_bytes", [1, 300, 1000])
def test_a_large_range_is_verified_in_pieces_and_returned_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead_bytes: int
) -> None:
    monkeypatch.setattr(verification, "AHEAD_BYTES", ahead_bytes)
    for offset in (0, 7, COUNT - 1):
        log = reopen(written(tmp_path / str(offset)), clean=True)
        assert read(log, offset) == list(range(offset, COUNT))
        assert len(read(log, 0, 500)) > 1


def test_two_readers_of_a_range_share_one_verification(tmp_path: Path) -> None:
    log = reopen(written(tmp_path), clean=True)

    assert look(log, 0) is look(log, 0)


@pytest.mark.parametrize("number", [0, 9, COUNT - 1])
def test_a_rotted_batch_is_refused_and_batches_before_it_are_served(tmp_path: Path, number: int) -> None:
    log = written(tmp_path)
    flip_bit(log, starts(log)[number] + 70)
    reports: list[str] = []
    log = reopen(log, clean=True, reports=reports)

    assert number == 0 or read(log, 0) == list(range(number))
    for _ in range(2):
        with pytest.raises(CorruptBatch, match="headwater log verify"):
            read(log, number)
    assert len(reports) == 1
    assert "is damaged" in reports[0]


def test_a_reader_well_behind_the_damage_is_served(tmp_path: Path) -> None:
    log = written(tmp_path)
    flip_bit(log, starts(log)[3] + 70)
    log = reopen(log, clean=True)
    with pytest.raises(CorruptBatch):
        read(log, 3)

    assert read(log, 20) == list(range(20, COUNT))


@pytest.mark.parametrize("claimed", [0, 2, 8, 10, 1000])
@pytest.mark.parametrize("number", [0, 1, 9, COUNT - 1])
def test_a_batch_with_the_offsets_of_another_is_neither_served_nor_skipped(
    tmp_path: Path, number: int, claimed: int
) -> None:
    if number == claimed:
        return
    log = written(tmp_path)
    renumber(log, starts(log)[number], claimed)
    log = reopen(log, clean=True)
    served: list[int] = []

    def read_on() -> None:
        while len(served) < COUNT:
            served.extend(read(log, len(served)))

    with pytest.raises(CorruptBatch):
        read_on()

    # The batch before it may be refused as well: verification cannot tell which of the two is right.
    assert served == list(range(len(served)))
    assert number - 1 <= len(served) <= number


def test_batches_missing_from_the_end_of_the_log_are_detected(tmp_path: Path) -> None:
    log = written(tmp_path)
    os.truncate(log_file(log), starts(log)[20])
    reports: list[str] = []
    log = reopen(log, clean=True, reports=reports)

    assert read(log, 0) == list(range(20))
    with pytest.raises(CorruptBatch, match="headwater log verify"):
        read(log, 20)
    assert any("ends at offset 20" in report for report in reports)


def test_batches_missing_from_the_end_of_a_sealed_segment_are_not_skipped(tmp_path: Path) -> None:
    log = create(tmp_path, settings(segment_bytes=500))
    fill(log, COUNT)
    log.close()
    second = log.segments[1].base_offset
    os.truncate(log_file(log), starts(log)[-1])
    log = reopen(log, clean=True)

    assert read(log, second - 2) == [second - 2]
    with pytest.raises(CorruptBatch, match="headwater log verify"):
        read(log, second - 1)
    assert read(log, second)[0] == second


def test_a_rotted_batch_length_is_detected(tmp_path: Path) -> None:
    log = written(tmp_path)
    flip_bit(log, starts(log)[9] + 11)
    log = reopen(log, clean=True)

    assert read(log, 0) == list(range(9))
    with pytest.raises(CorruptBatch):
        read(log, 9)


def test_an_index_that_cannot_be_rebuilt_does_not_change_where_appends_go(tmp_path: Path) -> None:
    log = written(tmp_path)
    for suffix in names.INDEXES:
        (log.directory / names.file_name(0, suffix)).unlink(missing_ok=True)
    size = log_file(log).stat().st_size
    flip_bit(log, starts(log)[9] + 16)
    log = reopen(log, clean=True)
    with pytest.raises(CorruptBatch):
        read(log, 20)

    assert log.active.size == size
    log.append([numbered(COUNT)], 0)
    assert log.end_offset == COUNT + 1
    assert read(log, COUNT) == [COUNT]


def test_a_read_error_during_verification_counts_as_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = reopen(written(tmp_path), clean=True)
    found = look(log, 0)
    assert isinstance(found, UnverifiedRange)

    def fail(*_: object) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(QuickDisk.file_type, "pread_into", fail)
    found.accept(found.verify())

    with pytest.raises(CorruptBatch, match="Input/output error"):
        look(log, 0)


def test_batches_replaced_during_their_verification_do_not_count_as_verified(tmp_path: Path) -> None:
    log = reopen(written(tmp_path), clean=True)
    found = look(log, 0)
    assert isinstance(found, UnverifiedRange)
    verified = found.verify()
    log.truncate_to(10)
    fill(log, 3)
    found.accept(verified)

    assert read(log, 0) == list(range(13))


def verified_look(log: Log, offset: int, bytes_max: int) -> tuple[FileRange, int]:
    """A read, and how many verifications it took."""
    count = 0
    while isinstance(found := look(log, offset, bytes_max), UnverifiedRange):
        found.accept(found.verify())
        count += 1
        assert count < 10, "it ends"
    return found, count


@pytest.mark.parametrize("is_damaged", [False, True])
def test_readers_of_far_places_do_not_undo_each_others_verification(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_damaged: bool
) -> None:
    monkeypatch.setattr(verification, "AHEAD_BYTES", 1)
    log = written(tmp_path)
    positions = starts(log)
    if is_damaged:
        flip_bit(log, positions[15] + batches.HEADER_SIZE)
    log = reopen(log, clean=True, recovery_point=COUNT)
    for offset in (2, 25):
        verified_look(log, offset, 1)
    for offset in (2, 25, 2, 25):
        found, count = verified_look(log, offset, 1)
        assert count == 0
        assert found.position == positions[offset]
    if not is_damaged:
        for offset in [*range(COUNT), 0]:
            verified_look(log, offset, 1)
        assert log.segments[0].verification.before == 0, "all parts together are the whole"
        return
    for _ in range(3):
        with pytest.raises(CorruptBatch):
            verified_look(log, 15, 1)
        assert verified_look(log, 2, 1)[1] == verified_look(log, 25, 1)[1] == 0
