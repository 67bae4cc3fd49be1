"""What the kernel counts for processes and for the whole machine: CPU time by process and by thread, memory."""

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")
# Positions behind the command's closing parenthesis, in proc(5)'s order.
_PARENT, _USER, _SYSTEM, _CHILDREN_USER, _CHILDREN_SYSTEM = 1, 11, 12, 13, 14
# In the first line of /proc/stat, behind its name.
_IDLE, _IO_WAIT = 3, 4


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds that a group of processes used, and those of its busiest thread."""

    user_s: float
    system_s: float
    busiest_s: float

    @property
    def total_s(self) -> float:
        return self.user_s + self.system_s


@dataclass(frozen=True, slots=True)
class Resources:
    """What a load took of the machine while it ran."""

    seconds: float
    broker_user_s: float
    broker_system_s: float
    broker_resident_bytes: int
    broker_written_bytes: int
    client_s: float


class Meter:
    """Counts from its making on; `read` gives what was used since."""

    def __init__(self, processes: Iterable[int]) -> None:
        self._processes = tuple(processes)
        self._before = [_process_seconds(process) for process in self._processes]
        self._threads_before = self._threads()

    @classmethod
    def of_this_process(cls) -> Self:
        return cls([os.getpid()])

    def read(self) -> Usage:
        after = [_process_seconds(process) for process in self._processes]
        threads = self._threads()
        return Usage(
            sum(now[0] - then[0] for now, then in zip(after, self._before, strict=True)),
            sum(now[1] - then[1] for now, then in zip(after, self._before, strict=True)),
            max(seconds - self._threads_before.get(thread, 0.0) for thread, seconds in threads.items()),
        )

    def _threads(self) -> dict[str, float]:
        seconds: dict[str, float] = {}
        for process in self._processes:
            for thread in (_PROC / str(process) / "task").iterdir():
                # A thread may end between the listing and the reading.
                with suppress(FileNotFoundError, ProcessLookupError):
                    seconds[thread.name] = sum(_stat_seconds(thread / "stat"))
        return seconds


class MachineMeter:
    """The share of all cores that anyone used since its making, from 0 to 1."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._idle_before = _idle_seconds()

    def busy_share(self) -> float:
        cores_s = (time.monotonic() - self._started) * (os.cpu_count() or 1)
        return min(1.0, max(0.0, 1 - (_idle_seconds() - self._idle_before) / cores_s)) if cores_s else 0.0


def resident_bytes(processes: Iterable[int], field: str = "VmRSS") -> int:
    """`VmRSS` is what is resident now, `VmHWM` the most that ever was."""
    total = 0
    for process in processes:
        for line in (_PROC / str(process) / "status").read_text().splitlines():
            if line.startswith(f"{field}:"):
                total += int(line.split()[1]) * 1024
    return total


def written_bytes(processes: Iterable[int]) -> int:
    """What they have so far given to the file systems to write: bytes that were overwritten before they reached a disk
    are counted each time, those of sockets never."""
    total = 0
    for process in processes:
        for line in (_PROC / str(process) / "io").read_text().splitlines():
            if line.startswith("write_bytes:"):
                total += int(line.split()[1])
    return total


def memory_bytes() -> int:
    """Of the whole machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def cpu_seconds(processes: Iterable[int]) -> float:
    """What they have used so far, to the microsecond, where `Meter` counts in ticks of the kernel's clock."""
    # The clock of another process has no name in Python; this is how the kernel numbers it.
    return sum(time.clock_gettime((~process << 3) | 2) for process in processes)


def family_cpu_seconds(process: int) -> float:
    """What a process has used so far with all that it started and they started, those that have ended included."""
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdecimal():
            with suppress(FileNotFoundError, ProcessLookupError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[_PARENT])
                used = (_USER, _SYSTEM, _CHILDREN_USER, _CHILDREN_SYSTEM)
                seconds[int(entry.name)] = sum(int(fields[each]) for each in used) / _TICKS_PER_SECOND
    family = [process]
    for member in family:
        family += [child for child, parent in parents.items() if parent == member]
    return sum(seconds.get(member, 0.0) for member in family)


def _process_seconds(process: int) -> tuple[float, float]:
    return _stat_seconds(_PROC / str(process) / "stat")


def _stat_seconds(path: Path) -> tuple[float, float]:
    fields = path.read_text().rpartition(")")[2].split()
    return int(fields[_USER]) / _TICKS_PER_SECOND, int(fields[_SYSTEM]) / _TICKS_PER_SECOND


def _idle_seconds() -> float:
    fields = (_PROC / "stat").read_text().splitlines()[0].split()[1:]
    return (int(fields[_IDLE]) + int(fields[_IO_WAIT])) / _TICKS_PER_SECOND
