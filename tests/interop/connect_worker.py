"""A worker of Kafka Connect in distributed mode, and MirrorMaker 2: processes of their own, from Kafka's archives."""

import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.broker_process import BrokerProcess as JavaProcess
from benchmarks.ports import port_of, reserved_port

from tests.support.broker.processes import wait_until

_WORKER = "org.apache.kafka.connect.cli.ConnectDistributed"
_MIRROR_MAKER = "org.apache.kafka.connect.mirror.MirrorMaker"
_TIMEOUT_S = 60
# While the workers agree on who does what, a worker refuses requests for a moment.
_BUSY = (404, 409, 500, 503)


class ConnectWorker:
    """Keeps its port and its group over kills and restarts."""

    def __init__(self, java: Sequence[str], directory: Path, bootstrap_servers: str, group: str) -> None:
        self._directory = directory
        self._reserved = reserved_port()
        self._url = f"http://127.0.0.1:{port_of(self._reserved)}"
        settings = _worker_settings(bootstrap_servers, group, self._url)
        self._command = [*java, _WORKER, str(_write(settings, directory / "worker.properties"))]
        self._process: JavaProcess | None = None

    def start(self) -> None:
        self._process = JavaProcess(self._command, self._directory, os.environ)
        self._until(lambda: self._is_answered("/connectors"), "the worker answers")

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()

    def configure(self, connector: str, config: Mapping[str, str]) -> None:
        self._until(lambda: self._is_answered(f"/connectors/{connector}/config", config), f"{connector} is created")

    def wait_until_running(self, connector: str) -> None:
        def is_running() -> bool:
            status = self.ask(f"/connectors/{connector}/status")
            if status is None:
                return False
            states = [each["state"] for each in (status["connector"], *status["tasks"])]
            assert "FAILED" not in states, status
            return len(states) > 1 and set(states) == {"RUNNING"}

        self._until(is_running, f"{connector} runs")

    def ask(self, path: str, body: Mapping[str, str] | None = None) -> Any:
        """The answer of the worker's REST interface; None while there is none."""
        data = None if body is None else json.dumps(body).encode()
        method = "GET" if body is None else "PUT"
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refused:
            with refused:
                if refused.code not in _BUSY:
                    raise AssertionError(refused.read()) from refused
                return None
        except (urllib.error.URLError, ConnectionError):
            return None

    def _is_answered(self, path: str, body: Mapping[str, str] | None = None) -> bool:
        return self.ask(path, body) is not None

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        process = self._process
        assert process is not None

        def holds() -> bool:
            assert process.is_running, f"the worker ended: {_last_words(process)}"
            return condition()

        wait_until(holds, f"not so: {what}; {_last_words(process)}")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._reserved.close()


def start_mirror_maker(java: Sequence[str], directory: Path, settings: Mapping[str, str]) -> JavaProcess:
    """A dedicated MirrorMaker, to be killed by the caller."""
    return JavaProcess(
        [*java, _MIRROR_MAKER, str(_write(settings, directory / "mm2.properties"))], directory, os.environ
    )


def _worker_settings(bootstrap_servers: str, group: str, url: str) -> Mapping[str, str]:
    converter = "org.apache.kafka.connect.storage.StringConverter"
    return {
        "bootstrap.servers": bootstrap_servers,
        "group.id": group,
        "key.converter": converter,
        "value.converter": converter,
        "config.storage.topic": f"{group}-configs",
        "offset.storage.topic": f"{group}-offsets",
        "status.storage.topic": f"{group}-status",
        **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
        **{f"{kind}.storage.partitions": "1" for kind in ("offset", "status")},
        "exactly.once.source.support": "enabled",
        "listeners": url,
        "admin.listeners": "",
        "plugin.discovery": "service_load",
        # A killed worker is missed soon, and its tasks are given away at once.
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "1000",
        "scheduled.rebalance.max.delay.ms": "0",
        "offset.flush.interval.ms": "500",
    }


def _write(settings: Mapping[str, str], file: Path) -> Path:
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return file


def _last_words(process: JavaProcess) -> str:
    return process.output.read_text(errors="replace")[-3000:]
