"""Runs commands against a broker: in this process, or in one of their own where signals, pipes and terminals matter."""

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, NamedTuple
from unittest.mock import patch

from headwater.cli.main import run


class Outcome(NamedTuple):
    code: int
    output: bytes
    error: str

    @property
    def lines(self) -> list[str]:
        return self.output.decode().splitlines()

    @property
    def rows(self) -> list[Any]:
        """JSON, as one array or as one object a line."""
        text = self.output.decode()
        return json.loads(text) if text.startswith("[") else [json.loads(line) for line in text.splitlines()]


class Commands:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def __call__(self, *arguments: str, input: bytes = b"", output: io.BytesIO | None = None) -> Outcome:
        """Runs `headwater ARGUMENTS...` in this process."""
        captured = output or io.BytesIO()
        error = io.StringIO()
        stdin = io.TextIOWrapper(io.BytesIO(input))
        stdout = io.TextIOWrapper(captured, write_through=True)
        with (
            redirect_stdout(stdout),
            redirect_stderr(error),
            patch.object(sys, "stdin", stdin),
            patch.dict(os.environ, {"HEADWATER_BOOTSTRAP": self.bootstrap}),
        ):
            code = run(arguments)
        content = captured.getvalue()
        return Outcome(code, content, error.getvalue())

    def succeed(self, *arguments: str, input: bytes = b"") -> Outcome:
        outcome = self(*arguments, input=input)
        assert outcome.code == 0, outcome.error
        return outcome

    def start(self, *arguments: str, **streams: Any) -> subprocess.Popen[bytes]:
        """Runs it in a process of its own; all streams are pipes unless they are given."""
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE) | streams
        return subprocess.Popen(
            [sys.executable, "-m", "headwater.cli.main", *arguments],
            env={**os.environ, "HEADWATER_BOOTSTRAP": self.bootstrap, "COLUMNS": "120", "TERM": "xterm"},
            **pipes,
        )
