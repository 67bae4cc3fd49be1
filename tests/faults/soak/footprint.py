"""Memory and descriptors of an idle broker, over all rounds of one process."""

import time
from pathlib import Path

# All state of a round is gone by then, but not all freed memory is returned to the system.
GROWTH_BYTES_MAX = 64 << 20
RESIDENT_BYTES_MAX = 384 << 20
GROWTH_DESCRIPTORS_MAX = 16

# Files of deleted topics are closed a moment later.
SETTLED_S = 2.0
SETTLING_S_MAX = 20.0
LOOK_S = 0.1

_STATUS_UNIT = 1024


class Footprint:
    def __init__(self, *, resident_bytes_max: int = RESIDENT_BYTES_MAX, settled_s: float = SETTLED_S) -> None:
        self._resident_bytes_max = resident_bytes_max
        self._settled_s = settled_s
        self.resident_bytes = self.descriptors = 0
        self._pid = 0
        self._first_bytes = self._first_descriptors = 0

    def complaints(self, pid: int) -> list[str]:
        """Growth since the first time that the same process was idle."""
        self.descriptors = settled_descriptors(pid, self._settled_s)
        self.resident_bytes = resident_bytes(pid)
        if pid != self._pid:
            self._pid, self._first_bytes, self._first_descriptors = pid, self.resident_bytes, self.descriptors
        complaints: list[str] = []
        if self.resident_bytes > min(self._resident_bytes_max, self._first_bytes + GROWTH_BYTES_MAX):
            complaints.append(f"memory: {self.resident_bytes >> 20} MiB at rest, first {self._first_bytes >> 20}")
        if self.descriptors > self._first_descriptors + GROWTH_DESCRIPTORS_MAX:
            complaints.append(f"descriptors: {self.descriptors} at rest, first {self._first_descriptors}")
        return complaints


def resident_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")) * _STATUS_UNIT


def descriptors(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def settled_descriptors(pid: int, settled_s: float) -> int:
    """The number of descriptors once it has stopped falling."""
    fewest, since = descriptors(pid), time.monotonic()
    deadline = since + SETTLING_S_MAX
    while time.monotonic() < min(since + settled_s, deadline):
        time.sleep(LOOK_S)
        if (count := descriptors(pid)) < fewest:
            fewest, since = count, time.monotonic()
    return fewest
