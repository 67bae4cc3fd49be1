"""`headwater queue`: the group itself. Its commands have tests of their own."""

import pytest
from click.testing import CliRunner

from headwater.cli.main import headwater
from headwater.cli.queue import COMMANDS, queue


def test_help_lists_the_commands() -> None:
    outcome = CliRunner().invoke(headwater, ["queue", "--help"])

    assert outcome.exit_code == 0
    for name, command in COMMANDS.items():
        assert name in outcome.output
        assert command.help.split()[0] in outcome.output


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_found(name: str) -> None:
    outcome = CliRunner().invoke(queue, [name, "--help"])

    assert outcome.exit_code == 0
    assert f"queue {name}" in outcome.output


def test_a_misspelt_command_is_an_error_with_a_hint() -> None:
    outcome = CliRunner().invoke(headwater, ["queue", "dead-leters"])

    assert outcome.exit_code == 2
    assert "unknown command 'dead-leters'; did you mean 'dead-letters'?" in outcome.output
