"""A broker under attack: its process, its memory, its log, and a well-behaved bystander client."""

import json
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.broker.processes import TIMEOUT_S, BrokerProcess
from tests.support.kafka.raw_client import RawClient, batch_of

MIB = 1 << 20
SIDE_TOPIC = "side"

SETTINGS: Mapping[str, str] = {
    "auto.create.topics.enable": "false",
    "num.partitions": "1",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1",
}


class WatchedBroker:
    def __init__(self, process: BrokerProcess, directory: Path) -> None:
        self._process = process
        self._log = directory / "broker.log"
        self.data_directory = directory / "data"
        # Sockets of the event loop, and the listening one.
        self._sockets_beside = self._socket_count()

    @property
    def bootstrap_servers(self) -> str:
        return self._process.bootstrap_servers

    def address(self, listener: str) -> str:
        """That of a further listener."""
        return self._process.addresses[f"kafka.{listener}"]

    @property
    def log(self) -> str:
        return self._log.read_text()

    def memory_bytes(self) -> int:
        return self._status("VmRSS")

    def memory_peak_bytes(self) -> int:
        return self._status("VmHWM")

    def forget_memory_peak(self) -> None:
        """Reset the peak: from here on `memory_peak_bytes` covers only later use."""
        Path(f"/proc/{self._process.pid}/clear_refs").write_text("5")

    def connection_count(self) -> int:
        """As the kernel sees it."""
        return self._socket_count() - self._sockets_beside

    def _socket_count(self) -> int:
        descriptors = Path(f"/proc/{self._process.pid}/fd").iterdir()
        return sum(1 for each in descriptors if _target(each).startswith("socket:"))

    def _status(self, name: str) -> int:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        (line,) = (line for line in status.splitlines() if line.startswith(f"{name}:"))
        return int(line.split()[1]) * 1024

    def complaints(self) -> list[str]:
        """Errors that the broker logged. A refused client is not an error."""
        return [line for line in self._log.read_text().splitlines() if _is_complaint(line)]


def _target(descriptor: Path) -> str:
    try:
        return str(descriptor.readlink())
    except FileNotFoundError:  # The descriptor was closed meanwhile.
        return ""


def _is_complaint(line: str) -> bool:
    try:
        entry = json.loads(line)
    except ValueError:
        return True  # A line that is no log entry is a traceback or a Python warning.
    return entry["level"] in ("error", "critical") or "exception" in entry


@contextmanager
def watched(directory: Path, settings: Mapping[str, str] | None = None) -> Generator[WatchedBroker]:
    """At the end the broker must still run, have logged no error, and stop when asked to."""
    with BrokerProcess(directory / "data", {**SETTINGS, **(settings or {})}) as process:
        broker = WatchedBroker(process, directory)
        yield broker
        assert broker.complaints() == []
        assert process.stop() == 0
    assert broker.complaints() == []


class Bystander:
    """A well-behaved client that produces and reads back all the time and must not be affected."""

    def __init__(self, broker: WatchedBroker) -> None:
        self._client = RawClient(broker)
        self._client.create(SIDE_TOPIC)
        self._moved = threading.Condition()
        self._stop = False
        self._failure: Exception | None = None
        self.rounds = 0
        self.longest_round_s = 0.0
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            while not self._stop:
                began = time.monotonic()
                self._round()
                self.longest_round_s = max(self.longest_round_s, time.monotonic() - began)
                with self._moved:
                    self.rounds += 1
                    self._moved.notify_all()
        except Exception as error:
            with self._moved:
                self._failure = error
                self._moved.notify_all()

    def _round(self) -> None:
        value = _value(self.rounds)
        produced = self._client.produce(SIDE_TOPIC, batch_of(value), acks=1)
        assert (produced.error_code, produced.base_offset) == (0, self.rounds)
        assert [record.value for record in self._client.records(SIDE_TOPIC, self.rounds)] == [value]

    def check(self, rounds: int = 3) -> None:
        """Return once the bystander has been served this many more times."""
        with self._moved:
            goal = self.rounds + rounds
            self._moved.wait_for(lambda: self.rounds >= goal or self._failure is not None, TIMEOUT_S)
            if self._failure is not None:
                raise self._failure
            assert self.rounds >= goal, "the client on the side is not served any more"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.check()
        finally:
            self._stop = True
            self._thread.join()
        try:
            if kind is None:
                values = [record.value for record in self._client.records(SIDE_TOPIC)]
                assert values == [_value(number) for number in range(self.rounds)], "its topic holds something else"
        finally:
            self._client.socket.close()


def _value(number: int) -> bytes:
    return b"value %d" % number
