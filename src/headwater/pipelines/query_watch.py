"""Listens to the streaming queries of a session. Spark calls in threads of its own, so everything goes to a queue."""

import warnings
from collections.abc import Collection, Generator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from threading import Condition
from typing import TYPE_CHECKING, Any

import orjson
from pyspark.sql.streaming.listener import StreamingQueryListener

from headwater.pipelines.run_events import Ended, Happening, Progressed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )


# Spark tells of a query's last batch, and of its end, some time after it is over.
_LAST_WORDS_S = 5


class Listener(StreamingQueryListener):
    def __init__(self, happenings: "SimpleQueue[Happening]") -> None:
        self._happenings = happenings
        # Spark tells the name of a query that ends no more.
        self._names: dict[str, str] = {}
        self._unfinished: set[str] = set()
        self._is_told = Condition()

    def hear_out(self, active: Collection[str]) -> None:
        """Waits for what is still to be told of queries that are over: of those which are not active."""
        with self._is_told:
            self._is_told.wait_for(lambda: self._unfinished.issubset(active), _LAST_WORDS_S)

    def onQueryStarted(self, event: "QueryStartedEvent") -> None:  # noqa: N802
        self._names[str(event.id)] = event.name or str(event.id)
        with self._is_told:
            self._unfinished.add(str(event.runId))

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
        with self._is_told:
            self._unfinished.discard(str(event.runId))
            self._is_told.notify_all()


@contextmanager
def watched(spark: "SparkSession", happenings: "SimpleQueue[Happening]") -> Generator[None]:
    listener = Listener(happenings)
    spark.streams.addListener(listener)
    try:
        yield
    finally:
        # Spark may be gone by now, which is why we are here; pyspark then warns.
        with suppress(Exception), warnings.catch_warnings(action="ignore"):
            listener.hear_out([str(query.runId) for query in spark.streams.active])
            spark.streams.removeListener(listener)
