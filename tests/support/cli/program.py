"""Runs commands one after the other in one process of their own, where Spark's Java needs to start only once.

Told on standard input as a JSON list of argument lists; answers with a JSON list of outcomes.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from tests.support.cli.commands import Commands, Outcome

ROOT = Path(__file__).parents[3]


def run_together(bootstrap: str, *commands: Sequence[str]) -> list[Outcome]:
    finished = subprocess.run(
        [sys.executable, "-m", "tests.support.cli.program", bootstrap],
        input=json.dumps(commands),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return [Outcome(code, output.encode(), error) for code, output, error in json.loads(finished.stdout)]


def main() -> None:
    commands = Commands(sys.argv[1])
    outcomes: list[tuple[int, str, str]] = []
    for arguments in cast("list[list[str]]", json.load(sys.stdin)):
        code, output, error = commands(*arguments)
        outcomes.append((code, output.decode(), error))
    json.dump(outcomes, sys.stdout)


if __name__ == "__main__":
    main()
