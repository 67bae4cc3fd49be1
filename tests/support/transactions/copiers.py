"""The copiers of one topic, each in its own process with its own transactional id, and their events so far."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from tests.support.kafka.raw_client import RawClient, Reachable
from tests.support.kafka.raw_groups import committed
from tests.support.kafka.topic_contents import DEADLINE_S
from tests.support.transactions.copier import Options

SESSION_TIMEOUT_MS = 1000
HEARTBEAT_INTERVAL_MS = 200

# Settings of the broker under test that keep waits short.
SETTINGS: Mapping[str, str] = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.consumer.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_INTERVAL_MS),
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_INTERVAL_MS),
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}

GROUP_PROTOCOLS: Mapping[str, Mapping[str, str | int]] = {
    "classic": {
        "group.protocol": "classic",
        "session.timeout.ms": SESSION_TIMEOUT_MS,
        "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
    },
    "consumer": {"group.protocol": "consumer"},
}

# What plays a copier, and is given its options.
CONFLUENT = (sys.executable, "-m", "tests.support.transactions.copier")

_ROOT = Path(__file__).parents[3]


class Step(NamedTuple):
    """One line of a copier; the transaction is missing where it has none."""

    name: str
    transaction: str = ""
    # How many records it is made of, for one that has begun; or what is wrong.
    detail: Any = None


class Copier:
    def __init__(self, command: Sequence[str], options: Options, changed: threading.Condition) -> None:
        self.name = options["name"]
        self.transactional_id = options["transactional_id"]
        self.transaction_timeout_ms = options["transaction_timeout_ms"]
        self.steps: list[Step] = []
        self._changed = changed
        self._process = subprocess.Popen(
            [*command, json.dumps(options)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_ROOT
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def kill(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._reader.join()
        self._process.stdin.close()
        self._process.stdout.close()

    def fall_asleep(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def wake_up(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def go_on(self) -> None:
        """To one that halts."""
        assert self._process.stdin is not None
        self._process.stdin.write("go on\n")
        self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            # The last line of one that was killed may be a part.
            if line.endswith("\n"):
                with self._changed:
                    self.steps.append(Step(*json.loads(line)))
                    self._changed.notify_all()


class Copiers:
    """They copy `source` to `target`, which are there."""

    def __init__(
        self,
        broker: Reachable,
        group_protocol: str,
        source: str,
        target: str,
        command: Sequence[str] = CONFLUENT,
    ) -> None:
        self.group = f"copiers-of-{source}"
        self._command = command
        self._broker = broker
        self._source = source
        self.members: list[Copier] = []
        self._changed = threading.Condition()
        self._common = {
            "bootstrap_servers": broker.bootstrap_servers,
            "source": source,
            "target": target,
            "consumer": {"group.id": self.group, **GROUP_PROTOCOLS[group_protocol]},
        }

    def start(self, transactional_id: str, *, transaction_timeout_ms: int = 30_000, halts: bool = False) -> Copier:
        options: Any = {
            **self._common,
            "name": f"{transactional_id}-{len(self.members)}",
            "transactional_id": transactional_id,
            "transaction_timeout_ms": transaction_timeout_ms,
            "halts": halts,
        }
        copier = Copier(self._command, options, self._changed)
        self.members.append(copier)
        return copier

    def replace(self, copier: Copier) -> None:
        copier.kill()
        self.start(copier.transactional_id, transaction_timeout_ms=copier.transaction_timeout_ms)

    def wait_until(self, holds: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(holds, DEADLINE_S), self._summary()

    def copy_up_to(self, ends: Mapping[int, int], topic: str | None = None) -> None:
        """Until these offsets of the source, or of another topic that they read, are committed.

        A client may commit one that follows: that of the marker which ends the transaction, or the next.
        """

        def are_reached() -> bool:
            offsets = self.committed_offsets(len(ends), topic)
            return all(offsets[partition] >= end for partition, end in ends.items())

        self._work_until(are_reached)

    def copy_about(self, count: int, partitions: int) -> None:
        """Until so many records of the source are copied, counted by committed offsets."""
        self._work_until(lambda: sum(self.committed_offsets(partitions).values()) >= count)

    def _work_until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not holds():
            # Some step comes soon: a copier that has nothing to do says so again and again.
            with self._changed:
                self._changed.wait(DEADLINE_S)
            assert time.monotonic() < deadline, self._summary()

    def committed_offsets(self, partitions: int, topic: str | None = None) -> Mapping[int, int]:
        with RawClient(self._broker) as raw:
            return {
                index: committed(raw, self.group, topic or self._source, partition=index).committed_offset
                for index in range(partitions)
            }

    def steps(self, name: str) -> list[Step]:
        return [step for copier in self.members for step in copier.steps if step.name == name]

    def _summary(self) -> str:
        return "\n".join(f"{copier.name}: {copier.steps[-10:]}" for copier in self.members)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for copier in self.members:
            copier.kill()
