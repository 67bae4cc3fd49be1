"""A topic that is copied while tasks, the driver and the broker are killed, and whether each row is there once."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.interop.spark_killable import PLACES_VARIABLE
from tests.support.broker.processes import BrokerProcess
from tests.support.kafka.topic_contents import transactional_producer
from tests.support.spark.written import create, open_transactions, seen, values

ROOT = Path(__file__).parents[2]
SETTINGS = {"transaction.state.log.num.partitions": "4", "offsets.topic.num.partitions": "4"}
PARTITIONS = 3
RECORDS_AT_A_TIME = 200
ABORTED_AT_A_TIME = 20
POLL_S = 0.1
# Long enough for a loaded machine; a test that waits this long has failed.
DEADLINE_S = 300

TASK, DRIVER, BROKER = "task", "driver", "broker"


class Kill(NamedTuple):
    place: str
    victim: str


class Program:
    """The driver with all that it starts, which are one process group; whoever kills it starts it again."""

    def __init__(self, broker: BrokerProcess, directory: Path, master: str) -> None:
        self.places = directory / "places"
        self.places.mkdir()
        self.log = directory / "program.log"
        self._command = [sys.executable, "-m", "tests.interop.spark_sink_program"]
        self._command += [broker.bootstrap_servers, str(directory / "program"), master]
        path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
        # On a cluster Spark would take the first Python of the path, which may not know Headwater.
        python = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": path}
        self._environment = {**os.environ, **python, PLACES_VARIABLE: str(self.places)}
        self._start()

    @property
    def group(self) -> int:
        return self._process.pid

    def replace(self) -> None:
        """Once it is killed."""
        assert self._process.wait(timeout=DEADLINE_S) == -signal.SIGKILL
        self._start()

    def wait_until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not holds():
            assert time.monotonic() < deadline, f"{what}\n{self.log.read_text()[-20_000:]}"
            time.sleep(POLL_S)

    def attempts(self) -> int:
        """How many of one task have staged its rows, at most, since the program was started last."""
        return max(len(list(task.iterdir())) for task in (self.places / "staged").iterdir())

    def kill(self) -> None:
        os.killpg(self.group, signal.SIGKILL)
        self._process.wait()

    def _start(self) -> None:
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                self._command, env=self._environment, cwd=ROOT, stdout=log, stderr=log, start_new_session=True
            )


class Feeder:
    """Each time it also aborts a transaction, whose records nobody must copy."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._producer = transactional_producer(broker, "feeder")
        self._count = 0

    def feed(self) -> None:
        self._producer.begin_transaction()
        for number in range(ABORTED_AT_A_TIME):
            self._producer.produce("source", b"aborted", key=b"%d" % number)
        self._producer.flush()
        self._producer.abort_transaction()
        self._producer.begin_transaction()
        for _ in range(RECORDS_AT_A_TIME):
            self._producer.produce("source", b"%d" % self._count, key=b"%d" % self._count)
            self._count += 1
        self._producer.commit_transaction()

    @property
    def copies(self) -> list[str]:
        return sorted(f"copy of {number}" for number in range(self._count))


class Scene(NamedTuple):
    broker: BrokerProcess
    program: Program
    feeder: Feeder

    def plant(self, place: str, target: int, then: Callable[[], None] = lambda: None) -> None:
        """Plant a kill, feed records, wait until a process has reached the place, and call `then`.

        The feeder runs beside it: the place may be reached while it still feeds, and where the broker is the victim,
        the feeder's transaction ends only when `then` has started the broker again."""
        made = self.program.places / f"{place}-made"
        made.write_text(str(target))
        planted = made.rename(self.program.places / place)
        with ThreadPoolExecutor(1) as threads:
            fed = threads.submit(self.feeder.feed)
            self.program.wait_until(lambda: not planted.exists(), f"nobody came to {place}")
            then()
            fed.result()

    def kill(self, kill: Kill) -> None:
        if kill.victim == DRIVER:
            self.plant(kill.place, -self.program.group, self.program.replace)
        elif kill.victim == BROKER:
            self.plant(kill.place, self.broker.pid, self._restart_broker)
        else:
            self.plant(kill.place, 0)

    def _restart_broker(self) -> None:
        self.broker.kill()
        self.broker.start()

    def check(self) -> None:
        wanted = self.feeder.copies
        self.program.wait_until(lambda: len(seen(self.broker, "sink")) >= len(wanted), "rows are missing")
        self.program.wait_until(lambda: not open_transactions(self.broker), "something staged stays open")
        assert values(self.broker, "sink") == wanted


@contextmanager
def copying(directory: Path, master: str) -> Generator[Scene]:
    with BrokerProcess(directory / "data", SETTINGS) as broker:
        create(broker, "source", PARTITIONS)
        create(broker, "sink", PARTITIONS)
        program = Program(broker, directory, master)
        try:
            yield Scene(broker, program, Feeder(broker))
        finally:
            program.kill()


def in_some_order(kills: Sequence[Kill]) -> Sequence[Kill]:
    seed = random.getrandbits(32)
    # Shown if it fails.
    sys.stdout.write(f"seed {seed}\n")
    return random.Random(seed).sample(kills, len(kills))
