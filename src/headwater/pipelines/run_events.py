"""What a run tells the one who watches it, in the order in which it happened."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Told:
    """An event of a declarative pipeline's run, in Spark's words."""

    message: str


@dataclass(frozen=True, slots=True)
class Progressed:
    """A batch of a streaming query is done."""

    progress: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ended:
    """A streaming query is over; `error` says why, if it failed."""

    query: str
    error: str | None


@dataclass(frozen=True, slots=True)
class Finished:
    """The run is over; `error` is what it raised, if it failed."""

    error: BaseException | None


@dataclass(frozen=True, slots=True)
class StopAsked:
    """Somebody wants the pipeline to stop."""


Happening = StopAsked | Told | Progressed | Ended | Finished
