"""Figures read from the kernel: CPU time, memory, written bytes, the page cache."""

import os
import subprocess
import sys
from pathlib import Path

from benchmarks import page_cache
from benchmarks.cases.disk import used_bytes
from benchmarks.processes import Meter, cpu_seconds, family_cpu_seconds, memory_bytes, resident_bytes, written_bytes

TIMEOUT_S = 120


def test_the_meter_sees_the_work_of_this_process() -> None:
    meter = Meter.of_this_process()
    while meter.read().total_s < 0.02:
        sum(range(10_000))

    assert meter.read().busiest_s > 0
    assert cpu_seconds([os.getpid()]) >= 0.02
    assert resident_bytes([os.getpid()]) > 1_000_000
    assert resident_bytes([os.getpid()], "VmHWM") > 1_000_000
    assert memory_bytes() > resident_bytes([os.getpid()])


def test_the_cpu_time_of_a_process_family_includes_children_that_have_ended() -> None:
    before_s = family_cpu_seconds(os.getpid())

    # The child ends once it has used that much CPU time itself.
    spin = "import time\nwhile time.process_time() < 0.1: pass"
    subprocess.run([sys.executable, "-c", spin], timeout=TIMEOUT_S, check=True)

    assert family_cpu_seconds(os.getpid()) - before_s >= 0.08


def test_bytes_that_a_process_wrote_to_files_are_counted_on_every_file_system() -> None:
    # A file system in memory writes nothing to a disk, so only the type of the result is certain.
    assert written_bytes([os.getpid()]) >= 0
    assert written_bytes([]) == 0


def test_files_are_intact_after_the_page_cache_has_dropped_them(tmp_path: Path) -> None:
    file = tmp_path / "topic-0" / "00000000000000000000.log"
    file.parent.mkdir()
    file.write_bytes(os.urandom(100_000))
    before = file.read_bytes()

    page_cache.drop(tmp_path)

    assert file.read_bytes() == before


def test_preparing_page_cache_memory_leaves_no_file(tmp_path: Path) -> None:
    page_cache.prepare(tmp_path, 100_000)

    assert not list(tmp_path.iterdir())


def test_a_hole_in_a_file_takes_no_disk(tmp_path: Path) -> None:
    with (tmp_path / "index").open("wb") as file:
        file.truncate(10 * 1024 * 1024)

    assert used_bytes(tmp_path) < 1024 * 1024
