"""The page cache: getting its memory from the host before the clock runs, and dropping files from it.

A virtual machine may have given its free memory back to the host. Each page then costs a trip to the host when it is
first used, ten times what it costs to write to it: that is the host's speed, not the broker's.
"""

import os
from contextlib import suppress
from pathlib import Path

from benchmarks.scale import MIB


def prepare(directory: Path, bytes_wanted: int) -> None:
    """Write and delete a file: the kernel hands out its memory next."""
    path = directory / "page-cache"
    block = bytes(MIB)
    with path.open("wb", buffering=0) as file:
        for _ in range(bytes_wanted // MIB + 1):
            file.write(block)
    path.unlink()


def drop(directory: Path) -> None:
    """Write cached pages of all files below a directory to the disk and drop them; a broker may run meanwhile."""
    for path in directory.rglob("*"):
        # A broker may rename or delete its files at any time.
        with suppress(FileNotFoundError):
            if path.is_file():
                _drop(path)


def _drop(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        # Only clean pages can be dropped.
        os.fdatasync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
