"""Reports a pipeline's status as it changes: to the terminal and to the state file."""

import os
from collections.abc import Callable
from dataclasses import dataclass

from headwater.clock import Clock
from headwater.pipelines import state
from headwater.pipelines.failures import RunFailed, explain
from headwater.pipelines.flows import Flows
from headwater.pipelines.project import RunFiles
from headwater.pipelines.run_events import BatchCompleted, FlowEvent, QueryEnded, RunEvent, RunFinished, StopRequested
from headwater.pipelines.sessions import SparkTarget


@dataclass(frozen=True, slots=True)
class Update:
    """The complete status, as shown to the user after each change."""

    phase: str
    run_count: int
    flows: Flows
    message: str | None = None


class StatusReporter:
    """Law: one process at a time runs a pipeline. A reporter is refused while another process has one."""

    def __init__(
        self, name: str, files: RunFiles, target: SparkTarget, show: Callable[[Update], None], clock: Clock
    ) -> None:
        self.flows = Flows()
        self.run_count = 0
        self.error: str | None = None
        self._phase = "starting"
        self._name, self._files, self._target, self._show, self._clock = name, files, target, show, clock
        self._started_ms = clock.now_ms()
        _refuse_second(files)

    def enter(self, phase: str, message: str | None = None) -> None:
        self._phase = phase
        self.report(message)

    def report(self, message: str | None = None) -> None:
        pid = os.getpid()
        state.write(
            self._files.state,
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

    def handle(self, event: RunEvent) -> None:
        match event:
            case FlowEvent(message):
                if self.flows.apply_event(message) is not None:
                    self.report()
            case BatchCompleted(progress):
                self.flows.apply_progress(progress)
                self.report()
            case QueryEnded(query, error):
                self.flows.apply_end(query, None if error is None else explain(error).text)
                self.report()
            case RunFinished() | StopRequested():
                # These concern the run as a whole: the run itself reports the phase that follows.
                pass


def _refuse_second(files: RunFiles) -> None:
    """Two processes would compete for the same checkpoints."""
    found = state.read(files.state)
    if found is not None and found.pid != os.getpid() and found.is_alive():
        raise RunFailed(f"the pipeline is running already, as process {found.pid}: `headwater pipeline stop` ends it")
