"""A produced batch with delayed records on its way into two logs: first the schedule's, then the target's.

The rest of the batch enters the target once the schedule has the delayed records on disk, so that a target that
recognises a batch also says that its delayed records are safe. After a crash between the two, the schedule recognises
what the producer sends again. If the target refuses the rest, the schedule forgets the delayed records.
"""

from typing import TYPE_CHECKING, Protocol

from headwater.broker.partition import Partition
from headwater.broker.pending import Fault
from headwater.broker.writes.check_threads import RequestBytes
from headwater.broker.writes.intake import DelayedBatch
from headwater.broker.writes.journal import Append
from headwater.coordination.schedule.commands import ScheduledBatch
from headwater.coordination.schedule.terms import Target
from headwater.errors import ErrorCode, HeadwaterError, Refusal

if TYPE_CHECKING:
    from headwater.broker.schedule.coordinator import ScheduleCoordinator

# Every producer tries again on NOT_ENOUGH_REPLICAS.
_RETRIABLE = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)


class StageRest(Protocol):
    """Produces the rest of the batch to the target."""

    def __call__(self, *, append: Append) -> None: ...


class Production:
    """Keeps the client's connection held, so that its later batches do not overtake this one."""

    def __init__(
        self,
        coordinator: "ScheduleCoordinator",
        partition: Partition,
        target: Target,
        delayed: DelayedBatch,
        append: Append,
        request: RequestBytes | None,
        stage_rest: StageRest,
    ) -> None:
        self._coordinator = coordinator
        self._partition = partition
        self._target = target
        self.delayed = delayed
        self._append = append
        self._request = request
        self._stage_rest = stage_rest
        self._first_offset = -1
        if request is not None:
            request.hold()

    def scheduled(self, outcome: ScheduledBatch | HeadwaterError | Fault) -> None:
        """The schedule has the delayed records on disk, or does not take them."""
        # Not at once: this may be in the midst of a turn's writes.
        self._coordinator.call_in_turn(lambda: self._finish(outcome))

    def _finish(self, outcome: ScheduledBatch | HeadwaterError | Fault) -> None:
        try:
            if isinstance(outcome, ScheduledBatch):
                self._first_offset = outcome.first_offset
                self._stage()
            else:
                self._append.fail(_as_produce_refusal(outcome))
        finally:
            if self._request is not None:
                self._request.release()

    def _stage(self) -> None:
        rest = Append(self._appended)
        try:
            self._stage_rest(append=rest)
        except HeadwaterError as error:
            rest.fail(error)
        except Exception as error:
            rest.fail(Fault(error))

    def _appended(self, rest: Append) -> None:
        """The target has the rest, as far as the producer asked for, or does not take it."""
        append = self._append
        if rest.error is None:
            self._coordinator.confirm(self._target, self._first_offset)
            append.base_offset, append.next_offset = rest.base_offset, rest.next_offset
            append.log_append_time_ms, append.log_start_offset = rest.log_append_time_ms, rest.log_start_offset
            append.complete()
        elif rest.error.code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
            # Whether the target kept it is known at the next start, as for any batch.
            append.fail(rest.error)
        else:
            error = rest.error
            # The producer may take the refusal for a promise that nothing was kept.
            withdrawn = self._coordinator.withdraw(self._target, self._first_offset)
            withdrawn.then(lambda outcome: append.fail(error if outcome is True else _in_doubt(error)))


def _in_doubt(error: HeadwaterError | Fault) -> HeadwaterError:
    """The delayed records will be delivered, although the target did not take the rest."""
    return Refusal(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, str(error))


def _as_produce_refusal(refusal: HeadwaterError | Fault) -> HeadwaterError | Fault:
    if refusal.code in _RETRIABLE:
        return Refusal(ErrorCode.NOT_ENOUGH_REPLICAS, str(refusal))
    return refusal
