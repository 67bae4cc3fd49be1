"""The members of one group, each in its own process, and their events so far."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import Producer

from tests.support.groups.clients import Options
from tests.support.groups.history import Assigned, Committed, Ended, Event, Lost, Revoked, read_event
from tests.support.kafka.raw_client import RawClient, Reachable
from tests.support.kafka.raw_groups import committed

PARTITIONS = 12
SESSION_TIMEOUT_MS = 2000
HEARTBEAT_INTERVAL_MS = 200
# Long enough for a loaded machine; a test that waits this long has failed.
DEADLINE_S = 120
RECORD = bytes(100)

# Settings of the broker under test that keep waits short.
SETTINGS: Mapping[str, str] = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.consumer.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_INTERVAL_MS),
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_INTERVAL_MS),
    "offsets.topic.num.partitions": "4",
}

_ROOT = Path(__file__).parents[3]
_PROGRAM = (sys.executable, "-m", "tests.support.groups.member")


class Member:
    """`command` plays it, and is given its options."""

    def __init__(self, command: Sequence[str], options: Options, changed: threading.Condition) -> None:
        self.name = options["name"]
        self.history: list[Event] = []
        self.owned: set[int] = set()
        # The last commit that it had the answer to, by partition.
        self.committed: Counter[int] = Counter()
        # Whether the group shall count on it: it is neither gone nor asleep.
        self.is_active = True
        self._changed = changed
        self._process = subprocess.Popen(
            [*command, json.dumps(options)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_ROOT
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def leave(self) -> None:
        """Politely. It has told all and is gone when `wait` comes back."""
        assert self._process.stdin is not None
        self.is_active = False
        self._process.stdin.write("leave\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        self.is_active = False
        self._process.kill()
        self._process.wait()

    def fall_asleep(self) -> None:
        self.is_active = False
        self._process.send_signal(signal.SIGSTOP)

    def wake_up(self) -> None:
        self._process.send_signal(signal.SIGCONT)
        self.is_active = True

    def wait(self) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        code = self._process.wait(DEADLINE_S)
        self._reader.join()
        self._process.stdin.close()
        self._process.stdout.close()
        return code

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._add(read_event(line))
        self._add(Ended(time.monotonic_ns()))

    def _add(self, event: Event) -> None:
        with self._changed:
            self.history.append(event)
            match event:
                case Assigned():
                    self.owned.update(event.partitions)
                case Revoked() | Lost():
                    self.owned.difference_update(event.partitions)
                case Committed():
                    self.committed |= Counter(dict(event.offsets))
                case Ended():
                    self.owned.clear()
                case _:
                    pass
            self._changed.notify()


class Crew:
    """`client` is one of `clients.CLIENTS`; the topic is made for this group and fed by it."""

    def __init__(self, broker: Reachable, client: str, group: str) -> None:
        self._broker = broker
        self._options: Options = {
            "client": client,
            "bootstrap_servers": broker.bootstrap_servers,
            "topic": f"topic-of-{group}",
            "group": group,
            "name": "",
            "session_timeout_ms": SESSION_TIMEOUT_MS,
            "heartbeat_interval_ms": HEARTBEAT_INTERVAL_MS,
        }
        self.topic, self.group = self._options["topic"], group
        self.members: list[Member] = []
        self.end_offsets: dict[int, int] = dict.fromkeys(range(PARTITIONS), 0)
        self._changed = threading.Condition()
        self._producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "acks": "all",
                "linger.ms": 5,
                "partitioner": "murmur2_random",
                # It may hear of a broker that was killed on purpose.
                "log_level": 0,
                "reconnect.backoff.max.ms": 100,
                "metadata.recovery.strategy": "none",
            }
        )
        self._produced = 0
        with RawClient(broker) as raw:
            raw.create(self.topic, PARTITIONS)

    def feed(self, count: int) -> None:
        for number in range(self._produced, self._produced + count):
            self._producer.produce(self.topic, RECORD, key=b"%d" % number)
            if number % 10_000 == 0:
                self._producer.poll(0)
        self._produced += count
        assert self._producer.flush(DEADLINE_S) == 0
        with RawClient(self._broker) as raw:
            self.end_offsets = {index: raw.offset(self.topic, partition=index) for index in range(PARTITIONS)}
        assert sum(self.end_offsets.values()) == self._produced

    def join(self, count: int, client: str | None = None) -> None:
        """One after the other, each without waiting for the one before."""
        for _ in range(count):
            options: Options = {**self._options, "name": f"{self.group}-{len(self.members)}"}
            if client is not None:
                options["client"] = client
            self.members.append(Member(_PROGRAM, options, self._changed))

    def settle(self) -> None:
        """Until each active member has something, together they have everything, and have committed it."""
        self.wait_until(lambda: self._is_shared_out() and self._has_caught_up())

    def wait_until(self, holds: Callable[[], bool]) -> None:
        with self._changed:
            self._changed.wait_for(lambda: holds() or self._is_short(), DEADLINE_S)
            assert holds(), self._summary()

    def leave(self, *members: Member) -> None:
        for member in members:
            member.leave()
        for member in members:
            code = member.wait()
            assert code == 0, f"{member.name} did not leave in peace but with {code}"

    def histories(self) -> dict[str, list[Event]]:
        return {member.name: member.history for member in self.members}

    def acknowledged(self) -> Counter[int]:
        """What the members know to be committed."""
        acknowledged: Counter[int] = Counter()
        for member in self.members:
            acknowledged |= member.committed
        return acknowledged

    def committed(self) -> dict[int, int]:
        """What the broker says."""
        with RawClient(self._broker) as raw:
            return {
                index: committed(raw, self.group, self.topic, partition=index).committed_offset
                for index in range(PARTITIONS)
            }

    def _is_short(self) -> bool:
        """Of a member that ended by itself."""
        return any(
            member.is_active and isinstance(member.history[-1], Ended) for member in self.members if member.history
        )

    def _is_shared_out(self) -> bool:
        active = [member for member in self.members if member.is_active]
        owners = Counter(partition for member in active for partition in member.owned)
        return all(member.owned for member in active) and len(owners) == PARTITIONS == owners.total()

    def _has_caught_up(self) -> bool:
        return self.acknowledged() >= Counter(self.end_offsets)

    def _summary(self) -> str:
        owned = {member.name: sorted(member.owned) for member in self.members if member.is_active}
        return f"who has what: {owned}; the ends: {self.end_offsets}; caught up: {self._has_caught_up()}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self.members:
            member.kill()
            member.wait()
