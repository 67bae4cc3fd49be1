"""Scans of files that are shorter than expected or damaged."""

import errno
import os
from pathlib import Path

import pytest

from headwater.errors import CorruptBatch
from headwater.file_range import FileRange
from headwater.storage.disk import Disk, File
from headwater.storage.recovery.scan import HEADER_BLOCK_BYTES, Scan, headers, spans
from tests.support.storage.builders import numbered


@pytest.fixture
def file(tmp_path: Path) -> File:
    """A file of a thousand batches, longer than several header blocks."""
    found = Disk().open(tmp_path / "00000000000000000000.log", create=True)
    found.pwritev([numbered(offset)[1] for offset in range(1000)], 0)
    assert found.size() > 3 * HEADER_BLOCK_BYTES
    return found


def test_every_scan_finds_every_batch(file: File) -> None:
    size = file.size()
    assert [header.base_offset for _, header in headers(file, 0, size)] == list(range(1000))
    assert [span[2:] for span in spans(file, 0, size)] == [(offset, offset) for offset in range(1000)]
    scan = Scan(file, 0, size, 0, 1000)
    assert [header.base_offset for _, header, _ in scan] == list(range(1000))
    assert (scan.position, scan.next_offset, scan.problem) == (size, 1000, None)


def test_a_file_truncated_during_a_scan_ends_it(file: File) -> None:
    size = file.size()
    file.truncate(size // 2)
    assert 400 < len(list(headers(file, 0, size))) < 600
    assert 400 < len(list(spans(file, 0, size))) < 600
    scan = Scan(file, 0, size, 0, 1000)
    assert 400 < len(list(scan)) < 600
    assert scan.problem is not None


def test_a_scan_stops_at_garbage(file: File) -> None:
    size = file.size()
    file.pwritev([b"\xff" * 61], 0)
    with pytest.raises(CorruptBatch, match="position 0"):
        list(headers(file, 0, size))
    with pytest.raises(CorruptBatch, match="position 0"):
        list(spans(file, 0, size))
    scan = Scan(file, 0, size, 0, 1000)
    assert list(scan) == []
    assert scan.position == 0


def test_a_range_in_the_page_cache_is_read_without_the_disk(file: File) -> None:
    span = FileRange(file, 10, 5000)
    resident = span.read_resident()
    assert resident in (None, span.read())
    assert resident is not None or not file.is_resident(10, 5000)
    file.warm(0, file.size())
    assert file.pread_resident(10, file.size()) is None


def test_without_kernel_support_for_nowait_reads_only_small_ranges_count_as_resident(
    file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(os, "preadv", refuse)
    assert file.pread_resident(100, 10) == file.pread(100, 10)
    assert file.pread_resident(100, file.size()) is None
    assert not file.is_resident(10, 5000)
