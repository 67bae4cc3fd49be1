"""A standalone Spark cluster on this machine: a master and workers, each a process of its own, which can be killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.ports import port_of, reserved_port

from headwater.spark.java import find_java
from tests.support.spark.java import SPARK_ENVIRONMENT

_HOST = "127.0.0.1"
_STOP_TIMEOUT_S = 60


class Cluster:
    """Each worker has one core, and so at most one executor of a query, which runs one task at a time."""

    def __init__(self, directory: Path, workers: int, variables: Mapping[str, str] | None = None) -> None:
        """`variables` is the environment of its processes; by default they have this Python with all that is in it."""
        self._directory = directory
        self._variables = environment() if variables is None else variables
        self._worker_count = workers
        self._processes: list[subprocess.Popen[bytes]] = []
        self._reserved = reserved_port()
        self.url = f"spark://{_HOST}:{port_of(self._reserved)}"

    def __enter__(self) -> Self:
        port = self.url.rpartition(":")[2]
        self._start("master.Master", "--port", port)
        for number in range(self._worker_count):
            place = self._directory / f"worker-{number}"
            self._start("worker.Worker", "--cores", "1", "--memory", "1g", "--work-dir", str(place), self.url)
        return self

    def kill_worker(self, number: int) -> int:
        """With its executors and their Python processes, all at once; gives how many those were."""
        worker = self._processes[1 + number]
        # First the worker, which would start another executor in place of a dead one.
        family = [worker.pid, *_descendants(worker.pid)]
        for process in family:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        worker.wait()
        return len(family) - 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Workers end their executors.
        for process in reversed(self._processes):
            process.terminate()
            process.wait(_STOP_TIMEOUT_S)
        self._reserved.close()

    def log(self) -> str:
        return "\n".join(path.read_text(errors="replace")[-2000:] for path in sorted(self._directory.glob("*.log")))

    def _start(self, kind: str, *arguments: str) -> None:
        command = [str(spark_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}"]
        command += ["--host", _HOST, "--webui-port", "0", *arguments]
        with (self._directory / f"{len(self._processes)}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._variables)
            )


def spark_home() -> Path:
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def environment() -> dict[str, str]:
    """Of the cluster's processes and of those that use it: the same Java and the same Python everywhere."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HEADWATER_", "SPARK_"))}
    wanted = {"JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(spark_home())}
    return {**kept, **SPARK_ENVIRONMENT, **wanted, "SPARK_LOCAL_IP": _HOST, "SPARK_DAEMON_MEMORY": "256m"}


def _descendants(process: int) -> Sequence[int]:
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(FileNotFoundError, ProcessLookupError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    family = [process]
    for member in family:
        family += [child for child, parent in parents.items() if parent == member]
    return family[1:]
