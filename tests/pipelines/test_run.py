"""Projects and scripts, each in its own process with its own Spark. Few tests, because Java is slow to start."""

import json
import signal
import subprocess
from collections import defaultdict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headwater.pipelines import template
from tests.pipelines.projects import QUICK, order
from tests.support.cli.commands import Commands

pytestmark = pytest.mark.spark

# Long enough for a loaded machine; a pipeline that takes this long to stop hangs.
STOP_TIMEOUT_S = 90

SCRIPT = """
import os, sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.format("headwater").option("subscribe", "letters").option("startingOffsets", "earliest")
rows = rows.option("bootstrap.servers", os.environ["HEADWATER_BOOTSTRAP"]).load()
query = rows.writeStream.format("noop").queryName(sys.argv[1]).option("checkpointLocation", sys.argv[2]).start()
query.awaitTermination()
"""


STUCK_SCRIPT = (
    SCRIPT.replace('.format("noop")', ".foreachBatch(work)")
    .replace(
        "spark = ",
        """
def work(rows, batch_id):
    print("working", flush=True)
    time.sleep(3600)

spark = """,
    )
    .replace("import os, sys", "import os, sys, time")
)


@contextmanager
def started(commands: Commands, *arguments: str) -> Generator[subprocess.Popen[bytes]]:
    with commands.start("pipeline", "run", *arguments, "--format", "json", *QUICK) as process:
        try:
            yield process
        finally:
            process.kill()


def read_until(process: subprocess.Popen[bytes], is_there: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    assert process.stdout is not None
    assert process.stderr is not None
    for line in process.stdout:
        told = json.loads(line)
        if is_there(told):
            return told
    raise AssertionError(process.stderr.read().decode())


def flow(told: dict[str, Any], name: str) -> dict[str, Any]:
    return next((flow for flow in told["flows"] if flow["name"] == name), defaultdict(lambda: None))


def test_a_new_project_runs_as_it_is_until_it_is_stopped(commands: Commands, tmp_path: Path) -> None:
    project = str(tmp_path / "sales")
    template.write(tmp_path, "sales")
    for topic in ("orders", "revenue"):
        commands.succeed("topic", "create", topic, "--partitions", "1")
    orders = [order(1, "tea", 2, 0), order(2, "tea", 4, 0), order(3, "cake", 1, 0), order(4, "cake", -1, 0), "no order"]
    commands.succeed("produce", "orders", "--quiet", typed="\n".join([*orders, order(5, "tea", 1, 5)]).encode())

    with started(commands, project, "--interval", "100ms") as process:
        read_until(process, lambda told: flow(told, "publish_revenue")["rows_out"] == 2)
        (running,) = commands.succeed("pipeline", "status", project, "--format", "json").rows
        # Later input is processed by a later run.
        commands.succeed("produce", "orders", "--quiet", typed=order(6, "tea", 1, 9).encode())
        told = read_until(process, lambda told: flow(told, "publish_revenue")["rows_out"] == 3)
        stopped = commands.succeed("pipeline", "stop", project)
        assert process.wait() == 0

    assert running["status"] == "running"
    assert running["pid"] == process.pid
    assert flow(told, "clean_orders")["rows_in"] == 7
    assert flow(told, "clean_orders")["lag"] == 0
    assert stopped.lines == ["sales is stopped"]
    (status,) = commands.succeed("pipeline", "status", project, "--format", "json").rows
    assert (status["status"], status["phase"], status["error"]) == ("stopped", "stopped", None)
    published = [json.loads(value) for value in commands.succeed("consume", "revenue", "--from", "beginning").lines]
    assert sorted((row["product"], row["minute"], row["orders"], row["revenue"]) for row in published) == [
        ("cake", "2025-06-01T12:00:00.000Z", 1, 2.5),
        ("tea", "2025-06-01T12:00:00.000Z", 2, 15.0),
        ("tea", "2025-06-01T12:05:00.000Z", 1, 2.5),
    ]


def test_a_script_gets_a_session_and_its_queries_stop_with_it(commands: Commands, tmp_path: Path) -> None:
    commands.succeed("topic", "create", "letters", "--partitions", "1")
    commands.succeed("produce", "letters", "--quiet", typed=b"a\nb\nc\n")
    script = tmp_path / "job.py"
    script.write_text(SCRIPT)

    with started(commands, str(script), "copy", str(tmp_path / "checkpoint")) as process:
        told = read_until(process, lambda told: flow(told, "copy")["rows_in"] == 3)
        log = (tmp_path / ".headwater" / "job" / "spark.log").read_text()
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0, process.stderr and process.stderr.read()

    assert flow(told, "copy")["lag"] == 0
    (status,) = commands.succeed("pipeline", "status", str(script), "--format", "json").rows
    assert (status["pipeline"], status["status"]) == ("job", "stopped")
    # A session logs no warning that a user cannot act on. Java's own, about its vector instructions, is left.
    assert [line for line in log.splitlines() if "incubator modules" not in line] == []


def test_a_query_that_does_not_stop_is_interrupted_when_the_grace_is_over(commands: Commands, tmp_path: Path) -> None:
    commands.succeed("topic", "create", "endless", "--partitions", "1")
    commands.succeed("produce", "endless", "--quiet", typed=b"a\n")
    script = tmp_path / "stuck.py"
    script.write_text(STUCK_SCRIPT.replace("letters", "endless"))

    with started(commands, str(script), "copy", str(tmp_path / "checkpoint"), "--grace", "500ms") as process:
        assert process.stdout is not None
        assert b"working\n" in iter(process.stdout.readline, b"")
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=STOP_TIMEOUT_S)

    assert process.returncode == 0, errors
    told = [json.loads(line) for line in output.splitlines()]
    (message,) = [each["message"] for each in told if each["message"] and "interrupted" in each["message"]]
    assert message.startswith("not stopped within 0.5 s, and interrupted: query copy; ")
    assert "--grace" in message
    (status,) = commands.succeed("pipeline", "status", str(script), "--format", "json").rows
    assert (status["status"], status["phase"]) == ("stopped", "stopped")
