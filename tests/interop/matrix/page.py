"""`docs/compatibility.md`, written from the results of the matrix, and read again by the test that keeps it true."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.interop.matrix.declaration import NOTES, STEPS

PAGE = Path(__file__).parents[3] / "docs" / "compatibility.md"

_HEAD = """# Compatibility

Every client of Apache Kafka is a client of Headwater. These were tried, each with programs that use nothing but the
client, against one broker with default settings (but for `group.initial.rebalance.delay.ms=0`, which saves time).
"""
_COLUMNS = "| client | version | tried | result |\n|---|---|---|---|\n"
_END = (
    "This page is generated: `make interop-matrix` tries all of these and writes it. `make interop` tries the newest "
    "of each, and Java 3.4 and 3.7."
)


@dataclass(frozen=True, slots=True)
class Row:
    client: str
    version: str
    steps: tuple[str, ...]
    outcome: str


def render(rows: Sequence[Row]) -> str:
    meanings = "".join(_wrapped(f"- **{step}:** {meaning}.", indent=2) for step, meaning in STEPS.items())
    notes = "".join(_wrapped(f"- {note}", indent=2) for note in NOTES)
    table = _COLUMNS + "".join(map(_line, rows))
    return f"{_HEAD}\n{table}\nWhat was tried:\n\n{meanings}\nWhat the table cannot say:\n\n{notes}\n{_wrapped(_END)}"


def _wrapped(text: str, indent: int = 0) -> str:
    return textwrap.fill(text, 124, subsequent_indent=" " * indent, break_on_hyphens=False) + "\n"


def _line(row: Row) -> str:
    outcome = row.outcome.replace("|", "\\|")
    return f"| {row.client} | {row.version} | {', '.join(row.steps)} | {outcome} |\n"


def parse(page: str) -> list[Row]:
    lines = page.partition(_COLUMNS)[2].partition("\n\n")[0].splitlines()
    return [_row(line) for line in lines]


def _row(line: str) -> Row:
    client, version, steps, outcome = line.removeprefix("| ").removesuffix(" |").split(" | ", 3)
    return Row(client, version, tuple(steps.split(", ")), outcome.replace("\\|", "|"))
