"""Apache Kafka's own server: one node that is broker and controller (KRaft), on loopback, from archives of Maven.

The caller supplies the archives, the listeners, and any other settings that differ from Kafka's defaults.
"""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.broker_process import START_TIMEOUT_S, BrokerProcess
from headwater.client.cluster import Cluster
from headwater.client.errors import ClientError

# Any 16 bytes in URL-safe base64. A data directory must keep the id that it was formatted with.
CLUSTER_ID = "aGVhZHdhdGVyLWthZmthMQ"
PLAINTEXT = "PLAINTEXT"
JAVA_RELEASE_MIN = 17

_FORMATTED = "meta.properties"
_FORMAT_TIMEOUT_S = 120
_PAUSE_S = 0.02
_LOG_OPTIONS = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",)
# A single node has no other brokers for replicas.
_ONE_NODE = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": PLAINTEXT,
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}


def start(
    java: Sequence[str],
    directory: Path,
    *,
    ports: Mapping[str, int],
    controller_port: int,
    settings: Mapping[str, str] | None = None,
    format_options: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> BrokerProcess:
    """Start a server on `directory`, which may hold data of an earlier start, and wait until it answers requests.

    `java` is the command up to the class path, with the options of the virtual machine. `ports` has one for each
    listener, named as its protocol is; PLAINTEXT must be among them, for brokers talk to themselves there.
    """
    file = directory / "server.properties"
    file.write_text(_properties(server_settings(directory, ports, controller_port, settings or {})))
    environment = os.environ if environment is None else environment
    if not (directory / "data" / _FORMATTED).exists():
        _format([*java, *_LOG_OPTIONS, "kafka.tools.StorageTool"], file, format_options, environment)
    process = BrokerProcess([*java, *_LOG_OPTIONS, "kafka.Kafka", str(file)], directory, environment)
    process.addresses = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
    process.address = process.addresses[PLAINTEXT]
    try:
        _wait_until_ready(process)
    except BaseException:
        process.kill()
        raise
    return process


def listener_names(listeners: str | None) -> Sequence[str]:
    """Those in a setting `listeners`, each with port 0; without it, the one of every server."""
    return [each.partition("://")[0] for each in listeners.split(",")] if listeners else [PLAINTEXT]


def java_missing() -> str:
    """Why Java cannot run Kafka's archives here; empty if it can."""
    if shutil.which("java") is None:
        return "java is not on the PATH; `apt-get install default-jre-headless` brings it, 17 or later is needed"
    if java_release() < JAVA_RELEASE_MIN:
        return f"{java_version()} is too old: {JAVA_RELEASE_MIN} or later is needed"
    return ""


def java_version() -> str:
    done = subprocess.run(["java", "-version"], capture_output=True, text=True, timeout=_FORMAT_TIMEOUT_S, check=True)
    # Java first prints the options that the environment sets for every Java.
    return next((line for line in done.stderr.splitlines() if " version " in line), "java of an unknown version")


def java_release() -> int:
    """The major release, 0 if unknown. Before Java 9 releases were named 1.8 and so on."""
    found = re.search(r'version "(\d+)', java_version())
    return int(found[1]) if found else 0


def server_settings(
    directory: Path, ports: Mapping[str, int], controller_port: int, settings: Mapping[str, str]
) -> Mapping[str, str]:
    """All that differs from Kafka's defaults."""
    listeners = {**ports, "CONTROLLER": controller_port}
    protocols = {name: name for name in ports} | {"CONTROLLER": PLAINTEXT}
    return {
        **_ONE_NODE,
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in listeners.items()),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        "log.dirs": str(directory / "data"),
        **settings,
    }


def _properties(settings: Mapping[str, str]) -> str:
    return "".join(f"{name}={_escaped(value)}\n" for name, value in settings.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def _format(tool: Sequence[str], file: Path, options: Sequence[str], environment: Mapping[str, str]) -> None:
    command = [*tool, "format", "--cluster-id", CLUSTER_ID, "--config", str(file), *options]
    done = subprocess.run(
        command, env={**environment}, capture_output=True, text=True, timeout=_FORMAT_TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"the data directory could not be formatted:\n{done.stdout}{done.stderr}")


def _wait_until_ready(process: BrokerProcess) -> None:
    """Wait until the server lists itself in the cluster's metadata, which every client asks for first."""
    deadline = process.started + START_TIMEOUT_S
    while True:
        try:
            with Cluster(process.address) as cluster:
                if cluster.metadata().brokers:
                    return
        except ClientError as error:
            if time.monotonic() > deadline or not process.is_running:
                said = process.output.read_text(errors="replace")[-2000:]
                raise RuntimeError(f"Kafka did not start: {error}; it said:\n{said}") from error
        time.sleep(_PAUSE_S)
