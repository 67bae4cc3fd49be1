"""The brokers that can be measured. A peer is one more class here that gives what `System` asks for, and one line in
`SYSTEMS`; all cases but `peers` and `queues` know nothing but the Kafka protocol.
"""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from enum import StrEnum
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Protocol

from benchmarks import apache_kafka
from benchmarks.archives import ArchivesMissing, class_path
from benchmarks.broker_process import BrokerProcess
from benchmarks.peers.nats import Nats
from benchmarks.peers.rabbitmq import Rabbitmq, RabbitmqQueues
from benchmarks.peers.redis import Redis
from benchmarks.ports import port_of, reserved_port
from benchmarks.processes import memory_bytes
from benchmarks.scale import GIB
from benchmarks.work import WORK
from headwater.config.broker import BrokerConfig
from headwater.config.declaration import Setting
from headwater.config.listener_overrides import find_overridable
from headwater.protocol.batches.records import COMPILED

# The same archives that `make interop` tests our client with.
_KAFKA_POM = Path(__file__).parents[1] / "tests" / "interop" / "java" / "kafka" / "pom.xml"

KAFKA_PROTOCOL = "kafka"
# By topic; the interval is what headwater.flush.interval.ms is by default.
_KAFKA_FLUSH = {"os": {}, "interval": {"flush.ms": "1000"}, "ack": {"flush.messages": "1"}}


class Flush(StrEnum):
    """When an acks=all acknowledgement leaves: after the page cache has the record, as in Kafka, or after the disk.
    With an interval the disk has it soon after."""

    OS = "os"
    INTERVAL = "interval"
    ACK = "ack"


class System(Protocol):
    name: str
    about: str
    protocol: str
    """What its clients speak: a case runs on the systems whose protocol it knows."""

    def missing(self) -> str:
        """Why it cannot be measured here; empty if it can."""
        ...

    def describe(self) -> Mapping[str, str]:
        """Version, command line and settings, for whoever reads or repeats the result."""
        ...

    def start(self, directory: Path, settings: Mapping[str, str] = {}) -> BrokerProcess:
        """A broker that keeps its data in `directory`, new or from an earlier start, and accepts requests. The settings
        are added to its own; in `listeners` every port is 0, and PLAINTEXT comes first."""
        ...

    def topic_settings(self, flush: Flush) -> Mapping[str, str]: ...

    def broker_settings(self, flush: Flush) -> Mapping[str, str]:
        """The same for all topics, internal ones included."""
        ...


class Headwater:
    """This broker, or the one of another checkout."""

    protocol = KAFKA_PROTOCOL

    def __init__(self, name: str, about: str, checkout: str | None) -> None:
        self.name = name
        self.about = about
        self._checkout = checkout

    def missing(self) -> str:
        if self._checkout is None:
            return "the variable BENCH_BASELINE names no checkout to compare with"
        return "" if (Path(self._checkout) / "src" / "headwater").is_dir() else f"{self._checkout} is no checkout"

    def describe(self) -> Mapping[str, str]:
        return {
            "version": version("headwater"),
            "command": " ".join(["python", *self._command(Path("DIR"))[1:]]),
            "record codec": "compiled" if COMPILED else "pure Python",
            **{name: value for name, value in os.environ.items() if name.startswith("HEADWATER_")},
        }

    def start(self, directory: Path, settings: Mapping[str, str] = {}) -> BrokerProcess:
        # An installed broker has its bytecode on disk, so this one has, too, whatever the environment says.
        environment = {
            **os.environ,
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": str(WORK / "bytecode"),
            "PYTHONPATH": str(Path(self._checkout or ".", "src").absolute()),
            # The command takes no secrets, which the list of processes would show.
            **{_declared(name).variable: value for name, value in settings.items() if _declared(name).sensitive},
        }
        broker = BrokerProcess(self._command(directory, settings), directory, environment)
        ready = broker.wait_for_line("ready ")
        # The first listener is `kafka`, the others `kafka.NAME`.
        found = dict(word.split("=", 1) for word in ready.split()[1:])
        broker.address = found["kafka"]
        broker.addresses = {name.removeprefix("kafka."): address for name, address in found.items()}
        return broker

    def topic_settings(self, flush: Flush) -> Mapping[str, str]:
        return {"headwater.flush": flush}

    def broker_settings(self, flush: Flush) -> Mapping[str, str]:
        return {"headwater.flush": flush}

    def _command(self, directory: Path, settings: Mapping[str, str] = {}) -> list[str]:
        serve = [sys.executable, "-m", "headwater.cli.main", "serve"]
        where = ["--data-dir", str(directory / "data")]
        if "listeners" not in settings:
            where += ["--kafka", "127.0.0.1:0"]
        chosen = {"headwater.log.level": "warning", **settings}
        chosen = {name: value for name, value in chosen.items() if not _declared(name).sensitive}
        return [*serve, *where, *(word for name, value in chosen.items() for word in ("--set", f"{name}={value}"))]


