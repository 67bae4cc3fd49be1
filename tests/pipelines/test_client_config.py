"""A script that a properties file leads to a secured broker, and what it tells."""

from pathlib import Path

import pytest

from tests.pipelines.secured_job import SecuredJob
from tests.support.cli.commands import Commands, Outcome

pytestmark = pytest.mark.xdist_group("own-spark")


def test_what_the_file_says_reaches_readers_and_writers(outcomes: dict[str, Outcome], secured: SecuredJob) -> None:
    assert outcomes["secured"].code == 0, outcomes["secured"].error
    assert secured.copied() == ["a", "b"]


def test_the_last_batch_and_the_end_of_a_query_are_told_although_the_script_ends_at_once(
    outcomes: dict[str, Outcome],
) -> None:
    *_, last, end = outcomes["secured"].lines

    assert last.startswith("flow copy: completed, batch 0 in ")
    assert last.endswith("lag 0")
    assert end == "stopped"


def test_a_file_that_is_wrong_is_told_before_spark_starts(commands: Commands, tmp_path: Path) -> None:
    commands.succeed("pipeline", "init", "sales", "--directory", str(tmp_path))
    settings = tmp_path / "client.properties"
    settings.write_text("sasl.mechanisn=PLAIN")

    outcome = commands("pipeline", "validate", str(tmp_path / "sales"), "--client-config", str(settings))

    assert outcome.code == 1
    assert "did you mean 'sasl.mechanism'" in outcome.error
    assert str(settings) in outcome.error
