"""Listens to the streaming queries of a session. Spark calls in threads of its own, so everything goes to a queue."""

import warnings
from collections.abc import Generator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import orjson
from pyspark.sql.streaming.listener import StreamingQueryListener

from headwater.pipelines.happenings import Ended, Happening, Progressed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )


class Listener(StreamingQueryListener):
    def __init__(self, happenings: "SimpleQueue[Happening]") -> None:
        self._happenings = happenings
        # Spark tells the name of a query that ends no more.
        self._names: dict[str, str] = {}

    def onQueryStarted(self, event: "QueryStartedEvent") -> None:  # noqa: N802
        self._names[str(event.id)] = event.name or str(event.id)

    def onQueryProgress(self, event: "QueryProgressEvent") -> None:  # noqa: N802
        told: dict[str, Any] = orjson.loads(event.progress.json)
        self._names[told["id"]] = told.get("name") or told["id"]
        self._happenings.put(Progressed(told))

    def onQueryIdle(self, event: "QueryIdleEvent") -> None:  # noqa: N802
        """Nothing to tell: its last batch is shown already."""

    def onQueryTerminated(self, event: "QueryTerminatedEvent") -> None:  # noqa: N802
        name = self._names.get(str(event.id))
        # A pipeline's flow that never came to a first batch is told by the events of the run.
        if name is not None:
            self._happenings.put(Ended(name, event.exception))


@contextmanager
def watched(spark: "SparkSession", happenings: "SimpleQueue[Happening]") -> Generator[None]:
    listener = Listener(happenings)
    spark.streams.addListener(listener)
    try:
        yield
    finally:
        # Spark may be gone by now, which is why we are here; pyspark then warns.
        with suppress(Exception), warnings.catch_warnings(action="ignore"):
            spark.streams.removeListener(listener)
