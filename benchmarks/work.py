"""Where a run keeps what nobody needs after it: data directories, archives, bytecode."""

from pathlib import Path

WORK = Path(__file__).parent / ".work"
