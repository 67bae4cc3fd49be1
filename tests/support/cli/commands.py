"""Runs commands against a broker: in this process, or in one of their own where signals, pipes and terminals matter."""

import io
import json
import os
import pty
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout, suppress
from typing import Any, BinaryIO, NamedTuple, Self
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


class Terminal:
    """A pseudo-terminal: a command is given `side`, and a person sits at `person`."""

    def __init__(self) -> None:
        self.person, side = pty.openpty()
        self.side: BinaryIO = os.fdopen(side, "r+b", buffering=0)

    def shown(self) -> bytes:
        """All that was written to it, once the command is done; nothing can be written after."""
        self.side.close()
        shown = b""
        # How a pseudo-terminal says that its other side is closed.
        with suppress(OSError):
            while chunk := os.read(self.person, 65536):
                shown += chunk
        return shown

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.side.close()
        os.close(self.person)


class Commands:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def __call__(
        self,
        *arguments: str,
        typed: bytes = b"",
        stdin: BinaryIO | None = None,
        stdout: BinaryIO | None = None,
        stderr: BinaryIO | None = None,
    ) -> Outcome:
        """Runs `headwater ARGUMENTS...` in this process. Streams that are given are not captured."""
        output, error = io.BytesIO(), io.BytesIO()
        streams = [
            io.TextIOWrapper(stdin or io.BytesIO(typed)),
            io.TextIOWrapper(stdout or output, write_through=True),
            io.TextIOWrapper(stderr or error, write_through=True),
        ]
        with (
            patch.object(sys, "stdin", streams[0]),
            redirect_stdout(streams[1]),
            redirect_stderr(streams[2]),
            patch.dict(os.environ, {"HEADWATER_BOOTSTRAP": self.bootstrap, "TERM": "xterm", "COLUMNS": "120"}),
        ):
            code = run(arguments)
        for stream in streams:
            # Or it would close what belongs to the caller.
            stream.detach()
        return Outcome(code, output.getvalue(), error.getvalue().decode())

    def succeed(self, *arguments: str, typed: bytes = b"") -> Outcome:
        outcome = self(*arguments, typed=typed)
        assert outcome.code == 0, outcome.error
        return outcome

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Runs it in a process of its own; all streams are pipes."""
        return subprocess.Popen(
            [sys.executable, "-m", "headwater.cli.main", *arguments],
            env={**os.environ, "HEADWATER_BOOTSTRAP": self.bootstrap},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
