"""Operations of clients: one line of JSON per invocation and one per result, in a file per process or thread.

Every line has
    process    who did it
    id         of the operation: the same for its invocation and its result, and rising within a process
    time_ns    of the machine's monotonic clock, which all processes share
    type       `invoke`; then `ok` (it happened), `fail` (it did not, and never will) or `info` (nobody knows: a
               time-out). An operation without a result is one whose process was killed: nobody knows either.
    operation  one of these, with its fields at the invocation, and behind the arrow at the result:
        topic      topic, partitions, is_compacted, is_limited (it has a retention)
        send       topic, partition, key, value (unique), transaction, source (topic, partition, offset) -> offset
        end        transaction, is_commit, group, offsets (topic, partition, offset); ok: that is its outcome
        fetch      topic, partition, offset, committed_only -> high_watermark, last_stable_offset, log_start_offset,
                   batches (first offset, last offset, record count), records (offset, value) that are to be seen
        poll       group, member, generation, topic, committed_only, records (partition, offset, value)
        seek       topic, partitions: the next poll may give what was given before
        assign     group, protocol, member, generation (or epoch), topic, partitions
        commit     group, member, generation, topic, offsets (partition, offset) -> generation_after
        committed  group, topic -> offsets (partition, offset; -1 where there is none)
        group      of the driver: group, topic, limit (of deliveries), lock_ms, has_letters
        share      group, member, topic, is_exact (acquired within the operation), wall_ms, records (partition, offset,
                   delivery count, when it expires)
        settle     group, member, topic, verdict (accept, release, reject), records (partition, offset, delivery count)
        depart     group, member, topic: the member gives back what it holds
        letters    group, topic (of the records), records (partition, offset, delivery count, reason)
        backlog    group: nothing is left of it
        schedule   topic, partition, value (unique), delay_ms, transaction: a record that is to appear later
        cancel     topic, value; ok: it was cancelled, fail: there was nothing to cancel
        decide     transaction (of delayed records), is_commit
        appear     topic, partition, records (offset, value): what a reader of delayed records saw
        restart    the broker is killed and started
        heal       from now on nothing is in anybody's way
        drain      everybody has come to the end of what there was
        gone       client: it was killed on purpose
        died       client, code: it ended although nobody told it to
"""

import json
import math
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

Outcome = Literal["ok", "fail", "info"]


class Recorder:
    """Thread-safe, because clients call back from their own threads. A line is in the file when the call returns, so
    that a killed process has recorded everything that it did."""

    def __init__(self, directory: Path, process: str) -> None:
        self._process = process
        self._lock = threading.Lock()
        self._next_id = 0
        self._file: IO[str] = (directory / f"{process}.jsonl").open("w", buffering=1)

    def invoke(self, operation: str, **fields: object) -> "Invocation":
        with self._lock:
            invocation = Invocation(self, operation, self._next_id)
            self._next_id += 1
            self._write("invoke", operation, invocation.id, fields)
        return invocation

    def note(self, operation: str, **fields: object) -> None:
        """Record an event without duration: invocation and result at once."""
        self.invoke(operation, **fields).ok()

    def result(self, outcome: Outcome, invocation: "Invocation", fields: dict[str, Any]) -> None:
        with self._lock:
            self._write(outcome, invocation.operation, invocation.id, fields)

    def close(self) -> None:
        self._file.close()

    def _write(self, kind: str, operation: str, number: int, fields: dict[str, Any]) -> None:
        line = {"process": self._process, "id": number, "time_ns": time.monotonic_ns(), "type": kind}
        self._file.write(json.dumps(line | {"operation": operation} | fields) + "\n")


@dataclass(frozen=True, slots=True)
class Invocation:
    recorder: Recorder
    operation: str
    id: int

    def ok(self, **fields: object) -> None:
        self.recorder.result("ok", self, fields)

    def fail(self, **fields: object) -> None:
        self.recorder.result("fail", self, fields)

    def info(self, **fields: object) -> None:
        self.recorder.result("info", self, fields)


@dataclass(slots=True)
class Operation:
    """An invocation and its result together."""

    process: str
    id: int
    kind: str
    begun_ns: float
    ended_ns: float = math.inf
    outcome: Outcome = "info"
    fields: dict[str, Any] = field(default_factory=dict[str, Any])

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]

    @property
    def is_ok(self) -> bool:
        return self.outcome == "ok"

    @property
    def place(self) -> tuple[str, int]:
        return self["topic"], self["partition"]

    def __str__(self) -> str:
        shown = json.dumps(self.fields)
        until = "" if math.isinf(self.ended_ns) else f"..{self.ended_ns / 1e9:.6f}"
        return f"{self.begun_ns / 1e9:.6f}{until} {self.process}#{self.id} {self.kind} {self.outcome} {shown[:400]}"


def read(directory: Path) -> list[Operation]:
    """All files of a directory, merged by the time of the invocations."""
    operations = [each for path in sorted(directory.glob("*.jsonl")) for each in merge(_lines(path))]
    return sorted(operations, key=lambda each: each.begun_ns)


def merge(lines: Iterable[dict[str, Any]]) -> Iterator[Operation]:
    open_operations: dict[tuple[str, int], Operation] = {}
    for line in lines:
        process, number, time_ns = line.pop("process"), line.pop("id"), line.pop("time_ns")
        kind, outcome = line.pop("operation"), line.pop("type")
        if outcome == "invoke":
            open_operations[process, number] = Operation(process, number, kind, time_ns, fields=line)
            continue
        operation = open_operations.pop((process, number))
        operation.outcome = outcome
        operation.fields |= line
        # An operation with an unknown outcome may take effect at any later time.
        operation.ended_ns = math.inf if outcome == "info" else time_ns
        yield operation
    yield from open_operations.values()


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open() as lines:
        for line in lines:
            # A killed process may leave half a line.
            if line.endswith("\n"):
                yield json.loads(line)
