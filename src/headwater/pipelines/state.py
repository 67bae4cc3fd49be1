"""The status of a running pipeline, in a small file that `run` writes and `status` and `stop` read.

Law: the file's process is the pipeline only if its start time matches too, because the kernel reuses process ids.
"""

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import mkstemp
from typing import Any

import orjson

from headwater.errors import HeadwaterError

_BYTES_MAX = 1 << 22


class StateError(HeadwaterError):
    """The state file is not readable, or this user may not stop the pipeline."""


@dataclass(frozen=True, slots=True)
class State:
    pipeline: str
    pid: int
    # Start time of the process, in the kernel's clock ticks since boot.
    process_start: int
    started_ms: int
    updated_ms: int
    # starting, running, waiting, stopping, stopped or failed
    phase: str
    run_count: int = 0
    where: str = ""
    error: str | None = None
    flows: tuple[Mapping[str, Any], ...] = field(default=())

    def is_alive(self) -> bool:
        return process_start(self.pid) == self.process_start


def process_start(pid: int) -> int | None:
    """Start time of a process, in the kernel's clock ticks since boot. None if the process does not exist."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    # The process name is in parentheses and may contain any character; the numbers follow the last parenthesis.
    state, *numbers = stat.rpartition(")")[2].split()
    return None if state == "Z" else int(numbers[18])


def write(path: Path, state: State) -> None:
    """Replaces the file atomically, so that a concurrent reader never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = mkstemp(dir=path.parent, prefix=".state-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(orjson.dumps(asdict(state)))
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read(path: Path) -> State | None:
    """Returns None if the pipeline never ran here."""
    try:
        with path.open("rb") as file:
            content = file.read(_BYTES_MAX)
    except FileNotFoundError:
        return None
    try:
        fields: dict[str, Any] = orjson.loads(content)
        fields["flows"] = tuple(fields["flows"])
        if not all(isinstance(fields[name], int) for name in ("pid", "process_start", "started_ms", "updated_ms")):
            raise TypeError(path)
        return State(**fields)
    except (ValueError, TypeError, KeyError):
        raise StateError(f"{path} does not hold the state of a pipeline: remove it") from None


def ask_to_stop(state: State) -> bool:
    """Send SIGTERM to the pipeline's process. Returns False if it had already ended."""
    if not state.is_alive():
        return False
    try:
        with suppress(ProcessLookupError):
            os.kill(state.pid, signal.SIGTERM)
    except PermissionError:
        raise StateError(f"process {state.pid} belongs to another user: stop it as that user, or with sudo") from None
    return True