def _declared(name: str) -> Setting:
    return find_overridable(BrokerConfig, name, "broker")


class ApacheKafka:
    """Kafka's own server with the options of Java that are given, and Kafka's defaults for everything else."""

    protocol = KAFKA_PROTOCOL

    def __init__(self, name: str, about: str, java_options: Sequence[str], memory_bytes_min: int) -> None:
        self.name = name
        self.about = about
        self._java_options = java_options
        self._memory_bytes_min = memory_bytes_min

    def missing(self) -> str:
        if why := apache_kafka.java_missing():
            return why
        if memory_bytes() < self._memory_bytes_min:
            return f"it needs a machine with {self._memory_bytes_min / GIB:.0f} GiB of memory"
        try:
            return "" if self._class_path else "Maven named no archives"
        except ArchivesMissing as error:
            return str(error)

    def describe(self) -> Mapping[str, str]:
        archives = (Path(entry).stem for entry in self._class_path.split(os.pathsep))
        return {
            "version": next(name.rpartition("-")[2] for name in archives if name.startswith("kafka_")),
            "java": apache_kafka.java_version(),
            "command": " ".join(["java", *self._java_options, "-cp", "ARCHIVES", "kafka.Kafka", "server.properties"]),
            **apache_kafka.server_settings(Path("DIR"), {apache_kafka.PLAINTEXT: 9092}, 9093, {}),
        }

    def start(self, directory: Path, settings: Mapping[str, str] = {}) -> BrokerProcess:
        with ExitStack() as reserved:
            # The ports stay reserved until the server has them.
            names = apache_kafka.listener_names(settings.get("listeners"))
            ports = {name: port_of(reserved.enter_context(reserved_port())) for name in names}
            return apache_kafka.start(
                ["java", *self._java_options, "-cp", self._class_path],
                directory,
                ports=ports,
                controller_port=port_of(reserved.enter_context(reserved_port())),
                settings={name: value for name, value in settings.items() if name != "listeners"},
            )

    def topic_settings(self, flush: Flush) -> Mapping[str, str]:
        return _KAFKA_FLUSH[flush]

    def broker_settings(self, flush: Flush) -> Mapping[str, str]:
        names = {"flush.ms": "log.flush.interval.ms", "flush.messages": "log.flush.interval.messages"}
        return {names[name]: value for name, value in self.topic_settings(flush).items()}

    @cached_property
    def _class_path(self) -> str:
        return class_path(_KAFKA_POM, WORK)


HEADWATER = Headwater("headwater", "this broker", str(Path(__file__).parent.parent))
# For a change that must not cost anything: `git worktree add DIR REVISION`, compile it there with `python setup.py
# build_ext --inplace`, and run BENCH_BASELINE=DIR python -m benchmarks --system headwater --system baseline
BASELINE = Headwater(
    "baseline", "the broker of the checkout that BENCH_BASELINE names", os.environ.get("BENCH_BASELINE")
)
KAFKA = ApacheKafka(
    "kafka",
    "Apache Kafka as its start script runs it (1 GiB of heap)",
    (
        *("-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
        *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-XX:MaxInlineLevel=15"),
        "-Djava.awt.headless=true",
    ),
    memory_bytes_min=3 * GIB,
)
KAFKA_TUNED = ApacheKafka(
    "kafka-tuned",
    "Apache Kafka with the Java options that its documentation recommends for production (6 GiB of heap)",
    (
        *("-Xmx6g", "-Xms6g", "-XX:MetaspaceSize=96m", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
        *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:G1HeapRegionSize=16M", "-XX:MinMetaspaceFreeRatio=50"),
        *("-XX:MaxMetaspaceFreeRatio=80", "-XX:+ExplicitGCInvokesConcurrent"),
    ),
    memory_bytes_min=12 * GIB,
)
NATS, REDIS, RABBITMQ = Nats(), Redis(), Rabbitmq()
RABBITMQ_CLASSIC, RABBITMQ_QUORUM = RabbitmqQueues("classic"), RabbitmqQueues("quorum")
SYSTEMS: dict[str, System] = {
    each.name: each
    for each in (
        *(HEADWATER, BASELINE, KAFKA, KAFKA_TUNED),
        *(NATS, REDIS, RABBITMQ, RABBITMQ_CLASSIC, RABBITMQ_QUORUM),
    )
}
# The system that all others are compared with.
PEER = KAFKA.name


def selected(names: Iterable[str]) -> tuple[list[System], dict[str, str]]:
    """The systems of these names, or all, and the reasons for those that cannot be measured here."""
    wanted = set(names) or set(SYSTEMS)
    if unknown := wanted - set(SYSTEMS):
        raise LookupError(f"--system {', '.join(sorted(unknown))}: the systems are {', '.join(SYSTEMS)}")
    reasons = {name: system.missing() for name, system in SYSTEMS.items() if name in wanted}
    available = [SYSTEMS[name] for name, why in reasons.items() if not why]
    return available, {name: why for name, why in reasons.items() if why}
