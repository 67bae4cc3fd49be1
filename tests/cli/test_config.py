"""`headwater config` and the frame that all commands share: lazy loading, exit codes, completion."""

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

from headwater.cli import main
from headwater.cli.main import COMMANDS, headwater, run
from headwater.cli.subcommands.reference import reference
from headwater.config.broker import BrokerConfig
from headwater.config.declaration import settings_of
from headwater.config.topic import TopicConfig
from headwater.errors import ConfigError

DOCUMENT = Path(__file__).parents[2] / "docs" / "configuration.md"


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Isolate the test from settings of the environment and of files."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("HEADWATER_")]:
        monkeypatch.delenv(name)


# -- headwater config


def test_effective_settings_are_printed_with_their_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "headwater.toml").write_text('"num.partitions" = 6')
    monkeypatch.setenv("HEADWATER_NODE_ID", "4")

    assert run(["config", "--format", "json"]) == 0

    rows = {row["setting"]: row for row in json.loads(capsys.readouterr().out)}
    assert set(rows) == set(settings_of(BrokerConfig))
    assert rows["num.partitions"] == {"setting": "num.partitions", "value": "6", "source": "file headwater.toml"}
    assert (rows["node.id"]["value"], rows["node.id"]["source"]) == ("4", "environment HEADWATER_NODE_ID")
    assert (rows["broker.rack"]["value"], rows["broker.rack"]["source"]) == (None, "default")


def test_a_chosen_file_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "other.toml"
    file.write_text("node.id = 9")
    assert run(["config", "--config", str(file), "--format", "yaml"]) == 0
    rows = {row["setting"]: row["value"] for row in yaml.safe_load(capsys.readouterr().out)}
    assert rows["node.id"] == "9"


def test_a_secret_is_hidden(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HEADWATER_PLAIN_SASL_JAAS_CONFIG", 'PlainLoginModule required user_ann="planted";')

    assert run(["config", "--format", "json"]) == 0

    out = capsys.readouterr().out
    assert "planted" not in out
    assert {row["setting"]: row["value"] for row in json.loads(out)}["plain.sasl.jaas.config"] == "[hidden]"


def test_a_wrong_setting_is_one_line_and_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADWATER_NODE_ID", "-1")
    assert run(["config"]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == "error: environment HEADWATER_NODE_ID: node.id: -1 is out of range (at least 0)\n"


def test_the_documented_reference_matches_the_declarations(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "--reference"]) == 0
    assert capsys.readouterr().out == DOCUMENT.read_text(), (
        "run `headwater config --reference > docs/configuration.md` after changing a setting"
    )


def test_the_reference_has_every_setting_and_rows_of_equal_width() -> None:
    lines = reference().splitlines()
    for declared in (*settings_of(BrokerConfig).values(), *settings_of(TopicConfig).values()):
        rows = [line for line in lines if line.startswith(f"| `{declared.name}` |")]
        assert rows, declared.name
        assert all(declared.documentation in row for row in rows)
    assert {line.count(" | ") for line in lines if line.startswith("| ")} == {5}


# -- the frame


def test_help_lists_every_command_without_importing_any() -> None:
    script = (
        "import sys; from headwater.cli.main import run; run(['--help']);"
        "print(sorted(name for name in sys.modules if name.startswith('headwater.') or name in ('rich', 'yaml')))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    output = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment
    ).stdout
    assert all(f"  {name} " in output for name in COMMANDS)
    assert output.endswith("['headwater.cli', 'headwater.cli.lazy_group', 'headwater.cli.main', 'headwater.errors']\n")


def test_a_misspelt_command_is_refused_with_the_nearest_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["conifg"]) == 2
    assert "unknown command 'conifg'; did you mean 'config'?" in capsys.readouterr().err
    assert run(["xyzzy"]) == 2
    assert "did you mean" not in capsys.readouterr().err


def test_wrong_usage_is_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "--format", "xml"]) == 2
    assert "xml" in capsys.readouterr().err
    assert run([]) == 2
    assert "Usage: headwater" in capsys.readouterr().err


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("headwater")


def test_the_version_of_an_uninstalled_source_tree_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "path", [str(Path(main.__file__).parents[2])])
    monkeypatch.setattr(sys, "path_importer_cache", {})
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("headwater")


@pytest.mark.parametrize(
    ("raised", "code", "message"),
    [
        (ConfigError("no such thing"), 1, "error: no such thing\n"),
        (
            FileNotFoundError(2, "No such file or directory", "x"),
            1,
            "error: [Errno 2] No such file or directory: 'x'\n",
        ),
        (click.ClickException("no"), 1, "error: no\n"),
        (
            click.UsageError("wrong"),
            2,
            "Usage: headwater config [OPTIONS]\nTry 'headwater config --help' for help.\n\nError: wrong\n",
        ),
        (KeyboardInterrupt(), 130, "\n"),
        (click.Abort(), 130, ""),
    ],
)
def test_every_kind_of_failure_has_its_exit_code(
    raised: BaseException,
    code: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail() -> None:
        raise raised

    monkeypatch.setattr("headwater.cli.config.config", click.Command("config", callback=fail))
    assert run(["config"]) == code
    assert capsys.readouterr().err == message


def test_a_command_may_choose_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.cli.config.config", click.Command("config", callback=lambda: 1))
    assert run(["config"]) == 1


def test_an_entry_point_exits_with_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["headwater", "--help"])
    with pytest.raises(SystemExit) as exited:
        main.main()
    assert exited.value.code == 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_completion_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    assert f"_HEADWATER_COMPLETE={shell}_complete" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "index", "completed"),
    [
        ("headwater co", 1, {"consume", "config", "completion"}),
        ("headwater --v", 1, {"--version"}),
        ("headwater config --re", 2, {"--reference"}),
        ("headwater xyzzy --re", 2, set[str]()),
        ("headwater config --format ", 3, {"table", "json", "yaml"}),
    ],
)
def test_commands_options_and_choices_are_completed(words: str, index: int, completed: set[str]) -> None:
    environment = {"_HEADWATER_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(index)}
    result = CliRunner().invoke(headwater, prog_name="headwater", env=environment)
    assert result.exit_code == 0
    assert {line.partition(",")[2] for line in result.output.splitlines() if line} == completed
