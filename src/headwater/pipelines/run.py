"""Runs a project: once, or repeatedly until the user stops it.

One run of a declarative pipeline processes all available records and ends. A long-lived pipeline is therefore a series
of runs, each of which continues from the checkpoints of the one before. A failed run is retried with exponential
back-off. Law: a requested stop is not a failure. The current run may finish; if it takes too long it is cancelled,
which is safe because its checkpoints record exactly what was processed.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING

from headwater.clock import Clock, SystemClock
from headwater.errors import HeadwaterError
from headwater.pipelines import graph
from headwater.pipelines.failures import RunFailed, explain
from headwater.pipelines.project import Project
from headwater.pipelines.query_listener import watch_queries
from headwater.pipelines.run_events import FlowEvent, RunEvent, RunFinished, StopRequested
from headwater.pipelines.sessions import SparkTarget, is_java_gone, pipeline_session
from headwater.pipelines.status_reporter import StatusReporter, Update

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CANCEL_TIMEOUT_MS = 15_000
_TAG = "headwater-pipeline-run"
_BACK_OFF_FIRST_MS = 1_000
# How often an idle pipeline refreshes the display and writes the state file.
_TICK_MS = 1_000


@dataclass(frozen=True, slots=True)
class Pace:
    is_once: bool = False
    # Pause between the end of a run and the start of the next.
    interval_ms: int = 1_000
    back_off_max_ms: int = 60_000
    # How long the current run may take to finish after a stop was requested.
    grace_ms: int = 30_000

    def back_off_ms(self, failure_count: int) -> int:
        return min(self.back_off_max_ms, _BACK_OFF_FIRST_MS << min(failure_count - 1, 30))


class ProjectRun:
    def __init__(
        self,
        project: Project,
        target: SparkTarget,
        pace: Pace,
        show: Callable[[Update], None],
        *,
        full_refresh: Sequence[str] = (),
        clock: Clock | None = None,
    ) -> None:
        self._project, self._pace, self._full_refresh = project, pace, full_refresh
        self._target = target.with_stop_timeout(pace.grace_ms)
        self._clock = clock or SystemClock()
        self._reporter = StatusReporter(project.name, project.run_files, target, show, self._clock)
        self._events: SimpleQueue[RunEvent] = SimpleQueue()
        self._stop_count = self._failure_count = 0

    def ask_to_stop(self) -> None:
        """Called by a signal handler or another thread. The second call cancels the current run at once."""
        self._stop_count += 1
        self._events.put(StopRequested())

    def run(self, ready: Callable[[], None]) -> None:
        """Run until a stop is requested, or with --once until one run is over. Raises errors that no retry can fix.

        `ready` is called after each start of Spark, because Spark replaces the signal handlers of this process.
        """
        try:
            is_done = False
            while not is_done and not self._stop_count:
                self._reporter.enter("starting", f"starting on {self._target}")
                with ExitStack() as stack:
                    spark = stack.enter_context(
                        pipeline_session(
                            self._project.name, self._target, self._project.run_files, self._project.configuration
                        )
                    )
                    ready()
                    stack.enter_context(watch_queries(spark, self._events))
                    is_done = self._run_repeatedly(spark)
        except BaseException as error:
            self._reporter.error = str(error)
            self._reporter.enter("failed")
            raise
        # Events that arrived while the session was stopping.
        while not self._events.empty():
            self._reporter.handle(self._events.get())
        self._reporter.enter("stopped", "stopped")

    def _run_repeatedly(self, spark: "SparkSession") -> bool:
        """Returns whether the pipeline is done; False asks the caller for a new session."""
        while not self._stop_count:
            error = self._run_once(spark)
            if self._stop_count:
                break
            if error is None:
                self._failure_count = 0
                self._reporter.error = None
                if self._pace.is_once:
                    break
                self._wait(self._pace.interval_ms, "waiting", None)
                continue
            if self._target.remote is None and is_java_gone():
                raise RunFailed(f"Spark's Java has ended; {self._project.run_files.log} says why") from error
            failure = explain(error)
            if self._pace.is_once or isinstance(error, graph.DefinitionError):
                raise error if isinstance(error, HeadwaterError) else RunFailed(str(failure)) from error
            self._failure_count += 1
            self._reporter.error = str(failure)
            pause_ms = self._pace.back_off_ms(self._failure_count)
            self._wait(pause_ms, "failing", f"{failure}; trying again in {pause_ms / 1000:g} s")
            if self._target.remote is not None:
                # The cause may be that the Connect server went away, and the session with it.
                return False
        return True

    def _run_once(self, spark: "SparkSession") -> BaseException | None:
        self._reporter.run_count += 1
        self._reporter.enter("running")
        try:
            graph_id = graph.define(spark, self._project)
        except Exception as error:
            return error
        refresh = self._full_refresh if self._reporter.run_count == 1 else ()
        Thread(target=self._queue_events, args=(spark, graph_id, refresh), name="pipeline-run", daemon=True).start()
        return self._await_end(spark)

    def _queue_events(self, spark: "SparkSession", graph_id: str, refresh: Sequence[str]) -> None:
        """Body of the run's thread: execute the graph and put its events into the queue."""
        try:
            # Cancelling by tag interrupts this run only, so that the session's listeners still report how it ended.
            spark.addTag(_TAG)
            for message in graph.start(spark, self._project, graph_id, dry=False, full_refresh=refresh):
                self._events.put(FlowEvent(message))
        except Exception as error:
            self._events.put(RunFinished(error))
        else:
            self._events.put(RunFinished(None))

    def _await_end(self, spark: "SparkSession") -> BaseException | None:
        deadline_ms: int | None = None
        is_cancelled = False
        while True:
            event = self._next(_TICK_MS)
            if isinstance(event, RunFinished):
                return None if is_cancelled else event.error
            now_ms = self._clock.monotonic_ms()
            if self._stop_count and deadline_ms is None:
                deadline_ms = now_ms + self._pace.grace_ms
            is_urgent = self._stop_count > 1 and not is_cancelled
            if deadline_ms is None or (now_ms < deadline_ms and not is_urgent):
                continue
            if is_cancelled:
                return None
            is_cancelled, deadline_ms = True, now_ms + _CANCEL_TIMEOUT_MS
            self._reporter.report(
                "cancelling the run under way; its checkpoints stay, and the next run goes on from them"
            )
            with suppress(Exception):
                spark.interruptTag(_TAG)

    def _wait(self, duration_ms: int, phase: str, message: str | None) -> None:
        self._reporter.enter(phase, message)
        deadline_ms = self._clock.monotonic_ms() + duration_ms
        while not self._stop_count and (left_ms := deadline_ms - self._clock.monotonic_ms()) > 0:
            self._next(min(left_ms, _TICK_MS))

    def _next(self, timeout_ms: int) -> RunEvent | None:
        try:
            event = self._events.get(timeout=timeout_ms / 1000)
        except Empty:
            self._reporter.report()
            return None
        if isinstance(event, StopRequested) and self._stop_count == 1:
            self._reporter.enter("stopping", "stopping when the run under way is done; asked once more, at once")
        self._reporter.handle(event)
        return event


def validate(project: Project, target: SparkTarget) -> None:
    """Dry run: resolve every definition without reading or writing a record."""
    with pipeline_session(project.name, target, project.run_files, project.configuration) as spark:
        graph_id = graph.define(spark, project)
        try:
            for _ in graph.start(spark, project, graph_id, dry=True):
                pass
        except graph.DefinitionError:
            raise
        except Exception as error:
            raise RunFailed(str(explain(error))) from error
