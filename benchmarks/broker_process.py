"""A broker as a process of its own: started, watched while it becomes ready, stopped or killed."""

import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

# Ten thousand partitions take a while.
START_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 120.0


class BrokerProcess:
    """A started broker, to be stopped by the caller. Its output goes to a file beside its data."""

    stop_signal = signal.SIGTERM

    def __init__(self, command: Sequence[str], directory: Path, environment: Mapping[str, str]) -> None:
        self.directory = directory
        self.output = directory / "output.txt"
        self.address = ""
        # By the names of its listeners, where it has several.
        self.addresses: dict[str, str] = {}
        self.started = time.monotonic()
        with self.output.open("wb") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env={**environment}
            )

    @property
    def processes(self) -> tuple[int, ...]:
        return (self._process.pid,)

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait_for_line(self, start: str) -> str:
        """Wait for the first line of output that begins with this text."""
        deadline = self.started + START_TIMEOUT_S
        while time.monotonic() < deadline:
            for line in self.output.read_text(errors="replace").splitlines(keepends=True):
                if line.startswith(start) and line.endswith("\n"):
                    return line.rstrip("\n")
            if self._process.poll() is not None:
                break
            # Short compared to a start, which takes at least a hundred milliseconds.
            time.sleep(0.001)
        said = self.output.read_text(errors="replace")[-2000:]
        self.kill()
        raise RuntimeError(f"the broker did not start; it said:\n{said}")

    def stop(self) -> None:
        """Stop the broker cleanly. One that does not end in time is killed, and that is an error."""
        if self._process.poll() is None:
            self._process.send_signal(self.stop_signal)
        try:
            code = self._process.wait(STOP_TIMEOUT_S)
        except BaseException:
            # The caller will not wait again, so end the process here.
            self.kill()
            raise
        if code not in (0, 128 + signal.SIGTERM):
            raise RuntimeError(f"the broker ended with code {code}: {self.output.read_text(errors='replace')[-2000:]}")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.stop()
        else:
            self.kill()
