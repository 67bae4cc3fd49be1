"""The option --format, and how commands show rows: as a table for people, as JSON or YAML for programs."""

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar, cast

import click

from headwater.printable import printable

FORMATS = ("table", "json", "yaml")

Command = TypeVar("Command", bound=Callable[..., object])
Row = Mapping[str, object]


def format_option(command: Command) -> Command:
    """Adds --format, which reaches the command as `format`."""
    return click.option(
        "--format", type=click.Choice(FORMATS), default="table", show_default=True, help="How to show the result."
    )(command)


def show(rows: Sequence[Row], format: str, columns: Sequence[str] | None = None) -> None:
    """Print `rows`. `columns` are the columns of the table, in order; JSON and YAML always contain all fields."""
    match format:
        case "json":
            click.echo(_json(rows))
        case "yaml":
            click.echo(_yaml(rows), nl=False)
        case _:
            _show_table(rows, list(columns) if columns is not None else _columns_of(rows))


def _json(rows: Sequence[Row]) -> str:
    import orjson

    return orjson.dumps(_plain(rows), option=orjson.OPT_INDENT_2).decode()


def _yaml(rows: Sequence[Row]) -> str:
    import yaml

    return yaml.safe_dump(_plain(rows), sort_keys=False, allow_unicode=True)


def _show_table(rows: Sequence[Row], columns: Sequence[str]) -> None:
    cells = [[_cell(row.get(column)) for column in columns] for row in rows]
    if not sys.stdout.isatty():
        for line in _aligned([[column.upper() for column in columns], *cells]):
            click.echo(line)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for index, column in enumerate(columns):
        numeric = bool(rows) and all(_is_number(row.get(column)) for row in rows)
        # The first column names the row: do not wrap it.
        table.add_column(column.upper(), justify="right" if numeric else "left", no_wrap=index == 0)
    for row in cells:
        # Text, because rich would interpret markup in a plain string.
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]


def _columns_of(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(column for row in rows for column in row))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "true" if value else "false"
        case str():
            return printable(value)
        case bytes():
            return printable(value.decode(errors="backslashreplace"))
        case list() | tuple() | set() | frozenset():
            return ", ".join(_cell(item) for item in _ordered(cast("Collection[object]", value)))
        case _:
            return printable(str(value))


def _plain(value: object) -> Any:
    """Convert a value to types that JSON and YAML have."""
    match value:
        case None | bool() | int() | float():
            return value
        case str():
            # A lone surrogate stands for a byte that was not UTF-8. Neither format can hold one.
            return value.encode(errors="backslashreplace").decode()
        case bytes():
            return value.decode(errors="backslashreplace")
        case Mapping():
            return {str(key): _plain(item) for key, item in cast("Mapping[object, object]", value).items()}
        case list() | tuple() | set() | frozenset():
            return [_plain(item) for item in _ordered(cast("Collection[object]", value))]
        case _:
            return str(value)


def _ordered(items: Collection[object]) -> Collection[object]:
    """Sort sets, so that their order does not change from run to run."""
    return items if isinstance(items, list | tuple) else sorted(items, key=str)
