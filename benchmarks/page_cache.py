"""Memory for the page cache that is there before the clock runs.

A virtual machine may have given its free memory back to the host. Each page then costs a trip to the host when it is
first used, ten times what it costs to write to it: that is the host's speed, not the broker's.
"""

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
