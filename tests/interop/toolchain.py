"""Builds what comes from outside PyPI, and says what is skipped when it cannot be had.

A missing tool skips its tests. So does a registry that gives nothing, except in CI, where that is an error. What does
not compile is an error everywhere. The output of package clients names hosts, so it goes to a file and not to the
terminal.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import confluent_kafka
import pytest
from benchmarks import archives

from tests.support.spark.java import OPTIONS

_HERE = Path(__file__).parent
_WORK = _HERE / ".work"
_JAVA, _GO = _HERE / "java", _HERE / "go"
_LOG = "resolve.log"
_TIMEOUT_S = 600
_JAVA_HINT = "`apt-get install default-jdk-headless` brings Java, 17 or later is needed"


def _find(tool: str, hint: str) -> str:
    path = shutil.which(tool)
    if path is None:
        pytest.skip(f"{tool} is not on the PATH; {hint}")
    return path


def kcat() -> str:
    return _find("kcat", "`apt-get install kcat` brings it")


def newer_librdkafka() -> Mapping[str, str]:
    """The variables with which kcat loads the librdkafka of confluent-kafka's wheel. Its interface is that of the
    system's, which may be years older."""
    directory = _WORK / "kcat"
    with archives.one_at_a_time(_WORK):
        directory.mkdir(exist_ok=True)
        link, library = directory / "librdkafka.so.1", wheel_librdkafka()
        if not link.exists() or link.resolve() != library:
            link.unlink(missing_ok=True)
            link.symlink_to(library)
    return {"LD_LIBRARY_PATH": str(directory)}


def wheel_librdkafka() -> Path:
    """The librdkafka in confluent-kafka's wheel, which auditwheel gives a name of its own."""
    package = str(confluent_kafka.__file__)
    [library] = Path(package).parent.parent.glob("confluent_kafka.libs/librdkafka*.so.1")
    return library.resolve()


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


def spark_connector_of(properties: Mapping[str, str]) -> str:
    """The archives of an older connector, whose versions are the properties of `spark-versions/pom.xml`."""
    return _class_path(_JAVA / "spark-versions" / "pom.xml", properties).replace(os.pathsep, ",")


def connect_worker() -> Sequence[str]:
    """The command that runs a class of Kafka Connect or MirrorMaker, up to the name of the class."""
    class_path = _class_path(_JAVA / "connect" / "pom.xml")
    return [_find_java(), *OPTIONS, "-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", class_path]


def kafka_server() -> Sequence[str]:
    """The command that runs a class of Apache Kafka's server, up to the name of the class."""
    class_path = _class_path(_JAVA / "kafka" / "pom.xml")
    return [_find_java(), *OPTIONS, "-Xmx256m", "-cp", class_path]


def kafka_authorizer(classes: Path) -> Sequence[str]:
    """The command that runs our program around Kafka's own authorizer, which is compiled into `classes`."""
    return _java_program(_JAVA / "kafka", classes, "AclDecisions")


def dump_log() -> Sequence[str]:
    return tool("DumpLogSegments")


def consumer_groups() -> Sequence[str]:
    return tool("consumer.group.ConsumerGroupCommand")


def tool(name: str) -> Sequence[str]:
    """The command that runs one of Kafka's own tools."""
    class_path = _class_path(_JAVA / "dump-log" / "pom.xml")
    return [_find_java(), *OPTIONS, "-cp", class_path, f"org.apache.kafka.tools.{name}"]


def server_tool(name: str) -> Sequence[str]:
    """The command that runs one of Kafka's own tools that stand beside its server, by the name of its class."""
    return [*kafka_server(), name]


def rewrite(topic: str) -> Sequence[str]:
    """The command that runs our program around the classes of Kafka's broker which know that internal topic."""
    _find("javac", _JAVA_HINT)
    class_path = _class_path(_JAVA / "dump-log" / "pom.xml")
    return [_find_java(), *OPTIONS, "-cp", class_path, str(_JAVA / "dump-log" / "Rewrite.java"), topic]


def go_client(program: Path) -> Sequence[str]:
    """The command that runs our Go program, which is compiled into `program`."""
    return go_program(_GO, ".", program)


def go_program(module: Path, package: str, program: Path) -> Sequence[str]:
    """The command that runs that package of the module, which is compiled into `program`."""
    go = _find("go", "Go 1.26 or later is needed")
    # The program must not depend on how this repository was checked out, nor on a workspace around it.
    environment = {**os.environ, "GOWORK": "off", "GOFLAGS": "-mod=readonly -buildvcs=false"}
    with archives.one_at_a_time(_WORK):
        _resolve([go, "mod", "download"], module, "a module of Go", environment)
    _compile([go, "build", "-o", str(program), package], module, environment)
    return [str(program)]


