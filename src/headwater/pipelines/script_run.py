"""Runs a plain PySpark script, in which `SparkSession.builder.getOrCreate()` returns a session prepared for it.

A requested stop is not a failure.
"""

import runpy
import signal
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread, main_thread
from typing import TYPE_CHECKING

from headwater.clock import SystemClock
from headwater.pipelines.failures import RunFailed, explain
from headwater.pipelines.project import ProjectError, run_files_of
from headwater.pipelines.query_listener import watch_queries
from headwater.pipelines.run_events import RunEvent, RunFinished
from headwater.pipelines.sessions import SparkTarget, ordinary_session
from headwater.pipelines.status_reporter import StatusReporter, Update

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class StopScript(BaseException):
    """Raised inside a script to stop it. Not an Exception, because scripts may catch those."""


class ScriptRun:
    """A requested stop ends the script's streaming queries, so that a script which awaits them runs to its end. A
    script without queries, or one that exceeds `grace_ms`, is interrupted."""

    def __init__(
        self,
        script: Path,
        target: SparkTarget,
        show: Callable[[Update], None],
        *,
        arguments: Sequence[str] = (),
        grace_ms: int = 30_000,
    ) -> None:
        if not script.is_file():
            raise ProjectError(f"{script} does not exist")
        self._script, self._arguments, self._grace_ms = script, arguments, grace_ms
        self._target = target.with_stop_timeout(grace_ms)
        self._files = run_files_of(script)
        self._reporter = StatusReporter(script.stem, self._files, target, show, SystemClock())
        self._stop_count = 0
        self._is_running = False
        self._stop_requested, self._script_ended = Event(), Event()

    def ask_to_stop(self) -> None:
        """Called by a signal handler, which runs in the script's own thread."""
        self._stop_count += 1
        if self._stop_count > 1 or not self._is_running:
            raise StopScript
        self._stop_requested.set()

    def run(self, ready: Callable[[], None]) -> int:
        """Run the script and return its exit code.

        `ready` is called after Spark's start, because Spark replaces the signal handlers of this process.
        """
        reporter = self._reporter
        try:
            reporter.enter("starting", f"starting on {self._target}")
            with (
                ordinary_session(self._script.stem, self._target, self._files) as spark,
                _reported_queries(spark, reporter),
            ):
                ready()
                reporter.enter("running")
                with self._stoppable(spark):
                    code = self._execute()
        except StopScript:
            code = 0
        except BaseException as error:
            reporter.error = str(error)
            reporter.enter("failed")
            raise
        reporter.enter("stopped", "stopped" if code == 0 else f"the script ended with code {code}")
        return code

    def _execute(self) -> int:
        kept_arguments, kept_path = sys.argv, list(sys.path)
        sys.argv = [str(self._script), *self._arguments]
        sys.path.insert(0, str(self._script.absolute().parent))
        try:
            runpy.run_path(str(self._script), run_name="__main__")
        except SystemExit as left:
            return left.code if isinstance(left.code, int) else 0 if left.code is None else 1
        except Exception as error:
            raise RunFailed(f"{_location(error, self._script)}{explain(error)}") from error
        finally:
            sys.argv, sys.path[:] = kept_arguments, kept_path
        return 0

    @contextmanager
    def _stoppable(self, spark: "SparkSession") -> Generator[None]:
        """Context manager: a separate thread stops the script, as this one may be in the middle of a Spark call."""
        stopper = Thread(target=self._stop_when_requested, args=(spark,), name="pipeline-stop", daemon=True)
        stopper.start()
        self._is_running = True
        try:
            yield
        finally:
            self._is_running = False
            self._script_ended.set()
            # Wakes the thread, which then finds nothing to stop.
            self._stop_requested.set()
            stopper.join()

    def _stop_when_requested(self, spark: "SparkSession") -> None:
        self._stop_requested.wait()
        if self._script_ended.is_set():
            return
        stopping = _stop_queries(spark)
        if stopping and self._script_ended.wait(self._grace_ms / 1000):
            return
        late = sorted(name for name, thread in stopping if thread.is_alive())
        if late:
            self._reporter.report(
                f"not stopped within {self._grace_ms / 1000:g} s, and interrupted: {', '.join(late)}; the next run "
                "goes on from the last batch that was finished. If batches take longer, run with a longer --grace"
            )
        with suppress(Exception):
            spark.sparkContext.cancelAllJobs()
        if not self._script_ended.is_set():
            # Runs the signal handler in the script's thread, where it raises StopScript.
            signal.pthread_kill(main_thread().ident or 0, signal.SIGTERM)


def _stop_queries(spark: "SparkSession") -> list[tuple[str, Thread]]:
    """The names of the queries, each with a thread that stops it: a stop waits for the batch under way, and no query
    has to wait for another's."""
    stopping: list[tuple[str, Thread]] = []

    def stop(query: "StreamingQuery") -> None:
        # Fails if the query is over by now, or gives up by itself.
        with suppress(Exception):
            query.stop()

    with suppress(Exception):
        for query in spark.streams.active:
            thread = Thread(target=stop, args=(query,), name="query-stop", daemon=True)
            stopping.append((f"query {query.name or query.id}", thread))
            thread.start()
    return stopping


def _location(error: Exception, script: Path) -> str:
    """Script and line of the innermost frame inside it, as a prefix for the message."""
    lines: list[int] = []
    trace = error.__traceback__
    while trace is not None:
        if Path(trace.tb_frame.f_code.co_filename) == script:
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    return f"{script} line {lines[-1]}: " if lines else f"{script}: "


@contextmanager
def _reported_queries(spark: "SparkSession", reporter: StatusReporter) -> Generator[None]:
    """Context manager: a separate thread reports the progress of queries, because the script occupies this one."""
    events: SimpleQueue[RunEvent] = SimpleQueue()

    def report() -> None:
        while not isinstance(event := events.get(), RunFinished):
            reporter.handle(event)

    reporting = Thread(target=report, name="pipeline-progress", daemon=True)
    reporting.start()
    try:
        with watch_queries(spark, events):
            yield
    finally:
        events.put(RunFinished(None))
        reporting.join()
