"""Projects with sound definitions, and projects with one fault each."""

from pathlib import Path

import pytest

from tests.pipelines.projects import QUICK, feed, project
from tests.support.cli.commands import Commands
from tests.support.spark.sessions import SharedSparkCommands

TOPIC = "faulty-orders"


@pytest.fixture(scope="module", autouse=True)
def _fed(commands: Commands) -> None:
    feed(commands, TOPIC)


def test_sound_definitions_are_valid(spark_commands: SharedSparkCommands, tmp_path: Path) -> None:
    outcome = spark_commands("pipeline", "validate", project(tmp_path, "sound", TOPIC), *QUICK)

    assert outcome.code == 0, outcome.error
    assert outcome.lines == ["sound is valid"]


def test_an_error_in_python_is_reported_with_its_file_and_line(
    spark_commands: SharedSparkCommands, tmp_path: Path
) -> None:
    misspelt = project(tmp_path, "misspelt", TOPIC, "from_json(col(", "from_json(colour(")

    outcome = spark_commands("pipeline", "validate", misspelt, *QUICK)

    assert outcome.code == 1
    assert "transformations/orders.py line 24: NameError: name 'colour' is not defined" in outcome.error


def test_a_missing_table_is_reported_by_name(spark_commands: SharedSparkCommands, tmp_path: Path) -> None:
    lost = project(tmp_path, "lost", TOPIC, 'readStream.table("orders")', 'readStream.table("odrers")')

    outcome = spark_commands("pipeline", "validate", lost, *QUICK)

    assert outcome.code == 1
    assert "odrers" in outcome.error
    assert "correct the name, or define the table or view in the project" in outcome.error


def test_a_failed_run_reports_the_flow_the_records_and_the_reason(
    spark_commands: SharedSparkCommands, tmp_path: Path
) -> None:
    check = "assert_true(quantity > 0, 'no quantity') IS NULL AND"
    failing = project(tmp_path, "failing", TOPIC, "quantity > 0 AND", check)

    outcome = spark_commands("pipeline", "run", failing, "--once", *QUICK)

    assert outcome.code == 1
    assert "flow clean_orders: [USER_RAISED_EXCEPTION] no quantity" in outcome.error
    assert "faulty-orders-0 offsets up to 1" in outcome.error
