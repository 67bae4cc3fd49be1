"""Runs a plain PySpark script: `SparkSession.builder.getOrCreate()` in it gives the session that is ready for it.

Being told to stop is no failure.
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
from headwater.pipelines.failures import explain
from headwater.pipelines.project import ProjectError, place_of
from headwater.pipelines.query_watch import watched
from headwater.pipelines.run import Journal, RunFailed, Update
from headwater.pipelines.run_events import Finished, Happening
from headwater.pipelines.sessions import Target, plain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class StopScript(BaseException):
    """Raised inside a script that shall stop; no Exception, because scripts catch those."""


class ScriptRun:
    """A stop ends the script's streaming queries, so that a script which waits for them goes on to its end. One that
    has none, or does not end in time, is interrupted."""

    def __init__(
        self,
        script: Path,
        target: Target,
        show: Callable[[Update], None],
        *,
        arguments: Sequence[str] = (),
        grace_ms: int = 30_000,
    ) -> None:
        if not script.is_file():
            raise ProjectError(f"{script} does not exist")
        self._script, self._target, self._arguments, self._grace_ms = script, target, arguments, grace_ms
        self._place = place_of(script)
        self._journal = Journal(script.stem, self._place, target, show, SystemClock())
        self._stop_count = 0
        self._is_running = False
        self._asked, self._over = Event(), Event()

    def ask_to_stop(self) -> None:
        """From a signal handler, which runs in the script's own thread."""
        self._stop_count += 1
        if self._stop_count > 1 or not self._is_running:
            raise StopScript
        self._asked.set()

    def run(self, ready: Callable[[], None]) -> int:
        """Gives the script's exit code. `ready` is called when Spark has started, which takes signals for itself."""
        journal = self._journal
        try:
            journal.enter("starting", f"starting on {self._target}")
            with plain(self._script.stem, self._target, self._place) as spark, _told(spark, journal):
                ready()
                journal.enter("running")
                with self._ending(spark):
                    code = self._execute()
        except StopScript:
            code = 0
        except BaseException as error:
            journal.error = str(error)
            journal.enter("failed")
            raise
        journal.enter("stopped", "stopped" if code == 0 else f"the script ended with code {code}")
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
            raise RunFailed(f"{_place(error, self._script)}{explain(error)}") from error
        finally:
            sys.argv, sys.path[:] = kept_arguments, kept_path
        return 0

    @contextmanager
    def _ending(self, spark: "SparkSession") -> Generator[None]:
        """Spark is asked to end from another thread: this one may be in the middle of a call to it."""
        ending = Thread(target=self._end, args=(spark,), name="pipeline-stop", daemon=True)
        ending.start()
        self._is_running = True
        try:
            yield
        finally:
            self._is_running = False
            self._over.set()
            self._asked.set()
            ending.join()

    def _end(self, spark: "SparkSession") -> None:
        self._asked.wait()
        if self._over.is_set():
            return
        has_queries = False
        with suppress(Exception):
            for query in spark.streams.active:
                has_queries = True
                query.stop()
        if has_queries and self._over.wait(self._grace_ms / 1000):
            return
        with suppress(Exception):
            spark.sparkContext.cancelAllJobs()
        if not self._over.is_set():
            signal.pthread_kill(main_thread().ident or 0, signal.SIGTERM)


def _place(error: Exception, script: Path) -> str:
    lines: list[int] = []
    trace = error.__traceback__
    while trace is not None:
        if Path(trace.tb_frame.f_code.co_filename) == script:
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    return f"{script} line {lines[-1]}: " if lines else f"{script}: "


@contextmanager
def _told(spark: "SparkSession", journal: Journal) -> Generator[None]:
    """The script has this thread, so another one tells what its queries do."""
    happenings: SimpleQueue[Happening] = SimpleQueue()

    def tell() -> None:
        while not isinstance(happening := happenings.get(), Finished):
            journal.take(happening)

    teller = Thread(target=tell, name="pipeline-progress", daemon=True)
    teller.start()
    try:
        with watched(spark, happenings):
            yield
    finally:
        happenings.put(Finished(None))
        teller.join()
