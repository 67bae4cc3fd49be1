"""Shows a pipeline's progress: as a live table on a terminal, else as one line per change, or as JSON lines."""

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import click

from headwater.cli.duration import duration_text
from headwater.printable import printable

if TYPE_CHECKING:
    from headwater.pipelines.flows import Flow
    from headwater.pipelines.status_reporter import Update


class Lines:
    """Prints one line for each message and for each change of a flow."""

    def __init__(self) -> None:
        self._shown: dict[str, Flow] = {}

    def __call__(self, update: "Update") -> None:
        for flow in update.flows:
            if flow != self._shown.get(flow.name):
                self._shown[flow.name] = flow
                click.echo(flow_line(flow))
        if update.message is not None:
            click.echo(printable(update.message))


class JsonLines:
    """Prints one JSON object with the whole state after each change."""

    def __init__(self) -> None:
        self._shown: dict[str, Any] = {}

    def __call__(self, update: "Update") -> None:
        import orjson

        told = {
            "phase": update.phase,
            "run": update.run_count,
            "message": update.message,
            "flows": list(update.flows.rows()),
        }
        if told != self._shown:
            self._shown = told
            click.echo(orjson.dumps(told).decode())


class LiveTable(AbstractContextManager[Callable[["Update"], None]]):
    def __init__(self) -> None:
        from rich.live import Live

        self._live = Live(auto_refresh=False)
        self._message = ""

    def __enter__(self) -> Callable[["Update"], None]:
        self._live.start()
        return self._show

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def _show(self, update: "Update") -> None:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        self._message = update.message or self._message
        table = Table(box=None, header_style="bold", pad_edge=False)
        for column in ("FLOW", "STATE", "BATCH", "ROWS IN", "IN/S", "ROWS OUT", "OUT/S", "LAG", "BATCH TIME", "ERROR"):
            table.add_column(column, justify="left" if column in {"FLOW", "STATE", "ERROR"} else "right")
        for flow in update.flows:
            table.add_row(*(Text(cell) for cell in cells(flow.as_row())))
        title = Text(f"{update.phase}, run {update.run_count}", style="bold")
        self._live.update(Group(title, table, Text(printable(self._message), style="dim")), refresh=True)


def display(format: str) -> AbstractContextManager[Callable[["Update"], None]]:
    if format == "json":
        return nullcontext(JsonLines())
    return LiveTable() if sys.stdout.isatty() else nullcontext(Lines())


def flow_line(flow: "Flow") -> str:
    parts = [f"flow {flow.name}: {flow.state}"]
    if flow.batch_id is not None:
        parts.append(f"batch {flow.batch_id} in {duration_text(flow.batch_duration_ms or 0)}")
        parts.append(f"{flow.rows_in} rows in ({_number(flow.rows_in_per_second)}/s)")
    if flow.rows_out is not None:
        parts.append(f"{flow.rows_out} rows out ({_number(flow.rows_out_per_second)}/s)")
    if flow.lag is not None:
        parts.append(f"lag {flow.lag}")
    if flow.error is not None:
        parts.append(f"error: {flow.error}")
    return printable(", ".join(parts))


def cells(row: Mapping[str, Any]) -> list[str]:
    duration_ms = row["batch_duration_ms"]
    return [
        printable(row["name"]),
        printable(row["state"]),
        _number(row["batch_id"]),
        _number(row["rows_in"]),
        _number(row["rows_in_per_second"]),
        _number(row["rows_out"]),
        _number(row["rows_out_per_second"]),
        _number(row["lag"]),
        "-" if duration_ms is None else duration_text(duration_ms),
        printable(row["error"] or "-"),
    ]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:g}" if isinstance(value, float) and value < 1e6 else f"{value:.0f}"
