"""A broker under load that is killed repeatedly, and whose promises are checked after each death."""

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.faults.kills.checking import check
from tests.faults.kills.loads import COUNTED, DEADLINE_S, LEDGER_PARTITIONS, Loads
from tests.support.broker.processes import PLAIN, BrokerProcess
from tests.support.kafka.raw_client import RawClient

# Periodic work of the broker runs all the time, and segments are small, so that there are many.
SETTINGS = {
    "log.segment.bytes": "8192",
    "log.index.interval.bytes": "256",
    "log.initial.task.delay.ms": "0",
    "log.retention.check.interval.ms": "100",
    "log.cleaner.backoff.ms": "50",
    "log.cleaner.min.cleanable.ratio": "0.1",
    "log.flush.offset.checkpoint.interval.ms": "150",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
}


class Life:
    def __init__(self, directory: Path, flush: str = "ack", launcher: Sequence[str] = PLAIN) -> None:
        self.broker = BrokerProcess(directory / "data", SETTINGS | {"headwater.flush": flush})
        self.loads: Loads
        self._launcher = launcher

    def __enter__(self) -> Self:
        self.broker.start(self._launcher)
        try:
            with RawClient(self.broker) as raw:
                raw.create("numbers", COUNTED["numbers"])
                raw.create("trimmed", retention_bytes="40000")
                raw.create("compacted", cleanup_policy="compact")
                raw.create("ledger", LEDGER_PARTITIONS)
            self.loads = Loads(self.broker)
        except BaseException:
            self.broker.__exit__(None, None, None)
            raise
        self.loads.run()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.loads.close()
        finally:
            self.broker.__exit__(None, None, None)

    def die_at(self, failpoint: str, number: int) -> int:
        """Kill the broker now if it is alive, and let its successor kill itself when it reaches the failpoint for the
        n-th time. Returns the number of kills."""
        kills = 1
        if self.broker.is_running:
            self.broker.kill()
            kills += 1
        self.broker.launch(("tests.faults.kills.failing_broker", failpoint, str(number)))
        try:
            code = self.broker.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it never came to {failpoint}") from None
        assert code == -signal.SIGKILL, f"it ended with {code} before it came to {failpoint}:\n{self.broker.log}"
        return kills

    def recover(self) -> None:
        """Start the broker without failpoints, check that all promises hold, and let the clients go on."""
        self.broker.start()
        self.check()

    def check(self) -> None:
        """Let all clients finish their current step, then check the promises."""
        self.loads.settle()
        check(self.broker, self.loads)
        self.loads.run()
