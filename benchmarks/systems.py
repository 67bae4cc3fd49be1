"""The brokers that can be measured. A peer is one more class here that gives what `System` asks for, and one line in
`SYSTEMS`; cases and loads know nothing but the Kafka protocol.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from headwater.protocol.records import COMPILED

WORK = Path(__file__).parent / ".work"
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 40.0


class Flush(StrEnum):
    """When an acks=all acknowledgement leaves: after the page cache has the record, as in Kafka, or after the disk."""

    OS = "os"
    ACK = "ack"


class BrokerProcess:
    """A broker that was started and is to be stopped. What it prints goes to a file beside its data."""

    def __init__(self, command: Sequence[str], directory: Path, environment: Mapping[str, str]) -> None:
        self.directory = directory
        self.output = directory / "output.txt"
        self.address = ""
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
        """The first line that begins so, however soon or late the broker prints it."""
        deadline = self.started + START_TIMEOUT_S
        while time.monotonic() < deadline:
            for line in self.output.read_text(errors="replace").splitlines(keepends=True):
                if line.startswith(start) and line.endswith("\n"):
                    return line.rstrip("\n")
            if self._process.poll() is not None:
                break
            # Short beside what is measured: a start takes a hundred milliseconds at best.
            time.sleep(0.001)
        said = self.output.read_text(errors="replace")[-2000:]
        self.kill()
        raise RuntimeError(f"the broker did not start; it said:\n{said}")

    def stop(self) -> None:
        """As an administrator stops it; a broker that does not go is killed, and that is an error."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
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


class System(Protocol):
    name: str

    def describe(self) -> Mapping[str, str]:
        """Version, command line and settings, for whoever reads or repeats the result."""
        ...

    def start(self, directory: Path, settings: Mapping[str, str] = {}) -> BrokerProcess:
        """A broker that keeps its data in `directory`, new or from an earlier start, and accepts requests. The settings
        are added to its own."""
        ...

    def topic_settings(self, flush: Flush) -> Mapping[str, str]: ...

    def broker_settings(self, flush: Flush) -> Mapping[str, str]:
        """The same for all topics, internal ones included."""
        ...


class Headwater:
    name = "headwater"

    def describe(self) -> Mapping[str, str]:
        return {
            "version": version("headwater"),
            "command": " ".join(["python", *self._command(Path("DIR"))[1:]]),
            "record codec": "compiled" if COMPILED else "pure Python",
            **{name: value for name, value in os.environ.items() if name.startswith("HEADWATER_")},
        }

    def start(self, directory: Path, settings: Mapping[str, str] = {}) -> BrokerProcess:
        # An installed broker has its bytecode on disk, so this one has, too, whatever the environment says.
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(WORK / "bytecode")}
        broker = BrokerProcess(self._command(directory, settings), directory, environment)
        ready = broker.wait_for_line("ready ")
        broker.address = dict(word.split("=", 1) for word in ready.split()[1:])["kafka"]
        return broker

    def topic_settings(self, flush: Flush) -> Mapping[str, str]:
        return {"headwater.flush": flush}

    def broker_settings(self, flush: Flush) -> Mapping[str, str]:
        return {"headwater.flush": flush}

    def _command(self, directory: Path, settings: Mapping[str, str] = {}) -> list[str]:
        serve = [sys.executable, "-m", "headwater.cli.main", "serve"]
        where = ["--data-dir", str(directory / "data"), "--kafka", "127.0.0.1:0"]
        chosen = {"headwater.log.level": "warning", **settings}
        return [*serve, *where, *(word for name, value in chosen.items() for word in ("--set", f"{name}={value}"))]


SYSTEMS: dict[str, System] = {Headwater.name: Headwater()}
