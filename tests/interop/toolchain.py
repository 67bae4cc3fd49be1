"""Builds what comes from outside PyPI, and says what is skipped when it cannot be had.

A missing tool skips its tests. So does a registry that gives nothing, except in CI, where that is an error. What does
not compile is an error everywhere. The output of package clients names hosts, so it goes to a file and not to the
terminal.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import pytest
from benchmarks import archives

from tests.support.spark.java import OPTIONS

_HERE = Path(__file__).parent
_WORK = _HERE / ".work"
_JAVA, _GO = _HERE / "java", _HERE / "go"
_TIMEOUT_S = 600
_JAVA_HINT = "`apt-get install default-jdk-headless` brings Java, 17 or later is needed"


def _find(tool: str, hint: str) -> str:
    path = shutil.which(tool)
    if path is None:
        pytest.skip(f"{tool} is not on the PATH; {hint}")
    return path


def kcat() -> str:
    return _find("kcat", "`apt-get install kcat` brings it")


def librdkafka_version(kcat: str) -> tuple[int, ...]:
    """That of the library in kcat."""
    done = subprocess.run([kcat, "-V"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
    found = re.search(r"librdkafka (\d+)\.(\d+)\.(\d+)", done.stdout + done.stderr)
    return tuple(map(int, found.groups())) if found is not None else (0,)


def java_client(classes: Path) -> Sequence[str]:
    """The command that runs our Java program, which is compiled into `classes`."""
    return _java_program(_JAVA, classes, "Interop")


def streams_copier(classes: Path) -> Sequence[str]:
    """The command that runs our Kafka Streams application, which is compiled into `classes`."""
    return _java_program(_JAVA / "streams", classes, "StreamsCopier")


def java_version_probe(classes: Path, version: str) -> Sequence[str]:
    """The command that tries a Java client of that version, up to the bootstrap servers and a name."""
    return _java_program(_JAVA / "versions", classes, "VersionProbe", {"kafka.version": version})


def _java_program(
    directory: Path, classes: Path, main: str, properties: Mapping[str, str] | None = None
) -> Sequence[str]:
    java, compiler = _find_java(), _find("javac", _JAVA_HINT)
    class_path = _class_path(directory / "pom.xml", properties)
    sources = [path.name for path in directory.glob("*.java")]
    _compile([compiler, "-d", str(classes), "-cp", class_path, *sources], directory)
    return [java, *OPTIONS, "-cp", f"{classes}{os.pathsep}{class_path}", main]


def spark_connector() -> Sequence[str]:
    """The archives of Spark's own Kafka connector, for `spark.jars`."""
    return _class_path(_JAVA / "spark" / "pom.xml").split(os.pathsep)


def kafka_server() -> Sequence[str]:
    """The command that runs a class of Apache Kafka's server, up to the name of the class."""
    class_path = _class_path(_JAVA / "kafka" / "pom.xml")
    return [_find_java(), *OPTIONS, "-Xmx256m", "-cp", class_path]


def kafka_authorizer(classes: Path) -> Sequence[str]:
    """The command that runs our program around Kafka's own authorizer, which is compiled into `classes`."""
    return _java_program(_JAVA / "kafka", classes, "AclDecisions")


def dump_log() -> Sequence[str]:
    return _tool("DumpLogSegments")


def consumer_groups() -> Sequence[str]:
    return _tool("consumer.group.ConsumerGroupCommand")


def _tool(name: str) -> Sequence[str]:
    """The command that runs one of Kafka's own tools."""
    class_path = _class_path(_JAVA / "dump-log" / "pom.xml")
    return [_find_java(), *OPTIONS, "-cp", class_path, f"org.apache.kafka.tools.{name}"]


def rewrite(topic: str) -> Sequence[str]:
    """The command that runs our program around the classes of Kafka's broker which know that internal topic."""
    _find("javac", _JAVA_HINT)
    class_path = _class_path(_JAVA / "dump-log" / "pom.xml")
    return [_find_java(), *OPTIONS, "-cp", class_path, str(_JAVA / "dump-log" / "Rewrite.java"), topic]


def go_client(program: Path) -> Sequence[str]:
    """The command that runs our Go program, which is compiled into `program`."""
    go = _find("go", "Go 1.26 or later is needed")
    # The program must not depend on how this repository was checked out, nor on a workspace around it.
    environment = {**os.environ, "GOWORK": "off", "GOFLAGS": "-mod=readonly -buildvcs=false"}
    with archives.one_at_a_time(_WORK):
        _resolve([go, "mod", "download"], _GO, "franz-go", environment)
    _compile([go, "build", "-o", str(program), "."], _GO, environment)
    return [str(program)]


def _find_java() -> str:
    return _find("java", _JAVA_HINT)


def _class_path(pom: Path, properties: Mapping[str, str] | None = None) -> str:
    _find("mvn", "`apt-get install maven` brings it")
    try:
        return archives.class_path(pom, _WORK, properties)
    except archives.ArchivesMissing as missing:
        _skip_outside_of_ci(str(missing))


def _resolve(command: Sequence[str], directory: Path, what: str, environment: Mapping[str, str]) -> None:
    output = _WORK / "resolve.log"
    with output.open("ab") as log:
        done = subprocess.run(
            command, cwd=directory, env=environment, stdout=log, stderr=log, timeout=_TIMEOUT_S, check=False
        )
    if done.returncode != 0:
        _skip_outside_of_ci(f"{what} could not be had from the package registry; interop/.work/{output.name} says why")


def _skip_outside_of_ci(reason: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        raise RuntimeError(reason)
    pytest.skip(reason)


def _compile(command: Sequence[str], directory: Path, environment: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr
