"""Runs a plain PySpark script: `SparkSession.builder.getOrCreate()` in it gives the session that is ready for it.

Being told to stop ends its streaming queries, each after the batch under way, and is no failure.
"""

import runpy
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING

from headwater.clock import SystemClock
from headwater.pipelines.failures import explain
from headwater.pipelines.happenings import Finished, Happening
from headwater.pipelines.project import ProjectError, place_of
from headwater.pipelines.running import Journal, RunFailed, Update
from headwater.pipelines.sessions import Target, plain
from headwater.pipelines.watching import watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class StopScript(BaseException):
    """Raised inside a script that shall stop; no Exception, because scripts catch those."""


def run_script(
    script: Path,
    target: Target,
    show: Callable[[Update], None],
    *,
    ready: Callable[[], None],
    arguments: Sequence[str] = (),
) -> int:
    """Gives the script's exit code. `ready` is called when Spark has started, which takes signals for itself."""
    if not script.is_file():
        raise ProjectError(f"{script} does not exist")
    place = place_of(script)
    journal = Journal(script.stem, place, target, show, SystemClock())
    try:
        journal.enter("starting", f"starting on {target}")
        with plain(script.stem, target, place) as spark, _told(spark, journal):
            ready()
            journal.enter("running")
            code = _run(spark, script, arguments)
    except StopScript:
        code = 0
    except BaseException as error:
        journal.error = str(error)
        journal.enter("failed")
        raise
    journal.enter("stopped", "stopped" if code == 0 else f"the script ended with code {code}")
    return code


def _run(spark: "SparkSession", script: Path, arguments: Sequence[str]) -> int:
    kept_arguments, kept_path = sys.argv, list(sys.path)
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.absolute().parent))
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else 0 if left.code is None else 1
    except StopScript:
        _stop_queries(spark)
        raise
    except Exception as error:
        raise RunFailed(f"{_place(error, script)}{explain(error)}") from error
    finally:
        sys.argv, sys.path[:] = kept_arguments, kept_path
    return 0


def _place(error: Exception, script: Path) -> str:
    lines: list[int] = []
    trace = error.__traceback__
    while trace is not None:
        if Path(trace.tb_frame.f_code.co_filename) == script:
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    return f"{script} line {lines[-1]}: " if lines else f"{script}: "


def _stop_queries(spark: "SparkSession") -> None:
    # What does not stop in peace goes with the session.
    with suppress(Exception):
        for query in spark.streams.active:
            query.stop()


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
