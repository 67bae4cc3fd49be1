"""Errors of a disk, written to a note file that a broker in another process reads."""

from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from tests.faults.kills.passages import Moment, Operation, Passage

MET = "the disk said"


class Trouble(NamedTuple):
    operation: Operation
    moment: Moment
    # A shell pattern for directory and file name.
    pattern: str
    # The name of an error in `errno`.
    error: str

    def is_at(self, passage: Passage) -> bool:
        name = f"{passage.path.parent.name}/{passage.path.name}"
        return passage[:2] == self[:2] and fnmatch(name, self.pattern)


# A full disk writes as much as fits before it reports an error, and creates no file.
FULL = (
    Trouble("write", "amid", "*", "ENOSPC"),
    Trouble("mark", "amid", "*", "ENOSPC"),
    Trouble("create", "before", "*", "ENOSPC"),
)


class Note:
    """A file that a broker reads at each disk operation: the trouble lasts as long as the file exists."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, *troubles: Trouble) -> None:
        aside = self.path.with_suffix(".new")
        aside.write_text("\n".join(" ".join(trouble) for trouble in troubles))
        aside.rename(self.path)

    def remove(self) -> None:
        self.path.unlink()

    def read(self) -> list[Trouble]:
        with suppress(FileNotFoundError):
            return [Trouble(*line.split(" ")) for line in self.path.read_text().splitlines()]  # pyright: ignore[reportArgumentType]
        return []
