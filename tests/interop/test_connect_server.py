"""Pipelines through Spark Connect. Spark starts the server itself, once for a process: all is asked in one script."""

import pytest

from tests.support.broker.processes import BrokerProcess
from tests.support.cli.commands import Commands, Outcome
from tests.support.cli.program import run_together

pytestmark = pytest.mark.interop

SCRIPT = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from headwater.pipelines import run
from headwater.pipelines import project
from headwater.pipelines.sessions import SparkTarget
from headwater.spark import client_options, session

spark = SparkSession.builder.getOrCreate()
letters = spark.read.format("headwater").options(**client_options()).option("subscribe", "remote-letters").load()
print(type(spark).__module__, session("another") is spark, letters.count())
run.validate(project.load(Path(sys.argv[1])), SparkTarget(remote="local[1]"))
print("valid")
"""


@pytest.fixture(scope="module")
def outcome(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    commands = Commands(broker.bootstrap_servers)
    directory = tmp_path_factory.mktemp("remote")
    script = directory / "job.py"
    script.write_text(SCRIPT)
    commands.succeed("topic", "create", "remote-letters", "--partitions", "1")
    commands.succeed("produce", "remote-letters", "--quiet", typed=b"a\nb\n")
    commands.succeed("pipeline", "init", "sales", "--directory", str(directory))
    run = ["pipeline", "run", str(script), "--remote", "local[1]", "--", str(directory / "sales")]
    (outcome,) = run_together(commands.bootstrap, run)
    return outcome


def test_a_script_is_given_the_session_whichever_way_it_asks(outcome: Outcome) -> None:
    assert "pyspark.sql.connect.session True 2" in outcome.lines, outcome.error


def test_a_project_that_never_ran_is_valid(outcome: Outcome) -> None:
    assert outcome.code == 0, outcome.error
    assert "valid" in outcome.lines
