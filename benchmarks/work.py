"""The directory for files that are not needed after a run: data directories, archives, bytecode."""

from pathlib import Path

WORK = Path(__file__).parent / ".work"
