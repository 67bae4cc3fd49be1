"""A broker in a process of its own, which can be killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.ports import port_of, reserved_port


class BrokerProcess:
    """Always on the same port and directory, however often it is killed and started again."""

    def __init__(self, data_directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self._data_directory = data_directory
        self._settings = dict(settings or {})
        self._reserved = reserved_port()
        self._process: subprocess.Popen[str] | None = None

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{port_of(self._reserved)}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        command = [sys.executable, "-m", "headwater.cli.main", "serve"]
        command += ["--data-dir", str(self._data_directory), "--kafka", self.bootstrap_servers]
        for name, value in self._settings.items():
            command += ["--set", f"{name}={value}"]
        log = (self._data_directory.parent / "broker.log").open("a")
        with log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=_environment())
        assert self._process.stdout is not None
        ready = self._process.stdout.readline()
        assert ready.startswith("ready "), (self._data_directory.parent / "broker.log").read_text()

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.send_signal(number)
        code = self._process.wait()
        self._process.stdout.close()
        self._process = None
        return code

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.kill()
        self._reserved.close()


def _environment() -> dict[str, str]:
    # Settings of whoever runs the tests must not reach the broker under test.
    return {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
