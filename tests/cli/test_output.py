"""Output of commands: the same rows as a table, JSON or YAML, and safe on a terminal whatever the values hold."""

import json
from uuid import UUID

import click
import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from headwater.cli.output import format_option, show
from headwater.printable import printable

ROWS: list[dict[str, object]] = [
    {"topic": "orders", "partitions": 3, "internal": False, "settings": {"retention.ms": "5"}, "replicas": [1, 2]},
    {"topic": "t", "partitions": 12, "internal": True, "settings": {}, "replicas": []},
]
HOSTILE = "\x1b[2J[bold]evil\n"


def printed(rows: list[dict[str, object]], form: str, columns: list[str] | None = None) -> str:
    runner = CliRunner()

    @click.command()
    def command() -> None:
        show(rows, form, columns)

    result = runner.invoke(command, catch_exceptions=False)
    return result.stdout


def test_a_table_that_is_not_on_a_terminal_is_plain_aligned_text() -> None:
    assert printed(ROWS, "table", ["topic", "partitions", "internal", "replicas"]) == (
        "TOPIC   PARTITIONS  INTERNAL  REPLICAS\norders  3           false     1, 2\nt       12          true\n"
    )


def test_a_table_has_all_columns_unless_some_are_chosen() -> None:
    header = printed([{"a": 1}, {"b": None}], "table").splitlines()
    assert header == ["A  B", "1  -", "-  -"]


def test_no_rows_are_a_header_or_an_empty_list() -> None:
    assert printed([], "table", ["topic"]) == "TOPIC\n"
    assert json.loads(printed([], "json")) == []
    assert yaml.safe_load(printed([], "yaml")) == []


def test_json_and_yaml_have_every_field_in_the_order_of_the_rows() -> None:
    assert json.loads(printed(ROWS, "json", ["topic"])) == ROWS
    assert yaml.safe_load(printed(ROWS, "yaml", ["topic"])) == ROWS
    assert printed(ROWS, "yaml").startswith("- topic: orders\n  partitions: 3\n")


def test_values_of_every_kind_are_shown_in_every_format() -> None:
    identity = UUID(int=7)
    rows: list[dict[str, object]] = [
        {"id": identity, "key": b"k\xff", "tags": frozenset({"b", "a"}), "odd": "x\udcff", "ratio": 0.5, "none": None}
    ]
    expected = {"id": str(identity), "key": "k\\xff", "tags": ["a", "b"], "odd": "x\\udcff", "ratio": 0.5, "none": None}
    assert json.loads(printed(rows, "json")) == [expected]
    assert yaml.safe_load(printed(rows, "yaml")) == [expected]
    cells = printed(rows, "table").splitlines()[1].split("  ")
    assert [cell.strip() for cell in cells if cell] == [str(identity), r"k\xff", "a, b", r"x\udcff", "0.5", "-"]


@given(st.text())
def test_untrusted_text_is_one_visible_line(text: str) -> None:
    assert printable(text).isprintable()
    assert printable(text) == text or not text.isprintable()


def test_a_hostile_value_cannot_control_the_terminal() -> None:
    assert printed([{"value": HOSTILE}], "table") == "VALUE\n\\x1b[2J[bold]evil\\n\n"


def test_a_table_on_a_terminal_aligns_numbers_and_ignores_markup(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "80")
    show([{"value": HOSTILE, "count": 5}, {"value": "x", "count": 10}], "table")
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert [line.split() for line in lines] == [["VALUE", "COUNT"], [r"\x1b[2J[bold]evil\n", "5"], ["x", "10"]]
    assert lines[1].rindex("5") == lines[2].rindex("0"), "numbers end in the same column"


def test_the_format_option_takes_three_formats_and_shows_a_table_by_default() -> None:
    @click.command()
    @format_option
    def command(format: str) -> None:  # noqa: A002
        click.echo(format)

    runner = CliRunner()
    assert runner.invoke(command).output == "table\n"
    assert runner.invoke(command, ["--format", "yaml"]).output == "yaml\n"
    assert runner.invoke(command, ["--format", "xml"]).exit_code == 2
