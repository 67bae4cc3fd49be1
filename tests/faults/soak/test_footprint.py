"""Leaks of memory and descriptors are detected."""

import os
from contextlib import ExitStack
from pathlib import Path

from tests.faults.soak.footprint import GROWTH_BYTES_MAX, GROWTH_DESCRIPTORS_MAX, Footprint


def test_leaked_descriptors_and_memory_are_reported(tmp_path: Path) -> None:
    # Other threads of this process may open descriptors too.
    footprint = Footprint(resident_bytes_max=1 << 62, settled_s=0.1)
    assert footprint.complaints(os.getpid()) == []

    with ExitStack() as files:
        for number in range(GROWTH_DESCRIPTORS_MAX + 1):
            files.enter_context((tmp_path / str(number)).open("w"))
        kept = b"\1" * (2 * GROWTH_BYTES_MAX)
        memory, descriptors = footprint.complaints(os.getpid())
    del kept

    assert memory.startswith("memory: ")
    assert descriptors.startswith("descriptors: ")
    assert footprint.complaints(os.getpid()) == []
