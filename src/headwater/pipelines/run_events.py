"""What happens while a pipeline runs, queued in order for the thread that reports it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class FlowEvent:
    """An event of a declarative pipeline's run, in Spark's words."""

    message: str


@dataclass(frozen=True, slots=True)
class BatchCompleted:
    """A streaming query has completed a micro-batch; `progress` is Spark's report of it."""

    progress: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class QueryEnded:
    """A streaming query has ended; `error` says why if it failed."""

    query: str
    error: str | None


@dataclass(frozen=True, slots=True)
class RunFinished:
    """The run is over; `error` is the exception that it raised, if any."""

    error: BaseException | None


@dataclass(frozen=True, slots=True)
class StopRequested:
    """A signal handler or another thread has asked the pipeline to stop."""


RunEvent = StopRequested | FlowEvent | BatchCompleted | QueryEnded | RunFinished
