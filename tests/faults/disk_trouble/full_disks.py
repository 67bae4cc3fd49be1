"""Ways to make a disk full: simulated errors, a file size limit of the process, or a volume that is really full."""

import resource
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager

from tests.faults.disk_trouble.troubles import FULL, Note
from tests.support.broker.processes import BrokerProcess

FullDisk = Callable[[BrokerProcess, Note], AbstractContextManager[None]]

# Less than the size of a segment.
_FILE_BYTES_MAX = 4096
_CHUNK = bytes(4096)


@contextmanager
def told_to_be_full(broker: BrokerProcess, note: Note) -> Generator[None]:
    note.write(*FULL)
    try:
        yield
    finally:
        note.remove()


@contextmanager
def limited_files(broker: BrokerProcess, note: Note) -> Generator[None]:
    """RLIMIT_FSIZE: the kernel lets no file grow beyond the limit. A short write comes first, then an error."""
    _, hard = resource.prlimit(broker.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (_FILE_BYTES_MAX, hard))
    try:
        yield
    finally:
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (hard, hard))


@contextmanager
def filled_volume(broker: BrokerProcess, note: Note) -> Generator[None]:
    """A file beside the data directory takes all the space of the volume."""
    filler = note.path.with_suffix(".filler")
    try:
        with filler.open("wb", buffering=0) as file:
            _fill(file.write)
        yield
    finally:
        filler.unlink()


def _fill(write: Callable[[bytes], int | None]) -> None:
    try:
        while True:
            write(_CHUNK)
    except OSError:
        # The volume is full.
        return
