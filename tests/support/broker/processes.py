"""A broker in its own process, which tests can kill."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.ports import port_of, reserved_port

from headwater.config.broker import BrokerConfig
from headwater.config.listener_overrides import find_overridable

# The module to run, with its arguments before `serve`. Fault tests have launchers of their own.
PLAIN = ("headwater.cli.main",)
# Long enough for a loaded machine; a test that waits this long has failed.
TIMEOUT_S = 60

_ROOT = Path(__file__).parents[3]


class BrokerProcess:
    """A broker that keeps its port and data directory over kills and restarts.

    Settings that name `listeners` choose the ports instead; those in `file` are read again on SIGHUP."""

    def __init__(
        self,
        data_directory: Path,
        settings: Mapping[str, str] | None = None,
        more_listeners: Mapping[str, int] | None = None,
        file: Path | None = None,
    ) -> None:
        """`more_listeners` are the names and ports of listeners beside the first, which is PLAINTEXT."""
        self._data_directory = data_directory
        self._settings = dict(settings or {})
        self._more_listeners = dict(more_listeners or {})
        self._file = file
        # By the names of the listeners, as the broker tells them when it is ready.
        self.addresses: dict[str, str] = {}
        self._reserved = reserved_port()
        self._process: subprocess.Popen[str] | None = None

    @property
    def bootstrap_servers(self) -> str:
        return self.addresses.get("kafka") or f"127.0.0.1:{port_of(self._reserved)}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None

    @property
    def log(self) -> str:
        """The standard error of all its runs."""
        return self._log_path.read_text()

    @property
    def _log_path(self) -> Path:
        return self._data_directory.parent / "broker.log"

    def start(self, launcher: Sequence[str] = PLAIN) -> None:
        assert self.launch(launcher), self.log

    def launch(self, launcher: Sequence[str]) -> bool:
        """Starts the process and returns whether it became ready; if not, it has exited."""
        module, *arguments = launcher
        command = [sys.executable, "-m", module, *arguments, "serve"]
        self.addresses.clear()
        command += ["--data-dir", str(self._data_directory)]
        if "listeners" not in self._settings:
            more = [f"{name}://127.0.0.1:{port}" for name, port in self._more_listeners.items()]
            command += ["--kafka", ",".join([self.bootstrap_servers, *more])]
        if self._file is not None:
            command += ["--config", str(self._file)]
        environment = _environment()
        for name, value in self._settings.items():
            declared = find_overridable(BrokerConfig, name, "broker")
            if declared.sensitive:
                # The list of processes would show it to everybody, so the command does not take it.
                environment[declared.variable] = value
            else:
                command += ["--set", f"{name}={value}"]
        with self._log_path.open("a") as log:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment, cwd=_ROOT
            )
        assert self._process.stdout is not None
        state, *named = self._process.stdout.readline().split(" ") or [""]
        self.addresses = dict(each.strip().split("=", 1) for each in named if "=" in each)
        return state == "ready"

    def reload(self) -> None:
        """Tell the broker to read its settings and certificates again; its log says when it has."""
        assert self._process is not None
        self._process.send_signal(signal.SIGHUP)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        return self._end(signal.SIGTERM)

    def wait(self, timeout_s: float | None = None) -> int:
        """Waits until the process ends by itself; raises TimeoutExpired if it does not."""
        assert self._process is not None
        assert self._process.stdout is not None
        code = self._process.wait(timeout_s)
        self._process.stdout.close()
        self._process = None
        return code

    def _end(self, number: signal.Signals) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        return self.wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.kill()
        self._reserved.close()


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Polls until a condition in another process holds, with short pauses."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def _environment() -> dict[str, str]:
    # HEADWATER_ variables of the developer's shell must not reach the broker under test.
    return {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
