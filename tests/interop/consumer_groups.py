"""Kafka's own kafka-consumer-groups, and the tables that it prints."""

import subprocess
from collections.abc import Sequence
from typing import NamedTuple

_TIMEOUT_S = 120


class Told(NamedTuple):
    """The rows of all tables by their headings; every line that belongs to none."""

    rows: Sequence[dict[str, str]]
    others: Sequence[str]


class ConsumerGroups:
    def __init__(self, command: Sequence[str], bootstrap_servers: str) -> None:
        self._command = [*command, "--bootstrap-server", bootstrap_servers]

    def __call__(self, *options: str) -> Told:
        done = subprocess.run(
            [*self._command, *options], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        rows: list[dict[str, str]] = []
        others = done.stderr.splitlines()
        headings: list[str] = []
        for line in done.stdout.splitlines():
            cells = line.split()
            if cells and cells[0] == "GROUP":
                headings = cells
            elif headings and len(cells) == len(headings):
                rows.append(dict(zip(headings, cells, strict=True)))
            elif cells:
                others.append(line)
        return Told(rows, others)
