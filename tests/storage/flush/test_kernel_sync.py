"""Syncs that are submitted to the kernel complete, each with its own outcome."""

import platform
from pathlib import Path

import pytest

from headwater.storage.disk import Disk, File
from headwater.storage.flush.kernel_sync import KernelSync
from tests.support.readiness import is_readable


def collected(kernel: KernelSync, count: int) -> dict[int, OSError | None]:
    ended: dict[int, OSError | None] = {}
    while len(ended) < count:
        assert is_readable(kernel, 10), "the kernel says when a sync has ended"
        ended.update(kernel.collect())
    return ended


def written(path: Path) -> File:
    file = Disk().open(path, create=True)
    file.pwritev([b"x" * 10_000], 0)
    return file


def test_every_sync_completes_once_with_its_own_token(tmp_path: Path) -> None:
    kernel = KernelSync(256)
    files = [written(tmp_path / str(number)) for number in range(100)]
    try:
        for number, file in enumerate(files):
            kernel.submit(file, number)

        assert collected(kernel, len(files)) == dict.fromkeys(range(len(files)))
        assert kernel.collect() == []
    finally:
        kernel.close()


def test_a_file_that_is_not_open_is_refused_without_a_submission(tmp_path: Path) -> None:
    kernel = KernelSync(8)
    file = written(tmp_path / "closed")
    file.close()
    try:
        with pytest.raises(OSError, match="No such file"):
            kernel.submit(file, 1)
        assert kernel.collect() == []
    finally:
        kernel.close()


def test_a_file_that_cannot_be_synced_completes_with_an_error(tmp_path: Path) -> None:
    """/dev/null has no disk behind it; the error may come at submission or at completion."""
    kernel = KernelSync(8)
    random = Disk().open(Path("/dev/null"))
    try:
        try:
            kernel.submit(random, 7)
        except OSError as refused:
            outcome: OSError | None = refused
        else:
            outcome = collected(kernel, 1)[7]
        assert outcome is not None
    finally:
        kernel.close()


def test_close_waits_for_syncs_in_flight(tmp_path: Path) -> None:
    kernel = KernelSync(8)
    kernel.submit(written(tmp_path / "file"), 1)
    kernel.close()


def test_an_unknown_machine_type_has_no_kernel_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "abacus")
    with pytest.raises(OSError, match="this machine"):
        KernelSync(8)