def rust_program(crate: Path, name: str) -> Sequence[str]:
    """The command that runs that crate, built in the work folder: its dependencies stay there, compiled."""
    cargo = _find("cargo", "Rust 1.85 or later is needed")
    copy = _WORK / "rust" / name
    # The first time takes minutes, for which others need not wait.
    copy.mkdir(parents=True, exist_ok=True)
    with archives.one_at_a_time(copy.parent):
        # Cargo keeps the lock file and what it compiles beside the sources; copies keep their times, or all were stale.
        shutil.copytree(crate, copy, dirs_exist_ok=True)
        _resolve([cargo, "fetch"], copy, f"what {name} needs", os.environ)
        _compile([cargo, "build", "--quiet", "--offline"], copy)
    return [str(copy / "target" / "debug" / "probe")]


def node_program(package: Path, name: str) -> Sequence[str]:
    """The command that runs `probe.js` of that package, in the work folder, where its dependencies are."""
    node, npm = _find("node", "Node.js 20 or later is needed"), _find("npm", "`apt-get install npm` brings it")
    copy = _WORK / "node" / name
    with archives.one_at_a_time(_WORK):
        shutil.copytree(package, copy, dirs_exist_ok=True)
        if _differs(copy / "installed.json", (package / "package.json").read_text()):
            _resolve([npm, "install", "--no-audit", "--no-fund", "--ignore-scripts"], copy, name, os.environ)
            (copy / "installed.json").write_text((package / "package.json").read_text())
    return [node, str(copy / "probe.js")]


def python_environment(
    requirements: Sequence[str], *, wheels_only: bool = True, environment: Mapping[str, str] | None = None
) -> Path:
    """The Python of a virtual environment in the work folder that has these exact versions and nothing of ours.
    `environment` is for what is compiled."""
    release = f"{sys.version_info.major}.{sys.version_info.minor}"
    directory = _WORK / "python" / "-".join((requirements[0], release))
    python, installed = directory / "bin" / "python", directory / "installed"
    with archives.one_at_a_time(_WORK):
        if _differs(installed, "\n".join(requirements)):
            _run_logged([sys.executable, "-m", "venv", "--clear", "--without-pip", str(directory)])
            command = [sys.executable, "-m", "pip", "--python", str(python), "install", *requirements]
            # Our constraints are for our environment.
            variables = {name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"}
            # What is compiled here with a library of ours is for nobody else.
            chosen = ("--only-binary", ":all:") if wheels_only else ("--no-cache-dir",)
            said = _run_logged([*command, *chosen], {**variables, **(environment or {})})
            if said is not None and "No matching distribution" in said:
                pytest.skip(f"{requirements[0]} has no wheel for Python {release}")
            if said is not None:
                _skip_outside_of_ci(f"{requirements[0]} could not be had; interop/.work/{_LOG} says why")
            installed.write_text("\n".join(requirements))
    return python


def librdkafka_flags(version: str) -> Mapping[str, str]:
    """The variables with which a compiler finds that librdkafka: headers and archive of Confluent's module for Go."""
    go = _find("go", "its module of that version brings librdkafka")
    directory = _WORK / "librdkafka" / version
    with archives.one_at_a_time(_WORK):
        if not (directory / "lib" / "librdkafka.a").exists():
            module = f"github.com/confluentinc/confluent-kafka-go@v{version}"
            done = subprocess.run(
                [go, "mod", "download", "-json", module], cwd=_WORK, stdout=subprocess.PIPE, check=False
            )
            if done.returncode != 0:
                _skip_outside_of_ci(f"librdkafka {version} could not be had from the package registry")
            vendored = Path(json.loads(done.stdout)["Dir"]) / "kafka" / "librdkafka_vendor"
            (directory / "include" / "librdkafka").mkdir(parents=True, exist_ok=True)
            for header in vendored.glob("*.h"):
                shutil.copyfile(header, directory / "include" / "librdkafka" / header.name)
            (directory / "lib").mkdir(exist_ok=True)
            shutil.copyfile(vendored / "librdkafka_glibc_linux.a", directory / "lib" / "librdkafka.a")
    return {"CFLAGS": f"-I{directory / 'include'}", "LDFLAGS": f"-L{directory / 'lib'}"}


def _differs(file: Path, text: str) -> bool:
    return not file.exists() or file.read_text() != text


def _run_logged(command: Sequence[str], environment: Mapping[str, str] | None = None) -> str | None:
    """Gives what the command said if it failed."""
    output = subprocess.PIPE
    done = subprocess.run(
        command, env=environment, stdout=output, stderr=subprocess.STDOUT, text=True, timeout=_TIMEOUT_S, check=False
    )
    with (_WORK / _LOG).open("a") as log:
        log.write(done.stdout)
    return None if done.returncode == 0 else done.stdout


def _find_java() -> str:
    return _find("java", _JAVA_HINT)


def _class_path(pom: Path, properties: Mapping[str, str] | None = None) -> str:
    _find("mvn", "`apt-get install maven` brings it")
    try:
        return archives.class_path(pom, _WORK, properties)
    except archives.ArchivesMissing as missing:
        _skip_outside_of_ci(str(missing))


def _resolve(command: Sequence[str], directory: Path, what: str, environment: Mapping[str, str]) -> None:
    output = _WORK / _LOG
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
