"""`session(master=...)` outside of an activated environment, on a cluster whose Python has nothing of Headwater."""

import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.client.cluster import Cluster as Client
from tests.interop import spark_copy_program
from tests.interop.clients.confluent import Confluent
from tests.interop.exchange import Record
from tests.interop.spark_cluster import Cluster, environment
from tests.spark.recipes.recipes import Topics
from tests.support.broker.processes import BrokerProcess
from tests.support.cli.commands import Commands

pytestmark = pytest.mark.interop

PARTITIONS, RECORDS = 2, 4_000
TIMEOUT_S = 600
PATH = "/usr/local/bin:/usr/bin:/bin"
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"


def variables() -> dict[str, str]:
    """Those of a machine on which nobody has activated anything."""
    without = {"VIRTUAL_ENV", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYTHONPATH"}
    return {**{name: value for name, value in environment().items() if name not in without}, "PATH": PATH}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    python = shutil.which(PYTHON, path=PATH)
    if python is None:
        pytest.skip(f"there is no {PYTHON} beside the one of the tests")
    found = subprocess.run([python, "-c", "import headwater"], capture_output=True, check=False)
    if found.returncode == 0:
        pytest.skip(f"{python} has Headwater, so that shipping it would show nothing")
    directory = tmp_path / "cluster"
    directory.mkdir()
    with Cluster(directory, workers=2, variables=variables()) as cluster:
        yield cluster


@pytest.fixture
def source(confluent: Confluent, topic: str) -> str:
    for name in (topic, f"{topic}-copy"):
        confluent.create_topic(name, PARTITIONS, {"retention.ms": "-1"})
    for partition in range(PARTITIONS):
        numbers = range(partition, RECORDS, PARTITIONS)
        confluent.produce(topic, [Record(None, b"%d" % number) for number in numbers], partition=partition)
    return topic


def start(*arguments: str, output: Path) -> "subprocess.Popen[bytes]":
    # Notebooks set the variable to their server, which is no Python for Spark's workers.
    chosen = {**variables(), "PYSPARK_DRIVER_PYTHON": "/bin/false"}
    # The program is a module of these tests, which executors do not need.
    chosen["PYTHONPATH"] = os.pathsep.join((str(Path(spark_copy_program.__file__).parents[2]),))
    command = [sys.executable, "-m", spark_copy_program.__name__, *arguments]
    with output.open("wb") as file:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=chosen)


def end(process: "subprocess.Popen[bytes]") -> int:
    try:
        return process.wait(TIMEOUT_S)
    finally:
        process.kill()
        process.wait()


def test_a_copy_is_exactly_once_on_machines_without_headwater_when_a_worker_is_killed(
    broker: BrokerProcess, cluster: Cluster, source: str, tmp_path: Path
) -> None:
    output = tmp_path / "output.txt"
    copy = f"{source}-copy"
    process = start(cluster.url, broker.bootstrap_servers, source, copy, str(tmp_path), output=output)
    with Client(broker.bootstrap_servers) as client:
        topics = Topics(client)
        deadline = time.monotonic() + TIMEOUT_S
        while not topics.received(copy) and process.poll() is None:
            assert time.monotonic() < deadline, output.read_text()
            time.sleep(0.2)
        assert process.poll() is None, output.read_text() + cluster.log()
        killed = cluster.kill_worker(0)
        code = end(process)

        assert code == 0, output.read_text() + cluster.log()
        assert killed > 0, "the worker had no executor"
        values = Counter(record.value for record in topics.received(copy))
    assert values == Counter(b"%d" % number for number in range(RECORDS))


def test_what_the_command_writes_is_shipped_by_spark_submit(
    broker: BrokerProcess, cluster: Cluster, source: str, tmp_path: Path
) -> None:
    archive, script, output = tmp_path / "headwater.zip", tmp_path / "count.py", tmp_path / "output.txt"
    told = Commands(broker.bootstrap_servers)("spark", "package", "--output", str(archive))
    assert told.code == 0, told.error
    python, submit = (line.split() for line in told.lines[-2:])
    script.write_text(
        "import sys\n"
        "from pyspark.sql import SparkSession\n"
        "reader = SparkSession.builder.getOrCreate().read.format('headwater')\n"
        "reader = reader.option('bootstrap.servers', sys.argv[1])\n"
        "print(reader.option('subscribe', sys.argv[2]).load().count(), 'rows')\n"
    )
    programs = Path(sys.executable).parent
    settings = [f"--conf={name}={value}" for name, value in spark_copy_program.CONFIG.items()]
    command = [str(programs / submit[0]), "--master", cluster.url, *settings, *submit[1:-1], str(script)]
    variable, _, name = python[1].partition("=")
    with output.open("wb") as file:
        process = subprocess.Popen(
            [*command, broker.bootstrap_servers, source],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env={**variables(), "PATH": f"{programs}:{PATH}", variable: name},
        )

    assert end(process) == 0, output.read_text() + cluster.log()
    assert f"{RECORDS} rows" in output.read_text()


def test_a_python_that_is_chosen_is_used_on_all_machines_and_nothing_is_shipped(
    broker: BrokerProcess, cluster: Cluster, source: str, tmp_path: Path
) -> None:
    output = tmp_path / "output.txt"
    setting = f"spark.pyspark.python={sys.executable}"
    process = start(cluster.url, broker.bootstrap_servers, source, "", str(tmp_path), setting, output=output)

    assert end(process) == 0, output.read_text() + cluster.log()
    assert f"{RECORDS} rows" in output.read_text()
    assert not list((tmp_path / "cluster").rglob("headwater-packages"))
