"""What a running pipeline tells about itself: a small file that `run` keeps, and that `status` and `stop` read.

Law: a process is ours only if it began when the file says: ids of processes are used again.
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
    """The state cannot be read, or the pipeline cannot be told to stop."""


@dataclass(frozen=True, slots=True)
class State:
    pipeline: str
    pid: int
    # Of the process, as the kernel counts it.
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
    """When a process began, in the kernel's ticks since the machine did; None if there is none of that id."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    # The name, in brackets, may hold anything; the times follow it.
    state, *numbers = stat.rpartition(")")[2].split()
    return None if state == "Z" else int(numbers[18])


def write(path: Path, state: State) -> None:
    """All at once, for somebody may be reading."""
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
    """None where nothing ever ran."""
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
    """False if it was gone already."""
    if not state.is_alive():
        return False
    try:
        with suppress(ProcessLookupError):
            os.kill(state.pid, signal.SIGTERM)
    except PermissionError:
        raise StateError(f"process {state.pid} belongs to another user: stop it as that user, or with sudo") from None
    return True
