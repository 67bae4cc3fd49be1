"""The page cache: memory for it that is there before the clock runs, and files that it lets go of.

A virtual machine may have given its free memory back to the host. Each page then costs a trip to the host when it is
first used, ten times what it costs to write to it: that is the host's speed, not the broker's.
"""

import os
from contextlib import suppress
from pathlib import Path

from benchmarks.scale import MIB


def prepare(directory: Path, bytes_wanted: int) -> None:
    """What is written and deleted here is what the kernel hands out next."""
    path = directory / "page-cache"
    block = bytes(MIB)
    with path.open("wb", buffering=0) as file:
        for _ in range(bytes_wanted // MIB + 1):
            file.write(block)
    path.unlink()


def drop(directory: Path) -> None:
    """Whatever the files below it have in the cache goes to the disk and is forgotten; a broker may go on meanwhile."""
    for path in directory.rglob("*"):
        # A broker may rename or delete its files at any time.
        with suppress(FileNotFoundError):
            if path.is_file():
                _drop(path)


def _drop(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        # Only what is clean can be dropped.
        os.fdatasync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
