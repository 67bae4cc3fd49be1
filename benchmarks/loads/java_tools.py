"""Kafka's own performance tools, run as its start scripts run them: the Java client with its default settings.

Law: speeds are what a tool prints, and CPU time is counted between two lines of its output, so that the start of Java
is in neither.
"""

import os
import re
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Generic, TypeVar

from benchmarks.apache_kafka import java_missing
from benchmarks.archives import ArchivesMissing, class_path
from benchmarks.processes import Meter, Usage
from benchmarks.work import WORK

# A tool that takes longer is killed.
TIMEOUT_S = 300.0
# The same archives that `make interop` reads our files with.
_POM = Path(__file__).parents[2] / "tests" / "interop" / "java" / "dump-log" / "pom.xml"
_JAVA = (
    *("java", "-Xmx512M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:MaxInlineLevel=15"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true"),
)
_PACKAGE = "org.apache.kafka.tools"
# A tool may complain of each record; its last lines tell enough.
_LINES_MAX = 200

_STEADY = re.compile(r"^(\d+) steady state records sent, (\d+(?:\.\d+)?) records/sec", re.MULTILINE)
_CONSUMED = re.compile(r"^(start\.time, .*)$(?:\n.*)*?\n(\d{4}-\d\d-\d\d .*)$", re.MULTILINE)
_MEAN = re.compile(r"^Avg latency: (\d+\.\d+) ms", re.MULTILINE)
_PERCENTILES = re.compile(r"^Percentiles: 50th = (\d+), 99th = (\d+), 99\.9th = (\d+)", re.MULTILINE)

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class UnknownOutput(Exception):
    """A tool's output is not in the format of its known version; the message quotes the output."""


@dataclass(frozen=True, slots=True)
class Rate:
    records: int
    per_second: float


@dataclass(frozen=True, slots=True)
class RoundTrips:
    """From the sending of a record until it was read; the tool cuts all but the mean to whole milliseconds."""

    mean_ms: float
    p50_ms: float
    p99_ms: float
    p999_ms: float


@dataclass(frozen=True, slots=True)
class ToolOutput(Generic[T_co]):
    """The output of a tool, and the time and CPU time between the lines where it began and ended."""

    result: T_co
    seconds: float
    client: Usage


def missing() -> str:
    """Why the tools cannot run here; empty if they can."""
    if why := java_missing():
        return why
    try:
        return "" if archives() else "Maven named no archives"
    except ArchivesMissing as error:
        return str(error)


def archives() -> str:
    return class_path(_POM, WORK)


def produce(
    ready: Callable[[], None],
    archives: str,
    address: str,
    topic: str,
    records: int,
    warm_up_records: int,
    record_bytes: int,
    acks: str,
) -> ToolOutput[Rate]:
    """The rate is that of `records`, CPU time also that of those before them, which get the producer going."""
    command = [
        *_tool(archives, "ProducerPerformance", address, topic, warm_up_records + records),
        *("--warmup-records", str(warm_up_records), "--record-size", str(record_bytes), "--throughput", "-1"),
        *("--command-property", f"acks={acks}"),
        # Without this the tool ends its threads before it prints the result, and their CPU time would be lost.
        "--print-metrics",
    ]
    return _complete(_run(ready, command, "Warmup first ", _STEADY, parse_produced), records)


def consume(ready: Callable[[], None], archives: str, address: str, topic: str, records: int) -> ToolOutput[Rate]:
    """Consume as the only member of a group; the rate excludes the time until it has joined."""
    command = _tool(archives, "ConsumerPerformance", address, topic, records)
    return _complete(_run(ready, command, "start.time, ", _CONSUMED, parse_consumed), records)


def produce_and_consume(
    ready: Callable[[], None], archives: str, address: str, topic: str, records: int, record_bytes: int, acks: str
) -> ToolOutput[RoundTrips]:
    """One record at a time: each is sent once the one before has been read."""
    command = [
        *_tool(archives, "EndToEndLatency", address, topic, records),
        *("--producer-acks", acks, "--record-size", str(record_bytes)),
    ]
    # It prints the time of the first record as soon as that was read.
    return _run(ready, command, "0\t", _PERCENTILES, parse_round_trips)


def parse_produced(output: str) -> Rate:
    found = _find(_STEADY, output)
    return Rate(int(found[1]), float(found[2]))


def parse_consumed(output: str) -> Rate:
    names, values = (line.split(", ") for line in _find(_CONSUMED, output).groups())
    columns = dict(zip(names, values, strict=False))
    try:
        return Rate(int(columns["data.consumed.in.nMsg"]), float(columns["fetch.nMsg.sec"]))
    except (KeyError, ValueError) as error:
        raise UnknownOutput(f"the tool printed no rate that is known here:\n{output}") from error


def parse_round_trips(output: str) -> RoundTrips:
    return RoundTrips(float(_find(_MEAN, output)[1]), *(float(each) for each in _find(_PERCENTILES, output).groups()))


def _find(pattern: re.Pattern[str], output: str) -> re.Match[str]:
    found = pattern.search(output)
    if found is None:
        raise UnknownOutput(f"the tool printed nothing like {pattern.pattern!r}, but:\n{output}")
    return found


def _complete(told: ToolOutput[Rate], records: int) -> ToolOutput[Rate]:
    if told.result.records != records:
        raise RuntimeError(f"the tool counted {told.result.records} of {records} records")
    return told


def _tool(archives: str, name: str, address: str, topic: str, records: int) -> Sequence[str]:
    where = ("--bootstrap-server", address, "--topic", topic, "--num-records", str(records))
    return [*_JAVA, "-cp", archives, f"{_PACKAGE}.{name}", *where]


def _run(
    ready: Callable[[], None],
    command: Sequence[str],
    first: str,
    last: re.Pattern[str],
    parse: Callable[[str], T],
) -> ToolOutput[T]:
    """`first` begins the line after which CPU time counts, `last` matches the output up to the line that ends it."""
    lines = deque[str](maxlen=_LINES_MAX)
    with _running(command) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if line.startswith(first):
                break
        else:
            raise UnknownOutput(f"the tool never said {first!r}, but:\n{''.join(lines)}")
        ready()
        meter = Meter([process.pid])
        started = time.perf_counter()
        for line in process.stdout:
            lines.append(line)
            if last.search("".join(lines)):
                break
        seconds = time.perf_counter() - started
        # The process is still there to be read, even if it has ended: nobody has waited for it.
        used = meter.read()
        result = parse("".join(lines))
        # Read the remaining output, because the tool would block on a full pipe for ever.
        for line in process.stdout:
            lines.append(line)
        if code := process.wait():
            raise RuntimeError(f"the tool ended with code {code} and said:\n{''.join(lines)}")
    return ToolOutput(result, seconds, used)


@contextmanager
def _running(command: Sequence[str]) -> Generator[subprocess.Popen[str]]:
    """A running tool, which is always ended: without its broker it would retry for ever."""
    # Java would print numbers as the user's language has them.
    environment = {**os.environ, "LC_ALL": "C"}
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment,
    )
    timer = Timer(TIMEOUT_S, process.kill)
    timer.start()
    try:
        with process:
            try:
                yield process
            finally:
                timer.cancel()
                process.kill()
    finally:
        signal.signal(signal.SIGTERM, before)
