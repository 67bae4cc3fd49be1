"""Listens to the streaming queries of a session. Spark calls listeners in its own threads, so events go to a queue."""

import warnings
from collections.abc import Collection, Generator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any

import orjson
from pyspark.sql.streaming.listener import StreamingQueryListener

from headwater.pipelines.run_events import BatchCompleted, QueryEnded, RunEvent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )


# Spark reports a query's last batch and its end with a delay.
_LAST_EVENTS_TIMEOUT_S = 5
# What an interrupted script left behind may keep Spark from answering at all.
_FINISH_TIMEOUT_S = _LAST_EVENTS_TIMEOUT_S + 5


class QueryListener(StreamingQueryListener):
    def __init__(self, events: "SimpleQueue[RunEvent]") -> None:
        self._events = events
        # By query id, because the event of a query's end does not contain its name.
        self._names: dict[str, str] = {}
        # Run ids of queries whose end was not reported yet.
        self._unfinished: set[str] = set()
        self._unfinished_changed = Condition()

    def wait_for_last_events(self, active: Collection[str]) -> None:
        """Wait until Spark has reported the end of every query that is no longer in `active`."""
        with self._unfinished_changed:
            self._unfinished_changed.wait_for(lambda: self._unfinished.issubset(active), _LAST_EVENTS_TIMEOUT_S)

    def onQueryStarted(self, event: "QueryStartedEvent") -> None:  # noqa: N802
        self._names[str(event.id)] = event.name or str(event.id)
        with self._unfinished_changed:
            self._unfinished.add(str(event.runId))

    def onQueryProgress(self, event: "QueryProgressEvent") -> None:  # noqa: N802
        progress: dict[str, Any] = orjson.loads(event.progress.json)
        self._names[progress["id"]] = progress.get("name") or progress["id"]
        self._events.put(BatchCompleted(progress))

    def onQueryIdle(self, event: "QueryIdleEvent") -> None:  # noqa: N802
        """Nothing to report: the query's last batch is shown already."""

    def onQueryTerminated(self, event: "QueryTerminatedEvent") -> None:  # noqa: N802
        name = self._names.get(str(event.id))
        # The flow of a declarative pipeline that failed before its first batch is unknown here; the events of the
        # run report it.
        if name is not None:
            self._events.put(QueryEnded(name, event.exception))
        with self._unfinished_changed:
            self._unfinished.discard(str(event.runId))
            self._unfinished_changed.notify_all()


@contextmanager
def watch_queries(spark: "SparkSession", events: "SimpleQueue[RunEvent]") -> Generator[None]:
    listener = QueryListener(events)
    spark.streams.addListener(listener)
    try:
        yield
    finally:
        # A thread of its own, with a connection of its own to Java: this one may have been interrupted while it waited
        # for a reply, which would then answer the next call.
        finishing = Thread(target=_finish, args=(spark, listener), name="query-listener-end", daemon=True)
        finishing.start()
        finishing.join(_FINISH_TIMEOUT_S)


def _finish(spark: "SparkSession", listener: QueryListener) -> None:
    # Spark itself may have died, which may be why nothing is listened to any more; pyspark then raises and warns.
    with suppress(Exception), warnings.catch_warnings(action="ignore"):
        listener.wait_for_last_events([str(query.runId) for query in spark.streams.active])
        spark.streams.removeListener(listener)
