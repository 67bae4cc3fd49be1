"""A script on a secured broker, whose security comes from a properties file and an option."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipelines.secured_job import SecuredJob, secured_job
from tests.support.cli.commands import Commands, Outcome
from tests.support.spark.sessions import SharedSparkCommands


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredJob]:
    with secured_job(tmp_path_factory.mktemp("secured")) as job:
        yield job


@pytest.fixture(scope="module")
def outcome(spark_commands: SharedSparkCommands, secured: SecuredJob) -> Outcome:
    return spark_commands(*secured.arguments)


def test_the_settings_of_the_file_reach_readers_and_writers(outcome: Outcome, secured: SecuredJob) -> None:
    assert outcome.code == 0, outcome.error
    assert secured.copied() == ["a", "b"]


def test_the_last_batch_and_the_end_of_a_query_are_reported_although_the_script_ends_at_once(outcome: Outcome) -> None:
    *_, last, end = outcome.lines

    assert last.startswith("flow copy: completed, batch 0 in ")
    assert last.endswith("lag 0")
    assert end == "stopped"


def test_an_error_in_the_file_is_reported_before_spark_starts(commands: Commands, tmp_path: Path) -> None:
    commands.succeed("pipeline", "init", "sales", "--directory", str(tmp_path))
    settings = tmp_path / "client.properties"
    settings.write_text("sasl.mechanisn=PLAIN")

    outcome = commands("pipeline", "validate", str(tmp_path / "sales"), "--client-config", str(settings))

    assert outcome.code == 1
    assert "did you mean 'sasl.mechanism'" in outcome.error
    assert str(settings) in outcome.error
