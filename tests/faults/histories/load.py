"""Clients at work against one broker, each in its own process, and the history that they record together."""

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from headwater.errors import ErrorCode
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.aborted_record_filter import AbortedRecordFilter
from tests.faults.histories.checking import violations
from tests.faults.histories.clients.fetcher import read_everything
from tests.faults.histories.clients.options import Options
from tests.faults.histories.facts import AUDIT, Violation
from tests.faults.histories.liveness_checks import LIMIT_S
from tests.faults.histories.recording import Recorder, read
from tests.support.kafka.raw_client import EARLIEST, RawClient, Reachable
from tests.support.kafka.raw_groups import committed

LOOK_S = 0.05
# A client that is asked to stop has this long, because it may wait for its last responses.
STOP_S = 60.0
READ_COMMITTED = 1
WORDS_MAX = 300

# Settings of the broker under test that keep waits short.
SETTINGS: Mapping[str, str] = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "2000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}

_ROOT = Path(__file__).parents[3]
_PROGRAM = (sys.executable, "-m", "tests.faults.histories.clients.program")


class NotInTime(Exception):
    """The expected state was not reached in time."""


class Client:
    def __init__(self, options: Options) -> None:
        self.options = options
        self.name = options["name"]
        self._errors = Path(options["directory"]) / f"{self.name}.err"
        with self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                [*options.get("command", _PROGRAM), json.dumps(options)],
                stdin=subprocess.PIPE,
                cwd=_ROOT,
                text=True,
                stderr=errors,
            )

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def last_words(self) -> str:
        return self._errors.read_text()[-WORDS_MAX:]

    def tell_to_stop(self) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("stop\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            # The client has ended already; its exit code shows it.
            return

    def wait(self, timeout_s: float) -> int | None:
        """The exit code; None if the client did not end in time and was killed."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            self.kill()

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        assert self._process.stdin is not None
        self._process.kill()
        self._process.wait()
        # Unread input of a killed process does not matter.
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            return


class Load:
    """`directory` is only for the history. Names of topics, groups and clients begin with `prefix`."""

    def __init__(self, broker: Reachable, directory: Path, prefix: str = "", *, limit_s: float = LIMIT_S) -> None:
        self.topics: dict[str, int] = {}
        self.clients: list[Client] = []
        self._broker = broker
        self._directory = directory
        self._prefix = prefix
        self._limit_s = limit_s
        self._started = 0
        self._groups: dict[str, str] = {}
        self._progress = _Progress(directory)
        directory.mkdir(parents=True, exist_ok=True)
        self._recorder = Recorder(directory, "driver")

    # -- topics and clients

    def topic(self, name: str, partitions: int = 2, **config: str) -> str:
        """Settings are named as in Python."""
        name = self._prefix + name
        with RawClient(self._broker) as client:
            client.create(name, partitions, **config)
        self._recorder.note(
            "topic",
            topic=name,
            partitions=partitions,
            is_compacted="compact" in config.get("cleanup_policy", ""),
            is_limited="retention_bytes" in config or "retention_ms" in config,
        )
        self.topics[name] = partitions
        return name

    def start(self, role: str, topic: str, *, group: str | None = None, **more: Any) -> Client:
        self._started += 1
        options: Any = {
            "role": role,
            "name": f"{self._prefix}{role}-{self._started}",
            "directory": str(self._directory),
            "bootstrap_servers": self._broker.bootstrap_servers,
            "topics": self.topics,
            "topic": topic,
            **more,
        }
        if group is not None:
            options["group"] = self._prefix + group
            self._groups[options["group"]] = topic
        client = Client(options)
        self.clients.append(client)
        return client

    def kill(self, client: Client) -> None:
        if client.has_ended:
            self._died(client, client.wait(0))
        else:
            self._recorder.note("gone", client=client.name)
            client.kill()
        self.clients.remove(client)

    def replace(self, client: Client) -> None:
        """Kill a client, and start another with the same work and a new name."""
        self.kill(client)
        self.double(client)

    def double(self, client: Client) -> None:
        """Start another client with the same work."""
        self._started += 1
        name = f"{self._prefix}{client.options['role']}-{self._started}"
        self.clients.append(Client({**client.options, "name": name}))

    def leave(self, *clients: Client) -> None:
        """Ask these clients to stop, and wait for them."""
        for client in clients:
            client.tell_to_stop()
        deadline = time.monotonic() + min(STOP_S, self._limit_s)
        for client in clients:
            code = client.wait(max(0.0, deadline - time.monotonic()))
            if code != 0:
                self._died(client, code)
            self.clients.remove(client)

    def _died(self, client: Client, code: int | None) -> None:
        self._recorder.note("died", client=client.name, code=code, last_words=client.last_words)

    # -- progress

    @property
    def progress(self) -> Mapping[str, int]:
        """How many operations of each kind have succeeded so far."""
        return self._progress.look()

    def wait_for_more(self, kind: str, count: int) -> None:
        """Wait until this many more operations have succeeded, counted over all clients."""
        goal = self._progress.look()[kind] + count
        self._wait(lambda: self._progress.look()[kind] >= goal, f"{count} more of {kind}")

    def _wait(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + self._limit_s
        while not holds():
            if time.monotonic() >= deadline or any(client.has_ended for client in self.clients):
                raise NotInTime(what)
            time.sleep(LOOK_S)

    # -- the end

    def finish(self, limit_s: float = LIMIT_S) -> list[Violation]:
        """End all faults: every client makes progress and drains its input, and the history is checked."""
        self._limit_s = limit_s
        self._recorder.note("heal")
        drain = self._recorder.invoke("drain")
        try:
            self._drain()
        except (NotInTime, OSError) as error:
            drain.fail(error=str(error))
        else:
            drain.ok()
        self.leave(*self.clients)
        self._audit()
        self._recorder.close()
        return violations(read(self._directory), liveness_limit_s=self._limit_s)

    def _drain(self) -> None:
        producers = [client for client in self.clients if client.options["role"] == "producer"]
        if producers:
            self.wait_for_more("send", 10 * len(producers))
        self.leave(*producers)
        for role in ("copier", "member"):
            busy = {client.options.get("group", "") for client in self.clients if client.options["role"] == role}
            for group in busy:
                self._wait(lambda group=group: self._has_caught_up(group), f"the end of what {group} reads")
            if role == "copier":
                # Members may read the output of copiers.
                self.leave(*(client for client in self.clients if client.options["role"] == role))

    def _has_caught_up(self, group: str) -> bool:
        topic = self._groups[group]
        with RawClient(self._broker) as client:
            for partition in range(self.topics[topic]):
                offset = committed(client, group, topic, partition=partition, require_stable=True).committed_offset
                if _has_more(client, topic, partition, max(offset, 0)):
                    return False
        return True

    def _audit(self) -> None:
        recorder = Recorder(self._directory, AUDIT)
        try:
            read_everything(self._broker, recorder, self.topics)
            with RawClient(self._broker) as client:
                for group, topic in self._groups.items():
                    asked = recorder.invoke("committed", group=group, topic=topic)
                    found = [
                        committed(client, group, topic, partition=index, require_stable=True).committed_offset
                        for index in range(self.topics[topic])
                    ]
                    asked.ok(offsets=[*enumerate(found)])
        except OSError as error:
            recorder.note("died", client="the broker", code=str(error))
        finally:
            recorder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self.clients:
            client.kill()
        self._recorder.close()


class _Progress:
    """How many operations of each kind have succeeded according to the history files so far."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._positions: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()

    def look(self) -> Counter[str]:
        for path in self._directory.glob("*.jsonl"):
            with path.open("rb") as lines:
                lines.seek(self._positions[path.name])
                for line in lines:
                    if not line.endswith(b"\n"):
                        break
                    self._positions[path.name] += len(line)
                    told = json.loads(line)
                    if told["type"] == "ok":
                        self._counts[told["operation"]] += 1
        return self._counts


def _has_more(client: RawClient, topic: str, partition: int, offset: int) -> bool:
    """Whether a read_committed consumer would get any record from this offset on."""
    while True:
        data = client.fetch(topic, offset, partition=partition, isolation_level=READ_COMMITTED)
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            # Retention has removed the records.
            offset = client.offset(topic, EARLIEST, partition=partition)
            continue
        if data.error_code:
            return True
        aborted = AbortedRecordFilter(data.aborted_transactions or ())
        next_offset = offset
        for header, batch in batches.iterate(data.records or b""):
            is_hidden = aborted.hides(header, batch) or header.is_control or not header.record_count
            if not is_hidden and header.last_offset >= offset:
                return True
            next_offset = max(next_offset, header.next_offset)
        if next_offset == offset:
            return data.last_stable_offset < data.high_watermark
        offset = next_offset
