"""A script that a properties file leads to a secured broker: one run, in a process of its own, and what it tells."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.certificates import Authority
from tests.cli.commands import Commands, Outcome
from tests.client.tls_relay import TlsRelay, secured
from tests.pipelines.program import run_together

pytestmark = pytest.mark.xdist_group("own-spark")

SCRIPT = """
import sys
from pyspark.sql import SparkSession
from headwater.spark import client_options

spark = SparkSession.builder.getOrCreate()
letters = spark.readStream.format("headwater").options(**client_options()).option("subscribe", "letters")
copy = letters.option("startingOffsets", "earliest").load().select("value").writeStream.queryName("copy")
copy = copy.format("headwater").options(**client_options()).option("topic", "copy")
copy.option("checkpointLocation", sys.argv[1]).trigger(availableNow=True).start().awaitTermination()
"""


class Run(NamedTuple):
    outcome: Outcome
    copied: list[str]
    log: str


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    directory = tmp_path_factory.mktemp("secured")
    authority = Authority(directory)
    settings = directory / "client.properties"
    settings.write_text(f"security.protocol=SSL\nssl.ca.location={authority.certificate}\n")
    script = directory / "job.py"
    script.write_text(SCRIPT)
    config = ("--client-config", str(settings))
    with secured(TlsRelay(authority.issue("server"))) as relay:
        commands = Commands(str(relay.endpoint))
        for topic in ("letters", "copy"):
            commands.succeed("topic", "create", topic, "--partitions", "1", *config)
        commands.succeed("produce", "letters", "--quiet", *config, typed=b"a\nb\n")
        job = ["pipeline", "run", str(script), "--master", "local[1]", *config, "--", str(directory / "checkpoint")]
        (outcome,) = run_together(commands.bootstrap, job)
        copied = commands.succeed("consume", "copy", "--from", "beginning", *config).lines
        yield Run(outcome, copied, (directory / ".headwater" / "job" / "spark.log").read_text())


def test_what_the_file_says_reaches_readers_and_writers(run: Run) -> None:
    assert run.outcome.code == 0, run.outcome.error
    assert run.copied == ["a", "b"]


def test_the_last_batch_and_the_end_of_a_query_are_told_although_the_script_ends_at_once(run: Run) -> None:
    *_, last, end = run.outcome.lines

    assert last.startswith("flow copy: completed, batch 0 in ")
    assert last.endswith("lag 0")
    assert end == "stopped"


def test_a_session_does_not_warn_of_what_nobody_can_change(run: Run) -> None:
    """What is left is Java's own, and says that Spark uses its vector instructions."""
    lines = [line for line in run.log.splitlines() if "incubator modules" not in line]

    assert lines == []


def test_a_file_that_is_wrong_is_told_before_spark_starts(commands: Commands, tmp_path: Path) -> None:
    commands.succeed("pipeline", "init", "sales", "--directory", str(tmp_path))
    settings = tmp_path / "client.properties"
    settings.write_text("sasl.mechanisn=PLAIN")

    outcome = commands("pipeline", "validate", str(tmp_path / "sales"), "--client-config", str(settings))

    assert outcome.code == 1
    assert "did you mean 'sasl.mechanism'" in outcome.error
    assert str(settings) in outcome.error
