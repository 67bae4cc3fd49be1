"""Runs a project: once, or again and again until it is told to stop.

Spark runs a declarative pipeline until all that is there is processed. To go on is to run it again: every run continues
from the checkpoints of the one before. What fails is tried again after a pause that grows. Law: being told to stop is
no failure. The run under way may finish; if that takes too long it is cancelled, and its checkpoints tell the truth.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING

from headwater.clock import Clock, SystemClock
from headwater.errors import HeadwaterError
from headwater.pipelines import graph, state
from headwater.pipelines.failures import explain
from headwater.pipelines.flows import Flows
from headwater.pipelines.project import Place, Project
from headwater.pipelines.query_watch import watched
from headwater.pipelines.run_events import Ended, Finished, Happening, Progressed, StopAsked, Told
from headwater.pipelines.sessions import Target, connected, is_java_gone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CANCEL_TIMEOUT_MS = 15_000
_TAG = "headwater-pipeline-run"
_BACK_OFF_FIRST_MS = 1_000
# How often the display is refreshed, and the state is written, when nothing happens.
_TICK_MS = 1_000


class RunFailed(HeadwaterError):
    """The message says which flow, which records, and what to change."""


@dataclass(frozen=True, slots=True)
class Pace:
    is_once: bool = False
    # Between the end of a run and the begin of the next.
    interval_ms: int = 1_000
    back_off_max_ms: int = 60_000
    # How long the run under way may go on once the pipeline is told to stop.
    grace_ms: int = 30_000

    def back_off_ms(self, failure_count: int) -> int:
        return min(self.back_off_max_ms, _BACK_OFF_FIRST_MS << min(failure_count - 1, 30))


@dataclass(frozen=True, slots=True)
class Update:
    """What the one who watches is shown: the whole, each time something changed."""

    phase: str
    run_count: int
    flows: Flows
    message: str | None = None


class Journal:
    """What happens, told to the one who watches and kept in the state file."""

    def __init__(self, name: str, place: Place, target: Target, show: Callable[[Update], None], clock: Clock) -> None:
        self.flows = Flows()
        self.run_count = 0
        self.error: str | None = None
        self._phase = "starting"
        self._name, self._place, self._target, self._show, self._clock = name, place, target, show, clock
        self._started_ms = clock.now_ms()
        refuse_second(place)

    def enter(self, phase: str, message: str | None = None) -> None:
        self._phase = phase
        self.tell(message)

    def tell(self, message: str | None = None) -> None:
        pid = os.getpid()
        state.write(
            self._place.state,
            state.State(
                pipeline=self._name,
                pid=pid,
                process_start=state.process_start(pid) or 0,
                started_ms=self._started_ms,
                updated_ms=self._clock.now_ms(),
                phase=self._phase,
                run_count=self.run_count,
                where=str(self._target),
                error=self.error,
                flows=self.flows.rows(),
            ),
        )
        self._show(Update(self._phase, self.run_count, self.flows, message))

    def take(self, happening: Happening) -> None:
        match happening:
            case Told(message):
                if self.flows.heard(message) is not None:
                    self.tell()
            case Progressed(progress):
                self.flows.progressed(progress)
                self.tell()
            case Ended(query, error):
                self.flows.ended(query, None if error is None else explain(error).text)
                self.tell()
            case _:
                pass


def refuse_second(place: Place) -> None:
    """Two at once would fight over the checkpoints."""
    found = state.read(place.state)
    if found is not None and found.pid != os.getpid() and found.is_alive():
        raise RunFailed(f"the pipeline is running already, as process {found.pid}: `headwater pipeline stop` ends it")


class Runner:
    def __init__(
        self,
        project: Project,
        target: Target,
        pace: Pace,
        show: Callable[[Update], None],
        *,
        full_refresh: Sequence[str] = (),
        clock: Clock | None = None,
    ) -> None:
        self._project, self._target, self._pace, self._full_refresh = project, target, pace, full_refresh
        self._clock = clock or SystemClock()
        self._journal = Journal(project.name, project.place, target, show, self._clock)
        self._happenings: SimpleQueue[Happening] = SimpleQueue()
        self._stop_count = self._failure_count = 0

    def ask_to_stop(self) -> None:
        """From a signal handler or another thread; a second time, the run under way is not waited for."""
        self._stop_count += 1
        self._happenings.put(StopAsked())

    def run(self, ready: Callable[[], None]) -> None:
        """Until it is told to stop, or with --once until one run is over. Raises what it cannot get over.

        `ready` is called when Spark has started, which takes signals for itself.
        """
        try:
            is_done = False
            while not is_done and not self._stop_count:
                self._journal.enter("starting", f"starting on {self._target}")
                with ExitStack() as stack:
                    spark = stack.enter_context(
                        connected(self._project.name, self._target, self._project.place, self._project.configuration)
                    )
                    ready()
                    stack.enter_context(watched(spark, self._happenings))
                    is_done = self._run_again_and_again(spark)
        except BaseException as error:
            self._journal.error = str(error)
            self._journal.enter("failed")
            raise
        # What was told while the session ended.
        while not self._happenings.empty():
            self._journal.take(self._happenings.get())
        self._journal.enter("stopped", "stopped")

    def _run_again_and_again(self, spark: "SparkSession") -> bool:
        """Gives False if it has to go on with a new session."""
        while not self._stop_count:
            error = self._run_once(spark)
            if self._stop_count:
                break
            if error is None:
                self._failure_count = 0
                self._journal.error = None
                if self._pace.is_once:
                    break
                self._wait(self._pace.interval_ms, "waiting", None)
                continue
            if self._target.remote is None and is_java_gone():
                raise RunFailed(f"Spark's Java has ended; {self._project.place.log} says why") from error
            failure = explain(error)
            if self._pace.is_once or isinstance(error, graph.DefinitionError):
                raise error if isinstance(error, HeadwaterError) else RunFailed(str(failure)) from error
            self._failure_count += 1
            self._journal.error = str(failure)
            pause_ms = self._pace.back_off_ms(self._failure_count)
            self._wait(pause_ms, "failing", f"{failure}; trying again in {pause_ms / 1000:g} s")
            if self._target.remote is not None:
                # Perhaps it was the server that went away, and the session with it.
                return False
        return True

    def _run_once(self, spark: "SparkSession") -> BaseException | None:
        self._journal.run_count += 1
        self._journal.enter("running")
        try:
            graph_id = graph.define(spark, self._project)
        except Exception as error:
            return error
        refresh = self._full_refresh if self._journal.run_count == 1 else ()
        Thread(target=self._follow, args=(spark, graph_id, refresh), name="pipeline-run", daemon=True).start()
        return self._await_end(spark)

    def _follow(self, spark: "SparkSession", graph_id: str, refresh: Sequence[str]) -> None:
        try:
            # By it the run is cancelled, and nothing else: those who listen to the session want to hear of it.
            spark.addTag(_TAG)
            for message in graph.start(spark, self._project, graph_id, dry=False, full_refresh=refresh):
                self._happenings.put(Told(message))
        except Exception as error:
            self._happenings.put(Finished(error))
        else:
            self._happenings.put(Finished(None))

    def _await_end(self, spark: "SparkSession") -> BaseException | None:
        deadline_ms: int | None = None
        is_cancelled = False
        while True:
            happening = self._next(_TICK_MS)
            if isinstance(happening, Finished):
                return None if is_cancelled else happening.error
            now_ms = self._clock.monotonic_ms()
            if self._stop_count and deadline_ms is None:
                deadline_ms = now_ms + self._pace.grace_ms
            is_urgent = self._stop_count > 1 and not is_cancelled
            if deadline_ms is None or (now_ms < deadline_ms and not is_urgent):
                continue
            if is_cancelled:
                return None
            is_cancelled, deadline_ms = True, now_ms + _CANCEL_TIMEOUT_MS
            self._journal.tell("cancelling the run under way; its checkpoints stay, and the next run goes on from them")
            with suppress(Exception):
                spark.interruptTag(_TAG)

    def _wait(self, duration_ms: int, phase: str, message: str | None) -> None:
        self._journal.enter(phase, message)
        deadline_ms = self._clock.monotonic_ms() + duration_ms
        while not self._stop_count and (left_ms := deadline_ms - self._clock.monotonic_ms()) > 0:
            self._next(min(left_ms, _TICK_MS))

    def _next(self, timeout_ms: int) -> Happening | None:
        try:
            happening = self._happenings.get(timeout=timeout_ms / 1000)
        except Empty:
            self._journal.tell()
            return None
        if isinstance(happening, StopAsked) and self._stop_count == 1:
            self._journal.enter("stopping", "stopping when the run under way is done; asked once more, at once")
        self._journal.take(happening)
        return happening


def validate(project: Project, target: Target) -> None:
    """A dry run: every definition is resolved, and no record is read or written."""
    with connected(project.name, target, project.place, project.configuration) as spark:
        graph_id = graph.define(spark, project)
        try:
            for _ in graph.start(spark, project, graph_id, dry=True):
                pass
        except graph.DefinitionError:
            raise
        except Exception as error:
            raise RunFailed(str(explain(error))) from error
